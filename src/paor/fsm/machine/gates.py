"""
Gates: a phase of the host's own that every way to another one goes through, whatever rows are added later.

A row to the target is turned to the gate. One of the host's own leads to the gate itself; before one of paor's own, which stays as it is, stands a
row with the same guards. So the target is entered from its gate alone, right after the row that says that the gate was passed: nothing,
a call with an effect least of all, comes between the two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ...states.base.errors import UsageError
from ...states.run.phase_names import DONE, FAILED, OBSERVING, PHASES, PLANNING
from .table import Row


def trigger_to(gate: str) -> str:
    """Return the trigger of the rows that lead to *gate* in the place of rows of paor's own."""
    return f"to_{gate.lower()}"


def turned(row: Row, gates: Mapping[str, str]) -> Row:
    """Return *row*, to the first of the gates before its destination, where it has some and the row does not come from there; see `gated`."""
    gate = gates.get(row.dest)
    # the way back from the target's own call is no way to it, nor is a row within it
    if gate is None or row.source in (gate, row.dest, OBSERVING) or row.answers:
        return row
    while (before := gates.get(gate)) is not None and row.source not in (before, gate):
        gate = before
    return replace(row, dest=gate)


def gated(table: Sequence[Row], gates: Mapping[str, str]) -> tuple[Row, ...]:
    """
    Return *table* with every way to a gate's target turned to the gate; one that is so already as it is.

    Args:
        table: Rows of the phases, in the order in which they are tried.
        gates: By target the gate.
    """
    made = {(trigger_to(gate), gate) for gate in gates.values()}
    found: list[Row] = []
    for row in table:
        if (row.trigger, row.dest) in made:
            continue
        there = turned(row, gates)
        if there is row or row.host:
            found.append(there)
            continue
        if not any(_covers(other, there) for other in found):
            meaning = f"{row.meaning}; {there.dest} comes before {row.dest}"
            found.append(replace(there, trigger=trigger_to(there.dest), meaning=meaning, host=True))
        found.append(row)
    return tuple(found)


def _covers(other: Row, row: Row) -> bool:
    """Return whether *other* leads where *row* does whenever that fits."""
    return (other.source, other.dest) == (row.source, row.dest) and set(other.guards) <= set(row.guards)


def is_passed(row: Row, guards: Collection[str]) -> bool:
    """
    Return whether *row* says that the phase of the host's own that it leaves has been passed.

    Such a row leads on, to another phase than Planning, Specifying's own call and Failed, only where what was asked for succeeded or
    a guard of the host's own holds.

    Args:
        row: A row of a host's own phase.
        guards: Names of the host's own guards.
    """
    leads_on = row.dest not in (row.source, PLANNING, FAILED) and row.trigger != "call"
    return leads_on and any(name == "succeeded" or name in guards for name in row.conditions)


def check_gate(
    target: str, gate: str, phases: Collection[str], gates: Mapping[str, str], initial: str
) -> None:
    """Raise `UsageError` where *gate* can be no gate of *target*."""
    own = sorted(set(phases) - set(PHASES))
    if gate not in own:
        there = f"there are: {', '.join(own)}" if own else "add it first, with machine.phase(...)"
        raise UsageError(f"gate: {gate!a:.60} is no phase of the host's own; {there}")
    if target not in (DONE, *own):
        raise UsageError(f"gate: the target is Done or a phase of the host's own, not {target!a:.60}")
    if target in (gate, initial):
        told = "no gate leads to itself" if target == gate else f"every run begins in {target}"
        raise UsageError(f"gate: {told}")
    if gates.get(target, gate) != gate:
        known = gates[target]
        raise UsageError(
            f"gate: {known} is the gate of {target} already; gate({known!r}, {gate!r}) puts {gate} before it"
        )
    before: str | None = gate
    while before is not None:
        if (before := gates.get(before)) == target:
            raise UsageError(f"gate: {target} comes before {gate} already")


def open_gates(
    table: Sequence[Row], gates: Mapping[str, str], guards: Collection[str]
) -> Iterator[tuple[Row, str]]:
    """
    Yield each row that leads past a gate, with what is wrong; none for what `gated` returns, but for a passage without a condition.

    Args:
        table: Rows of the phases.
        gates: By target the gate.
        guards: Names of the host's own guards.
    """
    right = gated(table, gates)
    for row in table:
        gate = gates.get(row.dest)
        if row not in right:
            yield row, f"{row.dest} is entered by way of {gate} alone"
        elif gate is not None and row.source == gate and not is_passed(row, guards):
            yield (
                row,
                f"it leads to {row.dest} whatever {gate} came to: give it when='succeeded', or a guard of your own",
            )
    for row in right:
        if row not in table:
            yield row, f"this row must lead to {row.dest}, as machine.gate(...) puts it there"
