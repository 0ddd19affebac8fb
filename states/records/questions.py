"""What a run waits for, and the answer to it; any process can give it."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Literal

import orjson
from pydantic import Field

from ..base.wire import Wire


class Question(Wire):
    """
    What a waiting run needs, as the journal keeps it.

    Attributes:
        kind: ``elicitation`` (the planner, or a tool that has begun, needs the user), ``approval`` (a call needs
            approval), ``argument`` (a step lacks one), ``in_doubt`` (a `once` effect may or may not have happened).
        message: The question, for a person.
        answer_schema: JSON Schema of the answer (``requestedSchema`` on the wire).
        tool: The tool concerned, if any.
        key: Idempotency key of the effect in doubt, if any.
        approval: For an approval: the call, by tool, arguments and policy (`tools.approvals.approval_id`).
    """

    kind: Literal["elicitation", "approval", "argument", "in_doubt"]
    message: str
    answer_schema: dict[str, Any] = Field(
        default_factory=dict, validation_alias="requestedSchema", serialization_alias="requestedSchema"
    )
    tool: str | None = None
    key: str | None = None
    approval: str | None = None


QUESTION_ID = re.compile(r"\d{1,9}-[0-9a-f]{24}")
"""What every `OpenQuestion.id` looks like."""


class OpenQuestion(Question):
    """
    What one run waits for at one of its rows, with what an answer to it is bound to.

    Attributes:
        id: Names the question: the number of the row that asks, and a digest of the run, the row, the tool, its
            arguments and action, and for an approval the policy. No other question of any run has it; a fork asks
            under an id of its own.
        approval: For an approval the same id, for an answer that holds it as ``"approval"``.
    """

    id: str

    @classmethod
    def of(cls, question: Question, run_id: str, seq: int, key: str | None) -> OpenQuestion:
        """
        Return a question as it is open.

        Args:
            question: As the journal keeps it.
            run_id: Of the run that waits.
            seq: Number of the row that asks.
            key: Of the call that the run is at, a digest of its tool and canonical arguments; None without one.
        """
        bound = orjson.dumps([run_id, seq, question.wire_json(), key])
        name = f"{seq}-{hashlib.sha256(bound).hexdigest()[:24]}"
        update = {"id": name, "approval": name if question.kind == "approval" else None}
        return cls.model_construct(**{**question.__dict__, **update})


class Asking(Wire):
    """
    What a tool asks in the middle of its call, as the journal keeps it.

    Attributes:
        message: The question, for a person.
        answer_schema: JSON Schema of the answer; empty for any.
        state: What the tool gets back together with the answer, in any process: JSON.
    """

    message: str
    answer_schema: dict[str, Any] = Field(default_factory=dict)
    state: Any = None


class Answer(Wire):
    """
    The answer to a question.

    Attributes:
        action: ``accept`` / ``decline`` / ``cancel`` for a question; ``done`` / ``retry`` / ``fail`` for an effect in
            doubt.
        content: The accepted values, or the effect's result.
        approval, run_id: Of an approval the call that it was given for, and the run; written by the engine.
        at: When it was given, in microseconds since the epoch; written by the engine, for approvals.
        reason: Why, in the words of whoever decided; None when nobody said.
    """

    action: Literal["accept", "decline", "cancel", "done", "retry", "fail"]
    content: Any = None
    approval: str | None = None
    run_id: str | None = None
    at: int | None = None
    reason: str | None = None
