"""
Where a process can be killed: before and after every journal write, every model call and every call of a tool.

The seams are the narrow ones of the product: the one place that opens a connection, the model, and `Tool.invoke`. They
are found by what a statement does to the file, not by a list of statements, so that a new write is a new point.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from ..fsm.journal.sqlite import file as journal_file
from ..prompts.clients.background_loop import aask, ask
from ..prompts.model import ModelCall, Reply
from ..tools.tool import Tool

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
    """A model between two points, which takes its time."""

    def __init__(self, model: Any, points: Points) -> None:
        self._model = model
        self._points = points
        self.name = model.name

    def ask(self, call: ModelCall) -> Reply:
        """Ask."""
        with self._points.around(f"model {call.kind}"):
            return ask(self._model, call)

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same."""
        with self._points.around(f"model {call.kind}"):
            return await aask(self._model, call)


Ledger = Callable[[Tool, Any, Any], AbstractContextManager[Callable[[Any], None]]]
"""Called with a tool, its arguments and its context; holds for the call, and gives a function that takes what it returned."""


@contextmanager
def watching(
    points: Points, ledger: Ledger = lambda *call: nullcontext(lambda value: None)
) -> Iterator[None]:
    """
    Pass *points* with every write of a journal and every call of a tool that is opened or made within.

    Args:
        points: What is passed.
        ledger: Holds for each of the calls, from after the point before to before the point after.
    """
    connect = sqlite3.connect
    watched = type("Watched", (Watched,), {"points": points})

    def opened(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **{**options, "factory": watched})
        return connection

    invoke = Tool.invoke

    @contextmanager
    def called(tool: Tool, arguments: Any, context: Any) -> Iterator[Callable[[Any], None]]:
        with points.around(f"tool {tool.name}"), ledger(tool, arguments, context) as ended:
            yield ended

    def invoked(self: Tool, arguments: Any, context: Any) -> Any:
        if self.is_async:
            return awaited(self, arguments, context)
        with called(self, arguments, context) as ended:
            value = invoke(self, arguments, context)
            ended(value)
            return value

    async def awaited(self: Tool, arguments: Any, context: Any) -> Any:
        with called(self, arguments, context) as ended:
            value = await invoke(self, arguments, context)
            ended(value)
            return value

    replaced = SimpleNamespace(**{**vars(sqlite3), "connect": opened})
    with patch.object(journal_file, "sqlite3", replaced), patch.object(Tool, "invoke", invoked):
        yield
