"""
A run that follows a workflow file: where it goes after a plan, after an action, and after an answer. Pure.

The table is that of every planner: a task that plans is Planning, the steps of a plan and the tools that the file names
itself are actions like any other (``select`` and ``next_step`` take them, with a selection by code), a question waits in
Planning, the end of the workflow is ``conclude``, an abort ``fail``. A hook is no step: it does not count towards
`Limits.max_steps`, and its own failure calls no hook.

Source: document 004 sections 2 and 4 to 6; docs/spec-coverage.md, A131 to A137, A145, A147, A161 to A164, C11 to C13,
C17, C22, D20.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from ...prompts.parsing.replies import DirectAnswer, Invalid
from ...states.base.errors import UsageError
from ...states.records.actions import Selection
from ...states.records.observations import clean, cut
from ...states.records.outcomes import Answered, Recalled, Replied
from ...states.records.plans import Elicitation, Plan, TranscriptMessage
from ...states.records.questions import Answer
from ...states.records.workflow import EXEC_ACTION, FlowTask
from ...states.run.phase_names import PLANNING, REVIEWING
from ...states.run.spec import FlowState, ToolSpec
from ...states.run.state import Run
from ...tools.catalog import fold_name
from ..workflow.expressions.evaluator import rendered
from ..workflow.expressions.functions import json_text
from ..workflow.navigation import Cursor, Flow, FlowError
from ..workflow.variables import (
    advanced,
    allowed_tools,
    cursor_of,
    executed,
    is_result,
    kind_of,
    state_at,
    value_of,
)
from .guard_context import GuardContext, Moved
from .observation import TURN_CHARS
from .plan_mode import ask, question_of, selection_of, steps_left_in_plan
from .run_resources import RunResources

Values = Sequence[Mapping[str, Any]]

NO_FAILURE = frozenset(("duplicate_call_blocked", "declined"))
"""Errors reported to the planner or user rather than treated as failures; hooks do not run."""


def read_flow(case: GuardContext, kit: RunResources) -> None:
    """Read what the outcome means for the workflow; one that cannot be followed any further ends the run."""
    run = case.run
    if case.stop is not None or kit.flow is None:
        return
    try:
        if run.state == PLANNING:
            _read_planning(case, kit.flow, kit)
        elif run.state == REVIEWING and not run.counters.formatted:
            _read_reviewing(case, kit.flow)
    except UsageError as error:
        fail(case, error)


def fail(case: GuardContext, error: UsageError) -> None:
    """End the run since its workflow cannot be followed; *error* is in the final message."""
    case.lost, case.trouble = True, cut(clean(f"The workflow: {error}"), 500)


# -- Planning ----------------------------------------------------------------------------------------------------


def _read_planning(case: GuardContext, flow: Flow, kit: RunResources) -> None:
    run, outcome = case.run, case.outcome
    state = run.memory.flow
    assert state is not None, "a run with a workflow stands in it"
    if state.kind == "lost":
        raise FlowError(state.problem)
    cursor = cursor_of(run)
    if isinstance(outcome, Answered):
        _after_answer(case, outcome.answer, flow, state, cursor)
    elif isinstance(outcome, Replied):
        _after_reply(case, outcome.text, flow, cursor)
    elif run.memory.question is None and state.kind != "plan":
        task = flow.task(cursor) if state.kind != "end" else None
        _enter(case, flow, cursor, task, run.memory.plan)


def _after_answer(case: GuardContext, answer: Answer, flow: Flow, state: FlowState, cursor: Cursor) -> None:
    """Go on after the answer to a task's question; one of the planner's leaves the workflow where it is."""
    memory = case.run.memory
    if state.kind != "ask":
        case.moved = Moved(state, memory.answer, memory.plan)
        return
    given = answer.content if answer.action == "accept" else None
    cursor = flow.done(cursor, flow.task(cursor), {"answer": given, "action": answer.action})
    cursor, task = advanced(flow, cursor, memory.plan)
    _checked_abort(case, cursor)
    case.moved = _move_to(case, flow, cursor, task, memory.plan)


def _after_reply(case: GuardContext, text: str, flow: Flow, cursor: Cursor) -> None:
    """Go on after the planner's reply: with its plan, its answer, or its question."""
    memory, state = case.run.memory, case.run.memory.flow
    assert state is not None, "a run with a workflow stands in it"
    if case.problem is not None:
        return
    if case.question is not None:  # `plan` and `elicitation` are what it asks until the planner replies again
        asked = Elicitation(message=case.question.message, requested_schema=case.question.answer_schema)
        case.moved = Moved(state, memory.answer, Plan(elicitation=asked))
        return
    task = flow.task(cursor)
    plan = case.plan
    if plan is not None and (problem := _unlisted_tools(plan, flow, cursor, case.run)) is not None:
        case.problem = problem
        return
    reply = plan if plan is not None else DirectAnswer(case.answer) if case.answer else Plan()
    outputs = planner_outputs(
        reply,
        said=cut(clean(text.strip()), TURN_CHARS),
        results=cursor.variables["results"],
        transcript=cursor.variables["transcript"],
    )
    plan = plan if plan is not None else Plan() if isinstance(reply, Plan) else None
    cursor = flow.done(Cursor(cursor.at, {**cursor.variables, **outputs}), task, outputs)
    cursor, following = advanced(flow, cursor, plan)
    _enter(case, flow, cursor, following, plan)


def planner_outputs(
    reply: Plan | DirectAnswer, *, said: str, results: Values = (), transcript: Values = ()
) -> dict[str, Any]:
    """
    Return the workflow's variables after a planner's reply.

    It appends and changes nothing that was there: results are given on as they were, and a message of the transcript is
    never taken back. A plan of nothing is given on without steps, so that ``len(plan.steps) > 0`` does not hold for it.

    Args:
        reply: As `prompts.parsing.plans.read_plan` returned it.
        said: The reply's text, for the transcript; nothing is added when it is blank.
        results: So far; given on unchanged.
        transcript: So far.

    Returns:
        ``plan``, null with an answer in words; ``answer``, null with a plan that is not empty and the empty text with
        one that is; ``elicitation``, the plan's question or null; ``results``; ``transcript``.
    """
    messages = [TranscriptMessage(role="assistant", content=said).wire()] if said.strip() else []
    plan = reply if isinstance(reply, Plan) else None
    if plan is not None and plan.is_empty:
        plan = plan.model_copy(update={"steps": ()})
    answer = (
        reply.text if isinstance(reply, DirectAnswer) else "" if plan is not None and plan.is_empty else None
    )
    question = plan.question if plan is not None else None
    return {
        "plan": plan.wire() if plan is not None else None,
        "answer": answer,
        "elicitation": question.wire() if question is not None else None,
        "results": list(results),
        "transcript": [*transcript, *messages],
    }


def _unlisted_tools(plan: Plan, flow: Flow, cursor: Cursor, run: Run) -> Invalid | None:
    """Return what is wrong with a plan whose steps use tools that its planner was not offered."""
    allowed = allowed_tools(flow.call(cursor, flow.task(cursor)).input, cursor, run.spec)
    names = {fold_name(tool.name) for tool in allowed}
    for number, step in enumerate(plan.steps):
        if step.type == "tool" and step.fault is None and fold_name(step.name) not in names:
            offered = ", ".join(tool.name for tool in allowed)
            told = f"steps[{number}].name: {ascii(step.name)[:80]} is not offered; choose from: {offered}"
            return Invalid("unknown_action", told)
    return None


def _enter(case: GuardContext, flow: Flow, cursor: Cursor, task: FlowTask | None, plan: Plan | None) -> None:
    """Let Planning go on with *task*: an action, a question, or nothing more to do."""
    case.answer, case.selection = None, None
    _checked_abort(case, cursor)
    case.moved = moved = _move_to(case, flow, cursor, task, plan)
    if moved.state.kind == "ask":
        assert task is not None and task.elicitation is not None, "a task that asks has a question"
        asked = task.elicitation
        words = rendered(asked.message, cursor.variables, strict=False)
        message = words if isinstance(words, str) else asked.message
        ask(
            case,
            question_of(Elicitation(message=message, requested_schema=asked.requested_schema), "elicitation"),
        )
    elif moved.state.kind == "end":
        case.answer = moved.answer or ""
    elif moved.state.kind == "plan":
        again = Selection(tool="noop", objective="plan again", arguments={}, origin="workflow")
        case.selection, case.moved = again, replace(moved, selection=again)
    else:
        case.selection = moved.selection


def _checked_abort(case: GuardContext, cursor: Cursor) -> None:
    if cursor.aborted:
        case.aborted, case.trouble = True, f"The workflow ended in its task {cursor.aborted}."


# -- Reviewing ---------------------------------------------------------------------------------------------------


def _read_reviewing(case: GuardContext, flow: Flow) -> None:
    run = case.run
    if run.counters.concluded:
        if case.review is not None and case.review.status == "retry":
            cursor = cursor_of(run)
            cleared = Cursor(cursor.at, {**cursor.variables, "answer": None, "plan": None})
            cursor, task = advanced(flow, flow.again(cleared), None)
            _checked_abort(case, cursor)
            case.moved = replace(_move_to(case, flow, cursor, task, None), answer=None, selection=None)
        return
    case.moved = _after_action(case, flow)


def _after_action(case: GuardContext, flow: Flow) -> Moved:
    """Return where the workflow goes after the action that was just observed."""
    run = case.run
    state, selection, plan = _with_result(run), run.memory.selection, run.memory.plan
    assert selection is not None, "Reviewing follows an action"
    cursor = cursor_of(run)
    if state.kind == "plan":
        return Moved(state, run.memory.answer, plan)
    task, number = flow.task(cursor), run.counters.plan_step
    failed = state.failed if selection.origin == "hook" else _action_failed(run)
    if failed and selection.origin != "hook" and task.on_error is not None:
        state = replace(state, failed=True)
        return Moved(state, run.memory.answer, plan, hook_of(task, run), number, counts=False)
    state = replace(state, failed=False)
    aborted = failed and task.abort
    if state.kind == "exec" and not aborted and steps_left_in_plan(run):
        assert plan is not None, "a plan with steps left is there"
        return Moved(state, run.memory.answer, plan, selection_of(plan.steps[number + 1], run), number + 1)
    cursor = flow.done(cursor, task, _outputs(case, cursor, task), failed=failed)
    cursor, following = advanced(flow, cursor, plan)
    _checked_abort(case, cursor)
    return _move_to(case, flow, cursor, following, plan, state)


def _with_result(run: Run) -> FlowState:
    """Return the workflow's state with the place of the newest result, if the action gave one."""
    state, result, memory = run.memory.flow, run.memory.result, run.memory
    assert state is not None and memory.history, "Reviewing follows an observed action"
    if result is None or not is_result(memory.history[-1]):
        return state
    if result.documents:
        first = result.documents[0]
        return replace(state, last=first.payload, last_data=first.mime == "application/json")
    return replace(state, last=result.echo, last_data=False)


def _action_failed(run: Run) -> bool:
    """Return whether the action failed, so that a hook is called and the workflow may end."""
    result = run.memory.result
    return result is not None and not result.ok and result.error_code not in NO_FAILURE


def _outputs(case: GuardContext, cursor: Cursor, task: FlowTask) -> dict[str, Any]:
    """Return a task's outputs: the executor's, or of a tool what it returned, ``result``, and ``error``."""
    if task.action == EXEC_ACTION:
        return executed(cursor)
    run, outcome = case.run, case.outcome
    message = next((item for item in reversed(run.memory.history) if item.origin == "workflow"), None)
    error = message.told_error if message is not None else ""
    body = outcome.texts[0] if isinstance(outcome, Recalled) and outcome.texts else None
    result = run.memory.result
    data = result is not None and bool(result.documents) and result.documents[0].mime == "application/json"
    value = value_of(body, data=data) if body is not None else None
    named = value if isinstance(value, dict) else {}
    return {**named, "result": named.get("result", value), "error": error}


# -- the action that comes next ----------------------------------------------------------------------------------


def _move_to(
    case: GuardContext,
    flow: Flow,
    cursor: Cursor,
    task: FlowTask | None,
    plan: Plan | None,
    before: FlowState | None = None,
) -> Moved:
    """Return where a run is at *task*, with the action that this is."""
    run = case.run
    state = state_at(flow, cursor, task, run.spec, before if before is not None else run.memory.flow)
    answer = cursor.variables.get("answer")
    selection = None
    if task is not None and kind_of(task) == "tool":
        selection = _tool_of(run, task.action or "", task.input, f"task {task.path}", "workflow")
    elif task is not None and task.action == EXEC_ACTION:
        assert plan is not None and plan.steps, "an empty plan is not executed"
        selection = selection_of(plan.steps[0], run)
    number = 0 if selection is None or selection.origin == "plan" else run.counters.plan_step
    words = answer if isinstance(answer, str) and answer.strip() else None
    return Moved(state, words, plan, selection, number)


def hook_of(task: FlowTask, run: Run) -> Selection:
    """Return the call of a task's hook."""
    assert task.on_error is not None, "only a task with a hook calls it"
    return _tool_of(run, task.on_error.action, task.on_error.input, f"error in task {task.path}", "hook")


def _tool_of(
    run: Run, action: str, template: Mapping[str, Any], what: str, origin: Literal["workflow", "hook"]
) -> Selection:
    """Return a tool that the workflow names as a selection; its input is settled in Specifying."""
    key = fold_name(action)
    name = next((tool.name for tool in run.spec.tools if fold_name(tool.name) == key), None)
    if name is None:
        raise FlowError(f"there is no tool {ascii(action)[:80]}")
    needs = (0,) if "results" in str(template) else ()
    return Selection(tool=name, objective=what, arguments={}, origin=origin, needs=needs)


def flow_arguments(case: GuardContext, kit: RunResources, selection: Selection) -> dict[str, Any] | None:
    """Return the input of a task or hook, its templates filled; None when the run must end, with the reason."""
    run, flow, outcome = case.run, kit.flow, case.outcome
    assert flow is not None, "the workflow has selected this action"
    last = outcome.texts[0] if isinstance(outcome, Recalled) and outcome.texts else None
    try:
        cursor = cursor_of(run, last)
        task = flow.task(cursor)
        if selection.origin == "hook":
            call = flow.hook(cursor, task, *failed_step(run))
            assert call is not None, "only a task with a hook calls it"
        else:
            call = flow.call(cursor, task)
        return fit_arguments(call.input, kit.tool(selection), kit)
    except UsageError as error:
        fail(case, error)
        return None


def check_listed(case: GuardContext, kit: RunResources, selection: Selection) -> None:
    """Deny the call of a plan's step that the task's own list of tools does not allow."""
    assert kit.flow is not None, "a plan's step belongs to a task of the workflow"
    try:
        cursor = cursor_of(case.run)
        allowed = allowed_tools(kit.flow.call(cursor, kit.flow.task(cursor)).input, cursor, case.run.spec)
    except UsageError as error:
        fail(case, error)
        return
    if case.denied is None and selection.tool not in {tool.name for tool in allowed}:
        case.denied = f"{selection.tool} is not among the tools that the workflow executes"


def failed_step(run: Run) -> tuple[dict[str, Any], str]:
    """Return the step whose failure a hook is told, and its error."""
    plan, number, message = run.memory.plan, run.counters.plan_step, run.memory.history[-1]
    step: dict[str, Any] = {"id": message.call_id, "type": "tool", "reason": message.objective}
    if not message.origin and plan is not None and number < len(plan.steps):
        step = plan.steps[number].wire()
    return {**step, "name": message.tool, "args": message.arguments or {}}, message.told_error


def fit_arguments(given: dict[str, Any], tool: ToolSpec, kit: RunResources) -> dict[str, Any]:
    """Return an input as the tool takes it: null left out where the tool takes none, data as JSON where text is wanted."""
    schema = kit.schema(tool)
    if kit.spec.revision > 1:
        given = schema.without_nulls(given)
    declared = tool.parameters.get("properties")
    kinds = {name: item.get("type") for name, item in (declared or {}).items() if isinstance(item, dict)}
    found: dict[str, Any] = {}
    for name, value in given.items():
        known = name in schema.names and kit.spec.revision > 1
        if value is None and name not in schema.required and not known:
            continue
        wants_text = kinds.get(name) == "string" and isinstance(value, dict | list)
        found[name] = json_text(value) if wants_text else value
    return found
