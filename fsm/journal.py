"""
The journal: one SQLite file in which every transition of every run stands before anything else happens.

Schema, hash chain and every column are described in ``docs/journal-format.md``; ``docs/verify_journal.py`` checks a
file without this package.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import orjson

from ..states.actions import DocumentRef, StoredText
from ..states.errors import JournalDamaged, LeaseHeld, UnknownRun, UsageError
from ..states.run import Change
from ..states.spec import Spec
from .committer import INSERT_DOCUMENT, INSERT_PAYLOAD, Committer, Entry
from .journal_file import SYNCHRONOUS, Durability, open_reader, open_writer, translated
from .lease import Owner, current_owner
from .payloads import Payload
from .record import Record, root_hash

LEASE_S = 30.0
"""Seconds without renewal after which an owner that cannot be proven dead is replaced (DESIGN section 5)."""

ROOT_COLUMNS = (
    "run_id",
    "workflow_id",
    "round",
    "task",
    "parent_run_id",
    "parent_seq",
    "spec",
    "spec_payload",
    "created_at",
)
"""Columns of a run that never change; their hash is the root of its chain."""

_RECORD_COLUMNS = ", ".join(f'"{name}"' for name in Record._fields)
_SELECT_ROWS = f"SELECT {_RECORD_COLUMNS} FROM transitions WHERE id BETWEEN ? AND ? ORDER BY id"
_SELECT_KEYED = f"SELECT id, {_RECORD_COLUMNS} FROM transitions WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?"
_SELECT_PAYLOADS = "SELECT n, media_type, digest, salt, body FROM payloads WHERE id BETWEEN ? AND ?"
_SELECT_RUN = "SELECT * FROM runs"


class RunRow(NamedTuple):
    """One row of the view ``runs``; times in microseconds since the epoch."""

    run: int
    run_id: str
    workflow_id: str
    round: int
    task: int
    parent_run_id: str | None
    parent_seq: int | None
    spec: str
    state: str
    status: str
    reason: str | None
    created_at: int
    ended_at: int | None
    head_seq: int
    head_hash: bytes


class Transition(NamedTuple):
    """One row of ``transitions`` with its JSON columns read; hashes as hex."""

    run: int
    seq: int
    at: int
    trigger: str
    source: str
    dest: str
    guards: Mapping[str, bool]
    request: Mapping[str, Any]
    outcome: Mapping[str, Any]
    change: Mapping[str, Any]
    step: int
    action: int
    retries: int
    tokens_in: int
    tokens_out: int
    cost_micro: int
    time_us: int
    counters: Mapping[str, Any]
    prev_hash: str
    hash: str


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """One row of ``documents``: a document that a run was given or produced."""

    number: int
    label: str
    position: int
    name: str
    mime: str
    bytes: int
    digest: str
    payload: int


class Journal:
    """
    A journal file, for any number of runs, threads and processes at once.

    Args:
        path: Of the SQLite file; created with the first run. ``:memory:`` keeps it in this process.
        durability: ``full`` survives a power loss (one fsync a transition), ``normal`` a killed process, ``off`` is
            for tests.
        lease_s: Seconds after which an owner that cannot be proven dead is replaced.
        busy_timeout_s: Seconds to wait for another process's write lock.
        read_only: Never write, never create a file.

    Raises:
        NotAJournal: The file is something else, or (read-only) is missing.
        JournalTooNew: Written by a newer paor.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        durability: Durability = "full",
        *,
        lease_s: float = LEASE_S,
        busy_timeout_s: float = 30.0,
        read_only: bool = False,
    ) -> None:
        if durability not in SYNCHRONOUS:
            raise UsageError(f"durability {durability!r}: expected one of {', '.join(SYNCHRONOUS)}")
        self.path = os.fspath(path)
        self.durability: Durability = durability
        self.lease_s = lease_s
        self.read_only = read_only
        if read_only:
            connection = open_reader(self.path, busy_timeout_s=busy_timeout_s)
        else:
            connection = open_writer(self.path, durability=durability, busy_timeout_s=busy_timeout_s)
        self._committer = Committer(connection, self.path)
        self._held: set[tuple[int, int]] = set()
        self._renewer: threading.Thread | None = None
        self._closed = threading.Event()

    # -- people's side ---------------------------------------------------------------------------------------

    def runs(self) -> list[RunRow]:
        """Return every run, newest first."""
        return [RunRow(*row) for row in self.query(f"{_SELECT_RUN} ORDER BY run DESC")]

    def run(self, run_id: str) -> RunRow:
        """
        Return one run by its id, or by a prefix of at least 4 characters that fits only one.

        Raises:
            UnknownRun: There is none, or several start like this.
        """
        rows = self.query(f"{_SELECT_RUN} WHERE run_id = ?", (run_id,))
        if not rows and len(run_id) >= 4:
            rows = self.query(f"{_SELECT_RUN} WHERE substr(run_id, 1, ?) = ?", (len(run_id), run_id))
            if len(rows) > 1:
                raise UnknownRun(f"{len(rows)} runs start with {run_id!r}; give more of the id (paor runs)")
        if not rows:
            raise UnknownRun(f"{self.path}: there is no run {run_id!r}; list them with: paor runs")
        return RunRow(*rows[0])

    def transitions(self, run_id: str) -> list[Transition]:
        """Return the rows of a run in order."""
        number = self.run(run_id).run
        try:
            return [transition_of(row) for row in self.rows(number)]
        except orjson.JSONDecodeError as error:
            raise JournalDamaged(
                f"run {run_id}: a row's JSON is broken ({error}); run: paor verify"
            ) from None

    def documents(self, run_id: str) -> list[StoredDocument]:
        """Return the documents of a run in the order in which they came."""
        number = self.run(run_id).run
        return [StoredDocument(*row) for row in self._document_rows(number, 0, 2**32 - 1)]

    def document(self, run_id: str, number: int) -> str | bytes | None:
        """Return the body of one document by its number, None once erased."""
        run = self.run(run_id).run
        rows = self._document_rows(run, number, 1)
        if not rows:
            raise UnknownRun(f"run {run_id} has no document {number}")
        return self.payload(run, rows[0][7]).body

    def spec(self, run_id: str) -> Spec:
        """Return what a run was started with."""
        row = self.run(run_id)
        place = self.query("SELECT spec_payload FROM specs WHERE run = ?", (row.run,))[0][0]
        body = self.payload(row.run, place).body
        if body is None:
            raise JournalDamaged(
                f"run {row.run_id}: its spec has been erased; it can be verified, not resumed"
            )
        return Spec.model_validate_json(body)

    def verify(self) -> list[Any]:
        """Return every defect of the file, empty when chain, payloads and derived columns hold."""
        from .verify import verify_journal

        return verify_journal(self)

    def export(self, run_id: str) -> Iterator[dict[str, Any]]:
        """Yield a run as JSON-able lines, the same for the same run (see `fsm.export`)."""
        from .export import export_run

        return export_run(self, run_id)

    def close(self) -> None:
        """Release what this process holds and close the file; idempotent."""
        if self._closed.is_set():
            return
        self._closed.set()
        for run, fence in list(self._held):
            self.release(run, fence)
        with self._committer.lock:
            self._committer.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- reading ---------------------------------------------------------------------------------------------

    def rows(self, run: int, first: int = 0) -> list[tuple[Any, ...]]:
        """Return the rows of run number *run* from *first* on as plain tuples in `Record` order."""
        return self.query(_SELECT_ROWS, _range(run, first))

    def root_columns(self, run: int) -> dict[str, Any]:
        """Return the columns of a run that never change."""
        values = self.query(f"SELECT {', '.join(ROOT_COLUMNS)} FROM specs WHERE run = ?", (run,))[0]
        return dict(zip(ROOT_COLUMNS, values, strict=True))

    def root(self, run: int) -> bytes:
        """
        Return the hash that a run's first row follows, recomputed from its immutable columns.

        Raises:
            JournalDamaged: It is not the stored one.
        """
        columns = self.root_columns(run)
        root = root_hash(columns)
        if root != self.query("SELECT root_hash FROM specs WHERE run = ?", (run,))[0][0]:
            raise JournalDamaged(f"run {columns['run_id']}: its first columns were changed; run: paor verify")
        return root

    def next_payload(self, run: int) -> int:
        """Return the number of a run's next payload."""
        found = self.query("SELECT max(id) FROM payloads WHERE id BETWEEN ? AND ?", _range(run))[0][0]
        return 0 if found is None else (found & (2**32 - 1)) + 1

    def payload(self, run: int, n: int) -> Payload:
        """
        Return one payload.

        Raises:
            JournalDamaged: There is none.
        """
        rows = self.query(
            "SELECT n, media_type, digest, salt, body FROM payloads WHERE id = ?", (run << 32 | n,)
        )
        if not rows:
            raise JournalDamaged(f"run {run}: payload {n} is missing; run: paor verify")
        return Payload(*rows[0])

    def iterate_rows(self, run: int, batch: int) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a run in order, a bounded number in memory at a time."""
        first, last = _range(run)
        while rows := self.query(_SELECT_KEYED, (first, last, batch)):
            yield from (row[1:] for row in rows)
            first = rows[-1][0] + 1

    def iterate_payloads(self, run: int, batch: int) -> Iterator[Payload]:
        """Yield the payloads of a run in order, a bounded number in memory at a time."""
        first, last = _range(run)
        sql = "SELECT id, n, media_type, digest, salt, body FROM payloads WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?"
        while rows := self.query(sql, (first, last, batch)):
            yield from (Payload(*row[1:]) for row in rows)
            first = rows[-1][0] + 1

    def payloads(self, run: int, last: int) -> list[Payload]:
        """Return the newest payloads of a run, at most *last*, in order."""
        sql = f"{_SELECT_PAYLOADS} ORDER BY id DESC LIMIT ?"
        rows = self.query(sql, (*_range(run), last))
        return [Payload(*row) for row in reversed(rows)]

    def change(self, run: int, column: str) -> Change:
        """Return the change that a row's ``change`` column refers to."""
        body = self.payload(run, orjson.loads(column)["n"]).body
        return Change.model_validate_json(body) if body is not None else Change()

    def documents_at(
        self, run: int, first: int, count: int
    ) -> list[tuple[StoredDocument, str | bytes | None]]:
        """Return *count* documents of a run from number *first* on, with their bodies."""
        found = [StoredDocument(*row) for row in self._document_rows(run, first, count)]
        return [(document, self.payload(run, document.payload).body) for document in found]

    def _document_rows(self, run: int, first: int, count: int) -> list[tuple[Any, ...]]:
        return self.query(
            "SELECT number, label, position, name, mime, bytes, digest, payload FROM documents"
            " WHERE id BETWEEN ? AND ? ORDER BY id",
            (run << 32 | first, run << 32 | min(first + count - 1, 2**32 - 1)),
        )

    def query(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a reading statement of this project's own."""
        with self._committer.lock, translated(self.path):
            return self._committer.connection.execute(sql, values).fetchall()

    # -- the driver's side -----------------------------------------------------------------------------------

    def create(
        self,
        run_id: str,
        spec: Spec,
        *,
        created_at: int,
        place: StoredText,
        payloads: list[Payload],
        documents: tuple[DocumentRef, ...],
        parent: tuple[str, int] | None = None,
    ) -> tuple[int, bytes, int]:
        """
        Write a new run without transitions and take its lease.

        Args:
            run_id: Public id, new in this file.
            spec: What it is started with, already staged at *place*.
            created_at: Microseconds since the epoch.
            place: Reference of the spec's payload.
            payloads: Everything staged so far: documents and spec.
            documents: Input documents.
            parent: Run id and seq that it was forked from.

        Returns:
            The run's number, the hash that its first row follows, and the fencing token.
        """
        connection = self._committer.connection
        columns = {
            "run_id": run_id,
            "workflow_id": spec.workflow_id or run_id,
            "round": spec.round,
            "task": spec.task,
            "parent_run_id": parent[0] if parent else None,
            "parent_seq": parent[1] if parent else None,
            "spec": place.digest,
            "spec_payload": place.n,
            "created_at": created_at,
        }
        root = root_hash(columns)
        with self._committer.lock, translated(self.path), _transaction(connection):
            run = connection.execute("SELECT coalesce(max(run), 0) + 1 FROM specs").fetchone()[0]
            connection.execute(
                f"INSERT INTO specs (run, {', '.join(columns)}, root_hash) VALUES (?, {', '.join('?' * 9)}, ?)",
                (run, *columns.values(), root),
            )
            connection.execute(
                "INSERT INTO leases VALUES (?, 1, ?, ?, 0)",
                (run, current_owner().encode(), _now_us() + round(self.lease_s * 1e6)),
            )
            for payload in payloads:
                connection.execute(INSERT_PAYLOAD, (run << 32 | payload.n, run, *payload))
            for document in documents:
                connection.execute(INSERT_DOCUMENT, document_row(run, document))
        self._hold(run, 1)
        return run, root, 1

    def append(self, entry: Entry) -> None:
        """Commit one transition; see `fsm.committer.Committer.append`."""
        self._committer.append(entry)

    def append_all(self, entries: list[Entry]) -> None:
        """Commit transitions of different runs together; each entry tells its own error."""
        self._committer.append_all(entries)

    def acquire(self, run: int) -> int:
        """
        Take the lease of a run and return the new fencing token.

        Raises:
            LeaseHeld: Another driver is alive, or cannot be proven dead yet.
        """
        connection = self._committer.connection
        with self._committer.lock, translated(self.path), _transaction(connection):
            owner_text, until, fence = connection.execute(
                "SELECT owner, lease_until, fence FROM leases WHERE run = ?", (run,)
            ).fetchone()
            if owner_text is not None and not self._replaceable(owner_text, until):
                owner = Owner.decode(owner_text)
                who = f"process {owner.pid} on {owner.host}" if owner is not None else "another driver"
                raise LeaseHeld(
                    f"run number {run} is driven by {who}; wait for it, cancel it,"
                    f" or try again when its lease of {self.lease_s:g} s has run out"
                )
            connection.execute(
                "UPDATE leases SET fence = ?, owner = ?, lease_until = ? WHERE run = ?",
                (fence + 1, current_owner().encode(), _now_us() + round(self.lease_s * 1e6), run),
            )
        self._hold(run, fence + 1)
        return int(fence) + 1

    def _replaceable(self, owner_text: str, until: int | None) -> bool:
        owner = Owner.decode(owner_text)
        if owner is not None and owner.provably_dead():
            return True
        return until is None or until < _now_us()

    def release(self, run: int, fence: int) -> None:
        """Give a lease back; does nothing when it was taken over meanwhile."""
        self._held.discard((run, fence))
        with self._committer.lock, translated(self.path):
            self._committer.connection.execute(
                "UPDATE leases SET owner = NULL, lease_until = NULL WHERE run = ? AND fence = ?", (run, fence)
            )

    def request_cancel(self, run: int) -> None:
        """Ask whoever drives a run to stop; seen with its next row."""
        with self._committer.lock, translated(self.path):
            self._committer.connection.execute("UPDATE leases SET cancel = 1 WHERE run = ?", (run,))

    def cancel_requested(self, run: int) -> bool:
        """Return whether somebody asked to cancel the run."""
        return bool(self.query("SELECT cancel FROM leases WHERE run = ?", (run,))[0][0])

    def _hold(self, run: int, fence: int) -> None:
        """Keep the lease alive from a daemon thread while a long tool call makes no appends."""
        self._held.add((run, fence))
        if self._renewer is None:
            self._renewer = threading.Thread(target=self._renew_all, name="paor-lease", daemon=True)
            self._renewer.start()

    def _renew_all(self) -> None:
        while not self._closed.wait(self.lease_s / 3):
            until = _now_us() + round(self.lease_s * 1e6)
            held = list(self._held)
            with self._committer.lock:
                if self._closed.is_set():
                    return
                try:
                    self._committer.connection.executemany(
                        "UPDATE leases SET lease_until = ? WHERE run = ? AND fence = ?",
                        [(until, run, fence) for run, fence in held],
                    )
                except sqlite3.Error:
                    continue  # the next round tries again; a lost lease shows at the append's fence


class _transaction:
    """``BEGIN IMMEDIATE`` ... ``COMMIT``, rolled back on any error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def _now_us() -> int:
    """Wall clock for leases only; no row of a run depends on it."""
    return time.time_ns() // 1000


def _range(run: int, first: int = 0) -> tuple[int, int]:
    """Return the first and last possible key of a run's rows from number *first* on."""
    return run << 32 | first, run << 32 | (2**32 - 1)


def document_row(run: int, document: DocumentRef) -> tuple[Any, ...]:
    """Return the row of `documents` for one document of a run."""
    return (
        run << 32 | document.number,
        run,
        document.number,
        document.label,
        document.position,
        document.name,
        document.mime,
        document.payload.bytes,
        document.payload.digest,
        document.payload.n,
    )


def transition_of(row: tuple[Any, ...]) -> Transition:
    """Return a plain row with its JSON columns read."""
    values = list(row)
    for index in (6, 7, 8, 9, 17):
        values[index] = orjson.loads(values[index])
    values[18], values[19] = values[18].hex(), values[19].hex()
    return Transition(*values)
