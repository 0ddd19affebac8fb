"""What each interface of a server offers: a request's body, the reader of its replies; and how their numbers are read."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module  # pure: an SDK, imported with the first request
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ....states.records.outcomes import Usage
from ...model import Finish, ModelCall, OfferedTool, Picture, PromptMessage
from .faults import AttemptFault

TOKENS_MAX = 2**40
"""More tokens than this are a wrong number."""


class ParsedReply(Struct, frozen=True):
    """
    A reply that came whole.

    Attributes:
        text: What the model said, or its message as JSON when it called tools.
        finish: Why it ended.
        usage: As the server counts it, None if it did not.
        id: The server's id of the reply.
        parts: The turn as the server gave it, not checked; none where only a piece of it was read.
        is_paused: Whether the server interrupted the turn and wants its parts to be sent back.
        reasoned: Whether the model is known to have reasoned before it.
    """

    text: str
    finish: Finish = "stop"
    usage: Usage | None = None
    id: str = ""
    parts: tuple[dict[str, Any], ...] = ()
    is_paused: bool = False
    reasoned: bool = False


class RequestOptions(Struct, frozen=True):
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
        api: The interface, and which server it is of, if not the provider's own: only turns of that one go back as they came.
    """

    model: str
    max_tokens: int
    temperature: float | None = None
    effort: str | None = None
    structure: str = "none"
    without: frozenset[str] = frozenset()
    official: bool = True
    stream: bool = False
    api: str = ""

    def takes(self, feature: str) -> bool:
        """Return whether *feature* may be in a request."""
        return feature not in self.without


class ReplyReader(ABC):
    """
    Reads one reply, of a stream or whole, from the objects of the SDK.

    The SDK makes its objects without checking them: a server that sends other types than the SDK declares makes `add`,
    `whole` and `end` raise any of `MALFORMED`, which whoever calls them takes for a body that cannot be read.

    Attributes:
        done: Whether its last event has come, or what a server ends any stream with.
        usage: What the server has counted so far.
    """

    done = False
    usage: Usage | None = None

    @abstractmethod
    def add(self, event: Any) -> str:
        """Take one event of the SDK's stream and return the text that it adds to the reply."""

    @abstractmethod
    def whole(self, reply: Any) -> ParsedReply | AttemptFault:
        """Return what a reply that was not streamed is."""

    @abstractmethod
    def end(self) -> ParsedReply | AttemptFault:
        """Return what the events so far make; a `AttemptFault` when they make no whole reply."""


class Interface(ABC):
    """
    One of the interfaces that servers offer; pure.

    Attributes:
        api: Its name, which goes with the parts of a turn.
        structures: Ways to send a schema, the best one first.
        reader: What reads one reply.
        event, reply: Names of the SDK's types of a stream's events and of a whole reply.
        module: Where they are.
    """

    api: str
    structures: tuple[str, ...]
    reader: type[ReplyReader]
    module: str
    event: str
    reply: str

    @abstractmethod
    def body(self, call: ModelCall, options: RequestOptions) -> tuple[dict[str, Any], set[str]]:
        """Return a request's body, and which features of it can be left out."""

    def sdk_type(self, name: str) -> Any:
        """Return one of the two types of the SDK."""
        return getattr(import_module(self.module), name)  # pure: as above


MALFORMED = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What an object of other types than the SDK declares raises where it is read."""


def text_in(value: object) -> str:
    """Return *value* if it is a text, else the empty one."""
    return value if isinstance(value, str) else ""


def members(value: Any) -> dict[str, Any]:
    """Return the members of an object of the SDK as the server sent them; of no object none."""
    if isinstance(value, Mapping):
        return dict(value)
    return dict(value.to_dict(warnings=False)) if hasattr(value, "to_dict") else {}


def count(value: object) -> int:
    """Return *value* if it is a usable number of tokens, else 0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= TOKENS_MAX else 0


def counted(usage: Any, read: str, written: str) -> Usage | None:
    """
    Return the usage of an object of OpenAI's, whose input tokens include the cached ones; None without one.

    Args:
        usage: As the SDK has it.
        read, written: What this interface calls input and output.
    """
    data = members(usage)
    if f"{read}_tokens" not in data:
        return None
    details = members(data.get(f"{read}_tokens_details"))
    more = members(data.get(f"{written}_tokens_details"))
    return Usage(
        1,
        count(data[f"{read}_tokens"]),
        count(data.get(f"{written}_tokens")),
        tokens_cached=count(details.get("cached_tokens")),
        tokens_cache_write=count(details.get("cache_write_tokens")),
        tokens_reasoning=count(more.get("reasoning_tokens")),
    )


def prompt(call: ModelCall) -> tuple[str, list[PromptMessage]]:
    """Return the system text of a request, and its other messages."""
    system = "\n\n".join(sendable(item.text) for item in call.messages if item.role == "system")
    return system, [item for item in call.messages if item.role != "system"]


def without_system(call: ModelCall) -> ModelCall:
    """Return a request that says its system text at the beginning of the user's first message."""
    system, rest = prompt(call)
    if not system:
        return call
    stable = sum(message.role != "system" for message in call.messages[: call.stable])
    if rest and rest[0].role == "user":
        rest[0] = replace(rest[0], text=f"{system}\n\n{rest[0].text}")
    else:
        rest.insert(0, PromptMessage("user", system))
    return replace(call, messages=tuple(rest), stable=stable)


def picture_url(picture: Picture) -> str:
    """Return a picture as OpenAI's interfaces take it."""
    return f"data:{picture.mime};base64,{in_base64(picture)}"


def in_base64(picture: Picture) -> str:
    """Return the bytes of a picture as text."""
    return b64encode(picture.data).decode()


def pictures_behind(messages: Iterable[PromptMessage]) -> Iterator[PromptMessage]:
    """Yield *messages*, with the pictures of results in a message of the user's behind those of their turn: no tool's may have any."""
    shown: tuple[Picture, ...] = ()
    for message in messages:
        if shown and not message.call_id:
            yield PromptMessage("user", PICTURES_OF_RESULTS, pictures=shown)
            shown = ()
        if message.call_id and message.pictures:
            shown += message.pictures
            message = replace(message, pictures=())
        yield message
    if shown:
        yield PromptMessage("user", PICTURES_OF_RESULTS, pictures=shown)


PICTURES_OF_RESULTS = "The pictures of these results, in their order:"


def function_of(tool: OfferedTool) -> dict[str, Any]:
    """Return an offered tool as OpenAI's interfaces describe a function."""
    return {"name": tool.name, "description": sendable(tool.description), "parameters": tool.schema}


def optional(body: dict[str, Any], options: RequestOptions, *items: tuple[str, str, object]) -> set[str]:
    """
    Put into *body* what was given and the server takes; return the features that are in it.

    Args:
        body: Of a request, or a part of one.
        options: Of the request.
        items: Feature, name of the member, and its value, None if it was not given.
    """
    there = [item for item in items if item[2] is not None and options.takes(item[0])]
    body |= {name: value for _, name, value in there}
    return {feature for feature, _, _ in there}


def sends_parts(message: PromptMessage, options: RequestOptions) -> bool:
    """Return whether a message is sent back as its provider gave it: to the server that made it."""
    return bool(message.parts) and message.api == options.api and options.takes("parts")


def sends_any_parts(call: ModelCall, options: RequestOptions) -> bool:
    """Return whether a request holds turns that are sent back as their provider gave them."""
    return any(sends_parts(message, options) for message in call.messages)


def cache_key(call: ModelCall, options: RequestOptions) -> str | None:
    """Return what OpenAI is to find the cache of a conversation by; other servers do not know it."""
    return call.run_id if options.official and call.run_id else None


def sendable(text: str) -> str:
    """Return *text* in a form that can be sent: lone surrogates have none in UTF-8."""
    return text.encode("utf-8", "replace").decode()


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


def bad_body(what: str, usage: Usage | None = None) -> AttemptFault:
    """Return the fault of a response that is not as its interface has it; another attempt may be."""
    return AttemptFault("bad_body", f"the response cannot be read: {what}", True, usage=usage)


def cut_stream(usage: Usage | None = None) -> AttemptFault:
    """Return the fault of a stream that ended before the reply did."""
    return AttemptFault("cut_stream", "the stream ended before the reply was whole", True, usage=usage)
