"""
The typed event stream: what a host sees while a run goes on.

An event is emitted after its row is durable, never before; a host that shows events never shows what could be lost.
The exceptions are `ModelText` and `ModelNotice`: they are what a model says while it still answers, and nothing of it is
true before the row that holds the whole reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ...states.records.questions import Question
from .result import Result


@dataclass(frozen=True, slots=True)
class RunStarted:
    """
    A run was created, or continues after a resume.

    Attributes:
        run_id: The run.
        objective: What it is for, in the user's words.
        resumed: Whether it continues a run that existed before.
        seq: Number of the newest row then; -1 before the first.
        kind: Always ``start``.
    """

    run_id: str
    objective: str
    resumed: bool
    seq: int = -1
    kind: Literal["start"] = "start"


@dataclass(frozen=True, slots=True)
class TransitionTaken:
    """
    One row was committed.

    Attributes:
        run_id: The run.
        seq: Number of the row, from 0.
        trigger: Name of the transition, as in the table.
        source: Phase that it leaves.
        dest: Phase that it enters.
        step: Actions started so far.
        max_steps: Their limit.
        tokens: Input and output tokens of the run so far.
        detail: One line for people: the action, the decision's reason, what was refused.
        arguments: Of the call that the row settles, as they are journaled; None for rows that settle none.
        actor: Who gave the answer that the row holds: approved, answered or settled; None for other rows, and when
            nobody said.
        kind: Always ``transition``.
    """

    run_id: str
    seq: int
    trigger: str
    source: str
    dest: str
    step: int
    max_steps: int
    tokens: int
    detail: str
    arguments: Mapping[str, Any] | None = None
    actor: str | None = None
    kind: Literal["transition"] = "transition"


@dataclass(frozen=True, slots=True)
class StepCompleted:
    """
    One action was observed.

    Attributes:
        run_id: The run.
        seq: Number of the row.
        step: Number of the step that it belongs to, from 1.
        action: Number of the action within its task, from 1.
        tool: Name of the tool.
        label: Label of its documents; empty when it has none.
        success: Whether the call returned a result.
        summary: One or two sentences for people.
        kind: Always ``step``.
    """

    run_id: str
    seq: int
    step: int
    action: int
    tool: str
    label: str
    success: bool
    summary: str
    kind: Literal["step"] = "step"


@dataclass(frozen=True, slots=True)
class RunWaiting:
    """
    The run waits for an answer; any process can give it.

    Attributes:
        run_id: The run.
        seq: Number of the row in which it asks.
        question: What it waits for, as in `Result.waiting_for`.
        kind: Always ``waiting``.
    """

    run_id: str
    seq: int
    question: Question
    kind: Literal["waiting"] = "waiting"


@dataclass(frozen=True, slots=True)
class ModelText:
    """
    A piece of a reply as it arrives, from models that stream.

    Attributes:
        run_id: The run.
        seq: Number of the row that will hold the whole reply, if there is one.
        request: What the model was asked for, such as ``selection`` or ``text``.
        text: The piece. After a `ModelNotice` whose notice is ``retry`` the reply begins again.
        kind: Always ``model_text``.
    """

    run_id: str
    seq: int
    request: str
    text: str
    kind: Literal["model_text"] = "model_text"


@dataclass(frozen=True, slots=True)
class ModelNotice:
    """
    Something that a model client does by itself while it answers.

    Attributes:
        run_id: The run.
        seq, request: As in `ModelText`; *request* is empty for what was found before the first request.
        notice: ``retry``: an attempt failed and is made again; ``fallback``: the server does not support something
            and is asked without it; ``prices``: the model has no price, so its cost is not counted; ``profile``: which profile
            ``auto`` has chosen for the run, after the server was asked whether it calls tools; ``missed``: whoever listens was slow,
            and pieces of text were dropped, of which the rows hold all that counts.
        code: The fault that caused a retry, else what is left out or unknown.
        text: One line.
        attempt: Number of the attempt that failed, from 1; 0 where there is none.
        wait_us: Microseconds until the next one.
        kind: Always ``model_notice``.
    """

    run_id: str
    seq: int
    request: str
    notice: str
    code: str
    text: str
    attempt: int
    wait_us: int
    kind: Literal["model_notice"] = "model_notice"


@dataclass(frozen=True, slots=True)
class RunEnded:
    """
    The run ended.

    Attributes:
        run_id: The run.
        seq: Number of its newest row.
        result: What `Engine.run` returns.
        kind: Always ``complete``.
    """

    run_id: str
    seq: int
    result: Result
    kind: Literal["complete"] = "complete"


Event: TypeAlias = (
    RunStarted | TransitionTaken | StepCompleted | RunWaiting | ModelText | ModelNotice | RunEnded
)
"""Any of the events; `kind` tells them apart."""
