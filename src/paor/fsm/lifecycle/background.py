"""
Runs that are driven in the background: a thread each, or a task each of the event loop that started them.

Whoever starts one hears at once what is wrong with the start; from then on nobody has to listen. Closing leaves each run where its
journal ends, after its current call, so that nothing is in doubt and any process goes on with it.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import aclosing, suppress
from typing import Literal

from ...states.base.errors import PaorError, UsageError
from ..runtime.events import Event, RunStarted
from ..runtime.logs import LOGGER
from ..runtime.run_context import Leaves
from .listening import BackgroundDrive, Listening, abatches, each, listen
from .runner import Left

Events = Callable[[Leaves | None], Generator[Event, None, None]]
"""Drives a run, which it leaves when it is told to, and yields its events, the first of them once it is certain that it can."""

AsyncEvents = Callable[[Leaves | None], AsyncGenerator[Event, None]]

OnClose = Literal["detach", "stop"]
"""What becomes of a run whose events nobody reads any more."""


def on_close_of(given: OnClose) -> OnClose:
    """Return *given*; raise `UsageError` for anything but ``detach`` and ``stop``."""
    if given not in ("detach", "stop"):
        raise UsageError(f"on_close {given!a:.60}: expected detach or stop")
    return given


def _after(first: Event, rest: Iterator[Event]) -> Generator[Event, None, None]:
    yield first
    yield from rest


class Background:
    """
    The runs that one engine drives in the background.

    Args:
        listening: Who listens to them.
    """

    def __init__(self, listening: Listening) -> None:
        self._listening = listening
        self._changed = threading.Condition()
        self._drives: dict[BackgroundDrive, asyncio.AbstractEventLoop | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_draining = self._is_leaving = False

    @property
    def leaves(self) -> Leaves:
        """Whether runs are to be left after their current call."""
        return lambda: self._is_leaving

    # -- starting and streaming ------------------------------------------------------------------------------------

    def start(self, events: Events) -> str:
        """Begin a drive as `begin` does, have it go on, and return the id of its run."""
        drive, go = self.begin(events)
        go()
        return drive.started.run_id

    async def astart(self, events: AsyncEvents) -> str:
        """Do the same on the running event loop."""
        drive, go = await self.abegin(events)
        go()
        return drive.started.run_id

    def stream(self, events: Events, on_close: OnClose) -> Generator[Event, None, None]:
        """Return the events of a drive; see `on_close` of `fsm.engine.Engine.stream`."""
        if on_close_of(on_close) == "stop":
            return events(None)
        drive, go = self.begin(events)
        heard = listen(self._listening, drive.started.run_id, drive.started.seq, drive)
        first = next(heard)  # it listens before anything happens
        go()
        return _after(first, heard)

    async def astream(self, events: AsyncEvents, on_close: OnClose) -> AsyncGenerator[Event, None]:
        """Do the same on the running event loop; the drive begins when the first event is asked for."""
        if on_close == "stop":
            stream = events(None)
        else:
            drive, go = await self.abegin(events)
            started = drive.started
            stream = each(abatches(self._listening, started.run_id, started.seq, drive, go))
        async with aclosing(stream) as heard:
            async for event in heard:
                yield event

    def begin(self, events: Events) -> tuple[BackgroundDrive, Callable[[], None]]:
        """
        Begin a drive in this thread, up to its first event; what is wrong with it is raised here.

        Args:
            events: Drives, and yields its events.

        Returns:
            The drive, and what has a thread of its own go on with it.
        """
        self._check_open()
        stream = events(self.leaves)
        drive = self._begun(next(stream), None)

        def go() -> None:
            context = contextvars.copy_context()
            name = f"paor-run {drive.started.run_id}"
            try:
                threading.Thread(target=context.run, args=(self._drive, drive, stream), name=name).start()
            except BaseException:
                self._over(drive)
                stream.close()  # a generator, whose run is left
                raise

        return drive, go

    async def abegin(self, events: AsyncEvents) -> tuple[BackgroundDrive, Callable[[], None]]:
        """Do the same on the running event loop, which goes on with it as a task of its own."""
        self._check_open()
        stream = events(self.leaves)
        drive = self._begun(await anext(stream), asyncio.get_running_loop())

        def go() -> None:
            task = asyncio.get_running_loop().create_task(
                self._adrive(drive, stream), name=f"paor-run {drive.started.run_id}"
            )
            self._tasks.add(task)  # the event loop itself keeps no task alive
            task.add_done_callback(self._tasks.discard)

        return drive, go

    def _check_open(self) -> None:
        if self._is_draining:
            raise UsageError("this engine has been drained or closed, and starts no more runs")

    def _begun(self, first: Event, loop: asyncio.AbstractEventLoop | None) -> BackgroundDrive:
        assert isinstance(first, RunStarted), "a drive begins with RunStarted"
        drive = BackgroundDrive(first, self._listening)
        with self._changed:
            self._drives[drive] = loop
        return drive

    def _drive(self, drive: BackgroundDrive, stream: Generator[Event, None, None]) -> None:
        try:
            for event in stream:
                drive.note(event)
        except BaseException as error:
            self._note(drive, error)
        finally:
            self._over(drive)

    async def _adrive(self, drive: BackgroundDrive, stream: AsyncGenerator[Event, None]) -> None:
        try:
            async for event in stream:
                drive.note(event)
        except asyncio.CancelledError as error:
            self._note(drive, error)
            raise
        except BaseException as error:
            self._note(drive, error)
        finally:
            self._over(drive)

    def _note(self, drive: BackgroundDrive, error: BaseException) -> None:
        if not isinstance(error, Left):
            drive.error = error
            LOGGER.error("run %s: its driver has ended: %s: %s", drive.runs[-1], type(error).__name__, error)

    def _over(self, drive: BackgroundDrive) -> None:
        drive.is_over = True
        with self._changed:
            self._drives.pop(drive, None)
            self._changed.notify_all()
        with suppress(PaorError):  # of a journal that was closed
            drive.wake()

    def drain(self, seconds: float) -> tuple[str, ...]:
        """See `fsm.engine.Engine.drain`."""
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds >= 0:
            raise UsageError(f"seconds {seconds!a:.60}: expected a number from 0")
        self._is_draining = True
        self._wait(time.monotonic() + min(seconds, threading.TIMEOUT_MAX / 2))
        self._is_leaving = True
        with self._changed:
            return tuple(sorted(drive.runs[-1] for drive in self._drives))

    def close(self) -> None:
        """Leave every run after its current call, and wait for that; not for those of the event loop that runs in this thread."""
        self._is_draining = self._is_leaving = True
        self._wait(math.inf)

    def _wait(self, until: float) -> None:
        """Wait until no run is driven, but for those that cannot go on while this thread waits."""
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        with self._changed:
            while any(
                loop is None or (loop is not here and loop.is_running()) for loop in self._drives.values()
            ):
                left = until - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(min(left, 1.0))  # a loop that has ended tells nobody
