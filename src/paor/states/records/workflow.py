"""
The workflow file as a model: variables, and tasks with their conditions, inputs, outputs and jumps.

Expressions and templates stand here as text; `fsm.workflow.reader` has checked that they parse.

Source: document 004 sections 2, 4 and 5; docs/spec-coverage.md, A129 to A136, A161 to A164, D18.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from ..base.wire import Wire
from .plans import Elicitation

PLAN_ACTION = "llm/core:plan"
"""Ask the planner for a plan or an answer."""

EXEC_ACTION = "llm/exec:run_plan"
"""Execute the steps of the plan."""

PLANNER_INPUTS = ("query", "context", "model", "tools", "results", "transcript")
"""What the planner's action takes; beside it ``promptTemplate`` or ``promptTemplateFile``."""

PLANNER_OUTPUTS = ("plan", "answer", "elicitation", "results", "transcript")

EXECUTOR_INPUTS = ("plan", *PLANNER_INPUTS)

EXECUTOR_OUTPUTS = ("results", "elicitation", "transcript")


class Goto(Wire):
    """
    A jump, taken after a task's ``post`` when its condition holds; of several the first that holds.

    Attributes:
        task: Name or dotted path of the task to go on with; of a task with tasks, its first.
        when: An expression; None: always.
    """

    task: str
    when: str | bool | None = None


class Hook(Wire):
    """
    What is called when a tool of the task failed: an action, with ``step`` and ``error`` among its variables.

    Attributes:
        action: A tool, or a built-in action.
        input: Its input, a template.
    """

    action: str
    input: dict[str, Any] = Field(default_factory=dict)


class FlowTask(Wire):
    """
    One task of a workflow.

    Attributes:
        name: Unique among its neighbours.
        path: Dotted path from the stage, ``loop.plan``.
        action: What it does: `PLAN_ACTION`, `EXEC_ACTION` or a tool; None for a task that only holds others, sets
            variables, jumps, asks or aborts.
        input: The action's input, a template; a text that is one placeholder keeps its value's type.
        when: An expression; the task is skipped unless it holds. None: always done.
        post: Variables to set afterwards, each a template over the action's outputs and the variables; a name ending
            in ``[]`` appends to a list.
        goto: Where to go on, unless with the next task.
        on_error: Called when a tool failed.
        abort: With an action: a failure ends the run. Without one: reaching the task ends it.
        elicitation: A question to the user; the answer is its output ``answer``.
        tasks: Tasks within this one, in order.
    """

    name: str
    path: str
    action: str | None = None
    input: dict[str, Any] = Field(default_factory=dict)
    when: str | bool | None = None
    post: dict[str, Any] = Field(default_factory=dict)
    goto: tuple[Goto, ...] = Field(default=(), strict=False)
    on_error: Hook | None = None
    abort: bool = False
    elicitation: Elicitation | None = None
    tasks: tuple[FlowTask, ...] = Field(default=(), strict=False)


class Workflow(Wire):
    """
    A whole workflow.

    Attributes:
        name: For people.
        description: For people.
        init: Variables before the first task (``vars`` is another word for it), each a template over the inputs; an
            input of the same name takes precedence.
        tasks: In order.
    """

    name: str = ""
    description: str = ""
    init: dict[str, Any] = Field(default_factory=dict)
    tasks: tuple[FlowTask, ...] = Field(default=(), strict=False)

    def walk(self) -> Iterator[FlowTask]:
        """Yield every task, each before those within it."""
        stack = list(reversed(self.tasks))
        while stack:
            task = stack.pop()
            yield task
            stack.extend(reversed(task.tasks))
