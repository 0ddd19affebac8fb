"""
The machine as a picture: Mermaid, DOT and SVG, all derived from the table.

Every row appears. Rows that lead from one phase to the same other phase are one edge, with one label per trigger;
a `Walk` lays over it what one run did. Nothing here reads a clock, a file or a random number: same input, same
bytes. Titles and names are untrusted text and are escaped for each form (see `plain`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from ..states.phase import PHASES
from .table import INITIAL, ROWS, Row

Format = Literal["mermaid", "dot", "svg"]
Step = tuple[str, str, str]
"""Source, trigger and destination."""


@dataclass(frozen=True, slots=True)
class Walk:
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


@dataclass(frozen=True, slots=True)
class Label:
    """
    One trigger on an edge.

    Attributes:
        trigger: Its name.
        rows: The table's rows it stands for; none for a step that the table does not know.
        count: How often a run walked it.
        first: Its place in the order of first use, from 1; 0 when it was not walked.
    """

    trigger: str
    rows: tuple[Row, ...]
    count: int = 0
    first: int = 0

    @property
    def text(self) -> str:
        """Return ``trigger [a, b | c]``: one alternative per row, ``otherwise`` for a row without guards."""
        if not any(row.guards for row in self.rows):
            return self.trigger
        return f"{self.trigger} [{' | '.join(', '.join(row.guards) or 'otherwise' for row in self.rows)}]"

    @property
    def walked_text(self) -> str:
        """Return the trigger with its count and place, as far as it was walked."""
        return f"{self.trigger} ×{self.count} (#{self.first})" if self.first else self.trigger


@dataclass(frozen=True, slots=True)
class Edge:
    """All that leads from *source* to *dest*."""

    source: str
    dest: str
    labels: tuple[Label, ...]

    @property
    def walked(self) -> bool:
        """Return whether a run took it."""
        return any(label.first for label in self.labels)


@dataclass(frozen=True, slots=True)
class Graph:
    """
    What every form draws.

    Attributes:
        phases: Each phase once; the seven in their usual order, others as they come up.
        initial: Where a run starts.
        final: Phases that nothing leads out of.
        edges: Loops first, then by source and destination; see `_rank`.
        walk: The run to lay over it, if any.
    """

    phases: tuple[str, ...]
    initial: str
    final: frozenset[str]
    edges: tuple[Edge, ...]
    walk: Walk | None

    @property
    def visited(self) -> frozenset[str]:
        """Return the phases that the run was in."""
        if self.walk is None:
            return frozenset()
        ends = {end for edge in self.edges if edge.walked for end in (edge.source, edge.dest)}
        return frozenset(ends | {self.walk.state})


def walk_of(transitions: Iterable[Any], *, title: str, state: str, status: str, reason: str | None) -> Walk:
    """
    Count what a run did; the rest is kept as given.

    Args:
        transitions: Records with ``source``, ``trigger`` and ``dest``, in order, as `Journal.transitions` gives.
    """
    counts: dict[Step, int] = {}
    for taken in transitions:
        step = (taken.source, taken.trigger, taken.dest)
        counts[step] = counts.get(step, 0) + 1
    return Walk(title, counts, tuple(counts), state, status, reason)


def diagram(form: Format, walk: Walk | None = None, *, rows: Sequence[Row] = ROWS) -> str:
    """
    Return the machine as text in *form*, with what a run did laid over it.

    Args:
        form: ``mermaid`` (a ``stateDiagram-v2``), ``dot`` (Graphviz) or ``svg`` (a finished picture).
        walk: Of one run; its steps that are not in *rows* are drawn too, since they happened.
        rows: The table; the engine's own by default.

    Returns:
        The source. Without a walk Mermaid and DOT show the guards in full; SVG always has them as hover texts.
    """
    graph = graph_of(rows, walk)
    match form:
        case "mermaid":
            return _mermaid(graph)
        case "dot":
            return _dot(graph)
        case "svg":
            from .diagram_svg import svg

            return svg(graph)
    assert_never(form)


def table_markdown(rows: Sequence[Row] = ROWS) -> str:
    """Return the table as Markdown, in the order in which its rows are tried."""
    lines = ["| from | trigger | to | guards | meaning |", "|---|---|---|---|---|"]
    for row in rows:
        guards = ", ".join(f"`{_cell(guard)}`" for guard in row.guards)
        cells = (_cell(row.source), f"`{_cell(row.trigger)}`", _cell(row.dest), guards, _cell(row.meaning))
        lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def graph_of(rows: Sequence[Row], walk: Walk | None = None) -> Graph:
    """Return what is drawn for a table and a walk: the one place where rows become edges."""
    found: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        found.setdefault((row.source, row.dest), {}).setdefault(row.trigger, []).append(row)
    for source, trigger, dest in walk.order if walk else ():
        found.setdefault((source, dest), {}).setdefault(trigger, [])
    places = {step: place for place, step in enumerate(walk.order, start=1)} if walk else {}

    def label(step: Step, its_rows: list[Row]) -> Label:
        first = places.get(step, 0)
        return Label(step[1], tuple(its_rows), walk.counts[step] if walk and first else 0, first)

    edges = [
        Edge(source, dest, tuple(label((source, name, dest), its) for name, its in triggers.items()))
        for (source, dest), triggers in found.items()
    ]
    phases = _phases(edges, walk)
    edges.sort(key=lambda edge: _rank(edge, phases))
    starts = [INITIAL, *(row.source for row in rows), *phases]
    initial = next((name for name in starts if name in phases), INITIAL)
    sources = {edge.source for edge in edges}
    return Graph(phases, initial, frozenset(phases) - sources - {initial}, tuple(edges), walk)


def _phases(edges: Iterable[Edge], walk: Walk | None) -> tuple[str, ...]:
    """Return every phase once: known ones in their usual order, then the others as they come up, ends last."""
    names = [end for edge in edges for end in (edge.source, edge.dest)] + ([walk.state] if walk else [])
    usual = [name for name in PHASES if name in names]
    sources = {edge.source for edge in edges}
    return tuple(sorted(dict.fromkeys([*usual, *names]), key=lambda name: name not in sources))


def _rank(edge: Edge, phases: Sequence[str]) -> tuple[bool, int, int]:
    """
    Return an edge's place: loops first, then by source and destination.

    Graphviz and Mermaid break cycles in the order in which they read the edges; in this order the main flow runs
    straight. Loops first leave Mermaid's labels almost free of overlaps (measured on 11.17 over 90 such orders).
    """
    source, dest = phases.index(edge.source), phases.index(edge.dest)
    return source != dest, source, dest


def plain(text: str) -> str:
    """Return *text* on one line: what cannot be printed (controls, surrogates, direction marks) becomes a space."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def caption(walk: Walk) -> str:
    """Return a run's title, status and reason on one line."""
    return plain(
        f"{plain(walk.title) or 'run'}: {walk.status}" + (f" ({walk.reason})" if walk.reason else "")
    )


def _cell(text: str) -> str:
    """Return *text* for one cell of a Markdown table."""
    return plain(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


# -- Mermaid -------------------------------------------------------------------------------------------------------

_MERMAID_CLASSES = {
    "visited": "fill:#dbe4ff,stroke:#3b5bdb,color:#1b2a5e",
    "running": "fill:#3b5bdb,stroke:#3b5bdb,color:#ffffff,stroke-width:3px",
    "waiting": "fill:#f08c00,stroke:#b35c00,color:#201400,stroke-width:3px",
    "done": "fill:#2b8a3e,stroke:#2b8a3e,color:#ffffff,stroke-width:3px",
    "failed": "fill:#c92a2a,stroke:#c92a2a,color:#ffffff,stroke-width:3px",
}
_MERMAID_SPACE = '    %%{init: {"state": {"nodeSpacing": 70, "rankSpacing": 70}}}%%'
"""A directive and no front matter, so that the text begins with the diagram's kind; 70 px keep labels apart."""
_STATUSES = ("running", "waiting", "done", "failed")
_MERMAID_SAFE = re.compile(r"[^\w ,.()\[\]|×-]")
_MERMAID_WORDS = re.compile(
    r"(?i)state|note|end|direction|class(def)?|style|click|default|as|title|scale|hide"
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def _mermaid(graph: Graph) -> str:
    """Return a ``stateDiagram-v2``."""
    walk, names = graph.walk, _mermaid_names(graph.phases)
    lines = ["---", f"title: {_yaml(caption(walk))}", "---"] if walk else []
    lines += ["stateDiagram-v2", _MERMAID_SPACE]
    for phase, name in names.items():
        if phase != name:
            lines.append(f'    state "{_mermaid_text(phase)}" as {name}')
    if graph.phases:
        lines.append(f"    [*] --> {names[graph.initial]}")
    for edge in graph.edges:
        texts = [label.walked_text if walk else label.text for label in edge.labels]
        label = "<br/>".join(_mermaid_text(text) for text in texts)
        lines.append(f"    {names[edge.source]} --> {names[edge.dest]} : {label}")
    lines += [f"    {names[phase]} --> [*]" for phase in graph.phases if phase in graph.final]
    if walk:
        lines += _mermaid_styles(graph, walk, names)
    return "\n".join(lines) + "\n"


def _mermaid_styles(graph: Graph, walk: Walk, names: Mapping[str, str]) -> list[str]:
    """Return the lines that colour visited phases and the one where the run stands."""
    status = status_of(walk)
    passed = [names[phase] for phase in graph.phases if phase in graph.visited and phase != walk.state]
    lines = [f"    classDef {name} {_MERMAID_CLASSES[name]}" for name in ("visited", status)]
    if passed:
        lines.append(f"    class {','.join(passed)} visited")
    return [*lines, f"    class {names[walk.state]} {status}"]


def status_of(walk: Walk) -> str:
    """Return a run's status as one of the four that have a colour; any other counts as running."""
    return walk.status if walk.status in _STATUSES else "running"


def _mermaid_names(phases: Iterable[str]) -> dict[str, str]:
    """Return an identifier for each phase: its own name where all names can be used, else numbered ones."""
    names = list(phases)
    if all(_NAME.fullmatch(name) and not _MERMAID_WORDS.fullmatch(name) for name in names):
        return {name: name for name in names}
    return {name: f"s{number}" for number, name in enumerate(names)}


def _mermaid_text(text: str) -> str:
    """Return *text* for a label: what could mean something to Mermaid's grammar becomes a character code."""
    return _MERMAID_SAFE.sub(lambda found: f"#{ord(found[0])};", plain(text)).replace("#35;", "#") or "-"


def _yaml(text: str) -> str:
    """
    Return *text* as a double-quoted YAML scalar in which only letters, digits and a few marks stand plain.

    Mermaid drops or doubly escapes what looks like HTML in a title, so those three marks become others that look alike.
    """
    text = text.translate(str.maketrans("<>&", "‹›＆"))
    return '"' + re.sub(r"[^\w .,():×?!'/‹›＆-]", lambda found: f"\\U{ord(found[0]):08x}", text) + '"'


# -- DOT -----------------------------------------------------------------------------------------------------------

_DOT_HEAD = """\
    graph [rankdir=TB, fontname="Helvetica", fontsize=14, nodesep=0.6, ranksep=0.7, labelloc=t, pad=0.3]
    node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=13, margin="0.2,0.1"]
    node [color="#667085", fillcolor="#f2f4f7", fontcolor="#1f2430"]
    edge [fontname="Helvetica", fontsize=10, color="#667085", fontcolor="#1f2430", arrowsize=0.8]
    start [shape=circle, width=0.16, fixedsize=true, fillcolor="#667085", label=""]"""
_DOT_NODES = {
    "visited": 'fillcolor="#dbe4ff", color="#3b5bdb"',
    "running": 'fillcolor="#3b5bdb", color="#3b5bdb", fontcolor="white"',
    "waiting": 'fillcolor="#f08c00", color="#b35c00", fontcolor="#201400"',
    "done": 'fillcolor="#2b8a3e", color="#2b8a3e", fontcolor="white"',
    "failed": 'fillcolor="#c92a2a", color="#c92a2a", fontcolor="white"',
}
_DOT_WALKED = 'color="#3b5bdb", fontcolor="#2b3f94", penwidth=2.4'
_DOT_FADED = 'color="#c5cad3", fontcolor="#98a2b3"'


def _dot(graph: Graph) -> str:
    """Return a Graphviz digraph."""
    walk = graph.walk
    lines = ["digraph paor {", _DOT_HEAD]
    if walk:
        lines.append(f"    label={_quoted(caption(walk))}")
    for phase in graph.phases:
        style = [f"label={_quoted(phase)}"] + (["peripheries=2"] if phase in graph.final else [])
        if walk and phase in graph.visited:
            style.append(_DOT_NODES[status_of(walk) if phase == walk.state else "visited"])
        lines.append(f"    {_node(phase)} [{', '.join(style)}]")
    if graph.phases:
        lines.append(f"    start -> {_node(graph.initial)}")
    for edge in graph.edges:
        texts = [label.walked_text if walk else label.text for label in edge.labels]
        style = ["label=" + _quoted(*texts)]
        if walk:
            style.append(_DOT_WALKED if edge.walked else _DOT_FADED)
        lines.append(f"    {_node(edge.source)} -> {_node(edge.dest)} [{', '.join(style)}]")
    return "\n".join([*lines, "}"]) + "\n"


def _node(phase: str) -> str:
    """Return a phase's identifier; the prefix keeps it apart from ``start`` and from DOT's keywords."""
    return _quoted(f"phase {phase}")


def _quoted(*lines: str) -> str:
    """Return *lines* as one quoted DOT string; Graphviz also decodes HTML entities, so ``&`` is one."""
    safe = (plain(line).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(safe) + '"'
