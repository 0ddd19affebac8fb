"""Doubles of what an own machine has from its host: its functions, its models and its port for values, watched, and raising on demand."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...fsm.decision.guard_context import GuardContext
from ...fsm.decision.host_machine import ASKS
from ...fsm.machine.host_rows import HostGuard
from ...fsm.machine.machine import Machine
from ...fsm.runtime.ports import ValuesPort
from ...prompts.model import Model
from ...states.phase import Phase
from ...states.run.spec import Spec, machine_data

NO_ROW = ("", -1)


class HostFault(RuntimeError):
    """What a function of the host raises when it is made to."""


class HostWatch:
    """
    What the host's functions report to while a world drives its engine.

    Args:
        gives: Called with the host's own port for values, a run's id and its phase; returns what the port gives.

    Attributes:
        failing: Whether they raise instead of being called.
        failed: Whether one of them did since that was set.
        place: Run and row of the newest decision.
        values: What the host's guards said in it, by name.
        given: What the port gave for it, None where it was not asked.
        twice: Names of guards that were asked twice in one decision.
        strangers: Phases whose visit a guard could see though it was about another call.
    """

    def __init__(self, gives: Callable[[ValuesPort, str, str], Any]) -> None:
        self._gives = gives
        self._context: GuardContext | None = None
        self.failing = self.failed = False
        self.place = NO_ROW
        self.values: dict[str, bool] = {}
        self.given: Any = None
        self.twice: list[str] = []
        self.strangers: list[str] = []

    def forget(self) -> None:
        """Begin with the next row: what was seen of the decision before is done with."""
        self._context, self.place, self.given = None, NO_ROW, None
        self.values, self.twice, self.strangers = {}, [], []

    def call(self, name: str, function: Callable[[GuardContext], Any], context: GuardContext) -> Any:
        """Return what a function of the host says, noted where it is a guard; raise where it is made to."""
        self._raise(name)
        if context is not self._context:
            self._context, self.values = context, {}
            self.place = context.run.run_id, context.run.seq
        value = function(context)
        if isinstance(value, bool):
            if name in self.values:
                self.twice.append(name)
            self.values[name] = value
            self._look_at_visits(context)
        return value

    def _look_at_visits(self, context: GuardContext) -> None:
        key = context.call.idempotency_key if context.call is not None else ""
        for phase in context.run.memory.visits:
            visit = context.visited(phase)
            if visit is not None and visit.call not in ("", key):
                self.strangers.append(phase)

    def ask(self, port: ValuesPort, run_id: str, phase: str) -> Any:
        """Return what the port gives, noted; raise where it is made to."""
        self._raise("values")
        self.given = self._gives(port, run_id, phase)
        return self.given

    def _raise(self, name: str) -> None:
        if self.failing:
            self.failed = True
            raise HostFault(f"{name} raised on purpose")


def watch_port(port: ValuesPort | None, watch: HostWatch) -> ValuesPort | None:
    """Return a host's port for values, reporting to *watch*."""
    return None if port is None else functools.partial(watch.ask, port)


def watch_machine(machine: Machine | None, watch: HostWatch, model: Model) -> Machine | None:
    """Return an own machine whose functions report to *watch*, and whose phases ask *model*; None for the standard one."""
    if machine is None:
        return None
    host = machine.host

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(context: GuardContext) -> Any:
            return watch.call(function.__name__, function, context)

        return call

    guards = {
        name: HostGuard(name, watched(guard.function), guard.tools) for name, guard in host.guards.items()
    }
    tells = {place: watched(tell) for place, tell in host.tells.items()}
    phases = {name: _watched_phase(phase, watched, model) for name, phase in host.phases.items()}
    return Machine(
        machine.table, machine.waiting, host=replace(host, guards=guards, tells=tells, phases=phases)
    )


def _watched_phase(phase: Phase, watched: Callable[[Any], Any], model: Model) -> Phase:
    given: dict[str, Any] = {name: getattr(phase, name) for name in ASKS}
    for name in ("arguments", "question"):
        if callable(given[name]):
            given[name] = watched(given[name])
    if given["model"] is not None:
        given["model"] = model
    return Phase(phase.name, **given)


class OwnCode:
    """
    The host's code for a replay, unwatched; templates, policy and limits are those that a run has recorded.

    Attributes:
        machine: The host's own.
        text: The same as a spec records it.
    """

    def __init__(self, machine: Machine, text: str) -> None:
        self.machine, self.text = machine, text

    def current_spec(self, spec: Spec) -> Spec:
        """Return *spec* as it is."""
        return spec

    def machine_for(self, spec: Spec) -> Machine | None:
        """Return the machine that *spec* tells with the host's functions, None for the standard one."""
        if spec.host_machine == self.text:
            return self.machine
        data: Mapping[str, Any] = machine_data(spec.host_machine)
        return Machine.from_dict(data, self.machine) if data else None
