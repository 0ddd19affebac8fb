"""
OpenAI Responses: requests as data, replies read from the SDK's objects.

Source: the types of the installed SDK, openai 3.54 (``openai.types.responses``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...model import Finish, ModelCall, PromptMessage
from .chat_completions import reply_format
from .faults import AttemptFault, told_fault
from .interface import (
    Interface,
    ParsedReply,
    ReplyReader,
    RequestOptions,
    as_json,
    bad_body,
    cache_key,
    counted,
    cut_stream,
    function_of,
    members,
    optional,
    picture_url,
    pictures_behind,
    prompt,
    sendable,
    sends_any_parts,
    sends_parts,
    text_in,
)
from .kept_turns import with_calls, without_last
from .pieces import Parts, joined, number_of

if TYPE_CHECKING:
    from openai.types.responses import Response

_LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class _Item(Struct):
    """An item as far as it has come, and the pieces of a message's text or of a call's arguments."""

    whole: dict[str, Any]
    is_whole: bool
    pieces: list[str] = []

    @property
    def id(self) -> str:
        """Its own id, or that of the call that it is; empty without one."""
        return text_in(self.whole.get("id")) or text_in(self.whole.get("call_id"))

    def made(self) -> dict[str, Any]:
        """Return the whole item."""
        text = joined(self.pieces)
        if self.is_whole or not text:
            return self.whole
        if self.whole.get("type") == "message":
            return self.whole | {"content": [{"type": "output_text", "text": text}]}
        return self.whole | {"arguments": text}


class ResponsesReader(ReplyReader):
    """Reads one response; items and texts that were streamed stand in for an output that its last event leaves out."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._items: Parts[_Item] = Parts()
        self._last: Response | None = None
        self._error: object = None

    def add(self, event: Any) -> str:
        if event.type == "error":
            self._error, self.done = event, True
        elif event.type == "response.output_text.delta":
            self._text.append(text_in(event.delta))
            self._add_piece(event)
            return self._text[-1]
        elif event.type in ("response.output_item.added", "response.output_item.done"):
            item = _Item(members(event.item), is_whole=event.type.endswith("done"))
            self._add_item(number_of(getattr(event, "output_index", None)), item)
        elif event.type == "response.function_call_arguments.delta":
            self._add_piece(event)
        elif event.type in _LAST:
            self._last, self.done = event.response, True
        elif text_in(event.type).startswith("response."):
            response = getattr(event, "response", None)
            self.usage = counted(members(response).get("usage"), "input", "output") or self.usage
        return ""

    def _add_item(self, number: int | None, item: _Item) -> None:
        """Take an item that begins, or is whole by now."""
        before = self._items.at(number)
        if before is not None and before.id == item.id and (item.id or not before.is_whole):
            before.whole, before.is_whole = item.whole, item.is_whole
        else:
            self._items.begin(number, item)

    def _add_piece(self, event: Any) -> None:
        """Take a piece of an item that has begun."""
        item = self._items.at(number_of(getattr(event, "output_index", None)))
        if item is not None:
            item.pieces.append(text_in(event.delta))

    def end(self) -> ParsedReply | AttemptFault:
        if self._error is not None:
            return told_fault(members(self._error), self.usage)
        return cut_stream(self.usage) if self._last is None else self.whole(self._last)

    def whole(self, reply: Response) -> ParsedReply | AttemptFault:
        self.usage, id = counted(reply.usage, "input", "output"), text_in(reply.id)
        if reply.status in ("failed", "cancelled") or (reply.error and not reply.output):
            error = members(reply.error) or {"message": f"the response is {reply.status}"}
            return told_fault(error, self.usage)
        told: Any = reply.output
        parts = tuple(map(members, told or ())) or tuple(item.made() for item in self._items)
        streamed = joined(self._text)
        if reply.status in ("queued", "in_progress") or (told is None and not (parts or streamed)):
            return bad_body("it has no output", self.usage)
        messages = [item for item in parts if item.get("type") == "message"]
        # a commentary is what the model says on its way to an answer
        answers = [item for item in messages if item.get("phase") != "commentary"]
        refusal = "".join(
            text_in(part.get("refusal")) for part in _pieces(messages) if part.get("type") == "refusal"
        )
        texts = [
            text_in(part.get("text"))
            for part in _pieces(answers)
            if part.get("type") in ("output_text", "text")
        ]
        text = "".join(texts) or (streamed if answers or not messages else "")
        if refusal:
            return ParsedReply("".join(texts) or refusal, "refusal", self.usage, id, parts)
        if reply.status == "incomplete":
            reason = members(reply.incomplete_details).get("reason")
            finish: Finish = "content_filter" if reason == "content_filter" else "length"
            return ParsedReply(text, finish, self.usage, id, parts)
        if any(item.get("type") == "function_call" for item in parts):
            return ParsedReply(as_json({"id": id, "output": parts}), "tool_calls", self.usage, id, parts)
        return ParsedReply(text, "stop", self.usage, id, parts)


def _pieces(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts of the content of messages."""
    return [members(part) for item in messages for part in item.get("content") or ()]


def _items(message: PromptMessage, options: RequestOptions) -> list[dict[str, Any]]:
    """Return a message of a prompt as the items of this interface."""
    text = sendable(message.text)
    if message.call_id:
        return [{"type": "function_call_output", "call_id": message.call_id, "output": text}]
    if sends_parts(message, options):
        said = [part for part in message.parts if not (options.official and _is_unstored(part))]
        kept = with_calls(
            message, without_last(said, ("reasoning",)), "function_call", "call_id", "arguments"
        )
        if kept is not None:
            return kept
    content: str | list[dict[str, Any]] = text
    if message.pictures:
        shown = [{"type": "input_image", "image_url": picture_url(one)} for one in message.pictures]
        content = [{"type": "input_text", "text": text}, *shown]
    said = [{"role": message.role, "content": content}] if text or not message.calls else []
    return said + [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": as_json(call.arguments),
        }
        for call in message.calls
    ]


def _is_unstored(part: dict[str, Any]) -> bool:
    """Return whether a part names a thought that the provider has not kept, since it keeps nothing."""
    return part.get("type") == "reasoning" and not part.get("encrypted_content")


class ResponsesWire(Interface):
    """``POST /responses``; nothing is stored at the provider."""

    api = "responses"
    structures = ("schema", "object", "none")
    reader = ResponsesReader
    module, event, reply = "openai.types.responses", "ResponseStreamEvent", "Response"

    def body(self, call: ModelCall, options: RequestOptions) -> tuple[dict[str, Any], set[str]]:
        system, messages = prompt(call)
        items = [item for message in pictures_behind(messages) for item in _items(message, options)]
        body: dict[str, Any] = {"model": options.model, "input": items}
        if call.tools and (call.may_call or options.takes("tool_choice")):
            # by default this interface is strict, which only takes schemas without optional members
            body["tools"] = [{"type": "function", "strict": False} | function_of(tool) for tool in call.tools]
        body["max_output_tokens"] = options.max_tokens
        if system:
            body["instructions"] = system
        format = reply_format(call, options)
        return body, optional(
            body,
            options,
            ("store", "store", False),
            ("include", "include", ["reasoning.encrypted_content"]),
            ("tool_choice", "tool_choice", "none" if call.tools and not call.may_call else None),
            ("cache", "prompt_cache_key", cache_key(call, options)),
            ("parts", "input", items if sends_any_parts(call, options) else None),
            ("temperature", "temperature", options.temperature),
            ("effort", "reasoning", None if options.effort is None else {"effort": options.effort}),
            ("structure", "text", None if format is None else {"format": format}),
        )
