"""Resuming: a run as its journal tells it, verified on the way, and an answer in the form of the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ..states.errors import InvalidAnswer
from ..states.run import Run
from ..states.waiting import Answer, Question
from ..tools.schema import ParameterSchema, SchemaError
from .starting import scrubbed

REASON_CHARS = 2000
"""Characters of the reason that somebody gives for an answer."""


def answer_of(
    question: Question, answer: Any, outcome: str | None, result: Any, reason: str | None = None
) -> Answer:
    """
    Return what somebody answered as its JSON form says it, so that a crash right after it changes nothing.

    Args:
        question: What the run waits for.
        answer: To a question or an approval.
        outcome: Of an effect in doubt.
        result: What that returned, or for ``fail`` what went wrong.
        reason: Why, in the words of whoever decided; kept beside the answer.

    Raises:
        InvalidAnswer: It does not fit the question or the question's schema, or has no JSON form.
    """
    given = _answer_of(question, answer, outcome, result)
    if reason is not None:
        given = given.model_copy(update={"reason": _reason_of(reason)})
    try:
        read = Answer.model_validate_json(given.wire_json())
        orjson.dumps(read.content)  # it refuses what no row can hold: a number of hundreds of digits
    except (ValueError, TypeError):  # pydantic's errors for what it cannot write are among them
        raise InvalidAnswer(
            f"a {type(given.content).__name__} like this has no JSON form; {question.message}"
        ) from None
    if problems := _problems(question, read):
        raise InvalidAnswer(
            f"the answer does not fit: {'; '.join(problems)}. The question: {question.message}"
        )
    return read


def _reason_of(reason: object) -> str:
    if not isinstance(reason, str) or not reason.strip():
        raise InvalidAnswer("the reason must be a text")
    if len(reason) > REASON_CHARS:
        raise InvalidAnswer(f"the reason has {len(reason)} characters; at most {REASON_CHARS} are kept")
    return scrubbed(reason.strip())


def _problems(question: Question, answer: Answer) -> list[str]:
    """
    Return everything in which an accepted answer does not fit its question's schema.

    An empty answer fits every question but an approval and that of a tool: it tells the planner that nothing was
    given. A schema that is none, which a model may have written, holds nobody to anything.
    """
    schema, empty = question.answer_schema, answer.content in (None, "", {}, [])
    strict = question.kind == "approval" or (question.kind == "elicitation" and question.tool is not None)
    if answer.action != "accept" or not schema or (empty and not strict):
        return []
    shared: dict[str, Any] = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    try:
        whole = ParameterSchema({"properties": {"answer": schema}, "required": ["answer"], **shared})
    except SchemaError:
        return []
    return [problem.message for problem in whole.check({"answer": answer.content})]


def timed_out(run: Run, rows: Sequence[tuple[Any, ...]], now_us: int) -> Answer | None:
    """
    Return the decline that an unanswered question counts as (`Limits.elicitation_timeout_s`), None before its time.

    Args:
        run: As its journal tells it.
        rows: Of the run; the last one is the wait.
        now_us: By the engine's clock.
    """
    seconds, question = run.spec.limits.elicitation_timeout_s, run.waiting_for
    if seconds is None or question is None or question.kind == "in_doubt" or not rows:
        return None
    if now_us - rows[-1][2] < seconds * 1_000_000:
        return None
    return Answer(action="decline", content=f"nobody answered within {seconds:g} seconds")


def _answer_of(question: Question, answer: Any, outcome: str | None, result: Any) -> Answer:
    if question.kind == "in_doubt":
        if outcome not in ("done", "retry", "fail"):
            raise InvalidAnswer(f"{question.message} Give outcome done, retry or fail")
        return Answer(action=outcome, content=result)  # type: ignore[arg-type]
    if outcome is not None:
        raise InvalidAnswer(f"the run waits for an answer, not for an outcome: {question.message}")
    if isinstance(answer, Mapping) and answer.get("action") in ("accept", "decline", "cancel"):
        if question.kind != "approval" or answer["action"] != "accept":
            return Answer(action=answer["action"], content=answer.get("content"))
        answer = answer.get("content")
    if question.kind == "approval" and not (
        isinstance(answer, Mapping) and isinstance(answer.get("approve"), bool)
    ):
        raise InvalidAnswer('an approval is answered with {"approve": true} or {"approve": false}')
    if question.kind == "approval" and answer.get("approval") not in (None, question.approval):
        raise InvalidAnswer(f"this approval is for another call; the run asks for {question.approval}")
    return Answer(action="accept", content=answer)
