"""
Group commit: whoever comes first writes for all that wait.

A transaction costs its fsync, whatever it holds. While one thread commits, others queue their entries; the next
one to get the lock takes the whole queue into its transaction. With one run this is a plain commit in the calling
thread; with many it is one fsync for all of them, and each goes on only after its own row is durable.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from msgspec import Struct

from ...states.base.errors import InternalError, JournalBusy, JournalError, LeaseLost, PaorError
from .payloads import Payload
from .record import Row
from .run_writer import INSERT_DOCUMENT, INSERT_PAYLOAD, INSERT_ROW, ROW_VALUES
from .sqlite.file import ours
from .sqlite.source import SqliteSource

INSERT_ROW_OF_DRIVER = (
    f"INSERT INTO transitions SELECT {ROW_VALUES} FROM leases WHERE run = ? AND fence = ? AND cancel = 0"
)
"""One statement for the row and the check of the lease; it writes nothing when there is more to say."""

SELECT_LEASE = "SELECT fence, cancel FROM leases WHERE run = ?"


class Entry(Struct, eq=False):
    """
    Everything that one transition writes, in one transaction.

    Attributes:
        row: The row.
        payloads: New payloads that it or its change refers to.
        documents: Rows of `documents`, without key and run.
        before: The row before, where that has not been written yet; it is written with this one, or neither is.
        fence: The driver's token; a wrong one writes nothing.
        cancelled: After the commit: whether somebody asked to cancel the run.
        done: After the commit, or the failure.
        error: Why nothing of it was written.
    """

    row: Row
    payloads: list[Payload]
    documents: list[tuple[Any, ...]]
    fence: int
    before: Entry | None = None
    cancelled: bool = False
    done: bool = False
    error: BaseException | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Numbers of the run and of the row."""
        return self.row[0], self.row[1]


EMPTY_BYTES = 100
"""Bytes of SQLite's header; a shorter file holds nothing."""


def _node_of(place: str, least: int = 0) -> tuple[int, int] | None:
    """Return what tells a file from others, None when there is none of *least* bytes."""
    try:
        found = os.stat(place)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found.st_size >= least else None


class Committer:
    """
    The one writer of a journal in this process.

    Args:
        source: Holds the connection, used under its lock only.
        place: Where the file that may be written is; empty for one that is only read, or is in memory.
    """

    def __init__(self, source: SqliteSource, place: str = "") -> None:
        self.lock = source.lock
        self._source = source
        self._path = source.path
        self._place = place
        self._node = _node_of(place, EMPTY_BYTES)
        self._log = _node_of(f"{place}-wal")
        self._queue: deque[Entry] = deque()

    @property
    def connection(self) -> sqlite3.Connection:
        """The journal's connection; there is another one where the file was opened again."""
        return self._source.connection

    @connection.setter
    def connection(self, connection: sqlite3.Connection) -> None:
        self._source.connection = connection

    def check_there(self) -> None:
        """
        Raise when another file, or none, stands where the open one or its log was: SQLite goes on writing to one that nobody finds.

        A file that was overwritten in its place is not told from the open one, unless it is empty.

        Raises:
            JournalError: It was deleted, moved, replaced or emptied while it was open.
        """
        place = self._place
        if not place:
            return
        log = self._log is None or _node_of(f"{place}-wal") == self._log  # some file systems can have none
        if log and _node_of(place, EMPTY_BYTES) == self._node is not None:
            return
        raise JournalError(
            f"{self._path}: was deleted, moved or replaced while it was open, or its -wal was, so nothing more is"
            " written; put the file back beside its -wal, and resume"
        )

    def append(self, entry: Entry) -> None:
        """
        Commit *entry*, alone or with others; returns after it is durable.

        Raises:
            LeaseLost: Its fencing token is not the current one; nothing was written.
            JournalError: The file could not be written; nothing was written.
        """
        # queued before the lock is waited for: whoever holds it may write this entry with its own, and then nothing is left
        self._queue.append(entry)
        with self.lock:
            if not entry.done:
                self._commit_queue()
        if entry.error is not None:
            raise entry.error
        if not entry.done:
            raise InternalError("run {}, row {}: the append was not carried out".format(*entry.place))

    def append_all(self, entries: list[Entry]) -> None:
        """Commit *entries* in one transaction; each has its own error."""
        self._queue.extend(entries)
        with self.lock:
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
        connection = self.connection
        self.check_there()
        try:
            connection.execute("BEGIN IMMEDIATE")
            for entry in batch:
                self._write(connection, entry)
            connection.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.ProgrammingError):  # of a journal that was closed meanwhile
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise ours(error, self._path) from error
            raise
        # only after the commit: whoever sees `done` begins the next effect, and its row must be durable then
        for entry in batch:
            entry.done = True

    def _write(self, connection: sqlite3.Connection, entry: Entry) -> None:
        entry.error = None  # of a try with others
        if (before := entry.before) is not None:
            self._write(connection, before)
            if before.error is not None:
                entry.error = before.error
                return
        run, seq = entry.row[0], entry.row[1]
        base = run << 32
        # the row first, as it checks the lease; payloads and documents of a driver that was replaced are then not written
        row = (base | seq, *entry.row, run, entry.fence)
        if connection.execute(INSERT_ROW_OF_DRIVER, row).rowcount != 1:
            fence, cancel = connection.execute(SELECT_LEASE, (run,)).fetchone()
            if fence != entry.fence:
                entry.error = LeaseLost(
                    f"run {run}, row {seq}: another driver has taken the run over;"
                    " this one stopped before its next effect"
                )
                return
            entry.cancelled = bool(cancel)
            connection.execute(INSERT_ROW, row[:-2])
        connection.executemany(
            INSERT_PAYLOAD, [(base | payload[0], run, *payload) for payload in entry.payloads]
        )
        if entry.documents:
            connection.executemany(
                INSERT_DOCUMENT, [(base | item[0], run, *item) for item in entry.documents]
            )


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
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((entry, future))
        if self._flushing is None:
            self._flushing = loop.create_task(self._flush())
        await future

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
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


class WriterPool:
    """One `AsyncWriter` for each event loop that uses a journal, whatever engines run there."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._lock = threading.Lock()
        self._writers: dict[asyncio.AbstractEventLoop, AsyncWriter] = {}

    def writer(self) -> AsyncWriter:
        """Return the writer of the running event loop; writers of closed loops are let go."""
        loop = asyncio.get_running_loop()
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
