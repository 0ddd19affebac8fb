"""
What is wrong with a host's own machine as a whole, found before any run starts and without exploring one.

This is what `paor.Engine` refuses a machine for: names that lead nowhere, rows that can never be taken, cases that no row takes, phases without
an end, loops without a bound, code that a replay could not derive again. `fsm.check.checker` proves more, by exploring every state.

A loop is bounded by a row in it that counts: `Machine.row(..., at_most=...)`, or one of paor's own with its limit (`COUNTED`). Rows of
paor's own alone are proven elsewhere; here every loop counts that a row of the host's is part of.

Rows as conditions on guards: which can never fit, whatever the guards say, and what none fits. Pure logic, no runs.

A row's guards are a conjunction: a value wanted for some names. An earlier row or several together may fit whenever a
later one does; that is decided for all combinations of values at once, by splitting on one guard after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from ...states.run.phase_names import EXECUTING, FINAL, OBSERVING, PHASES, PLANNING, REVIEWING, SPECIFYING
from .guards import GUARDS
from .machine import MACHINE, Machine
from .safety import MachineDefect, place_of_row, unsafe_parts
from .table import Row
from .updates import CHANGES

Wanted = Mapping[str, bool]
"""Values of guards; those that are not named may be any."""


def wanted_of(row: Row) -> dict[str, bool] | None:
    """Return the values that a row wants, None when it wants both of one guard."""
    if set(row.conditions) & set(row.unless):
        return None
    return {**dict.fromkeys(row.conditions, True), **dict.fromkeys(row.unless, False)}


def find_uncovered(within: Wanted, rows: Sequence[Wanted]) -> dict[str, bool] | None:
    """
    Return values within *within* that none of *rows* fits, None when there are none.

    Args:
        within: The values that are known.
        rows: What each row wants.
    """
    fitting = [row for row in rows if all(within.get(name, value) is value for name, value in row.items())]
    if not fitting:
        return dict(within)
    shortest = min(fitting, key=len)
    name = next((name for name in shortest if name not in within), None)
    if name is None:
        return None
    for value in (True, False):
        found = find_uncovered({**within, name: value}, fitting)
        if found is not None:
            return found
    return None


def find_shadowed(rows: Sequence[Row]) -> list[int]:
    """Return the numbers of the rows that can never be taken, when *rows* are tried in order."""
    before: list[Wanted] = []
    found = []
    for number, row in enumerate(rows):
        wanted = wanted_of(row)
        if wanted is None or find_uncovered(wanted, before) is None:
            found.append(number)
        if wanted is not None:
            before.append(wanted)
    return found


def left_open(rows: Sequence[Row]) -> dict[str, bool] | None:
    """Return values of guards that no row fits, None when the rows cover all."""
    return find_uncovered({}, [wanted for row in rows if (wanted := wanted_of(row)) is not None])


COUNTED = {
    ("select", "steps_left"),
    ("reselect", "selection_retries_left"),
    ("wait", "elicitations_left"),
    ("respecify", "parameter_retries_left"),
    ("reassess", "review_retries_left"),
    ("reask", "review_retries_left"),
    ("retry", "retries_left"),
    ("retry_step", "step_retries_left"),
    ("withhold", "tools_offered"),
    ("next_step", "plan_has_steps"),
}
"""Rows, by trigger and guard, that each taking uses up something that nothing but another bounded row gives back."""


def defects_of(machine: Machine) -> tuple[MachineDefect, ...]:
    """
    Return what is wrong with a machine, in the order of the table; nothing for the standard one.

    Args:
        machine: With its host's functions.
    """
    if machine is MACHINE:
        return ()
    named = (*_unknown_names(machine), *unsafe_parts(machine.rows, machine.host), *_foreign_code(machine))
    if named:
        return named
    return (
        *_unfit_rows(machine),
        *_uncovered_phases(machine),
        *_lost_phases(machine),
        *_unready_phases(machine),
        *_endless_loops(machine),
    )


def _foreign_code(machine: Machine) -> Iterator[MachineDefect]:
    """Guards and effects of paor's own that are other functions: a machine that was not made by the methods of `Machine.standard()`."""
    for name, guard in GUARDS.items():
        if machine.guards.get(name) is not guard:
            yield MachineDefect("foreign_code", f"guard {name}", "it is paor's own, and another function")
    for (source, trigger), change in CHANGES.items():
        if machine.changes.get((source, trigger)) is not change:
            yield MachineDefect(
                "foreign_code", f"{source}.{trigger}", "what it sets is paor's own, and another function"
            )


def _unknown_names(machine: Machine) -> Iterator[MachineDefect]:
    for row in machine.rows:
        for name in (*row.conditions, *row.unless):
            if name not in machine.guards:
                like = get_close_matches(name, machine.guards, n=1)
                hint = (
                    f"did you mean {like[0]}?"
                    if like
                    else "give the function itself, or machine.guard(...) first"
                )
                told = f"there is no guard {name!a:.60}; {hint}"
                yield MachineDefect("unknown_name", place_of_row(row), told)


def _unfit_rows(machine: Machine) -> Iterator[MachineDefect]:
    for phase in machine.states:
        rows = machine.rows_of(phase)
        for number in find_shadowed(rows):
            row = rows[number]
            if is_replaced(rows, number):
                continue
            told = f"it is never taken: {_in_its_place(rows, number)}"
            yield MachineDefect("shadowed_row", place_of_row(row), told)


def _in_its_place(rows: Sequence[Row], number: int) -> str:
    """Return which row before the one of that number leaves nothing for it, and what helps."""
    row, before = rows[number], rows[:number]
    if wanted_of(row) is None:
        return "one of its guards must hold and must not hold"
    other = next((item for item in before if find_shadowed((item, row)) == [1]), None)
    if other is None:
        return "the rows before it leave nothing for it; give it another place with before=..."
    if other.host and not row.host:
        return f"{other.trigger} before it fits whenever it does; give that row guards, or another place with before=..."
    return f"{other.trigger} before it fits whenever it does; give it another place with before=..., or other guards"


def is_replaced(rows: Sequence[Row], number: int) -> bool:
    """Return whether a row of paor's own gives way to the host's that was put right before it, which fits whenever it does."""
    row, before = rows[number], rows[number - 1] if number else None
    return before is not None and before.host and not row.host and find_shadowed((before, row)) == [1]


def _uncovered_phases(machine: Machine) -> Iterator[MachineDefect]:
    for phase in machine.host.phases:
        values = left_open(machine.rows_of(phase))
        if values is not None:
            told = ", ".join(f"{name} is {value}" for name, value in sorted(values.items()))
            yield MachineDefect(
                "uncovered_case", phase, f"no row is taken where {told}; add a last row without guards"
            )


def _lost_phases(machine: Machine) -> Iterator[MachineDefect]:
    """Phases that no run comes to, and those that no end can be reached from."""
    reached = _reachable(machine.rows, machine.host.initial)
    for phase in machine.host.phases:
        if phase not in reached:
            yield MachineDefect("unreachable_phase", phase, "no row leads to it from where a run begins")
    for phase in machine.host.phases:
        ahead = _reachable([row for row in machine.rows if row.guards != ("hard_stop",)], phase)
        if not FINAL & ahead:
            yield MachineDefect("dead_end", phase, "no row leads on from it to an end")


def _reachable(rows: Iterable[Row], start: str) -> set[str]:
    """Return the phases that can be come to from *start*, itself included."""
    ways = list(rows)
    found, line = {start}, [start]
    while line:
        phase = line.pop()
        for row in ways:
            if row.source == phase and row.dest not in found:
                found.add(row.dest)
                line.append(row.dest)
    return found


def _unready_phases(machine: Machine) -> Iterator[MachineDefect]:
    """Rows to Specifying from where no call may be at hand."""
    phases = machine.host.phases
    without = {PLANNING, REVIEWING} | {
        name for name, phase in phases.items() if phase.tool is not None or name == machine.host.initial
    }
    rows = [row for row in machine.rows if row.host and row.dest in phases and row.source != row.dest]
    while more := {row.dest for row in rows if row.dest not in without and row.source in without}:
        without |= more
    for row in machine.rows:
        if row.host and row.dest == SPECIFYING and row.trigger != "call" and row.source in without:
            told = (
                f"a row from {row.source} has no call that could go on in Specifying; select and next_step set one. "
                "Lead to Planning instead"
                if row.source in PHASES
                else f"{row.source} may be entered without a call that could go on in Specifying; lead to Planning instead"
            )
            yield MachineDefect("unready_phase", place_of_row(row), told)


def _endless_loops(machine: Machine) -> Iterator[MachineDefect]:
    free = [row for row in machine.rows if not _is_counted(row)]
    tools = {name for name, phase in machine.host.phases.items() if phase.tool is not None}
    leads: dict[_Place, dict[_Place, list[Row]]] = {}
    for phase in machine.states:
        for caller in (None, *sorted(tools)):
            found: dict[_Place, list[Row]] = {}
            leads[phase, caller] = found
            for row in free:
                if row.source == phase and (dest := _led_to(row, caller, tools)) is not None:
                    found.setdefault(dest, []).append(row)
    bad: dict[int, Row] = {}
    for place, ways in leads.items():
        for dest, rows in ways.items():
            if place in _places_from(leads, dest):
                bad |= {id(row): row for row in rows if row.host and not row.answers}
    for row in machine.rows:
        if id(row) in bad and row.trigger not in ("call", "observe"):
            told = "it is part of a loop that no bound ends; give the row at_most=..., or one that it always comes by"
            yield MachineDefect("endless_loop", place_of_row(row), told)


_Place = tuple[str, str | None]
"""A phase, and the phase of the host's own whose call is under way or was made last; None for any other call."""


def _led_to(row: Row, caller: str | None, tools: set[str]) -> _Place | None:
    """Return where a row leads while the call of *caller* is at hand, None where it cannot be taken then."""
    if row.trigger == "call":
        return (SPECIFYING, row.source) if caller != row.source else None  # due once in each stay
    if row.source == OBSERVING:
        back = caller if caller is not None else REVIEWING
        return (row.dest, caller) if row.dest == back else None
    kept = row.dest in (SPECIFYING, EXECUTING, OBSERVING) or (
        row.dest not in PHASES and row.dest not in tools
    )
    return row.dest, caller if kept and row.source not in (PLANNING, REVIEWING) else None


def _places_from(leads: Mapping[_Place, Mapping[_Place, object]], start: _Place) -> set[_Place]:
    """Return where a run can come to from *start*, itself included."""
    found, line = {start}, [start]
    while line:
        for dest in leads[line.pop()]:
            if dest not in found:
                found.add(dest)
                line.append(dest)
    return found


def _is_counted(row: Row) -> bool:
    bounded = row.at_most and f"{row.trigger}_left" in row.conditions
    return bool(bounded) or row.answers or any((row.trigger, guard) in COUNTED for guard in row.guards)
