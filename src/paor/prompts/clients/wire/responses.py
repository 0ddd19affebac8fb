"""
OpenAI Responses: requests as data, replies read from the SDK's objects.

Source: the types of the installed SDK, openai 3.54 (``openai.types.responses``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    prompt,
    sendable,
    sends_any_parts,
    sends_parts,
    text_in,
)
from .kept_turns import with_calls, without_last

if TYPE_CHECKING:
    from openai.types.responses import Response

_LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class ResponsesReader(ReplyReader):
    """Reads one response; items and texts that were streamed stand in for an output that its last event leaves out."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._items: list[Any] = []
        self._last: Response | None = None
        self._error: object = None

    def add(self, event: Any) -> str:
        if event.type == "error":
            self._error, self.done = event, True
        elif event.type == "response.output_text.delta":
            self._text.append(text_in(event.delta))
            return self._text[-1]
        elif event.type == "response.output_item.done":
            self._items.append(event.item)
        elif event.type in _LAST:
            self._last, self.done = event.response, True
        elif text_in(event.type).startswith("response."):
            response = getattr(event, "response", None)
            self.usage = counted(members(response).get("usage"), "input", "output") or self.usage
        return ""

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
        output, streamed = list(told or self._items), "".join(self._text)
        if reply.status in ("queued", "in_progress") or (told is None and not (output or streamed)):
            return bad_body("it has no output", self.usage)
        parts = tuple(map(members, output))
        messages = [item for item in output if item.type == "message"]
        # a commentary is what the model says on its way to an answer
        answers = [item for item in messages if getattr(item, "phase", None) != "commentary"]
        refusal = "".join(text_in(part.refusal) for part in _pieces(messages) if part.type == "refusal")
        texts = [
            text_in(getattr(part, "text", None))
            for part in _pieces(answers)
            if part.type in ("output_text", "text")
        ]
        text = "".join(texts) or (streamed if answers or not messages else "")
        if refusal:
            return ParsedReply("".join(texts) or refusal, "refusal", self.usage, id, parts)
        if reply.status == "incomplete":
            reason = members(reply.incomplete_details).get("reason")
            finish: Finish = "content_filter" if reason == "content_filter" else "length"
            return ParsedReply(text, finish, self.usage, id, parts)
        if any(item.type == "function_call" for item in output):
            return ParsedReply(as_json({"id": id, "output": parts}), "tool_calls", self.usage, id, parts)
        return ParsedReply(text, "stop", self.usage, id, parts)


def _pieces(messages: list[Any]) -> list[Any]:
    """Return the parts of the content of messages."""
    return [part for item in messages for part in item.content or ()]


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
    said = [{"role": message.role, "content": text}] if text or not message.calls else []
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
        items = [item for message in messages for item in _items(message, options)]
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
