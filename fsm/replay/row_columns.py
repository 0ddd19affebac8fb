"""What a replay checks of a run with erased texts by the columns of its rows alone: records, chain, places, guards and sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..journal.erasure_log import erasures_of, numbers_of, root_of
from ..journal.reader import JournalReader
from ..journal.record import root_hash
from ..journal.rows import RunRow, Transition
from ..machine.table import rows_of
from .comparison import Divergence
from .restore import HASH, unfit_rows


def erased_numbers(journal: JournalReader, run: int) -> dict[int, set[int]]:
    """Return the numbers of the payloads of a run that were erased, by the run that they belong to."""
    parts = journal.lineage(run)
    ends = [*(part.first_payload for part in parts[1:]), 2**32]
    found = {}
    for part, end in zip(parts, ends, strict=True):
        rows = journal.query(
            "SELECT n FROM payloads WHERE id BETWEEN ? AND ? AND body IS NULL",
            (part.run << 32 | part.first_payload, (part.run << 32) + end - 1),
        )
        if rows:
            found[part.run] = {n for (n,) in rows}
    return found


def column_problems(
    journal: JournalReader, row: RunRow, transitions: Sequence[Transition], gone: dict[int, set[int]]
) -> Iterator[Divergence]:
    """
    Yield what does not hold, whatever the erased texts said.

    Args:
        journal: That holds the run.
        row: The run.
        transitions: Its rows.
        gone: Numbers of its erased payloads, by the run that they belong to.
    """
    for run, numbers in sorted(gone.items()):
        unrecorded = sorted(numbers - numbers_of(erasures_of(journal, run)))
        if unrecorded:
            told = f"{len(unrecorded)} payloads without a record, the first is {unrecorded[0]}"
            yield Divergence(-1, "payloads", "records of what was erased", told)
    yield from _chain_problems(journal, row)
    for before, item in zip((None, *transitions), transitions, strict=False):
        yield from _row_problems(before, item)


def _chain_problems(journal: JournalReader, row: RunRow) -> Iterator[Divergence]:
    parts = journal.lineage(row.run)
    ends = [*(part.first_seq - 1 for part in parts[1:]), 2**32 - 1]
    head = b""
    for part, end in zip(parts, ends, strict=True):
        head = root_hash(journal.root_columns(part.run), head)
        if head != root_of(journal, part.run):
            yield Divergence(part.first_seq - 1, "root_hash", "the chain", "columns that do not fit it")
        rows = journal.own_rows(part.run, part.first_seq, end)
        for seq in unfit_rows(head, rows):
            yield Divergence(seq, "hash", "the chain", "a row that does not fit it")
        head = rows[-1][HASH] if rows else head


def _row_problems(before: Transition | None, row: Transition) -> Iterator[Divergence]:
    state, seq = (before.dest, before.seq + 1) if before is not None else ("Planning", 0)
    if (row.source, row.seq) != (state, seq):
        yield Divergence(row.seq, "place", f"{row.source} at {row.seq}", f"{state} at {seq}")
        return
    fits = _recorded_choice(row, waiting=before is not None and before.trigger == "wait")
    if fits != (row.trigger, row.dest):
        told = " to ".join(fits) if fits else "no row of the table"
        yield Divergence(row.seq, "guards", f"{row.trigger} to {row.dest}", told)
    for name in ("tokens_in", "tokens_out", "cost_micro"):
        used = row.outcome.get(name, 0)
        expected = (getattr(before, name) if before is not None else 0) + (used if type(used) is int else 0)
        if getattr(row, name) != expected:
            yield Divergence(row.seq, name, str(getattr(row, name)), str(expected))
    rises = int(row.trigger in ("select", "next_step"))
    for name, most in (("step", rises), ("action", 1), ("retries", int(row.trigger == "retry"))):
        more = getattr(row, name) - (getattr(before, name) if before is not None else 0)
        if not 0 <= more <= most:
            yield Divergence(row.seq, name, str(getattr(row, name)), f"at most {most} more than before")
    if before is not None and row.time_us < before.time_us:
        yield Divergence(row.seq, "time_us", str(row.time_us), f"at least {before.time_us}")


def _recorded_choice(row: Transition, *, waiting: bool) -> tuple[str, str] | None:
    """Return the first row of the table whose guards hold by the recorded values, None when one is missing."""
    for candidate in rows_of(row.source, waiting=waiting):
        needed = {**dict.fromkeys(candidate.conditions, True), **dict.fromkeys(candidate.unless, False)}
        if any(type(row.guards.get(name)) is not bool for name in needed):
            return None
        if all(row.guards[name] is wanted for name, wanted in needed.items()):
            return candidate.trigger, candidate.dest
    return None
