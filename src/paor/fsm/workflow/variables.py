"""
The variables of a run's workflow: folded from its rows, or kept; and what its planner is given. Pure.

``results``, ``transcript``, ``plan``, ``answer`` and ``elicitation`` are read from the run's memory, ``query``, ``context``,
``model`` and ``promptTemplate`` from its spec; only what is left is in the row that moves the workflow, within
`states.run.spec.VARIABLES_BYTES_MAX` bytes. ``results`` are the last 50, each cut to 2,000 characters but for the newest one
in the input of a task that calls a tool.

Source: document 004 sections 2 to 5; docs/spec-coverage.md, A130 to A135, A144, A158, A160.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import json as wire
from msgspec.structs import replace

from ...prompts.building.builder import PLACEHOLDERS, PlanInput, tool_text
from ...prompts.building.templates import other_form, parse_template
from ...states.base.errors import UsageError
from ...states.base.sealed import unsealed
from ...states.records.observations import Message
from ...states.records.plans import Plan, PlanResult
from ...states.records.workflow import EXEC_ACTION, PLAN_ACTION, FlowTask, Workflow
from ...states.run.spec import VARIABLES_BYTES_MAX, FlowKind, FlowState, Spec, ToolSpec
from ...states.run.state import Run
from ...tools.catalog import fold_name
from ...tools.policy import denial
from .expressions.functions import CHARS_MAX, Misfit, text
from .navigation import HOPS_MAX, Cursor, Flow, FlowError

FOLDED = ("results", "transcript", "plan", "answer", "elicitation")
"""Variables that the run's rows tell; a task can set none of them but ``answer`` to something else."""

SAME: dict[str, tuple[Any, ...]] = {
    "results": ("${results}", []),
    "transcript": ("${transcript}", []),
    "plan": ("${plan}",),
    "elicitation": ("${elicitation}", "${plan.elicitation}"),
}
"""What may stand in ``init`` and ``post`` for variables that the rows tell: what they are."""

INPUT_CHARS_MAX = CHARS_MAX - 100_000
"""Most characters of the newest result that a task's input is given."""


# -- variables ---------------------------------------------------------------------------------------------------


def fixed_values(spec: Spec) -> dict[str, Any]:
    """Return the variables that the spec tells; null where nothing was given."""
    own = spec.templates.get("plan") if "plan" in spec.own_templates else None
    context = spec.context or None
    return {"query": spec.objective, "context": context, "model": spec.model, "promptTemplate": own}


def cursor_of(run: Run, last: str | None = None) -> Cursor:
    """
    Return where a run's workflow is, with every variable.

    Args:
        run: With a workflow.
        last: Body of the newest result, where it is known whole.
    """
    state, memory = run.memory.flow, run.memory
    assert state is not None, "only a run with a workflow has a cursor"
    plan = memory.plan
    question = plan.question if plan is not None else None
    given = {name: value for name, value in fixed_values(run.spec).items() if value is not None}
    variables = given | state.variables
    variables |= {
        "results": results_of(memory.history, last, data=state.last_data),
        "transcript": transcript_of(run),
        "plan": plan.wire() if plan is not None else None,
        "answer": memory.answer,
        "elicitation": question.wire() if question is not None else None,
    }
    return Cursor(state.at, unsealed(variables))


def results_of(
    history: Sequence[Message], last: str | None = None, *, data: bool = False
) -> list[dict[str, Any]]:
    """Return what the plans' steps came to, oldest first; the newest one whole when *last* is its body."""
    results = [_result(message) for message in history if is_result(message)]
    if last is not None and results:
        results[-1]["result"] = value_of(last[:INPUT_CHARS_MAX], data=data)
    return results


def is_result(message: Message) -> bool:
    """Return whether a message is the result of a plan's step that did something."""
    return not message.origin and message.tool != "noop"


def _result(message: Message) -> dict[str, Any]:
    known = bool(message.output) or message.success
    return PlanResult(
        id=message.call_id or f"action{message.action}",
        name=message.tool,
        args=message.arguments or {},
        result=value_of(message.output, data=message.data) if known else None,
        error=message.told_error,
    ).wire()


def value_of(body: str, *, data: bool) -> Any:
    """Return what a tool returned: of *data* the value, as long as it is whole, else the text."""
    if not data:
        return body
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body


def transcript_of(run: Run) -> list[dict[str, Any]]:
    """Return the conversation: what stood before the run, then what planner and user have said."""
    before = [{"role": turn.role, "content": turn.content} for turn in run.spec.transcript]
    return before + [{"role": turn.role, "content": turn.content} for turn in run.memory.turns]


def kept(variables: Mapping[str, Any], spec: Spec) -> dict[str, Any]:
    """
    Return the variables that only the workflow's own rows can tell.

    Raises:
        FlowError: They are too large to be kept.
    """
    fixed = fixed_values(spec)
    found = {
        name: value
        for name, value in variables.items()
        if name not in FOLDED and not (name in fixed and fixed[name] == value)
    }
    size = len(wire.encode(found))
    if size > VARIABLES_BYTES_MAX:
        raise FlowError(f"the workflow's variables have {size} bytes, at most {VARIABLES_BYTES_MAX} are kept")
    return found


# -- where a workflow goes ---------------------------------------------------------------------------------------


def advanced(flow: Flow, cursor: Cursor, plan: Plan | None) -> tuple[Cursor, FlowTask | None]:
    """
    Return the next task with something to do, and the cursor at it; executing an empty plan does nothing.

    Raises:
        ExpressionError, FlowError: The workflow cannot go on.
    """
    for _ in range(HOPS_MAX):
        cursor, task = flow.upcoming(cursor)
        if task is None or task.action != EXEC_ACTION or (plan is not None and not plan.is_empty):
            return cursor, task
        cursor = flow.done(cursor, task, executed(cursor))
    raise FlowError(f"the workflow executed {HOPS_MAX} empty plans in a row")


def executed(cursor: Cursor) -> dict[str, Any]:
    """Return the executor's outputs once its steps are among the variables."""
    return {**{name: cursor.variables.get(name) for name in ("results", "transcript")}, "elicitation": None}


def kind_of(task: FlowTask | None) -> FlowKind:
    """Return what a task is, for the run."""
    if task is None:
        return "end"
    if task.action is None:
        return "ask"
    kinds: dict[str, FlowKind] = {PLAN_ACTION: "plan", EXEC_ACTION: "exec"}
    return kinds.get(task.action, "tool")


def state_at(
    flow: Flow, cursor: Cursor, task: FlowTask | None, spec: Spec, before: FlowState | None = None
) -> FlowState:
    """
    Return the state of a workflow at *task*; what a planner will be given is tried out.

    Raises:
        ExpressionError, FlowError: An input cannot be evaluated, or the variables are too large.
    """
    if task is not None and task.action == PLAN_ACTION:
        plan_input(flow, cursor, spec)
    variables = kept(cursor.variables, spec)
    if before is None:
        return FlowState(cursor.at, kind_of(task), variables)
    return replace(before, at=cursor.at, kind=kind_of(task), variables=variables, failed=False)


def actions_of(workflow: Workflow) -> list[tuple[str, str]]:
    """Return the tools that a workflow calls itself, each with the path of its place."""
    found = []
    for task in workflow.walk():
        if task.action is not None and task.action not in (PLAN_ACTION, EXEC_ACTION):
            found.append((task.action, f"{task.path}.action"))
        if task.on_error is not None:
            found.append((task.on_error.action, f"{task.path}.onError.action"))
    return found


# -- what a planner is given -------------------------------------------------------------------------------------


def plan_input(flow: Flow, cursor: Cursor, spec: Spec) -> PlanInput:
    """
    Return what the task that plans gives to its planner.

    Raises:
        ExpressionError, FlowError: An input cannot be evaluated, or is of no use.
    """
    call = flow.call(cursor, flow.task(cursor)).input
    template = template_of(call)
    if template:
        check_template(template)
    offered = (
        tool
        for tool in allowed_tools(call, cursor, spec)
        if denial(spec.policy, spec.task_type, tool.name) is None
    )
    values = {"CATALOG_FULL": "\n".join(map(tool_text, offered))}
    for name, key in (("query", "OBJECTIVE"), ("context", "CONTEXT")):
        if name in call:
            values[key] = _text(call[name])
    return PlanInput(template, values)


def template_of(call: Mapping[str, Any]) -> str:
    """Return the planning template of an input, empty for the shipped one; a text wins over a file."""
    given, file = call.get("promptTemplate"), call.get("promptTemplateFile")
    if isinstance(given, str) and given.strip():
        return given
    read = file.get("text") if isinstance(file, Mapping) else None
    return read if isinstance(read, str) and read.strip() else ""


def check_template(template: str) -> None:
    """
    Raise when a text cannot be used as a planning prompt.

    Raises:
        FlowError: It has two dividers, a placeholder that nobody fills or none for what is asked, or a form that is not rendered.
    """
    if (instead := other_form(template)) is not None:
        raise FlowError(f"promptTemplate: {instead}")
    try:
        keys = parse_template(template, "promptTemplate").keys
    except UsageError as error:
        raise FlowError(str(error)) from None
    if unknown := sorted(keys - PLACEHOLDERS["plan"]):
        known = ", ".join(sorted(PLACEHOLDERS["plan"]))
        raise FlowError(f"promptTemplate: nothing is ever put in place of {unknown[0]!a}; there are: {known}")
    if "OBJECTIVE" not in keys:
        raise FlowError(
            "promptTemplate: {{KEY:OBJECTIVE}} is missing, so the model would not see what it is asked for"
        )


def allowed_tools(call: Mapping[str, Any], cursor: Cursor, spec: Spec) -> list[ToolSpec]:
    """
    Return the tools that an input allows: its list, else the variable's, else all.

    Raises:
        FlowError: It is no list of names, or has a name that no tool has.
    """
    names = call.get("tools")
    names = cursor.variables.get("tools") if names is None else names
    if names is None:
        return list(spec.tools)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FlowError("tools must be a list of names")
    known = {fold_name(tool.name): tool for tool in spec.tools}
    if unknown := [name for name in names if fold_name(name) not in known]:
        raise FlowError(
            f"unknown tool {ascii(unknown[0])[:80]}; there are: {', '.join(t.name for t in spec.tools)}"
        )
    return list({fold_name(name): known[fold_name(name)] for name in names}.values())


def _text(value: Any) -> str:
    try:
        return text(value)
    except Misfit as misfit:
        raise FlowError(misfit.problem) from None
