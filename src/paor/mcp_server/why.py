"""The tool ``why``: what decided one row of a run, and what kept it from another phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..fsm.explain.diff import Side as Compared
from ..fsm.explain.diff import diff as compare
from ..fsm.explain.divergence import CAUSES
from ..fsm.explain.why import Candidate, Checked, not_derived, outcome_words, request_words, why_not
from ..fsm.explain.why import Why as Explained
from ..fsm.explain.why import why as explain
from ..fsm.journal.rows import RunRow, Transition
from ..fsm.machine.guards import GUARDS
from ..fsm.machine.table import TABLE
from ..states.base.errors import Erased, UsageError
from .answers import DiffAnswer, ShownGuard, ShownSide, ShownWay, Texts, WhyAnswer, WhyNotAnswer
from .looking import Look
from .names import facts_of, field_of, name_of, names_of, part_of
from .show import RUN, TEXT_CHARS

_MEANINGS = frozenset(row.meaning for row in TABLE)
_GONE = not_derived(Erased())


def why(look: Look, arguments: Mapping[str, Any]) -> WhyAnswer:
    """
    Explain one row.

    Args:
        look: At the journal.
        arguments: ``run``; ``row``, default the last one; ``phase``: why it did not lead there.

    Raises:
        UnknownRun: There is no such run.
        UsageError: It has no such row, or its machine no such phase.
        JournalDamaged: It cannot be read.
    """
    run = look.run(arguments["run"])
    wanted = arguments.get("row")
    place = None if wanted is None else int(wanted)
    if place is not None and place < 0:
        place += run.head_seq + 1
    found = explain(look.reader, run.run_id, place)
    taken = _taken(look, run, found.seq) if found.decided else None
    ways = [_way(look.texts, item) for item in found.candidates]
    phase = arguments.get("phase")
    return WhyAnswer(
        run_id=name_of(found.run_id),
        row=found.seq,
        decided=found.decided,
        source=name_of(found.source),
        trigger=name_of(found.trigger) if found.trigger else None,
        dest=name_of(found.dest) if found.dest else None,
        waiting=found.waiting,
        asked=request_words(facts_of(taken.request))
        if taken
        else look.texts.words(found.request, "not decided yet"),
        came=outcome_words(facts_of(taken.outcome)) if taken else None,
        told=look.texts(found.outcome or None),
        ways=ways,
        note=_note(look.texts, found.note),
        waits_for=look.waits(run) if found.seq >= run.head_seq else None,
        why_not=_why_not(look.texts, found, phase) if phase is not None else None,
    )


def _taken(look: Look, run: RunRow, seq: int) -> Transition:
    """Return one decided row, of a fork also one that it shares."""
    return look.reader.transitions(run.run_id, seq, seq)[0]


def _way(texts: Texts, item: Candidate) -> ShownWay:
    return ShownWay(
        trigger=name_of(item.trigger),
        dest=name_of(item.dest),
        fate=item.fate,
        means=item.meaning if item.meaning in _MEANINGS else None,
        guards=[_guard(texts, guard) for guard in item.guards],
    )


def _guard(texts: Texts, item: Checked) -> ShownGuard:
    return ShownGuard(
        guard=name_of(item.guard),
        wanted=item.wanted,
        value=item.value,
        means=_meaning(item.guard) or None,
        fact=texts(item.fact) if item.fact != _meaning(item.guard) else None,
    )


def _meaning(guard: str) -> str:
    """Return what a guard of paor's own asks; nothing for one of a host, whose words are not ours."""
    found = GUARDS.get(guard)
    return " ".join((found.__doc__ or "").split("\n\n")[0].split()) if found is not None else ""


def _note(texts: Texts, note: str) -> str | None:
    if not note:
        return None
    return note if note == _GONE else texts.words(note, "what the guards looked at cannot be derived")


def _why_not(texts: Texts, found: Explained, phase: str) -> WhyNotAnswer:
    """Return why a row did not lead to *phase*, told with what each guard asks where no content is shown."""
    if phase.lower() not in {name.lower() for name in found.phases}:
        known = ", ".join(names_of(found.phases))
        raise UsageError(f"there is no phase {phase!a:.60}; there are: {known}")
    if texts.shown:
        told = why_not(found, phase)
        return WhyNotAnswer(phase=name_of(told.phase), answer=texts.words(told.answer, ""))
    plain = replace(found, candidates=tuple(_plain(item) for item in found.candidates))
    plain = replace(
        plain, source=name_of(found.source), dest=name_of(found.dest), trigger=name_of(found.trigger)
    )
    told = why_not(plain, phase)
    return WhyNotAnswer(phase=name_of(told.phase), answer=told.answer)


def _plain(item: Candidate) -> Candidate:
    guards = tuple(
        replace(guard, guard=name_of(guard.guard), fact=_meaning(guard.guard) or "a guard of the host's own")
        for guard in item.guards
    )
    return replace(item, guards=guards)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "run": RUN,
        "row": {
            "type": "integer",
            "minimum": -(2**31),
            "maximum": 2**31,
            "description": "The row; default the last one. The number after the last is the row not decided yet.",
        },
        "phase": {
            "type": "string",
            "maxLength": 60,
            "description": "Why not: a phase that the row did not lead to, such as Done.",
        },
        "chars": TEXT_CHARS,
    },
    "required": ["run"],
    "additionalProperties": False,
}


PARTS_NAMED = 20
"""Most parts that are named."""


def diff(look: Look, arguments: Mapping[str, Any]) -> DiffAnswer:
    """
    Compare two runs.

    Args:
        look: At the journal.
        arguments: ``left`` and ``right``.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: One of them cannot be read.
    """
    left, right = (look.run(arguments[name]).run_id for name in ("left", "right"))
    found = compare(look.reader, left, right)
    return DiffAnswer(
        left=_side(look, found.left),
        right=_side(look, found.right),
        identical=found.identical,
        shared=found.shared,
        row=found.seq,
        source=name_of(found.source) if found.source else None,
        field=field_of(found.field) if found.field else None,
        line=found.line or None,
        cause=found.cause or None,
        cause_means=CAUSES.get(found.cause),
        parts=[part_of(name) for name in found.parts[:PARTS_NAMED]],
        others=[part_of(name) for name in found.others[:PARTS_NAMED]],
        other_way_at=found.decision_seq,
        same_end=found.same_end,
        same_answer=found.same_answer,
        detail=look.texts(found.detail or None),
    )


def _side(look: Look, side: Compared) -> ShownSide:
    return ShownSide(
        run_id=name_of(side.run_id),
        state=name_of(side.state),
        status=name_of(side.status),
        reason=name_of(side.reason) if side.reason else None,
        rows=side.transitions,
        steps=side.steps,
        tokens=side.tokens,
        cost=side.cost,
        seconds=side.seconds,
        line=look.texts(side.text or None),
    )


DIFF_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"left": RUN, "right": RUN, "chars": TEXT_CHARS},
    "required": ["left", "right"],
    "additionalProperties": False,
}
