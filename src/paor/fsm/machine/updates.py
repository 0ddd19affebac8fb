"""
What a transition sets: one function per row's source and trigger, from a case to a change and new counters.

Which slots of `Change` a transition sets is declared in `fsm.machine.fold.SETS` and enforced by `fsm.machine.fold.apply`: always the same
ones, explicitly None where there is nothing, since `fsm.machine.fold.restore` reads a few rows only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ...prompts.parsing.replies import Invalid
from ...states.records.actions import NOT_MADE_CODES, REFUSED_CODES, Selection, ToolResult
from ...states.records.observations import Message, Turn, clean, cut
from ...states.records.outcomes import Answered, Asked, Cancelled, InDoubt, ModelFault, Recalled, Replied
from ...states.records.plans import Step
from ...states.records.questions import Answer, QuestionRecord
from ...states.run.budgets import steps_left
from ...states.run.phase_names import EXECUTING, OBSERVING, PLANNING, REVIEWING, SPECIFYING
from ...states.run.reasons import REASONS
from ...states.run.spec import TASK_TOOL
from ...states.run.state import Change, Counters, Run
from ...tools.catalog import DOCUMENT_LIST
from ..decision.conversation import pending
from ..decision.duplicate_calls import repeated_step
from ..decision.guard_context import GuardContext
from ..decision.observation import TURN_CHARS, answer_text, line, message_of, observation_of
from ..decision.plan_mode import selection_of, step_of
from ..decision.progress import stale_after
from .stop_rules import ANSWER, LAST_FAIL, first_stop
from .table import Row

Update = tuple[Change, Counters]
"""What a transition sets, and the counters after it; time and usage are added by `fsm.machine.decide.decide`."""


class Decision(Struct, frozen=True, gc=False):
    """
    What an outcome means for a run.

    Attributes:
        row: The table's row that is taken.
        guards: Every guard of the rows that were tried, with its value.
        change: What the run's memory gets.
        counters: After the transition, usage and time included; payloads are counted by whoever stores them.
        facts: What the row records of the outcome beyond its payload references.
        case: What the guards looked at.
    """

    row: Row
    guards: dict[str, bool]
    change: Change
    counters: Counters
    facts: dict[str, Any]
    case: GuardContext

    @property
    def change_text(self) -> str:
        """The change as it is stored."""
        outcome = self.case.outcome
        recalled = zip(outcome.numbers, outcome.texts, strict=False) if type(outcome) is Recalled else ()
        return self.change.wire_json(tuple(recalled))


APPROVAL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean"},
        "approval": {"type": "string"},
        "comment": {"type": "string"},
    },
    "required": ["approve"],
    "additionalProperties": False,
}


# -- Planning -----------------------------------------------------------------------------------------------------


def _select(case: GuardContext) -> Update:
    counters = case.run.counters
    planned: dict[str, Any] = {}
    if case.plan is not None or case.moved is not None:
        planned = {"plan": case.plan, "turn": _turn_of(case)}
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
        unmade=0,
        plans=counters.plans + (case.plan is not None and not case.run.spec.native),
        selection_retries=0,
        parameter_retries=0,
        step_retries=0,
    )


def _reselect(case: GuardContext) -> Update:
    counters = case.run.counters
    unmade = len(case.calls) if not steps_left(case.run) else 0  # calls where the answer was asked for
    return Change(feedback=problem_of(case)), replace(
        counters, selection_retries=counters.selection_retries + 1, unmade=counters.unmade + unmade
    )


def problem_of(case: GuardContext) -> str:
    """Why the reply could not be used, for the next prompt."""
    if case.problem is not None:
        return case.problem.message
    vetoes = "; ".join(case.vetoes)
    return case.denied or case.invalid or case.unsafe or vetoes or "the reply could not be used"


def _answer(case: GuardContext) -> Update:
    planned: dict[str, Any] = {"turn": _turn_of(case), "selection": None} if case.run.spec.plans else {}
    change = Change(answer=case.answer or None, feedback=None, **planned)
    return change, replace(
        case.run.counters, concluded=1, stop=first_stop(case, ANSWER) or "", selection_retries=0
    )


# -- Specifying ---------------------------------------------------------------------------------------------------


def _specify(case: GuardContext) -> Update:
    counters = case.run.counters
    action = counters.action + 1
    change = Change(intent=case.intent, feedback=None, reply=None)
    ahead = counters.ahead if action < counters.ahead else 0
    return change, replace(counters, action=action, ahead=ahead, parameter_retries=0, refused=0)


def _withhold(case: GuardContext) -> Update:
    """The answer is asked for instead of the same call again; the attempt is noted, so that it happens once in each."""
    counters = case.run.counters
    change = Change(selection=None, intent=None, feedback=None, reply=None)
    return change, replace(counters, withheld=counters.retries + 1, parameter_retries=0)


def _respecify(case: GuardContext) -> Update:
    counters = case.run.counters
    return Change(feedback=problem_of(case)), replace(
        counters, parameter_retries=counters.parameter_retries + 1
    )


def _refuse(case: GuardContext) -> Update:
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
        memory = run.memory
        earlier = repeated_step(case.intent.key, memory.window, memory.window_steps)
        made = f"the same call was made in step {earlier}" if earlier else "the same call was made before"
        error = f"{made} ({case.duplicate} rule); change the arguments or choose another action"
        echo = run.memory.outputs.get(case.intent.key)
    elif case.unsafe is not None:
        code, error = "unsafe_parameters", case.unsafe
    elif case.vetoes and case.invalid is None and case.problem is None:
        code, error = "denied", f"the host's own rules refuse it: {problem_of(case)}"
    else:
        code, error = "invalid_parameters", problem_of(case)
    refused, blocked = code in REFUSED_CODES, code == "duplicate_call_blocked"
    again = _counted_before(case, REFUSED_CODES if refused else (code,))
    change = Change(
        result=ToolResult(tool=selection.tool, ok=False, error=error, error_code=code, echo=echo),
        intent=None,
        feedback=None,
        reply=None,
    )
    return change, replace(
        counters,
        action=counters.action + 1,
        blocked=counters.blocked + (blocked and selection.origin != "hook" and not again),
        refused=counters.refused
        if refused and again
        else _failures_in_row(case, counters.refused, failed=refused),
    )


def _counted_before(case: GuardContext, codes: tuple[str, ...]) -> bool:
    """Return whether a call of the same reply came to an error with one of *codes*: what counts is the reply."""
    return any(code in codes for code in _errors_of_reply(case))


def _errors_of_reply(case: GuardContext) -> Iterator[str]:
    """Yield the codes of the errors of the calls that the newest reply has made before this one."""
    run, first = case.run, case.run.counters.step - case.run.counters.plan_step
    for message in run.memory.history if run.spec.native else ():
        if message.step >= first and message.error:
            yield message.error_code


def _other_result(case: GuardContext, step: Step) -> ToolResult:
    """Return what a plan's step that is no tool came to: the user's answer, or nothing."""
    if step.type == "noop":
        return ToolResult("noop", ok=True, notes=(step.reason.strip() or "nothing was done",))
    reply = case.run.memory.reply
    if reply is None or reply.action != "accept" or reply.content in (None, "", {}, []):
        word = "declined to answer" if reply is not None and reply.action == "decline" else "gave no answer"
        return ToolResult("elicitation", ok=False, error=f"the user {word}", error_code="declined")
    content = reply.content
    return ToolResult("elicitation", ok=True, answer=answer_text(content))


# -- Executing ----------------------------------------------------------------------------------------------------


def _retry_step(case: GuardContext) -> Update:
    counters = case.run.counters
    return Change(result=case.result, reply=None), replace(counters, step_retries=counters.step_retries + 1)


def _execute(case: GuardContext) -> Update:
    run, counters, result, intent = case.run, case.run.counters, case.result, case.run.memory.intent
    assert result is not None and intent is not None, "Executing ends with a result of its intent"
    window = run.memory.window
    same = counters.same_key + 1 if window and window[-1] == intent.key else 1
    again = not result.ok and any(code not in NOT_MADE_CODES for code in _errors_of_reply(case))
    return Change(result=result, reply=None), replace(
        counters,
        errors=counters.errors if again else _failures_in_row(case, counters.errors, failed=not result.ok),
        same_key=same,
        documents=counters.documents + len(result.documents),
    )


def _failures_in_row(case: GuardContext, count: int, *, failed: bool) -> int:
    """Return how many failed in a row; the call of a hook or of a host's own phase is none of them."""
    selection = case.run.memory.selection
    if selection is not None and selection.origin in ("hook", "phase"):
        return count
    return count + 1 if failed else 0


# -- Observing and Reviewing --------------------------------------------------------------------------------------


def _observe(case: GuardContext) -> Update:
    result = case.result
    assert result is not None, "Observing is entered with a result"
    observation = observation_of(case.run, result, case.recalled)
    change = Change(
        observation=observation,
        check=observation.check,
        message=message_of(case.run, result, observation, case.recalled),
    )
    return change, replace(case.run.counters, review_retries=0)


def _reassess(case: GuardContext) -> Update:
    counters = case.run.counters
    return Change(feedback=problem_of(case)), replace(counters, review_retries=counters.review_retries + 1)


def _conclude(case: GuardContext) -> Update:
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


def _format(case: GuardContext) -> Update:
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


def _finish(case: GuardContext) -> Update:
    counters = case.run.counters
    answer = final_answer(case, counters.stop, done=True)
    if (
        counters.formatted
        and case.run.memory.observation is not None
        and not case.run.memory.observation.success
    ):
        answer += "\n\nNote: the final formatting failed; the answer stands as it is."
    return Change(answer=answer, review=case.review, question=None), replace(counters, criteria=case.criteria)


def _retry(case: GuardContext) -> Update:
    counters, review = case.run.counters, case.review
    assert review is not None, "a retry is the completion review's word"
    planned: dict[str, Any] = {"plan": None} if case.run.spec.plans else {}
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


def _next_step(case: GuardContext) -> Update:
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


def _proceed(case: GuardContext) -> Update:
    counters, refinement, check = case.run.counters, case.refinement, case.run.memory.check
    stale, best = stale_after(case.run, refinement)
    planned: dict[str, Any] = {"plan": None} if case.run.spec.plans else {}
    improvements = check.improvements or None if check is not None else None
    if case.run.spec.native:  # the model has read the errors of its calls; what a review has asked for stays
        improvements = case.run.memory.improvements
    change = Change(
        refinement=refinement,
        hint=refinement.hint if refinement is not None else None,
        improvements=improvements,
        selection=None,
        intent=None,
        result=None,
        feedback=None,
        **planned,
    )
    unmade = (
        0 if not case.run.spec.native or steps_left(case.run) else len(pending(case.run.memory.conversation))
    )
    return change, replace(
        counters, criteria=case.criteria, review_retries=0, stale=stale, best_score=best, unmade=unmade
    )


# -- asking a person, and taking in the answer --------------------------------------------------------------------


def _wait_planning(case: GuardContext) -> Update:
    """A planner's question stops the run until somebody answers."""
    assert case.question is not None, "a planner waits for an answer"
    counters = case.run.counters
    change = Change(question=case.question, reply=None, feedback=None, turn=_turn_of(case))
    return change, replace(counters, elicitations=counters.elicitations + 1, selection_retries=0)


def _wait_specifying(case: GuardContext) -> Update:
    """A call waits for its approval, or a plan's step for an argument that nobody has given."""
    intent, question = case.intent, case.question
    if question is None:
        assert intent is not None, "an approval is about a complete call"
        question = QuestionRecord(
            kind="approval",
            message=f"May {intent.tool} be called?",
            answer_schema=APPROVAL_SCHEMA,
            tool=intent.tool,
            key=intent.idempotency_key,
            approval=case.approval_id,
        )
    counters = case.run.counters
    change = Change(intent=intent, question=question, reply=None)
    return change, replace(counters, elicitations=counters.elicitations + 1)


def _wait_executing(case: GuardContext) -> Update:
    """A call waits for what its tool has asked, or for the outcome that nobody knows."""
    intent, outcome = case.run.memory.intent, case.outcome
    if isinstance(outcome, Asked):
        return _asking(case, outcome)
    assert intent is not None and isinstance(outcome, InDoubt), "only an effect can be in doubt"
    unsure = f"{intent.tool} may or may not have taken effect; what is its outcome?"
    message = (
        f"{intent.tool} may or may not have taken effect before the driver was lost; what is its outcome?"
    )
    if intent.tool == TASK_TOOL.name:
        message = (
            f"The task {intent.arguments.get('id')} is not settled: it waits, or somebody else drives it."
        )
    elif outcome.why == "task_pending":
        message = (
            f"The run that {intent.tool} has called is not settled: it waits, or somebody else drives it."
        )
    elif outcome.why.startswith("reconcile"):
        told = cut(line(outcome.told), TURN_CHARS) or "it gave a value that no journal can hold"
        message = f"{unsure} Its own reconciliation could not say: {told}"
    elif outcome.why == "shared_intent":
        message = f"{unsure} The run that this one was forked from may be about to make the call."
    elif outcome.why == "deadline":
        left = " It was left running, and may still do it." if outcome.left else ""
        message = (
            f"{intent.tool} {outcome.told}; it may or may not have taken effect. What is its outcome?{left}"
        )
    elif outcome.why == "tool_unsure":
        told = cut(line(outcome.told), TURN_CHARS)
        message = f"{unsure} It says: {told}"
    question = QuestionRecord(
        kind="in_doubt",
        message=message,
        tool=intent.tool,
        key=intent.idempotency_key,
    )
    return Change(question=question, reply=None), case.run.counters


def _asking(case: GuardContext, outcome: Asked) -> Update:
    """The tool's own question; what it wants back with the answer stays in the payload of the outcome."""
    intent, counters = case.run.memory.intent, case.run.counters
    assert intent is not None, "Executing is entered with an intent"
    question = QuestionRecord(
        kind="elicitation",
        message=outcome.asking.message,
        answer_schema=outcome.asking.answer_schema,
        tool=intent.tool,
        key=intent.idempotency_key,
    )
    asked = 0 if outcome.asking.noted else 1
    return Change(question=question, reply=None), replace(
        counters, elicitations=counters.elicitations + asked
    )


def _provide(case: GuardContext) -> Update:
    """An answer settles the question; one to an approval is for that question's call alone."""
    outcome = case.outcome
    assert isinstance(outcome, Answered), "only an answer is valid here"
    planned: dict[str, Any] = {}
    if case.run.spec.plans and case.run.state != EXECUTING:
        planned = {"turn": Turn("user", cut(clean(_words(outcome.answer)), TURN_CHARS))}
    question, reply = case.run.memory.question, outcome.answer
    if question is not None:
        reply = reply.bound(question.approval, case.run.run_id, case.at_us)
    return Change(question=None, reply=reply, **planned), case.run.counters


def _words(answer: Answer) -> str:
    if answer.action == "decline":
        return "(declined to answer)"
    return answer_text(answer.content) or "(an empty answer)"


def _turn_of(case: GuardContext) -> Turn | None:
    """Return what a planner has said, or what a workflow asks, as a turn of the dialogue; nothing when code decides."""
    outcome = case.outcome
    if not isinstance(outcome, Replied):
        return Turn("assistant", cut(clean(case.question.message), TURN_CHARS)) if case.question else None
    return Turn("assistant", cut(clean(outcome.text.strip()), TURN_CHARS))


# -- the end: every way to end has a final message ----------------------------------------------------------------


def _fail(case: GuardContext) -> Update:
    """A run fails: for its hard stop, else for the reason that the table of stops has for the phase's last ``fail``."""
    return fail_update(case, "" if case.stop is not None else first_stop(case, LAST_FAIL) or "internal_error")


def _fail_reviewing(case: GuardContext) -> Update:
    """In Reviewing the criteria that were just found to be met are kept, too."""
    change, counters = _fail(case)
    return change, replace(counters, criteria=case.criteria)


def fail_update(case: GuardContext, reason: str) -> Update:
    """Return the end in Failed for *reason*, with what there is to say of it."""
    if case.stop is not None:
        return _fail_stopped(case)
    return _failed(case, reason)


def _failed(case: GuardContext, reason: str) -> Update:
    answer = final_answer(case, reason, done=False)
    if (
        trouble := case.trouble
        or (case.denied if case.run.state == PLANNING else None)
        or "; ".join(case.vetoes)
    ):
        answer = f"{answer}\n\n{trouble}"
    elif case.problem is not None and case.run.spec.revision > 1:
        answer = f"{answer}\n\n{_unusable(case, case.problem)}"
    return Change(answer=answer, question=None), replace(case.run.counters, stop=reason)


_OTHERWISE = {
    "length": "raise Limits.max_reply_tokens",
    "truncated": "raise Limits.max_reply_tokens",
    "repetition": "use another model or temperature",
    "refusal": "say the objective otherwise, or use another model",
    "content_filter": "say the objective otherwise, or use another model",
}


def _unusable(case: GuardContext, problem: Invalid) -> str:
    """Return which model replied to which request in a way that nobody can use, and what to change."""
    run, step = case.run, _OTHERWISE.get(problem.code, "use another model or profile")
    told = cut(line(problem.message), TURN_CHARS)
    return f"The model: {run.spec.model} gave no usable reply in {run.state} (row {run.seq}): {told}; {step}"


def _fail_stopped(case: GuardContext) -> Update:
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


def final_answer(case: GuardContext, reason: str, *, done: bool) -> str:
    """
    Return the review's answer, else the draft, else the refinement's, else one composed from the results.

    A draft is what the model answered instead of another action: it is newer than any refinement. A workflow whose review
    has no words of its own has those of its tasks. Of a run that fails by its review the answer is what that says, never the draft.
    """
    memory = case.run.memory
    review = case.review or memory.review
    refinement = case.refinement or memory.refinement
    given = [
        review.answer if review is not None else None,
        memory.answer,
        refinement.answer if refinement is not None else None,
    ]
    asked = ""
    if review is not None and not done:
        asked = "".join(f"\n- {line(text)}" for text in review.improvements)
        given = given[:1] if review.status == "failed" else given  # a draft that it calls wrong is no answer
    for answer in given:
        if answer is not None and answer.strip():
            return answer.strip() + (f"\n\nStill missing:{asked}" if asked else "")
    if case.run.spec.task == 0 and done:
        said = [message.output for message in memory.history if message.success and message.output]
        if said:
            return "\n\n".join(said)
    return _composed_message(case.run, reason, done=done) + (f"\nStill missing:{asked}" if asked else "")


def _composed_message(run: Run, reason: str, *, done: bool) -> str:
    """Return a message made by code: what happened, why it ended, and what there is to use."""
    head = "Done" if done else "Not finished"
    lines = [f"{head}: {REASONS.get(reason, reason)}."]
    for message in run.memory.history[-5:]:
        mark = "" if message.success else " (failed)"
        lines.append(f"- {message.tool}{mark}: {message.summary}")
    if not run.memory.history:
        lines.append("No action was completed.")
    return "\n".join(lines)


# -- a run that follows a workflow file ---------------------------------------------------------------------------


_MOVERS = frozenset(
    [(PLANNING, trigger) for trigger in ("select", "answer", "wait", "provide")]
    + [(REVIEWING, trigger) for trigger in ("next_step", "proceed", "conclude", "retry")]
)
"""Rows that move a workflow; each of them always says where it stands afterwards."""


def workflow_update(
    case: GuardContext, source: str, trigger: str, change: Change, counters: Counters
) -> Update:
    """Return what a row sets in a run with a workflow, beside what it sets in any run."""
    moved = case.moved
    if moved is None or (source, trigger) not in _MOVERS:
        return change, counters
    change = replace(change, flow=moved.state, answer=moved.answer)
    if trigger == "wait":
        change = replace(change, plan=moved.plan)
    elif trigger == "select":
        change = replace(change, plan=moved.plan)
        counters = replace(counters, plan_step=moved.plan_step)
    elif trigger == "answer":
        change = replace(change, answer=case.answer or None, plan=moved.plan)
    elif trigger == "proceed":
        change = replace(change, plan=UNSET)
    return change, counters


CHANGES: dict[tuple[str, str], Callable[[GuardContext], Update]] = {
    (PLANNING, "fail"): _fail,
    (PLANNING, "answer"): _answer,
    (PLANNING, "wait"): _wait_planning,
    (PLANNING, "select"): _select,
    (PLANNING, "reselect"): _reselect,
    (PLANNING, "provide"): _provide,
    (SPECIFYING, "fail"): _fail,
    (SPECIFYING, "wait"): _wait_specifying,
    (SPECIFYING, "specify"): _specify,
    (SPECIFYING, "withhold"): _withhold,
    (SPECIFYING, "respecify"): _respecify,
    (SPECIFYING, "refuse"): _refuse,
    (SPECIFYING, "provide"): _provide,
    (EXECUTING, "fail"): _fail,
    (EXECUTING, "wait"): _wait_executing,
    (EXECUTING, "retry_step"): _retry_step,
    (EXECUTING, "execute"): _execute,
    (EXECUTING, "provide"): _provide,
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
