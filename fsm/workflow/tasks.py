"""Reads the tasks of a workflow from plain data: types, keys, expressions and templates, each defect with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from ...states.records.plans import Elicitation
from ...states.records.workflow import FlowTask, Goto, Hook
from .defects import FileDefect, defect
from .expressions.evaluator import Expression, ExpressionError, parse_expression, template_parts
from .source import Path, Place, SourceText

KEYS = ("action", "input", "when", "post", "goto", "onError", "abort", "elicitation", "description")
UNSUPPORTED = ("async", "await", "catch", "dependsOn", "emit", "init", "retry", "template", "vars")
"""Keys that the original engine knows for tasks and this one has no meaning for."""

TASK_DEPTH_MAX = 8
_NAME = re.compile(r"[^\W\d]\w*")
_POST = re.compile(r"[^\W\d]\w*(?:\[\])?")
_ACTION = re.compile(r"[\w.-]+(?:[/:][\w.-]+)*")


class TaskReader:
    """
    Reads tasks and keeps what is wrong and which variables are read.

    Args:
        source: The file, for places.
        origin: Where parts of the data stand in the file: a path of the data to one of the file.

    Attributes:
        defects: What was found so far.
        reads: Variables that are read, each with the path of the expression; those of ``post`` are left out, since
            an action may have any outputs.
    """

    def __init__(self, source: SourceText, origin: Mapping[Path, Path]) -> None:
        self.source = source
        self.origin = dict(origin)
        self.defects: list[FileDefect] = []
        self.reads: list[tuple[str, Path]] = []

    def place(self, path: Path) -> tuple[Path, Place]:
        """Return where something is in the file: its path there, and line and column."""
        for size in range(len(path), -1, -1):
            if path[:size] in self.origin:
                path = (*self.origin[path[:size]], *path[size:])
                break
        return path, self.source.place(path)

    def add(self, code: str, message: str, path: Path, *, warning: bool = False) -> None:
        """Add a defect at a path of the data."""
        shown, place = self.place(path)
        self.defects.append(defect(code, message, shown, place, warning=warning))

    def near(self, word: str, known: tuple[str, ...]) -> str:
        """Return a suggestion for a word that is not known, with a leading separator."""
        found = get_close_matches(word, known, n=1)
        return f"; did you mean {found[0]}?" if found else f"; there are: {', '.join(known)}"

    # -- values ----------------------------------------------------------------------------------------------------

    def mapping(self, data: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
        """Return an object under *key*; null and a missing key are empty."""
        value = data.get(key)
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        self.add("wrong_type", f"{key} must be an object", (*path, key))
        return {}

    def text(self, data: Mapping[str, Any], key: str, path: Path) -> str:
        """Return a text under *key*; null and a missing key are empty."""
        value = data.get(key)
        if value is None or isinstance(value, str):
            return value or ""
        self.add("wrong_type", f"{key} must be a text", (*path, key))
        return ""

    def flag(self, data: Mapping[str, Any], key: str, path: Path) -> bool:
        """Return a bool under *key*; null and a missing key are false."""
        value = data.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.add("wrong_type", f"{key} must be true or false", (*path, key))
        return False

    def condition(self, data: Mapping[str, Any], key: str, path: Path) -> str | bool | None:
        """Return a condition under *key*: an expression or a bool."""
        value = data.get(key)
        if value is None or isinstance(value, bool):
            return value
        if not isinstance(value, str):
            self.add("wrong_type", f"{key} must be an expression, or true or false", (*path, key))
            return None
        try:
            self._note(parse_expression(value), (*path, key))
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
                        self._note(part[1], path)
            except ExpressionError as error:
                self.add("expression", str(error), path)

    def _note(self, expression: Expression, path: Path) -> None:
        self.reads += [(name, path) for name in expression.names]

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
                    self.add(
                        "unknown_key", f"{key!a} is not known in a task{self.near(key, KEYS)}", (*path, key)
                    )
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
            self.add(
                "name", f"{action[:60]!a} is no action: a tool, or service/path:method", (*path, "action")
            )
        return action or None

    def _input(self, data: Mapping[str, Any], path: Path) -> dict[str, Any]:
        given = self.mapping(data, "input", path)
        self.check_template(given, (*path, "input"))
        return given

    def _post(self, data: Mapping[str, Any], path: Path) -> dict[str, Any]:
        given = self.mapping(data, "post", path)
        for name in given:
            if not _POST.fullmatch(name):
                self.add(
                    "name", f"{name!a} is no name of a variable, with [] to append", (*path, "post", name)
                )
        self.check_template(given, (*path, "post"), outputs=True)
        return given

    def _hook(self, data: Mapping[str, Any], path: Path) -> Hook | None:
        hook = self.mapping(data, "onError", path)
        here = (*path, "onError")
        if not hook:
            return None
        for key in hook:
            if key not in ("action", "input"):
                self.add(
                    "unknown_key",
                    f"{key!a} is not known in onError{self.near(key, ('action', 'input'))}",
                    (*here, key),
                )
        action = self._action(hook, here)
        if action is None:
            self.add("no_action", "onError needs an action", here)
        return Hook(action=action or "", input=self._input(hook, here))

    def _gotos(self, data: Mapping[str, Any], path: Path) -> tuple[Goto, ...]:
        raw = data.get("goto")
        here = (*path, "goto")
        if raw is None:
            return ()
        if isinstance(raw, list):
            found = [self._goto(item, (*here, index)) for index, item in enumerate(raw)]
        else:
            found = [self._goto(raw, here)]
        return tuple(goto for goto in found if goto is not None)

    def _goto(self, raw: Any, path: Path) -> Goto | None:
        """Return one jump: a task's name, or an object with ``task`` and ``when``."""
        if isinstance(raw, str) and raw.strip():
            return Goto(task=raw.strip())
        if not isinstance(raw, dict):
            self.add("wrong_type", "goto is a task's name, or an object with task and when", path)
            return None
        for key in raw:
            if key not in ("task", "when"):
                self.add(
                    "unknown_key",
                    f"{key!a} is not known in goto{self.near(key, ('task', 'when'))}",
                    (*path, key),
                )
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
