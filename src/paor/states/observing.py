"""Observing: turn the raw result into a compact observation and store its documents under their label."""

from __future__ import annotations

from .phase import Phase
from .records.requests import NOTHING, Recall, Request
from .run.phase_names import OBSERVING
from .run.state import Run


class Observing(Phase):
    """Needs the bodies that the observation shows: of the first documents, or the output that a blocked call echoes."""

    def __init__(self) -> None:
        super().__init__(OBSERVING)

    def request(self, run: Run) -> Request:
        """Return a recall of what the observation shows, nothing when it shows no document."""
        result = run.memory.result
        if result is None:
            return NOTHING
        if result.echo is not None:
            return Recall((result.echo,))
        shown = result.documents[: run.spec.limits.previews]
        return Recall(tuple(document.payload for document in shown)) if shown else NOTHING
