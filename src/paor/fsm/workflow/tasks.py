"""Reads the tasks of a workflow from plain data: types, keys, expressions and templates, each defect with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from ...states.records.plans import Elicitation
from ...states.records.workflow import (
    EXEC_ACTION,
    EXECUTOR_INPUTS,
    EXECUTOR_OUTPUTS,
    PLAN_ACTION,
    PLANNER_INPUTS,
    PLANNER_OUTPUTS,
    FlowTask,
    Goto,
    Hook,
    Workflow,
)
from .defects import DefectList, near, near_or_all
from .expressions.evaluator import ExpressionError, parse_expression, template_parts
from .source import Path, SourceText

KEYS = ("action", "input", "when", "post", "goto", "onError", "abort", "elicitation", "description")
UNSUPPORTED = ("async", "await", "catch", "dependsOn", "emit", "init", "retry", "template", "vars")
"""Keys that the original engine knows for tasks and this one has no meaning for."""

TASK_DEPTH_MAX = 8
T = TypeVar("T")
_NAME = re.compile(r"[^\W\d]\w*")
_POST = re.compile(r"[^\W\d]\w*(?:\[\])?")
_ACTION = re.compile(r"[\w.-]+(?:[/:][\w.-]+)*")


class TaskReader(DefectList):
    """
    Reads tasks and keeps what is wrong and which variables are read.

    Args:
        source: The file, for places.
        origin: Where parts of the data stand in the file: a path of the data to one of the file.

    Attributes:
        reads: Variables that are read, each with the path of the expression; those of ``post`` are left out, since
            an action may have any outputs.
    """

    def __init__(self, source: SourceText, origin: Mapping[Path, Path]) -> None:
        super().__init__(source, origin)
        self.reads: list[tuple[str, Path]] = []

    # -- values ----------------------------------------------------------------------------------------------------

    def mapping(self, data: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
        """Return an object under *key*; null and a missing key are empty."""
        return self._read_typed(data, key, path, dict, "an object") or {}

    def text(self, data: Mapping[str, Any], key: str, path: Path) -> str:
        """Return a text under *key*; null and a missing key are empty."""
        return self._read_typed(data, key, path, str, "a text") or ""

    def flag(self, data: Mapping[str, Any], key: str, path: Path) -> bool:
        """Return a bool under *key*; null and a missing key are false."""
        return self._read_typed(data, key, path, bool, "true or false") or False

    def _read_typed(
        self, data: Mapping[str, Any], key: str, path: Path, kind: type[T], words: str
    ) -> T | None:
        value = data.get(key)
        if value is None or isinstance(value, kind):
            return value
        self.add("wrong_type", f"{key} must be {words}", (*path, key))
        return None

    def check_keys(self, data: Mapping[str, Any], known: tuple[str, ...], where: str, path: Path) -> None:
        """Add a defect for each key that is not *known*."""
        for key in data:
            if key not in known:
                message = f"{key!a} is not known {where}{near_or_all(key, known)}"
                self.add("unknown_key", message, (*path, key))

    def condition(self, data: Mapping[str, Any], key: str, path: Path) -> str | bool | None:
        """Return a condition under *key*: an expression or a bool."""
        value = data.get(key)
        if value is None or isinstance(value, bool):
            return value
        if not isinstance(value, str):
            self.add("wrong_type", f"{key} must be an expression, or true or false", (*path, key))
            return None
        try:
            self.reads += [(name, (*path, key)) for name in parse_expression(value).names]
        except ExpressionError as error:
            self.add("expression", str(error), (*path, key))
        return value

    def check_name(self, name: str, path: Path) -> None:
        """Add a defect for what cannot be the name of a variable."""
        if not _NAME.fullmatch(name):
            self.add("name", f"{name!a} is no name of a variable: letters, digits and _", path)

    def check_template(self, value: Any, path: Path, *, outputs: bool = False) -> None:
        """Parse every placeholder of a template; what reads an action's *outputs* may read any name."""
        if isinstance(value, dict):
            for key, item in value.items():
                self.check_template(item, (*path, key), outputs=outputs)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self.check_template(item, (*path, index), outputs=outputs)
        elif isinstance(value, str) and "${" in value:
            try:
                for part in template_parts(value):
                    if not isinstance(part, str) and not outputs:
                        self.reads += [(name, path) for name in part[1].names]
            except ExpressionError as error:
                self.add("expression", str(error), path)

    # -- tasks -----------------------------------------------------------------------------------------------------

    def task(self, name: str, data: Any, path: Path) -> FlowTask:
        """Return one task with those within it."""
        dotted = ".".join(map(str, path[1:]))
        if not isinstance(data, dict):
            self.add("wrong_type", f"the task {name!a} must be an object", path)
            return FlowTask(name=name, path=dotted)
        if "on_error" in data and "onError" not in data:
            self.origin[*path, "onError"] = self.place((*path, "on_error"))[0]
            data = {("onError" if key == "on_error" else key): value for key, value in data.items()}
        inner = self._inner(data, path)
        task = FlowTask(
            name=name,
            path=dotted,
            action=self._action(data, path),
            input=self._input(data, path),
            when=self.condition(data, "when", path),
            post=self._post(data, path),
            goto=self._gotos(data, path),
            on_error=self._hook(data, path),
            abort=self.flag(data, "abort", path),
            elicitation=self._question(data, path),
            tasks=inner,
        )
        self._check_kind(task, path)
        return task

    def _inner(self, data: Mapping[str, Any], path: Path) -> tuple[FlowTask, ...]:
        """Return the tasks within a task: its objects under keys that mean nothing else."""
        inner = []
        for key, value in data.items():
            if key in UNSUPPORTED:
                self.add("unsupported", f"{key!a} of a task has no meaning here", (*path, key))
            elif key not in KEYS:
                if not isinstance(value, dict) or "action" in data:
                    self.check_keys({key: value}, KEYS, "in a task", path)
                elif len(path) > TASK_DEPTH_MAX:
                    self.add("limit", f"tasks nested deeper than {TASK_DEPTH_MAX} levels", (*path, key))
                else:
                    inner.append(self.task(key, value, (*path, key)))
        return tuple(inner)

    def _check_kind(self, task: FlowTask, path: Path) -> None:
        """Add a defect for a task that is two things at once, or none."""
        if task.tasks:
            for key in ("action", "input", "post", "goto", "on_error", "abort", "elicitation"):
                if getattr(task, key):
                    word = "onError" if key == "on_error" else key
                    self.add("two_kinds", f"a task that holds tasks has no {word}", (*path, word))
        elif task.action and task.elicitation:
            self.add("two_kinds", "a task has an action or asks a question, not both", (*path, "elicitation"))
        elif not (task.action or task.elicitation or task.goto or task.post or task.abort):
            self.add("no_action", f"the task {task.name!a} has no action and does nothing", path)
        if task.on_error and not task.action:
            self.add("no_action", "onError needs an action that can fail", (*path, "onError"))

    def _action(self, data: Mapping[str, Any], path: Path) -> str | None:
        action = self.text(data, "action", path).strip()
        if action and not _ACTION.fullmatch(action):
            message = f"{action[:60]!a} is no action: a tool, or service/path:method"
            self.add("name", message, (*path, "action"))
        return action or None

    def _input(self, data: Mapping[str, Any], path: Path) -> dict[str, Any]:
        given = self.mapping(data, "input", path)
        self.check_template(given, (*path, "input"))
        return given

    def _post(self, data: Mapping[str, Any], path: Path) -> dict[str, Any]:
        given = self.mapping(data, "post", path)
        for name in given:
            if not _POST.fullmatch(name):
                message = f"{name!a} is no name of a variable, with [] to append"
                self.add("name", message, (*path, "post", name))
        self.check_template(given, (*path, "post"), outputs=True)
        return given

    def _hook(self, data: Mapping[str, Any], path: Path) -> Hook | None:
        hook = self.mapping(data, "onError", path)
        here = (*path, "onError")
        if not hook:
            return None
        self.check_keys(hook, ("action", "input"), "in onError", here)
        action = self._action(hook, here)
        if action is None:
            self.add("no_action", "onError needs an action", here)
        return Hook(action=action or "", input=self._input(hook, here))

    def _gotos(self, data: Mapping[str, Any], path: Path) -> tuple[Goto, ...]:
        raw = data.get("goto")
        here = (*path, "goto")
        if raw is None:
            return ()
        items = (
            [((*here, index), item) for index, item in enumerate(raw)]
            if isinstance(raw, list)
            else [(here, raw)]
        )
        return tuple(filter(None, (self._goto(item, place) for place, item in items)))

    def _goto(self, raw: Any, path: Path) -> Goto | None:
        if isinstance(raw, str) and raw.strip():
            return Goto(task=raw.strip())
        if not isinstance(raw, dict):
            self.add("wrong_type", "goto is a task's name, or an object with task and when", path)
            return None
        self.check_keys(raw, ("task", "when"), "in goto", path)
        when = self.condition(raw, "when", path)
        task = self.text(raw, "task", path).strip()
        if not task:
            self.add("no_target", "goto needs the name of a task", path)
            return None
        return Goto(task=task, when=when)

    def _question(self, data: Mapping[str, Any], path: Path) -> Elicitation | None:
        raw = data.get("elicitation")
        here = (*path, "elicitation")
        if raw is None:
            return None
        if isinstance(raw, str):
            raw = {"message": raw}
        try:
            question = Elicitation.model_validate(raw)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            self.add("wrong_type", f"elicitation: {first['msg']}", here)
            return None
        self.check_template(question.message, (*here, "message"))
        if question.is_blank:
            self.add("no_question", "an elicitation needs a message or a schema", here)
        return question


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
