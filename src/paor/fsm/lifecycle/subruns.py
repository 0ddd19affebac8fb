"""
Workflows: rounds and tasks over runs, on the one machine.

A workflow is itself a run, task 0 of its round: its plan is the list of tasks (`task_plan`), each of its steps calls the
tool ``workflow.task``, which drives one task as a run of its own in the same journal. So planning, order, retries, the
review of the whole, resume, replay and verification are those of any run. What a task produced is passed on by label.

Source: documents 000 to 003 (rounds, tasks, labels);
docs/spec-coverage.md, A011, A037, A038, A045, A069, A101, D22.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ...states.base.errors import (
    Erased,
    JournalDamaged,
    JournalError,
    LeaseHeld,
    ToolError,
    UsageError,
)
from ...states.records.observations import clean
from ...states.records.outcomes import Usage
from ...states.records.plans import TASKS_MAX, PlannedTask
from ...states.run.spec import TASK_TOOL, Mode, Spec
from ...states.run.state import Run
from ...states.settings.limits import Limits, merged_limits
from ...states.settings.profile import AUTO, Profile
from ...tools.catalog import Catalog
from ...tools.tool import Document, Tool, ToolContext, ToolOutput
from ..journal.rows import called_place
from ..replay.callers import runs_of, waiting_called
from ..replay.restore import restore_run
from ..runtime.calls import EffectPending
from ..runtime.result import Result
from ..runtime.tool_context import CallContext
from .arguments import profile_of
from .model_facts import Pending
from .options import NO_OPTIONS, OPTIONS, RunOptions, Use
from .start import WorkflowPosition, new_run, texts_of

if TYPE_CHECKING:
    from ..journal.reader import JournalReader
    from ..runtime.run_context import RunContext


@dataclass(frozen=True, slots=True)
class Task:
    """
    One task of a workflow that the host plans itself, without a model.

    Attributes:
        objective: What the task has to achieve.
        success_criteria: What must hold at its end.
        dependencies: Ids of earlier tasks whose documents it gets; empty: those of all earlier tasks.
        id: Unique within the workflow; empty: ``task_1`` and so on.
    """

    objective: str
    success_criteria: Sequence[str] = ()
    dependencies: Sequence[str] = ()
    id: str = ""


# -- starting ----------------------------------------------------------------------------------------------------


def workflow_position(tasks: Iterable[Task] | None, given: RunOptions[Any]) -> WorkflowPosition:
    """
    Return the position of a new workflow, with the options that its tasks are started with, as JSON data.

    Raises:
        UsageError: Tasks that cannot be used.
    """
    if callable(given["instructions"]):
        raise UsageError(
            "instructions of a workflow are a text, which its tasks are started with in any process; a function belongs to Engine(...)"
        )
    options: Mapping[str, Any] = given
    kept = {
        name: options[name]
        for name, option in OPTIONS.items()
        if Use.TASKS in option.use and options[name] != option.default
    }
    if given["transcript"]:
        kept["transcript"] = [turn.wire() for turn in kept["transcript"]]
    if (limits := given["limits"]) is not None:
        limits = limits if isinstance(limits, Limits) else Limits.model_validate(limits)
        kept["limits"] = limits.model_dump(mode="json", exclude_unset=True)
    if given["profile"] is not None or given["stage"] is not None:
        profile = profile_of(given["profile"], given["stage"], mode=given["mode"] or "react")
        kept["profile"] = AUTO if profile is None else profile.model_dump()
    return WorkflowPosition(task=0, tasks=planned_tasks(() if tasks is None else tasks), options=kept)


def _recorded_profile(value: Any) -> Profile | str:
    return value if value == AUTO else Profile.model_validate(value)


def as_list(value: Any) -> Any:
    """Return an iterator as a list, so that it can be read again; anything else as it is."""
    return list(value) if isinstance(value, Iterator) else value


def planned_tasks(given: Iterable[Task]) -> tuple[PlannedTask, ...]:
    """
    Return a host's tasks as a plan holds them.

    Raises:
        UsageError: Not tasks, too many, an id twice, a dependency that is no earlier task.
    """
    tasks = list(given) if isinstance(given, Iterable) else [None]
    if not all(isinstance(task, Task) for task in tasks):
        raise UsageError("tasks must be a list of Task values")
    if len(tasks) > TASKS_MAX:
        raise UsageError(f"{len(tasks)} tasks; at most {TASKS_MAX} are allowed")
    planned: dict[str, PlannedTask] = {}
    for number, task in enumerate(tasks, 1):
        assert task is not None, "all are tasks"
        if not isinstance(task.id, str) or len(task.id) > 200 or (task.id and not task.id.isprintable()):
            raise UsageError(f"task {number}: the id must be a text of at most 200 printable characters")
        name = task.id.strip() or f"task_{number}"
        if not isinstance(task.objective, str) or not task.objective.strip():
            raise UsageError(f"task {name}: the objective must be a non-empty text")
        if name in planned:
            raise UsageError(f"task {name}: the id stands twice")
        criteria, needed = texts_of(task.success_criteria), texts_of(task.dependencies)
        if criteria is None or needed is None:
            raise UsageError(
                f"task {name}: success_criteria and dependencies must be lists of non-empty texts"
            )
        for other in needed:
            if other not in planned:
                raise UsageError(f"task {name}: its dependency {other!r} is no earlier task")
        planned[name] = PlannedTask(
            id=name,
            objective=clean(task.objective.strip()),
            dependencies=tuple(needed),
            success_criteria=tuple(clean(text.strip()) for text in criteria),
        )
    return tuple(planned.values())


# -- calling runs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RunTool(Tool):
    """
    A tool whose call is a run of its own, linked to the run and the action that call it.

    Attributes:
        drives: Runner of the engine that it was made by (`Engine.as_tool`); None for the tasks of a workflow, which their own drives.
        options: Of each of its runs, as `run_options` reads them.
    """

    drives: Any = None
    options: RunOptions[Any] = field(default_factory=lambda: NO_OPTIONS)
    calls_run: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class CalledRun:
    """
    What a called run is started or taken up with.

    Attributes:
        name: How people call it.
        tool: That calls it.
        position: Where it stands: the one place of this call.
        known: The run, when it was started before.
        objective, success_criteria, documents: What it is started with.
        options: Of the run, not read yet.
    """

    name: str
    tool: RunTool
    position: WorkflowPosition
    known: str | None = None
    objective: str = ""
    success_criteria: Sequence[str] = ()
    documents: Sequence[Document] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


class RunDriver(Protocol):
    """What drives the runs that tools call; the tools know no more of it."""

    def limits_of(self, mode: Mode, tool: RunTool) -> Limits:
        """Return the bounds of a run of *tool* that brings none."""
        ...

    def runner_for(self, tool: RunTool) -> Any:
        """Return the runner that drives the runs of a tool, on the caller's journal."""
        ...

    def drive_called(self, caller: RunContext, call: CalledRun) -> Result:
        """Drive a called run to its end, or until it waits."""
        ...

    async def adrive_called(self, caller: RunContext, call: CalledRun) -> Result:
        """Do the same as `drive_called` on the running event loop."""
        ...


TASKS = RunTool(
    name=TASK_TOOL.name,
    description=TASK_TOOL.description,
    parameters=TASK_TOOL.parameters,
    effect=TASK_TOOL.effect,
    label=TASK_TOOL.label,
    repeat_allowed=TASK_TOOL.repeat_allowed,
)
"""What the steps of a workflow's own run call."""

OBJECTIVE: Mapping[str, Any] = {
    "type": "object",
    "properties": {"objective": {"type": "string", "minLength": 1, "description": "What is to be reached."}},
    "required": ["objective"],
    "additionalProperties": False,
}
"""Parameters of a run as a tool, unless it is given others."""

CALLS_DEEP = 5
"""How many runs may have called one another, the last one among them."""


def run_tool(
    drives: Any, name: str, description: str, parameters: Mapping[str, Any] | None, given: RunOptions[Any]
) -> RunTool:
    """Return a runner's runs as a tool; see `fsm.engine.Engine.as_tool`."""
    options: Mapping[str, Any] = given
    for own, option in OPTIONS.items():
        if Use.ONE_RUN in option.use and options[own] != option.default:
            raise UsageError(f"as_tool: {own} is of one run, and each call of the tool is another one")
    if not isinstance(name, str) or not isinstance(description, str) or not description.strip():
        raise UsageError("a run as a tool needs a name, and a description of what it is for")
    # as its runs will be started, but for what the caller brings, and for functions of the host's that look at a run
    settings = replace(drives.settings, deps=True, instructions=None)
    Pending(new_run(settings, bytes, description, (), (), {**given, "instructions": None}))
    made = RunTool(
        name=name if "." in name else f"run.{name}",
        description=description,
        parameters=OBJECTIVE if parameters is None else parameters,
        run=_not_bound,
        effect="idempotent",
        label="answer",
        drives=drives,
        options=given,
    )
    Catalog([made.spec()])  # its schema
    return made


def _not_bound(**arguments: Any) -> Any:
    raise UsageError("a run as a tool is called by a run alone: give it to an engine, as one of its tools")


def bound_tool(tool: RunTool, driver: RunDriver, drive: RunContext, *, is_async: bool = False) -> Tool:
    """Return a tool that drives the runs which *drive* calls; the same call finds its run again after a crash."""

    def run_called(context: ToolContext, **arguments: Any) -> ToolOutput:
        call = _call_of(tool, driver, drive, context, arguments)
        with _wait_for_lease(call.name):
            result = driver.drive_called(drive, call)
        return _output_of(result, call, drive.journal.reader, context)

    async def arun_called(context: ToolContext, **arguments: Any) -> ToolOutput:
        call = _call_of(tool, driver, drive, context, arguments)
        with _wait_for_lease(call.name):
            result = await driver.adrive_called(drive, call)
        return _output_of(result, call, drive.journal.reader, context)

    return replace(tool, run=arun_called if is_async else run_called)


def _call_of(
    tool: RunTool, driver: RunDriver, drive: RunContext, context: ToolContext, arguments: Mapping[str, Any]
) -> CalledRun:
    """
    Return what a call's run is driven with.

    Raises:
        ToolError: A task that it depends on did not end in Done, or too many runs have called one another.
    """
    if tool.drives is None:
        return _task_call(driver, drive, context, arguments)
    journal, caller = drive.journal.reader, drive.run
    position = WorkflowPosition(called_place(caller.run_id, context.action))
    known = _run_at(journal, position)
    if known is not None:
        return CalledRun(tool.name, tool, position, known)
    deep, row = 1, journal.run(caller.run_id)
    while (called := row.called_by) is not None and deep < CALLS_DEEP:
        deep, row = deep + 1, journal.run(called.run_id)
    if deep >= CALLS_DEEP:
        raise ToolError(
            f"{tool.name} was not called: {CALLS_DEEP} runs have called one another, and no more may"
        )
    own: Mode = "planner" if tool.options["workflow"] is not None else tool.options["mode"] or "react"
    limits = merged_limits(driver.limits_of(own, tool), tool.options["limits"])
    options: dict[str, Any] = {
        **tool.options,
        "language": tool.options["language"] or caller.spec.language or None,
        "limits": _bounded(limits, remaining_budgets(caller)),
        "connections": dict.fromkeys(caller.spec.connections) | drive.connections,
    }
    return CalledRun(tool.name, tool, position, None, _objective_of(tool, arguments), options=options)


def _objective_of(tool: RunTool, arguments: Mapping[str, Any]) -> str:
    """Return what a called run has to reach: its objective, with all other arguments behind it."""
    rest = {name: value for name, value in arguments.items() if name != "objective"}
    lines = [
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in rest.items()
    ]
    said = arguments.get("objective")
    return "\n".join([said if isinstance(said, str) and said.strip() else tool.description, *lines])


def _bounded(own: Limits, left: Mapping[str, Any]) -> Limits:
    """Return a run's own limits, where its caller has less left of a budget with that."""
    held = {
        name: value for name, value in left.items() if (mine := getattr(own, name)) is None or value < mine
    }
    return own.model_copy(update=held)


def _task_call(
    driver: RunDriver, drive: RunContext, context: ToolContext, arguments: Mapping[str, Any]
) -> CalledRun:
    """
    Return what the task of a call is driven with.

    Raises:
        ToolError: A task that it depends on did not end in Done.
    """
    journal, workflow = drive.journal, drive.run.spec
    position = WorkflowPosition(workflow.workflow_id, workflow.round, context.action, arguments["id"])
    known, name = _run_at(journal.reader, position), f"task {arguments['id']}"
    if known is not None:
        return CalledRun(name, TASKS, position, known)
    options: dict[str, Any] = dict(workflow.children)
    if left := remaining_budgets(drive.run):
        own = merged_limits(driver.limits_of(options.get("mode", "react"), TASKS), options.get("limits"))
        options["limits"] = own.model_copy(update=left)
    if "profile" in options:
        options["profile"] = _recorded_profile(options["profile"])
    inputs = context.documents([f"docList:{label}" for label in _labels(workflow)])
    given = _documents_for(journal.reader, position, arguments.get("dependencies", ()))
    options["language"] = arguments.get("language") or workflow.language or None
    # labels whose values nobody has given after a restart stay known, as in any other run
    options["connections"] = dict.fromkeys(workflow.connections) | drive.connections
    return CalledRun(
        name,
        TASKS,
        replace(position, history=workflow.history),
        None,
        arguments["objective"],
        arguments.get("success_criteria", ()),
        [*inputs, *given],
        options,
    )


@contextmanager
def _wait_for_lease(name: str) -> Iterator[None]:
    """Let the caller wait, instead of counting the call as failed, while another driver has the run that it calls."""
    try:
        yield
    except (JournalDamaged, Erased):
        raise
    except (LeaseHeld, JournalError) as error:
        raise EffectPending(f"{name} cannot be driven now: {error}") from error


def _labels(spec: Spec) -> list[str]:
    return list(dict.fromkeys(document.label for document in spec.documents))


def remaining_budgets(run: Run) -> dict[str, Any]:
    """
    Return what is left of a workflow's budgets, as fields of `Limits`; none for a budget that it does not have.

    What its ended tasks have used is in its own rows, so this is the same after a crash. Never nothing: a workflow
    whose budget is used up starts no task.
    """
    limits, used = run.spec.limits, run.counters
    left: dict[str, Any] = {}
    if limits.token_budget is not None:
        left["token_budget"] = max(1, limits.token_budget - used.tokens_in - used.tokens_out)
    if limits.cost_budget_micro is not None:
        left["cost_budget"] = max(1, limits.cost_budget_micro - used.cost_micro) / 1e6
    if limits.time_budget_us is not None:
        left["time_budget_s"] = max(1, limits.time_budget_us - used.time_us) / 1e6
    return left


def _settle(journal: JournalReader, position: WorkflowPosition, context: ToolContext) -> None:
    """Count in the caller what a run that has ended used, also that of a run which it fell back from."""
    assert isinstance(context, CallContext), "a called run is driven by a run"
    for run in _runs_at(journal, position):
        used = restore_run(journal, run)[0].counters
        cache = used.tokens_cached, used.tokens_cache_write
        context.ledger.settle(Usage(0, used.tokens_in, used.tokens_out, used.cost_micro, *cache))


def _output_of(result: Result, call: CalledRun, journal: JournalReader, context: ToolContext) -> ToolOutput:
    """Return the output of a called run; one that failed is a failed call, one that waits is not settled."""
    if result.status == "waiting":
        raise EffectPending(f"{call.name} waits for an answer; answer run {result.run_id}")
    _settle(journal, call.position, context)
    if result.state != "Done":
        raise ToolError(f"{call.name} failed ({result.reason}): {result.answer}")
    name, mime = (
        ("answer.md", "text/markdown") if result.output is None else ("answer.json", "application/json")
    )
    documents = [Document(name, result.answer, mime)]
    for item in result.documents:
        body = item.read()
        if body is not None:
            documents.append(Document(item.name, body, item.mime))
    return ToolOutput(documents, notes=[f"{result.steps} steps, {result.reason}"])


def _runs_at(journal: JournalReader, position: WorkflowPosition) -> list[str]:
    """Return the runs at one place, in the order in which they were started: a call's run, and those that it fell back to."""
    found = journal.index.of_workflow(position.workflow_id, round=position.round, task=position.task)
    return [placed.run_id for placed in found]


def _run_at(journal: JournalReader, position: WorkflowPosition) -> str | None:
    """Return the newest run at one place, None when none was started."""
    found = _runs_at(journal, position)
    return found[-1] if found else None


def _documents_for(
    journal: JournalReader, position: WorkflowPosition, dependencies: Sequence[str]
) -> list[Document]:
    """
    Return what earlier tasks of the round produced, under its own labels.

    Of a task that was planned anew the newest run counts.

    Raises:
        ToolError: A task that this one depends on has failed, or was not worked on at all.
    """
    earlier = [
        run
        for run, _, task in runs_of(journal, position.workflow_id, position.round)
        if 0 < task < position.task
    ]
    done = {run for run in earlier if journal.run(run).status == "done"}
    if dependencies:
        newest = {journal.spec(run).task_id: run for run in earlier}
        for name in dependencies:
            if newest.get(name) not in done:
                word = "failed" if name in newest else "was not worked on"
                raise ToolError(f"task {name} {word}, and this one depends on it")
        wanted = {newest[name] for name in dependencies}
        earlier = [run for run in earlier if run in wanted]
    return [document for run in earlier if run in done for document in documents_produced(journal, run)]


def documents_produced(journal: JournalReader, run_id: str) -> list[Document]:
    """Return the documents that a run's actions produced, each under its label; erased ones are left out."""
    return documents_from(journal, run_id, len(journal.spec(run_id).documents), 2**31)


def documents_from(journal: JournalReader, run_id: str, first: int, count: int) -> list[Document]:
    """Return *count* documents of a run from number *first* on, each under its label; erased ones are left out."""
    bodies = journal.documents_at(journal.run(run_id).run, first, count)
    return [
        Document(item.name, body, item.mime, item.label, item.position)
        for item, body in bodies
        if body is not None
    ]


def with_question(journal: JournalReader, result: Result) -> Result:
    """Return *result*; of a run that waits for one that it has called, with what that asks."""
    waiting = waiting_called(journal, journal.run(result.run_id)) if result.status == "waiting" else None
    if waiting is None:
        return result
    return replace(result, waiting_for=restore_run(journal, waiting)[0].waiting_for)
