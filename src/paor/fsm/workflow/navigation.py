"""
Walks through a workflow: which task is next, and what a finished one changes. Pure: a cursor in, a cursor out.

Tasks run from top to bottom; one whose ``when`` does not hold is skipped, with all that is within it. After a task its
``post`` is applied, every value of it read from the action's outputs and the variables as they were before, and only
then its jumps are tried: the first whose condition holds is taken, otherwise the next task follows. The workflow ends
behind its last task, or with a task that aborts.

Source: document 004 sections 2, 4 and 5; docs/spec-coverage.md, A130 to A137, A161 to A164, C12, C22.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from ...states.base.errors import UsageError
from ...states.base.sealed import unsealed
from ...states.records.workflow import PLAN_ACTION, FlowTask, Workflow
from .expressions.evaluator import holds, rendered
from .tasks import GIVEN

HOPS_MAX = 1_000
"""Tasks in a row that do nothing but jump and set variables; more are a loop without an end."""


class FlowError(UsageError):
    """A workflow cannot go on: it jumps in a circle without doing anything. The run fails; nothing was started."""


class StepCall(NamedTuple):
    """An action with its input."""

    action: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cursor:
    """
    Where a workflow is.

    Attributes:
        at: Number of the next instruction, from 0; behind the last one the workflow has ended.
        variables: By name, JSON values.
        changed: Names that the last move set, in their order; all of them at the start.
        aborted: Name of the task that ended the workflow; empty while none did.
    """

    at: int
    variables: Mapping[str, Any] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    aborted: str = ""


class _Instruction(NamedTuple):
    """One task with the number of the instruction behind it and all that is within it."""

    task: FlowTask
    behind: int


@dataclass(frozen=True, slots=True)
class _Program:
    """A workflow as a list: each task before those within it; and where each name leads."""

    instructions: tuple[_Instruction, ...]
    places: Mapping[str, int]


@lru_cache(maxsize=64)
def _program_of(text: str) -> _Program:
    instructions: list[_Instruction] = []
    names: dict[str, int] = {}
    _flatten(Workflow.model_validate_json(text).tasks, instructions, names)
    return _Program(tuple(instructions), names)


def _flatten(tasks: tuple[FlowTask, ...], instructions: list[_Instruction], names: dict[str, int]) -> None:
    for task in tasks:
        at = len(instructions)
        names.setdefault(task.name, at)
        instructions.append(_Instruction(task, at + 1))
        _flatten(task.tasks, instructions, names)
        instructions[at] = _Instruction(task, len(instructions))
        names[task.path] = at


class Flow:
    """
    A workflow that can be walked through.

    Args:
        workflow: As `load_workflow` returned it.
    """

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        self._program = _program_of(workflow.wire_json())
        posted = (name.removesuffix("[]") for task in workflow.walk() for name in task.post)
        self._unset: dict[str, Any] = dict.fromkeys((*sorted(GIVEN), *posted))

    def start(self, inputs: Mapping[str, Any]) -> Cursor:
        """
        Return the cursor before the first task.

        Args:
            inputs: What the caller gives; one that is not null wins over a variable of the file.

        Raises:
            ExpressionError: A variable's template cannot be evaluated.
        """
        given = {name: value for name, value in inputs.items() if value is not None}
        variables = rendered(self.workflow.init, inputs, strict=False) | given
        return Cursor(0, variables, tuple(variables))

    def upcoming(self, cursor: Cursor) -> tuple[Cursor, FlowTask | None]:
        """
        Return the next task that does something from outside (an action or a question), and the cursor at it.

        Tasks that only set variables, jump or abort are done on the way.

        Returns:
            None as task when the workflow has ended, aborted or not.

        Raises:
            ExpressionError: A condition or value cannot be evaluated.
            FlowError: More than `HOPS_MAX` tasks did nothing but jump and set variables.
        """
        changed: dict[str, None] = {}
        for _ in range(HOPS_MAX):
            if cursor.aborted or cursor.at >= len(self._program.instructions):
                return _with(cursor, changed), None
            task, behind = self._program.instructions[cursor.at]
            if not holds(task.when, self._readable(cursor.variables)):
                cursor = Cursor(behind, cursor.variables)
            elif task.action or task.elicitation:
                return _with(cursor, changed), task
            elif task.tasks:
                cursor = Cursor(cursor.at + 1, cursor.variables)
            else:
                cursor = self._leave(cursor, task, {}, aborted=task.abort)
            changed |= dict.fromkeys(cursor.changed)
        raise FlowError(
            f"the workflow jumped {HOPS_MAX} times without doing anything; check its goto conditions"
        )

    def task(self, cursor: Cursor) -> FlowTask:
        """Return the task that a cursor is at; it must not be behind the last one."""
        return self._program.instructions[cursor.at].task

    def again(self, cursor: Cursor) -> Cursor:
        """Return the cursor at the first task that plans, at the first of all when none does; variables are kept."""
        plans = (at for at, item in enumerate(self._program.instructions) if item.task.action == PLAN_ACTION)
        return Cursor(next(plans, 0), cursor.variables)

    def call(self, cursor: Cursor, task: FlowTask) -> StepCall:
        """
        Return the action of a task with its input; a variable that is not set is null.

        Raises:
            ExpressionError: A placeholder cannot be evaluated.
        """
        return StepCall(task.action or "", rendered(task.input, cursor.variables, strict=False))

    def done(
        self, cursor: Cursor, task: FlowTask, outputs: Mapping[str, Any], *, failed: bool = False
    ) -> Cursor:
        """
        Return the cursor after *task*.

        Args:
            cursor: At the task.
            task: What `upcoming` returned.
            outputs: Of its action, by name; of a question ``answer``.
            failed: Whether its action, or a tool within it, failed; with ``abort`` that ends the workflow, after
                ``post``, so that results are kept.

        Raises:
            ExpressionError: A value of ``post`` or a jump's condition cannot be evaluated.
        """
        return self._leave(cursor, task, outputs, aborted=failed and task.abort)

    def hook(self, cursor: Cursor, task: FlowTask, step: Mapping[str, Any], error: str) -> StepCall | None:
        """
        Return what is to be called since a tool failed, None if the task has no hook.

        Args:
            cursor: At the task.
            task: With or without ``onError``.
            step: The step that failed, as JSON; the hook's variable ``step``.
            error: Its error; the hook's variable ``error``.
        """
        if task.on_error is None:
            return None
        variables = {**cursor.variables, "step": unsealed(step), "error": error}
        return StepCall(task.on_error.action, rendered(task.on_error.input, variables, strict=False))

    def _leave(self, cursor: Cursor, task: FlowTask, outputs: Mapping[str, Any], *, aborted: bool) -> Cursor:
        """Return the cursor after a task: its ``post`` applied, its jump taken."""
        variables = dict(cursor.variables)
        scope = {**cursor.variables, **unsealed(outputs)}
        for name, template in task.post.items():
            value = rendered(template, scope, strict=False)
            base, append = name.removesuffix("[]"), name.endswith("[]")
            variables[base] = [*_items(cursor.variables.get(base)), value] if append else value
        changed = tuple(dict.fromkeys(name.removesuffix("[]") for name in task.post))
        if aborted:
            return Cursor(cursor.at, variables, changed, aborted=task.path)
        target = next((goto for goto in task.goto if holds(goto.when, self._readable(variables))), None)
        behind = self._program.instructions[cursor.at].behind
        return Cursor(behind if target is None else self._program.places[target.task], variables, changed)

    def _readable(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the variables as conditions read them: what is known but not set yet is null."""
        return self._unset | dict(variables)


def _with(cursor: Cursor, changed: Mapping[str, None]) -> Cursor:
    """Return a cursor that names everything that was set on the way to it."""
    return Cursor(cursor.at, cursor.variables, tuple(changed), cursor.aborted)


def _items(value: Any) -> list[Any]:
    """Return a list to append to; a variable that is no list yet is its first item."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
