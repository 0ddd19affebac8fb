"""
What a journal in one file is read through: one connection for the whole process, under one lock, so no reader sees half a row.

A file that nobody has open is read as it stands, without SQLite's locks; when it is found to have been opened meanwhile, it is opened anew and
read again. A snapshot has a connection of its own.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ....states.base.errors import JournalBusy, JournalError
from ..backend import SqlConnection
from ..payloads import Payload, text_values
from .file import Identity, has_log, identity, open_reader, place_of, translate_errors
from .integrity import FileIntegrity
from .watch import JournalWatch

POLL_STEPS = 20_000
"""Instructions of SQLite between two looks at the clock, about a millisecond."""

_FACTS = """
SELECT runs.run FROM runs LEFT JOIN texts ON texts.id = (runs.run << 32 | (SELECT spec_payload FROM specs WHERE specs.run = runs.run))
WHERE run_id LIKE ?1 ESCAPE '\\' OR reason LIKE ?1 ESCAPE '\\' OR runs."key" LIKE ?1 ESCAPE '\\'
   OR metadata LIKE ?1 ESCAPE '\\' OR metadata LIKE ?2 ESCAPE '\\'
   OR CASE WHEN json_valid(body) THEN body ->> '$.objective' END LIKE ?1 ESCAPE '\\'
ORDER BY runs.run DESC LIMIT ?3
"""

_TOOLS = """
SELECT DISTINCT run FROM transitions
WHERE "trigger" IN ('execute', 'refuse') AND request ->> '$.tool' LIKE ?1 ESCAPE '\\' ORDER BY run DESC LIMIT ?2
"""

_TEXTS = """
SELECT max(run) FROM (
  SELECT * FROM (SELECT run FROM texts JOIN specs ON specs.run = texts.id >> 32
    WHERE texts.id < ?3 AND typeof(body) = 'text' AND (body LIKE ?1 ESCAPE '\\' OR body LIKE ?2 ESCAPE '\\')
      AND texts.id IS NOT (run << 32 | spec_payload) AND EXISTS (SELECT 1 FROM texts AS own WHERE own.id = (run << 32 | spec_payload) AND own.body IS NOT NULL) ORDER BY texts.id DESC LIMIT 1)
  UNION ALL
  SELECT * FROM (SELECT run FROM rows JOIN specs ON specs.run = rows.id >> 32
    WHERE rows.id < ?3 AND EXISTS (SELECT 1 FROM json_each(texts)
        WHERE value ->> '$[4]' LIKE ?1 ESCAPE '\\' OR value ->> '$[4]' LIKE ?2 ESCAPE '\\')
      AND EXISTS (SELECT 1 FROM texts AS own WHERE own.id = (run << 32 | spec_payload) AND own.body IS NOT NULL) ORDER BY rows.id DESC LIMIT 1))
"""
"""All but what a run was started with, whose names would be found in every run. A run whose spec was erased is found by nothing that was said in it."""


def search_runs(
    connection: sqlite3.Connection, patterns: Sequence[str], *, most: int, seconds: float
) -> list[int]:
    """
    Return the numbers of the runs that hold a text, newest first; those that were found when the time is over.

    Args:
        connection: For nobody else meanwhile.
        patterns: The text as `LIKE` takes it, with a backslash for escapes, and as it is within JSON.
        most: Runs that are given at most.
        seconds: The time.
    """
    until = time.monotonic() + seconds
    numbers: set[int] = set()
    connection.set_progress_handler(lambda: time.monotonic() > until, POLL_STEPS)
    try:
        for (run,) in connection.execute(_FACTS, (*patterns, most)):
            numbers.add(run)
        for (run,) in connection.execute(_TOOLS, (patterns[0], most)):
            numbers.add(run)
        _add_by_texts(numbers, connection, patterns, most)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
    finally:
        connection.set_progress_handler(None, 0)
    return sorted(numbers, reverse=True)[:most]


def _add_by_texts(
    numbers: set[int], connection: sqlite3.Connection, patterns: Sequence[str], most: int
) -> None:
    """Add the runs in whose texts it stands, the newest first."""
    found, before = 0, 2**63 - 1
    while found < most:
        row: tuple[Any, ...] | None = connection.execute(_TEXTS, (*patterns, before)).fetchone()
        if row is None or row[0] is None:
            return
        numbers.add(row[0])
        found, before = found + 1, row[0] << 32  # one text of a run is enough: on with the run before it


INSERT_TEXT = "INSERT INTO texts (id, media_type, digest, salt, body) VALUES (?, ?, ?, ?, ?)"

_SELECT_TEXTS = (
    "SELECT id, media_type, digest, salt, body FROM texts WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?"
)

_ATTEMPTS = 100
"""How often a file that nobody has open is opened anew because it was written all the same."""


class SqliteSource:
    """
    A journal file as it is read.

    Args:
        connection: With autocommit; used under the lock only.
        path: Of the file, for messages.
        place: Where that is, if it was opened before now.
        standing: Identity of the file as it was opened, if the connection takes it for unchanging.
        busy_timeout_s: Seconds to wait when the file has to be opened again.
        frozen: Whether it is a snapshot: opened again by nobody.

    Attributes:
        reopened: Called after the file was opened again.
    """

    # with the letter of its kind before the media type; one that cannot be hashed for a value that is wrong
    text_scan = (
        "SELECT id, digest, salt, CAST(CASE typeof(body) WHEN 'text' THEN 'T' WHEN 'blob' THEN 'B' ELSE '-' END || media_type AS BLOB),"
        " CAST(body AS BLOB) FROM texts WHERE id >= ? ORDER BY id"
    )

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: str,
        *,
        place: str | None = None,
        standing: Identity | None = None,
        busy_timeout_s: float = 30.0,
        frozen: bool = False,
    ) -> None:
        self.lock = threading.RLock()
        self.connection = connection
        self.path, self.name = path, os.path.basename(path)
        self.place = place_of(path) if place is None else place
        self.busy_timeout_s = busy_timeout_s
        self.reopened: Callable[[], None] = _nothing
        self._standing = standing
        self._frozen = frozen
        self._cursors: list[sqlite3.Cursor] = []

    @property
    def in_memory(self) -> bool:
        """Whether there is no file."""
        return self.place in ("", ":memory:")

    @property
    def integrity(self) -> FileIntegrity:
        """What SQLite says of the file."""
        return FileIntegrity(self.query, self.path, self.place)

    @property
    def written(self) -> int:
        """Changes made through this connection (`total_changes`)."""
        return self.connection.total_changes

    def watch(self) -> JournalWatch:
        """Return what notices that the journal was written, by whatever process; for one thread."""
        return JournalWatch(self.path, self.place, lambda: self.written)

    @contextmanager
    def snapshot(self) -> Iterator[SqliteSource]:
        """Give the file as it is now, whatever is written meanwhile; a journal in memory is given under its lock."""
        if self.in_memory:
            with self.lock, self._bulk():
                yield self
            return
        connection, standing = open_reader(self.path, busy_timeout_s=self.busy_timeout_s, place=self.place)
        own = SqliteSource(
            connection,
            self.path,
            place=self.place,
            standing=standing,
            busy_timeout_s=self.busy_timeout_s,
            frozen=True,
        )
        try:
            own.query("BEGIN")
            with own._bulk():
                yield own
        finally:
            connection.close()

    def search(self, patterns: Sequence[str], *, most: int, seconds: float) -> list[int]:
        """See `fsm.journal.reader.JournalReader.search`."""
        with translate_errors(self.path), self.snapshot() as own:
            try:
                return search_runs(own.connection, patterns, most=most, seconds=seconds)
            finally:
                own.query("SELECT 1")  # a file that was written while it was read is the better reason

    def query(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """
        Return the rows of a reading statement of this project's own.

        Raises:
            JournalBusy: The file was written while it was read without locks.
            JournalError: It cannot be read.
        """
        try:
            return self._query(sql, values)
        except JournalError as error:
            if not (isinstance(error.__cause__, sqlite3.Error) and self._read_leniently(error.__cause__)):
                raise
        return self._query(sql, values)

    def query_texts(self, first: int, last: int, most: int) -> list[tuple[Any, ...]]:
        """See `fsm.journal.backend.JournalSource.query_texts`."""
        return self.query(_SELECT_TEXTS, (first, last, most))

    @staticmethod
    def insert_payloads(connection: SqlConnection, run: int, payloads: Collection[Payload]) -> None:
        """See `fsm.journal.backend.Backend.insert_payloads`."""
        connection.executemany(INSERT_TEXT, [text_values(run, payload) for payload in payloads])

    def scan(self, sql: str, first: int, size: int) -> Generator[list[tuple[Any, ...]], None, None]:
        """
        Yield the rows of a statement in bulk; see `fsm.journal.backend.JournalSource.scan`.

        Whoever has read to the end asks any `query` whether the file is still the one that was opened.
        """
        cursor = self._cursor(sql, first)
        try:
            while True:
                with translate_errors(self.path):
                    try:
                        rows = cursor.fetchmany(size)
                    except sqlite3.OperationalError as error:
                        if not self._read_leniently(error):
                            raise
                        self._close(cursor)
                        cursor = self._cursor(sql, first)
                        rows = cursor.fetchmany(size)
                if not rows:
                    return
                first = rows[-1][0] + 1
                yield rows
        finally:
            self._close(cursor)

    def _cursor(self, sql: str, first: int) -> sqlite3.Cursor:
        with translate_errors(self.path):
            cursor = self.connection.execute(sql, (first,))
        self._cursors.append(cursor)
        return cursor

    def _close(self, cursor: sqlite3.Cursor) -> None:
        if cursor in self._cursors:
            self._cursors.remove(cursor)
        with suppress(sqlite3.ProgrammingError):  # its connection was closed before
            cursor.close()

    @contextmanager
    def _bulk(self) -> Iterator[None]:
        """Close what reads in bulk within: a statement that was not read to its end keeps a closed connection's lock."""
        before = len(self._cursors)
        try:
            yield
        finally:
            for cursor in self._cursors[before:]:
                cursor.close()
            del self._cursors[before:]

    def _read_leniently(self, error: sqlite3.Error) -> bool:
        """Read texts that are no UTF-8 from now on, if *error* says that this one is none and this is a snapshot."""
        if not (self._frozen and isinstance(error, sqlite3.OperationalError) and "decode" in str(error)):
            return False
        self.connection.text_factory = _text  # slower, so only where it is needed
        return True

    def _query(self, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self.lock, translate_errors(self.path):
            if self._standing is None:
                return self.connection.execute(sql, values).fetchall()
            return self._query_standing(sql, values)

    def _query_standing(self, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Read a file that nobody has open; when somebody has opened it meanwhile, open it anew and read again."""
        for _ in range(_ATTEMPTS):
            error: sqlite3.Error | None = None
            rows: list[tuple[Any, ...]] = []
            try:
                rows = self.connection.execute(sql, values).fetchall()
            except sqlite3.Error as found:
                error = found
            if identity(self.place) == self._standing and (self._frozen or not has_log(self.place)):
                if error is not None:
                    raise error
                return rows
            if self._frozen:
                break
            connection, self._standing = open_reader(
                self.path, busy_timeout_s=self.busy_timeout_s, place=self.place
            )
            self.connection.close()
            self.connection = connection
            self.reopened()
            if self._standing is None:
                return connection.execute(sql, values).fetchall()
        raise JournalBusy(f"{self.path}: was written while it was read; try again")


def _nothing() -> None:
    """Nobody has to know."""


def _text(data: bytes) -> str:
    """Return a text as the file has it; what is not UTF-8 becomes a mark, so that it can be read and named."""
    return data.decode("utf-8", "replace")
