"""
Import: runs from an export into a journal, all of them or none.

Everything is first put into a journal of its own that nobody else sees, and verified there as `paor verify` does it;
only then is it copied, in one transaction. Numbers of runs may change; ids, hashes, salts, bodies and records of
erasures stay. A run that is here already is never changed but by rows that follow its last one.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..states.errors import JournalConflict, JournalDamaged, LeaseHeld, UsageError
from .committer import INSERT_DOCUMENT, INSERT_PAYLOAD, INSERT_ROW, Committer
from .erasures import COLUMNS, erasures_of
from .import_lines import (
    AnyLine,
    DocumentLine,
    ErasureLine,
    HeadLine,
    PayloadLine,
    RunLine,
    TransitionLine,
    payload_of,
    read_lines,
)
from .journal_file import migrate, transaction, translated
from .journal_reading import JournalReader
from .journal_rows import ROOT_COLUMNS
from .record import root_hash
from .verify import Defect, run_defects

if TYPE_CHECKING:
    from .journal import Journal

_INSERT_SPEC = f"INSERT INTO specs (run, {', '.join(ROOT_COLUMNS)}, root_hash) VALUES ({', '.join('?' * 11)})"
_INSERT_ERASURE = f"INSERT INTO erasures (id, run, {', '.join(COLUMNS)}, hash) VALUES ({', '.join('?' * 8)})"
_COPIED = ("transitions", "payloads", "documents", "erasures")


@dataclass(frozen=True, slots=True)
class Imported:
    """
    What became of one run.

    Attributes:
        run_id: Its id.
        how: ``new``; ``extended``: the rows after those that were here; ``known``: all of it is here, nothing was written.
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
        first: Number of its first line of each kind, for messages.
    """

    run: int
    run_id: str
    first: dict[str, int] = field(default_factory=dict)


def import_lines(journal: Journal, lines: Iterable[bytes]) -> tuple[Imported, ...]:
    """See `fsm.journal.Journal.import_lines`."""
    if journal.read_only:
        raise UsageError(f"{journal.path}: is open for reading only")
    with closing(sqlite3.connect("", isolation_level=None, check_same_thread=False)) as connection:
        migrate(connection)
        staged = JournalReader(Committer(connection, "the export"), "")
        connection.execute("BEGIN")
        arriving = _staged(connection, staged, lines)
        destination = journal._committer.connection
        with journal._committer.lock, translated(journal.path), transaction(destination):
            return tuple(_taken(journal, destination, staged, run) for run in arriving)


# -- on the way in -----------------------------------------------------------------------------------------------


def _staged(connection: sqlite3.Connection, staged: JournalReader, lines: Iterable[bytes]) -> list[_Arriving]:
    """Return the runs of an export after putting them into the journal on the way in, and verifying each."""
    runs: list[_Arriving] = []
    known: set[str] = set()
    for number, line in read_lines(lines):
        if isinstance(line, RunLine):
            if line.run_id in known:
                raise UsageError(f"line {number}: run {line.run_id!a:.80} stands twice")
            known.add(line.run_id)
            runs.append(_Arriving(len(runs) + 1, line.run_id))
        if not runs:
            continue
        run = runs[-1]
        first = run.first.setdefault(type(line).__name__, number)
        _check_order(number, line, number - first)
        if isinstance(line, HeadLine):
            _check(staged, run, number, line)
        else:
            _stage(connection, run.run, number, line)
    return runs


_ORDERED = {PayloadLine: "n", TransitionLine: "seq", DocumentLine: "number", ErasureLine: "number"}


def _check_order(number: int, line: AnyLine, expected: int) -> None:
    """Raise UsageError unless the lines of one kind are numbered from 0 without a gap."""
    name = _ORDERED.get(type(line))
    if name is not None and getattr(line, name) != expected:
        raise JournalDamaged(
            f"line {number}: {name} is {getattr(line, name)}, expected {expected}; lines are missing or moved"
        )


def _stage(connection: sqlite3.Connection, run: int, number: int, line: AnyLine) -> None:
    """Put one line into the journal on the way in."""
    base = run << 32
    if isinstance(line, RunLine):
        root = line.root()
        connection.execute(_INSERT_SPEC, (run, *root.values(), root_hash(root)))
        connection.execute("INSERT INTO leases VALUES (?, 1, NULL, NULL, 0)", (run,))
    elif isinstance(line, PayloadLine):
        payload = payload_of(number, line)
        connection.execute(INSERT_PAYLOAD, (base | payload.n, run, *payload))
    elif isinstance(line, TransitionLine):
        record = line.record(run)
        connection.execute(INSERT_ROW, (base | record.seq, *record))
    elif isinstance(line, DocumentLine):
        document = line.document()
        values = [getattr(document, name) for name in document.__slots__]
        connection.execute(INSERT_DOCUMENT, (base | document.number, run, *values))
    elif isinstance(line, ErasureLine):
        values = [getattr(line, name) for name in COLUMNS]
        connection.execute(_INSERT_ERASURE, (base | line.number, run, *values, bytes.fromhex(line.hash)))


def _check(staged: JournalReader, run: _Arriving, number: int, line: HeadLine) -> None:
    """
    Verify a run whose last line has come.

    Raises:
        JournalDamaged: With the line where it does not hold.
    """
    for defect in run_defects(staged, run.run, run.run_id):
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
    "payloads n": "PayloadLine",
    "transitions seq": "TransitionLine",
    "documents number": "DocumentLine",
}
_PLACES |= {"erasures number": "ErasureLine", "specs": "RunLine"}


def _line_of(run: _Arriving, defect: Defect) -> int | None:
    """Return the line that a defect is about, None for one of the run as a whole."""
    found = re.match(r"([a-z ]+?)(?: (\d+))?$", defect.place)
    first = run.first.get(_PLACES.get(found[1], "")) if found else None
    return first + int(found[2] or 0) if found and first is not None else None


# -- into the journal --------------------------------------------------------------------------------------------


def _taken(
    journal: Journal, destination: sqlite3.Connection, staged: JournalReader, arriving: _Arriving
) -> Imported:
    """Copy one verified run, within the caller's transaction."""
    here = destination.execute("SELECT run FROM specs WHERE run_id = ?", (arriving.run_id,)).fetchone()
    head = staged.run(arriving.run_id).head_seq
    if here is None:
        (run,) = destination.execute("SELECT coalesce(max(run), 0) + 1 FROM specs").fetchone()
        columns = staged.root_columns(arriving.run)
        destination.execute(_INSERT_SPEC, (run, *columns.values(), root_hash(columns)))
        destination.execute("INSERT INTO leases VALUES (?, 1, NULL, NULL, 0)", (run,))
        _copy(destination, staged, arriving.run, run, dict.fromkeys(_COPIED, 0))
        return Imported(arriving.run_id, "new", head + 1)
    run = here[0]
    _check_same(journal, staged, arriving, run)
    known = journal.run(arriving.run_id).head_seq
    if head <= known:
        return Imported(arriving.run_id, "known", 0)
    _check_extendable(journal, staged, arriving, run)
    _claim(journal, destination, run, arriving.run_id)
    counts = {
        table: destination.execute(
            f"SELECT count(*) FROM {table} WHERE id BETWEEN ? AND ?", (run << 32, run << 32 | (2**32 - 1))
        ).fetchone()[0]
        for table in _COPIED
    }
    _copy(destination, staged, arriving.run, run, counts)
    return Imported(arriving.run_id, "extended", head - known)


def _copy(
    destination: sqlite3.Connection, staged: JournalReader, source: int, run: int, counts: dict[str, int]
) -> None:
    """Copy the rows of a run from the given number on in every table, under its number here."""
    connection = staged._committer.connection
    for table in _COPIED:
        rows = connection.execute(
            f"SELECT * FROM {table} WHERE id BETWEEN ? AND ? ORDER BY id",
            (source << 32 | counts[table], source << 32 | (2**32 - 1)),
        )
        for key, _, *values in rows:
            marks = ", ".join("?" * (len(values) + 2))
            destination.execute(
                f"INSERT INTO {table} VALUES ({marks})", (run << 32 | (key & (2**32 - 1)), run, *values)
            )


def _check_same(journal: Journal, staged: JournalReader, arriving: _Arriving, run: int) -> None:
    """
    Hold the rows that both have against each other.

    Raises:
        JournalConflict: They tell something else.
    """
    what: str | None = None
    if journal.root_columns(run) != staged.root_columns(arriving.run):
        what = "was started otherwise"
    else:
        last = min(journal.run(arriving.run_id).head_seq, staged.run(arriving.run_id).head_seq)
        if last >= 0 and _hash_at(journal, run, last) != _hash_at(staged, arriving.run, last):
            what = f"tells something else up to row {last}"
    if what is not None:
        raise JournalConflict(
            f"line {arriving.first['RunLine']}: run {arriving.run_id} {what} in {journal.path}; nothing was imported"
        )


def _hash_at(journal: JournalReader, run: int, seq: int) -> Any:
    return journal.query("SELECT hash FROM transitions WHERE id = ?", (run << 32 | seq,))[0][0]


def _check_extendable(journal: Journal, staged: JournalReader, arriving: _Arriving, run: int) -> None:
    """
    See to it that rows can follow those that are here: nothing was erased in only one of both.

    Raises:
        JournalConflict: Something was.
    """
    count = journal.next_payload(run)
    gone = []
    for reader, number in ((journal, run), (staged, arriving.run)):
        sql = "SELECT n FROM payloads WHERE id BETWEEN ? AND ? AND body IS NULL"
        gone.append(reader.query(sql, (number << 32, number << 32 | max(count - 1, 0))))
    records = erasures_of(journal, run)
    if gone[0] != gone[1] or records != erasures_of(staged, arriving.run)[: len(records)]:
        raise JournalConflict(
            f"line {arriving.first['RunLine']}: run {arriving.run_id} goes on after what is in {journal.path}, but not"
            " the same parts of it were erased; erase here what was erased there, or import into another file"
        )


def _claim(journal: Journal, destination: sqlite3.Connection, run: int, run_id: str) -> None:
    """
    See to it that nobody drives a run that is extended.

    Raises:
        LeaseHeld: Somebody does.
    """
    found = destination.execute(
        "SELECT owner, lease_until, fence FROM leases WHERE run = ?", (run,)
    ).fetchone()
    owner, until, fence = found or (None, None, 0)
    if owner is not None and not journal.leases.replaceable(owner, until, run, fence):
        raise LeaseHeld(f"run {run_id} is being driven in {journal.path}; nothing was imported")
    destination.execute(
        "UPDATE leases SET fence = fence + 1, owner = NULL, lease_until = NULL WHERE run = ?", (run,)
    )
