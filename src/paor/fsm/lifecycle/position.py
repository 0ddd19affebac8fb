"""Where a run belongs in a workflow of tasks: which round, which task, and what its planner knows of the rounds before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...states.records.observations import Message
from ...states.records.plans import PlannedTask


@dataclass(frozen=True, slots=True)
class WorkflowPosition:
    """
    Where a run belongs in a workflow.

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
