"""
What each guard looked at, in plain words: the facts beside its value, for `fsm.why`.

One function for each guard of `fsm.guards`, of the same case; pure, and total for every case. A guard without one fails a
test. A fact says what was compared with what; whether the guard held is recorded in the row and not said again.
"""

from __future__ import annotations

from collections.abc import Callable

from ..states.outcomes import Answered, ModelFault
from ..states.run import Run
from .case import Case
from .planned import step_of, steps_left_in_plan

Fact = Callable[[Case], str]


def _of(number: int, bound: int, name: str) -> str:
    return f"{number:,} of {name} {bound:,}"


def _budgets(run: Run) -> str:
    """Return what is used of every budget that is set."""
    limits, counters = run.spec.limits, run.counters
    told = []
    if limits.token_budget is not None:
        told.append(_of(counters.tokens_in + counters.tokens_out, limits.token_budget, "token_budget"))
    if limits.time_budget_s is not None:
        told.append(f"{counters.time_us / 1e6:,.3f} of time_budget_s {limits.time_budget_s:,g}")
    if limits.cost_budget is not None:
        told.append(f"{counters.cost_micro / 1e6:,.6g} of cost_budget {limits.cost_budget:,g}")
    return ", ".join(told) or "no budget is set"


def _patience(run: Run) -> str:
    limits, counters = run.spec.limits, run.counters
    return ", ".join(
        (
            f"blocked calls {_of(counters.blocked, limits.max_blocked_calls, 'max_blocked_calls')}",
            f"refused in a row {_of(counters.refused, limits.max_consecutive_refused, 'max_consecutive_refused')}",
            f"errors in a row {_of(counters.errors, limits.max_consecutive_errors, 'max_consecutive_errors')}",
        )
    )


def _hard_stop(case: Case) -> str:
    run = case.run
    if isinstance(case.outcome, ModelFault):
        return f"the model failed: {case.outcome.code}"
    if case.stop is None:
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
    return f"{case.stop}: {told.get(case.stop, case.trouble or 'the workflow ends the run')}"


def _elicitation(case: Case) -> str:
    return (
        f"it asks: {case.question.message}" if case.question is not None else "nothing is asked of the user"
    )


def _elicitations(case: Case) -> str:
    limits = case.run.spec.limits
    return (
        f"questions asked {_of(case.run.counters.elicitations, limits.max_elicitations, 'max_elicitations')}"
    )


def _answer(case: Case) -> str:
    if case.answer is None:
        return "the reply is no answer"
    return "the reply answers and names no action" if case.answer else "the plan is empty, which is an answer"


def _selection(case: Case) -> str:
    if case.problem is not None:
        return f"{case.problem.code}: {case.problem.message}"
    if case.selection is None:
        return "the reply names no action"
    return f"action {case.selection.tool} is in the catalog and what it refers to exists"


def _allowed(case: Case) -> str:
    if case.denied is not None:
        return case.denied
    name = case.selection.tool if case.selection is not None else None
    return f"policy and task type permit {name}" if name else "there is no action to permit"


def _steps(case: Case) -> str:
    run = case.run
    told = f"step {_of(run.counters.step, run.spec.limits.max_steps, 'max_steps')}"
    plans = run.counters.plans, run.spec.limits.max_plans
    return told + (f", plan {_of(*plans, 'max_plans')}" if run.spec.mode != "react" else "")


def _both(one: Fact, other: Fact) -> Fact:
    return lambda case: f"{one(case)}; {other(case)}"


def _selection_retries(case: Case) -> str:
    limit = case.run.spec.limits.selection_retries
    return f"asked again {_of(case.run.counters.selection_retries, limit, 'selection_retries')}"


def _approval(case: Case) -> str:
    tool = case.intent.tool if case.intent is not None else None
    if case.approval:
        return f"{tool} needs an approval and nobody has given it yet"
    return f"{tool} needs none now" if tool else "there is no complete call to approve"


def _argument(case: Case) -> str:
    return (
        f"it asks: {case.question.message}"
        if case.question is not None
        else "no argument has to be asked for"
    )


def _parameters(case: Case) -> str:
    if case.invalid is not None:
        return case.invalid
    return (
        "the arguments satisfy the tool's schema" if case.arguments is not None else "there are no arguments"
    )


def _safe(case: Case) -> str:
    return case.unsafe or "no argument holds a value that must not reach a tool"


def _duplicate(case: Case) -> str:
    run = case.run
    if case.duplicate is not None:
        return f"the {case.duplicate} rule blocks it"
    executed = sum(key == case.intent.key for key in run.memory.window) if case.intent is not None else 0
    return f"the same call stands {executed:,} times among the last {len(run.memory.window):,}"


def _parameter_retries(case: Case) -> str:
    if case.selection is not None and case.selection.arguments is not None:
        return "the arguments were settled by code, so nobody is asked again"
    limit = case.run.spec.limits.parameter_retries
    return f"asked again {_of(case.run.counters.parameter_retries, limit, 'parameter_retries')}"


def _in_doubt(case: Case) -> str:
    if case.outcome.kind == "in_doubt":
        return "a once effect was begun by a driver that is gone"
    return "the call has ended" if case.result is not None else "no effect is in doubt"


def _input_required(case: Case) -> str:
    return "the tool asks for an answer" if case.outcome.kind == "asked" else "the tool asks for nothing"


def _step_retries(case: Case) -> str:
    intent, step = case.intent, step_of(case.run)
    own = next((tool.step_retries for tool in case.run.spec.tools if intent and tool.name == intent.tool), 0)
    allowed = max(own, step.retries if step is not None else 0)
    return f"tried again {_of(case.run.counters.step_retries, allowed, 'retries of the step')}"


def _retryable(case: Case) -> str:
    result = case.result
    if result is None:
        return "the call has no result"
    if result.ok:
        return "the call succeeded" if not result.retryable else "the call succeeded with an empty result"
    may = "may" if result.retryable else "may not"
    return f"it failed in a way that {may} be tried again: {result.error}"


def _reply(case: Case) -> str:
    if case.problem is not None:
        return f"{case.problem.code}: {case.problem.message}"
    if case.review is not None:
        return f"the completion review says {case.review.status}"
    if case.refinement is not None:
        return f"the refinement says {case.refinement.decision}"
    return "no reply was needed"


def _review_retries(case: Case) -> str:
    limit = case.run.spec.limits.review_retries
    return f"asked again {_of(case.run.counters.review_retries, limit, 'review_retries')}"


_STOPS = {
    "criteria_met": "every success criterion is met",
    "model_stop": "the model says stop, or its plan is done",
    "no_improvement": "the scores do not rise any more",
    "max_steps": "all steps are taken",
    "max_plans": "all plans are made",
}


def _stop(case: Case) -> str:
    reason = case.stop_reason
    if reason is None:
        said = f"the model says {case.refinement.decision}; " if case.refinement is not None else ""
        return f"{said}{_steps(case)}; {_criteria(case)}"
    if reason in ("max_steps", "max_plans"):
        return f"{reason}: {_steps(case)}"
    return f"{reason}: {_STOPS.get(reason) or _budgets(case.run)}"


def _concluded(case: Case) -> str:
    counters = case.run.counters
    return (
        f"the stop was decided before: {counters.stop}"
        if counters.concluded
        else "no stop was decided before"
    )


def _review(case: Case) -> str:
    if case.review is None:
        return "there is no completion review yet"
    return f"the completion review says {case.review.status}"


def _final_action(case: Case) -> str:
    if case.run.spec.final_format is None:
        return "no final format is wanted"
    return (
        f"{case.run.spec.final_format} is wanted, {'done' if case.run.counters.formatted else 'not done yet'}"
    )


def _criteria(case: Case) -> str:
    if not case.criteria:
        return "there are no success criteria"
    return f"{case.criteria.count('1'):,} of {len(case.criteria):,} criteria met"


def _retries(case: Case) -> str:
    counters = case.run.counters
    told = f"reviews that said retry {_of(counters.retries, case.run.spec.limits.max_retries, 'max_retries')}"
    return told + (", after no_improvement none is allowed" if counters.stop == "no_improvement" else "")


def _continue(case: Case) -> str:
    if case.stop_reason is not None:
        return f"it stops: {case.stop_reason}"
    if case.refinement is not None:
        return f"the model says {case.refinement.decision}, nothing stops the run"
    return "no refinement was read" if case.run.spec.mode == "react" else "a plan's steps need no refinement"


def _plan(case: Case) -> str:
    if case.moved is not None:
        action = case.moved.selection
        return f"the workflow names {action.tool}" if action is not None else "the workflow names no action"
    if case.run.memory.plan is None:
        return "there is no plan"
    return (
        f"{steps_left_in_plan(case.run):,} of {len(case.run.memory.plan.steps):,} steps of the plan are left"
    )


def _provided(case: Case) -> str:
    question = case.run.memory.question
    if question is None or not isinstance(case.outcome, Answered):
        return "nobody has answered"
    return f"{case.outcome.answer.action}, to a question of the kind {question.kind}"


FACTS: dict[str, Fact] = {
    "hard_stop": _hard_stop,
    "elicitation_requested": _elicitation,
    "elicitations_left": _elicitations,
    "answer_present": _answer,
    "selection_valid": _selection,
    "action_allowed": _allowed,
    "steps_left": _steps,
    "selection_ok": _both(_selection, _allowed),
    "selection_retries_left": _selection_retries,
    "approval_needed": _approval,
    "argument_missing": _argument,
    "parameters_valid": _parameters,
    "parameters_safe": _safe,
    "parameters_ok": _both(_parameters, _safe),
    "duplicate": _duplicate,
    "parameter_retries_left": _parameter_retries,
    "in_doubt": _in_doubt,
    "input_required": _input_required,
    "step_retries_left": _step_retries,
    "retryable": _retryable,
    "reply_invalid": _reply,
    "review_retries_left": _review_retries,
    "stop_reached": _stop,
    "concluded": _concluded,
    "review_success": _review,
    "final_action_pending": _final_action,
    "budget_used_up": lambda case: _budgets(case.run),
    "criteria_met": _criteria,
    "review_retry": _review,
    "retries_left": _retries,
    "should_continue": _continue,
    "plan_has_steps": _plan,
    "answer_valid": _provided,
}
"""For each guard what it looked at; the keys are those of `fsm.guards.GUARDS`."""
