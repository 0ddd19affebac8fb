"""Coverage of the machine over a test session: gathered as runs are released, summed over processes, reported and written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from ..fsm.explain.coverage import Coverage, coverage
from ..fsm.journal.reader import JournalReader
from ..fsm.journal.rows import transition_of
from ..fsm.lifecycle.callbacks import listen
from ..fsm.machine.machine import MACHINE
from ..fsm.replay.machines import machine_of_run
from ..states.base.errors import PaorError

if TYPE_CHECKING:
    from ..fsm.diagrams.overlays import Format

DRAWN: dict[str, Format] = {".svg": "svg", ".mmd": "mermaid", ".dot": "dot"}
"""Forms in which the coverage is drawn, by the ending of the file's name."""

ENDINGS = (".json", *DRAWN)

SHOWN = 40
"""Most lines on what is missing; the rest is counted."""


class Gathering:
    """
    The coverage of one process, and of those whose coverage it takes in.

    Args:
        least: Percent below which the session fails; None: never.
        files: Where it is written.
    """

    def __init__(self, least: float | None, files: Sequence[Path]) -> None:
        self.least = least
        self.total = Coverage.empty()
        self._files = files
        self._notes = list[str]()
        self._lock = threading.Lock()
        self._stop: Callable[[], None] = lambda: None

    @classmethod
    def start(cls, least: str | None, files: Sequence[str]) -> Self:
        """
        Return one that listens from now on.

        Raises:
            pytest.UsageError: No percentage, or a file of another ending, or one that cannot be written.
        """
        paths = [Path(name) for name in files]
        for path in paths:
            if path.suffix.lower() not in ENDINGS:
                message = f"--paor-cov-report={path}: expected a name with {', '.join(ENDINGS)}"
                raise pytest.UsageError(message)
            if path.is_dir() or not path.absolute().parent.is_dir():
                raise pytest.UsageError(f"--paor-cov-report={path}: cannot be written there")
        found = cls(_percent(least), paths)
        found._stop = listen(found.count_rows)
        return found

    def count_rows(self, journal: JournalReader, run: int, first: int) -> None:
        """Count the rows that a driver has written."""
        with self._lock:
            try:
                rows = [transition_of(row) for row in journal.own_rows(run, first)]
                machine = machine_of_run(journal, run) or MACHINE
            except (PaorError, ValueError):  # closed, or not written: nothing that could be counted
                return
            self.total = self.total + coverage(rows, machine=machine)

    def take(self, wire: str | None) -> None:
        """Add what another process has gathered."""
        if wire is not None:
            with self._lock:
                self.total = self.total + Coverage.read(wire)

    def wire(self) -> str:
        """Return what was gathered, for another process."""
        return self.total.wire_json()

    def stop(self) -> None:
        """Listen no more."""
        self._stop()

    def too_little(self) -> bool:
        """Return whether less is covered than was asked for."""
        return self.least is not None and self.total.percent < self.least

    def write(self) -> bool:
        """Write the files; return whether that could be done. What went wrong is in the summary."""
        written = True
        for path in self._files:
            try:
                path.write_text(self._form(path.suffix.lower()), encoding="utf-8")
                self._notes.append(f"wrote {path}")
            except OSError as error:
                self._notes.append(f"FAIL    {path} cannot be written ({error.strerror or error})")
                written = False
        return written

    def _form(self, ending: str) -> str:
        if ending == ".json":
            return self.total.wire_json()
        from ..fsm.diagrams.overlays import diagram

        return diagram(form=DRAWN[ending], coverage=self.total)

    def lines(self) -> list[str]:
        """Return the summary: what is covered, and what is not."""
        total = self.total
        message = [line for table in total.tables for line in _table_lines(table)]
        message += self._notes
        transitions = sum(table.transitions for table in total.tables)
        message.append(f"TOTAL   {total.percent:.1f} % in {transitions:,} transitions")
        if self.too_little():
            message.append(f"FAIL    less than --paor-cov-fail-under={self.least:g}")
        return message


def _table_lines(table: Coverage) -> list[str]:
    """Return what is covered of one machine, and what is not; of a host's own its own rows stand first."""
    rows, outcomes = table.missing_rows, table.missing_outcomes
    possible = len(table.possible)
    both = "each seen true and seen false where its row is tried"
    own = frozenset(row.key for row in table.own_rows)
    message = [f"own machine: {table.name}"] if own else []
    message += [
        f"rows    {len(table.rows) - len(rows):>3} of {len(table.rows):>3}  {table.rows_percent:5.1f} %",
        f"guards  {possible - len(outcomes):>3} of {possible:>3}  {table.guards_percent:5.1f} %  ({both})",
    ]
    missing = [f"never taken, a row of the host's own: {row.name}" for row in rows if row.key in own]
    missing += [f"never taken: {row.name}" for row in rows if row.key not in own]
    missing += [
        f"never {str(outcome.value).lower()}: {outcome.guard}, at {table.rows[outcome.place].name}"
        for outcome in sorted(outcomes, key=lambda one: table.rows[one.place].key not in own)
    ]
    message += missing[:SHOWN]
    if len(missing) > SHOWN:
        message.append(f"and {len(missing) - SHOWN} more; --paor-cov-report=FILE.json has all")
    message += [
        f"not in the table of this version: {step.source} {step.trigger} {step.dest}, {step.count} times"
        for step in table.foreign
    ]
    return message


def _percent(given: str | None) -> float | None:
    if given is None:
        return None
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise pytest.UsageError(f"--paor-cov-fail-under={given}: expected percent from 0 to 100")
    return value
