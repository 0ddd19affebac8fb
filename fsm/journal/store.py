"""
The store: one SQLite file in which every transition of every run is written before anything else happens.

It appends, and holds the reader and the leases that say which process drives a run. What only reads takes a
`fsm.journal.reader.JournalReader`, what also writes takes the store; the host's `fsm.journal_api.Journal` holds one. Schema, hash
chain and every column are described in ``docs/journal-format.md``.
"""

from __future__ import annotations

import os
import sqlite3

from ...states.base.errors import JournalError, LeaseHeld, UsageError
from ...states.records.actions import DocumentRef, StoredText
from ...states.run.spec import Spec
from .database import DatabaseOfJournal
from .group_commit import INSERT_DOCUMENT, INSERT_PAYLOAD, Committer, Entry, WriterPool
from .leases import LEASE_S, LeaseBook
from .payloads import Payload
from .reader import JournalReader
from .record import label_columns, root_hash
from .rows import document_row
from .sqlite.file import SYNCHRONOUS, Durability, open_reader, open_writer, place_of


class KeyTaken(Exception):
    """
    A run has the key already; whoever starts runs goes on with that one.

    Attributes:
        run_id: Its id.
    """

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id


class JournalStore:
    """
    An open journal file: runs created, rows appended, leases taken; args and errors are those of `fsm.journal_api.Journal`.

    Its `reader` reads over the same connection, its `leases` say who drives which run, its `database` is for a host's own statements.
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
        try:
            path = os.fsdecode(path)
        except TypeError:
            raise UsageError(f"a journal is named by its path, not by {path!a:.80}") from None
        if "\0" in path:
            raise UsageError(f"{path!r}: is not a file name")
        lease_s = _seconds("lease_s", lease_s, least=0.001)
        busy_timeout_s = _seconds("busy_timeout_s", busy_timeout_s, least=0)
        self.path, self.durability, self.read_only = path, durability, read_only
        standing = None
        if read_only:
            connection, standing = open_reader(path, busy_timeout_s=busy_timeout_s)
        else:
            connection = open_writer(path, durability=durability, busy_timeout_s=busy_timeout_s)
        writable = not read_only and path not in ("", ":memory:")
        self._committer = Committer(connection, path, place_of(path) if writable else "")
        self._writers = WriterPool(self._committer)
        self.reader = JournalReader(self._committer, path, standing=standing, busy_timeout_s=busy_timeout_s)
        self.leases = LeaseBook(self._committer, path, lease_s)
        place = self.reader.place
        self.database = DatabaseOfJournal(self._committer, path, place, busy_timeout_s=busy_timeout_s)
        self._open = True

    def close(self) -> None:
        """Release what this process holds and close the file; idempotent."""
        if not self._open:
            return
        self._open = False
        self._writers.close()
        # the leases while the file can still be written: else every run would count as driven until its lease runs out
        self.leases.close()
        self.database.close()
        with self._committer.lock:
            self._committer.connection.close()

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
        before: bytes = b"",
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
            parent: Of a fork: id of the run that the last shared row belongs to, and its seq.
            before: Of a fork: hash of that row.

        Returns:
            The run's number, the hash that its first row follows, and the fencing token.

        Raises:
            LeaseHeld: Another driver has started the same round or task of a workflow.
            KeyTaken: A run of this file has the key.
        """
        labels = label_columns({"key": spec.key, "metadata": spec.metadata}, fork=parent is not None)
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
        root = root_hash(columns, before)
        # one transaction for all: a run that can be seen has its lease, so nobody takes up one that has just begun
        with self.leases.taking() as connection:
            if labels[0] is not None:
                self._check_key(connection, labels[0])
            if parent is None and columns["workflow_id"] != run_id:
                self._check_place(connection, spec)
            run = connection.execute("SELECT coalesce(max(run), 0) + 1 FROM specs").fetchone()[0]
            connection.execute(
                f'INSERT INTO specs (run, {", ".join(columns)}, root_hash, "key", metadata)'
                f" VALUES (?, {', '.join('?' * 9)}, ?, ?, ?)",
                (run, *columns.values(), root, *labels),
            )
            fence = self.leases.first(connection, run)
            for payload in payloads:
                connection.execute(INSERT_PAYLOAD, (run << 32 | payload.n, run, *payload))
            for document in documents:
                connection.execute(INSERT_DOCUMENT, document_row(run, document))
        self.leases.hold(run, fence)  # renewed only once it is in the file
        return run, root, fence

    def _check_place(self, connection: sqlite3.Connection, spec: Spec) -> None:
        """
        See to it that no place in a workflow is taken twice, whoever else starts rounds and tasks of it.

        Raises:
            LeaseHeld: Another driver has started this one.
        """
        found = connection.execute(
            "SELECT run_id FROM specs WHERE workflow_id = ? AND round = ? AND task = ? AND run_id IS NOT ?",
            (spec.workflow_id, spec.round, spec.task, spec.fallback_for),
        ).fetchone()
        if found is not None:
            place = f"round {spec.round}, task {spec.task} of workflow {spec.workflow_id}"
            raise LeaseHeld(f"{place} has been started by another driver as run {found[0]}")

    def _check_key(self, connection: sqlite3.Connection, key: str) -> None:
        """Raise `KeyTaken` when a run has the key; asked in the transaction that would give it to another one."""
        found = connection.execute('SELECT run_id FROM specs WHERE "key" = ?', (key,)).fetchone()
        if found is not None:
            raise KeyTaken(found[0])

    def append(self, entry: Entry) -> None:
        """Commit one transition; see `fsm.journal.group_commit.Committer.append`."""
        self._committer.append(entry)

    async def aappend(self, entry: Entry) -> None:
        """Commit one transition together with all that wait on this event loop; see `fsm.journal.group_commit.AsyncWriter`."""
        if not self._open:
            raise JournalError(f"{self.path}: the journal has been closed; open it again")
        await self._writers.writer().append(entry)

    def append_all(self, entries: list[Entry]) -> None:
        """Commit transitions of different runs together; each entry has its own error."""
        self._committer.append_all(entries)


def _seconds(name: str, value: float, *, least: float) -> float:
    """
    Return a time that a journal is opened with.

    Raises:
        UsageError: It is no number from *least* to a year; a lease that has run out at once would let two drivers in.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 31_536_000:
        raise UsageError(f"{name}: expected seconds from {least} to a year, not {value!a:.80}")
    return value
