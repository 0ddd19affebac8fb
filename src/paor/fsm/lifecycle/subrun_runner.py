"""
Workflows of tasks, driven: a workflow started as a run that calls its tasks, and each task as a run of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...states.base.errors import UsageError
from ...states.records.plans import TASKS_MAX
from ...states.run.spec import Mode
from ...states.settings.limits import Limits, merged_limits
from ..runtime.loop import Steps
from ..runtime.result import Result
from ..runtime.run_context import RunContext
from .arguments import DocumentLike, ResumeOptions
from .earlier import before_task
from .model_facts import Pending
from .resume import Continuation, aperformed, continuation, resume
from .runner import Acquisition, Runner, leaving
from .start import NewRun, new_run
from .subruns import Task, TaskCall, as_list, workflow_position
from .told import Earlier


class SubrunDriver:
    """
    What the tool that calls a workflow's tasks drives them with: each is a run of its own in the same journal.

    Args:
        runner: That drives the workflow itself.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def limits_of(self, mode: Mode) -> Limits:
        """Return the bounds of a task that brings none."""
        return self._runner.settings.limits_of(mode)

    def drive_task(self, workflow: RunContext, call: TaskCall) -> Result:
        """Drive one task of a workflow to its end, or until it waits."""
        if call.known is not None:
            return resume(self._runner, call.known, **_inherited_options(workflow))
        new = self._new_task(workflow, call).looked()
        return self._runner.result(self._task_acquisition(workflow, new), resumed=False)

    async def adrive_task(self, workflow: RunContext, call: TaskCall) -> Result:
        """Do the same as `drive_task` on the running event loop."""
        if call.known is None:
            new = await self._new_task(workflow, call).alooked()
            found: Continuation | Result = Continuation(self._task_acquisition(workflow, new), resumed=False)
        else:
            found = continuation(self._runner, call.known, **_inherited_options(workflow))
        if isinstance(found, Continuation):
            found = Continuation(leaving(found.acquire, workflow.leaves), found.resumed)
        return await aperformed(self._runner, found)

    def _new_task(self, workflow: RunContext, call: TaskCall) -> Pending[NewRun]:
        """Check the arguments of a task's run, which obeys the policy of its workflow in every process."""
        runner = self._runner
        return Pending(
            new_run(
                replace(runner.settings, given_policy=workflow.run.spec.policy),
                runner.ids.salt,
                call.objective,
                call.success_criteria,
                call.documents,
                position=call.position,
                earlier=before_task(runner.journal.reader, workflow.run, call.position),
                model=workflow.model,
                **call.options,
            )
        )

    def _task_acquisition(self, workflow: RunContext, new: NewRun) -> Acquisition:
        """Return what creates the run of a task; a workflow that is cancelled meanwhile cancels it, too."""
        runner = self._runner
        create = runner.creation(new)

        def begin() -> tuple[RunContext, Steps]:
            drive, walk = create()
            # asked after the task's run exists: a cancel before finds no such run to cancel, one after finds it
            drive.cancelled = runner.journal.leases.cancel_requested(workflow.run.number)
            return drive, walk

        return begin


def _inherited_options(workflow: RunContext) -> ResumeOptions:
    """Return what a task is resumed with: what its workflow was given."""
    return {
        "connections": workflow.connections,
        "deps": workflow.deps,
        "model": workflow.model,
        "accept_changes": workflow.accepting,
    }


def new_workflow(
    runner: Runner,
    objective: str,
    success_criteria: Sequence[str],
    documents: Sequence[DocumentLike],
    tasks: Sequence[Task] | None,
    options: dict[str, Any],
    earlier: Earlier | None = None,
) -> Pending[NewRun]:
    """
    Return the run of a workflow, with the arguments of its tasks checked, too.

    Args:
        runner: That will drive it.
        objective, success_criteria, documents, tasks: See `fsm.engine.Engine.run_workflow`.
        options: Of each task, as `fsm.lifecycle.subruns.task_options` gives them.
        earlier: What it goes on from, where it is a round of a conversation.

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
        new_run(
            settings,
            salt,
            objective,
            success_criteria,
            documents,
            position=position,
            earlier=earlier,
            **given,
        )
    )
