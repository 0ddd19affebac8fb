"""What every worker has: an engine, a name, a bound, a way to be told to stop, and the event that wakes it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ..fsm.engine import Engine
from ..states.base.errors import UsageError
from .driving import Options


class BaseWorker:
    """
    A worker over the queue of an engine's journal.

    Args:
        engine: What drives runs: its model, tools, limits and journal.
        concurrency: Runs at a time, from 1 to 1000.
        options: Called with each run; returns what `Engine.resume` takes beside the id, such as its connections.
        name: In the queue and in logs; by default host and process.

    Raises:
        UsageError: *concurrency* is out of range.
    """

    def __init__(self, engine: Engine, concurrency: int, options: Options | None, name: str | None) -> None:
        check_count("concurrency", concurrency)
        self.engine, self.concurrency = engine, concurrency
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._options = options
        self._runner = engine._runner
        self._queue = self._runner.queue
        self._journal = self._runner.journal
        self._draining = False
        self._wake: Callable[[], None] = _nothing

    def drain(self) -> None:
        """Take up no more, and leave every run after its current call; safe in a signal handler and from other threads."""
        self._draining = True
        self._wake()

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[asyncio.Event]:
        """Give an event that is set when a run may be ready, and by `drain`; whatever ends this, the worker drains."""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(woken.set)

        self._wake = wake
        await asyncio.to_thread(self._queue.prepare)
        end_listening = self._journal.backend.listen(wake)
        try:
            yield woken
        finally:
            self._draining, self._wake = True, _nothing
            end_listening()


def check_count(what: str, number: int) -> None:
    """Raise UsageError unless a number is a whole one from 1 to 1000."""
    if type(number) is not int or not 1 <= number <= 1000:
        raise UsageError(f"{what} {number!a:.60}: expected a whole number from 1 to 1000")


def _nothing() -> None:
    """Nobody is to be woken."""
