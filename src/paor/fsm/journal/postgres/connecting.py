"""Connections to the database of a journal: how they are made, what a statement looks like there, and its errors as ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ....states.base.errors import (
    JournalBusy,
    JournalError,
    JournalFull,
    MissingExtra,
    NotAJournal,
    PaorError,
)
from ..backend import Durability
from .address import Address

try:
    import psycopg
    from psycopg import errors
    from psycopg.adapt import Loader
    from psycopg.sql import SQL, Identifier
    from psycopg.types.numeric import Int8BinaryDumper
    from psycopg.types.string import BytesBinaryDumper
    from psycopg_pool import ConnectionPool
except ImportError:
    raise MissingExtra('a journal in PostgreSQL needs psycopg: pip install "paor[postgres]"') from None

SYNCHRONOUS: dict[str, str] = {"full": "on", "normal": "off", "off": "off"}

STATEMENT_S = 30.0
"""Seconds that a writing statement may take beside waiting for locks."""

READING_S = 600.0
"""Seconds that a reading statement may take: what reads in bulk takes many, and a server need not go on with one that nobody waits for."""

_PASSING = re.compile("starting up|shutting down|recovery|too many|connection slots|terminating connection")
"""What a server says that takes connections again later."""

_REFUSED = re.compile("SSL|certificate|invalid (URI|connection)|no password supplied")
"""What is said before a server was asked, and will be said again."""

_TEXT = re.compile(r"('(?:[^']|'')*')")


@lru_cache(maxsize=512)
def told(sql: str) -> str:
    """Return a statement of this project's own as psycopg takes it: ``?`` is a place, but not within a text."""
    parts = _TEXT.split(sql.replace("%", "%%"))
    return "".join(part if at % 2 else part.replace("?", "%s") for at, part in enumerate(parts))


class _Number(Loader):
    """Sums of whole numbers as such."""

    def load(self, data: Any) -> int | float:
        text = bytes(data).decode()
        return float(text) if "." in text else int(text)


def arguments(timeout_s: float) -> dict[str, Any]:
    """Return what every connection is made with, beside its address; *timeout_s*: seconds to wait for the server."""
    return {
        "autocommit": True,
        "connect_timeout": max(2, round(min(timeout_s, 30.0))),
        # a server that is gone without a word is noticed, and not waited for until the system gives up
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
    }


def statement_ms(timeout_s: float, *, read_only: bool) -> str:
    """Return how long a statement may take, as PostgreSQL is told."""
    return str(max(1, round(timeout_s * 1000)) + round((READING_S if read_only else STATEMENT_S) * 1000))


def prepare(
    raw: psycopg.Connection[Any],
    address: Address,
    durability: Durability,
    *,
    timeout_s: float,
    read_only: bool,
) -> None:
    """
    Set what a session needs.

    Args:
        raw: A new connection.
        address: Of the journal.
        durability: What a commit survives.
        timeout_s: Seconds to wait for a lock.
        read_only: Whether nothing may be written.
    """
    lock_ms = max(1, round(timeout_s * 1000))
    settings = {
        "search_path": address.schema,
        "synchronous_commit": SYNCHRONOUS[durability],
        "lock_timeout": str(lock_ms),
        # whoever stops within a transaction does not keep all others out
        "idle_in_transaction_session_timeout": str(max(60_000, lock_ms)),
        "statement_timeout": statement_ms(timeout_s, read_only=read_only),
        "default_transaction_read_only": "on" if read_only else "off",
        "default_transaction_isolation": "read committed",  # what waited for a lock sees what was committed meanwhile
        "timezone": "UTC",
    }
    raw.adapters.register_loader("numeric", _Number)
    raw.adapters.register_dumper(
        int, Int8BinaryDumper
    )  # one type for all, so that a statement is prepared once
    raw.adapters.register_dumper(bytes, BytesBinaryDumper)
    raw.execute(
        "SELECT " + ", ".join(["set_config(%s, %s, false)"] * len(settings)),
        [part for setting in settings.items() for part in setting],
    )


_LEFT_OUT = "does not take the rows that are written: a trigger, a rule or a policy of its tables keeps them out; remove it, and resume"


class PostgresConnection:
    """
    A connection that takes the statements that SQLite takes, too; with autocommit, for one thread at a time.

    Args:
        raw: The connection itself.
    """

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw

    @property
    def lost(self) -> bool:
        """Whether it cannot be used any more."""
        return self.raw.closed

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, also one that has failed."""
        return self.raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    def execute(self, sql: str, values: tuple[Any, ...] = (), /) -> psycopg.Cursor[Any]:
        """Carry out a statement."""
        return self.raw.execute(told(sql), values)

    def executemany(self, sql: str, rows: Iterable[tuple[Any, ...]], /) -> None:
        """Carry it out for each of *rows*."""
        rows = list(rows)
        with self.raw.cursor() as cursor:
            cursor.executemany(told(sql), rows)
            if sql.startswith("INSERT") and cursor.rowcount < len(rows):
                raise JournalError(f"the journal {_LEFT_OUT}")

    def close(self) -> None:
        """Close it."""
        self.raw.close()


@contextmanager
def translate_errors(shown: str) -> Iterator[None]:
    """Turn PostgreSQL's errors into one clear line of ours that names the journal and what to do."""
    try:
        yield
    except PaorError:
        raise
    except psycopg.Error as error:
        raise ours(error, shown) from error


def is_lost(error: BaseException) -> bool:
    """Return whether an error says that the server cannot be reached, or will not be for a moment."""
    if isinstance(error, errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow):
        return True
    if isinstance(error, errors.IdleInTransactionSessionTimeout):
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or error.sqlstate is not None:
        return False
    # a server that refuses a connection is there; its reasons have no codes
    text = str(error)
    return _PASSING.search(text) is not None if "FATAL:" in text else _REFUSED.search(text) is None


def ours(error: psycopg.Error, shown: str) -> JournalError:
    """Return *error* as one of ours: one line that names the journal and what to do."""
    text = _line(error)
    if error.sqlstate is None and "FATAL:" in str(error) and not is_lost(error):
        return NotAJournal(f"{shown}: cannot be opened ({text.partition('FATAL:')[2].strip()})")
    if error.sqlstate is None and _REFUSED.search(str(error)):
        return NotAJournal(f"{shown}: cannot be opened ({text.partition('failed: ')[2] or text})")
    if is_lost(error):
        return JournalBusy(
            f"{shown}: the server cannot be reached ({text}); what was committed is intact, try again or resume"
        )
    if isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected):
        return JournalBusy(f"{shown}: others hold the journal; try again when they have finished")
    if isinstance(error, errors.QueryCanceled):
        return JournalBusy(f"{shown}: the server did not finish in time ({text}); try again")
    if isinstance(
        error, errors.SerializationFailure | errors.TooManyConnections | errors.ConfigurationLimitExceeded
    ):
        return JournalBusy(f"{shown}: the server is busy ({text}); try again")
    if isinstance(
        error, errors.InvalidAuthorizationSpecification | errors.InvalidPassword | errors.InvalidCatalogName
    ):
        return NotAJournal(f"{shown}: cannot be opened ({text})")
    if isinstance(error, errors.InsufficientPrivilege):
        return JournalError(f"{shown}: this role may not do that ({text})")
    if isinstance(error, errors.ReadOnlySqlTransaction | errors.DiskFull):
        return JournalFull(
            f"{shown}: cannot be written ({text}); what was committed is intact, resume when it can be"
        )
    if isinstance(error, errors.DivisionByZero):  # of `append_statement`
        return JournalError(f"{shown}: {_LEFT_OUT}")
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn | errors.UndefinedFunction):
        return NotAJournal(f"{shown}: is not a paor journal ({text})")
    return JournalError(f"{shown}: {text}")


def _line(error: psycopg.Error) -> str:
    """Return what PostgreSQL says, on one line; libpq's own words may name the host, never the password."""
    text = str(error.diag.message_primary or error).partition("Is the server running")[0]
    return " ".join(text.split())[:200]


__all__ = [
    "SQL",
    "ConnectionPool",
    "Identifier",
    "PostgresConnection",
    "arguments",
    "is_lost",
    "ours",
    "prepare",
    "psycopg",
    "told",
    "translate_errors",
]
