"""
Drawing: reads from journals what a diagram lays over the machine, and draws it.

All of it raises `UnknownRun` where there is no such run, and `JournalDamaged` where a row or a spec cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol, get_args

from ...states.base.errors import UsageError
from ..explain.coverage import Coverage, coverage
from ..explain.diff import RunDiff, diff
from ..explain.divergence import CAUSES
from ..explain.story import objective_of
from ..journal.reader import JournalReader, Readable, reader_of
from ..journal.rows import RunRow, Transition
from ..machine.machine import MACHINE, Machine
from ..replay.machines import machine_of_run
from .graph import Graph, Overlay, Parted, RunWalk, graph_of, walk_of
from .mermaid import dot, mermaid
from .svg import svg

Format = Literal["mermaid", "dot", "svg"]
FORMS: dict[Format, Callable[[Graph], str]] = {"mermaid": mermaid, "dot": dot, "svg": svg}
TITLE_CHARS = 100
"""Characters of an objective that stand above a picture."""


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
    given: Any = journal
    machine = given if isinstance(given, Machine) else getattr(given, "machine", None)
    if run is None:
        if diff is not None:
            raise UsageError("diff= names a second run, to be compared with run=")
        overlay = coverage.tables[0] if coverage is not None else None
        return drawn(form, overlay, machine if isinstance(machine, Machine) else MACHINE)
    usage = "diagram takes a Journal before a run, such as diagram(engine.journal, run_id)"
    given = given.journal if isinstance(machine, Machine) and machine is not given else given
    first = reader_of(given, usage)
    second = reader_of(other, usage) if other is not None else first
    if diff is None:
        return drawn(form, walk(first, run), machine_walked(first, run))
    machine = joined(machine_walked(first, run), machine_walked(second, diff))
    return drawn(form, difference_of(first, run, diff, second)[0], machine)


def drawn(form: Format, overlay: Overlay | None, machine: Machine) -> str:
    """Return a picture of *machine* with *overlay* laid over it."""
    return FORMS[form](graph_of(machine.rows, overlay, machine.host))


def machine_walked(journal: JournalReader, run_id: str) -> Machine:
    """Return the machine that a run walks, without the host's code; the standard one once its spec is erased."""
    return machine_of_run(journal, journal.run(run_id).run) or MACHINE


def joined(one: Machine, two: Machine) -> Machine:
    """Return a machine with the rows of both, to draw two runs on; those that both have are there once."""
    if two is one:
        return one
    phases, guards = {**two.host.phases, **one.host.phases}, {**two.host.guards, **one.host.guards}
    rows = dict.fromkeys((*one.rows, *two.rows))
    table, waiting = (tuple(row for row in rows if row.answers is answers) for answers in (False, True))
    return Machine(table, waiting, host=replace(one.host, phases=phases, guards=guards))


def walk(journal: JournalReader, run_id: str, title: str = "") -> RunWalk:
    """Return what a run did, titled by its objective if there is no other *title*."""
    row = journal.run(run_id)
    taken, title = journal.transitions(row.run_id), title or _title(journal, row)
    return walk_of(taken, title=title, state=row.state, status=row.status, reason=row.reason)


def difference_of(
    journal: JournalReader, left: str, right: str, other: JournalReader | None = None
) -> tuple[Parted, RunDiff]:
    """Return how two runs differ, and the whole of what `diff` found."""
    found = diff(journal, left, right, other)
    sides = (journal, found.left.run_id), (other if other is not None else journal, found.right.run_id)
    one, two = (walk(reader, run_id, run_id) for reader, run_id in sides)
    titles = {_title(reader, reader.run(run_id)) for reader, run_id in sides}
    title, seq = titles.pop() if len(titles) == 1 else "Two runs", found.decision_seq
    rows = [reader.transitions(run_id, seq, seq) if seq is not None else [] for reader, run_id in sides]
    first, last = ((taken[0].source, taken[0].trigger, taken[0].dest) if taken else None for taken in rows)
    cause = f"{found.cause.replace('_', ' ')}: {CAUSES[found.cause]}" if found.cause else ""
    told = Parted(title, one, two, found.seq, found.source, cause, found.detail, seq, (first, last))
    return told, found


def coverage_of(journal: JournalReader, run_ids: Sequence[str] | None = None) -> Coverage:
    """Return what runs of a journal have covered, all of them by default; rows that they share count once."""
    named = journal.runs() if run_ids is None else map(journal.run, run_ids)
    runs = list({row.run: row for row in named}.values())
    machines = {row.run: machine_of_run(journal, row.run) or MACHINE for row in runs}
    others: dict[Machine, list[Transition]] = {}
    seen = set[tuple[int, int]]()

    def of_the_standard_one() -> Iterator[Transition]:
        for row in runs:
            for taken in journal.transitions(row.run_id):
                if taken.run not in machines:  # a fork's shared rows
                    machines[taken.run] = machine_of_run(journal, taken.run) or MACHINE
                if (taken.run, taken.seq) not in seen and machines[taken.run] is MACHINE:
                    yield taken
                elif (taken.run, taken.seq) not in seen:
                    others.setdefault(machines[taken.run], []).append(taken)
                seen.add((taken.run, taken.seq))

    found = coverage(of_the_standard_one())
    found = replace(found, runs=sum(machines[row.run] is MACHINE for row in runs))
    return sum((coverage(taken, machine=machine) for machine, taken in others.items()), start=found)


def _title(journal: JournalReader, row: RunRow) -> str:
    title = objective_of(journal, row) or row.run_id
    return title if len(title) <= TITLE_CHARS else title[: TITLE_CHARS - 1] + "…"
