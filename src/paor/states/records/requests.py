"""What a phase needs from the outside: one value per kind of need."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from .actions import Intent, StoredText

RequestKind = Literal[
    "selection",
    "parameters",
    "refinement",
    "review",
    "plan",
    "task_plan",
    "turn",
    "text",
    "answer",
    "phase",
    "summary",
]
"""Kinds of model request, in the order a react iteration asks for them; a `summary` is asked before another one, see `fsm.machine.summary`."""


class Nothing(Struct, frozen=True, gc=False):
    """The phase can be decided from the run alone."""


class ModelRequest(Struct, frozen=True, gc=False):
    """
    Ask the model.

    Attributes:
        kind: What is asked.
        attempt: 0 for the first time, n when asked again for the n-th time.
    """

    kind: RequestKind
    attempt: int


class ToolRequest(Struct, frozen=True, gc=False):
    """Start a tool; its intent has been committed."""

    intent: Intent


class Recall(Struct, frozen=True, gc=False):
    """Read payloads that this run stored earlier: the bodies of a result that are shown in its observation."""

    payloads: tuple[StoredText, ...]


Request: TypeAlias = Nothing | ModelRequest | ToolRequest | Recall

NOTHING = Nothing()
