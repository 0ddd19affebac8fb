"""
The disk: one real SQLite file, reached through connections that come to a point before every statement, and can fail.

Every change that a connection commits is told to whoever watches, with the process that did it; a busy file is waited for in
simulated time.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from .inside import COLUMNS, Owner, row_of
from .processes import Process
from .schedule import Killed, Schedule

Lease = tuple[int, str | None, int | None, int]
"""Fence, owner, end and cancel of a lease."""

ROW = {name: place for place, name in enumerate(COLUMNS)}
"""Places of the columns in a row as values."""


class Watcher(Protocol):
    """Who is told what is in the file."""

    def row_is_in_the_file(self, process: Process, row: Sequence[Any], fence: int | None) -> None:
        """A row of a run was committed, with the token that its driver gave."""

    def lease_has_changed(self, process: Process, run: int, before: Lease | None, after: Lease) -> None:
        """The lease of a run was committed."""

    def run_is_in_the_file(self, run: int, run_id: str) -> None:
        """A run was created."""

    def run_is_queued(self, run: int) -> None:
        """A run stands in the queue from now on."""


class Disk:
    """
    The file of one world.

    Args:
        path: Of the journal.
        schedule: Time and turns.
        chance: Decides what fails.
        watcher: Is told of every commit.

    Attributes:
        fault: Chance of one statement that writes to fail.
        is_full: Whether nothing can be written now.
        timeout_s: Seconds that a busy file is waited for.
    """

    def __init__(self, path: Path, schedule: Schedule, chance: random.Random, watcher: Watcher) -> None:
        self.path, self.schedule, self.chance, self.watcher = path, schedule, chance, watcher
        self.fault = 0.0
        self.is_full = False
        self.timeout_s = 5.0
        self.faults = 0
        self.leases: dict[int, Lease] = {}
        self.observer = sqlite3.connect(path, timeout=0, isolation_level=None)

    def connect(self, path: str, **options: Any) -> Any:
        """Open the file for the process whose turn it is, or for nobody's."""
        actor = self.schedule.current
        if actor is None:
            return sqlite3.connect(path, **options)
        options["timeout"] = 0
        self.schedule.point("open")
        return Connection(self, sqlite3.connect(path, **options), actor.process)

    def fails(self, verb: str) -> str | None:
        """Return how a statement fails, None when it does not."""
        if self.is_full:
            return "SQLITE_FULL"
        if not self.fault or self.chance.random() >= self.fault:
            return None
        self.faults += 1
        kinds = {
            "begin": ("SQLITE_BUSY", "SQLITE_IOERR_READ"),
            "commit": ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC"),
        }
        return self.chance.choice(kinds.get(verb, ("SQLITE_FULL", "SQLITE_IOERR_WRITE")))

    def look(self, process: Process) -> None:
        """Tell of leases that have changed."""
        for run, *lease in self.observer.execute(
            "SELECT run, fence, owner, lease_until, cancel FROM leases ORDER BY run"
        ).fetchall():
            owner = (
                lease[1] if lease[1] and Owner.decode(lease[1]) else None
            )  # a free one may tell of an answer
            before, now = self.leases.get(run), (lease[0], owner, lease[2], lease[3])
            if before != now:
                self.leases[run] = now
                self.watcher.lease_has_changed(process, run, before, now)

    def reach(self, connection: Connection) -> None:
        """Get to the file, which nothing comes between."""

    def close(self) -> None:
        """Close what is open for nobody."""
        self.observer.close()


def sqlite_error(name: str) -> sqlite3.OperationalError:
    """Return the error of SQLite of a name."""
    error = sqlite3.OperationalError(f"simulated {name}")
    error.sqlite_errorcode = getattr(sqlite3, name)
    error.sqlite_errorname = name
    return error


class Connection:
    """
    What the engine calls of a `sqlite3.Connection`, of one process.

    Args:
        disk: The file.
        real: The connection behind it.
        process: Whose it is.
    """

    def __init__(self, disk: Disk, real: sqlite3.Connection, process: Process) -> None:
        self._disk, self._real, self.process = disk, real, process
        self.is_open, self.is_lost = True, False
        self._rows: list[tuple[Sequence[Any], int | None]] = []
        self._runs: list[tuple[int, str]] = []
        self._queued: list[int] = []
        self._touches_leases = False
        process.connections.append(real)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._real.in_transaction

    def close(self) -> None:
        """Close it."""
        self.is_open = False
        self._real.close()

    def undo(self) -> None:
        """Undo what was not committed, as a server does with a connection that it has lost."""
        if self._real.in_transaction:
            self._real.execute("ROLLBACK")
        self._forget()

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Execute a statement, or fail."""
        verb = _verb(sql)
        if verb == "rollback":
            self._forget()
            return self._real.execute(sql)
        self._disk.schedule.point(verb)
        self._disk.reach(self)
        if verb in ("begin", "commit", "insert", "update"):
            self._perhaps_fail(verb, sql)
        found = self._wait_for(sql, values)
        if verb in ("insert", "update"):
            self._note(sql, values, found.rowcount)
        if verb == "commit" or (verb == "update" and not self._real.in_transaction):
            self._tell()
        return found

    def executemany(self, sql: str, values: Iterable[Sequence[Any]]) -> Any:
        """Execute a statement for each of many."""
        verb, rows = _verb(sql), list(values)
        self._disk.schedule.point(verb)
        self._disk.reach(self)
        found = self._real.executemany(sql, rows)
        for row in rows:
            self._note(sql, row, 1)
        return found

    def _wait_for(self, sql: str, values: Sequence[Any]) -> Any:
        """Execute a statement; while another process has the file, simulated time passes."""
        schedule, end = self._disk.schedule, None
        while True:
            try:
                return self._real.execute(sql, values)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname is None or not error.sqlite_errorname.startswith("SQLITE_BUSY"):
                    raise
                end = end or schedule.now_us + round(self._disk.timeout_s * 1e6)
                if schedule.now_us >= end:
                    raise
                schedule.wait(0.02)

    def _perhaps_fail(self, verb: str, sql: str) -> None:
        name = self._disk.fails(verb)
        if name is None or (name == "SQLITE_FULL" and verb == "begin"):
            return
        if verb == "commit" and name == "SQLITE_IOERR_FSYNC":  # it is in the file, and nobody is told so
            self._real.execute(sql)
            self._tell()
        raise sqlite_error(name)

    def _note(self, sql: str, values: Sequence[Any], changed: int) -> None:
        if sql.startswith("INSERT INTO rows"):
            if changed == 1:
                key, _, text, own, _, *driver = values
                self._rows.append((row_of(key >> 32, text, b"", own), driver[-1] if driver else None))
        elif sql.startswith("INSERT INTO specs"):
            self._runs.append((values[0], values[1]))
        elif sql.startswith("INSERT INTO queue"):
            self._queued.append(values[0])
        elif "leases" in sql:
            self._touches_leases = True

    def _tell(self) -> None:
        """Tell what is in the file now."""
        disk, process = self._disk, self.process
        for run, run_id in self._runs:
            disk.watcher.run_is_in_the_file(run, run_id)
        for run in self._queued:
            disk.watcher.run_is_queued(run)
        if self._touches_leases:
            disk.look(process)
        for row, fence in self._rows:
            disk.watcher.row_is_in_the_file(process, row, fence)
        self._forget()

    def _forget(self) -> None:
        self._rows, self._runs, self._queued, self._touches_leases = [], [], [], False


_VERBS: dict[str, str] = {}


def _verb(sql: str) -> str:
    verb = _VERBS.get(sql)
    if verb is None:
        verb = _VERBS.setdefault(sql, sql.split(None, 1)[0].lower())
    return verb


__all__ = ["ROW", "Connection", "Disk", "Killed", "Lease", "sqlite_error"]
