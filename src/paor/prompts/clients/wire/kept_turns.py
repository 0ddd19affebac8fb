"""
The turns of a model as its provider gave them: made fit for the journal, and sent back unchanged; pure.

What may differ from what was received is what would be refused: the id of a call is the one that its result refers to, and arguments
that are no JSON are those that were read. A turn whose calls are not those of its message is sent in the normal form instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ....states.base.secrets import Scrubber
from ...model import PromptMessage, ToolCall, can_be_kept
from .interface import as_json, decoded


def kept_parts(parts: tuple[dict[str, Any], ...], scrub: Scrubber) -> tuple[dict[str, Any], ...]:
    """
    Return the parts of a turn without secrets: in values of members and in their names.

    None are kept if a journal cannot hold them, or a secret is divided among names, types or other values.
    """
    if not can_be_kept(parts):
        return ()
    every: list[str] = []
    names: list[str] = []
    types: list[str] = []
    values: list[str] = []

    def kept(text: str, among: list[str]) -> str:
        text = scrub(text)
        every.append(text)
        among.append(text)
        return text

    def clean(value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            return kept(value, types if name == "type" else values)
        if isinstance(value, list):
            return list(map(clean, value))
        if isinstance(value, dict):
            return {kept(name, names): clean(inner, name) for name, inner in value.items()}
        return value

    cleaned = tuple(map(clean, parts))
    return () if any(scrub.spans("".join(texts)) for texts in (every, names, types, values)) else cleaned


def without_last(parts: Sequence[dict[str, Any]], types: Collection[str]) -> list[dict[str, Any]]:
    """Return *parts* up to the last one of another type: a turn must not end with what leads to nothing."""
    end = len(parts)
    while end and parts[end - 1].get("type") in types:
        end -= 1
    return list(parts[:end])


def with_calls(
    message: PromptMessage, parts: Sequence[dict[str, Any]], type: str, id_name: str, given: str
) -> list[dict[str, Any]] | None:
    """
    Return the parts of a turn with its calls as the results refer to them, None if those are not the calls of *message*.

    Args:
        message: Of the prompt.
        parts: Of its turn.
        type: Of a part that is a call.
        id_name, given: Members of such a part: its id, and its arguments.
    """
    places = [place for place, part in enumerate(parts) if part.get("type") == type]
    if len(places) != len(message.calls):
        return None
    sent = list(parts)
    for place, call in zip(places, message.calls, strict=True):
        sent[place] = _call(sent[place], call, id_name) | _arguments(sent[place], call, given)
    return sent


def _call(part: dict[str, Any], call: ToolCall, id_name: str) -> dict[str, Any]:
    return part if part.get(id_name) == call.id else part | {id_name: call.id}


def _arguments(part: dict[str, Any], call: ToolCall, given: str) -> dict[str, Any]:
    """Return nothing where a part has arguments that can be read, else those of *call* in the same form."""
    value = part.get(given)
    if isinstance(value, dict):
        return {}
    if given == "input":
        return {given: call.arguments}
    try:
        decoded(value if isinstance(value, str) else "")
    except ValueError:
        return {given: as_json(call.arguments)}
    return {}


def chat_turn(message: PromptMessage) -> dict[str, Any] | None:
    """Return the assistant's message of a kept turn of Chat Completions, None if its calls are not those of *message*."""
    (part,) = message.parts[:1]
    raw = part.get("tool_calls") or []
    if not isinstance(raw, list) or not all(isinstance(call, dict) for call in raw):
        return None
    if len(raw) != len(message.calls) or part.get("function_call"):
        return None
    sent = {"role": "assistant"} | part
    if raw:
        sent["tool_calls"] = [
            _call(one, call, "id") | _function(one, call)
            for one, call in zip(raw, message.calls, strict=True)
        ]
    elif part.get("content") is None:
        sent["content"] = ""
    return sent


def _function(part: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    inner = part.get("function")
    function = inner if isinstance(inner, dict) else {"name": call.name}
    mended = _arguments(function, call, "arguments")
    return {"function": function | mended} if mended or function is not inner else {}
