"""
The machine, as data. All that affects which transition is taken stands in this file.

Rows of a phase are tried from top to bottom; the first whose guards all hold is taken. A guard is the name of a
pure function in `fsm.guards`; one with a leading ``not`` must not hold. Everything else is derived from this
table: the `transitions` machine, the diagrams, the docs' table, the static check, the fuzz rules. What is not in
the table is illegal: the event raises, and the run stays as it was.

`finish` and the `wait` of Specifying stand twice, since a row is a conjunction and each has two cases.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from ..states.phase import DONE, EXECUTING, FAILED, OBSERVING, PLANNING, REVIEWING, SPECIFYING

INITIAL = PLANNING


@dataclass(frozen=True, slots=True)
class Row:
    """
    One guarded transition.

    Attributes:
        source: Phase it leads from.
        trigger: Its name, in code, journal, command line and docs.
        dest: Phase it leads to.
        guards: Names of guards, ``not NAME`` for one that must not hold; none: the row always fits.
        meaning: One line for people.
    """

    source: str
    trigger: str
    dest: str
    guards: tuple[str, ...]
    meaning: str

    @property
    def conditions(self) -> tuple[str, ...]:
        """Guards that must hold."""
        return tuple(guard for guard in self.guards if not guard.startswith("not "))

    @property
    def unless(self) -> tuple[str, ...]:
        """Guards that must not hold, without the ``not``."""
        return tuple(guard[4:] for guard in self.guards if guard.startswith("not "))


TABLE: tuple[Row, ...] = (
    # -- Planning: choose the one next action, or answer ------------------------------------------------------
    Row(PLANNING, "fail", FAILED, ("hard_stop",), "cancelled, a budget used up, model_error, aborted"),
    Row(
        PLANNING,
        "wait",
        PLANNING,
        ("elicitation_requested", "elicitations_left"),
        "the planner needs the user",
    ),
    Row(PLANNING, "answer", REVIEWING, ("answer_present",), "the planner answers and takes no action"),
    Row(
        PLANNING,
        "select",
        SPECIFYING,
        ("selection_valid", "action_allowed", "steps_left"),
        "Stage 1 accepted; with a plan its first step",
    ),
    Row(PLANNING, "reselect", PLANNING, ("not selection_ok", "selection_retries_left"), "asked again"),
    Row(PLANNING, "fail", FAILED, (), "selection_invalid"),
    # -- Specifying: settle the parameters, then commit the intent --------------------------------------------
    Row(SPECIFYING, "fail", FAILED, ("hard_stop",), "cancelled, a budget used up, model_error"),
    Row(
        SPECIFYING,
        "wait",
        SPECIFYING,
        ("approval_needed", "elicitations_left"),
        "a person must approve the call; before the intent row",
    ),
    Row(
        SPECIFYING,
        "wait",
        SPECIFYING,
        ("argument_missing", "elicitations_left"),
        "a plan's step asks the user, or lacks an argument",
    ),
    Row(
        SPECIFYING,
        "specify",
        EXECUTING,
        ("parameters_valid", "parameters_safe", "action_allowed", "not duplicate"),
        "defaults filled; this row is the intent to execute",
    ),
    Row(
        SPECIFYING,
        "respecify",
        SPECIFYING,
        ("not parameters_ok", "not duplicate", "parameter_retries_left"),
        "asked again",
    ),
    Row(
        SPECIFYING,
        "refuse",
        OBSERVING,
        (),
        "not executed: blocked, denied, still invalid or unsafe, or nothing to execute",
    ),
    # -- Executing: the effect ---------------------------------------------------------------------------------
    Row(EXECUTING, "fail", FAILED, ("hard_stop",), "cancelled, once the tool has ended or is in doubt"),
    Row(EXECUTING, "wait", EXECUTING, ("in_doubt",), "a once effect that may or may not have happened"),
    Row(
        EXECUTING,
        "wait",
        EXECUTING,
        ("input_required", "elicitations_left"),
        "the tool needs somebody's answer before it goes on",
    ),
    Row(EXECUTING, "retry_step", EXECUTING, ("step_retries_left", "retryable"), "the step's own retries"),
    Row(EXECUTING, "execute", OBSERVING, (), "the tool ended, with a result or an error"),
    # -- Observing ---------------------------------------------------------------------------------------------
    Row(OBSERVING, "observe", REVIEWING, (), "compact observation built, documents stored under their label"),
    # -- Reviewing: go on, or stop; and when stopping, is it done? ---------------------------------------------
    Row(REVIEWING, "fail", FAILED, ("hard_stop",), "cancelled, stuck, a budget used up with criteria open"),
    Row(
        REVIEWING,
        "reassess",
        REVIEWING,
        ("reply_invalid", "review_retries_left"),
        "refinement or completion review asked again",
    ),
    Row(
        REVIEWING,
        "conclude",
        REVIEWING,
        ("stop_reached", "not concluded"),
        "refinement or limit recorded; the completion review is next",
    ),
    Row(
        REVIEWING,
        "format",
        SPECIFYING,
        ("review_success", "final_action_pending"),
        "the one last formatting action",
    ),
    Row(REVIEWING, "finish", DONE, ("review_success",), "the completion review succeeded"),
    Row(
        REVIEWING,
        "finish",
        DONE,
        ("budget_used_up", "criteria_met"),
        "out of budget with every criterion met",
    ),
    Row(
        REVIEWING,
        "retry",
        PLANNING,
        ("review_retry", "retries_left", "steps_left"),
        "improvements go into the next plan",
    ),
    Row(REVIEWING, "next_step", SPECIFYING, ("should_continue", "plan_has_steps"), "the plan's next step"),
    Row(
        REVIEWING,
        "proceed",
        PLANNING,
        ("should_continue", "not plan_has_steps"),
        "next single action, or next plan",
    ),
    Row(REVIEWING, "fail", FAILED, (), "review_failed, retries_exhausted, or the stop reason"),
)

WAITING: tuple[Row, ...] = (
    Row(PLANNING, "provide", PLANNING, ("answer_valid",), "the user's answer"),
    Row(SPECIFYING, "provide", SPECIFYING, ("answer_valid",), "the approval or argument"),
    Row(EXECUTING, "provide", EXECUTING, ("answer_valid",), "the outcome of the effect in doubt"),
)
"""Rows of a phase that waits; any process can take them. Tried after the phase's own ``hard_stop`` row."""

ROWS: tuple[Row, ...] = TABLE + WAITING


def rows_of(
    phase: str,
    *,
    waiting: bool = False,
    table: tuple[Row, ...] | None = None,
    answers: tuple[Row, ...] = WAITING,
) -> tuple[Row, ...]:
    """
    Return the rows that are tried in *phase*, in order; for a waiting run the hard stop and the answer.

    Args:
        phase: Its name.
        waiting: Whether the run waits.
        table, answers: Rows instead of `TABLE` and `WAITING`, for whoever examines an edited copy.
    """
    own = _BY_PHASE.get(phase, ()) if table is None else tuple(row for row in table if row.source == phase)
    if not waiting:
        return own
    stops = tuple(row for row in own if row.guards == ("hard_stop",))
    return stops + tuple(row for row in answers if row.source == phase)


_BY_PHASE: dict[str, tuple[Row, ...]] = {}
for _row in TABLE:
    _BY_PHASE[_row.source] = (*_BY_PHASE.get(_row.source, ()), _row)


def fingerprint() -> str:
    """Return a digest of the table: two engines with the same one take the same rows for the same guards."""
    rows = [[row.source, row.trigger, row.dest, *row.guards] for row in ROWS]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]
