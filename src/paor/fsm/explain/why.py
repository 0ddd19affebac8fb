"""
Why: what decided one row of a run, guard by guard, and what kept the run from another phase.

The values are those that the row recorded. What each guard looked at is derived again by the pure fold, offline; where it
cannot be, since it was erased, the guard's own sentence is in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pydantic import ValidationError

from ...states.base.errors import Erased, JournalDamaged, PaorError, UsageError
from ...states.records.outcomes import NoOutcome
from ...states.records.questions import Question
from ...states.records.requests import ModelRequest
from ...states.run.phase_names import FINAL, PHASES
from ...states.run.reasons import REASONS
from ...states.run.state import Run
from ..decision.guard_context import GuardContext
from ..decision.run_resources import RunResources
from ..journal.prompts import EarlierRows
from ..journal.reader import JournalReader, Readable, damage_told, reader_of
from ..journal.rows import RunRow, Transition
from ..machine.decide import request_of
from ..machine.guards import GUARDS, Guard, words_of
from ..machine.machine import MACHINE
from ..machine.stop_rules import read_case
from ..machine.table import Row
from ..replay.comparison import request_facts
from ..replay.machines import machines_of
from ..replay.recorded_outcome import recorded_outcome
from ..replay.restore import run_before
from ..versioning.amendments import amend_spec
from .coverage import required_values
from .story import RowReader, RowTexts, StoryRow, asked_words, row_texts

_OWN_ERASED = "a row of the host's own machine; the record of that machine was erased"

REPEATS_NAMED = 3
"""Most earlier calls that are named of those that a blocked call repeats."""

Fate = Literal["taken", "kept", "later", "open"]
"""Of a candidate row: taken; kept from it by a guard; an earlier one was taken; not decided yet."""


@dataclass(frozen=True, slots=True)
class Checked:
    """
    One guard of a candidate row.

    Attributes:
        guard: Its name.
        wanted: What the row needs it to be.
        value: What the journal recorded, None where it was not evaluated.
        fact: What it looked at, in plain words.
    """

    guard: str
    wanted: bool
    value: bool | None
    fact: str

    @property
    def stops(self) -> bool:
        """Whether it kept the row from being taken."""
        return self.value is not None and self.value is not self.wanted


@dataclass(frozen=True, slots=True)
class Candidate:
    """
    One row of the table that could be taken from a phase, in the table's order.

    Attributes:
        trigger, dest, meaning: Of the row.
        fate: What became of it.
        guards: Its guards in order.
    """

    trigger: str
    dest: str
    meaning: str
    fate: Fate
    guards: tuple[Checked, ...] = ()


@dataclass(frozen=True, slots=True)
class Why:
    """
    What decided one row.

    Attributes:
        run_id: The run.
        seq: Number of the row, also of one that is not decided yet.
        decided: Whether it is decided.
        source: Phase in which it is decided.
        waiting: Whether the run waits for an answer there.
        request: What was asked for, in a few words.
        told: What the story says of the row, None before it is decided.
        trigger, dest: The transition that was taken; empty before it is decided.
        candidates: Every row of the table that was tried or would have been, in order.
        note: What could not be derived, and why.
        question: What the run waits for, for the row that asks and for the one that the answer will decide; else None.
        phases: Every phase of the run's machine.
    """

    run_id: str
    seq: int
    decided: bool
    source: str
    waiting: bool
    request: str
    told: StoryRow | None
    trigger: str
    dest: str
    candidates: tuple[Candidate, ...] = field(repr=False)
    note: str = ""
    question: Question | None = None
    phases: tuple[str, ...] = field(default=PHASES, repr=False)

    def wire(self) -> dict[str, Any]:
        """Return the JSON form, keys as the attributes, without the phases."""
        data = asdict(self) | {
            "candidates": [asdict(item) for item in self.candidates],
            "told": self.told.wire() if self.told is not None else None,
            "question": self.question.wire() if self.question is not None else None,
        }
        del data["phases"]
        return data


@dataclass(frozen=True, slots=True)
class WhyNot:
    """
    What kept a row from leading to another phase.

    Attributes:
        phase: The phase that was asked about.
        answer: One sentence.
        candidates: The rows of the table that lead there from the run's phase, in order.
    """

    phase: str
    answer: str
    candidates: tuple[Candidate, ...]

    def wire(self) -> dict[str, Any]:
        """Return the JSON form, keys as the attributes."""
        return asdict(self) | {"candidates": [asdict(item) for item in self.candidates]}


def why(journal: Readable, run_id: str, seq: int | None = None) -> Why:
    """
    Explain one row of a run.

    Args:
        journal: The journal that holds it.
        run_id: Its id, or an unambiguous prefix.
        seq: The row; None means the last one, or the first to come if there is none. The number after the last row
            is the row that is not decided yet.

    Raises:
        UnknownRun: There is no such run.
        UsageError: It has no such row.
        JournalDamaged: The row cannot be read.
    """
    journal = reader_of(journal, "why takes a Journal, such as why(engine.journal, run_id)")
    row = journal.run(run_id)
    place = max(row.head_seq, 0) if seq is None else seq
    if isinstance(place, bool) or not isinstance(place, int):
        raise UsageError(f"a row is named by its number, such as 4, not by {place!a:.40}")
    ended = row.status in ("done", "failed")
    last = row.head_seq if ended else row.head_seq + 1
    if not 0 <= place <= last:
        told = f"rows 0 to {row.head_seq}" if row.head_seq >= 0 else "no row yet"
        raise UsageError(f"run {row.run_id} has {told}; there is no row {place} to explain")
    with damage_told(row.run_id):
        rows = journal.transitions(row.run_id)
        taken = rows[place] if place <= row.head_seq else None
        if taken is not None and taken.seq != place:
            raise JournalDamaged(f"run {row.run_id}: row {place} is missing; run: paor verify")
        before = rows[place - 1] if place else None
        recorded = machines_of(journal, row.run, rows[: place + 1])[place]
        machine = recorded if recorded is not None else MACHINE
        first = taken.source if taken is not None and recorded is None else machine.host.initial
        source = before.dest if before is not None else first
        waiting = before is not None and before.trigger == "wait"
        case, note = _case(journal, row, place, taken)
        row_told = RowReader(journal, before).add(taken) if taken is not None else None
        repeats = repeated_calls(case, _executed(rows[:place], case))
        candidates = _candidates(
            machine.rows_of(source, waiting=waiting),
            taken,
            case if taken is not None else None,
            repeats,
            machine.guards,
        )
        if taken is not None and recorded is None and not any(item.fate == "taken" for item in candidates):
            candidates += (Candidate(taken.trigger, taken.dest, _OWN_ERASED, "taken"),)
        come_to = (name for item in rows for name in (item.source, item.dest))
        return Why(
            row.run_id,
            place,
            taken is not None,
            source,
            waiting,
            asked_words(taken.request)
            if taken is not None
            else _needs(case.run if case is not None else None),
            row_told,
            taken.trigger if taken is not None else "",
            taken.dest if taken is not None else "",
            candidates,
            note,
            _open_question(journal, row, place),
            tuple(dict.fromkeys((*PHASES, *machine.host.phases, *come_to))),
        )


@dataclass(frozen=True, slots=True)
class OneRow:
    """
    One row with what is behind it.

    Attributes:
        row: As it is recorded; None before it is decided.
        why: What decided it.
        texts: Those that it refers to.
    """

    row: Transition | None
    why: Why
    texts: RowTexts

    def wire(self) -> dict[str, Any]:
        """Return the JSON form."""
        row = self.row._asdict() if self.row is not None else None
        return {"row": row, "why": self.why.wire()} | self.texts.wire()


def one_row(journal: JournalReader, run_id: str, seq: int) -> OneRow:
    """Return one row of a run; raises as `why` does."""
    found = why(journal, run_id, seq)
    if not found.decided:
        return OneRow(None, found, RowTexts())
    rows = EarlierRows(journal, run_id)
    return OneRow(rows[seq], found, row_texts(journal, rows, rows[seq]))


def _case(
    journal: JournalReader, row: RunRow, seq: int, taken: Transition | None
) -> tuple[GuardContext | None, str]:
    """Return the case of a row as the machine reads it now, or why it cannot be read."""
    try:
        run = run_before(journal, row.run_id, seq)
        if taken is None:
            return GuardContext(run, NoOutcome()), ""
        if "spec" in taken.request:  # from this row on another spec is in force
            body = journal.intact(taken.run, taken.request["spec"]["n"], taken.request["spec"].get("digest"))
            run = run.under(amend_spec(run.spec, body))
        return read_case(run, recorded_outcome(journal, run, taken), RunResources(run.spec), taken.at), ""
    except JournalDamaged as error:
        if "erased" not in str(error):
            raise
        return None, not_derived(error)
    except (PaorError, ValidationError, ValueError, LookupError, TypeError, AssertionError) as error:
        return None, not_derived(error)


def not_derived(error: Exception) -> str:
    """Return why it cannot be derived what the guards of a row looked at, in one line."""
    if isinstance(error, Erased) or "erased" in str(error):
        return "what the guards looked at was erased; their values stand in the journal"
    text = str(error).partition("\n")[0]
    return f"what the guards looked at cannot be derived: {type(error).__name__}: {text}"


def _open_question(journal: JournalReader, row: RunRow, seq: int) -> Question | None:
    """Return what a run waits for, for its last row and for the one to come; None for others, or once it was erased."""
    if row.status != "waiting" or seq < row.head_seq:
        return None
    with suppress(Erased, JournalDamaged):
        return run_before(journal, row.run_id, row.head_seq + 1).waiting_for
    return None


def _executed(rows: Sequence[Transition], case: GuardContext | None) -> list[tuple[int, int]]:
    """Return action and row of the executed calls that are the same as the case's."""
    key = case.intent.key if case is not None and case.intent is not None else None
    return [
        (row.action, row.seq) for row in rows if row.trigger == "execute" and row.outcome.get("key") == key
    ]


def repeated_calls(case: GuardContext | None, earlier: Sequence[tuple[int, int]]) -> str:
    """
    Return which earlier calls a call repeats that was blocked or held back for that, as ``action 2 (row 4)``; empty for none.

    Args:
        case: Of the row that blocked it.
        earlier: Action and row of every executed call with its key, oldest first.
    """
    if case is None or case.intent is None or (case.duplicate is None and not case.repeated):
        return ""
    named = [f"action {action} (row {seq})" for action, seq in earlier[-REPEATS_NAMED:]]
    more = len(earlier) - len(named)
    return ", ".join(named) + (f" and {more:,} more before" if more else "")


def _candidates(
    rows: tuple[Row, ...],
    taken: Transition | None,
    case: GuardContext | None,
    repeats: str = "",
    guards_known: Mapping[str, Guard] = GUARDS,
) -> tuple[Candidate, ...]:
    values = taken.guards if taken is not None else {}
    found: list[Candidate] = []
    reached = False
    for row in rows:
        guards = tuple(
            Checked(
                name,
                wanted,
                None if reached else values.get(name),
                guard_fact(guards_known[name], name, case, repeats),
            )
            for name, wanted in required_values(row)
        )
        fate: Fate = "open"
        if taken is not None:
            fits = (row.trigger, row.dest) == (taken.trigger, taken.dest)
            here = fits and not reached and not any(guard.stops for guard in guards)
            fate = "later" if reached else "taken" if here else "kept"
            reached = reached or here
        meaning = row.meaning
        if (
            taken is not None and fate == "taken" and row.dest in FINAL
        ):  # of this run, not of any that ends here
            stop = str(taken.counters.get("stop", ""))
            meaning = f"{stop}: {REASONS.get(stop, 'the end')}"
        found.append(Candidate(row.trigger, row.dest, meaning, fate, guards))
    return tuple(found)


def guard_fact(guard: Guard, name: str, case: GuardContext | None, repeats: str) -> str:
    """Return what a guard looked at, in plain words; its own sentence where that cannot be derived, or it is a host's own."""
    if case is not None and name in GUARDS:
        told = " ".join(words_of(guard, case).split())
        blocks = name in ("duplicate", "result_known") and guard(case)
        return f"{told}; it repeats {repeats}" if repeats and blocks else told
    return " ".join((guard.__doc__ or "").split("\n\n")[0].split())


def _needs(run: Run | None) -> str:
    """Return what a run that goes on needs next."""
    if run is None:
        return "not known"
    if run.waiting_for is not None:
        return f"an answer ({run.waiting_for.kind})"
    request = request_of(run)
    model = {"model": run.spec.model} if isinstance(request, ModelRequest) else {}
    return asked_words(request_facts(request) | model)


# -- why not -----------------------------------------------------------------------------------------------------


def why_not(found: Why, phase: str) -> WhyNot:
    """
    Explain why a row did not lead to another phase.

    Args:
        found: The row's own explanation.
        phase: Name of the phase, in any case.

    Raises:
        UsageError: There is no such phase.
    """
    name = next((known for known in found.phases if known.lower() == str(phase).lower()), None)
    if name is None:
        raise UsageError(f"there is no phase {phase!r}; there are: {', '.join(found.phases)}")
    ways = tuple(item for item in found.candidates if item.dest == name)
    where = f"{found.source}, waiting" if found.waiting else found.source
    if not ways:
        return WhyNot(name, f"no row of the table leads from {where} to {name}", ())
    if not found.decided:
        return WhyNot(
            name, f"row {found.seq} is not decided yet; {found.source} can still lead to {name}", ways
        )
    if found.dest == name:
        return WhyNot(name, f"row {found.seq} did lead to {name}, by {found.trigger}", ways)
    kept = [guard for item in ways if item.fate == "kept" for guard in item.guards if guard.stops]
    if kept:
        told = "; ".join(dict.fromkeys(f"{guard.guard} was {guard.value}: {guard.fact}" for guard in kept))
        return WhyNot(name, told, ways)
    if any(item.fate == "kept" for item in ways):
        told = "the host's own machine led elsewhere; the record of that machine was erased"
        return WhyNot(name, told, ways)
    return WhyNot(name, f"{found.trigger} to {found.dest} stands earlier in the table and was taken", ways)
