"""
Listening to a run: any number of listeners, in any process, none of whom its driver waits for.

Rows come from the feed of the run, which its driver fills where it is in this process; of other runs one thread reads them from the
journal as they are written, once for all who listen. Who begins, or has fallen behind what the feed keeps, reads the journal itself.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing, suppress
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from ...states.base.errors import Erased, JournalDamaged, PaorError, UsageError
from ...states.records.outcomes import Answered
from ...states.run.phase_names import FINAL
from ...states.run.state import Run
from ..journal.backend import ChangeWatch
from ..journal.feeds import Lookout, LoopWaker, ThreadWaker, Waker
from ..journal.leases import LeaseBook
from ..journal.reader import JournalReader
from ..journal.rows import RunRow, Transition
from ..journal.store import JournalStore
from ..replay.recorded_outcome import recorded_outcome
from ..replay.restore import continue_with, restore_run, run_after, run_at, run_before
from ..runtime.channel import Channel, RunFeed, Told
from ..runtime.events import Event, ModelNotice, RunEnded, RunStarted, TransitionTaken
from ..runtime.logs import LOGGER
from ..runtime.row_events import is_last, row_events
from .fallback import is_owed, stand_in
from .look import result_now

BATCH = 200
"""Rows that are read from the journal at once."""

AGAIN_S = 0.05
"""Seconds between two looks for what is on its way and wakes nobody: a driver that lets go, a run that stands in for another."""

PACE_S = 0.02
"""Seconds that each of many listeners lets pass before it takes what it was woken for, so that they do not take turns with the driver."""

MANY = 4
"""Listeners of one run in a process up to which each takes every piece of text as it comes."""

_UNREADABLE = (Erased, JournalDamaged, ValueError, LookupError, TypeError)
"""What reading a record can raise that was erased, or is not as paor wrote it."""


class RecordedRows:
    """
    The rows of a run as events, read from its journal.

    Args:
        journal: That holds it.
        leases: Who drives runs.
        row: The run.
        after: Number of the row before the first one to read.
    """

    def __init__(self, journal: JournalReader, leases: LeaseBook, row: RunRow, after: int) -> None:
        self.at = after
        self._journal, self._leases, self._row = journal, leases, row
        self._parts = {part.run: part for part in journal.lineage(row.run)}
        self._run: Run | None = None
        self._is_unreadable = False

    def read(self, most: int) -> tuple[list[tuple[int, Told]], bool]:
        """Return the next rows, and whether the newest one is left out since its driver has not let go of the run yet."""
        rows = self._journal.transitions(self._row.run_id, self.at + 1, self.at + most)
        is_held = bool(rows) and is_last(rows[-1], rows[-1].outcome) and self._leases.is_driven(self._row.run)
        told = [(row.seq, self._events(row)) for row in (rows[:-1] if is_held else rows)]
        if told:
            self.at = told[-1][0]
        return told, is_held

    def _events(self, row: Transition) -> Told:
        """Return the events of a row; where a text was erased, what the row itself says of the transition."""
        if not self._is_unreadable:
            try:
                return self._derived(row)
            except _UNREADABLE:
                self._is_unreadable = True
        tokens = row.tokens_in + row.tokens_out
        place = row.seq, row.trigger, row.source, row.dest, row.step, 0, tokens, ""
        return (TransitionTaken(self._row.run_id, *place),)

    def _derived(self, row: Transition) -> Told:
        run = self._run if self._run is not None else self._before(row)
        run = run_at(self._journal, run, row, self._parts)
        outcome = recorded_outcome(self._journal, run, row) if row.outcome.get("kind") == "answer" else None
        self._run, change = run_after(self._journal, run, row)
        actor = outcome.answer.actor if isinstance(outcome, Answered) else None
        after = replace(self._run, run_id=self._row.run_id)  # of a fork the rows that it shares, too
        return row_events(after, row, change, row.outcome, actor)

    def _before(self, row: Transition) -> Run:
        first = self._parts[next(iter(self._parts))]
        if row.seq == 0:
            return continue_with(None, first, self._journal.spec(first.run_id))
        return run_before(self._journal, self._row.run_id, row.seq)


class Listening:
    """
    Who listens to which run of a journal in this process.

    Args:
        reader: What reads the journal.
        leases: Who drives its runs.
    """

    def __init__(self, reader: JournalReader, leases: LeaseBook) -> None:
        self.reader, self.leases = reader, leases
        self._lock = threading.Lock()
        self._feeds: dict[int, RunFeed] = {}
        self._rows: dict[int, RecordedRows] = {}
        self._looks: set[Callable[[ChangeWatch], bool]] = set()
        self._erasures = -1
        self._lookout = Lookout(
            "paor-events",
            reader.watch,
            self._look,
            self._is_unheard,
            self._failed,
            self._lock,
            self._is_wanted,
        )

    @property
    def is_closed(self) -> bool:
        """Whether nothing is told any more."""
        return self._lookout.is_closing()

    def close(self) -> None:
        """Tell nothing more, and wake all who listen."""
        self._lookout.close()
        with self._lock:
            for feed in self._feeds.values():
                feed.wake()

    # -- drivers ---------------------------------------------------------------------------------------------------

    def driving(self, run: Run) -> Channel:
        """Return what the driver of a run tells of it with, until it has `left`."""
        with self._lock:
            feed = self._feeds.setdefault(run.number, RunFeed(run.seq - 1))
            feed.drivers += 1
            return Channel(feed, self._lock)

    def left(self, run: Run, channel: Channel) -> None:
        """Tell what a driver has held back, now that it has let go of the run."""
        feed = channel.feed
        with self._lock:
            feed.drivers -= 1
            feed.tell([(seq, told) for seq, told in channel.held if seq > feed.last])
            if feed.listeners and not feed.drivers:
                self._lookout.begin()
            elif not feed.listeners and not feed.drivers:
                self._feeds.pop(run.number, None)

    def wake(self, run: int) -> None:
        """Have those who listen to a run look."""
        with self._lock:
            if run in self._feeds:
                self._feeds[run].wake()

    # -- listeners -------------------------------------------------------------------------------------------------

    def join(self, row: RunRow, waker: Waker) -> tuple[RunFeed, int]:
        """Return the feed of a run for one who listens from now on, until it has `quit`, and where it begins in the speech."""
        with self._lock:
            feed = self._feeds.setdefault(row.run, RunFeed(row.head_seq))
            feed.listeners.add(waker)
            if not feed.drivers:
                self._lookout.begin()
            return feed, feed.speech.first_after(feed.last)

    def overhear(self, row: RunRow, waker: Waker) -> RunFeed | None:
        """Return the feed of a run that is driven in this process, for one who listens until it has `quit`; None where it has no driver here."""
        with self._lock:
            feed = self._feeds.get(row.run)
            if feed is None or not feed.drivers:
                return None
            feed.listeners.add(waker)
            return feed

    def quit(self, row: RunRow, waker: Waker) -> None:
        """Listen no more."""
        with self._lock:
            feed = self._feeds.get(row.run)
            if feed is not None:
                feed.listeners.discard(waker)
                if not feed.listeners and not feed.drivers:
                    del self._feeds[row.run]

    def news(
        self, feed: RunFeed, after: int, place: int
    ) -> tuple[list[tuple[int, Told]] | None, list[Any], int]:
        """Return the rows that a feed keeps after one of them, None when they are to be read; what is said after a place, and the place after that."""
        with self._lock:
            rows = feed.after(after)
            if rows is None:
                return None, [], place
            said, place = feed.speech.after(place)
            return rows, said, place

    def said(self, feed: RunFeed, place: int, seq: int) -> tuple[list[Any], int]:
        """Return what is said after a place up to row *seq*, and the place after that."""
        with self._lock:
            return feed.speech.after(place, seq)

    # -- looking: runs that others drive -----------------------------------------------------------------------------

    def also(self, look: Callable[[ChangeWatch], bool]) -> None:
        """Call *look* from now on after each look at the runs; it returns whether to look again although nothing was written."""
        with self._lock:
            self._looks.add(look)
            self._lookout.begin()

    def no_longer(self, look: Callable[[ChangeWatch], bool]) -> None:
        """Call it no more."""
        with self._lock:
            self._looks.discard(look)

    def _is_unheard(self) -> bool:
        heard = any(feed.listeners and not feed.drivers for feed in self._feeds.values())
        if not heard:
            self._rows.clear()
        return not heard and not self._looks

    def _is_wanted(self, run: int) -> bool:
        feed = self._feeds.get(run)
        return bool(self._looks) or (feed is not None and bool(feed.listeners) and not feed.drivers)

    def _failed(self, error: Exception) -> None:
        LOGGER.warning("the journal cannot be read for those who listen: %s", error)

    def _look(self, watch: ChangeWatch) -> bool:
        """Tell the new rows of the runs that nobody drives in this process; return whether one of them is still held by its driver."""
        erasures = self.reader.index.count_erasures()
        with self._lock:
            if erasures != self._erasures:  # nothing that was told before is told again
                self._erasures = erasures
                for feed in self._feeds.values():
                    feed.kept = ()
            looks = list(self._looks)
            feeds = [(run, feed) for run, feed in self._feeds.items() if feed.listeners and not feed.drivers]
        names = self.reader.index.names([run for run, _ in feeds])
        held = [self._tell(run, names[run], feed) for run, feed in feeds if run in names]  # each of them
        for run, feed in feeds:
            if run not in names:
                feed.error = JournalDamaged(f"run number {run} is not in the journal any more")
                feed.wake()
        held += [look(watch) for look in looks]
        return any(held)

    def _tell(self, run: int, run_id: str, feed: RunFeed) -> bool:
        rows = self._rows.get(run)
        if rows is None or rows.at != feed.last:
            rows = self._rows[run] = RecordedRows(
                self.reader, self.leases, self.reader.run(run_id), feed.last
            )
        try:
            told, is_held = rows.read(BATCH)
        except JournalDamaged as error:
            feed.error = error
            feed.wake()
            return False
        with self._lock:
            if told and not feed.drivers and told[0][0] == feed.last + 1:
                feed.tell(told)
        return is_held or len(told) == BATCH


_OF_STORES: WeakKeyDictionary[JournalStore, Listening] = WeakKeyDictionary()
_LOCK = threading.Lock()


def listening_of(store: JournalStore) -> Listening:
    """Return who listens to the runs of an open journal, for all engines that have it."""
    with _LOCK:
        if store not in _OF_STORES:
            _OF_STORES[store] = listening = Listening(store.reader, store.leases)
            store.closing.append(listening.close)
        return _OF_STORES[store]


class BackgroundDrive:
    """
    One drive of a run in the background, and of the runs that stand in for it.

    Attributes:
        started: Its first event.
        runs: Ids of the runs that it drives, in order.
        ends: What each of them came to, whether it ended or waits.
        is_over: Whether it drives no more.
        error: What has stopped it.
    """

    def __init__(self, started: RunStarted, listening: Listening) -> None:
        self.started, self.runs = started, [started.run_id]
        self.ends: dict[str, RunEnded] = {}
        self.is_over = False
        self.error: BaseException | None = None
        self._listening = listening

    def note(self, event: Event) -> None:
        """Take note of what the drive has come to."""
        if isinstance(event, RunStarted) and event.run_id not in self.runs:
            self.runs.append(event.run_id)
        elif isinstance(event, RunEnded):
            self.ends[event.run_id] = event

    def wake(self) -> None:
        """Have those look who listen to what it drives."""
        for run_id in self.runs:
            self._listening.wake(self._listening.reader.run(run_id).run)


class RunListener:
    """
    One who listens to a run, and where in it.

    Args:
        listening: Of the journal.
        run_id: The run, or an unambiguous prefix of its id.
        after: Number of the row before the first one that is wanted; None for all, with `RunStarted` before them.
        waker: What is woken.
        drive: To listen to what one drive does, and to its end; by default to the end of the run, whoever drives it.

    Attributes:
        is_over: Whether nothing comes any more.
        is_idle: Whether there is nothing now, so that it may wait to be woken, at most *wait_s* seconds.

    Raises:
        UnknownRun: There is no such run.
    """

    def __init__(
        self,
        listening: Listening,
        run_id: str,
        after: int | None,
        waker: Waker,
        drive: BackgroundDrive | None = None,
    ) -> None:
        self._listening, self._waker, self._drive = listening, waker, drive
        self.is_over = self.is_idle = False
        self.wait_s: float | None = None
        self._ended: str | None = None
        self._begin(listening.reader.run(run_id), -1 if after is None else after)
        self._first: tuple[Event, ...] = () if drive is None else (drive.started,)
        if after is None:
            self._first = (self._started(),)

    def _begin(self, row: RunRow, after: int) -> None:
        self._row, self._at = row, min(after, row.head_seq)
        self._feed, self._place = self._listening.join(row, self._waker)
        self._recorded: RecordedRows | None = None
        self._is_behind = True
        if row.status in ("done", "failed") and self._at == row.head_seq:
            self._ended = row.run_id

    def quit(self) -> None:
        """Listen no more."""
        self._listening.quit(self._row, self._waker)

    @property
    def pace_s(self) -> float:
        """How long to let what is new gather, in seconds."""
        return PACE_S if len(self._feed.listeners) > MANY else 0.0

    def kept(self) -> list[Event] | None:
        """Return what there is now, which may be nothing; None where it is to be `read`."""
        self.is_idle = False
        if self._listening.is_closed:
            self.is_over = True
            return []
        if self._is_behind or self._first or self._feed.error is not None:
            return None
        missed = self._missed()
        rows, said, self._place = self._listening.news(self._feed, self._at, self._place)
        if rows is None:
            self._is_behind = True
            return None
        events = [*missed, *self._merged(rows, said)]
        if not events and self._is_done():
            return None
        self.is_idle = not events
        return events

    def read(self) -> list[Event]:
        """Return what comes next of what is in the journal, and the end; may wait for the journal."""
        try:
            return self._read()
        except PaorError:
            if not self._listening.is_closed:
                raise
            self.is_over = True  # the journal was closed while it was read
            return []

    def _read(self) -> list[Event]:
        if self._first:
            events, self._first = list(self._first), ()
            return events
        if self._feed.error is not None:
            raise self._feed.error
        is_done = self._is_done()  # before the rows are read: then there is none after them
        if self._recorded is None or self._recorded.at != self._at:
            self._recorded = RecordedRows(self._listening.reader, self._listening.leases, self._row, self._at)
        rows, is_held = self._recorded.read(BATCH)
        missed = self._missed()
        if rows:
            said, self._place = self._listening.said(self._feed, self._place, rows[-1][0])
            return [*missed, *self._merged(rows, said)]
        self._is_behind = is_held
        self.wait_s = AGAIN_S if is_held else (None if self._drive is None else 1.0)
        events = [*missed, *(self._end() if is_done and not is_held else ())]
        self.is_idle = (
            self._is_behind and not events
        )  # else what is kept is looked at first: of that nobody wakes it again
        return events

    def _missed(self) -> list[Event]:
        """Return the notice of what was dropped before this listener took it."""
        count = self._feed.speech.start - self._place
        if count <= 0:
            return []
        self._place += count
        words = f"{count} characters of provisional text were dropped before they were taken"
        return [ModelNotice(self._row.run_id, self._at + 1, "", "missed", "slow", words, 0, 0)]

    def _merged(self, rows: Sequence[tuple[int, Told]], said: list[Any]) -> list[Event]:
        """Return rows and what was said, each piece before the row that holds the whole reply."""
        events: list[Event] = []
        pieces = iter(said)
        piece = next(pieces, None)
        for seq, told in rows:
            while piece is not None and piece.seq <= seq:
                events.append(piece)
                piece = next(pieces, None)
            events += told
            self._at = seq
            first = told[0]
            if isinstance(first, TransitionTaken) and first.dest in FINAL:
                self._ended = self._row.run_id
        events += [piece, *pieces] if piece is not None else []
        return events

    def _is_done(self) -> bool:
        """Return whether nothing comes any more of this run, as far as this listener is concerned."""
        if self._drive is not None:
            return self._drive.is_over or self._row.run_id in self._drive.ends
        return self._ended == self._row.run_id

    def _end(self) -> list[Event]:
        """Return the end of a run; then listen to the one that stands in for it, if there is one."""
        run_id, drive = self._row.run_id, self._drive
        if drive is not None:
            return self._end_of_drive(drive, run_id)
        reader = self._listening.reader
        other = stand_in(reader, run_id) if self._row_now().status == "failed" else run_id
        if other == run_id and is_owed(reader, restore_run(reader, run_id)[0]):
            self.wait_s, self._is_behind = AGAIN_S, True
            return []
        end = RunEnded(run_id, self._at, result_now(reader, run_id))
        if other == run_id:
            self.is_over = True
            return [end]
        return [end, self._go_on(other)]

    def _end_of_drive(self, drive: BackgroundDrive, run_id: str) -> list[Event]:
        at = drive.runs.index(run_id) + 1
        end = drive.ends.get(run_id)
        if at == len(drive.runs) and not drive.is_over:
            self._is_behind = True
            return []  # perhaps another run stands in for it
        if drive.error is not None and end is None:
            raise drive.error
        if end is None:  # it was left where its journal ends
            end = RunEnded(run_id, self._at, result_now(self._listening.reader, run_id))
        if at == len(drive.runs):
            self.is_over = True
            return [end]
        return [end, self._go_on(drive.runs[at])]

    def _go_on(self, run_id: str) -> RunStarted:
        self.quit()
        self._begin(self._listening.reader.run(run_id), -1)
        return self._started()

    def _started(self) -> RunStarted:
        objective = ""
        with suppress(Erased):
            objective = self._listening.reader.spec(self._row.run_id).objective
        return RunStarted(self._row.run_id, objective, False)

    def _row_now(self) -> RunRow:
        return self._listening.reader.run(self._row.run_id)


def checked_after(after: object) -> int | None:
    """Return the number of a row as a listener gives it; raise `UsageError` for anything else."""
    if after is not None and (type(after) is not int or after < -1):
        raise UsageError(f"after {after!a:.60}: expected the number of a row, such as the seq of an event")
    return after


def listen(
    listening: Listening, run_id: str, after: int | None, drive: BackgroundDrive | None = None
) -> Generator[Event, None, None]:
    """Yield what happens in a run, in the thread that reads; see `RunListener`."""
    waker = ThreadWaker()
    listener = RunListener(listening, run_id, after, waker, drive)
    try:
        while not listener.is_over:
            events = listener.kept()
            if events is None:
                events = listener.read()
            yield from events
            if not events and listener.is_idle:
                waker.wait(listener.wait_s)
                time.sleep(listener.pace_s)  # not for an event: so that more of them come at once
    finally:
        listener.quit()


async def each(batches: AsyncGenerator[list[Event], None]) -> AsyncGenerator[Event, None]:
    """Yield the events of batches, such as `abatches` yields, one by one."""
    async with aclosing(batches):
        async for events in batches:
            for event in events:
                yield event


async def abatches(
    listening: Listening,
    run_id: str,
    after: int | None,
    drive: BackgroundDrive | None = None,
    ready: Callable[[], None] | None = None,
    beat_s: float | None = None,
) -> AsyncGenerator[list[Event], None]:
    """
    Do the same as `listen` on the running event loop, and yield the events that are there together.

    Args:
        listening: See `RunListener`.
        run_id: See `RunListener`.
        after: See `RunListener`.
        drive: See `RunListener`.
        ready: Called as soon as nothing can be missed.
        beat_s: An empty list is yielded where nothing has happened for so many seconds; None for never.
    """
    waker = LoopWaker()
    listener = RunListener(listening, run_id, after, waker, drive)
    try:
        if ready is not None:
            ready()
        while not listener.is_over:
            events = listener.kept()
            if events is None:
                events = await asyncio.to_thread(listener.read)
            if events:
                yield events
            elif listener.is_idle:
                waits = [seconds for seconds in (listener.wait_s, beat_s) if seconds is not None]
                if not await waker.wait(min(waits, default=None)) and beat_s == min(waits):
                    yield []
                await asyncio.sleep(listener.pace_s)  # as in `listen`
    finally:
        listener.quit()
