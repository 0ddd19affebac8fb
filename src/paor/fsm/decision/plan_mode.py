"""
Batch and planner mode: how a planner's reply and a plan's step are read. Pure.

One machine serves all modes: a plan is accepted with its first step, each step is specified, executed and
observed like any action, and Reviewing goes on with the next one instead of asking for a refinement.

Source: document 004 sections 2 to 4; docs/spec-coverage.md, A084 to A087, A129 to A156, C3, C12; docs/workflows.md.

The profile `native`: how the calls of a turn become the steps of a plan. Pure.

One reply may call several tools; they are taken one after the other in its order, like the steps of a plan, without a request
between them. What is wrong with one call (an unknown tool, arguments that are no object, a document that does not exist, a
tool that is denied) is the result of that call, for the model to read; it is no invalid reply.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ...prompts.parsing.plans import read_plan, read_task_plan
from ...prompts.parsing.replies import DirectAnswer, Invalid, after
from ...prompts.parsing.tool_calls import derived_id
from ...prompts.parsing.turns import read_turn
from ...states.records.actions import Selection, StoredText
from ...states.records.observations import clean, cut
from ...states.records.outcomes import NoOutcome, Recalled, Replied
from ...states.records.plans import Elicitation, Plan, Step
from ...states.records.questions import QuestionRecord
from ...states.run.budgets import may_call, questions_left, selection_retries_left
from ...states.run.spec import TASK_TOOL, ToolSpec
from ...states.run.state import Run
from ...tools.catalog import fold_name
from ...tools.policy import denial
from ..workflow.step_references import (
    StepOutput,
    has_placeholders,
    needed_steps,
    placeholder_defects,
    resolve_arguments,
)
from .call_as_said import exact_calls
from .guard_context import GuardContext
from .observation import TURN_CHARS
from .run_resources import RunResources

_PLAN_IDS = uuid.UUID("6c6d4c1e-2f0b-5c9f-9d43-0a5a8f6f7a11")
"""Name space of the ids of plans that came without one (RFC 9562, version 5): the same on replay, no randomness."""

NO_CALLS = "no_calls"
"""Code of a reply that calls tools where none can be called: its calls get their results, and words are asked for once more."""

_SHARED = ("$defs", "definitions")


# -- where a run is in its plan ------------------------------------------------------------------------------


def step_of(run: Run) -> Step | None:
    """Return the plan's current step, None outside a plan."""
    plan, number = run.memory.plan, run.counters.plan_step
    selection = run.memory.selection
    if plan is None or selection is None or selection.origin != "plan" or number >= len(plan.steps):
        return None
    return plan.steps[number]


def steps_left_in_plan(run: Run) -> int:
    """Return how many steps of the plan were not taken yet."""
    plan = run.memory.plan
    return max(0, len(plan.steps) - run.counters.plan_step - 1) if plan is not None else 0


def selection_of(step: Step, run: Run) -> Selection:
    """Return a plan's step as the selection that Specifying works on."""
    key = fold_name(step.name)
    names = (tool.name for tool in run.spec.tools if fold_name(tool.name) == key)
    return Selection(
        tool=next(names, step.name) if step.type == "tool" else step.type,
        objective=step.reason,
        arguments=step.args,
        origin="plan",
        needs=() if run.spec.native else needed_steps(step.args),
    )


# -- Planning ----------------------------------------------------------------------------------------------------


def read_planned(case: GuardContext, kit: RunResources) -> None:
    """Read a planner's reply into *case*: an accepted plan with its first step, an answer, a question, a problem."""
    outcome, run = case.outcome, case.run
    limits = run.spec.limits
    if run.spec.task == 0:
        _read_tasks(case)
        return
    if not isinstance(outcome, Replied):
        return
    reply_id = f"{run.run_id}-{run.counters.calls}"
    read = read_plan(
        outcome.text,
        chars_max=limits.reply_chars,
        finish=outcome.finish,
        reply_id=reply_id,
        words=run.spec.mode == "planner",
        known=exact_calls(kit, run.spec),
    )
    if isinstance(read, Invalid):
        case.problem = read
    elif isinstance(read, DirectAnswer):
        case.answer = read.text
    elif read.question is not None and not any(not step.is_idle for step in read.steps):
        ask(case, question_of(read.question, "elicitation"))
    elif read.is_empty:
        case.answer = ""
    else:
        _accept(case, read, kit)


def _accept(case: GuardContext, plan: Plan, kit: RunResources) -> None:
    """
    Check every step before the first is taken; one that can never be executed makes the plan invalid.

    A question beside steps is asked once they are done, as a last step of its own: it is never lost.
    """
    run = case.run
    if plan.question is not None:
        last = Step(type="elicitation", elicitation=plan.question)
        kept = plan.elicitation if run.memory.flow is not None else None  # a workflow's variable carries it
        plan = plan.model_copy(update={"steps": (*plan.steps, last), "elicitation": kept})
    for number, step in enumerate(plan.steps):
        if step.type != "tool" or step.fault is not None:
            continue
        tool = kit.catalog.find(step.name)
        if tool is None:
            names = ", ".join(item.name for item in kit.catalog)
            told = f"steps[{number}].name: there is no tool {ascii(step.name)[:80]}; choose from: {names}"
            case.problem = Invalid("unknown_action", told)
            return
        case.denied = case.denied or denial(kit.spec.call_policy, run.spec.task_type, tool.name)
        lacking = [name for name in kit.catalog.schema(tool).required if name not in step.args]
        if lacking and run.spec.revision > 1 and selection_retries_left(run):  # only then a person is asked
            told = f"steps[{number}].args: {tool.name} needs {', '.join(lacking)}"
            case.problem = Invalid("missing_argument", told)
            return
    defects = placeholder_defects(plan.steps)
    if defects:
        number, defect = defects[0]
        case.problem = Invalid(defect.code, f"steps[{number}].args: {defect.message}")
        return
    case.plan = plan if plan.id else plan.model_copy(update={"id": plan_id(run)})
    case.selection = selection_of(plan.steps[0], run)


def _read_tasks(case: GuardContext) -> None:
    """Read a workflow's tasks into *case*: each is a step that calls the tool which drives it."""
    outcome, spec = case.outcome, case.run.spec
    overview, language = "", spec.language
    if isinstance(outcome, Replied):
        read = after(outcome.finish, read_task_plan(outcome.text, chars_max=spec.limits.reply_chars))
        if isinstance(read, Invalid):
            case.problem = read
            return
        tasks, overview = read.tasks, read.overview
        language = language or read.language_user_detected
    elif isinstance(outcome, NoOutcome) and spec.tasks:
        tasks = spec.tasks
    else:
        return
    if not language and spec.revision == 1:
        language = "en"
    steps = []
    for task in tasks:
        args: dict[str, Any] = {"id": task.id, "objective": task.objective}
        if language:
            args["language"] = language
        args["success_criteria"] = list(task.success_criteria)
        args["dependencies"] = list(task.dependencies)
        steps.append(Step(name=TASK_TOOL.name, args=args, reason=task.user_message or task.objective))
    case.plan = Plan(id=plan_id(case.run), intention=overview, steps=tuple(steps), language=language)
    case.selection = selection_of(steps[0], case.run)


def plan_id(run: Run) -> str:
    """Return the id of a plan that came without one."""
    return str(uuid.uuid5(_PLAN_IDS, f"{run.run_id}:{run.counters.calls}:{run.counters.step}"))


def ask(case: GuardContext, question: QuestionRecord) -> None:
    """Let the run wait for the user; when nobody may be asked any more, it cannot go on."""
    if questions_left(case.run):
        case.question = question
    else:
        case.unaskable = True


def question_of(
    asked: Elicitation, kind: Literal["elicitation", "argument"], *, tool: str | None = None
) -> QuestionRecord:
    """Return a plan's question as what the run waits for."""
    message = asked.message.strip() or "More information is needed."
    return QuestionRecord(kind=kind, message=message, answer_schema=asked.requested_schema, tool=tool)


# -- Specifying --------------------------------------------------------------------------------------------------


def step_arguments(case: GuardContext, step: Step) -> dict[str, Any] | None:
    """Return the arguments of a plan's tool step, placeholders resolved, or None with the reason in *case*."""
    run = case.run
    if step.fault is not None:
        case.invalid = step.fault
        return None
    arguments: Mapping[str, Any] = step.args
    if has_placeholders(arguments):
        resolved = resolve_arguments(arguments, run.counters.plan_step, _outputs(case))
        if isinstance(resolved, tuple):
            case.invalid = "; ".join(defect.message for defect in resolved[:5])
            return None
        arguments = resolved
    given = dict(arguments)
    reply = run.memory.reply
    if reply is not None and reply.action == "accept" and isinstance(reply.content, dict):
        given |= {name: value for name, value in reply.content.items() if name not in given}
    return given


def _outputs(case: GuardContext) -> list[StepOutput | None]:
    """Return what the steps before this one left, as far as it refers to them."""
    run, selection = case.run, case.selection
    assert run.memory.plan is not None and selection is not None, "a step belongs to a plan"
    outputs: list[StepOutput | None] = [None] * len(run.memory.plan.steps)
    texts = iter(case.outcome.texts if isinstance(case.outcome, Recalled) else ())
    first = run.counters.step - run.counters.plan_step
    said = {message.step - first: message for message in run.memory.history if not message.origin}
    for number in selection.needs:
        if number >= len(outputs):
            continue
        if number in run.memory.produced:
            text = next(texts, None)
            outputs[number] = StepOutput(text) if text is not None else None
        elif number in said:
            message = said[number]
            outputs[number] = (
                StepOutput(message.output) if message.success else StepOutput(error=message.error)
            )
    return outputs


def read_other_step(case: GuardContext, step: Step) -> None:
    """Read a step that is no tool: an abort ends the run, a question waits for its answer, a noop does nothing."""
    if step.type == "abort":
        case.aborted = True
    elif step.type == "elicitation" and case.run.memory.reply is None:
        asked = step.elicitation or Elicitation(message=step.reason)
        ask(case, question_of(asked, "elicitation"))


def ask_for_missing(case: GuardContext, step: Step, missing: list[str], tool: ToolSpec) -> None:
    """Ask the user for the arguments that a step lacks, once; a decline leaves the call invalid."""
    if case.run.memory.reply is not None or case.run.spec.mode != "planner":
        return
    question = question_of(missing_question(tool, missing), "argument", tool=tool.name)
    if step.reason.strip():
        question = question.model_copy(update={"message": f"{question.message} {step.reason.strip()}"})
    ask(case, question)


def missing_question(tool: ToolSpec, missing: Sequence[str]) -> Elicitation:
    """
    Return the question for arguments that a call lacks, also those whose schema has a default.

    Its schema asks for each of them as the tool's schema declares it; one that is not declared by itself is a text.
    """
    declared = tool.parameters.get("properties")
    known = declared if isinstance(declared, Mapping) else {}
    properties = {name: known.get(name, {"type": "string"}) for name in missing}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(missing)}
    if "$ref" in json.dumps(properties):
        schema |= {key: tool.parameters[key] for key in _SHARED if key in tool.parameters}
    words = ", ".join(missing)
    return Elicitation.model_validate(
        {"message": f"The tool {tool.name} needs {words}.", "requestedSchema": schema}
    )


def output_place(facts: Mapping[str, Any]) -> tuple[int, StoredText] | None:
    """Return number and payload of a plan's step's output, as its `execute` row tells them."""
    if not facts.get("ok") or "plan_step" not in facts or "output" not in facts:
        return None
    return facts["plan_step"], StoredText(**facts["output"])


# -- Planning ----------------------------------------------------------------------------------------------------


def read_native(case: GuardContext, kit: RunResources) -> None:
    """Read a turn into *case*: its calls as a plan with its first step, an answer, or a problem."""
    outcome, run = case.outcome, case.run
    if not isinstance(outcome, Replied):
        return
    read = read_turn(
        outcome.text,
        chars_max=run.spec.limits.reply_chars,
        finish=outcome.finish,
        reply_id=f"{run.run_id}-{run.counters.calls}",
        known=exact_calls(kit, run.spec),
    )
    if isinstance(read, Invalid):
        case.problem = read
    elif isinstance(read, DirectAnswer):
        case.answer = clean(read.text)
    elif not may_call(run):
        case.calls = tuple(step.id for step in _with_own_ids(read.steps, run, kit))
        case.problem = Invalid(NO_CALLS, "it calls tools where the answer was asked for")
    else:
        steps = [_named(step, run, kit) for step in _with_own_ids(read.steps, run, kit)]
        case.calls = tuple(step.id for step in steps)
        steps = steps[: run.spec.limits.calls_per_reply][: len(fitting(case.calls, kit.room))]
        steps = _before_effects(steps, run, kit)
        case.dropped = tuple(step.name for step in read.steps[len(steps) :])
        if read.text.strip():
            steps[0] = steps[0].model_copy(update={"reason": cut(clean(read.text.strip()), TURN_CHARS)})
        case.plan = Plan(id=plan_id(run), steps=tuple(steps))
        case.selection = selection_of(steps[0], run)


CALL_ROOM = 300
"""Bytes of a conversation's room that a call and its result need at least, beside its id in both of them."""


def fitting(ids: Sequence[str], room: int) -> Sequence[str]:
    """
    Return the calls of one turn for which a conversation has room, the first one always.

    They and what is least told of their results have half of it, so that the other half is left for the turn itself.
    """
    left = room // 2
    for number, id in enumerate(ids):
        left -= CALL_ROOM + 2 * len(id.encode())
        if left < 0:
            return ids[: max(1, number)]
    return ids


def _with_own_ids(steps: Sequence[Step], run: Run, kit: RunResources) -> list[Step]:
    """Return the calls of a turn, each with an id of its own, for which there is room: a result refers to one call."""
    used: set[str] = set()
    found = []
    for number, step in enumerate(steps):
        id = step.id
        if id in used or CALL_ROOM + 2 * len(id.encode()) > kit.room // 2:
            id = derived_id(f"{run.run_id}-{run.counters.calls}", number, step.name)
        used.add(id)
        found.append(step if id == step.id else step.model_copy(update={"id": id}))
    return found


def _before_effects(steps: list[Step], run: Run, kit: RunResources) -> list[Step]:
    """
    Return the calls that are made at once; the others wait for another turn.

    A ``once`` call behind one that is not was written before its model could see what that has brought; small models fill
    it with a guess, and it cannot be taken back. It waits until they have seen it. ``once`` calls behind each other do not,
    nor do those behind calls that are only written again: what they brought is known, also that they failed.
    """
    unseen = False
    for number, step in enumerate(steps):
        tool = kit.catalog.find(step.name)
        once = tool is not None and tool.effect == "once"
        if once and unseen:
            return steps[:number]
        unseen = unseen or not (once or _is_known(step, run))
    return steps


def _is_known(step: Step, run: Run) -> bool:
    """Return whether a call repeats one whose result or error has been seen, argument by argument."""
    return any(
        message.tool == step.name
        and (message.arguments or {}) == step.args
        and not (message.success and step.fault is not None)
        for message in run.memory.history
    )


def _named(step: Step, run: Run, kit: RunResources) -> Step:
    """Return a call under its tool's own name; of an unknown tool with what to choose from as its fault."""
    tool = kit.called(step.name)
    if tool is not None:
        return step.model_copy(update={"name": tool.name})
    names = ", ".join(offered.name for offered in kit.offered("turn", run))
    told = f"there is no tool {ascii(step.name)[:80]}; choose from: {names}"
    return step.model_copy(update={"fault": step.fault or told})
