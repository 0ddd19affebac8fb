"""What one exchange with a server came to, whatever interface it speaks, and how its numbers are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from ....states.outcomes import Usage
from ...model import Finish, ModelCall
from .faults import Fault

TOKENS_MAX = 2**40
"""More tokens than this are a wrong number."""


class Heard(Struct, frozen=True):
    """
    A reply that came whole.

    Attributes:
        text: What the model said, or its message as JSON when it called tools.
        finish: Why it ended.
        usage: As the server counts it, None if it did not.
        id: The server's id of the reply.
        paused: Content of a turn that the server interrupted and wants to be sent back; None otherwise.
    """

    text: str
    finish: Finish = "stop"
    usage: Usage | None = None
    id: str = ""
    paused: list[Any] | None = None


class Asked(Struct, frozen=True):
    """
    What of a client's settings goes into a request.

    Attributes:
        model: Name at the provider.
        max_tokens: Most tokens of the reply.
        temperature, effort: Sent if not None.
        structure: How the schema is sent: ``schema``, ``object``, ``tool`` or ``none``.
        without: Features that this server does not take.
        official: Whether the server is the provider's own.
        stream: Whether the reply is streamed.
    """

    model: str
    max_tokens: int
    temperature: float | None = None
    effort: str | None = None
    structure: str = "none"
    without: frozenset[str] = frozenset()
    official: bool = True
    stream: bool = False

    def takes(self, feature: str) -> bool:
        """Return whether *feature* may be in a request."""
        return feature not in self.without


class Hearing(Protocol):
    """One streamed reply as it comes in."""

    @property
    def done(self) -> bool:
        """Whether its last event has come."""
        ...

    def feed(self, name: str, data: str) -> str:
        """
        Take one event and return the text that it adds to the reply.

        Raises:
            ValueError: The event is not as the interface has it.
        """
        ...

    def end(self) -> Heard | Fault:
        """Return what the whole came to; a `Fault` when it is not whole."""
        ...


class Interface(Protocol):
    """One of the interfaces that servers offer; pure."""

    @property
    def structures(self) -> tuple[str, ...]:
        """Ways to send a schema, the best one first."""
        ...

    def body(self, call: ModelCall, asked: Asked) -> tuple[dict[str, Any], set[str]]:
        """Return a request's body, and which features of it can be left out."""
        ...

    def read(self, data: Mapping[str, Any]) -> Heard | Fault:
        """Return what a whole response came to."""
        ...

    def hearing(self) -> Hearing:
        """Return what hears a streamed response."""
        ...


def mapping(value: object) -> Mapping[str, Any]:
    """Return *value* if it is a JSON object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """Return the JSON objects of a list, nothing for anything else."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text_in(value: object) -> str:
    """Return *value* if it is a text, else the empty one."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """Return *value* if it is a usable number of tokens, else 0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= TOKENS_MAX else 0


def sendable(text: str) -> str:
    """Return *text* in a form that can be sent: lone surrogates have none in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def as_json(value: object) -> str:
    """Return *value* as one line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=False)


def decoded(text: str | bytes) -> dict[str, Any]:
    """
    Return the JSON object that *text* is.

    Raises:
        ValueError: It is none.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if type(data) is not dict:
        raise ValueError("no JSON object")
    return data


def bad_body(what: str, usage: Usage | None = None) -> Fault:
    """Return the fault of a response that is not as its interface has it; another attempt may be."""
    return Fault("bad_body", f"the response cannot be read: {what}", True, usage=usage)


def cut_stream(usage: Usage | None = None) -> Fault:
    """Return the fault of a stream that ended before the reply did."""
    return Fault("cut_stream", "the stream ended before the reply was whole", True, usage=usage)
