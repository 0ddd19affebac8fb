"""
What every form of a diagram draws: the table as a graph, with one overlay.

Every row appears. Rows that lead from one phase to the same other phase are one edge, with one label per trigger. An
overlay lays over it what one run did (`RunWalk`), what several have covered (`Covered`) or how two differ (`Parted`).
Nothing here reads a clock, a file or a random number. Titles and names are untrusted text, see `plain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ...states.phase import Phase
from ...states.run.phase_names import FAILED, PHASES
from ..explain.coverage import Coverage
from ..machine.guards import GUARDS
from ..machine.host_rows import NO_HOST, Host, host_guards
from ..machine.table import Row

Step = tuple[str, str, str]
"""Source, trigger and destination."""
Look = Literal["", "walked", "faded", "never", "both", "left", "right"]
"""Of an edge: no overlay; a run took it or not; no run ever did; both runs took it, or only the one or the other."""


@dataclass(frozen=True, slots=True)
class RunWalk:
    """
    What one run did.

    Attributes:
        title: Shown above the picture; any text.
        counts: How often each (source, trigger, dest) was walked.
        order: The same keys in order of their first use.
        state: Phase where the run stands.
        status: running, waiting, done or failed.
        reason: Why it ended, or None.
    """

    title: str
    counts: Mapping[Step, int]
    order: tuple[Step, ...]
    state: str
    status: str
    reason: str | None

    @property
    def transitions(self) -> int:
        """Return how many rows it has."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Covered:
    """
    What a number of runs have covered.

    Attributes:
        title: Shown above the picture; any text.
        coverage: The counts, with the table that they were measured on: that one is drawn.
    """

    title: str
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class Parted:
    """
    How two runs differ.

    Attributes:
        title: Shown above the picture; any text.
        left, right: What each did, titled by its id.
        seq: First row that differs in anything, None for identical runs.
        source: Phase in which it is decided.
        cause: Why, in some words.
        detail: One sentence more.
        decision_seq: First row that is another transition, None when all are the same.
        ways: What each of them did there; None for one that has no such row.
    """

    title: str
    left: RunWalk
    right: RunWalk
    seq: int | None
    source: str
    cause: str
    detail: str
    decision_seq: int | None
    ways: tuple[Step | None, Step | None] = (None, None)


Overlay = RunWalk | Covered | Parted


@dataclass(frozen=True, slots=True)
class Label:
    """
    One trigger on an edge.

    Attributes:
        trigger: Its name.
        rows: The table's rows it stands for; none for a step that the table does not know.
        count: How often it was walked, by both runs where there are two.
        first: Its place in the order of a run's first uses, from 1; 0 when there is none.
        sides: How often each of two runs walked it.
        covers: Whether the counts are those of a coverage, so that 0 means never.
    """

    trigger: str
    rows: tuple[Row, ...]
    count: int = 0
    first: int = 0
    sides: tuple[int, int] | None = None
    covers: bool = False

    @property
    def own(self) -> bool:
        """Return whether it is the host's own alone."""
        return bool(self.rows) and all(row.host for row in self.rows)

    @property
    def text(self) -> str:
        """Return ``trigger [a, b | c]``: one alternative per row, ``otherwise`` for a row without guards."""
        if not any(row.guards for row in self.rows):
            return self.trigger
        return f"{self.trigger} [{' | '.join(', '.join(row.guards) or 'otherwise' for row in self.rows)}]"

    @property
    def walked_text(self) -> str:
        """Return the trigger with its counts, and its place or whose they are."""
        if self.first:
            return f"{self.trigger} ×{self.count} (#{self.first})"
        if self.covers:
            return f"{self.trigger} ×{self.count}" if self.count else f"{self.trigger} (never)"
        if self.sides is not None and self.count:
            left, right = self.sides
            if left == right:
                return f"{self.trigger} ×{left}"
            told = [f"{name} ×{count}" for name, count in zip("AB", self.sides, strict=True) if count]
            return f"{self.trigger} {', '.join(told)}"
        return self.trigger


@dataclass(frozen=True, slots=True)
class Edge:
    """
    All that leads from *source* to *dest*; of what the host has added from one phase to another, an edge of its own.

    Attributes:
        source, dest: Names of phases.
        labels: Its triggers.
        overlaid: Whether an overlay says how often each was walked.
        own: Whether it is drawn as the host's own.
    """

    source: str
    dest: str
    labels: tuple[Label, ...]
    overlaid: bool = False
    own: bool = False

    @property
    def walked(self) -> bool:
        """Return whether a run took it."""
        return any(label.count for label in self.labels)

    @property
    def look(self) -> Look:
        """Return how it is drawn."""
        if not self.overlaid:
            return ""
        if not self.walked:
            return "never" if any(label.covers for label in self.labels) else "faded"
        sides = [label.sides for label in self.labels if label.sides is not None]
        if not sides:
            return "walked"
        left, right = any(one for one, _ in sides), any(two for _, two in sides)
        return "both" if left and right else "left" if left else "right"


@dataclass(frozen=True, slots=True)
class Graph:
    """
    What every form draws.

    Attributes:
        rows: The table.
        phases: Each phase once; the seven in their usual order, others as they come up.
        initial: Where a run starts.
        final: Phases that nothing leads out of.
        edges: Loops first, then by source and destination; see `_rank`.
        overlay: What lies over it, if anything.
        own: The host's own phases by name.
        words: What guards mean that are no guards of paor's own, by name.
    """

    rows: tuple[Row, ...]
    phases: tuple[str, ...]
    initial: str
    final: frozenset[str]
    edges: tuple[Edge, ...]
    overlay: Overlay | None
    own: Mapping[str, Phase] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_own(self) -> bool:
        """Return whether there is anything of a host's own in it."""
        return bool(self.own or self.words) or any(row.host for row in self.rows)

    @property
    def labels(self) -> Iterator[Label]:
        """Return every label of every edge."""
        return (label for edge in self.edges for label in edge.labels)

    @property
    def visited(self) -> frozenset[str]:
        """Return the phases that a run was in."""
        stands = {walk.state for walk in walks_of(self.overlay)}
        return frozenset(stands.union(*((edge.source, edge.dest) for edge in self.edges if edge.walked)))

    def look_of(self, phase: str) -> str:
        """Return how a phase is drawn: empty, ``seen``, ``unseen``, or the status of the run that is there."""
        if self.overlay is None:
            return ""
        looks = {status_of(walk) for walk in walks_of(self.overlay) if walk.state == phase}
        if len(looks) == 1:
            return looks.pop()
        return "seen" if phase in self.visited else "unseen"


def walks_of(overlay: Overlay | None) -> tuple[RunWalk, ...]:
    """Return the single runs of an overlay."""
    if isinstance(overlay, RunWalk):
        return (overlay,)
    return (overlay.left, overlay.right) if isinstance(overlay, Parted) else ()


def walk_of(
    transitions: Iterable[Any], *, title: str, state: str, status: str, reason: str | None
) -> RunWalk:
    """
    Count what a run did; the rest is kept as given.

    Args:
        transitions: Records with ``source``, ``trigger`` and ``dest``, in order, as `Journal.transitions` gives.
    """
    counts: dict[Step, int] = {}
    for taken in transitions:
        step = (taken.source, taken.trigger, taken.dest)
        counts[step] = counts.get(step, 0) + 1
    return RunWalk(title, counts, tuple(counts), state, status, reason)


def graph_of(rows: Sequence[Row], overlay: Overlay | None = None, host: Host = NO_HOST) -> Graph:
    """Return what is drawn for a table, what a host has added and an overlay: the one place where rows become edges."""
    rows = _measured_table(rows, overlay.coverage) if isinstance(overlay, Covered) else tuple(rows)
    steps = _steps(overlay)
    found: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        found.setdefault((row.source, row.dest), {}).setdefault(row.trigger, []).append(row)
    for source, trigger, dest in steps:
        found.setdefault((source, dest), {}).setdefault(trigger, [])
    places = {step: place for place, step in enumerate(steps, 1)} if isinstance(overlay, RunWalk) else {}

    def label(step: Step, its_rows: list[Row]) -> Label:
        left, right = steps.get(step, (0, 0))
        sides = (left, right) if isinstance(overlay, Parted) else None
        covers = isinstance(overlay, Covered)
        return Label(step[1], tuple(its_rows), left + right, places.get(step, 0), sides, covers)

    edges: list[Edge] = []
    for (source, dest), triggers in found.items():
        labels = [label((source, name, dest), its) for name, its in triggers.items()]
        apart = source != dest and not (source in PHASES and dest == FAILED)
        for own in (False, True) if apart else (all(one.own for one in labels),):
            its_labels = tuple(one for one in labels if not apart or one.own is own)
            edges += [Edge(source, dest, its_labels, overlay is not None, own)] if its_labels else []
    phases = _phases(edges, overlay)
    edges.sort(key=lambda edge: _rank(edge, phases))
    starts = [host.initial, *(row.source for row in rows), *phases]
    initial = next((name for name in starts if name in phases), host.initial)
    sources = {edge.source for edge in edges}
    final = frozenset(phases) - sources - {initial}
    return Graph(rows, phases, initial, final, tuple(edges), overlay, host.phases, _words(rows, host))


def _words(rows: Sequence[Row], host: Host) -> dict[str, str]:
    """Return what the guards mean that a host's machine has beside those of paor's own, as far as rows name them."""
    if host is NO_HOST:
        return {}
    meant = {
        name: plain(str(guard.__doc__ or name)) for name, guard in host_guards(tuple(rows), host).items()
    }
    named = dict.fromkeys(name for row in rows for name in (*row.conditions, *row.unless))
    return {name: meant[name] for name in named if name in meant and name not in GUARDS}


def _steps(overlay: Overlay | None) -> dict[Step, tuple[int, int]]:
    """Return what was walked, in order of first use, with its counts; all on the left where there is one side only."""
    if isinstance(overlay, RunWalk):
        return {step: (overlay.counts[step], 0) for step in overlay.order}
    if isinstance(overlay, Parted):
        one, two = overlay.left, overlay.right
        order = dict.fromkeys((*one.order, *two.order))
        return {step: (one.counts.get(step, 0), two.counts.get(step, 0)) for step in order}
    counts: dict[Step, tuple[int, int]] = {}
    if overlay is not None:
        found = [(*row.key[:3], row.count) for row in overlay.coverage.rows]
        found += [(step.source, step.trigger, step.dest, step.count) for step in overlay.coverage.foreign]
        for source, trigger, dest, count in found:
            if count:
                before = counts.get((source, trigger, dest), (0, 0))[0]
                counts[source, trigger, dest] = (before + count, 0)
    return counts


def _measured_table(rows: Sequence[Row], coverage: Coverage) -> tuple[Row, ...]:
    """Return the table that a coverage was measured on, with the meanings that *rows* know."""
    known = {(row.source, row.trigger, row.dest, row.guards): row for row in rows}
    return tuple(known.get(row.key) or Row(*row.key, "") for row in coverage.rows)


def _phases(edges: Iterable[Edge], overlay: Overlay | None) -> tuple[str, ...]:
    """Return every phase once: known ones in their usual order, then the others as they come up, ends last."""
    names = [end for edge in edges for end in (edge.source, edge.dest)]
    names += [walk.state for walk in walks_of(overlay)]
    usual = [name for name in PHASES if name in names]
    sources = {edge.source for edge in edges}
    return tuple(sorted(dict.fromkeys([*usual, *names]), key=lambda name: name not in sources))


def _rank(edge: Edge, phases: Sequence[str]) -> tuple[bool, int, int, bool]:
    """
    Return an edge's place: loops first, then by source and destination.

    Graphviz and Mermaid break cycles in the order in which they read the edges: so the main flow runs straight, and
    Mermaid's labels hardly overlap (the best of some 90 such orders with Mermaid 11.17).
    """
    source, dest = phases.index(edge.source), phases.index(edge.dest)
    return source != dest, source, dest, edge.own


def plain(text: str) -> str:
    """Return *text* on one line: what cannot be printed (controls, surrogates, direction marks) becomes a space."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def status_of(walk: RunWalk) -> str:
    """Return a run's status as one of the four that have a colour; any other counts as running."""
    return walk.status if walk.status in ("waiting", "done", "failed") else "running"
