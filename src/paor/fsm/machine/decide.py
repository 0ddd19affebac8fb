"""
The pure decision: run and outcome in, the next run and everything the journal needs out. No clock, no randomness, no I/O.

`decide` reads the outcome into a case (`fsm.machine.stop_rules.read_case`) and hands it to the machine (`fsm.machine.machine`), where
`transitions` tries the rows of the phase. The row that it takes, and every guard that it evaluated on the way, are the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from ...states.base.errors import IllegalEvent, UsageError
from ...states.records.conversation import Spoken
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
from ...states.records.requests import NOTHING, ModelRequest, Nothing, Recall, Request, ToolRequest
from ...states.run.phase_names import EXECUTING, FINAL
from ...states.run.spec import machine_data
from ...states.run.state import Run
from ..decision.conversation import said_by
from ..decision.guard_context import NO_VALUES, Given, GuardContext
from ..decision.host_machine import recorded_phases
from ..decision.plan_mode import step_of, steps_left_in_plan
from ..decision.run_resources import RunResources
from . import machine as in_force
from .ahead import calls_ahead, starts_together
from .machine import DECIDE, PHASE_STATES, SETTLE, Machine, Walker
from .stop_rules import read_case
from .summary import after, facts_with, with_usage
from .table import Row
from .updates import Decision, workflow_update


def facts_of(case: GuardContext, row: Row, outcome: Outcome) -> dict[str, Any]:
    """Return what the row says of its outcome: kinds, codes, digests and whole numbers; no foreign text."""
    facts: dict[str, Any] = {"kind": outcome.kind}
    if (more := _FACTS.get(outcome.kind)) is not None:
        facts |= more(case, outcome)
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
    if outcome.parts is not None:
        facts["parts"] = outcome.parts.wire()
    if outcome.refused is not None:
        facts["refused"] = outcome.refused[1].wire()
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
    Asked.kind: lambda case, outcome: (
        {"asked": outcome.payload.wire()} | ({"noted": 1} if outcome.asking.noted else {})
    ),
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


_PHASE = {phase.name: phase for phase in PHASE_STATES}


class Moment(Struct, frozen=True, gc=False):
    """
    When an outcome came in, as the ports told it.

    Attributes:
        at_us: Microseconds since the epoch.
        active_us: Active time since the transition before, in microseconds, never negative.
    """

    at_us: int
    active_us: int


def request_of(run: Run) -> Request:
    """Return what *run* needs from the outside before its next transition."""
    if run.state in FINAL or run.memory.question is not None:
        return NOTHING
    phase = _PHASE.get(run.state) or recorded_phases(run.spec.host_machine)[run.state]
    return phase.request(run)


def decide(
    run: Run,
    outcome: Outcome,
    moment: Moment,
    kit: RunResources,
    request: Request | None = None,
    machine: Machine | None = None,
    *,
    given: Given | None = None,
    fresh: Mapping[str, Any] = NO_VALUES,
    summary: Outcome | None = None,
) -> Decision:
    """
    Return what *outcome* means for *run*; touch nothing.

    Args:
        run: Between two transitions.
        outcome: What its request came to, or what somebody asked of it.
        moment: When.
        kit: The run's catalog and prompts.
        request: As `request_of` gave it for *run*, if the caller knows it still.
        machine: That decides; None: the run's own, which is the standard one unless its engine was given another.
        given: For a replay what the row has recorded, by which it goes where the host's code is not there.
        fresh: What the engine's ``values`` port has given for this decision.
        summary: What asking for a summary came to, before the request was made; None where none was asked for.

    Returns:
        The row to take, with every evaluated guard, the change and the counters after it.

    Raises:
        IllegalEvent: No row allows this; *run* stays as it was.
        HostFunctionError: A guard or another function of the host's own machine raised; *run* stays as it was.
    """
    if machine is None:
        machine = machine_of(run, kit)
    if summary is not None:
        seen, first, unused = after(run, summary, kit)
        decision = _decided(seen, outcome, moment, kit, request, machine, given, fresh)
        said = replace(decision.change.said or Spoken(), first=first)
        own = {"kind": summary.kind} | _FACTS[summary.kind](GuardContext(run, summary), summary)
        facts = facts_with(decision.facts, own, unused) | _said_facts(said)
        return replace(decision, change=replace(decision.change, said=said), facts=facts)
    decision = _decided(run, outcome, moment, kit, request, machine, given, fresh)
    if decision.row.trigger != "specify" or not starts_together(run):
        return decision

    def following(run: Run, outcome: Outcome) -> Decision:
        return _decided(run, outcome, Moment(moment.at_us, 0), kit, None, machine, None, NO_VALUES)

    ahead = calls_ahead(run, decision, kit, following)
    if not ahead:
        return decision
    return replace(
        decision,
        change=replace(decision.change, ahead=ahead),
        counters=replace(decision.counters, ahead=decision.counters.action + len(ahead)),
    )


def _decided(
    run: Run,
    outcome: Outcome,
    moment: Moment,
    kit: RunResources,
    request: Request | None,
    machine: Machine,
    given: Given | None,
    fresh: Mapping[str, Any],
) -> Decision:
    """Return the decision without the calls that are started together with the one that it proposes."""
    if not _can_come(run, outcome.kind, request):
        raise _illegal(run, outcome)
    case = read_case(run, outcome, kit, moment.at_us)
    case.given, case.fresh = given, fresh
    walker = Walker(case)
    event = DECIDE if run.memory.question is None else SETTLE
    if machine is not in_force.MACHINE:  # which nobody is given
        machine.check_unchanged(event, run.state)
    if not machine.events[event].trigger(walker):
        raise _illegal(run, outcome)
    row = walker.row
    if machine.required:
        case.vetoes = _vetoes(walker, machine)
    change, counters = machine.changes[row.source, row.trigger](case)
    if run.memory.flow is not None:
        change, counters = workflow_update(case, row.source, row.trigger, change, counters)
    if (said := said_by(case, row.trigger, row.dest, change, kit)) is not None:
        change = replace(change, said=said)
    counters = with_usage(counters, outcome.usage, moment.active_us, details=run.spec.revision > 1)
    facts = facts_of(case, row, outcome)
    if said is not None:
        facts |= _said_facts(said)
    return Decision(row, walker.guards, change, counters, facts, case)


def _said_facts(said: Spoken) -> dict[str, Any]:
    """Return what a row says of a conversation that was cut, and of a result that is not shown whole."""
    if said.first is said.cut is None and not any(item.whole for item in said.items):
        return {}
    shown = [item for item in said.items if item.whole]
    cuts = [(cut.dropped, len(cut.shortened)) for cut in (said.first, said.cut) if cut is not None]
    facts: dict[str, Any] = {"cut": [*map(sum, zip(*cuts, strict=True))]} if cuts else {}
    if shown:
        facts["shown"] = [sum(item.size for item in shown), sum(item.whole for item in shown)]
    return facts


def machine_of(run: Run, kit: RunResources) -> Machine:
    """Return the machine that *run* walks: its host's own with the functions that *kit* has, or the standard one."""
    if not kit.own_machine:
        return in_force.MACHINE
    return kit.machine if isinstance(kit.machine, Machine) else machine_told(run.spec.host_machine)


def machine_told(text: str, functions: Machine | None = None) -> Machine:
    """
    Return the machine that a spec's `host_machine` tells; the standard one for an empty text.

    Args:
        text: As the spec has it.
        functions: A machine with the host's functions; None: without them.

    Raises:
        UsageError: It is none that a run may walk.
    """
    return _recorded(text, functions) if text else in_force.MACHINE


@lru_cache(maxsize=32)
def _recorded(text: str, functions: Machine | None) -> Machine:
    try:
        return Machine.from_dict(machine_data(text), functions)
    except UsageError as error:
        raise UsageError(f"the recorded machine cannot be used: {error}") from None


def _vetoes(walker: Walker, machine: Machine) -> tuple[str, ...]:
    """Return what the guards that the host requires of paor's own rows have refused, a sentence each."""
    return tuple(
        str(machine.guards[name].__doc__)
        for name, value in walker.guards.items()
        if name in machine.required and not value
    )


def _illegal(run: Run, outcome: Outcome) -> IllegalEvent:
    waiting = " while it waits" if run.waiting_for is not None else ""
    return IllegalEvent(
        f"run {run.run_id}: no row of the table takes {outcome.kind!r} in {run.state}{waiting}"
    )


_COMES_TO: dict[type[Request], tuple[str, ...]] = {
    ModelRequest: ("reply", "fault", "unaffordable"),
    ToolRequest: ("result", "in_doubt", "asked"),
    Recall: ("recalled",),
    Nothing: ("none",),
}


def _can_come(run: Run, kind: str, request: Request | None) -> bool:
    """Return whether a *kind* of outcome is what the run's request can come to; anything may be cancelled."""
    if run.state in FINAL or run.memory.question is not None:
        return run.state not in FINAL and kind in ("answer", "cancelled")
    request = request if request is not None else request_of(run)
    if request is NOTHING and run.state == EXECUTING:  # a reconciliation has said how the call ended
        return kind in ("result", "cancelled")
    return kind in _COMES_TO[type(request)] or kind == "cancelled"


__all__ = ["Decision", "Moment", "decide", "request_of"]
