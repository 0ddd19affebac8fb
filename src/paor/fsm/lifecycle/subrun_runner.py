"""
Workflows of tasks, driven: a workflow started as a run that calls its tasks, each task as a run of its own, and the next round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...states.base.errors import UsageError
from ...states.records.observations import Message
from ...states.records.plans import TASKS_MAX
from ...states.run.labels import key_of
from ...states.run.spec import Mode, Spec
from ...states.settings.limits import Limits, merged_limits
from ...tools.tool import Document
from ..decision.observation import cut, line
from ..journal.reader import JournalReader
from ..replay.restore import restore_run
from ..runtime.loop import Steps
from ..runtime.result import Result
from ..runtime.run_context import RunContext
from .arguments import DocumentLike, ResumeOptions, RunOptions, model_of
from .model_facts import Pending
from .resume import Continuation, aperformed, continuation, resume
from .runner import Acquisition, Runner, leaving
from .start import NewRun, WorkflowPosition, new_run
from .subruns import (
    CalledRun,
    RunTool,
    Task,
    as_list,
    documents_from,
    documents_produced,
    runs_of,
    task_options,
    workflow_position,
)

SUMMARY_CHARS = 400
"""Characters of an earlier round's answer that the next round's history keeps."""

HISTORY_MAX = 50


class SubrunDriver:
    """
    What tools that call runs drive them with: each is a run of its own in the caller's journal.

    Args:
        runner: That drives the caller.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._others: dict[int, Runner] = {}

    def runner_for(self, tool: RunTool) -> Runner:
        """Return what drives the runs of a tool: the engine that it was made by, on the caller's journal."""
        if tool.drives is None:
            return self._runner
        own: Runner | None = self._others.get(id(tool.drives))
        if own is None or own.settings is not tool.drives.settings:  # its engine may have got another model
            here = self._runner
            own = tool.drives.with_ports(tool.drives.settings, here.journal, here.clock, here.ids)
            self._others[id(tool.drives)] = own
        return own

    def limits_of(self, mode: Mode, tool: RunTool) -> Limits:
        """Return the bounds of a run of *tool* that brings none."""
        return self.runner_for(tool).settings.limits_of(mode)

    def drive_called(self, caller: RunContext, call: CalledRun) -> Result:
        """Drive a called run to its end, or until it waits."""
        runner = self.runner_for(call.tool)
        if call.known is not None:
            return resume(runner, call.known, **_inherited_options(runner, caller, call))
        new = self._new(runner, caller, call).looked()
        return runner.result(_acquisition(runner, caller, new), resumed=False)

    async def adrive_called(self, caller: RunContext, call: CalledRun) -> Result:
        """Do the same as `drive_called` on the running event loop."""
        runner = self.runner_for(call.tool)
        if call.known is None:
            new = await self._new(runner, caller, call).alooked()
            found: Continuation | Result = Continuation(_acquisition(runner, caller, new), resumed=False)
        else:
            found = continuation(runner, call.known, **_inherited_options(runner, caller, call))
        if isinstance(found, Continuation):
            found = Continuation(leaving(found.acquire, caller.leaves), found.resumed)
        return await aperformed(runner, found)

    def _new(self, runner: Runner, caller: RunContext, call: CalledRun) -> Pending[NewRun]:
        """Check the arguments of a called run; a task obeys the policy of its workflow in every process."""
        settings, model = runner.settings, None
        if call.tool.drives is None:
            settings, model = replace(settings, given_policy=caller.run.spec.policy), caller.model
        return Pending(
            new_run(
                settings,
                runner.ids.salt,
                call.objective,
                call.success_criteria,
                call.documents,
                position=call.position,
                model=model,
                deps=_deps(runner, caller, call),
                **call.options,
            )
        )


def _acquisition(runner: Runner, caller: RunContext, new: NewRun) -> Acquisition:
    """Return what creates a called run; a caller that is cancelled meanwhile cancels it, too."""
    create = runner.creation(new)

    def begin() -> tuple[RunContext, Steps]:
        drive, walk = create()
        # asked after the run exists: a cancel before finds no such run to cancel, one after finds it
        drive.cancelled = runner.journal.leases.cancel_requested(caller.run.number)
        return drive, walk

    return begin


def _deps(runner: Runner, caller: RunContext, call: CalledRun) -> Any:
    """Return what the tools of a called run get: its engine's, and where that has none, and for a task, the caller's."""
    own = runner.settings.deps if call.tool.drives is not None else None
    return own if own is not None else caller.deps


def _inherited_options(runner: Runner, caller: RunContext, call: CalledRun) -> ResumeOptions:
    """Return what a called run is resumed with: what its caller was given, a task the model, too."""
    given: ResumeOptions = {
        "connections": caller.connections,
        "deps": _deps(runner, caller, call),
        "accept_changes": caller.accepting,
    }
    if call.tool.drives is None:
        given["model"] = caller.model
    return given


def new_workflow(
    runner: Runner,
    objective: str,
    success_criteria: Sequence[str],
    documents: Sequence[DocumentLike],
    tasks: Sequence[Task] | None,
    options: dict[str, Any],
    earlier: WorkflowPosition | None = None,
) -> Pending[NewRun]:
    """
    Return the run of a workflow, with the arguments of its tasks checked, too.

    Args:
        runner: That will drive it.
        objective, success_criteria, documents, tasks: See `fsm.engine.Engine.run_workflow`.
        options: Of each task, as `fsm.lifecycle.subruns.task_options` gives them.
        earlier: Of a next round: its position, with the history of the rounds before.

    Raises:
        UsageError: A bad argument.
    """
    if options.get("workflow") is not None:
        raise UsageError("a workflow file is for one run; a workflow of several tasks has none")
    settings, salt = runner.settings, runner.ids.salt
    success_criteria = as_list(success_criteria)
    Pending(
        new_run(settings, salt, objective, success_criteria, (), **options)
    )  # as the tasks will be started
    position = workflow_position(tasks, options)
    if earlier is not None:
        position = replace(
            position,
            workflow_id=earlier.workflow_id,
            round=earlier.round,
            task=earlier.task,
            history=earlier.history,
        )
    own = (
        "language",
        "user_language",
        "context",
        "instructions",
        "model",
        "connections",
        "deps",
        "output_type",
        "key",
        "metadata",
    )
    given = {name: options[name] for name in own if name in options}
    chosen = merged_limits(settings.limits, options.get("limits"))
    bounds = chosen.model_copy(update={"max_steps": TASKS_MAX})
    given |= {"mode": "batch", "limits": bounds}
    return Pending(
        new_run(settings, salt, objective, success_criteria, documents, position=position, **given)
    )


def new_round(runner: Runner, run_id: str, text: str, options: RunOptions) -> Pending[NewRun]:
    """
    Return the run that opens the next round of a finished run or workflow; see `fsm.engine.Engine.follow_up`.

    Raises:
        UsageError: A run of the workflow is not finished, or a bad argument.
    """
    position, spec, documents = next_round(runner.journal.reader, run_id, options.get("key"))
    given: dict[str, Any] = dict(options)
    if given.get("language") is None and given.get("user_language") is None:
        given["language"] = spec.language or None
    if position.task == 0:
        whole = task_options(given, position.options)
        return new_workflow(runner, text, (), documents, None, whole, position)
    same = spec.workflow is not None and given.get("mode") in (None, spec.mode)
    settings = runner.settings
    given["model"] = model_of(given["model"]) if given.get("model") is not None else None
    last = (_workflow_options(spec) if same else {}) | settings.bounds_of(spec, given["model"])
    own = task_options(given, last)
    return Pending(new_run(settings, runner.ids.salt, text, (), documents, position=position, **own))


def _workflow_options(spec: Spec) -> dict[str, Any]:
    """Return the options with which a next round follows the workflow file of a run; its reader is imported on first use."""
    from .workflow_start import next_round_options

    return next_round_options(spec)


def next_round(
    journal: JournalReader, run_id: str, key: str | None = None
) -> tuple[WorkflowPosition, Spec, list[Document]]:
    """
    Return the position of the next round of a run's workflow, its last spec, and the documents that it starts with.

    If a later round was started with *key* already, that is the next round: a start that comes again means the same.

    Raises:
        UsageError: A run of the workflow is not finished.
    """
    row = journal.run(run_id)
    runs = runs_of(journal, row.workflow_id)
    known = journal.runs(key=key_of(key)) if key is not None else []
    if known and known[0].workflow_id == row.workflow_id and known[0].round > 1:
        runs = [item for item in runs if item[1] < known[0].round]
    first, last = runs[0][0], max(round for _, round, _ in runs)
    head = next(run for run, round, _ in runs if round == last)
    documents: list[Document] = []
    history: list[Message] = []
    for other, round, task in sorted(runs, key=lambda run: (run[1], run[2] or TASKS_MAX + 1)):
        state = journal.run(other)
        if state.status not in ("done", "failed"):
            raise UsageError(f"run {other} of this workflow is {state.status}; finish it first")
        run, _ = restore_run(journal, other)
        if other == first:
            documents = documents_from(journal, other, 0, len(journal.spec(other).documents)) + documents
        if task:  # of the workflow itself, whose steps are the tasks, only the answer is news
            documents += documents_produced(journal, other)
            history += [_summary(message, round) for message in run.memory.history]
        history.append(_answer(run.memory.answer or "", round, task, state.status == "done"))
    spec = journal.spec(head)
    position = WorkflowPosition(
        row.workflow_id,
        last + 1,
        0 if spec.task == 0 else 1,
        history=tuple(history[-HISTORY_MAX:]),
        options=spec.children,
    )
    return position, spec, documents


def _summary(message: Message, round: int) -> Message:
    """Return an action of an earlier round: its summary only."""
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
