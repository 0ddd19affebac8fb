"""
The class that the seven phases are instances of.

A phase is a `transitions.State`; it answers one question, purely: what does a run in this phase need from the
outside before it can be decided? It never touches anything itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from transitions import State

if TYPE_CHECKING:
    from .records.requests import Request
    from .run.state import Run


class Phase(State):
    """One phase of a run: a state of the machine that knows what it needs next."""

    def __init__(self, name: str, *, final: bool = False) -> None:
        super().__init__(name, final=final, ignore_invalid_triggers=False)

    def enter(self, event_data: object) -> None:
        """Do nothing: no effect hangs on entering a phase, so there are no callbacks to look for."""

    def exit(self, event_data: object) -> None:
        """Do nothing, for the same reason."""

    def request(self, run: Run) -> Request:
        """Return what *run*, which is in this phase, needs from the outside; touch nothing."""
        raise NotImplementedError(self.name)
