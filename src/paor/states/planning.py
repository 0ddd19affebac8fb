"""Planning: choose the one next action, or answer."""

from __future__ import annotations

from .phase import Phase
from .records.requests import NOTHING, ModelRequest, Request, RequestKind
from .run.budgets import limit_reached, tools_withheld
from .run.phase_names import PLANNING
from .run.state import Run


class Planning(Phase):
    """Initial phase: asks the model for an action, a plan, tasks, or one turn of a conversation."""

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
        return ModelRequest(_kind(run), run.counters.selection_retries)


def _kind(run: Run) -> RequestKind:
    if run.spec.native:
        return "turn"
    if tools_withheld(run):
        return "answer"
    return "selection" if not run.spec.plans else "plan" if run.spec.task else "task_plan"
