"""
A run is a fold over its rows.

`apply` is the one way from a run to the next, live and on resume. `restore` gives the same run without reading
every change: counters stand in the last row, and since each transition kind always sets the same slots, the last
row of every kind (and the last `HISTORY_MESSAGES` observations) is enough for the memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from msgspec.structs import replace
from rpds import HashTrieMap

from ..states.actions import StoredText
from ..states.counters import counters_of
from ..states.phase import EXECUTING, PLANNING
from ..states.run import HISTORY_MESSAGES, Change, Counters, Memory, Run
from .duplicates import pushed, window_length
from .planned import output_place

_SPOKEN = frozenset({"select", "answer", "wait", "provide"})
"""Triggers of a plan's run that can add a turn to its dialogue."""


def apply(
    run: Run, *, trigger: str, dest: str, counters: Counters, change: Change, outcome: dict[str, Any]
) -> Run:
    """
    Return *run* after one transition.

    Args:
        run: Before it.
        trigger, dest: The transition.
        counters: After it.
        change: What it sets.
        outcome: The row's outcome facts; of an `execute` row they tell the key, label and output of the call.
    """
    updates = _updates(run.memory, change)
    if trigger == "execute":
        updates |= _executed(run, outcome)
    elif trigger == "select" and len(run.memory.produced):
        updates["produced"] = HashTrieMap()
    elif run.state == EXECUTING or (trigger == "specify" and run.memory.asked is not None):
        updates |= dict(
            zip(_DIALOGUE, _dialogue(trigger, outcome, run.memory.asked, run.memory.answered), strict=True)
        )
    memory = replace(run.memory, **updates)
    return Run(run.run_id, run.number, run.spec, dest, run.seq + 1, counters, memory)


def _updates(memory: Memory, change: Change) -> dict[str, Any]:
    """Return what *change* sets in *memory*; its message goes to the history, its turn to the turns."""
    updates = change.slots()
    if "message" in updates and (message := updates.pop("message")) is not None:
        updates["history"] = (*memory.history, message)[-HISTORY_MESSAGES:]
    if "turn" in updates and (turn := updates.pop("turn")) is not None:
        updates["turns"] = (*memory.turns, turn)[-HISTORY_MESSAGES:]
    return updates


def _executed(run: Run, outcome: dict[str, Any]) -> dict[str, Any]:
    """Return the guard's window and what can be referred to after a call was executed."""
    memory, key = run.memory, outcome["key"]
    updates: dict[str, Any] = {"window": pushed(memory.window, key, run.spec.limits)}
    if outcome["ok"]:
        updates["labels"] = memory.labels.insert(outcome["label"], (outcome["first"], outcome["documents"]))
        if "output" in outcome:
            updates["outputs"] = memory.outputs.insert(key, StoredText(**outcome["output"]))
    if (output := output_place(outcome)) is not None:
        updates["produced"] = memory.produced.insert(*output)
    return updates


_DIALOGUE = ("asked", "answered")
Dialogue = tuple[StoredText | None, StoredText | None]


def _dialogue(
    trigger: str, outcome: dict[str, Any], asked: StoredText | None, answered: StoredText | None
) -> Dialogue:
    """Return what the current call has asked and been answered after one row; a new call has asked nothing."""
    if trigger == "specify":
        return None, None
    if outcome["kind"] == "asked" and trigger == "wait":
        return StoredText(**outcome["asked"]), None
    if outcome["kind"] == "answer" and outcome["action"] in ("accept", "decline"):
        return asked, StoredText(**outcome["answer"])
    return asked, answered


def _speaks(row: tuple[Any, ...]) -> bool:
    """Return whether a row of a plan's run adds a turn: what a planner, a workflow or a user has said."""
    source, trigger = row[4], row[3]
    if trigger in ("select", "answer"):
        return bool(orjson.loads(row[8])["kind"] == "reply")
    return bool(source == PLANNING if trigger == "wait" else source != EXECUTING)


def restore(run: Run, rows: Iterable[tuple[Any, ...]], load: Callable[[str], Change]) -> Run:
    """
    Return *run* after *rows*, without reading every change.

    Args:
        run: As `states.run.initial_run` gives it, or as the part of its walk before *rows* has left it.
        rows: All that follow, in order, in the order of the table.
        load: Returns the change that a row's ``change`` column refers to.
    """
    limits, planned = run.spec.limits, run.spec.mode != "react"
    last: dict[tuple[str, str], tuple[Any, ...]] = {}
    observed: deque[tuple[Any, ...]] = deque(maxlen=HISTORY_MESSAGES)
    spoken: deque[tuple[Any, ...]] = deque(maxlen=HISTORY_MESSAGES)
    produced = dict(run.memory.produced)
    window: deque[str] = deque(run.memory.window, maxlen=window_length(limits))
    labels: dict[str, tuple[int, int]] = {}
    outputs: dict[str, Any] = {}
    dialogue: Dialogue = (run.memory.asked, run.memory.answered)
    row: tuple[Any, ...] | None = None
    for row in rows:
        trigger = row[3]
        if trigger == "specify" or (row[4] == EXECUTING and trigger in ("wait", "provide")):
            dialogue = _dialogue(trigger, orjson.loads(row[8]), *dialogue)
        last[row[4], trigger] = row
        if trigger == "observe":
            observed.append(row)
        elif planned and trigger in _SPOKEN:
            if _speaks(row):
                spoken.append(row)
            if trigger == "select":
                produced.clear()
        elif trigger == "execute":
            outcome = orjson.loads(row[8])
            window.append(outcome["key"])
            if outcome["ok"]:
                labels[outcome["label"]] = (outcome["first"], outcome["documents"])
                if "output" in outcome:
                    outputs[outcome["key"]] = outcome["output"]
            if (output := output_place(outcome)) is not None:
                produced[output[0]] = output[1]
    if row is None:
        return run
    kept = {item[1]: item for item in (*last.values(), *observed, *spoken)}
    memory = run.memory
    for seq in sorted(kept):
        memory = replace(memory, **_updates(memory, load(kept[seq][9])))
    memory = replace(
        memory,
        window=tuple(window),
        labels=memory.labels.update(labels),
        produced=HashTrieMap(produced),
        asked=dialogue[0],
        answered=dialogue[1],
        outputs=memory.outputs.update({key: StoredText(**output) for key, output in outputs.items()}),
    )
    return replace(run, state=row[5], seq=row[1] + 1, counters=counters_of(row), memory=memory)
