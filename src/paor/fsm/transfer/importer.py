"""
Import: runs from an export into a journal, all of them or none.

Everything is first put into a journal of its own that nobody else sees, and verified there as `paor verify` does it;
only then is it copied, in one transaction. Numbers of runs may change; ids, hashes, salts, bodies and records of
erasures stay. A run that is here already is never changed but by rows that follow its last one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Any, Literal

from msgspec.structs import asdict, astuple

from ...states.base.errors import JournalConflict, JournalDamaged, LeaseHeld, UsageError
from ..journal.erasure_log import Erasure
from ..journal.payloads import Payload
from ..journal.places.opening import passing_journal
from ..journal.reader import JournalReader
from ..journal.record import COLUMNS, NO_LABELS, Labels, Row, label_columns, last_text, root_hash
from ..journal.run_writer import RunWriter
from ..journal.store import JournalStore
from ..verify.verify import Defect, run_defects
from .erasure_plan import json_of
from .line_format import (
    AnyLine,
    DocumentLine,
    ErasureLine,
    HeaderLine,
    HeadLine,
    PayloadLine,
    RunLine,
    TransitionLine,
    payload_of,
    read_lines,
)

_AT_ONCE = 500
"""Rows that are read with one statement."""

_CHANGE = COLUMNS.index("change")


@dataclass(frozen=True, slots=True)
class Imported:
    """
    What was done with one imported run.

    Attributes:
        run_id: Its id.
        how: ``new``; ``extended``: later rows were added; ``known``: the file had all of it, nothing was written.
        transitions: Rows written.
    """

    run_id: str
    how: Literal["new", "extended", "known"]
    transitions: int


@dataclass(slots=True)
class _Arriving:
    """
    One run on its way in.

    Attributes:
        run: Its number where it is verified.
        run_id: Its id.
        first: Of each kind of line the number of the first one, and what that is numbered with.
        lines: Digest of its lines.
    """

    run: int
    run_id: str
    first: dict[str, tuple[int, int]] = field(default_factory=dict)
    lines: Any = field(default_factory=sha256)


def import_lines(journal: JournalStore, lines: Iterable[bytes]) -> tuple[Imported, ...]:
    """See `fsm.journal_api.Journal.import_lines`."""
    if journal.read_only:
        raise UsageError(f"{journal.path}: is open for reading only")
    with passing_journal("the export") as (arrived, staged):
        # read and verified as a whole before the first write here: lines that do not prove themselves change nothing, and
        # a slow source of lines does not keep the write lock
        arriving = _stage_runs(arrived, staged, lines)
        with journal.writing() as writer:
            return tuple(_copy_run(journal, writer, staged, run) for run in arriving)


# -- on the way in -----------------------------------------------------------------------------------------------


def _stage_runs(writer: RunWriter, staged: JournalReader, lines: Iterable[bytes]) -> list[_Arriving]:
    """Return the runs of an export after putting them into the journal on the way in, and verifying each."""
    runs: dict[str, _Arriving] = {}
    run: _Arriving | None = None
    for number, line, text in read_lines(lines):
        if isinstance(line, RunLine):
            run = _Arriving(len(runs) + 1, line.run_id)
        if run is None or isinstance(line, HeaderLine):
            continue
        run.lines.update(text)
        again = runs.get(run.run_id)
        if again is None:
            _check_order(number, line, run)
            if not isinstance(line, HeadLine):
                _stage(writer, run.run, number, line)
        if isinstance(line, HeadLine):
            if again is None:
                _check(staged, run, number, line)
                runs[run.run_id] = run
            elif again.lines.digest() != run.lines.digest():
                raise UsageError(f"line {number}: run {run.run_id} stands twice, and not with the same lines")
    return list(runs.values())


_ORDERED = {PayloadLine: "n", TransitionLine: "seq", DocumentLine: "number", ErasureLine: "number"}


def _check_order(number: int, line: AnyLine, run: _Arriving) -> None:
    """Raise JournalDamaged unless the lines of one kind are numbered without a gap; where they begin is verified."""
    name = _ORDERED.get(type(line))
    found = getattr(line, name) if name is not None else 0
    first, base = run.first.setdefault(type(line).__name__, (number, found))
    if name is not None and found - base != number - first:
        raise JournalDamaged(
            f"line {number}: {name} is {found}, expected {number - first + base}; lines are missing or moved"
        )


def _stage(writer: RunWriter, run: int, number: int, line: AnyLine) -> None:
    """Put one line into the journal on the way in."""
    if isinstance(line, RunLine):
        columns = asdict(line)
        writer.add_run(run, columns, root_hash(columns, _before(writer, number, line)), NO_LABELS)
        writer.add_free_lease(run)
    elif isinstance(line, PayloadLine):
        payload = payload_of(number, line)
        writer.add_payloads(run, [payload])
        _stage_labels(writer, run, number, payload)
    elif isinstance(line, TransitionLine):
        *values, before, own = astuple(line)
        row = (run, *values, bytes.fromhex(before), bytes.fromhex(own))
        try:
            writer.add_row(row, ())
        except ValueError as error:
            raise UsageError(f"line {number}: {ascii(str(error))[1:-1][:160]}") from None
    elif isinstance(line, DocumentLine):
        writer.add_documents(run, [astuple(line)])
    elif isinstance(line, ErasureLine):
        record = Erasure(
            line.number, line.at, line.rule, line.payloads, line.reason, bytes.fromhex(line.hash)
        )
        writer.add_erasure(run, record)


def _stage_labels(writer: RunWriter, run: int, number: int, payload: Payload) -> None:
    """Derive key and metadata of a run when its spec arrives; what cannot be derived is found when it is verified."""
    columns = writer.columns_of_spec(run, payload.n)
    if columns is None:
        return
    run_id, fork = columns["run_id"], columns["parent_run_id"] is not None
    with suppress(TypeError, ValueError):
        labels = label_columns(json_of(payload), fork=fork)
        if isinstance(labels[0], str | None) and isinstance(labels[2], str | None):
            _check_labels(writer, number, run_id, columns, labels, "the same export")
            writer.set_labels(run, labels)


def _check_labels(
    writer: RunWriter, number: int, run_id: str, columns: Mapping[str, Any], labels: Labels, where: str
) -> None:
    """Raise JournalConflict when another run has the key of one that arrives, or its place in its conversation."""
    key, _, conversation = labels
    if key is not None and (holder := writer.holder_of(key, run_id)) is not None:
        raise JournalConflict(
            f"line {number}: run {run_id} has the key {key!a:.60}, which run {holder} has in {where}; nothing was imported"
        )
    if conversation is None:
        return
    round = columns["round"]
    for other, workflow_id in writer.rounds(conversation, round):
        if workflow_id != columns["workflow_id"]:  # else one of both stands in for the other
            raise JournalConflict(
                f"line {number}: run {run_id} is round {round} of conversation {conversation!a:.60}, which run {other} is in"
                f" {where}; nothing was imported"
            )


def _before(writer: RunWriter, number: int, line: RunLine) -> bytes:
    """Return the hash that a fork's root commits to, of the row that it was forked at; nothing for other runs."""
    if line.parent_run_id is None:
        return b""
    seq = line.parent_seq
    before = writer.hash_of(line.parent_run_id, seq) if seq is not None else None
    if before is None:
        told = f"row {line.parent_seq} of run {line.parent_run_id}, which it was forked at"
        raise UsageError(f"line {number}: run {line.run_id} comes without {told}")
    return before


def _check(staged: JournalReader, run: _Arriving, number: int, line: HeadLine) -> None:
    """Verify a run whose last line has come; raise JournalDamaged with the line where it does not hold."""
    for defect in run_defects(staged, run.run):
        where = _line_of(run, defect) or number
        raise JournalDamaged(f"line {where}: {defect}; nothing was imported")
    row = staged.run(run.run_id)
    for name in ("state", "status", "reason", "ended_at", "head_seq"):
        if getattr(row, name) != getattr(line, name):
            raise JournalDamaged(f"line {number}: {name} is not what the rows say; nothing was imported")
    if row.head_hash.hex() != line.head_hash:
        raise JournalDamaged(
            f"line {number}: head_hash is not the hash of the last row; nothing was imported"
        )


_PLACES = {
    "specs": "RunLine",
    "payloads n": "PayloadLine",
    "transitions seq": "TransitionLine",
    "documents number": "DocumentLine",
    "erasures number": "ErasureLine",
}


def _line_of(run: _Arriving, defect: Defect) -> int | None:
    """Return the line that a defect is about, None for one of the run as a whole."""
    found = re.match(r"([a-z ]+?)(?: (\d+))?$", defect.place)
    first = run.first.get(_PLACES.get(found[1], "")) if found else None
    if found is None or first is None:
        return None
    return first[0] + (int(found[2]) - first[1] if found[2] else 0)


# -- into the journal --------------------------------------------------------------------------------------------


def _copy_run(
    journal: JournalStore, writer: RunWriter, staged: JournalReader, arriving: _Arriving
) -> Imported:
    """Copy one verified run, within the caller's transaction."""
    run = writer.number_of(arriving.run_id)
    head = staged.run(arriving.run_id).head_seq
    if run is None:
        run = writer.next_number()
        labels, columns = staged.labels(arriving.run), staged.root_columns(arriving.run)
        _check_labels(writer, arriving.first["RunLine"][0], arriving.run_id, columns, labels, journal.path)
        writer.add_run(run, columns, staged.stored_root(arriving.run), labels)
        writer.add_free_lease(run)
        _copy(journal.reader, writer, staged, arriving.run, run)
        return Imported(arriving.run_id, "new", head + 1)
    _check_same(journal, staged, arriving, run)
    known = journal.reader.run(arriving.run_id).head_seq
    if head <= known:
        return Imported(arriving.run_id, "known", 0)
    _check_extendable(journal, staged, arriving, run)
    # before the rows: a driver that has read the old end could otherwise append a row of its own with the same number
    if journal.leases.revoke(writer, run) is not None:
        raise LeaseHeld(f"run {arriving.run_id} is being driven in {journal.path}; nothing was imported")
    _copy(journal.reader, writer, staged, arriving.run, run)
    return Imported(arriving.run_id, "extended", head - known)


def _copy(here: JournalReader, writer: RunWriter, staged: JournalReader, source: int, run: int) -> None:
    """Copy what comes after what a run has here, under its number here."""
    # one by one: a body may be as large as a line may be
    payloads = staged.iterate_payloads(source, 1, here.last_payload(run) + 1)
    first = max(staged.lineage(source)[-1].first_payload, here.last_payload(run) + 1)
    # what it was started with
    for payload in islice(payloads, max(0, staged.root_columns(source)["spec_payload"] + 1 - first)):
        writer.add_payloads(run, [payload])
    for row in staged.iterate_rows(source, _AT_ONCE, _last_row(here, run) + 1):
        writer.add_row((run, *row[1:]), brought_by(row, payloads))
    documents = staged.stored_documents(source)[len(here.stored_documents(run)) :]
    writer.add_documents(run, [dataclasses.astuple(document) for document in documents])
    for record in staged.erasures(source)[len(here.erasures(run)) :]:
        writer.add_erasure(run, record)


def brought_by(row: Row, payloads: Iterator[Payload]) -> Iterator[Payload]:
    """Yield the payloads that a row has brought, its change last, of all that follow those of the row before."""
    change = last_text(0, row[_CHANGE])
    for payload in payloads:
        yield payload
        if payload.n >= change:
            return


def _check_same(journal: JournalStore, staged: JournalReader, arriving: _Arriving, run: int) -> None:
    """Raise JournalConflict when the rows that both have tell something else."""
    what: str | None = None
    if journal.reader.stored_root(run) != staged.stored_root(arriving.run):
        what = "was started otherwise"
    else:
        last = min(_last_row(journal.reader, run), _last_row(staged, arriving.run))
        if last >= 0 and _hash_at(journal.reader, run, last) != _hash_at(staged, arriving.run, last):
            what = f"tells something else up to row {last}"
    if what is not None:
        raise JournalConflict(
            f"line {arriving.first['RunLine'][0]}: run {arriving.run_id} {what} in {journal.path}; nothing was imported"
        )


def _last_row(journal: JournalReader, run: int) -> int:
    """Return the seq of the last row under a run's number, -1 without one."""
    newest = journal.newest_row(run)
    return newest if newest is not None else -1


def _hash_at(journal: JournalReader, run: int, seq: int) -> Any:
    return journal.columns(run, ("hash",), (), seq, seq)[0][0]


def _check_extendable(journal: JournalStore, staged: JournalReader, arriving: _Arriving, run: int) -> None:
    """Raise JournalConflict when something was erased in only one of both: then no rows can follow those that are here."""
    count = journal.reader.next_payload(run)
    gone = []
    for reader, number in ((journal.reader, run), (staged, arriving.run)):
        gone.append(reader.numbers_of_payloads(number, erased=True, last=count - 1))
    records = journal.reader.erasures(run)
    if gone[0] != gone[1] or records != staged.erasures(arriving.run)[: len(records)]:
        raise JournalConflict(
            f"line {arriving.first['RunLine'][0]}: run {arriving.run_id} goes on after what is in {journal.path}, but not"
            " the same parts of it were erased; erase here what was erased there, or import into another file"
        )
