"""Failed: the run ended with a reason; nothing leads on from here."""

from __future__ import annotations

from .phase import Phase
from .records.requests import NOTHING, Request
from .run.phase_names import FAILED
from .run.state import Run


class Failed(Phase):
    """The run ended with a reason; its partial answer, documents and results are kept."""

    def __init__(self) -> None:
        super().__init__(FAILED, final=True)

    def request(self, run: Run) -> Request:
        """Return nothing; the run has ended."""
        return NOTHING
