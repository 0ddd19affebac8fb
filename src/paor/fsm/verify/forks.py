"""
What verifying a fork takes beyond verifying a run: where it begins, and whether what it shares still holds.

The shared rows, payloads and documents stand under the fork's ancestors and are checked there once. A fork adds its root
hash, which commits to the last shared row, and numbers that go on where the shared ones end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...states.base.errors import JournalDamaged
from ...states.run.counters import COLUMN_COUNTERS
from ...states.run.phase_names import FINAL
from ..journal.lineage import SharedPart
from ..journal.record import COLUMNS, root_hash
from .chain import ChainWalk, counted_documents

if TYPE_CHECKING:
    from ..journal.reader import JournalReader

RISING = slice(COLUMNS.index(COLUMN_COUNTERS[0]), COLUMNS.index(COLUMN_COUNTERS[-1]) + 1)
"""Places of the counters in a row that never fall, in the order of `ChainWalk.rising`."""

_LIMITS = {
    "transitions seq": "first_seq",
    "payloads n": "first_payload",
    "documents number": "first_document",
}
"""Numbered places of a run, and where the part of it that a fork shares ends."""


def beginning_of(journal: JournalReader, run: int, columns: dict[str, Any]) -> ChainWalk:
    """
    Return the walk of a fork after the last row that it shares.

    Args:
        journal: The journal that holds it.
        run: Its number.
        columns: Those that never change, by name.

    Raises:
        JournalDamaged: The row that it was forked at is not there, or has ended its parent.
    """
    parts = journal.lineage(run)
    if len(parts) == 1:
        raise JournalDamaged("parent_seq without parent_run_id")
    parent, own = parts[-2:]
    (values,) = journal.own_rows(parent.run, own.first_seq - 1, own.first_seq - 1)
    row = dict(zip(COLUMNS, values, strict=True))
    if row["dest"] in FINAL:
        raise JournalDamaged(
            f"it was forked at row {row['seq']} of run {parent.run_id}, which ended that run"
        )
    spec_payload = columns["spec_payload"]
    return ChainWalk(
        run,
        columns["run_id"],
        root_hash(columns, row["hash"]),
        spec_payload,
        first=own.first_payload,
        seq=own.first_seq,
        state=row["dest"],
        count=max(own.first_payload, spec_payload + 1),
        shared_result=(own.first_payload - 1, counted_documents(row["outcome"]))
        if row["trigger"] == "execute"
        else None,
        last=(row["trigger"], row["at"], row["counters"]),
        rising=values[RISING],
    )


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
    for run, run_id in journal.index.all_forks():
        try:
            parts = journal.lineage(run)
        except JournalDamaged:
            continue  # it has its own defect
        for part, after in pairwise(parts):
            found = next((place for place in places.get(part.run_id, ()) if _is_shared(place, after)), None)
            if found is not None:
                yield run_id, f"shares {found} of run {part.run_id}, which does not hold"
                break


def _is_shared(place: str, after: SharedPart) -> bool:
    """Whether a place of a run lies before the part of a fork of it."""
    name, _, number = place.rpartition(" ")
    limit = _LIMITS.get(name)
    return place == "specs" if limit is None else int(number) < getattr(after, limit)
