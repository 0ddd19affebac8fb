"""What a journal in PostgreSQL is read through: one connection, under one lock; a snapshot has one of its own from a pool."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ....states.base.errors import JournalBusy
from ..backend import NEWEST_ROW
from .address import Address
from .connecting import (
    ConnectionPool,
    PostgresConnection,
    arguments,
    prepare,
    psycopg,
    told,
    translate_errors,
)
from .integrity import SchemaIntegrity
from .listening import Listener

_FACTS = """
SELECT runs.run FROM runs LEFT JOIN texts ON texts.id = (runs.run << 32 | (SELECT spec_payload FROM specs WHERE specs.run = runs.run))
WHERE run_id ILIKE ? OR reason ILIKE ? OR runs."key" ILIKE ? OR metadata ILIKE ? OR metadata ILIKE ?
   OR CASE WHEN json_valid(body) THEN body ->> '$.objective' END ILIKE ?
ORDER BY runs.run DESC LIMIT ?
"""

_TOOLS = """
SELECT DISTINCT run FROM transitions
WHERE "trigger" IN ('execute', 'refuse') AND request::json ->> 'tool' ILIKE ? ORDER BY run DESC LIMIT ?
"""

_TEXTS = """
SELECT max(run) FROM (
  (SELECT run FROM texts JOIN specs ON specs.run = texts.id >> 32
    WHERE texts.id < ? AND is_text AND (body_text(body, is_text) ILIKE ? OR body_text(body, is_text) ILIKE ?)
      AND texts.id IS DISTINCT FROM (run << 32 | spec_payload) AND EXISTS (SELECT 1 FROM texts AS own WHERE own.id = (run << 32 | spec_payload) AND own.body IS NOT NULL) ORDER BY texts.id DESC LIMIT 1)
  UNION ALL
  (SELECT run FROM rows JOIN specs ON specs.run = rows.id >> 32
    WHERE rows.id < ? AND EXISTS (SELECT 1 FROM json_array_elements(texts::json) AS value
        WHERE json_text(value -> 4) ILIKE ? OR json_text(value -> 4) ILIKE ?)
      AND EXISTS (SELECT 1 FROM texts AS own WHERE own.id = (run << 32 | spec_payload) AND own.body IS NOT NULL) ORDER BY rows.id DESC LIMIT 1)) AS found
"""


def search_runs(
    connection: PostgresConnection, patterns: Sequence[str], *, most: int, seconds: float
) -> list[int]:
    """
    Return the numbers of the runs that hold a text, newest first; those that were found when the time is over.

    Args:
        connection: For nobody else meanwhile, in a transaction.
        patterns: The text as `LIKE` takes it, with a backslash for escapes, and as it is within JSON.
        most: Runs that are given at most.
        seconds: The time.
    """
    until = time.monotonic() + seconds
    plain, within = patterns
    numbers: set[int] = set()

    def rows(sql: str, *values: object) -> list[int]:
        left = max(1, round((until - time.monotonic()) * 1000))
        connection.execute("SELECT set_config('statement_timeout', ?, true)", (str(left),))
        return [run for (run,) in connection.execute(sql, values).fetchall()]

    try:
        numbers.update(rows(_FACTS, plain, plain, plain, plain, within, plain, most))
        numbers.update(rows(_TOOLS, plain, most))
        found, before = 0, 2**63 - 1
        while found < most and (newest := rows(_TEXTS, *(before, plain, within) * 2)) != [None]:
            numbers.add(newest[0])
            found, before = (
                found + 1,
                newest[0] << 32,
            )  # one text of a run is enough: on with the run before it
    except psycopg.errors.QueryCanceled:
        pass
    return sorted(numbers, reverse=True)[:most]


_SELECT_TEXTS = "SELECT id, media_type, digest, salt, body, is_text FROM texts WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?"

POOLED = 8
"""Connections for snapshots at most; whoever needs another one waits."""


class PostgresSource:
    """
    A journal as it is read.

    Args:
        connection: With autocommit; used under the lock only.
        address: Of the journal.
        pool: Of connections for snapshots.
        busy_timeout_s: Seconds to wait for the server, for a connection, for a lock.

    Attributes:
        reopened: Never called: a database is not replaced beneath its connection.
    """

    # with the letter of its kind before the media type
    text_scan = (
        "SELECT id, digest, salt, convert_to(CASE WHEN body IS NULL THEN '-' WHEN is_text THEN 'T' ELSE 'B' END || media_type, 'UTF8'),"
        " body FROM texts WHERE id >= ? ORDER BY id"
    )
    in_memory = False

    def __init__(
        self, connection: PostgresConnection, address: Address, pool: JournalPool, *, busy_timeout_s: float
    ) -> None:
        self.lock = threading.RLock()
        self.connection = connection
        self.path, self.place, self.name = address.shown, address.given, address.name
        self.busy_timeout_s = busy_timeout_s
        self.reopened: Callable[[], None] = _nothing
        self._address, self._pool = address, pool

    @property
    def integrity(self) -> SchemaIntegrity:
        """What the database says of it."""
        return SchemaIntegrity(self)

    def query(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """See `fsm.journal.backend.JournalSource.query`."""
        with self.lock, translate_errors(self.path):
            return self.connection.execute(sql, values).fetchall()

    def query_texts(self, first: int, last: int, most: int) -> list[tuple[Any, ...]]:
        """See `fsm.journal.backend.JournalSource.query_texts`."""
        return [
            (*row, body if body is None or not is_text else body.decode("utf-8", "replace"))
            for *row, body, is_text in self.query(_SELECT_TEXTS, (first, last, most))
        ]

    def scan(self, sql: str, first: int, size: int) -> Generator[list[tuple[Any, ...]], None, None]:
        """See `fsm.journal.backend.JournalSource.scan`."""
        with translate_errors(self.path), self.connection.raw.cursor(name="scan" + str(id(sql))) as cursor:
            cursor.execute(told(sql), (first,))
            while rows := cursor.fetchmany(size):
                yield rows

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSource]:
        """Give the journal as it is now, whatever is written meanwhile."""
        with translate_errors(self.path), self._pool.connection() as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            own = PostgresSource(connection, self._address, self._pool, busy_timeout_s=self.busy_timeout_s)
            yield own

    def watch(self) -> PostgresWatch:
        """Return what notices that the database was written, by whomever."""
        return PostgresWatch(self._pool)

    def search(self, patterns: Sequence[str], *, most: int, seconds: float) -> list[int]:
        """See `fsm.journal.reader.JournalReader.search`."""
        with translate_errors(self.path), self._pool.connection() as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return search_runs(connection, patterns, most=most, seconds=seconds)


class JournalPool:
    """
    Connections for snapshots, made when they are first needed.

    Args:
        address: Of the journal.
        timeout_s: Seconds to wait for one.
        rows: What hears of new rows.
    """

    def __init__(self, address: Address, timeout_s: float, rows: Listener) -> None:
        self._address, self._timeout_s, self.rows = address, timeout_s, rows
        self._lock = threading.Lock()
        self._pool: ConnectionPool | None = None
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[PostgresConnection]:
        """
        Give a connection that reads; a transaction that is begun within is ended.

        Raises:
            JournalBusy: There is none in time.
        """
        try:
            raw = self._opened().getconn()
        except psycopg.OperationalError as error:
            raise JournalBusy(
                f"{self._address.shown}: {' '.join(str(error).split())[:200]}; try again"
            ) from error
        connection = PostgresConnection(raw)
        try:
            yield connection
        finally:
            try:
                if not connection.lost and connection.in_transaction:
                    raw.execute("ROLLBACK")
            except psycopg.Error:
                raw.close()
            if self._pool is None:
                raw.close()
            else:
                self._pool.putconn(raw)

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _opened(self) -> ConnectionPool:
        with self._lock:
            if self._pool is None:
                if self._closed:
                    raise psycopg.OperationalError("the journal has been closed; open it again")
                address, timeout_s = self._address, self._timeout_s
                self._pool = ConnectionPool(
                    address.conninfo,
                    kwargs=arguments(timeout_s),
                    min_size=0,
                    max_size=POOLED,
                    timeout=max(timeout_s, 1.0),
                    max_idle=60,
                    configure=lambda raw: prepare(raw, address, "off", timeout_s=timeout_s, read_only=True),
                    check=ConnectionPool.check_connection,
                    open=True,
                    name="paor",
                )
            return self._pool


class PostgresWatch:
    """
    Whether the database was written since it was last asked; for one thread.

    Each append notifies in its own transaction. Nothing depends on that: a snapshot's text changes with every transaction that has ended,
    also one of others in the same server, so a notification that was lost is made up for with the next look.

    Args:
        pool: Of connections.
    """

    look_s, pace_s = 1.0, 0.01

    def __init__(self, pool: JournalPool) -> None:
        self._pool = pool
        self._seen = ""

    def hear(self, written: Callable[[int | None], None]) -> Callable[[], None]:
        """See `fsm.journal.backend.ChangeWatch.hear`."""
        return self._pool.rows.add(lambda payload: written(int(payload) if payload.isdecimal() else None))

    def changed(self) -> bool:
        """Return whether it was; the first time always. A server that cannot be asked now has not changed."""
        try:
            with self._pool.connection() as connection:
                row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
        except (psycopg.Error, JournalBusy):
            return False
        seen = row[0] if row is not None else ""
        if seen == self._seen:
            return False
        self._seen = seen
        return True

    def newest(self) -> int:
        """Return the number of the newest row; 0 for none, and where the server cannot be asked now."""
        try:
            with self._pool.connection() as connection:
                row = connection.execute(NEWEST_ROW).fetchone()
        except (psycopg.Error, JournalBusy):
            return 0
        return int(row[0]) if row is not None else 0

    def close(self) -> None:
        """Begin anew with the next question."""
        self._seen = ""


def _nothing() -> None:
    """Nobody has to know."""
