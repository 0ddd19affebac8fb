"""
Anthropic Messages: requests as data, replies and streams read.

Source: the types of the installed SDK, anthropic 2.12 (``anthropic.types``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....states.outcomes import Usage
from ...model import Finish, ModelCall
from ...strict import strict_schema
from .faults import Fault, one_line, told_fault
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

    def body(self, call: ModelCall, asked: Asked) -> tuple[dict[str, Any], set[str]]:
        """Return the body, and which features of it can be left out."""
        features: set[str] = set()
        system = "\n\n".join(sendable(item.text) for item in call.messages if item.role == "system")
        messages = [
            {"role": message.role, "content": sendable(message.text)}
            for message in call.messages
            if message.role != "system"
        ]
        body: dict[str, Any] = {"model": asked.model, "max_tokens": asked.max_tokens, "messages": messages}
        if system:
            body["system"] = system
        if asked.temperature is not None and asked.takes("temperature"):
            body["temperature"] = asked.temperature
            features.add("temperature")
        config: dict[str, Any] = {}
        if asked.effort is not None and asked.takes("effort"):
            config["effort"] = asked.effort
            features.add("effort")
        if call.schema is not None and asked.structure == "schema":
            schema = strict_schema(call.schema, optional="keep", limits=False)
            if schema is not None:
                config["format"] = {"type": "json_schema", "schema": schema}
                features.add("structure")
        elif call.schema is not None and asked.structure == "tool":
            about = "Give the reply that is asked for."
            body["tools"] = [{"name": REPLY_TOOL, "description": about, "input_schema": call.schema}]
            body["tool_choice"] = {"type": "tool", "name": REPLY_TOOL}
        if config:
            body["output_config"] = config
        if asked.stream:
            body["stream"] = True
        return body, features

    def read(self, data: Mapping[str, Any]) -> Heard | Fault:
        """Return what a whole response came to."""
        usage = messages_usage(mapping(data.get("usage")))
        if data.get("type") == "error" or (data.get("error") and "content" not in data):
            return told_fault(data, usage)
        if not isinstance(data.get("content"), list):
            return bad_body("it has no content", usage)
        return _heard(data, mappings(data["content"]), usage)

    def hearing(self) -> MessagesHearing:
        """Return what hears a streamed response."""
        return MessagesHearing()


def _heard(message: Mapping[str, Any], blocks: list[Mapping[str, Any]], usage: Usage | None) -> Heard:
    """Return the reply of a message, whichever way it came."""
    id, stop = text_in(message.get("id")), text_in(message.get("stop_reason"))
    finish = _FINISHES.get(stop, "stop")
    text = "".join(text_in(block.get("text")) for block in blocks if block.get("type") == "text")
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    replies = [block for block in calls if block.get("name") == REPLY_TOOL]
    if stop == "refusal":
        details = mapping(message.get("stop_details"))
        told = [text_in(details.get(name)) for name in ("category", "explanation")]
        return Heard(text or one_line(": ".join(filter(None, told))), "refusal", usage, id)
    if replies and len(calls) == 1:
        return Heard(as_json(replies[0].get("input")), "length" if finish == "length" else "stop", usage, id)
    if calls and finish != "length":
        return Heard(as_json({"id": id, "role": "assistant", "content": blocks}), "tool_calls", usage, id)
    paused = [dict(block) for block in blocks] if stop == "pause_turn" else None
    return Heard(text, "stop" if finish == "tool_calls" else finish, usage, id, paused)


def messages_usage(data: Mapping[str, Any]) -> Usage | None:
    """Return the usage of a response; its input tokens do not include what the cache had and got."""
    if "input_tokens" not in data and "output_tokens" not in data:
        return None
    cached, written = (
        count(data.get("cache_read_input_tokens")),
        count(data.get("cache_creation_input_tokens")),
    )
    return Usage(
        1,
        count(data.get("input_tokens")) + cached + written,
        count(data.get("output_tokens")),
        tokens_cached=cached,
        tokens_cache_write=written,
        tokens_reasoning=count(mapping(data.get("output_tokens_details")).get("thinking_tokens")),
    )


class MessagesHearing:
    """One streamed message."""

    def __init__(self) -> None:
        self.done = False
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._problem: Fault | None = None

    def feed(self, name: str, data: str) -> str:
        """Take one event and return the text that it adds."""
        if not data.strip() or name == "ping":
            return ""
        event = decoded(data)
        kind = text_in(event.get("type")) or name
        if kind == "error":
            self._problem, self.done = told_fault(event, messages_usage(self._usage)), True
        elif kind == "message_start":
            message = mapping(event.get("message"))
            self._message["id"] = message.get("id")
            self._count(message.get("usage"))
        elif kind == "content_block_start":
            block = dict(mapping(event.get("content_block")))
            self._blocks[count(event.get("index"))] = block
            return text_in(block.get("text")) if block.get("type") == "text" else ""
        elif kind == "content_block_delta":
            return self._add(count(event.get("index")), mapping(event.get("delta")))
        elif kind == "message_delta":
            delta = mapping(event.get("delta"))
            self._message |= {
                name: delta[name] for name in ("stop_reason", "stop_details") if delta.get(name)
            }
            self._count(event.get("usage"))
        elif kind == "message_stop":
            self.done = True
        return ""

    def _add(self, index: int, delta: Mapping[str, Any]) -> str:
        """Add a piece to the block with *index*."""
        kind = delta.get("type")
        if kind == "text_delta":
            added = text_in(delta.get("text"))
            block = self._blocks.setdefault(index, {"type": "text", "text": ""})
            block.setdefault("pieces", []).append(added)
            return added
        if kind == "input_json_delta":
            self._inputs.setdefault(index, []).append(text_in(delta.get("partial_json")))
        return ""

    def _count(self, usage: object) -> None:
        """Take over the numbers of a usage; they are totals."""
        self._usage |= {name: value for name, value in mapping(usage).items() if value is not None}

    def end(self) -> Heard | Fault:
        """Return the whole; without a stop reason it is not whole."""
        usage = messages_usage(self._usage)
        if self._problem is not None:
            return self._problem
        if "stop_reason" not in self._message:
            return cut_stream(usage)
        blocks: list[Mapping[str, Any]] = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            pieces = block.pop("pieces", None)
            if pieces is not None:
                block["text"] = text_in(block.get("text")) + "".join(pieces)
            if index in self._inputs:
                try:
                    block["input"] = decoded("".join(self._inputs[index]) or "{}")
                except ValueError:  # cut off at the token limit, or wrong: the reader of the reply says so
                    block["input"] = "".join(self._inputs[index])
            blocks.append(block)
        return _heard(self._message, blocks, usage)
