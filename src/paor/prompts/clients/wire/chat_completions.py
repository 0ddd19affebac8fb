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
    cache_key,
    counted,
    cut_stream,
    function_of,
    members,
    optional,
    picture_url,
    pictures_behind,
    sendable,
    sends_any_parts,
    sends_parts,
    text_in,
)
from .kept_turns import chat_turn
from .pieces import CallPieces, joined, number_of

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

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


def _parse_message(message: dict[str, Any], finish: object, usage: Usage | None, id: str) -> ParsedReply:
    """Return the reply of a message, whichever way it came."""
    text, refusal = _content(message.get("content")), text_in(message.get("refusal"))
    calls = _listed(message.get("tool_calls"))
    if not calls and message.get("function_call"):  # the older form; some servers give both, of one call
        calls = [{"type": "function", "function": members(message["function_call"])}]
    reasoned = any(message.get(name) for name in ("reasoning_content", "reasoning"))
    told = ParsedReply(text, "stop", usage, id, (message,), reasoned=reasoned)
    end = _FINISHES.get(text_in(finish), "stop")
    if refusal:
        return replace(told, text=text or refusal, finish="refusal")
    if calls and end not in ("length", "content_filter"):
        said = {"role": "assistant", "content": text or None, "tool_calls": calls}
        return replace(told, text=as_json(said), finish="tool_calls")
    return replace(told, finish="stop" if end == "tool_calls" else end)


def _listed(calls: object) -> list[dict[str, Any]]:
    """Return tool calls as a list, where a server gives one alone."""
    return (
        [members(call) for call in calls] if isinstance(calls, list) else list(filter(None, [members(calls)]))
    )


def _joined(name: str, pieces: list[Any]) -> Any:
    """Return what the pieces of one member of a streamed message make: texts and lists grow, of all others the last one holds."""
    if name == "role":
        return pieces[0]
    if all(isinstance(piece, str) for piece in pieces):
        return joined(pieces)
    if name == "content" or all(isinstance(piece, list) for piece in pieces):
        lists = [
            [{"type": "text", "text": piece}] if isinstance(piece, str) else piece
            for piece in pieces
            if piece
        ]
        return _put_together([item for piece in lists for item in piece])
    return pieces[-1]


_OF_ALL = ("type", "id", "index", "format")
"""Members that each piece of a numbered item repeats."""


def _put_together(items: list[Any]) -> list[Any]:
    """Return *items* with the pieces of one, which follow each other under its number, as one; a signature ends it."""
    groups: list[list[Any]] = []
    for item in items:
        if groups and _is_next(groups[-1][-1], item):
            groups[-1].append(item)
        else:
            groups.append([item])
    return [group[0] if len(group) == 1 else _whole(group) for group in groups]


def _is_next(last: Any, item: Any) -> bool:
    if not isinstance(last, dict) or not isinstance(item, dict) or last.get("signature"):
        return False
    is_same = all(last.get(name) == item.get(name) for name in ("index", "type"))
    return is_same and number_of(item.get("index")) is not None


def _whole(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for piece in pieces:
        for name, value in piece.items():
            if value is not None:
                found.setdefault(name, []).append(value)
    return {
        name: joined(values)
        if name not in _OF_ALL and all(isinstance(one, str) for one in values)
        else values[-1]
        for name, values in found.items()
    }


class ChatReader(ReplyReader):
    """Reads one chat completion, of several choices the first one; the SDK itself ends a stream at ``[DONE]``."""

    def __init__(self) -> None:
        self._id = ""
        self._choice: int | None = None
        self._members: dict[str, list[Any]] = {}
        self._calls, self._older = CallPieces(), CallPieces()
        self._finish: str | None = None

    def add(self, chunk: ChatCompletionChunk) -> str:
        self._id = self._id or text_in(chunk.id)
        self.usage = counted(chunk.usage, "prompt", "completion") or self.usage
        return "".join([self._add_choice(choice) for choice in chunk.choices or ()])

    def _add_choice(self, choice: Any) -> str:
        number = number_of(choice.index)
        self._choice = number if self._choice is None else self._choice
        if number not in (None, self._choice):
            return ""
        self._finish = text_in(choice.finish_reason) or self._finish
        delta = members(choice.delta)
        for call in _listed(delta.pop("tool_calls", None)):
            self._calls.add(call)
        if older := members(delta.pop("function_call", None)):
            self._older.add({"function": older})
        for name, piece in delta.items():
            if piece is not None:
                self._members.setdefault(name, []).append(piece)
        return _content(delta.get("content"))

    def whole(self, reply: ChatCompletion) -> ParsedReply | AttemptFault:
        self.usage = counted(reply.usage, "prompt", "completion")
        if not reply.choices:
            error = getattr(reply, "error", None)
            return told_fault(error, self.usage) if error else bad_body("it has no choices", self.usage)
        choice = reply.choices[0]
        return _parse_message(members(choice.message), choice.finish_reason, self.usage, text_in(reply.id))

    def end(self) -> ParsedReply | AttemptFault:
        calls = self._calls.made() or self._older.made()
        if self._finish is None and not (self.done and (calls or self._members)):
            return cut_stream(self.usage)
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {name: _joined(name, pieces) for name, pieces in self._members.items()}
        if calls:
            message["tool_calls"] = calls
        return _parse_message(message, self._finish, self.usage, self._id)


def _message(message: PromptMessage, options: RequestOptions) -> dict[str, Any]:
    """Return a message of a prompt as this interface has it."""
    if kept := sends_parts(message, options) and chat_turn(message):
        return kept
    sent: dict[str, Any] = {"role": message.role, "content": sendable(message.text)}
    if message.pictures:
        shown = [{"type": "image_url", "image_url": {"url": picture_url(one)}} for one in message.pictures]
        sent["content"] = [{"type": "text", "text": sent["content"]}, *shown]
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


def _content_parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _alternating(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *messages* with the user's that follow each other as one: chat templates of many models refuse them otherwise."""
    found: list[dict[str, Any]] = []
    for message in messages:
        if found and message["role"] == found[-1]["role"] == "user":
            before, content = found[-1]["content"], message["content"]
            if isinstance(before, str) and isinstance(content, str):
                content = f"{before}\n\n{content}"
            else:
                content = [*_content_parts(before), *_content_parts(content)]
            found[-1] = {**found[-1], "content": content}
        else:
            found.append(message)
    return found


class ChatWire(Interface):
    """``POST /chat/completions``."""

    api = "chat"
    structures = ("schema", "object", "none")
    reader = ChatReader
    module, event, reply = "openai.types.chat", "ChatCompletionChunk", "ChatCompletion"

    def body(self, call: ModelCall, options: RequestOptions) -> tuple[dict[str, Any], set[str]]:
        messages = _alternating([_message(message, options) for message in pictures_behind(call.messages)])
        body: dict[str, Any] = {"model": options.model, "messages": messages}
        # the tools also where none may be called: with others the prompt would begin otherwise, and no cache have it
        if call.tools and (call.may_call or options.takes("tool_choice")):
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
            ("tool_choice", "tool_choice", "none" if call.tools and not call.may_call else None),
            ("cache", "prompt_cache_key", cache_key(call, options)),
            ("parts", "messages", body["messages"] if sends_any_parts(call, options) else None),
        )
