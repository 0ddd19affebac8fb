"""What a run is decided with: its spec's tools and templates, compiled once and never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...prompts.building.builder import PromptBuilder
from ...prompts.building.conversation import wire_names
from ...prompts.model import OfferedTool, PromptMessage
from ...prompts.parsing.reply_schemas import SINGLE_SELECTION, parameters_schema, reply_schema
from ...states.base.errors import InternalError, UsageError
from ...states.records.actions import Selection
from ...states.records.requests import RequestKind
from ...states.run.budgets import steps_left
from ...states.run.spec import Spec, ToolSpec
from ...states.run.state import Run
from ...tools.catalog import Catalog
from ...tools.schema.parameters import ParameterSchema
from .offered_tools import offered_tools, takes_documents

if TYPE_CHECKING:
    from ..workflow.navigation import Flow


class RunResources:
    """
    The pure parts that `decide` and the prompts need for one run.

    Args:
        spec: What the run was started with (or, to compare, what an engine would start it with now).
        catalog: The spec's tools, if somebody has compiled them already.

    Attributes:
        spec: The same.
        catalog: Tools by name.
        prompts: Builder of the run's prompts.
        flow: The workflow file, None without one.
    """

    def __init__(self, spec: Spec, catalog: Catalog | None = None) -> None:
        self.spec = spec
        self.catalog = catalog if catalog is not None else Catalog(spec.tools)
        self.prompts = PromptBuilder(spec, self.catalog.lines())
        self.flow = _flow_of(spec) if spec.workflow is not None else None
        names = wire_names(tool.name for tool in self.catalog) if spec.native else {}
        self._wire = {wire: self.catalog.find(name) for name, wire in names.items()}
        self._formatter_schema: ParameterSchema | None = None
        self._replies: dict[str, dict[str, Any] | None] = {}

    def messages(self, kind: RequestKind, run: Run) -> tuple[PromptMessage, ...]:
        """Return the messages of a *kind* request; a workflow has a say in what its planner is told."""
        if kind == "turn":
            labels = takes_documents(self.catalog)
            return self.prompts.turn(run, may_call=steps_left(run), labels=labels)
        if self.flow is not None and kind == "plan":
            from ..workflow.variables import cursor_of, plan_input

            try:
                return self.prompts.plan(run, plan_input(self.flow, cursor_of(run), self.spec))
            except UsageError:  # the same words as without; what is wrong ends the run when it is read
                return self.prompts.build(kind, run)
        return self.prompts.build(kind, run)

    def offered(self, kind: RequestKind, run: Run) -> tuple[OfferedTool, ...]:
        """Return the tools that a *kind* request offers through the provider's own tool calling."""
        return offered_tools(self.catalog, run) if kind == "turn" else ()

    def called(self, name: str) -> ToolSpec | None:
        """Return the tool that a model calls by *name*, as it was offered or in another spelling, or None."""
        return self._wire.get(name) or self.catalog.find(name)

    def tool(self, selection: Selection) -> ToolSpec:
        """Return the tool of an accepted selection; the final formatting action has its own."""
        if selection.origin == "format" and self.spec.formatter is not None:
            return self.spec.formatter
        tool = self.catalog.find(selection.tool)
        if tool is None:
            raise InternalError(f"the accepted action {selection.tool} is not in the catalog")
        return tool

    def reply_schema(self, kind: RequestKind, run: Run) -> dict[str, Any] | None:
        """Return the JSON Schema of the reply to a *kind* request, None for free text."""
        if kind == "selection" and self.spec.profile.stage == "single":
            return SINGLE_SELECTION
        selection = run.memory.selection
        if kind != "parameters" or selection is None:
            return reply_schema(kind)
        if selection.tool not in self._replies:
            self._replies[selection.tool] = parameters_schema(self.tool(selection).parameters)
        return self._replies[selection.tool]

    def schema(self, tool: ToolSpec) -> ParameterSchema:
        """Return the compiled parameter schema of *tool*."""
        if tool is not self.spec.formatter:
            return self.catalog.schema(tool)
        if self._formatter_schema is None:
            self._formatter_schema = ParameterSchema(tool.parameters)
        return self._formatter_schema


def _flow_of(spec: Spec) -> Flow:
    """Return the workflow file of a spec; what it takes is imported on first use."""
    from ...states.records.workflow import Workflow
    from ..workflow.expressions.extra import need_workflow_extra
    from ..workflow.navigation import Flow

    need_workflow_extra()
    return Flow(Workflow.model_validate(spec.workflow))
