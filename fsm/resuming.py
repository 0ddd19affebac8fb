"""Resuming: a run as its journal tells it, verified on the way, and an answer in the form of the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson
from msgspec.structs import replace

from ..states.actions import StoredText
from ..states.errors import InvalidAnswer, JournalDamaged
from ..states.run import Run, initial_run
from ..states.spec import Spec
from ..states.waiting import Answer, Question
from ..tools.schema import ParameterSchema, SchemaError
from .amending import in_force
from .fold import restore
from .journal_reading import JournalReader
from .lineage import Part, part_with
from .payloads import Stager, content_key, encoded
from .record import PREV_HASH, chained
from .starting import scrubbed

REASON_CHARS = 2000
"""Characters of the reason that somebody gives for an answer."""

REMEMBERED_AGAIN = 64
"""Newest payloads that are recognised when they come again after a resume: the constant parts of prompts among them."""


def restored(journal: JournalReader, run_id: str, last: int = 2**32 - 1) -> tuple[Run, bytes]:
    """
    Return a run as its journal tells it, and the hash of its last row; the chain is verified on the way.

    Each part of a fork's walk is folded with the spec of the run under which it stands.

    Args:
        journal: That holds it.
        run_id: Its id.
        last: Seq of the last row to take, if not all; it stands under the run itself.

    Raises:
        UnknownRun: There is none.
        JournalDamaged: A hash does not fit, or a text that the run goes on with is not what was written.
    """
    parts = journal.lineage(journal.run(run_id).run)
    ends = [*(part.first_seq - 1 for part in parts[1:]), last]
    run, head = None, b""
    for part, end in zip(parts, ends, strict=True):
        rows = journal.own_rows(part.run, part.first_seq, end)
        spec = in_force(journal.spec(part.run_id), rows, partial(_body, journal, part.run))
        run = handed_over(run, part, spec)
        head = checked_chain(part.run_id, journal.root(part.run, head), rows)
        run = restore(run, rows, partial(journal.change, part.run))
    assert run is not None, "every run has at least its own part"
    return run, head


def _body(journal: JournalReader, run: int, place: Mapping[str, Any]) -> str | bytes | None:
    return journal.intact(run, place["n"], place.get("digest"))


def run_before(journal: JournalReader, run_id: str, seq: int) -> Run:
    """
    Return a run as it stood when one of its rows was decided, with the spec and the name that decided it.

    Args:
        journal: That holds it.
        run_id: Its id.
        seq: Of the row; one more than the last for the row that comes next.

    Raises:
        JournalDamaged: The chain before it does not hold, or what it needs was erased.
    """
    parts = journal.lineage(journal.run(run_id).run)
    part = part_with(parts, "first_seq", seq)
    if seq == 0:
        return handed_over(None, part, journal.spec(part.run_id))
    before = part_with(parts, "first_seq", seq - 1)
    run, _ = restored(journal, before.run_id, seq - 1)
    return run if before is part else handed_over(run, part, journal.spec(part.run_id))


def handed_over(run: Run | None, part: Part, spec: Spec) -> Run:
    """Return the run that goes on with *part*: what it remembers stays, the spec and the name are the part's."""
    if run is None:
        return initial_run(part.run_id, part.run, spec)
    return replace(run, run_id=part.run_id, number=part.run, spec=spec)


def restaged(journal: JournalReader, run: int, salt: Callable[[], bytes]) -> Stager:
    """Return the stager of a run that goes on: numbers continue, the newest bodies are recognised."""
    stager = Stager(journal.next_payload(run), salt)
    for payload in journal.payloads(run, REMEMBERED_AGAIN):
        if payload.body is not None and payload.fits():
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
