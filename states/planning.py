"""Planning: choose the one next action, or answer."""

from __future__ import annotations

from .phase import Phase
from .records.requests import NOTHING, ModelRequest, Request, RequestKind
from .run.budgets import limit_reached, tools_withheld
from .run.phase_names import PLANNING
from .run.state import Run


class Planning(Phase):
    """Initial phase: asks the model for Stage 1 of the two-stage protocol."""

    def __init__(self) -> None:
        super().__init__(PLANNING)

    def request(self, run: Run) -> Request:
        """Return the request for an action, a plan, tasks or an answer; nothing when a limit or code decides."""
        if limit_reached(run):
            return NOTHING
        if run.memory.flow is not None and run.memory.flow.kind != "plan":
            return NOTHING
        if run.spec.task == 0 and run.spec.tasks:
            return NOTHING
        if tools_withheld(run):
            return ModelRequest("answer", run.counters.selection_retries)
        kind: RequestKind = (
            "selection" if run.spec.mode == "react" else "plan" if run.spec.task else "task_plan"
        )
        return ModelRequest(kind, run.counters.selection_retries)
