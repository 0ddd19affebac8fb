"""
The one interface between the engine and a language model.

A model answers one call at a time; it keeps no conversation. Everything it may know is in the messages, and
everything that it used comes back in the reply, so that a run can be replayed without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

import orjson
from msgspec import Struct, json
from msgspec.structs import astuple, force_setattr, replace

from ..states.base.errors import ModelError
from ..states.base.pictures import PICTURE_ROOM, picture_kind
from ..states.base.sealed import sealed
from ..states.records.actions import StoredText
from ..states.records.outcomes import Usage
from ..states.records.requests import RequestKind

Role = Literal["system", "user", "assistant", "tool", "round"]
Finish = Literal["stop", "length", "repetition", "refusal", "content_filter", "tool_calls"]
_FINISHES = get_args(Finish)

FAULT_CODES = (
    "unreachable",
    "timeout",
    "rate_limited",
    "quota",
    "overloaded",
    "server_error",
    "bad_request",
    "unauthorized",
    "forbidden",
    "not_found",
    "cut_stream",
    "bad_body",
    "script_exhausted",
    "unexpected",
)
"""Why a model could not answer at all; a closed list, since it is in hashed rows."""


class ToolCall(Struct, frozen=True):
    """
    A call that a model has made in an earlier turn.

    Attributes:
        id: By which its result refers to it; ``[A-Za-z0-9_-]``, unique in a prompt.
        name: Of the tool as it is offered.
        arguments: What the model gave.
    """

    id: str
    name: str
    arguments: dict[str, Any]

    def __post_init__(self) -> None:
        force_setattr(self, "arguments", sealed(self.arguments))


class OfferedTool(Struct, frozen=True):
    """
    A tool as it is offered to a model.

    Attributes:
        name: ``[A-Za-z0-9_-]``, at most 64 characters: what every provider takes.
        description: What it does.
        schema: JSON Schema of its arguments, an object.
    """

    name: str
    description: str
    schema: dict[str, Any]

    def __post_init__(self) -> None:
        force_setattr(self, "schema", sealed(self.schema))


class Picture(Struct, frozen=True):
    """
    A picture that a message shows.

    Attributes:
        place: The document of the run that it is; None for another one, such as a page of a scan.
        data: PNG, JPEG, GIF or WebP; empty until its request is made.
    """

    place: StoredText | None = None
    data: bytes = b""

    @property
    def mime(self) -> str:
        """Its kind, by its own bytes; empty for none that can be shown."""
        return picture_kind(self.data)


NOT_SHOWN = "(A picture that this model is not shown.)"
"""What stands in the place of a picture where a model, or its server, takes none."""


class PromptMessage(Struct, frozen=True):
    """
    One message of a prompt.

    Attributes:
        role: ``system`` or ``user``; in a conversation with tools also ``assistant`` and ``tool``. Where a prompt is stored, ``round``
            stands for all messages of an earlier round; no model gets one.
        text: What it says.
        calls: Of an assistant's message: the calls that it makes.
        call_id: Of a tool's message: the call whose result it is.
        parts, api: Of an assistant's message: the turn as its provider gave it (`Reply.parts`, `Reply.api`). A client whose interface is
            *api* sends *parts* back unchanged instead of *text* and *calls*; any other ignores them. Given only to the model that
            made the turn.
        source: Of an assistant's message: the reply as the model gave it; empty for what was no whole reply.
        pictures: Shown behind *text*, to a model with ``takes_pictures``.
    """

    role: Role
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    parts: tuple[dict[str, Any], ...] = ()
    api: str = ""
    source: str = ""
    pictures: tuple[Picture, ...] = ()

    def __post_init__(self) -> None:
        if self.parts:  # a message stands in many requests
            force_setattr(self, "parts", tuple(sealed(part) for part in self.parts))

    @property
    def body(self) -> str:
        """The message as it is stored: the reply that it was, else its text."""
        return self.source or self.text

    @property
    def size(self) -> int:
        """Bytes of the message as UTF-8, or of the provider's form of it."""
        text = self.body if not self.parts else json.encode(self.parts).decode()
        return len(text.encode("utf-8", "surrogatepass")) + PICTURE_ROOM * len(self.pictures)


def without_pictures(messages: Sequence[PromptMessage]) -> tuple[PromptMessage, ...]:
    """Return *messages* with words in the place of their pictures."""
    return tuple(
        replace(message, text="\n".join((message.text, *[NOT_SHOWN] * len(message.pictures))), pictures=())
        if message.pictures
        else message
        for message in messages
    )


BodyOf = Callable[[StoredText], str | bytes | None]
"""Returns a document of a run; None once it is erased."""


def shown_to(model: object, messages: Sequence[PromptMessage], body_of: BodyOf) -> tuple[PromptMessage, ...]:
    """
    Return the messages of a request with the bytes of their pictures, or with words for those that *model* is not shown.

    Args:
        model: That is asked.
        messages: Of the request.
        body_of: Returns a document of the run; None once it is erased.
    """
    if getattr(model, "takes_pictures", False) is False:
        return without_pictures(messages)
    shown = []
    for message in messages:
        if message.pictures:
            bodies = [one.data if one.place is None else body_of(one.place) for one in message.pictures]
            pictures = [Picture(data=body) for body in bodies if isinstance(body, bytes)]
            fit = tuple(one for one in pictures if one.mime)
            text = "\n".join((message.text, *[NOT_SHOWN] * (len(bodies) - len(fit))))
            message = replace(message, text=text, pictures=fit)
        shown.append(message)
    return tuple(shown)


NoticeKind = Literal["retry", "fallback", "prices", "profile", "context"]
"""
An attempt failed and is made again; a server lacks something and is asked without; a model has no price; which profile
``auto`` has chosen after a server was asked; the model's context is too small for what every request of the run begins with.
"""


class Notice(Struct, frozen=True):
    """
    What a model does of its own accord while it answers, for events and logs.

    Attributes:
        kind: See `NoticeKind`.
        code: The fault that causes another attempt, else what is left out or unknown.
        text: One line without secrets.
        attempt: Number of the attempt that failed, from 1; 0 where there is none.
        wait_us: Microseconds until the next one.
    """

    kind: NoticeKind
    code: str
    text: str
    attempt: int = 0
    wait_us: int = 0


class ModelCall(Struct, frozen=True):
    """
    One request to a model.

    Attributes:
        kind: What is asked, see `states.records.requests.RequestKind`.
        messages: System message first, then the user's; of a `turn` also the calls so far, each with its result.
        number: How many model requests the run has made before this one.
        schema: JSON Schema that the reply should satisfy, for models that can enforce one; None for free text.
        timeout_s: Seconds the model may take, including its own further attempts; None for the client's own
            default.
        on_text: To be called with each piece of text as it arrives; None without a listener. Only models with
            ``streams = True`` get one; those may be asked in a separate thread.
        on_notice: To be called with what the model does by itself; None without a listener.
        max_tokens: Most tokens that the reply may have, its reasoning included; None for the client's own limit.
        tokens_left: Tokens of the run's budget that are left for this request, including further attempts; None
            without a budget.
        is_cancelled: Whether the run is being cancelled. A sync model with ``stops = True`` calls it regularly
            while it waits, and raises `CallStopped` when it returns true. None if the call itself is cancelled.
        run_id, seq, step: Which run asks, the number of the row that will hold the reply, and the step, for logs.
        tools: Of a `turn`: what may be called. The reply is words, or with calls
            ``{"text": "...", "calls": [{"id": "...", "name": "...", "arguments": {...}}]}``.
        may_call: Whether a tool of *tools* may be called now; else the model has to answer.
        reads: Names of those of *tools* that only read: what a model calls behind words of its own is called only if it does no more.
        stable: How many of *messages*, from the first on, the next request of the run will begin with too: what a provider's cache is
            worth asking for.
    """

    kind: RequestKind
    messages: tuple[PromptMessage, ...]
    number: int = 0
    schema: dict[str, Any] | None = None
    timeout_s: float | None = None
    on_text: Callable[[str], None] | None = None
    on_notice: Callable[[Notice], None] | None = None
    max_tokens: int | None = None
    tokens_left: int | None = None
    is_cancelled: Callable[[], bool] | None = None
    run_id: str = ""
    seq: int = 0
    step: int = 0
    tools: tuple[OfferedTool, ...] = ()
    may_call: bool = True
    reads: frozenset[str] = frozenset()
    stable: int = 0


class Reply(Struct, frozen=True):
    """
    One answer of a model.

    Attributes:
        text: The raw text, unread.
        usage: What it used; None lets the engine estimate four characters a token.
        finish: Why it ended: ``stop``, ``length``, ``refusal``, ``content_filter``, ``tool_calls``; ``repetition`` when it said
            the same again and again and was cut there, so that it stands in *text* once.
        request_id: The provider's id of the request; stored if it has a valid form, see `request_label`.
        attempts: How often the model was asked, including failed attempts before this reply.
        parts: The turn as the provider gave it, JSON objects: reasoning, signatures, calls with their own ids. Journaled beside
            *text*, and sent back unchanged in later requests to the same model.
        api: Which interface *parts* are of, a short label such as ``messages``, and of which server; a model of one's own may leave it empty.
    """

    text: str
    usage: Usage | None = None
    finish: Finish = "stop"
    request_id: str | None = None
    attempts: int = 1
    parts: tuple[dict[str, Any], ...] = ()
    api: str = ""


class CallStopped(Exception):
    """Raised by a model that gave up because `ModelCall.is_cancelled` became true."""


class ModelUnavailable(ModelError):
    """
    Raised by a model that cannot answer, after its own bounded retries.

    Attributes:
        code: One of `FAULT_CODES`.
        usage: What the failed attempts used, as far as known.
        request_id: The provider's id of the last request.
    """

    def __init__(
        self, code: str, message: str, usage: Usage | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(code, message, usage, request_id)
        self.code = code if code in FAULT_CODES else "unexpected"
        self.message = str(message)
        self.usage = usage if usage is None or _countable(usage) else None
        self.request_id = request_label(request_id)

    def __str__(self) -> str:
        return self.message


@runtime_checkable
class SyncModel(Protocol):
    """A model that is asked by calling it; async drivers do so in a separate thread."""

    @property
    def name(self) -> str:
        """Name for the journal, such as ``openai:gpt-6-luna``; ASCII, no secrets."""
        ...

    def ask(self, call: ModelCall) -> Reply:
        """
        Answer one request.

        Args:
            call: What is asked; see `ModelCall`.

        Returns:
            The reply, or its text.

        Raises:
            ModelUnavailable: There is no answer. The run then ends in Failed(model_error), as after any other
                exception.
        """
        ...


@runtime_checkable
class AsyncModel(Protocol):
    """A model that is awaited; sync drivers do so on an event loop in a separate thread."""

    @property
    def name(self) -> str:
        """As of `SyncModel`."""
        ...

    async def aask(self, call: ModelCall) -> Reply:
        """
        Do the same as `SyncModel.ask` without blocking the event loop.

        Args:
            call: As there.
        """
        ...


Model: TypeAlias = SyncModel | AsyncModel
"""
A language model, or anything that answers like one; with both methods each driver uses its own.

It may say of itself, as attributes:

- ``completion_review``: ``"model"`` or ``"rules"``, what ``Limits(completion_review="auto")`` means for it;
- ``calls_tools``: True where it answers a `turn` with calls of the tools that it is offered, so that ``profile="auto"`` means
  ``native``; False, as without the attribute, for ``two_stage``; None where only its server knows;
- ``context_tokens``: how many tokens its context has, for ``Limits.context_tokens``; None, as without the attribute, where only its
  server knows;
- ``takes_pictures``: True where it looks at `PromptMessage.pictures`; False, as without the attribute, where it is given none; None
  where only its server knows, which is then asked with the first picture;
- ``look()``, and ``async alook()``: called before a run starts where one of these is None; returns an object with the attributes
  ``calls_tools`` (bool) and ``context_tokens`` (int or None). It is to remember what it found, to take a few seconds at most, and
  never to raise.
"""


def checked_reply(answer: object) -> Reply:
    """
    Return what a host's model answered if a journal can hold it; plain text is a reply too.

    Raises:
        TypeError: It is no reply, its usage is not whole numbers, or it ended in an unknown way.
    """
    if isinstance(answer, str):
        return Reply(answer)
    if not isinstance(answer, Reply) or not isinstance(answer.text, str):
        raise TypeError(f"the model returned a {type(answer).__name__}, expected a Reply")
    if answer.usage is not None and not _countable(answer.usage):
        raise TypeError("the model reported a usage that is not made of whole numbers from 0 to 2^50")
    if type(answer.attempts) is not int or not 1 <= answer.attempts <= 2**20:
        raise TypeError("the model reported attempts that are no whole number from 1 on")
    if answer.finish not in _FINISHES:
        raise TypeError(f"the model ended with {ascii(answer.finish)[:80]}, expected one of {_FINISHES}")
    if answer.parts and not (isinstance(answer.parts, tuple) and can_be_kept(answer.parts)):
        raise TypeError("the model gave parts of its turn that are no tuple of JSON objects of at most 4 MB")
    if answer.api != "" and not (isinstance(answer.api, str) and _LABEL.fullmatch(answer.api)):
        raise TypeError("the model gave no short label as the interface of its turn")
    return answer


PARTS_BYTES, PARTS_DEPTH = 4 * 10**6, 100
"""Most bytes of the parts of a turn, as JSON, and how deep they may be nested."""
_LABEL = re.compile(r"[A-Za-z0-9_.:-]{0,40}")


def can_be_kept(parts: Sequence[object]) -> bool:
    """Return whether *parts* are JSON objects that come back from a journal as they went in."""
    try:
        text = orjson.dumps(parts)
        if len(text) > PARTS_BYTES or orjson.loads(text) != list(parts):
            return False
    except (TypeError, ValueError, RecursionError):
        return False
    return all(isinstance(part, dict) for part in parts) and not _is_deep(parts)


def _is_deep(parts: Sequence[object]) -> bool:
    level: list[object] = list(parts)
    for _ in range(PARTS_DEPTH):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return True


def _countable(usage: Usage) -> bool:
    """Whether *usage* can stand in hashed rows: small whole numbers, so that sums stay below 2^53."""
    return all(type(number) is int and 0 <= number <= 2**50 for number in astuple(usage))


def request_label(value: object) -> str | None:
    """
    Return a provider's id of an exchange if it can stand in a hashed row, else None.

    It comes from a server and may be anything: a short label is kept, what could be a text is not.
    """
    return value if isinstance(value, str) and _REQUEST_LABEL.fullmatch(value) else None


_REQUEST_LABEL = re.compile(r"[A-Za-z0-9_.:-]{1,80}")


def reasoning_tokens(model: Model) -> int:
    """Return how many tokens a model may use to reason before a reply: what it says of itself, else none."""
    told = getattr(model, "reasoning_tokens", 0)
    return told if type(told) is int and told > 0 else 0


def prompt_bytes(messages: Sequence[PromptMessage], tools: Sequence[OfferedTool] = ()) -> int:
    """Return the size of a prompt as UTF-8, offered tools included; a request's reservation is estimated from it."""
    size = sum(message.size for message in messages)
    return size + (len(json.encode(tools)) if tools else 0)


CHARS_PER_TOKEN = 4
"""The usual rule of thumb for English; used only where a model reports no usage."""


def estimated_usage(call: ModelCall, reply: str, characters: int | None = None) -> Usage:
    """
    Return a deterministic estimate of a request's usage, for models that report none.

    Args:
        call: The request.
        reply: Its reply.
        characters: Of its messages, where they were counted before.
    """
    if characters is None:
        characters = sum([len(message.body) for message in call.messages])
    characters += len(json.encode(call.tools)) if call.tools else 0
    return Usage(1, -(-characters // CHARS_PER_TOKEN), -(-len(reply) // CHARS_PER_TOKEN), 0)
