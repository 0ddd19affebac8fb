"""
A journal in PostgreSQL, as it is written, by any number of processes on any number of machines.

What is appended together is one statement, and so one round trip and one transaction: it locks the leases of its runs against being
taken over, and writes only what their drivers still hold. Only what gives numbers to runs, or takes several at once, excludes all
others (`alone`). A connection that is lost is made anew, and what was being written is looked up before it is written again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

import orjson

from ....states.base.errors import JournalBusy, JournalError, LeaseLost, UsageError
from ..backend import Durability, Entry, SqlConnection, Values, stored_row
from ..payloads import Payload, encode_text, text_values
from .address import Address, read_address
from .connecting import (
    PostgresConnection,
    arguments,
    is_lost,
    ours,
    prepare,
    psycopg,
    statement_ms,
    translate_errors,
)
from .listening import Listener
from .migrations import journal_id
from .source import JournalPool, PostgresSource

_T = TypeVar("_T")

AGAIN_S = 0.05
"""Seconds between two tries to reach a server that is away."""

SCRUB_S = 5.0
"""Seconds to wait for the end of transactions that still see old rows, such as those in which the server itself takes samples."""

AT_ONCE = 3000
"""Texts, and documents, in one statement: PostgreSQL takes 65,535 values."""

_JOURNAL_ID = "SELECT id FROM journal"

_HEARD = "CASE WHEN pg_try_advisory_lock(?) THEN NOT pg_advisory_unlock(?) ELSE TRUE END"
"""Whether a session holds the lock that listeners share; two places for its key."""

_ROW = ("id", "last", "row", "hash", "texts")
_TEXT = ("id", "media_type", "digest", "salt", "body", "is_text")
_DOCUMENT = ("id", "run", "number", "label", "position", "name", "mime", "bytes", "digest", "payload")


@lru_cache(maxsize=256)
def append_statement(rows: int, texts: int, documents: int) -> str:
    """
    Return the one statement that writes what an entry brings, as far as its driver still holds the lease.

    The lease is locked against being taken over until the transaction ends. The statement returns the lease; where that was taken
    over, or another journal is found under the names, it returns and writes nothing. Where the database leaves out a row, as a
    trigger may, it fails (it divides by zero) and writes nothing either. Its last column is whether anybody listens. Most entries have
    one of a few shapes, so that the statement is prepared once.
    """
    parts = (
        ("rows", _ROW, rows),
        ("texts", _TEXT, texts),
        ("documents", _DOCUMENT, documents),
    )
    written = "".join(
        f", of_{table} AS (INSERT INTO {table} ({_names(columns)}) SELECT given.* FROM held, (VALUES"
        f" {', '.join([_places(columns)] * count)}) AS given RETURNING 1)"
        for table, columns, count in parts
        if count
    )
    # the id as well: young journals have the same run numbers and the same fences
    held = "SELECT cancel FROM leases WHERE run = ? AND fence = ? AND EXISTS (SELECT FROM journal WHERE id = ?) FOR SHARE"
    taken = " + ".join(f"(SELECT count(*) FROM of_{table})" for table, _, count in parts if count)
    sure = f", 1 / ({taken} = {sum(count for *_, count in parts)})::int" if taken else ""
    return f"WITH held AS ({held}){written} SELECT cancel{sure}, {_HEARD} FROM held"


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _places(columns: Sequence[str]) -> str:
    return f"({', '.join('?' * len(columns))})"


_COUNTED = re.compile(r"\d+")
_WRITE_ANEW = "VACUUM (FULL, VERBOSE) rows, texts, documents, specs"

_INSERT_TEXT = f"INSERT INTO texts ({', '.join(_TEXT)}) VALUES ({', '.join('?' * len(_TEXT))})"


class PostgresBackend(PostgresSource):
    """
    A journal that is open.

    Args:
        given: Its address.
        durability: What a commit survives.
        busy_timeout_s: Seconds to wait for the server and for locks.
        read_only: Never write, never make a schema.

    Raises:
        UsageError: The address cannot be read.
        JournalError: The journal cannot be opened.
    """

    of_row_locked, skipping_locked = " FOR UPDATE", " FOR UPDATE SKIP LOCKED"
    look_s, is_shared = 2.0, True

    def __init__(self, given: str, durability: Durability, *, busy_timeout_s: float, read_only: bool) -> None:
        address = read_address(given)
        self._durability, self._read_only = durability, read_only
        self._within = self._closed = False
        self._statement_ms = statement_ms(busy_timeout_s, read_only=read_only)
        with translate_errors(address.shown):
            connection = _connect(address, durability, timeout_s=busy_timeout_s, read_only=read_only)
            try:
                self._id = journal_id(connection, address, read_only=read_only)
            except BaseException:
                connection.close()
                raise
        self.identity = f"postgresql:{self._id}"
        self._lock_key = int(self.identity[-15:], 16)
        self._channel = f"paor_{self.identity[-16:]}"
        self._rows_channel, self._heard_key = f"{self._channel}_rows", self._lock_key + 1

        def connect() -> PostgresConnection:
            return _connect(address, "off", timeout_s=5.0, read_only=True)

        self._signals = Listener(connect, self._channel)
        self._rows = Listener(connect, self._rows_channel, self._heard_key)
        pool = JournalPool(address, busy_timeout_s, self._rows)
        super().__init__(connection, address, pool, busy_timeout_s=busy_timeout_s)

    # -- a server that is gone for a moment ----------------------------------------------------------------------------

    def _reaching(self, do: Callable[[], _T]) -> _T:
        """
        Return what *do* returns; as long as the server cannot be reached try again, until the time to wait is over.

        Within a transaction it is done once: what was done before it in there is gone with the connection.
        """
        end = time.monotonic() + self.busy_timeout_s
        while True:
            try:
                if self.connection.lost and not self._within and not self._closed:
                    self._reconnect()
                return do()
            except psycopg.Error as error:
                lost = is_lost(error) and (error.sqlstate is not None or self.connection.lost)
                if self._within or self._closed or not lost or time.monotonic() >= end:
                    self._raise(error)
                self.connection.close()
                time.sleep(AGAIN_S)

    def _reconnect(self) -> None:
        self.connection = _connect(
            self._address, self._durability, timeout_s=self.busy_timeout_s, read_only=self._read_only
        )

    def _raise(self, error: psycopg.Error) -> NoReturn:
        if self._closed:
            raise JournalError(f"{self.path}: the journal has been closed; open it again") from error
        raise ours(error, self.path) from error

    def query(self, sql: str, values: Values = ()) -> list[Values]:
        """See `fsm.journal.backend.JournalSource.query`."""
        with self.lock:
            return self._reaching(lambda: self.connection.execute(sql, values).fetchall())

    # -- writing -------------------------------------------------------------------------------------------------------

    def _check_id(self, found: Values | None = None) -> None:
        """Raise where another journal is found under the names; within a transaction what was written there is undone."""
        if (found or self.connection.execute(_JOURNAL_ID).fetchone()) != (self._id,):
            raise JournalError(
                f"{self.path}: was replaced by another journal, so nothing more is written; bring back the one that was open,"
                " and resume"
            )

    @contextmanager
    def transaction(self, *, alone: bool = True) -> Iterator[SqlConnection]:
        """See `fsm.journal.backend.Backend.transaction`."""
        with self.lock:
            if self._within:
                raise UsageError(f"{self.path}: a transaction within a transaction")
            self._reaching(lambda: self.connection.execute("BEGIN"))
            self._within = True
            try:
                with translate_errors(self.path):
                    if alone:
                        self.connection.execute("SELECT pg_advisory_xact_lock(?)", (self._lock_key,))
                    yield self.connection
                    self._check_id()
                    if alone:  # a run was made, taken up, brought in or erased
                        key = self._heard_key
                        self.connection.execute(
                            f"SELECT pg_notify(?, '') WHERE {_HEARD}", (self._rows_channel, key, key)
                        )
                    self.connection.execute("COMMIT")
            except BaseException:
                self._undo()
                raise
            finally:
                self._within = False

    def _undo(self) -> None:
        try:
            if not self.connection.lost and self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except psycopg.Error:
            self.connection.close()

    def execute(self, sql: str, values: Values) -> None:
        """See `fsm.journal.backend.Backend.execute`."""
        with self.lock:
            self._reaching(lambda: self._execute(sql, values))

    def _execute(self, sql: str, values: Values) -> None:
        try:
            with self.connection.raw.pipeline():
                self.connection.execute("BEGIN")
                self.connection.execute(sql, values)
                found = self.connection.execute(_JOURNAL_ID)
            self._check_id(found.fetchone())
            self.connection.execute("COMMIT")
        except BaseException:
            self._undo()
            raise

    def append(self, entries: Sequence[Entry]) -> None:
        """See `fsm.journal.backend.Backend.append`."""
        with self.lock:
            try:
                self._reaching(lambda: self._append(entries))
            except JournalError as error:
                self._undo()
                # written already, over a connection that was lost before its answer came: that is in the journal, and only there
                with translate_errors(self.path):
                    if isinstance(error.__cause__, psycopg.errors.UniqueViolation) and all(
                        map(self._stands, entries)
                    ):
                        return
                raise
            except BaseException:
                self.connection.close()  # whatever it was in the middle of: the next one is made anew
                raise

    def _append(self, entries: Sequence[Entry]) -> None:
        # in the order of their runs, as whoever renews leases takes them: nobody waits for somebody who waits for him
        ordered = sorted(entries, key=lambda entry: entry.place)
        written = [list(_written(entry, self._id, self._heard_key)) for entry in ordered]
        if len(written) == len(written[0]) == 1:
            answers = [[self.connection.execute(*written[0][0])]]
        else:
            with self.connection.raw.pipeline():
                self.connection.execute("BEGIN")
                answers = [[self.connection.execute(*part) for part in parts] for parts in written]
                self.connection.execute("COMMIT")
        heard = [
            entry.run
            for entry, (first, *_) in zip(ordered, answers, strict=True)
            if _note(entry, first.fetchone())
        ]
        if heard:
            self._notify(heard)
        self._look_why(entries)

    def _notify(self, runs: Sequence[int]) -> None:
        """
        Notify of new rows, after their transaction.

        One that notifies holds a lock of the whole server while it commits, so that rows would wait for the disk one after the other;
        this one waits for no disk. What is not notified of is seen by the next look.
        """
        told = ", ".join(["pg_notify(?, ?)"] * len(runs))
        values = [value for run in runs for value in (self._rows_channel, str(run))]
        with suppress(psycopg.Error):
            self.connection.execute(
                f"SELECT set_config('synchronous_commit', 'off', true), {told}", (*values,)
            )

    def _look_why(self, entries: Sequence[Entry]) -> None:
        """Raise where entries were not written since another journal is found under the names."""
        if any(entry.error is not None for entry in entries):
            self._check_id()

    def _stands(self, entry: Entry) -> bool:
        """Return whether a row is in the journal already, just as it was to be written; then it is done."""
        sql = "SELECT cancel FROM rows JOIN leases ON leases.run = id >> 32 WHERE id = ? AND hash = ?"
        found = self.connection.execute(sql, (entry.run << 32 | entry.seq, entry.hash)).fetchone()
        if found is None:
            return False
        entry.error, entry.cancelled = None, bool(found[0])
        return True

    @staticmethod
    def insert_payloads(connection: SqlConnection, run: int, payloads: Collection[Payload]) -> None:
        """See `fsm.journal.backend.Backend.insert_payloads`."""
        connection.executemany(_INSERT_TEXT, [_text_values(run, payload) for payload in payloads])

    # -- cancelling and clocks -----------------------------------------------------------------------------------------

    def runs_to_cancel(self, runs: Sequence[int]) -> set[int]:
        """See `fsm.journal.backend.Backend.runs_to_cancel`."""
        try:
            with self._pool.connection() as connection:
                sql = "SELECT run FROM leases WHERE cancel = 1 AND run = ANY (?)"
                return {run for (run,) in connection.execute(sql, (list(runs),)).fetchall()}
        except (psycopg.Error, JournalError):  # the next look, or the next row, shows it
            return set()

    def signal(self) -> None:
        """Wake whoever listens to this journal."""
        self.execute("SELECT pg_notify(?, '')", (self._channel,))

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """See `fsm.journal.backend.Backend.listen`."""
        return self._signals.add(lambda _: wake())

    def has_table(self, name: str) -> bool:
        """Return whether the schema has a table."""
        return bool(self.query("SELECT 1 WHERE to_regclass(?) IS NOT NULL", (name,)))

    def now_us(self) -> int:
        """Return the server's clock, which no machine can set apart."""
        ((now,),) = self.query("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        return int(now)

    # -- erasing -------------------------------------------------------------------------------------------------------

    def start_erasing(self) -> None:
        """Do nothing: PostgreSQL overwrites nothing in place; `scrub` removes the old versions of rows."""

    def keep_drivers_out(self, connection: SqlConnection) -> None:
        """Lock the leases, which every append and every taking of a run locks a row of."""
        connection.execute("LOCK TABLE leases IN EXCLUSIVE MODE")

    def scrub(self) -> bool:
        """
        Write the tables anew that held erased texts, of which no statistics are kept; write-ahead logs and backups are the database's own.

        Raises:
            JournalBusy: This role may not.
        """
        with self.lock, translate_errors(self.path):
            self._check_id()
            told: list[str] = []
            marked = [run for (run,) in self.connection.execute("SELECT run FROM unscrubbed").fetchall()]
            notice = self.connection.raw.add_notice_handler
            left: list[str] = []

            def keep(diagnostic: psycopg.errors.Diagnostic) -> None:
                if diagnostic.severity_nonlocalized == "WARNING":
                    told.append(diagnostic.message_primary or "")
                # of each table: how many old versions of rows a transaction that began before still may see
                left.extend(
                    number for number in _COUNTED.findall(diagnostic.message_detail or "")[:1] if int(number)
                )

            notice(keep)
            end = time.monotonic() + min(SCRUB_S, self.busy_timeout_s)
            try:
                self.connection.execute("SET statement_timeout = 0")
                self.connection.execute(_WRITE_ANEW)
                while left and time.monotonic() < end:
                    left.clear()
                    time.sleep(AGAIN_S)  # PostgreSQL wakes nobody when the snapshot of another session ends
                    self.connection.execute(_WRITE_ANEW)
                if left:
                    return False
                if told:  # skipping a table is no error of the database's
                    raise JournalBusy(
                        f"{self.path}: the erasure is recorded, but old copies still stand in its tables, which only their owner"
                        f" may write anew ({told[0]}); run paor erase --finish with the owner's address"
                    )
                self.connection.execute("DELETE FROM unscrubbed WHERE run = ANY (?)", (marked,))
            except psycopg.errors.LockNotAvailable:
                return False
            finally:
                self.connection.raw.remove_notice_handler(keep)
                if not self.connection.lost:
                    self.connection.execute(
                        "SELECT set_config('statement_timeout', ?, false)", (self._statement_ms,)
                    )
        return True

    # -- the rest ------------------------------------------------------------------------------------------------------

    @contextmanager
    def answer(self, sql: str, batch: int) -> Iterator[tuple[list[str], Iterator[Values]]]:
        """See `fsm.journal.backend.Backend.answer`; the question is asked through a cursor, which takes one SELECT and no more."""
        with self._pool.connection() as connection:
            try:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                with connection.raw.cursor(name="answer") as cursor:
                    cursor.execute(sql.rstrip().removesuffix(";"))
                    names = [column.name for column in cursor.description or ()]
                    batches = iter(lambda: cursor.fetchmany(batch), [])
                    yield names, (tuple(map(_shown, row)) for rows in batches for row in rows)
            except psycopg.Error as error:
                if is_lost(error):
                    raise ours(error, self.path) from None
                told = " ".join(str(error.diag.message_primary or error).split())[:200]
                raise UsageError(f"query: {told}") from None

    def database(self) -> Any:
        """
        Refuse: a host has its own connections to its database.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            f"{self.path}: is in PostgreSQL; read its views, such as v_runs and v_steps, with any client, or with: paor query"
        )

    def close(self) -> None:
        """Close every connection."""
        with self.lock:
            self._closed = True
            self._signals.close()
            self._rows.close()
            self._pool.close()
            self.connection.close()


def _connect(
    address: Address, durability: Durability, *, timeout_s: float, read_only: bool
) -> PostgresConnection:
    raw = psycopg.connect(address.conninfo, **arguments(timeout_s))
    try:
        prepare(raw, address, durability, timeout_s=timeout_s, read_only=read_only)
    except BaseException:
        raw.close()
        raise
    return PostgresConnection(raw)


def _shown(value: Any) -> Any:
    """Return a value of any type as one that SQLite has, too."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    return orjson.dumps(value, default=str).decode() if isinstance(value, dict | list) else str(value)


def _lines(entry: Entry) -> list[Entry]:
    """Return an entry after those that are written with it."""
    found = [entry]
    while (before := found[0].before) is not None:
        found.insert(0, before)
    return found


def _text_values(run: int, payload: Payload) -> tuple[Any, ...]:
    *values, body = text_values(run, payload)
    return (*values, None if body is None else encode_text(body), isinstance(body, str))


def _written(entry: Entry, journal: str, heard: int) -> Iterator[tuple[str, Values]]:
    """Yield the statements that write an entry, each with its values: one, but for more texts than fit into one."""
    lines, run = _lines(entry), entry.run
    rows, texts = [], []
    for line in lines:
        row, beside = stored_row(run, line.seq, line.payloads[-1].n, line.text, line.hash, line.payloads)
        rows.append(row)
        texts += [_text_values(run, payload) for payload in beside]
    documents = [(run << 32 | item[0], run, *item) for line in lines for item in line.documents]
    for at in range(0, max(1, len(texts), len(documents)), AT_ONCE):
        parts = (rows if at == 0 else [], texts[at : at + AT_ONCE], documents[at : at + AT_ONCE])
        values = (value for part in parts for row in part for value in row)
        yield append_statement(*map(len, parts)), (run, entry.fence, journal, *values, heard, heard)


def _note(entry: Entry, lease: Any) -> bool:
    """
    Note what became of an entry, given the lease that it was written under; None when that was taken over.

    Returns:
        Whether anybody is to be notified of it.
    """
    entry.error = None  # of a try with others
    if lease is None:
        entry.error = LeaseLost(
            "run {}, row {}: another driver has taken the run over;"
            " this one stopped before its next effect".format(*entry.place)
        )
        return False
    entry.cancelled = bool(lease[0])
    return bool(lease[-1])
