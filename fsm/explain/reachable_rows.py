"""
What a table allows a journal to hold: which rows were tried for a record, and which guard values can come up at all.

Only the table's order is looked at, not what a guard means: guards are free to say anything, each of them on its own.
What they mean is known of the table that is shipped: `UNREACHED`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from ..machine.table import ROWS, Row

RowKey = tuple[str, str, str, tuple[str, ...]]
"""Source, trigger, destination and guards of a row."""

Step = tuple[str, str, str]
Literal = tuple[str, bool]
"""A guard and a value of it."""

UNREACHED = frozenset(
    {("Planning", "select", "steps_left", False), ("Planning", "reselect", "selection_ok", True)}
)
"""
Source and trigger of the shipped rows with the values of guards that no state comes to: a run without a step left ends in
Reviewing and does not plan again, so a selection that is fine is always taken. The exploration of `paor check` over all
states of the shipped machine finds these and no others; a test holds that.
"""

WORK_MAX = 200_000
"""Guards of rows looked at for the proofs of one table, after which what is left counts as possible; the shipped one needs a tenth."""


_SHIPPED: tuple[RowKey, ...] = tuple((row.source, row.trigger, row.dest, row.guards) for row in ROWS)


class GuardOutcome(NamedTuple):
    """
    One value of one guard where one row is tried.

    Attributes:
        place: The row's place in the table, from 0.
        guard: Its name, without ``not``.
        value: What it said.
    """

    place: int
    guard: str
    value: bool


@lru_cache(maxsize=64)
def possible_outcomes(rows: tuple[RowKey, ...]) -> tuple[GuardOutcome, ...]:
    """
    Return the guard outcomes that a journal can hold.

    One is left out when it is proved by the table alone, guards being free to say anything, that with this value either a
    row before always fits, or no row from here on does. A table so entangled that the proof takes too long keeps the
    outcome. Of the shipped table what no state comes to (`UNREACHED`) is left out as well.
    """
    table = [Row(*key, "") for key in rows]
    needed, names = [required_values(row) for row in table], [guard_names(row) for row in table]
    found, work = set[GuardOutcome](), [WORK_MAX]
    for source in dict.fromkeys(row.source for row in table):
        for order in (_order(table, source, waiting=False), _order(table, source, waiting=True)):
            tried = [needed[place] for place in order]
            for index, place in enumerate(order):
                for name in names[place]:
                    for value in (True, False):
                        if _possible(tried, index, (name, value), work):
                            found.add(GuardOutcome(place, name, value))
    if rows == _SHIPPED:
        found = {one for one in found if (*rows[one.place][:2], one.guard, one.value) not in UNREACHED}
    ranks = {(place, name): rank for place, own in enumerate(names) for rank, name in enumerate(own)}
    return tuple(sorted(found, key=lambda one: (one.place, ranks[one.place, one.guard], not one.value)))


def _possible(tried: Sequence[tuple[Literal, ...]], index: int, literal: Literal, work: list[int]) -> bool:
    """Return whether the row at *index* can be tried while *literal* holds, so that it or a later row is taken."""
    for end in range(index, len(tried)):
        needed = (literal, *tried[end])
        values = dict(needed)
        fits = all(values[name] is value for name, value in needed)
        if fits and _satisfiable(tried[:end], values, work):
            return True
    return False


def _satisfiable(refused: Sequence[tuple[Literal, ...]], values: dict[str, bool], work: list[int]) -> bool:
    """Return whether every row of *refused* can be kept from fitting, *values* being given; True if it takes too long."""
    for place, literals in enumerate(refused):
        work[0] -= len(literals) + 1
        if work[0] < 0:
            return True
        if any(values.get(name, wanted) is not wanted for name, wanted in literals):
            continue  # one of its guards keeps it from fitting already
        free = dict.fromkeys(literal for literal in literals if literal[0] not in values)
        rest = refused[place + 1 :]
        return any(_satisfiable(rest, {**values, name: not wanted}, work) for name, wanted in free)
    return True


def _order(rows: Sequence[Row], source: str, *, waiting: bool) -> tuple[int, ...]:
    """Return the places of the rows that are tried in a phase, as `table.rows_of` has them."""
    own = [place for place, row in enumerate(rows) if row.source == source]
    answers = [place for place in own if rows[place].trigger == "provide"]
    if waiting:
        own = [place for place in own if rows[place].guards == ("hard_stop",) and place not in answers]
        return (*own, *answers)
    return tuple(place for place in own if place not in answers)


def tried_rows(rows: Sequence[Row], step: Step, guards: Mapping[str, bool]) -> tuple[int, ...]:
    """Return the places of the rows that were tried, the last of them taken; none when the table would not do this."""
    source, trigger, dest = step
    for waiting in (True,) if trigger == "provide" else (False, True):
        order = _order(rows, source, waiting=waiting)
        tried = _first_fit([rows[place] for place in order], guards)
        if tried and (rows[order[tried - 1]].trigger, rows[order[tried - 1]].dest) == (trigger, dest):
            return order[:tried]
    return ()


def _first_fit(rows: Sequence[Row], guards: Mapping[str, bool]) -> int:
    """Return how many rows were tried until one fitted; 0 when none does or *guards* are not exactly theirs."""
    names = set[str]()
    for tried, row in enumerate(rows, start=1):
        names.update(guard_names(row))
        if any(name not in guards for name in guard_names(row)):
            return 0
        if all(guards[name] is value for name, value in required_values(row)):
            return tried if len(names) == len(guards) else 0
    return 0


def required_values(row: Row) -> tuple[Literal, ...]:
    """Return a row's guards in order, and what each must say for it to fit."""
    return tuple((name.removeprefix("not "), not name.startswith("not ")) for name in row.guards)


def guard_names(row: Row) -> tuple[str, ...]:
    """Return a row's guards without ``not``, each once, in its order."""
    return tuple(dict(required_values(row)))
