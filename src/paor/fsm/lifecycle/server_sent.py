"""A run's events for a browser: server-sent events with ids, so that it goes on where it was after a reload or a lost connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import fields
from typing import Any

import orjson

from ...states.records.questions import Question
from ..runtime.events import Event, ModelNotice, ModelText, RunStarted
from ..runtime.result import Result
from .listening import Listening, abatches

BEAT_S = 15.0
"""Seconds after which a client that nothing is new for gets a comment, so that what lies between keeps the connection."""


def event_data(event: Event) -> dict[str, Any]:
    """Return an event as JSON data, keys as the attributes."""
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    return {
        name: value.wire() if isinstance(value, Result | Question) else value
        for name, value in values.items()
    }


async def server_sent(listening: Listening, run_id: str, after: str | int | None) -> AsyncIterator[str]:
    """Yield the events of a run as server-sent events; see `paor.events.sse`."""
    run_id, seq = _place(run_id, after)
    own = f"{run_id}:"
    async with aclosing(abatches(listening, run_id, seq, beat_s=BEAT_S)) as batches:
        async for events in batches:
            lines = [] if events else [":\n\n"]
            for event, following in zip(events, (*events[1:], None), strict=False):
                # the number of a row stands at its last event: whoever has seen only its first gets the others again
                is_row = not isinstance(event, RunStarted | ModelText | ModelNotice)
                is_last = following is None or following.seq != event.seq or following.run_id != event.run_id
                place = f"{event.run_id}:{event.seq}".removeprefix(own)
                head = f"id: {place}\n" if is_row and is_last else ""
                data = orjson.dumps(event_data(event), option=orjson.OPT_NON_STR_KEYS).decode()
                lines.append(f"{head}event: {event.kind}\ndata: {data}\n\n")
            yield "".join(lines)


def _place(run_id: str, after: str | int | None) -> tuple[str, int | None]:
    """Return the run that a client was at, and the row; all of the run for what is no id of its events."""
    run, _, number = str(after).rpartition(":") if after is not None else ("", "", "")
    if not (number.isascii() and number.isdecimal() and len(number) < 10):
        return run_id, None
    return run or run_id, int(number)
