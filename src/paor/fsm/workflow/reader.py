"""
Reads a workflow file: a whole one, or changes to the default one.

A file with a ``stage`` is a whole workflow. One without is laid over a base, by default the shipped workflow, which is
how the recipes of document 004 are written: variables are added, a task of the base's is changed key by key (``input``
and ``post`` are merged, everything else replaced), and a task with a new name is added after the base's last one.

Every defect is collected with its place. Expressions and templates are parsed here, so that a typo shows before
anything runs; a variable that nothing sets is a warning, since a caller may set it.

Source: document 004 sections 2 and 5; docs/spec-coverage.md, A129 to A136, A161 to A164, C21, D18.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ...states.base.errors import UsageError
from ...states.records.workflow import FlowTask, Workflow
from .defects import FileDefect, defect, in_order, is_usable
from .source import Path, SourceError, SourceText, read_source
from .tasks import KEYS, TaskReader, check_flow

MERGED = ("input", "post")
"""Keys of a task that changes are merged into; the others are replaced."""

_HEAD = ("name", "description", "init", "vars")


class WorkflowError(UsageError):
    """
    A workflow file has defects; nothing was started.

    Attributes:
        defects: All of them, as they stand in the file; warnings included.
    """

    def __init__(self, message: str, defects: tuple[FileDefect, ...] = ()) -> None:
        super().__init__(message, defects)
        self.defects = defects

    def __str__(self) -> str:
        return str(self.args[0])


def load_workflow(text: str, *, name: str = "workflow") -> Workflow:
    """
    Return the workflow that a file describes.

    Args:
        text: YAML or JSON; empty for the default workflow.
        name: Name of the file, for error messages.

    Raises:
        WorkflowError: The file has defects; the message names the first in one line, and the number of others.
    """
    workflow, defects = workflow_of_text(text)
    errors = [item for item in defects if item.severity == "error"]
    if errors or workflow is None:
        more = f" (and {len(errors) - 1} more; run: paor validate)" if len(errors) > 1 else ""
        raise WorkflowError(f"{name}:{errors[0]}{more}", defects)
    return workflow


@lru_cache(maxsize=1)
def default_workflow_text() -> str:
    """Return the YAML of the workflow that runs when no other is given."""
    return pathlib.Path(__file__).with_name("workflow.yaml").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def default_workflow() -> Workflow:
    """Return the shipped workflow."""
    return load_workflow(default_workflow_text(), name="default workflow")


def workflow_of_text(text: str) -> tuple[Workflow | None, tuple[FileDefect, ...]]:
    """Return the workflow of a YAML or JSON text, None if it has errors, and all defects."""
    try:
        return workflow_of(read_source(text))
    except SourceError as error:
        return None, (defect(error.code, error.problem, (), error.place),)


def workflow_of(source: SourceText) -> tuple[Workflow | None, tuple[FileDefect, ...]]:
    """Return the workflow of a file that was read, None if it has errors, and all defects."""
    data = source.data if source.data is not None else {}
    if not isinstance(data, dict):
        return None, (defect("wrong_type", "a workflow is an object with a stage", (), source.place(())),)
    whole = "stage" in data
    origin: dict[Path, Path] = {}
    if not whole and isinstance(data.get("pipeline"), dict) and "action" not in data["pipeline"]:
        # laid over the shipped workflow it would run behind that one's own tasks, which its file does not mean
        message = "a file's own tasks stand below stage; pipeline is Fluxor's name of it, which is not read"
        return None, (defect("pipeline", message, ("pipeline",), source.place(("pipeline",))),)
    if not whole:
        data, origin = _laid_over(data, _base())
    reader = TaskReader(source, origin)
    workflow = _read_whole(reader, data)
    check_flow(reader, workflow, whole=whole)
    defects = in_order(reader.defects)
    return (workflow if is_usable(defects) else None), defects


def _read_whole(reader: TaskReader, data: dict[str, Any]) -> Workflow:
    reader.check_keys(data, (*_HEAD, "stage"), "here", ())
    head = {key: reader.text(data, key, ()) for key in ("name", "description")}
    init: dict[str, Any] = {}
    for key in ("init", "vars"):
        for name, value in reader.mapping(data, key, ()).items():
            reader.check_name(name, (key, name))
            reader.check_template(value, (key, name))
            if name in init:
                reader.add("duplicate_key", f"{name!a} stands in init and in vars", (key, name))
            init[name] = value
    stage = reader.mapping(data, "stage", ())
    if not stage:
        reader.add("no_tasks", "the stage has no tasks", ("stage",))
    tasks = tuple(reader.task(name, value, ("stage", name)) for name, value in stage.items())
    return Workflow(**head, init=init, tasks=tasks)


@lru_cache(maxsize=1)
def _base() -> dict[str, Any]:
    """Return the data of the shipped workflow; not to be changed."""
    data: dict[str, Any] = read_source(default_workflow_text()).data
    return data


# -- changes to a base -----------------------------------------------------------------------------------------------


def _laid_over(changes: dict[str, Any], base: dict[str, Any]) -> tuple[dict[str, Any], dict[Path, Path]]:
    """
    Return *base* with *changes*, and where each changed part of it came from.

    The second is a mapping from a path of the result to a path of the changes; what is below is found by
    replacing the one with the other.
    """
    result = dict(base)
    origin: dict[Path, Path] = {}
    result["init"] = _variables(base["init"], changes)
    homes = _homes(base["stage"], ("stage",))
    last_home = list(homes.values())[-1]
    for key, value in changes.items():
        if key in _HEAD or not isinstance(value, Mapping):
            result[key] = result["init"] if key == "init" else value
            origin[(key,)] = (key,)
        else:
            home = homes.get(key, last_home)
            result = _change_task(result, home, key, value)
            origin[(*home, key)] = (key,)
    return result, origin


def _variables(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Any:
    """Return the base's variables with those of the changes' ``init``, without those that ``vars`` sets anew."""
    own, named = changes.get("init"), changes.get("vars")
    if own is not None and not isinstance(own, Mapping):
        return own
    renewed = named.keys() if isinstance(named, Mapping) else ()
    return {name: value for name, value in base.items() if name not in renewed} | dict(own or {})


def _homes(tasks: Mapping[str, Any], path: Path) -> dict[str, Path]:
    """Return for each task of a base the path of what holds it; the last one's is last."""
    found: dict[str, Path] = {}
    for name, task in tasks.items():
        found[name] = path
        if "action" not in task:
            found |= _homes(task, (*path, name))
    return found


def _change_task(data: dict[str, Any], home: Path, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return *data* with the task *name* below *home* changed or added; nothing is changed in place.

    What earlier changes have made of a task on the way that is none stays, and is told as a defect when it is read.
    """
    if home:
        head = str(home[0])
        inner = data.get(head)
        return (
            {**data, head: _change_task(inner, home[1:], name, changes)} if isinstance(inner, dict) else data
        )
    before = data.get(name)
    return {**data, name: _merge_task(before if isinstance(before, Mapping) else {}, changes)}


def _merge_task(task: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task with changes: its inputs, its variables and the tasks within it are merged key by key."""
    result = dict(task)
    for key, value in changes.items():
        before = result.get(key)
        if not (isinstance(before, Mapping) and isinstance(value, Mapping)) or (
            key in KEYS and key not in MERGED
        ):
            result[key] = value
        else:
            result[key] = {**before, **value} if key in MERGED else _merge_task(before, value)
    return result


def find_task(workflow: Workflow, name: str) -> FlowTask | None:
    """Return the task with this name or dotted path, None if there is none or the name stands for several."""
    exact = [task for task in workflow.walk() if task.path == name]
    named = exact or [task for task in workflow.walk() if task.name == name]
    return named[0] if len(named) == 1 else None
