"""The events of one row: the same whether its driver has just written it or somebody reads it from the journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ...states.base.errors import InternalError
from ...states.base.sealed import unsealed
from ...states.run.phase_names import FINAL
from ...states.run.state import Change, Run
from .events import Event, RunWaiting, StepCompleted, TransitionTaken


class RowPlace(Protocol):
    """Which transition a row is, of the table or of the journal."""

    @property
    def trigger(self) -> str:
        """Name of the transition."""

    @property
    def source(self) -> str:
        """Phase that it leaves."""

    @property
    def dest(self) -> str:
        """Phase that it enters."""


def is_last(row: RowPlace, facts: Mapping[str, Any]) -> bool:
    """Return whether the driver lets go of the run after a row: it ends, or waits for a person."""
    return row.dest in FINAL or (row.trigger == "wait" and "noted" not in facts)


def row_events(
    run: Run, row: RowPlace, change: Change, facts: Mapping[str, Any], actor: str | None = None
) -> tuple[Event, ...]:
    """
    Return the events of a row.

    Args:
        run: As the row has left it.
        row: Its place in the table.
        change: What it has changed in the run.
        facts: What it says of its outcome.
        actor: Who gave the answer that it holds.
    """
    counters, memory, seq = run.counters, run.memory, run.seq - 1
    events: list[Event] = [
        TransitionTaken(
            run.run_id,
            seq,
            row.trigger,
            row.source,
            row.dest,
            counters.step,
            run.spec.limits.max_steps,
            counters.tokens_in + counters.tokens_out,
            detail_of(run, change, facts),
            unsealed(change.intent.arguments) if change.intent else None,
            actor,
        )
    ]
    if row.trigger == "observe":
        if not memory.history:
            raise InternalError(f"run {run.run_id}: observed without a message")
        last = memory.history[-1]
        told = last.step, last.action, last.tool, last.label, last.success, last.summary
        events.append(StepCompleted(run.run_id, seq, *told))
    if is_last(row, facts) and (question := run.waiting_for) is not None:
        events.append(RunWaiting(run.run_id, seq, question))
    return tuple(events)


def detail_of(run: Run, change: Change, facts: Mapping[str, Any]) -> str:
    """Return one line on a row for people: the action, the reason, what was wrong."""
    if change.selection:
        return f"{change.selection.tool}: {change.selection.objective}".rstrip(": ")
    if change.intent:
        return change.intent.tool + change.ahead_words
    if change.message:
        return change.message.summary
    if change.feedback:
        return change.feedback
    if change.result:
        count = len(change.result.documents)
        return change.result.error or f"{count} document{'' if count == 1 else 's'}"
    if change.refinement:
        return change.refinement.words
    if change.review:
        by_code = facts["kind"] != "reply" and not run.counters.formatted
        return f"judged {change.review.status}{' by code' if by_code else ''}"
    if change.question:
        return change.question.message
    return run.counters.stop
