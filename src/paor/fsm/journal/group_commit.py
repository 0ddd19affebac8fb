"""
Group commit: whoever comes first writes for all that wait.

A transaction costs its fsync, whatever it holds. While one thread commits, others queue their entries; the next
one to get the lock takes the whole queue into its transaction. With one run this is a plain commit in the calling
thread; with many it is one fsync for all of them, and each goes on only after its own row is durable.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from ...states.base.errors import InternalError, JournalBusy, PaorError
from .backend import Backend, Entry


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
