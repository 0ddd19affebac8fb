"""
The walk of a replay: every row derived from its recorded outcome and compared, one after the other.

Where a row decides otherwise the difference is noted and the record is followed, so that later rows are compared, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec.structs import replace
from pydantic import ValidationError

from ...states.base.errors import JournalDamaged, PaorError, ReplayDiverged
from ...states.records.outcomes import Ended
from ...states.records.requests import NOTHING, Request
from ...states.run.counters import COLUMN_COUNTERS as COLUMNS
from ...states.run.spec import Spec
from ...states.run.state import Change, Counters, Run
from ..decision.run_resources import RunResources
from ..journal.lineage import SharedPart
from ..journal.reader import JournalReader
from ..journal.recorded_outcome import recorded_outcome
from ..journal.rows import Transition
from ..machine.fold import apply
from ..machine.machine import Decision, Moment, decide, request_of
from ..versioning.amendments import amend_spec
from ..versioning.changes import ChangedPart, changes_of
from .payload_window import PayloadWindow
from .restore import continue_with
from .row_comparison import Texts, compare_decision, compare_request
from .run_comparison import (
    Divergence,
    compare_fingerprints,
    compare_result,
    short,
)


@dataclass(frozen=True, slots=True)
class Unchecked:
    """
    Something that a replay could not compare, because a text was erased.

    Attributes:
        seq: Row; -1 for the spec.
        field: As in `Divergence`.
    """

    seq: int
    field: str

    def __str__(self) -> str:
        return f"row {self.seq}, {self.field}: erased" if self.seq >= 0 else f"{self.field}: erased"


@dataclass(frozen=True, slots=True)
class Replay:
    """
    What a replay found.

    Attributes:
        run_id: The run.
        transitions: Rows compared.
        identical: Whether everything was compared and nothing differs.
        divergences: Every difference, in order; after the first different decision the record is followed.
        unchecked: What could not be compared, because texts were erased.
        changed: Parts that have changed since the run was recorded; that alone is not a difference.
        accepted: Rows from which on changes were accepted, each with the changed parts.
    """

    run_id: str
    transitions: int
    identical: bool
    divergences: tuple[Divergence, ...]
    unchecked: tuple[Unchecked, ...] = ()
    changed: tuple[ChangedPart, ...] = ()
    accepted: tuple[tuple[int, tuple[str, ...]], ...] = ()

    def raise_if_diverged(self) -> None:
        """Raise `ReplayDiverged` with the first difference, if there is one."""
        if self.divergences:
            raise ReplayDiverged(f"run {self.run_id}: {self.divergences[0]}")


class SpecSource(Protocol):
    """An engine, as far as a replay needs one: what it would start a recorded run with now."""

    def current_spec(self, spec: Spec) -> Spec:
        """Return *spec* with this engine's templates, tools and policy."""
        ...


def spec_of_part(journal: JournalReader, run_id: str) -> Spec:
    """
    Return the spec that a run was started with.

    Raises:
        JournalDamaged: It cannot be read.
    """
    try:
        return journal.spec(run_id)
    except ValidationError as error:
        raise JournalDamaged(
            f"run {run_id}: its spec cannot be read ({error.error_count()} errors)"
        ) from None


def changed_since(journal: JournalReader, run: Run, recorded: Spec, present: Spec) -> tuple[ChangedPart, ...]:
    """Return what a present engine, or without one the present code, has changed."""
    return changes_of(journal, replace(run, spec=recorded), present, [tool.name for tool in recorded.tools])


def replay_rows(walk: ReplayWalk, transitions: Sequence[Transition]) -> Run | None:
    """Replay every row; return the run after the last one, None when a row cannot be read."""
    run = walk.begin()
    for transition in transitions:
        try:
            if transition.run != run.number:  # the fork's own rows begin, with what it was started with
                run = walk.hand_over(run, transition.run, transition.seq - 1)
            if "spec" in transition.request:
                run = walk.amend(run, transition)
            before = len(walk.found)
            decision = _replayed_row(walk.store, walk.kit, run, transition, walk.found)
            if decision is None or len(walk.found) > before:
                run = follow(walk.store, run, transition)
            else:  # what was derived is what was recorded
                run = _next(run, transition, decision.counters, decision.change)
        except UNREADABLE as error:
            found = short(f"{type(error).__name__}: {error}")
            walk.found.append(Divergence(transition.seq, "record", "a readable row", found))
            return None
    if run.number != walk.own:  # a fork that has no row of its own yet
        run = walk.hand_over(run, walk.own, run.seq - 1)
    return run


@dataclass(slots=True)
class ReplayWalk:
    """
    What one replay has at hand.

    Attributes:
        store: Payloads.
        engine: To compare with, or None.
        parts: By run number, oldest first, the parts that the run consists of, each with the spec that it began with.
        transitions: All rows; the last one of them that amends the spec decides from where on an engine is compared.
        recorded: Spec in force as recorded.
        spec, kit: What rows are derived with.
        amended: Rows that amended the spec, each with the parts that became others.
        found: Every difference so far.
    """

    store: PayloadWindow
    engine: SpecSource | None
    parts: Mapping[int, tuple[SharedPart, Spec]]
    transitions: Sequence[Transition]
    recorded: Spec = field(init=False)
    spec: Spec = field(init=False)
    kit: RunResources = field(init=False)
    amended: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    found: list[Divergence] = field(default_factory=list)

    @property
    def own(self) -> int:
        """The number of the run itself, after those that it shares rows with."""
        return list(self.parts)[-1]

    def begin(self) -> Run:
        """Return the run before its first row."""
        return self.hand_over(None, next(iter(self.parts)), -1)

    def hand_over(self, run: Run | None, number: int, seq: int) -> Run:
        """Return the run that goes on after row *seq* with the part of run *number*."""
        part, self.recorded = self.parts[number]
        self.found.extend(compare_fingerprints(seq, self.recorded))
        self._derive()
        return continue_with(run, part, self.spec)

    def _derive(self) -> None:
        """Before the last amendment rows belong to what was in force then, and no engine of now has a say in them."""
        seq = self.amended[-1][0] if self.amended else -1
        last = not any("spec" in item.request for item in self.transitions if item.seq > seq)
        self.spec = self.engine.current_spec(self.recorded) if self.engine and last else self.recorded
        self.kit = RunResources(self.spec)

    def amend(self, run: Run, row: Transition) -> Run:
        """Return *run* with the spec that is in force from *row* on."""
        body = self.store.payload(run.number, row.request["spec"]["n"]).body
        before, self.recorded = self.recorded.fingerprints, amend_spec(self.recorded, body)
        after = self.recorded.fingerprints
        parts = sorted(part for part in {**before, **after} if before.get(part) != after.get(part))
        self.amended.append((row.seq, tuple(parts)))
        self.found.extend(compare_fingerprints(row.seq, self.recorded))
        self._derive()
        return replace(run, spec=self.spec)


UNREADABLE = (PaorError, ValueError, LookupError, TypeError, AttributeError, AssertionError)
"""What reading a record can raise that is not as paor wrote it."""


def follow(journal: Texts, run: Run, row: Transition) -> Run:
    """Return *run* after the recorded row."""
    body = journal.payload(run.number, row.change["n"]).body
    if body is None:
        raise JournalDamaged("the change has been erased")
    return _next(run, row, recorded_counters(run, row), Change.read(body))


def recorded_counters(run: Run, row: Transition) -> Counters:
    """Return the counters of *run* as the row has them."""
    return replace(run.counters, **{name: getattr(row, name) for name in COLUMNS}, **_other_counters(row))


def _next(run: Run, row: Transition, counters: Counters, change: Change) -> Run:
    facts = dict(row.outcome)
    return apply(run, trigger=row.trigger, dest=row.dest, counters=counters, change=change, outcome=facts)


def _other_counters(row: Transition) -> dict[str, Any]:
    defaults = Counters()
    others = {name: getattr(defaults, name) for name in Counters.__struct_fields__ if name not in COLUMNS}
    return others | dict(row.counters)


def _replayed_row(
    journal: PayloadWindow, kit: RunResources, run: Run, row: Transition, found: list[Divergence]
) -> Decision | None:
    """Add what differs at one row to *found*; return what was decided, None when nothing could be."""
    if row.seq != run.seq or row.source != run.state:
        found.append(Divergence(row.seq, "place", f"{row.source} at {row.seq}", f"{run.state} at {run.seq}"))
        return None
    found.extend(compare_request(journal, kit, run, row, request_at(run, row)))
    try:
        outcome = recorded_outcome(journal, run, row)
        moment = Moment(row.at, row.time_us - run.counters.time_us)
        decision = decide(run, outcome, moment, kit)
        if isinstance(outcome, Ended):
            found.extend(compare_result(journal, kit, run, row, outcome))
    except UNREADABLE as error:
        told = short(f"{type(error).__name__}: {error}")
        found.append(Divergence(row.seq, "outcome", "a readable outcome", told))
        return None
    if moment.active_us < 0:
        found.append(Divergence(row.seq, "time_us", str(row.time_us), f"at least {run.counters.time_us}"))
    found.extend(compare_decision(journal, run, row, decision))
    return decision


def request_at(run: Run, row: Transition) -> Request:
    """Return what a row's request must be; a run that was cancelled may have had a call open, and then names it."""
    kind = row.outcome.get("kind")
    uncalled = kind == "answer" or (kind == "cancelled" and row.request.get("kind") == "none")
    return NOTHING if uncalled else request_of(run)
