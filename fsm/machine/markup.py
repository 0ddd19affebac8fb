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
from ..decision.host_machine import ASKS, Unbound, phase_data, phase_of
from .host_rows import Host, HostGuard
from .table import Row

EXTRAS = frozenset({"meaning", "answers", "host", "at_most", "asks", "tell"})
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
    data["meaning"] = row.meaning
    for name in ("answers", "host", "at_most"):
        if getattr(row, name):
            data[name] = getattr(row, name)
    tell = host.tells.get((row.source, row.trigger))
    return data | ({"tell": tell.__name__} if tell is not None else {})


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
        phases = [phase_of(item) for item in data["states"] if "asks" in item]
        guards = [_guard_of(item) for item in data.get("guards", ())]
        tells = {
            (item["source"], item["trigger"]): Unbound(item["tell"])
            for item in data["transitions"]
            if "tell" in item
        }
        host = Host(
            data["initial"],
            {phase.name: phase for phase in phases},
            {guard.name: guard for guard in guards},
            tells,
            tuple(data.get("values", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"this is no machine's data: {type(error).__name__} {str(error)[:120]}") from None
    return rows, host


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
    guards = (*data.get("conditions", ()), *(f"not {name}" for name in data.get("unless", ())))
    texts = (data["source"], data["trigger"], data["dest"], data.get("meaning", ""), *guards)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("names must be texts")
    flags = {name: data[name] for name in ("answers", "host", "at_most") if name in data}
    return Row(data["source"], data["trigger"], data["dest"], guards, data.get("meaning", ""), **flags)


def _guard_of(data: Mapping[str, Any]) -> HostGuard:
    tools = tuple(data["tools"]) if "tools" in data else None
    guard = HostGuard(data["name"], Unbound(data["name"]), tools)
    guard.__doc__ = data["sentence"]
    return guard
