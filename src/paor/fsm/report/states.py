"""A run as it stood before each of its rows, folded forward from the nearest state that is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import asdict, replace
from pydantic import ValidationError

from ...states.base.errors import Erased, JournalDamaged
from ...states.run.counters import COLUMN_COUNTERS
from ...states.run.state import Change, Counters, Run
from ..decision.guard_context import GuardContext
from ..decision.run_resources import RunResources
from ..explain.why import not_derived
from ..journal.lineage import SharedPart
from ..journal.reader import JournalReader
from ..journal.rows import Transition
from ..machine.fold import apply
from ..machine.stop_rules import read_case
from ..replay.recorded_outcome import recorded_outcome
from ..replay.restore import continue_with, run_before
from ..versioning.amendments import amend_spec

UNREADABLE = (Erased, JournalDamaged, ValidationError, ValueError, LookupError, TypeError)
"""What reading a record can raise that was erased, or is not as paor wrote it."""

_OTHER = {name: value for name, value in asdict(Counters()).items() if name not in COLUMN_COUNTERS}


class RunStates:
    """
    States of a run by row, without the host's code.

    Args:
        journal: That holds it.
        run_id: Its id.
        parts: Of which it consists, by the number of the run that each belongs to.

    A state that needs an erased text is not there, nor is any later one: `note` says why.
    """

    def __init__(self, journal: JournalReader, run_id: str, parts: Mapping[int, SharedPart]) -> None:
        self.journal, self.run_id, self.parts = journal, run_id, parts
        self.kept: dict[int, Run] = {}
        self.note = ""
        self.ends = 2**32
        self._resources: tuple[object, RunResources] | None = None

    def cases(self, rows: Sequence[Transition]) -> Iterator[tuple[Transition, GuardContext | None]]:
        """Yield each of *rows*, which follow each other, with its case as the machine read it; None where it cannot be derived."""
        run: Run | None = None
        for row in rows:
            case = None
            if row.seq < self.ends:
                try:
                    run = self._before(run if run is not None else self._state(row.seq), row)
                    case = self._case(run, row)
                    run = self._after(run, row)
                except UNREADABLE as error:
                    self._end(row.seq, error)
            yield row, case
        if run is not None and rows[-1].seq < self.ends:
            self.kept[rows[-1].seq + 1] = run

    def _state(self, seq: int) -> Run:
        """Return the run before row *seq*: kept from the rows before, or read from the journal."""
        return self.kept[seq] if seq in self.kept else run_before(self.journal, self.run_id, seq)

    def _end(self, seq: int, error: Exception) -> None:
        self.ends, self.note = seq, not_derived(error)

    def _before(self, run: Run, row: Transition) -> Run:
        """Return the run that *row* decided on, under the name and the spec that were in force."""
        if run.number != row.run:  # a fork's own rows begin
            part = self.parts[row.run]
            run = continue_with(run, part, self.journal.spec(part.run_id))
        if "spec" in row.request:
            place = row.request["spec"]
            run = run.under(
                amend_spec(run.spec, self.journal.intact(row.run, place["n"], place.get("digest")))
            )
        return run

    def _case(self, run: Run, row: Transition) -> GuardContext:
        if self._resources is None or self._resources[0] is not run.spec:
            self._resources = run.spec, RunResources(run.spec)
        return read_case(run, recorded_outcome(self.journal, run, row), self._resources[1], row.at)

    def _after(self, run: Run, row: Transition) -> Run:
        body = self.journal.payload(row.run, row.change["n"]).body
        if body is None:
            raise JournalDamaged("what the row set has been erased")
        columns = {name: getattr(row, name) for name in COLUMN_COUNTERS}
        return apply(
            run,
            at=row.at,
            trigger=row.trigger,
            dest=row.dest,
            counters=replace(run.counters, **columns, **(_OTHER | dict(row.counters))),
            change=Change.read(body),
            outcome=dict(row.outcome),
        )
