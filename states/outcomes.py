"""
What came back from the outside: one value per way a request can end.

Everything that is not a pure function of the run enters here as data: replies, results, faults, the time.
"""

from __future__ import annotations

from operator import add
from typing import ClassVar, TypeAlias

from msgspec import Struct
from msgspec.structs import astuple

from .actions import StoredText, ToolResult
from .waiting import Answer


class Usage(Struct, frozen=True, gc=False):
    """
    What requests used, as whole numbers.

    Attributes:
        calls: Model requests made.
        tokens_in: Input tokens as the model counts them, cached ones included.
        tokens_out: Output tokens, reasoning included.
        cost_micro: Millionths of the currency unit.
        tokens_cached: Input tokens that were read from the provider's cache.
        tokens_cache_write: Input tokens that were written to it.
        tokens_reasoning: Output tokens that are reasoning and not part of the reply.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_micro: int = 0
    tokens_cached: int = 0
    tokens_cache_write: int = 0
    tokens_reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of both, field by field."""
        return Usage(*map(add, astuple(self), astuple(other)))

    def details(self) -> dict[str, int]:
        """Return what cache and reasoning took, by name, without the zeros."""
        if self.tokens_cached or self.tokens_cache_write or self.tokens_reasoning:
            return {name: value for name in DETAILS if (value := getattr(self, name))}
        return {}


DETAILS = ("tokens_cached", "tokens_cache_write", "tokens_reasoning")
"""Parts of a usage that few models report; a row holds those that are not 0."""


NO_USAGE = Usage()
"""Nothing was asked of a model."""


class Nought(Struct, frozen=True, gc=False):
    """Nothing was needed."""

    kind: ClassVar[str] = "none"
    usage: ClassVar[Usage] = NO_USAGE


class Replied(Struct, frozen=True, gc=False):
    """
    A model replied.

    Attributes:
        text: The raw reply.
        payload: Where it is stored.
        finish: ``stop``, ``length``, ``refusal``, ``content_filter`` or ``tool_calls``.
        usage: What this request used.
        request_id: The provider's id of the exchange, if it gave one.
        attempts: How often it was asked, failed attempts before this reply included.
    """

    text: str
    payload: StoredText
    finish: str
    usage: Usage
    request_id: str | None = None
    attempts: int = 1
    kind: ClassVar[str] = "reply"


class ModelFault(Struct, frozen=True, gc=False):
    """
    A model failed after its bounded retries.

    Attributes:
        code: A short label from a closed list (`prompts.model.FAULT_CODES`).
        payload: The message, stored as a payload since it is foreign text.
        message: The same, for the final message.
        usage: What the failed attempts used, as far as known.
        request_id: The provider's id of the last exchange, if it gave one.
    """

    code: str
    message: str
    payload: StoredText
    usage: Usage = NO_USAGE
    request_id: str | None = None
    kind: ClassVar[str] = "fault"


class Ended(Struct, frozen=True, gc=False):
    """
    A tool ended, with a result or an error.

    Attributes:
        result: What it left.
        usage: Model requests that the tool made through its context.
        texts: Payload pairs (prompt, reply) of those requests, in order.
        request_ids: The provider's ids of those exchanges that it gave one.
    """

    result: ToolResult
    usage: Usage = NO_USAGE
    texts: tuple[tuple[StoredText, StoredText], ...] = ()
    request_ids: tuple[str, ...] = ()
    kind: ClassVar[str] = "result"


class InDoubt(Struct, frozen=True, gc=False):
    """A `once` effect was begun by a driver that is gone; whether it happened is not known."""

    kind: ClassVar[str] = "in_doubt"
    usage: ClassVar[Usage] = NO_USAGE


class Recalled(Struct, frozen=True, gc=False):
    """
    Earlier payloads, read back.

    Attributes:
        texts: One per payload that was asked for; None for bytes and for what has been erased.
    """

    texts: tuple[str | None, ...]
    kind: ClassVar[str] = "recalled"
    usage: ClassVar[Usage] = NO_USAGE


class Answered(Struct, frozen=True, gc=False):
    """Somebody answered what the run waits for."""

    answer: Answer
    payload: StoredText
    kind: ClassVar[str] = "answer"
    usage: ClassVar[Usage] = NO_USAGE


class Cancelled(Struct, frozen=True, gc=False):
    """The run was told to stop."""

    kind: ClassVar[str] = "cancelled"
    usage: ClassVar[Usage] = NO_USAGE


Outcome: TypeAlias = Nought | Replied | ModelFault | Ended | InDoubt | Recalled | Answered | Cancelled
