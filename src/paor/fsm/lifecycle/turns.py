"""
A start, whether in a conversation or not: its arguments are checked at once; it is begun when the conversation has no other round.

One round of a conversation runs at a time. The statement that writes a run holds it to that, whichever processes start one. A start that
is queued has no row: its caller stands in line here (`fsm.journal.turns`), then writes the run and drives it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, aclosing, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ...states.base.errors import ConversationBusy, UsageError
from ..journal.store import KeyTaken
from ..journal.turns import Turns
from ..runtime.events import Event
from ..runtime.result import Result
from ..runtime.run_context import Leaves
from .background import AsyncEvents, Events
from .earlier import before_start, earlier_rounds, round_before
from .fallback import stand_in
from .keyed_start import begin, check_same_start
from .look import result_now
from .model_facts import Pending
from .options import RunOptions
from .resume import Continuation, aevents_of, events_of
from .runner import Runner
from .start import NewRun
from .told import Earlier

LOOK_S = 0.05
"""Seconds between two looks whether it is a queued start's turn."""


class Start:
    """
    A start that is still to be begun.

    Args:
        runner: That drives the run.
        make: Checks every argument of it, given what it goes on from.
        given: The options of the start.

    Raises:
        UsageError: A bad argument.
        ConversationBusy: Another round runs, and this start is not to be queued.
    """

    def __init__(
        self,
        runner: Runner,
        make: Callable[[Earlier | None], Pending[NewRun]],
        given: RunOptions[Any],
    ) -> None:
        self._runner, self._make = runner, make
        self._conversation, self._key = given["conversation"] or "", given["key"]
        self._after, self.queue = given["after"], given["queue"]
        if not self._conversation and (self._after is not None or self.queue):
            raise UsageError("after and queue belong to a start with a conversation")
        if self._after is not None:
            self._after = runner.journal.reader.run(self._after).run_id
        self._checked = make(Earlier(self._conversation) if self._conversation else None)
        if self._conversation and not self.queue and self._started() is None:
            round_before(runner.journal.reader, self._conversation, self._after)

    def _goes_on_from(self) -> Earlier:
        reader = self._runner.journal.reader
        if (run_id := self._started()) is not None:
            return replace(before_start(reader, reader.spec(run_id)), conversation=self._conversation)
        base = round_before(reader, self._conversation, self._after)
        return earlier_rounds(reader, self._conversation, base)

    def _started(self) -> str | None:
        """Return the run that a start with the same key has written, which is gone on with then; None while there is none."""
        rows = self._runner.journal.reader.runs(key=self._key, limit=1) if self._key is not None else ()
        return rows[0].run_id if rows else None

    def _next(self) -> Pending[NewRun]:
        return self._make(self._goes_on_from()) if self._conversation else self._checked

    def looked(self) -> NewRun:
        """Return the run to be written, told of the rounds that have ended by now."""
        return self._next().looked()

    def in_line(self, before: str) -> NewRun:
        """Return the run to be written behind the run *before*, which has not ended; it is told of the rounds before when its turn comes."""
        round = self._runner.journal.reader.run(before).round + 1
        return self._make(Earlier(self._conversation, before, round, asked=-1)).looked()

    def begun(self) -> Continuation | Result:
        """Begin it, in its turn; see `fsm.lifecycle.keyed_start.begin`."""
        with self._in_line() as is_next:
            while True:
                try:
                    if is_next():
                        return begin(self._runner, self.looked())
                except ConversationBusy:
                    if not self.queue:
                        raise
                time.sleep(LOOK_S)  # a process elsewhere may end the round: only the journal tells

    async def abegun(self) -> Continuation | Result:
        """Do the same as `begun` on the running event loop."""
        with self._in_line() as is_next:
            while True:
                try:
                    if is_next():
                        return begin(self._runner, await self._next().alooked())
                except ConversationBusy:
                    if not self.queue:
                        raise
                await asyncio.sleep(LOOK_S)  # as above

    def _in_line(self) -> AbstractContextManager[Callable[[], bool]]:
        """Give what returns whether it is this start's turn: at once where it is not queued, or goes on with the run of its key."""
        if not self.queue or self._started() is not None:
            return nullcontext(lambda: True)
        journal = self._runner.journal
        return Turns(journal.backend, journal.leases).waiting(self._conversation)


def begun_events(runner: Runner, start: Start) -> Events:
    """Return what begins a run, or goes on with that of its key, in the background."""

    def events(leaves: Leaves | None) -> Generator[Event, None, None]:
        yield from events_of(runner, start.begun(), leaves)

    return events


def abegun_events(runner: Runner, start: Start) -> AsyncEvents:
    """Do the same as `begun_events` for an event loop."""

    async def events(leaves: Leaves | None) -> AsyncGenerator[Event, None]:
        async with aclosing(aevents_of(runner, await start.abegun(), leaves)) as stream:
            async for event in stream:
                yield event

    return events


def submit(runner: Runner, start: Start, not_before: datetime | None) -> Result:
    """
    Write a run for a worker; see `fsm.engine.Engine.submit`.

    Raises:
        UsageError: It has what only the process that starts it has.
        KeyConflict: Its key names a run that was started otherwise.
    """
    while True:
        try:
            return _submitted(runner, start, start.looked(), not_before)
        except ConversationBusy as busy:
            if not start.queue:
                raise
            before = busy.run_id
        with suppress(ConversationBusy):  # another one stands behind that by now
            return _submitted(runner, start, start.in_line(before), not_before)


def _submitted(runner: Runner, start: Start, new: NewRun, not_before: datetime | None) -> Result:
    given = [name for name, value in (("connections", new.connections), ("deps", new.deps)) if value]
    if given:
        raise UsageError(
            f"submit: {' and '.join(given)} would be lost: they are never written, so a worker's engine brings its own"
        )
    ready_at = runner.queue.now_us() if not_before is None else _moment(not_before)
    try:
        run_id = runner.submitted(new, ready_at)
    except KeyTaken as taken:
        check_same_start(runner.journal.reader, taken.run_id, new)
        run_id = stand_in(runner.journal.reader, taken.run_id)
    return result_now(runner.journal.reader, run_id)


def _moment(when: datetime) -> int:
    if not isinstance(when, datetime):
        raise UsageError(f"not_before {when!a:.60}: expected a datetime")
    if when.tzinfo is None:
        when = when.astimezone()
    return round((when - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
