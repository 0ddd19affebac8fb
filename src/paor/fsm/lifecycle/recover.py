"""
Recovering: going on with every run that has not ended, that waits for nobody, and that nobody drives.

One query finds them and each is resumed. Two processes that recover at once share the runs: whoever has the lease of one drives
it, and the other goes on to the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from ...states.base.errors import Erased, LeaseHeld, PaorError
from ..journal.reader import JournalReader
from ..journal.rows import RunRow
from ..replay.callers import asking_run, caller_of, unfinished_called
from ..runtime.result import Result
from .options import ResumeOptions
from .resume import Continuation, aperformed, continuation, is_overdue, performed
from .runner import Runner

OptionsOfRun = Callable[[RunRow], ResumeOptions]
"""Returns what a run is resumed with, such as its connections, which are never in a journal."""


@dataclass(frozen=True, slots=True)
class Recovery(Sequence[Result]):
    """
    What recovering has come to: a sequence of the results, with the runs that could not go on beside it.

    Attributes:
        results: Of the runs that were continued, the oldest run first: ended, or waiting for a person now.
        refused: By run id the error of each run that could not go on, such as `RunChanged`; nothing of those was changed.
    """

    results: tuple[Result, ...]
    refused: dict[str, PaorError]

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Result, ...]: ...
    def __getitem__(self, index: int | slice) -> Result | tuple[Result, ...]:
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)


def stranded(runner: Runner) -> list[RunRow]:
    """Return the runs that nobody drives and that could go on, oldest first; one that was called goes on with its caller."""
    journal = runner.journal.reader
    running, waiting = journal.runs(status="running"), journal.runs(status="waiting")
    found = [*running, *(row for row in waiting if _goes_on(runner, row))]
    found += [journal.run(run_id) for run_id in journal.index.maybe_replaced()]
    return sorted(row for row in found if not _is_led(journal, row) and not _is_driven(runner, row))


def _is_led(journal: JournalReader, row: RunRow) -> bool:
    """Return whether a run goes on with the one that has called it: that has not ended."""
    caller = caller_of(journal, row)
    return caller is not None and caller.status not in ("done", "failed")


def _goes_on(runner: Runner, row: RunRow) -> bool:
    """Return whether a waiting run waits for nobody: its question is overdue, or that of a run which it has called is answered."""
    asked = asking_run(runner.journal.reader, row)
    return asked is None or is_overdue(runner, asked.run_id)


def _is_driven(runner: Runner, row: RunRow) -> bool:
    """Return whether a live driver has a run, or one that it has called."""
    journal, leases = runner.journal.reader, runner.journal.leases
    called = [journal.run(run).run for run in unfinished_called(journal, row)]
    return any(leases.is_driven(run) for run in (row.run, *called))


class _Recovering:
    """One recovery on its way."""

    def __init__(self, runner: Runner, options: OptionsOfRun | None) -> None:
        self.runner, self.options = runner, options
        self.rows = stranded(runner)
        self.results: dict[int, Result] = {}
        self.refused: dict[int, PaorError] = {}

    def begin(self, row: RunRow) -> Continuation | None:
        """Take a run up; None when it has ended, waits or is driven by now."""
        options = self.options(row) if self.options is not None else ResumeOptions()
        found = continuation(self.runner, row.run_id, **options)
        return found if isinstance(found, Continuation) else None

    def note(self, row: RunRow, error: PaorError) -> None:
        """Take note of a run that could not go on; one that somebody drives by now, or that was erased, is none."""
        if not isinstance(error, LeaseHeld | Erased):
            self.refused[row.run] = error

    def outcome(self) -> Recovery:
        """Return what it came to."""
        results = tuple(self.results[row.run] for row in self.rows if row.run in self.results)
        refused = {row.run_id: self.refused[row.run] for row in self.rows if row.run in self.refused}
        return Recovery(results, refused)


def recover(runner: Runner, options: OptionsOfRun | None = None) -> Recovery:
    """Go on with every run that nobody drives, one after the other; see `fsm.engine.Engine.recover`."""
    state = _Recovering(runner, options)
    for row in state.rows:
        try:
            if (found := state.begin(row)) is not None:
                state.results[row.run] = performed(runner, found)
        except PaorError as error:
            state.note(row, error)
    return state.outcome()


async def arecover(runner: Runner, options: OptionsOfRun | None, *, at_once: int) -> Recovery:
    """Do the same as `recover` on the running event loop, with *at_once* runs at a time."""
    state = _Recovering(runner, options)
    gate = asyncio.Semaphore(at_once)

    async def one(row: RunRow) -> None:
        async with gate:
            try:
                if (found := state.begin(row)) is not None:
                    state.results[row.run] = await aperformed(runner, found)
            except PaorError as error:
                state.note(row, error)

    await asyncio.gather(*(one(row) for row in state.rows))
    return state.outcome()
