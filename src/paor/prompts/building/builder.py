"""
Prompt builders: what a model is told, per kind of request.

`PromptBuilder` belongs to one run. It is pure: the same run gives the same messages, which is what lets a replay
compare prompts. Whatever does not change during a run is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import Any, NamedTuple

import orjson

from ...states.base.pictures import PICTURE_ROOM, is_picture
from ...states.base.wire import json_text
from ...states.records.actions import SET_BY_CODE, DocumentRef, Selection, StoredText
from ...states.records.conversation import Item, cut_of, own_begin, size_of, with_cut
from ...states.records.observations import Message
from ...states.records.requests import RequestKind
from ...states.run.budgets import BYTES_PER_TOKEN
from ...states.run.completion import failed_calls, last_call_failed, output_asked
from ...states.run.reasons import LIMIT_REASONS, REASONS
from ...states.run.spec import Spec, ToolSpec
from ...states.run.state import Run
from ..model import Picture, PromptMessage
from .conversation import (
    SUMMARY_ASKED,
    UNUSABLE,
    SpokenItems,
    StepText,
    Texts,
    ToldBefore,
    earlier_turns,
    noting,
    round_texts,
    said_before,
    step_text,
    steps_taken,
)
from .fencing import FENCE_BYTES, fence, fence_draft, inert
from .history import arguments_text, first_bytes, history_text, message_text, newest_lines, result_text
from .parameter_lines import field_lines, parameter_lines
from .templates import Template, parse_template

RULES = (
    "Pick exactly one action per step; then specify only its parameters.",
    "Derive parameters from objective and criteria; use the user's language; add recency only if freshness is implied.",
    "Request machine-readable formats only when explicitly required; otherwise narrative text or Markdown.",
    "Keep parameters minimal; no connector-specific knobs; chain outputs so the next step can consume them.",
    "Stop when the criteria are met; otherwise iterate with a new single action.",
)
"""The five business rules of document 000; custom rules may have up to seven lines."""

_RULED = ("document.", "ai.", "web.")
"""Beginnings of the names of the tools that the rules are about: those for documents and the web."""

_EVERY = "RULES CATALOG DENIED OBJECTIVE LANGUAGE CONTEXT FINAL_FORMAT CONNECTIONS_INDEX"
_HEAD = f"{_EVERY} CRITERIA DOCUMENTS_INDEX WORKFLOW_HISTORY"
_SHARED = f"{_EVERY} FEEDBACK REPLY"
_COMMON = "CRITERIA DOCUMENTS_INDEX IMPROVEMENTS"
_TASK = f"{_SHARED} {_COMMON} WORKFLOW_HISTORY"
_CALL = f"{_SHARED} ACTION_OBJECTIVE SELECTED_ACTION PARAMETERS_CONTEXT PARAMETERS_SCHEMA"
PLACEHOLDERS: dict[str, frozenset[str]] = {
    name: frozenset(keys.split())
    for name, keys in {
        "opening": _HEAD,
        "selection": f"{_TASK} HINT LEARNT",
        "parameters": _CALL,
        "parameters_full": f"{_CALL} CRITERIA INPUT_DOCUMENTS WORKFLOW_HISTORY",
        "refinement": f"{_SHARED} CRITERIA WORKFLOW_HISTORY EARLIER_STEPS LAST_ACTION OBSERVATION STEPS",
        "review": f"{_SHARED} CRITERIA STOP_REASON DRAFT_ANSWER OBSERVATION WORKFLOW_HISTORY OUTPUT_SCHEMA",
        "output": f"{_SHARED} CRITERIA DRAFT_ANSWER OBSERVATION WORKFLOW_HISTORY OUTPUT_SCHEMA",
        "answer": _TASK,
        "plan": f"{_SHARED} {_COMMON} CATALOG_FULL TRANSCRIPT RESULTS",
        "task_plan": _TASK,
        "turn": f"{_HEAD} OWN_RULES",
        "text": "REQUEST INSTRUCTIONS LANGUAGE FORMAT DOCUMENTS",
        "phase": f"{_TASK} HINT DRAFT_ANSWER OBSERVATION CALL VISITS VALUES STEPS",
    }.items()
}
"""What can stand in each template: nothing else is ever given to it."""

_TOLD: dict[str, frozenset[str]] = {
    "review": frozenset({"OBSERVATION", "WORKFLOW_HISTORY", "DRAFT_ANSWER"}),
    "phase": frozenset({"OBSERVATION", "WORKFLOW_HISTORY"}),
}
"""Placeholders that are empty behind a conversation, which has told what would stand in them."""

REPORTED = frozenset({"OBJECTIVE", "CATALOG", "OBSERVATION", "WORKFLOW_HISTORY", "EARLIER_STEPS"})
"""Placeholders of a template that tells a run itself, such as a host's own: no conversation stands before it."""

_REMARKS = frozenset({"HINT", "LEARNT", "IMPROVEMENTS", "FEEDBACK"})

_BEHIND = frozenset({"selection", "refinement", "answer", "review"})
"""Kinds of request of the two stages that are asked behind the conversation."""

FINAL_FORMAT = "When the run stops, code formats its result as {}; no action is needed for that."
_NONE: Mapping[str, str] = {}
Messages = tuple[PromptMessage, ...]
_NOTHING: tuple[None, Messages] = (None, ())
_NO_NAMES: frozenset[str] = frozenset()
_BUILT_KEPT = 32
_RECENT_LABELS = 10
_ASKED_CHARS = 500
"""Of the user's own words beside the purpose of one action."""

_DENIED_MAX = 20
_LINES_KEPT = 100


@dataclass(frozen=True, slots=True)
class TextTask:
    """One free-text request of a tool: what to write, from which documents (name and text, or a picture's bytes)."""

    request: str
    documents: Sequence[tuple[str, str | bytes]]
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


class _Action(NamedTuple):
    """
    An action as prompts tell it.

    Attributes:
        message: What it was rendered from.
        text: In a history.
        documents: Its line in the index of documents, empty when it has none.
        step: In a conversation.
    """

    message: Message
    text: str
    documents: str
    step: StepText


class PromptBuilder:
    """
    Build the messages of every request kind for one run.

    Args:
        spec: What the run was started with; its templates are used.
        catalog: One line per offered tool.
        at_first: Those lines that are of use while the run has no document, given or made; the same without others.
        tools: Those that are offered.
        denied: Names of tools that the policy denies.
        plan_reply: The form of a plan in words, with which a planner's conversation begins.
    """

    def __init__(
        self,
        spec: Spec,
        catalog: Sequence[str],
        at_first: Sequence[str] | None = None,
        tools: Sequence[ToolSpec] = (),
        denied: Sequence[str] = (),
        plan_reply: str = "",
    ) -> None:
        self._spec = spec
        self._bytes_max = None if spec.revision == 1 else _quarter(spec)
        self._templates: dict[tuple[str, bool, str], tuple[Template, str | None]] = {}
        static = {
            "RULES": "\n".join(f"- {rule}" for rule in spec.rules or shipped_rules(spec)),
            "CATALOG_FULL": "\n".join(map(tool_text, tools)) if spec.mode != "react" else "",
            "DENIED": ", ".join(denied[:_DENIED_MAX]),
            "OWN_RULES": "\n".join(f"- {rule}" for rule in spec.rules),
            "OBJECTIVE": inert(spec.objective),
            # a workflow's planner detects the language where nobody asked for one
            **({"LANGUAGE": spec.language} if spec.language or spec.task else {}),
            "CONTEXT": inert(spec.context),
            "FINAL_FORMAT": FINAL_FORMAT.format(spec.final_format) if spec.final_format else "",
            "CONNECTIONS_INDEX": "\n".join(f"- {label}" for label in spec.connections),
        }
        lines = {True: catalog, False: catalog if at_first is None else at_first}
        self._static = {
            read: static | {"CATALOG": "\n".join(f"- {line}" for line in lines[read])}
            for read in (True, False)
        }
        self._instructions = "\n\n".join(filter(None, (spec.instructions, spec.own_instructions)))
        self._inputs = documents_index(spec.documents)
        sizes = [
            readable_size(spec, document.mime, document.payload.bytes, is_text=document.text)
            for document in spec.documents
        ]
        self._shown = shown_whole(spec, sizes)
        self._opening: tuple[tuple[PromptMessage, ...], int] | None = None
        self._items, self._fewer = (SpokenItems(), SpokenItems()), (SpokenItems(), SpokenItems())
        self._plan_reply = plan_reply
        self._said: tuple[ToldBefore, ...] = ()
        self._rounds: tuple[str, ...] = ()
        self._earlier_rounds = self._rounds_told()
        self._knows = not (spec.earlier or spec.transcript)
        schema = spec.output_schema
        self._output_schema = inert(orjson.dumps(schema).decode()) if schema is not None else ""
        self._progress: dict[str, str] = {}
        self._actions: dict[int, _Action] = {}
        self._lines: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        self._dynamic = self._values_by_kind()
        self._plans = spec.plans
        self._behind = frozenset(("summary", *filter(self._is_question, sorted(_BEHIND | {"output"}))))
        self._wanted: dict[tuple[str, frozenset[str]], list[tuple[str, Callable[[Run], str]]]] = {}
        self._built: dict[object, tuple[dict[str, str] | None, Messages]] = {}
        self._asked: dict[RequestKind, tuple[Messages, Messages, int]] = {}

    def tell(self, texts: Texts) -> None:
        """Read what was said before the run, of which its prompts tell; again for each of them where a text of it was erased."""
        if self._knows:
            return
        if self._spec.native and self._spec.converses:  # as messages of their own
            self._knows = True
            return
        erased: list[StoredText] = []
        read = noting(texts, erased)
        # newest first, and only as far as any prompt has room
        room = self._spec.limits.history_chars
        if self._bytes_max is not None:
            room = self._bytes_max if self._spec.plans else min(room, self._bytes_max)
        newest: list[list[ToldBefore]] = []
        for item in reversed(self._spec.earlier):
            newest.append(list(said_before((item,), read)))
            if room < 0:
                break
            room -= sum(len(_line(said.text)) for said in newest[-1])
        else:
            newest.append([ToldBefore("", turn.role, turn.content) for turn in self._spec.transcript])
        self._said = tuple(chain.from_iterable(reversed(newest)))
        self._rounds = tuple(round_texts(self._said))
        self._earlier_rounds = self._rounds_told()
        self._knows = not erased

    def _rounds_told(self) -> str:
        """Return what was said and done before the run, newest first."""
        told = chain(self._rounds, map(message_text, reversed(self._spec.history)))
        return history_text(told, self._spec.limits.history_chars, self._bytes_max)

    def build(
        self,
        kind: RequestKind,
        run: Run,
        reply: str = "",
        *,
        behind: bool = False,
        without: frozenset[str] = frozenset(),
    ) -> tuple[PromptMessage, ...]:
        """
        Return the messages of a *kind* request for *run*, which must belong to this builder's spec.

        Args:
            kind: What is asked.
            run: The run.
            reply: The form of the reply in words (`prompts.parsing.reply_forms`).
            behind: Whether this is asked behind a conversation, whose head has the host's instructions.
            without: Placeholders that are left empty.
        """
        name: str = kind
        if kind == "parameters" and _selection_of(run).is_bare:
            name = "parameters_full"
        if kind == "review" and output_asked(run):
            name = "output"
        place = (run.state if kind == "phase" else name), run.counters.documents > 0, reply, behind, without
        template, system = self._template(*place[:3])
        told = self._values(name, run, template)
        if run.memory.feedback:
            told["FEEDBACK"] = self._bounded("FEEDBACK", inert(run.memory.feedback))
        if not (self._spec.language or self._spec.task) and run.memory.plan is not None:
            told["LANGUAGE"] = run.memory.plan.language
        before, messages = self._built.get(place, _NOTHING)
        if before == told:  # as most questions behind a conversation are
            return messages
        values = self._static[place[1]] | told | {"REPLY": reply} | {key: "" for key in sorted(without)}
        if behind and self._instructions:
            system = template.system_text(values)
        messages = self._messages(template, values, system)
        if len(self._built) >= _BUILT_KEPT:
            self._built.clear()
        self._built[place] = told, messages
        return messages

    def conversation(
        self, kind: RequestKind, run: Run, texts: Texts, model: str, reply: str = "", *, space: int
    ) -> tuple[PromptMessage, ...]:
        """
        Return the messages of a request of a run that holds a conversation: head, items and, of a judge's request, what it asks.

        Args:
            kind, run, reply: As for `build`.
            texts: Where stored texts are read.
            model: Name of the model that is asked.
            space: Bytes that there are for them: where items are too many for a question behind them, or for a model whose context is
                smaller than that of the one before, fewer are told.
        """
        if not self.is_behind(kind, run):
            return self.build(kind, run, reply)
        opening, opening_size = self._opened(texts)
        items = run.memory.conversation
        *head, task = opening
        before, own, size = _around(self._items, items, texts, model)
        last, last_size = ((), 0) if kind in ("turn", "plan") else self.question(kind, run, reply)
        room = space - opening_size - last_size
        if size > room:  # items may be told in fewer bytes than their sizes say
            cut = cut_of(items, max(0, min(room, size_of(items) - size + room)))
            before, own, _ = _around(self._fewer, with_cut(items, cut), texts, model)
        return (*head, *before, task, *own, *last)

    def is_behind(self, kind: RequestKind, run: Run) -> bool:
        """Return whether a *kind* request stands behind the run's conversation, and is no report of its own."""
        name = "output" if kind == "review" and output_asked(run) else kind
        return self._plans or name in self._behind

    def _is_question(self, name: str) -> bool:
        """Return whether a template says only what is asked."""
        text = self._spec.templates.get(name)
        return text is not None and not parse_template(text, name).keys & REPORTED

    def question(self, kind: RequestKind, run: Run, reply: str = "") -> tuple[Messages, int]:
        """Return what a *kind* request asks behind the conversation, and its bytes: its template, without what the conversation tells already."""
        if kind == "summary":
            parts: Messages = (PromptMessage("user", SUMMARY_ASKED),)
        else:  # the two stages' templates name nothing that is told
            told = _TOLD[kind] if self._plans else _NO_NAMES
            parts = self.build(kind, run, reply, behind=True, without=told)
        known = self._asked.get(kind)
        if known is None or known[0] is not parts:
            asked = PromptMessage("user", "\n\n".join(message.text for message in parts))
            known = self._asked[kind] = parts, (asked,), asked.size
        return known[1:]

    def _opened(self, texts: Texts) -> tuple[Messages, int]:
        """Return the head of the conversation and its bytes, made once unless a text in it was erased: a replay has to see that each time."""
        if self._opening is not None:
            return self._opening
        erased: list[StoredText] = []
        messages = self._open(noting(texts, erased))
        opened = messages, sum(message.size for message in messages)
        if not erased:
            self._opening = opened
        return opened

    @property
    def opening_size(self) -> int:
        """Bytes of the head of the conversation, the documents in it included."""
        shown = (document for document in self._spec.documents if document.text and self._is_shown(document))
        texts = sum(document.payload.bytes + len(document.name.encode()) + FENCE_BYTES for document in shown)
        told = 0
        if not self._spec.native:  # whatever was read of them by now
            told = min(
                _quarter(self._spec), sum(place.bytes for item in self._spec.earlier for place in item.places)
            )
        before, self._earlier_rounds = self._earlier_rounds, ""
        size = sum(message.size for message in self._open(lambda place: None))
        self._earlier_rounds = before
        return size + texts + told

    def _open(self, texts: Texts) -> tuple[PromptMessage, ...]:
        """Return the head of the conversation: the same in every request of the run."""
        spec, name = self._spec, "turn" if self._spec.native else "plan" if self._spec.plans else "opening"
        template = parse_template(spec.templates[name], name)
        values = self._static[True] | {
            "CRITERIA": "\n".join(f"- {inert(text)}" for text in spec.success_criteria),
            "DOCUMENTS_INDEX": self._documents_read(texts),
            "WORKFLOW_HISTORY": self._earlier_rounds,
            "REPLY": self._plan_reply,
        }
        room = _quarter(spec)
        if name == "opening":
            return self._messages(template, values)
        if name == "plan":
            values |= {"TRANSCRIPT": newest_lines(self._lines_said(), room, room)}
        shown = (one for one in spec.documents if not one.text and self._is_shown(one))
        *system, task = self._messages(
            template, values, pictures=tuple(Picture(one.payload) for one in shown)
        )
        if name == "plan":
            return (*system, task)
        return (*system, *earlier_turns(spec.transcript, room), task)

    def _documents_read(self, texts: Texts) -> str:
        """Return the index of the input documents, those whole that are small texts, each under its line."""
        shown = {}
        for document in self._spec.documents:
            is_shown = self._is_shown(document)
            text = texts(document.payload) if is_shown and document.text else None
            if text is not None:
                shown[document.reference] = fence(document.name, text)
            elif document.is_picture and not is_shown and self._spec.pictures is not None:
                shown[document.reference] = "    (a picture that you are not shown)"
        return documents_index(self._spec.documents, shown)

    def _is_shown(self, document: DocumentRef) -> bool:
        own = not self._spec.follows or document.label.startswith(f"round{self._spec.round}_")
        return own and document.number in self._shown

    def refinement(self, run: Run, reply: str = "") -> tuple[PromptMessage, ...]:
        """
        Return the conversation of a `refinement` request: every action with what it has brought, as `steps_taken` tells it.

        A template that has the placeholder ``OBSERVATION`` tells all that itself, and nothing follows it.
        """
        messages = self.build("refinement", run, reply)
        if "OBSERVATION" in parse_template(self._spec.templates["refinement"], "refinement").keys:
            return messages
        steps = (action.step for action in self._rendered(reversed(run.memory.history)))
        told = steps_taken(steps, _observation(run), self._spec.limits.history_chars, self._bytes_max)
        return (*messages, *told, *_unusable(run))

    def plan(self, run: Run, given: PlanInput, reply: str = "") -> tuple[PromptMessage, ...]:
        """Return the messages of a `plan` request as a workflow gives it."""
        template = parse_template(given.template or self._spec.templates["plan"], "plan")
        values = (
            self._values("plan", run, template)
            | self._static[True]
            | {"FEEDBACK": inert(run.memory.feedback or ""), "REPLY": reply}
            | dict(given.values)
        )
        return self._messages(template, values)

    def text(self, task: TextTask) -> tuple[PromptMessage, ...]:
        """Return the messages of a free-text request; the documents' texts are fenced as data, and pictures told by their digests."""
        return self._messages(
            parse_template(self._spec.templates["text"], "text"),
            {
                "REQUEST": inert(task.request),
                "INSTRUCTIONS": inert(task.instructions),
                "LANGUAGE": self._spec.language,
                "FORMAT": task.format,
                "DOCUMENTS": "\n\n".join(
                    fence(name, data) if isinstance(data, str) else _told_picture(name, data)
                    for name, data in task.documents
                ),
            },
            pictures=tuple(Picture(data=data) for _, data in task.documents if isinstance(data, bytes)),
        )

    def _template(self, name: str, read: bool, reply: str) -> tuple[Template, str | None]:
        """Return the template *name*, and its system text if that is made of static values and the reply's form alone."""
        key = name, read, reply
        if key not in self._templates:
            template, static = parse_template(self._spec.templates[name], name), self._static[read]
            given = {key for block in template.system for key in block[1::2]}
            constant = static.keys() | {"REPLY"} >= given
            values = {**static, "REPLY": reply}
            self._templates[key] = template, self._system_text(template, values) if constant else None
        return self._templates[key]

    def _system_text(self, template: Template, values: Mapping[str, str]) -> str:
        """Return the system text of a prompt: the template's, with the host's instructions before the rules."""
        return template.system_text(values, before_rules=self._instructions)

    def _messages(
        self,
        template: Template,
        values: Mapping[str, str],
        system: str | None = None,
        pictures: tuple[Picture, ...] = (),
    ) -> tuple[PromptMessage, ...]:
        """Return a template filled with *values*; *system* is its system text where that is known already."""
        system = self._system_text(template, values) if system is None else system
        user = PromptMessage("user", template.user_text(values), pictures=pictures)
        return (PromptMessage("system", system), user) if system else (user,)

    def _values(self, name: str, run: Run, template: Template) -> dict[str, str]:
        """Return the values of the placeholders that *template* has, but for those that a run never changes."""
        place = name, template.keys
        if (wanted := self._wanted.get(place)) is None:
            wanted = [(key, value) for key, value in self._dynamic[name].items() if key in template.keys]
            self._wanted[place] = wanted
        values = {}
        for key, value in wanted:
            text = value(run)
            values[key] = self._bounded(key, text) if text else text
        return values

    def _bounded(self, key: str, value: str) -> str:
        """Return what a placeholder stands for within its share of the model's context: a quarter, less for what a model only remarked."""
        if self._bytes_max is None:
            return value
        return first_bytes(value, self._bytes_max // 4 if key in _REMARKS else self._bytes_max)

    def _values_by_kind(self) -> dict[str, dict[str, Callable[[Run], str]]]:
        """Return by kind of request what its placeholders stand for, see `PLACEHOLDERS`."""
        common = {
            "CRITERIA": self._criteria,
            "DOCUMENTS_INDEX": self._documents,
            "IMPROVEMENTS": _improvements,
        }
        task = common | {"WORKFLOW_HISTORY": self._history}
        selection = task | {"HINT": lambda run: inert(run.memory.hint or ""), "LEARNT": _learnt}
        parameters = {
            "ACTION_OBJECTIVE": self._purpose,
            "SELECTED_ACTION": lambda run: _selection_of(run).tool,
            "PARAMETERS_CONTEXT": self._parameters_context,
            "PARAMETERS_SCHEMA": self._parameters_schema,
        }
        judged = {"CRITERIA": self._criteria, "OBSERVATION": _observation}
        review = judged | {
            "OUTPUT_SCHEMA": lambda run: self._output_schema,
            "STOP_REASON": _stop_reason,
            "DRAFT_ANSWER": _draft,
            "WORKFLOW_HISTORY": self._history,
        }
        return {
            "opening": {},
            "selection": selection,
            "parameters": parameters,
            "parameters_full": parameters
            | {
                "CRITERIA": self._criteria,
                "INPUT_DOCUMENTS": lambda run: "\n".join(
                    f"- {item}" for item in _selection_of(run).documents
                ),
                "WORKFLOW_HISTORY": self._history,
            },
            "refinement": judged
            | {
                "WORKFLOW_HISTORY": lambda run: self._earlier_rounds,
                "EARLIER_STEPS": self._earlier_steps,
                "LAST_ACTION": _last_action,
                "STEPS": self._steps_left,
            },
            "review": review,
            "output": review,
            "plan": common | {"TRANSCRIPT": self._transcript, "RESULTS": self._results},
            "task_plan": task,
            "answer": task,
            "phase": selection
            | {
                "DRAFT_ANSWER": _phase_draft,
                "OBSERVATION": _observation,
                "CALL": _call,
                "VISITS": _visits,
                "VALUES": lambda run: _data(self._spec.values),
                "STEPS": self._steps_left,
            },
        }

    def _parameters_context(self, run: Run) -> str:
        selection = _selection_of(run)
        if self._spec.to_the_letter:
            return inert(selection.context)
        return inert(selection.context) + _results_read(run, selection, self._parameters_of(selection))

    def _parameters_schema(self, run: Run) -> str:
        selection = _selection_of(run)
        if self._spec.to_the_letter:
            return inert(field_lines(selection.fields or ()))
        hints = tuple((field.name, field.description) for field in selection.fields or ())
        place = selection.tool, hints
        if place not in self._lines:
            if len(self._lines) >= _LINES_KEPT:
                self._lines.clear()
            schema = self._parameters_of(selection)
            self._lines[place] = parameter_lines(schema, without=SET_BY_CODE, hints=dict(hints))
        return self._lines[place]

    def _parameters_of(self, selection: Selection) -> Mapping[str, Any]:
        tool = next((tool for tool in self._spec.tools if tool.name == selection.tool), None)
        return tool.parameters if tool is not None else {}

    def _purpose(self, run: Run) -> str:
        """Return what an action is for, with the user's own words: whoever fills parameters copies from these."""
        selection = _selection_of(run)
        asked = " ".join(self._spec.objective.split())
        asked = asked if len(asked) <= _ASKED_CHARS else f"{asked[:_ASKED_CHARS]}…"
        alone = selection.is_bare or self._spec.to_the_letter
        if alone or not selection.objective or selection.objective == asked:
            return inert(selection.objective)
        # the whole before the part: behind the action's own purpose, the user's words are what a small model copies
        return inert(f"The user asked: {asked}\n{selection.objective}")

    def _steps_left(self, run: Run) -> str:
        return f"{run.counters.step} of at most {self._spec.limits.max_steps}"

    def _transcript(self, run: Run) -> str:
        """What was said before the run and, by a planner's dialogue, in it."""
        lines = [*self._lines_said(), *(f"{turn.role}: {_line(turn.content)}" for turn in run.memory.turns)]
        return newest_lines(lines, self._spec.limits.history_chars, self._bytes_max)

    def _lines_said(self) -> list[str]:
        """Return what was said before the run, a line each, oldest first."""
        return [f"{said.role}: {_line(said.text)}" for said in self._said]

    def _results(self, run: Run) -> str:
        """What a planner's calls have brought."""
        results = [result_text(message) for message in run.memory.history if not message.origin]
        return newest_lines(results, 4 * self._spec.limits.history_chars, self._bytes_max)

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
        lines += [action.documents for action in self._rendered(newest) if action.documents]
        return "\n".join(lines)

    def _history(self, run: Run) -> str:
        """Return the earlier rounds' actions and the run's own, newest first, after what was learnt from them."""
        learnt = _learnt(run)
        told = [f"- Learnt from these: {learnt}"] if learnt else []
        return self._history_text(run.memory.history, told)

    def _earlier_steps(self, run: Run) -> str:
        """Return the earlier rounds' actions and all of the run's own but the last, newest first."""
        return self._history_text(run.memory.history[:-1])

    def _history_text(self, own: tuple[Message, ...], told: Sequence[str] = ()) -> str:
        newest = (
            action.text for action in self._rendered(reversed(own))
        )  # only as many as there is room for
        before = (action.text for action in self._rendered(reversed(self._spec.history)))
        texts = chain(told, newest, self._rounds, before)
        return history_text(texts, self._spec.limits.history_chars, self._bytes_max)

    def _rendered(self, messages: Iterable[Message]) -> Iterator[_Action]:
        """Yield each action as prompts tell it, rendered once."""
        known = self._actions
        for message in messages:
            action = known.get(id(message))  # pure: the message is kept beside what it was rendered to
            if action is None:
                if len(known) > 200:
                    known.clear()
                whole = message.shown if self._spec.revision > 1 else ""
                action = known[id(message)] = _Action(
                    message, message_text(message, whole), _index_line(message), step_text(message, whole)
                )
            yield action


def _around(
    kept: tuple[SpokenItems, SpokenItems], items: tuple[Item, ...], texts: Texts, model: str
) -> tuple[tuple[PromptMessage, ...], tuple[PromptMessage, ...], int]:
    """Return a conversation as messages: those of before the run, those of the run, and the bytes of both."""
    own = own_begin(items)
    before, size = kept[0].told(items[:own], texts, model) if own else ((), 0)
    after, more = kept[1].told(items[own:], texts, model)
    return before, after, size + more


def shipped_rules(spec: Spec) -> tuple[str, ...]:
    """Return the rules of a selection prompt whose host has none of its own: the five where they say something, else none."""
    apply = (
        spec.revision == 1 or spec.profile.strict or any(tool.name.startswith(_RULED) for tool in spec.tools)
    )
    return RULES if apply else ()


def _results_read(run: Run, selection: Selection, schema: Mapping[str, Any]) -> str:
    """
    Return what the results that Stage 1 refers to say, a line each, where the tool does not get them as documents.

    Small models refer to a result and leave out the value that the parameter needs.
    """
    if not selection.documents or "documentlist" in map(str.lower, schema.get("properties", ())):
        return ""
    labels = {reference.partition(":")[2].partition("#")[0] for reference in selection.documents}
    read = (message for message in run.memory.history if message.label in labels and message.success)
    return "".join(f"\n{message.tool} brought {inert(' '.join(message.summary.split()))}" for message in read)


def _told_picture(name: str, data: bytes) -> str:
    """Return the line of a picture: the row with the prompt holds the digest of what was shown."""
    return f"{_line(name)}: a picture of {len(data):,} bytes, sha256 {sha256(data).hexdigest()}"


def _improvements(run: Run) -> str:
    return "\n".join(f"- {inert(text)}" for text in run.memory.improvements or ())


def _observation(run: Run) -> str:
    """Return the newest observation as JSON, empty without one."""
    return run.memory.observation.wire_json() if run.memory.observation is not None else ""


def _learnt(run: Run) -> str:
    """Return what the newest refinement has learnt."""
    refinement = run.memory.refinement
    return "; ".join(_line(text) for text in refinement.learnings) if refinement is not None else ""


def _stop_reason(run: Run) -> str:
    """Return what the completion review has to know of how the run came to its end."""
    told = [REASONS[run.counters.stop]] if run.counters.stop in LIMIT_REASONS else []
    if run.spec.revision > 1 and last_call_failed(run) and run.memory.history:
        last = run.memory.history[-1]
        told.append(f"The last call, {last.tool}, failed: {_line(last.summary)}")
    elif run.spec.revision > 1:
        told += [f"A call of {one.tool} failed: {_line(one.summary)}" for one in failed_calls(run)]
    return "\n".join(told)


def _draft(run: Run) -> str:
    memory = run.memory
    draft = memory.answer or (memory.refinement.answer if memory.refinement is not None else None)
    return fence_draft(draft or "")


def _phase_draft(run: Run) -> str:
    memory = run.memory
    return fence_draft((memory.review.answer if memory.review is not None else None) or memory.answer or "")


def _call(run: Run) -> str:
    intent = run.memory.intent
    return _data({"tool": intent.tool, "arguments": intent.arguments} if intent is not None else None)


def _visits(run: Run) -> str:
    """Return what the last stays in the host's own phases came to."""
    visits = sorted(run.memory.visits.items())
    return _data({name: {"ok": visit.ok, "value": visit.value} for name, visit in visits})


def _unusable(run: Run) -> tuple[PromptMessage, ...]:
    """Return what a conversation ends with where the last reply could not be used."""
    feedback = run.memory.feedback
    return (PromptMessage("user", UNUSABLE.format(inert(feedback))),) if feedback else ()


def _index_line(message: Message) -> str:
    """Return the line of an action's documents in the index, empty when it has none."""
    if not message.documents_count:
        return ""
    return f"- docList:{message.label} ({message.documents_count} from {message.tool})"


def _selection_of(run: Run) -> Selection:
    selection = run.memory.selection
    assert selection is not None, "Specifying is entered with a selection"
    return selection


def _quarter(spec: Spec) -> int:
    """Return how many bytes a quarter of the model's context has."""
    return spec.context_tokens * BYTES_PER_TOKEN // 4


def shown_whole(spec: Spec, documents: Iterable[tuple[bool, int]]) -> frozenset[int]:
    """
    Return which input documents a conversation begins with, by their place: texts, up to a quarter of the context.

    Args:
        spec: Of the run; none of a run in two stages, whose prompts hold no text of a document.
        documents: Of each whether it is text, and its size in bytes.
    """
    if spec.two_stage:
        return frozenset()
    room, found = _quarter(spec), set()
    for place, (is_text, size) in enumerate(documents):
        if is_text and size <= room:
            room -= size
            found.add(place)
    return frozenset(found)


def readable_size(spec: Spec, mime: str, size: int, *, is_text: bool) -> tuple[bool, int]:
    """Return whether a document can be in a conversation's beginning, as text or as a picture, and the bytes that it takes there."""
    return (True, PICTURE_ROOM) if spec.pictures and is_picture(mime, size) else (is_text, size)


def documents_index(documents: Sequence[DocumentRef], shown: Mapping[str, str] = _NONE) -> str:
    """
    Return the index lines of *documents*, grouped by label: references, names, types and sizes.

    Args:
        documents: In their order.
        shown: Texts by reference, which stand under their lines.
    """
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
        if document.reference in shown:
            lines.append(shown[document.reference])
    return "\n".join(lines)


def tool_text(tool: ToolSpec) -> str:
    """Return one line for a tool as a planner needs it: name, description, JSON Schema of its arguments."""
    schema = orjson.dumps(tool.parameters, option=orjson.OPT_NON_STR_KEYS).decode()
    return _line(f"- {tool.name}: {tool.description}") + f" Arguments: {schema}"


def _last_action(run: Run) -> str:
    """Return the newest action as it is judged: what it was for, and with which arguments; empty without one."""
    if not run.memory.history:
        return ""
    message = run.memory.history[-1]
    arguments = arguments_text(message)
    told = f"{message.tool}: {inert(message.objective)}"
    return f"{told}\nArguments: {arguments}" if arguments else told


def _data(value: Any) -> str:
    """Return JSON data as one line of a prompt, nothing for nothing."""
    return inert(json_text(value, sort_keys=True)) if value else ""


def _line(text: str) -> str:
    """Return *text* as one line, so that no description opens a section of its own."""
    return " ".join(text.split()).rstrip(": ")
