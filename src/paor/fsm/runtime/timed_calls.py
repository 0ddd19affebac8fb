"""
Calls of tools that can be given up: those with a deadline, and those in a process of their own.

Such a call runs beside its driver: an async tool of the async driver as a task, any other in a thread. Whoever is first
decides what it comes to: the call by ending in time, its deadline, or somebody who cancels the run. A call that was given up
is told to stop, has `GRACE_S` to clean up, and is left alone if it still runs. What it returns later is dropped; the log
tells when it was left, and when it has ended at last.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, Literal

from ...states.base.errors import TimedOut
from ..journal.cancel_requests import CancelWatch, Interrupted
from .calls import Reconcile, Returned, UseTool
from .logs import log_late_end, log_left

GRACE_S = 0.5
"""Seconds in which a call that was given up may clean up; within the second that a run may be held beyond its bound."""

OF_THE_CALL = (Exception, SystemExit, asyncio.CancelledError)
"""What a model or a tool may raise without ending its host: an exit is the call's."""

_GivenUp = Literal["deadline", "cancelled", "dropped"]


def perform_timed(effect: UseTool | Reconcile, watch: CancelWatch) -> Returned | BaseException:
    """Return what a call comes to, at its deadline at the latest; in a thread, while this one waits."""
    call = TimedCall(effect)
    call.start()
    return call.wait(watch)


async def aperform_timed(effect: UseTool | Reconcile, watch: CancelWatch) -> Returned | BaseException:
    """Do the same on an event loop, with an async tool as a task of it."""
    call = TimedCall(effect)
    if effect.is_async:
        call.start_task()
    else:
        call.start()
    return await call.await_(watch)


class TimedCall:
    """
    One call beside its driver.

    Attributes:
        effect: The call.
        is_early: Whether it begins before its driver waits for it.
        begun: Done once it has begun, or was given up before.
        came_to: What counts; set once, by whoever is first.
        ended: Done once the call is over; set by the driver instead when it is left.
    """

    def __init__(self, effect: UseTool | Reconcile, *, is_early: bool = False) -> None:
        self.effect = effect
        self.is_early = is_early
        self.begun: Future[None] = Future()
        self.came_to: Future[Returned | BaseException | _GivenUp] = Future()
        self.ended: Future[None] = Future()
        self._began_s = 0.0
        self._context = contextvars.copy_context()
        self._stop: Callable[[], object] = lambda: None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin in a thread, which nobody waits for when the process ends."""
        if self._begins():
            name = f"paor-tool {self.effect.tool.name}"
            threading.Thread(target=self._context.run, args=(self._work,), name=name, daemon=True).start()

    def start_task(self) -> None:
        """Begin as a task of the running event loop, which holds its tasks weakly."""
        if self._begins():
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._begin(), context=self._context)

    def _begins(self) -> bool:
        self._began_s = self.effect.timing.now_s()
        return _set(self.begun, None)

    def wait(self, watch: CancelWatch) -> Returned | BaseException:
        """Return what the call comes to, at its deadline at the latest."""
        timing, bound = self.effect.timing, self._left_s()
        number = watch.add(self.effect.run, self.cancel)
        try:
            if not self.begun.done():
                timing.wait(self.begun, None)
                bound = self._left_s()
            timing.wait(self.came_to, bound)
        finally:  # also of a driver that is interrupted itself
            watch.remove(number)
            given_up = self.give_up("deadline")
        if given_up:
            timing.wait(self.ended, GRACE_S)
        return self.outcome()

    async def await_(self, watch: CancelWatch) -> Returned | BaseException:
        """Do the same on an event loop."""
        number = watch.add(self.effect.run, self.cancel)
        try:
            if not self.begun.done():
                await asyncio.wait({asyncio.wrap_future(self.begun)})
            await asyncio.wait({asyncio.wrap_future(self.came_to)}, timeout=self._left_s())
        finally:  # also of a task that is cancelled itself: its tool cleans up first
            watch.remove(number)
            try:
                if self.give_up("deadline"):
                    await asyncio.wait({asyncio.wrap_future(self.ended)}, timeout=GRACE_S)
            finally:  # also of a task that is cancelled again: its loop may be gone when the call ends
                outcome = self.outcome()
        return outcome

    def cancel(self) -> None:
        """Give the call up, since its run is to be cancelled."""
        self.give_up("cancelled")

    def give_up(self, why: _GivenUp) -> bool:
        """Return whether the call is given up, now or before; it is told to stop."""
        if _set(self.came_to, why):
            self._stop()
            if _set(self.begun, None):  # it never begins
                _set(self.ended, None)
        given_up = isinstance(self.came_to.result(), str)
        if given_up:  # whoever was first: nothing is taken from it once its driver knows
            self.effect.close()
        return given_up

    def outcome(self) -> Returned | BaseException:
        """Return what the call came to; what ends a process is raised here, in the driver."""
        came_to = self.came_to.result()
        if not isinstance(came_to, str):
            if isinstance(came_to, BaseException) and not isinstance(came_to, OF_THE_CALL):
                raise came_to
            return came_to
        left = self.leave()
        return TimedOut(left=left) if came_to == "deadline" else Interrupted(left=left)

    def leave(self) -> bool:
        """Return whether the call still runs; then it is left alone."""
        if left := _set(self.ended, None):
            log_left(self.effect.tool.name, self.effect.key, self._took_s())
        return left

    def _left_s(self) -> float | None:
        """Return the seconds until its deadline, all of them while its driver has waited for nothing else since it began."""
        bound = self.effect.timeout_s
        return bound if bound is None or not self.is_early else max(0.0, bound - self._took_s())

    def _took_s(self) -> float:
        return self.effect.timing.now_s() - self._began_s

    def _work(self) -> None:
        """Make the call in this thread."""
        try:
            value = self.effect.begin()
            if inspect.isawaitable(value):
                asyncio.run(self._await(value))
                return
        except BaseException as error:
            self._end(error)
        else:
            self._end(Returned(value))

    async def _begin(self) -> None:
        try:
            value = self.effect.begin()
        except BaseException as error:
            self._end(error)
        else:
            await self._await(value)

    async def _await(self, value: Awaitable[Any]) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None, "a call is awaited within a task"

        def stop() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)

        self._stop = stop
        if self.came_to.done():  # given up before there was anything to stop
            task.cancel()
        try:
            returned = Returned(await value)
        except BaseException as error:
            self._end(error)
        else:
            self._end(returned)

    def _end(self, came_to: Returned | BaseException) -> None:
        bound, took_s = self.effect.timeout_s, self._took_s()
        # by its own time: whether the driver was fast enough to give it up must not decide
        _set(self.came_to, "deadline" if bound is not None and took_s > bound else came_to)
        if not _set(self.ended, None):
            log_late_end(self.effect.tool.name, self.effect.key, took_s)


def _set(future: Future[Any], value: object) -> bool:
    """Set a future's value, unless somebody was faster; return whether this was first."""
    try:
        future.set_result(value)
    except InvalidStateError:
        return False
    return True
