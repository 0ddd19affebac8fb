"""
The machine: a `transitions.Machine` derived from the table, which decides what an outcome leads to.

All rows of a phase are transitions of one event, `DECIDE`, in the table's order. The library's event tries them from top to
bottom; each transition evaluates its conditions, the named guards, once a decision, and the first whose conditions all hold is
taken. What was evaluated and what was taken is what the journal records: `Walker.guards` and `Walker.row`. There is no other chooser.

The classes here extend the library where it allows that. They leave out what this machine must not have: callbacks within a
decision, a queue, and the logging of each try.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from transitions import EventData, MachineError, Transition
from transitions import Machine as LibraryMachine
from transitions.core import Event

from ...states.base.errors import InternalError
from ...states.done import Done
from ...states.executing import Executing
from ...states.failed import Failed
from ...states.observing import Observing
from ...states.phase import Phase
from ...states.planning import Planning
from ...states.reviewing import Reviewing
from ...states.specifying import Specifying
from ..decision.guard_context import GuardContext
from .guards import GUARDS, Guard
from .table import INITIAL, TABLE, WAITING, Row
from .updates import CHANGES, Update

PHASE_STATES: tuple[Phase, ...] = (
    Planning(),
    Specifying(),
    Executing(),
    Observing(),
    Reviewing(),
    Done(),
    Failed(),
)

DECIDE = "decide"
"""The one event: an outcome came in. Which transition that is, its row's trigger tells."""


class Walker:
    """
    The `transitions` model of one decision.

    Attributes:
        state: Name of the phase; `transitions` sets it.
        case: What the guards look at.
        waits: Whether the run waits for an answer, so that only a hard stop and the answer's rows are tried.
        guards: Every guard that was evaluated, with its value.
        row: The row that was taken; unset before.
    """

    __slots__ = ("case", "guards", "row", "state", "waits")

    def __init__(self, case: GuardContext) -> None:
        self.state = case.run.state
        self.case = case
        self.waits = case.run.memory.question is not None
        self.guards: dict[str, bool] = {}
        self.row: Row


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
        walker = event.model
        assert isinstance(walker, Walker), "the machine walks Walkers"
        if self.__name__ not in walker.guards:
            walker.guards[self.__name__] = self.guard(walker.case)
        return walker.guards[self.__name__]


class GuardedTransition(Transition):
    """
    One row of the table: when all of its guards hold, the walker is in its destination.

    Attributes:
        row: The row.
        label: Its trigger; diagrams of `transitions` show it in place of the event's name.
        needed: Name of each guard, what it must be, and the function.
    """

    def __init__(self, source: str, dest: str, *args: Any, row: Row, **kwargs: Any) -> None:
        super().__init__(source, dest, *args, **kwargs)
        self.row, self.label = row, row.trigger
        self.needed: tuple[tuple[str, bool, Guard], ...] = tuple(
            (condition.func.__name__, condition.target, condition.func.guard)
            for condition in self.conditions
            if isinstance(condition.func, Evaluation)
        )

    def execute(self, event_data: EventData) -> bool:
        """
        Return whether the guards hold; if so the walker has taken the row.

        The same as the library's own `execute` with these conditions and no callbacks, but for one thing: a guard that does not
        hold does not end the evaluation, so that a journal tells of each row that was tried why it was not taken.
        """
        walker: Walker = event_data.model  # type: ignore[assignment]  # the library's type is `object`; checked when it is triggered
        guards, case, fits = walker.guards, walker.case, True
        for name, wanted, guard in self.needed:
            value = guards.get(name)
            if value is None:
                value = guards[name] = guard(case)
            if value is not wanted:
                fits = False
        if fits:
            walker.state, walker.row = self.row.dest, self.row
        return fits


class OrderedEvent(Event):
    """The event of a machine without callbacks and without a queue: a phase's transitions are tried in order."""

    def __init__(self, name: str, machine: LibraryMachine) -> None:
        super().__init__(name, machine)
        self._tried: dict[tuple[str, bool], tuple[GuardedTransition, ...]] = {}

    def add_transition(self, transition: Transition) -> None:
        """Take a transition in, as the last one of its phase."""
        super().add_transition(transition)
        self._tried.clear()

    def tried(self, state: str, *, waits: bool) -> tuple[GuardedTransition, ...]:
        """Return the transitions that are tried in a phase, in order; while it waits a hard stop and the answer."""
        if (state, waits) not in self._tried:
            self._tried[state, waits] = tuple(
                transition
                for transition in self.transitions.get(state, ())
                if isinstance(transition, GuardedTransition) and transition.row.is_tried(waits=waits)
            )
        return self._tried[state, waits]

    def trigger(self, model: Any, *args: Any, **kwargs: Any) -> bool:
        """
        Return whether a transition was taken by *model*, a `Walker`.

        Raises:
            MachineError: No transition leads on from the model's state.
        """
        if model.state not in self.transitions:
            raise MachineError(f"Can't trigger event {self.name} from state {model.state}!")
        data = EventData(self.machine.states[model.state], self, self.machine, model, args, kwargs)
        for transition in self.tried(model.state, waits=model.waits):
            data.transition = transition
            if transition.execute(data):
                data.result = True
                return True
        return False


class Machine(LibraryMachine):
    """
    The machine of a table, for any number of runs and threads at once: it holds no run.

    Args:
        table: Rows of the phases, in the order in which they are tried.
        waiting: Rows of the phases that wait.
        guards: Functions of the guards that the rows name.
        changes: Functions of what each row sets, by source and trigger.

    A row may name a guard that is not there: `fsm.check.checker` finds it, and a decision that needs it is refused.
    """

    transition_cls = GuardedTransition
    event_cls = OrderedEvent

    def __init__(
        self,
        table: tuple[Row, ...] = TABLE,
        waiting: tuple[Row, ...] = WAITING,
        guards: Mapping[str, Guard] = GUARDS,
        changes: Mapping[tuple[str, str], Callable[[GuardContext], Update]] = CHANGES,
    ) -> None:
        self.table, self.waiting, self.guards, self.changes = table, waiting, guards, changes
        super().__init__(
            model=None,
            states=list(PHASE_STATES),
            initial=INITIAL,
            auto_transitions=False,
            send_event=True,
            ignore_invalid_triggers=False,
            queued=False,
        )
        for row in (*table, *waiting):
            self.add_transition(
                DECIDE,
                row.source,
                row.dest,
                conditions=[Evaluation(name, guards.get(name, _absent)) for name in row.conditions],
                unless=[Evaluation(name, guards.get(name, _absent)) for name in row.unless],
                row=row,
            )


def _absent(case: GuardContext) -> bool:
    raise InternalError(f"run {case.run.run_id}: a row in {case.run.state} names a guard that is not there")


MACHINE = Machine()
"""The standard machine."""


def guards_in_force() -> dict[str, Guard]:
    """Return the guards that the standard machine evaluates in this process, by name."""
    return {
        name: guard
        for transition in MACHINE.get_transitions(DECIDE)
        if isinstance(transition, GuardedTransition)
        for name, _, guard in transition.needed
    }


__all__ = ["DECIDE", "MACHINE", "PHASE_STATES", "Machine", "Walker", "guards_in_force"]
