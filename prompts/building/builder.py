"""
Prompt builders: what a model is told, per kind of request.

`PromptBuilder` belongs to one run. It is pure: the same run gives the same messages, which is what lets a replay
compare prompts. Whatever does not change during a run is made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from ...states.records.actions import SET_BY_CODE, DocumentRef, Selection
from ...states.records.observations import Message
from ...states.records.requests import RequestKind
from ...states.run.completion import output_asked
from ...states.run.reasons import LIMIT_REASONS, REASONS
from ...states.run.spec import Spec, ToolSpec
from ...states.run.state import Run
from ..model import PromptMessage
from .conversation import NO_CALLS, UNUSABLE, earlier_turns, exchanges, steps_taken, wire_names
from .fencing import fence, fence_draft, inert
from .history import arguments_text, history_text, message_text, newest_lines, result_text
from .parameter_lines import parameter_lines
from .templates import Template, parse_template

RULES = (
    "Pick exactly one action per step; then specify only its parameters.",
    "Derive parameters from objective and criteria; use the user's language; add recency only if freshness is implied.",
    "Request machine-readable formats only when explicitly required; otherwise narrative text or Markdown.",
    "Keep parameters minimal; no connector-specific knobs; chain outputs so the next step can consume them.",
    "Stop when the criteria are met; otherwise iterate with a new single action.",
)
"""The five business rules of document 000; custom rules may have up to seven lines."""

_EVERY = "RULES CATALOG DENIED OBJECTIVE LANGUAGE CONTEXT FINAL_FORMAT CONNECTIONS_INDEX FEEDBACK"
_SHARED = f"{_EVERY} REPLY"
_COMMON = "CRITERIA DOCUMENTS_INDEX IMPROVEMENTS"
_TASK = f"{_SHARED} {_COMMON} WORKFLOW_HISTORY"
_CALL = f"{_SHARED} ACTION_OBJECTIVE SELECTED_ACTION PARAMETERS_CONTEXT PARAMETERS_SCHEMA"
PLACEHOLDERS: dict[str, frozenset[str]] = {
    name: frozenset(keys.split())
    for name, keys in {
        "selection": f"{_TASK} HINT",
        "parameters": _CALL,
        "parameters_full": f"{_CALL} CRITERIA INPUT_DOCUMENTS WORKFLOW_HISTORY",
        "refinement": f"{_SHARED} CRITERIA WORKFLOW_HISTORY EARLIER_STEPS LAST_ACTION OBSERVATION STEPS",
        "review": f"{_SHARED} CRITERIA STOP_REASON DRAFT_ANSWER OBSERVATION WORKFLOW_HISTORY OUTPUT_SCHEMA",
        "output": f"{_SHARED} CRITERIA DRAFT_ANSWER OBSERVATION WORKFLOW_HISTORY OUTPUT_SCHEMA",
        "answer": _TASK,
        "plan": f"{_SHARED} {_COMMON} CATALOG_FULL TRANSCRIPT RESULTS",
        "task_plan": _TASK,
        "turn": f"{_EVERY} {_COMMON} WORKFLOW_HISTORY OWN_RULES",
        "text": "REQUEST INSTRUCTIONS LANGUAGE FORMAT DOCUMENTS",
        "phase": f"{_TASK} HINT DRAFT_ANSWER OBSERVATION CALL VISITS VALUES STEPS",
    }.items()
}
"""What can stand in each template: nothing else is ever given to it."""

FINAL_FORMAT = "When the run stops, code formats its result as {}; no action is needed for that."
_RECENT_LABELS = 10
_ASKED_CHARS = 500
"""Of the user's own words beside the purpose of one action."""

_DENIED_MAX = 20


@dataclass(frozen=True, slots=True)
class TextTask:
    """One free-text request of a tool: what to write, from which documents (name and text)."""

    request: str
    documents: Sequence[tuple[str, str]]
    instructions: str = ""
    format: str = ""


@dataclass(frozen=True, slots=True)
class PlanInput:
    """
    What a workflow gives to its planner instead of what the spec says.

    Attributes:
        template: Text of the planning template; empty: the run's own.
        values: Of placeholders that are not what they are in other prompts.
    """

    template: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


class PromptBuilder:
    """
    Build the messages of every request kind for one run.

    Args:
        spec: What the run was started with; its templates are used.
        catalog: One line per offered tool.
        at_first: Those lines that are of use while the run has no document, given or made; the same without others.
        tools: Those that are offered.
        denied: Names of tools that the policy denies.
    """

    def __init__(
        self,
        spec: Spec,
        catalog: Sequence[str],
        at_first: Sequence[str] | None = None,
        tools: Sequence[ToolSpec] = (),
        denied: Sequence[str] = (),
    ) -> None:
        self._spec = spec
        self._templates: dict[tuple[str, bool, str], tuple[Template, str | None]] = {}
        static = {
            "RULES": "\n".join(f"- {rule}" for rule in spec.rules or RULES),
            "CATALOG_FULL": "\n".join(map(tool_text, tools)) if spec.mode != "react" else "",
            "DENIED": ", ".join(denied[:_DENIED_MAX]),
            "OWN_RULES": "\n".join(f"- {rule}" for rule in spec.rules),
            "OBJECTIVE": inert(spec.objective),
            **({"LANGUAGE": spec.language} if spec.language else {}),
            "CONTEXT": inert(spec.context),
            "FINAL_FORMAT": FINAL_FORMAT.format(spec.final_format) if spec.final_format else "",
            "CONNECTIONS_INDEX": "\n".join(f"- {label}" for label in spec.connections),
        }
        lines = {True: catalog, False: catalog if at_first is None else at_first}
        self._static = {
            read: static | {"CATALOG": "\n".join(f"- {line}" for line in lines[read])}
            for read in (True, False)
        }
        self._inputs = documents_index(spec.documents)
        schema = spec.output_schema
        self._output_schema = inert(orjson.dumps(schema).decode()) if schema is not None else ""
        self._names = wire_names(tool.name for tool in spec.tools)
        self._progress: dict[str, str] = {}
        self._messages: dict[int, tuple[Message, str, str]] = {}
        self._dynamic = {
            "selection": self._selection,
            "parameters": self._parameters,
            "refinement": self._refinement,
            "review": self._review,
            "plan": self._plan,
            "task_plan": self._task_plan,
            "answer": self._task_plan,
            "turn": self._turn,
            "phase": self._phase,
        }

    def build(self, kind: RequestKind, run: Run, reply: str = "") -> tuple[PromptMessage, ...]:
        """
        Return the messages of a *kind* request for *run*, which must belong to this builder's spec.

        Args:
            kind: What is asked.
            run: The run.
            reply: The form of the reply in words (`prompts.parsing.reply_forms`).
        """
        name: str = kind
        if kind == "parameters" and _selection_of(run).is_bare:
            name = "parameters_full"
        if kind == "review" and output_asked(run):
            name = "output"
        if kind == "phase":
            name = run.state
        static = self._static[run.counters.documents > 0]
        values = static | self._dynamic[kind](run) | {"REPLY": reply}
        if run.memory.feedback:
            values["FEEDBACK"] = inert(run.memory.feedback)
        if not self._spec.language and run.memory.plan is not None:
            values["LANGUAGE"] = run.memory.plan.language
        return self._render(name, values, static)

    def turn(self, run: Run, *, may_call: bool, labels: bool) -> tuple[PromptMessage, ...]:
        """
        Return the conversation of a `turn` request.

        Args:
            run: As for `build`.
            may_call: Whether a tool may be called; else the model is told to answer.
            labels: Whether results name the documents that they left.
        """
        *head, task = self.build("turn", run)
        chars_max = self._spec.limits.history_chars
        said = earlier_turns(self._spec.transcript, chars_max)
        calls = exchanges(run.memory.history, self._names, chars_max, labels=labels)
        last = [] if may_call else [PromptMessage("user", NO_CALLS)]
        return (*head, *said, task, *calls, *_unusable(run), *last)

    def refinement(self, run: Run, reply: str = "") -> tuple[PromptMessage, ...]:
        """
        Return the conversation of a `refinement` request: every action with what it has brought, as `steps_taken` tells it.

        A template that has the placeholder ``OBSERVATION`` tells all that itself, and nothing follows it.
        """
        messages = self.build("refinement", run, reply)
        if "OBSERVATION" in parse_template(self._spec.templates["refinement"], "refinement").keys:
            return messages
        memory = run.memory
        observation = memory.observation.wire_json() if memory.observation is not None else ""
        steps = steps_taken(memory.history, observation, self._spec.limits.history_chars)
        return (*messages, *steps, *_unusable(run))

    def plan(self, run: Run, given: PlanInput, reply: str = "") -> tuple[PromptMessage, ...]:
        """Return the messages of a `plan` request as a workflow gives it."""
        template = parse_template(given.template or self._spec.templates["plan"], "plan")
        values = (
            self._plan(run)
            | self._static[True]
            | {"FEEDBACK": inert(run.memory.feedback or ""), "REPLY": reply}
            | dict(given.values)
        )
        return _messages(template, values)

    def text(self, task: TextTask) -> tuple[PromptMessage, ...]:
        """Return the messages of a free-text request; the documents' texts are fenced as data."""
        return _messages(
            parse_template(self._spec.templates["text"], "text"),
            {
                "REQUEST": inert(task.request),
                "INSTRUCTIONS": inert(task.instructions),
                "LANGUAGE": self._spec.language,
                "FORMAT": task.format,
                "DOCUMENTS": "\n\n".join(fence(name, text) for name, text in task.documents),
            },
        )

    def _render(
        self, name: str, values: Mapping[str, str], static: Mapping[str, str]
    ) -> tuple[PromptMessage, ...]:
        """Return the messages of the template *name*; a system text of *static* values and the reply's form is made once."""
        key = name, static is self._static[True], values["REPLY"]
        if key not in self._templates:
            template = parse_template(self._spec.templates[name], name)
            given = {key for block in template.system for key in block[1::2]}
            constant = static.keys() | {"REPLY"} >= given
            self._templates[key] = template, template.system_text(values) if constant else None
        template, system = self._templates[key]
        return _messages(template, values, system)

    def _selection(self, run: Run) -> dict[str, str]:
        return self._task_plan(run) | {"HINT": inert(run.memory.hint or "")}

    def _parameters(self, run: Run) -> dict[str, str]:
        """The four sections and nothing else; after a bare choice, which says nothing of its purpose, the fuller set."""
        selection = _selection_of(run)
        tool = next((tool for tool in self._spec.tools if tool.name == selection.tool), None)
        hints = {field.name: field.description for field in selection.fields or ()}
        schema = tool.parameters if tool is not None else {}
        values = {
            "ACTION_OBJECTIVE": self._purpose(selection),
            "SELECTED_ACTION": selection.tool,
            "PARAMETERS_CONTEXT": inert(selection.context) + _results_read(run, selection, schema),
            "PARAMETERS_SCHEMA": parameter_lines(schema, without=SET_BY_CODE, hints=hints),
        }
        if not selection.is_bare:
            return values
        return values | {
            "CRITERIA": self._criteria(run),
            "INPUT_DOCUMENTS": "\n".join(f"- {reference}" for reference in selection.documents),
            "WORKFLOW_HISTORY": self._history(run),
        }

    def _purpose(self, selection: Selection) -> str:
        """Return what an action is for, with the user's own words: whoever fills parameters copies from these."""
        asked = " ".join(self._spec.objective.split())
        asked = asked if len(asked) <= _ASKED_CHARS else f"{asked[:_ASKED_CHARS]}…"
        if selection.is_bare or not selection.objective or selection.objective == asked:
            return inert(selection.objective)
        # the whole before the part: behind the action's own purpose, the user's words are what a small model copies
        return inert(f"The user asked: {asked}\n{selection.objective}")

    def _refinement(self, run: Run) -> dict[str, str]:
        memory = run.memory
        last = memory.history[-1] if memory.history else None
        return {
            "CRITERIA": self._criteria(run),
            "WORKFLOW_HISTORY": self._earlier_rounds(),
            "EARLIER_STEPS": self._history(run, run.memory.history[:-1]),
            "LAST_ACTION": _action_text(last) if last is not None else "",
            "OBSERVATION": memory.observation.wire_json() if memory.observation is not None else "",
            "STEPS": f"{run.counters.step} of at most {self._spec.limits.max_steps}",
        }

    def _review(self, run: Run) -> dict[str, str]:
        memory = run.memory
        draft = memory.answer or (memory.refinement.answer if memory.refinement is not None else None)
        return {
            "CRITERIA": self._criteria(run),
            "OUTPUT_SCHEMA": self._output_schema,
            "STOP_REASON": REASONS[run.counters.stop] if run.counters.stop in LIMIT_REASONS else "",
            "DRAFT_ANSWER": fence_draft(draft or ""),
            "OBSERVATION": memory.observation.wire_json() if memory.observation is not None else "",
            "WORKFLOW_HISTORY": self._history(run),
        }

    def _plan(self, run: Run) -> dict[str, str]:
        """What a planner sees: query, context, tools, results and transcript."""
        chars_max = self._spec.limits.history_chars
        said = [(turn.role, turn.content) for turn in self._spec.transcript]
        said += [(turn.role, turn.content) for turn in run.memory.turns]
        results = [result_text(message) for message in run.memory.history if not message.origin]
        return self._common(run) | {
            "TRANSCRIPT": newest_lines([f"{role}: {_line(text)}" for role, text in said], chars_max),
            "RESULTS": newest_lines(results, 4 * chars_max),
        }

    def _task_plan(self, run: Run) -> dict[str, str]:
        return self._common(run) | {"WORKFLOW_HISTORY": self._history(run)}

    def _phase(self, run: Run) -> dict[str, str]:
        """What the template of a host's own phase may name: all of it is data, and fenced where it is foreign."""
        memory, intent = run.memory, run.memory.intent
        draft = (memory.review.answer if memory.review is not None else None) or memory.answer
        call = {"tool": intent.tool, "arguments": intent.arguments} if intent is not None else None
        visits = {
            name: {"ok": visit.ok, "value": visit.value} for name, visit in sorted(memory.visits.items())
        }
        return self._selection(run) | {
            "DRAFT_ANSWER": fence_draft(draft or ""),
            "OBSERVATION": memory.observation.wire_json() if memory.observation is not None else "",
            "CALL": _data(call),
            "VISITS": _data(visits),
            "VALUES": _data(self._spec.values),
            "STEPS": f"{run.counters.step} of at most {self._spec.limits.max_steps}",
        }

    def _turn(self, run: Run) -> dict[str, str]:
        """What stands before the conversation; documents that the run has made are named where they were made."""
        given = {"DOCUMENTS_INDEX": self._inputs, "WORKFLOW_HISTORY": self._earlier_rounds()}
        return self._common(run) | given

    def _common(self, run: Run) -> dict[str, str]:
        improvements = "\n".join(f"- {inert(text)}" for text in run.memory.improvements or ())
        criteria, documents = self._criteria(run), self._documents(run)
        return {"CRITERIA": criteria, "DOCUMENTS_INDEX": documents, "IMPROVEMENTS": improvements}

    def _criteria(self, run: Run) -> str:
        progress = run.counters.criteria
        if progress not in self._progress:
            self._progress[progress] = "\n".join(
                f"- [{'met' if met == '1' else 'open'}] {inert(text)}"
                for text, met in zip(self._spec.success_criteria, progress, strict=True)
            )
        return self._progress[progress]

    def _documents(self, run: Run) -> str:
        """Input documents, then the newest labels; names and sizes only."""
        lines = [self._inputs] if self._inputs else []
        newest = run.memory.history[: -_RECENT_LABELS - 1 : -1]
        lines += [line for _, _, line in self._render_messages(newest) if line]
        return "\n".join(lines)

    def _history(self, run: Run, own: tuple[Message, ...] | None = None) -> str:
        """Return the earlier rounds' actions and the run's *own*, all of them by default, newest first."""
        messages = (*self._spec.history, *(run.memory.history if own is None else own))
        texts = [text for _, text, _ in self._render_messages(reversed(messages))]
        if own is None and run.memory.refinement is not None and run.memory.refinement.learnings:
            learnt = "; ".join(_line(text) for text in run.memory.refinement.learnings)
            texts.insert(0, f"- Learnt from these: {learnt}")
        return history_text(texts, self._spec.limits.history_chars)

    def _earlier_rounds(self) -> str:
        """Return what earlier rounds of a workflow did, newest first."""
        before = (text for _, text, _ in self._render_messages(reversed(self._spec.history)))
        return history_text(before, self._spec.limits.history_chars)

    def _render_messages(self, messages: Iterable[Message]) -> Iterator[tuple[Message, str, str]]:
        """Yield each message with its text and its line in the index of documents (or none), rendered once."""
        known = self._messages
        for message in messages:
            place = id(message)  # pure: the message is kept beside what it was rendered to
            if place not in known:
                if len(known) > 200:
                    known.clear()
                known[place] = (message, message_text(message), _index_line(message))
            yield known[place]


def _results_read(run: Run, selection: Selection, schema: Mapping[str, Any]) -> str:
    """
    Return what the results that Stage 1 refers to say, a line each, where the tool does not get them as documents.

    Small models refer to a result and leave out the value that the parameter needs.
    """
    if "documentlist" in (name.lower() for name in schema.get("properties", ())):
        return ""
    labels = {reference.partition(":")[2].partition("#")[0] for reference in selection.documents}
    read = (message for message in run.memory.history if message.label in labels and message.success)
    return "".join(f"\n{message.tool} brought {inert(' '.join(message.summary.split()))}" for message in read)


def _unusable(run: Run) -> tuple[PromptMessage, ...]:
    """Return what a conversation ends with where the last reply could not be used."""
    feedback = run.memory.feedback
    return (PromptMessage("user", UNUSABLE.format(inert(feedback))),) if feedback else ()


def _messages(
    template: Template, values: Mapping[str, str], system: str | None = None
) -> tuple[PromptMessage, ...]:
    """Return a template filled with *values*; *system* is its system text where that is known already."""
    system, user = system or template.system_text(values), PromptMessage("user", template.user_text(values))
    return (PromptMessage("system", system), user) if system else (user,)


def _index_line(message: Message) -> str:
    """Return the line of an action's documents in the index, empty when it has none."""
    if not message.documents_count:
        return ""
    return f"- docList:{message.label} ({message.documents_count} from {message.tool})"


def _selection_of(run: Run) -> Selection:
    selection = run.memory.selection
    assert selection is not None, "Specifying is entered with a selection"
    return selection


def documents_index(documents: Sequence[DocumentRef]) -> str:
    """Return the index lines of *documents*, grouped by label: references, names, types and sizes."""
    lines: list[str] = []
    label = ""
    for document in documents:
        if document.label != label:
            label = document.label
            count = sum(other.label == label for other in documents)
            lines.append(f"- docList:{label} ({count})")
        lines.append(
            f"  - {document.reference} {document.name} ({document.mime}, {document.payload.bytes} bytes)"
        )
    return "\n".join(lines)


def tool_text(tool: ToolSpec) -> str:
    """Return one line for a tool as a planner needs it: name, description, JSON Schema of its arguments."""
    schema = orjson.dumps(tool.parameters, option=orjson.OPT_NON_STR_KEYS).decode()
    return _line(f"- {tool.name}: {tool.description}") + f" Arguments: {schema}"


def _action_text(message: Message) -> str:
    """Return an action as it is judged: what it was for, and with which arguments."""
    arguments = arguments_text(message)
    told = f"{message.tool}: {inert(message.objective)}"
    return f"{told}\nArguments: {arguments}" if arguments else told


def _data(value: Any) -> str:
    """Return JSON data as one line of a prompt, nothing for nothing."""
    return inert(orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()) if value else ""


def _line(text: str) -> str:
    """Return *text* as one line, so that no description opens a section of its own."""
    return " ".join(text.split()).rstrip(": ")
