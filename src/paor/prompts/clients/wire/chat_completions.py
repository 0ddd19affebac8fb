"""
OpenAI Chat Completions, as OpenAI and compatible servers speak it: requests as data, replies read from the SDK's objects.

Source: the types of the installed SDK, openai 3.54 (``openai.types.chat``), and what llama.cpp's server answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ....states.records.outcomes import Usage
from ...model import Finish, ModelCall, PromptMessage
from ...parsing.provider_schema import strict_schema
from .faults import AttemptFault, told_fault
from .interface import (
    Interface,
    ParsedReply,
    ReplyReader,
    RequestOptions,
    as_json,
    bad_body,
    count,
    counted,
    cut_stream,
    function_of,
    members,
    optional,
    sendable,
    text_in,
)

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall

_FINISHES: dict[str, Finish] = {
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


def reply_format(call: ModelCall, options: RequestOptions) -> dict[str, Any] | None:
    """Return how a reply is to look: JSON, or a call's schema, strict where that is possible, else as advice."""
    if call.schema is None or options.structure not in ("schema", "object"):
        return None
    if options.structure == "object":
        return {"type": "json_object"}
    absent = "refuse" if call.kind == "parameters" else "null"
    strict = strict_schema(call.schema, optional=absent, limits=True) if options.official else None
    is_strict = strict is not None or not options.official
    return {"type": "json_schema", "name": call.kind, "schema": strict or call.schema, "strict": is_strict}


def _content(content: object) -> str:
    """Return the text of a message: a text, or, as some servers have it, the texts among its parts."""
    if isinstance(content, list):
        return "".join(text_in(members(part).get("text")) for part in content)
    return text_in(content)


def _parse_message(
    text: str, refusal: str, calls: list[Any], finish: object, usage: Usage | None, id: str
) -> ParsedReply:
    """Return the reply of a message, whichever way it came."""
    end = _FINISHES.get(text_in(finish), "stop")
    if refusal:
        return ParsedReply(text or refusal, "refusal", usage, id)
    if calls and end not in ("length", "content_filter"):
        message = {"role": "assistant", "content": text or None, "tool_calls": calls}
        return ParsedReply(as_json(message), "tool_calls", usage, id)
    return ParsedReply(text, "stop" if end == "tool_calls" else end, usage, id)


def _has_reasoned(message: Any) -> bool:
    """Return whether a message or a piece of one holds reasoning, in the members that servers of one's own have for it."""
    return any(getattr(message, name, None) for name in ("reasoning_content", "reasoning"))


class ChatReader(ReplyReader):
    """Reads one chat completion; the SDK itself ends a stream at ``[DONE]``."""

    def __init__(self) -> None:
        self._id = ""
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish: str | None = None
        self._reasoned = False

    def add(self, chunk: ChatCompletionChunk) -> str:
        self._id = self._id or text_in(chunk.id)
        self.usage = counted(chunk.usage, "prompt", "completion") or self.usage
        if not chunk.choices:
            return ""
        choice = chunk.choices[0]
        self._finish = text_in(choice.finish_reason) or self._finish
        if not choice.delta:
            return ""
        self._reasoned = self._reasoned or _has_reasoned(choice.delta)
        self._text.append(_content(choice.delta.content))
        self._refusal.append(text_in(choice.delta.refusal))
        for call in choice.delta.tool_calls or ():
            self._add_call(call)
        return self._text[-1]

    def _add_call(self, part: ChoiceDeltaToolCall) -> None:
        """Add a piece of a tool call; its arguments come in pieces, too."""
        index = part.index if type(part.index) is int else len(self._calls)
        empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        call = self._calls.setdefault(count(index), empty)
        call["id"] = call["id"] or text_in(part.id)
        function = members(part.function)
        call["function"]["name"] += text_in(function.get("name"))
        call["function"]["arguments"] += text_in(function.get("arguments"))

    def whole(self, reply: ChatCompletion) -> ParsedReply | AttemptFault:
        self.usage = counted(reply.usage, "prompt", "completion")
        if not reply.choices:
            error = getattr(reply, "error", None)
            return told_fault(error, self.usage) if error else bad_body("it has no choices", self.usage)
        choice = reply.choices[0]
        calls = [members(call) for call in choice.message.tool_calls or ()]
        if choice.message.function_call:
            calls.append({"type": "function", "function": members(choice.message.function_call)})
        text, refusal = _content(choice.message.content), text_in(choice.message.refusal)
        told = _parse_message(text, refusal, calls, choice.finish_reason, self.usage, text_in(reply.id))
        return replace(told, reasoned=_has_reasoned(choice.message))

    def end(self) -> ParsedReply | AttemptFault:
        if self._finish is None:
            return cut_stream(self.usage)
        calls = [self._calls[index] for index in sorted(self._calls)]
        refusal = "".join(self._refusal)
        told = _parse_message("".join(self._text), refusal, calls, self._finish, self.usage, self._id)
        return replace(told, reasoned=self._reasoned)


def _message(message: PromptMessage) -> dict[str, Any]:
    """Return a message of a prompt as this interface has it."""
    sent: dict[str, Any] = {"role": message.role, "content": sendable(message.text)}
    if message.call_id:
        sent["tool_call_id"] = message.call_id
    if message.calls:
        sent["content"] = sent["content"] or None
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": as_json(call.arguments)},
            }
            for call in message.calls
        ]
    return sent


class ChatWire(Interface):
    """``POST /chat/completions``."""

    structures = ("schema", "object", "none")
    reader = ChatReader
    module, event, reply = "openai.types.chat", "ChatCompletionChunk", "ChatCompletion"

    def body(self, call: ModelCall, options: RequestOptions) -> tuple[dict[str, Any], set[str]]:
        body: dict[str, Any] = {"model": options.model, "messages": list(map(_message, call.messages))}
        if call.tools and call.may_call:  # a small model calls whatever it is shown, also where it must not
            body["tools"] = [{"type": "function", "function": function_of(tool)} for tool in call.tools]
        newer, older = "max_completion_tokens", "max_tokens"
        names = (newer, older) if options.official else (older, newer)
        limit = next((name for name in names if options.takes(name)), older)
        body[limit] = options.max_tokens
        format: dict[str, Any] | None = reply_format(call, options)
        if format is not None and "name" in format:
            format = {"type": format.pop("type"), "json_schema": format}
        return body, ({limit} - options.without) | optional(
            body,
            options,
            ("temperature", "temperature", options.temperature),
            ("effort", "reasoning_effort", options.effort),
            ("structure", "response_format", format),
            ("stream_options", "stream_options", {"include_usage": True} if options.stream else None),
        )
