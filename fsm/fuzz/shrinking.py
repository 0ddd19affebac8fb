"""
The smallest case: fewer and simpler steps of a script that violate the same thing.

Steps are taken out in blocks, since an iteration of a run is several of them, then what is left is made plain. A
candidate counts if the same invariant is violated; of two cases the one whose runs have fewer rows is smaller, then
the one with fewer steps, then the shorter one. No chance is involved: the same script has the same smallest case.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...states.errors import PaorError
from .happenings import CALL
from .invariants import Violation
from .said import Said

Step = Mapping[str, Any]
Script = tuple[Step, ...]
Try = Callable[[Script], Violation | None]

TRIES_MAX = 600
"""Most candidates that are tried."""

_BLOCKS = (16, 8, 6, 5, 4, 3, 2, 1)


def shrunk(violation: Violation, attempt: Try, tries_max: int = TRIES_MAX) -> Violation:
    """
    Return the smallest violation of the same invariant that can be found from *violation*.

    Args:
        violation: With the script that led to it.
        attempt: Takes a script in a new world; returns what it violates, None for nothing.
        tries_max: Most candidates that are tried.
    """
    best, left = violation, [tries_max]
    tried = {_text(tuple(violation.script))}
    again = True
    while again and left[0] > 0:
        again = False
        for candidates in (_fewer, _plainer):
            found = _smaller(best, candidates, attempt, tried, left)
            again = again or found is not best
            best = found
    return best


def _smaller(
    best: Violation,
    candidates: Callable[[Script], Iterator[Script]],
    attempt: Try,
    tried: set[str],
    left: list[int],
) -> Violation:
    """Go through the candidates of *best*; from each one that is smaller go on."""
    place, options = 0, list(candidates(tuple(best.script)))
    while place < len(options) and left[0] > 0:
        script = options[place]
        place += 1
        key = _text(script)
        if key in tried:
            continue
        tried.add(key)
        left[0] -= 1
        try:
            found = attempt(script)
        except PaorError:
            continue
        if found is not None and found.invariant == best.invariant and _size(found) < _size(best):
            best = found
            options = list(candidates(tuple(best.script)))
            place = min(place - 1, max(0, len(options) - 1))
    return best


def _size(violation: Violation) -> tuple[int, int, int]:
    return len(violation.rows), len(violation.script), len(_text(tuple(violation.script)))


def _text(script: Script) -> str:
    return json.dumps(script, sort_keys=True)


def _fewer(script: Script) -> Iterator[Script]:
    """Yield the script without some of its steps, the larger blocks first and from the end."""
    for size in _BLOCKS:
        for first in range(len(script) - size, 0, -1):
            yield script[:first] + script[first + size :]


def _plainer(script: Script) -> Iterator[Script]:
    """Yield the script with one thing in it made plain."""
    for place, step in enumerate(script):
        for plain in _plainer_steps(step):
            yield (*script[:place], plain, *script[place + 1 :])


def _plainer_steps(step: Step) -> Iterator[Step]:
    for name in ("policy", "limits", "documents", "criteria", "final_format", "lost", "task_type"):
        if name in step:
            yield {key: value for key, value in step.items() if key != name}
    if step.get("mode") not in (None, "react"):
        yield {**step, "mode": "react"}
    for name, value in (step.get("limits") or {}).items():
        yield {**step, "limits": {key: kept for key, kept in step["limits"].items() if key != name}}
        if isinstance(value, int) and value > 1:
            yield {**step, "limits": step["limits"] | {name: 1}}
    if len(step.get("criteria", ())) > 1:
        yield {**step, "criteria": step["criteria"][:1]}
    for name in ("said", "happened"):
        items = step.get(name, [])
        for place, item in enumerate(items):
            for plain in _plainer_said(item) if name == "said" else [CALL]:
                yield {**step, name: [*items[:place], plain, *items[place + 1 :]]}
    if step["do"] == "finish" and step.get("how") != "polite":
        yield {**step, "how": "polite"}


def _plainer_said(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    said = Said.of(item)
    yield said._replace(tokens=(10, 10), cost_micro=7).wire()
    if said.good is False and len(said.text) > 1:
        yield said._replace(text="?", family="words", finish="stop").wire()
    try:
        data = json.loads(said.text)
    except ValueError:
        return
    if isinstance(data, dict) and said.good is not False:
        for name in data:
            rest = {key: value for key, value in data.items() if key != name}
            yield said._replace(text=json.dumps(rest)).wire()
        for name in ("steps", "tasks"):
            if isinstance(data.get(name), list) and len(data[name]) > 1:
                yield said._replace(text=json.dumps(data | {name: data[name][:-1]})).wire()
                yield said._replace(text=json.dumps(data | {name: data[name][1:]})).wire()
