"""
What makes a machine safe, whoever made it: with methods, from data, or as a journal has recorded it.

paor's own rows stay as they are and where they are, and the host's rows keep to the ways that are theirs. So, by the table itself:

- Executing is entered by ``specify`` alone, with `parameters_valid`, `parameters_safe`, `action_allowed` and `not duplicate`;
- a call that needs an approval is asked about first, and so is an argument that is missing; nothing is tried between the question and the call;
- what a tool has done is recorded and observed, and an effect in doubt is asked about before anything else;
- a cancellation and a budget that is used up are looked at first in every phase but Observing, and every way back has its limit;
- Done is entered by ``finish``, or by a row of the host's own from Reviewing or from a phase of the host's own;
- what has a gate is entered by way of it.

A condition that is added to one of paor's rows only lets it be taken less often, and is allowed where the rows below it take what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product, zip_longest
from typing import NamedTuple

from ...states.base.errors import UsageError
from ...states.run.phase_names import FAILED, PHASES, PLANNING, SPECIFYING
from .gates import open_gates
from .guards import GUARDS
from .host_checks import KEPT, check_fresh, way_problem
from .host_rows import HOST_GUARDS, Host, phase_rows, return_name
from .table import ROWS, Row


class MachineDefect(NamedTuple):
    """
    One thing that is wrong with a machine.

    Attributes:
        code: Of the findings of `paor check`, such as ``endless_loop``.
        place: Where, such as ``Verifying.rework``.
        message: One line, with what to do.
    """

    code: str
    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def place_of_row(row: Row) -> str:
    """Return how a finding names a row."""
    return f"{row.source}.{row.trigger}"


def unsafe_parts(rows: Sequence[Row], host: Host) -> Iterator[MachineDefect]:
    """
    Yield what a machine has that no safe one has; nothing for paor's own, nor for the machines that its methods return.

    Args:
        rows: All, those of each phase in the order in which they are tried.
        host: What it has from its host.
    """
    yield from _moved_rows(rows)
    yield from _lost_rows(rows, host)
    yield from _stray_rows(rows, host)
    yield from _taken_names(rows, host)
    table = [row for row in rows if not row.answers]
    for row, told in open_gates(table, host.gates, host.guards):
        yield MachineDefect("open_gate", place_of_row(row), told)
    for trigger in host.fresh:
        try:
            check_fresh(trigger, rows)
        except UsageError as error:
            yield MachineDefect("unsafe_row", trigger, str(error))
    for source, trigger in host.tells:
        if not any(row.host and _key(row)[:3] == (source, trigger, PLANNING) for row in rows):
            told = "only a row of the host's own to Planning tells the next plan something"
            yield MachineDefect("unsafe_row", f"{source}.{trigger}", told)


def check_safe(rows: Sequence[Row], host: Host) -> None:
    """
    Refuse a machine that is not safe.

    Raises:
        UsageError: The first thing that is wrong, in one line.
    """
    for defect in unsafe_parts(rows, host):
        raise UsageError(str(defect))


def _key(row: Row) -> tuple[object, ...]:
    """Return all of a row but what it says to people."""
    return row.source, row.trigger, row.dest, row.guards, row.answers, row.host, row.at_most


def _is_kept(row: Row, own: Row) -> bool:
    """Whether *row* is the row *own* of paor's, with further conditions at most, where it may have some."""
    if own.trigger in KEPT or not own.guards:
        return _key(row) == _key(own)
    return set(own.guards) <= set(row.guards) and _key(row) == _key(replace(own, guards=row.guards))


def _moved_rows(rows: Sequence[Row]) -> Iterator[MachineDefect]:
    """Rows of paor's own that are not there, or not as they are, or not in their order; and those that only pass for one."""
    for phase, answers in product(dict.fromkeys((*PHASES, *(row.source for row in rows))), (False, True)):
        mine, own_rows = (
            [row for row in of if (row.source, row.answers) == (phase, answers) and not row.host]
            for of in (rows, ROWS)
        )
        for row, own in zip_longest(mine, own_rows):
            if own is None:
                told = "paor has no such row; one of the host's own is added with machine.row(...)"
                yield MachineDefect("unsafe_row", place_of_row(row), told)
            elif row is None or not _is_kept(row, own):
                guards = ", ".join(own.guards) or "no guards"
                told = f"paor's own row to {own.dest} with {guards} must be there, in its place; machine.require(...) adds conditions"
                yield MachineDefect("unsafe_row", place_of_row(own), told)
                break


def _brought(host: Host) -> list[Row]:
    """Return the rows that the host's phases bring."""
    return [row for phase in host.phases.values() for part in phase_rows(phase) for row in part]


def _lost_rows(rows: Sequence[Row], host: Host) -> Iterator[MachineDefect]:
    """Rows that a phase of the host's brings and that are not there; and hard stops that are not looked at first."""
    keys = set(map(_key, rows))
    for row in _brought(host):
        if _key(row) not in keys:
            yield MachineDefect(
                "unsafe_row", place_of_row(row), f"the phase {row.source} needs its row to {row.dest}"
            )
    for stop in (row for row in (*ROWS, *_brought(host)) if row.guards == ("hard_stop",)):
        first = next((row for row in rows if row.source == stop.source), stop)
        if _key(first) != _key(stop):
            told = "a cancellation and a budget that is used up must be looked at before it"
            yield MachineDefect("unsafe_row", place_of_row(first), told)


def _stray_rows(rows: Sequence[Row], host: Host) -> Iterator[MachineDefect]:
    """Rows of the host's own on ways that are not theirs."""
    brought, standard = set(map(_key, _brought(host))), {(row.source, row.trigger) for row in ROWS}
    asked = False
    for row in rows:
        asked = asked or (row.source, row.trigger, row.host) == (SPECIFYING, "wait", False)
        if not row.host or _key(row) in brought:
            continue
        told = way_problem(row)
        if told is None and (row.answers or (row.trigger == "fail" and row.dest != FAILED)):
            told = "only a phase's own row takes an answer, and only one to Failed fails"
        if told is None and (row.source, row.trigger) in standard and not _asks_again(row):
            told = "there is such a row of paor's own already; give this one another trigger"
        if told is None and row.source == SPECIFYING and asked:
            told = "in Specifying a row of the host's own stands before wait, since an approval is for a call that then goes on at once"
        if told is not None:
            yield MachineDefect("unsafe_row", place_of_row(row), told)


def _asks_again(row: Row) -> bool:
    """Whether a row is the one with which a required condition of `select` has the action asked for again."""
    return (row.trigger, row.dest) == ("reselect", PLANNING) and "selection_retries_left" in row.conditions


def _taken_names(rows: Sequence[Row], host: Host) -> Iterator[MachineDefect]:
    """Guards that would be asked in the place of others."""
    bounds = {f"{row.trigger}_left": row for row in rows if row.at_most}
    for name in sorted(host.guards.keys() & {*GUARDS, *HOST_GUARDS, *map(return_name, host.phases), *bounds}):
        yield MachineDefect(
            "taken_name", f"guard {name}", f"{name} is a guard of paor's own; give the host's another name"
        )
    for name in sorted(bounds.keys() & GUARDS.keys()):
        told = f"its bound is the guard {name}, which paor has already; give this row another trigger"
        yield MachineDefect("taken_name", place_of_row(bounds[name]), told)
