"""
The effects of the loop, as values; the sync and the async driver differ only in how they perform them.

`fsm.loop` yields an effect and is sent what it came to. An effect never raises into the loop but for `Commit`: a
journal that cannot be written stops the engine before the next effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ..prompts.model import Model, ModelCall
from ..states.events import Event
from ..tools.tool import Tool
from .committer import Entry
from .context import CallContext


@dataclass(slots=True)
class AskModel:
    """Ask *model*; comes to a `Reply` or the exception that it raised."""

    model: Model
    call: ModelCall


@dataclass(slots=True)
class Returned:
    """What a tool returned, told apart from an exception that it raised."""

    value: Any


@dataclass(slots=True)
class UseTool:
    """Call *tool*; comes to `Returned` or the exception that it raised."""

    tool: Tool
    arguments: dict[str, Any]
    context: CallContext


@dataclass(slots=True)
class Commit:
    """Make one transition durable; raises when that is not possible."""

    entry: Entry


@dataclass(slots=True)
class Emit:
    """Hand an event to whoever listens."""

    event: Event


Effect: TypeAlias = AskModel | UseTool | Commit | Emit
