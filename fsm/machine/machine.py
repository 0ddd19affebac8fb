"""
The machine: a `transitions.Machine` derived from the table, and the pure decision.

`decide` is the centre of paor: run and outcome in, the next run and everything the journal needs out. It has no
clock, no randomness, no I/O. `transitions` executes what was decided: its conditions only look up the guard values
that `decide` evaluated, so it would refuse a trigger that the table does not allow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from transitions import EventData, Machine, MachineError, Transition
from transitions.core import Event

from ...states.base.errors import IllegalEvent, InternalError
from ...states.done import Done
from ...states.executing import Executing
from ...states.failed import Failed
from ...states.observing import Observing
from ...states.phase import Phase
from ...states.planning import Planning
from ...states.records.outcomes import NO_USAGE, Outcome, Usage
from ...states.records.requests import NOTHING, ModelRequest, Nothing, Recall, Request, ToolRequest
from ...states.reviewing import Reviewing
from ...states.run.phase_names import EXECUTING, FINAL
from ...states.run.state import Change, Counters, Run
from ...states.specifying import Specifying
from ..decision.case import Case
from ..decision.run_resources import RunResources
from .guards import GUARDS, Guard
from .row_facts import facts_of
from .stop_rules import read_case
from .table import INITIAL, ROWS, TABLE, WAITING, Row, rows_of
from .updates import CHANGES, Update, workflow_update

PHASE_STATES: tuple[Phase, ...] = (
    Planning(),
    Specifying(),
    Executing(),
    Observing(),
    Reviewing(),
    Done(),
    Failed(),
)
_PHASE: dict[str, Phase] = {phase.name: phase for phase in PHASE_STATES}


class Walker:
    """
    The `transitions` model of one step: a phase and the guard values that were evaluated for it.

    Attributes:
        state: Name of the phase; `transitions` sets it.
        guards: Values by guard name.
    """

    __slots__ = ("guards", "state")

    def __init__(self, state: str, guards: dict[str, bool]) -> None:
        self.state = state
        self.guards = guards


class Lookup:
    """A condition that looks a guard's value up; it evaluates nothing."""

    __slots__ = ("__name__",)

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, event: EventData) -> bool:
        walker = event.model
        assert isinstance(walker, Walker), "the machine of the table walks Walkers"
        return walker.guards[self.__name__]


class GuardedTransition(Transition):
    """A transition of a machine without callbacks: its conditions hold, then the state changes."""

    @cached_property
    def looked_up(self) -> tuple[tuple[str, bool], ...]:
        """Names of the guards that its conditions look up, and what each must be."""
        named = []
        for condition in self.conditions:
            assert isinstance(condition.func, Lookup), "conditions of the table look guards up"
            named.append((condition.func.__name__, condition.target))
        return tuple(named)

    def execute(self, event_data: EventData) -> bool:
        """Return whether the conditions hold; if so, the model is in the destination afterwards."""
        walker = event_data.model
        assert isinstance(walker, Walker), "the machine of the table walks Walkers"
        guards = walker.guards
        for name, target in self.looked_up:
            if guards[name] is not target:
                return False
        assert self.dest is not None, "every row of the table has a destination"
        walker.state = self.dest
        return True


class GuardedEvent(Event):
    """An event of a machine without callbacks and without a queue: its transitions are tried in the table's order."""

    def trigger(self, model: Any, *args: Any, **kwargs: Any) -> bool:
        """
        Return whether a transition was taken.

        Raises:
            MachineError: No transition of this name leads from the model's state.
        """
        source = self.machine.states[model.state]
        transitions = self.transitions.get(model.state)
        if transitions is None:
            raise MachineError(f"Can't trigger event {self.name} from state {model.state}!")
        data = EventData(source, self, self.machine, model, args, kwargs)
        for transition in transitions:
            data.transition = transition
            if transition.execute(data):
                data.result = True
                return True
        return False


class TableMachine(Machine):
    """The `transitions` machine of paor; effects never hang on a transition, so no callbacks are looked for."""

    transition_cls = GuardedTransition
    event_cls = GuardedEvent


def build_machine(rows: Iterable[Row] = ROWS) -> Machine:
    """Return the machine of a table, paor's own unless another is given; nothing in it is written down twice."""
    machine = TableMachine(
        model=None,
        states=list(PHASE_STATES),
        initial=INITIAL,
        auto_transitions=False,
        send_event=True,
        ignore_invalid_triggers=False,
        queued=False,
    )
    for row in rows:
        machine.add_transition(
            row.trigger,
            row.source,
            row.dest,
            conditions=[Lookup(name) for name in row.conditions],
            unless=[Lookup(name) for name in row.unless],
        )
    return machine


MACHINE = build_machine()


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
    return _PHASE[run.state].request(run)


def decide(
    run: Run,
    outcome: Outcome,
    moment: Moment,
    kit: RunResources,
    request: Request | None = None,
    rules: Rules | None = None,
) -> Decision:
    """
    Return what *outcome* means for *run*; touch nothing.

    Args:
        run: Between two transitions.
        outcome: What its request came to, or what somebody asked of it.
        moment: When.
        kit: The run's catalog and prompts.
        request: As `request_of` gave it for *run*, if the caller knows it still.
        rules: Instead of paor's own, for whoever examines an edited copy of them (`fsm.check.checker`).

    Returns:
        The row to take, with every evaluated guard, the change and the counters after it.

    Raises:
        IllegalEvent: No row allows this; *run* stays as it was.
    """
    guards: dict[str, bool] = {}
    row = None
    if _can_come(run, outcome.kind, request):
        case = read_case(run, outcome, kit, moment.at_us)
        row = _first_fit(case, guards, _COMPILED if rules is None else rules.compiled)
    if row is None:
        waiting = " while it waits" if run.waiting_for is not None else ""
        raise IllegalEvent(
            f"run {run.run_id}: no row of the table takes {outcome.kind!r} in {run.state}{waiting}"
        )
    _walk(run, row, guards, MACHINE if rules is None else rules.machine)
    change, counters = (CHANGES if rules is None else rules.changes)[row.source, row.trigger](case)
    if run.memory.flow is not None:
        change, counters = workflow_update(case, row.source, row.trigger, change, counters)
    counters = _add_usage(counters, outcome.usage, moment)
    return Decision(row, guards, change, counters, facts_of(case, row, outcome))


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


def _first_fit(case: Case, guards: dict[str, bool], compiled: Compiled) -> Row | None:
    """Return the first row whose guards hold; every guard of every row tried goes into *guards*, once."""
    run = case.run
    for row, needed in compiled[run.state, run.memory.question is not None]:
        fits = True
        for name, wanted, guard in needed:
            if name not in guards:
                guards[name] = guard(case)
            if guards[name] is not wanted:
                fits = False
        if fits:
            return row
    return None


Compiled = dict[tuple[str, bool], list[tuple[Row, tuple[tuple[str, bool, Callable[[Case], bool]], ...]]]]
"""Per phase, and whether the run waits, the rows that are tried, each with its guards and what they must be."""


def _compile(table: tuple[Row, ...], waiting: tuple[Row, ...], guards: Mapping[str, Guard]) -> Compiled:
    return {
        (phase.name, waits): [
            (
                row,
                (
                    *((name, True, guards[name]) for name in row.conditions),
                    *((name, False, guards[name]) for name in row.unless),
                ),
            )
            for row in rows_of(phase.name, waiting=waits, table=table, answers=waiting)
        ]
        for phase in PHASE_STATES
        for waits in (False, True)
    }


_COMPILED = _compile(TABLE, WAITING, GUARDS)


class Rules:
    """
    A table with the guards and effects that go with it: what `decide` decides by.

    Args:
        table: Rows of the phases, in the order in which they are tried.
        waiting: Rows of the phases that wait.
        guards: Functions of the guards that the rows name.
        changes: Functions of what each row sets, by source and trigger.

    Raises:
        KeyError: A row names a guard that is not there.
    """

    def __init__(
        self,
        table: tuple[Row, ...] = TABLE,
        waiting: tuple[Row, ...] = WAITING,
        guards: Mapping[str, Guard] = GUARDS,
        changes: Mapping[tuple[str, str], Callable[[Case], Update]] = CHANGES,
    ) -> None:
        self.table, self.waiting, self.guards, self.changes = table, waiting, guards, changes

    @cached_property
    def compiled(self) -> Compiled:
        """The rows as `decide` tries them; of paor's own what this process decides by."""
        if (self.table, self.waiting) == (TABLE, WAITING) and self.guards is GUARDS:
            return _COMPILED
        return _compile(self.table, self.waiting, self.guards)

    @cached_property
    def machine(self) -> Machine:
        """The `transitions` machine of the rows."""
        return build_machine(self.table + self.waiting)


def guards_in_force() -> dict[str, Callable[[Case], bool]]:
    """Return the guards that `decide` evaluates, by name."""
    return {name: guard for rows in _COMPILED.values() for _, needed in rows for name, _, guard in needed}


def _walk(run: Run, row: Row, guards: dict[str, bool], machine: Machine) -> None:
    """Have `transitions` take the row; it must agree."""
    walker = Walker(run.state, guards)
    if not machine.events[row.trigger].trigger(walker) or walker.state != row.dest:
        raise InternalError(
            f"run {run.run_id}: the machine did not take {row.trigger} from {run.state} to {row.dest}"
        )


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


__all__ = ["MACHINE", "PHASE_STATES", "Decision", "Moment", "build_machine", "decide", "request_of"]
