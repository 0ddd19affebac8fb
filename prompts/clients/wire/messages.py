"""
Anthropic Messages: requests as data, replies read from the SDK's objects.

Source: the types of the installed SDK, anthropic 2.12 (``anthropic.types``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....states.records.outcomes import Usage
from ...model import Finish, ModelCall
from ...parsing.provider_schema import strict_schema
from .faults import AttemptFault, one_line, told_fault
from .interface import (
    ParsedReply,
    RequestOptions,
    as_json,
    bad_body,
    count,
    cut_stream,
    decoded,
    members,
    optional,
    prompt,
    text_in,
)

if TYPE_CHECKING:
    from anthropic.types import Message, RawContentBlockDeltaEvent, RawMessageStreamEvent

REPLY_TOOL = "reply"
"""Name of the tool that a server is made to call where that is how it holds to a schema."""

_FINISHES: dict[str, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}


class MessagesWire:
    """``POST /v1/messages``."""

    structures = ("schema", "none")

    def body(self, call: ModelCall, options: RequestOptions) -> tuple[dict[str, Any], set[str]]:
        """Return the body, and which features of it can be left out."""
        system, messages = prompt(call)
        body: dict[str, Any] = {
            "model": options.model,
            "max_tokens": options.max_tokens,
            "messages": messages,
        }
        if system:
            body["system"] = system
        config: dict[str, Any] = {}
        schema = None
        if call.schema is not None and options.structure == "schema":
            schema = strict_schema(call.schema, optional="keep", limits=False)
        elif call.schema is not None and options.structure == "tool":
            about = "Give the reply that is asked for."
            body["tools"] = [{"name": REPLY_TOOL, "description": about, "input_schema": call.schema}]
            body["tool_choice"] = {"type": "tool", "name": REPLY_TOOL}
        features = optional(body, options, ("temperature", "temperature", options.temperature))
        features |= optional(
            config,
            options,
            ("effort", "effort", options.effort),
            ("structure", "format", None if schema is None else {"type": "json_schema", "schema": schema}),
        )
        if config:
            body["output_config"] = config
        return body, features

    def types(self) -> tuple[Any, Any]:
        """Return the SDK's types of a stream's events and of a whole reply."""
        from anthropic.types import Message, RawMessageStreamEvent

        return RawMessageStreamEvent, Message

    def reader(self) -> MessagesReader:
        """Return what reads one reply."""
        return MessagesReader()


class MessagesReader:
    """
    Reads one message.

    The SDK's own `accumulate_event` is not used: it reads a tool's input anew with every piece, and raises where a model
    has written no JSON, which is for the reader of the reply to say.
    """

    def __init__(self) -> None:
        self.done = False
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}

    @property
    def usage(self) -> Usage | None:
        """What the server has counted so far; its input tokens do not include what the cache had and got."""
        usage = self._usage
        if "input_tokens" not in usage and "output_tokens" not in usage:
            return None
        cached = count(usage.get("cache_read_input_tokens"))
        written = count(usage.get("cache_creation_input_tokens"))
        return Usage(
            1,
            count(usage.get("input_tokens")) + cached + written,
            count(usage.get("output_tokens")),
            tokens_cached=cached,
            tokens_cache_write=written,
            tokens_reasoning=count(members(usage.get("output_tokens_details")).get("thinking_tokens")),
        )

    def add(self, event: RawMessageStreamEvent) -> str:
        """Take one event and return the text that it adds."""
        if event.type == "message_start":
            self._message["id"] = event.message.id
            self._count(event.message.usage)
        elif event.type == "content_block_start":
            self._blocks[count(event.index)] = members(event.content_block)
            return text_in(getattr(event.content_block, "text", None))
        elif event.type == "content_block_delta":
            return self._add_piece(event)
        elif event.type == "message_delta":
            told = members(event.delta)
            self._message |= {name: told[name] for name in ("stop_reason", "stop_details") if told.get(name)}
            self._count(event.usage)
        elif event.type == "message_stop":
            self.done = True
        return ""

    def _add_piece(self, event: RawContentBlockDeltaEvent) -> str:
        """Add a piece to its block and return the text that it adds."""
        pieces = self._pieces.setdefault(count(event.index), [])
        if event.delta.type == "text_delta":
            self._blocks.setdefault(count(event.index), {"type": "text", "text": ""})
            pieces.append(text_in(event.delta.text))
            return pieces[-1]
        if event.delta.type == "input_json_delta":
            pieces.append(text_in(event.delta.partial_json))
        return ""

    def _count(self, usage: object) -> None:
        """Take over the numbers of a usage; they are totals."""
        self._usage |= {name: value for name, value in members(usage).items() if value is not None}

    def whole(self, reply: Message) -> ParsedReply | AttemptFault:
        """Return what a whole response is."""
        self._count(reply.usage)
        content: Any = reply.content
        if not isinstance(content, list):
            error = getattr(reply, "error", None)
            return told_fault(error, self.usage) if error else bad_body("it has no content", self.usage)
        self._message = {name: getattr(reply, name) for name in ("id", "stop_reason", "stop_details")}
        return self._parsed([members(block) for block in content])

    def end(self) -> ParsedReply | AttemptFault:
        """Return the whole; without a stop reason it is not whole."""
        if "stop_reason" not in self._message:
            return cut_stream(self.usage)
        for index, block in self._blocks.items():
            pieces = "".join(self._pieces.get(index, ()))
            if block.get("type") == "text":
                block["text"] = text_in(block.get("text")) + pieces
            elif pieces:
                block["input"] = _input(pieces)
        return self._parsed([self._blocks[index] for index in sorted(self._blocks)])

    def _parsed(self, blocks: list[dict[str, Any]]) -> ParsedReply:
        """Return the reply of a message, whichever way it came."""
        usage, id, stop = (
            self.usage,
            text_in(self._message.get("id")),
            text_in(self._message.get("stop_reason")),
        )
        finish = _FINISHES.get(stop, "stop")
        text = "".join(text_in(block.get("text")) for block in blocks if block.get("type") == "text")
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        replies = [block for block in calls if block.get("name") == REPLY_TOOL]
        if stop == "refusal":
            details = members(self._message.get("stop_details"))
            told = [text_in(details.get(name)) for name in ("category", "explanation")]
            return ParsedReply(text or one_line(": ".join(filter(None, told))), "refusal", usage, id)
        if replies and len(calls) == 1:
            end: Finish = "length" if finish == "length" else "stop"
            return ParsedReply(as_json(replies[0].get("input")), end, usage, id)
        if calls and finish != "length":
            said = {"id": id, "role": "assistant", "content": blocks}
            return ParsedReply(as_json(said), "tool_calls", usage, id)
        paused = blocks if stop == "pause_turn" else None
        return ParsedReply(text, "stop" if finish == "tool_calls" else finish, usage, id, paused)


def _input(pieces: str) -> object:
    """Return a tool's input; one that was cut off or is no JSON as text: the reader of the reply says so."""
    try:
        return decoded(pieces)
    except ValueError:
        return pieces
