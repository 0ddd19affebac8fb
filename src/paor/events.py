"""
What `Engine.events` and `Engine.stream` yield, and what hooks are called with; and the same for a browser.

    from paor.events import RunEnded, TransitionTaken, sse

`Event` is any of them; ``kind`` tells them apart.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from .fsm.runtime.events import (
    Event,
    ModelNotice,
    ModelText,
    RunEnded,
    RunStarted,
    RunWaiting,
    StepCompleted,
    TransitionTaken,
)

if TYPE_CHECKING:
    from .fsm.engine import Engine


def sse(engine: Engine, run_id: str, after: str | int | None = None) -> AsyncIterator[str]:
    """
    Listen to a run as `Engine.aevents` does, and yield server-sent events for a response of type ``text/event-stream``.

    Each is named by the event's ``kind``; its data are the event as JSON. The id is the number of the row, at the last event of a
    row, so that a browser that connects again sends it as ``Last-Event-ID`` and misses nothing. A comment every 15 seconds keeps
    the connection. The stream ends with ``complete``; a browser's ``EventSource`` is to be closed then, or it connects again.

    Args:
        engine: Any engine with the run's journal.
        run_id: Its id, or an unambiguous prefix.
        after: What the client sent as ``Last-Event-ID``, or the number of a row; all of the run for None, and for anything that is
            no such id.

    Raises:
        UnknownRun: There is no such run; at once, before a response has begun.
    """
    from .fsm.lifecycle.server_sent import server_sent

    found = engine.journal.run(run_id).run_id
    return server_sent(engine._runner.listening, found, after)


__all__ = [
    "Event",
    "ModelNotice",
    "ModelText",
    "RunEnded",
    "RunStarted",
    "RunWaiting",
    "StepCompleted",
    "TransitionTaken",
    "sse",
]
