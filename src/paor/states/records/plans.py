"""
What a planner proposes: a plan of steps, a question, or a plan of tasks; and what its executor gives back.

Wire names are those of the source documents. Numbers of steps count from 0.

Source: document 004 sections 3 and 4; docs/spec-coverage.md, A139 to A151, C3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from ..base.sealed import SealedDict
from ..base.wire import AnyData, Data, Wire

STEPS_MAX = 1_000
"""Most steps of one plan. Source: docs/spec-coverage.md, D14."""

RETRIES_MAX = 100
"""Most retries that a step may ask for; each is another call."""

TASKS_MAX = 100
"""Most tasks of one task plan."""

StepType = Literal["tool", "elicitation", "noop", "abort"]


_SCHEMA_KEYS = ("requestedSchema", "requested_schema", "schema", "schema_text")


def _object_of(text: str) -> dict[str, Any]:
    """Return the JSON object that *text* is, an empty one if it is something else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class Elicitation(Wire):
    """
    A question to the user, with the shape of its answer.

    Attributes:
        message: The question.
        requested_schema: JSON Schema of the answer; empty: any answer.
        schema_text: The same as text, which is how document 004 has it; both are read and written. A text
            that is no JSON object is here alone.
    """

    message: str = ""
    requested_schema: Data = Field(default_factory=SealedDict)
    schema_text: str = Field(default="", alias="schema")

    @model_validator(mode="before")
    @classmethod
    def _both_forms(cls, data: Any) -> Any:
        """Fill each of the two forms of the schema from the other; the object wins where they differ."""
        if not isinstance(data, Mapping):
            return data
        given = {key: value for key, value in data.items() if key not in _SCHEMA_KEYS}
        found = [data[key] for key in _SCHEMA_KEYS if data.get(key) is not None]
        schema = next((value for value in found if not isinstance(value, str) and value != {}), None)
        text = next((value for value in found if isinstance(value, str)), "")
        if schema is None:
            return given | {"requested_schema": _object_of(text), "schema_text": text}
        return given | {"requested_schema": schema, "schema_text": json.dumps(schema, ensure_ascii=False)}

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to ask."""
        return not self.message.strip() and not self.requested_schema.get("properties")


class Step(Wire):
    """
    One step of a plan.

    Attributes:
        id: Of the call, as a provider gave it; a result goes back under the same id. Empty for a step of a plan.
        type: ``tool`` calls one, ``elicitation`` asks the user, ``noop`` does nothing, ``abort`` ends the run.
        name: The tool, ``service.method`` or ``service_method``.
        args: Its arguments; texts may hold ``$step[N].output`` (see `fsm.workflow.step_references`).
        reason: Why, in the model's words; of an abort what the run ends with.
        retries: How often a failed call is tried again: attempts are ``1 + retries``.
        elicitation: The question of an elicitation step.
        fault: Why the arguments of a native call cannot be read; such a step is not executed, its result is this error.
    """

    id: str = ""
    type: StepType = "tool"
    name: str = Field(default="", max_length=200)
    args: Data = Field(default_factory=SealedDict)
    reason: str = ""
    retries: int = Field(default=0, ge=0, le=RETRIES_MAX)
    elicitation: Elicitation | None = None
    fault: str | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the step does nothing."""
        return self.type == "noop"


class Plan(Wire):
    """
    An ordered list of steps, or a question without which there can be none.

    Attributes:
        id: Optional; the executor gives one to a plan without.
        intention: What the plan is for.
        steps: In the order of execution.
        elicitation: What the planner must know first.
        language: Of a workflow's plan: the user's language as the model detected it; empty when it named none.
    """

    id: str | None = None
    intention: str = ""
    steps: tuple[Step, ...] = Field(default=(), strict=False, max_length=STEPS_MAX)
    elicitation: Elicitation | None = None
    language: str = Field(default="", max_length=35)

    @property
    def question(self) -> Elicitation | None:
        """The plan-level question, None when there is nothing to ask."""
        return None if self.elicitation is None or self.elicitation.is_blank else self.elicitation

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do: no question, and no step that does anything."""
        return self.question is None and all(step.is_idle for step in self.steps)


class PlanResult(Wire):
    """
    What one call came to: ``(id, name, args, result, error)``, fed back to the planner.

    Attributes:
        id: Of the call as the plan has it, else ``action`` with the action's number.
        name: The tool.
        args: The arguments that it got, placeholders resolved.
        result: What it returned; of a blocked call the last successful output. Any JSON.
        error: Why there is none, or ``duplicate_call_blocked``; empty when it succeeded.
    """

    id: str = ""
    name: str
    args: Data = Field(default_factory=SealedDict)
    result: AnyData = None
    error: str = ""


class TranscriptMessage(Wire):
    """
    One message of the conversation so far.

    Attributes:
        role: Who speaks.
        content: What is said.
        name: Of the tool, for a tool's message.
        tool_call_id: Of the call that a tool's message answers.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    name: str | None = None
    tool_call_id: str | None = Field(default=None, alias="tool_call_id")


class PlannedTask(Wire):
    """
    One task of a workflow.

    Attributes:
        id: Unique within its plan, such as ``task_1``.
        objective: What the task has to achieve.
        dependencies: Ids of tasks whose documents it needs.
        success_criteria: What must hold at its end.
        estimated_complexity: How much work it is likely to be.
        user_message: What the user is told when it starts, in the user's language.
    """

    id: str = Field(min_length=1, max_length=200)
    objective: str = Field(min_length=1)
    dependencies: tuple[str, ...] = Field(default=(), strict=False)
    success_criteria: tuple[str, ...] = Field(default=(), strict=False, alias="success_criteria")
    estimated_complexity: Literal["low", "medium", "high"] = Field(
        default="medium", alias="estimated_complexity"
    )
    user_message: str = ""


class TaskPlan(Wire):
    """
    The tasks of a workflow's round, in an order in which every dependency stands before what needs it.

    Attributes:
        overview: One or two sentences on the whole.
        language_user_detected: Code of the user's language, ``de``; empty when the model named none.
        user_message: What the user is told first, in that language.
        tasks: At least one.
    """

    overview: str = ""
    language_user_detected: str = Field(default="", max_length=35)
    user_message: str = ""
    tasks: tuple[PlannedTask, ...] = Field(strict=False, min_length=1, max_length=TASKS_MAX)
