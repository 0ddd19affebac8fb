"""Observing: turn the raw result into a compact observation and store its documents under their label."""

from __future__ import annotations

from .phase import OBSERVING, Phase
from .requests import NOTHING, Recall, Request
from .run import Run


class Observing(Phase):
    """Needs nothing, but for a blocked call the earlier output that it echoes."""

    def __init__(self) -> None:
        super().__init__(OBSERVING)

    def request(self, run: Run) -> Request:
        """Return a recall of the echoed output of a blocked call, else nothing."""
        result = run.memory.result
        if result is not None and result.echo is not None:
            return Recall(result.echo)
        return NOTHING
