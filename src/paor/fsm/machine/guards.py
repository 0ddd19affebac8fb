"""
The guards: named pure functions of a case, one fact each; and beside each what it looked at, in words.

`transitions` checks them: `fsm.machine.decide.decide` triggers the machine's event, which asks the guards of each row of the phase that it
tries, every guard once for a decision; the values are recorded with the row. A guard never raises and
never looks beyond the case.

The words are for `fsm.explain.why`. They are given the guard's own value, ``holds``, so they compare nothing a second time: they say
what was looked at, with its numbers.
"""

from __future__ import annotations

from collections.abc import Callable

from ...states.records.outcomes import DOUBTS, Answered, Asked, InDoubt, ModelFault, Replied, Unaffordable
from ...states.records.reviews import Review
from ...states.run import budgets
from ...states.run.completion import draft_of, last_call_failed
from ...states.run.state import Run
from ..decision.guard_context import GuardContext
from ..decision.plan_mode import step_of, steps_left_in_plan
from .table import ROWS

Guard = Callable[[GuardContext], bool]
Words = Callable[[GuardContext, bool], str]

WORDS: dict[str, Words] = {}
"""For each guard of the table what it looked at, in plain words; total for every case."""


def words(guard: Guard) -> Callable[[Words], Words]:
    """Register the decorated function as the words of *guard*."""

    def registered(function: Words) -> Words:
        WORDS[guard.__name__] = function
        return function

    return registered


def words_of(guard: Guard, case: GuardContext) -> str:
    """Return what *guard* looked at in *case*, in plain words."""
    return WORDS[guard.__name__](case, guard(case))


def _usage_words(run: Run, counter: str, limit: str, what: str) -> str:
    return f"{what} {getattr(run.counters, counter):,} of {limit} {getattr(run.spec.limits, limit):,}"


def _budgets(run: Run) -> str:
    """Return what is used of every budget that is set."""
    limits, counters = run.spec.limits, run.counters
    told = []
    if limits.token_budget is not None:
        tokens = counters.tokens_in + counters.tokens_out
        told.append(f"{tokens:,} of token_budget {limits.token_budget:,}")
    if limits.time_budget_s is not None:
        told.append(f"{counters.time_us / 1e6:,.3f} of time_budget_s {limits.time_budget_s:,g}")
    if limits.cost_budget is not None:
        told.append(f"{counters.cost_micro / 1e6:,.6g} of cost_budget {limits.cost_budget:,g}")
    return ", ".join(told) or "no budget is set"


def _patience(run: Run) -> str:
    return ", ".join(
        (
            _usage_words(run, "blocked", "max_blocked_calls", "blocked calls"),
            _usage_words(run, "refused", "max_consecutive_refused", "refused in a row"),
            _usage_words(run, "errors", "max_consecutive_errors", "errors in a row"),
        )
    )


_STOPS = {
    "criteria_met": "every success criterion is met",
    "model_stop": "the model says stop, or its plan is done",
    "no_improvement": "the scores do not rise any more",
}
"""Reasons of `stop_reached` in words; of limits and budgets the numbers are told instead."""


def hard_stop(case: GuardContext) -> bool:
    """Cancelled, a model fault, stuck, or a budget used up where that ends the run."""
    return case.stop is not None


@words(hard_stop)
def _(case: GuardContext, holds: bool) -> str:
    run = case.run
    if isinstance(case.outcome, ModelFault):
        return f"the model failed: {case.outcome.code}"
    if not holds:
        return f"not cancelled; {_budgets(run)}"
    told = {
        "cancelled": "somebody cancelled the run",
        "stuck": _patience(run),
        "consecutive_errors": _patience(run),
        "aborted": "the plan's step aborts",
        "token_budget": _budgets(run),
        "time_budget": _budgets(run),
        "cost_budget": _budgets(run),
    }
    return f"{case.stop}: {told.get(case.stop or '', case.trouble or 'the workflow ends the run')}"


def elicitation_requested(case: GuardContext) -> bool:
    """The planner asks the user something before it can plan."""
    return case.question is not None


@words(elicitation_requested)
def _(case: GuardContext, holds: bool) -> str:
    return (
        f"it asks: {case.question.message}" if case.question is not None else "nothing is asked of the user"
    )


def elicitations_left(case: GuardContext) -> bool:
    """Another question may be asked in this run, or nobody is asked."""
    return _is_noted(case) or budgets.questions_left(case.run)


@words(elicitations_left)
def _(case: GuardContext, holds: bool) -> str:
    if _is_noted(case):
        return "nobody is asked: what the tool has begun is noted"
    return _usage_words(case.run, "elicitations", "max_elicitations", "questions asked")


def _is_noted(case: GuardContext) -> bool:
    outcome = case.outcome
    return isinstance(outcome, Asked) and outcome.asking.noted


def answer_present(case: GuardContext) -> bool:
    """Stage 1 chose no action and answered."""
    return case.answer is not None


@words(answer_present)
def _(case: GuardContext, holds: bool) -> str:
    if not holds:
        return "the reply is no answer"
    return "the reply answers and names no action" if case.answer else "the plan is empty, which is an answer"


def selection_valid(case: GuardContext) -> bool:
    """The reply names one known action with references that resolve."""
    return case.selection is not None and case.problem is None


@words(selection_valid)
def _(case: GuardContext, holds: bool) -> str:
    if case.problem is not None:
        return f"{case.problem.code}: {case.problem.message}"
    if case.selection is None:
        return "the reply names no action"
    return f"action {case.selection.tool} is in the catalog and what it refers to exists"


def action_allowed(case: GuardContext) -> bool:
    """Policy and task type permit the action."""
    return case.denied is None


@words(action_allowed)
def _(case: GuardContext, holds: bool) -> str:
    if case.denied is not None:
        return case.denied
    name = case.selection.tool if case.selection is not None else None
    return f"policy and task type permit {name}" if name else "there is no action to permit"


def steps_left(case: GuardContext) -> bool:
    """Another action may be started and, if a planner is asked, another plan made."""
    return budgets.steps_left(case.run) and budgets.plans_left(case.run)


@words(steps_left)
def _(case: GuardContext, holds: bool) -> str:
    told = _usage_words(case.run, "step", "max_steps", "step")
    return (
        told
        if case.run.spec.mode == "react"
        else f"{told}, {_usage_words(case.run, 'plans', 'max_plans', 'plan')}"
    )


def selection_ok(case: GuardContext) -> bool:
    """The selection is valid and allowed."""
    return selection_valid(case) and action_allowed(case)


@words(selection_ok)
def _(case: GuardContext, holds: bool) -> str:
    return f"{words_of(selection_valid, case)}; {words_of(action_allowed, case)}"


def selection_retries_left(case: GuardContext) -> bool:
    """The selection may be asked again in this step."""
    return budgets.selection_retries_left(case.run)


@words(selection_retries_left)
def _(case: GuardContext, holds: bool) -> str:
    return _usage_words(case.run, "selection_retries", "selection_retries", "asked again")


def approval_needed(case: GuardContext) -> bool:
    """A person must approve this call and has not yet been asked."""
    return case.approval


@words(approval_needed)
def _(case: GuardContext, holds: bool) -> str:
    tool = case.intent.tool if case.intent is not None else None
    if holds:
        return f"{tool} needs an approval and nobody has given it yet"
    return f"{tool} needs none now" if tool else "there is no complete call to approve"


def argument_missing(case: GuardContext) -> bool:
    """The plan's step asks the user, or lacks an argument that only the user can give."""
    return case.question is not None


@words(argument_missing)
def _(case: GuardContext, holds: bool) -> str:
    return (
        f"it asks: {case.question.message}"
        if case.question is not None
        else "no argument has to be asked for"
    )


def parameters_valid(case: GuardContext) -> bool:
    """The complete arguments satisfy the tool's schema."""
    return case.arguments is not None


@words(parameters_valid)
def _(case: GuardContext, holds: bool) -> str:
    if case.invalid is not None:
        return case.invalid
    return "the arguments satisfy the tool's schema" if holds else "there are no arguments"


def parameters_safe(case: GuardContext) -> bool:
    """No argument holds a value that must not reach a tool."""
    return case.unsafe is None


@words(parameters_safe)
def _(case: GuardContext, holds: bool) -> str:
    return case.unsafe or "no argument holds a value that must not reach a tool"


def parameters_ok(case: GuardContext) -> bool:
    """The arguments are valid and safe."""
    return parameters_valid(case) and parameters_safe(case)


@words(parameters_ok)
def _(case: GuardContext, holds: bool) -> str:
    return f"{words_of(parameters_valid, case)}; {words_of(parameters_safe, case)}"


def duplicate(case: GuardContext) -> bool:
    """The duplicate guard blocks this call."""
    return case.duplicate is not None


@words(duplicate)
def _(case: GuardContext, holds: bool) -> str:
    if holds:
        return f"the {case.duplicate} rule blocks it"
    window = case.run.memory.window
    made = window.count(case.intent.key) if case.intent is not None else 0
    return f"the same call is repeated {made:,} times in the last {len(window):,} calls"


def result_known(case: GuardContext) -> bool:
    """The call repeats one whose result the run has: it only reads, or ends a turn of the profile `native`."""
    return case.repeated


@words(result_known)
def _(case: GuardContext, holds: bool) -> str:
    if holds:
        return "the same call stands in the history with its result"
    return "no result of the same call is known, or it may be made again"


def tools_offered(case: GuardContext) -> bool:
    """The tools have not been withheld in this attempt."""
    return not budgets.tools_withheld(case.run)


@words(tools_offered)
def _(case: GuardContext, holds: bool) -> str:
    return "the tools were not withheld before" if holds else "the tools were withheld once in this attempt"


def parameter_retries_left(case: GuardContext) -> bool:
    """The parameters may be asked again in this step; those that code has set cannot."""
    return not _is_settled_by_code(case) and budgets.parameter_retries_left(case.run)


def _is_settled_by_code(case: GuardContext) -> bool:
    return case.selection is not None and case.selection.arguments is not None


@words(parameter_retries_left)
def _(case: GuardContext, holds: bool) -> str:
    if _is_settled_by_code(case):
        return "the arguments were settled by code, so nobody is asked again"
    return _usage_words(case.run, "parameter_retries", "parameter_retries", "asked again")


def in_doubt(case: GuardContext) -> bool:
    """A once effect was begun, and nobody knows whether it happened."""
    return isinstance(case.outcome, InDoubt)


def doubt_words(why: str) -> str:
    """Describe how an in-doubt call was started."""
    return DOUBTS.get(why, "begun")


@words(in_doubt)
def _(case: GuardContext, holds: bool) -> str:
    if isinstance(case.outcome, InDoubt):
        return f"a once effect was {doubt_words(case.outcome.why)}"
    return "the call has ended" if case.result is not None else "no effect is in doubt"


def input_required(case: GuardContext) -> bool:
    """The tool needs an answer before it can continue."""
    return isinstance(case.outcome, Asked)


@words(input_required)
def _(case: GuardContext, holds: bool) -> str:
    return "the tool asks for an answer" if holds else "the tool asks for nothing"


def step_retries_left(case: GuardContext) -> bool:
    """The step's own retries are not used up."""
    return case.intent is not None and budgets.step_retries_left(case.run, _step_retries(case))


def _step_retries(case: GuardContext) -> int:
    """Return how often the call may be tried again: what its tool allows, or the plan's step."""
    intent, step = case.intent, step_of(case.run)
    own = next((tool.step_retries for tool in case.run.spec.tools if intent and tool.name == intent.tool), 0)
    return max(own, step.retries if step is not None else 0)


@words(step_retries_left)
def _(case: GuardContext, holds: bool) -> str:
    used = case.run.counters.step_retries
    return f"tried again {used:,} of retries of the step {_step_retries(case):,}"


def retryable(case: GuardContext) -> bool:
    """
    The call failed in a way that may be tried again; a once effect only if it certainly did not begin.

    Of a plan's step an empty result counts as a failure, too, as far as the step itself has retries.
    """
    result = case.result
    if result is None or not result.retryable:
        return False
    step = step_of(case.run) if result.ok else None
    return not result.ok or (step is not None and budgets.step_retries_left(case.run, step.retries))


@words(retryable)
def _(case: GuardContext, holds: bool) -> str:
    result = case.result
    if result is None:
        return "the call has no result"
    if result.ok:
        return "the call succeeded" if not result.retryable else "the call succeeded with an empty result"
    return f"it failed in a way that {'may' if holds else 'may not'} be tried again: {result.error}"


def reply_invalid(case: GuardContext) -> bool:
    """The refinement or completion review could not be read."""
    return case.problem is not None


@words(reply_invalid)
def _(case: GuardContext, holds: bool) -> str:
    if case.problem is not None:
        return f"{case.problem.code}: {case.problem.message}"
    if case.review is not None:
        return _judged(case, case.review)
    if case.refinement is not None:
        return f"the refinement says {case.refinement.decision}"
    return "no reply was needed"


def review_retries_left(case: GuardContext) -> bool:
    """The refinement or completion review may be asked again in this iteration."""
    return budgets.review_retries_left(case.run)


@words(review_retries_left)
def _(case: GuardContext, holds: bool) -> str:
    return _usage_words(case.run, "review_retries", "review_retries", "asked again")


def stop_reached(case: GuardContext) -> bool:
    """There is a reason to stop: criteria met, the model's decision, no improvement, a limit."""
    return case.stop_reason is not None


@words(stop_reached)
def _(case: GuardContext, holds: bool) -> str:
    if not holds:
        said = f"the model says {case.refinement.decision}; " if case.refinement is not None else ""
        return f"{said}{words_of(steps_left, case)}; {words_of(criteria_met, case)}"
    reason = case.stop_reason or ""
    if reason in ("max_steps", "max_plans"):
        return f"{reason}: {words_of(steps_left, case)}"
    return f"{reason}: {_STOPS.get(reason) or _budgets(case.run)}"


def concluded(case: GuardContext) -> bool:
    """The stop is already decided; only the completion review is left."""
    return bool(case.run.counters.concluded)


@words(concluded)
def _(case: GuardContext, holds: bool) -> str:
    return f"the stop was decided before: {case.run.counters.stop}" if holds else "no stop was decided before"


def review_success(case: GuardContext) -> bool:
    """The task is judged to be done, by the completion review or by code."""
    return case.review is not None and case.review.status == "success"


@words(review_success)
def _(case: GuardContext, holds: bool) -> str:
    if case.review is None:
        return "there is no completion review yet"
    return _judged(case, case.review)


def _judged(case: GuardContext, review: Review) -> str:
    """Return who has judged the run: a model, or code, and from what."""
    counters = case.run.counters
    if isinstance(case.outcome, Replied):
        return f"the completion review says {review.status}"
    if counters.formatted:
        return f"judged {review.status} before the final formatting"
    if counters.stop == "criteria_met":
        why = "every criterion is met"
    elif draft_of(case.run):
        told = "and the last call did not fail" if case.run.memory.history else "and no tool was called"
        why = f"the model has answered, {told}"
    else:
        why = "the last action succeeded" if review.status == "success" else "the last action failed"
    return f"judged {review.status} by code, no model was asked: {why}"


def final_action_pending(case: GuardContext) -> bool:
    """A final formatting action is wanted and has not been taken."""
    spec = case.run.spec
    wanted = spec.final_format is not None and spec.formatter is not None
    return wanted and not case.run.counters.formatted


@words(final_action_pending)
def _(case: GuardContext, holds: bool) -> str:
    if case.run.spec.final_format is None:
        return "no final format is wanted"
    return (
        f"{case.run.spec.final_format} is wanted, {'done' if case.run.counters.formatted else 'not done yet'}"
    )


def budget_used_up(case: GuardContext) -> bool:
    """A token, time or cost budget is used up, or what is left of it is too little for the next request."""
    return isinstance(case.outcome, Unaffordable) or (
        budgets.exhausted_budget(case.run.spec.limits, case.run.counters) is not None
    )


@words(budget_used_up)
def _(case: GuardContext, holds: bool) -> str:
    return _budgets(case.run)


def criteria_met(case: GuardContext) -> bool:
    """There is at least one success criterion, all are met, and the last call did not fail."""
    failed = last_call_failed(case.run)
    return budgets.all_met(case.criteria) and not failed


@words(criteria_met)
def _(case: GuardContext, holds: bool) -> str:
    if not case.criteria:
        return "there are no success criteria"
    told = f"{case.criteria.count('1'):,} of {len(case.criteria):,} criteria met"
    return told if holds or not budgets.all_met(case.criteria) else f"{told}, but the last call failed"


def review_retry(case: GuardContext) -> bool:
    """The completion review asks for another attempt."""
    return case.review is not None and case.review.status == "retry"


@words(review_retry)
def _(case: GuardContext, holds: bool) -> str:
    return words_of(review_success, case)


def retries_left(case: GuardContext) -> bool:
    """Another attempt is allowed: not after no_improvement, and at most `Limits.max_retries` times."""
    return budgets.retries_left(case.run)


@words(retries_left)
def _(case: GuardContext, holds: bool) -> str:
    told = _usage_words(case.run, "retries", "max_retries", "reviews that said retry")
    barred = case.run.counters.stop == "no_improvement"
    return told + (", after no_improvement none is allowed" if barred else "")


def should_continue(case: GuardContext) -> bool:
    """The iteration was reviewed (a plan's steps are not), nothing stops the run, and the model continues."""
    reviewed = case.refinement is not None or (case.run.spec.plans and not concluded(case))
    return reviewed and case.stop_reason is None


@words(should_continue)
def _(case: GuardContext, holds: bool) -> str:
    if case.stop_reason is not None:
        return f"it stops: {case.stop_reason}"
    if case.refinement is not None:
        return f"the model says {case.refinement.decision}, nothing stops the run"
    return "a plan's steps need no refinement" if case.run.spec.plans else "no refinement was read"


def plan_has_steps(case: GuardContext) -> bool:
    """The plan has steps that were not taken yet, or the workflow names an action (not in the two-stage forms)."""
    if case.moved is not None:
        return case.moved.selection is not None
    if case.run.spec.native and not budgets.steps_left(case.run):
        return False  # calls beyond the last step are not made: the model is asked for its answer
    return steps_left_in_plan(case.run) > 0


@words(plan_has_steps)
def _(case: GuardContext, holds: bool) -> str:
    if case.moved is not None:
        action = case.moved.selection
        return f"the workflow names {action.tool}" if action is not None else "the workflow names no action"
    plan, left = case.run.memory.plan, steps_left_in_plan(case.run)
    if case.run.spec.native and not budgets.steps_left(case.run):
        return words_of(steps_left, case)
    return (
        f"{left:,} of {len(plan.steps):,} steps of the plan are left"
        if plan is not None
        else "there is no plan"
    )


def answer_valid(case: GuardContext) -> bool:
    """The answer fits what the run waits for."""
    question = case.run.memory.question
    if question is None or not isinstance(case.outcome, Answered):
        return False
    kinds = ("done", "retry", "fail") if question.kind == "in_doubt" else ("accept", "decline")
    return case.outcome.answer.action in kinds


@words(answer_valid)
def _(case: GuardContext, holds: bool) -> str:
    question = case.run.memory.question
    if question is None or not isinstance(case.outcome, Answered):
        return "nobody has answered"
    return f"{case.outcome.answer.action}, to a question of the kind {question.kind}"


_FUNCTIONS: dict[str, Guard] = {
    name: function
    for name, function in globals().items()
    if callable(function) and function.__module__ == __name__
}
GUARDS: dict[str, Guard] = {name: _FUNCTIONS[name] for row in ROWS for name in (*row.conditions, *row.unless)}
"""Every guard that the table names; a name without a function fails on import."""
