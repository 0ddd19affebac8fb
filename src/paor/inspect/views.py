"""
What the page is told: its parts, read from the journal and kept as long as they hold.

Reading has a connection of its own, so no run waits for somebody who looks. What is read is never written, and what was erased is
forgotten with the next question: the views are made anew.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..fsm.journal.reader import JournalReader
from ..fsm.journal.rows import RunRow
from ..fsm.journal_api import Journal
from ..fsm.replay.callers import waits_for_called
from ..fsm.report.run_view import RunView
from ..fsm.report.view import JournalView
from ..states.base.errors import UnknownRun, UsageError

PART = re.compile(
    r"index|run/(?P<run>[^/]{1,200})(?:/(?P<first>[0-9]{1,7}))?|rows/(?P<rows>[^/]{1,200})/(?P<chunk>[0-9]{1,7})"
    r"|diff/(?P<left>[^/]{1,200})/(?P<right>[^/]{1,200})|talk/(?P<talk>[^/]{1,200})"
)
"""Names of the parts that are served."""

CHECKED_ROWS = 5_000
"""Rows of the longest run that is replayed and verified for the page, which takes about five seconds of the processor."""

ENDED = ("done", "failed")
"""What the status of a run is after which no row comes."""

RUNS_KEPT = 16
"""Runs that are kept read; a run of 50,000 rows takes about 20 MB."""


@dataclass(slots=True)
class _Kept:
    """What one run was read into, who reads on, and what checking it found once it had ended."""

    run: RunView | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    checking: threading.Lock = field(default_factory=threading.Lock)
    checks: dict[str, Any] = field(default_factory=dict)


class Views:
    """
    The parts of one journal, for any number of threads.

    A run is read by one thread at a time and different runs at once, so that a large one holds nobody up but those who open it. What cannot
    change any more is kept: the lines of ended runs, and a question as long as its run stands still.

    Args:
        journal: What is read.
        added: What the index says beside the runs.
        after: What a question says beside what its answer counts for, such as who goes on with the run.
    """

    def __init__(self, journal: Journal, added: Mapping[str, Any] | None = None, after: str = "") -> None:
        self._journal, self._added, self._after = journal, dict(added or {}), after
        self._view = JournalView(journal, live=True)
        self._lock = threading.Lock()
        self._runs: dict[str, _Kept] = {}
        self._lines: dict[str, dict[str, Any]] = {}
        self._waits: dict[str, tuple[bytes, dict[str, Any] | None]] = {}
        self._erasures = 0

    @property
    def reader(self) -> JournalReader:
        """What reads the journal."""
        return self._journal.reader

    def part(self, name: str, added: Mapping[str, Any] | None = None) -> bytes:
        """
        Return a part as JSON, with what is *added* to it.

        Raises:
            UnknownRun: There is no such part, run or piece of its rows.
        """
        found = PART.fullmatch(name)
        if found is None:
            raise UnknownRun(f"there is no part {name!a:.80}")
        if found["left"] is not None:
            self.check_run(found["left"])
            self.check_run(found["right"])
            return json_bytes(self._view.difference(found["left"], found["right"]))
        if found["talk"] is not None:
            self.check_run(found["talk"])
            conversation = self.reader.run(found["talk"]).conversation
            return json_bytes(self._view.talk(conversation) if conversation else {"messages": []})
        run_id = found["run"] or found["rows"]
        if run_id is None:
            return json_bytes(self._index() | dict(added or {}))
        self.check_run(run_id)
        kept = self._kept(run_id)
        with kept.lock:
            run = self._read(kept, run_id)
            chunk, first = found["chunk"], int(found["first"] or 0)
            told = self._view.clean(run.chunk(int(chunk)) if chunk else run.head(first=first))
        checks = kept.checks if found["run"] else {}
        return json_bytes(told | checks | dict(added or {}))

    def erasures(self) -> int:
        """Return how often something was erased."""
        return self.reader.index.count_erasures()

    def _index(self) -> dict[str, Any]:
        lines = self._forget_erased()
        rows = self.reader.runs()
        shown = [self._line(row, lines) for row in rows]
        told = {"open": rows[0].run_id if len(rows) == 1 else "", "runs": shown}
        return self._view.index([]) | told | {"waits": self.waits()} | self._added

    def line(self, run_id: str) -> dict[str, Any]:
        """Return one run as a line of the index."""
        lines = self._forget_erased()
        return self._line(self.reader.run(run_id), lines)

    def _line(self, row: RunRow, lines: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Return a line, kept in *lines* once its run has ended: those of before the reading, which an erasure leaves behind."""
        line = lines.get(row.run_id)
        if line is None:
            line = self._view.line(row.run_id)
            if row.status in ENDED:
                lines[row.run_id] = line
        return line

    def entries(self, run_id: str, first: int, most: int) -> Sequence[Mapping[str, Any]]:
        """Return the rows of a run from number *first* on, as its story has them, at most so many."""
        kept = self._kept(run_id)
        with kept.lock:
            rows = self._read(kept, run_id).entries(first, most)
        return list(self._view.clean({"rows": rows})["rows"])

    def waits(self) -> list[dict[str, Any]]:
        """Return what waits for a person, newest run first."""
        lines = self._forget_erased()
        found, waits = {}, {}
        for row in self.reader.runs(status="waiting"):
            kept = self._waits.get(row.run_id)
            if (
                kept is None or kept[0] != row.head_hash or waits_for_called(self.reader, row)
            ):  # its question is that of another run
                kept = row.head_hash, self._view.wait(row)
            waits[row.run_id] = kept
            if (wait := kept[1]) is not None:
                counts = f"{wait['counts_for']}; {self._after}" if self._after else wait["counts_for"]
                found[wait["run"], wait["seq"]] = wait | {"counts_for": counts}
        with self._lock:
            if self._lines is lines:  # nothing was erased while this was read
                self._waits = waits
        return list(found.values())

    def check(self, run_id: str) -> None:
        """Replay and verify a run that has ended, once, so that its part says what was found; none of more than `CHECKED_ROWS` rows."""
        row = self.reader.run(run_id)
        if row.status not in ENDED or row.head_seq >= CHECKED_ROWS:
            return
        kept = self._kept(run_id)
        with kept.checking:
            if not kept.checks:
                kept.checks = self._view.checks(run_id)

    def check_run(self, run_id: str) -> None:
        """Raise `UnknownRun` where no run has exactly this id: an address names one run, whatever comes later."""
        if self.reader.run(run_id).run_id != run_id:
            raise UnknownRun(f"there is no run {run_id!a:.80}")

    def newest(self, count: int) -> list[str]:
        """Return the ids of the newest runs, and of the newest that have not ended, oldest first."""
        return self.reader.index.newest_and_open(count)

    def _kept(self, run_id: str) -> _Kept:
        """Return what is kept of a run."""
        self._forget_erased()
        with self._lock:
            kept = self._runs.pop(run_id, None) or _Kept()
            self._runs[run_id] = kept
            while len(self._runs) > RUNS_KEPT:
                del self._runs[next(iter(self._runs))]
            return kept

    def _read(self, kept: _Kept, run_id: str) -> RunView:
        """Return a run, read as far as it has come; called under its lock."""
        if kept.run is None:
            kept.run = RunView(self.reader, run_id, checked=False)
        else:
            kept.run.advance()
        return kept.run

    def _forget_erased(self) -> dict[str, dict[str, Any]]:
        """Forget all that was read before something was erased; return the lines that are kept now."""
        erasures = self.erasures()
        with self._lock:
            if erasures != self._erasures:
                self._runs, self._lines, self._waits = {}, {}, {}
                self._erasures = erasures
            return self._lines


class Changes:
    """
    Which runs have changed since they were last asked for; for one thread.

    A run that has ended is not looked at any more, so it costs as much as there are runs that have not.

    Args:
        reader: What reads the journal.
    """

    def __init__(self, reader: JournalReader) -> None:
        self._index = reader.index
        self._newest = self._index.last_number()
        self._heads: dict[int, int | None] = dict.fromkeys(self._index.open())
        self._erased: set[int] = set()
        self.look()

    def look(self) -> list[str]:
        """Return the ids of the runs that are new, have a new row, or were erased in part, oldest first."""
        found: dict[int, str] = {}
        for run, run_id, head in self._index.heads(self._heads, self._newest):
            if self._heads.get(run, -1) != head:
                self._heads[run], found[run] = head, run_id
        self._newest = max([self._newest, *found])
        for run in self._index.ended(found):
            del self._heads[run]
        erased = self._index.erasures()
        found |= self._index.names({key >> 32 for key in erased - self._erased})
        self._erased = erased
        return [found[run] for run in sorted(found)]


def json_bytes(value: object) -> bytes:
    """
    Return a value as JSON in ASCII, half characters as escapes.

    Raises:
        UsageError: It holds a number that JSON has not.
    """
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    except ValueError as error:
        raise UsageError(f"this cannot be told as JSON: {error}") from None
