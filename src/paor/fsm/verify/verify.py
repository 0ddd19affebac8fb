"""
Verify: does the file still say what was written?

Recomputes every hash, every derived column and every payload digest of every run, holds what refers to something
against what it refers to, and checks that the rows walk the table. What a hash chain cannot show by itself, the loss
of a whole run or of a consistent tail, needs an exported head to compare with (`fsm.verify.heads`).

Every table is read once, in the order of its key and of its runs, all of them in step with each other, so a million
rows need no more memory than a thousand. What the first row of a run follows is said by `_walk_of`; for a fork it is the
last row that it shares.

What verifying a fork takes beyond verifying a run: where it begins, and whether what it shares still holds.

The shared rows, payloads and documents stand under the fork's ancestors and are checked there once. A fork adds its root
hash, which commits to the last shared row, and numbers that go on where the shared ones end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...states.base.errors import JournalBusy, JournalDamaged, JournalError
from ...states.run.counters import COLUMN_COUNTERS
from ...states.run.phase_names import DONE, FAILED, FINAL, PLANNING
from ..journal.backend import Problem
from ..journal.erasure_log import Erasure, erasure_problems
from ..journal.lineage import SharedPart
from ..journal.record import COLUMNS, NO_LABELS, root_hash
from ..journal.rows import ROOT_COLUMNS
from ..journal.scans import Scan, shown_run
from .chain import ChainWalk, Found, counted_documents
from .heads import Head, head_problem
from .payloads import Contents
from .references import is_number, json_object

if TYPE_CHECKING:
    from ..journal.reader import JournalReader
    from ..journal.reader import JournalReader as Journal

RISING = slice(COLUMNS.index(COLUMN_COUNTERS[0]), COLUMNS.index(COLUMN_COUNTERS[-1]) + 1)
"""Places of the counters in a row that never fall, in the order of `ChainWalk.rising`."""

_LIMITS = {
    "transitions seq": "first_seq",
    "payloads n": "first_payload",
    "documents number": "first_document",
}
"""Numbered places of a run, and where the part of it that a fork shares ends."""


def beginning_of(journal: JournalReader, run: int, columns: dict[str, Any]) -> ChainWalk:
    """
    Return the walk of a fork after the last row that it shares.

    Args:
        journal: The journal that holds it.
        run: Its number.
        columns: Those that never change, by name.

    Raises:
        JournalDamaged: The row that it was forked at is not there, or has ended its parent.
    """
    parts = journal.lineage(run)
    if len(parts) == 1:
        raise JournalDamaged("parent_seq without parent_run_id")
    parent, own = parts[-2:]
    (values,) = journal.own_rows(parent.run, own.first_seq - 1, own.first_seq - 1)
    row = dict(zip(COLUMNS, values, strict=True))
    if row["dest"] in FINAL:
        raise JournalDamaged(
            f"it was forked at row {row['seq']} of run {parent.run_id}, which ended that run"
        )
    spec_payload = columns["spec_payload"]
    return ChainWalk(
        run,
        columns["run_id"],
        root_hash(columns, row["hash"]),
        spec_payload,
        first=own.first_payload,
        seq=own.first_seq,
        state=row["dest"],
        count=max(own.first_payload, spec_payload + 1),
        shared_result=(own.first_payload - 1, counted_documents(row["outcome"]))
        if row["trigger"] == "execute"
        else None,
        last=(row["trigger"], row["at"], row["counters"]),
        rising=values[RISING],
    )


def shared_problems(journal: JournalReader, broken: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """
    Yield the id of every fork that shares something which does not hold, and the problem.

    Args:
        journal: The file.
        broken: Run id and place of every defect that was found.
    """
    places: dict[str, list[str]] = {}
    for run_id, place in broken:
        places.setdefault(run_id, []).append(place)
    if not places:
        return
    for run, run_id, *_ in journal.index.forks():
        try:
            parts = journal.lineage(run)
        except JournalDamaged:
            continue  # it has its own defect
        for part, after in pairwise(parts):
            found = next((place for place in places.get(part.run_id, ()) if _is_shared(place, after)), None)
            if found is not None:
                yield run_id, f"shares {found} of run {part.run_id}, which does not hold"
                break


def _is_shared(place: str, after: SharedPart) -> bool:
    """Whether a place of a run lies before the part of a fork of it."""
    name, _, number = place.rpartition(" ")
    limit = _LIMITS.get(name)
    return place == "specs" if limit is None else int(number) < getattr(after, limit)


_UNHELD = "its spec was erased, so rows of a machine of its host's own could not be held against it"
_ROWS, _PAYLOADS, _RUNS = 256, 64, 64
"""Rows of each kind that are in memory together."""


@dataclass(frozen=True, slots=True)
class Defect:
    """
    One place where the file does not hold.

    Attributes:
        run_id: The run, or empty for the file itself.
        place: Table and key, such as ``transitions seq 17``.
        problem: What is wrong.
    """

    run_id: str
    place: str
    problem: str

    def __str__(self) -> str:
        return (
            f"run {self.run_id}, {self.place}: {self.problem}"
            if self.run_id
            else f"{self.place}: {self.problem}"
        )


def verify_journal(
    journal: Journal, heads: Sequence[Head] = (), unchecked: list[Defect] | None = None
) -> list[Defect]:
    """
    Return every defect of the file; an empty list means that everything recomputes.

    Args:
        journal: A snapshot.
        heads: Where runs ended earlier; each must still stand in its chain.
        unchecked: Gets what is no defect, but could not be checked either.
    """
    defects: list[Defect] = []

    def add(problems: Iterable[Problem]) -> bool:
        found = [Defect("", place, problem) for place, problem in problems]
        defects.extend(found)
        return bool(found)

    checks = journal.source.integrity
    try:
        add(checks.beside())
        schema = add(checks.schema())
        suspect = add(checks.storage()) or schema
        missing = any(item.place.startswith("table ") and item.problem == "is missing" for item in defects)
        if suspect and (add(checks.types()) or missing):
            return defects  # nothing can be said of values that are not what they claim to be
        add(checks.keys())
        add(checks.strays())
        verifier = _Verifier(journal, known_view=not schema)
        defects.extend(verifier.defects())
        if unchecked is not None:
            unchecked.extend(verifier.unchecked)
        broken = [(item.run_id, item.place) for item in defects]
        defects += [Defect(run_id, "specs", problem) for run_id, problem in shared_problems(journal, broken)]
        for head in heads:
            if problem := head_problem(journal, head):
                defects.append(Defect(head.run_id, f"head seq {head.head_seq}", problem))
        journal.check_same()
    except JournalBusy:
        raise
    except JournalError as error:
        journal.check_same()
        defects.append(Defect("", "file", str(error)))
    return defects


def run_defects(journal: Journal, run: int) -> list[Defect]:
    """Return what is wrong with run number *run* by itself, in a journal whose schema and types are known to hold."""
    with closing(RunDefects(journal)) as defects:
        return defects.of(run)


class RunDefects:
    """
    What is wrong with runs by themselves; one pass over the journal where each is asked for after the one before it.

    Args:
        journal: Whose schema and types are known to hold; a snapshot, where more than one run is asked for.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._pass: _Verifier | None = None
        self._first = self._next = 0
        self._found: dict[int, list[Defect]] = {}

    def of(self, run: int) -> list[Defect]:
        """Return what is wrong with run number *run*."""
        if self._pass is None or not self._first <= run <= self._next:
            self.close()
            self._pass = _Verifier(self._journal, known_view=True, first=run)
            self._first, self._found = run, {}
        elif run < self._next:
            return self._found.get(run, [])
        self._next = run + 1
        try:
            found = list(self._pass.defects(run))
        except BaseException:
            self.close()
            raise
        if found:
            self._found[run] = found
        return found

    def close(self) -> None:
        """Read no more of the runs that follow."""
        if self._pass is not None:
            self._pass.close()
            self._pass = None


class _Verifier:
    """One pass over all runs from number *first* on, in the order of their numbers."""

    def __init__(self, journal: Journal, *, known_view: bool, first: int = -(2**31)) -> None:
        self.unchecked: list[Defect] = []
        self._journal = journal
        self._specs = Scan(journal, "specs", _RUNS, first)
        self._rows = Scan(journal, "rows", _ROWS, first << 32)
        self._payloads = Scan(journal, "payloads", _PAYLOADS, first << 32)
        self._documents = Scan(journal, "documents", _ROWS, first << 32)
        self._erasures = Scan(journal, "erasures", _ROWS, first << 32)
        self._view = Scan(journal, "runs", _RUNS, first) if known_view else None

    def close(self) -> None:
        """Read no more of the runs that follow."""
        for scan in (self._specs, self._rows, self._payloads, self._documents, self._erasures, self._view):
            if scan is not None:
                scan.close()

    def defects(self, last: int = 2**63 - 1) -> Iterator[Defect]:
        """Yield what is wrong with any run up to number *last*."""
        while specs := self._specs.take(last + 1):
            for run, root, *rest in specs:
                labels, columns = tuple(rest[: len(NO_LABELS)]), rest[len(NO_LABELS) :]
                named = dict(zip(ROOT_COLUMNS, columns, strict=True))
                if 0 < run < 2**31:
                    yield from self._run(run, root, named, labels)
                else:
                    yield Defect(named["run_id"], f"specs run {run}", "its number is out of range")

    def _run(
        self, run: int, root: bytes, columns: dict[str, Any], labels: tuple[Any, ...]
    ) -> Iterator[Defect]:
        """Yield what is wrong with one run, whatever is in its rows."""
        run_id = columns["run_id"]
        for stream in (self._rows, self._payloads, self._documents, self._erasures):
            while stream.take(run << 32):
                pass  # rows of no run, or of one that cannot be walked
        try:
            walk = self._walk_of(run, columns)
        except JournalDamaged as error:
            yield Defect(run_id, "specs", str(error))
            return
        if walk.head != root:
            yield Defect(run_id, "specs", "the immutable columns do not fit their hash")
        contents = Contents(self._journal, self._payloads, self._documents, walk)
        contents.begin()
        end = (run + 1) << 32
        while rows := self._rows.take(end):
            walk.rows(rows)
            contents.follow()
        contents.finish()
        if labels != contents.labels:
            yield Defect(run_id, "specs", "its labels are not what its spec says")
        view = self._view_problem(walk)
        records = (Erasure(*row[1:]) for rows in iter(lambda: self._erasures.take(end), []) for row in rows)
        erased = erasure_problems(records, root, walk.count, contents.gone)
        for found in (walk.found, view, contents.found_payloads, contents.found_documents, erased):
            yield from (Defect(run_id, place, problem) for place, problem in found)
        if walk.unheld:
            told = f"{_UNHELD}: {len(walk.unheld)}, the first is seq {walk.unheld[0]}"
            self.unchecked.append(Defect(run_id, "transitions", told))

    def _walk_of(self, run: int, columns: dict[str, Any]) -> ChainWalk:
        """
        Return the walk at the beginning of a run: what its first row must follow.

        Raises:
            JournalDamaged: Of a fork there is no row that it could go on from.
        """
        spec_payload = columns["spec_payload"]
        if columns["parent_run_id"] is None and columns["parent_seq"] is None:
            walk = ChainWalk(run, columns["run_id"], root_hash(columns), spec_payload, count=spec_payload + 1)
            if columns["workflow_id"] == columns["run_id"] and columns["round"] == 1:
                walk.input_label = "round{round}_task{task}_action0_input".format_map(columns)
        else:
            walk = beginning_of(self._journal, run, columns)
        if is_number(spec_payload):
            walk.claims[spec_payload] = (columns["spec"], None)
        return walk

    def _view_problem(self, walk: ChainWalk) -> Found:
        """Compare the derived columns of the view `runs` with what the rows say."""
        trigger, at, counters = walk.last or ("", 0, "")
        ended = {DONE: "done", FAILED: "failed"}.get(walk.state) if walk.last else None
        expected = (
            walk.state if walk.last else PLANNING,
            ended or ("waiting" if trigger == "wait" else "running"),
            (json_object(counters) or {}).get("stop") if ended else None,
            at if ended else None,
            walk.seq - 1,
            walk.head,
        )
        try:
            found = self._viewed_run(walk.run)
        except JournalBusy:
            raise
        except JournalError as error:
            return [("view runs", str(error))]
        return [] if found == [expected] else [("view runs", "its derived columns are not what the rows say")]

    def _viewed_run(self, run: int) -> list[tuple[Any, ...]]:
        """Return what the view says of a run."""
        try:
            while self._view is not None and (rows := self._view.take(run + 1)):
                if found := [row[1:] for row in rows if row[0] == run]:
                    return found
        except JournalError:  # of some run; which one shows when each is asked for by itself
            self._view = None
        if self._view is None:
            return shown_run(self._journal, run)
        return []
