"""What the model may see of a result (Observation), and what history keeps of an action (Message)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .actions import Preview, WebFact
from .wire import Wire


class Observation(Wire):
    """
    The compact view of one result; never the raw payload (documents 000 and 002).

    Attributes:
        success: The tool returned.
        result_label: Label under which the documents stand.
        documents_count: The true total, however many previews there are.
        previews: The first few documents, cut to size.
        notes: Short facts: errors, sizes, what was cut.
        web: Per-URL relevance, key points and entities, best first; absent when no tool gave any.
    """

    success: bool
    result_label: str
    documents_count: int = Field(ge=0)
    previews: tuple[Preview, ...] = Field(default=(), strict=False)
    notes: tuple[str, ...] = Field(default=(), strict=False)
    web: tuple[WebFact, ...] | None = Field(default=None, strict=False)

    def wire(self) -> dict[str, Any]:
        """Return the observation as JSON-able data; ``web`` is absent when no tool gave any (SPEC A015)."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def wire_json(self) -> str:
        """Return the same as compact JSON."""
        return self.model_dump_json(by_alias=True, exclude_none=True)


class Check(Wire):
    """The light review after every observation, derived by code (SPEC A040)."""

    status: Literal["success", "retry", "failed"]
    improvements: tuple[str, ...] = Field(default=(), strict=False)


class Message(Wire):
    """
    One action in the history of a run: what later prompts may know of it (SPEC A099 to A102).

    Attributes:
        action: The action's number within its task.
        step: The step's number within the run.
        tool: What was called.
        objective: What for.
        label: Where its documents stand; empty when it produced none.
        documents: References with names, at most a handful.
        summary: One or two sentences; never empty.
        notes: Short facts.
        learnings: What Stage 1 had learnt by then.
        success: How it ended.
    """

    action: int
    step: int
    tool: str
    objective: str = ""
    label: str = ""
    documents: tuple[str, ...] = Field(default=(), strict=False)
    documents_count: int = 0
    summary: str
    notes: tuple[str, ...] = Field(default=(), strict=False)
    learnings: tuple[str, ...] = Field(default=(), strict=False)
    success: bool
