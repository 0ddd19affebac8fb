"""Opening a journal where it is: a file of SQLite, the memory of this process, or a schema of PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from ....states.base.errors import UsageError
from ..backend import DURABILITIES, Backend, Durability
from ..leases import LEASE_S
from ..postgres.address import is_address
from ..reader import JournalReader
from ..run_writer import RunWriter
from ..sqlite.backend import SqliteBackend
from ..sqlite.migrations import migrate
from ..sqlite.source import SqliteSource
from ..store import JournalStore


def open_store(
    path: str | os.PathLike[str] | Backend,
    durability: Durability = "full",
    *,
    lease_s: float = LEASE_S,
    busy_timeout_s: float = 30.0,
    read_only: bool = False,
) -> JournalStore:
    """Return an open journal; args and errors are those of `fsm.journal_api.Journal`."""
    if durability not in DURABILITIES:
        raise UsageError(f"durability {durability!r}: expected one of {', '.join(DURABILITIES)}")
    lease_s = _seconds("lease_s", lease_s, least=0.001)
    busy_timeout_s = _seconds("busy_timeout_s", busy_timeout_s, least=0)
    if isinstance(path, Backend):
        return JournalStore(path, durability=durability, lease_s=lease_s, read_only=read_only)
    try:
        path = os.fsdecode(path)
    except TypeError:
        raise UsageError(f"a journal is named by its path, not by {path!a:.80}") from None
    if "\0" in path:
        raise UsageError(f"{path!r}: is not a file name")
    backend: Backend
    if is_address(path):
        from ..postgres.backend import PostgresBackend  # only who has such a journal needs its driver

        backend = PostgresBackend(path, durability, busy_timeout_s=busy_timeout_s, read_only=read_only)
    else:
        backend = SqliteBackend(path, durability, busy_timeout_s=busy_timeout_s, read_only=read_only)
    return JournalStore(backend, durability=durability, lease_s=lease_s, read_only=read_only)


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
        source = SqliteSource(connection, name, place="")
        yield RunWriter(connection, source.insert_payloads), JournalReader(source)


def _seconds(name: str, value: float, *, least: float) -> float:
    """
    Return a time that a journal is opened with.

    Raises:
        UsageError: It is no number from *least* to a year; a lease that has run out at once would let two drivers in.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 31_536_000:
        raise UsageError(f"{name}: expected seconds from {least} to a year, not {value!a:.80}")
    return value
