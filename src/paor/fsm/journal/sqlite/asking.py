"""A host's own question to a journal file in SQL: its rows one by one, and what SQLite's errors mean for whoever asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ....states.base.errors import JournalBusy, UsageError
from .database import DatabaseOfJournal
from .file import ours

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
