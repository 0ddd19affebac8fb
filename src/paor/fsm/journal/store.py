"""
The store: every transition of every run is written to the journal before anything else happens.

It appends, and holds the reader and the leases that say which process drives a run. What only reads takes a
`fsm.journal.reader.JournalReader`, what also writes takes the store; the host's `fsm.journal_api.Journal` holds one. Schema, hash
chain and every column are described in ``docs/journal-format.md``.

Group commit: whoever comes first writes for all that wait.

A transaction costs its fsync, whatever it holds. While one thread commits, others queue their entries; the next
one to get the lock takes the whole queue into its transaction. With one run this is a plain commit in the calling
thread; with many it is one fsync for all of them, and each goes on only after its own row is durable.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...states.base.errors import (
    ConversationBusy,
    InternalError,
    JournalBusy,
    JournalError,
    LeaseHeld,
    LeaseLost,
    PaorError,
)
from ...states.records.actions import DocumentRef, StoredText
from ...states.run.spec import Spec
from .backend import Backend, Durability, Entry, SqlConnection
from .leases import LEASE_S, LeaseBook
from .payloads import Payload
from .reader import JournalReader
from .record import label_columns, root_hash
from .rows import document_row
from .run_writer import RunWriter

if TYPE_CHECKING:
    import asyncio


class Committer:
    """
    The one writer of a journal in this process.

    Args:
        backend: Which holds the connection, used under its lock only.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._queue: deque[Entry] = deque()

    def append(self, entry: Entry) -> None:
        """
        Commit *entry*, alone or with others; returns after it is durable.

        Raises:
            LeaseLost: Its fencing token is not the current one; nothing was written.
            JournalError: The file could not be written; nothing was written.
        """
        # queued before the lock is waited for: whoever holds it may write this entry with its own, and then nothing is left
        self._queue.append(entry)
        with self._backend.lock:
            if not entry.done:
                self._commit_queue()
        if entry.error is not None:
            raise entry.error
        if not entry.done:
            raise InternalError("run {}, row {}: the append was not carried out".format(*entry.place))

    def append_all(self, entries: list[Entry]) -> None:
        """Commit *entries* in one transaction; each has its own error."""
        self._queue.extend(entries)
        with self._backend.lock:
            if not all(entry.done for entry in entries):
                self._commit_queue()

    def _commit_queue(self) -> None:
        """Write everything that is queued now in one transaction; on a fault of a group, one by one."""
        queue = self._queue
        batch = [queue.popleft() for _ in range(len(queue))]
        try:
            self._transaction(batch)
        except PaorError as error:
            alone = len(batch) == 1
            if alone or isinstance(error, JournalBusy):  # waiting once more for each would take long
                for entry in batch:
                    entry.error, entry.done = error, True
                return
            for entry in batch:
                try:
                    self._transaction([entry])
                except PaorError as own:
                    entry.error, entry.done = own, True
        except BaseException as error:
            for entry in batch:
                if not entry.done:
                    entry.error, entry.done = error, True
            raise

    def _transaction(self, batch: list[Entry]) -> None:
        self._backend.append(batch)
        # only after the commit: whoever sees `done` begins the next effect, and its row must be durable then
        for entry in batch:
            entry.done = True


class AsyncWriter:
    """
    Appends of one event loop, committed together.

    While the writer thread commits one batch, the next one collects; each caller goes on after its own row is
    durable.
    """

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="paor-writer")
        self._waiting: list[tuple[Entry, asyncio.Future[None]]] = []
        self._flushing: asyncio.Task[None] | None = None

    async def append(self, entry: Entry) -> None:
        """
        Return after *entry* is durable.

        Raises:
            JournalError: It was not written.
        """
        loop = _running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((entry, future))
        if self._flushing is None:
            self._flushing = loop.create_task(self._flush())
        await future

    async def _flush(self) -> None:
        loop = _running_loop()
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                entries = [entry for entry, _ in batch]
                try:
                    await loop.run_in_executor(self._pool, self._committer.append_all, entries)
                except BaseException as error:
                    for _, future in batch:
                        if not future.done():
                            future.set_exception(InternalError(f"an append was not carried out: {error!r}"))
                    if not isinstance(error, Exception):
                        raise
                    continue  # whoever has begun to wait meanwhile must be told as well
                for entry, future in batch:
                    if future.done():
                        continue
                    if entry.error is not None:
                        future.set_exception(entry.error)
                    else:
                        future.set_result(None)
        finally:
            self._flushing = None

    def close(self) -> None:
        """End the writer thread."""
        self._pool.shutdown(wait=False)


def _running_loop() -> asyncio.AbstractEventLoop:
    import asyncio  # a journal is read without it

    return asyncio.get_running_loop()


class WriterPool:
    """One `AsyncWriter` for each event loop that uses a journal, whatever engines run there."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._lock = threading.Lock()
        self._writers: dict[asyncio.AbstractEventLoop, AsyncWriter] = {}

    def writer(self) -> AsyncWriter:
        """Return the writer of the running event loop; writers of closed loops are let go."""
        loop = _running_loop()
        with self._lock:
            for other in [other for other in self._writers if other.is_closed()]:
                self._writers.pop(other).close()
            if loop not in self._writers:
                self._writers[loop] = AsyncWriter(self._committer)
            return self._writers[loop]

    def close(self) -> None:
        """End every writer thread."""
        with self._lock:
            for writer in self._writers.values():
                writer.close()
            self._writers.clear()


class KeyTaken(Exception):
    """
    A run has the key already; whoever starts runs goes on with that one.

    Attributes:
        run_id: Its id.
    """

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id


def _check_turn(writer: RunWriter, conversation: str, follows: str, *, waits: bool) -> None:
    """
    See to it that one round of a conversation runs at a time, and that each is told of all before it, whoever else starts one.

    Args:
        writer: In the transaction that writes the round.
        conversation, follows: Of the round.
        waits: Whether it is driven only when those before it have ended.

    Raises:
        ConversationBusy: It is another one's turn.
    """
    newest = writer.newest_round(conversation)
    if newest is None:
        return  # the first, which may follow a run of another conversation
    run_id, ended = newest
    if not (ended or waits) or run_id != follows:
        raise ConversationBusy(conversation, run_id, "" if ended else "running")


class JournalStore:
    """
    An open journal: runs created, rows appended, leases taken.

    Its `reader` reads it, its `leases` say who drives which run; what is in `closing` is called before it is closed.

    Args:
        backend: Where it is; `fsm.journal.places.opening.open_store` opens one.
        durability: What a commit survives.
        lease_s: Seconds without renewal after which a driver is replaced.
        read_only: Whether it is only read.
    """

    def __init__(
        self, backend: Backend, *, durability: Durability, lease_s: float = LEASE_S, read_only: bool = False
    ) -> None:
        self.path, self.durability, self.read_only = backend.path, durability, read_only
        self.backend = backend
        self._committer = Committer(backend)
        self._writers = WriterPool(self._committer)
        self.reader = JournalReader(backend)
        self.leases = LeaseBook(backend, lease_s)
        self.closing: list[Callable[[], None]] = []
        self._open = True

    def close(self) -> None:
        """Release what this process holds and close the journal; idempotent."""
        if not self._open:
            return
        self._open = False
        for tell in self.closing:
            tell()
        self._writers.close()
        try:
            # the leases while the journal can still be written: else every run would count as driven until its lease runs out
            self.leases.close()
        finally:
            self.backend.close()

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
        queued_at: int | None = None,
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
            queued_at: For a worker to take it up from this time on, in microseconds since the epoch; then no lease is taken.

        Returns:
            The run's number, the hash that its first row follows, and the fencing token.

        Raises:
            LeaseHeld: Another driver has started the same round or task of a workflow.
            KeyTaken: A run of this file has the key.
            ConversationBusy: Another round of its conversation runs, or has begun since what this one is told was read.
        """
        labels = label_columns(
            spec.model_dump(include={"key", "metadata", "conversation", "task_id"}),
            fork=parent is not None,
        )
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
            writer = self._writer(connection)
            if labels[0] is not None and (holder := writer.holder_of(labels[0])) is not None:
                raise KeyTaken(holder)
            if parent is None and columns["workflow_id"] != run_id:
                self._check_place(writer, spec)
            if labels[2] is not None and not spec.fallback_for:
                _check_turn(writer, labels[2], spec.follows, waits=spec.in_line)
            run = writer.next_number()
            writer.add_run(run, columns, root, labels)
            if queued_at is None:
                fence = self.leases.first(connection, run)
            else:
                writer.add_free_lease(run)
                writer.add_queued(run, queued_at)
                fence = 0
            writer.add_payloads(run, payloads)
            writer.add_documents(run, [document_row(document) for document in documents])
        if queued_at is None:
            self.leases.hold(run, fence)  # renewed only once it is in the file
        return run, root, fence

    def write_anew(
        self,
        run: int,
        fence: int,
        spec: Spec,
        *,
        place: StoredText,
        payloads: list[Payload],
        documents: tuple[DocumentRef, ...],
    ) -> None:
        """
        Write a run that has no rows again, with another spec; the arguments are those of `create`.

        Args:
            run: Its number.
            fence: Token of its lease, which the caller holds.

        Raises:
            LeaseLost: Another driver has it.
        """
        columns = self.reader.root_columns(run) | {"spec": place.digest, "spec_payload": place.n}
        with self.backend.lock, self.backend.transaction() as connection:
            writer = self._writer(connection)
            if not self.leases.is_held(connection, run, fence):
                raise LeaseLost(f"run {columns['run_id']}: another driver has taken it over")
            writer.set_spec(run, columns, root_hash(columns))
            writer.add_payloads(run, payloads)
            writer.add_documents(run, [document_row(document) for document in documents])

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
        with self.backend.lock:
            try:
                with self.backend.transaction() as connection:
                    yield self._writer(connection)
            except BaseException:
                self.reader.forget()  # runs that were read meanwhile and are not there any more
                raise

    def _writer(self, connection: SqlConnection) -> RunWriter:
        return RunWriter(connection, self.backend.insert_payloads)

    @contextmanager
    def erasing(self) -> Iterator[RunWriter]:
        """Give what erases texts, likewise; what is freed is overwritten, also if `scrub` fails."""
        with self.backend.lock:
            self.backend.start_erasing()
            with self.writing() as writer:
                self.backend.keep_drivers_out(
                    writer.connection
                )  # first: what is chosen to go is all that there is
                yield writer

    def scrub(self) -> bool:
        """
        Remove what may still hold erased texts, where an erasure asks for it; return whether that was done.

        Raises:
            JournalBusy: Somebody reads or writes the journal; what was erased is erased, but old copies are still in it.
            JournalFull: There is no space for a second copy of it.
        """
        with self.backend.lock:
            if not self.unscrubbed():
                return False
            if not self.backend.scrub():
                raise JournalBusy(
                    f"{self.path}: the erasure is recorded, but others have the file open, and old copies still stand in"
                    " it; run paor erase --finish when they have closed it"
                )
        return True

    def unscrubbed(self) -> list[str]:
        """Return the ids of runs of which old copies may still be in the file."""
        sql = "SELECT run_id FROM specs JOIN unscrubbed ON unscrubbed.run = specs.run ORDER BY specs.run"
        return [run_id for (run_id,) in self.reader.query(sql)]

    def append(self, entry: Entry) -> None:
        """Commit one transition; see `Committer.append`."""
        self._committer.append(entry)

    async def aappend(self, entry: Entry) -> None:
        """Commit one transition together with all that wait on this event loop; see `AsyncWriter`."""
        if not self._open:
            raise JournalError(f"{self.path}: the journal has been closed; open it again")
        await self._writers.writer().append(entry)

    def append_all(self, entries: list[Entry]) -> None:
        """Commit transitions of different runs together; each entry has its own error."""
        self._committer.append_all(entries)
