"""Back-tests: every recorded run of a journal derived again with the settings of another engine; nothing is asked or called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from ...states.base.errors import JournalDamaged, UsageError
from ..journal.read_ahead import ReadAhead
from ..journal.reader import Readable, reader_of
from ..journal.rows import RunRow
from ..verify.verify import RunDefects
from .trial import Heard, Trial, TrialFinding, TrialSettings, trial

_USAGE = "backtest takes an Engine and a Journal, such as backtest(engine, engine.journal)"


def backtest(
    engine: TrialSettings, journal: Readable, runs: Sequence[RunRow] | None = None
) -> Iterator[TrialFinding]:
    """
    Yield where recorded runs would have gone otherwise with an engine's settings: policy, limits, machine, `never`, prices, prompts, tools.

    Each run is derived again from its recorded outcomes. No model is asked, no tool is called, and the journal is only read. What is
    tried is `Engine.trial_spec`. After a row that is decided otherwise the derivation goes on only with outcomes that were recorded
    for the very same request; where there is none it says ``unknown`` and goes on with the next run.

    Args:
        engine: Whose settings are tried.
        journal: That holds the runs, such as ``engine.journal``.
        runs: Those that are tried, such as ``journal.runs(since=...)``; None for all.

    Raises:
        UsageError: It was given something else than an engine, a journal and runs of it.
        JournalDamaged: A run is not what was written (`Journal.verify`).
    """
    for (found,) in trials([engine], journal, runs):
        yield from found.findings


def trials(
    engines: Sequence[TrialSettings],
    journal: Readable,
    runs: Sequence[RunRow] | None = None,
    usage: str = _USAGE,
    heard: Heard | None = None,
) -> Iterator[tuple[Trial, ...]]:
    """
    Yield the trials of each run, the oldest first, one with each of *engines*; see `backtest`, and for *heard* `fsm.replay.trial.trial`.

    Raises:
        UsageError: It was given something else than engines, a journal and runs of it; *usage* says what is expected.
    """
    reader = reader_of(journal, usage)
    if not all(hasattr(engine, "trial_spec") for engine in engines):
        raise UsageError(usage)
    if not all(isinstance(row, RunRow) for row in runs or ()):
        raise UsageError(f"{usage}, and runs of it, such as journal.runs(since=...)")
    with reader.snapshot() as still:
        rows = sorted(still.runs() if runs is None else runs, key=lambda row: row.run)
        ahead = ReadAhead(still.source, rows)
        with closing(RunDefects(still)) as checks:
            for row in rows:
                for part in ahead.lineage(row.run):
                    if defects := checks.of(part.run):
                        raise JournalDamaged(f"{defects[0]}; run: paor verify")
                yield tuple(trial(ahead, row, engine, heard) for engine in engines)
