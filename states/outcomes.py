"""
What came back from the outside: one value per way a request can end.

Everything that is not a pure function of the run enters here as data: replies, results, faults, the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .actions import StoredText, ToolResult
from .waiting import Answer


@dataclass(frozen=True, slots=True)
class Usage:
    """
    What requests used, as whole numbers.

    Attributes:
        calls: Model requests made.
        tokens_in: Input tokens as the model counts them, cached ones included.
        tokens_out: Output tokens, reasoning included.
        cost_micro: Millionths of the currency unit.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_micro: int = 0


NO_USAGE = Usage()
"""Nothing was asked of a model."""


@dataclass(frozen=True, slots=True)
class Nought:
    """Nothing was needed."""

    kind = "none"
    usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Replied:
    """
    A model replied.

    Attributes:
        text: The raw reply.
        payload: Where it is stored.
        finish: ``stop``, ``length``, ``refusal``, ``content_filter`` or ``tool_calls``.
        usage: What this request used.
        request_id: The provider's id of the exchange, if it gave one.
    """

    text: str
    payload: StoredText
    finish: str
    usage: Usage
    request_id: str | None = None
    kind = "reply"


@dataclass(frozen=True, slots=True)
class ModelFault:
    """
    A model failed after its bounded retries.

    Attributes:
        code: A short label from a closed list (`prompts.model.FAULT_CODES`).
        payload: The message, stored as a payload since it is foreign text.
        message: The same, for the final message.
        usage: What the failed attempts used, as far as known.
    """

    code: str
    message: str
    payload: StoredText
    usage: Usage = NO_USAGE
    kind = "fault"


@dataclass(frozen=True, slots=True)
class Ended:
    """
    A tool ended, with a result or an error.

    Attributes:
        result: What it left.
        usage: Model requests that the tool made through its context.
        texts: Payload pairs (prompt, reply) of those requests, in order.
    """

    result: ToolResult
    usage: Usage = NO_USAGE
    texts: tuple[tuple[StoredText, StoredText], ...] = ()
    kind = "result"


@dataclass(frozen=True, slots=True)
class InDoubt:
    """A `once` effect was begun by a driver that is gone; whether it happened is not known."""

    kind = "in_doubt"
    usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Recalled:
    """
    Earlier payloads, read back.

    Attributes:
        texts: One per payload that was asked for; None for bytes and for what has been erased.
    """

    texts: tuple[str | None, ...]
    kind = "recalled"
    usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Answered:
    """Somebody answered what the run waits for."""

    answer: Answer
    payload: StoredText
    kind = "answer"
    usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The run was told to stop."""

    kind = "cancelled"
    usage = NO_USAGE


Outcome: TypeAlias = Nought | Replied | ModelFault | Ended | InDoubt | Recalled | Answered | Cancelled
