"""
A machine as data: the form that the markup extension of `transitions` reads and draws, with what else a machine of paor has.

``states`` and ``transitions`` are what `transitions.extensions.GraphMachine` and any `transitions.Machine` take. A transition's trigger is its
row's; a row of the host's own, a bound, a row that takes an answer and what a phase asks for stand beside it under names of
paor's own (`EXTRAS`), which `graph_data` leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import msgspec

from ...states.base.errors import UsageError
from ...states.phase import Phase
from ...states.run.phase_names import FINAL, PHASES, PLANNING
from ..decision.host_machine import ASKS, Unbound, phase_data, phase_of
from .gates import check_gate
from .host_checks import check_phase
from .host_rows import Host, HostGuard
from .table import Row

EXTRAS = frozenset({"meaning", "answers", "host", "at_most", "asks", "tell", "guards"})
"""Keys of states and transitions that only paor knows."""

Names = tuple[str, ...]


class _Transition(msgspec.Struct):
    """A row as data. ``guards`` has them as the table does where that is another order than the library's, which has ``unless`` last."""

    trigger: str
    source: str
    dest: str
    conditions: Names = ()
    unless: Names = ()
    guards: Names | None = None
    meaning: str = ""
    answers: bool = False
    host: bool = False
    at_most: Annotated[int, msgspec.Meta(ge=0)] = 0
    tell: str | None = None

    @property
    def row(self) -> Row:
        """Return the row that it tells."""
        told = _in_order(self.conditions, self.unless) if self.guards is None else self.guards
        if sorted(told) != sorted(_in_order(self.conditions, self.unless)) or not all(told):
            raise ValueError("a row's guards are not its conditions and what must not hold")
        flags = {name: getattr(self, name) for name in ("answers", "host", "at_most")}
        return Row(self.source, self.trigger, self.dest, told, self.meaning, **flags)


class _Guard(msgspec.Struct):
    """A guard of the host's as data."""

    name: str
    sentence: str
    tools: Names | None = None


class _State(msgspec.Struct):
    """A phase as data; a host's has what it asks for."""

    name: str
    asks: dict[str, Any] | None = None


class _Machine(msgspec.Struct):
    """What is read of a machine's data."""

    initial: str
    states: tuple[_State, ...]
    transitions: tuple[_Transition, ...]
    guards: tuple[_Guard, ...] = ()
    values: Names = ()
    gates: dict[str, str] = {}


def machine_markup(rows: Iterable[Row], phases: Iterable[Phase], host: Host) -> dict[str, Any]:
    """Return the data of a machine: its rows in the order in which they are tried, its phases, the host's guards."""
    data: dict[str, Any] = {
        "name": "paor",
        "initial": host.initial,
        "send_event": True,
        "auto_transitions": False,
        "ignore_invalid_triggers": False,
        "queued": False,
        "states": [
            (phase_data(phase) if phase.name in host.phases else {"name": phase.name})
            | ({"final": True} if phase.final else {})
            for phase in phases
        ],
        "transitions": [_transition(row, host) for row in rows],
    }
    if host.guards:
        data["guards"] = [_guard(guard) for guard in host.guards.values()]
    if host.fresh:
        data["values"] = list(host.fresh)
    if host.gates:
        data["gates"] = dict(host.gates)
    return data


def _transition(row: Row, host: Host) -> dict[str, Any]:
    tell, told = host.tells.get((row.source, row.trigger)), _in_order(row.conditions, row.unless)
    parts = {
        "conditions": [*row.conditions],
        "unless": [*row.unless],
        "guards": [] if told == row.guards else [*row.guards],
        **{name: getattr(row, name) for name in ("meaning", "answers", "host", "at_most")},
        "tell": "" if tell is None else tell.__name__,
    }
    ends = {"trigger": row.trigger, "source": row.source, "dest": row.dest}
    return ends | {name: value for name, value in parts.items() if value}


def _guard(guard: HostGuard) -> dict[str, Any]:
    data: dict[str, Any] = {"name": guard.name, "sentence": guard.__doc__}
    return data if guard.tools is None else data | {"tools": [*guard.tools]}


def _in_order(conditions: Iterable[str], unless: Iterable[str]) -> Names:
    """Return guards in the order in which the library evaluates them."""
    return (*conditions, *(f"not {name}" for name in unless))


def graph_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a machine's data that `transitions` itself takes as keyword arguments."""
    known = {name: value for name, value in data.items() if name not in ("guards", "values", "code", "gates")}
    for name in ("states", "transitions"):
        known[name] = [{key: item[key] for key in item if key not in EXTRAS} for item in data[name]]
    return known


def read_markup(data: Mapping[str, Any]) -> tuple[tuple[Row, ...], Host]:
    """
    Return the rows of a machine's data, and what it has from its host, without the host's functions.

    Raises:
        UsageError: It is no machine's data.
    """
    try:
        told = msgspec.convert(dict(data), _Machine)
        rows = tuple(item.row for item in told.transitions)
        guards = [HostGuard(item.name, Unbound(item.name), item.tools) for item in told.guards]
        for guard, item in zip(guards, told.guards, strict=True):
            guard.__doc__ = item.sentence
        phases = [
            phase_of({"name": item.name, "asks": item.asks}) for item in told.states if item.asks is not None
        ]
        host = Host(
            told.initial,
            {phase.name: phase for phase in phases},
            {guard.name: guard for guard in guards},
            {
                (item.source, item.trigger): Unbound(item.tell)
                for item in told.transitions
                if item.tell is not None
            },
            told.values,
            gates=told.gates,
        )
        _check_names([item.name for item in told.states], rows, host)
    except (
        msgspec.ValidationError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:
        raise UsageError(f"this is no machine's data: {' '.join(str(error).split())[:160]}") from None
    return rows, host


def _check_names(names: list[str], rows: Iterable[Row], host: Host) -> None:
    """Raise `UsageError` where phases or rows of a machine's data do not go together."""
    if sorted(names) != sorted((*PHASES, *host.phases)):
        raise UsageError("its states must be the seven phases and the host's own, each once")
    known = set(names)
    for phase in host.phases.values():
        check_phase(phase, initial=phase.name == host.initial, taken=PHASES)
    if host.initial != PLANNING and host.initial not in host.phases:
        raise UsageError(f"initial: there is no phase {host.initial!a:.60} in which a run could begin")
    for target, gate in host.gates.items():
        check_gate(target, gate, known, {**host.gates, target: gate}, host.initial)
    for row in rows:
        if not {row.source, row.dest} <= known or row.source in FINAL:
            raise UsageError(f"there is no way from {row.source!a:.60} to {row.dest!a:.60}")
    lost = [phase for phase in names if phase not in FINAL and not any(row.source == phase for row in rows)]
    if lost:
        raise UsageError(f"no row leads on from {lost[0]!a:.60}")


def bound(recorded: Host, own: Host) -> Host:
    """Return what *recorded* says with the functions of *own*, each by its name; what is not there stays by its name alone."""
    guards = {
        name: HostGuard(name, own.guards[name].function, guard.tools) if name in own.guards else guard
        for name, guard in recorded.guards.items()
    }
    tells = {place: own.tells.get(place, tell) for place, tell in recorded.tells.items()}
    return replace(
        recorded, guards=guards, tells=tells, phases=_bound_phases(recorded, own), callbacks=own.callbacks
    )


def _bound_phases(recorded: Host, own: Host) -> dict[str, Phase]:
    """Return the recorded phases, with the arguments, questions and models of *own* where those were functions and models."""
    found = {}
    for name, phase in recorded.phases.items():
        mine = own.phases.get(name)
        given: dict[str, Any] = {item: getattr(phase, item) for item in ASKS}
        if mine is not None:
            given["model"] = mine.model
            for item in ("arguments", "question"):
                if isinstance(given[item], Unbound) and callable(getattr(mine, item)):
                    given[item] = getattr(mine, item)
        found[name] = Phase(name, **given)
    return found
