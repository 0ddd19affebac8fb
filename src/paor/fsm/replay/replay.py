"""
Replay: derive every request, guard, decision and counter of a run again, and compare with what was recorded.

Offline: outcomes come from the journal, nothing is asked or performed. Without an engine the spec's own templates,
policy and schemas are used, so a difference means that the journal was altered or paor decides differently now.
With an engine its templates, policy and schemas are used, so a changed prompt or guard is named. It fails closed: a
record that is missing is a divergence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...states.base.errors import OUTDATED, JournalTooOld
from ...states.run.phase_names import PHASES, PLANNING
from ..decision.guard_context import GuardContext
from ..journal.erasure_log import numbers_of
from ..journal.reader import JournalReader, Readable, damage_told, reader_of
from ..journal.record import root_hash
from ..journal.rows import RunRow, Transition
from ..machine.machine import MACHINE, Machine
from ..machine.table import Row
from ..versioning.changes import ChangedPart, changes_of
from .comparison import Difference, Divergence, Unchecked, compare_documents, compare_head
from .machines import machines_of
from .payload_window import PayloadWindow
from .restore import HASH, unfit_rows
from .walk import Replay, ReplayWalk, SpecSource, spec_of_part


def erased_numbers(journal: JournalReader, run: int) -> dict[int, set[int]]:
    """Return the numbers of the payloads of a run that were erased, by the run that they belong to."""
    parts = journal.lineage(run)
    ends = [*(part.first_payload for part in parts[1:]), 2**32]
    found = {}
    for part, end in zip(parts, ends, strict=True):
        numbers = journal.numbers_of_payloads(part.run, erased=True, first=part.first_payload, last=end - 1)
        if numbers:
            found[part.run] = set(numbers)
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
        unrecorded = sorted(numbers - numbers_of(journal.erasures(run)))
        if unrecorded:
            told = f"{len(unrecorded)} payloads without a record, the first is {unrecorded[0]}"
            yield Divergence(-1, "payloads", "records of what was erased", told)
    yield from _chain_problems(journal, row)
    machines = machines_of(journal, row.run, transitions)
    for before, item, machine in zip((None, *transitions), transitions, machines, strict=False):
        yield from _row_problems(before, item, machine)


def _chain_problems(journal: JournalReader, row: RunRow) -> Iterator[Divergence]:
    parts = journal.lineage(row.run)
    ends = [*(part.first_seq - 1 for part in parts[1:]), 2**32 - 1]
    head = b""
    for part, end in zip(parts, ends, strict=True):
        head = root_hash(journal.root_columns(part.run), head)
        if head != journal.stored_root(part.run):
            yield Divergence(part.first_seq - 1, "root_hash", "the chain", "columns that do not fit it")
        rows = journal.own_rows(part.run, part.first_seq, end)
        for seq in unfit_rows(head, rows):
            yield Divergence(seq, "hash", "the chain", "a row that does not fit it")
        head = rows[-1][HASH] if rows else head


def _row_problems(
    before: Transition | None, row: Transition, machine: Machine | None
) -> Iterator[Divergence]:
    """Yield what does not hold of a row; *machine* is None once the record of it was erased."""
    if machine is None and _is_standard(row):
        machine = MACHINE
    first = row.source if machine is None and row.source not in PHASES else PLANNING
    first = machine.host.initial if machine is not None else first
    state, seq = (before.dest, before.seq + 1) if before is not None else (first, 0)
    if (row.source, row.seq) != (state, seq):
        yield Divergence(row.seq, "place", f"{row.source} at {row.seq}", f"{state} at {seq}")
        return
    if machine is not None:
        yield from _choice_problems(before, row, machine)
    yield from _sum_problems(before, row)


def _is_standard(row: Transition) -> bool:
    """Whether nothing that a row has recorded is of a host's own machine."""
    return (row.source, row.trigger) in MACHINE.changes and row.guards.keys() <= MACHINE.guards.keys()


def _choice_problems(before: Transition | None, row: Transition, machine: Machine) -> Iterator[Divergence]:
    """Yield where a row is not the one that its recorded guards lead to, and where its own bound is not counted."""
    fits = _recorded_choice(machine, row, waiting=before is not None and before.trigger == "wait")
    if fits is None or (fits.trigger, fits.dest) != (row.trigger, row.dest):
        told = f"{fits.trigger} to {fits.dest}" if fits is not None else "no row of the table"
        yield Divergence(row.seq, "guards", f"{row.trigger} to {row.dest}", told)
        return
    own = dict(before.counters.get("own", {})) if before is not None else {}
    if fits.at_most:
        own[fits.trigger] = own.get(fits.trigger, 0) + 1
    if row.counters.get("own", {}) != own:
        yield Divergence(row.seq, "counters.own", str(row.counters.get("own", {})), str(own))


def _sum_problems(before: Transition | None, row: Transition) -> Iterator[Divergence]:
    """Yield what was not counted as such a row counts it; one of the host's own counts neither steps nor actions nor retries."""
    for name in ("tokens_in", "tokens_out", "cost_micro"):
        used = row.outcome.get(name, 0)
        expected = (getattr(before, name) if before is not None else 0) + (used if type(used) is int else 0)
        if getattr(row, name) != expected:
            yield Divergence(row.seq, name, str(getattr(row, name)), str(expected))
    standard = (row.source, row.trigger) in MACHINE.changes
    rises = {
        "step": standard and row.trigger in ("select", "next_step"),
        "action": standard,
        "retries": standard and row.trigger == "retry",
    }
    for name, most in rises.items():
        more = getattr(row, name) - (getattr(before, name) if before is not None else 0)
        if not 0 <= more <= most:
            yield Divergence(row.seq, name, str(getattr(row, name)), f"at most {int(most)} more than before")
    if before is not None and row.time_us < before.time_us:
        yield Divergence(row.seq, "time_us", str(row.time_us), f"at least {before.time_us}")


def _recorded_choice(machine: Machine, row: Transition, *, waiting: bool) -> Row | None:
    """
    Return the first row of the machine whose guards hold by the recorded values, None when one is missing.

    A guard of the host's own is missing rightly where another guard of the row did not hold.
    """
    own = machine.host.guards
    for fitting in machine.rows_of(row.source, waiting=waiting):
        wanted = [*((name, True) for name in fitting.conditions), *((name, False) for name in fitting.unless)]
        values = [(row.guards.get(name), value) for name, value in wanted if name not in own]
        if any(type(value) is not bool for value, _ in values):
            return None
        if any(value is not needed for value, needed in values):
            continue
        asked = [(row.guards.get(name), value) for name, value in wanted if name in own]
        refused = [value for value, needed in asked if value is not needed]
        if not refused:
            return fitting
        if type(refused[0]) is not bool:
            return None
    return None


def replay(
    journal: Readable,
    run_id: str,
    engine: SpecSource | None = None,
    *,
    cases: list[GuardContext] | None = None,
) -> Replay:
    """
    Derive a run again from its recorded outcomes and compare field by field.

    Args:
        journal: The `Journal` that holds it.
        run_id: Its id.
        engine: Compare with this engine's templates, policy and schemas; None: with the spec's own.
        cases: Gets of each row that can be derived what its guards looked at.

    Returns:
        Every difference; `Replay.raise_if_diverged` turns the first into an error.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: Its spec or a row cannot be read.
        JournalTooOld: It has native calls and is of a version before they were a conversation.
    """
    journal = reader_of(journal, "replay takes a Journal, such as replay(engine.journal, run_id)")
    row = journal.run(run_id)
    with damage_told(row.run_id):
        parts = {part.run: (part, spec_of_part(journal, part.run_id)) for part in journal.lineage(row.run)}
        transitions = [item for item in journal.transitions(row.run_id) if item.seq <= row.head_seq]
        first = next(iter(parts.values()))[1]
        if first is not None and first.is_outdated:
            raise JournalTooOld(OUTDATED.format(row.run_id))
        gone = erased_numbers(journal, row.run)
        walk = ReplayWalk(PayloadWindow(journal), engine, parts, transitions, cases=cases)
        if gone:
            walk.found.extend(column_problems(journal, row, transitions, gone))
        run = walk.replay()
        changed: tuple[ChangedPart, ...] = ()
        if run is not None and first is not None and not gone:
            walk.found.extend(compare_documents(journal, row, first, run, transitions))
            walk.found.extend(compare_head(row, run, transitions))
            recorded = run.under(walk.recorded)
            changed = changes_of(journal, recorded, walk.spec, [tool.name for tool in walk.recorded.tools])
        found = tuple(sorted(dict.fromkeys(walk.found), key=_seq))
        unchecked = tuple(sorted(dict.fromkeys(walk.unchecked), key=_seq))
        identical = not found and not unchecked
        return Replay(row.run_id, len(transitions), identical, found, unchecked, changed, tuple(walk.amended))


def _seq(item: Difference) -> int:
    return item.seq


__all__ = ["Divergence", "Replay", "Unchecked", "replay"]
