"""
The machine, as data: which transition is taken (`TABLE`, `WAITING`), and why a run stops (`STOPS`).

Rows of a phase are tried from top to bottom; the first whose guards all hold is taken. A guard is the name of a
pure function in `fsm.machine.guards`; one with a leading ``not`` must not hold. Everything else is derived from this
table: the `transitions` machine, the diagrams, the docs' table, the static check, the fuzz rules. What is not in
the table is illegal: the event raises, and the run stays as it was.

Reasons to stop are read in the order of `STOPS`; the first whose predicates all hold is the reason. A predicate is the
name of a pure function in `fsm.machine.stop_rules`. Nothing else sets a reason.

`finish` and the `wait` of Specifying have two rows each, since a row is a conjunction and each has two cases.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from ...states.run.phase_names import DONE, EXECUTING, FAILED, OBSERVING, PLANNING, REVIEWING, SPECIFYING

INITIAL = PLANNING

RULES = 1
"""
Number of paor's own rules: the table, its guards and changes, and how outcomes are read.

A person raises it with a change after which a run may be decided differently; see CONTRIBUTING. A run of another number resumes only if accepted.
"""


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
        answers: Whether it takes an answer: tried while the run waits, and only then.
        host: Whether it is one of a host's own machine.
        at_most: How often it may be taken in a run; 0: as often as its guards let it.
    """

    source: str
    trigger: str
    dest: str
    guards: tuple[str, ...]
    meaning: str
    answers: bool = False
    host: bool = False
    at_most: int = 0

    @property
    def conditions(self) -> tuple[str, ...]:
        """Guards that must hold."""
        return tuple(guard for guard in self.guards if not guard.startswith("not "))

    @property
    def unless(self) -> tuple[str, ...]:
        """Guards that must not hold, without the ``not``."""
        return tuple(guard[4:] for guard in self.guards if guard.startswith("not "))

    def is_tried(self, *, waits: bool) -> bool:
        """Return whether a run in its source tries it; one that waits tries only hard stops and what takes the answer."""
        return self.answers or self.guards == ("hard_stop",) if waits else not self.answers


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
        "withhold",
        PLANNING,
        ("result_known", "action_allowed", "tools_offered"),
        "its result is known: the tools are withheld, and the answer is asked for",
    ),
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
        "the tool needs somebody's answer before it continues",
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
    Row(REVIEWING, "finish", DONE, ("review_success",), "the task is judged to be done"),
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


@dataclass(frozen=True, slots=True)
class Stop:
    """
    One reason to stop, in one situation.

    Attributes:
        reason: From `states.run.reasons.REASONS`; `CONCLUDED` for the one that was recorded when the run concluded.
        guard: Guard of the rows that it makes a run take: ``hard_stop`` (read first in a phase), ``stop_reached`` (read
            after each action, until one was found), ``answer_present``; empty for the phase's last ``fail``, whose
            reason is read once no other row has fitted.
        phases: Where it is read.
        when: Names of predicates, ``not NAME`` for one that must not hold; none: it always holds.
        meaning: One line for people.
    """

    reason: str
    guard: str
    phases: tuple[str, ...]
    when: tuple[str, ...]
    meaning: str


CONCLUDED = ""
"""Instead of a reason: the one that was recorded by ``conclude``."""

OWN = "*"
"""Instead of a phase's name: every phase of a host's own machine."""

_ASKING = (PLANNING, SPECIFYING, REVIEWING, OWN)

STOPS: tuple[Stop, ...] = (
    # -- hard stops: read first in every phase but Observing, so that what a tool did is always recorded -------
    # The first two end a run whatever else holds: the run cannot go on, so it does not matter what else would end it.
    Stop(
        "stuck",
        "hard_stop",
        (PLANNING, SPECIFYING, OWN),
        ("unaskable",),
        meaning="a question, but no more may be asked",
    ),
    Stop(
        "workflow_error", "hard_stop", _ASKING, ("workflow_lost",), meaning="the workflow cannot be followed"
    ),
    Stop(
        "cancelled", "hard_stop", (*_ASKING, EXECUTING), ("cancelled",), meaning="somebody cancelled the run"
    ),
    Stop(
        "model_error",
        "hard_stop",
        _ASKING,
        ("model_failed",),
        meaning="the model could not be reached, or refused",
    ),
    # Limits: before a request to the model, and at entry to Reviewing. The final formatting and what a host's own phase
    # does without a model are beyond all of them, and an answer that somebody has given is taken in whatever is used up. Calls before budgets: a run that repeats
    # itself is told so, not that it has spent what it repeated itself with.
    Stop(
        "stuck",
        "hard_stop",
        _ASKING,
        ("calls_refused", "not beyond_limits", "not waiting"),
        meaning="too many calls were blocked, or refused in a row",
    ),
    Stop(
        "consecutive_errors",
        "hard_stop",
        _ASKING,
        ("errors_in_a_row", "not beyond_limits", "not waiting"),
        meaning="too many tool errors in a row",
    ),
    # With every criterion met a used-up budget is no failure: Reviewing concludes with it, see below.
    Stop(
        "token_budget",
        "hard_stop",
        _ASKING,
        ("tokens_used_up", "not beyond_limits", "not waiting", "not all_met_in_review"),
        meaning="no tokens are left for the next request",
    ),
    Stop(
        "time_budget",
        "hard_stop",
        _ASKING,
        ("time_used_up", "not beyond_limits", "not waiting", "not all_met_in_review"),
        meaning="no time is left for the next request",
    ),
    Stop(
        "cost_budget",
        "hard_stop",
        _ASKING,
        ("cost_used_up", "not beyond_limits", "not waiting", "not all_met_in_review"),
        meaning="no money is left for the next request",
    ),
    Stop(
        "aborted", "hard_stop", _ASKING, ("aborted",), meaning="a step of the plan or the workflow says abort"
    ),
    # -- stops after an action, until one was recorded: they lead to the completion review ----------------------
    # Budgets first: what follows is read from a reply, and for a reply there was budget. Then criteria before the
    # model's own decision: all met stops the run whatever the model says. Limits of steps come last, so that a run that
    # ends well with its last step does not say that it ran out of them.
    Stop(
        "token_budget",
        "stop_reached",
        (REVIEWING,),
        ("tokens_used_up",),
        meaning="used up, with every criterion met",
    ),
    Stop(
        "time_budget",
        "stop_reached",
        (REVIEWING,),
        ("time_used_up",),
        meaning="used up, with every criterion met",
    ),
    Stop(
        "cost_budget",
        "stop_reached",
        (REVIEWING,),
        ("cost_used_up",),
        meaning="used up, with every criterion met",
    ),
    Stop(
        "criteria_met", "stop_reached", (REVIEWING,), ("refined", "all_met"), meaning="every criterion is met"
    ),
    Stop(
        "max_plans",
        "stop_reached",
        (REVIEWING,),
        ("plan_wanted", "no_plan_left"),
        meaning="the plan is done, and no other may be made",
    ),
    Stop(
        "model_stop",
        "stop_reached",
        (REVIEWING,),
        ("model_stops",),
        meaning="the model's refinement says stop",
    ),
    Stop(
        "model_stop",
        "stop_reached",
        (REVIEWING,),
        ("refinement_unreadable",),
        meaning="no refinement can be read",
    ),
    Stop(
        "model_stop",
        "stop_reached",
        (REVIEWING,),
        ("plan_is_done",),
        meaning="a batch's plan, or the workflow, is done",
    ),
    Stop(
        "no_improvement",
        "stop_reached",
        (REVIEWING,),
        ("refined", "stale"),
        meaning="the scores do not rise any more",
    ),
    Stop(
        "max_steps",
        "stop_reached",
        (REVIEWING,),
        ("step_wanted", "no_step_left"),
        meaning="all steps are taken",
    ),
    # -- an answer in Planning is a stop of its own -------------------------------------------------------------
    Stop(
        "max_steps",
        "answer_present",
        (PLANNING,),
        ("calls_unmade",),
        meaning="an answer, after calls for which no step was left",
    ),
    Stop("model_stop", "answer_present", (PLANNING,), (), meaning="the planner answers and takes no action"),
    # -- why a phase's last ``fail`` was taken --------------------------------------------------------------------
    Stop(
        "max_steps", "", (PLANNING,), ("no_step_left",), meaning="an action was selected, and no step is left"
    ),
    Stop("max_plans", "", (PLANNING,), ("no_plan_left",), meaning="a plan was made, and none is left"),
    Stop("selection_invalid", "", (PLANNING,), (), meaning="no usable selection, also when asked again"),
    Stop(
        "own_row",
        "",
        (REVIEWING,),
        ("vetoed",),
        meaning="a guard of the host's own refuses what would follow",
    ),
    Stop(
        "no_improvement",
        "",
        (REVIEWING,),
        ("review_retry", "improved_nothing"),
        meaning="a retry would bring nothing",
    ),
    Stop(
        "max_steps",
        "",
        (REVIEWING,),
        ("review_retry", "no_step_left"),
        meaning="a retry, and no step is left",
    ),
    Stop(
        "max_plans",
        "",
        (REVIEWING,),
        ("review_retry", "no_plan_left"),
        meaning="a retry, and no plan is left",
    ),
    Stop("retries_exhausted", "", (REVIEWING,), ("review_retry",), meaning="a retry, and none is left"),
    Stop("review_failed", "", (REVIEWING,), ("reviewed",), meaning="the completion review says failed"),
    Stop("review_failed", "", (REVIEWING,), ("reply_invalid",), meaning="no completion review can be read"),
    Stop(CONCLUDED, "", (REVIEWING,), ("stop_recorded",), meaning="the reason that was recorded before"),
    Stop("own_row", "", (OWN,), (), meaning="a row of the host's own machine ends the run"),
    Stop(
        "internal_error",
        "",
        (SPECIFYING, EXECUTING, REVIEWING),
        (),
        meaning="no reason is known; cannot happen",
    ),
)
"""Why a run stops, in the order in which it is asked; those of one guard and phase are read together."""


WAITING: tuple[Row, ...] = (
    Row(PLANNING, "provide", PLANNING, ("answer_valid",), "the user's answer", answers=True),
    Row(SPECIFYING, "provide", SPECIFYING, ("answer_valid",), "the approval or argument", answers=True),
    Row(
        EXECUTING, "provide", EXECUTING, ("answer_valid",), "the outcome of the effect in doubt", answers=True
    ),
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


def fingerprint(rows: Iterable[Row] = ROWS) -> str:
    """Return a digest of the rows of a machine: two engines with the same one take the same rows for the same guards."""
    told = [[row.source, row.trigger, row.dest, *row.guards] for row in rows]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
