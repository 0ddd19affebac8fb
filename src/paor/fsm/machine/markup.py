"""
A machine as data: the form that the markup extension of `transitions` reads and draws, with what else a machine of paor has.

``states`` and ``transitions`` are what `transitions.extensions.GraphMachine` and any `transitions.Machine` take. A transition's trigger is its
row's; a row of the host's own, a bound, a row that takes an answer and what a phase asks for stand beside it under names of
paor's own (`EXTRAS`), which `graph_data` leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...states.base.errors import UsageError
from ...states.phase import Phase
from ...states.run.phase_names import FINAL, PHASES, PLANNING
from ..decision.host_machine import ASKS, Unbound, phase_data, phase_of
from .host_checks import check_phase
from .host_rows import Host, HostGuard
from .table import Row

EXTRAS = frozenset({"meaning", "answers", "host", "at_most", "asks", "tell", "guards"})
"""Keys of states and transitions that only paor knows."""


def machine_markup(rows: Iterable[Row], phases: Iterable[Phase], host: Host) -> dict[str, Any]:
    """Return the data of a machine: its rows in the order in which they are tried, its phases, the host's guards."""
    data: dict[str, Any] = {
        "name": "paor",
        "initial": host.initial,
        "send_event": True,
        "auto_transitions": False,
        "ignore_invalid_triggers": False,
        "queued": False,
        "states": [_state(phase, host) for phase in phases],
        "transitions": [_transition(row, host) for row in rows],
    }
    if host.guards:
        data["guards"] = [_guard(guard) for guard in host.guards.values()]
    if host.fresh:
        data["values"] = list(host.fresh)
    return data


def _state(phase: Phase, host: Host) -> dict[str, Any]:
    data: dict[str, Any] = phase_data(phase) if phase.name in host.phases else {"name": phase.name}
    return data | ({"final": True} if phase.final else {})


def _transition(row: Row, host: Host) -> dict[str, Any]:
    data: dict[str, Any] = {"trigger": row.trigger, "source": row.source, "dest": row.dest}
    if row.conditions:
        data["conditions"] = list(row.conditions)
    if row.unless:
        data["unless"] = list(row.unless)
    if _in_order(row.conditions, row.unless) != row.guards:
        data["guards"] = list(
            row.guards
        )  # as the table has them; the library has those that must not hold last
    data["meaning"] = row.meaning
    for name in ("answers", "host", "at_most"):
        if getattr(row, name):
            data[name] = getattr(row, name)
    tell = host.tells.get((row.source, row.trigger))
    return data | ({"tell": tell.__name__} if tell is not None else {})


def _in_order(conditions: Iterable[str], unless: Iterable[str]) -> tuple[str, ...]:
    """Return guards in the order in which the library evaluates them."""
    return (*conditions, *(f"not {name}" for name in unless))


def _guard(guard: HostGuard) -> dict[str, Any]:
    data: dict[str, Any] = {"name": guard.name, "sentence": guard.__doc__}
    return data | ({"tools": list(guard.tools)} if guard.tools is not None else {})


def graph_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a machine's data that `transitions` itself takes as keyword arguments."""
    known = {name: value for name, value in data.items() if name not in ("guards", "values", "code")}
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
        rows = tuple(_row_of(item) for item in data["transitions"])
        names = [_text(item["name"]) for item in data["states"]]
        phases = [phase_of(item) for item in data["states"] if "asks" in item]
        guards = [_guard_of(item) for item in data.get("guards", ())]
        tells = {
            (item["source"], item["trigger"]): Unbound(_text(item["tell"]))
            for item in data["transitions"]
            if "tell" in item
        }
        host = Host(
            _text(data["initial"]),
            {phase.name: phase for phase in phases},
            {guard.name: guard for guard in guards},
            tells,
            tuple(_text(item) for item in data.get("values", ())),
        )
        _check_names(names, rows, host)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        told = " ".join(str(error).split())[:160]
        told = told if isinstance(error, UsageError) else f"{type(error).__name__} {told}"
        raise UsageError(f"this is no machine's data: {told}") from None
    return rows, host


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a name must be a text, not {type(value).__name__}")
    return value


def _check_names(names: list[str], rows: Iterable[Row], host: Host) -> None:
    """Raise `UsageError` where phases or rows of a machine's data do not go together."""
    if sorted(names) != sorted((*PHASES, *host.phases)):
        raise UsageError("its states must be the seven phases and the host's own, each once")
    known = set(names)
    for phase in host.phases.values():
        check_phase(phase, initial=phase.name == host.initial, taken=PHASES)
    if host.initial != PLANNING and host.initial not in host.phases:
        raise UsageError(f"initial: there is no phase {host.initial!a:.60} in which a run could begin")
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


def _row_of(data: Mapping[str, Any]) -> Row:
    conditions, unless = (_names(data.get(key, ())) for key in ("conditions", "unless"))
    guards = _in_order(conditions, unless)
    told = _names(data["guards"]) if "guards" in data else guards
    if sorted(told) != sorted(guards) or not all(guards):
        raise ValueError("a row's guards are not its conditions and what must not hold")
    source, trigger, dest = (_text(data[key]) for key in ("source", "trigger", "dest"))
    flags = {name: data.get(name, False) for name in ("answers", "host")}
    at_most = data.get("at_most", 0)
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise TypeError("answers and host are true or false")
    if isinstance(at_most, bool) or not isinstance(at_most, int) or at_most < 0:
        raise TypeError("at_most is a whole number")
    meaning = _text(data.get("meaning", ""))
    return Row(source, trigger, dest, told, meaning, **flags, at_most=at_most)


def _names(given: object) -> tuple[str, ...]:
    if not isinstance(given, list | tuple):
        raise TypeError(f"a list of names is needed, not {type(given).__name__}")
    return tuple(_text(item) for item in given)


def _guard_of(data: Mapping[str, Any]) -> HostGuard:
    tools = _names(data["tools"]) if "tools" in data else None
    name = _text(data["name"])
    guard = HostGuard(name, Unbound(name), tools)
    guard.__doc__ = _text(data["sentence"])
    return guard
