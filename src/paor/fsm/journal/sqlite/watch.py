"""Noticing that a journal was written, by whatever process: asked often, it reads one number of the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress

from ....states.base.errors import PaorError
from ..backend import NEWEST_ROW
from .file import Identity, has_log, identity, open_reader


class JournalWatch:
    """
    Whether a journal was written since it was last asked; for one thread.

    It has a connection of its own, whose ``PRAGMA data_version`` changes with every commit of any other. A file that nobody has
    open has no such number: then its size and time tell. A journal in memory is written by this process only, which counts.

    Args:
        path: Of the file, for messages.
        place: Where that is.
        written: Returns how much this process has written, for a journal in memory.
    """

    look_s = pace_s = 0.025  # a tenth of what a person would notice

    def __init__(self, path: str, place: str, written: Callable[[], int]) -> None:
        self._path, self._place, self._written = path, place, written
        self._in_memory = path in ("", ":memory:")
        self._connection: sqlite3.Connection | None = None
        self._standing: Identity | None = None
        self._seen: object = None
        self._node = 0

    def hear(self, written: Callable[[int | None], None]) -> Callable[[], None]:
        """Call nobody: a file is looked at."""
        return lambda: None

    def changed(self) -> bool:
        """Return whether it was; the first time always. A file that cannot be read now has not changed."""
        seen = self._now()
        if seen is None or seen == self._seen:
            return False
        self._seen = seen
        return True

    def newest(self) -> int:
        """Return the number of the newest row as the file has it now; 0 for none, for a journal in memory, and where it cannot be read."""
        if self._connection is None:
            return 0
        try:
            return int(self._connection.execute(NEWEST_ROW).fetchone()[0])
        except sqlite3.Error:
            return 0

    def close(self) -> None:
        """Close the connection; the next question opens it again."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = self._seen = self._standing = None

    def _now(self) -> object:
        if self._in_memory:
            return self._written()
        place = self._place
        node = identity(place)
        if self._connection is not None and self._is_other(node):
            self.close()
        try:
            if self._connection is None:
                self._connection, self._standing = open_reader(self._path, busy_timeout_s=0.1, place=place)
                self._node = node[0]
            version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except (PaorError, sqlite3.Error):
            self.close()
            return None
        return id(self._connection), version, self._standing

    def _is_other(self, node: Identity) -> bool:
        """Return whether the path no longer refers to the open file."""
        if node[0] != self._node:
            return True
        return self._standing is not None and (node != self._standing or has_log(self._place))
