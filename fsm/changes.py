"""
What a transition sets: one function per row's source and trigger, from a case to a change and new counters.

A function always sets the same slots of `Change`, explicitly None where there is nothing: `fsm.fold.restore`
relies on it, and a test holds every function to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ..states.actions import Selection, ToolResult
from ..states.budgets import exhausted
from ..states.observations import Message
from ..states.outcomes import Cancelled, ModelFault
from ..states.phase import EXECUTING, OBSERVING, PLANNING, REVIEWING, SPECIFYING
from ..states.plans import Step
from ..states.run import Change
from ..tools.catalog import DOCUMENT_LIST
from .answers import final_answer
from .asking import Effect, provide, said, wait_executing, wait_planning, wait_specifying
from .case import Case
from .judging import stale_after
from .observe import TURN_CHARS, answer_text, check_of, cut, line, message_of, observation_of
from .planned import plans_left, selection_of, step_of


def _select(case: Case) -> Effect:
    counters = case.run.counters
    planned: dict[str, Any] = {}
    if case.plan is not None or case.moved is not None:
        planned = {"plan": case.plan, "turn": said(case)}
    change = Change(
        selection=case.selection,
        intent=None,
        result=None,
        observation=None,
        feedback=None,
        reply=None,
        **planned,
    )
    return change, replace(
        counters,
        step=counters.step + 1,
        plan_step=0,
        plans=counters.plans + (case.plan is not None),
        selection_retries=0,
        parameter_retries=0,
        step_retries=0,
    )


def _reselect(case: Case) -> Effect:
    counters = case.run.counters
    return Change(feedback=_problem(case)), replace(
        counters, selection_retries=counters.selection_retries + 1
    )


def _problem(case: Case) -> str:
    """Why the reply could not be used, for the next prompt."""
    if case.problem is not None:
        return case.problem.message
    return case.denied or case.invalid or case.unsafe or "the reply could not be used"


def _answer(case: Case) -> Effect:
    planned: dict[str, Any] = {} if case.run.spec.mode == "react" else {"turn": said(case), "selection": None}
    change = Change(answer=case.answer or None, feedback=None, **planned)
    return change, replace(case.run.counters, concluded=1, stop="model_stop", selection_retries=0)


def _fail_planning(case: Case) -> Effect:
    if case.stop is not None:
        return _fail_stopped(case)
    return _failed(case, _bound_reached(case) or "selection_invalid")


def _bound_reached(case: Case) -> str | None:
    """Return the bound that forbids another action, or None."""
    if case.run.counters.step >= case.run.spec.limits.max_steps:
        return "max_steps"
    return None if plans_left(case.run) else "max_plans"


def _failed(case: Case, reason: str) -> Effect:
    answer = final_answer(case, reason, done=False)
    if case.trouble:
        answer = f"{answer}\n\n{case.trouble}"
    return Change(answer=answer, question=None), replace(case.run.counters, stop=reason)


def _specify(case: Case) -> Effect:
    counters = case.run.counters
    change = Change(intent=case.intent, feedback=None, reply=None)
    return change, replace(counters, action=counters.action + 1, parameter_retries=0, refused=0)


def _respecify(case: Case) -> Effect:
    counters = case.run.counters
    return Change(feedback=_problem(case)), replace(
        counters, parameter_retries=counters.parameter_retries + 1
    )


def _refuse(case: Case) -> Effect:
    """The call is not executed: an error result in its place says why."""
    run, selection, counters = case.run, case.selection, case.run.counters
    assert selection is not None, "Specifying is entered with a selection"
    step = step_of(run)
    if selection.origin == "workflow" and selection.tool == "noop":
        step = Step(type="noop", reason=selection.objective)
    if step is not None and step.type != "tool":
        change = Change(result=_other_result(case, step), intent=None, feedback=None, reply=None)
        return change, replace(counters, action=counters.action + 1)
    blocked = case.duplicate is not None
    echo = None
    if case.denied is not None:
        code, error = "denied", case.denied
    elif blocked:
        assert case.intent is not None, "only a complete call can be a duplicate"
        code = "duplicate_call_blocked"
        error = f"the same call was made before ({case.duplicate} rule); change the arguments or choose another action"
        echo = run.memory.outputs.get(case.intent.key)
    elif case.unsafe is not None:
        code, error = "unsafe_parameters", case.unsafe
    else:
        code, error = "invalid_parameters", _problem(case)
    refused = code in ("invalid_parameters", "unsafe_parameters")
    change = Change(
        result=ToolResult(tool=selection.tool, ok=False, error=error, error_code=code, echo=echo),
        intent=None,
        feedback=None,
        reply=None,
    )
    return change, replace(
        counters,
        action=counters.action + 1,
        blocked=counters.blocked + (code == "duplicate_call_blocked" and selection.origin != "hook"),
        refused=_counted_on(case, counters.refused, failed=refused),
    )


def _other_result(case: Case, step: Step) -> ToolResult:
    """Return what a plan's step that is no tool came to: the user's answer, or nothing."""
    if step.type == "noop":
        return ToolResult("noop", ok=True, notes=(step.reason.strip() or "nothing was done",))
    reply = case.run.memory.reply
    if reply is None or reply.action != "accept" or reply.content in (None, "", {}, []):
        word = "declined to answer" if reply is not None and reply.action == "decline" else "gave no answer"
        return ToolResult("elicitation", ok=False, error=f"the user {word}", error_code="declined")
    content = reply.content
    return ToolResult("elicitation", ok=True, answer=answer_text(content))


def _retry_step(case: Case) -> Effect:
    counters = case.run.counters
    return Change(result=case.result, reply=None), replace(counters, step_retries=counters.step_retries + 1)


def _execute(case: Case) -> Effect:
    run, counters, result, intent = case.run, case.run.counters, case.result, case.run.memory.intent
    assert result is not None and intent is not None, "Executing ends with a result of its intent"
    window = run.memory.window
    same = counters.same_key + 1 if window and window[-1] == intent.key else 1
    return Change(result=result, reply=None), replace(
        counters,
        errors=_counted_on(case, counters.errors, failed=not result.ok),
        same_key=same,
        documents=counters.documents + len(result.documents),
    )


def _counted_on(case: Case, count: int, *, failed: bool) -> int:
    """Return how many failed in a row; the call of a hook is none of them."""
    selection = case.run.memory.selection
    if selection is not None and selection.origin == "hook":
        return count
    return count + 1 if failed else 0


def _observe(case: Case) -> Effect:
    result = case.result
    assert result is not None, "Observing is entered with a result"
    observation = observation_of(case.run, result, case.recalled)
    change = Change(
        observation=observation,
        check=check_of(observation),
        message=message_of(case.run, result, observation, case.recalled),
    )
    return change, replace(case.run.counters, review_retries=0)


def _reassess(case: Case) -> Effect:
    counters = case.run.counters
    return Change(feedback=_problem(case)), replace(counters, review_retries=counters.review_retries + 1)


def _conclude(case: Case) -> Effect:
    counters = case.run.counters
    stale, best = stale_after(case.run, case.refinement)
    change = Change(refinement=case.refinement, feedback=None)
    return change, replace(
        counters,
        concluded=1,
        stop=case.stop_reason or "",
        criteria=case.criteria,
        review_retries=0,
        stale=stale,
        best_score=best,
    )


def _format(case: Case) -> Effect:
    run = case.run
    last = next((item for item in reversed(run.memory.history) if _reportable(item)), None)
    references = (f"docList:{last.label}",) if last is not None else ()
    tool = run.spec.formatter
    assert tool is not None, "a final format comes with its tool"
    selection = Selection(
        tool=tool.name,
        objective="format the final result",
        documents=references,
        arguments={"title": run.spec.objective, DOCUMENT_LIST: list(references)},
        origin="format",
    )
    change = Change(
        selection=selection, review=case.review, intent=None, result=None, reply=None, feedback=None
    )
    return change, replace(run.counters, formatted=1, criteria=case.criteria)


def _reportable(message: Message) -> bool:
    """Whether an action's documents can be the body of the report; a mere extract is not an answer."""
    return message.success and message.documents_count > 0 and message.tool != "document.extract"


def _finish(case: Case) -> Effect:
    counters = case.run.counters
    answer = final_answer(case, counters.stop, done=True)
    if (
        counters.formatted
        and case.run.memory.observation is not None
        and not case.run.memory.observation.success
    ):
        answer += "\n\nNote: the final formatting failed; the answer stands as it is."
    return Change(answer=answer, review=case.review, question=None), replace(counters, criteria=case.criteria)


def _retry(case: Case) -> Effect:
    counters, review = case.run.counters, case.review
    assert review is not None, "a retry is the completion review's word"
    planned: dict[str, Any] = {} if case.run.spec.mode == "react" else {"plan": None}
    change = Change(
        improvements=review.improvements or None,
        hint=None,
        selection=None,
        intent=None,
        result=None,
        answer=None,
        feedback=None,
        **planned,
    )
    return change, replace(
        counters,
        retries=counters.retries + 1,
        concluded=0,
        stop="",
        review_retries=0,
        criteria=case.criteria,
    )


def _next_step(case: Case) -> Effect:
    """The plan's next step, or an action of the workflow, without asking the model again."""
    run, plan = case.run, case.run.memory.plan
    number, counts = run.counters.plan_step + 1, 1
    if case.moved is not None:
        selection, number, counts = case.moved.selection, case.moved.plan_step, int(case.moved.counts)
    else:
        assert plan is not None and number < len(plan.steps), "the plan has steps left"
        selection = selection_of(plan.steps[number], run)
    change = Change(selection=selection, intent=None, result=None, feedback=None, reply=None)
    return change, replace(
        run.counters,
        step=run.counters.step + counts,
        plan_step=number,
        selection_retries=0,
        parameter_retries=0,
        step_retries=0,
        review_retries=0,
    )


def _proceed(case: Case) -> Effect:
    counters, refinement, check = case.run.counters, case.refinement, case.run.memory.check
    stale, best = stale_after(case.run, refinement)
    planned: dict[str, Any] = {} if case.run.spec.mode == "react" else {"plan": None}
    change = Change(
        refinement=refinement,
        hint=refinement.hint if refinement is not None else None,
        improvements=check.improvements or None if check is not None else None,
        selection=None,
        intent=None,
        result=None,
        feedback=None,
        **planned,
    )
    return change, replace(counters, criteria=case.criteria, review_retries=0, stale=stale, best_score=best)


def _fail_reviewing(case: Case) -> Effect:
    counters, review = case.run.counters, case.review
    if case.stop is not None:
        change, after = _fail_stopped(case)
        return change, replace(after, criteria=case.criteria)
    if review is not None and review.status == "retry":
        if counters.stop == "no_improvement":
            reason = counters.stop
        else:
            reason = _bound_reached(case) or "retries_exhausted"
    elif review is not None or case.problem is not None:
        reason = "review_failed"
    else:
        reason = counters.stop or exhausted(case.run) or "internal_error"
    change, after = _failed(case, reason)
    return change, replace(after, criteria=case.criteria)


def _fail_stopped(case: Case) -> Effect:
    change, counters = _failed(case, case.stop or "internal_error")
    if isinstance(case.outcome, ModelFault) and case.outcome.message.strip():
        told = f"{change.answer}\n\nThe model: {cut(line(case.outcome.message), TURN_CHARS)}"
        return Change(answer=told, question=None), counters
    intent = case.run.memory.intent
    if isinstance(case.outcome, Cancelled) and case.outcome.in_doubt and intent is not None:
        doubt = f"{intent.tool} had been started; whether it took effect is not known (key {intent.idempotency_key})."
        change = Change(answer=f"{change.answer}\n\n{doubt}", question=None)
    step = step_of(case.run)
    if case.stop == "aborted" and step is not None and step.reason.strip():
        change = Change(answer=f"{change.answer}\n\nReason: {step.reason.strip()}", question=None)
    return change, counters


CHANGES: dict[tuple[str, str], Callable[[Case], Effect]] = {
    (PLANNING, "fail"): _fail_planning,
    (PLANNING, "answer"): _answer,
    (PLANNING, "wait"): wait_planning,
    (PLANNING, "select"): _select,
    (PLANNING, "reselect"): _reselect,
    (PLANNING, "provide"): provide,
    (SPECIFYING, "fail"): _fail_stopped,
    (SPECIFYING, "wait"): wait_specifying,
    (SPECIFYING, "specify"): _specify,
    (SPECIFYING, "respecify"): _respecify,
    (SPECIFYING, "refuse"): _refuse,
    (SPECIFYING, "provide"): provide,
    (EXECUTING, "fail"): _fail_stopped,
    (EXECUTING, "wait"): wait_executing,
    (EXECUTING, "retry_step"): _retry_step,
    (EXECUTING, "execute"): _execute,
    (EXECUTING, "provide"): provide,
    (OBSERVING, "observe"): _observe,
    (REVIEWING, "fail"): _fail_reviewing,
    (REVIEWING, "reassess"): _reassess,
    (REVIEWING, "conclude"): _conclude,
    (REVIEWING, "format"): _format,
    (REVIEWING, "finish"): _finish,
    (REVIEWING, "retry"): _retry,
    (REVIEWING, "next_step"): _next_step,
    (REVIEWING, "proceed"): _proceed,
}
