"""
The journal on another SQLite, whose files are ours to break: `apsw` behind the few methods of `sqlite3` that it uses.

A fault below SQLite needs a VFS, and the standard library's `sqlite3` cannot be given one from Python. `apsw` can, and
brings its own SQLite in its wheels, so this works wherever pip does. What is opened through `on` goes to a named VFS.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import apsw

from paor.fsm.journal.sqlite import file as journal_file

_PLAIN = {code: str(name) for name, code in apsw.mapping_result_codes.items() if isinstance(code, int)}
_EXTENDED = {
    code: str(name) for name, code in apsw.mapping_extended_result_codes.items() if isinstance(code, int)
}


@contextmanager
def _translated() -> Iterator[None]:
    """Raise what `sqlite3` would raise."""
    try:
        yield
    except apsw.Error as error:
        extended = getattr(error, "extendedresult", apsw.SQLITE_ERROR)
        code = extended & 0xFF
        told = (
            sqlite3.DatabaseError
            if code in (apsw.SQLITE_CORRUPT, apsw.SQLITE_NOTADB)
            else sqlite3.OperationalError
        )
        raised = told(str(error))
        raised.sqlite_errorcode = extended
        raised.sqlite_errorname = _EXTENDED.get(extended) or _PLAIN.get(code, "SQLITE_ERROR")
        raise raised from None


class Rows:
    """A statement's rows, all read."""

    def __init__(self, rows: list[tuple[Any, ...]], changed: int) -> None:
        self._rows = rows
        self.rowcount = changed

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return what is left."""
        rows, self._rows = self._rows, []
        return rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next one."""
        return self._rows.pop(0) if self._rows else None

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        """Return the next ones."""
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchall())

    def close(self) -> None:
        """Do nothing: all rows are read already."""


class Connection:
    """
    What the journal calls of a `sqlite3.Connection`.

    Args:
        path: File or URI.
        vfs: Name of the VFS that it is opened with.
        timeout: Seconds to wait for a lock.
        uri: Whether *path* is a URI.
        **options: Of `sqlite3.connect`, which change nothing here.
    """

    def __init__(
        self, path: str, *, vfs: str, timeout: float = 5.0, uri: bool = False, **options: Any
    ) -> None:
        self.text_factory: Any = str
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | (apsw.SQLITE_OPEN_URI if uri else 0)
        with _translated():
            self._connection = apsw.Connection(path, flags=flags, vfs=vfs)
            self._connection.set_busy_timeout(round(timeout * 1000))

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.in_transaction

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        """Execute a statement to its end."""
        with _translated():
            before = self._connection.total_changes()
            rows = list(self._connection.execute(sql, tuple(values)))
            return Rows(rows, self._connection.total_changes() - before)

    def executemany(self, sql: str, values: Sequence[Sequence[Any]]) -> Rows:
        """Execute a statement for each of many."""
        return Rows([], sum(self.execute(sql, item).rowcount for item in values))

    def close(self) -> None:
        """Close the connection; like `sqlite3`, whatever the checkpoint at the end comes to."""
        try:
            self._connection.close(True)
        except apsw.Error:
            self._connection.close(True)


@contextmanager
def on(vfs: str) -> Iterator[None]:
    """Open every journal within through a VFS."""

    def connect(path: str, **options: Any) -> Any:
        return Connection(path, vfs=vfs, **options)

    replaced = SimpleNamespace(**{**vars(sqlite3), "connect": connect})
    setattr(journal_file, "sqlite3", replaced)  # noqa: B010 - a module's import is no attribute of its own to mypy
    try:
        yield
    finally:
        setattr(journal_file, "sqlite3", sqlite3)  # noqa: B010
