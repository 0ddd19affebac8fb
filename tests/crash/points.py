"""
Where a process can be killed: before and after every journal write, every model call and every call of a tool.

Three narrow places of the product are replaced: the one that opens a connection, the model, and `Tool.invoke`. Points are
found by what a statement does to the file, not by a list of statements, so that a new write is a new point.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from paor import ModelCall, Reply, Tool
from paor.fsm.journal.sqlite import file as journal_file

_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "DROP", "ALTER", "VACUUM")
RENEWER = "paor-lease"
"""Thread whose writes come by the clock; they are points only where it is asked for."""


class Points:
    """
    A counter of the places that a process has passed, which kills it at one of them.

    Args:
        target: Number of the point, from 1, at which the process ends; 0: none.
        renewals: Whether the renewal of a lease counts, and nothing else.

    Attributes:
        names: Every point that was passed, such as ``write before COMMIT``.
    """

    def __init__(self, target: int = 0, *, renewals: bool = False) -> None:
        self.target = target
        self.names: list[str] = []
        self._renewals = renewals
        self._lock = threading.Lock()

    def pass_by(self, name: str) -> None:
        """Count a point; at the target the process ends like one that loses its power: at once, without cleaning up."""
        if (threading.current_thread().name == RENEWER) != self._renewals:
            return
        with self._lock:
            self.names.append(name)
            if len(self.names) == self.target:
                os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def around(self, name: str) -> Iterator[None]:
        """Give a point before and one after something, also after something that raised."""
        self.pass_by(f"{name}, before")
        try:
            yield
        finally:
            self.pass_by(f"{name}, after")


class Watched(sqlite3.Connection):
    """A connection whose every statement that changes the file is between two points."""

    points: Points

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement."""
        with self._around(self._write(sql)):
            return super().execute(sql, *values)

    def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement for each of many."""
        with self._around(self._write(sql)):
            return super().executemany(sql, *values)

    def commit(self) -> None:
        """Commit, if there is anything."""
        with self._around("write COMMIT" if self.in_transaction else None):
            super().commit()

    def _around(self, name: str | None) -> AbstractContextManager[None]:
        return self.points.around(name) if name is not None else nullcontext()

    def _write(self, sql: str) -> str | None:
        """Return the name of what *sql* makes lasting, None when it changes nothing, or nothing yet."""
        words = sql.split(None, 2)
        verb = words[0].upper()
        if self.in_transaction:
            return "write COMMIT" if verb in ("COMMIT", "END", "RELEASE") else None
        if verb == "PRAGMA" and "journal_mode" in sql:
            return "switch to a log"
        return f"write {verb} {words[1]}" if verb in _WRITES else None


class WatchedModel:
    """A model between two points."""

    def __init__(self, model: Any, points: Points) -> None:
        self._model = model
        self._points = points
        self.name = model.name

    def ask(self, call: ModelCall) -> Reply:
        """Ask."""
        with self._points.around(f"model {call.kind}"):
            reply: Reply = self._model.ask(call)
        return reply

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same."""
        with self._points.around(f"model {call.kind}"):
            reply: Reply = await self._model.aask(call)
        return reply


@contextmanager
def watching(points: Points) -> Iterator[None]:
    """Pass *points* with every write of a journal that is opened within, and with every call of a tool."""
    connect, invoke = sqlite3.connect, Tool.invoke
    watched = type("Watched", (Watched,), {"points": points})

    def opened(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **{**options, "factory": watched})
        return connection

    def invoked(self: Tool, arguments: Any, context: Any) -> Any:
        with points.around(f"tool {self.name}"):
            return invoke(self, arguments, context)

    replaced = SimpleNamespace(**{**vars(sqlite3), "connect": opened})
    with patch.object(journal_file, "sqlite3", replaced), patch.object(Tool, "invoke", invoked):
        yield
