"""One run as the page shows it, read as far as it has come; a run that goes on is read on from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import orjson
from pydantic import ValidationError

from ...states.base.errors import Erased, JournalDamaged, PaorError, UsageError
from ...states.run.state import Run
from ..decision.guard_context import GuardContext
from ..decision.run_resources import RunResources
from ..diagrams.drawing import playable
from ..diagrams.graph import graph_of
from ..explain.story import Story, StoryReader
from ..explain.why import not_derived
from ..journal.erasure_log import numbers_of
from ..journal.lineage import SharedPart, part_with
from ..journal.reader import JournalReader, damage_told
from ..journal.rows import StoredDocument, Transition, transition_of
from ..machine.machine import MACHINE, Machine
from ..machine.stop_rules import read_case
from ..replay.callers import called_runs, open_question
from ..replay.machines import machines_of
from ..replay.recorded_outcome import recorded_outcome
from ..replay.replay import replay
from ..replay.restore import run_after, run_at, run_before
from ..verify.references import references
from ..verify.verify import Defect, run_defects
from .run_lines import exact_arguments, run_line
from .run_rows import PastRows, RowDetails

UNREADABLE = (Erased, JournalDamaged, ValidationError, ValueError, LookupError, TypeError)
"""What reading a record can raise that was erased, or is not as paor wrote it."""


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
        self.derived: list[GuardContext] = []
        self.note = ""
        self.ends = 2**32
        self._resources: tuple[object, RunResources] | None = None

    def cases(self, rows: Sequence[Transition]) -> Iterator[tuple[Transition, GuardContext | None]]:
        """Yield each of *rows*, which follow each other, with its case as the machine read it; None where it cannot be derived."""
        if rows and rows[-1].seq < len(self.derived):  # by the replay
            yield from zip(rows, self.derived[rows[0].seq :], strict=False)
            return
        run: Run | None = None
        for row in rows:
            case = None
            if row.seq < self.ends:
                try:
                    run = run_at(
                        self.journal, run if run is not None else self._state(row.seq), row, self.parts
                    )
                    case = self._case(run, row)
                    run, _ = run_after(self.journal, run, row)
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

    def _case(self, run: Run, row: Transition) -> GuardContext:
        if self._resources is None or self._resources[0] is not run.spec:
            self._resources = run.spec, RunResources(run.spec)
        return read_case(run, recorded_outcome(self.journal, run, row), self._resources[1], row.at)


CHUNK = 256
"""Rows that the page loads together."""

_BATCH = 2000


class RunView:
    """
    One run.

    Args:
        journal: That holds it.
        run_id: Its id, or an unambiguous prefix.
        checked: Whether `head` says what `checks` finds; a page that follows the journal asks for that by itself.
        defects: Finds what is wrong with a run by its number; by default in a pass for each.

    Attributes:
        told: Its story, as far as its rows were read.
    """

    def __init__(
        self,
        journal: JournalReader,
        run_id: str,
        *,
        checked: bool = True,
        defects: Callable[[int], Sequence[Defect]] | None = None,
    ) -> None:
        self.journal, self.checked = journal, checked
        self._defects_of = defects or partial(run_defects, journal)
        self.row = journal.run(run_id)
        self.run_id = self.row.run_id
        self.parts = {part.run: part for part in journal.lineage(self.row.run)}
        self._begin()
        self.advance()

    def _begin(self) -> None:
        """Forget every row."""
        self.told, self._earlier = StoryReader(self.journal), PastRows()
        self._states = RunStates(self.journal, self.run_id, self.parts)
        self._breaks: list[Transition] = []
        self._machines: list[Machine | None] = []
        self._documents_at: tuple[int, list[StoredDocument]] = (-1, [])
        self._newest: list[tuple[tuple[Any, ...], Transition]] = []
        self._gone = self._erased()

    # -- reading on ------------------------------------------------------------------------------------------------

    def advance(self) -> int:
        """Read the rows that have come since, and all of them again once a text was erased; return how many are new."""
        before = self.count
        self.row = self.journal.run(self.run_id)
        erased = self._erased()
        if erased != self._gone:
            self._begin()
            self._gone = (
                erased  # as it was read before the rows: what is erased from here on is noticed the next time
            )
        with damage_told(self.run_id):
            while self.count <= self.row.head_seq:
                values = self._values(self.count, min(self.count + _BATCH, self.row.head_seq + 1))
                if not values:
                    break
                self._newest = [(item, transition_of(item)) for item in values]
                for _, row in self._newest:
                    if "spec" in row.request or not self._breaks or self._breaks[-1].run != row.run:
                        self._breaks.append(row)
                    self.told.add(row)
                    self._earlier.add(row)
            if len(self._machines) != len(self._breaks) + 1:
                self._machines = machines_of(self.journal, self.row.run, self._breaks)
        return self.count - before

    @property
    def count(self) -> int:
        """How many rows were read."""
        return len(self.told.rows)

    def _values(self, first: int, end: int) -> list[tuple[Any, ...]]:
        """Return the plain rows from *first* to before *end*, shared ones too."""
        found: list[tuple[Any, ...]] = []
        starts = [*(part.first_seq for part in self.parts.values()), 2**32]
        for part, limit in zip(self.parts.values(), starts[1:], strict=True):
            low, high = max(first, part.first_seq), min(end, limit) - 1
            if low <= high:
                found += self.journal.own_rows(part.run, low, high)
        return found

    def _erased(self) -> dict[int, frozenset[int]]:
        """Return the numbers of the texts that were erased, by the run that each belongs to."""
        return {part: frozenset(numbers_of(self.journal.erasures(part))) for part in self.parts}

    def _lacks(self, row: Transition) -> bool:
        """Return whether a text of a row was erased; of a fork's own row also one that its parent stored."""
        if not any(self._gone.values()):
            return False
        numbers = [item["n"] for item in references([row.request, row.outcome, row.change])]
        parts = tuple(self.parts.values())
        return any(number in self._gone[part_with(parts, "first_payload", number).run] for number in numbers)

    def _machine(self, seq: int) -> Machine | None:
        """Return the machine that decided row *seq*; None once its record was erased."""
        found = self._machines[-1] if not self._breaks else self._machines[0]
        for row, machine in zip(self._breaks, self._machines, strict=False):
            if row.seq <= seq:
                found = machine
        return found

    # -- rows ------------------------------------------------------------------------------------------------------

    def chunk(self, number: int) -> dict[str, Any]:
        """
        Return what is behind the rows of one chunk, with their texts.

        Raises:
            UsageError: There is no such chunk.
            JournalDamaged: A row or a text of it cannot be read.
        """
        with damage_told(self.run_id):
            return self._chunk(number)

    def _chunk(self, number: int) -> dict[str, Any]:
        first = number * CHUNK
        if not 0 <= first <= max(self.count - 1, 0):
            raise UsageError(f"run {self.run_id} has no rows {first:,} and later")
        found = self._newest
        if first or not len(found) == self.count <= CHUNK:
            values = self._values(first, min(first + CHUNK, self.count))
            found = [(item, transition_of(item)) for item in values]
        details = RowDetails(self.journal, self.row, self._earlier, self._stored())
        cases = self._states.cases([row for _, row in found])
        rows = [
            details.row(plain, row, case, self._machine(row.seq) or MACHINE, self._states.note)
            | {"erased": self._lacks(row)}
            for (plain, _), (row, case) in zip(found, cases, strict=True)
        ]
        return {"first": first, "rows": rows, "texts": details.texts}

    def entries(self, first: int, most: int = 2**32) -> list[dict[str, Any]]:
        """Return the rows from *first* on as the story has them, at most so many."""
        return [row.wire() for row in self.told.rows[first : first + most]]

    # -- the run as a whole ----------------------------------------------------------------------------------------

    def story(self) -> Story:
        """Return the run's story; one whose spec cannot be read is shown as one without it."""
        try:
            spec = self.told.spec(self.row)
        except UNREADABLE:
            spec = None
        return self.told.story(self.row, spec, open_question(self.journal, self.row))

    def head(self, line: Mapping[str, Any] | None = None, first: int = 0) -> dict[str, Any]:
        """
        Return the run's story, and everything else about the run but what is behind its rows.

        Args:
            line: Its line of the list of runs, where that was made before.
            first: Of the story's rows those from this number on.

        Raises:
            JournalDamaged: It cannot be read.
        """
        with damage_told(self.run_id):
            told = self.story()
            return {
                "story": told.wire(first),
                "exact": exact_arguments(told.calls),
                "line": line or run_line(self.journal, self.row),
                "chain": self._chain(),
                **(self.checks() if self.checked else {"replay": None, "verify": None}),
                "machine": machine_data(self._machines[-1] or MACHINE),
                "chunk": CHUNK,
                "amendments": self._amendments(),
                "forks": [{"id": run_id, "seq": seq} for run_id, seq in self.journal.forks(self.run_id)],
                "tasks": [run_line(self.journal, row) for row in called_runs(self.journal, self.row)],
            }

    def _chain(self) -> dict[str, Any]:
        parts = [
            {
                "run_id": part.run_id,
                "run": number,
                "root": orjson.dumps(self.journal.root_columns(number), option=orjson.OPT_SORT_KEYS).decode(),
                "first": part.first_seq,
            }
            for number, part in self.parts.items()
        ]
        return {"parts": parts, "head": self.row.head_hash.hex()}

    def checks(self) -> dict[str, Any]:
        """Return what a replay and a verification of the run find; takes about a millisecond a row."""
        defects = self._defects()
        return {"replay": self._replay(), "verify": {"defects": defects[:_SHOWN], "count": len(defects)}}

    def _replay(self) -> dict[str, Any]:
        cases: list[GuardContext] | None = [] if self.count <= CHUNK else None
        try:
            found = replay(self.journal, self.run_id, cases=cases)
        except PaorError as error:
            return {
                "identical": False,
                "rows": 0,
                "divergences": [],
                "count": 0,
                "unchecked": [],
                "changed": [],
                "error": str(error),
            }
        if found.identical and cases and not any(case.given or case.fresh for case in cases):
            self._states.derived = cases
        return {
            "identical": found.identical,
            "rows": found.transitions,
            "divergences": [
                {
                    "seq": item.seq,
                    "field": item.field,
                    "recorded": item.expected,
                    "derived": item.found,
                }
                for item in found.divergences[:_SHOWN]
            ],
            "count": len(found.divergences),
            "unchecked": [
                {"seq": item.seq, "field": item.field, "why": item.why} for item in found.unchecked[:_SHOWN]
            ],
            "changed": [str(item) for item in found.changed],
        }

    def _defects(self) -> list[str]:
        try:
            return [str(item) for number in self.parts for item in self._defects_of(number)]
        except PaorError as error:
            return [str(error)]

    def _stored(self) -> list[StoredDocument]:
        """Return the documents, read again once there are more rows."""
        if self._documents_at[0] != self.count:
            self._documents_at = self.count, self.journal.documents(self.run_id)
        return self._documents_at[1]

    def _amendments(self) -> list[dict[str, Any]]:
        found = []
        for row in self.told.amended:
            body = self.journal.payload(row.run, row.request["spec"]["n"]).body
            data = orjson.loads(body) if body is not None else {}
            found.append({"seq": row.seq, "parts": sorted(data) if isinstance(data, dict) else []})
        return found


_SHOWN = 50
"""Differences and defects that are named; all are counted."""


@lru_cache(maxsize=32)
def machine_data(machine: Machine) -> dict[str, Any]:
    """Return a machine as the page draws and explains it; not to be changed, since it is drawn once for all of its runs."""
    sentences = {
        name: " ".join((guard.__doc__ or "").split("\n\n")[0].split())
        for name, guard in machine.guards.items()
    }
    return {
        **playable(graph_of(machine.rows, None, machine.host))._asdict(),
        "rows": [
            {
                "source": row.source,
                "trigger": row.trigger,
                "dest": row.dest,
                "meaning": row.meaning,
                "guards": [[name, True] for name in row.conditions] + [[name, False] for name in row.unless],
                "when": "both" if row.guards == ("hard_stop",) else "waiting" if row.answers else "going",
                "host": row.host,
            }
            for row in machine.rows
        ],
        "guards": sentences,
    }


__all__ = ["CHUNK", "RunView", "machine_data"]
