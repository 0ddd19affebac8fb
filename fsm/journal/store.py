"""
The store: one SQLite file in which every transition of every run is written before anything else happens.

It appends, and holds the reader and the leases that say which process drives a run. What only reads takes a
`fsm.journal.reader.JournalReader`, what also writes takes the store; the host's `fsm.journal_api.Journal` holds one. Schema, hash
chain and every column are described in ``docs/journal-format.md``.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from ...states.base.errors import JournalBusy, JournalError, LeaseHeld, UsageError
from ...states.records.actions import DocumentRef, StoredText
from ...states.run.spec import Spec
from .group_commit import Committer, Entry, WriterPool
from .leases import LEASE_S, LeaseBook
from .payloads import Payload
from .reader import JournalReader
from .record import label_columns, root_hash
from .rows import document_row
from .run_writer import RunWriter
from .sqlite.database import DatabaseOfJournal
from .sqlite.file import (
    SYNCHRONOUS,
    Durability,
    open_reader,
    open_writer,
    transaction,
    translate_errors,
)
from .sqlite.migrations import migrate
from .sqlite.source import SqliteSource


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
        source = SqliteSource(connection, path, standing=standing, busy_timeout_s=busy_timeout_s)
        self._committer = Committer(source, source.place if writable else "")
        self._writers = WriterPool(self._committer)
        self.reader = JournalReader(source)
        self.leases = LeaseBook(self._committer, path, lease_s)
        self.database = DatabaseOfJournal(source)
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
            writer = RunWriter(connection)
            if labels[0] is not None and (holder := writer.holder_of(labels[0])) is not None:
                raise KeyTaken(holder)
            if parent is None and columns["workflow_id"] != run_id:
                self._check_place(writer, spec)
            run = writer.next_number()
            writer.add_run(run, columns, root, labels)
            fence = self.leases.first(connection, run)
            writer.add_payloads(run, payloads)
            writer.add_documents(run, [document_row(document) for document in documents])
        self.leases.hold(run, fence)  # renewed only once it is in the file
        return run, root, fence

    def _check_place(self, writer: RunWriter, spec: Spec) -> None:
        """
        See to it that no place in a workflow is taken twice, whoever else starts rounds and tasks of it.

        Raises:
            LeaseHeld: Another driver has started this one.
        """
        assert spec.workflow_id is not None, "a run within a workflow"
        found = writer.at_place(spec.workflow_id, spec.round, spec.task, spec.fallback_for)
        if found is not None:
            place = f"round {spec.round}, task {spec.task} of workflow {spec.workflow_id}"
            raise LeaseHeld(f"{place} has been started by another driver as run {found}")

    @contextmanager
    def writing(self) -> Iterator[RunWriter]:
        """Give what writes runs, in a transaction that is undone by any error."""
        committer = self._committer
        with committer.lock, translate_errors(self.path):
            try:
                with transaction(committer.connection):
                    committer.check_there()
                    yield RunWriter(committer.connection)
            except BaseException:
                self.reader.forget()  # runs that were read meanwhile and are not there any more
                raise

    @contextmanager
    def erasing(self) -> Iterator[RunWriter]:
        """Give what erases texts, likewise; what is freed is overwritten, also if `scrub` fails."""
        with self._committer.lock:
            with translate_errors(self.path):
                self._committer.connection.execute("PRAGMA secure_delete=ON")
            with self.writing() as writer:
                yield writer

    def scrub(self) -> bool:
        """
        Write the file anew and cut off its log, where an erasure asks for it; return whether that was done.

        Raises:
            JournalBusy: Somebody reads or writes it; what was erased is erased, but old copies are still in the file.
            JournalFull: There is no space for a second copy of the file.
        """
        connection = self._committer.connection
        with self._committer.lock, translate_errors(self.path):
            if not self.unscrubbed():
                return False
            self._committer.check_there()
            connection.execute("PRAGMA secure_delete=ON")
            try:
                # the pages first, then the log, which holds the old pages until it is cut off
                connection.execute("VACUUM")
                busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            except sqlite3.OperationalError as error:
                if not (error.sqlite_errorname or "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                    raise
                busy = 1
            if busy:
                raise JournalBusy(
                    f"{self.path}: the erasure is recorded, but others have the file open, and old copies still stand in"
                    " it; run paor erase --finish when they have closed it"
                )
            # only now: whatever ended above, by an error or a crash, is to be done again
            connection.execute("DELETE FROM unscrubbed")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return True

    def unscrubbed(self) -> list[str]:
        """Return the ids of runs of which old copies may still be in the file."""
        sql = "SELECT run_id FROM specs JOIN unscrubbed ON unscrubbed.run = specs.run ORDER BY specs.run"
        return [run_id for (run_id,) in self.reader.query(sql)]

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


@contextmanager
def passing_journal(name: str) -> Iterator[tuple[RunWriter, JournalReader]]:
    """
    Give what writes and reads a journal that nobody else sees, and that is gone afterwards.

    Args:
        name: For messages.
    """
    with closing(sqlite3.connect("", isolation_level=None, check_same_thread=False)) as connection:
        migrate(connection)
        connection.execute("BEGIN")
        yield RunWriter(connection), JournalReader(SqliteSource(connection, name, place=""))


def _seconds(name: str, value: float, *, least: float) -> float:
    """
    Return a time that a journal is opened with.

    Raises:
        UsageError: It is no number from *least* to a year; a lease that has run out at once would let two drivers in.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 31_536_000:
        raise UsageError(f"{name}: expected seconds from {least} to a year, not {value!a:.80}")
    return value
