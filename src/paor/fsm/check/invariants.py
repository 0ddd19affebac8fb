"""
What every transition of every run promises, whatever the table says: held against each edge that is explored. Pure.

A promise looks at what the guards looked at and at the run before and after, and asks paor's own guards, not those that
are examined; it knows nothing of rows. So an edited table or guard cannot keep it by agreeing with itself.

Source: docs/machine.md, "How it always ends".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter

from ...states.records.actions import REFUSED_CODES
from ...states.records.outcomes import Answered, Asked, InDoubt
from ...states.run.budgets import plans_left, steps_left, tools_withheld
from ...states.run.completion import decided_by_rules
from ...states.run.phase_names import (
    DONE,
    EXECUTING,
    FAILED,
    OBSERVING,
    PHASES,
    PLANNING,
    REVIEWING,
    SPECIFYING,
)
from ...states.run.state import Run
from ..decision.guard_context import GuardContext
from ..decision.plan_mode import step_of
from ..machine import guards as own
from ..machine.host_rows import question_due
from .bounded_specs import BOUNDS
from .state_space import AppliedDecision

Promise = Callable[[AppliedDecision], str | None]
"""Returns what is wrong with a transition, None when nothing is."""

COSTS: dict[tuple[str, str], str] = {
    (PLANNING, "reselect"): "selection_retries",
    (PLANNING, "select"): "step",
    (SPECIFYING, "respecify"): "parameter_retries",
    (EXECUTING, "retry_step"): "step_retries",
    (REVIEWING, "reassess"): "review_retries",
    (REVIEWING, "retry"): "retries",
    (REVIEWING, "next_step"): "step",
}
"""What each way back uses up; a question uses up an elicitation, a plan that is accepted one of the plans."""

GROWING = (
    *("step", "action", "retries", "plans", "elicitations", "blocked", "documents", "calls", "withheld"),
    *("tokens_in", "tokens_out", "cost_micro", "time_us"),
)
"""Counters that never go back."""

_COUNTED, _GROWING = attrgetter(*BOUNDS), attrgetter(*GROWING)

STOPPING = (PLANNING, SPECIFYING, EXECUTING, REVIEWING)
"""Phases that a hard stop ends; what a tool did is observed first."""


def broken_promises(taken: AppliedDecision) -> Iterator[tuple[str, str]]:
    """Yield code and words of every promise that a transition breaks."""
    for code, promise in PROMISES:
        told = promise(taken)
        if told is not None:
            yield code, told


def _stop(taken: AppliedDecision) -> str | None:
    before, after, stop = taken.before, taken.after, taken.case.stop
    if stop is None or (before.state in PHASES and before.state not in STOPPING):
        return None
    if after.state != FAILED:
        return f"the run must stop ({stop}) and goes to {after.state}"
    return None if after.counters.stop == stop else f"it stops for {stop} and says {after.counters.stop}"


def _question(taken: AppliedDecision) -> str | None:
    case, before, after = taken.case, taken.before, taken.after
    if case.stop is not None:
        return None
    if before.waiting_for is not None:
        open_still = isinstance(case.outcome, Answered) and after.waiting_for is not None
        return "the answer does not let the run go on" if open_still else None
    left = own.elicitations_left(case)
    if taken.row.host and before.state in PHASES:
        return "a row of the host's own passes a question over" if isinstance(case.outcome, InDoubt) else None
    specifying = before.state == SPECIFYING and not _is_known(case)
    asks = (
        (before.state == PLANNING and case.question is not None and left)
        or (specifying and (case.approval or case.question is not None) and left)
        or (before.state == EXECUTING and isinstance(case.outcome, Asked) and left)
        or isinstance(case.outcome, InDoubt)
        or (question_due(case) and left)
    )
    if asks and after.waiting_for is None:
        return f"somebody must be asked, and the run goes to {after.state}"
    if not asks and after.waiting_for is not None:
        return "the run waits, and there is nothing to ask or nobody may be asked"
    return None


def _selection(taken: AppliedDecision) -> str | None:
    case = taken.case
    if (taken.before.state, taken.after.state) != (PLANNING, SPECIFYING):
        return None
    if not own.selection_valid(case):
        return "the selection is not valid"
    if not own.action_allowed(case):
        return "the action is not allowed"
    if not own.tools_offered(case):
        return "the tools are withheld"
    return None if own.steps_left(case) else "no step or no plan is left"


def _is_known(case: GuardContext) -> bool:
    """Whether a call only repeats what the run has read, so that the answer is asked for in its place."""
    return own.result_known(case) and own.action_allowed(case) and own.tools_offered(case)


def _withheld(taken: AppliedDecision) -> str | None:
    case, after = taken.case, taken.after
    if taken.before.state != SPECIFYING or case.stop is not None or taken.before.waiting_for is not None:
        return None
    if taken.row.host or case.vetoes:
        return None
    if not _is_known(case):
        return "the call is none whose result is known" if after.state == PLANNING else None
    if after.state != PLANNING:
        return f"its result is known, and the run goes to {after.state}"
    return None if tools_withheld(after) else "the tools are offered again"


def _call(taken: AppliedDecision) -> str | None:
    case, before = taken.case, taken.before.state
    if taken.after.state != EXECUTING or before == EXECUTING:
        return None
    if before != SPECIFYING:
        return f"it is started from {before}"
    if not own.parameters_valid(case):
        return "its parameters are not valid"
    if not own.parameters_safe(case):
        return "its parameters are not safe"
    if not own.action_allowed(case):
        return "the action is not allowed"
    if own.duplicate(case):
        return "it is a duplicate"
    return "nobody has approved it" if case.approval else None


def _refusal(taken: AppliedDecision) -> str | None:
    case, result = taken.case, taken.after.memory.result
    if (taken.before.state, taken.after.state) != (SPECIFYING, OBSERVING) or result is None:
        return None
    if result.error_code == "duplicate_call_blocked" and not own.duplicate(case):
        return "the call is no duplicate"
    if result.error_code == "denied" and own.action_allowed(case) and not case.vetoes:
        return "the action is allowed"
    if result.error_code in REFUSED_CODES:
        if own.parameters_ok(case):
            return "nothing is wrong with the call"
        return "the parameters can be asked again" if own.parameter_retries_left(case) else None
    return None


def _ended_call(taken: AppliedDecision) -> str | None:
    case, run = taken.case, taken.before
    if (run.state, taken.after.state) != (EXECUTING, OBSERVING):
        return None
    again = own.retryable(case) and own.step_retries_left(case)
    return "the call can be tried again" if again else None


def _check_done(taken: AppliedDecision) -> str | None:
    case = taken.case
    if taken.after.state != DONE:
        return None
    if taken.row.host:  # what an end of the host's own needs is the host's to say
        return None
    if own.budget_used_up(case) and own.criteria_met(case):
        return None
    if not own.review_success(case):
        return "no review was successful, and the criteria are not met"
    return "the last formatting was not done" if own.final_action_pending(case) else None


def _check_review(taken: AppliedDecision) -> str | None:
    case, run = taken.case, taken.before
    if run.state != REVIEWING or case.stop is not None or taken.after.state not in (FAILED, PLANNING):
        return None
    if taken.row.host or case.vetoes:
        return None
    if own.review_success(case):
        return "the review was successful"
    met = own.budget_used_up(case) and own.criteria_met(case) and run.counters.concluded
    return "every criterion is met" if met else None


def _reason(taken: AppliedDecision) -> str | None:
    case, run, reason = taken.case, taken.before, taken.after.counters.stop
    if taken.after.state != FAILED or case.stop is not None:
        return None
    if taken.row.host or case.vetoes:
        known = reason in ("own_row", "selection_invalid", run.counters.stop)
        return None if known else f"{reason or 'no reason'} is not the host's own"
    if own.concluded(case) and decided_by_rules(run) and case.review is None:  # a limit has stopped it
        return None if reason == run.counters.stop else f"{reason or 'no reason'} is not why it concluded"
    again = run.state == PLANNING or own.review_retry(case)
    holds = {
        (PLANNING, "selection_invalid"): lambda: (
            not (
                own.selection_ok(case)
                or own.selection_retries_left(case)
                or own.answer_present(case)
                or own.elicitation_requested(case)
            )
        ),
        (run.state, "max_steps"): lambda: again and not steps_left(run),
        (run.state, "max_plans"): lambda: again and not plans_left(run),
        (REVIEWING, "no_improvement"): lambda: again and run.counters.stop == "no_improvement",
        (REVIEWING, "retries_exhausted"): lambda: again and not own.retries_left(case),
        (REVIEWING, "review_failed"): lambda: (
            (case.review is not None and case.review.status == "failed")
            or (own.reply_invalid(case) and own.concluded(case) and not own.review_retries_left(case))
        ),
    }.get((run.state, reason))
    return None if holds is not None and holds() else f"{reason or 'no reason'} does not hold"


def _ready(taken: AppliedDecision) -> str | None:
    after, memory = taken.after, taken.after.memory
    if after.state == SPECIFYING and memory.selection is None:
        return "Specifying is entered without a selection"
    if after.state == EXECUTING and memory.intent is None:
        return "Executing is entered without an intent"
    if after.state == OBSERVING and memory.result is None:
        return "Observing is entered without a result"
    if after.state == REVIEWING and taken.before.state not in (REVIEWING, OBSERVING):
        seen = taken.row.host and memory.observation is not None
        return None if after.counters.concluded or seen else "Reviewing is entered without anything to review"
    if after.final and not memory.answer:
        return "the run ends without a final message"
    return "the run ends and waits" if after.final and memory.question is not None else None


def _check_observed(taken: AppliedDecision) -> str | None:
    """A result that has come is observed next, unless the call is tried again."""
    came = taken.after.memory.result is not None and taken.row.source in (SPECIFYING, EXECUTING)
    if not came or taken.after.final or taken.after.state == OBSERVING:
        return None
    kept = taken.after.memory.result is taken.before.memory.result
    again = taken.row.source == EXECUTING and taken.after.state == EXECUTING
    return None if kept or again else f"a result has come and the run goes to {taken.after.state}"


def _cost(taken: AppliedDecision) -> str | None:
    before, after = taken.before, taken.after
    name, bound = COSTS.get((taken.row.source, taken.row.trigger)), taken.row.trigger
    if taken.row.at_most and after.counters.own.get(bound, 0) != before.counters.own.get(bound, 0) + 1:
        return f"{bound} is not counted"
    if after.waiting_for is not None and not isinstance(taken.case.outcome, InDoubt):
        name = "elicitations"
    if name == "step" and taken.case.moved is not None:
        name = None
    if name is None:
        return None
    rise = getattr(after.counters, name) - getattr(before.counters, name)
    return None if rise == 1 else f"{name} is raised by {rise}, not by 1"


def _bounds(taken: AppliedDecision) -> str | None:
    """A row of scores that do not rise may go on after its limit, where met criteria have stopped the run first."""
    before, after = _COUNTED(taken.before.counters), _COUNTED(taken.after.counters)
    if before != after:
        limits = taken.after.spec.limits
        for (name, limit), was, now in zip(BOUNDS.items(), before, after, strict=True):
            if was <= getattr(limits, limit) < now and name != "stale":
                return f"{name} passes {limit}"
    return "step_retries passes what the tool and the step allow" if _retries_passed(taken.after) else None


def _retries_passed(run: Run) -> bool:
    if run.state != EXECUTING or run.memory.intent is None:
        return False
    step, name = step_of(run), run.memory.intent.tool
    tool = next((tool for tool in (*run.spec.tools, *run.spec.phase_tools) if tool.name == name), None)
    allowed = max(tool.step_retries if tool is not None else 0, step.retries if step is not None else 0)
    return run.counters.step_retries > allowed


def _growth(taken: AppliedDecision) -> str | None:
    before, after = taken.before.counters, taken.after.counters
    for name, was, now in zip(GROWING, _GROWING(before), _GROWING(after), strict=True):
        if name == "withheld" and taken.row.host and taken.after.state == PLANNING:
            continue  # a new attempt has the tools again; steps bound how often they are withheld
        if now < was or name in taken.lowered:
            return f"{name} goes back"
    if any(after.own.get(name, 0) < count for name, count in before.own.items()):
        return "a counter of the host's own rows goes back"
    lost = any(was == "1" and now != "1" for was, now in zip(before.criteria, after.criteria, strict=True))
    return "a criterion that was met is met no more" if lost else None


PROMISES: tuple[tuple[str, Promise], ...] = (
    ("stop_ignored", _stop),
    ("question_ignored", _question),
    ("unchecked_selection", _selection),
    ("unchecked_call", _call),
    ("needless_repeat", _withheld),
    ("needless_refusal", _refusal),
    ("needless_refusal", _ended_call),
    ("done_unreviewed", _check_done),
    ("done_missed", _check_review),
    ("false_reason", _reason),
    ("unready_phase", _ready),
    ("unobserved_result", _check_observed),
    ("uncounted", _cost),
    ("bound_exceeded", _bounds),
    ("counter_reset", _growth),
)
"""Every promise with the code of its finding."""
