"""Reviewing: judge the iteration, decide to go on or stop, and judge the whole before the end."""

from __future__ import annotations

from .phase import Phase
from .records.requests import NOTHING, ModelRequest, Recall, Request
from .run.budgets import limit_reached
from .run.completion import decided_by_rules, output_asked
from .run.phase_names import REVIEWING
from .run.state import Run


class Reviewing(Phase):
    """Asks for a refinement after each action and, once the stop is decided, for the completion review."""

    def __init__(self) -> None:
        super().__init__(REVIEWING)

    def request(self, run: Run) -> Request:
        """
        Return the refinement, then (after `conclude`) the completion review, or nothing.

        Nothing is needed when code decides the completion review and no output is wanted, when a hard limit decides, when a budget is used up (then nothing may be asked), after
        the final formatting action, and between the steps of a plan. After a task of the workflow that called a tool
        its output is.
        """
        counters = run.counters
        if counters.formatted or limit_reached(run):
            return NOTHING
        if counters.concluded:
            by_code = decided_by_rules(run) and not output_asked(run)
            return NOTHING if by_code else ModelRequest("review", counters.review_retries)
        if not run.spec.plans:
            return ModelRequest("refinement", counters.review_retries)
        if run.memory.flow is not None and run.memory.flow.kind == "tool":
            return _output(run)
        return NOTHING


def _output(run: Run) -> Request:
    """Return a recall of what a workflow's tool returned, nothing when it returned none."""
    result, selection = run.memory.result, run.memory.selection
    if result is None or selection is None or selection.origin != "workflow" or not result.documents:
        return NOTHING
    return Recall((result.documents[0].payload,))
