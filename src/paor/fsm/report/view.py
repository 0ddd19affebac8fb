"""A journal as the parts of the page: the list of runs, what waits, one run, and its rows chunk by chunk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ...prompts.clients.settings import environment_secrets
from ...states.base.errors import JournalDamaged, UsageError
from ...states.base.secrets import Scrubber, scrubbed
from ...states.base.version import VERSION
from ..explain.conversations import conversation_named
from ..explain.diff import diff
from ..journal.reader import Readable, reader_of
from ..journal.rows import RunRow
from .run_lines import run_line, wait_of
from .run_view import RunView

_KEPT = 16
"""Runs that a page under way keeps read."""


class JournalView:
    """
    Gives the parts of the page; keys of the environment stand in none of them.

    Args:
        journal: The `Journal`.
        name: What people call the journal; by default its path where the page is live, else the name of its file.
        live: The page follows the journal: runs are read on, and neither replayed nor verified but by `checks`.

    What is in a run's part `RunView.head` says, and of its rows `RowDetails.row`.
    """

    def __init__(self, journal: Readable, *, live: bool = False, name: str | None = None) -> None:
        self.journal = reader_of(journal, "a page takes a Journal, such as report(engine.journal, run_id)")
        self.live = live
        self.name = name or (self.journal.path if live else self.journal.name)
        self._scrub = Scrubber(environment_secrets())
        self._runs: dict[str, RunView] = {}

    def part(self, name: str) -> dict[str, Any]:
        """
        Return one part: ``index``, ``run/ID`` or ``run/ID/FIRST`` with the story's rows from that number on, or ``rows/ID/CHUNK``.

        Raises:
            UsageError: There is no such part.
            UnknownRun: There is no such run.
            JournalDamaged: A row cannot be read.
        """
        kind, _, rest = name.partition("/")
        run_id, _, number = rest.partition("/")
        if name == "index":
            return self.index()
        is_number = number.isascii() and number.isdigit() and len(number) < 9
        if kind == "run" and run_id and (is_number or name == f"run/{run_id}"):
            found = self.run(run_id).head(first=int(number or 0))
        elif kind == "rows" and is_number:
            found = self.run(run_id).chunk(int(number))
        else:
            raise UsageError(f"the page has no part {name[:80]!a}")
        return self.clean(found)

    def clean(self, part: dict[str, Any]) -> dict[str, Any]:
        """Return a part without the keys of the environment."""
        cleaned: dict[str, Any] = scrubbed(part, self._scrub)
        return cleaned

    def run(self, run_id: str) -> RunView:
        """Return one run, read as far as it has come."""
        view = self._runs.pop(run_id, None)
        if view is None:
            view = RunView(self.journal, run_id, checked=not self.live)
        elif self.live:
            view.advance()
        self._runs[run_id] = view
        while len(self._runs) > _KEPT:
            del self._runs[next(iter(self._runs))]
        return view

    def index(self, rows: Sequence[RunRow] | None = None) -> dict[str, Any]:
        """Return the list of runs, newest first, and what waits; of *rows* only, where they are given."""
        if rows is None:
            rows = self.journal.runs()
        waits = [
            found
            for row in rows
            if row.status == "waiting" and (found := wait_of(self.journal, row, self.name))
        ]
        lines = {row.run: run_line(self.journal, row) for row in sorted(rows, key=lambda row: row.run)}
        told = {
            "version": VERSION,
            "live": self.live,
            "journal": os.path.basename(self.name),
            "title": "",
            "open": rows[0].run_id if len(rows) == 1 else "",
            "runs": [lines[row.run] for row in rows],
            "waits": list({(item["run"], item["seq"]): item for item in waits}.values()),
        }
        return self.clean(told)

    def line(self, run_id: str) -> dict[str, Any]:
        """Return what the list says of one run."""
        return self.clean(run_line(self.journal, self.journal.run(run_id)))

    def checks(self, run_id: str) -> dict[str, Any]:
        """Return what a replay and a verification of a run find, ``replay`` and ``verify`` of its part."""
        return self.clean(RunView(self.journal, run_id, checked=False).checks())

    def difference(self, left: str, right: str) -> dict[str, Any]:
        """
        Return how two runs differ, with their ids as ``left`` and ``right``.

        Raises:
            UnknownRun: There is no such run.
            JournalDamaged: A row cannot be read.
        """
        told = diff(self.journal, left, right).wire()
        for side, run_id in (("left", left), ("right", right)):
            told |= {f"{side}_text": told[side]["text"], side: run_id}
        return self.clean(told)

    def talk(self, name: str) -> dict[str, Any]:
        """Return the messages of all rounds of a conversation that are not erased, as ``messages``; of damaged ones none, and why."""
        try:
            messages = conversation_named(self.journal, name).messages
        except JournalDamaged as error:
            return self.clean({"messages": [], "error": str(error)})
        return self.clean({"messages": [asdict(message) for message in messages]})

    def wait(self, row: RunRow) -> dict[str, Any] | None:
        """Return the question of one waiting run; None where there is none to be read."""
        found = wait_of(self.journal, row, self.name)
        return self.clean(found) if found is not None else None

    def waits(self) -> list[dict[str, Any]]:
        """Return every question that waits for a person, newest run first."""
        rows = self.journal.runs(status="waiting")
        found = {(item["run"], item["seq"]): item for row in rows if (item := self.wait(row))}
        return list(found.values())
