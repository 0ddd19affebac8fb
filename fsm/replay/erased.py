"""
Replay of a run of which something was erased: everything that is left is derived and compared, the rest is named.

A row whose texts are there is compared as always. What depends on an erased payload is named as not checked, and
so is a difference that may come from it; an agreement counts as one. In every row, erased or not, the hash chain, the
place, the choice among the table's rows by the recorded guards, and the sums are checked, which need no text at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ...states.base.errors import Erased
from ...states.run.spec import Spec
from ...states.run.state import Change, Run
from ..decision.run_resources import RunResources
from ..journal.erasure_log import erasures_of, numbers_of, root_of
from ..journal.record import PREV_HASH, chain_hash, root_hash
from ..journal.recorded_outcome import recorded_outcome
from ..machine.fold import apply
from ..machine.machine import Decision, Moment, decide
from ..machine.table import rows_of
from ..versioning.amendments import amend_spec
from .payload_window import PayloadWindow
from .restore import continue_with
from .row_comparison import compare_decision, compare_request
from .run_comparison import Divergence, short
from .walk import (
    UNREADABLE,
    Replay,
    SpecSource,
    Unchecked,
    follow,
    recorded_counters,
    request_at,
    spec_of_part,
)

if TYPE_CHECKING:
    from ..journal.lineage import SharedPart
    from ..journal.payloads import Payload
    from ..journal.reader import JournalReader
    from ..journal.rows import RunRow, Transition

GONE = "(erased)"


def erased_numbers(journal: JournalReader, run: int) -> dict[int, set[int]]:
    """Return the numbers of the payloads of a run that were erased, by the run that they belong to."""
    parts = journal.lineage(run)
    ends = [*(part.first_payload for part in parts[1:]), 2**32]
    found = {}
    for part, end in zip(parts, ends, strict=True):
        rows = journal.query(
            "SELECT n FROM payloads WHERE id BETWEEN ? AND ? AND body IS NULL",
            (part.run << 32 | part.first_payload, (part.run << 32) + end - 1),
        )
        if rows:
            found[part.run] = {n for (n,) in rows}
    return found


class _Noting:
    """A journal whose payloads are read as they are, with a note of whether one of them was erased."""

    def __init__(self, journal: JournalReader) -> None:
        self._store = PayloadWindow(journal)
        self.missed = False

    def payload(self, run: int, n: int) -> Payload:
        """Return a payload and take note."""
        payload = self._store.payload(run, n)
        self.missed = self.missed or payload.body is None
        return payload

    def is_text(self, payload: Payload, place: Mapping[str, Any], text: str) -> bool:
        """Whether the payload that *place* refers to is *text*; one that was erased is none."""
        return self._store.is_text(payload, place, text)


def replay_erased(
    journal: JournalReader, row: RunRow, engine: SpecSource | None, gone: dict[int, set[int]]
) -> Replay:
    """
    Derive again what can be derived.

    Args:
        journal, engine: See `fsm.replay.replay.replay`.
        row: The run.
        gone: Numbers of its erased payloads.
    """
    transitions = journal.transitions(row.run_id)
    found: list[Divergence] = []
    for run, numbers in sorted(gone.items()):
        unrecorded = sorted(numbers - numbers_of(erasures_of(journal, run)))
        if unrecorded:
            told = f"{len(unrecorded)} payloads without a record, the first is {unrecorded[0]}"
            found.append(Divergence(-1, "payloads", "records of what was erased", told))
    found += _chain(journal, row)
    found += [item for pair in _pairs(transitions) for item in _plain(*pair)]
    amendments = sum("spec" in item.request for item in transitions)
    walk = _Derivation(journal, engine, journal.lineage(row.run), amendments)
    for transition in transitions:
        if not walk.step(transition):
            break
    found += walk.found
    known = dict.fromkeys(sorted(found, key=lambda item: item.seq))
    unchecked = dict.fromkeys(sorted(walk.unchecked, key=lambda item: item.seq))
    identical = not known and not unchecked
    return Replay(row.run_id, len(transitions), identical, tuple(known), tuple(unchecked))


class _Derivation:
    """
    A walk through the rows, as far as what is left carries it.

    Attributes:
        found: Differences that no erased text explains.
        unchecked: What could not be compared.
    """

    def __init__(
        self, journal: JournalReader, engine: SpecSource | None, parts: Sequence[SharedPart], amendments: int
    ) -> None:
        self._journal, self._engine = journal, engine
        self._parts = {part.run: part for part in parts}
        self._noting = _Noting(journal)
        self._amendments = amendments
        self._adrift = False
        self.found: list[Divergence] = []
        self.unchecked: list[Unchecked] = []
        self._run: Run | None = None
        self._hand_over(parts[0])

    def _hand_over(self, part: SharedPart) -> None:
        """Go on with a part's spec; without it there is no way on."""
        try:
            self._recorded = spec_of_part(self._journal, part.run_id)
        except Erased:
            self.unchecked.append(
                Unchecked(part.first_seq - 1, "spec, and with it every request and decision")
            )
            self._run = None
            return
        spec = self._derived()
        self._run, self._kit = continue_with(self._run, part, spec), RunResources(spec)

    def _derived(self) -> Spec:
        """Return what rows are derived with: the engine's say begins behind the last amendment."""
        settled = self._engine is None or self._amendments > 0
        return (
            self._recorded if settled or self._engine is None else self._engine.current_spec(self._recorded)
        )

    def _amend(self, run: Run, row: Transition) -> Run | None:
        """Return *run* with the spec that is in force from *row* on, None when that was erased."""
        body = self._journal.payload(run.number, row.request["spec"]["n"]).body
        self._amendments -= 1
        if body is None:
            self.unchecked.append(Unchecked(row.seq, "spec, and with it every later request and decision"))
            return None
        self._recorded = amend_spec(self._recorded, body)
        spec = self._derived()
        self._kit = RunResources(spec)
        return replace(run, spec=spec)

    def step(self, row: Transition) -> bool:
        """Compare one row and go on after it; return whether there is a way on."""
        if self._run is not None and row.run != self._run.number:
            self._hand_over(self._parts[row.run])
        if self._run is not None and "spec" in row.request:
            self._run = self._amend(self._run, row)
        if self._run is None:
            return False
        run = self._run
        if row.seq != run.seq or row.source != run.state:
            self._tell(Divergence(row.seq, "place", f"{row.source} at {row.seq}", run.state))
            return False
        noting = self._noting = _Noting(self._journal)
        self._compare_request(noting, run, row)
        decision, sure = self._decided(noting, run, row)
        try:
            self._run = self._followed(run, row, decision if sure else None)
        except UNREADABLE as error:
            told = short(f"{type(error).__name__}: {error}")
            self._tell(Divergence(row.seq, "record", "a readable row", told))
            return False
        return True

    def _tell(self, item: Divergence, *, sure: bool = True) -> None:
        if sure and not self._adrift and item.expected != GONE:
            self.found.append(item)
        else:
            self.unchecked.append(Unchecked(item.seq, item.field))

    def _compare_request(self, noting: _Noting, run: Run, row: Transition) -> None:
        try:
            for item in compare_request(noting, self._kit, run, row, request_at(run, row)):
                self._tell(item)
        except UNREADABLE as error:
            told = short(f"{type(error).__name__}: {error}")
            self._tell(Divergence(row.seq, "request", "a readable request", told))

    def _decided(self, noting: _Noting, run: Run, row: Transition) -> tuple[Decision | None, bool]:
        """Return what the recorded outcome means now, and whether nothing that was erased went into it."""
        noting.missed = False
        try:
            outcome = recorded_outcome(noting, run, row)
            missed = noting.missed
            moment = Moment(row.at, row.time_us - run.counters.time_us)
            decision = decide(run, outcome, moment, self._kit)
        except UNREADABLE as error:
            told = short(f"{type(error).__name__}: {error}")
            self._tell(Divergence(row.seq, "outcome", "a readable outcome", told), sure=not noting.missed)
            return None, False
        for item in compare_decision(noting, run, row, decision):
            self._tell(item, sure=not missed)
        return decision, not missed and not self._adrift

    def _followed(self, run: Run, row: Transition, decision: Decision | None) -> Run:
        """Return the run after a row: by its change, by the derived one where that was erased, else without it."""
        if self._journal.payload(run.number, row.change["n"]).body is not None:
            return follow(self._noting, run, row)
        self._adrift = self._adrift or decision is None
        return apply(
            run,
            trigger=row.trigger,
            dest=row.dest,
            counters=recorded_counters(run, row),
            change=decision.change if decision is not None else Change(),
            outcome=dict(row.outcome),
        )


# -- what needs no text ------------------------------------------------------------------------------------------


def _chain(journal: JournalReader, row: RunRow) -> Iterator[Divergence]:
    """Yield every row that does not fit the hash chain, and every root that does not."""
    parts = journal.lineage(row.run)
    ends = [*(part.first_seq - 1 for part in parts[1:]), 2**32 - 1]
    head = b""
    for part, end in zip(parts, ends, strict=True):
        head = root_hash(journal.root_columns(part.run), head)
        if head != root_of(journal, part.run):
            yield Divergence(part.first_seq - 1, "root_hash", "the chain", "columns that do not fit it")
        for values in journal.own_rows(part.run, part.first_seq, end):
            if values[PREV_HASH] != head or chain_hash(head, values[:PREV_HASH]) != values[PREV_HASH + 1]:
                yield Divergence(values[1], "hash", "the chain", "a row that does not fit it")
            head = values[PREV_HASH + 1]


def _pairs(rows: list[Transition]) -> Iterator[tuple[Transition | None, Transition]]:
    before = None
    for row in rows:
        yield before, row
        before = row


def _plain(before: Transition | None, row: Transition) -> Iterator[Divergence]:
    """Yield what is wrong with a row by its columns alone: its place, the choice by its guards, its sums."""
    state, seq = (before.dest, before.seq + 1) if before is not None else ("Planning", 0)
    if (row.source, row.seq) != (state, seq):
        yield Divergence(row.seq, "place", f"{row.source} at {row.seq}", f"{state} at {seq}")
        return
    fits = _chosen(row, waiting=before is not None and before.trigger == "wait")
    if fits != (row.trigger, row.dest):
        told = " to ".join(fits) if fits else "no row of the table"
        yield Divergence(row.seq, "guards", f"{row.trigger} to {row.dest}", told)
    for name in ("tokens_in", "tokens_out", "cost_micro"):
        used = row.outcome.get(name, 0)
        expected = (getattr(before, name) if before is not None else 0) + (used if type(used) is int else 0)
        if getattr(row, name) != expected:
            yield Divergence(row.seq, name, str(getattr(row, name)), str(expected))
    rises = int(row.trigger in ("select", "next_step"))
    for name, most in (("step", rises), ("action", 1), ("retries", int(row.trigger == "retry"))):
        more = getattr(row, name) - (getattr(before, name) if before is not None else 0)
        if not 0 <= more <= most:
            yield Divergence(row.seq, name, str(getattr(row, name)), f"at most {most} more than before")
    if before is not None and row.time_us < before.time_us:
        yield Divergence(row.seq, "time_us", str(row.time_us), f"at least {before.time_us}")


def _chosen(row: Transition, *, waiting: bool) -> tuple[str, str] | None:
    """Return the first row of the table whose guards hold by the recorded values, None when one is missing."""
    for candidate in rows_of(row.source, waiting=waiting):
        needed = {**dict.fromkeys(candidate.conditions, True), **dict.fromkeys(candidate.unless, False)}
        if any(type(row.guards.get(name)) is not bool for name in needed):
            return None
        if all(row.guards[name] is wanted for name, wanted in needed.items()):
            return candidate.trigger, candidate.dest
    return None
