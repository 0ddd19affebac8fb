"""
The effects of the loop, as values; the sync and the async driver differ only in how they perform them.

`fsm.runtime.loop` yields an effect and is sent what it came to. An effect never raises into the loop but for `Commit`: a
journal that cannot be written stops the engine before the next effect.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from ...prompts.model import Model, ModelCall
from ...tools.tool import Tool
from ..journal.backend import Entry
from ..journal.cancel_requests import CancelWatch
from .events import Event
from .ports import ValuesPort
from .tool_context import Account, CallContext


class AskModel(Struct, frozen=True):
    """
    Ask *model* for *run*; comes to a `Reply`, the exception that it raised, or `Interrupted`.

    *place*: id of the run and number of its next row, when somebody listens.
    """

    run: int
    model: Model
    call: ModelCall
    place: tuple[str, int] | None = None


class AskValues(Struct, frozen=True):
    """Ask the host's *port* for values for the run *run_id* in *phase*; comes to them, or to the exception that it raised."""

    port: ValuesPort
    run_id: str
    phase: str


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


class CallGroup(Protocol):
    """
    Calls of one reply that were begun together, see `fsm.runtime.together`.

    Attributes:
        account: What they have used together.
    """

    account: Account

    def __contains__(self, key: str) -> bool: ...

    def begun(self, key: str) -> UseTool | None:
        """Return the call with *key* that was begun and not asked for; None for any other."""
        ...

    def wait(self, effect: UseTool, watch: CancelWatch) -> Returned | BaseException:
        """Return what a call of the group came to, or comes to; one that was asked for before is made again."""
        ...

    async def await_(self, effect: UseTool, watch: CancelWatch) -> Returned | BaseException:
        """Do the same on the event loop."""
        ...

    def close(self) -> None:
        """Give up the calls that nobody has asked for, and wait a moment for their ends."""
        ...

    async def aclose(self) -> None:
        """Do the same on the event loop."""
        ...


class BeginTogether(Struct, frozen=True):
    """Begin *calls* of one reply, at most *most* of them at the same time; comes to the group."""

    calls: tuple[UseTool, ...]
    most: int


class Await(Struct, frozen=True):
    """Ask for a *call* of a group that was begun, or is made again; comes to what `UseTool` comes to."""

    group: CallGroup
    call: UseTool


class Drop(Struct, frozen=True):
    """Give up the calls of a group that are not asked for any more."""

    group: CallGroup


class Commit(Struct, frozen=True):
    """Make one transition durable; raises when that is not possible."""

    entry: Entry


class Emit(Struct, frozen=True):
    """Hand an event to whoever listens."""

    event: Event


Effect: TypeAlias = AskModel | AskValues | UseTool | BeginTogether | Await | Drop | Reconcile | Commit | Emit
