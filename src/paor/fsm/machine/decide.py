"""
The pure decision: run and outcome in, the next run and everything the journal needs out. No clock, no randomness, no I/O.

`decide` reads the outcome into a case (`fsm.machine.stop_rules.read_case`) and hands it to the machine (`fsm.machine.machine`), where
`transitions` tries the rows of the phase. The row that it takes, and every guard that it evaluated on the way, are the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...states.base.errors import IllegalEvent
from ...states.records.outcomes import NO_USAGE, Outcome, Usage
from ...states.records.requests import NOTHING, ModelRequest, Nothing, Recall, Request, ToolRequest
from ...states.run.host_machine import machine_data
from ...states.run.phase_names import EXECUTING, FINAL
from ...states.run.state import Change, Counters, Run
from ..decision.guard_context import NO_VALUES, Given
from ..decision.host_machine import recorded_phases
from ..decision.run_resources import RunResources
from . import machine as in_force
from .machine import DECIDE, PHASE_STATES, Machine, Walker
from .row_facts import facts_of
from .stop_rules import read_case
from .table import Row
from .updates import workflow_update

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


class Decision(Struct, frozen=True, gc=False):
    """
    What an outcome means for a run.

    Attributes:
        row: The table's row that is taken.
        guards: Every guard of the rows that were tried, with its value.
        change: What the run's memory gets.
        counters: After the transition, usage and time included; payloads are counted by whoever stores them.
        facts: What the row records of the outcome beyond its payload references.
    """

    row: Row
    guards: dict[str, bool]
    change: Change
    counters: Counters
    facts: dict[str, Any]


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

    Returns:
        The row to take, with every evaluated guard, the change and the counters after it.

    Raises:
        IllegalEvent: No row allows this; *run* stays as it was.
        HostFunctionError: A guard or another function of the host's own machine raised; *run* stays as it was.
    """
    if machine is None:
        machine = machine_of(run, kit)
    if not _can_come(run, outcome.kind, request):
        raise _illegal(run, outcome)
    case = read_case(run, outcome, kit, moment.at_us)
    case.given, case.fresh = given, fresh
    walker = Walker(case)
    if not machine.events[DECIDE].trigger(walker):
        raise _illegal(run, outcome)
    row = walker.row
    if machine.required:
        case.vetoes = _vetoes(walker, machine)
    change, counters = machine.changes[row.source, row.trigger](case)
    if run.memory.flow is not None:
        change, counters = workflow_update(case, row.source, row.trigger, change, counters)
    counters = _add_usage(counters, outcome.usage, moment)
    return Decision(row, walker.guards, change, counters, facts_of(case, row, outcome))


def machine_of(run: Run, kit: RunResources) -> Machine:
    """Return the machine that *run* walks: its host's own with the functions that *kit* has, or the standard one."""
    if run.spec.host_machine and isinstance(kit.machine, Machine):
        return kit.machine
    return machine_told(run.spec.host_machine)


def machine_told(text: str) -> Machine:
    """Return the machine that a spec's `host_machine` tells, without the host's functions; the standard one for an empty text."""
    return _recorded(text) if text else in_force.MACHINE


@lru_cache(maxsize=32)
def _recorded(text: str) -> Machine:
    return Machine.from_dict(machine_data(text))


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


def _add_usage(counters: Counters, usage: Usage, moment: Moment) -> Counters:
    """Return *counters* with time and usage added."""
    time_us = counters.time_us + moment.active_us
    if usage is NO_USAGE:
        return replace(counters, time_us=time_us)
    return replace(
        counters,
        tokens_in=counters.tokens_in + usage.tokens_in,
        tokens_out=counters.tokens_out + usage.tokens_out,
        cost_micro=counters.cost_micro + usage.cost_micro,
        time_us=time_us,
        calls=counters.calls + usage.calls,
    )


__all__ = ["Decision", "Moment", "decide", "request_of"]
