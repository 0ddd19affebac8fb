"""
A workflow file that a caller gives: read, checked against an engine's tools, and made part of a run's spec.

Everything that can be wrong before the first row is found here, so that nothing is started: the file's defects, an action
that no tool has, a template file that is not there, variables that cannot be evaluated.

Source: document 004 sections 2 and 5; docs/spec-coverage.md, A129, A130, A132, A158, A160, C20, D18, D19.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ...prompts.model import Model
from ...states.base.errors import ToolError, UsageError
from ...states.base.sealed import unsealed
from ...states.records.observations import clean, cut
from ...states.records.workflow import PLAN_ACTION, FlowTask, Workflow
from ...states.run.spec import FlowState, Mode, Spec
from ...tools.catalog import fold_name
from ...tools.documents.files import open_within, within
from ...tools.tool import Tool
from ..workflow.expressions.evaluator import ExpressionError, rendered
from ..workflow.navigation import Flow, FlowError
from ..workflow.reader import load_workflow
from ..workflow.source import CHARS_MAX
from ..workflow.variables import SAME, actions_of, advanced, fixed_values, kept, state_at
from .arguments import model_of, text_of_data, text_of_file

T = TypeVar("T")

TEMPLATE_BYTES_MAX = 1_000_000
_NAMED_MAX = 1_000


@dataclass(frozen=True, slots=True)
class GivenWorkflow:
    """
    A workflow as a caller gave it.

    Attributes:
        workflow: Read and free of defects.
        folder: Of the workflow's file, where the files stand that it names; None for one that is no file.
        variables: The caller's own; they win over those of the file.
    """

    workflow: Workflow
    folder: Path | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)

    def mode(self, chosen: Mode | None) -> Mode:
        """
        Return ``planner``, the mode of every workflow file.

        Raises:
            UsageError: The caller chose another.
        """
        if chosen not in (None, "planner"):
            raise UsageError(f"a workflow runs in the mode planner, not {chosen}")
        return "planner"

    def tools_of_workflow(self, tools: Mapping[str, Tool], chosen: Sequence[Tool]) -> tuple[Tool, ...]:
        """
        Return the tools of a run: those it may choose from, and those that the workflow calls itself.

        Raises:
            UsageError: The workflow calls a tool that is not there.
        """
        known = {fold_name(name): tool for name, tool in tools.items()}
        found = list(chosen)
        for action, place in actions_of(self.workflow):
            tool = known.get(fold_name(action))
            if tool is None:
                raise UsageError(
                    f"workflow: {place}: there is no tool {action!a}; there are: {', '.join(tools)}"
                )
            if tool not in found:
                found.append(tool)
        return tuple(found)

    def begin_workflow(
        self, spec: Spec, model: Model, *, tools: Sequence[str] | None, own_model: bool, waits: bool
    ) -> tuple[Spec, Model]:
        """
        Return *spec* with the workflow and its beginning, and the model that plans.

        Args:
            spec: Of the run, complete but for the workflow.
            model: Of the engine or the run.
            tools: The caller's list; None when there was none.
            own_model: Whether *model* is the caller's, which wins over the workflow's.
            waits: Whether what was said before is not known yet: the run begins with `begun` in its turn.

        Raises:
            UsageError: A file or a model that it names cannot be used, or what it gives to its planner.
        """
        workflow, given = self.workflow, dict(self.variables)
        given |= {"tools": list(tools)} if tools is not None else {}
        given |= {"model": model.name} if own_model else {}
        inputs = _inputs(given, spec)
        try:
            variables = Flow(workflow).start(inputs).variables
        except ExpressionError as error:
            if not waits:
                return lost(spec, workflow, given, error), model
            variables = _known(workflow, inputs)
        # nothing else of the machine: who writes a workflow is not always who runs it
        roots = (*([str(self.folder)] if self.folder is not None else ()), *spec.policy.file_roots)
        workflow = _with_templates(workflow, variables, roots)
        model = model if own_model else _model_of(workflow, variables, roots) or model
        spec = spec.model_copy(update={"model": model.name, "workflow": workflow.wire()})
        if waits:
            kept(given, spec)  # whether they are small enough
            return spec.model_copy(update={"flow": FlowState(0, "waits", given)}), model
        return begun(spec, workflow, given), model


def _known(workflow: Workflow, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables that a workflow begins with, but for those that cannot be evaluated before it is known what was said."""
    found: dict[str, Any] = {}
    for name, value in workflow.init.items():
        with suppress(ExpressionError):
            found[name] = rendered(value, inputs, strict=False)
    return found | {name: value for name, value in inputs.items() if value is not None}


def begun(spec: Spec, workflow: Workflow, given: Mapping[str, Any]) -> Spec:
    """
    Return *spec* with its workflow at the first task; one that fails before is lost.

    Args:
        spec: Of the run, with what was said before it.
        workflow: With the texts of its files.
        given: The caller's own variables.

    Raises:
        UsageError: It ends before anything is done, or what it gives to its planner cannot be used.
    """
    flow = Flow(workflow)
    try:
        cursor, task = advanced(flow, flow.start(_inputs(given, spec)), None)
    except (ExpressionError, FlowError) as error:
        return lost(spec, workflow, given, error)
    if task is None:
        raise UsageError("workflow: it ends before anything is done")
    try:
        return spec.model_copy(update={"flow": state_at(flow, cursor, task, spec)})
    except ExpressionError as error:
        return lost(spec, workflow, given, error)


def begun_in_turn(spec: Spec) -> Spec:
    """Return the spec of a round that has waited for the rounds before it with its workflow begun; whatever that fails at, it is lost."""
    assert spec.workflow is not None and spec.flow is not None, "only such a round has waited with a workflow"
    workflow, given = Workflow.model_validate(unsealed(spec.workflow)), spec.flow.variables
    try:
        return begun(spec, workflow, given)
    except UsageError as error:
        return lost(spec, workflow, given, error)


def lost(spec: Spec, workflow: Workflow, given: Mapping[str, Any], error: Exception) -> Spec:
    """Return *spec* with a workflow that fails where it begins: the run ends with the reason in its journal."""
    # the next round has the variables, too
    state = FlowState(0, "lost", kept(given, spec), problem=cut(clean(str(error)), 500))
    return spec.model_copy(update={"workflow": workflow.wire(), "flow": state})


def _inputs(given: Mapping[str, Any], spec: Spec) -> dict[str, Any]:
    """Return what a workflow begins with; what the caller has said elsewhere wins over his variables."""
    names = dict.fromkeys(("promptTemplate", "tools", "model", "context"))
    fixed = {
        name: value for name, value in fixed_values(spec).items() if value is not None and name != "model"
    }
    said = [turn.wire() for turn in spec.transcript]
    return {**names, **given, **fixed, "results": [], "transcript": said}


WorkflowLike = Workflow | GivenWorkflow | Mapping[str, Any] | str | os.PathLike[str]
"""What a caller gives as a workflow."""


def given_workflow(
    given: WorkflowLike | None, variables: Mapping[str, Any] | None = None
) -> GivenWorkflow | None:
    """
    Return a workflow from a path, the text of a file, its data, or a `Workflow`; None for None.

    Raises:
        UsageError: The file cannot be read or has defects, or the variables are no JSON object.
    """
    if given is None:
        if variables is not None:
            raise UsageError("variables come with a workflow")
        return None
    if isinstance(given, GivenWorkflow):
        return given
    checked = _variables(variables)
    if isinstance(given, Workflow):
        return GivenWorkflow(_check_names(given), None, checked)
    if isinstance(given, Mapping):
        return GivenWorkflow(_check_names(load_workflow(_json(given, "workflow"))), None, checked)
    if not isinstance(given, str | os.PathLike):
        raise UsageError(f"workflow: expected a path, a text or a Workflow, not {type(given).__name__}")
    path = _path_of(given)
    if path is None:
        return GivenWorkflow(_check_names(load_workflow(clean(str(given)))), None, checked)
    return GivenWorkflow(
        _check_names(load_workflow(text_of_file(path, 4 * CHARS_MAX), name=clean(str(path)))),
        path.parent,
        checked,
    )


def _path_of(given: str | os.PathLike[str]) -> Path | None:
    """Return the file that is meant, None for the text of one."""
    if not isinstance(given, str):
        return Path(given)
    line = given.strip()
    if "\n" in line or not line or len(line) > _NAMED_MAX or "\0" in line or line.startswith("{"):
        return None
    path = Path(given)
    return path if path.suffix.lower() in (".yaml", ".yml", ".json") or path.is_file() else None


def _json(given: Mapping[str, Any], what: str) -> str:
    try:
        text = json.dumps(given, ensure_ascii=False, allow_nan=False)
        text.encode()  # no lone surrogates
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{what}: has no JSON form ({error})") from None


def _variables(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a caller's variables as plain JSON data."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(
        isinstance(name, str) and name.isidentifier() for name in given
    ):
        raise UsageError("variables must be a mapping of names to JSON values")
    if fixed := sorted(set(given) & set(SAME)):
        raise UsageError(f"variables: {fixed[0]!r} is what the run makes it")
    found: dict[str, Any] = json.loads(_json(given, "variables"))
    return found


def _check_names(workflow: Workflow) -> Workflow:
    """Return *workflow* when it leaves the variables alone that the run's rows tell."""
    places = [(f"init.{name}", name, value) for name, value in workflow.init.items()]
    for task in workflow.walk():
        places += [(f"{task.path}.post.{name}", name, value) for name, value in task.post.items()]
    for place, name, value in places:
        base = name.removesuffix("[]")
        if base in SAME and (base != name or value not in SAME[base]):
            raise UsageError(f"workflow: {place}: {base!r} is what the run makes it; use another name")
    return workflow


def _with_templates(workflow: Workflow, variables: Mapping[str, Any], roots: Sequence[str]) -> Workflow:
    """Return *workflow* with the text of every template file, which stands under one of *roots*, beside its name."""
    return workflow.model_copy(
        update={"tasks": tuple(_with_template(task, variables, roots) for task in workflow.tasks)}
    )


def _with_template(task: FlowTask, variables: Mapping[str, Any], roots: Sequence[str]) -> FlowTask:
    inner = tuple(_with_template(item, variables, roots) for item in task.tasks)
    name = rendered(task.input.get("promptTemplateFile"), variables, strict=False)
    if task.action != PLAN_ACTION or not isinstance(name, str) or not name.strip():
        return task.model_copy(update={"tasks": inner})
    text = _text_within(roots, name.strip())
    if not text.strip():
        raise UsageError(f"{name}: the template is empty")
    read = {"file": name.strip(), "text": text.replace("${", "$${")}
    return task.model_copy(update={"input": {**task.input, "promptTemplateFile": read}, "tasks": inner})


def _text_within(roots: Sequence[str], name: str) -> str:
    """Return the text of a file that a workflow names; raise `UsageError` for one outside of *roots*."""
    try:
        with _only(roots, open_within, name) as file:
            return text_of_data(file.read(TEMPLATE_BYTES_MAX + 1), name, TEMPLATE_BYTES_MAX)
    except OSError as error:
        raise UsageError(f"workflow: {name!a:.120} cannot be read ({error.strerror})") from None


def _only(roots: Sequence[str], look: Callable[[Sequence[str], str], T], name: str) -> T:
    """Return what *look* finds of a file that a workflow names."""
    if not roots:
        raise UsageError(
            f"workflow: {name!a:.120} is not opened: this workflow is no file, and the policy has no file_roots"
        )
    try:
        return look(roots, name)
    except ToolError as error:
        raise UsageError(f"workflow: {error} (file_roots, and the folder of the workflow file)") from None


def _model_of(workflow: Workflow, variables: Mapping[str, Any], roots: Sequence[str]) -> Model | None:
    """Return the model that the first task that plans names, None when it names none."""
    task = next((task for task in workflow.walk() if task.action == PLAN_ACTION), None)
    name = rendered(task.input.get("model"), variables, strict=False) if task is not None else None
    if name is None or name == "":
        return None
    if not isinstance(name, str):
        raise UsageError("workflow: model must be the name of a model")
    if name.startswith("script:"):
        root, inner = _only(roots, within, name.removeprefix("script:"))
        return model_of(f"script:{root / inner}")
    return model_of(name)
