"""Drawing: reads from journals what a diagram lays over the machine, and gives it to `fsm.diagrams.render`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeGuard, get_args

import orjson

from ...states.base.errors import JournalDamaged, UsageError
from ..explain.coverage import Coverage, coverage
from ..explain.diff import RunDiff, diff
from ..explain.divergence import CAUSES
from ..journal.reader import JournalReader, Readable, reader_of
from ..journal.rows import RunRow
from ..machine.machine import MACHINE, Machine
from ..replay.machines import machine_of_run
from .render import Covered, Format, Overlay, Parted, RunWalk, Step, walk_of
from .render import diagram as picture

TITLE_CHARS = 100
"""Characters of an objective that stand above a picture."""
_BATCH = 2000


class _Taken(NamedTuple):
    """What coverage needs of a row; its other columns are not even read as JSON."""

    run: int
    source: str
    trigger: str
    dest: str
    guards: Mapping[str, bool]


class HasMachine(Protocol):
    """An engine: it has a machine, and the journal of its runs."""

    @property
    def machine(self) -> Machine: ...
    @property
    def journal(self) -> Readable: ...


def diagram(
    journal: Readable | Machine | HasMachine | None = None,
    run: str | None = None,
    *,
    form: Format = "mermaid",
    coverage: Coverage | None = None,
    diff: str | None = None,
    other: Readable | None = None,
) -> str:
    """
    Return a picture of the machine as text; the same bytes for the same input, in every process.

    ``diagram()`` is the standard machine, ``diagram(machine)`` and ``diagram(engine)`` a host's own, ``diagram(journal, run)`` what
    a run did on the machine that it has, ``diagram(coverage=found)`` what a number of runs have covered,
    ``diagram(journal, run, diff=second)`` how two runs differ. What a host has added stands out.

    Args:
        journal: That holds *run*, or the engine that drives it; without *run* a `Machine`, or the engine that has it.
        run: Its id, or an unambiguous prefix.
        form: ``mermaid``, ``dot`` for Graphviz, or ``svg``: a finished picture for light and dark pages.
        coverage: Counts to draw instead of a run, as `paor.coverage` gives them.
        diff: The run to compare *run* with.
        other: The journal that holds that one, if it is another.

    Raises:
        UsageError: The arguments do not go together; `UnknownRun` where there is no such run.
        JournalDamaged: A row cannot be read.
    """
    if form not in get_args(Format):
        raise UsageError(f"form={form!r:.80}: expected one of {', '.join(get_args(Format))}")
    if coverage is not None and not isinstance(coverage, Coverage):
        raise UsageError("diagram(coverage=...) takes a Coverage, such as coverage(journal.transitions(run))")
    if coverage is not None and (run is not None or diff is not None):
        raise UsageError("a diagram shows a run, a coverage or a difference: not two of them")
    if run is None:
        if diff is not None:
            raise UsageError("diff= names a second run, to be compared with run=")
        return drawn(form, covered(coverage) if coverage is not None else None, _machine_of(journal))
    usage = "diagram takes a Journal before a run, such as diagram(engine.journal, run_id)"
    given = journal.journal if _is_engine(journal) else journal
    first = reader_of(given, usage)  # type: ignore[arg-type]  # a Machine has none, and is refused
    second = reader_of(other, usage) if other is not None else first
    if diff is None:
        return drawn(form, walk(first, run), machine_walked(first, run))
    machine = joined(machine_walked(first, run), machine_walked(second, diff))
    return drawn(form, difference_of(first, run, diff, second)[0], machine)


def drawn(form: Format, overlay: Overlay | None, machine: Machine) -> str:
    """Return a picture of *machine* with *overlay* laid over it."""
    return picture(form, overlay, rows=machine.rows, host=machine.host)


def _is_engine(given: object) -> TypeGuard[HasMachine]:
    return isinstance(getattr(given, "machine", None), Machine)


def _machine_of(given: object) -> Machine:
    """Return the machine that is drawn without a run: what was given, an engine's, or the standard one."""
    if _is_engine(given):
        return given.machine
    return given if isinstance(given, Machine) else MACHINE


def machine_walked(journal: JournalReader, run_id: str) -> Machine:
    """
    Return the machine that a run walks, without the host's code; the standard one once its spec is erased.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: Its spec cannot be read.
    """
    return machine_of_run(journal, journal.run(run_id).run) or MACHINE


def joined(one: Machine, two: Machine) -> Machine:
    """Return a machine with the rows of both, to draw two runs on; those that both have stand once."""
    if two is one:
        return one
    more = tuple(row for row in two.rows if row not in one.rows)
    host = replace(
        one.host,
        phases={**two.host.phases, **one.host.phases},
        guards={**two.host.guards, **one.host.guards},
    )
    rows = (*one.rows, *more)
    return Machine(
        tuple(row for row in rows if not row.answers), tuple(row for row in rows if row.answers), host=host
    )


def walk(journal: JournalReader, run_id: str) -> RunWalk:
    """
    Return what a run did, titled by its objective.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: A row or its spec cannot be read.
    """
    row = journal.run(run_id)
    return _walk(journal, row, _title(journal, row))


def difference_of(
    journal: JournalReader, left: str, right: str, other: JournalReader | None = None
) -> tuple[Parted, RunDiff]:
    """
    Return how two runs differ, and the whole of what `diff` found.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: A row cannot be read.
    """
    second = other if other is not None else journal
    found = diff(journal, left, right, other)
    rows = journal.run(found.left.run_id), second.run(found.right.run_id)
    walks = _walk(journal, rows[0], rows[0].run_id), _walk(second, rows[1], rows[1].run_id)
    titles = dict.fromkeys((_title(journal, rows[0]), _title(second, rows[1])))
    cause = f"{found.cause.replace('_', ' ')}: {CAUSES[found.cause]}" if found.cause else ""
    ways = _way(journal, rows[0], found.decision_seq), _way(second, rows[1], found.decision_seq)
    title = next(iter(titles)) if len(titles) == 1 else "Two runs"
    told = Parted(title, *walks, found.seq, found.source, cause, found.detail, found.decision_seq, ways)
    return told, found


def covered(found: Coverage) -> Covered:
    """Return a coverage with its title: of the standard machine where a run of it was counted, else of the first of the hosts' own."""
    return Covered("Coverage of the machine", found.tables[0])


def coverage_of(journal: JournalReader, run_ids: Sequence[str] | None = None) -> Coverage:
    """
    Return what runs of a journal have covered, all of them by default; rows that they share count once.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: The guards of a row cannot be read.
    """
    if run_ids is None:
        runs = journal.runs()
        rows: Iterator[tuple[Any, ...]] = (
            values for row in runs for values in journal.iterate_rows(row.run, _BATCH)
        )
    else:
        runs = list({row.run: row for row in map(journal.run, run_ids)}.values())
        rows = _once(values for row in runs for values in journal.rows(row.run))
    machines = {row.run: machine_of_run(journal, row.run) or MACHINE for row in runs}
    others: dict[Machine, list[_Taken]] = {}

    def of_the_standard_one() -> Iterator[_Taken]:
        for values in rows:
            taken = _Taken(values[0], *_step(values), _guards(values))
            if taken.run not in machines:  # a fork's shared rows
                machines[taken.run] = machine_of_run(journal, taken.run) or MACHINE
            if machines[taken.run] is MACHINE:
                yield taken
            else:
                others.setdefault(machines[taken.run], []).append(taken)

    found = coverage(of_the_standard_one())
    found = replace(found, runs=sum(machines[row.run] is MACHINE for row in runs))
    return sum((coverage(taken, machine=machine) for machine, taken in others.items()), start=found)


def objective_of(journal: JournalReader, row: RunRow) -> str | None:
    """
    Return the objective of a run, None once erased; read without building the whole spec.

    Raises:
        JournalDamaged: The spec cannot be read.
    """
    recorded = _recorded(journal, row)
    return str(recorded["objective"]) if recorded else None


def _recorded(journal: JournalReader, row: RunRow) -> dict[str, Any]:
    """Return a run's spec as it is recorded, nothing once it is erased."""
    body = journal.payload(row.run, journal.root_columns(row.run)["spec_payload"]).body
    if body is None:
        return {}
    try:
        recorded = json.loads(body)
    except (ValueError, TypeError):
        recorded = None
    if not isinstance(recorded, dict) or "objective" not in recorded:
        raise JournalDamaged(f"run {row.run_id}: its spec cannot be read; run: paor verify")
    return recorded


def _title(journal: JournalReader, row: RunRow) -> str:
    title = objective_of(journal, row) or row.run_id
    return title if len(title) <= TITLE_CHARS else title[: TITLE_CHARS - 1] + "…"


def _walk(journal: JournalReader, row: RunRow, title: str) -> RunWalk:
    taken = (_Taken(0, *_step(values), {}) for values in journal.rows(row.run))
    return walk_of(taken, title=title, state=row.state, status=row.status, reason=row.reason)


def _step(values: Sequence[Any]) -> Step:
    """Return source, trigger and destination of a row in the order of the table."""
    step = values[4], values[3], values[5]
    if not all(isinstance(name, str) for name in step):
        raise JournalDamaged(f"row {values[1]}: its trigger, source or dest is no text; run: paor verify")
    return step


def _way(journal: JournalReader, row: RunRow, seq: int | None) -> Step | None:
    """Return what a run did at row *seq*, None when it has no such row."""
    rows = journal.rows(row.run, seq) if seq is not None else []
    return _step(rows[0]) if rows else None


def _once(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield each row once, though forks share it."""
    seen = set[tuple[int, int]]()
    for values in rows:
        if values[:2] not in seen:
            seen.add(values[:2])
            yield values


def _guards(values: Sequence[Any]) -> dict[str, bool]:
    """Return the guards of a row in the order of the table."""
    try:
        guards = orjson.loads(values[6])
    except (orjson.JSONDecodeError, TypeError):
        guards = None
    if not isinstance(guards, dict):
        raise JournalDamaged(f"row {values[1]}: its guards cannot be read; run: paor verify")
    return guards
