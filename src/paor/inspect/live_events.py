"""
Server-sent events: what is new in the journal, told to all who listen.

The listeners of the journal (`fsm.lifecycle.listening`) wake a client when its run has a new row, or the index has changed. A client has nothing
but a place, and reads what comes after it from the views; one that takes nothing for `SEND_S` is let go: none costs memory, and none
waits for another.

After each look the newest row that readers see is compared with the one in the file: who listens is sent ``behind`` once they see less, and once
they see all again.

An event of a run has the number of its row as id, one of the index a number that grows, so a client that comes again gets what it has missed.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..fsm.journal.backend import NEWEST_ROW, ChangeWatch
from ..fsm.journal.feeds import Feed, LoopWaker
from ..fsm.journal.rows import RunRow
from ..fsm.lifecycle.listening import Listening
from ..fsm.runtime.channel import RunFeed, size_of
from ..fsm.runtime.events import ModelText
from ..fsm.runtime.logs import LOGGER
from ..states.base.errors import JournalBusy, PaorError
from ..states.base.secrets import Scrubber, StreamScrubber
from .views import ENDED, Changes, Views, json_bytes

HEARTBEAT_S = 15.0
"""Seconds after which a client that nothing is new for gets a comment, so that what lies between keeps the connection."""

SEND_S = 30.0
"""Seconds that a client may take for what it is sent."""

_STAYS = frozenset(("objective", "key", "metadata"))
"""What of a run's line no row changes, and may be long."""

PROBLEMS_MAX = 256
"""Runs of which it is kept why they could not go on."""

BATCH = 200
"""Rows that a client is sent at once."""

BUSY_S = 1.0
"""Seconds after which a run is read again that could not be read now."""

NEWEST = 200
"""Runs that a client of the index is told of when it is not known what it has."""

CLIENTS_MAX = 256
"""Clients that may listen at once."""

RETRY_MS = 1000
"""Milliseconds after which a browser connects again."""

Told = tuple[int, bytes]
"""The number of an event, and its bytes."""


class Listener(LoopWaker):
    """
    One client: woken, in its own event loop, when there may be something new for it.

    Attributes:
        told_behind: Whether it was last told that readers see less than the journal holds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.told_behind = False


class RunProblem(NamedTuple):
    """
    Why a run could not go on.

    Attributes:
        number: Of all problems, from 1.
        head: Number of the run's newest row then.
        message: For people.
    """

    number: int
    head: int
    message: str


class Hub:
    """
    What tells all who listen; the listeners of the journal wake it.

    Args:
        views: What is told of the journal.
        pool: Threads that read for single clients.
        checker: Thread that checks runs that have ended.
        listening: Of the journal that is read.
        driving: Of the journal that was given: drivers of this process report there what their models write.
        scrub: Takes the keys of the environment out of a text.
    """

    def __init__(
        self,
        views: Views,
        pool: Executor,
        checker: Executor,
        listening: Listening,
        driving: Listening,
        scrub: Scrubber,
    ) -> None:
        self.views, self.pool, self.checker = views, pool, checker
        self.driving, self.scrub = driving, scrub
        self.epoch = secrets.token_hex(4)
        self._listening, self._lock = listening, threading.Lock()
        self._listeners: set[Listener] = set()
        self._index = Feed[bytes](0)
        self._changes: Changes | None = None
        self._changed: list[str] = []
        self._clients = self._erasures = self._count = 0
        self.problems: dict[str, RunProblem] = {}
        self.is_behind = self._is_closing = False

    def enter(self) -> bool:
        """Count one client more and return True, if one more may listen; who was counted has to `leave`."""
        with self._lock:
            if self._clients >= CLIENTS_MAX:
                return False
            self._clients += 1
            return True

    def leave(self) -> None:
        """Count one client less."""
        with self._lock:
            self._clients -= 1

    def is_closing(self) -> bool:
        """Return whether all streams end."""
        return self._is_closing or self._listening.is_closed

    def close(self) -> None:
        """End all streams."""
        self._is_closing = True
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            for listener in self._listeners:
                listener.wake()

    @contextmanager
    def hearing(self, row: RunRow | None = None) -> Iterator[tuple[Feed[Any], Listener]]:
        """Listen to a run, as it was just now, or to the index, for as long as the block runs."""
        listener, feed = Listener(), self._index
        with self._lock:
            self._listeners.add(listener)
            self._listening.also(self._look)
            if row is None:
                feed.listeners.add(listener)
        heard: Feed[Any] = feed if row is None else self._listening.join(row, listener)[0]
        try:
            yield heard, listener
        finally:
            if row is not None:
                self._listening.quit(row, listener)
            with self._lock:
                feed.listeners.discard(listener)
                self._listeners.discard(listener)
                if not self._listeners:
                    self._listening.no_longer(self._look)

    def forget_erased(self) -> None:
        """Keep nothing that was told before something was erased; called in a thread, since it reads, and before anything kept is told."""
        erasures = self.views.erasures()
        with self._lock:
            if erasures != self._erasures:
                self._erasures = erasures
                self._index.kept = ()

    def position(self) -> str:
        """
        Return the id of the last event of the index.

        Whatever changes from now on is in a later one, so who asks and then reads the index misses nothing. Called in a thread, since
        it reads.
        """
        changes = Changes(self.views.reader) if self._changes is None else None
        with self._lock:
            self._changes = self._changes or changes
            return f"{self.epoch}-{self._index.last}"

    def problem(self, run_id: str, message: str) -> None:
        """
        Tell all who listen that a run could not go on, and who comes later, as long as it has no new row.

        Called in a thread, since it reads.
        """
        head = self.views.reader.run(run_id).head_seq
        self.problems.pop(run_id, None)
        self._count += 1
        self.problems[run_id] = RunProblem(self._count, head, message)
        while len(self.problems) > PROBLEMS_MAX:
            del self.problems[next(iter(self.problems))]
        self._wake()

    # -- looking ---------------------------------------------------------------------------------------------------

    def _look(self, watch: ChangeWatch) -> bool:
        """Tell what is new; return whether readers see less than the file holds, so that it is to be looked again."""
        self._tell_index()
        newest, was = watch.newest(), self.is_behind
        self.is_behind = int(self.views.reader.query(NEWEST_ROW)[0][0]) < newest
        if self.is_behind and not was:
            LOGGER.warning("paor inspect: what is shown is older than the journal; restart it")
        if self.is_behind != was:
            self._wake()
        return self.is_behind

    def _tell_index(self) -> None:
        self.forget_erased()  # before reading: what is erased from here on is noticed the next time
        if self._changes is None or not self._index.listeners:
            return
        self._changed += self._changes.look()  # kept until they are told: reading them may fail
        if self._changed:
            number = self._index.last + 1
            told = number, self.index_event(dict.fromkeys(self._changed), number)
            self._changed = []
            with self._lock:
                self._index.tell([told])

    def rows(self, run_id: str, after: int) -> tuple[list[Told], bool]:
        """Return the next rows of a run as events, and whether it ends with them; called in a thread, since it reads."""
        try:
            row = self.views.reader.run(run_id)
            events = self.told(run_id, self.views.entries(run_id, after + 1, BATCH))
        except JournalBusy:
            raise
        except Exception as error:
            LOGGER.warning("run %s: cannot be shown: %s", run_id, error)
            raise
        at = events[-1][0] if events else after
        return events, row.status in ENDED and at >= row.head_seq

    def told(self, run_id: str, rows: Sequence[Mapping[str, Any]]) -> list[Told]:
        """Return rows of a run's story as events, each with what it may have changed in the run's line."""
        line = self.views.line(run_id) if rows else {}
        line = {name: value for name, value in line.items() if name not in _STAYS}
        return [(row["seq"], event("row", {"row": row, "line": line}, str(row["seq"]))) for row in rows]

    def index_event(self, run_ids: Iterable[str], number: int) -> bytes:
        """Return the lines of runs, and all that waits for a person, as an event."""
        lines = [_unless_damaged(f"run {run_id}", self.views.line, run_id) for run_id in run_ids]
        data = {"runs": [line for line in lines if line is not None]}
        waits = _unless_damaged("what waits", self.views.waits)
        return event("runs", data if waits is None else data | {"waits": waits}, f"{self.epoch}-{number}")


def _unless_damaged(what: str, read: Callable[..., Any], *arguments: Any) -> Any:
    """Return what is read, None where that cannot be: one run that is damaged is no reason to hide the others."""
    try:
        return read(*arguments)
    except JournalBusy:
        raise
    except Exception as error:  # noqa: BLE001 - what a damaged journal does to readers must not end the thread
        LOGGER.warning("%s: cannot be shown: %s", what, error)
        return None


async def run_events(hub: Hub, run_id: str, after: int) -> AsyncIterator[bytes]:
    """Yield the events of one run after row *after*, and its end."""
    read: Callable[..., Any] = partial(asyncio.get_running_loop().run_in_executor, hub.pool)
    row = await read(hub.views.reader.run, run_id)
    with hub.hearing(row) as (feed, listener), closing(Words(hub, row, listener)) as words:
        at, known = after, hub.problems.get(run_id)
        seen = known.number if known is not None and known.head != row.head_seq else 0
        while not hub.is_closing():
            words.join()  # before the rows are read, since a driver that nobody hears asks for no stream
            last, error = max(at, feed.last), feed.error  # before reading: what comes from here on is new
            try:
                events, ended = await read(hub.rows, run_id, at)
            except JournalBusy:  # of the file, not of this run
                yield b":\n\n"
                await asyncio.sleep(BUSY_S)
                continue
            for number, data in events:
                yield data
                at = number
            known = hub.problems.get(run_id)
            if known is not None and known.number > seen:
                seen = known.number
                yield event("problem", {"error": known.message})
            if ended:
                async for beat in _checked(hub, listener, run_id):
                    yield beat
                yield event("end", {"line": await read(hub.views.line, run_id)})
                return

            def is_new(last: int = last, error: Exception | None = error, seen: int = seen) -> bool:
                problem = hub.problems.get(run_id)
                is_problem = problem is not None and problem.number > seen
                return feed.last > last or feed.error is not error or is_problem

            if not events:
                async for beat in _beats(hub, listener, is_new, partial(words.news, at)):
                    yield beat


class _Ear:
    """What wakes a listener of its own: to stop hearing words is not to stop hearing rows, where both are of one journal."""

    def __init__(self, listener: Listener) -> None:
        self.wake = listener.wake


class Words:
    """
    The words of a model before their row is committed, for one listener; a run that another process drives has none.

    The last characters of a text wait for those that follow as long as a key may begin in them.

    Args:
        hub: Of the page.
        row: The run.
        listener: Woken by each piece.
    """

    def __init__(self, hub: Hub, row: RunRow, listener: Listener) -> None:
        self._hub, self._row, self._listener = hub, row, _Ear(listener)
        self._feed: RunFeed | None = None
        self._place = 0
        self._reply: tuple[str, int] | None = None
        self._shown = StreamScrubber(hub.scrub)

    def join(self) -> None:
        """Listen to the driver of the run, if this process has one."""
        if self._feed is None or not self._feed.drivers:
            self.close()
            self._feed, self._place = self._hub.driving.overhear(self._row, self._listener), 0

    def close(self) -> None:
        """Listen no more."""
        if self._feed is not None:
            self._hub.driving.quit(self._row, self._listener)
            self._feed = None

    def news(self, after: int) -> Iterator[bytes]:
        """Yield the pieces since the last call for the row after number *after*; ``anew`` marks the first piece of a reply."""
        if self._feed is None:
            return
        # not before the rows before it
        said, place = self._hub.driving.said(self._feed, self._place, after + 1)
        # what came between was dropped before it was read, and may have begun a key
        is_gap, self._place = place - sum(map(size_of, said)) > self._place, place
        if is_gap:
            self._reply = None
        for piece in said:
            was_gap, is_gap = is_gap, False
            if piece.seq <= after:
                continue
            if not isinstance(piece, ModelText):  # a notice: what comes after it begins again
                self._reply = None
                yield event("said", {"text": f"({self._hub.scrub(piece.text)})", "anew": True})
                continue
            begins = self._reply != (piece.request, piece.seq)
            if begins:
                self._reply, self._shown = (piece.request, piece.seq), StreamScrubber(self._hub.scrub)
            text = self._shown.feed(piece.text)
            yield event("said", {"text": "…" if was_gap else text, "anew": begins})
        if not self._feed.drivers:  # else the journal of the host would be looked at for its rows
            self.close()


async def _checked(hub: Hub, listener: Listener, run_id: str) -> AsyncIterator[bytes]:
    """Yield comments until a run that has ended was checked: who hears of its end loads it again, with what was found."""
    checking = asyncio.get_running_loop().run_in_executor(hub.checker, hub.views.check, run_id)
    checking.add_done_callback(lambda _: listener.wake())
    while not checking.done() and not hub.is_closing():
        if not await listener.wait(HEARTBEAT_S):
            yield b":\n\n"
    if checking.done() and (error := checking.exception()) is not None:
        LOGGER.warning("run %s: cannot be checked: %s", run_id, error)


async def index_events(hub: Hub, last: str) -> AsyncIterator[bytes]:
    """Yield what changes in the index; *last* is the id of the last event that the client has, if any."""
    read: Callable[..., Any] = partial(asyncio.get_running_loop().run_in_executor, hub.pool)
    await read(hub.position)
    epoch, _, number = last.partition("-")
    at = (
        int(number)
        if epoch == hub.epoch and number.isascii() and number.isdecimal() and len(number) < 16
        else -1
    )
    with hub.hearing() as (feed, listener):
        await read(hub.forget_erased)
        while not hub.is_closing():
            behind = feed.after(at) if 0 <= at <= feed.last else None
            if behind is None:  # a stranger's number, or so many have changed meanwhile that not all are kept
                at = feed.last
                yield await read(hub.index_event, await read(hub.views.newest, NEWEST), at)
            for number_of, data in behind or ():
                yield data
                at = number_of
            async for beat in _beats(hub, listener, partial(feed.is_after, at)):
                yield beat


async def _beats(
    hub: Hub,
    listener: Listener,
    is_new: Callable[[], bool],
    said: Callable[[], Iterable[bytes]] = tuple,
) -> AsyncIterator[bytes]:
    """
    Yield a comment now and then until something is new.

    Meanwhile the events of *said*, and ``behind`` each time that it changes.
    """
    while not hub.is_closing():
        for data in said():
            yield data
        if hub.is_behind != listener.told_behind:
            listener.told_behind = hub.is_behind
            yield event("behind", {"behind": listener.told_behind})
            if not listener.told_behind:
                return  # what could not be seen is read
        if is_new():
            return
        if not await listener.wait(HEARTBEAT_S):
            yield b":\n\n"


def event(name: str, data: object, id: str | None = None) -> bytes:
    """Return an event; its data are JSON in ASCII, so no line break can end it early."""
    head = f"id: {id}\n" if id is not None else ""
    return f"{head}event: {name}\ndata: ".encode() + json_bytes(data) + b"\n\n"


class _Away(Exception):
    """The client has gone, or takes nothing any more."""


class EventStream(Response):
    """
    A stream of events that ends with its client, or when that takes nothing any more.

    Args:
        events: What is sent.
        line: Makes one line of an error.
        left: Called when the stream has ended.
        head: Whether only the headers are wanted.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[bytes],
        line: Callable[[str], str],
        left: Callable[[], object],
        *,
        head: bool = False,
    ) -> None:
        super().__init__(None, headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events, self._line, self._left, self._head = events, line, left, head

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end or the client has gone."""
        try:
            await self._serve(receive, send)
        finally:
            self._left()

    async def _serve(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if self._head:
            await send({"type": "http.response.body", "body": b""})
            return
        sending = asyncio.create_task(self._send_all(send))
        gone = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)
            close = getattr(self._events, "aclose", None)
            if close is not None:
                await close()

    async def _send_all(self, send: Send) -> None:
        with suppress(_Away):
            await _send(send, f"retry: {RETRY_MS}\n\n".encode())
            try:
                async for data in self._events:
                    await _send(send, data)
            except PaorError as error:
                await _send(send, event("problem", {"error": self._line(str(error))}))
            except _Away:
                raise
            except Exception as error:  # noqa: BLE001 - a bug: the client comes again, and it is known here
                LOGGER.exception("paor inspect: a stream has ended")
                text = f"{type(error).__name__}: see the log of the server"
                await _send(send, event("problem", {"error": text}))
            await _send(send, b"", more=False)


async def _send(send: Send, data: bytes, *, more: bool = True) -> None:
    """
    Send a piece of a stream.

    Raises:
        _Away: The client does not take it.
    """
    try:
        await asyncio.wait_for(send({"type": "http.response.body", "body": data, "more_body": more}), SEND_S)
    except (TimeoutError, OSError):
        raise _Away from None


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
