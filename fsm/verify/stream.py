"""Reading a whole table in bulk: in order of its key, a bounded number of rows in memory, no statement a run."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..journal.reader import JournalReader

_key = itemgetter(0)


class Stream:
    """
    The rows of one statement, handed out up to a key at a time.

    Args:
        reader: A snapshot of the journal.
        sql: Selects the key first; has one parameter, the lowest key that is wanted, and is ordered by the key.
        size: Rows that are fetched together.
        first: The lowest key that is wanted.
    """

    def __init__(self, reader: JournalReader, sql: str, size: int, first: int = -(2**63)) -> None:
        self._reader, self._sql, self._size = reader, sql, size
        self._rows: list[tuple[Any, ...]] = []
        self._last = first - 1
        self._cursor: sqlite3.Cursor | None = None
        self._ended = False

    def take(self, limit: int) -> list[tuple[Any, ...]]:
        """Return some of the next rows whose key is below *limit*; none when all of them were taken."""
        rows = self._rows or self._fetch()
        if not rows:
            return rows
        if rows[-1][0] < limit:
            self._rows = []
            return rows
        place = bisect_left(rows, limit, key=_key)
        self._rows = rows[place:]
        return rows[:place]

    def _fetch(self) -> list[tuple[Any, ...]]:
        if self._ended:
            return []
        try:
            if self._cursor is None:
                self._cursor = self._reader.cursor(self._sql, (self._last + 1,))
            rows = self._cursor.fetchmany(self._size)
        except sqlite3.OperationalError as error:  # a text that is no UTF-8: read on, with marks in its place
            if not self._reader.read_leniently(error):
                raise
            self._cursor = self._reader.cursor(self._sql, (self._last + 1,))
            rows = self._cursor.fetchmany(self._size)
        if rows:
            self._last = rows[-1][0]
        self._ended = not rows
        self._rows = rows
        return rows
