"""
A journal in one SQLite file, as it is written: through one connection for the whole process, under one lock.

What belongs to no file or only to SQLite is here: looking whether the file is still the one that was opened, appending, and writing
the file anew after an erasure.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ....states.base.errors import JournalBusy, JournalError, LeaseLost, UsageError
from ..backend import Durability, Entry, SqlConnection, Values, stored_row
from ..run_writer import INSERT_DOCUMENT, INSERT_ROW, ROW_VALUES
from .database import DatabaseOfJournal
from .file import open_reader, open_writer, ours, transaction, translate_errors
from .source import SqliteSource

if TYPE_CHECKING:
    from sqlite_utils import Database

PULSE = 10_000
"""Steps of SQLite's machine, less than a millisecond, between two looks at whether Ctrl-C was pressed."""


@contextmanager
def answer(
    database: DatabaseOfJournal, path: str, sql: str, batch: int
) -> Iterator[tuple[list[str], Iterator[tuple[Any, ...]]]]:
    """Give the names of a query's columns, and its rows; see `fsm.journal.backend.Backend.answer`."""
    opened = database.get()
    opened.conn.text_factory = lambda data: data.decode("utf-8", "replace")
    # Python looks for signals when it runs Python, so that without this a long query could not be ended
    opened.conn.set_progress_handler(lambda: 0, PULSE)

    def whole(cursor: sqlite3.Cursor) -> Iterator[tuple[Any, ...]]:
        while rows := cursor.fetchmany(batch):
            if (
                database.get() is not opened
            ):  # before the rows are shown: they may be of two states of the file
                raise JournalBusy(f"{path}: was written while it was read; try again")
            yield from rows

    try:
        cursor = opened.execute(sql)
        if cursor.description is None:
            raise UsageError("query: the statement gives no rows; expected a SELECT")
        yield [str(column[0]) for column in cursor.description], whole(cursor)
    except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
        raise _meant(error, path) from None


def _meant(error: Exception, path: str) -> BaseException:
    """Return what an error of SQLite means for whoever asked."""
    name = getattr(error, "sqlite_errorname", None) or ""
    if name == "SQLITE_INTERRUPT":
        return KeyboardInterrupt()
    writes = "not authorized" in str(error) or "cannot modify" in str(
        error
    )  # a view is refused before it is asked about
    if name in ("SQLITE_AUTH", "SQLITE_READONLY") or writes:
        return UsageError("query: refused, since it does more than read this journal")
    if isinstance(error, sqlite3.Error) and name not in ("", "SQLITE_ERROR", "SQLITE_TOOBIG"):
        return ours(error, path)
    return UsageError(f"query: {' '.join(str(error).split())[:200]}")


INSERT_ROW_OF_DRIVER = (
    f"INSERT INTO rows SELECT {ROW_VALUES} FROM leases WHERE run = ? AND fence = ? AND cancel = 0"
)
"""One statement for the row and the check of the lease; it writes nothing when there is more to say."""

SELECT_LEASE = "SELECT fence, cancel FROM leases WHERE run = ?"

EMPTY_BYTES = 100
"""Bytes of SQLite's header; a shorter file holds nothing."""


class SqliteBackend(SqliteSource):
    """
    A journal file that is open.

    Args:
        path: As it was given.
        durability: What a commit survives.
        busy_timeout_s: Seconds to wait for another process's write lock.
        read_only: Never write, never create a file.

    Raises:
        JournalError: See `fsm.journal.sqlite.file.open_writer` and `open_reader`.
    """

    of_row_locked = skipping_locked = ""
    look_s, is_shared = 0.1, False

    def __init__(self, path: str, durability: Durability, *, busy_timeout_s: float, read_only: bool) -> None:
        standing = None
        if read_only:
            connection, standing = open_reader(path, busy_timeout_s=busy_timeout_s)
        else:
            connection = open_writer(path, durability=durability, busy_timeout_s=busy_timeout_s)
        super().__init__(connection, path, standing=standing, busy_timeout_s=busy_timeout_s)
        self.identity = os.path.realpath(path) if path != ":memory:" else f":memory:{id(self)}"
        self._written = "" if read_only or self.in_memory else self.place
        self._node = _node_of(self._written, EMPTY_BYTES)
        log = _stat(f"{self._written}-wal") if self._written else None
        self._log = None if log is None else (log.st_dev, log.st_ino)
        self._log_bytes = 0 if log is None else log.st_size
        self._database = DatabaseOfJournal(self)
        self._flags: sqlite3.Connection | None = None
        self._reading_flags = threading.Lock()
        self._closed = False
        if self._written:
            _OPEN[self] = os.getpid()

    def now_us(self) -> None:
        """Return None: processes of one machine share its clocks."""

    # -- writing -------------------------------------------------------------------------------------------------------

    def check_there(self) -> None:
        """
        Raise when another file, or none, stands where the open one or its log was: SQLite goes on writing to one that nobody finds.

        A file that was overwritten in its place is not told from the open one, unless it is empty. A log that has become shorter is
        looked into: SQLite cuts one off once all that it holds is in the file.

        Raises:
            JournalError: It was deleted, moved, replaced or emptied while it was open, or its log was.
        """
        place = self._written
        if not place:
            return
        log = _stat(f"{place}-wal") if self._log is not None else None  # some file systems can have none
        is_log = self._log is None or (log is not None and (log.st_dev, log.st_ino) == self._log)
        if is_log and _node_of(place, EMPTY_BYTES) == self._node is not None:
            size = log.st_size if log is not None else 0
            if size >= self._log_bytes or self._is_whole():
                self._log_bytes = size
                return
        raise JournalError(
            f"{self.path}: was deleted, moved or replaced while it was open, or its -wal was, so nothing more is"
            " written; put the file back beside its -wal, and resume"
        )

    @contextmanager
    def transaction(self, *, alone: bool = True) -> Iterator[SqlConnection]:
        """See `fsm.journal.backend.Backend.transaction`; SQLite has no other kind than one that is alone."""
        # begun before the look: a connection that was closed says so
        with self.lock, translate_errors(self.path):
            with transaction(self.connection):
                self.check_there()
                yield self.connection
            self.check_there()

    def execute(self, sql: str, values: Values) -> None:
        """See `fsm.journal.backend.Backend.execute`."""
        with self.lock, translate_errors(self.path):
            self.check_there()
            self.connection.execute(sql, values)
            self.check_there()

    def append(self, entries: Sequence[Entry]) -> None:
        """See `fsm.journal.backend.Backend.append`."""
        connection = self.connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            self.check_there()  # nobody else cuts off the log meanwhile
            for entry in entries:
                self._write(connection, entry)
            connection.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.ProgrammingError):  # of a journal that was closed meanwhile
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise ours(error, self.path) from error
            raise
        # before anybody is told: no effect begins on a row that nobody finds
        self.check_there()

    def _is_whole(self) -> bool:
        """Return whether the file alone, without its log, says what the open connection sees."""
        uri, connection = f"{Path(self.place).as_uri()}?mode=ro&immutable=1", self.connection
        try:
            if not connection.in_transaction:
                with transaction(connection):  # so that nobody writes between the two looks
                    return self._is_whole()
            with closing(sqlite3.connect(uri, uri=True)) as file:
                return bool(file.execute(_STANDING).fetchall() == connection.execute(_STANDING).fetchall())
        except sqlite3.Error:  # a page that was in the log alone
            return False

    def _write(self, connection: sqlite3.Connection, entry: Entry) -> None:
        entry.error = None  # of a try with others
        if (before := entry.before) is not None:
            self._write(connection, before)
            if before.error is not None:
                entry.error = before.error
                return
        run, seq = entry.run, entry.seq
        # the row first, as it checks the lease; long texts and documents of a driver that was replaced are then not written
        row, beside = stored_row(run, seq, entry.payloads[-1].n, entry.text, entry.hash, entry.payloads)
        if connection.execute(INSERT_ROW_OF_DRIVER, (*row, run, entry.fence)).rowcount != 1:
            lease = connection.execute(SELECT_LEASE, (run,)).fetchone()
            if lease is None:
                raise JournalError(
                    f"{self.path}: was overwritten while it was open, and does not have run number {run} any more; put the file"
                    " back beside its -wal, and resume"
                )
            fence, cancel = lease
            if fence != entry.fence:
                entry.error = LeaseLost(
                    f"run {run}, row {seq}: another driver has taken the run over;"
                    " this one stopped before its next effect"
                )
                return
            entry.cancelled = bool(cancel)
            connection.execute(INSERT_ROW, row)
        if beside:
            self.insert_payloads(connection, run, beside)
        if entry.documents:
            connection.executemany(
                INSERT_DOCUMENT, [(run << 32 | item[0], run, *item) for item in entry.documents]
            )

    # -- cancelling ----------------------------------------------------------------------------------------------------

    def runs_to_cancel(self, runs: Sequence[int]) -> set[int]:
        """Return which of *runs* are to be cancelled, as the file says now; none when it cannot be read now."""
        places = ", ".join("?" * len(runs))
        sql = f"SELECT run FROM leases WHERE cancel = 1 AND run IN ({places})"
        try:
            if self.in_memory:
                with self.lock:
                    return {run for (run,) in self.connection.execute(sql, tuple(runs))}
            with self._reading_flags:
                if self._closed:
                    return set()
                if self._flags is None:  # its own, so that nobody waits for a commit
                    uri = f"{Path(self.place).as_uri()}?mode=ro"
                    self._flags = sqlite3.connect(
                        uri, uri=True, isolation_level=None, check_same_thread=False
                    )
                return {run for (run,) in self._flags.execute(sql, tuple(runs)).fetchall()}
        except sqlite3.Error:  # busy, perhaps: the next look, or the next row, shows it
            return set()

    def signal(self) -> None:
        """Do nothing: SQLite tells nobody."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call nobody."""
        return _nothing

    def has_table(self, name: str) -> bool:
        """Return whether the file has a table."""
        return bool(self.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)))

    # -- erasing -------------------------------------------------------------------------------------------------------

    def start_erasing(self) -> None:
        """See `fsm.journal.backend.Backend.start_erasing`."""
        with self.lock, translate_errors(self.path):
            self.connection.execute("PRAGMA secure_delete=ON")

    def keep_drivers_out(self, connection: SqlConnection) -> None:
        """Do nothing: a transaction of SQLite's is the only one."""

    def scrub(self) -> bool:
        """Write the file anew and cut off its log, which holds the old pages until then."""
        with self.lock, translate_errors(self.path):
            self.check_there()
            connection = self.connection
            connection.execute("PRAGMA secure_delete=ON")
            try:
                # the pages first, then the log
                connection.execute("VACUUM")
                if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                    return False
            except sqlite3.OperationalError as error:
                if not (error.sqlite_errorname or "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                    raise
                return False
            # only now: whatever ended above, by an error or a crash, is to be done again
            connection.execute("DELETE FROM unscrubbed")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return True

    # -- the rest ------------------------------------------------------------------------------------------------------

    def answer(
        self, sql: str, batch: int
    ) -> AbstractContextManager[tuple[list[str], Iterator[tuple[Any, ...]]]]:
        """See `fsm.journal.backend.Backend.answer`."""
        return answer(self._database, self.path, sql, batch)

    def database(self) -> Database:
        """See `fsm.journal_api.Journal.database`."""
        return self._database.get()

    def close(self) -> None:
        """Close the file and all that reads it."""
        with self._reading_flags:
            self._closed = True
            if self._flags is not None:
                self._flags.close()
        self._database.close()
        with self.lock:
            self.connection.close()
        _OPEN.pop(self, None)


_OPEN: WeakKeyDictionary[SqliteBackend, int] = WeakKeyDictionary()
"""The journals that are open to be written, with the process that opened each."""


@atexit.register
def _close_at_exit() -> None:
    """Close what this process has left open: a journal is one file then, and can be copied."""
    with ExitStack() as closing_all:  # all of them, also when one cannot be closed
        for backend, process in list(_OPEN.items()):
            # a child holds connections of its parent, which it must not use; a thread in a statement is not waited for
            if process == os.getpid() and backend.lock.acquire(timeout=1):
                closing_all.callback(backend.lock.release)
                closing_all.callback(backend.close)


def _nothing() -> None:
    """Nobody was listening."""


_STANDING = """
SELECT (SELECT max(id) FROM rows), (SELECT max(id) FROM texts), (SELECT max(id) FROM erasures),
       (SELECT group_concat(run || '.' || fence || '.' || coalesce(lease_until, '') || '.' || cancel) FROM leases)
"""
"""What every commit of a driver changes."""


def _stat(place: str) -> os.stat_result | None:
    try:
        return os.stat(place)
    except OSError:
        return None


def _node_of(place: str, least: int = 0) -> tuple[int, int] | None:
    """Return the file's (device, inode), or None if it is smaller than *least* bytes."""
    found = _stat(place)
    return (found.st_dev, found.st_ino) if found is not None and found.st_size >= least else None
