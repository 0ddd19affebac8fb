"""
A model's own summary of a conversation that no longer fits its context (`Limits.compaction`). Pure.

Before a request that would be too large the same model is asked for a summary of the conversation's oldest block, behind that block,
so that its provider reads it from its cache. The row of the request holds both: what was asked for and said stands under ``summary``.
Its reply decides nothing but which item takes the block's place. One that cannot be used leaves what code does: results become
their own summaries, the oldest turns go.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ...prompts.building.conversation import SUMMARY
from ...prompts.building.fencing import inert
from ...prompts.building.history import newest_lines
from ...prompts.parsing.json_reading import after_thinking
from ...states.records.conversation import (
    SUMMARY_SHARE,
    Cut,
    Item,
    block_of,
    cut_of,
    own_begin,
    size_of,
    with_cut,
)
from ...states.records.observations import clean
from ...states.records.outcomes import NO_USAGE, USED, ModelFault, Outcome, Replied, Usage
from ...states.records.requests import ModelRequest, Request
from ...states.run.state import Counters, Run
from ..decision.observation import line
from ..decision.run_resources import RunResources

ASKED = ModelRequest("summary", 0)


def asking(run: Run, request: Request, kit: RunResources) -> Run | None:
    """Return the run as a summary is asked for before its *request*: with the block alone; None where none is."""
    if not (
        isinstance(request, ModelRequest) and run.spec.limits.compaction == "model" and run.spec.converses
    ):
        return None
    count = _block(run, kit) if kit.prompts.is_behind(request.kind, run) else 0
    return _with(run, run.memory.conversation[:count]) if count else None


def after(run: Run, came: Outcome, kit: RunResources) -> tuple[Run, Cut | None, str]:
    """Return the run after a summary was asked for, with what it has used; how its conversation is cut; and why that is code's cut, if it is."""
    items, room = run.memory.conversation, kit.room
    text, unused = _read(run, came, room)
    if unused:
        cut = cut_of(items, room)
    else:
        count = _block(run, kit)
        pieces, size = [{"words": text}], len(text.encode())
        told = {"role": "user", "pieces": pieces, "size": size}
        if count < own_begin(items):  # it stands where earlier rounds do
            told["run"] = run.run_id
        before = size_of(items)
        cut = Cut(count, (), before, before - size_of(items[:count]) + size, Item.of(told))
    counters = with_usage(run.counters, used_by(came), details=run.spec.revision > 1)
    return replace(_with(run, with_cut(items, cut)), counters=counters), cut, unused


def used_by(came: Outcome) -> Usage:
    """Return what asking for a summary has used; a failed request is one, too, so that a script goes on after it."""
    return replace(came.usage, calls=1) if isinstance(came, Replied | ModelFault) else came.usage


def with_usage(counters: Counters, usage: Usage, active_us: int = 0, *, details: bool) -> Counters:
    """Return *counters* with active time and a usage added; with its *details*, which the first revision did not count."""
    time_us = counters.time_us + active_us
    if usage is NO_USAGE:
        return replace(counters, time_us=time_us)
    more: dict[str, int] = {}
    if usage.cost_micro:
        more["cost_micro"] = counters.cost_micro + usage.cost_micro
    if details and (usage.tokens_cached or usage.tokens_cache_write):
        more["tokens_cache_write"] = counters.tokens_cache_write + usage.tokens_cache_write
        more["tokens_cached"] = counters.tokens_cached + usage.tokens_cached
    return replace(
        counters,
        time_us=time_us,
        tokens_in=counters.tokens_in + usage.tokens_in,
        tokens_out=counters.tokens_out + usage.tokens_out,
        calls=counters.calls + usage.calls,
        **more,
    )


def _block(run: Run, kit: RunResources) -> int:
    return block_of(run.memory.conversation, kit.room)


def _with(run: Run, items: tuple[Item, ...]) -> Run:
    return replace(run, memory=replace(run.memory, conversation=items))


def _read(run: Run, came: Outcome, room: int) -> tuple[str, str]:
    """Return a message with the summary, or why it cannot be used; too long a reply is not looked at."""
    if not isinstance(came, Replied):
        return "", came.kind
    if came.finish != "stop":
        return "", came.finish
    if len(came.text) > run.spec.limits.reply_chars:
        return "", "too_long"
    said = clean(after_thinking(came.text).strip())
    if not said or said.startswith("{"):
        return "", "no_words"
    if len(said.encode()) > room // SUMMARY_SHARE:
        return "", "too_long"
    answers = [f"- {line(turn.content)}" for turn in run.memory.turns if turn.role == "user"]
    told = ("The user has answered:", newest_lines(answers, room, room // SUMMARY_SHARE)) if answers else ()
    return inert("\n".join((SUMMARY, said, *told))), ""


def facts_with(facts: dict[str, Any], own: dict[str, Any], unused: str) -> dict[str, Any]:
    """Return a row's outcome facts with those of its summary, *own*: what both have used is the row's."""
    both = {name: facts.get(name, 0) + own[name] for name in USED if name in own}
    if own["kind"] != "unaffordable":
        both["calls"] = facts.get("calls", int("reply" in facts)) + 1
    return facts | both | {"summary": own | ({"unused": unused} if unused else {})}
