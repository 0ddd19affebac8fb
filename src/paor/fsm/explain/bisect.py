"""
Bisect: the first row at which two runs or two versions of an engine differ, and the fewest settings that make the difference.

The settings of one side get those of the other one by one, and a recorded run is derived again from its recorded outcomes with each
mixture (`fsm.replay.trial`), until no setting can be left out without losing the difference. Nothing is asked or called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from ...states.base.errors import PaorError
from ...states.run.spec import Spec
from ..journal.reader import JournalReader, Readable, reader_of
from ..journal.rows import RunRow
from ..replay.backtest import trials
from ..replay.trial import Trial, TrialFinding, TrialSettings, trial
from ..replay.walk import spec_of_part
from .diff import RunDiff, diff
from .divergence import NAMES
from .mixture import BisectPart, Mixture, smallest

_OUTSIDE = {
    "model_output": "model reply",
    "tool_output": "tool result",
    "answer": "answer",
    "clock": "clock",
    "crash": "lost driver",
    "cancelled": "cancellation",
    "unfinished": "end",
    "values": "value",
}
"""Causes of `fsm.explain.divergence` that are no setting, as a bisection names them."""


@dataclass(frozen=True, slots=True)
class Bisection:
    """
    The first difference of two runs, or of one run under two engines, and the settings that make it.

    Attributes:
        run_id: The run; of two runs the good one. Empty where nothing differs.
        seq: Number of the first row that differs; None where nothing differs.
        row: That row as it was recorded, as ``PHASE.TRIGGER``.
        guard: The guard that decides it otherwise than it was recorded: the second side's, else the first's. Empty where none does.
        was: How the first side decides it.
        now: How the second side decides it.
        parts: The fewest settings, or what came from outside, that make the difference. Each has ``part`` (``guard``, ``prompt line``,
            ``tool schema``, ``policy rule``, ``limit``, ``model reply`` and so on), ``name``, ``was`` and ``now``.
            Empty where not even all settings of one side in the other make it.
    """

    run_id: str = ""
    seq: int | None = None
    row: str = ""
    guard: str = ""
    was: str = ""
    now: str = ""
    parts: tuple[BisectPart, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether there is a difference."""
        return self.seq is not None

    def wire(self) -> dict[str, Any]:
        """Return the JSON form, keys as the attributes, and ``differs``."""
        return {"differs": self.differs, **asdict(self), "parts": [part._asdict() for part in self.parts]}


def bisect(
    one: TrialSettings, two: TrialSettings, journal: Readable, runs: Sequence[RunRow] | None = None
) -> Bisection:
    """
    Find the first recorded run, from the oldest, that two engines decide differently, and the fewest settings that make it so.

    Where no run is decided differently, it is the first one with another prompt.

    Args:
        one, two: The engines. Only their settings are used; see `Engine.trial_spec`.
        journal: That holds the runs.
        runs: Those that are looked at; None for all.

    Returns:
        The first difference; one without a row where there is none.

    Raises:
        UsageError: It was given something else than two engines, a journal and runs of it.
        JournalDamaged: A run cannot be read, or its chain does not hold.
    """
    usage = "bisect takes two Engines and a Journal, such as bisect(one, two, one.journal)"
    asks: tuple[Trial, ...] | None = None
    for found in trials((one, two), journal, runs, usage):
        if _differ(_decided, found):
            return _reduced(reader_of(journal, usage), (one, two), found)
        if asks is None and _differ(_marked, found):
            asks = found
    return _reduced(reader_of(journal, usage), (one, two), asks) if asks is not None else Bisection()


_Marks = list[tuple[TrialFinding, bytes]]


def _marked(found: Trial) -> _Marks:
    """Return the findings of a trial, each with its digest: of two prompts only their first other line is told."""
    return list(zip(found.findings, found.digests, strict=True))


def _decided(found: Trial) -> _Marks:
    return [pair for pair in _marked(found) if pair[0].kind == "decides"]


def _differ(look: Callable[[Trial], _Marks], found: tuple[Trial, ...]) -> bool:
    return look(found[0]) != look(found[1])


def _reduced(
    reader: JournalReader,
    sides: tuple[TrialSettings, TrialSettings],
    found: tuple[Trial, ...],
    fallback: Sequence[BisectPart] = (),
) -> Bisection:
    """Return the bisection of a run that two sides derive differently."""
    row, look = reader.run(found[0].run_id), _decided if _differ(_decided, found) else _marked
    left, right = map(look, found)
    seq = min(item.seq for item, _ in {*left} ^ {*right})

    def until(marks: _Marks) -> _Marks:
        return [pair for pair in marks if pair[0].seq <= seq]

    def flips(chosen: Sequence[BisectPart]) -> bool:
        with suppress(PaorError, ValueError, LookupError, TypeError, AttributeError, AssertionError):
            mixture = Mixture(*sides, chosen)  # which may be none that can decide
            return until(look(trial(reader, row, mixture))) == until(right)
        return False

    spec = spec_of_part(reader, row.run_id)
    pieces = Mixture(*sides).pieces(spec) if spec is not None else []
    parts = smallest(pieces, flips) if pieces and flips(pieces) else fallback
    here, there = (next((item for item, _ in marks if item.seq == seq), None) for marks in (left, right))
    told = there or here
    assert told is not None, "one of the two has it"
    was, now = (item.now if item is not None else told.was for item in (here, there))
    if was == now and parts:
        was, now = parts[0].was, parts[0].now
    return Bisection(row.run_id, seq, told.row, told.guard, was, now, tuple(parts))


class _Recorded:
    """
    The settings that a recorded run has.

    Args:
        spec: What it was started with; None: those of the run that is derived.
    """

    model = None
    never = ()

    def __init__(self, spec: Spec | None = None) -> None:
        self._spec = spec

    def trial_spec(self, spec: Spec) -> Spec:
        """Return *spec* with what decides of the run's; names and salts stay."""
        if self._spec is None:
            return spec
        names = [name for name in Spec.model_fields if name not in NAMES and name != "documents"]
        return spec.model_copy(update={name: getattr(self._spec, name) for name in names})

    def machine_for(self, spec: Spec) -> None:
        """Return None: the host's code is not here."""


def bisect_runs(journal: Readable, good: str, bad: str, other: Readable | None = None) -> Bisection:
    """
    Find the first row at which two runs differ, and what makes it differ: the fewest settings, or what came from outside.

    Args:
        journal: That holds the runs.
        good: Id of the run that did right; it is derived again with settings of the other one.
        bad: Id of the other run.
        other: The journal that holds *bad*, if it is another one.

    Returns:
        The first difference; one without a row where there is none but ids, times and salts.

    Raises:
        UsageError: It was given something else than a journal.
        UnknownRun: There is no such run.
        JournalDamaged: A run cannot be read.
    """
    usage = "bisect_runs takes a Journal, such as bisect_runs(engine.journal, good, bad)"
    reader, theirs = (reader_of(item, usage) for item in (journal, journal if other is None else other))
    found = diff(journal, good, bad, other)
    if found.identical or found.seq is None:
        return Bisection()
    row = reader.run(good)
    rows = reader.transitions(row.run_id, found.seq, found.seq)
    place = f"{rows[0].source}.{rows[0].trigger}" if rows else found.source
    name = ", ".join(found.parts) or found.field
    told = BisectPart(_OUTSIDE.get(found.cause, found.cause), name, found.left.text, found.right.text)
    whole = Bisection(row.run_id, found.seq, place, "", told.was, told.now, (told,))
    if found.cause == "machine":
        return _by_guard(reader, theirs, found) or whole
    spec = spec_of_part(theirs, found.right.run_id) if found.cause not in _OUTSIDE else None
    if spec is None:
        return whole
    sides = _Recorded(), _Recorded(spec)
    derived = trial(reader, row, sides[0]), trial(reader, row, sides[1])
    if not _differ(_marked, derived):
        return whole
    reduced = _reduced(reader, sides, derived, (told,))
    return reduced if reduced.seq == found.seq else whole


def _by_guard(one: JournalReader, two: JournalReader, found: RunDiff) -> Bisection | None:
    """Return the first row that a guard of the host's own decides otherwise, by its recorded values: its code is not here."""
    seq = found.decision_seq
    if seq is None:
        return None
    sides = (one, found.left), (two, found.right)
    rows = [row for journal, side in sides for row in journal.transitions(side.run_id, seq, seq)]
    names = [name.removeprefix("guard.") for name in found.parts if name.startswith("guard.")]
    names = [name for name in names if len({row.guards.get(name, True) for row in rows}) == 2]
    if not names or len(rows) < 2:
        return None
    was, now = (f"{row.trigger} to {row.dest}" for row in rows)
    values = (f"{row.guards.get(names[0], '(none)')}" for row in rows)
    place = f"{rows[0].source}.{rows[0].trigger}"
    return Bisection(
        found.left.run_id, seq, place, names[0], was, now, (BisectPart("guard", names[0], *values),)
    )
