"""
Workflows: rounds and tasks over runs, on the one machine.

A workflow is itself a run, task 0 of its round: its plan is the list of tasks (`task_plan`), each of its steps calls the
tool ``workflow.task``, which drives one task as a run of its own in the same journal. So planning, order, retries, the
review of the whole, resume, replay and verification are those of any run. What a task produced is passed on by label.

Source: documents 000 to 003 (rounds, tasks, labels), SPEC A011, A037, A038, A045, A069, A101, B3.23, D22.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..states.errors import ToolError, UsageError
from ..states.limits import Limits
from ..states.observations import Message
from ..states.plans import TASKS_MAX, PlannedTask
from ..states.profile import Profile
from ..states.spec import TASK_TOOL, Spec
from ..tools.tool import Document, Tool, ToolContext, ToolOutput
from .effects import EffectPending
from .intake import profile_of
from .observe import cut, line
from .result import Result
from .resuming import restored

if TYPE_CHECKING:
    from .engine import Engine
    from .journal import Journal

SUMMARY_CHARS = 400
"""Characters of an earlier round's answer that the next round's history keeps."""

HISTORY_MAX = 50
_CHILD_OPTIONS = ("mode", "tools", "task_type", "context", "prompt_template", "final_format", "fallback")


@dataclass(frozen=True, slots=True)
class Task:
    """
    One task of a workflow whose tasks the host knows, so that no model has to plan them.

    Attributes:
        objective: What it is to reach.
        success_criteria: What must hold at its end.
        dependencies: Ids of earlier tasks whose documents it gets; none: it gets those of all earlier tasks.
        id: Unique within the workflow; empty: ``task_1`` and so on.
    """

    objective: str
    success_criteria: Sequence[str] = ()
    dependencies: Sequence[str] = ()
    id: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """
    Where a run stands in a workflow.

    Attributes:
        workflow_id: Id of the workflow; empty: a new one, the run's own id.
        round: From 1.
        task: From 1; 0 is the workflow itself.
        task_id: The task's own name.
        history: What earlier rounds did, newest last, as summaries.
        tasks: Tasks that the host has given.
        options: What the tasks of a workflow are started with.
    """

    workflow_id: str = ""
    round: int = 1
    task: int = 1
    task_id: str = ""
    history: tuple[Message, ...] = ()
    tasks: tuple[PlannedTask, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


# -- starting ----------------------------------------------------------------------------------------------------


def workflow_place(tasks: Sequence[Task] | None, options: dict[str, Any], limits: Limits | None) -> Place:
    """
    Return the place of a new workflow.

    Raises:
        UsageError: Tasks that cannot be used.
    """
    kept = {name: options[name] for name in _CHILD_OPTIONS if options.get(name) is not None}
    if limits is not None:
        kept["limits"] = limits.model_dump(mode="json", exclude_defaults=True)
    if options.get("profile") is not None or options.get("stage") is not None:
        kept["profile"] = profile_of(options.get("profile"), options.get("stage")).model_dump()
    return Place(task=0, tasks=planned_tasks(tasks or ()), options=kept)


def planned_tasks(tasks: Sequence[Task]) -> tuple[PlannedTask, ...]:
    """
    Return a host's tasks as a plan holds them.

    Raises:
        UsageError: Not tasks, too many, an id twice, a dependency that is no earlier task.
    """
    if isinstance(tasks, Task) or not all(isinstance(task, Task) for task in tasks):
        raise UsageError("tasks must be a list of Task values")
    if len(tasks) > TASKS_MAX:
        raise UsageError(f"{len(tasks)} tasks; at most {TASKS_MAX} are allowed")
    planned: dict[str, PlannedTask] = {}
    for number, task in enumerate(tasks, 1):
        name = task.id or f"task_{number}"
        if not isinstance(task.objective, str) or not task.objective.strip():
            raise UsageError(f"task {name}: the objective must be a non-empty text")
        if name in planned:
            raise UsageError(f"task {name}: the id stands twice")
        for other in task.dependencies:
            if other not in planned:
                raise UsageError(f"task {name}: its dependency {other!r} is no earlier task")
        planned[name] = PlannedTask(
            id=name,
            objective=task.objective.strip(),
            dependencies=tuple(task.dependencies),
            success_criteria=tuple(task.success_criteria),
        )
    return tuple(planned.values())


# -- driving a task ----------------------------------------------------------------------------------------------


def task_tool(engine: Engine, workflow: Spec, connections: Mapping[str, Any]) -> Tool:
    """Return the tool that drives the tasks of *workflow*; the same call finds its task again after a crash."""

    def run_task(
        context: ToolContext,
        id: str,
        objective: str,
        success_criteria: Sequence[str] = (),
        dependencies: Sequence[str] = (),
        language: str = "",
    ) -> ToolOutput:
        place = Place(workflow.workflow_id or context.run_id, workflow.round, context.action, id)
        known = _task_run(engine.journal, place)
        if known is not None:
            result = engine.resume(known, connections=connections)
        else:
            options = dict(workflow.children)
            if "limits" in options:
                options["limits"] = Limits.model_validate(options["limits"])
            if "profile" in options:
                options["profile"] = Profile.model_validate(options["profile"])
            inputs = context.documents([f"docList:{label}" for label in _labels(workflow)])
            given = _documents_for(engine.journal, place, dependencies)
            result = engine.start_in(
                replace(place, history=workflow.history),
                objective,
                success_criteria,
                [*inputs, *given],
                language=language or workflow.language or None,
                connections=connections or None,
                **options,
            )
        return _output_of(result, id)

    return Tool(
        name=TASK_TOOL.name,
        description=TASK_TOOL.description,
        parameters=TASK_TOOL.parameters,
        run=run_task,
        effect=TASK_TOOL.effect,
        label=TASK_TOOL.label,
        repeat_allowed=TASK_TOOL.repeat_allowed,
    )


def _labels(spec: Spec) -> list[str]:
    return list(dict.fromkeys(document.label for document in spec.documents))


def _output_of(result: Result, name: str) -> ToolOutput:
    """Return what a task came to; one that failed is a failed step, one that waits is not settled."""
    if result.status == "waiting":
        raise EffectPending(f"task {name} waits for an answer; answer run {result.run_id}")
    if result.state != "Done":
        raise ToolError(f"task {name} failed ({result.reason}): {result.answer}")
    documents = [Document("answer.md", result.answer, "text/markdown")]
    for item in result.documents:
        body = item.read()
        if body is not None:
            documents.append(Document(item.name, body, item.mime))
    return ToolOutput(documents, notes=[f"{result.steps} steps, {result.reason}"])


def _runs_of(journal: Journal, workflow_id: str, round: int | None = None) -> list[tuple[str, int, int]]:
    """Return run id, round and task of the runs of a workflow, in the order in which they were started."""
    sql = "SELECT run_id, round, task FROM specs WHERE workflow_id = ? AND (? IS NULL OR round = ?) ORDER BY run"
    return journal.query(sql, (workflow_id, round, round))


def _task_run(journal: Journal, place: Place) -> str | None:
    """Return the newest run of a task, None when it was not started."""
    found = [run for run, _, task in _runs_of(journal, place.workflow_id, place.round) if task == place.task]
    return found[-1] if found else None


def _documents_for(journal: Journal, place: Place, dependencies: Sequence[str]) -> list[Document]:
    """
    Return what earlier tasks of the round produced, under its own labels.

    Raises:
        ToolError: A task that this one depends on has failed.
    """
    found: list[Document] = []
    for run_id, _, task in _runs_of(journal, place.workflow_id, place.round):
        if not 0 < task < place.task:
            continue
        row, spec = journal.run(run_id), journal.spec(run_id)
        if dependencies and spec.task_id not in dependencies:
            continue
        if row.status != "done":
            if dependencies:
                raise ToolError(f"task {spec.task_id} failed, and this one depends on it")
            continue
        found += produced(journal, run_id)
    return found


def produced(journal: Journal, run_id: str) -> list[Document]:
    """Return the documents that a run's actions produced, each under its label; erased ones are left out."""
    row, given = journal.run(run_id), len(journal.spec(run_id).documents)
    bodies = journal.documents_at(row.run, given, 2**31)
    return [
        Document(item.name, body, item.mime, item.label, item.position)
        for item, body in bodies
        if body is not None
    ]


def waiting_task(journal: Journal, workflow_id: str, round: int) -> str | None:
    """Return the run of a workflow's task that waits for an answer, or None."""
    for run_id, _, task in _runs_of(journal, workflow_id, round):
        if task > 0 and journal.run(run_id).status == "waiting":
            return run_id
    return None


# -- the next round ----------------------------------------------------------------------------------------------


def next_round(journal: Journal, run_id: str) -> tuple[Place, Spec, list[Document]]:
    """
    Return where the next round of a run's workflow stands, its last spec, and the documents that it starts with.

    Raises:
        UsageError: A run of the workflow is not finished.
    """
    row = journal.run(run_id)
    runs = _runs_of(journal, row.workflow_id)
    first, last = runs[0][0], max(round for _, round, _ in runs)
    head = next(run for run, round, _ in runs if round == last)
    documents: list[Document] = []
    history: list[Message] = []
    for other, round, task in sorted(runs, key=lambda run: (run[1], run[2] or TASKS_MAX + 1)):
        state = journal.run(other)
        if state.status not in ("done", "failed"):
            raise UsageError(f"run {other} of this workflow is {state.status}; finish it first")
        run, _ = restored(journal, other)
        if other == first:
            documents = _inputs(journal, other) + documents
        if task:  # of the workflow itself, whose steps are the tasks, only the answer is news
            documents += produced(journal, other)
            history += [_summary(message, round) for message in run.memory.history]
        history.append(_answer(run.memory.answer or "", round, task, state.status == "done"))
    spec = journal.spec(head)
    place = Place(
        row.workflow_id,
        last + 1,
        0 if spec.task == 0 else 1,
        history=tuple(history[-HISTORY_MAX:]),
        options=spec.children,
    )
    return place, spec, documents


def _inputs(journal: Journal, run_id: str) -> list[Document]:
    bodies = journal.documents_at(journal.run(run_id).run, 0, len(journal.spec(run_id).documents))
    return [
        Document(item.name, body, item.mime, item.label, item.position)
        for item, body in bodies
        if body is not None
    ]


def _summary(message: Message, round: int) -> Message:
    """Return an action of an earlier round: its summary only (SPEC D22)."""
    return Message(
        action=message.action,
        step=message.step,
        tool=message.tool,
        label=message.label,
        documents_count=message.documents_count,
        summary=message.summary,
        success=message.success,
        round=message.round or round,
    )


def _answer(text: str, round: int, task: int, success: bool) -> Message:
    summary = cut(line(text), SUMMARY_CHARS) or "no answer"
    return Message(
        action=0,
        step=0,
        tool=f"answer of task {task}" if task else "answer",
        summary=summary,
        success=success,
        round=round,
    )


def grouped(documents: Iterable[Document], label: str) -> list[tuple[str, int, Document]]:
    """Return documents with label and position, those of one label together; without a label they get *label*."""
    groups: dict[str, list[Document]] = {}
    for document in documents:
        groups.setdefault(document.label or label, []).append(document)
    return [
        (name, position, document)
        for name, group in groups.items()
        for position, document in enumerate(group)
    ]
