"""
Erasing: texts go, the chain stays, and what was erased, when and by which rule is recorded.

One transaction sets the bodies and salts to NULL and writes the records; the rows that show what a document was called
go with the payload that names it. Then the file is written anew and its log is cut off, so that no page and no frame
keeps what was there. If that second half is cut short, the run is listed in `unscrubbed`, and `fsm.journal.store.JournalStore.scrub` does it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from ...states.base.errors import LeaseHeld, UsageError
from ..journal.erasure_log import REASON, chained_erasure, ranges_text
from ..journal.leases import now_us
from ..journal.record import canonical
from ..journal.rows import RunRow, StoredDocument
from ..journal.run_queue import RunQueue
from .erasure_plan import ErasurePlan, documents_named, named_with, plan_document
from .later_rounds import doom_copies

if TYPE_CHECKING:
    from ..journal.reader import JournalReader
    from ..journal.run_writer import RunWriter
    from ..journal.store import JournalStore

Others = Literal["refuse", "erase", "keep"]


@dataclass(frozen=True, slots=True)
class ErasureResult:
    """
    The outcome of an erasure.

    Attributes:
        run_id: The run that was named.
        erased: Number of payloads erased, by run id.
        kept: Ids of other runs that still contain text of it.
        scrubbed: Whether the file no longer contains any of it; False for a journal in memory or if nothing was
            erased.
    """

    run_id: str
    erased: dict[str, int]
    kept: tuple[str, ...]
    scrubbed: bool

    @property
    def payloads(self) -> int:
        """How many payloads were erased in all."""
        return sum(self.erased.values())


class _Selection(NamedTuple):
    """What somebody asks to erase: one of both, or none of them for all of a run."""

    documents: list[StoredDocument]
    payloads: list[int]

    @property
    def whole(self) -> bool:
        return not any(self)

    def rule(self) -> dict[str, Any]:
        """Return the rule as the record says it: numbers and names from closed lists."""
        if self.documents:
            return {"by": "document", "documents": [document.number for document in self.documents]}
        return {"by": "payload" if self.payloads else "run"}


def erase(
    journal: JournalStore,
    run_id: str,
    *,
    documents: Iterable[str | int] = (),
    payloads: Iterable[int] = (),
    others: Others = "refuse",
    reason: str | None = None,
    force: bool = False,
    dry_run: bool = False,
    at: int | None = None,
    scrub: bool = True,
) -> ErasureResult:
    """See `fsm.journal_api.Journal.erase`; without *scrub* old copies stay in the file until the next erasure, or `finish_erasing`."""
    if journal.read_only:
        raise UsageError(f"{journal.path}: is open for reading only")
    if others not in get_args(Others):
        raise UsageError(f"others {others!a:.80}: expected one of {', '.join(get_args(Others))}")
    if reason is not None and not (isinstance(reason, str) and REASON.fullmatch(reason)):
        raise UsageError(
            "the reason stays in the journal, so it is a code such as a ticket's number: at most 80 of A-Z a-z 0-9 . _ : / # -"
        )
    row = journal.reader.run(run_id)
    selection = _Selection(documents_named(journal.reader, row, documents), list(payloads))
    plan = _plan(journal, row, selection)
    plan.settle()
    if dry_run:
        doomed = _decide_runs(journal, row, plan, "erase", selection)
        here = doomed.pop(row.run, set())
        return ErasureResult(
            row.run_id, {row.run_id: len(here)} if here else {}, _ids(journal, doomed), False
        )
    at = now_us() if at is None else at
    with journal.erasing() as writer:
        # again under the write lock: a run that another process has recorded since the plan may hold the text, too
        plan.settle()
        if selection.whole:
            _doom_whole(plan, row)
        doomed = _decide_runs(journal, row, plan, others, selection)
        # every lease first: a driver must not go on with texts of which some are gone
        for run in doomed:
            _claim(journal, writer, run, force)
        if reason is not None:
            _check_reason(journal, doomed, reason.casefold())
        for run, numbers in doomed.items():
            rule = selection.rule() | ({} if run == row.run else {"of": row.run_id})
            _erase_payloads(journal, writer, run, numbers, rule, reason, at)
    names = _ids(journal, doomed)
    RunQueue(journal.backend).let_on(*names)  # a round that is erased is waited for no more
    erased = dict(zip(names, (len(doomed[run]) for run in sorted(doomed)), strict=True))
    kept = _ids(journal, [run for run, numbers in plan.doomed.items() if numbers and run not in doomed])
    return ErasureResult(row.run_id, erased, kept, scrub and journal.scrub())


def erase_ended_before(
    journal: JournalStore, ended_us: int, *, others: Others, reason: str | None, dry_run: bool
) -> list[ErasureResult]:
    """See `fsm.journal_api.Journal.erase_older_than`."""
    rows, found = journal.reader.runs(), list[ErasureResult]()
    going_on = {row.run for row in rows if row.ended_at is None}
    related = families(journal.reader) if going_on else {}
    try:
        for row in rows:
            # a fork or a workflow that has not ended needs the texts that it shares
            if row.ended_at is None or row.ended_at >= ended_us or going_on & related.get(row.run_id, set()):
                continue
            one = erase(journal, row.run_id, others=others, reason=reason, dry_run=dry_run, scrub=False)
            if one.erased:
                found.append(one)
    finally:  # also where one is refused: what is erased by then stays in no free page
        done = bool(found) and not dry_run and journal.scrub()
    return [replace(one, scrubbed=done) for one in found]


def _plan(journal: JournalStore, row: RunRow, selection: _Selection) -> ErasurePlan:
    """Return what is asked for, before its excerpts are searched for."""
    documents, payloads = selection
    if documents and payloads:
        raise UsageError("erase by run, by document or by payload: one of them at a time")
    if selection.whole:
        plan = ErasurePlan(journal.reader, ())
        _doom_whole(plan, row)
        return plan
    everywhere = journal.reader.index.numbers()
    plan = ErasurePlan(journal.reader, everywhere)
    for document in documents:
        plan_document(plan, row.run, document)
    count = journal.reader.next_payload(row.run)
    for n in payloads:
        if type(n) is not int or not 0 <= n < count:
            raise UsageError(f"payload {n!a:.80}: run {row.run_id} has those from 0 to {count - 1}")
    plan.doom(row.run, payloads)
    return plan


def _doom_whole(plan: ErasurePlan, row: RunRow) -> None:
    """Erase all of a run, of those that it shares texts with by its making, and what later rounds of its conversation hold of it."""
    runs = family(plan.journal, row)
    for run in sorted(runs):
        plan.doom_run(run)
    for run_id in plan.journal.index.names(runs).values():
        doom_copies(plan, plan.journal.run(run_id))


def _decide_runs(
    journal: JournalStore, row: RunRow, plan: ErasurePlan, others: Others, selection: _Selection
) -> dict[int, set[int]]:
    """Return what is erased, by number of the run; raise UsageError when others hold text of it and *others* refuses."""
    doomed = {run: set(numbers) for run, numbers in sorted(plan.doomed.items()) if numbers}
    strangers = _ids(journal, [run for run in doomed if run != row.run])
    if strangers and others == "refuse":
        shown = ", ".join(strangers[:5]) + (f" and {len(strangers) - 5} more" if len(strangers) > 5 else "")
        what = "belong to it or are told of it" if selection.whole else "hold text of it too"
        raise UsageError(
            f"run {row.run_id}: nothing was erased, since other runs {what}: {shown};"
            " choose whether to erase there too or to keep those (--others erase, --others keep)"
        )
    return doomed if others == "erase" else {run: doomed[run] for run in doomed if run == row.run}


def _ids(journal: JournalStore, runs: Iterable[int]) -> tuple[str, ...]:
    """Return ids of runs by their numbers, in the order of these."""
    names = journal.reader.index.names(list(runs))
    return tuple(names[run] for run in sorted(names))


def _claim(journal: JournalStore, writer: RunWriter, run: int, force: bool) -> None:
    """Take a run from its driver; raise LeaseHeld when it has one, UsageError when it has not ended and is not forced."""
    run_id = journal.reader.index.names([run])[run]
    # undone with the transaction if anything is refused below
    driver = journal.leases.revoke(writer, run)
    if driver is not None:
        raise LeaseHeld(
            f"run {run_id} is driven by {driver}; nothing was erased: cancel it, or wait for its end"
        )
    status = journal.reader.run(run_id).status
    if status not in ("done", "failed") and not force:
        raise UsageError(
            f"run {run_id} has not ended ({status}), and could not be resumed once it is erased;"
            " nothing was erased: cancel it first, or use force (--force)"
        )


def _check_reason(journal: JournalStore, doomed: dict[int, set[int]], reason: str) -> None:
    """Raise UsageError for a reason that is text of what goes."""
    for run, numbers in doomed.items():
        for n in sorted(numbers):
            body = journal.reader.payload(run, n).body or ""
            text = body if isinstance(body, str) else body.decode("utf-8", "replace")
            if reason in text.casefold():
                raise UsageError(
                    "the reason stands in what is to be erased, and would stay; nothing was erased"
                )


def _erase_payloads(
    journal: JournalStore,
    writer: RunWriter,
    run: int,
    numbers: set[int],
    rule: dict[str, Any],
    reason: str | None,
    at: int,
) -> None:
    """Erase payloads and what was derived from them, and add the record."""
    spec = journal.reader.root_columns(run)["spec_payload"]
    # the documents first: which of them a payload names can only be read while its body is there
    named = named_with(journal.reader, run, numbers)
    writer.blank(run, numbers, named, labels=spec in numbers)
    before = journal.reader.erasures(run)
    head = before[-1].hash if before else journal.reader.stored_root(run)
    writer.add_erasure(
        run, chained_erasure(head, len(before), at, canonical(rule), ranges_text(numbers), reason)
    )


def family(journal: JournalReader, row: RunRow) -> set[int]:
    """Return the numbers of all runs that a run shares texts with by its making, itself among them."""
    return families(journal).get(row.run_id, set())


def families(journal: JournalReader) -> dict[str, set[int]]:
    """Return by each run's id the numbers of all runs that it shares texts with by its making, itself among them."""
    links: dict[str, set[str]] = {}
    numbers: dict[str, int] = {}
    for run, run_id, others in journal.index.links():
        numbers[run_id] = run
        for other in others:
            links.setdefault(run_id, set()).add(other)
            links.setdefault(other, set()).add(run_id)
    found: dict[str, set[int]] = {}
    for run_id in numbers:
        if run_id in found:
            continue
        reached, left = {run_id}, [run_id]
        while left:
            new = links.get(left.pop(), set()) - reached
            reached |= new
            left += new
        members = {numbers[name] for name in reached if name in numbers}
        found |= dict.fromkeys(reached, members)
    return found


__all__ = ["ErasureResult", "Others", "erase"]
