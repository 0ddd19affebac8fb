"""
The lineage of a run: which runs its rows, payloads and documents belong to.

A fork shares the beginning of its parent by reference. Nothing is copied: the shared rows have the parent's
number, and the fork's own rows, payloads and documents go on with the next numbers. The parent is always the run in which
the last shared row itself stands; so a fork of a fork within the part that both share is a fork of the first run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

from ...states.base.errors import JournalDamaged

Query = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]


class SharedPart(NamedTuple):
    """
    One stretch of a run's walk: what of it is under one run's number.

    Attributes:
        run, run_id: The run under which it stands.
        first_seq, first_payload, first_document: Numbers with which it begins; the next part's end it.
    """

    run: int
    run_id: str
    first_seq: int
    first_payload: int
    first_document: int


def parts_of(query: Query, run: int) -> tuple[SharedPart, ...]:
    """
    Return the parts of run number *run*, oldest first; the last one is the run itself.

    Raises:
        JournalDamaged: The row that it was forked at is not there, or it is its own ancestor.
    """
    parts: list[SharedPart] = []
    seen: set[int] = set()
    number: int | None = run
    while number is not None:
        if number in seen:
            raise JournalDamaged(f"run number {run}: is its own ancestor; run: paor verify")
        seen.add(number)
        number, part = _part(query, number)
        parts.append(part)
    parts.reverse()
    if any(one.first_seq >= other.first_seq for one, other in pairwise(parts)):
        raise JournalDamaged(
            f"run {parts[-1].run_id}: was forked from rows that its parent only shares; run: paor verify"
        )
    return tuple(parts)


def _part(query: Query, run: int) -> tuple[int | None, SharedPart]:
    """Return the number of a run's parent, None without one, and the run's own part."""
    rows = query("SELECT run_id, parent_run_id, parent_seq FROM specs WHERE run = ?", (run,))
    if not rows:
        raise JournalDamaged(f"run number {run}: is not in specs; run: paor verify")
    run_id, parent, seq = rows[0]
    if parent is None:
        return None, SharedPart(run, run_id, 0, 0, 0)
    found = query(
        'SELECT specs.run, "trigger", outcome, change, counters FROM specs JOIN transitions'
        " ON transitions.id = (specs.run << 32 | ?) WHERE run_id = ?",
        (seq, parent),
    )
    if not found:
        raise JournalDamaged(
            f"run {run_id}: row {seq} of run {parent}, which it was forked at, is missing; run: paor verify"
        )
    number, trigger, outcome, change, counters = found[0]
    try:
        place = orjson.loads(change)["n"] + 1
        # documents of a call stand in their table with the row that observes it, and so under the fork
        documents = (
            orjson.loads(outcome)["first"]
            if trigger == "execute"
            else orjson.loads(counters).get("documents", 0)
        )
        if not 0 <= seq < 2**32 or not all(type(n) is int and 0 <= n <= 2**32 for n in (place, documents)):
            raise ValueError("no such number")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise JournalDamaged(f"run {parent}: row {seq} cannot be read; run: paor verify") from None
    return number, SharedPart(run, run_id, seq + 1, place, documents)


def part_with(parts: Sequence[SharedPart], field: str, number: int) -> SharedPart:
    """Return the part that holds a row, payload or document (*field*: its first number) by its number."""
    return next((part for part in reversed(parts) if getattr(part, field) <= number), parts[0])
