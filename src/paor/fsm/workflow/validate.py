"""
Checks a plan or a workflow file and lists every defect with its place; the function behind `paor validate`.

What a file is, is read from its keys: a plan has ``steps``, ``intention`` or a question, a list is a plan's steps, and
everything else is a workflow. Tools are checked only when a catalog is given, since a file says nothing about who will
run it: then names must be known, and arguments without placeholders must fit the tool's schema.

Source: document 004 section 7 (``validate_plan -i plan.yaml``); docs/spec-coverage.md, A141, A167, C16, C20.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from ...prompts.parsing.plan_data import plan_of
from ...states.records.plans import STEPS_MAX, Plan, Step
from ...states.records.workflow import EXEC_ACTION, PLAN_ACTION, Workflow
from ...tools.catalog import Catalog, fold_name
from .defects import DefectList, FileDefect, defect, in_order, is_usable, near
from .reader import workflow_of
from .source import Path, SourceError, SourceText, read_source
from .step_references import has_placeholders, placeholder_defects

Kind = Literal["plan", "workflow"]

_PLAN_KEYS = ("steps", "intention", "plan")
_ARGUMENT_KEYS = ("args", "arguments", "parameters", "input", "function")
_STEP_KEYS = (
    *("id", "type", "name", *_ARGUMENT_KEYS[:-1], "reason", "retries", "elicitation"),
    *("message", "schema", "requestedSchema", "content", "followup_prompt", "function", "call_id", "fault"),
)
_UNREAD = Step(name="?")
"""In place of a step of which nothing can be read."""
_HEAD_KEYS = ("id", "intention", "steps", "elicitation")


@dataclass(frozen=True, slots=True)
class Report:
    """
    What a file is and what is wrong with it.

    Attributes:
        kind: ``plan`` or ``workflow``.
        defects: As they stand in the file, warnings included.
        plan: The plan, None for a workflow and for a plan with errors.
        workflow: The workflow, likewise.
    """

    kind: Kind
    defects: tuple[FileDefect, ...]
    plan: Plan | None = None
    workflow: Workflow | None = None

    @property
    def ok(self) -> bool:
        """Whether the file can be used: there is nothing but warnings."""
        return is_usable(self.defects)


def validate(text: str, *, kind: Kind | None = None, tools: Catalog | None = None) -> Report:
    """
    Return what is wrong with a plan or workflow.

    Args:
        text: YAML or JSON.
        kind: The expected kind; None: determined by its keys.
        tools: Tools that its names and arguments are checked against; None: they are not.

    Returns:
        A report, for any input; nothing is raised.
    """
    try:
        source = read_source(text)
    except SourceError as error:
        return Report(kind or "workflow", (defect(error.code, error.problem, (), error.place),))
    kind = kind or _kind_of(source.data)
    return _plan_report(source, tools) if kind == "plan" else _workflow_report(source, tools)


def _kind_of(data: object) -> Kind:
    if isinstance(data, list):
        return "plan"
    if not isinstance(data, dict) or "stage" in data:
        return "workflow"
    if isinstance(data.get("plan"), dict) and "steps" not in data["plan"] and "intention" not in data["plan"]:
        return "workflow"  # a task called plan, changed
    asked = data.get("elicitation")
    question = isinstance(asked, dict) and "message" in asked
    return "plan" if question or any(key in data for key in _PLAN_KEYS) else "workflow"


# -- plans -----------------------------------------------------------------------------------------------------------


def _plan_report(source: SourceText, tools: Catalog | None) -> Report:
    data = source.data
    inside: Path = ()
    if isinstance(data, dict) and isinstance(data.get("plan"), dict | list) and "steps" not in data:
        data, inside = data["plan"], ("plan",)
    found = DefectList(source, {(): inside})
    if isinstance(data, list):
        data, found.origin["steps",] = {"steps": data}, inside
    read = plan_of(data)
    plan = read if isinstance(read, Plan) else None
    for problem in () if isinstance(read, Plan) else read:
        found.add(problem.code, problem.message, problem.path)
    if isinstance(data, dict):
        _check_keys(data, found)
    readable, unread = (plan, frozenset[int]()) if plan is not None else _readable(data)
    if isinstance(data, dict) and not {"steps", "elicitation"} & data.keys():
        found.add("no_steps", "a plan has steps, an empty list when nothing is left to do", ())
        readable = None
    if readable is not None:
        _check_plan(readable, found, tools, unread)
    defects = in_order(found.defects)
    return Report("plan", defects, plan=plan if is_usable(defects) else None)


def _readable(data: object) -> tuple[Plan | None, frozenset[int]]:
    """Return what can be read of a plan with errors, and the numbers of the steps whose arguments cannot."""
    steps = data.get("steps") if isinstance(data, Mapping) else None
    if not isinstance(steps, list) or len(steps) > STEPS_MAX:
        return None, frozenset()
    read, unread = [], set()
    for index, step in enumerate(steps):
        found, wrong = plan_of({"steps": [step]}), frozenset[object]()
        if not isinstance(found, Plan) and isinstance(step, Mapping):
            wrong = frozenset(problem.path[2] for problem in found if len(problem.path) > 2)
            if "type" not in wrong or "name" in step.keys() - wrong:  # else it is not known what it would do
                found = plan_of({"steps": [{key: step[key] for key in step if key not in wrong}]})
        if not isinstance(found, Plan) or wrong & {*_ARGUMENT_KEYS}:
            unread.add(index)
        read.append(found.steps[0] if isinstance(found, Plan) else _UNREAD)
    return Plan(steps=tuple(read)), frozenset(unread)


def _check_keys(data: Mapping[str, Any], found: DefectList) -> None:
    _warn_of(data, _HEAD_KEYS, (), found)
    steps = data.get("steps")
    for index, step in enumerate(steps if isinstance(steps, list) else ()):
        if isinstance(step, dict):
            _warn_of(step, _STEP_KEYS, ("steps", index), found)


def _warn_of(data: Mapping[str, Any], known: tuple[str, ...], path: Path, found: DefectList) -> None:
    for key in data:
        if key not in known:
            message = f"{key[:60]!a} means nothing here{near(key, known)}"
            found.add("unknown_key", message, (*path, key), warning=True)


def _check_plan(plan: Plan, found: DefectList, tools: Catalog | None, unread: frozenset[int]) -> None:
    """Add what is wrong with the steps of a plan; the arguments of the *unread* ones are not known."""
    for index, problem in placeholder_defects(plan.steps):
        found.add(problem.code, problem.message, ("steps", index, "args", *problem.path))
    questions: list[tuple[Path, Any]] = [((), plan.elicitation)]
    questions += [(("steps", index), step.elicitation) for index, step in enumerate(plan.steps)]
    for path, question in questions:
        if question is not None and question.schema_text and not question.requested_schema:
            message = "the schema is no JSON object, so every answer fits"
            found.add("schema", message, (*path, "elicitation", "schema"), warning=True)
    if plan.is_empty:
        found.add("empty_plan", "the plan is empty: there is nothing left to do", (), warning=True)
    for index, step in enumerate(plan.steps):
        if step is _UNREAD:
            continue
        if step.type == "tool" and step.fault is not None:
            found.add("arguments", step.fault, ("steps", index))
        elif step.type == "tool" and tools is not None:
            _check_call(step, ("steps", index), found, tools, arguments=index not in unread)


def _check_call(step: Step, path: Path, found: DefectList, tools: Catalog, *, arguments: bool) -> None:
    """Add an unknown tool, or arguments that do not fit; what placeholders will give is not known yet."""
    tool = tools.find(step.name)
    if tool is None:
        found.add("unknown_tool", _no_tool(step.name, tools), (*path, "name"))
        return
    for problem in tools.schema(tool).check(step.args) if arguments else ():
        name = problem.path.partition(".")[0].partition("[")[0]
        if not has_placeholders({name: step.args.get(name)}):
            found.add("arguments", f"{tool.name}: {problem.message}", (*path, "args", name))


def _no_tool(name: str, tools: Catalog) -> str:
    names = {fold_name(tool.name): tool.name for tool in tools}
    like = get_close_matches(fold_name(name), list(names), n=1)
    hint = f"did you mean {names[like[0]]}?" if like else f"there are: {', '.join(names.values())}"
    return f"there is no tool {name[:60]!a}; {hint}"


# -- workflows -------------------------------------------------------------------------------------------------------


def _workflow_report(source: SourceText, tools: Catalog | None) -> Report:
    workflow, defects = workflow_of(source)
    if workflow is None or tools is None:
        return Report("workflow", defects, workflow=workflow)
    found = DefectList(source, {})
    for task in workflow.walk():
        path = _path_in(source, task.path)
        hook = task.on_error and task.on_error.action
        for action, place in ((task.action, path), (hook, (*path, "onError"))):
            if action and action not in (PLAN_ACTION, EXEC_ACTION) and tools.find(action) is None:
                found.add("unknown_tool", _no_tool(action, tools), (*place, "action"))
    defects = in_order((*defects, *found.defects))
    return Report("workflow", defects, workflow=None if found.defects else workflow)


def _path_in(source: SourceText, dotted: str) -> Path:
    """Return where a task is in the file: below the stage, or at the top of a file of changes."""
    path: Path = ("stage", *dotted.split("."))
    return path if path in source.places else path[-1:]
