"""
A journal as a `sqlite_utils.Database` that can only read: for auditors, notebooks and `paor query`.

Three things keep it from writing: the file is opened for reading only, ``query_only`` is set, and an authorizer lets
nothing pass but reading. The last one also refuses what SQLite takes for no write: attaching other files, loading code
into the process, and settings that outlive a statement. SQLite asks it while it prepares a statement, so what is
refused has not begun. sqlite-utils is imported with the first use.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ....states.base.errors import JournalError
from .file import Identity, has_log, identity, open_reader, translate_errors
from .source import SqliteSource

if TYPE_CHECKING:
    from sqlite_utils import Database

READS = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE))
"""What a query is made of."""

FRAMES = frozenset((sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT))
"""What keeps several queries at one moment of the file; sqlite-utils wraps each of its queries so."""

OF_SCHEMA = frozenset(
    ("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list")
)
"""Pragmas that tell of the schema; their argument names a table or an index."""

OF_FILE = frozenset(
    (
        "application_id",
        "user_version",
        "schema_version",
        "page_size",
        "page_count",
        "encoding",
        "journal_mode",
    )
) | frozenset(("collation_list", "compile_options", "database_list", "function_list", "recursive_triggers"))
"""Pragmas that are read when they have no argument and written when they have one."""

CODE = frozenset(("load_extension", "fts3_tokenizer"))
"""Functions that could bring code into the process."""


def authorize(
    action: int, first: str | None, second: str | None, _place: str | None, _inner: str | None
) -> int:
    """Answer SQLite's question whether a statement may do *action*; see `sqlite3.Connection.set_authorizer`."""
    if action in READS or action in FRAMES:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if str(second).lower() in CODE else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA:
        name = str(first).lower()
        reads = name in OF_SCHEMA or name in ("integrity_check", "quick_check", "foreign_key_check")
        return sqlite3.SQLITE_OK if reads or (name in OF_FILE and second is None) else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_DENY


class DatabaseOfJournal:
    """
    The database of one journal: opened with the first use, anew when the file has changed beneath it.

    Args:
        source: What the journal is read through.
    """

    def __init__(self, source: SqliteSource) -> None:
        self._source = source
        self._path, self._place = source.path, source.place
        self._standing: Identity | None = None
        self._databases: list[Database] = []
        self._closed = False

    def get(self) -> Database:
        """
        Return a database that shows the journal as it is now: the one of before, or another when that shows it no more.

        Raises:
            JournalError: The journal has been closed, or cannot be read.
        """
        if self._closed:
            raise JournalError(f"{self._path}: the journal has been closed; open it again")
        with self._source.lock:
            if not self._databases or self._source.in_memory or self._is_stale():
                self._databases.append(self._open())
            return self._databases[-1]

    def close(self) -> None:
        """Close every database that was returned."""
        self._closed = True
        for database in self._databases:
            database.conn.close()

    def _is_stale(self) -> bool:
        return self._standing is not None and (
            identity(self._place) != self._standing or has_log(self._place)
        )

    def _open(self) -> Database:
        from sqlite_utils import Database

        if self._source.in_memory:
            connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            with translate_errors(self._path):
                self._source.connection.backup(connection)
        else:
            connection, self._standing = open_reader(
                self._path, busy_timeout_s=self._source.busy_timeout_s, place=self._place
            )
        connection.execute("PRAGMA query_only=ON")
        connection.set_authorizer(authorize)  # last: it refuses the line above
        return Database(connection, recursive_triggers=False, execute_plugins=False)
