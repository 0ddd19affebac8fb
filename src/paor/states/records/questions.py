"""What a run waits for, and the answer to it; any process can give it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import orjson
from pydantic import Field

from ..base.sealed import SealedDict, unsealed
from ..base.wire import AnyData, Data, Wire
from .actions import Effect

Kind: TypeAlias = Literal["elicitation", "approval", "argument", "in_doubt"]


class QuestionRecord(Wire):
    """
    What a waiting run needs, as the journal keeps it.

    Attributes:
        kind, message: As in `Question`.
        answer_schema: JSON Schema of the answer (``requestedSchema`` on the wire).
        tool: The tool concerned, if any.
        key: Idempotency key of its call, if any.
        approval: For an approval: the call, by tool, arguments and policy (`tools.approvals.approval_id`).
    """

    kind: Kind
    message: str
    answer_schema: Data = Field(
        default_factory=dict, validation_alias="requestedSchema", serialization_alias="requestedSchema"
    )
    tool: str | None = None
    key: str | None = None
    approval: str | None = None


DOUBT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"outcome": {"enum": ["done", "retry", "fail"]}, "result": {}},
    "required": ["outcome"],
    "additionalProperties": False,
}
"""What `Engine.resume` takes for an effect in doubt; the journal need not say it each time."""

QUESTION_ID = re.compile(r"\d{1,9}-[0-9a-f]{24}")
"""What every `Question.id` looks like."""


@dataclass(frozen=True, slots=True)
class Question:
    """
    What a run waits for; any process can answer it.

    Attributes:
        run_id: The run that asks; of a workflow its task. `Engine.resume` takes the answer of either.
        id: Names the question in an answer. No other question of any run has this id; a fork asks under an id of its own.
        kind: ``approval`` (a call needs approval), ``in_doubt`` (a `once` effect may or may not have happened),
            ``elicitation`` (the planner, or a tool that has begun, needs the user), ``argument`` (a step of a plan lacks
            one).
        message: The question, for a person.
        tool: The tool that the question is about, or None.
        arguments: Its arguments, complete, as the tool gets them; for ``argument`` those that the plan has given. None
            without a tool.
        effect: Its effect class: ``read``, ``idempotent`` or ``once``; None without a tool.
        asked_at: When the question was asked, in microseconds since the epoch.
        approval: For an approval the same as *id*, which an answer may hold as ``"approval"``; else None.
        schema: JSON Schema of the answer, from which a form can be built: of ``answer`` of `Engine.resume`; for
            ``in_doubt`` of its arguments ``outcome`` and ``result``. Empty where any answer will do.
        key: Idempotency key of the call, with which an effect in doubt can be looked up; None without one.
    """

    run_id: str
    id: str
    kind: Kind
    message: str
    tool: str | None
    arguments: Mapping[str, Any] | None
    effect: Effect | None
    asked_at: int
    approval: str | None
    schema: Mapping[str, Any]
    key: str | None = None

    @classmethod
    def of(
        cls,
        question: QuestionRecord,
        run_id: str,
        seq: int,
        *,
        asked_at: int = 0,
        key: str | None = None,
        call: tuple[Mapping[str, Any] | None, Effect | None] = (None, None),
        parameters: Mapping[str, Any] | None = None,
    ) -> Question:
        """
        Return a question as it is open.

        Its id is the number of the row that asks, and a digest of the run, the row, the tool, its arguments and action, and
        for an approval the policy.

        Args:
            question: As the journal keeps it.
            run_id: Of the run that waits.
            seq: Number of the row that asks.
            asked_at: Its time.
            key: Of the call that the run is at, a digest of its tool and canonical arguments; None without one.
            call: Arguments and effect class of the tool concerned.
            parameters: JSON Schema of its parameters; an approval may change the arguments within it.
        """
        bound = orjson.dumps([run_id, seq, question.wire_json(), key])
        name = f"{seq}-{hashlib.sha256(bound).hexdigest()[:24]}"
        arguments, effect = call
        schema = unsealed(DOUBT_SCHEMA if question.kind == "in_doubt" else question.answer_schema)
        if question.kind == "approval" and parameters is not None:
            schema = _with_arguments(schema, unsealed(parameters))
        return cls(
            run_id=run_id,
            id=name,
            kind=question.kind,
            message=question.message,
            tool=question.tool,
            arguments=unsealed(arguments),
            effect=effect,
            asked_at=asked_at,
            approval=name if question.kind == "approval" else None,
            schema=schema,
            key=question.key,
        )

    def wire(self) -> dict[str, Any]:
        """Return the JSON form, keys as the attributes."""
        return {name: getattr(self, name) for name in self.__slots__}


def _with_arguments(schema: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an approval, with the arguments that it may give the call instead of those that were asked about."""
    shared = {name: parameters[name] for name in ("$defs", "definitions") if name in parameters}
    own = {name: value for name, value in parameters.items() if name not in shared}
    told = "All arguments of the call, where they are to be others; with approve true only."
    arguments = own | {"type": "object", "description": told}
    return schema | {"properties": schema.get("properties", {}) | {"arguments": arguments}} | shared


class Asking(Wire):
    """
    What a tool asks in the middle of its call, as the journal keeps it.

    Attributes:
        message: The question, for a person.
        answer_schema: JSON Schema of the answer; empty for any.
        state: What the tool gets back together with the answer, in any process: JSON.
        looks_only: As in `AnswerNeeded`.
        noted: Whether nobody is asked: its row and that of an empty answer are written as one, and the call goes on.
    """

    message: str
    answer_schema: Data = Field(default_factory=SealedDict)
    state: AnyData = None
    looks_only: bool = False
    noted: bool = False


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
        actor: Who decided, by the name that the caller gave; nobody checks it. None when nobody said.
    """

    action: Literal["accept", "decline", "cancel", "done", "retry", "fail"]
    content: AnyData = None
    approval: str | None = None
    run_id: str | None = None
    at: int | None = None
    reason: str | None = None
    actor: str | None = None

    def bound(self, approval: str | None, run_id: str, at: int) -> Answer:
        """Return an answer to an approval as one to the call *approval* of the run *run_id*, given at *at*; any other as it is."""
        if approval is None:
            return self
        return self.model_copy(update={"approval": approval, "run_id": run_id, "at": at})

    @property
    def approves(self) -> bool:
        """Whether it is a typed yes to an approval."""
        content = self.content
        return self.action == "accept" and isinstance(content, dict) and content.get("approve") is True

    @property
    def arguments(self) -> Mapping[str, Any] | None:
        """The arguments that a yes gives the call instead of those that were asked about; None for none."""
        found = self.content.get("arguments") if self.approves and isinstance(self.content, dict) else None
        return found if isinstance(found, Mapping) else None
