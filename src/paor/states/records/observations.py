"""What the model may see of a result (Observation), and what history keeps of an action (Message)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from ..base.wire import Stored
from .actions import Preview, WebFact


class Observation(Stored, frozen=True, gc=False, omit_defaults=False):
    """
    The compact view of one result; never the raw payload.

    Attributes:
        success: The tool returned.
        result_label: Label under which the documents stand.
        documents_count: The true total, however many previews there are.
        previews: The first few documents, cut to size.
        notes: Short facts: errors, sizes, what was cut.
        web: Per-URL relevance, key points and entities, best first; absent when no tool gave any.

    Source: documents 000 and 002; docs/spec-coverage.md.
    """

    success: bool
    result_label: str
    documents_count: Annotated[int, Meta(ge=0)]
    previews: tuple[Preview, ...] = ()
    notes: tuple[str, ...] = ()
    web: tuple[WebFact, ...] | UnsetType = UNSET


class StepCheck(Stored, frozen=True, gc=False):
    """
    The light review after every observation, derived by code.

    Attributes:
        status: How the action ended.
        improvements: What the next one should do better.
    """

    status: Literal["success", "retry", "failed"]
    improvements: tuple[str, ...] = ()


class Message(Stored, frozen=True, gc=False, kw_only=True):
    """
    One action in the history of a run: what later prompts may know of it.

    Attributes:
        action: The action's number within its task.
        step: The step's number within the run.
        tool: What was called.
        objective: What for.
        label: Where its documents stand; empty when it produced none.
        documents: References with names, at most a handful.
        documents_count: How many there are.
        summary: One or two sentences; never empty.
        notes: Short facts.
        learnings: What Stage 1 had learnt by then.
        success: How it ended.
        call_id: Id of the call, as a planner's model gave it.
        arguments: What it got; for a planner as it was, of a native call what the model gave, else with long texts cut. None where
            nothing was called.
        output: What it returned as text, cut to size, for a planner; a user's answer is whole, since later steps use it.
        error: Why there is no output, for a planner.
        origin: ``workflow`` or ``hook`` for a call that the workflow file names; empty for any other.
        data: The output is JSON that the tool returned as data, for a workflow.
        round: Of a message of an earlier round; 0: this one.
        shown: What its observation shows, as text; taken from there, and in no row.
    """

    action: int
    step: int
    tool: str
    objective: str = ""
    label: str = ""
    documents: tuple[str, ...] = ()
    documents_count: int = 0
    summary: str
    notes: tuple[str, ...] = ()
    learnings: tuple[str, ...] = ()
    success: bool
    call_id: str = ""
    arguments: dict[str, Any] | None = None
    output: str = ""
    error: str = ""
    origin: str = ""
    data: bool = False
    round: int = 0
    shown: str = ""

    def __post_init__(self) -> None:
        self._seal("arguments")

    @property
    def error_code(self) -> str:
        """The code of the error, see `states.records.actions.ToolResult`; empty where there is none."""
        told = "" if self.success else self.error or "".join(self.notes[:1])
        return told.partition(":")[0]

    @property
    def told_error(self) -> str:
        """The error as a planner is told: of a blocked call the marker alone, of a tool its words."""
        code, _, told = self.error.partition(": ")
        if code == "duplicate_call_blocked":
            return code
        return told if code == "tool_error" else self.error


class Turn(Stored, frozen=True, gc=False):
    """One turn of the dialogue between a planner and the user: who speaks, and what is said, cut to size."""

    role: Literal["assistant", "user"]
    content: str
