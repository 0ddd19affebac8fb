"""
Native tool calls of model providers, as steps of a plan.

Understood are the messages that the providers' own clients give as JSON: OpenAI Chat Completions (a whole response, its
message, or the legacy ``function_call``), OpenAI Responses (``output`` items) and Anthropic Messages (``content``
blocks). Arguments that cannot be read do not become no arguments: the step says so and is not executed. An id that is
missing is derived, so that the same reply gives the same ids everywhere.

Source: docs/spec-coverage.md, A149, C18; the providers' API references, read 2026-11.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .json_reading import Unreadable, holds_any, read_object

ARGUMENTS_MAX = 1_000_000
"""Longest arguments of one call in characters."""


@dataclass(frozen=True, slots=True)
class NativeReply:
    """
    A provider's message, taken apart.

    Attributes:
        text: What the model said beside its calls; may be empty.
        calls: One raw step per call, in order, under the names of `states.records.plans.Step`.
    """

    text: str
    calls: tuple[dict[str, Any], ...]


def native_reply(data: Mapping[str, Any], *, reply_id: str = "") -> NativeReply | None:
    """
    Return what a provider's message says and calls, None when *data* is no such message.

    Args:
        data: The message or response as JSON.
        reply_id: Goes into derived ids; a response's own id is used before it.
    """
    found = native_calls(data)
    if found is None:
        return None
    text, raw_calls = found
    base = data.get("id") if isinstance(data.get("id"), str) else reply_id
    calls: list[dict[str, Any]] = []
    used: set[str] = set()
    for index, raw in enumerate(raw_calls):
        step = _step(raw)
        if not step["id"] or step["id"] in used:
            step["id"] = derived_id(str(base), index, step["name"])
        used.add(step["id"])
        calls.append(step)
    return NativeReply(text, tuple(calls))


def native_calls(data: Mapping[str, Any]) -> tuple[str, list[Mapping[str, Any]]] | None:
    """Return what a provider's message says and its calls as they came, None when *data* is no such message."""
    return _chat_message(data) or _responses_output(data) or _anthropic_message(data)


def native_step(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a provider's call as a raw step, None when *raw* is no call."""
    return _step(raw) if _is_call(raw) else None


Known = Callable[[str], Callable[[str], bool] | None]
"""By a tool's name: which parameters it has, None of a tool whose calls need not get exactly what is said."""


def any_call(name: str) -> None:
    """Hold no call to what is said of it."""


def unsaid(
    beside: Iterable[str],
    args: Mapping[str, Any],
    known: Callable[[str], bool] | None,
    rounded: Collection[float],
) -> str | None:
    """Return what of a call its arguments do not say: a parameter *beside* them, or a number that was *rounded*; None if they say all."""
    if known is None:
        return None
    lost = [key for key in beside if known(key)]
    if lost:
        return f"{ascii(lost[0])[:80]} is a parameter and must stand among the arguments, not beside them"
    return ROUNDED if holds_any(args, rounded) else None


ROUNDED = "a number has more digits than are read; write fewer, or a whole number without a fraction"


def derived_id(reply_id: str, index: int, name: str) -> str:
    """Return the id of a call that came without one: the same for the same place in the same reply."""
    digest = hashlib.sha256(f"{reply_id}\0{index}\0{name}".encode("utf-8", "replace")).hexdigest()
    return f"call_{digest[:24]}"


_Parts = tuple[str, list[Mapping[str, Any]]]


def _chat_message(data: Mapping[str, Any]) -> _Parts | None:
    choices = data.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        message = choices[0].get("message")
        return _message_parts(message) if isinstance(message, Mapping) else None
    if isinstance(data.get("tool_calls"), list) or isinstance(data.get("function_call"), Mapping):
        return _message_parts(data)
    is_message = data.get("role") == "assistant" and isinstance(data.get("content"), str)
    return _message_parts(data) if is_message else None


def _message_parts(message: Mapping[str, Any]) -> _Parts:
    calls = _mappings(message.get("tool_calls"))
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping):
        calls.append(legacy)
    return _text_of(message.get("content")), calls


def _responses_output(data: Mapping[str, Any]) -> _Parts | None:
    items = _mappings(data.get("output"))
    if not any(item.get("type") in ("function_call", "message", "reasoning") for item in items):
        return None
    texts = [_text_of(item.get("content")) for item in items if item.get("type") == "message"]
    return "\n".join(filter(None, texts)), [item for item in items if item.get("type") == "function_call"]


def _anthropic_message(data: Mapping[str, Any]) -> _Parts | None:
    blocks = _mappings(data.get("content"))
    if not any(block.get("type") in ("tool_use", "text", "thinking") for block in blocks):
        return None
    return _text_of(blocks), [block for block in blocks if block.get("type") == "tool_use"]


def _mappings(items: object) -> list[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _text_of(content: object) -> str:
    """Return the text of a message's content: a text, or the texts among its parts."""
    if isinstance(content, str):
        return content
    parts = [
        part["text"]
        for part in _mappings(list(content) if isinstance(content, Sequence) else None)
        if part.get("type") in ("text", "output_text") and isinstance(part.get("text"), str)
    ]
    return "\n".join(parts)


def _is_call(raw: Mapping[str, Any]) -> bool:
    if raw.get("type") in ("function_call", "tool_use"):
        return True
    return isinstance(raw.get("function"), Mapping)


def call_parts(raw: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """Return id, name and arguments of a provider's call as they came; without an id the empty one."""
    inner = raw.get("function")
    function = inner if isinstance(inner, Mapping) else raw
    arguments = next((function[key] for key in ("arguments", "input", "args") if key in function), None)
    id = next((raw[key] for key in ("call_id", "id") if isinstance(raw.get(key), str)), "")
    return id, function.get("name", raw.get("name", "")), arguments


def _step(raw: Mapping[str, Any]) -> dict[str, Any]:
    id, name, arguments = call_parts(raw)
    read = read_arguments(arguments)
    step: dict[str, Any] = {"id": id, "type": "tool", "name": name}
    return step | ({"args": {}, "fault": read} if isinstance(read, str) else {"args": read})


def read_arguments(arguments: object) -> dict[str, Any] | str:
    """Return a call's arguments, an object or its text, or one line on why they cannot be read."""
    if arguments is None:
        return {}
    if isinstance(arguments, dict):
        return arguments
    if not isinstance(arguments, str):
        return "the arguments are no JSON object"
    if not arguments.strip():
        return {}
    read = read_object(arguments, chars_max=ARGUMENTS_MAX)
    return f"the arguments cannot be read: {read.message}" if isinstance(read, Unreadable) else read
