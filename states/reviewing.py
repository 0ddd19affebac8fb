"""Reviewing: judge the iteration, decide to go on or stop, and judge the whole before the end."""

from __future__ import annotations

from .budgets import hard_limit
from .phase import REVIEWING, Phase
from .requests import NOTHING, ModelRequest, Request
from .run import Run


class Reviewing(Phase):
    """Asks for a refinement after each action and, once the stop is decided, for the completion review."""

    def __init__(self) -> None:
        super().__init__(REVIEWING)

    def request(self, run: Run) -> Request:
        """
        Return the refinement, then (after `conclude`) the completion review, or nothing.

        Nothing is needed when a hard limit decides, when a budget is used up (then nothing may be asked), after
        the final formatting action, and between the steps of a plan.
        """
        counters = run.counters
        if counters.formatted or hard_limit(run) is not None:
            return NOTHING
        if counters.concluded:
            return ModelRequest("review", counters.review_retries)
        if run.spec.mode == "react":
            return ModelRequest("refinement", counters.review_retries)
        return NOTHING
