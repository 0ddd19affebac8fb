"""
A run is a fold over its rows.

`apply` is the one way from a run to the next, live, on replay and in the check. `restore` is the same fold over fewer rows:
counters are in the last row, and of the changes the last one of each transition is enough, beside the last
`HISTORY_MESSAGES` messages and turns. That holds since a transition always sets the same slots of the memory: which ones is
declared in `SETS`, and `apply` refuses any other change, so that no row is written which `restore` would read wrongly. What
the outcome facts of a row add to the memory is derived by one class, `_Facts`, for one row and for many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import orjson
from msgspec.structs import replace
from rpds import HashTrieMap

from ...states.base.errors import InternalError
from ...states.records.actions import StoredText
from ...states.records.conversation import with_said
from ...states.run.counters import counters_of
from ...states.run.phase_names import EXECUTING, OBSERVING, PLANNING, REVIEWING, SPECIFYING
from ...states.run.state import (
    HISTORY_MESSAGES,
    Change,
    Counters,
    Memory,
    Run,
    chosen_spec,
    extend_references,
)
from ..decision.duplicate_calls import extend_window
from ..decision.observation import shown_text
from ..decision.plan_mode import output_place

if TYPE_CHECKING:
    from .updates import Decision

Transition = tuple[str, str]
"""Source and trigger."""

OWN_SLOTS = frozenset(
    [
        "selection",
        "intent",
        "result",
        "reply",
        "question",
        "feedback",
        "hint",
        "improvements",
        "refinement",
        "review",
        "answer",
        "plan",
        "visit",
        "choice",
    ]
)
"""Slots of `Change` that every row of a host's own machine sets, also to what they are already (`fsm.machine.host_rows`)."""

_EVERY: dict[Transition, str] = {
    (PLANNING, "fail"): "answer question",
    (PLANNING, "answer"): "answer feedback",
    (PLANNING, "wait"): "question reply feedback turn",
    (PLANNING, "select"): "selection intent result observation feedback reply",
    (PLANNING, "reselect"): "feedback",
    (PLANNING, "provide"): "question reply",
    (SPECIFYING, "fail"): "answer question",
    (SPECIFYING, "wait"): "intent question reply",
    (SPECIFYING, "specify"): "intent feedback reply",
    (SPECIFYING, "withhold"): "selection intent feedback reply",
    (SPECIFYING, "respecify"): "feedback",
    (SPECIFYING, "refuse"): "result intent feedback reply",
    (SPECIFYING, "provide"): "question reply",
    (EXECUTING, "fail"): "answer question",
    (EXECUTING, "wait"): "question reply",
    (EXECUTING, "retry_step"): "result reply",
    (EXECUTING, "execute"): "result reply",
    (EXECUTING, "provide"): "question reply",
    (OBSERVING, "observe"): "observation check message",
    (REVIEWING, "fail"): "answer question",
    (REVIEWING, "reassess"): "feedback",
    (REVIEWING, "conclude"): "refinement feedback",
    (REVIEWING, "format"): "selection review intent result reply feedback",
    (REVIEWING, "finish"): "answer review question",
    (REVIEWING, "retry"): "improvements hint selection intent result answer feedback",
    (REVIEWING, "next_step"): "selection intent result feedback reply",
    (REVIEWING, "proceed"): "refinement hint improvements selection intent result feedback",
}
"""Slots of `Change` that a transition sets in every run."""

_PLANS: dict[Transition, str] = {
    (PLANNING, "answer"): "turn selection",
    (PLANNING, "select"): "plan turn",
    (PLANNING, "provide"): "turn",
    (SPECIFYING, "provide"): "turn",
    (REVIEWING, "retry"): "plan",
    (REVIEWING, "proceed"): "plan",
}
"""Those that it sets beside them in a run whose replies may hold several steps (`Spec.plans`)."""

_WORKFLOW: dict[Transition, str] = {
    (PLANNING, "answer"): "turn selection plan flow",
    (PLANNING, "wait"): "answer flow plan",
    (PLANNING, "select"): "plan turn answer flow",
    (PLANNING, "provide"): "turn answer flow",
    (SPECIFYING, "provide"): "turn",
    (REVIEWING, "conclude"): "answer flow",
    (REVIEWING, "retry"): "plan flow",
    (REVIEWING, "next_step"): "answer flow",
    (REVIEWING, "proceed"): "answer flow",
}
"""Those that it sets beside them in a run that follows a workflow file, whose plan is kept from one task to the next."""

Sets = Mapping[Transition, frozenset[str]]


def _sets(more: Mapping[Transition, str]) -> Sets:
    return {kind: frozenset(f"{slots} {more.get(kind, '')}".split()) for kind, slots in _EVERY.items()}


SETS: dict[str, Sets] = {"react": _sets({}), "plans": _sets(_PLANS), "workflow": _sets(_WORKFLOW)}
"""By kind of run and transition, exactly the slots of `Change` that it sets: a slot that is set only at times is lost."""


AT_TIMES = frozenset(["said", "ahead"])
"""
Slots that a row sets where there is something: what it adds to a conversation is added, and replaces nothing; the calls that
are started together with an intent belong to it, and every row that sets the intent clears them.
"""

_TURNS = {place for sets in SETS.values() for place, slots in sets.items() if "turn" in slots}
"""Transitions that add a turn in some kind of run: a host's own first phase may choose the run's mode on the way."""


def sets_of(run: Run) -> Sets:
    """Return what each transition sets in a run like *run*."""
    if run.memory.flow is not None:
        return SETS["workflow"]
    return SETS["plans" if run.spec.plans else "react"]


def apply(
    run: Run,
    *,
    at: int,
    trigger: str,
    dest: str,
    counters: Counters,
    change: Change,
    outcome: dict[str, Any],
) -> Run:
    """
    Return *run* after one transition.

    Args:
        run: Before it.
        at: When it was decided, in microseconds since the epoch.
        trigger, dest: The transition.
        counters: After it.
        change: What it sets.
        outcome: The row's outcome facts; of an `execute` row they tell the key, label and output of the call.

    Raises:
        InternalError: *change* sets other slots than `SETS` declares, or a turn that `restore` would not look for.
    """
    memory, place, slots = run.memory, (run.state, trigger), change.slots()
    if (found := slots.keys() - AT_TIMES) != sets_of(run).get(place, OWN_SLOTS):
        _refuse(run, place, found)
    if "turn" in slots and (slots["turn"] is not None) is not _adds_turn(place, outcome["kind"]):
        raise InternalError(f"run {run.run_id}: {trigger} in {run.state} says a turn at times only")
    updates = _updates(memory, slots)
    if run.state == EXECUTING or memory.asked is not None or len(memory.produced):
        facts = _Facts(run)
        facts.add(place, outcome, counters.step)
        updates |= facts.updates()
    memory = replace(memory, **updates)
    spec = run.spec if updates.get("choice") is None else chosen_spec(run.spec, memory.choice)
    return Run(run.run_id, run.number, spec, dest, run.seq + 1, counters, memory, at)


def applied(run: Run, decision: Decision, at: int) -> Run:
    """
    Return *run* after the row that was decided for it.

    Args:
        run: Before it.
        decision: As `fsm.machine.decide.decide` gave it for *run*.
        at: When it was decided, in microseconds since the epoch.

    Raises:
        InternalError: See `apply`.
    """
    return apply(
        run,
        at=at,
        trigger=decision.row.trigger,
        dest=decision.row.dest,
        counters=decision.counters,
        change=decision.change,
        outcome=decision.facts,
    )


def _refuse(run: Run, place: Transition, found: Iterable[str]) -> None:
    declared = sets_of(run).get(place, OWN_SLOTS)
    wrong = ", ".join(sorted(declared ^ set(found))) or "nothing that is declared"
    raise InternalError(
        f"run {run.run_id}: {place[1]} in {place[0]} must set {', '.join(sorted(declared)) or 'nothing'}; "
        f"it differs in {wrong}"
    )


def _updates(memory: Memory, slots: dict[str, Any]) -> dict[str, Any]:
    """Return what a change's *slots* set in *memory*; its message goes to the history, its turn to the turns, its visit to the visits."""
    if "intent" in slots:
        slots.setdefault("ahead", None)
    if "visit" in slots and (visit := slots.pop("visit")) is not None:
        slots["visits"] = memory.visits.insert(visit.phase, visit)
    if "message" in slots and (message := slots.pop("message")) is not None:
        if (observation := slots.get("observation")) is not None:
            message = replace(message, shown=shown_text(observation))
        slots["history"] = (*memory.history, message)[-HISTORY_MESSAGES:]
    if (said := slots.pop("said", None)) is not None:
        slots["conversation"] = with_said(memory.conversation, said)
    if "turn" in slots and (turn := slots.pop("turn")) is not None:
        slots["turns"] = (*memory.turns, turn)[-HISTORY_MESSAGES:]
    return slots


class _Facts:
    """What the outcome facts of rows add to a run's memory: the guard's window, labels, outputs, a call's dialogue."""

    __slots__ = ("answered", "asked", "keys", "labels", "outputs", "produced", "run", "steps")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.keys: list[str] = []
        self.steps: list[int] = []
        self.labels: dict[str, tuple[int, int]] = {}
        self.outputs: dict[str, StoredText | None] = {}
        self.produced = run.memory.produced
        self.asked, self.answered = run.memory.asked, run.memory.answered

    def add(self, place: Transition, outcome: Mapping[str, Any], step: int) -> None:
        """Take the next row in, of the step *step*; *outcome* is looked at in Executing only."""
        source, trigger = place
        if trigger == "execute":
            self.steps.append(step)
            self._add_execution(outcome)
        elif trigger == "select":  # the steps of another plan have given nothing yet
            self.produced = HashTrieMap()
        elif trigger == "specify":  # and a new call has asked nothing yet
            self.asked, self.answered = None, None
        elif source == EXECUTING and trigger == "wait" and outcome["kind"] == "asked":
            self.asked, self.answered = StoredText(**outcome["asked"]), None
        elif source == EXECUTING and trigger == "provide" and outcome["action"] in ("accept", "decline"):
            self.answered = StoredText(**outcome["answer"])

    def _add_execution(self, outcome: Mapping[str, Any]) -> None:
        self.keys.append(outcome["key"])
        if outcome["ok"]:
            self.labels[outcome["label"]] = (outcome["first"], outcome["documents"])
            output = outcome.get("output")
            self.outputs[outcome["key"]] = StoredText(**output) if output is not None else None
        if (place := output_place(outcome)) is not None:
            self.produced = self.produced.insert(*place)

    def updates(self) -> dict[str, Any]:
        """Return what they set in the memory."""
        memory = self.run.memory
        updates: dict[str, Any] = {"asked": self.asked, "answered": self.answered, "produced": self.produced}
        if self.keys:
            limits = self.run.spec.limits
            updates["window"] = extend_window(memory.window, limits, *self.keys)
            updates["window_steps"] = extend_window(memory.window_steps, limits, *self.steps)
        if self.labels:
            updates["labels"] = memory.labels.update(self.labels)
            added = ((label, count) for label, (_, count) in self.labels.items())
            updates["references"] = extend_references(memory.references, added)
        if self.outputs:
            updates["outputs"] = memory.outputs.update(self.outputs)
        return updates


def _adds_turn(place: Transition, kind: str) -> bool:
    """Return whether a row that sets the slot ``turn`` adds one: what a planner, a workflow or a user has said."""
    return kind == "reply" or place[1] in ("wait", "provide")


def restore(run: Run, rows: Iterable[tuple[Any, ...]], load: Callable[[str], Change]) -> Run:
    """
    Return *run* after *rows*: the fold over the few of them that leave something in it.

    Args:
        run: As `states.run.state.initial_run` gives it, or as the part of its walk before *rows* has left it.
        rows: All that follow, in order, in the order of the table.
        load: Returns the change that a row's ``change`` column refers to.
    """
    says = (
        _TURNS
        if run.spec.host_machine
        else {place for place, slots in sets_of(run).items() if "turn" in slots}
    )
    host = bool(run.spec.host_machine)  # its first phase may choose a mode in which there is a conversation
    speaks, plans = host or run.spec.converses, host or run.spec.plans
    last: dict[Transition, tuple[Any, ...]] = {}
    messages: deque[tuple[Any, ...]] = deque(maxlen=HISTORY_MESSAGES)
    turns: deque[tuple[Any, ...]] = deque(maxlen=HISTORY_MESSAGES)
    spoken: list[tuple[Any, ...]] = []
    facts = _Facts(run)
    row: tuple[Any, ...] | None = None
    for row in rows:
        place = row[4], row[3]
        last[place] = row
        if row[4] == EXECUTING:
            facts.add(place, orjson.loads(row[8]), row[10])
            continue
        facts.add(place, {}, row[10])
        # two stages add what was observed; turns also what the model says, and why it is asked again
        if speaks and (
            row[4] == OBSERVING
            or (
                plans
                and (row[4] not in (SPECIFYING, REVIEWING) or row[5] == PLANNING or row[3] == "conclude")
            )
            or '"summary":' in row[8]
        ):
            spoken.append(row)
        if row[4] == OBSERVING:
            messages.append(row)
        elif place in says and _adds_turn(place, orjson.loads(row[8])["kind"]):
            turns.append(row)
    if row is None:
        return run
    memory = run.memory
    for _, column in sorted(
        {item[1]: item[9] for item in (*last.values(), *messages, *turns, *spoken)}.items()
    ):
        memory = replace(memory, **_updates(memory, load(column).slots()))
    memory = replace(memory, **facts.updates())
    after = replace(run, at=row[2], state=row[5], seq=row[1] + 1, counters=counters_of(row), memory=memory)
    return after.under(run.spec)
