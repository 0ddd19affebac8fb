"""Back-tests: every recorded run of a journal derived again with the settings of another engine; nothing is asked or called."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from ..journal.read_ahead import ReadAhead
from ..journal.reader import Readable, reader_of
from ..journal.rows import RunRow
from .trial import Trial, TrialFinding, TrialSettings, trial


class _Runs(Readable, Protocol):
    def runs(self, *, since: datetime | int | None = None) -> list[RunRow]: ...


class TrialEngine(TrialSettings, Protocol):
    """An engine, as far as a back-test needs one."""

    @property
    def journal(self) -> _Runs:
        """Its journal."""
        ...


def backtest(
    engine: TrialEngine, journal: _Runs | None = None, *, since: datetime | int | None = None
) -> Iterator[TrialFinding]:
    """
    Yield where recorded runs would have gone otherwise with an engine's settings: policy, limits, machine, prices, prompts, tools.

    Each run is derived again from its recorded outcomes. No model is asked, no tool is called, and the journal is only read. What is
    tried is `Engine.trial_spec`. After a row that is decided otherwise the derivation goes on only with outcomes that were recorded
    for the very same request; where there is none it says ``unknown`` and goes on with the next run.

        assert not [item for item in backtest(engine, journal) if item.kind == "decides"]

    Args:
        engine: Whose settings are tried.
        journal: That holds the runs; None: the engine's own.
        since: Only runs started then or later, as for `Journal.runs`.

    Raises:
        JournalDamaged: The chain of a run does not hold, or a row of it cannot be read.
        HostFunctionError: The engine's instructions are a function, and it failed.
    """
    journal = engine.journal if journal is None else journal
    for found in trials(engine, journal, journal.runs(since=since)):
        yield from found.findings


def trials(engine: TrialSettings, journal: Readable, rows: list[RunRow]) -> Iterator[Trial]:
    """
    Yield the trial of each run, the oldest first.

    Args:
        engine: Whose settings are tried.
        journal: That holds the runs.
        rows: The runs.

    Raises:
        JournalDamaged: See `backtest`.
    """
    reader = reader_of(journal, "backtest takes an Engine and a Journal, such as backtest(engine, journal)")
    with reader.snapshot() as still:
        rows = sorted(rows, key=lambda row: row.run)
        ahead = ReadAhead(still.source, rows)
        for row in rows:
            yield trial(ahead, row, engine)
