"""
Reading many runs of a journal in the order of their numbers: each table from its beginning to its end, no statement a run.

A table is read in pages, from the first row that is asked for on, and the pages that were used last are kept: going from run to run costs
a statement a page. What is asked for out of order costs a statement, as of any `JournalReader`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

from ...states.run.spec import Spec
from .backend import JournalSource
from .lineage import SharedPart
from .reader import JournalReader
from .record import COLUMNS
from .rows import RunRow

_Rows = list[tuple[Any, ...]]

_PAGE_ROWS, _PAGE_BYTES, _PAGES = 256, 1 << 20, 8
"""Of one table: most rows of a page, about how many bytes one is to have, and how many pages are kept."""

_END = 2**63 - 1
_SPECS_KEPT = 16

_key = itemgetter(0)


class ReadAhead(JournalReader):
    """
    A snapshot of a journal that is read run by run.

    Args:
        source: What the snapshot is read through; nothing of it changes.
        runs: The runs that are read.
    """

    def __init__(self, source: JournalSource, runs: Collection[RunRow]) -> None:
        super().__init__(source)
        self._runs = {row.run_id: row for row in runs}
        self._tables: dict[str, _Pages] = {}
        self._specs: dict[int, Spec] = {}

    def keyed(self, table: str, first: int, last: int, most: int = _END) -> _Rows:
        """See `JournalReader.keyed`; with *most*, which is given by what reads in pages of its own, nothing is read ahead."""
        if most < _END:
            return super().keyed(table, first, last, most)
        if table not in self._tables:
            self._tables[table] = _Pages(partial(super().keyed, table))
        return self._tables[table].between(first, last)

    def run(self, run_id: str) -> RunRow:
        """See `fsm.journal_api.Journal.run`."""
        return self._runs[run_id] if run_id in self._runs else super().run(run_id)

    def columns(
        self,
        run: int,
        names: Collection[str],
        triggers: Collection[str] = (),
        first: int = 0,
        last: int = 2**32 - 1,
    ) -> _Rows:
        """See `JournalReader.columns`."""
        places, trigger = [COLUMNS.index(name) for name in names], COLUMNS.index("trigger")
        rows = self.own_rows(run, first, last)
        return [tuple(row[at] for at in places) for row in rows if not triggers or row[trigger] in triggers]

    def lineage(self, run: int) -> tuple[SharedPart, ...]:
        """See `JournalReader.lineage`."""
        columns = self.root_columns(run)
        if columns["parent_run_id"] is None:
            return (SharedPart(run, columns["run_id"], 0, 0, 0),)
        return super().lineage(run)

    def forks(self, run_id: str) -> list[tuple[str, int]]:
        """See `JournalReader.forks`."""
        return self._forks.get(run_id, [])

    @cached_property
    def _forks(self) -> dict[str, list[tuple[str, int]]]:
        found: dict[str, list[tuple[str, int]]] = {}
        for _, fork, parent, seq in self.index.forks():
            found.setdefault(parent, []).append((fork, seq))
        return found

    def called_by(self, run_id: str) -> list[str]:
        """See `JournalReader.called_by`."""
        return self._called.get(run_id, [])

    @cached_property
    def _called(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for caller, run_id in self.index.called():
            found.setdefault(caller, []).append(run_id)
        return found

    def _spec(self, row: RunRow) -> Spec:
        if row.run not in self._specs:
            while len(self._specs) >= _SPECS_KEPT:
                del self._specs[next(iter(self._specs))]
            self._specs[row.run] = super()._spec(row)
        return self._specs[row.run]


class _Pages:
    """
    One table by its key.

    Args:
        read: Returns the rows from one key to another, at most so many; each begins with its key.
    """

    def __init__(self, read: Callable[[int, int, int], _Rows]) -> None:
        self._read = read
        self._most = 16
        self._kept: list[tuple[int, int, _Rows]] = []

    def between(self, first: int, last: int) -> _Rows:
        """Return the rows from key *first* to *last*."""
        for page in reversed(self._kept):
            low, high, rows = page
            if low <= first and last <= high:
                if page is not self._kept[-1]:
                    self._kept.remove(page)
                    self._kept.append(page)
                place = bisect_left(rows, first, key=_key)
                if first == last:
                    return rows[place : place + 1] if place < len(rows) and rows[place][0] == first else []
                return rows[place : bisect_right(rows, last, place, key=_key)]
        rows = self._read(first, _END, self._most)
        high = rows[-1][0] if len(rows) == self._most else _END
        size = sum(len(row[-1]) for row in rows if isinstance(row[-1], str | bytes))
        self._most = min(_PAGE_ROWS, max(1, _PAGE_BYTES * max(self._most, 8) // max(size, 1)))
        if high < last:
            return self._read(first, last, _END)
        self._kept = [*self._kept[1 - _PAGES :], (first, high, rows)]
        return rows[: bisect_right(rows, last, key=_key)]
