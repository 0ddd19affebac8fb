"""Executing: the one phase with effects beyond the model; its intent row is committed before it starts."""

from __future__ import annotations

from .phase import Phase
from .records.requests import NOTHING, Request, ToolRequest
from .run.phase_names import EXECUTING
from .run.state import Run


class Executing(Phase):
    """Runs the tool, or takes the outcome that a reconciliation gave."""

    def __init__(self) -> None:
        super().__init__(EXECUTING)

    def request(self, run: Run) -> Request:
        """Return the tool request; nothing when a reconciliation has already said how the call ended."""
        reply = run.memory.reply
        if reply is not None and reply.action in ("done", "fail"):
            return NOTHING
        assert run.memory.intent is not None, "Executing is entered by specify only, which sets the intent"
        return ToolRequest(run.memory.intent)
