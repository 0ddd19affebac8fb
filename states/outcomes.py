"""
What came back from the outside: one value per way a request can end.

Everything that is not a pure function of the run enters here as data: replies, results, faults, the time.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from msgspec import Struct

from .actions import StoredText, ToolResult
from .waiting import Answer, Asking


class Usage(Struct, frozen=True, gc=False):
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
    """

    text: str
    payload: StoredText
    finish: str
    usage: Usage
    request_id: str | None = None
    kind: ClassVar[str] = "reply"


class ModelFault(Struct, frozen=True, gc=False):
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
    kind: ClassVar[str] = "fault"


class Ended(Struct, frozen=True, gc=False):
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
    kind: ClassVar[str] = "result"


class InDoubt(Struct, frozen=True, gc=False):
    """A `once` effect was begun by a driver that is gone; whether it happened is not known."""

    kind: ClassVar[str] = "in_doubt"
    usage: ClassVar[Usage] = NO_USAGE


class Asked(Struct, frozen=True, gc=False):
    """
    A tool cannot go on without somebody's answer.

    Attributes:
        asking: What it asks, and what it wants back beside the answer.
        payload: Where that is stored, since it is foreign text.
    """

    asking: Asking
    payload: StoredText
    kind: ClassVar[str] = "asked"
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


Outcome: TypeAlias = Nought | Replied | ModelFault | Ended | InDoubt | Asked | Recalled | Answered | Cancelled
