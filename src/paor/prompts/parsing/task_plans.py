"""
How a workflow's task plan is read: one object with tasks, put into an order that respects their dependencies.

The object has ``overview``, ``languageUserDetected``, ``userMessage`` and ``tasks``. Source: documents 000 and 002, which
keep the planning of tasks above the loop that works on one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...states.records.plans import TASKS_MAX, PlannedTask, TaskPlan
from .json_reading import Unreadable, read_object
from .plan_data import kind_of, short
from .replies import Invalid, validated

_LANGUAGE = re.compile(r"\w+([ _-]\w+)*")
"""A code or a name; it is in the prompts of every task, so that nothing else may be said with it."""


def read_task_plan(text: str, *, chars_max: int) -> TaskPlan | Invalid:
    """
    Read a reply to a ``task_plan`` request.

    Args:
        text: The raw reply.
        chars_max: A longer reply is invalid unread.

    Returns:
        The tasks with every dependency before what needs it, otherwise in the order given; tasks without an id are
        ``task_1`` and so on by their place. Or why the reply is invalid: no tasks, an id twice, a dependency on
        nothing or on itself, a circle.
    """
    data = read_object(text, chars_max=chars_max)
    if isinstance(data, Unreadable):
        return Invalid(data.code, data.message)
    tasks = data.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        return Invalid("no_tasks", f"`tasks` must be a list of at least one task, found {kind_of(tasks)}")
    if len(tasks) > TASKS_MAX:
        return Invalid("too_many_tasks", f"found {len(tasks)} tasks; at most {TASKS_MAX} are allowed")
    given = {key: value for key, value in data.items() if value is not None}
    given["tasks"] = [_raw_task(raw, index) for index, raw in enumerate(tasks)]
    plan = validated(TaskPlan, given)
    if isinstance(plan, Invalid):
        return plan
    if not _LANGUAGE.fullmatch(plan.language_user_detected):
        plan = plan.model_copy(update={"language_user_detected": ""})
    return _problem(plan.tasks) or _sort_tasks(plan)


def _raw_task(raw: object, index: int) -> object:
    """Return one task without nulls and blank criteria, its complexity in lower case, with an id; a blank objective is the id."""
    if not isinstance(raw, Mapping):
        return raw
    task: dict[str, Any] = {key: value for key, value in raw.items() if value is not None}
    task.setdefault("id", f"task_{index + 1}")
    for key in ("estimated_complexity", "estimatedComplexity"):
        if isinstance(task.get(key), str):
            task["estimated_complexity"] = task.pop(key).strip().lower()
    if "successCriteria" in task:
        task.setdefault("success_criteria", task.pop("successCriteria"))
    if isinstance(criteria := task.get("success_criteria"), list):
        task["success_criteria"] = [text for text in criteria if not isinstance(text, str) or text.strip()]
    if isinstance(objective := task.get("objective"), str) and objective:
        task["objective"] = objective.strip() or str(task["id"])
    return task


def _problem(tasks: tuple[PlannedTask, ...]) -> Invalid | None:
    ids = [task.id for task in tasks]
    for task in tasks:
        if ids.count(task.id) > 1:
            return Invalid("duplicate_task", f"the task id {short(task.id)} stands twice")
        for needed in task.dependencies:
            if needed == task.id:
                return Invalid("dependency", f"the task {short(task.id)} depends on itself")
            if needed not in ids:
                return Invalid(
                    "dependency", f"the task {short(task.id)} depends on {short(needed)}, which is no task"
                )
    return None


def _sort_tasks(plan: TaskPlan) -> TaskPlan | Invalid:
    """Return *plan* with its tasks in an order that can be worked on: always the first whose dependencies are done."""
    waiting, done = list(plan.tasks), list[PlannedTask]()
    while waiting:
        ids = {task.id for task in done}
        ready = next((task for task in waiting if ids.issuperset(task.dependencies)), None)
        if ready is None:
            names = ", ".join(short(task.id) for task in waiting[:5])
            return Invalid("dependency", f"the tasks {names} depend on each other in a circle")
        waiting.remove(ready)
        done.append(ready)
    return plan if tuple(done) == plan.tasks else plan.model_copy(update={"tasks": tuple(done)})
