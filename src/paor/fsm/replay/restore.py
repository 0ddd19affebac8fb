"""A run read back from its journal, with the hash chain verified on the way; for whoever goes on with it, replays or explains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import asdict, replace

from ...states.base.errors import JournalDamaged
from ...states.records.actions import StoredText
from ...states.run.counters import COLUMN_COUNTERS
from ...states.run.spec import Spec
from ...states.run.state import Change, Counters, Run, initial_run
from ..journal.lineage import SharedPart, part_with
from ..journal.payloads import Stager, content_key, encode_text
from ..journal.reader import JournalReader
from ..journal.record import PREV_HASH, chain_hash
from ..journal.rows import Transition
from ..machine.fold import apply, restore
from ..versioning.amendments import amend_spec, in_force
from .recorded_outcome import recorded_change

HASH = PREV_HASH + 1
"""Place of a row's own hash."""

_WITHOUT_COLUMN = {name: value for name, value in asdict(Counters()).items() if name not in COLUMN_COUNTERS}
"""Counters that have no column, as they are where a row does not name them."""

REMEMBERED_AGAIN = 64
"""Newest payloads that are recognised when they come again after a resume: the constant parts of prompts among them."""


def restore_run(journal: JournalReader, run_id: str, last: int = 2**32 - 1) -> tuple[Run, bytes]:
    """
    Return a run as its journal has it, and the hash of its last row; the chain is verified on the way.

    Each part of a fork's walk is folded with the spec of the run that it belongs to.

    Args:
        journal: The journal that holds it.
        run_id: Its id.
        last: Seq of the last row to take, if not all; one of the run itself.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: A hash does not fit, or a text that the run goes on with is not what was written.
    """
    run, parts = None, [*checked_parts(journal, journal.run(run_id).run, last)]
    for part, rows, _ in parts:
        spec = in_force(journal.spec(part.run_id), rows, partial(_body, journal, part.run))
        run = restore(continue_with(run, part, spec), rows, partial(journal.change, part.run))
    assert run is not None, "every run has at least its own part"
    return run, parts[-1][2]


def checked_parts(
    journal: JournalReader, run: int, last: int
) -> Iterator[tuple[SharedPart, Sequence[tuple[Any, ...]], bytes]]:
    """
    Yield each part that a run consists of, the oldest first, with its rows and the hash of the last one, once its chain is verified.

    Args:
        journal: The journal that holds it.
        run: Its number.
        last: Seq of the last row to take; one of the run itself.

    Raises:
        JournalDamaged: A hash does not fit.
    """
    parts, head = journal.lineage(run), b""
    for part, end in zip(parts, [*(part.first_seq - 1 for part in parts[1:]), last], strict=True):
        rows = journal.own_rows(part.run, part.first_seq, end)
        head = check_chain(part.run_id, journal.root(part.run, head), rows)
        yield part, rows, head


def _body(journal: JournalReader, run: int, place: Mapping[str, Any]) -> str | bytes | None:
    return journal.intact(run, place["n"], place.get("digest"))


def run_before(journal: JournalReader, run_id: str, seq: int) -> Run:
    """
    Return a run as it stood when one of its rows was decided, with the spec and the name that decided it.

    Args:
        journal: The journal that holds it.
        run_id: Its id.
        seq: Of the row; one more than the last for the row that comes next.

    Raises:
        JournalDamaged: The chain before it does not hold, or what it needs was erased.
    """
    parts = journal.lineage(journal.run(run_id).run)
    part = part_with(parts, "first_seq", seq)
    if seq == 0:
        return continue_with(None, part, journal.spec(part.run_id))
    before = part_with(parts, "first_seq", seq - 1)
    run, _ = restore_run(journal, before.run_id, seq - 1)
    return run if before is part else continue_with(run, part, journal.spec(part.run_id))


def continue_with(run: Run | None, part: SharedPart, spec: Spec) -> Run:
    """Return the run that goes on with *part*: what it remembers stays, the spec and the name are the part's."""
    if run is None:
        return initial_run(part.run_id, part.run, spec)
    return replace(run, run_id=part.run_id, number=part.run).under(spec)


def run_at(journal: JournalReader, run: Run, row: Transition, parts: Mapping[int, SharedPart]) -> Run:
    """
    Return the run that *row* decided on, under the name and the spec that were in force.

    Args:
        journal: The journal that holds it.
        run: As the row before has left it.
        row: The next one.
        parts: Of which the run consists, by the number of the run that each belongs to.
    """
    if run.number != row.run:  # a fork's own rows begin
        part = parts[row.run]
        run = continue_with(run, part, journal.spec(part.run_id))
    if "spec" in row.request:
        run = run.under(amend_spec(run.spec, _body(journal, row.run, row.request["spec"])))
    return run


def run_after(journal: JournalReader, run: Run, row: Transition) -> tuple[Run, Change]:
    """
    Return the run that *row* has left, and what it has changed.

    Args:
        journal: The journal that holds it.
        run: As `run_at` gives it.
        row: The row.

    Raises:
        JournalDamaged: What the row set has been erased.
    """
    change = recorded_change(journal, row.run, row.change["n"])
    if change is None:
        raise JournalDamaged("what the row set has been erased")
    return changed(run, row, change), change


def changed(run: Run, row: Transition, change: Change, counters: Counters | None = None) -> Run:
    """Return *run*, as `run_at` gives it, after *row*, which has set *change*; *counters* are those of the row where they are known."""
    if counters is None:
        columns = {name: getattr(row, name) for name in COLUMN_COUNTERS}
        counters = replace(run.counters, **columns, **(_WITHOUT_COLUMN | dict(row.counters)))
    return apply(
        run,
        at=row.at,
        trigger=row.trigger,
        dest=row.dest,
        counters=counters,
        change=change,
        outcome=dict(row.outcome),
    )


def stager_of(journal: JournalReader, run: int, salt: Callable[[], bytes]) -> Stager:
    """Return the stager of a run that goes on: numbers continue, the newest bodies are recognised."""
    stager = Stager(journal.next_payload(run), salt)
    for payload in journal.payloads(run, REMEMBERED_AGAIN):
        if payload.body is not None and payload.fits():
            size = len(encode_text(payload.body))
            stager.remember(content_key(payload.body), StoredText(payload.n, payload.digest.hex(), size))
    return stager


def check_chain(run_id: str, root: bytes, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """
    Return the hash of the last of *rows* after recomputing all of them.

    Raises:
        JournalDamaged: Naming the first row that does not fit.
    """
    for seq in unfit_rows(root, rows):
        raise JournalDamaged(f"run {run_id}: row {seq} does not fit the hash chain; run: paor verify")
    return rows[-1][HASH] if rows else root


def unfit_rows(root: bytes, rows: Sequence[tuple[Any, ...]]) -> Iterator[int]:
    """Yield the seq of each of *rows* that does not fit the hash chain from *root* on."""
    head = root
    for row in rows:
        if row[PREV_HASH] != head or chain_hash(head, row[:PREV_HASH]) != row[HASH]:
            yield row[1]
        head = row[HASH]
