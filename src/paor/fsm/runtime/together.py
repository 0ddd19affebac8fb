"""
Calls of one reply that are made at the same time, while their driver writes their rows one after the other.

Each runs beside the driver: an async tool of the async driver as a task, any other in a thread. They begin in the order of the
reply, as far as the run's limit and the tools' own allow; what a call came to is kept until its driver asks for it. Calls
that it never asks for (their run was cancelled, waits for somebody, or is left) are given up like any call at its deadline:
told to stop, waited for a moment, and left alone with a line in the log where they still run.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from functools import partial

from ..journal.cancel_requests import CancelWatch
from .calls import Returned, UseTool
from .timed_calls import GRACE_S, TimedCall


class Together:
    """
    One group of calls; used by the one driver that has made it.

    Args:
        calls: In their order.
        most: How many are made at the same time.
        loop: Of the async driver, None for the sync one.

    Attributes:
        account: What they have used together.
    """

    def __init__(
        self, calls: Sequence[UseTool], most: int, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self.account = calls[0].context.ledger.account
        self._most = most
        self._loop = loop
        self._lock = threading.Lock()
        self._effects = {call.key: call for call in calls}
        self._calls = {call.key: TimedCall(call, is_early=True) for call in calls}
        self._queue = list(self._calls.values())
        self._running: list[TimedCall] = []
        self._fill()

    def wait(self, effect: UseTool, watch: CancelWatch) -> Returned | BaseException:
        """Return what a call of the group came to, or comes to; one that was asked for before is made again."""
        return self._call(effect).wait(watch)

    async def await_(self, effect: UseTool, watch: CancelWatch) -> Returned | BaseException:
        """Do the same on the event loop."""
        return await self._call(effect).await_(watch)

    def __contains__(self, key: str) -> bool:
        return key in self._effects

    def begun(self, key: str) -> UseTool | None:
        """Return the call with *key* that was begun and not asked for; None for any other."""
        return self._effects[key] if key in self._calls else None

    def close(self) -> None:
        """Give up the calls that nobody has asked for, and wait a moment for their ends."""
        calls, until_s = self._given_up(), time.monotonic() + GRACE_S
        for call in calls:
            call.effect.timing.wait(call.ended, max(0.0, until_s - time.monotonic()))
        for call in calls:
            call.leave()

    async def aclose(self) -> None:
        """Do the same on the event loop."""
        if calls := self._given_up():
            try:
                await asyncio.wait({asyncio.wrap_future(call.ended) for call in calls}, timeout=GRACE_S)
            finally:
                for call in calls:
                    call.leave()

    def _call(self, effect: UseTool) -> TimedCall:
        """Take a call out of the group; a new one, such as a repeated attempt, begins before those that have not begun."""
        call = self._calls.pop(effect.key, None)
        if call is None:
            call = TimedCall(effect, is_early=True)
            with self._lock:
                self._queue.insert(0, call)
            self._fill()
        return call

    def _given_up(self) -> list[TimedCall]:
        with self._lock:
            self._queue.clear()
        calls = list(self._calls.values())
        self._calls.clear()
        for call in calls:
            call.give_up("dropped")
        return calls

    def _fill(self) -> None:
        """Begin what may begin."""
        with self._lock:
            begun = []
            while len(self._running) < self._most and (call := self._first()) is not None:
                self._queue.remove(call)
                self._running.append(call)
                begun.append(call)
        for call in begun:
            call.ended.add_done_callback(partial(self._over, call))
            if self._loop is not None and call.effect.is_async:
                self._loop.call_soon_threadsafe(call.start_task)
            else:
                call.start()

    def _first(self) -> TimedCall | None:
        """Return the first call whose tool may be called once more at the same time."""
        held = set()
        for call in self._queue:
            tool = call.effect.tool
            running = sum(other.effect.tool is tool for other in self._running)
            if tool.name not in held and (tool.parallel is None or running < tool.parallel):
                return call
            held.add(tool.name)
        return None

    def _over(self, call: TimedCall, _: object) -> None:
        with self._lock:
            self._running.remove(call)
        self._fill()
