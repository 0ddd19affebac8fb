"""
What every form of a diagram draws: the table as a graph, with one overlay.

Every row appears. Rows that lead from one phase to the same other phase are one edge, with one label per trigger; those that a host has
added are an edge of their own. An overlay lays over it what one run did (`RunWalk`), what several have covered (`Coverage`) or how two
differ (`Parted`). Nothing here reads a clock, a file or a random number. Titles and names are untrusted text, see `plain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ...states.phase import Phase
from ...states.run.phase_names import PHASES
from ..explain.coverage import Coverage
from ..machine.gates import turned
from ..machine.guards import GUARDS
from ..machine.host_rows import NO_HOST, Host, host_guards
from ..machine.table import Row

Step = tuple[str, str, str]
"""Source, trigger and destination."""
Look = Literal["", "own", "walked", "faded", "never", "both", "left", "right"]
"""Of an edge: no overlay; a run took it or not; no run ever did; both runs took it, or only the one or the other."""


@dataclass(frozen=True, slots=True)
class RunWalk:
    """
    What one run did.

    Attributes:
        title: Shown above the picture; any text.
        counts: How often each step was taken, in order of first use.
        state, status, reason: The phase where it is; running, waiting, done or failed; and why it ended.
    """

    title: str
    counts: Mapping[Step, int]
    state: str
    status: str
    reason: str | None

    @property
    def transitions(self) -> int:
        """Return how many rows it has."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Parted:
    """
    How two runs differ.

    Attributes:
        left, right: What each did, titled by its id.
        seq, source: First row that differs in anything, None for identical runs, and the phase in which it is decided.
        cause, detail: Why, in some words, and one sentence more.
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


Overlay = RunWalk | Coverage | Parted


@dataclass(frozen=True, slots=True)
class Label:
    """
    One trigger on an edge.

    Attributes:
        rows: The table's rows with that trigger; none for a step that the table does not know.
        count, sides: How often it was walked, by both runs where there are two, and by each of them.
        first: Its place in the order of a run's first uses, from 1; 0 when there is none.
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
        if not self.count:
            return f"{self.trigger} (never)" if self.covers else self.trigger
        if self.sides is not None and self.sides[0] != self.sides[1]:
            told = [f"{name} ×{count}" for name, count in zip("AB", self.sides, strict=True) if count]
            return f"{self.trigger} {', '.join(told)}"
        place = f" (#{self.first})" if self.first else ""
        return f"{self.trigger} ×{self.sides[0] if self.sides is not None else self.count}{place}"


@dataclass(frozen=True, slots=True)
class Edge:
    """All that leads from *source* to *dest*, or all of the host's *own* that does: its triggers, and how it is drawn."""

    source: str
    dest: str
    labels: tuple[Label, ...]
    own: bool = False
    look: Look = ""

    @property
    def walked(self) -> bool:
        """Return whether a run took it."""
        return any(label.count for label in self.labels)


@dataclass(frozen=True, slots=True)
class Graph:
    """
    What every form draws.

    Attributes:
        phases: Each phase once; the seven in their usual order, others as they come up.
        final: Phases that nothing leads out of.
        edges: Loops first, then by source and destination; see `_rank`.
        own: The host's own phases by name.
        words: What guards mean that are no guards of paor's own, by name.
        gates: By phase the one that every way to it goes through.
    """

    rows: tuple[Row, ...]
    phases: tuple[str, ...]
    initial: str
    final: frozenset[str]
    edges: tuple[Edge, ...]
    overlay: Overlay | None
    own: Mapping[str, Phase] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_own(self) -> bool:
        """Return whether there is anything of a host's own in it."""
        return bool(self.own or self.words) or any(row.host for row in self.rows)

    def look_of(self, phase: str) -> str:
        """Return how a phase is drawn: empty, ``seen``, ``unseen``, or the status of the run that is there."""
        if self.overlay is None:
            return ""
        looks = {status_of(walk) for walk in _walks_of(self.overlay) if walk.state == phase}
        if len(looks) == 1:
            return looks.pop()
        visited = any(phase in (edge.source, edge.dest) for edge in self.edges if edge.walked)
        return "seen" if visited or looks else "unseen"


def walk_of(
    transitions: Iterable[Any], *, title: str, state: str, status: str, reason: str | None
) -> RunWalk:
    """Count what a run did; *transitions* have ``source``, ``trigger`` and ``dest``, as `Journal.transitions` gives them."""
    counts: dict[Step, int] = {}
    for taken in transitions:
        step = (taken.source, taken.trigger, taken.dest)
        counts[step] = counts.get(step, 0) + 1
    return RunWalk(title, counts, state, status, reason)


def graph_of(rows: Sequence[Row], overlay: Overlay | None = None, host: Host = NO_HOST) -> Graph:
    """Return what is drawn for a table, what a host has added and an overlay: the one place where rows become edges."""
    if isinstance(overlay, Coverage):  # the table that it was measured on, with the meanings that *rows* know
        known = {(row.source, row.trigger, row.dest, row.guards): row for row in rows}
        rows = [known.get(row.key) or Row(*row.key, "") for row in overlay.rows]
    # a row of paor's own that a gate has turned is never taken
    rows = tuple(row for row in rows if row.host or turned(row, host.gates) is row)
    steps = _steps(overlay)
    found: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        found.setdefault((row.source, row.dest), {}).setdefault(row.trigger, []).append(row)
    for source, trigger, dest in steps:
        found.setdefault((source, dest), {}).setdefault(trigger, [])
    places = {step: place for place, step in enumerate(steps, 1)} if isinstance(overlay, RunWalk) else {}
    edges: list[Edge] = []
    for (source, dest), triggers in found.items():
        labels = list[Label]()
        for name, its_rows in triggers.items():
            left, right = steps.get((source, name, dest), (0, 0))
            sides = (left, right) if isinstance(overlay, Parted) else None
            first = places.get((source, name, dest), 0)
            labels.append(
                Label(name, tuple(its_rows), left + right, first, sides, isinstance(overlay, Coverage))
            )
        for own in (False, True):
            if its_labels := tuple(one for one in labels if one.own is own):
                edges.append(Edge(source, dest, its_labels, own, _look(its_labels, overlay, own=own)))
    phases = _phases(edges, overlay)
    edges.sort(key=lambda edge: _rank(edge, phases))
    starts = [host.initial, *(row.source for row in rows), *phases]
    initial = next((name for name in starts if name in phases), host.initial)
    final = frozenset(phases) - {edge.source for edge in edges} - {initial}
    words = _words(rows, host)
    return Graph(rows, phases, initial, final, tuple(edges), overlay, host.phases, words, host.gates)


def _look(labels: Sequence[Label], overlay: Overlay | None, *, own: bool) -> Look:
    """Return how an edge is drawn."""
    if overlay is None:
        return "own" if own else ""
    if not any(label.count for label in labels):
        return "never" if isinstance(overlay, Coverage) else "faded"
    sides = [label.sides for label in labels if label.sides is not None]
    if not sides:
        return "walked"
    left, right = any(one for one, _ in sides), any(two for _, two in sides)
    return "both" if left and right else "left" if left else "right"


def _words(rows: Sequence[Row], host: Host) -> dict[str, str]:
    """Return what the guards mean that a host's machine has beside those of paor's own, as far as rows name them."""
    if host is NO_HOST:
        return {}
    meant = host_guards(tuple(rows), host)
    named = dict.fromkeys(name for row in rows for name in (*row.conditions, *row.unless))
    own = (name for name in named if name in meant and name not in GUARDS)
    return {name: plain(str(meant[name].__doc__ or name)) for name in own}


def _steps(overlay: Overlay | None) -> dict[Step, tuple[int, int]]:
    """Return what was walked, in order of first use, with its counts; all on the left where there is one side only."""
    if isinstance(overlay, Parted):
        one, two = overlay.left.counts, overlay.right.counts
        return {step: (one.get(step, 0), two.get(step, 0)) for step in dict.fromkeys((*one, *two))}
    if isinstance(overlay, RunWalk):
        return {step: (count, 0) for step, count in overlay.counts.items()}
    counts: dict[Step, tuple[int, int]] = {}
    if overlay is not None:
        found = [(row.key[:3], row.count) for row in overlay.rows]
        found += [((step.source, step.trigger, step.dest), step.count) for step in overlay.foreign]
        for taken, count in found:
            if count:
                counts[taken] = (counts.get(taken, (0, 0))[0] + count, 0)
    return counts


def _walks_of(overlay: Overlay | None) -> tuple[RunWalk, ...]:
    """Return the single runs of an overlay."""
    if isinstance(overlay, RunWalk):
        return (overlay,)
    return (overlay.left, overlay.right) if isinstance(overlay, Parted) else ()


def _phases(edges: Iterable[Edge], overlay: Overlay | None) -> tuple[str, ...]:
    """Return every phase once: known ones in their usual order, then the others as they come up, ends last."""
    names = [end for edge in edges for end in (edge.source, edge.dest)]
    names += [walk.state for walk in _walks_of(overlay)]
    usual = [name for name in PHASES if name in names]
    sources = {edge.source for edge in edges}
    return tuple(sorted(dict.fromkeys([*usual, *names]), key=lambda name: name not in sources))


def _rank(edge: Edge, phases: Sequence[str]) -> tuple[bool, int, int, bool]:
    """Return an edge's place: loops first, then by source, so that Mermaid's labels hardly overlap (best of 90 orders)."""
    source, dest = phases.index(edge.source), phases.index(edge.dest)
    return source != dest, source, dest, edge.own


def plain(text: str) -> str:
    """Return *text* on one line: what cannot be printed (controls, surrogates, direction marks) becomes a space."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def status_of(walk: RunWalk) -> str:
    """Return a run's status as one of the four that have a colour; any other counts as running."""
    return walk.status if walk.status in ("waiting", "done", "failed") else "running"
