"""
The guards: named pure functions of a case, one fact each.

Every guard of a row that is tried is evaluated once, by `fsm.machine.decide`, and recorded; `transitions` only
looks the values up. A guard never raises and never looks beyond the case.
"""

from __future__ import annotations

from collections.abc import Callable

from ..states.budgets import exhausted
from ..states.outcomes import Answered, Asked, InDoubt, Unaffordable
from .case import Case
from .planned import plans_left, step_of, steps_left_in_plan
from .table import ROWS

Guard = Callable[[Case], bool]


def hard_stop(case: Case) -> bool:
    """Cancelled, a model fault, stuck, or a budget used up where that ends the run."""
    return case.stop is not None


def elicitation_requested(case: Case) -> bool:
    """The planner asks the user something before it can plan."""
    return case.question is not None


def elicitations_left(case: Case) -> bool:
    """Another question may be asked in this run."""
    return case.run.counters.elicitations < case.run.spec.limits.max_elicitations


def answer_present(case: Case) -> bool:
    """Stage 1 chose no action and answered."""
    return case.answer is not None


def selection_valid(case: Case) -> bool:
    """The reply names one known action with references that resolve."""
    return case.selection is not None and case.problem is None


def action_allowed(case: Case) -> bool:
    """Policy and task type permit the action."""
    return case.denied is None


def steps_left(case: Case) -> bool:
    """Another action may be started, and with it, where a planner is asked, another plan."""
    run = case.run
    return run.counters.step < run.spec.limits.max_steps and plans_left(run)


def selection_ok(case: Case) -> bool:
    """The selection is valid and allowed."""
    return selection_valid(case) and action_allowed(case)


def selection_retries_left(case: Case) -> bool:
    """The selection may be asked again in this step."""
    return case.run.counters.selection_retries < case.run.spec.limits.selection_retries


def approval_needed(case: Case) -> bool:
    """A person must approve this call and has not yet been asked."""
    return case.approval


def argument_missing(case: Case) -> bool:
    """The plan's step asks the user, or lacks an argument that only the user can give."""
    return case.question is not None


def parameters_valid(case: Case) -> bool:
    """The complete arguments satisfy the tool's schema."""
    return case.arguments is not None


def parameters_safe(case: Case) -> bool:
    """No argument holds a value that must not reach a tool."""
    return case.unsafe is None


def parameters_ok(case: Case) -> bool:
    """The arguments are valid and safe."""
    return parameters_valid(case) and parameters_safe(case)


def duplicate(case: Case) -> bool:
    """The duplicate guard blocks this call."""
    return case.duplicate is not None


def parameter_retries_left(case: Case) -> bool:
    """The parameters may be asked again in this step; those that code settled cannot."""
    if case.selection is not None and case.selection.arguments is not None:
        return False
    return case.run.counters.parameter_retries < case.run.spec.limits.parameter_retries


def in_doubt(case: Case) -> bool:
    """A once effect was begun by a driver that is gone."""
    return isinstance(case.outcome, InDoubt)


def input_required(case: Case) -> bool:
    """The tool cannot go on without somebody's answer."""
    return isinstance(case.outcome, Asked)


def step_retries_left(case: Case) -> bool:
    """The step's own retries are not used up."""
    intent = case.intent
    if intent is None:
        return False
    tool = next((tool for tool in case.run.spec.tools if tool.name == intent.tool), None)
    step = step_of(case.run)
    allowed = max(tool.step_retries if tool is not None else 0, step.retries if step is not None else 0)
    return case.run.counters.step_retries < allowed


def retryable(case: Case) -> bool:
    """
    The call failed in a way that may be tried again; a once effect only if it certainly did not begin.

    Of a plan's step an empty result counts as a failure, too, as far as the step itself has retries.
    """
    result = case.result
    if result is None or not result.retryable:
        return False
    step = step_of(case.run) if result.ok else None
    return not result.ok or (step is not None and case.run.counters.step_retries < step.retries)


def reply_invalid(case: Case) -> bool:
    """The refinement or completion review could not be read."""
    return case.problem is not None


def review_retries_left(case: Case) -> bool:
    """The refinement or completion review may be asked again in this iteration."""
    return case.run.counters.review_retries < case.run.spec.limits.review_retries


def stop_reached(case: Case) -> bool:
    """There is a reason to stop: criteria met, the model's decision, no improvement, a limit."""
    return case.stop_reason is not None


def concluded(case: Case) -> bool:
    """The stop is decided already; only the completion review is left."""
    return bool(case.run.counters.concluded)


def review_success(case: Case) -> bool:
    """The completion review says that the task is done."""
    return case.review is not None and case.review.status == "success"


def final_action_pending(case: Case) -> bool:
    """A final formatting action is wanted and has not been taken."""
    spec = case.run.spec
    wanted = spec.final_format is not None and spec.formatter is not None
    return wanted and not case.run.counters.formatted


def budget_used_up(case: Case) -> bool:
    """A token, time or cost budget is used up, or what is left of it is too little for the next request."""
    return isinstance(case.outcome, Unaffordable) or exhausted(case.run) is not None


def criteria_met(case: Case) -> bool:
    """There is at least one success criterion, and all are met."""
    return bool(case.criteria) and "0" not in case.criteria


def review_retry(case: Case) -> bool:
    """The completion review asks for another attempt."""
    return case.review is not None and case.review.status == "retry"


def retries_left(case: Case) -> bool:
    """Another attempt is allowed: not after no_improvement, and at most `Limits.max_retries` times."""
    counters = case.run.counters
    return counters.retries < case.run.spec.limits.max_retries and counters.stop != "no_improvement"


def should_continue(case: Case) -> bool:
    """The iteration was reviewed (a plan's steps are not), nothing stops the run, and the model continues."""
    reviewed = case.refinement is not None or (case.run.spec.mode != "react" and not concluded(case))
    return reviewed and case.stop_reason is None


def plan_has_steps(case: Case) -> bool:
    """The plan has steps that were not taken yet, or the workflow names an action (batch and planner mode)."""
    if case.moved is not None:
        return case.moved.selection is not None
    return steps_left_in_plan(case.run) > 0


def answer_valid(case: Case) -> bool:
    """The answer fits what the run waits for."""
    question = case.run.memory.question
    if question is None or not isinstance(case.outcome, Answered):
        return False
    kinds = ("done", "retry", "fail") if question.kind == "in_doubt" else ("accept", "decline")
    return case.outcome.answer.action in kinds


_FUNCTIONS: dict[str, Guard] = {
    name: function
    for name, function in globals().items()
    if callable(function) and function.__module__ == __name__
}
GUARDS: dict[str, Guard] = {name: _FUNCTIONS[name] for row in ROWS for name in (*row.conditions, *row.unless)}
"""Every guard that the table names; a name without a function fails on import."""
