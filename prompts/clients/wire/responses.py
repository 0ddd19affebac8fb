"""
OpenAI Responses: requests as data, replies and streams read.

Source: the types of the installed SDK, openai 3.54 (``openai.types.responses``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....states.outcomes import Usage
from ...model import ModelCall
from .chat_completions import named_schema
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

_LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class ResponsesWire:
    """``POST /responses``; nothing is stored at the provider."""

    structures = ("schema", "object", "none")

    def body(self, call: ModelCall, asked: Asked) -> tuple[dict[str, Any], set[str]]:
        """Return the body, and which features of it can be left out."""
        features: set[str] = set()
        system = "\n\n".join(sendable(item.text) for item in call.messages if item.role == "system")
        messages = [
            {"role": message.role, "content": sendable(message.text)}
            for message in call.messages
            if message.role != "system"
        ]
        body: dict[str, Any] = {
            "model": asked.model,
            "input": messages,
            "max_output_tokens": asked.max_tokens,
        }
        if system:
            body["instructions"] = system
        if asked.takes("store"):
            body["store"] = False
            features.add("store")
        if asked.temperature is not None and asked.takes("temperature"):
            body["temperature"] = asked.temperature
            features.add("temperature")
        if asked.effort is not None and asked.takes("effort"):
            body["reasoning"] = {"effort": asked.effort}
            features.add("effort")
        if call.schema is not None and asked.structure in ("schema", "object"):
            body["text"] = {"format": _format(call, asked)}
            features.add("structure")
        if asked.stream:
            body["stream"] = True
        return body, features

    def read(self, data: Mapping[str, Any]) -> Heard | Fault:
        """Return what a whole response came to."""
        return _read(data, [], "")

    def hearing(self) -> ResponsesHearing:
        """Return what hears a streamed response."""
        return ResponsesHearing()


def _format(call: ModelCall, asked: Asked) -> dict[str, Any]:
    if asked.structure == "object":
        return {"type": "json_object"}
    return {"type": "json_schema", **named_schema(call, official=asked.official)}


def _read(data: Mapping[str, Any], items: list[Mapping[str, Any]], heard: str) -> Heard | Fault:
    """Return the reply of a response; *items* and *heard* stand in for an output that it leaves out."""
    usage, id = responses_usage(data.get("usage")), text_in(data.get("id"))
    status = data.get("status")
    if status in ("failed", "cancelled") or (data.get("error") and not data.get("output")):
        return told_fault(data.get("error") or {"message": f"the response is {status}"}, usage)
    output = mappings(data.get("output")) or items
    if status in ("queued", "in_progress") or not (isinstance(data.get("output"), list) or output or heard):
        return bad_body("it has no output", usage)
    calls = [item for item in output if item.get("type") == "function_call"]
    parts = [
        part for item in output if item.get("type") == "message" for part in mappings(item.get("content"))
    ]
    text = "".join(text_in(part.get("text")) for part in parts if part.get("type") in ("output_text", "text"))
    refusal = "".join(text_in(part.get("refusal")) for part in parts if part.get("type") == "refusal")
    text = text or ("" if refusal else heard)
    if refusal:
        return Heard(text or refusal, "refusal", usage, id)
    if status == "incomplete":
        reason = mapping(data.get("incomplete_details")).get("reason")
        return Heard(text, "content_filter" if reason == "content_filter" else "length", usage, id)
    if calls:
        return Heard(as_json({"id": id, "output": output}), "tool_calls", usage, id)
    return Heard(text, "stop", usage, id)


def responses_usage(data: object) -> Usage | None:
    """Return the usage of a response; its input tokens include the cached ones."""
    if not isinstance(data, Mapping) or "input_tokens" not in data:
        return None
    read, written = mapping(data.get("input_tokens_details")), mapping(data.get("output_tokens_details"))
    return Usage(
        1,
        count(data.get("input_tokens")),
        count(data.get("output_tokens")),
        tokens_cached=count(read.get("cached_tokens")),
        tokens_cache_write=count(read.get("cache_write_tokens")),
        tokens_reasoning=count(written.get("reasoning_tokens")),
    )


class ResponsesHearing:
    """One streamed response."""

    def __init__(self) -> None:
        self.done = False
        self._text: list[str] = []
        self._items: list[Mapping[str, Any]] = []
        self._last: Mapping[str, Any] | None = None
        self._usage: Usage | None = None
        self._problem: Fault | None = None

    def feed(self, name: str, data: str) -> str:
        """Take one event and return the text that it adds."""
        if data.strip() == "[DONE]" or not data.strip():
            return ""
        event = decoded(data)
        kind = text_in(event.get("type")) or name
        if kind == "error" or (event.get("error") and "response" not in event):
            self._problem, self.done = told_fault(event, self._usage), True
        elif kind == "response.output_text.delta":
            self._text.append(text_in(event.get("delta")))
            return self._text[-1]
        elif kind == "response.output_item.done":
            self._items.extend(mappings([event.get("item")]))
        elif kind in _LAST:
            self._last, self.done = mapping(event.get("response")), True
        elif kind.startswith("response."):
            self._usage = responses_usage(mapping(event.get("response")).get("usage")) or self._usage
        return ""

    def end(self) -> Heard | Fault:
        """Return the whole; without the last event it is not whole."""
        if self._problem is not None:
            return self._problem
        if self._last is None:
            return cut_stream(self._usage)
        return _read(self._last, self._items, "".join(self._text))
