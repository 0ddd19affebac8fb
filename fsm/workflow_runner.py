"""Workflows of tasks, as an engine drives them: started whole or task by task, asked and answered through their tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..states.errors import UsageError
from ..states.plans import TASKS_MAX
from ..states.spec import Spec
from ..tools.catalog import folded
from .drive import Drive
from .fork_runner import ForkRunner
from .intake import (
    DocumentLike,
)
from .loop import Steps
from .restore import restored
from .result import Result
from .runner import Start
from .workflows import (
    Place,
    Task,
    TaskCall,
    listed,
    waiting_task,
    workflow_place,
)

_PLACE = ("workflow_id", "round", "task", "history")


class WorkflowRunner(ForkRunner):
    """A runner that also starts the tasks of a workflow, and the run that calls them."""

    def _bounds_of(self, spec: Spec) -> dict[str, Any]:
        """Return what a next round inherits: no round is freer than the one before it."""
        names = {folded(tool.name) for tool in spec.tools}
        offered = [name for name in self._tools if folded(name) in names]
        bounds = {"mode": spec.mode, "limits": spec.limits.model_dump(), "task_type": spec.task_type}
        return bounds | ({"tools": offered} if len(offered) < len(self._tools) else {})

    def _task(self, workflow: Drive, call: TaskCall) -> Start:
        """Return the start of a task; a workflow that is cancelled meanwhile cancels it, too."""
        start = self._prepared(
            call.objective,
            call.success_criteria,
            call.documents,
            place=call.place,
            model=workflow.model,
            **call.options,
        )

        def begin() -> tuple[Drive, Steps]:
            drive, walk = start()
            drive.cancelled = self.journal.leases.cancel_requested(workflow.run.number)
            return drive, walk

        return begin

    def _workflow(
        self,
        objective: str,
        success_criteria: Sequence[str],
        documents: Sequence[DocumentLike],
        tasks: Sequence[Task] | None,
        options: dict[str, Any],
        place: Place | None = None,
    ) -> Start:
        """Check the arguments of a workflow, those of its tasks included."""
        if options.get("workflow") is not None:
            raise UsageError("a workflow file is for one run; a workflow of several tasks has none")
        success_criteria = listed(success_criteria)
        self._prepared(objective, success_criteria, (), **options)  # the tasks will be started with them
        at = workflow_place(tasks, options)
        if place is not None:
            at = replace(at, **{name: getattr(place, name) for name in _PLACE})
        own = ("language", "user_language", "context", "model", "connections")
        kept = {name: options[name] for name in own if name in options}
        chosen = options.get("limits") or self.limits
        bounds = chosen.model_copy(update={"max_steps": TASKS_MAX})
        return self._prepared(
            objective, success_criteria, documents, place=at, mode="batch", limits=bounds, **kept
        )

    def _settled(self, result: Result) -> Result:
        """Return *result*; of a workflow whose task waits, with what that task asks."""
        waiting = waiting_task(self.journal, self.journal.run(result.run_id))
        if waiting is None:
            return result
        question = restored(self.journal, waiting)[0].waiting_for
        return dataclasses.replace(result, waiting_for=question)

    def _task_to_answer(self, run_id: str, answer: Any, outcome: str | None) -> str | None:
        """Return the task that an answer to its workflow is for, or None."""
        if answer is None and outcome is None:
            return None
        return waiting_task(self.journal, self.journal.run(run_id))


def followed_options(spec: Spec) -> dict[str, Any]:
    """Return the options with which a next round follows the workflow file of a run."""
    from .flow_start import followed

    return followed(spec)
