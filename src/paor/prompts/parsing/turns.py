"""
How one turn of a conversation is read: the calls that the model makes, or its answer; never an exception.

A client gives calls in one form, whatever its provider's is: ``{"text", "calls": [{"id", "name", "arguments"}]}``, made by
`turn_text`. Words are the answer. Servers that cannot take calls apart send them as the text that the model wrote
(``<tool_call>{...}</tool_call>``, or a JSON object of `name` and `arguments`): that is a call if it is the whole reply, and
prose that only mentions one is an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from ...states.records.plans import Step
from .json_reading import Unreadable, after_thinking, holds_any, read_object, rounded_in
from .replies import DirectAnswer, Invalid, after
from .tool_calls import Known, any_call, call_parts, derived_id, native_calls, read_arguments, unsaid

CALLS_MAX = 128
"""Most calls of one reply that is read: OpenAI's limit of parallel calls."""

NAME_CHARS, ID_CHARS = 200, 8_000
"""Characters of a name that are read, and most of an id, which goes back whole: some providers put what a model has thought into it."""

_TAGGED = re.compile(r"(?:\s*<tool_call>(?:(?!</?tool_call>).)*</tool_call>)+\s*", re.DOTALL)
_TAG = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_FENCED = re.compile(r"\s*```[ \t]*(?:json)?[ \t]*\r?\n(.*)\n[ \t]*```\s*", re.DOTALL)
_TURN = {"text", "calls"}
_CALL = {"name", "arguments"}
_BESIDE_ARGUMENTS = {*_CALL, "parameters", "id", "type", "fault"}


class Calls(Struct, frozen=True):
    """
    What a model calls.

    Attributes:
        text: What it says beside the calls.
        steps: One for each call, in order; arguments that cannot be read are the step's `fault`.
    """

    text: str
    steps: tuple[Step, ...]


def turn_text(message: str, lead: str = "") -> str:
    """
    Return a provider's message with calls, as JSON, in the one form in which a turn is recorded.

    Args:
        message: As a client has read it; what is no such message is returned as it is.
        lead: What the model said before, if the provider has interrupted it.
    """
    try:
        data = json.loads(message)
        found = native_calls(data) if isinstance(data, Mapping) else None
    except (ValueError, RecursionError):
        found = None
    if found is None:
        return lead + message
    text, raw = found
    calls = []
    for id, name, given in map(call_parts, raw):
        read = read_arguments(given)
        if isinstance(given, str) and (isinstance(read, str) or holds_any(read, rounded_in(given))):
            read = given  # whose digits say what is wrong
        calls.append({"id": id, "name": name, "arguments": given if isinstance(read, str) else read})
    return json.dumps({"text": lead + text, "calls": calls}, ensure_ascii=False)


def read_turn(
    text: str, *, chars_max: int, finish: str = "stop", reply_id: str = "", known: Known = any_call
) -> Calls | DirectAnswer | Invalid:
    """
    Read one turn.

    Args:
        text: The raw reply.
        chars_max: A longer reply is invalid unread.
        finish: How it ended; what was refused or filtered is no answer, what was cut off no whole one.
        reply_id: Goes into the ids of calls that came without one.
        known: Which calls need all that is said of them, and the parameters of their tools.
    """
    found = _read(text, chars_max, finish)
    read = _calls_of(found, reply_id, known, rounded_in(text)) if isinstance(found, Mapping) else found
    if isinstance(read, DirectAnswer) and finish == "length":
        read = Invalid("truncated", "the answer is cut off")
    return after(finish, read)


def spoken(text: str) -> str:
    """Return what a model says in a reply, without the calls that it makes and without its thoughts."""
    found = _read(text, len(text), "tool_calls")
    if isinstance(found, Mapping):
        return text_of(found)
    return found.text if isinstance(found, DirectAnswer) else after_thinking(text)


def text_of(data: Mapping[str, Any]) -> str:
    """Return what is said beside calls."""
    said = data.get("text")
    return said if isinstance(said, str) else ""


def _read(text: str, chars_max: int, finish: str) -> Mapping[str, Any] | DirectAnswer | Invalid:
    """Return a reply that calls in its one form, else what it is."""
    if len(text) > chars_max:
        return Invalid("too_large", f"found a reply of {len(text)} characters; expected at most {chars_max}")
    body = after_thinking(text)
    if not body.strip():
        return Invalid("empty", "found an empty reply; expected a call or an answer")
    if _TAGGED.fullmatch(body):
        return {"text": "", "calls": [_tagged(piece, chars_max) for piece in _TAG.findall(body)]}
    inner = fenced[1].strip() if (fenced := _FENCED.fullmatch(body)) else body.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        is_cut = inner.startswith(('{"text":', '{"calls":', "<tool_call>"))
        cut = Invalid("truncated", "found a call that is cut off; expected a whole one")
        return cut if is_cut else DirectAnswer(body.strip())
    data = read_object(inner, chars_max=chars_max)
    if isinstance(data, Unreadable):
        is_call = inner.startswith(('{"text":', '{"calls":')) and '"calls"' in inner
        return Invalid(data.code, data.message) if is_call else DirectAnswer(body.strip())
    return _in_one_form(data, finish) or DirectAnswer(body.strip())


def _in_one_form(data: dict[str, Any], finish: str) -> Mapping[str, Any] | DirectAnswer | None:
    """Return an object that is a turn or one call in the form of turns; None for one that is neither."""
    calls = data.get("calls")
    if data.keys() == _TURN and isinstance(calls, list) and isinstance(data["text"], str):
        if not calls and data["text"].strip():
            return DirectAnswer(data["text"].strip())
        if all(isinstance(call, dict) and call.keys() >= _CALL for call in calls):
            return data
    if data.keys() - {"id", "type"} == _CALL:
        return {"text": "", "calls": [data]}
    found = native_calls(data) if finish == "tool_calls" else None
    if found is None or not found[1]:
        return None
    parts = map(call_parts, found[1])
    return {
        "text": found[0],
        "calls": [dict(zip(("id", "name", "arguments"), part, strict=True)) for part in parts],
    }


def _tagged(piece: str, chars_max: int) -> dict[str, Any]:
    """Return the call between two tags; one that cannot be read has no name and says why."""
    data = read_object(piece, chars_max=chars_max)
    if isinstance(data, Unreadable):
        return {"name": "", "arguments": {}, "fault": f"the call cannot be read: {data.message}"}
    given: Any = next((data[key] for key in ("arguments", "parameters") if key in data), {})
    if data.get("parameters", given) != given:
        return {"name": "", "arguments": {}, "fault": "the call has arguments and parameters, which differ"}
    beside = {key: data[key] for key in data if key not in _BESIDE_ARGUMENTS}
    return beside | {"name": data.get("name"), "arguments": given}


def _calls_of(
    data: Mapping[str, Any], reply_id: str, known: Known, rounded: Collection[float]
) -> Calls | Invalid:
    calls = data["calls"]
    if not calls:
        return Invalid("empty", "found an empty reply; expected a call or an answer")
    if len(calls) > CALLS_MAX:
        return Invalid("too_many_calls", f"found {len(calls)} calls at once; at most {CALLS_MAX} are allowed")
    longest = max((len(raw["id"]) for raw in calls if isinstance(raw.get("id"), str)), default=0)
    if longest > ID_CHARS:
        return Invalid(
            "id_too_long", f"found an id of {longest:,} characters; at most {ID_CHARS:,} are allowed"
        )
    steps = []
    for number, raw in enumerate(calls):
        step = _step(raw, number, reply_id)
        beside = [key for key in raw if key not in _BESIDE_ARGUMENTS]
        lost = unsaid(beside, step.args, known(step.name), rounded)
        steps.append(step if step.fault or not lost else step.model_copy(update={"args": {}, "fault": lost}))
    return Calls(data["text"], tuple(steps))


def _step(raw: Mapping[str, Any], number: int, reply_id: str) -> Step:
    given, id, fault = raw.get("name"), raw.get("id"), raw.get("fault")
    name = given.strip()[:NAME_CHARS] if isinstance(given, str) else ""
    read: dict[str, Any] | str = fault if isinstance(fault, str) else read_arguments(raw.get("arguments"))
    if not name:
        read = read if isinstance(read, str) else "the call names no tool"
    return Step(
        id=id if isinstance(id, str) and id else derived_id(reply_id, number, name),
        name=name or "unnamed",
        args={} if isinstance(read, str) else read,
        fault=read if isinstance(read, str) else None,
    )
