"""Resuming: a run as its journal tells it, verified on the way, and an answer in the form of the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from ..states.actions import StoredText
from ..states.errors import InvalidAnswer, JournalDamaged
from ..states.run import Run, initial_run
from ..states.waiting import Answer, Question
from ..tools.schema import ParameterSchema, SchemaError
from .fold import restore
from .journal import Journal
from .payloads import Stager, content_key, encoded
from .record import PREV_HASH, chained

REMEMBERED_AGAIN = 64
"""Newest payloads that are recognised when they come again after a resume: the constant parts of prompts among them."""


def restored(journal: Journal, run_id: str) -> tuple[Run, bytes]:
    """
    Return a run as its journal tells it, and the hash of its last row; the chain is verified on the way.

    Raises:
        UnknownRun: There is none.
        JournalDamaged: A hash does not fit.
    """
    row = journal.run(run_id)
    spec = journal.spec(row.run_id)
    rows = journal.rows(row.run)
    head = checked_chain(row.run_id, journal.root(row.run), rows)
    run = initial_run(row.run_id, row.run, spec)
    return restore(run, rows, lambda column: journal.change(row.run, column)), head


def restaged(journal: Journal, run: int, salt: Callable[[], bytes]) -> Stager:
    """Return the stager of a run that goes on: numbers continue, the newest bodies are recognised."""
    stager = Stager(journal.next_payload(run), salt)
    for payload in journal.payloads(run, REMEMBERED_AGAIN):
        if payload.body is not None:
            size = len(encoded(payload.body))
            stager.remember(content_key(payload.body), StoredText(payload.n, payload.digest.hex(), size))
    return stager


def checked_chain(run_id: str, root: bytes, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """
    Return the hash of the last of *rows* after recomputing all of them.

    Raises:
        JournalDamaged: Naming the first row that does not fit.
    """
    head, width = root, PREV_HASH
    for row in rows:
        if row[width] != head or chained(head, row[:width]) != row[width + 1]:
            raise JournalDamaged(f"run {run_id}: row {row[1]} does not fit the hash chain; run: paor verify")
        head = row[width + 1]
    return head


def answer_of(question: Question, answer: Any, outcome: str | None, result: Any) -> Answer:
    """
    Return what somebody answered as its JSON form says it, so that a crash right after it changes nothing.

    Raises:
        InvalidAnswer: It does not fit the question or the question's schema, or has no JSON form.
    """
    given = _answer_of(question, answer, outcome, result)
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
        return Answer(action=answer["action"], content=answer.get("content"))
    if question.kind == "approval" and not (
        isinstance(answer, Mapping) and isinstance(answer.get("approve"), bool)
    ):
        raise InvalidAnswer('an approval is answered with {"approve": true} or {"approve": false}')
    return Answer(action="accept", content=answer)
