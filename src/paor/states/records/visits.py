"""What a host's own phase came to, and what it chose for its run."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from ..base.wire import Stored


class Visit(Stored, frozen=True, gc=False):
    """
    What the last stay in one of the host's own phases came to.

    Attributes:
        phase: Its name.
        ok: Whether what it asked for succeeded: a reply that fits its schema, a call without an error, an answer that accepts.
        value: The reply's object, the answer's content, or of a call ``{"error": str or null, "summary": str, "output": str}``; None for nothing.
        actor: Who answered, by the name that the host gave; nobody checks it.
        call: Idempotency key of the call that was being specified meanwhile; empty outside Specifying's work. A visit counts for
            that call alone.
        seq: Number of the row that left the phase.
    """

    phase: str
    ok: bool
    value: Any = None
    actor: str | None = None
    call: str = ""
    seq: int = 0

    def __post_init__(self) -> None:
        self._seal("value")


class RunChoice(Stored, frozen=True, gc=False):
    """
    What a first phase chose for its run.

    Attributes:
        mode: The run's mode from then on, None for the one that it was started with.
        limits: Limits that are lower from then on, by name.
    """

    mode: Literal["react", "batch", "planner"] | None = None
    limits: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._seal("limits")
