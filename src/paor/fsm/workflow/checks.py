"""What is checked of a workflow as a whole: that jumps lead somewhere, and that variables come from somewhere."""

from __future__ import annotations

from ...states.records.workflow import (
    EXEC_ACTION,
    EXECUTOR_INPUTS,
    EXECUTOR_OUTPUTS,
    PLAN_ACTION,
    PLANNER_INPUTS,
    PLANNER_OUTPUTS,
    FlowTask,
    Workflow,
)
from .defects import near, near_or_all
from .source import Path
from .tasks import TaskReader

TEMPLATE_INPUTS = ("promptTemplate", "promptTemplateFile")
"""Inputs of the planner that replace its prompt; the text wins over the file."""

GIVEN = frozenset((*EXECUTOR_INPUTS, *PLANNER_OUTPUTS, *EXECUTOR_OUTPUTS, *TEMPLATE_INPUTS))
"""Variables that exist without being set in the file."""

HOOK_GIVEN = frozenset(("step", "error"))

_INPUTS = {PLAN_ACTION: (*PLANNER_INPUTS, *TEMPLATE_INPUTS), EXEC_ACTION: EXECUTOR_INPUTS}


def check_flow(reader: TaskReader, workflow: Workflow, *, whole: bool) -> None:
    """
    Add what is wrong with a workflow as a whole to *reader*.

    Args:
        reader: With the places of the file.
        workflow: As it was read, also if parts of it were wrong.
        whole: Whether the file is a whole workflow, not changes to another.
    """
    tasks = list(workflow.walk())
    for task in tasks:
        _check_gotos(reader, task, tasks)
        _check_inputs(reader, task)
        if not whole:
            _check_name(reader, task, tasks)
    if not any(task.action == PLAN_ACTION for task in tasks):
        message = f"no task has the action {PLAN_ACTION}, so nothing is planned"
        reader.add("no_planner", message, (), warning=True)
    _check_variables(reader, workflow, tasks)


def _place(task: FlowTask) -> Path:
    return ("stage", *task.path.split("."))


def _check_gotos(reader: TaskReader, task: FlowTask, tasks: list[FlowTask]) -> None:
    """Add jumps to no task, or to a name that several tasks have."""
    for index, goto in enumerate(task.goto):
        path: Path = (*_place(task), "goto", index, "task")
        targets = [other for other in tasks if other.path == goto.task]
        targets = targets or [other for other in tasks if other.name == goto.task]
        if not targets:
            known = tuple(dict.fromkeys(other.name for other in tasks))
            message = f"there is no task {goto.task[:60]!a}{near_or_all(goto.task, known)}"
            reader.add("no_target", message, _goto_path(reader, path))
        elif len(targets) > 1:
            paths = ", ".join(other.path for other in targets[:5])
            message = f"{goto.task[:60]!a} is the name of several tasks: {paths}"
            reader.add("no_target", message, _goto_path(reader, path))


def _goto_path(reader: TaskReader, path: Path) -> Path:
    """Return where a jump's target really stands: in a list, in an object, or as a bare text."""
    *head, index, key = path
    tries: list[Path] = [path, (*head, key), (*head, index), tuple(head)]
    there = (candidate for candidate in tries if reader.place(candidate)[0] in reader.source.places)
    return next(there, tuple(head))


def _check_inputs(reader: TaskReader, task: FlowTask) -> None:
    known = _INPUTS.get(task.action or "", tuple(task.input))
    for name in task.input:
        if name not in known:
            message = f"{task.action} has no input {name[:60]!a}{near_or_all(name, known)}"
            reader.add("unknown_input", message, (*_place(task), "input", name))


def _check_name(reader: TaskReader, task: FlowTask, tasks: list[FlowTask]) -> None:
    """Warn of a new task without an action whose name is nearly that of another: probably a typo."""
    path, _ = reader.place(_place(task))
    if task.action or task.tasks or path not in reader.source.places:
        return
    others = [other.name for other in tasks if other.action and other.name != task.name]
    if hint := near(task.name, others):
        reader.add("new_task", f"{task.name!a} is a new task{hint}", _place(task), warning=True)


def _check_variables(reader: TaskReader, workflow: Workflow, tasks: list[FlowTask]) -> None:
    """Warn of variables that nothing sets; a caller may set them."""
    known = GIVEN | set(workflow.init)
    known |= {name.removesuffix("[]") for task in tasks for name in task.post}
    for name, path in reader.reads:
        if name not in known and not (name in HOOK_GIVEN and "onError" in path):
            message = f"nothing sets the variable {name[:60]!a}, so the caller has to"
            reader.add("unset_variable", message, path, warning=True)
