"""
Rows as conditions on guards: which can never fit, whatever the guards say, and what none fits. Pure logic, no runs.

A row's guards are a conjunction: a value wanted for some names. An earlier row or several together may fit whenever a
later one does; that is decided for all combinations of values at once, by splitting on one guard after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .table import Row

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
