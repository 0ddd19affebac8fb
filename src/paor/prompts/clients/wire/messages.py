"""
Anthropic Messages: requests as data, replies read from the SDK's objects.

Source: the types of the installed SDK, anthropic 2.12 (``anthropic.types``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....states.records.outcomes import Usage
from ...model import Finish, ModelCall, OfferedTool, PromptMessage
from ...parsing.provider_schema import strict_schema, wrapped
from .faults import AttemptFault, one_line, told_fault
from .interface import (
    Interface,
    ParsedReply,
    ReplyReader,
    RequestOptions,
    as_json,
    bad_body,
    count,
    cut_stream,
    decoded,
    members,
    optional,
    prompt,
    sendable,
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


class MessagesReader(ReplyReader):
    """
    Reads one message.

    The SDK's own `accumulate_event` is not used: it reads a tool's input anew with every piece, and raises where a model
    has written no JSON, which is for the reader of the reply to say.
    """

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._totals: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}

    def add(self, event: RawMessageStreamEvent) -> str:
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
        """Take over the numbers of a usage, which are totals; input tokens do not include what the cache had and got."""
        self._totals |= {name: value for name, value in members(usage).items() if value is not None}
        totals = self._totals
        if "input_tokens" in totals or "output_tokens" in totals:
            cached = count(totals.get("cache_read_input_tokens"))
            written = count(totals.get("cache_creation_input_tokens"))
            thought = members(totals.get("output_tokens_details")).get("thinking_tokens")
            read = count(totals.get("input_tokens")) + cached + written
            said = count(totals.get("output_tokens"))
            self.usage = Usage(1, read, said, 0, cached, written, count(thought))

    def whole(self, reply: Message) -> ParsedReply | AttemptFault:
        self._count(reply.usage)
        content: Any = reply.content
        if not isinstance(content, list):
            error = getattr(reply, "error", None)
            return told_fault(error, self.usage) if error else bad_body("it has no content", self.usage)
        self._message = {name: getattr(reply, name) for name in ("id", "stop_reason", "stop_details")}
        return self._parse_message([members(block) for block in content])

    def end(self) -> ParsedReply | AttemptFault:
        if "stop_reason" not in self._message:
            return cut_stream(self.usage)
        for index, block in self._blocks.items():
            pieces = "".join(self._pieces.get(index, ()))
            if block.get("type") == "text":
                block["text"] = text_in(block.get("text")) + pieces
            elif pieces:
                block["input"] = _input(pieces)
        return self._parse_message([self._blocks[index] for index in sorted(self._blocks)])

    def _parse_message(self, blocks: list[dict[str, Any]]) -> ParsedReply:
        """Return the reply of a message, whichever way it came."""
        usage, id = self.usage, text_in(self._message.get("id"))
        stop = text_in(self._message.get("stop_reason"))
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


def _message(message: PromptMessage) -> dict[str, Any]:
    """Return a message of a prompt as this interface has it; the result of a call is the user's."""
    text = sendable(message.text)
    if message.call_id:
        result = {"type": "tool_result", "tool_use_id": message.call_id, "content": text}
        return {"role": "user", "content": [result]}
    if not message.calls:
        return {"role": message.role, "content": text}
    uses: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    uses += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in message.calls
    ]
    return {"role": message.role, "content": uses}


def _tool(tool: OfferedTool) -> dict[str, Any]:
    return {"name": tool.name, "description": sendable(tool.description), "input_schema": tool.schema}


class MessagesWire(Interface):
    """``POST /v1/messages``."""

    structures = ("schema", "none")
    reader = MessagesReader
    module, event, reply = "anthropic.types", "RawMessageStreamEvent", "Message"

    def body(self, call: ModelCall, options: RequestOptions) -> tuple[dict[str, Any], set[str]]:
        system, messages = prompt(call)
        body: dict[str, Any] = {"model": options.model, "max_tokens": options.max_tokens}
        body["messages"] = list(map(_message, messages))
        if system:
            body["system"] = system
        config: dict[str, Any] = {}
        schema = None
        if call.schema is not None and options.structure == "schema":
            schema = strict_schema(call.schema, optional="keep", limits=False)
        elif call.schema is not None and options.structure == "tool":
            about = "Give the reply that is asked for."
            body["tools"] = [{"name": REPLY_TOOL, "description": about, "input_schema": wrapped(call.schema)}]
            body["tool_choice"] = {"type": "tool", "name": REPLY_TOOL}
        if call.tools:
            body["tools"] = [_tool(tool) for tool in call.tools]
            # a conversation that holds calls has to come with its tools, also when none may be called
            body |= {} if call.may_call else {"tool_choice": {"type": "none"}}
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
