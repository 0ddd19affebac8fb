"""Resume a run from its last row; encode answers for the journal."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

import orjson

from ...prompts.clients.settings import said_scrubber
from ...states.base.errors import AlreadyAnswered, InvalidAnswer, JournalError
from ...states.base.secrets import Scrubber
from ...states.records.observations import clean
from ...states.records.questions import QUESTION_ID, Answer, Question
from ...states.run.phase_names import PHASES
from ...states.run.state import Run
from ...tools.schema.parameters import ParameterSchema, SchemaError
from ...tools.schema.secret_values import is_secret
from ...tools.tool import Tool
from ..decision.interpret import approval_problem
from ..decision.run_resources import RunResources
from ..journal.payloads import Stager
from ..journal.reader import JournalReader
from ..journal.rows import RunRow
from ..replay.callers import asking_run, called_runs, waiting_called, waits_for_called
from ..replay.restore import restore_run
from ..runtime.events import Event, RunEnded, RunStarted
from ..runtime.loop import Steps, steps
from ..runtime.ports import Clock
from ..runtime.result import Result, result_of_run
from ..runtime.run_context import Leaves, RunContext
from .acceptance import check_unchanged
from .arguments import check_deps, check_priced, model_of
from .background import AsyncEvents, Events
from .options import NOTHING_GIVEN, AnswerOptions, ResumeOptions, checked_options
from .output_type import output_schema_of
from .runner import Acquisition, Runner, leaving
from .subruns import with_question

REASON_CHARS = 2000
ACTOR_CHARS = 200
"""Characters of the reason that somebody gives for an answer, and of the name."""


class Continuation(NamedTuple):
    """How a run goes on: from its last row (*resumed*), or with the fallback that it is owed."""

    acquire: Acquisition
    resumed: bool


def continuations(
    runner: Runner, run_id: str, options: ResumeOptions
) -> Iterator[tuple[Runner, Continuation | Result]]:
    """
    Yield how a run goes on, and who drives it; each is taken up after the one before was driven.

    An answer that is given to a run which waits for one that it has called, such as a workflow for its task, is for the run that
    asks. That one goes on first, so that a crash between the two leaves a caller whose called run has ended, which any resume
    goes on with.
    """
    runner = runner.runner_of(runner.journal.reader.run(run_id))
    called = asked_by_message(runner, run_id, options)
    if called is not None:
        yield from continuations(runner, called, options)
        options = {**options, **NOTHING_GIVEN}
    yield runner, continuation(runner, run_id, **options)


def resume(runner: Runner, run_id: str, **options: Unpack[ResumeOptions]) -> Result:
    """Go on with a run to its end, or until it waits; see `fsm.engine.Engine.resume`."""
    return [performed(by, found) for by, found in continuations(runner, run_id, options)][-1]


async def aresume(runner: Runner, run_id: str, **options: Unpack[ResumeOptions]) -> Result:
    """Do the same as `resume` on the running event loop."""
    return [await aperformed(by, found) for by, found in continuations(runner, run_id, options)][-1]


def resuming_events(runner: Runner, run_id: str, options: ResumeOptions) -> Events:
    """Return what goes on with a run in the background; the events of a task that takes the answer come first."""

    def events(leaves: Leaves | None) -> Generator[Event, None, None]:
        for by, found in continuations(runner, run_id, options):
            yield from events_of(by, found, leaves)

    return events


def aresuming_events(runner: Runner, run_id: str, options: ResumeOptions) -> AsyncEvents:
    """Do the same as `resuming_events` for an event loop."""

    async def events(leaves: Leaves | None) -> AsyncGenerator[Event, None]:
        for by, found in continuations(runner, run_id, options):
            async with aclosing(aevents_of(by, found, leaves)) as stream:
                async for event in stream:
                    yield event

    return events


def performed(runner: Runner, found: Continuation | Result) -> Result:
    """Go on with a run to its end, or until it waits, and return its result."""
    if isinstance(found, Continuation):
        found = runner.result(found.acquire, resumed=found.resumed)
    return with_question(runner.journal.reader, found)


async def aperformed(runner: Runner, found: Continuation | Result) -> Result:
    """Do the same as `performed` on the running event loop."""
    if isinstance(found, Continuation):
        found = await runner.aresult(found.acquire, resumed=found.resumed)
    return with_question(runner.journal.reader, found)


def events_of(runner: Runner, found: Continuation | Result, leaves: Leaves | None = None) -> Iterator[Event]:
    """Go on with a run and yield its events; where there is nothing to do, only its beginning and its end."""
    if isinstance(found, Result):
        yield from _idle(runner, found)
        return
    for event in runner.drive(leaving(found.acquire, leaves), resumed=found.resumed):
        yield _told(runner, event)


async def aevents_of(
    runner: Runner, found: Continuation | Result, leaves: Leaves | None = None
) -> AsyncGenerator[Event, None]:
    """Do the same as `events_of` on the running event loop."""
    if isinstance(found, Result):
        for event in _idle(runner, found):
            yield event
        return
    acquire = leaving(found.acquire, leaves)
    async with aclosing(runner.adrive(acquire, resumed=found.resumed)) as events:
        async for event in events:
            yield _told(runner, event)


def _idle(runner: Runner, result: Result) -> tuple[Event, Event]:
    """Return the events of a run that nothing is done with."""
    journal = runner.journal.reader
    objective, seq = journal.spec(result.run_id).objective, journal.run(result.run_id).head_seq
    ended = RunEnded(result.run_id, seq, result)
    return RunStarted(result.run_id, objective, True, seq), _told(runner, ended)


def _told(runner: Runner, event: Event) -> Event:
    """Return an event; the end of a workflow whose task waits with what that task asks."""
    if isinstance(event, RunEnded):
        return replace(event, result=with_question(runner.journal.reader, event.result))
    return event


def asked_by_message(runner: Runner, run_id: str, options: ResumeOptions) -> str | None:
    """
    Return the run that an answer to its caller is for, such as a workflow's task, or None.

    One that another run has taken already is refused.
    """
    journal = runner.journal.reader
    if options.get("answer") is None and options.get("outcome") is None:
        return None
    row = journal.run(run_id)
    called = waiting_called(journal, row)
    if (
        called is not None
    ):  # found before it is looked whether a question was settled: none can slip between the two
        check_open(journal, row, restore_run(journal, called)[0].waiting_for, options)
    return called


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
    options = checked_options(options, ResumeOptions, "a resume")
    output_schema_of(options.get("output_type"))  # whether there is one
    answer, outcome = options.get("answer"), options.get("outcome")
    model = options.get("model")
    connections = {**(options.get("connections") or {}), **runner.settings.connections}
    deps = options.get("deps") if options.get("deps") is not None else runner.settings.deps
    journal = runner.journal
    chosen = model_of(model) if model is not None else runner.settings.model
    row = journal.reader.run(run_id)
    told = given = answer is not None or outcome is not None
    if not given and any(options.get(name) is not None for name in ("reason", "actor", "question")):
        raise InvalidAnswer(
            "a reason, an actor or a question comes with an answer or the outcome of an effect in doubt"
        )
    if not given and waits_for_called(journal.reader, row):
        asks = asking_run(journal.reader, row)
        if asks is None or _timeout_answer(runner, restore_run(journal.reader, asks.run_id)[0]) is not None:
            outcome, given = "retry", True  # what it has called waits no more: it goes on
    if told and row.status != "waiting":
        check_open(journal.reader, row, None, options)
    if row.status in ("done", "failed") or (row.status == "waiting" and not given):
        run, head = restore_run(journal.reader, row.run_id)
        if _timeout_answer(runner, run) is None:
            stager = Stager(journal.reader.next_payload(row.run), runner.ids.salt)
            return runner.hold(run, head, 0, runner.resources(run.spec), chosen, stager, connections), None
    drive = runner.take(row.run_id)
    drive.connections.update(connections)
    drive.model, drive.deps, drive.output_type = chosen, deps, options.get("output_type")
    # from here on the lease is held: whatever is refused gives it back, or the run would count as driven until it runs out
    try:
        declined = None if given else _timeout_answer(runner, drive.run)
        if not given and declined is None and (drive.run.final or drive.run.waiting_for is not None):
            journal.leases.release(drive.run.number, drive.fence)
            return drive, None  # another driver has had it since it was looked at
        check_priced(chosen, drive.run.spec.limits)
        check_deps(_tools_of(drive), deps)
        check_unchanged(runner, drive, accept_changes=options.get("accept_changes", False))
        if not given:
            return drive, steps(drive) if declined is None else runner.answered(drive, declined)
        # as read under the lease: of two who answer at once the second is refused here
        question = drive.run.waiting_for
        if told or question is None:  # a workflow whose task waits no more goes on without anybody's message
            check_open(journal.reader, row, question, options)
        assert question is not None, "an answer to nothing is refused"
        said: ResumeOptions = {**options, "outcome": outcome}
        reply = answer_of(question, said, own=drive.run.state not in PHASES)
        check_approved(drive.run, drive.kit, reply, said_scrubber(drive.model, drive.given), runner.clock)
        if told:
            runner.come_up(drive.run)  # before the row: after it this process may be gone
    except BaseException:
        journal.leases.release(drive.run.number, drive.fence)
        raise
    return drive, runner.answered(drive, reply)


def _tools_of(drive: RunContext) -> list[Tool]:
    """Return the tools that a run may still call; of a workflow those of its tasks."""
    spec = drive.run.spec
    names = (
        {tool.name for tool in spec.tools} if spec.task else set(spec.children.get("tools") or drive.tools)
    )
    return [tool for tool in drive.tools.values() if tool.name in names]


def check_open(
    journal: JournalReader, row: RunRow, question: Question | None, options: ResumeOptions
) -> None:
    """
    Refuse a message that is not certainly for the question that is open.

    The first question of a run, or of a workflow, may be answered without naming it. From then on a message has to name
    its question: one that is delivered twice would otherwise settle whatever is asked next.

    Args:
        journal: The journal that holds the run.
        row: The run that the message is sent to.
        question: What it waits for, of a workflow perhaps what its task does; None for nothing.
        options: The message.

    Raises:
        AlreadyAnswered: Its question is settled.
        InvalidAnswer: It is for another question, or the run waits for nothing.
    """
    name, now = named(options, question), f"waits for nothing; it is {row.status} in {row.state}"
    if row.status in ("done", "failed"):
        now = f"has ended in {row.state} and takes no answer"
    elif row.status == "waiting":
        now = "waits for nothing any more"
    if question is not None:
        now = f"now asks {question.id}: {question.message}"
        if name == question.id:
            return
    runs = [row.run_id, *_called_below(journal, row)]
    if name is None:
        if not any(_has_settled(journal, run) for run in runs):
            if question is not None:
                return
            raise InvalidAnswer(f"run {row.run_id} {now}")
        hint = "" if question is None else " (to answer that, name it as the question)"
        raise AlreadyAnswered(
            f"run {row.run_id} has taken an answer already, and nothing was changed; it {now}{hint}"
        )
    if any(_was_asked(journal, run, name) for run in runs):
        raise AlreadyAnswered(
            f"question {name:.40} of run {row.run_id} is settled, and nothing was changed; it {now}"
        )
    raise InvalidAnswer(f"run {row.run_id} does not ask {name!a:.60}; it {now}")


def _called_below(journal: JournalReader, row: RunRow) -> Iterator[str]:
    """Yield the runs that a run has called, and those that these have called."""
    for called in called_runs(journal, row):
        yield called.run_id
        yield from _called_below(journal, called)


def named(options: Mapping[str, Any] | ResumeOptions, question: Question | None) -> str | None:
    """Return the question that a message names, by itself or as the approval in its answer to *question*; None for none."""
    name, answer = options.get("question"), options.get("answer")
    if name is not None and (not isinstance(name, str) or not name):
        raise InvalidAnswer("a question is named by its id, as in waiting_for.id")
    if question is not None and (question.kind != "approval" or name not in (None, question.id)):
        return name
    content = answer.get("content", answer) if isinstance(answer, Mapping) else None
    inner = content.get("approval") if isinstance(content, Mapping) else None
    if (
        question is None
    ):  # the answer to any kind of question: other kinds may have a word of theirs under this key
        return name or (inner if isinstance(inner, str) and QUESTION_ID.fullmatch(inner) else None)
    if inner is not None and (not isinstance(inner, str) or inner != (name or inner)):
        raise InvalidAnswer(f"this approval is for another call than the question {name!a:.60}")
    return name or inner


def _has_settled(journal: JournalReader, run_id: str) -> bool:
    """Return whether a question of a run was answered, in its own rows, beside what was noted and asked nobody."""
    rows = journal.columns(journal.run(run_id).run, ("trigger", "outcome"), ("wait", "provide"))
    return (
        sum(1 if trigger == "provide" else -("noted" in orjson.loads(facts)) for trigger, facts in rows) > 0
    )


def _was_asked(journal: JournalReader, run_id: str, name: str) -> bool:
    """Return whether a run has asked the question of this id in a row of its own; not if that row cannot be read any more."""
    seq, head = name.partition("-")[0], journal.run(run_id).head_seq
    if not (seq.isascii() and seq.isdecimal() and len(seq) < 10 and int(seq) <= head):
        return False
    try:
        question = restore_run(journal, run_id, int(seq))[0].waiting_for
    except JournalError:
        return False
    return question is not None and question.id == name


def is_overdue(runner: Runner, run_id: str) -> bool:
    """Return whether the question that a run waits for counts as declined by now."""
    return _timeout_answer(runner, restore_run(runner.journal.reader, run_id)[0]) is not None


def _timeout_answer(runner: Runner, run: Run) -> Answer | None:
    """Return the decline that a run's unanswered question counts as by now, None while it may wait."""
    if run.waiting_for is None or run.spec.limits.elicitation_timeout_s is None:
        return None
    return timeout_answer(run, runner.journal.reader.rows(run.number), runner.clock.now_us())


def answer_of(question: Question, options: AnswerOptions, *, own: bool = False) -> Answer:
    """
    Return what somebody answered as its JSON form says it, so that a crash right after it changes nothing.

    Args:
        question: What the run waits for.
        options: The answer.
        own: Whether a phase of the host's own asks, whose schema holds whatever is answered, an empty answer too.

    Raises:
        InvalidAnswer: It does not fit the question or the question's schema, or has no JSON form.
    """
    given = _answer_of(question, options.get("answer"), options.get("outcome"), options.get("result"))
    reason, actor = options.get("reason"), options.get("actor")
    if reason is not None:
        given = given.model_copy(update={"reason": _words_of("reason", reason, REASON_CHARS)})
    if actor is not None:
        given = given.model_copy(update={"actor": " ".join(_words_of("actor", actor, ACTOR_CHARS).split())})
    try:
        read = Answer.model_validate_json(given.wire_json())
        orjson.dumps(read.content)  # it refuses what no row can hold: a number of hundreds of digits
    except (ValueError, TypeError):  # pydantic's errors for what it cannot write are among them
        raise InvalidAnswer(
            f"a {type(given.content).__name__} like this has no JSON form; {question.message}"
        ) from None
    if problems := _problems(question, read, own=own):
        if is_secret(question.schema):  # a problem quotes what it is about
            problems = ["it is not of the form that the question's schema asks for"]
        raise InvalidAnswer(
            f"the answer does not fit: {'; '.join(problems)}. The question: {question.message}"
        )
    return read


def check_approved(run: Run, kit: RunResources, reply: Answer, scrub: Scrubber, clock: Clock) -> None:
    """
    Refuse an approval with other arguments that no call can be made with; nothing is written, and the question stays open.

    Raises:
        InvalidAnswer: They do not fit the tool, or the policy, a safety rule or the guard against duplicates is against them.
    """
    if reply.arguments is None:
        return
    clean = Answer.model_validate(scrub.of_data(reply.wire()))
    problem = approval_problem(run, kit, clean, clock.now_us())
    if problem is not None:
        raise InvalidAnswer(f"the call cannot be approved with these arguments: {problem}")


def _words_of(name: str, words: object, chars_max: int) -> str:
    if not isinstance(words, str) or not words.strip():
        raise InvalidAnswer(f"the {name} must be a text")
    if len(words) > chars_max:
        raise InvalidAnswer(f"the {name} has {len(words)} characters; at most {chars_max} are kept")
    return clean(words.strip())


def _problems(question: Question, answer: Answer, *, own: bool) -> list[str]:
    """
    Return everything in which an accepted answer does not fit its question's schema.

    An empty answer fits every question but an approval, that of a tool and that of a host's own phase: it says to the planner that nothing was
    given. A schema that is none, which a model may have written, holds nobody to anything.
    """
    schema, empty = question.schema, answer.content in (None, "", {}, [])
    strict = (
        own or question.kind == "approval" or (question.kind == "elicitation" and question.tool is not None)
    )
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
    if question.kind == "approval" and answer.get("approve") is False and "arguments" in answer:
        raise InvalidAnswer('other arguments come with {"approve": true}: a call that is denied has none')
    return Answer(action="accept", content=answer)
