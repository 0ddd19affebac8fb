"""
Calls of a tool, as values: what to call, with what, and for how long.

Performed by the drivers, by `fsm.runtime.timed_calls` and, those of one reply at the same time, by `fsm.runtime.together`.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, NamedTuple

from msgspec import Struct

from ...tools.tool import Tool
from .tool_context import CallContext


class Returned(Struct, frozen=True):
    """A tool's return value, as opposed to an exception."""

    value: Any


class EffectPending(Exception):
    """Raised by a tool of the engine's own that drives other runs: it has begun, and waits for somebody's answer."""


Wait = Callable[[Future[Any], float | None], object]
"""Waits until a future is done, or the seconds have passed; None: however long it takes."""


def wait_for(future: Future[Any], seconds: float | None) -> None:
    """Wait in real time."""
    wait([future], seconds)


class Timing(NamedTuple):
    """
    How the time of calls with a deadline is told; a clock that has one of its own as ``timing`` is asked by the sync driver.

    Attributes:
        wait: Waits for such a call.
        now_s: Seconds of a clock that never goes back, read by the call itself.
    """

    wait: Wait = wait_for
    now_s: Callable[[], float] = time.monotonic


REAL_TIME = Timing()


class UseTool(Struct, frozen=True):
    """
    Call *tool* for *run*; comes to `Returned`, the exception that it raised, `TimedOut` or `Interrupted`.

    *place*: as in `AskModel`. *timeout_s*: seconds that the call may take, None for no bound.
    """

    run: int
    tool: Tool
    arguments: dict[str, Any]
    context: CallContext
    place: tuple[str, int] | None = None
    timeout_s: float | None = None
    timing: Timing = REAL_TIME

    @property
    def is_async(self) -> bool:
        """Whether `begin` gives a coroutine for sure."""
        return self.tool.is_async

    @property
    def is_timed(self) -> bool:
        """Whether it can be given up before it ends."""
        return self.timeout_s is not None or self.tool.process

    @property
    def key(self) -> str:
        """The idempotency key: of the run and the action."""
        return self.context.idempotency_key

    def begin(self) -> Any:
        """Call the tool's function; of an async one this is the coroutine."""
        # a tool may change what it gets; a retry gets what is journaled
        flat = not any(isinstance(value, dict | list) for value in self.arguments.values())
        given = dict(self.arguments) if flat else copy.deepcopy(self.arguments)
        return self.tool.invoke(given, self.context)

    def close(self) -> None:
        """Take nothing more from the call."""
        self.context.close()


class Reconcile(Struct, frozen=True):
    """Ask *tool* whether the call *key* took effect. Result type as for `UseTool`."""

    run: int
    tool: Tool
    key: str
    timeout_s: float | None = None
    timing: Timing = REAL_TIME

    @property
    def is_async(self) -> bool:
        """Whether `begin` gives a coroutine for sure."""
        return self.tool.reconciles_async

    @property
    def is_timed(self) -> bool:
        """Whether it can be given up before it ends."""
        return self.timeout_s is not None

    def begin(self) -> Any:
        """Call the tool's reconciliation; of an async one this is the coroutine."""
        assert self.tool.reconcile is not None, "a tool without reconciliation is not asked"
        return self.tool.reconcile(self.key)

    def close(self) -> None:
        """Take nothing more from the call: it has nothing to give."""
