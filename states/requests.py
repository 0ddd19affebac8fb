"""What a phase needs from the outside: one value per kind of need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .actions import Intent, StoredText

RequestKind = Literal["selection", "parameters", "refinement", "review", "plan", "task_plan", "text"]
"""Kinds of model request, in the order a react iteration asks for them (DESIGN section 2)."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """The phase can be decided from the run alone."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """
    Ask the model.

    Attributes:
        kind: What is asked.
        attempt: 0 for the first time, n when asked again for the n-th time.
    """

    kind: RequestKind
    attempt: int


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """Start a tool; its intent has been committed."""

    intent: Intent


@dataclass(frozen=True, slots=True)
class Recall:
    """Read payloads that this run stored earlier: the bodies of a result that are shown in its observation."""

    payloads: tuple[StoredText, ...]


Request: TypeAlias = Nothing | ModelRequest | ToolRequest | Recall

NOTHING = Nothing()
