"""Where a run is in its workflow file; kept small, since a row that moves it holds it whole."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from ..base.wire import Stored
from ..records.actions import StoredText

VARIABLES_BYTES_MAX = 32_768
"""Most bytes, as JSON, of the variables that a workflow keeps; results and plans are not among them."""

FlowKind = Literal["plan", "exec", "tool", "ask", "end", "lost"]


class FlowState(Stored, frozen=True, gc=False):
    """
    The task that a workflow is at, and what it remembers.

    Attributes:
        at: Number of the task's instruction.
        kind: What is to be done: ask the planner, execute its plan, call a tool, ask the user, or nothing more;
            ``lost`` when it failed before its first task.
        variables: Those that neither the run's rows nor its spec tell.
        last: Payload of the newest result, None when it has none.
        last_data: Whether that is JSON that a tool returned as data, not a text.
        failed: A tool of the task failed, and its hook is being called.
        problem: Why it was lost.
    """

    at: int
    kind: FlowKind
    variables: dict[str, Any] = field(default_factory=dict)
    last: StoredText | None = None
    last_data: bool = False
    failed: bool = False
    problem: str = ""
