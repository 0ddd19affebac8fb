"""A call of a tool within the loop: begun, settled after a crash, told what it had asked; and what it came to."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Sequence
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from ...states.base.errors import AnswerNeeded, EffectUnknown, NotStarted, TimedOut, ToolError
from ...states.base.sealed import unsealed
from ...states.records.actions import Intent, ToolResult
from ...states.records.observations import cut
from ...states.records.outcomes import Cancelled, Ended, InDoubt, Outcome
from ...states.records.questions import Answer, Asking
from ...states.run.budgets import shorter, time_left_s
from ...states.run.state import Run
from ...tools.catalog import CONNECTION
from ...tools.documents.files import outside
from ...tools.kept_values import OF_ITS_CLASS
from ...tools.schema.secret_values import marks_in, revealed
from ...tools.tool import Resumption, Tool
from ..decision.observation import line
from ..decision.plan_mode import selection_of
from ..journal.cancel_requests import Interrupted
from .calls import REAL_TIME, EffectPending, Reconcile, Returned, Timing, UseTool
from .effects import Await, BeginTogether, Drop, Effect
from .run_context import RunContext, place_of_next, recall
from .tool_context import Account, CallContext, CallLedger
from .tool_results import ERROR_CHARS, error_of, is_empty, message_of, output_of, question_from, result_of

ROWS_PER_CALL = 4
"""Rows from one call of a reply to the next: execute, observe, next_step, specify."""


def use(drive: RunContext, intent: Intent) -> Generator[Effect, Any, tuple[dict[str, Any], Outcome]]:
    """Return what the row says of the call of *intent*, and what it came to; begun only where that is certainly right."""
    run = drive.run
    asked = {"kind": "tool", "tool": intent.tool, "effect": intent.effect}
    tool = drive.tools.get(intent.tool)
    if tool is None or tool.run is None:
        gone = RuntimeError(f"the tool {intent.tool} is not there any more")
        return asked, Ended(error_of(intent, gone))
    # cleared with the first call: only that one can have been begun by the driver before; the intents of later calls are
    # this driver's own, and must not be taken for effects in doubt
    resumed, drive.resumed = drive.resumed, False
    sure, looked = False, drive.looked
    if resumed and intent.effect == "once" and not looks_only(drive):
        looked = False
        settled = yield from _settle_doubt(drive, tool, intent)
        if settled is None and drive.may_be_made:  # not done, and perhaps about to be
            settled = InDoubt("driver_lost")
        if settled is not None:
            return asked, settled
        sure = True
    # asked after `reconcile`, which may take long: no call begins once a cancel is in the file; the intent's row has just looked
    if not looked and drive.journal.leases.watch.runs_to_cancel(run.number):
        return {"kind": "none"}, Cancelled(intent.effect == "once" and looks_only(drive))
    group = drive.together
    if group is not None and intent.idempotency_key not in group:
        yield from drop_together(drive)
        group = None
    effect = group.begun(intent.idempotency_key) if group is not None else None
    if effect is None:
        told = _told(drive, intent)
        if not isinstance(told, _Told):
            return asked, told
        account = group.account if group is not None else _account(drive)
        made = _call_of(drive, run, tool, intent, told.arguments, account)
        if isinstance(made, Ended):
            return asked, made
        effect = made
        effect.context.resumption = told.resumption
    if group is None and (others := _begun_with(drive, effect)):
        group = drive.together = yield BeginTogether((effect, *others), run.spec.limits.parallel_calls)
    context = effect.context
    # until its row is there: what is left running may take effect when the row could not be written, and the run was left
    leases, kept = drive.journal.leases, effect.is_timed and intent.effect == "once"
    if kept:
        leases.calling(run.number, drive.fence, run.seq - 1)
    came_to = yield effect if group is None else Await(group, effect)
    if kept and not getattr(came_to, "left", False):
        leases.called(run.number, drive.fence)
    context.stage_texts(drive.stager, drive.given)
    if isinstance(came_to, Returned) and _is_not_run(came_to.value):
        name = type(came_to.value).__name__
        came_to = EffectUnknown(f"the tool returned a {name}, of which nobody knows how far it was run")
    if isinstance(came_to, TimedOut | EffectUnknown):
        outcome = yield from _of_unknown_end(drive, tool, intent, context, came_to)
    else:
        outcome = _of_end(drive, intent, context, came_to)
    if sure and isinstance(outcome, Ended) and not outcome.reconciled:
        outcome = replace(outcome, reconciled="not_done")
    return asked, outcome


def _is_not_run(value: object) -> bool:
    """Return whether a value is code that runs only when somebody asks for its results: what it was to do is perhaps not done."""
    return inspect.isgenerator(value) or inspect.isawaitable(value) or inspect.isasyncgen(value)


def _of_end(drive: RunContext, intent: Intent, context: CallContext, came_to: Any) -> Outcome:
    """Return the outcome of a call of which is known what it came to."""
    run = drive.run
    if isinstance(came_to, EffectPending):
        return InDoubt("task_pending")
    if isinstance(came_to, Interrupted):
        used = context.ledger.usage, tuple(context.staged), tuple(context.request_ids)
        return Cancelled(intent.effect == "once", *used, left=came_to.left)
    if isinstance(came_to, AnswerNeeded):
        noted = bool(came_to.looks_only) and not came_to.schema and not looks_only(drive)
        try:
            return question_from(
                came_to, run.spec.limits, drive.stager, drive.model, drive.given, noted=noted
            )
        except Exception as error:  # a tool may ask in any form
            came_to = error
    if not isinstance(came_to, Returned):
        return _ended(context, error_of(intent, came_to, model=drive.model, given=drive.given))
    first, limits = run.counters.documents, run.spec.limits
    result = result_of(
        intent,
        came_to.value,
        first=first,
        limits=limits,
        stager=drive.stager,
        scrub=drive.scrubber,
        model=drive.model,
        given=drive.given,
    )
    if run.memory.plan is not None and intent.effect != "once" and result.ok and is_empty(came_to.value):
        result = replace(result, retryable=True)
    return _ended(context, result)


def _of_unknown_end(
    drive: RunContext,
    tool: Tool,
    intent: Intent,
    context: CallContext,
    came_to: TimedOut | EffectUnknown,
) -> Generator[Effect, Any, Outcome]:
    """Return the outcome of a call that took too long, or cannot say what it did: an error, or of a once effect a doubt."""
    late, left = isinstance(came_to, TimedOut), isinstance(came_to, TimedOut) and came_to.left
    told = cut(line(message_of(came_to, drive.model, drive.given)), ERROR_CHARS) or (
        _time_words(context.timeout_s, drive.run) if late else ""
    )
    error: ToolError = TimedOut(told) if late else came_to
    if intent.effect == "once":
        # what still runs may yet do it, whatever its reconciliation says now
        if tool.reconcile is None or left:
            return InDoubt("deadline" if late else "tool_unsure", told, drive.stager.stage(told), left)
        settled = yield from _settle_doubt(drive, tool, intent)
        if isinstance(
            settled, Ended | Cancelled
        ):  # what the call asked the model is used, whatever became of it
            texts, request_ids = tuple(context.staged), tuple(context.request_ids)
            return replace(settled, usage=context.ledger.usage, texts=texts, request_ids=request_ids)
        if settled is not None:
            return settled
        error = NotStarted(told)
    return _ended(
        context,
        error_of(
            intent, error, code="timeout" if late else "tool_error", model=drive.model, given=drive.given
        ),
        left=left,
    )


def _ended(context: CallContext, result: ToolResult, *, left: bool = False) -> Ended:
    """Return how a call ended, with the requests that it made meanwhile."""
    return Ended(
        result,
        context.ledger.usage,
        tuple(context.staged),
        request_ids=tuple(context.request_ids),
        left=left,
    )


def _bound_of(tool: Tool, run: Run) -> float | None:
    """
    Return the seconds that a call may take, None for no bound: the shorter of the tool's own and the run's.

    Where there is one, the time budget holds too, but not for the final formatting, which is beyond all budgets. A tool
    that calls a run has none: that run has limits of its own.
    """
    if tool.calls_run:
        return None
    bound = shorter(tool.timeout_s, run.spec.limits.tool_timeout_s)
    if bound is None or run.counters.formatted:
        return bound
    return shorter(bound, time_left_s(run))


def _time_words(bound: float | None, run: Run) -> str:
    """Return how long a call was waited for, in the words of an error."""
    if bound is None:
        return "timed out"
    late = bound == time_left_s(run) and not run.counters.formatted
    return f"timed out after {bound:g} s" + (": the time budget is used up" if late else "")


def _timing_of(drive: RunContext) -> Timing:
    """Return how the time of a call with a deadline is told: as the run's clock says, if that says anything."""
    timing: Timing = getattr(drive.clock, "timing", REAL_TIME)
    return timing


class _Told(NamedTuple):
    """What a tool is called with: its arguments, and what it has asked before; secrets are in the place of their marks."""

    arguments: dict[str, Any]
    resumption: Resumption | None


def _told(drive: RunContext, intent: Intent) -> _Told | Outcome:
    """
    Return what the tool is called with; or, where a secret was given to a process that is gone, the question for it.

    An answer to that question holds arguments of the call, and is none that the tool has asked for.
    """
    arguments, before, resumption = intent.arguments, _asked_before(drive), None
    if before is not None:
        asking, answer = before
        content, lost = revealed(answer.content, drive.secrets), _lost(answer.content, drive)
        if asking.state == _AGAIN:
            if answer.action != "accept":
                return Ended(error_of(intent, ToolError("a secret that it needs was not given again")))
            arguments = arguments | {name: value for name, value in content.items() if name not in lost}
        elif lost:
            told, schema = asking.message, asking.answer_schema
            return _asked(drive, AnswerNeeded(told, schema, asking.state, looks_only=asking.looks_only))
        else:
            again = drive.run.memory.reply is not None and drive.run.memory.reply.action == "retry"
            resumption = Resumption(
                unsealed(asking.state), answer.action == "accept", unsealed(content), again=again
            )
    if lost := _lost(arguments, drive):
        if resumption is not None:  # asking again would forget where the tool is
            gone = ToolError(f"the secret for {', '.join(lost)} was given to a process that is gone")
            if intent.effect == "once":
                return InDoubt("tool_unsure", str(gone), drive.stager.stage(str(gone)))
            return Ended(replace(error_of(intent, gone), retryable=False))
        words = f"Give again what nobody keeps, for the call of {intent.tool}: {', '.join(lost)}"
        return _asked(drive, AnswerNeeded(words, _schema_of(drive, intent.tool, lost), _AGAIN))
    arguments = revealed(arguments, drive.secrets)
    if arguments != intent.arguments:
        spec = next(tool for tool in drive.run.spec.tools if tool.name == intent.tool)
        if drive.kit.catalog.schema(spec).check(arguments):  # whose words would quote it
            unfit = ToolError("a secret that was given does not fit its parameter")
            return Ended(replace(error_of(intent, unfit, code="invalid_parameters"), retryable=False))
    return _Told(arguments, resumption)


_AGAIN = {"paor": "secrets are given again"}
"""What stands in place of a tool's own state where not the tool asks."""


def _asked_before(drive: RunContext) -> tuple[Asking, Answer] | None:
    """Return what the call has asked before, with the answer; None when it has asked nothing, and once that is erased."""
    asking, place = _asking(drive), drive.run.memory.answered
    answered = recall(drive, place) if asking is not None and place is not None else None
    if asking is None or not isinstance(answered, str):
        return None
    return asking, Answer.model_validate_json(answered)


def _asking(drive: RunContext) -> Asking | None:
    """Return what the call has asked last; None for nothing, and where it is tried again since what it had begun has failed."""
    memory = drive.run.memory
    text = recall(drive, memory.asked) if memory.asked is not None else None
    asking = Asking.model_validate_json(text) if isinstance(text, str) else None
    failed = memory.reply is None and memory.question is None  # the last row is `retry_step`
    return None if asking is not None and asking.looks_only and failed else asking


def looks_only(drive: RunContext) -> bool:
    """Return whether the call has named what it has begun, so that it is made again without a second effect."""
    asking = _asking(drive)
    return asking is not None and asking.looks_only


def _lost(values: Any, drive: RunContext) -> list[str]:
    """Return in which of *values* there are marks of secrets that this engine was not given."""
    named = values if isinstance(values, dict) else {"answer": values}
    return [
        name for name, value in named.items() if any(mark not in drive.secrets for mark in marks_in(value))
    ]


def _schema_of(drive: RunContext, tool: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the schema of some of a tool's parameters, all required."""
    whole = next(spec.parameters for spec in drive.run.spec.tools if spec.name == tool)
    schema = {key: whole[key] for key in ("$defs", "definitions") if key in whole}
    secret = {"format": "password", "writeOnly": True}
    properties = {name: whole.get("properties", {}).get(name, secret) for name in names}
    return schema | {"type": "object", "properties": properties, "required": list(names)}


def _asked(drive: RunContext, needed: AnswerNeeded) -> Outcome:
    return question_from(needed, drive.run.spec.limits, drive.stager)


def _call_of(
    drive: RunContext, run: Run, tool: Tool, intent: Intent, arguments: dict[str, Any], account: Account
) -> UseTool | Ended:
    """Return the call of *intent*, or how it ends where it must not begin; *run* is in Executing with it."""
    # right before the call: the guards saw only the text of a path, and a link in it may have changed while the run waited
    if (reason := outside(run.spec.call_policy, arguments)) is not None:
        unsafe = error_of(intent, ToolError(reason), code="unsafe_parameters")
        return Ended(replace(unsafe, retryable=False))
    bound = _bound_of(tool, run)
    if bound == 0:
        error = ToolError("not started: the time budget is used up")
        return Ended(replace(error_of(intent, error, code="timeout"), retryable=False))
    selection = run.memory.selection
    label = intent.arguments.get(CONNECTION) or (selection.connection if selection is not None else None)
    context = CallContext(
        run,
        intent,
        kit=drive.kit,
        model=drive.model,
        load=drive.load,
        connection=drive.connections.get(label) if isinstance(label, str) else None,
        deps=drive.deps,
        ledger=CallLedger(account),
        timeout_s=bound,
        traceparent=drive.traceparent(run) if drive.traceparent is not None else "",
    )
    place = place_of_next(drive)
    return UseTool(run.number, tool, arguments, context, place, bound, _timing_of(drive))


def _begun_with(drive: RunContext, first: UseTool) -> list[UseTool]:
    """
    Return the calls that are begun together with the *first*: those that its row names, as far as they can begin now.

    None where the clock tells the time of calls itself: one that is made for tests, which makes them in turn. A model that answers
    by the number of a request is asked in the order of the calls, so only the first of them may ask it.
    """
    run, calls = drive.run, list[UseTool]()
    asked_in_order = getattr(drive.model, "answers_in_order", False)
    for number, intent in enumerate((run.memory.ahead or ()) if first.timing is REAL_TIME else (), 1):
        tool = drive.tools.get(intent.tool)
        if tool is None or tool.run is None or (asked_in_order and tool.takes_context):
            continue
        then = _run_at(run, number, intent)
        if _lost(intent.arguments, drive):
            continue
        arguments = revealed(intent.arguments, drive.secrets)
        call = _call_of(drive, then, tool, intent, arguments, first.context.ledger.account)
        if isinstance(call, UseTool):
            calls.append(call)
    return calls


def _run_at(run: Run, number: int, intent: Intent) -> Run:
    """Return *run* as far as the call of *intent*, *number* calls ahead, can see it: where it would be in its turn."""
    counters, plan = run.counters, run.memory.plan
    assert plan is not None, "calls ahead are steps of a plan"
    return replace(
        run,
        seq=run.seq + number * ROWS_PER_CALL,
        counters=replace(
            counters,
            step=counters.step + number,
            action=counters.action + number,
            plan_step=counters.plan_step + number,
        ),
        memory=replace(
            run.memory, selection=selection_of(plan.steps[counters.plan_step + number], run), intent=intent
        ),
    )


def drop_together(drive: RunContext) -> Generator[Effect, Any, None]:
    """Give up what of the calls that were begun together nobody asks for any more."""
    if drive.together is not None:
        yield Drop(drive.together)
        drive.together = None


def _account(drive: RunContext) -> Account:
    """Return what the calls that are made now use together."""
    run, clock, mark_us = drive.run, drive.clock, drive.mark_us
    return Account(
        run.spec.limits,
        run.counters,
        elapsed_us=lambda: clock.active_us() - mark_us,
        is_cancelled=lambda: bool(drive.journal.leases.watch.runs_to_cancel(run.number)),
    )


def _settle_doubt(drive: RunContext, tool: Tool, intent: Intent) -> Generator[Effect, Any, Outcome | None]:
    """
    Return what is known of a once effect that another driver began; None when it certainly did not happen.

    The tool's own reconciliation decides; without one, or when it cannot say, the effect is in doubt.
    """
    if tool.reconcile is None:
        return InDoubt("driver_lost")
    bound = shorter(tool.timeout_s, drive.run.spec.limits.tool_timeout_s)
    came_to = yield Reconcile(drive.run.number, tool, intent.idempotency_key, bound, _timing_of(drive))
    if isinstance(came_to, Interrupted):
        return Cancelled(in_doubt=True, left=came_to.left)
    if isinstance(came_to, TimedOut):
        told = (
            message_of(came_to, drive.model, drive.given)
            or f"it was asked and did not answer within {bound:g} s"
        )
        told = cut(line(told), ERROR_CHARS)
        return InDoubt("reconcile_failed", told, drive.stager.stage(told), came_to.left)
    if not isinstance(came_to, Returned):
        told = cut(
            line(f"{type(came_to).__name__}: {message_of(came_to, drive.model, drive.given)}"), ERROR_CHARS
        )
        return InDoubt("reconcile_failed", told, drive.stager.stage(told))
    try:
        output_of(came_to.value)
    except OF_ITS_CLASS:  # a value that no journal can hold says nothing
        return InDoubt("reconcile_unreadable")
    if came_to.value is not None:
        return reconcile_outcome(drive, "done", came_to.value, asked="done")
    own = intent.idempotency_key.startswith(f"{drive.run.run_id}-")
    return None if own else InDoubt("shared_intent")  # a fork's parent may be about to do it


def reconcile_outcome(drive: RunContext, action: str, content: Any, asked: Literal["", "done"] = "") -> Ended:
    """Return the outcome that a reconciliation gives to an effect in doubt, the tool's own (*asked*) or a person's."""
    run, intent = drive.run, drive.run.memory.intent
    assert intent is not None, "only an effect can be reconciled"
    if action == "fail":
        text = content if isinstance(content, str) and content else "the effect did not happen"
        return Ended(replace(error_of(intent, RuntimeError(text), code="reconciled"), retryable=False))
    first = run.counters.documents
    result = result_of(
        intent,
        content,
        first=first,
        limits=run.spec.limits,
        stager=drive.stager,
        scrub=drive.scrubber,
        model=drive.model,
        given=drive.given,
    )
    return Ended(result, reconciled=asked)
