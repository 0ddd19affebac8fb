"""Specifying: settle the parameters of the chosen action, then commit the intent to execute it."""

from __future__ import annotations

from .phase import Phase
from .records.requests import NOTHING, ModelRequest, Recall, Request
from .run.budgets import limit_reached
from .run.phase_names import SPECIFYING
from .run.state import Run


class Specifying(Phase):
    """Asks the model for Stage 2, unless the arguments are settled already."""

    def __init__(self) -> None:
        super().__init__(SPECIFYING)

    def request(self, run: Run) -> Request:
        """
        Return the parameters request, or of a plan's step the outputs that it refers to.

        Nothing is needed when the selection carries its arguments or a limit decides.
        """
        selection, flow = run.memory.selection, run.memory.flow
        if flow is not None and selection is not None and selection.origin in ("workflow", "hook"):
            needed = selection.needs and run.memory.intent is None and flow.last is not None
            return Recall((flow.last,)) if needed and flow.last is not None else NOTHING
        if selection is not None and selection.needs and run.memory.intent is None:
            produced = run.memory.produced
            places = tuple([produced[number] for number in selection.needs if number in produced])
            return Recall(places) if places else NOTHING
        if (selection is not None and selection.arguments is not None) or limit_reached(run):
            return NOTHING
        if run.memory.intent is not None:  # approved: the parameters were settled before the wait
            return NOTHING
        return ModelRequest("parameters", run.counters.parameter_retries)
