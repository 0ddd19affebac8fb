"""
OpenAI Chat Completions, as OpenAI and compatible servers speak it: requests as data, replies and streams read.

Source: the types of the installed SDK, openai 3.54 (``openai.types.chat``), and what llama.cpp's server answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....states.outcomes import Usage
from ...model import Finish, ModelCall
from ...strict import strict_schema
from .faults import Fault, told_fault
from .interface import (
    Asked,
    Heard,
    as_json,
    bad_body,
    count,
    cut_stream,
    decoded,
    mapping,
    mappings,
    sendable,
    text_in,
)

_FINISHES: dict[str, Finish] = {
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


class ChatWire:
    """``POST /chat/completions``."""

    structures = ("schema", "object", "none")

    def body(self, call: ModelCall, asked: Asked) -> tuple[dict[str, Any], set[str]]:
        """Return the body, and which features of it can be left out."""
        features: set[str] = set()
        messages = [{"role": message.role, "content": sendable(message.text)} for message in call.messages]
        body: dict[str, Any] = {"model": asked.model, "messages": messages}
        newer, older = "max_completion_tokens", "max_tokens"
        names = (newer, older) if asked.official else (older, newer)
        limit = next((name for name in names if asked.takes(name)), older)
        body[limit] = asked.max_tokens
        features |= {limit} - asked.without
        if asked.temperature is not None and asked.takes("temperature"):
            body["temperature"] = asked.temperature
            features.add("temperature")
        if asked.effort is not None and asked.takes("effort"):
            body["reasoning_effort"] = asked.effort
            features.add("effort")
        if call.schema is not None and asked.structure in ("schema", "object"):
            body["response_format"] = _format(call, asked)
            features.add("structure")
        if asked.stream:
            body["stream"] = True
            if asked.takes("stream_options"):
                body["stream_options"] = {"include_usage": True}
                features.add("stream_options")
        return body, features

    def read(self, data: Mapping[str, Any]) -> Heard | Fault:
        """Return what a whole response came to."""
        usage = chat_usage(data.get("usage"))
        choices = mappings(data.get("choices"))
        if not choices:
            return told_fault(data, usage) if data.get("error") else bad_body("it has no choices", usage)
        message = mapping(choices[0].get("message"))
        calls = mappings(message.get("tool_calls"))
        if isinstance(message.get("function_call"), Mapping):
            calls.append({"type": "function", "function": message["function_call"]})
        refusal = text_in(message.get("refusal"))
        text = _content(message.get("content"))
        return _heard(text, refusal, calls, choices[0].get("finish_reason"), usage, text_in(data.get("id")))

    def hearing(self) -> ChatHearing:
        """Return what hears a streamed response."""
        return ChatHearing()


def _format(call: ModelCall, asked: Asked) -> dict[str, Any]:
    """Return the response format of a request with a schema."""
    assert call.schema is not None
    if asked.structure == "object":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": named_schema(call, official=asked.official)}


def named_schema(call: ModelCall, *, official: bool) -> dict[str, Any]:
    """Return a call's schema with its name: strict where that is possible, else as advice."""
    assert call.schema is not None
    optional = "refuse" if call.kind == "parameters" else "null"
    strict = strict_schema(call.schema, optional=optional, limits=True) if official else None
    return {"name": call.kind, "schema": strict or call.schema, "strict": strict is not None or not official}


def _content(content: object) -> str:
    """Return the text of a message: a text, or the texts among its parts."""
    if isinstance(content, str):
        return content
    return "".join(text_in(part.get("text")) for part in mappings(content))


def _heard(text: str, refusal: str, calls: list[Any], finish: object, usage: Usage | None, id: str) -> Heard:
    """Return the reply of a message, whichever way it came."""
    end = _FINISHES.get(text_in(finish), "stop")
    if refusal:
        return Heard(text or refusal, "refusal", usage, id)
    if calls and end not in ("length", "content_filter"):
        message = {"role": "assistant", "content": text or None, "tool_calls": calls}
        return Heard(as_json(message), "tool_calls", usage, id)
    return Heard(text, "stop" if end == "tool_calls" else end, usage, id)


def chat_usage(data: object) -> Usage | None:
    """Return the usage of a response; its prompt tokens include the cached ones."""
    if not isinstance(data, Mapping) or "prompt_tokens" not in data:
        return None
    read, written = mapping(data.get("prompt_tokens_details")), mapping(data.get("completion_tokens_details"))
    return Usage(
        1,
        count(data.get("prompt_tokens")),
        count(data.get("completion_tokens")),
        tokens_cached=count(read.get("cached_tokens")),
        tokens_cache_write=count(read.get("cache_write_tokens")),
        tokens_reasoning=count(written.get("reasoning_tokens")),
    )


class ChatHearing:
    """One streamed chat completion."""

    def __init__(self) -> None:
        self.done = False
        self._id = ""
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._problem: Fault | None = None

    def feed(self, name: str, data: str) -> str:
        """Take one chunk and return the text that it adds."""
        if data.strip() == "[DONE]" or not data.strip():
            self.done = self.done or bool(data.strip())
            return ""
        chunk = decoded(data)
        if chunk.get("error") or name == "error":
            self._problem, self.done = told_fault(chunk, self._usage), True
            return ""
        self._id = self._id or text_in(chunk.get("id"))
        self._usage = chat_usage(chunk.get("usage")) or self._usage
        added = ""
        for choice in mappings(chunk.get("choices"))[:1]:
            delta = mapping(choice.get("delta"))
            added += _content(delta.get("content"))
            self._refusal.append(text_in(delta.get("refusal")))
            for call in mappings(delta.get("tool_calls")):
                self._add_call(call)
            self._finish = text_in(choice.get("finish_reason")) or self._finish
        self._text.append(added)
        return added

    def _add_call(self, part: Mapping[str, Any]) -> None:
        """Add a piece of a tool call; its arguments come in pieces, too."""
        index = part.get("index") if type(part.get("index")) is int else len(self._calls)
        empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        call = self._calls.setdefault(count(index), empty)
        call["id"] = call["id"] or text_in(part.get("id"))
        function = mapping(part.get("function"))
        call["function"]["name"] += text_in(function.get("name"))
        call["function"]["arguments"] += text_in(function.get("arguments"))

    def end(self) -> Heard | Fault:
        """Return the whole; without a reason of its end it is not whole."""
        if self._problem is not None:
            return self._problem
        if self._finish is None:
            return cut_stream(self._usage)
        calls = [self._calls[index] for index in sorted(self._calls)]
        refusal = "".join(self._refusal)
        return _heard("".join(self._text), refusal, calls, self._finish, self._usage, self._id)
