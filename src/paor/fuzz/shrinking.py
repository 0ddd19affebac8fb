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

from ..prompts.parsing.json_reading import read_object
from ..states.base.errors import PaorError
from .oracles.seen import Violation
from .strategies.injected_faults import CALL
from .strategies.reply_builder import Said

Step = Mapping[str, Any]
Script = tuple[Step, ...]
Try = Callable[[Script, int], Violation | None]

TRIES_MAX = 600
"""Most candidates that are tried."""

ROWS_MORE = 16
"""Rows beyond twice those of the smallest case so far that a candidate may write; one that needs more is not smaller."""

_BLOCKS = (16, 10, 8, 7, 6, 5, 4, 3, 2, 1)


def shrunk(violation: Violation, attempt: Try, tries_max: int = TRIES_MAX) -> Violation:
    """
    Return the smallest violation of the same invariant that can be found from *violation*.

    Args:
        violation: With the script that led to it.
        attempt: Takes a script in a new world, up to a number of rows; returns what it violates, None for nothing.
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
            found = attempt(script, 2 * len(best.rows) + ROWS_MORE)
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
    """Yield the script without its other runs, then without some of its steps, the larger blocks first, from the end."""
    starts = [place for place, step in enumerate(script) if step["do"] == "start"]
    for first, last in zip(starts, [*starts[1:], len(script)], strict=True):
        if len(starts) > 1:
            yield script[first:last]
    large = {len(script) // part for part in (2, 3, 4) if len(script) // part > _BLOCKS[0]}
    for size in (*sorted(large, reverse=True), *_BLOCKS):
        for first in range(len(script) - size, -1, -1 if size <= _BLOCKS[0] else -(size // 4)):
            left = script[:first] + script[first + size :]
            if left and left[0]["do"] == "start":
                yield left
    yield from _fewer_actions(script)


def _fewer_actions(script: Script) -> Iterator[Script]:
    """Yield the script with one action less, which a run may then not take: a case at the step limit needs both at once."""
    limits = script[0].get("limits") or {}
    most = limits.get("max_steps", 1)
    if isinstance(most, int) and most > 1:
        start = {**script[0], "limits": {**limits, "max_steps": most - 1}}
        for size in (10, 9, 8, 7, 6, 5):
            for first in range(len(script) - size, 0, -1):
                yield (start, *script[1:first], *script[first + size :])


def _plainer(script: Script) -> Iterator[Script]:
    """Yield the script with one thing in it made plain."""
    if script and script[0].get("mode") == "workflow":
        yield from _without_workflow(script)
    yield from _without_questions(script)
    for place, step in enumerate(script):
        for plain in _plainer_steps(step):
            yield (*script[:place], plain, *script[place + 1 :])


def _plainer_steps(step: Step) -> Iterator[Step]:
    for name in ("policy", "limits", "documents", "criteria", "final_format", "lost", "task_type"):
        if name in step:
            yield {key: value for key, value in step.items() if key != name}
    if step.get("mode") not in (None, "react"):
        yield {**step, "mode": "react"}
    limits = step.get("limits") or {}
    if step["do"] == "start" and limits.get("max_steps") != 1:
        yield {**step, "limits": {**limits, "max_steps": 1}}
    for name, value in limits.items():
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
    if step["do"] == "finish":
        yield {"do": "cancel"}
        if step.get("how") != "polite":
            yield {**step, "how": "polite"}


def _without_questions(script: Script) -> Iterator[Script]:
    """Yield the script without its own policy, and without the approvals that this had asked for."""
    if "policy" not in script[0]:
        return
    left: list[Step] = [{name: value for name, value in script[0].items() if name != "policy"}]
    asked = False
    for step in script[1:]:
        if step["do"] != "answer" and not (asked and step["do"] == "row" and "said" not in step):
            left.append(step)
        asked = step["do"] == "answer" and step.get("answer") == {
            "approve": True
        }  # a declined call is now made: a row more
    yield tuple(left)


def _without_workflow(script: Script) -> Iterator[Script]:
    """Yield what was said and done in the tasks of a workflow as one run by itself."""
    said = [item for step in script for item in step.get("said", ()) if item["kind"] != "task_plan"]
    happened = [item for step in script for item in step.get("happened", ())]
    start = {name: value for name, value in script[0].items() if name != "mode"} | {"mode": "react"}
    steps: list[Step] = []
    for item in said:
        if item["kind"] == "text" and steps:
            steps[-1] = {**steps[-1], "said": [*steps[-1].get("said", ()), item]}
            continue
        steps.append({"do": "row", "said": [item]})
        if item["kind"] == "parameters":
            call = [happened.pop(0)] if happened else []
            steps += [{"do": "row"}, {"do": "row", "happened": call}]
    rest = [step for step in script[1:] if step["do"] != "row"]
    yield (start, *steps, *rest)
    yield (start, *steps, {"do": "cancel"})
    free = {name: value for name, value in start.items() if name != "policy"}  # then nobody is asked, either
    yield (free, *steps, *(step for step in rest if step["do"] != "answer"))


def _plainer_said(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    said = Said.of(item)
    yield said._replace(tokens=(10, 10), cost_micro=7).wire()
    if said.good is False and len(said.text) > 1:
        yield said._replace(text="?", family="words", finish="stop").wire()
    data = read_object(said.text) if said.good is not False else None  # out of its packaging
    if isinstance(data, dict):
        bare = said._replace(text=json.dumps(data), family="good")
        yield bare.wire()
        yield from _plainer_data(bare, data)


_MEANT = {"criteria": "met", "score": "score"}
"""What a key of a reply means: it goes with the key."""

_OPTIONAL = (
    *("learnings", "requiredConnection", "parametersContext", "criteria", "score", "hint", "evidence"),
    *("overview", "intention", "note", "confidence"),
)
"""Keys without which a good reply is as good; a review's and a refinement's answer is one, too."""


def _plainer_data(said: Said, data: dict[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a good reply with less in it, and with what it then means."""
    judges = said.kind in ("refinement", "review")
    for name in data:
        if name in _OPTIONAL or (name == "answer" and judges):
            rest = {key: value for key, value in data.items() if key != name}
            means = {key: value for key, value in said.means.items() if key != _MEANT.get(name)}
            yield said._replace(text=json.dumps(rest), means=means).wire()
        elif name in ("requiredInputDocuments", "parametersSchema"):  # some tools need them
            rest = {key: value for key, value in data.items() if key != name}
            yield said._replace(text=json.dumps(rest), good=None).wire()
    for name in ("steps", "tasks"):
        items = data.get(name)
        if not isinstance(items, list) or len(items) < 2:
            continue
        alone = "$step" not in said.text and '"dependencies": ["' not in said.text
        for fewer in (items[:-1], items[1:]) if alone else (items[:-1],):  # later ones may refer to the first
            means = {key: (fewer if key == name else value) for key, value in said.means.items()}
            yield said._replace(text=json.dumps(data | {name: fewer}), means=means).wire()
