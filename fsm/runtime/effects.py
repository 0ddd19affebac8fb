"""
The effects of the loop, as values; the sync and the async driver differ only in how they perform them.

`fsm.runtime.loop` yields an effect and is sent what it came to. An effect never raises into the loop but for `Commit`: a
journal that cannot be written stops the engine before the next effect.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from ...prompts.model import Model, ModelCall
from ...states.records.events import Event
from ...tools.tool import Tool
from ..journal.group_commit import Entry
from .tool_context import CallContext


class AskModel(Struct, frozen=True):
    """
    Ask *model* for *run*; comes to a `Reply`, the exception that it raised, or `Interrupted`.

    *place*: id of the run and number of its next row, when somebody listens.
    """

    run: int
    model: Model
    call: ModelCall
    place: tuple[str, int] | None = None


class Returned(Struct, frozen=True):
    """What a tool returned, told apart from an exception that it raised."""

    value: Any


class EffectPending(Exception):
    """Raised by a tool of the engine's own that drives other runs: it has begun, and waits for somebody's answer."""


class UseTool(Struct, frozen=True):
    """Call *tool* for *run*; comes to `Returned`, the exception that it raised, or `Interrupted`. *place* as in `AskModel`."""

    run: int
    tool: Tool
    arguments: dict[str, Any]
    context: CallContext
    place: tuple[str, int] | None = None


class Reconcile(Struct, frozen=True):
    """Ask *tool* whether the effect under *key* happened; comes to `Returned`, the exception, or `Interrupted`."""

    run: int
    tool: Tool
    key: str


class Commit(Struct, frozen=True):
    """Make one transition durable; raises when that is not possible."""

    entry: Entry


class Emit(Struct, frozen=True):
    """Hand an event to whoever listens."""

    event: Event


Effect: TypeAlias = AskModel | UseTool | Reconcile | Commit | Emit
