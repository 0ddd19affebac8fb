"""
Server-sent events: what is new in the journal, told to all who listen.

One thread looks at the file for everybody, and only while somebody listens. What is new is read and encoded once and kept for a while; a
client has nothing but a place in it. One that is slow falls behind and reads the rows from the journal again, one that takes nothing for
`SEND_S` is let go: neither costs memory, and none waits for another.

An event of a run has the number of its row as id, one of the index a number that grows, so a client that comes again gets what it has missed.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..fsm.runtime.logs import LOGGER
from ..states.base.errors import PaorError
from .views import Changes, Views, json_bytes
from .watching import JournalWatch

LOOK_S = 0.025
"""Seconds between two looks at the file: a tenth of what a person would notice."""

HEARTBEAT_S = 15.0
"""Seconds after which a client that nothing is new for gets a comment, so that what lies between keeps the connection."""

SEND_S = 30.0
"""Seconds that a client may take for what it is sent."""

KEPT = 1024
"""Events of a run that are kept for those who listen."""

BATCH = 200
"""Rows that a client is sent at once."""

CLIENTS_MAX = 256
"""Clients that may listen at once."""

RETRY_MS = 1000
"""Milliseconds after which a browser connects again."""

Told = tuple[int, bytes]
"""The number of an event, and its bytes."""


class Listener:
    """One client: woken, in its own event loop, when there may be something new for it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Wake it, from any thread."""
        with suppress(RuntimeError):  # its loop has been closed
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: float) -> bool:
        """Return whether it was woken within *seconds*."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Feed:
    """What is told to all who listen to one run, or to the index: the newest events, and who listens."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.kept: deque[Told] = deque(maxlen=KEPT)
        self.listeners: set[Listener] = set()
        self.gone: str = ""

    def tell(self, events: Iterable[Told]) -> None:
        """Keep events and wake all who listen."""
        self.kept.extend(events)
        self.last = self.kept[-1][0] if self.kept else self.last
        for listener in self.listeners:
            listener.wake()

    def after(self, number: int) -> list[bytes] | None:
        """Return the events after one of them; None when not all of them are kept."""
        if number >= self.last:
            return []
        if not self.kept or self.kept[0][0] > number + 1:
            return None
        return [event for at, event in self.kept if at > number]


class Hub:
    """
    What looks at the journal for all who listen.

    Args:
        views: What is told of it.
        pool: Threads that read for single clients.
    """

    def __init__(self, views: Views, pool: Executor) -> None:
        self.views, self.pool = views, pool
        self.epoch = secrets.token_hex(4)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._feeds: dict[str, Feed] = {}
        self._index = Feed(0)
        self._changes: Changes | None = None
        self._thread: threading.Thread | None = None
        self._clients = 0

    @property
    def is_full(self) -> bool:
        """Whether as many clients listen as may."""
        return self._clients >= CLIENTS_MAX

    def is_closing(self) -> bool:
        """Return whether all streams end."""
        return self._stop.is_set()

    def close(self) -> None:
        """End all streams and the thread."""
        self._stop.set()
        with self._lock:
            for feed in (*self._feeds.values(), self._index):
                for listener in feed.listeners:
                    listener.wake()

    @contextmanager
    def listening(self, feed: Feed) -> Iterator[Listener]:
        """Listen to a feed for as long as the block runs."""
        listener = Listener()
        with self._lock:
            feed.listeners.add(listener)
            self._clients += 1
            if self._thread is None and not self.is_closing():
                self._thread = threading.Thread(target=self._look_on, name="paor-inspect-watch", daemon=True)
                self._thread.start()
        try:
            yield listener
        finally:
            with self._lock:
                feed.listeners.discard(listener)
                self._clients -= 1

    def feed(self, run_id: str) -> Feed:
        """Return the feed of a run; called in a thread, since it reads."""
        head = self.views.head(run_id)
        with self._lock:
            return self._feeds.setdefault(run_id, Feed(head))

    def index(self) -> Feed:
        """Return the feed of all runs; called in a thread, since it reads."""
        with self._lock:
            if self._changes is None:
                self._changes = Changes(self.views.reader)
            return self._index

    def problem(self, run_id: str, message: str) -> None:
        """Tell all who listen that a run could not go on."""
        with self._lock:
            feed = self._feeds.get(run_id)
            if feed is not None:
                feed.gone = message
                for listener in feed.listeners:
                    listener.wake()

    # -- looking ---------------------------------------------------------------------------------------------------

    def _look_on(self) -> None:
        watch = JournalWatch(self.views.reader)
        try:
            while not self._stop.wait(LOOK_S):
                if self._is_unheard():
                    return
                if not watch.changed():
                    continue
                try:
                    self._tell()
                except PaorError as error:
                    LOGGER.warning("paor inspect: the journal cannot be read now: %s", error)
                    watch.close()
        finally:
            watch.close()

    def _is_unheard(self) -> bool:
        """Return whether nobody listens any more, so that the thread ends; decided under the lock in which one is begun."""
        with self._lock:
            self._feeds = {run_id: feed for run_id, feed in self._feeds.items() if feed.listeners}
            if self._feeds or self._index.listeners:
                return False
            self._thread = None
            return True

    def _tell(self) -> None:
        with self._lock:
            feeds = list(self._feeds.items())
        for run_id, feed in feeds:
            if self.views.head(run_id) > feed.last:
                events = list(self.rows(run_id, feed.last + 1))
                with self._lock:
                    feed.tell(events)
        if self._changes is not None and self._index.listeners:
            changed = self._changes.look()
            if changed:
                event = self.index_event(changed, self._index.last + 1)
                with self._lock:
                    self._index.tell([(self._index.last + 1, event)])

    def rows(self, run_id: str, first: int) -> Iterator[Told]:
        """Yield the rows of a run from number *first* on as events."""
        entries = self.views.entries(run_id, first)
        line = self.views.line(run_id) if entries else {}
        for entry in entries:
            yield entry["seq"], event("row", {**entry, "line": line}, str(entry["seq"]))

    def index_event(self, run_ids: Iterable[str], number: int) -> bytes:
        """Return the lines of runs, and all that waits for a person, as an event."""
        lines = []
        for run_id in run_ids:
            with suppress(PaorError):  # one that cannot be read any more is no reason to hide the others
                lines.append(self.views.line(run_id))
        data = {"runs": lines, "waits": list(self.views.waits())}
        return event("runs", data, f"{self.epoch}-{number}")


async def run_events(hub: Hub, run_id: str, after: int) -> AsyncIterator[bytes]:
    """Yield the events of one run after row *after*, and its end."""
    read = partial(asyncio.get_running_loop().run_in_executor, hub.pool)
    feed = await read(hub.feed, run_id)
    at, told = after, ""
    with hub.listening(feed) as listener:
        fresh = await read(_rows_of, hub, run_id, at)
        while not hub.is_closing():
            for seq, data in fresh:
                at = seq
                yield data
            if feed.gone != told and (told := feed.gone):
                yield event("problem", {"error": told})
            behind = feed.after(at)
            if behind is None:
                fresh = await read(_rows_of, hub, run_id, at)
                continue
            for number, data in enumerate(behind, at + 1):
                at = number
                yield data
            fresh = []
            line = await read(hub.views.line, run_id)
            if line["status"] in ("done", "failed") and at >= await read(hub.views.head, run_id):
                yield event("end", {"line": line})
                return
            while not await listener.wait(HEARTBEAT_S):
                yield b":\n\n"
                if hub.is_closing():
                    return


def _rows_of(hub: Hub, run_id: str, after: int) -> list[Told]:
    return list(hub.rows(run_id, after + 1))


async def index_events(hub: Hub, last: str) -> AsyncIterator[bytes]:
    """Yield what changes in the index; *last* is the id of the last event that the client has, if any."""
    read: Callable[..., Any] = partial(asyncio.get_running_loop().run_in_executor, hub.pool)
    feed = await read(hub.index)
    epoch, _, number = last.partition("-")
    at = int(number) if epoch == hub.epoch and number.isdecimal() and len(number) < 16 else None
    with hub.listening(feed) as listener:
        if at is None or feed.after(at) is None:
            few, at = at is None and not last, feed.last
            yield await read(hub.index_event, await read(_newest, hub.views, few), at)
        while not hub.is_closing():
            behind = feed.after(at)
            if behind is None:  # so many have changed meanwhile that not all are known
                at = feed.last
                behind = []
                yield await read(hub.index_event, await read(_newest, hub.views, False), at)
            for data in behind:
                at += 1
                yield data
            while not await listener.wait(HEARTBEAT_S):
                yield b":\n\n"
                if hub.is_closing():
                    return


def _newest(views: Views, few: bool) -> list[str]:
    """Return runs that may have changed: for who has just loaded the index *few* of them, those of the last moments."""
    return views.newest(20 if few else 200)


def event(name: str, data: object, id: str | None = None) -> bytes:
    """Return an event; its data are JSON in ASCII, so no line break can end it early."""
    head = f"id: {id}\n" if id is not None else ""
    return f"{head}event: {name}\ndata: ".encode() + json_bytes(data) + b"\n\n"


class EventStream(Response):
    """
    A stream of events that ends with its client, or when that takes nothing any more.

    Args:
        events: What is sent.
        head: Whether only the headers are wanted.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], *, head: bool = False) -> None:
        super().__init__(None, headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events, self._head = events, head

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end or the client has gone."""
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
        await _send(send, f"retry: {RETRY_MS}\n\n".encode())
        try:
            async for data in self._events:
                await _send(send, data)
        except PaorError as error:
            await _send(send, event("problem", {"error": " ".join(str(error).split())[:400]}))
        await send({"type": "http.response.body", "body": b""})


async def _send(send: Send, data: bytes) -> None:
    await asyncio.wait_for(send({"type": "http.response.body", "body": data, "more_body": True}), SEND_S)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
