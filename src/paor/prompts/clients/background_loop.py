"""
Requests of sync drivers that can be cancelled: a task on a background event loop, for which the caller's thread waits.

A thread that waits for a socket cannot be stopped, a task can. So a sync driver's request is made as a task, and the
thread that waits asks now and then whether the run is cancelled; then it cancels the task, which closes the connection.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from ..model import AsyncModel, CallStopped, Model, ModelCall, Reply, SyncModel

POLL_S = 0.1
"""Seconds between two looks."""

T = TypeVar("T")


class LoopThread:
    """
    An event loop in a thread of its own, begun with the first use, and again in a forked process.

    Attributes:
        loop: The one that was begun last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def wait(self, work: Coroutine[Any, Any, T], is_cancelled: Callable[[], bool]) -> T:
        """
        Return what *work* comes to.

        Args:
            work: Runs on the loop.
            is_cancelled: Asked from this thread every tenth of a second; what it raises ends the work, too.

        Raises:
            CallStopped: *is_cancelled* was true; *work* has ended before.
        """
        loop, ended = self._running(), threading.Event()
        begun: list[asyncio.Task[T]] = []

        def begin() -> None:
            begun.append(loop.create_task(work))
            begun[0].add_done_callback(lambda _: ended.set())

        loop.call_soon_threadsafe(begin)
        try:
            while not ended.wait(POLL_S):
                if is_cancelled():
                    raise CallStopped("the run is cancelled")
        finally:
            if not ended.is_set():
                loop.call_soon_threadsafe(lambda: begun[0].cancel())
                ended.wait()
        return begun[0].result()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self.loop is None or self._pid != os.getpid():
                self.loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self.loop.run_forever, name="paor-exchange", daemon=True).start()
            return self.loop


BACKGROUND = LoopThread()
"""The one of this process: exchanges of all models share it."""


def stops(model: Model) -> bool:
    """Return whether a request of a sync driver gives up when `ModelCall.is_cancelled` is true."""
    return bool(getattr(model, "stops", False)) or not hasattr(model, "ask")


def ask(model: Model, call: ModelCall) -> Reply:
    """Return the answer of *model*; one that has ``aask`` alone is asked on an event loop in a separate thread."""
    if hasattr(model, "ask"):
        return cast("SyncModel", model).ask(call)

    return BACKGROUND.wait(model.aask(call), call.is_cancelled or (lambda: False))


async def aask(model: Model, call: ModelCall) -> Reply:
    """Return the answer of *model*; one that has ``ask`` alone is asked in a separate thread."""
    if hasattr(model, "aask"):
        return await cast("AsyncModel", model).aask(call)
    return await asyncio.to_thread(model.ask, call)
