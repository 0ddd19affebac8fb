"""
What verifying a fork takes beyond verifying a run: where it begins, and whether what it shares still holds.

The shared rows, payloads and documents stand under the fork's ancestors and are checked there once. A fork adds its root
hash, which commits to the last shared row, and numbers that go on where the shared ones end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..states.errors import JournalDamaged
from ..states.phase import FINAL
from .lineage import Part
from .payloads import encoded

if TYPE_CHECKING:
    from .journal_reading import JournalReader

_LIMITS = {
    "transitions seq": "first_seq",
    "payloads n": "first_payload",
    "documents number": "first_document",
}
"""Numbered places of a run, and where the part of it that a fork shares ends."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """
    Where a fork's own rows begin.

    Attributes:
        part: Its own part of the walk.
        row: The last shared row.
        pending: Payload of the result that this row has recorded and the fork's first row observes.
    """

    part: Part
    row: tuple[Any, ...]
    pending: tuple[int, ...]


def beginning_of(journal: JournalReader, run: int) -> Beginning:
    """
    Return where a fork begins.

    Raises:
        JournalDamaged: The row that it was forked at is not there, or has ended its parent.
    """
    parts = journal.lineage(run)
    if len(parts) == 1:
        raise JournalDamaged("parent_seq without parent_run_id")
    parent, own = parts[-2:]
    row = journal.own_rows(parent.run, own.first_seq - 1, own.first_seq - 1)[0]
    if row[5] in FINAL:
        raise JournalDamaged(f"it was forked at row {row[1]} of run {parent.run_id}, which ended that run")
    return Beginning(own, row, (own.first_payload - 1,) if row[3] == "execute" else ())


def claim_problems(
    journal: JournalReader, run: int, first: int, claims: Mapping[int, tuple[Any, Any]]
) -> Iterator[tuple[str, str]]:
    """Yield place and problem of payloads below number *first* that a fork names otherwise than they stand."""
    for number in sorted(number for number in claims if number < first):
        payload = journal.find_payload(run, number)
        digest, size = claims[number]
        if payload is None:
            yield f"payloads n {number}", "is referred to and missing"
        elif digest not in (None, payload.digest.hex()):
            yield f"payloads n {number}", "its digest is not the one that is referred to"
        elif None not in (size, payload.body) and size != len(encoded(payload.body or "")):
            yield f"payloads n {number}", "its size is not the one that is referred to"


def shared_problems(journal: JournalReader, broken: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """
    Yield the id of every fork that shares something which does not hold, and the problem.

    Args:
        journal: The file.
        broken: Run id and place of every defect that was found.
    """
    places: dict[str, list[str]] = {}
    for run_id, place in broken:
        places.setdefault(run_id, []).append(place)
    if not places:
        return
    for run, run_id in journal.query(
        "SELECT run, run_id FROM specs WHERE parent_run_id IS NOT NULL ORDER BY run"
    ):
        try:
            parts = journal.lineage(run)
        except JournalDamaged:
            continue  # it has its own defect
        for part, after in pairwise(parts):
            found = next((place for place in places.get(part.run_id, ()) if _shared(place, after)), None)
            if found is not None:
                yield run_id, f"shares {found} of run {part.run_id}, which does not hold"
                break


def _shared(place: str, after: Part) -> bool:
    """Whether a place of a run lies before the part of a fork of it."""
    name, _, number = place.rpartition(" ")
    limit = _LIMITS.get(name)
    return place == "specs" if limit is None else int(number) < getattr(after, limit)
