"""Done: the run succeeded; nothing leads on from here."""

from __future__ import annotations

from .phase import Phase
from .records.requests import NOTHING, Request
from .run.phase_names import DONE
from .run.state import Run


class Done(Phase):
    """The completion review succeeded, or every criterion was met when a budget ran out."""

    def __init__(self) -> None:
        super().__init__(DONE, final=True)

    def request(self, run: Run) -> Request:
        """Return nothing; the run has ended."""
        return NOTHING
