"""
The one loop: request, outcome, decision, row, next run.

It runs live, after a resume and in tests alike. It is a generator without I/O of its own: effects go out, what
they came to comes back. The order is the guarantee: a row is durable before anything that follows from it begins.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec.structs import replace

from ..prompts.model import (
    Model,
    ModelCall,
    ModelUnavailable,
    Reply,
    estimated_usage,
    prompt_bytes,
    request_label,
)
from ..states.actions import Intent, StoredText
from ..states.budgets import allowance, refusal, reservation, time_left_s
from ..states.errors import AnswerNeeded, EffectUnknown, InternalError, NotStarted, ToolError
from ..states.events import Event, RunWaiting, StepCompleted, TransitionTaken
from ..states.outcomes import (
    NO_USAGE,
    Cancelled,
    Ended,
    InDoubt,
    ModelFault,
    Nought,
    Outcome,
    Recalled,
    Replied,
    Unaffordable,
)
from ..states.phase import EXECUTING, FINAL
from ..states.requests import ModelRequest, Nothing, Recall, Request, ToolRequest
from ..states.run import Run
from ..states.waiting import Answer, Asking
from ..tools.files import outside
from ..tools.tool import Resumption, Tool
from .call_ledger import CallLedger
from .cancelling import BrokenOff
from .committer import Entry
from .context import CallContext, Loader
from .effects import AskModel, Commit, Effect, EffectPending, Emit, Reconcile, Returned, UseTool
from .fold import apply
from .journal import Journal
from .journal_rows import document_row
from .kit import Kit
from .logs import log_transition
from .machine import Decision, Moment, decide, request_of
from .observe import cut, line
from .outputs import ERROR_CHARS, asked_by, error_of, is_empty, output_of, result_of, told_by
from .payloads import JSON, Stager
from .ports import Clock
from .record import Record, canonical, chained, counters_text, record_of

Steps = Generator[Effect, Any, None]


@dataclass(slots=True)
class Drive:
    """
    One driver's hold on one run.

    Attributes:
        run: As of the last durable row.
        head: Hash of that row.
        fence: The lease's token.
        kit, model, tools, connections: What the run is decided and performed with.
        stager: Payloads of the next row.
        journal, clock: Ports.
        mark_us: Active clock at the last row.
        resumed: Whether an effect that is pending was begun by another driver.
        cancelled: Whether somebody asked to cancel.
        listening: Whether anybody wants events.
        amended: Payload that amends the run's spec, to be named by the next row.
        accepting: Whether what the engine has changed since is accepted, for the tasks of a workflow too.
        first: Number of the first row that this driver may write.
    """

    run: Run
    head: bytes
    fence: int
    kit: Kit
    model: Model
    tools: dict[str, Tool]
    connections: dict[str, Any]
    stager: Stager
    journal: Journal
    clock: Clock
    mark_us: int
    resumed: bool = False
    cancelled: bool = False
    listening: bool = False
    amended: StoredText | None = None
    accepting: bool = False
    first: int = 0
    load: Loader = field(default=lambda first, count: [])


def steps(drive: Drive) -> Steps:
    """Drive the run until it ends or waits; yields effects, is sent what they came to."""
    while (run := drive.run).state not in FINAL and (run.memory.question is None or drive.cancelled):
        if drive.cancelled:  # also when its last row is a wait: nobody is to be asked any more
            yield from cancelled(drive)
            continue
        request = request_of(run)
        if isinstance(request, ModelRequest):
            asked, outcome = yield from _ask(drive, request)
        elif isinstance(request, ToolRequest):
            asked, outcome = yield from _use(drive, request.intent)
        else:
            asked, outcome = _known(drive, request)
        yield from transition(drive, asked, outcome, request)


def cancelled(drive: Drive) -> Steps:
    """End the run, between two calls: only one that another driver began, or that waits for its outcome, is in doubt."""
    intent, question = drive.run.memory.intent, drive.run.waiting_for
    begun = drive.resumed if question is None else question.kind == "in_doubt"
    doubt = drive.run.state == EXECUTING and begun and intent is not None and intent.effect == "once"
    yield from transition(drive, {"kind": "none"}, Cancelled(doubt))


def _known(drive: Drive, request: Nothing | Recall) -> tuple[dict[str, Any], Outcome]:
    """Return what the row says of a request that needs nobody, and what it came to."""
    if isinstance(request, Recall):
        bodies = [_recalled(drive, place) for place in request.payloads]
        texts = tuple(body if isinstance(body, str) else None for body in bodies)
        return {"kind": "recall", "payloads": [place.n for place in request.payloads]}, Recalled(texts)
    reply = drive.run.memory.reply
    if drive.run.state == EXECUTING and reply is not None:
        return {"kind": "none"}, _reconciled(drive, reply.action, reply.content)
    return {"kind": "none"}, Nought()


def _recalled(drive: Drive, place: StoredText) -> str | bytes | None:
    """Return a payload's body: the last row's from memory, any other from the journal, held to its digest."""
    if place.n in drive.stager.recent:
        return drive.stager.recent[place.n]
    return drive.journal.intact(drive.run.number, place.n, place.digest)


def _ask(drive: Drive, request: ModelRequest) -> Generator[Effect, Any, tuple[dict[str, Any], Outcome]]:
    run, kind, stager = drive.run, request.kind, drive.stager
    messages = drive.kit.messages(kind, run)
    asked: dict[str, Any] = {
        "kind": kind,
        "model": drive.model.name,
        "prompt": [
            stager.reference(
                stager.stage_constant(message.text)
                if message.role == "system"
                else stager.stage(message.text)
            )
            for message in messages
        ],
    }
    if request.attempt:
        asked["attempt"] = request.attempt
    limits, size = run.spec.limits, 0
    if limits.reply_tokens is not None or limits.token_budget is not None:
        size = prompt_bytes(messages)
    if limits.reply_tokens is not None:
        wanted = reservation(limits, run.counters, size)
        asked["reserved"] = wanted.tokens
        if not run.counters.formatted and (short := refusal(limits, run.counters, wanted)) is not None:
            return asked, Unaffordable(short)
    schema, allowed = drive.kit.reply_schema(kind, run), allowance(limits, run.counters, size)
    call = ModelCall(
        kind,
        messages,
        run.counters.calls,
        schema,
        time_left_s(run),
        max_tokens=allowed.reply,
        tokens_left=allowed.left,
        run_id=run.run_id,
        seq=run.seq,
        step=run.counters.step,
    )
    answer = yield AskModel(run.number, drive.model, call, _place(drive))
    if isinstance(answer, BrokenOff):
        return asked, Cancelled()
    if isinstance(answer, Reply):
        usage = answer.usage or estimated_usage(call, answer.text)
        if usage.calls != 1:
            usage = replace(usage, calls=1)
        payload = stager.stage(answer.text)
        request_id = request_label(answer.request_id) if answer.request_id is not None else None
        return asked, Replied(answer.text, payload, answer.finish, usage, request_id, answer.attempts)
    return asked, _fault(drive, answer)


def _place(drive: Drive) -> tuple[str, int] | None:
    """Return run and number of the next row for events of a call, None when nobody wants them."""
    return (drive.run.run_id, drive.run.seq) if drive.listening else None


def _fault(drive: Drive, error: object) -> ModelFault:
    if isinstance(error, ModelUnavailable):
        fault = error
    else:
        fault = ModelUnavailable("unexpected", f"{type(error).__name__}: {told_by(error)}")
    payload = drive.stager.stage(fault.message)
    usage = fault.usage if fault.usage is not None else NO_USAGE
    return ModelFault(fault.code, fault.message, payload, usage, fault.request_id)


def _use(drive: Drive, intent: Intent) -> Generator[Effect, Any, tuple[dict[str, Any], Outcome]]:
    run = drive.run
    asked = {"kind": "tool", "tool": intent.tool, "effect": intent.effect}
    tool = drive.tools.get(intent.tool)
    if tool is None or tool.run is None:
        error = RuntimeError(f"the tool {intent.tool} is not there any more")
        return asked, Ended(error_of(intent, error))
    resumed, drive.resumed = drive.resumed, False
    sure = False
    if resumed and intent.effect == "once":
        settled = yield from _settled(drive, tool, intent)
        if settled is not None:
            return asked, settled
        sure = True
    context = _context(drive, intent)
    if drive.journal.leases.watch.asked(run.number):
        return {"kind": "none"}, Cancelled()
    if (reason := outside(run.spec.policy, intent.arguments)) is not None:
        return asked, Ended(
            replace(error_of(intent, ToolError(reason), code="unsafe_parameters"), retryable=False)
        )
    context.resumption = _resumption(drive)
    came_to = yield UseTool(run.number, tool, intent.arguments, context, _place(drive))
    if isinstance(came_to, EffectPending):
        return asked, InDoubt("task_pending")
    if isinstance(came_to, BrokenOff):
        used = context.ledger.usage, tuple(context.texts), tuple(context.request_ids)
        return asked, Cancelled(intent.effect == "once", *used)
    if isinstance(came_to, AnswerNeeded):
        try:
            return asked, asked_by(came_to, run.spec.limits, drive.stager)
        except Exception as error:  # a tool may ask in any form
            came_to = error
    if isinstance(came_to, EffectUnknown) and intent.effect == "once":
        told = cut(line(told_by(came_to)), ERROR_CHARS)
        if tool.reconcile is None:
            return asked, InDoubt("tool_unsure", told, drive.stager.stage(told))
        settled = yield from _settled(drive, tool, intent)
        if settled is not None:
            return asked, settled
        came_to = NotStarted(told)
    if isinstance(came_to, Returned):
        result = result_of(
            intent,
            came_to.value,
            first=run.counters.documents,
            limits=run.spec.limits,
            stager=drive.stager,
        )
        if run.memory.plan is not None and intent.effect != "once" and result.ok and is_empty(came_to.value):
            result = replace(result, retryable=True)
    else:
        result = error_of(intent, came_to)
    return asked, Ended(
        result,
        context.ledger.usage,
        tuple(context.texts),
        "not_done" if sure else "",
        tuple(context.request_ids),
    )


def _resumption(drive: Drive) -> Resumption | None:
    """Return what the call has asked before, with the answer; None when it has asked nothing."""
    memory = drive.run.memory
    if memory.asked is None or memory.answered is None:
        return None
    asked, answered = (_recalled(drive, place) for place in (memory.asked, memory.answered))
    if not isinstance(asked, str) or not isinstance(answered, str):
        return None  # erased
    answer = Answer.model_validate_json(answered)
    again = memory.reply is not None and memory.reply.action == "retry"
    return Resumption(
        state=Asking.model_validate_json(asked).state,
        accepted=answer.action == "accept",
        content=answer.content,
        again=again,
    )


def _context(drive: Drive, intent: Intent) -> CallContext:
    """Return what the call may know and ask."""
    run = drive.run
    selection = run.memory.selection
    label = selection.connection if selection is not None else None
    return CallContext(
        run,
        intent,
        kit=drive.kit,
        model=drive.model,
        stager=drive.stager,
        load=drive.load,
        connection=drive.connections.get(label) if label is not None else None,
        ledger=CallLedger(
            run.spec.limits,
            run.counters,
            elapsed_us=lambda: drive.clock.active_us() - drive.mark_us,
            is_cancelled=lambda: bool(drive.journal.leases.watch.asked(run.number)),
        ),
    )


def _settled(drive: Drive, tool: Tool, intent: Intent) -> Generator[Effect, Any, Outcome | None]:
    """
    Return what is known of a once effect that another driver began; None when it certainly did not happen.

    The tool's own reconciliation decides; without one, or when it cannot say, the effect is in doubt.
    """
    if tool.reconcile is None:
        return InDoubt("driver_lost")
    came_to = yield Reconcile(drive.run.number, tool, intent.idempotency_key)
    if isinstance(came_to, BrokenOff):
        return Cancelled(in_doubt=True)
    if not isinstance(came_to, Returned):
        told = cut(line(f"{type(came_to).__name__}: {told_by(came_to)}"), ERROR_CHARS)
        return InDoubt("reconcile_failed", told, drive.stager.stage(told))
    try:
        output_of(came_to.value)
    except (Exception, SystemExit):  # a value that no journal can hold says nothing
        return InDoubt("reconcile_unreadable")
    if came_to.value is not None:
        return _reconciled(drive, "done", came_to.value, asked="done")
    own = intent.idempotency_key.startswith(f"{drive.run.run_id}-")
    return None if own else InDoubt("shared_intent")  # a fork's parent may be about to do it


def _reconciled(drive: Drive, action: str, content: Any, asked: Literal["", "done"] = "") -> Ended:
    """Return the outcome that a reconciliation gives to an effect in doubt, the tool's own (*asked*) or a person's."""
    run, intent = drive.run, drive.run.memory.intent
    assert intent is not None, "only an effect can be reconciled"
    if action == "fail":
        text = content if isinstance(content, str) and content else "the effect did not happen"
        return Ended(replace(error_of(intent, RuntimeError(text), code="reconciled"), retryable=False))
    first = run.counters.documents
    result = result_of(intent, content, first=first, limits=run.spec.limits, stager=drive.stager)
    return Ended(result, reconciled=asked)


def transition(
    drive: Drive, asked: dict[str, Any], outcome: Outcome, request: Request | None = None
) -> Steps:
    """Decide, commit and apply one transition; the drive stands after it once the row is durable."""
    run = drive.run
    active = drive.clock.active_us()
    moment = Moment(drive.clock.now_us(), max(0, active - drive.mark_us))
    drive.mark_us = active
    if drive.amended is not None:
        asked, drive.amended = {**asked, "spec": drive.amended.wire()}, None
    decision = _decided(drive, outcome, moment, request)
    row, counters = decision.row, decision.counters
    change = drive.stager.stage(decision.change.wire_json(), JSON, always=True)
    after = apply(
        run,
        trigger=row.trigger,
        dest=row.dest,
        counters=counters,
        change=decision.change,
        outcome=decision.facts,
    )
    values = (
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
    head = chained(drive.head, values)
    entry = _entry(drive, record_of((*values, drive.head, head)))
    yield Commit(entry)
    drive.cancelled = drive.cancelled or entry.cancelled
    drive.run, drive.head = after, head
    log_transition(run, decision, after)
    if drive.listening:
        for event in _events(decision, after):
            yield Emit(event)


def _decided(drive: Drive, outcome: Outcome, moment: Moment, request: Request | None) -> Decision:
    """Return the decision; a cancel that was asked for before an end is written counts, with the last request's usage."""
    run = drive.run
    decision = decide(run, outcome, moment, drive.kit, request)
    late = decision.row.dest in FINAL and not isinstance(outcome, Cancelled)
    if late and drive.journal.leases.watch.asked(run.number):
        return decide(run, Cancelled(usage=outcome.usage), moment, drive.kit, request)
    return decision


def _entry(drive: Drive, record: Record) -> Entry:
    documents: list[tuple[object, ...]] = []
    result = drive.run.memory.result
    if record.trigger == "observe" and result is not None:
        documents = [document_row(drive.run.number, document) for document in result.documents]
    return Entry(record, drive.stager.taken(), documents, drive.fence)


def _events(decision: Decision, run: Run) -> list[Event]:
    counters, memory, row = run.counters, run.memory, decision.row
    events: list[Event] = [
        TransitionTaken(
            run.run_id,
            run.seq - 1,
            row.trigger,
            row.source,
            row.dest,
            counters.step,
            run.spec.limits.max_steps,
            counters.tokens_in + counters.tokens_out,
            detail_of(decision, run),
        )
    ]
    if row.trigger == "observe":
        if not memory.history:
            raise InternalError(f"run {run.run_id}: observed without a message")
        last = memory.history[-1]
        events.append(
            StepCompleted(
                run.run_id, last.step, last.action, last.tool, last.label, last.success, last.summary
            )
        )
    if memory.question is not None and row.trigger == "wait":
        events.append(RunWaiting(run.run_id, memory.question))
    return events


def detail_of(decision: Decision, run: Run) -> str:
    """Return one line on a transition for people: the action, the reason, what was wrong."""
    change = decision.change
    if change.selection:
        return f"{change.selection.tool}: {change.selection.objective}".rstrip(": ")
    if change.intent:
        return change.intent.tool
    if change.message:
        return change.message.summary
    if change.feedback:
        return change.feedback
    if change.result:
        count = len(change.result.documents)
        return change.result.error or f"{count} document{'' if count == 1 else 's'}"
    if change.refinement:
        return change.refinement.reason
    if change.review:
        return change.review.status
    if change.question:
        return change.question.message
    return run.counters.stop
