"""
A run as a conversation: what was asked, then every action with its result, in order.

In the profile `native` actions are the provider's own tool calls; for the judgement after an action they are told as text,
in the form in which the next one is asked for. Small models judge a conversation far better than a report of one.

It is made from the run alone, never from a provider's own messages: the same run gives the same conversation, and a run can go
on with another model. Results are data of others; they stand in messages of their own, where nothing can pass for the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

import orjson

from ...states.records.observations import Message
from ...states.records.plans import TranscriptMessage
from ..model import PromptMessage, ToolCall
from .fencing import inert
from .history import SHORTENED, arguments_text

NAME_CHARS = 64
"""Longest name of a tool. Source: the API references of OpenAI and Anthropic, read 2026-11."""

NO_CALLS = "No tool can be called any more. Answer now with what is known."
UNUSABLE = "Your last reply could not be used: {}"

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """
    Return under which name each tool is offered: ``orders.lookup`` as ``orders_lookup``.

    Args:
        names: Canonical names, in the order of the catalog.

    Returns:
        By canonical name; two that would be the same, and a name that is too long, get a digest of the whole at their end.
    """
    found: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        wire = wire_name(name)
        if wire in used:
            wire = _shortened(name)
        used.add(wire)
        found[name] = wire
    return found


def wire_name(name: str) -> str:
    """Return a tool's name in characters that every provider takes."""
    wire = _FOREIGN.sub("_", name) or "unnamed"
    return wire if len(wire) <= NAME_CHARS else _shortened(name)


def _shortened(name: str) -> str:
    digest = sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{_FOREIGN.sub('_', name)[: NAME_CHARS - 9]}_{digest}"


def earlier_turns(transcript: Sequence[TranscriptMessage], chars_max: int) -> Iterator[PromptMessage]:
    """Yield what was said before the run by user and assistant, the oldest left out until the rest fits."""
    kept: list[PromptMessage] = []
    for turn in reversed(transcript):
        chars_max -= len(turn.content)
        if chars_max < 0:
            break
        if turn.role == "user":
            kept.append(PromptMessage("user", inert(turn.content)))
        elif turn.role == "assistant":
            kept.append(PromptMessage("assistant", turn.content))
    yield from reversed(kept)


def exchanges(
    history: Sequence[Message], names: dict[str, str], chars_max: int, *, labels: bool
) -> list[PromptMessage]:
    """
    Return every call with its result, the oldest first.

    Results are whole from the newest on as far as *chars_max* characters go; of those before only the summary is told, and
    once there is no room for that the oldest calls are left out. The newest result is always there, cut to size.

    Args:
        history: Actions of the run, oldest first.
        names: As `wire_names` gives them.
        chars_max: Most characters of arguments and results, those of the newest call's arguments aside.
        labels: Whether results name the documents that they left, for tools that take documents.
    """
    found: list[PromptMessage] = []
    left = chars_max
    for message in reversed(history):
        arguments = message.arguments or {}
        text = _result(message, labels=labels)
        if len(text) > left:
            text = message.summary if found else f"{text[:left]}\n{SHORTENED}"
        left -= len(text) + len(orjson.dumps(arguments, option=orjson.OPT_NON_STR_KEYS))
        if left < 0 and found:
            break
        id = f"call_{message.action}"
        call = ToolCall(id, names.get(message.tool) or wire_name(message.tool), arguments)
        found += [PromptMessage("tool", text, call_id=id), PromptMessage("assistant", "", (call,))]
    return found[::-1]


class StepText(NamedTuple):
    """
    An action with its result as a conversation tells it.

    Attributes:
        action: The model's own message.
        lead: How the message of its result begins, such as ``Result of docs.find: ``.
        result: That message with the summary; of the newest action what it brought stands there instead.
        chars: Characters of the action and of the summary.
    """

    action: PromptMessage
    lead: str
    result: PromptMessage
    chars: int


def step_text(message: Message) -> StepText:
    """Return an action with its result as a conversation tells it."""
    action = f'{{"action": {_json(message.tool)}, "parameters": {arguments_text(message) or "{}"}}}'
    lead, told = f"{'Result' if message.success else 'Error'} of {message.tool}: ", _line(message.summary)
    result = PromptMessage("user", f"{lead}{told}")
    return StepText(PromptMessage("assistant", action), lead, result, len(action) + len(told))


def steps_taken(steps: Iterable[StepText], observation: str, chars_max: int) -> list[PromptMessage]:
    """
    Return every action with its result as text, the oldest first, for the judgement after the last one.

    Args:
        steps: Actions of the run, newest first.
        observation: What the newest one brought, as JSON; always there, and whole.
        chars_max: Most characters of all others, whose summaries are told; the oldest are left out.
    """
    found: list[PromptMessage] = []
    for step in steps:
        if not found:
            found = [PromptMessage("user", f"{step.lead}{observation}"), step.action]
            continue
        chars_max -= step.chars
        if chars_max < 0:
            break
        found += step.result, step.action
    return found[::-1]


def _json(text: str) -> str:
    return orjson.dumps(text).decode()


def _line(text: str) -> str:
    """Return *text* in one line, so that nothing in it passes for a section of the prompt."""
    return inert(" ".join(text.split()))


def _result(message: Message, *, labels: bool) -> str:
    """Return what a call came to, as its model is told."""
    if not message.success:
        return f"Error: {message.error.removeprefix('tool_error: ') or message.summary}"
    text = message.output or message.summary
    if labels and message.label:
        place = f"docList:{message.label}"
        places = [place] if message.documents_count == 1 else [place, *message.documents]
        text = f"{text}\n\nDocuments: {', '.join(places)}"
    return text
