"""
The smallest case: fewer and simpler steps of a script that violate the same thing.

Steps are taken out in blocks, since an iteration of a run is several of them, then what is left is made plain. A
candidate counts if the same invariant is violated; of two cases the one whose runs have fewer rows is smaller, then
the one with fewer steps, then the shorter one. No chance is involved: the same script has the same smallest case.
Hypothesis' own shrinking works on the draws behind the steps, where an iteration is in no one place: it is far slower and
leaves more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..prompts.parsing.json_reading import read_object
from ..states.base.errors import PaorError
from .oracles.seen import Violation
from .strategies.injected_faults import CALL
from .strategies.reply_builder import Said

Step = Mapping[str, Any]
Script = tuple[Step, ...]
Try = Callable[[Script, int], Violation | None]

TRIES_MAX = 1000
"""Most candidates that are tried."""

ROWS_MORE = 16
"""Rows beyond twice those of the smallest case so far that a candidate may write; one that needs more is not smaller."""

_BLOCKS = tuple(range(16, 0, -1))
_OPTIONS = (
    "policy",
    "limits",
    "documents",
    "criteria",
    "final_format",
    "lost",
    "task_type",
    "mode",
    "raises",
    "values",
    "actor",
)
"""Keys without which a step is a step."""


def shrink(violation: Violation, attempt: Try) -> Violation:
    """
    Return the smallest violation of the same invariant that can be found from *violation*.

    Args:
        violation: With the script that led to it.
        attempt: Takes a script in a new world, up to a number of rows; returns what it violates, None for nothing.
    """
    best, tried = violation, {_text(tuple(violation.script))}
    before = None
    while best is not before:  # in rounds: what was made plain may let steps go, and the other way round
        before = best
        for smaller in (_one_run, _plainer, _fewer, _fewer_actions):
            best = _descend(best, smaller, attempt, tried)
    return best


def _descend(
    best: Violation, smaller: Callable[[Violation], Iterator[Script]], attempt: Try, tried: set[str]
) -> Violation:
    """Return what one way of making cases *smaller* comes to; after one that counts it goes on where it was, not from the start."""
    candidates, place = list(smaller(best)), 0
    while place < len(candidates) and len(tried) <= TRIES_MAX:
        script, place = candidates[place], place + 1
        if _text(script) in tried:
            continue
        tried.add(_text(script))
        try:
            found = attempt(script, 2 * len(best.rows) + ROWS_MORE)
        except PaorError:
            continue
        if found is not None and found.invariant == best.invariant and _size(found) < _size(best):
            best, candidates = found, list(smaller(found))
    return best


def _size(violation: Violation) -> tuple[int, int, int]:
    return len(violation.rows), len(violation.script), len(_text(tuple(violation.script)))


def _text(script: Script) -> str:
    return json.dumps(script, sort_keys=True)


def _one_run(violation: Violation) -> Iterator[Script]:
    """Yield the script without its other runs."""
    script = tuple(violation.script)
    starts = [place for place, step in enumerate(script) if step["do"] == "start"]
    for first, last in zip(starts, [*starts[1:], len(script)], strict=True):
        if len(starts) > 1:
            yield script[first:last]


def _fewer(violation: Violation) -> Iterator[Script]:
    """Yield the script without some of its steps, the larger blocks first, from the end."""
    script = tuple(violation.script)
    large = {len(script) // part for part in (2, 3, 4) if len(script) // part > _BLOCKS[0]}
    for size in (*sorted(large, reverse=True), *_BLOCKS):
        for first in range(len(script) - size, -1, -1 if size <= _BLOCKS[0] else -(size // 4)):
            left = script[:first] + script[first + size :]
            if left and left[0]["do"] == "start":
                yield left


def _fewer_actions(violation: Violation) -> Iterator[Script]:
    """Yield the script with one action less, where it goes as far as `max_steps`: that lower, and a block of steps taken out."""
    start, *steps = violation.script
    limits = start.get("limits") or {}
    most = limits.get("max_steps", sum(row["trigger"] == "select" for row in violation.rows)) - 1
    if most < 1:
        return
    start = {**start, "limits": {**limits, "max_steps": most}}
    for size in (4, 5, 6, 3, 7, 8):  # an iteration is about as many
        for first in range(len(steps) - size, -1, -1):
            yield (start, *steps[:first], *steps[first + size :])


def _plainer(violation: Violation) -> Iterator[Script]:
    """Yield the script with one thing in it made plain."""
    script = tuple(violation.script)
    if script[0].get("mode") == "workflow":
        yield _without_workflow(script)
    for place, step in enumerate(script):
        for plain in _plainer_steps(step):
            yield (*script[:place], plain, *script[place + 1 :])


def _without_workflow(script: Script) -> Script:
    """Return what was said and done in the tasks of a workflow as one run by itself."""
    replies = [item for step in script for item in step.get("said", ()) if item["kind"] != "task_plan"]
    happenings = [item for step in script for item in step.get("happened", ())]
    steps: list[Step] = [_without(script[0], "mode")]
    for item in replies:
        if item["kind"] == "text":
            steps[-1] = {**steps[-1], "said": [*steps[-1].get("said", ()), item]}
            continue
        steps.append({"do": "row", "said": [item]})
        if item["kind"] == "parameters":
            steps += [{"do": "row"}, {"do": "row", "happened": happenings[:1]}]
            del happenings[:1]
    return (*steps, *(step for step in script[1:] if step["do"] != "row"))


def _plainer_steps(step: Step) -> Iterator[Step]:
    keeps = "policy" if step.get("mode") == "workflow" else ""  # by it replies to its tasks are good or not
    yield from (_without(step, name) for name in _OPTIONS if name in step and name != keeps)
    for name, value in (step.get("limits") or {}).items():
        yield {**step, "limits": _without(step["limits"], name)}
        if type(value) is int and value > 1:  # what comes at a limit comes sooner
            yield from (
                {**step, "limits": {**step["limits"], name: lower}} for lower in sorted({1, value - 1})
            )
    for key, plainer in (("said", _plainer_replies), ("happened", lambda item: [CALL])):
        items = step.get(key, [])
        for place, item in enumerate(items):
            if len(items) > 1:
                yield {**step, key: [*items[:place], *items[place + 1 :]]}
            for plain in plainer(item):
                yield {**step, key: [*items[:place], plain, *items[place + 1 :]]}
    if step["do"] == "finish":
        yield from ({"do": "cancel"}, {**step, "how": "polite"})


def _without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def _plainer_replies(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    reply = Said.of(item)
    yield reply._replace(tokens=(10, 10), cost_micro=7).wire()
    if reply.good is False:
        yield reply._replace(text="", family="empty", finish="stop").wire()  # words may be an answer
    data = read_object(reply.text) if reply.good is not False else None  # out of its packaging
    if not isinstance(data, dict):
        return
    yield reply._replace(text=json.dumps(data), family="good").wire()
    for name in ("steps", "tasks"):
        items = data.get(name)
        if isinstance(items, list) and len(items) > 1:
            for place in range(len(items) - 1, _referred_to(reply.text, len(items)) - 1, -1):
                fewer = [*items[:place], *items[place + 1 :]]
                means = {key: (fewer if key == name else value) for key, value in reply.means.items()}
                yield reply._replace(text=json.dumps(data | {name: fewer}), means=means).wire()


def _referred_to(text: str, count: int) -> int:
    """Return the number of the first of *count* steps or tasks of a reply from which on none is referred to by another."""
    if '"dependencies": ["' in text:
        return count - 1
    named = [int(number) for number in re.findall(r"\$step\[(\d{1,4})\]", text)]
    if text.count("$step") > len(named):
        return count - 1
    return max(named, default=-1) + 1
