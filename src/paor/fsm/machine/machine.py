"""
The machine: a `transitions.Machine` derived from the table, which decides what an outcome leads to.

All rows of a phase are transitions of the event `DECIDE`, in the table's order; those that a waiting run tries are transitions of `SETTLE`,
too. The library tries the transitions of an event from top to bottom, and takes the first whose conditions, the named guards, all hold.
The journal records the values and the row: `Walker.guards` and `Walker.row`. There is no other chooser.

Four things differ from the library's defaults, each by a method that it has for that: an event has no queue; a condition that does not hold does not end the
evaluation of its transition, so that a journal tells of each row that was tried why it was not taken; the row that was taken is noted; and
a transition evaluates its conditions itself, and does not call its lists of callbacks, which are empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from operator import attrgetter
from types import MappingProxyType
from typing import Any, cast

from transitions import Event, EventData, Transition
from transitions import Machine as LibraryMachine

from ...states.base.errors import InternalError, UsageError
from ...states.done import Done
from ...states.executing import Executing
from ...states.failed import Failed
from ...states.observing import Observing
from ...states.phase import Phase
from ...states.planning import Planning
from ...states.reviewing import Reviewing
from ...states.specifying import Specifying
from ..decision.guard_context import GuardContext
from .gates import check_gate, gated, turned
from .guards import GUARDS, Guard
from .host_checks import (
    check_callback,
    check_fresh,
    check_phase,
    check_required,
    check_row,
    host_guard,
    place_of,
)
from .host_rows import NO_HOST, Host, HostGuard, Tell, host_changes, host_guards, phase_rows
from .markup import bound, graph_data, machine_markup, read_markup
from .safety import check_safe
from .table import ROWS, TABLE, WAITING, Row
from .updates import CHANGES, Update

_PHASES: Sequence[Callable[[], Phase]] = [Planning, Specifying, Executing, Observing, Reviewing, Done, Failed]
PHASE_STATES = tuple(phase() for phase in _PHASES)

DECIDE = "decide"
"""The event of an outcome. Which transition it is, the row's trigger tells."""

SETTLE = "settle"
"""The event of an outcome while the run waits: its transitions are the hard stops and the rows that take an answer."""


class Walker:
    """
    The `transitions` model of one decision.

    Attributes:
        state: Name of the phase; `transitions` sets it.
        case: What the guards look at.
        guards: Every guard that was evaluated, with its value.
        row: The row that was taken; unset before.
    """

    __slots__ = ("case", "guards", "row", "state")

    def __init__(self, case: GuardContext) -> None:
        self.state = case.run.state
        self.case = case
        self.guards: dict[str, bool] = {}
        self.row: Row


class OutcomeEvent(Event):
    """An event of an outcome, triggered without what this machine has not: a queue, callbacks and further arguments."""

    def trigger(self, model: Any, *args: Any, **kwargs: Any) -> bool:
        """Try the transitions of the walker's phase as the library does; return whether one was taken."""
        if model.state not in self.transitions:
            return False
        data = EventData(self.machine.states[model.state], self, self.machine, model, (), {})
        self._process(data)
        return bool(data.result)


class Evaluation:
    """
    A condition as `transitions` calls it: a guard, evaluated the first time that a decision needs it.

    Args:
        name: Of the guard, in tables, journals and diagrams.
        guard: The function.
    """

    __slots__ = ("__name__", "guard")

    def __init__(self, name: str, guard: Guard) -> None:
        self.__name__ = name
        self.guard = guard

    def __call__(self, event: EventData) -> bool:
        """Return the guard's value for the event's model, a `Walker`."""
        walker: Walker = event.model  # type: ignore[assignment]  # the library's type is `object`
        value = walker.guards.get(self.__name__)
        if value is None:
            value = walker.guards[self.__name__] = self.guard(walker.case)
        return value


class GuardedTransition(Transition):
    """
    One row of the table: when all of its guards hold, the walker is in its destination.

    Attributes:
        row: The row.
        needed: Of its conditions, but for the host's own guards: name, function, and the value that it needs.
        required: Those guards, which are asked only where all others hold.
    """

    def __init__(
        self, source: str, dest: str, *args: Any, row: Row, own: Container[str] = (), **kwargs: Any
    ) -> None:
        super().__init__(source, dest, *args, **kwargs)
        self.row = row
        asked = [(cast(Evaluation, condition.func), condition.target) for condition in self.conditions]
        parts = tuple((evaluation.__name__, evaluation.guard, wanted) for evaluation, wanted in asked)
        self.needed = tuple(part for part in parts if part[0] not in own)
        self.required = tuple(part for part in parts if part[0] in own)

    @property
    def label(self) -> str:
        """Return the row's trigger; diagrams of `transitions` show it in place of the event's name."""
        return self.row.trigger

    def execute(self, event_data: EventData) -> bool:
        """
        Bring the walker into the destination where all conditions hold, and note the row; return whether they do.

        Of paor's own conditions each is evaluated, of the host's own up to the first that does not hold. It is what the library does
        with them (`Evaluation`), without a call for each, and without its callbacks: none hangs on a transition, see `Machine.check_unchanged`.
        """
        walker: Walker = event_data.model  # type: ignore[assignment]  # the library's type is `object`
        values, case, fits = walker.guards, walker.case, True
        for name, guard, wanted in self.needed:
            value = values.get(name)
            if value is None:
                value = values[name] = guard(case)
            if value is not wanted:
                fits = False
        if not fits:
            return False
        for name, guard, wanted in self.required:
            value = values.get(name)
            if value is None:
                value = values[name] = guard(case)
            if value is not wanted:
                return False
        row, states = self.row, event_data.machine.states
        states[row.source].exit(event_data)
        states[row.dest].enter(event_data)
        walker.state = row.dest
        walker.row = row
        return True


_SHARED = attrgetter(
    *("table", "waiting", "guards", "changes", "host", "states", "events"),
    *("_prepare_event", "_before_state_change", "_after_state_change", "_finalize_event"),
    *("_on_exception", "_on_final"),
)
"""What all phases of a machine share: what it was given, its states and events, and the library's lists of callbacks."""


def _copy(part: Any) -> Any:
    """Return a copy of a list, or of a dictionary with the lists in it, equal to it until it is changed; anything else as it is."""
    if isinstance(
        part, defaultdict
    ):  # the transitions of an event by phase; those of the phase are compared beside it
        return dict(part)
    if isinstance(part, dict):
        return {name: _copy(item) if isinstance(item, list) else item for name, item in part.items()}
    return part.copy() if isinstance(part, list) else part


class Machine(LibraryMachine):
    """
    The machine of a table, for any number of runs and threads at once: it holds no run, and it is never changed.

    `Machine.standard()` is paor's own. `require`, `phase`, `row` and the others each return another machine that has more; an
    engine walks it with ``Engine(machine=...)``.

    Args:
        table: Rows of the phases, in the order in which they are tried.
        waiting: Rows of the phases that wait.
        guards: Functions of the guards that the rows of paor's own name.
        changes: Functions of what each of those rows sets, by source and trigger.
        host: What a host has added.

    A row may name a guard that is not there: `fsm.check.checker` finds it, and a decision that needs it is refused.
    """

    transition_cls, event_cls = GuardedTransition, OutcomeEvent

    def __init__(
        self,
        table: tuple[Row, ...] = TABLE,
        waiting: tuple[Row, ...] = WAITING,
        guards: Mapping[str, Guard] = GUARDS,
        changes: Mapping[tuple[str, str], Callable[[GuardContext], Update]] = CHANGES,
        host: Host = NO_HOST,
    ) -> None:
        rows = (*table, *waiting)
        self.table, self.waiting, self.host = table, waiting, host
        if host is not NO_HOST:
            guards = {**guards, **host_guards(rows, host)}
            changes = {**changes, **host_changes(rows, host, changes)}
        self.guards, self.changes = MappingProxyType(guards), MappingProxyType(changes)
        super().__init__(
            model=None,
            states=[*(phase() for phase in _PHASES), *host.phases.values()],
            initial=host.initial,
            auto_transitions=False,
            send_event=True,
            ignore_invalid_triggers=False,
            queued=False,
        )
        own = host.guards.keys()
        self.required = frozenset(
            name for row in rows if not row.host for name in row.conditions if name in own
        )
        for row, name in ((row, name) for row in rows for name in (DECIDE, SETTLE)):
            if row.is_tried(waits=name == SETTLE):
                self.add_transition(
                    name,
                    row.source,
                    row.dest,
                    conditions=self._evaluations(row.conditions),
                    unless=self._evaluations(row.unless),
                    row=row,
                    own=own,
                )
        self._shared = tuple(map(_copy, _SHARED(self)))
        deciding = {place: self._parts(*place) for place in product(self.events, self.states)}
        self._deciding = {place: (parts, list(map(_copy, parts))) for place, parts in deciding.items()}

    def check_unchanged(self, event: str, phase: str) -> None:
        """
        Compare what decides in *phase* with what the machine was made of, since runs share a machine and journals name it.

        Args:
            event: `DECIDE` or `SETTLE`.
            phase: Of the run.

        Raises:
            UsageError: It was changed, by what `transitions` offers for that.
        """
        parts, made = self._deciding[event, phase]
        if parts != made or _SHARED(self) != self._shared:
            raise UsageError(
                f"the machine was changed after it was made, and nothing is decided with it in {phase}: its methods return another one,"
                f" as in {_ROW}; machine.on_enter, on_exit and after call yours after the commit"
            )

    def check_whole(self) -> None:
        """
        Compare likewise what decides in every phase, before the first run.

        Raises:
            UsageError: As `check_unchanged` does.
        """
        for event, phase in self._deciding:
            self.check_unchanged(event, phase)
        for state in self.states.values():
            for trigger in (state.enter, state.exit):
                trigger(cast("EventData", None))  # a phase looks at its own lists alone

    def _parts(self, event: str, phase: str) -> list[Any]:
        """Return what decides in a phase as it lives: the event, its transitions, and the attributes of each and of the host's phases."""
        transitions = self.events[event].transitions
        tried = transitions.get(phase, [])
        return [
            vars(self.events[event]),
            transitions,
            tried,
            *map(vars, (*tried, *self.host.phases.values())),
        ]

    @classmethod
    def standard(cls) -> Machine:
        """Return a machine that is paor's own, for a host to begin with, and shares nothing that can be changed with another one."""
        return cls()

    @property
    def is_standard(self) -> bool:
        """Whether it is paor's own, with nothing of a host's."""
        return (
            type(self) is Machine
            and self.host is NO_HOST
            and (self.rows, {**self.guards}, {**self.changes}) == (ROWS, GUARDS, CHANGES)
        )

    def _evaluations(self, names: Iterable[str]) -> list[Any]:
        return [Evaluation(name, self.guards.get(name, _absent)) for name in names]

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows: those of each phase in the order in which they are tried, then those that take answers."""
        return (*self.table, *self.waiting)

    def rows_of(self, phase: str, *, waiting: bool = False) -> tuple[Row, ...]:
        """Return the rows that are tried in *phase*, in order; for a waiting run a hard stop and the answer's."""
        return tuple(row for row in self.rows if row.source == phase and row.is_tried(waits=waiting))

    # -- what a host adds ----------------------------------------------------------------------------------------------

    def require(
        self,
        trigger: str,
        guard: Guard,
        *,
        source: str | None = None,
        tool: str | Sequence[str] | None = None,
    ) -> Machine:
        """
        Return a machine whose rows of *trigger* are taken only where *guard* holds, too.

        Where it does not, the rows that follow are tried, as where any other guard of the row does not hold: a call that is not specified
        is refused, and the model reads why; an action that is not selected is asked for again.

        Args:
            trigger: Such as ``specify``, ``select``, ``finish``, ``proceed``, ``retry``.
            guard: A pure function of the `GuardContext` that gives True or False. Its name is the guard's, the first sentence of its
                docstring what people and the model read. It is asked only where the row's other guards hold.
            source: Only the rows of this phase.
            tool: Only calls of the tools that fit this pattern, such as ``bank.*``, or one of these.

        Raises:
            UsageError: There are no such rows, or none that may have a condition; or the guard is none.
        """
        named = host_guard(guard, tool)
        if named.name in self.host.guards and self.host.guards[named.name] is not named:
            self._check_same(named)
        wanted = [row for row in self.table if row.trigger == trigger and source in (None, row.source)]
        check_required(trigger, source, wanted, self.table)
        table: list[Row] = []
        for row in self.table:
            if row not in wanted:
                table.append(row)
                continue
            table.append(replace(row, guards=(*row.guards, named.name)))
            if trigger == "select":
                asks = ("selection_ok", "steps_left", "selection_retries_left", f"not {named.name}")
                table.append(Row(row.source, "reselect", row.source, asks, "asked again", host=True))
        return self._with(table=tuple(table), guards={**self.host.guards, named.name: named})

    def phase(self, phase: Phase, *, initial: bool = False) -> Machine:
        """
        Return a machine that has *phase*, with the rows that asking takes; `row` leads to it and on from it.

        Args:
            phase: The phase.
            initial: Whether every run begins there.

        Raises:
            UsageError: Its name is taken or no name, or what it asks for is not one thing.
        """
        check_phase(phase, initial=initial, taken=self.states)
        own, back = phase_rows(phase)
        table = [*self.table, *(row for row in own if not row.answers)]
        at = next(place for place, row in enumerate(table) if row.trigger == "observe")
        table[at:at] = back
        waiting = (*self.waiting, *(row for row in own if row.answers))
        phases = {**self.host.phases, phase.name: phase}
        callbacks = (*self.host.callbacks, *phase.callbacks)
        start = phase.name if initial else self.host.initial
        return self._with(
            table=tuple(table), waiting=waiting, phases=phases, callbacks=callbacks, initial=start
        )

    def row(
        self,
        source: str,
        trigger: str,
        dest: str,
        when: str | Guard | Sequence[str | Guard] = (),
        before: str | None = None,
        *,
        at_most: int | None = None,
        tell: Tell | None = None,
        after: Callback | None = None,
        meaning: str = "",
    ) -> Machine:
        """
        Return a machine that has one more row.

        Args:
            source: The phase that it leads from: Planning, Specifying, Reviewing, or one of the host's own.
            trigger: Its name, one word.
            dest: The phase that it leads to: Planning, Specifying, Reviewing, Done, Failed, or one of the host's own.
            when: Guards that must hold: names, ``not NAME``, or functions of the host's own.
            before: Trigger of the row of *source* before which it is tried. None: after all others but one without guards; in
                Specifying before anybody is asked to approve.
            at_most: How often a run may take it; then the guard ``TRIGGER_left`` no longer holds. A loop needs such a bound.
            tell: For a row to Planning: a pure function of the guard context that gives what the next plan is told. By default
                it is told what the phase came to.
            after: Called after the row is durable, with its `TransitionTaken` event.
            meaning: One line for people.

        Raises:
            UsageError: It cannot be, with the reason.
        """
        names, guards = dict(self.host.guards), []
        for item in when if isinstance(when, list | tuple) else (when,):
            if callable(item):
                named = host_guard(item, None)
                if named.name in names:
                    self._check_same(named)
                names[named.name] = named
                item = named.name
            guards.append(item)
        if at_most is not None:
            guards.append(f"{trigger}_left")
        new = Row(
            source,
            trigger,
            dest,
            tuple(guards),
            meaning or f"{trigger}: the host's own",
            host=True,
            at_most=at_most or 0,
        )
        new = turned(new, self.host.gates)
        check_row(new, self.table, self.states, at_most=at_most, tell=tell)
        place = place_of(new, self.table, before)
        table = (*self.table[:place], new, *self.table[place:])
        tells = self.host.tells if tell is None else {**self.host.tells, (source, trigger): tell}
        machine = self._with(table=table, guards=names, tells=tells)
        return machine if after is None else machine.after(trigger, after)

    def gate(self, target: str, phase: str) -> Machine:
        """
        Return a machine in which every way to *target* goes through *phase*, that of rows that are added later, too.

        A row to *target* leads to *phase* instead. *target* is entered only by a row of *phase* that says that it was passed, so with nothing
        between the two: a used-up budget does not end a run past its gate, and nothing has an effect after it.

        Args:
            target: Done, or a phase of the host's own.
            phase: A phase of the host's own. Its rows to *target* need a condition: ``succeeded``, or a guard of the host's own.

        Raises:
            UsageError: There is no such phase; *target* has another gate already; or a row of *phase* leads to *target* whatever it came to.
        """
        check_gate(target, phase, self.states, self.host.gates, self.host.initial)
        return self._with(gates={**self.host.gates, target: phase})

    def guard(self, *guards: Guard) -> Machine:
        """
        Return a machine that knows these guards of the host's own by name, so that rows can name them, also with ``not``.

        Args:
            *guards: Functions, as `require` takes them.

        Raises:
            UsageError: One is none, or has the name of another one.
        """
        names = dict(self.host.guards)
        for guard in guards:
            named = host_guard(guard, None)
            if named.name in names:
                self._check_same(named)
            names[named.name] = named
        return self._with(guards=names)

    def ask_values(self, trigger: str) -> Machine:
        """
        Return a machine that asks the engine's ``values`` port each time that rows of *trigger* may be tried, right before the decision.

        What it gives is journaled with the row and stands in `GuardContext.values`, so that a replay sees the same.

        Args:
            trigger: Such as ``specify``.

        Raises:
            UsageError: There is no such row, or one where something that a tool has done could be lost.
        """
        check_fresh(trigger, self.table)
        return self._with(fresh=(*self.host.fresh, trigger))

    # -- callbacks that cannot hurt ------------------------------------------------------------------------------------

    def on_enter(self, phase: str, callback: Callback) -> Machine:
        """
        Return a machine that calls *callback* with the `TransitionTaken` event after a row that leads to *phase* is durable.

        Args:
            phase: Its name.
            callback: What it raises is logged, and changes nothing.
        """
        return self._calling("on_enter", phase, callback, self.states)

    def on_exit(self, phase: str, callback: Callback) -> Machine:
        """
        Return a machine that calls *callback* likewise after a row that leads on from *phase*.

        Args:
            phase: Its name.
            callback: What it raises is logged, and changes nothing.
        """
        return self._calling("on_exit", phase, callback, self.states)

    def after(self, trigger: str, callback: Callback) -> Machine:
        """
        Return a machine that calls *callback* likewise after a row of *trigger*.

        Args:
            trigger: Its name.
            callback: What it raises is logged, and changes nothing.
        """
        return self._calling("after", trigger, callback, {row.trigger for row in self.rows})

    def _calling(self, kind: str, place: str, callback: Callback, known: Iterable[str]) -> Machine:
        check_callback(kind, place, callback, known)
        return self._with(callbacks=(*self.host.callbacks, (kind, place, callback)))

    # -- as data -------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """
        Return the machine as JSON data, in the form that `transitions`' markup extension has; functions by their names.

        `from_dict` reads it back, also after JSON; `graph_data` is the part that `transitions` itself takes.
        """
        return machine_markup(self.rows, cast("Iterable[Phase]", self.states.values()), self.host)

    def graph_data(self) -> dict[str, Any]:
        """
        Return what `transitions.Machine` and its extensions take as keyword arguments, here each trigger an event of its own.

        So the library's own tools draw and walk it, the standard machine as well as a host's:

        - ``GraphMachine(graph_engine="mermaid", show_conditions=True, **machine.graph_data()).get_graph().source`` draws it;
        - ``MarkupMachine(model=None, **machine.graph_data()).markup`` gives the same transitions;
        - ``transitions.Machine(model, **machine.graph_data())`` walks *model*, whose methods are the guards.

        The machine itself has an event for an outcome and one for an outcome while the run waits, since one outcome may lead to any row of a
        phase: ``get_transitions("decide")`` gives the rows in the order in which they are tried, each with its trigger as ``label``.
        """
        return graph_data(self.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], functions: Machine | None = None) -> Machine:
        """
        Return the machine that `to_dict` told.

        Args:
            data: As `to_dict` gives it.
            functions: A machine with the host's guards and other functions. Without it the machine can be drawn, compared and checked,
                and a replay goes by what was recorded.

        Raises:
            UsageError: It is no machine's data, or that of one in which a call could be made unasked; see `fsm.machine.safety`.
        """
        rows, host = read_markup(data)
        host = host if functions is None else bound(host, functions.host)
        if host == NO_HOST and not any(row.host for row in rows):
            host = NO_HOST
        table, waiting = (tuple(row for row in rows if row.answers is answers) for answers in (False, True))
        check_safe((*table, *waiting), host)
        return cls(table, waiting, host=host)

    def _with(
        self,
        *,
        table: tuple[Row, ...] | None = None,
        waiting: tuple[Row, ...] | None = None,
        **host: Any,
    ) -> Machine:
        table, waiting = (
            was if new is None else new for was, new in ((self.table, table), (self.waiting, waiting))
        )
        changed = replace(self.host, **host)
        table = gated(table, changed.gates)
        check_safe((*table, *waiting), changed)
        return type(self)(table, waiting, host=changed)

    def _check_same(self, guard: HostGuard) -> None:
        known = self.host.guards.get(guard.name)
        if known is not None and (known.function is not guard.function or known.tools != guard.tools):
            raise UsageError(
                f"there is a guard {guard.name} already, of another function or for other tools: give this one a name of its own"
            )

    def __getattr__(self, name: str) -> Any:
        """Return the library's shorthands ``on_enter_PHASE``, ``on_exit_PHASE`` and ``after_TRIGGER``."""
        for kind in ("on_enter", "on_exit", "after"):
            if name.startswith(f"{kind}_"):
                return partial(getattr(self, kind), name.removeprefix(f"{kind}_"))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}; {_NO_MODEL}")


Callback = Callable[[Any], object]
"""Called with a `paor.events.TransitionTaken` once its row is durable; what it raises is logged."""

_ROW = "machine = machine.row('Reviewing', 'verify', 'Verifying')"
_NO_MODEL = "a run is no model of the machine; Engine(machine=...).run(...) walks it"


def _absent(case: GuardContext) -> bool:
    raise InternalError(f"run {case.run.run_id}: a row in {case.run.state} names a guard that is not there")


MACHINE = Machine()
"""The standard machine."""

__all__ = ["DECIDE", "MACHINE", "PHASE_STATES", "SETTLE", "Machine", "Walker"]
