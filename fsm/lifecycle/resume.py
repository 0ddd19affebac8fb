"""Resuming: how a run goes on where its journal ends, and an answer in the form in which it is recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import orjson

from ...states.base.errors import InvalidAnswer
from ...states.records.questions import Answer, Question
from ...states.run.state import Run
from ...tools.schema.parameters import ParameterSchema, SchemaError
from ..decision.run_resources import RunResources
from ..journal.payloads import Stager
from ..replay.restore import restore_run
from ..runtime.loop import Steps, steps
from ..runtime.run_context import RunContext
from .acceptance import check_unchanged
from .arguments import NOTHING_GIVEN, ResumeOptions, check_priced, model_of
from .result import Result, result_of_run
from .runner import Acquisition, Runner
from .start import clean_text
from .subruns import task_to_answer, waiting_task, with_question

REASON_CHARS = 2000
"""Characters of the reason that somebody gives for an answer."""


class Continuation(NamedTuple):
    """How a run goes on: from its last row (*resumed*), or with the fallback that it is owed."""

    acquire: Acquisition
    resumed: bool


def resume(runner: Runner, run_id: str, **options: Unpack[ResumeOptions]) -> Result:
    """
    Go on with a run to its end, or until it waits; see `fsm.engine.Engine.resume`.

    An answer that is given to a workflow is for its task that waits. That task goes on first, so that a crash between the
    two leaves a workflow whose task has ended, which any resume goes on with.
    """
    task = task_to_answer(runner.journal.reader, run_id, options.get("answer"), options.get("outcome"))
    if task is not None:
        resume(runner, task, **options)
        options = {**options, **NOTHING_GIVEN}
    found = continuation(runner, run_id, **options)
    if isinstance(found, Continuation):
        found = runner.result(found.acquire, resumed=found.resumed)
    return with_question(runner.journal.reader, found)


async def aresume(runner: Runner, run_id: str, **options: Unpack[ResumeOptions]) -> Result:
    """Do the same as `resume` on the running event loop."""
    task = task_to_answer(runner.journal.reader, run_id, options.get("answer"), options.get("outcome"))
    if task is not None:
        await aresume(runner, task, **options)
        options = {**options, **NOTHING_GIVEN}
    found = continuation(runner, run_id, **options)
    if isinstance(found, Continuation):
        found = await runner.aresult(found.acquire, resumed=found.resumed)
    return with_question(runner.journal.reader, found)


def continuation(runner: Runner, run_id: str, **options: Unpack[ResumeOptions]) -> Continuation | Result:
    """Return how a run goes on, or its result when there is nothing to do."""
    drive, walk = take_up(runner, run_id, **options)
    if walk is not None:
        return Continuation(lambda: (drive, walk), resumed=True)
    if (again := runner.owed_fallback(drive)) is not None:
        return Continuation(again, resumed=False)
    return result_of_run(drive.run, runner.journal.reader)


def take_up(runner: Runner, run_id: str, **options: Unpack[ResumeOptions]) -> tuple[RunContext, Steps | None]:
    """
    Return the drive of a run and what to walk: None when there is nothing to do, and then no lease is held.

    The options are those of `fsm.engine.Engine.resume`. What can be refused by the arguments alone is refused before the
    lease is taken, what depends on the run only after it: before, another driver could still change the answer.
    """
    answer, outcome, reason = options.get("answer"), options.get("outcome"), options.get("reason")
    model, connections = options.get("model"), options.get("connections") or {}
    journal = runner.journal
    chosen = model_of(model) if model is not None else runner.settings.model
    row = journal.reader.run(run_id)
    given = answer is not None or outcome is not None
    if reason is not None and not given:
        raise InvalidAnswer("a reason comes with an answer or with the outcome of an effect in doubt")
    if row.task == 0 and row.status == "waiting" and not given:
        task = waiting_task(journal.reader, row)
        if task is None or _timeout_answer(runner, restore_run(journal.reader, task)[0]) is not None:
            outcome, given = "retry", True  # its task waits no more: the workflow goes on
    if row.status in ("done", "failed") or (row.status == "waiting" and not given):
        run, head = restore_run(journal.reader, row.run_id)
        if _timeout_answer(runner, run) is None:
            stager = Stager(journal.reader.next_payload(row.run), runner.ids.salt)
            return runner.hold(run, head, 0, RunResources(run.spec), chosen, stager, connections), None
    if given and row.status != "waiting":
        raise InvalidAnswer(f"run {row.run_id} waits for nothing; it is {row.status} in {row.state}")
    drive = runner.take(row.run_id)
    drive.connections.update(connections)
    drive.model = chosen
    # from here on the lease is held: whatever is refused gives it back, or the run would count as driven until it runs out
    try:
        check_priced(chosen, drive.run.spec.limits)
        check_unchanged(runner, drive, accept_changes=options.get("accept_changes", False))
        if not given:
            declined = _timeout_answer(runner, drive.run)
            return drive, steps(drive) if declined is None else runner.answered(drive, declined)
        # as read under the lease: of two who answer at once the second is refused here
        question = drive.run.waiting_for
        if question is None:
            raise InvalidAnswer(f"run {row.run_id} waits for nothing any more; somebody else has answered")
        reply = answer_of(question, answer, outcome, options.get("result"), reason)
    except BaseException:
        journal.leases.release(drive.run.number, drive.fence)
        raise
    return drive, runner.answered(drive, reply)


def _timeout_answer(runner: Runner, run: Run) -> Answer | None:
    """Return the decline that a run's unanswered question counts as by now, None while it may wait."""
    if run.waiting_for is None or run.spec.limits.elicitation_timeout_s is None:
        return None
    return timeout_answer(run, runner.journal.reader.rows(run.number), runner.clock.now_us())


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
    return clean_text(reason.strip())


def _problems(question: Question, answer: Answer) -> list[str]:
    """
    Return everything in which an accepted answer does not fit its question's schema.

    An empty answer fits every question but an approval and that of a tool: it says to the planner that nothing was
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


def timeout_answer(run: Run, rows: Sequence[tuple[Any, ...]], now_us: int) -> Answer | None:
    """
    Return the decline that an unanswered question counts as (`Limits.elicitation_timeout_s`), None before its time.

    Args:
        run: As its journal has it.
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
        return Answer.model_validate({"action": outcome, "content": result})
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
