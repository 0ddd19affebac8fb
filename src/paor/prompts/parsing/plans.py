"""
How a planner's reply is read: a plan, a direct answer, or why it is neither; never an exception.

In this order: native tool calls, a plan as JSON anywhere in the text, a question as JSON, and what is left
is the answer in plain words. Prose before a plan becomes the reason of its first step. A reply that is a JSON object, but neither
plan nor answer, is refused and asked again, and so is one that looks like a plan and is none; words that hold some other JSON are the answer.

Source: document 004 sections 2 to 4; docs/spec-coverage.md, A138 to A149, C19.

How a workflow's task plan is read: one object with tasks, put into an order that respects their dependencies.

The object has ``overview``, ``languageUserDetected``, ``userMessage`` and ``tasks``. Source: documents 000 and 002, which
keep the planning of tasks above the loop that works on one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...states.records.plans import TASKS_MAX, Plan, PlannedTask, TaskPlan
from .json_reading import Unreadable, after_thinking, read_object, rounded_in
from .plan_data import TYPES, PlanProblem, kind_of, plan_of, short
from .replies import DirectAnswer, Invalid, unwrapped, validated
from .tool_calls import Known, any_call, native_reply

REASON_CHARS = 1_000
"""How much prose before a plan is kept as its first step's reason."""

_PLAN_KEYS = ("steps", "elicitation", "plan", "intention")
_NEARLY = (
    *("step", "action", "actions", "tool", "tools", "tool_name", "tool_input", "function", "error"),
    *("tasks", "calls"),
)
_ARGUMENTS = ("args", "arguments", "parameters")
"""Keys of something that was meant to be a plan; with a ``name`` also the latter."""

_BARE = re.compile(r"\s*(?:```\w*\s*)?\{.*\}(?:\s*```)?\s*", re.DOTALL)
"""A reply that is an object, and not words about one."""

_NO_STEPS = Invalid(
    "no_steps",
    'found a plan without steps; expected {"steps": [...]}, an empty list when nothing is left to do',
)


def read_plan(
    text: str,
    *,
    chars_max: int,
    finish: str = "stop",
    reply_id: str = "",
    words: bool = True,
    known: Known = any_call,
) -> Plan | DirectAnswer | Invalid:
    """
    Read a planner's reply.

    Args:
        text: The raw reply: words, JSON, or a provider's message as JSON.
        chars_max: A longer reply is invalid unread.
        finish: How the reply ended; what was cut off or refused is no answer.
        reply_id: Goes into the ids of native calls that came without one.
        words: Whether bare words are an answer; else they are invalid, and only the key ``answer`` holds one.
        known: Which calls need all that is said of them, and the parameters of their tools.

    Returns:
        A plan, perhaps an empty one (``Plan.is_empty``: there is nothing left to do); a direct answer; or why the
        reply is invalid.
    """
    if finish in ("refusal", "content_filter"):
        return Invalid(finish, "the model declined to answer")
    data = _object_in(text, chars_max)
    if isinstance(data, Unreadable):
        if data.code == "no_json" and finish != "length":
            return DirectAnswer(text.strip()) if words else Invalid(data.code, data.message)
        if data.code == "no_json":
            return Invalid("truncated", "found an answer that is cut off; expected a whole one")
        if data.code == "not_an_object" and text.strip() == "null":
            return Plan()
        return Invalid(data.code, data.message)
    native = native_reply(data, reply_id=reply_id)
    if native is not None:
        if not native.calls:
            return read_plan(native.text, chars_max=chars_max, finish=finish, reply_id=reply_id, words=words)
        return _usable({"steps": list(native.calls)}, text, known, lead=native.text)
    return _read_object(data, text, finish, known, words=words)


def _read_object(
    data: dict[str, Any], text: str, finish: str, known: Known, *, words: bool
) -> Plan | DirectAnswer | Invalid:
    """Read a reply whose one JSON object is *data*."""
    kind = data.get("type")
    if kind == "elicitation":
        return _usable({"elicitation": data.get("elicitation") or data}, text, known, lead="")
    if isinstance(kind, str) and kind in TYPES:
        return _usable({"steps": [data]}, text, known, lead=_lead(text))
    answer = data.get("answer")
    if any(key in data for key in _PLAN_KEYS):
        inner = _unwrap(data)
        plan = _usable(inner, text, known, lead=_lead(text))
        if isinstance(plan, Plan) and plan.is_empty and isinstance(answer, str) and answer.strip():
            return DirectAnswer(answer.strip())
        if (
            isinstance(plan, Plan)
            and plan.question is None
            and isinstance(inner, Mapping)
            and "steps" not in inner
        ):
            return _NO_STEPS
        return plan
    if "answer" in data:
        if isinstance(answer, str) and answer.strip():
            return DirectAnswer(answer.strip())
        return Invalid("no_answer", f"`answer` must be a non-empty text, found {short(answer)}")
    if not data:
        return _NO_STEPS
    near = [key for key in _NEARLY if key in data]
    near += [key for key in _ARGUMENTS if key in data and "name" in data]
    if near:
        return Invalid("no_steps", f'found {short(near[0])} without steps; expected {{"steps": [...]}}')
    if finish == "length":
        return Invalid("truncated", "found an answer that is cut off; expected a whole one")
    if not words or _BARE.fullmatch(after_thinking(text)):
        return Invalid(
            "no_steps",
            'found JSON without steps; expected {"steps": [...]}, or {"steps": [], "answer": "..."}',
        )
    return DirectAnswer(text.strip())


def _unwrap(data: dict[str, Any]) -> object:
    """Return the plan within ``{"plan": {...}}``, or the object itself; ``"plan": null`` is an empty plan."""
    if "plan" not in data or "steps" in data:
        return data
    plan = data["plan"]
    if plan is None:
        plan = {"steps": []}
    if isinstance(plan, list):
        plan = {"steps": plan}
    if isinstance(plan, Mapping) and plan.get("elicitation") is None and data.get("elicitation") is not None:
        plan = {**plan, "elicitation": data["elicitation"]}
    return plan


def _usable(data: object, text: str, known: Known, *, lead: str) -> Plan | Invalid:
    """Return the plan, *lead* as its first step's reason if that has none; or its first defect."""
    plan = plan_of(data, known, rounded_in(text))
    if not isinstance(plan, Plan):
        return invalid_of(plan)
    if lead and plan.steps and not plan.steps[0].reason:
        words = lead.strip()
        words = words if len(words) <= REASON_CHARS else words[: REASON_CHARS - 1] + "…"
        first = plan.steps[0].model_copy(update={"reason": words})
        return plan.model_copy(update={"steps": (first, *plan.steps[1:])})
    return plan


def invalid_of(problems: tuple[PlanProblem, ...]) -> Invalid:
    """Return the first of a plan's defects for the next prompt, with how many more there are."""
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Invalid(first.code, f"`{first.place}`: {first.message}{more}")


def _lead(text: str) -> str:
    """Return the prose before the JSON, without the mark of a fence."""
    places = [place for mark in ("{", "[", "```") if (place := text.find(mark)) >= 0]
    return text[: min(places)].strip() if places else ""


def _object_in(text: str, chars_max: int) -> dict[str, Any] | Unreadable:
    """Return the JSON object of a reply; a list, wherever it stands, is the list of steps."""
    data = read_object(text, chars_max=chars_max)
    if not isinstance(data, Unreadable):
        return unwrapped(data)
    if data.code != "not_an_object":
        return data
    start, end = text.find("["), text.rfind("]")
    if start < 0 or end < start:
        return data
    wrapped = read_object(f'{{"steps": {text[start : end + 1]}}}', chars_max=chars_max + 20)
    if isinstance(wrapped, Unreadable) or not _is_steps(wrapped.get("steps")):
        return data
    return wrapped


def _is_steps(items: object) -> bool:
    return isinstance(items, list) and all(isinstance(item, dict) for item in items)


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
