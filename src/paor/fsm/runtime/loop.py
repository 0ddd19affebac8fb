"""
The one loop: request, outcome, decision, row, next run.

It runs live, after a resume and in tests alike. It is a generator without I/O of its own: effects go out, what
they came to comes back. The order is the guarantee: a row is durable before anything that follows from it begins.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from hashlib import sha256
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from ...prompts.building.conversation import parts_text
from ...prompts.clients.settings import said_scrubber
from ...prompts.model import (
    Model,
    ModelCall,
    ModelUnavailable,
    PromptMessage,
    Reply,
    estimated_usage,
    prompt_bytes,
    reasoning_tokens,
    request_label,
)
from ...prompts.parsing.replies import Invalid
from ...states.base.errors import OUTDATED, JournalTooOld
from ...states.base.sealed import sealed
from ...states.records.actions import StoredText
from ...states.records.observations import cut
from ...states.records.outcomes import (
    NO_USAGE,
    Answered,
    Cancelled,
    ModelFault,
    NoOutcome,
    Outcome,
    Recalled,
    Replied,
    Unaffordable,
)
from ...states.records.questions import Answer
from ...states.records.requests import (
    NOTHING,
    ModelRequest,
    Nothing,
    Recall,
    Request,
    RequestKind,
    ToolRequest,
)
from ...states.run.budgets import (
    Allowance,
    allowance,
    is_reckoned,
    may_call,
    reply_limit,
    reservation,
    shortage,
    time_left_s,
)
from ...states.run.counters import counters_text
from ...states.run.phase_names import EXECUTING, FINAL
from ...states.run.state import Run
from ..decision.guard_context import NO_VALUES
from ..decision.interpret import completion_review
from ..decision.run_resources import RunResources
from ..journal.backend import Entry
from ..journal.cancel_requests import Interrupted
from ..journal.payloads import JSON, recalled_text
from ..journal.prompts import last_prompt
from ..journal.record import Row, canonical, row_text
from ..journal.rows import document_row
from ..machine.decide import Moment, decide, machine_of, request_of
from ..machine.fold import applied
from ..machine.properties import happened
from ..machine.summary import ASKED, after, asking
from ..machine.updates import Decision
from .effects import AskHost, AskModel, Commit, Effect, Emit
from .logs import log_transition
from .ports import VERDICT_CHARS, type_refusal, values_text, verdict_text
from .row_events import is_last, row_events
from .run_context import LastPrompt, RunContext, place_of_next, recall, text_of
from .tool_calls import drop_together, looks_only, reconcile_outcome, use
from .tool_results import message_of

Steps = Generator[Effect, Any, None]


def steps(drive: RunContext) -> Steps:
    """Drive the run until it ends or waits; yields effects, is sent what they came to."""
    while (run := drive.run).state not in FINAL and (run.memory.question is None or drive.cancelled):
        if drive.cancelled:  # also when its last row is a wait: nobody is to be asked any more
            yield from cancel_steps(drive)
            continue
        found, request = drive.next or (None, None)
        if found is not run or request is None:
            request = request_of(run)
        if isinstance(request, ModelRequest):
            if drive.together is not None:
                yield from drop_together(drive)
            yield from _ask_behind(drive, request)
            continue
        if isinstance(request, ToolRequest):
            asked, outcome = yield from use(drive, request.intent)
        else:
            asked, outcome = _known_outcome(drive, run, request)
        yield from transition(drive, asked, outcome, request)


def cancel_steps(drive: RunContext) -> Steps:
    """End the run, between two calls: only one that another driver began, or that waits for its outcome, is in doubt."""
    intent, question = drive.run.memory.intent, drive.run.waiting_for
    begun = drive.resumed if question is None else question.kind == "in_doubt"
    begun = begun or looks_only(drive)
    doubt = drive.run.state == EXECUTING and begun and intent is not None and intent.effect == "once"
    yield from transition(drive, {"kind": "none"}, Cancelled(doubt))


def _known_outcome(drive: RunContext, run: Run, request: Nothing | Recall) -> tuple[dict[str, Any], Outcome]:
    """Return the recorded request and outcome of a step that performs no I/O."""
    if run.memory.question is not None:  # what its tool has begun is noted, and nobody is asked
        answer = Answer(action="accept", content={})
        return {"kind": "none"}, Answered(answer, drive.stager.stage(answer.wire_json(), JSON))
    if isinstance(request, Recall):
        bodies = [recall(drive, place) for place in request.payloads]
        texts = tuple(recalled_text(body, run.spec.revision) for body in bodies)
        numbers = [place.n for place in request.payloads]
        return {"kind": "recall", "payloads": numbers}, Recalled(texts, tuple(numbers))
    reply = run.memory.reply
    if run.state == EXECUTING and reply is not None:
        # the call that another driver began is settled; the next one is this driver's own
        drive.resumed = False
        return {"kind": "none"}, reconcile_outcome(drive, reply.action, reply.content)
    return {"kind": "none"}, NoOutcome()


def _ask_behind(drive: RunContext, request: ModelRequest) -> Steps:
    """Ask a model, before that for a summary where the conversation has become too long, and take the row."""
    run, summary, beside = drive.run, None, dict[str, Any]()
    if run.spec.limits.compaction == "model" and (block := asking(run, request, drive.kit)) is not None:
        begun = drive.clock.active_us()
        beside, summary = yield from _ask(drive, block, ASKED)
        if isinstance(summary, Cancelled):
            yield from transition(drive, {"kind": "none"}, summary)
            return
        run, _, _ = after(run, summary, drive.kit)
        took = max(0, drive.clock.active_us() - begun)
        run = replace(run, counters=replace(run.counters, time_us=run.counters.time_us + took))
        beside = {"summary": beside}
    asked, outcome = yield from _ask(drive, run, request)
    yield from transition(drive, asked | beside if beside else asked, outcome, request, summary)


def _ask(
    drive: RunContext, run: Run, request: ModelRequest
) -> Generator[Effect, Any, tuple[dict[str, Any], Outcome]]:
    kind, stager = request.kind, drive.stager
    if run.spec.is_outdated:
        raise JournalTooOld(OUTDATED.format(run.run_id))
    model = _model_of(drive)
    messages = drive.kit.messages(kind, run, partial(text_of, drive), model.name)
    stable = drive.kit.stable(kind, run, len(messages))
    asked: dict[str, Any] = {"kind": kind, "model": model.name, **_prompt(drive, kind, messages, stable)}
    if request.attempt:
        asked["attempt"] = request.attempt
    limits, allowed = run.spec.limits, Allowance()
    if is_reckoned(limits):
        size = prompt_bytes(messages, drive.kit.offered(kind, run))
        wanted = reservation(limits, run.counters, size)
        if limits.reply_tokens is not None:
            asked["reserved"] = wanted.tokens
        if (short := shortage(run, wanted)) is not None:
            return asked, Unaffordable(short)
        allowed = allowance(limits, run.counters, size)
    shown = drive.shown.of(model, messages, stable, partial(recall, drive))
    began = stable + len(shown) - len(messages) if stable else 0
    call = model_call(drive.kit, run, kind, shown, allowed, reasoning_tokens(model), began)
    answer = yield AskModel(run.number, model, call, place_of_next(drive))
    if isinstance(answer, Interrupted):
        return asked, Cancelled()
    if isinstance(answer, Reply):
        usage = answer.usage or estimated_usage(call, answer.text, drive.shown.characters)
        if usage.calls != 1:
            usage = replace(usage, calls=1)
        payload = stager.stage(answer.text)
        request_id = request_label(answer.request_id) if answer.request_id is not None else None
        parts = stager.stage(parts_text(answer.parts, answer.api), JSON) if answer.parts else None
        refused = yield from _verdict(drive, answer) if kind == "review" else ()
        place = payload, answer.finish, usage, request_id, answer.attempts, parts, model.name
        return asked, Replied(answer.text, *place, refused)
    return asked, _fault(drive, answer)


def model_call(
    kit: RunResources,
    run: Run,
    kind: RequestKind,
    shown: tuple[PromptMessage, ...],
    allowed: Allowance,
    reasoning: int,
    stable: int = 0,
) -> ModelCall:
    """
    Return a request of a run as its model gets it.

    Args:
        kit, run: Of the request.
        kind: What is asked.
        shown: Its messages, with pictures or words for them.
        allowed: What the budgets leave for it.
        reasoning: Tokens that the model may use to reason, see `reasoning_tokens`.
        stable: With how many of *shown* the next request begins, too.
    """
    tools, own = kit.offered(kind, run), kind in ("turn", "plan")
    return ModelCall(
        kind,
        shown,
        run.spec.asked_before + run.counters.calls,
        kit.reply_schema(kind, run),
        time_left_s(run),
        max_tokens=reply_limit(run.spec.limits, kind, allowed.reply, reasoning),
        tokens_left=allowed.left,
        run_id=run.run_id,
        seq=run.seq,
        step=run.counters.step,
        tools=tools,
        may_call=own and may_call(run),
        reads=kit.reads if tools else frozenset(),
        stable=stable,
    )


def _verdict(drive: RunContext, answer: Reply) -> Generator[Effect, Any, tuple[str, StoredText] | None]:
    """Return what the host's type says against the output of a completion review; None where it takes it, or is not asked."""
    run, own = drive.run, drive.output_type
    if own is None or isinstance(own, Mapping) or run.spec.output_schema is None:
        return None
    review = completion_review(run, answer.text, answer.finish, drive.kit)
    if isinstance(review, Invalid) or review.status != "success":
        return None
    said = verdict_text(run, (yield AskHost(partial(type_refusal, own, review.answer or ""))))
    if said is None:
        return None
    text = cut(drive.scrubber.of_said(said), VERDICT_CHARS)
    return text, drive.stager.stage(text)


def _prompt(
    drive: RunContext, kind: RequestKind, messages: tuple[PromptMessage, ...], stable: int
) -> dict[str, Any]:
    """
    Return how a row refers to a prompt: its messages, without those with which the run's last prompt began, too.

    Where a conversation only grows, a row names its new messages alone, however long the conversation is.
    """
    run = drive.run
    if not stable:
        return {"prompt": drive.stager.stage_messages([message.body for message in messages])}
    if drive.prompt is None:
        drive.prompt = LastPrompt(*last_prompt(drive.journal.reader, run))
    seq, before, begin = drive.prompt
    count = len(begin) if messages[: len(begin)] == begin else 0  # mostly the same objects, so this is quick
    while count < min(len(before), len(messages)) and before[count] == messages[count].body:
        count += 1
    fresh = [message.body for message in messages[count:]]
    if kind != "summary":  # which is none of the row's own
        drive.prompt = LastPrompt(run.seq, before[:count] + fresh, messages[:stable])
    told: dict[str, Any] = {"after": [seq, count]} if count else {}
    told["roles"] = "".join(message.role[0] for message in messages[count:])
    return told | {"prompt": drive.stager.stage_messages(fresh)}


def _model_of(drive: RunContext) -> Model:
    """Return the model that the run's phase asks: the run's, or the phase's own."""
    if not drive.kit.own_machine:
        return drive.model
    phase = machine_of(drive.run, drive.kit).host.phases.get(drive.run.state)
    own: Model | None = phase.model if phase is not None and not isinstance(phase.model, str) else None
    return own if own is not None else drive.model


def _fault(drive: RunContext, error: object) -> ModelFault:
    if isinstance(error, ModelUnavailable):
        fault = error
    else:
        fault = ModelUnavailable("unexpected", f"{type(error).__name__}: {message_of(error, drive.model)}")
    payload = drive.stager.stage(fault.message)
    usage = fault.usage if fault.usage is not None else NO_USAGE
    return ModelFault(fault.code, fault.message, payload, usage, fault.request_id)


class _Row(Struct, frozen=True):
    """A transition that was decided: the run before and after it, what it came from, and what is written of it."""

    run: Run
    decision: Decision
    outcome: Outcome
    after: Run
    entry: Entry
    head: bytes


def transition(
    drive: RunContext,
    asked: dict[str, Any],
    outcome: Outcome,
    request: Request | None = None,
    summary: Outcome | None = None,
) -> Steps:
    """
    Decide, commit and apply one transition; the drive stands after it once the row is durable.

    Where the next one needs nobody, it is decided at once, and both rows stand in one transaction.
    """
    run = drive.run
    moment = _moment(drive)
    if drive.amended is not None:
        asked, drive.amended = {**asked, "spec": drive.amended.wire()}, None
    fresh: Mapping[str, Any] = NO_VALUES
    if drive.kit.own_machine:
        asked, fresh = yield from _host_values(drive, asked)
    decision = _decide(drive, run, outcome, moment, request, fresh, summary)
    row = _row(drive, run, asked, outcome, moment, decision)
    request = _at_once(drive, row)
    if request is None:
        yield from _commit(drive, row)
        return
    run = row.after
    try:
        asked, outcome = _known_outcome(drive, run, request)
        moment = _moment(drive)
        decision = _decide(drive, run, outcome, moment, request)
    except BaseException:
        # whatever goes wrong now: what the first row tells has happened, and is written on every way out
        drive.journal.append(row.entry)
        raise
    if decision.row.trigger == "provide" or decision.row.dest not in (EXECUTING, *FINAL):
        yield from _commit(drive, row, _row(drive, run, asked, outcome, moment, decision, row))
        return
    # an intent and an end stand in transactions of their own: whoever stops or cancels the run before them comes in time
    yield from _commit(drive, row)
    if drive.cancelled:
        drive.mark_us -= moment.active_us
        return
    decision = _decide(drive, run, outcome, moment, request)
    yield from _commit(drive, _row(drive, run, asked, outcome, moment, decision))


def _moment(drive: RunContext) -> Moment:
    """Return the time, and how much of it has passed since the last row."""
    active = drive.clock.active_us()
    moment = Moment(drive.clock.now_us(), max(0, active - drive.mark_us))
    drive.mark_us = active
    return moment


def _row(
    drive: RunContext,
    run: Run,
    asked: dict[str, Any],
    outcome: Outcome,
    moment: Moment,
    decision: Decision,
    before: _Row | None = None,
) -> _Row:
    """Return what is written of a transition, after the row *before* where that is not written yet."""
    # staged last: forks and `verify` take `change.n + 1` for the number of payloads up to this row, so one that was staged
    # after it would belong to no row, and a fork would give its number to a payload of its own
    change = drive.stager.stage(decision.change_text, JSON, always=True)
    if drive.promises is not None:
        drive.promises.note(happened(run, decision))
    after = applied(run, decision, moment.at_us)
    values = _columns(run, moment, decision, asked, change)
    prev = drive.head if before is None else before.head
    text = row_text(values)
    head = sha256(prev + text).digest()
    entry = Entry(
        run.number,
        run.seq,
        text,
        head,
        drive.stager.taken(),
        _documents(run, decision.row.trigger),
        drive.fence,
        before.entry if before is not None else None,
    )
    return _Row(run, decision, outcome, after, entry, head)


def _columns(run: Run, moment: Moment, decision: Decision, asked: dict[str, Any], change: StoredText) -> Row:
    """Return a row's columns that are hashed, and before them the run's number."""
    row, counters = decision.row, decision.counters
    return (
        run.number,
        run.seq,
        moment.at_us,
        row.trigger,
        row.source,
        row.dest,
        canonical(decision.guards),
        canonical(asked),
        canonical(decision.facts),
        f'{{"digest":"{change.digest}","n":{change.n}}}',
        counters.step,
        counters.action,
        counters.retries,
        counters.tokens_in,
        counters.tokens_out,
        counters.cost_micro,
        counters.time_us,
        counters_text(counters),
    )


def _documents(run: Run, trigger: str) -> list[tuple[object, ...]]:
    """Return the rows of `documents` that a row brings: those of the result that it observes."""
    if trigger != "observe" or run.memory.result is None:
        return []
    return [document_row(document) for document in run.memory.result.documents]


def _at_once(drive: RunContext, row: _Row) -> Nothing | Recall | None:
    """
    Return the request of the next row where it needs nobody, so that both can be written together; else None.

    Not what a person has answered, and not the outcome of a call that must not be made twice: these are durable at once. Not
    in a host's own machine, whose functions may be slow or fail.
    """
    run, after = row.run, row.after
    if after.state in FINAL or type(row.outcome) is Answered:
        return None
    if after.memory.question is not None:
        return NOTHING if "noted" in row.decision.facts else None
    if drive.kit.own_machine:
        return None
    if run.state == EXECUTING:
        intent = run.memory.intent
        if intent is None or intent.effect == "once":
            return None
    request = request_of(after)
    drive.next = after, request
    return request if isinstance(request, Nothing | Recall) else None


def _commit(drive: RunContext, *rows: _Row) -> Steps:
    """Make rows durable, the last one with those before it, and go on after them; then tell of them."""
    last = rows[-1]
    # everything below comes after the commit: a crash or a lost lease in it must leave no event, log line or effect of a
    # row that is not in the file
    drive.looked = (yield Commit(last.entry)) is True
    drive.cancelled = drive.cancelled or last.entry.cancelled
    before, drive.run, drive.head = drive.run, last.after, last.head
    if drive.run.spec is not before.spec:  # its first phase has chosen the mode or the limits
        drive.kit = RunResources(drive.run.spec, drive.kit.catalog, drive.kit.machine)
    for row in rows:
        log_transition(row.run, row.decision, row.after)
        if drive.heard:
            actor = row.outcome.answer.actor if isinstance(row.outcome, Answered) else None
            place, facts = row.decision.row, row.decision.facts
            events = row_events(row.after, place, row.decision.change, facts, actor)
            if drive.channel is not None:
                drive.channel.tell(row.after.seq - 1, events, last=is_last(place, facts))
            drive.looked = False  # a listener takes its time
            for event in events:
                yield Emit(event)


def _host_values(
    drive: RunContext, asked: dict[str, Any]
) -> Generator[Effect, Any, tuple[dict[str, Any], Mapping[str, Any]]]:
    """Return what the row says of its request, and the host's values where rows that may be tried here want them."""
    run = drive.run
    machine = machine_of(run, drive.kit)
    tried = machine.rows_of(run.state, waiting=run.memory.question is not None)
    if drive.values is None or not any(row.trigger in machine.host.fresh for row in tried):
        return asked, NO_VALUES
    text = values_text(run, (yield AskHost(partial(drive.values, run.run_id, run.state))))
    text = said_scrubber(drive.model, environment=drive.environment).of_said(text)
    return {**asked, "values": drive.stager.stage(text, JSON).wire()}, sealed(orjson.loads(text))


def _decide(
    drive: RunContext,
    run: Run,
    outcome: Outcome,
    moment: Moment,
    request: Request | None,
    fresh: Mapping[str, Any] = NO_VALUES,
    summary: Outcome | None = None,
) -> Decision:
    """Return the decision; a cancel that was asked for before an end is written counts, with the last request's usage."""
    decision = decide(run, outcome, moment, drive.kit, request, fresh=fresh, summary=summary)
    late = decision.row.dest in FINAL and not isinstance(outcome, Cancelled)
    if late and drive.journal.leases.watch.runs_to_cancel(run.number):
        ended = Cancelled(usage=outcome.usage)
        decision = decide(run, ended, moment, drive.kit, request, fresh=fresh, summary=summary)
    if drive.promises is not None:
        drive.promises.check(run, decision)
    return decision
