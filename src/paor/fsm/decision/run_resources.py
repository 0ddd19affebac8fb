"""What a run is decided with: its spec's tools and templates, compiled once and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import json

from ...prompts.building.builder import PromptBuilder
from ...prompts.building.conversation import Texts, no_text, wire_names
from ...prompts.model import OfferedTool, PromptMessage
from ...prompts.parsing.reply_forms import (
    REFERENCE,
    Form,
    Needs,
    Offer,
    answer_form,
    output_form,
    parameters_form,
    phase_form,
    plan_form,
    refinement_form,
    review_form,
    selection_form,
    task_plan_form,
)
from ...states.base.errors import InternalError, UsageError
from ...states.base.sealed import unsealed
from ...states.phase import Phase
from ...states.records.actions import Selection
from ...states.records.requests import RequestKind
from ...states.run.budgets import BYTES_PER_TOKEN
from ...states.run.completion import output_asked
from ...states.run.spec import Spec, ToolSpec
from ...states.run.state import Run, initial_run
from ...tools.catalog import CONNECTION, DOCUMENT_LIST, Catalog
from ...tools.defaults import settled_by_code
from ...tools.policy import denial
from ...tools.schema.parameters import ParameterSchema
from .host_machine import recorded_phases

if TYPE_CHECKING:
    from ..workflow.navigation import Flow


def offered_tools(catalog: Catalog, spec: Spec) -> tuple[OfferedTool, ...]:
    """
    Return the tools that every turn of a run is offered, the same from the first request to the last.

    None that the policy denies, and none that needs a connection in a run without one.
    """
    names = wire_names(tool.name for tool in spec.tools)
    found = []
    for tool in catalog:
        lacks = CONNECTION in catalog.schema(tool).required and not spec.connections
        if not lacks and denial(spec.call_policy, spec.task_type, tool.name) is None:
            found.append(OfferedTool(names[tool.name], tool.description, _schema(tool.parameters, spec)))
    return tuple(found)


def _schema(parameters: Mapping[str, Any], spec: Spec) -> dict[str, Any]:
    """Return a tool's schema with how documents are named and which connections there are; without connections where there are none."""
    schema = {"type": "object", "properties": {}} | dict(parameters)
    given = schema["properties"]
    if not isinstance(given, Mapping) or not {DOCUMENT_LIST, CONNECTION} & given.keys():
        return schema
    choices: dict[str, dict[str, Any]] = {
        DOCUMENT_LIST: {"type": "array", "items": REFERENCE},
        CONNECTION: {"type": "string", "enum": list(spec.connections)},
    }
    properties = dict(given)
    for name in choices.keys() & given.keys():
        own = given[name] if isinstance(given[name], Mapping) else {}
        about = {"description": own["description"]} if "description" in own else {}
        properties[name] = about | choices[name]
    if not spec.connections:
        properties.pop(CONNECTION, None)
    return schema | {"properties": properties}


class RunResources:
    """
    The pure parts that `decide` and the prompts need for one run.

    Args:
        spec: What the run was started with (or, to compare, what an engine would start it with now).
        catalog: The spec's tools, if somebody has compiled them already.
        machine: The host's own machine with its functions, of which the spec has the data; None where nobody has it.

    Attributes:
        spec: The same.
        catalog: Tools by name.
        allowed: Those that the policy allows; a model is told of no others.
        prompts: Builder of the run's prompts.
        flow: The workflow file, None without one.
        machine: The same.
        phases: The host's own phases by name, as data.
        own_machine: Whether the run walks a machine of its host's.
        native, plans, converses: As the spec has them.
    """

    def __init__(self, spec: Spec, catalog: Catalog | None = None, machine: object = None) -> None:
        self.spec, self.machine = spec, machine
        self.own_machine = bool(spec.host_machine)
        self.native, self.plans, self.converses = spec.native, spec.plans, spec.converses
        self.phases: Mapping[str, Phase] = recorded_phases(spec.host_machine)
        self._phase_tools = {tool.name: tool for tool in spec.phase_tools}
        self._own_schemas: dict[str, ParameterSchema] = {}
        self.catalog = catalog if catalog is not None else Catalog(spec.tools)
        self.allowed = tuple(
            tool for tool in self.catalog if denial(spec.call_policy, spec.task_type, tool.name) is None
        )
        allowed = {tool.name for tool in self.allowed}
        denied = [tool.name for tool in self.catalog if tool.name not in allowed]
        self._actions = self._by_needs()
        self._offers = {
            (documents, learnings): Offer(self._actions, documents, spec.connections, learnings)
            for documents in (False, True)
            for learnings in (False, True)
        }
        self._may_have_documents = bool(spec.documents) or bool(self._offers[False, False].names)
        lines = self._lines(documents=self._may_have_documents)
        at_first = self._lines(documents=False)
        plans = spec.converses and not spec.native and spec.plans
        reply = plan_form([tool.name for tool in self.allowed]).words if plans else ""
        self.prompts = PromptBuilder(spec, lines, at_first, self.allowed, denied, reply)
        self.flow = _flow_of(spec) if spec.workflow is not None else None
        names = wire_names(tool.name for tool in self.catalog) if spec.native else {}
        self._wire = {wire: self.catalog.find(name) for name, wire in names.items()}
        self._forms: dict[object, Form] = {}
        self._choices: dict[tuple[str, bool, bool], Form] = {}
        self._given: dict[
            int, tuple[Form, dict[str, Any], dict[str, Any]]
        ] = {}  # pure: the form is kept beside
        self._output: ParameterSchema | None = None

    def messages(
        self, kind: RequestKind, run: Run, texts: Texts = no_text, model: str = ""
    ) -> tuple[PromptMessage, ...]:
        """
        Build the messages of a *kind* request; a workflow may add planner instructions.

        Args:
            kind: What is asked.
            run: That asks.
            texts: Where the texts of its conversation are read.
            model: Name of the model that is asked.
        """
        words = self._words_of(kind, run)
        self.prompts.tell(texts)
        if self.converses:
            return self.prompts.conversation(kind, run, texts, model, words, space=self._most)
        if kind == "refinement":
            return self.prompts.refinement(run, words)
        if self.flow is not None and kind == "plan":
            from ..workflow.variables import cursor_of, plan_input

            try:
                return self.prompts.plan(run, plan_input(self.flow, cursor_of(run), self.spec), words)
            except UsageError:  # the same words as without; what is wrong ends the run when it is read
                return self.prompts.build(kind, run, words)
        return self.prompts.build(kind, run, words)

    def stable(self, kind: RequestKind, run: Run, count: int) -> int:
        """Return how many of the *count* messages of a *kind* request the run's next ones begin with, too."""
        if not self.converses or not self.prompts.is_behind(kind, run):
            return 0
        return count if kind in ("turn", "plan") else count - 1

    def offered(self, kind: RequestKind, run: Run) -> tuple[OfferedTool, ...]:
        """Return the tools that a *kind* request offers through the provider's own tool calling: those of the run, or none."""
        return self._offered if self.native and kind != "text" else ()

    @cached_property
    def _offered(self) -> tuple[OfferedTool, ...]:
        return offered_tools(self.catalog, self.spec)

    @cached_property
    def reads(self) -> frozenset[str]:
        """Names under which tools are offered that only read."""
        names = wire_names(tool.name for tool in self.spec.tools)
        return frozenset(names[tool.name] for tool in self.catalog if tool.effect == "read")

    @cached_property
    def takes_documents(self) -> bool:
        """Whether some tool takes documents, so that results have to say where theirs are."""
        return any(DOCUMENT_LIST in self.catalog.schema(tool).names for tool in self.catalog)

    @cached_property
    def room(self) -> int:
        """
        Bytes that the items of the run's conversation may have: its context without the head, the tools, a judge's question and a reply.

        Where these leave little, three eighths of the context, for which the reply makes room; see `crowded`.
        """
        left = self.space - self._fixed_size
        return max(self.spec.context_tokens * BYTES_PER_TOKEN * 3 // 8, left)

    @cached_property
    def _most(self) -> int:
        """Bytes that the messages of a request have at most."""
        return max(self.space, self._fixed_size + self.room)

    @cached_property
    def space(self) -> int:
        """Bytes that the messages of a request may have: its context without the tools and a reply."""
        context, limits = self.spec.context_tokens, self.spec.limits.max_reply_tokens
        reply = min(limits.turn if limits is not None else context // 4, context // 4)
        return (context - reply) * BYTES_PER_TOKEN - self._tools_size

    @cached_property
    def _fixed_size(self) -> int:
        """Bytes of the messages that every request has: its head and, in two stages, its question."""
        return self.prompts.opening_size + self._question_size

    @cached_property
    def _tools_size(self) -> int:
        return len(json.encode(self._offered)) if self.spec.native else 0

    @cached_property
    def _question_size(self) -> int:
        """Bytes of the longest question that is always asked behind the conversation, as it is at first: that of the two stages."""
        if not self.spec.two_stage:
            return 0
        run = initial_run("", 0, self.spec)
        kinds: tuple[RequestKind, ...] = ("selection", "refinement")
        return max(
            self.prompts.question(kind, run, self._words_of(kind, run))[1]
            for kind in kinds
            if self.prompts.is_behind(kind, run)
        )

    @property
    def crowded(self) -> str:
        """What is told of a run whose head alone has so much of its model's context that its requests may exceed it; else empty."""
        if not self.spec.converses:
            return ""
        fixed = self._fixed_size + self._tools_size
        context = self.spec.context_tokens * BYTES_PER_TOKEN
        if fixed + self.room <= context:
            return ""
        return (
            f"what every request begins with has {fixed:,} bytes, and the model's context of {self.spec.context_tokens:,} tokens"
            f" about {context:,}: requests may be longer than it"
        )

    def phase_words(self, run: Run) -> str:
        """Return what the host's own phase that *run* is in asks behind the conversation."""
        (asked,), _ = self.prompts.question("phase", run, self._words_of("phase", run))
        return asked.text

    def _words_of(self, kind: RequestKind, run: Run) -> str:
        """Return in words what form the reply to a *kind* request has, empty where it has none."""
        form = self.form(kind, run)
        return form.words if form is not None else ""

    def called(self, name: str) -> ToolSpec | None:
        """Return the tool that a model calls by *name*, as it was offered or in another spelling, or None."""
        return self._wire.get(name) or self.catalog.find(name)

    def tool(self, selection: Selection) -> ToolSpec:
        """Return the tool of an accepted selection; the final formatting action has its own."""
        if selection.origin == "format" and self.spec.formatter is not None:
            return self.spec.formatter
        if selection.origin == "phase":
            return self._phase_tools[selection.tool]
        tool = self.catalog.find(selection.tool)
        if tool is None:
            raise InternalError(f"the accepted action {selection.tool} is not in the catalog")
        return tool

    def reply_schema(self, kind: RequestKind, run: Run) -> dict[str, Any] | None:
        """Return the JSON Schema of the reply to a *kind* request, None for free text and native turns; a choice's is one for the whole run."""
        if kind in ("selection", "refinement"):
            form: Form | None = self._choice(kind, self._offers[self._may_have_documents, True])
        else:
            form = self.form(kind, run)
        if form is None:
            return None
        known = self._given.get(id(form))
        if known is None or known[0] is not form or known[1] != known[2]:  # a model has taken it apart
            given, whole = (json.decode(form.schema_json, type=dict[str, Any]) for _ in range(2))
            known = self._given[id(form)] = form, given, whole
            if len(self._given) > _FORMS_KEPT:
                self._given = {id(form): known}
        return known[1]

    def form(self, kind: RequestKind, run: Run) -> Form | None:
        """Return the form of the reply to a *kind* request as *run* needs it, None for free text and native turns."""
        if kind in ("text", "turn", "summary"):
            return None
        key: object = kind
        if kind in ("selection", "refinement"):
            return self._choice(kind, self.offer(run))
        if kind == "review" and output_asked(run):
            key = kind, "output"
        elif kind == "parameters" and run.memory.selection is not None:
            key = run.memory.selection.tool, self._listed(run.memory.selection)
        elif kind == "phase":
            key = kind, run.state
        return self._kept_form(key, kind, run)

    def _choice(self, kind: RequestKind, offer: Offer) -> Form:
        """Return the form of a reply that chooses of *offer*."""
        key = kind, offer.documents, offer.learnings
        if key not in self._choices:
            profile = self.spec.profile
            self._choices[key] = (
                selection_form(offer, stage=profile.stage, strict=profile.strict)
                if kind == "selection"
                else refinement_form(offer.names, self.spec.success_criteria, first=self.spec.revision == 1)
            )
        return self._choices[key]

    def _kept_form(self, key: object, kind: RequestKind, run: Run) -> Form:
        if key not in self._forms:
            if len(self._forms) > _FORMS_KEPT:
                self._forms.clear()
            self._forms[key] = self._form(kind, run)
        return self._forms[key]

    def _form(self, kind: RequestKind, run: Run) -> Form:
        spec = self.spec
        if kind == "parameters":
            assert run.memory.selection is not None, "Specifying is entered with a selection"
            selection = run.memory.selection
            return parameters_form(self.tool(selection).parameters, self._listed(selection))
        if kind == "review" and output_asked(run):
            return output_form(spec.output_schema or {})
        if kind == "review":
            return review_form(spec.success_criteria, spec.output_schema)
        if kind == "plan":
            return plan_form([tool.name for tool in self.allowed])
        if kind == "phase":
            return phase_form(self.phases[run.state].reply or {})
        return task_plan_form() if kind == "task_plan" else answer_form()

    def _listed(self, selection: Selection) -> frozenset[str] | None:
        """Return the only parameters that Stage 2 is asked for, None for all of the tool's."""
        return frozenset(field.name for field in selection.fields or ()) if self.spec.to_the_letter else None

    def offer(self, run: Run) -> Offer:
        """Return what Stage 1 may choose from: actions, and what they can read."""
        return self._offers[bool(run.memory.references), bool(run.memory.history)]

    def _by_needs(self) -> tuple[tuple[Needs, tuple[str, ...]], ...]:
        """Return the names of the allowed tools in groups with the same needs, those that need nothing first."""
        groups: dict[Needs, list[str]] = {Needs(): []}
        for tool in self.allowed:
            groups.setdefault(self.needs(tool), []).append(tool.name)
        return tuple((needs, tuple(names)) for needs, names in groups.items() if names)

    def _lines(self, *, documents: bool) -> list[str]:
        """Return the catalog as Stage 1 is shown it in a run with or without documents; a plan may name every tool."""
        given = {"documents": documents, "connections": bool(self.spec.connections)}
        plans = self.spec.mode != "react"
        shown = [tool for tool in self.allowed if plans or self.needs(tool).met(**given)]
        return self.catalog.lines(shown, self.spec.profile.catalog)

    def needs(self, tool: ToolSpec) -> Needs:
        """Return what *tool* cannot be called without."""
        required = self.catalog.schema(tool).required
        return Needs(document=DOCUMENT_LIST in required, connection=CONNECTION in required)

    def needs_nothing(self, tool: ToolSpec) -> bool:
        """Return whether there is nothing that Stage 2 could set: code settles every parameter, or there is none."""
        return not self.spec.profile.force_stage_2 and settled_by_code(self.spec, tool, self.schema(tool))

    def schema(self, tool: ToolSpec) -> ParameterSchema:
        """Return the compiled parameter schema of *tool*."""
        if tool is self.spec.formatter or self._phase_tools.get(tool.name) is tool:
            return self._own_schema(f"tool {tool.name}", tool.parameters)
        return self.catalog.schema(tool)

    def phase_schema(self, phase: Phase) -> ParameterSchema:
        """Return the compiled schema of the reply to one of the host's own phases."""
        return self._own_schema(f"phase {phase.name}", phase.reply or {})

    def _own_schema(self, name: str, schema: Mapping[str, Any]) -> ParameterSchema:
        """Return a schema that is in no catalog, compiled once."""
        if name not in self._own_schemas:
            self._own_schemas[name] = ParameterSchema(schema)
        return self._own_schemas[name]

    def output_problems(self, output: object) -> str | None:
        """Return what of *output* the run's `output_schema` does not allow, None for nothing."""
        assert self.spec.output_schema is not None, "only a run with a schema has an output"
        if self._output is None:
            self._output = output_checker(self.spec.output_schema)
        problems = self._output.check({"output": output})
        return "; ".join(problem.message for problem in problems[:10]) or None


def output_checker(schema: Mapping[str, Any]) -> ParameterSchema:
    """
    Return the compiled schema of the object that holds an output.

    Raises:
        SchemaError: It cannot be used.
    """
    return ParameterSchema(output_form(schema).schema)


_FORMS_KEPT = 100


def _flow_of(spec: Spec) -> Flow:
    """Return the workflow file of a spec; what it takes is imported on first use."""
    from ...states.records.workflow import Workflow
    from ..workflow.expressions.extra import need_workflow_extra
    from ..workflow.navigation import Flow

    need_workflow_extra()
    return Flow(Workflow.model_validate(unsealed(spec.workflow)))
