"""From a raw result to what a model may see of it, and to one message of history. Pure; sizes are bounded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import UNSET
from msgspec.structs import replace

from ...prompts.building.history import ARGUMENTS_CHARS
from ...states.base.wire import json_text
from ...states.records.actions import Preview, ToolResult
from ...states.records.observations import CUT, LISTED, Message, Observation, clean, cut
from ...states.run.budgets import BYTES_PER_TOKEN
from ...states.run.state import Run
from ...states.settings.limits import Limits

_json = json.JSONEncoder(ensure_ascii=False).encode

SUMMARY_CHARS = 140

TURN_CHARS = 2000
"""Characters of one turn of a dialogue, and of one output, that a planner is shown."""

NOTES_MAX = 20


def line(text: str) -> str:
    """Return *text* as one clean line: nothing in it can look like a heading or a list of its own."""
    return " ".join(clean(text).split())


def previews_of(result: ToolResult, texts: Sequence[str | None], limits: Limits) -> tuple[Preview, ...]:
    """
    Return previews of what was recalled; a binary document has no snippet.

    Args:
        result: Its first documents, or for a blocked call its echo, stand behind *texts*.
        texts: As `Recalled.texts`.
        limits: `snippet_chars`.
    """

    most = limits.snippet_chars
    snippets = ["" if text is None else cut(clean(text[: most + 1]), most) for text in texts]
    if result.echo is not None:
        return tuple([Preview("last output", "text/plain", snippet) for snippet in snippets])
    pairs = zip(result.documents, snippets, strict=False)
    return tuple([Preview(document.name, document.mime, snippet) for document, snippet in pairs])


def observation_of(run: Run, result: ToolResult, texts: Sequence[str | None]) -> Observation:
    """
    Return the compact observation of *result*; its JSON stays within `Limits.observation_chars`.

    Args:
        run: In Observing; its counters hold the action's number.
        result: How the call ended.
        texts: Bodies of its first documents, or the last successful output that a blocked call echoes.
    """
    limits = run.spec.limits
    notes = list(result.notes)
    if result.answer:
        notes.append(f"the user answered: {result.answer}")
    if not result.ok:
        notes.insert(0, f"{result.error_code or 'error'}: {result.error}")
    notes = [cut(clean(note), limits.note_chars) for note in notes]
    hidden = len(result.documents) - limits.previews
    if hidden > 0 and run.spec.revision == 1:
        notes.append(f"{hidden} more documents without preview")
    observation = Observation(
        result.ok,
        result_label(run),
        len(result.documents),
        previews_of(result, texts, limits),
        tuple(notes[:NOTES_MAX]),
        result.web[: max(1, limits.previews)] or UNSET,
    )
    quarter = run.spec.context_tokens * BYTES_PER_TOKEN // 4
    if run.spec.revision == 1:
        return _shorten_to_fit(observation, min(limits.observation_chars, quarter))
    room = limits.observation_chars, quarter
    return _noted(observation, result, texts, limits, room)


def _noted(
    observation: Observation,
    result: ToolResult,
    texts: Sequence[str | None],
    limits: Limits,
    room: tuple[int, int],
) -> Observation:
    """Return *observation* within *room*, characters and bytes, with notes on what it does not show, true of what is left of it."""
    own = observation.notes
    observation = _shorten_to_fit(observation, *room)
    while True:
        told = _hidden_notes(observation, result, texts, limits)
        if not told and len(own) <= NOTES_MAX:
            return observation
        kept = own[: max(0, NOTES_MAX - len(told))]
        fitted = _shorten_to_fit(replace(observation, notes=(*kept, *told)[:NOTES_MAX]), *room)
        if fitted.previews == observation.previews:
            return fitted
        observation = replace(fitted, notes=own)  # shows less by now, so that the notes have changed


def _hidden_notes(
    observation: Observation, result: ToolResult, texts: Sequence[str | None], limits: Limits
) -> tuple[str, ...]:
    """Return a note for every document of which only the beginning is shown, and one on how many are not shown at all."""
    notes = []
    for place, (preview, text) in enumerate(zip(observation.previews, texts, strict=False)):
        shown = len(preview.snippet.removesuffix(CUT))
        if text is None or shown >= len(text):
            continue
        rest = "" if result.echo is not None else f"; the whole is {result.documents[place].reference}"
        told = f"{preview.name}: only the first {shown} of {len(text)} characters are here{rest}"
        notes.append(cut(told, limits.note_chars))
    hidden = len(result.documents) - len(observation.previews)
    if result.echo is None and hidden > 0:
        notes.append(f"{hidden} more documents without preview")
    return tuple(notes)


def shown_text(observation: Observation) -> str:
    """Return what history tells of an observation: its texts as they are, then pages and notes."""
    shown = [preview for preview in observation.previews if preview.snippet]
    alone = len(observation.previews) == 1
    parts = [preview.snippet if alone else f"{preview.name}:\n{preview.snippet}" for preview in shown]
    if observation.web:
        parts.append(f"Pages: {orjson.dumps([fact.wire() for fact in observation.web]).decode()}")
    if observation.notes:
        lead = "Notes: " if parts else ""
        parts.append(lead + "; ".join(observation.notes))
    return "\n\n".join(parts)


def result_label(run: Run) -> str:
    """Return the label of the action that is being observed."""
    intent = run.memory.intent
    if intent is not None:
        return intent.label
    return f"round{run.spec.round}_task{run.spec.task}_action{run.counters.action}_refused"


def _shorten_to_fit(observation: Observation, chars_max: int, bytes_max: int | None = None) -> Observation:
    """Shorten snippets, drop previews and web facts, shorten notes and drop them, until the JSON fits."""
    if _surely_fits(observation, chars_max if bytes_max is None else min(chars_max, bytes_max)):
        return observation
    while len(told := observation.wire_json()) > chars_max or len(told.encode()) > (
        4 * chars_max if bytes_max is None else bytes_max
    ):
        longest = max((len(preview.snippet) for preview in observation.previews), default=0)
        if longest > 40:
            previews = tuple(
                replace(preview, snippet=cut(preview.snippet, longest // 2))
                for preview in observation.previews
            )
            observation = replace(observation, previews=previews)
        elif observation.previews:
            observation = replace(observation, previews=observation.previews[:-1])
        elif observation.web:
            observation = replace(observation, web=observation.web[:-1] or UNSET)
        elif observation.notes:
            longest = max(map(len, observation.notes))
            notes = tuple(cut(note, longest // 2) for note in observation.notes)
            observation = replace(observation, notes=notes if longest > 20 else observation.notes[:-1])
        else:
            break
    return observation


def _surely_fits(observation: Observation, most: int) -> bool:
    """Return whether the JSON has no more than *most* characters and bytes even if each character of its texts were escaped."""
    if observation.web:
        return False
    texts = [observation.result_label, *observation.notes]
    for preview in observation.previews:
        texts += (preview.name, preview.mime, preview.snippet)
    return 6 * sum(map(len, texts)) + 20 * len(texts) + 200 <= most


def answer_text(content: Any) -> str:
    """Return what a user answered as text: a text as it is, anything else as JSON."""
    if content is None:
        return ""
    return content if isinstance(content, str) else json_text(content)


def message_of(
    run: Run, result: ToolResult, observation: Observation, texts: Sequence[str | None] = ()
) -> Message:
    """Return what history keeps of the action; for a planner also the call, and what it returned."""
    message = _message_of(run, result, observation)
    plan, number, intent = run.memory.plan, run.counters.plan_step, run.memory.intent
    selection = run.memory.selection
    origin = selection.origin if selection is not None and selection.origin in ("workflow", "hook") else ""
    step = plan.steps[number] if plan is not None and number < len(plan.steps) and not origin else None
    if step is None and not origin:
        return message
    flow, first = run.memory.flow, result.documents[0] if result.documents else None
    native = run.spec.native  # whose conversation has the output itself
    said = "" if native else next((text for text in texts if text is not None), "")
    return replace(
        message,
        call_id=step.id if step is not None else "",
        arguments=intent.arguments if intent and not (native and step) else step.args if step else None,
        output=clean(result.answer) or cut(clean(said), TURN_CHARS),
        error="" if result.ok else f"{result.error_code or 'error'}: {result.error}",
        origin=origin,
        data=flow is not None and first is not None and first.mime == "application/json",
    )


def _message_of(run: Run, result: ToolResult, observation: Observation) -> Message:
    selection, intent = run.memory.selection, run.memory.intent
    learnings = selection.learnings[:5] if selection is not None else ()
    message = Message(
        action=run.counters.action,
        step=run.counters.step,
        tool=result.tool,
        objective=cut(line(selection.objective), SUMMARY_CHARS) if selection is not None else "",
        summary=observation.summary,
        learnings=tuple([cut(line(text), SUMMARY_CHARS) for text in learnings]),
        success=observation.success,
        arguments=shown_arguments(intent.arguments) if intent is not None else None,
    )
    documents = tuple(
        f"docItem:{document.label}#{document.position} {cut(document.name, 80)}"
        for document in result.documents[:LISTED]
    )
    return observation.told(message, documents)


def shown_arguments(arguments: Mapping[str, Any], chars_max: int = ARGUMENTS_CHARS) -> dict[str, Any]:
    """Return *arguments* with all long values cut alike, until they are shown whole within *chars_max* or are tiny."""
    shown, most = dict(arguments), 0
    for name, value in shown.items():
        kind = type(value)
        if kind is str and value.isascii():
            most += 6 * len(value)
        elif kind is int:
            most += value.bit_length()
        elif value is not None and kind is not bool:
            break
        most += 6 * len(name) + 12
    else:  # even if each character were escaped, as `clean` leaves all but one
        if most <= chars_max and "\0" not in "".join(
            [value for value in shown.values() if type(value) is str]
        ):
            return shown
    for chars in range(chars_max, 0, -max(1, chars_max // 20)):
        shown = {name: _shortened(value, chars) for name, value in arguments.items()}
        if len(_json(shown)) <= chars_max:
            break
    return shown


def _shortened(value: Any, chars_max: int) -> Any:
    """Return a text cut, and of a longer list or object the beginning of its JSON."""
    if isinstance(value, str):
        return cut(clean(value), chars_max)
    text = _json(value)
    return cut(clean(text), chars_max) if len(text) > chars_max else value
