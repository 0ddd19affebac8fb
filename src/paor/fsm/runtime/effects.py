"""
The effects of the loop, as values; the sync and the async driver differ only in how they perform them.

`fsm.runtime.loop` yields an effect and is sent what it came to. An effect never raises into the loop but for `Commit`: a
journal that cannot be written stops the engine before the next effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from ...prompts.model import Model, ModelCall
from ..journal.backend import Entry
from .calls import Reconcile, UseTool
from .events import Event
from .together import Together


class AskModel(Struct, frozen=True):
    """
    Ask *model* for *run*; comes to a `Reply`, the exception that it raised, or `Interrupted`.

    *place*: id of the run and number of its next row, when somebody listens.
    """

    run: int
    model: Model
    call: ModelCall
    place: tuple[str, int] | None = None


class AskHost(Struct, frozen=True):
    """Call a *function* of the host, which may be a coroutine function; comes to what it returned, or to the exception that it raised."""

    function: Callable[[], object]


class BeginTogether(Struct, frozen=True):
    """Begin *calls* of one reply, at most *most* of them at the same time; comes to the group."""

    calls: tuple[UseTool, ...]
    most: int


class Await(Struct, frozen=True):
    """Ask for a *call* of a group that was begun, or is made again; comes to what `UseTool` comes to."""

    group: Together
    call: UseTool


class Drop(Struct, frozen=True):
    """Give up the calls of a group that are not asked for any more."""

    group: Together


class Commit(Struct, frozen=True):
    """Make one transition durable; raises when that is not possible. Comes to True where no time has passed since."""

    entry: Entry


class Emit(Struct, frozen=True):
    """Hand an event to whoever listens."""

    event: Event


Effect: TypeAlias = AskModel | AskHost | UseTool | BeginTogether | Await | Drop | Reconcile | Commit | Emit
