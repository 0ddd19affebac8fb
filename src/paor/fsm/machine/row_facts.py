"""What a row says of its outcome: kinds, codes, digests and whole numbers, so that no foreign text is in a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict

from ...states.records.outcomes import (
    Answered,
    Asked,
    Cancelled,
    Ended,
    InDoubt,
    ModelFault,
    Outcome,
    Replied,
    Unaffordable,
)
from ..decision.guard_context import GuardContext
from ..decision.plan_mode import step_of, steps_left_in_plan
from .table import Row


def facts_of(case: GuardContext, row: Row, outcome: Outcome) -> dict[str, Any]:
    """Return what the row says of its outcome: kinds, codes, digests and whole numbers; no foreign text."""
    kind = outcome.kind
    facts: dict[str, Any] = {"kind": kind}
    if kind in _FACTS:
        facts |= _FACTS[kind](case, outcome)
    if row.trigger == "execute":
        facts |= _call_facts(case)
    if case.stop_reason is not None:
        facts["stop"] = case.stop_reason
    if case.duplicate is not None:
        facts["duplicate"] = case.duplicate
    if row.trigger == "conclude" and case.stop_reason == "max_steps" and steps_left_in_plan(case.run):
        facts["skipped"] = steps_left_in_plan(case.run)
    return facts


def _reply_facts(case: GuardContext, outcome: Replied) -> dict[str, Any]:
    usage = outcome.usage
    facts = {"reply": outcome.payload.wire(), "tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out}
    if outcome.finish != "stop":
        facts["finish"] = outcome.finish
    if usage.cost_micro:
        facts["cost_micro"] = usage.cost_micro
    facts |= usage.details()
    if outcome.request_id is not None:
        facts["request_id"] = outcome.request_id
    if outcome.attempts > 1:
        facts["attempts"] = outcome.attempts
    if case.problem is not None:
        facts["invalid"] = case.problem.code
    if case.dropped:
        facts["dropped"] = len(case.dropped)
    return facts


def _fault_facts(case: GuardContext, outcome: ModelFault) -> dict[str, Any]:
    facts = {"code": outcome.code, "message": outcome.payload.wire()}
    facts |= {name: value for name, value in asdict(outcome.usage).items() if value}
    if outcome.request_id is not None:
        facts["request_id"] = outcome.request_id
    return facts


def _doubt_facts(case: GuardContext, outcome: InDoubt) -> dict[str, Any]:
    facts: dict[str, Any] = {"why": outcome.why} if outcome.why else {}
    facts |= {"message": outcome.payload.wire()} if outcome.payload is not None else {}
    return facts | ({"left": 1} if outcome.left else {})


def _ended_facts(case: GuardContext, outcome: Ended) -> dict[str, Any]:
    facts = _used_facts(outcome)
    if outcome.result.error_code is not None:
        facts["error"] = outcome.result.error_code
    if outcome.reconciled:
        facts["reconciled"] = outcome.reconciled
    return facts


def _used_facts(outcome: Ended | Cancelled) -> dict[str, Any]:
    """Return what the requests that a tool made have used, and whether it was left running."""
    usage, facts = outcome.usage, dict[str, Any]()
    if outcome.texts:
        facts["texts"] = [[prompt.wire(), reply.wire()] for prompt, reply in outcome.texts]
    if usage.calls != len(outcome.texts):
        facts["calls"] = usage.calls
    if outcome.texts or usage.tokens_in or usage.tokens_out or usage.cost_micro:
        facts |= {"tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out}
        facts |= {"cost_micro": usage.cost_micro} if usage.cost_micro else {}
        facts |= usage.details()
    if outcome.request_ids:
        facts["request_ids"] = list(outcome.request_ids)
    if outcome.left:
        facts["left"] = 1
    return facts


_FACTS: dict[str, Callable[[GuardContext, Any], dict[str, Any]]] = {
    Replied.kind: _reply_facts,
    ModelFault.kind: _fault_facts,
    Answered.kind: lambda case, outcome: {
        "action": outcome.answer.action,
        "answer": outcome.payload.wire(),
    },
    Asked.kind: lambda case, outcome: {"asked": outcome.payload.wire()},
    Ended.kind: _ended_facts,
    Cancelled.kind: lambda case, outcome: (
        _used_facts(outcome) | ({"in_doubt": 1} if outcome.in_doubt else {})
    ),
    InDoubt.kind: _doubt_facts,
    Unaffordable.kind: lambda case, outcome: {"stop": outcome.reason},
}
"""What a row says of each kind of outcome; of the others their kind alone."""


def _call_facts(case: GuardContext) -> dict[str, Any]:
    """Return what later rows need of an executed call: key, label, number of documents, its output."""
    result, intent = case.result, case.run.memory.intent
    assert result is not None and intent is not None, "Executing ends with a result of its intent"
    facts: dict[str, Any] = {
        "key": intent.key,
        "label": intent.label,
        "ok": result.ok,
        "first": case.run.counters.documents,
        "documents": len(result.documents),
    }
    if result.ok and result.documents:
        facts["output"] = result.documents[0].payload.wire()
    if step_of(case.run) is not None:
        facts["plan_step"] = case.run.counters.plan_step
    return facts
