"""
Anthropic Messages: requests as data, replies read from the SDK's objects.

Source: the types of the installed SDK, anthropic 2.12 (``anthropic.types``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ....states.records.outcomes import Usage
from ...model import Finish, ModelCall, OfferedTool, Picture, PromptMessage
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
    in_base64,
    members,
    optional,
    prompt,
    sendable,
    sends_any_parts,
    sends_parts,
    text_in,
)
from .kept_turns import with_calls, without_last
from .pieces import Parts, joined, number_of

if TYPE_CHECKING:
    from anthropic.types import Message, RawContentBlockDeltaEvent, RawMessageStreamEvent

REPLY_TOOL = "reply"
"""Name of the tool that a server is made to call where that is how it holds to a schema."""

_THOUGHTS = ("thinking", "redacted_thinking")
_CACHED = {"type": "ephemeral"}
_FINISHES: dict[str, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}


class _Block(Struct):
    """A block as it began, and what was added to its members."""

    whole: dict[str, Any]
    pieces: dict[str, list[str]] = {}

    def made(self) -> dict[str, Any]:
        """Return the whole block."""
        texts = {name: joined(pieces) for name, pieces in self.pieces.items()}
        given = texts.pop("partial_json", "")
        texts = {name: text_in(self.whole.get(name)) + text for name, text in texts.items()}
        return self.whole | texts | ({"input": _input(given)} if given else {})


class MessagesReader(ReplyReader):
    """
    Reads one message.

    The SDK's own `accumulate_event` is not used: it reads a tool's input anew with every piece, and raises where a model
    has written no JSON, which is for the reader of the reply to say.
    """

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._totals: dict[str, Any] = {}
        self._blocks: Parts[_Block] = Parts()

    def add(self, event: RawMessageStreamEvent) -> str:
        if event.type == "message_start":
            self._message["id"] = event.message.id
            self._count(event.message.usage)
        elif event.type == "content_block_start":
            index, block = number_of(event.index), _Block(members(event.content_block))
            before = self._blocks.at(index)
            if before is not None and before.whole.get("id") and before.whole["id"] == block.whole.get("id"):
                return ""  # the same block, begun once more
            self._blocks.begin(index, block)
            return text_in(block.whole.get("text"))
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
        """Add a piece to its block and return the text that it adds; pieces of an unknown kind grow the members that they name."""
        index, delta = number_of(event.index), members(event.delta)
        is_text = delta.pop("type", "") == "text_delta"
        block = self._blocks.at(index) or (None if is_text else self._blocks.at(None))
        if block is None:
            block = self._blocks.begin(index, _Block({"type": "text", "text": ""} if is_text else {}))
        for name, piece in delta.items():
            if isinstance(piece, str):
                block.pieces.setdefault(name, []).append(piece)
            elif name == "citation":
                block.whole["citations"] = [*(block.whole.get("citations") or ()), piece]
            elif piece is not None:
                block.whole["input" if name == "partial_json" else name] = piece
        return text_in(delta.get("text")) if is_text else ""

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
        blocks = [block.made() for block in self._blocks]
        if "stop_reason" not in self._message and not (self.done and blocks):
            return cut_stream(self.usage)
        return self._parse_message([block for block in blocks if block.get("type")])

    def _parse_message(self, blocks: list[dict[str, Any]]) -> ParsedReply:
        """Return the reply of a message, whichever way it came."""
        id, parts = text_in(self._message.get("id")), tuple(blocks)
        stop = text_in(self._message.get("stop_reason"))
        finish = _FINISHES.get(stop, "stop")
        text = "".join(text_in(block.get("text")) for block in blocks if block.get("type") == "text")
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        replies = [block for block in calls if block.get("name") == REPLY_TOOL]
        if stop == "refusal":
            details = members(self._message.get("stop_details"))
            told = [text_in(details.get(name)) for name in ("category", "explanation")]
            text = text or one_line(": ".join(filter(None, told)))
            return ParsedReply(text, "refusal", self.usage, id, parts)
        if replies and len(calls) == 1:
            end: Finish = "length" if finish == "length" else "stop"
            return ParsedReply(as_json(replies[0].get("input")), end, self.usage, id, parts)
        if calls and finish != "length":
            said = {"id": id, "role": "assistant", "content": blocks}
            return ParsedReply(as_json(said), "tool_calls", self.usage, id, parts)
        finish = "stop" if finish == "tool_calls" else finish
        return ParsedReply(text, finish, self.usage, id, parts, stop == "pause_turn")


def _input(pieces: str) -> object:
    """Return a tool's input; one that was cut off or is no JSON as text: the reader of the reply says so."""
    try:
        return decoded(pieces)
    except ValueError:
        return pieces


def _content(message: PromptMessage, options: RequestOptions) -> str | list[dict[str, Any]]:
    """Return the content of a message of a prompt as this interface has it."""
    text: str | list[dict[str, Any]] = sendable(message.text)
    if message.pictures:
        text = [*_blocks(text), *map(_picture, message.pictures)]
    if message.call_id:
        return [{"type": "tool_result", "tool_use_id": message.call_id, "content": text}]
    if sends_parts(message, options):
        said = [part for part in message.parts if part.get("type") != "text" or part.get("text")]
        kept = with_calls(message, without_last(said, _THOUGHTS), "tool_use", "id", "input")
        if kept is not None:
            return kept
    if not message.calls:
        return text
    uses: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    uses += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in message.calls
    ]
    return uses


def _picture(picture: Picture) -> dict[str, Any]:
    source = {"type": "base64", "media_type": picture.mime, "data": in_base64(picture)}
    return {"type": "image", "source": source}


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _messages(call: ModelCall, options: RequestOptions) -> tuple[list[dict[str, Any]], bool]:
    """
    Return the messages of a request but for its system text, and whether a cache is asked for.

    Roles alternate: the results of calls are the user's, all those of one turn in one message, with what the user says then.
    """
    sent: list[dict[str, Any]] = []
    stable: tuple[int, int] | None = None
    for number, message in enumerate(call.messages):
        content = _content(message, options)
        if message.role == "system" or not content:
            continue
        if call.stable:  # in one form, wherever the mark of the cache is by now
            content = _blocks(content)
        role = "assistant" if message.role == "assistant" else "user"
        if role == "user" and sent and sent[-1]["role"] == "user":
            sent[-1]["content"] = _blocks(sent[-1]["content"]) + _blocks(content)
        else:
            sent.append({"role": role, "content": content})
        if number < call.stable:
            stable = len(sent) - 1, len(_blocks(sent[-1]["content"]))
    return sent, options.takes("cache") and stable is not None and _mark(sent, *stable)


def _mark(sent: list[dict[str, Any]], last: int, end: int) -> bool:
    """Ask for a cache up to the last block before *end* of the message *last* that may ask for one; none that thinks may."""
    for place in range(last, -1, -1):
        blocks = _blocks(sent[place]["content"])
        for at in reversed(range(len(blocks[: end if place == last else None]))):
            if blocks[at].get("type") in ("tool_use", "tool_result") or blocks[at].get("text"):
                blocks[at] = blocks[at] | {"cache_control": _CACHED}
                sent[place]["content"] = blocks
                return True
    return False


def _tool(tool: OfferedTool) -> dict[str, Any]:
    return {"name": tool.name, "description": sendable(tool.description), "input_schema": tool.schema}


class MessagesWire(Interface):
    """``POST /v1/messages``."""

    api = "messages"
    structures = ("schema", "none")
    reader = MessagesReader
    module, event, reply = "anthropic.types", "RawMessageStreamEvent", "Message"

    def body(self, call: ModelCall, options: RequestOptions) -> tuple[dict[str, Any], set[str]]:
        system, _ = prompt(call)
        messages, is_cached = _messages(call, options)
        body: dict[str, Any] = {
            "model": options.model,
            "max_tokens": options.max_tokens,
            "messages": messages,
        }
        is_head_cached = call.stable > 0 and options.takes("cache")
        if system:
            head = {"type": "text", "text": system, "cache_control": _CACHED}
            body["system"] = [head] if is_head_cached else system
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
            if is_head_cached and not system:
                body["tools"][-1]["cache_control"] = _CACHED
        features = {"structure"} if body.get("tool_choice", {}).get("name") == REPLY_TOOL else set()
        features |= optional(
            body,
            options,
            ("temperature", "temperature", options.temperature),
            ("parts", "messages", messages if sends_any_parts(call, options) else None),
        )
        features |= {"cache"} if is_cached or (is_head_cached and (system or call.tools)) else set()
        features |= optional(
            config,
            options,
            ("effort", "effort", options.effort),
            ("structure", "format", None if schema is None else {"type": "json_schema", "schema": schema}),
        )
        if config:
            body["output_config"] = config
        return body, features
