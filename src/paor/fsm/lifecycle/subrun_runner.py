"""
Workflows of tasks, driven: a workflow started as a run that calls its tasks, and each task as a run of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...states.base.errors import UsageError
from ...states.records.plans import TASKS_MAX
from ...states.run.spec import Mode
from ...states.settings.limits import Limits, merged_limits
from ..runtime.loop import Steps
from ..runtime.result import Result
from ..runtime.run_context import RunContext
from .arguments import DocumentLike, model_of
from .earlier import before_task
from .model_facts import Pending
from .options import OPTIONS, ResumeOptions, RunOptions, Use, run_options
from .resume import Continuation, aperformed, continuation, resume
from .runner import Acquisition, Runner, leaving
from .start import NewRun, new_run
from .subruns import CalledRun, RunTool, Task, as_list, workflow_position
from .told import Earlier


class SubrunDriver:
    """
    What tools that call runs drive them with: each is a run of its own in the caller's journal.

    Args:
        runner: That drives the caller.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._others: dict[tuple[int, int], tuple[Any, Runner | None]] = {}

    def runner_for(self, tool: RunTool) -> Runner:
        """Return what drives the runs of a tool: the engine that it was made by, on the caller's journal."""
        if tool.drives is None:
            return self._runner
        place, settings = (id(tool.drives), id(tool.options)), tool.drives.settings
        of_engine, own = self._others.get(place, (None, None))
        if own is None or of_engine is not settings:  # its engine may have got another model
            here, given = self._runner, tool.options
            of_tool = replace(
                settings,
                model=model_of(given["model"]) if given["model"] is not None else settings.model,
                deps=given["deps"] if given["deps"] is not None else settings.deps,
                connections=given["connections"] or {},
            )
            own = tool.drives.with_ports(of_tool, here.journal, here.clock, here.ids)
            self._others[place] = settings, own
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
        settings, options = runner.settings, {**call.options, "deps": _deps(runner, caller, call)}
        if call.tool.drives is None:
            settings = replace(settings, given_policy=caller.run.spec.policy)
            options["model"] = caller.model
        return Pending(
            new_run(
                settings,
                runner.ids.salt,
                call.objective,
                call.success_criteria,
                call.documents,
                run_options(options),
                position=call.position,
                earlier=before_task(runner.journal.reader, caller.run, call.position)
                if caller.run.spec.task == 0
                else None,
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
        "output_type": call.tool.options["output_type"],
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
    given: RunOptions[Any],
    earlier: Earlier | None = None,
) -> Pending[NewRun]:
    """
    Return the run of a workflow, with the arguments of its tasks checked, too.

    Args:
        runner: That will drive it.
        objective, success_criteria, documents, tasks: See `fsm.engine.Engine.run_workflow`.
        given: The options of each task, some of which are the whole's.
        earlier: What it goes on from, where it is a round of a conversation.

    Raises:
        UsageError: A bad argument.
    """
    if given["workflow"] is not None:
        raise UsageError("a workflow file is for one run; a workflow of several tasks has none")
    settings, salt = runner.settings, runner.ids.salt
    success_criteria = as_list(success_criteria)
    Pending(new_run(settings, salt, objective, success_criteria, (), given))  # as the tasks will be started
    bounds = merged_limits(settings.limits, given["limits"]).model_copy(update={"max_steps": TASKS_MAX})
    options: Mapping[str, Any] = given
    own = {name: options[name] for name, option in OPTIONS.items() if Use.WHOLE in option.use}
    return Pending(
        new_run(
            settings,
            salt,
            objective,
            success_criteria,
            documents,
            run_options({**own, "mode": "batch", "limits": bounds}),
            position=workflow_position(tasks, given),
            earlier=earlier,
        )
    )
