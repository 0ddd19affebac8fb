"""
Replay of a run of which something was erased: everything that is left is derived and compared, the rest is named.

A row whose texts are there is compared as always. What an erased payload would have told is named as not checked, and
so is a difference that may come from it; an agreement counts as one. In every row, erased or not, the hash chain, the
place, the choice among the table's rows by the recorded guards, and the sums are checked, which need no text at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ..states.errors import Erased, JournalDamaged
from ..states.requests import NOTHING
from ..states.run import Change, Run, initial_run
from . import replay as whole
from .erasures import erasures_of, numbers_of
from .fold import apply
from .kit import Kit
from .machine import Decision, Moment, decide, request_of
from .record import PREV_HASH, chained
from .table import rows_of

if TYPE_CHECKING:
    from .journal import Journal, Transition
    from .journal_reading import JournalReader
    from .journal_rows import RunRow
    from .payloads import Payload

GONE = "(erased)"


@dataclass(frozen=True, slots=True)
class Unchecked:
    """
    What a replay cannot say, because a text was erased.

    Attributes:
        seq: Row; -1 for the spec.
        field: As in `Divergence`.
    """

    seq: int
    field: str

    def __str__(self) -> str:
        return f"row {self.seq}, {self.field}: erased" if self.seq >= 0 else f"{self.field}: erased"


def erased_numbers(journal: JournalReader, run: int) -> set[int]:
    """Return the numbers of the payloads of a run that were erased."""
    rows = journal.query(
        "SELECT n FROM payloads WHERE id BETWEEN ? AND ? AND body IS NULL",
        (run << 32, run << 32 | (2**32 - 1)),
    )
    return {n for (n,) in rows}


class _Noting:
    """A journal whose payloads are read as they are, with a note of whether one of them was erased."""

    def __init__(self, journal: JournalReader) -> None:
        self._journal = journal
        self.missed = False

    def payload(self, run: int, n: int) -> Payload:
        """Return a payload and take note."""
        payload = self._journal.payload(run, n)
        self.missed = self.missed or payload.body is None
        return payload


def replay_erased(
    journal: Journal, row: RunRow, engine: whole.SpecSource | None, gone: set[int]
) -> whole.Replay:
    """
    Derive again what can be derived.

    Args:
        journal, engine: See `fsm.replay.replay`.
        row: The run.
        gone: Numbers of its erased payloads.
    """
    transitions = journal.transitions(row.run_id)
    found: list[whole.Divergence] = []
    unchecked: list[Unchecked] = []
    unrecorded = sorted(gone - numbers_of(erasures_of(journal, row.run)))
    if unrecorded:
        told = f"{len(unrecorded)} payloads without a record, the first is {unrecorded[0]}"
        found.append(whole.Divergence(-1, "payloads", "records of what was erased", told))
    found += _chain(journal, row)
    found += [item for pair in _pairs(transitions) for item in _plain(*pair)]
    spec = None
    try:
        spec = journal.spec(row.run_id)
    except Erased:
        unchecked.append(Unchecked(-1, "spec, and with it every request and decision"))
    except ValidationError as error:
        raise JournalDamaged(
            f"run {row.run_id}: its spec cannot be read ({error.error_count()} errors)"
        ) from None
    if spec is not None:
        if engine is not None:
            spec = engine.current_spec(spec)
        walk = _Derivation(journal, Kit(spec), initial_run(row.run_id, row.run, spec))
        for transition in transitions:
            if not walk.step(transition):
                break
        found += walk.found
        unchecked += walk.unchecked
    known = dict.fromkeys(sorted(found, key=lambda item: item.seq))
    return whole.Replay(row.run_id, len(transitions), False, tuple(known), tuple(dict.fromkeys(unchecked)))


class _Derivation:
    """
    A walk through the rows, as far as what is left carries it.

    Attributes:
        found: Differences that no erased text explains.
        unchecked: What could not be compared.
    """

    def __init__(self, journal: Journal, kit: Kit, run: Run) -> None:
        self._journal, self._kit, self._run = journal, kit, run
        self._adrift = False
        self.found: list[whole.Divergence] = []
        self.unchecked: list[Unchecked] = []

    def step(self, row: Transition) -> bool:
        """Compare one row and stand after it; return whether there is a way on."""
        if row.seq != self._run.seq or row.source != self._run.state:
            self._tell(whole.Divergence(row.seq, "place", f"{row.source} at {row.seq}", self._run.state))
            return False
        noting: Any = _Noting(self._journal)
        try:
            self._compare_request(noting, row)
            decision, sure = self._decided(noting, row)
            self._follow(row, decision if sure else None)
        except whole._UNREADABLE as error:
            told = whole._short(f"{type(error).__name__}: {error}")
            self._tell(whole.Divergence(row.seq, "record", "a readable row", told))
            return self._adrift
        return True

    def _tell(self, item: whole.Divergence, *, sure: bool = True) -> None:
        if sure and not self._adrift and item.expected != GONE:
            self.found.append(item)
        else:
            self.unchecked.append(Unchecked(item.seq, item.field))

    def _compare_request(self, noting: Any, row: Transition) -> None:
        uncalled = row.outcome.get("kind") in ("cancelled", "answer")
        request = NOTHING if uncalled else request_of(self._run)
        for item in whole._compare_request(noting, self._kit, self._run, row, request):
            self._tell(item)

    def _decided(self, noting: Any, row: Transition) -> tuple[Decision | None, bool]:
        """Return what the recorded outcome means now, and whether nothing that was erased went into it."""
        noting.missed = False
        try:
            outcome = whole._recorded_outcome(noting, self._run, row)
            missed = noting.missed
            moment = Moment(row.at, row.time_us - self._run.counters.time_us)
            decision = decide(self._run, outcome, moment, self._kit)
        except whole._UNREADABLE as error:
            told = whole._short(f"{type(error).__name__}: {error}")
            self._tell(
                whole.Divergence(row.seq, "outcome", "a readable outcome", told), sure=not noting.missed
            )
            return None, False
        for item in whole._compare_decision(noting, self._run, row, decision):
            self._tell(item, sure=not missed)
        return decision, not missed and not self._adrift

    def _follow(self, row: Transition, decision: Decision | None) -> None:
        """Stand after a row: by its change, by the derived one where that was erased, else without knowing all."""
        if self._journal.payload(self._run.number, row.change["n"]).body is not None:
            self._run = whole._follow(self._journal, self._run, row)
            return
        self._adrift = self._adrift or decision is None
        self._run = apply(
            self._run,
            trigger=row.trigger,
            dest=row.dest,
            counters=whole._recorded_counters(self._run, row),
            change=decision.change if decision is not None else Change(),
            outcome=dict(row.outcome),
        )


# -- what needs no text ------------------------------------------------------------------------------------------


def _chain(journal: Journal, row: RunRow) -> Iterator[whole.Divergence]:
    """Yield every row that does not fit the hash chain."""
    head = journal.root(row.run)
    for values in journal.iterate_rows(row.run, 2000):
        if values[PREV_HASH] != head or chained(head, values[:PREV_HASH]) != values[PREV_HASH + 1]:
            yield whole.Divergence(values[1], "hash", "the chain", "a row that does not fit it")
        head = values[PREV_HASH + 1]


def _pairs(rows: list[Transition]) -> Iterator[tuple[Transition | None, Transition]]:
    before = None
    for row in rows:
        yield before, row
        before = row


def _plain(before: Transition | None, row: Transition) -> Iterator[whole.Divergence]:
    """Yield what is wrong with a row by its columns alone: its place, the choice by its guards, its sums."""
    state, seq = (before.dest, before.seq + 1) if before is not None else ("Planning", 0)
    if (row.source, row.seq) != (state, seq):
        yield whole.Divergence(row.seq, "place", f"{row.source} at {row.seq}", f"{state} at {seq}")
        return
    fits = _chosen(row, waiting=before is not None and before.trigger == "wait")
    if fits != (row.trigger, row.dest):
        told = " to ".join(fits) if fits else "no row of the table"
        yield whole.Divergence(row.seq, "guards", f"{row.trigger} to {row.dest}", told)
    for name in ("tokens_in", "tokens_out", "cost_micro"):
        used = row.outcome.get(name, 0)
        expected = (getattr(before, name) if before is not None else 0) + (used if type(used) is int else 0)
        if getattr(row, name) != expected:
            yield whole.Divergence(row.seq, name, str(getattr(row, name)), str(expected))
    rises = int(row.trigger in ("select", "next_step"))
    for name, most in (("step", rises), ("action", 1), ("retries", int(row.trigger == "retry"))):
        more = getattr(row, name) - (getattr(before, name) if before is not None else 0)
        if not 0 <= more <= most:
            yield whole.Divergence(row.seq, name, str(getattr(row, name)), f"at most {most} more than before")
    if before is not None and row.time_us < before.time_us:
        yield whole.Divergence(row.seq, "time_us", str(row.time_us), f"at least {before.time_us}")


def _chosen(row: Transition, *, waiting: bool) -> tuple[str, str] | None:
    """Return the first row of the table whose guards hold by the recorded values, None when one is missing."""
    for candidate in rows_of(row.source, waiting=waiting):
        needed = {**dict.fromkeys(candidate.conditions, True), **dict.fromkeys(candidate.unless, False)}
        if any(type(row.guards.get(name)) is not bool for name in needed):
            return None
        if all(row.guards[name] is wanted for name, wanted in needed.items()):
            return candidate.trigger, candidate.dest
    return None
