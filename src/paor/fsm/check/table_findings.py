"""What the table of a machine shows to be wrong with it, without a run."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from ...states.run.phase_names import DONE, FINAL, PHASES, PLANNING, REVIEWING, SPECIFYING
from ..machine.guards import GUARDS
from ..machine.host_rows import NO_HOST
from ..machine.machine import Machine
from ..machine.safety import MachineDefect, place_of_row, unsafe_parts
from ..machine.table import Row
from ..machine.updates import CHANGES
from .findings import Finding


def table_findings(machine: Machine) -> Iterator[Finding]:
    """Yield what is wrong with a table as it is."""
    yield from _standard_findings(machine) if machine.host is NO_HOST else _own_findings(machine)


def _standard_findings(machine: Machine) -> Iterator[Finding]:
    rows, places = machine.rows, places_of(machine)
    for defect in (*_unknown_names(machine), *unsafe_parts(rows, machine.host)):
        yield Finding(*defect)
    for row in rows:
        yield from _row_findings(row, places[id(row)], machine)
    for source, trigger in machine.changes:
        if (source, trigger) not in map(_key, rows):
            yield Finding("missing_row", f"{source}.{trigger}", "the table has no such row")
    named = {name for row in rows for name in (*row.conditions, *row.unless)}
    for name in machine.guards:
        if name not in named:
            yield Finding("unused_guard", name, "no row looks at this guard")


def _own_findings(machine: Machine) -> Iterator[Finding]:
    """Yield what is wrong with a host's own machine as it stands: what an engine refuses it for, and what only its data can have."""
    for defect in table_defects(machine):
        yield Finding(*defect)
    places = places_of(machine)
    for row in machine.rows:
        yield from _row_findings(row, places[id(row)], machine)
        if row.at_most and f"{row.trigger}_left" not in row.conditions:
            yield Finding("uncounted", places[id(row)], f"its bound needs the guard {row.trigger}_left")


def _row_findings(row: Row, place: str, machine: Machine) -> Iterator[Finding]:
    for phase in (row.source, row.dest):
        if phase not in machine.states:
            yield Finding("unknown_name", place, f"there is no phase {phase!a}")
    if _key(row) not in machine.changes:
        yield Finding("no_effect", place, "nothing says what this row sets")
    if row.source in FINAL:
        yield Finding("final_row", place, f"{row.source} is final, and this row leads out of it")
    if row.dest == DONE and row.source != REVIEWING and not row.host:
        yield Finding("done_elsewhere", place, f"it leads to Done from {row.source}")


def places_of(machine: Machine) -> dict[int, str]:
    """Return by a row's id how a finding names it: ``Planning.select``, and which one where there are several."""
    same: dict[tuple[str, str], list[Row]] = {}
    for row in machine.rows:
        same.setdefault(_key(row), []).append(row)
    return {
        id(row): f"{row.source}.{row.trigger}" + (f"[{number}]" if len(rows) > 1 else "")
        for rows in same.values()
        for number, row in reversed([*enumerate(rows)])
    }


def _key(row: Row) -> tuple[str, str]:
    return row.source, row.trigger


def table_defects(machine: Machine) -> tuple[MachineDefect, ...]:
    """
    Return what the table of a machine shows to be wrong with it, without a run; `fsm.check.checker.machine_defects` also looks at runs.

    Args:
        machine: With its host's functions.
    """
    found = (*_unknown_names(machine), *unsafe_parts(machine.rows, machine.host), *_foreign_code(machine))
    return found or tuple(_unready_phases(machine))


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
