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

from ..states.phase import FAILED, PHASES
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
        stands = {self.walk.state} if self.walk else set()
        return frozenset(stands.union(*((edge.source, edge.dest) for edge in self.edges if edge.walked)))


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

    Graphviz and Mermaid break cycles in the order in which they read the edges: so the main flow runs straight, and
    Mermaid's labels hardly overlap (the best of some 90 such orders with Mermaid 11.17).
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


_COLOURS = {
    "visited": ("#dbe4ff", "#3b5bdb", "#1b2a5e"),
    "running": ("#3b5bdb", "#3b5bdb", "#ffffff"),
    "waiting": ("#f5a524", "#b35c00", "#2b1a00"),
    "done": ("#2b8a3e", "#2b8a3e", "#ffffff"),
    "failed": ("#c92a2a", "#c92a2a", "#ffffff"),
}
"""Fill, rim and text of a phase that a run was in, and of the one where it stands."""


def status_of(walk: Walk) -> str:
    """Return a run's status as one of the four that have a colour; any other counts as running."""
    return walk.status if walk.status in ("waiting", "done", "failed") else "running"


def _texts(edge: Edge, walk: Walk | None) -> list[str]:
    return [label.walked_text if walk else label.text for label in edge.labels]


# -- Mermaid -------------------------------------------------------------------------------------------------------

_MERMAID_SPACE = '    %%{init: {"state": {"nodeSpacing": 70, "rankSpacing": 70}}}%%'
"""A directive and no front matter, so that the text begins with the diagram's kind; 70 px keep labels apart."""
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
    lines += [f"    [*] --> {names[graph.initial]}"] if names else []
    for edge in graph.edges:
        label = "<br/>".join(_mermaid_text(text) for text in _texts(edge, walk))
        lines.append(f"    {names[edge.source]} --> {names[edge.dest]} : {label}")
    lines += [f"    {names[phase]} --> [*]" for phase in graph.phases if phase in graph.final]
    if walk:
        lines += _mermaid_styles(graph, walk, names)
    return "\n".join(lines) + "\n"


def _mermaid_styles(graph: Graph, walk: Walk, names: Mapping[str, str]) -> list[str]:
    """Return the lines that colour visited phases and the one where the run stands."""
    status = status_of(walk)
    passed = [names[phase] for phase in graph.phases if phase in graph.visited and phase != walk.state]
    lines = []
    for name in ("visited", status):
        fill, rim, text = _COLOURS[name]
        lines.append(f"    classDef {name} fill:{fill},stroke:{rim},color:{text},stroke-width:2px")
    if passed:
        lines.append(f"    class {','.join(passed)} visited")
    return [*lines, f"    class {names[walk.state]} {status}"]


def _mermaid_names(phases: Sequence[str]) -> dict[str, str]:
    """
    Return an identifier for each phase: the seven keep their names, others get numbers.

    Mermaid stumbles over many harmless words: ``end``, ``note``, ``root``, ``accTitle``, ``constructor``.
    """
    return {phase: phase if phase in PHASES else f"s{number}" for number, phase in enumerate(phases)}


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
    " start" [shape=circle, width=0.16, fixedsize=true, fillcolor="#667085", label=""]"""
_DOT_ASIDE = ["tailport=se"]  # else the ways to Failed run through the labels of the loops
_DOT_WALKED = 'color="#3b5bdb", fontcolor="#2b3f94", penwidth=2.4'
_DOT_FADED = 'color="#c5cad3", fontcolor="#98a2b3"'


def _dot(graph: Graph) -> str:
    """Return a Graphviz digraph."""
    walk = graph.walk
    lines = ["digraph paor {", _DOT_HEAD]
    if walk:
        lines.append(f"    label={_quoted(caption(walk))}")
    for phase in graph.phases:
        style = ["peripheries=2"] if phase in graph.final else []
        if walk and phase in graph.visited:
            fill, rim, text = _COLOURS[status_of(walk) if phase == walk.state else "visited"]
            style.append(f'fillcolor="{fill}", color="{rim}", fontcolor="{text}"')
        lines.append(f"    {_quoted(phase)} [{', '.join(style)}]")
    lines += [f'    " start" -> {_quoted(graph.initial)}'] if graph.phases else []
    for edge in graph.edges:
        style = [f"label={_quoted(*_texts(edge, walk), pad='  ')}"] + _DOT_ASIDE * (edge.dest == FAILED)
        if walk:
            style.append(_DOT_WALKED if edge.walked else _DOT_FADED)
        lines.append(f"    {_quoted(edge.source)} -> {_quoted(edge.dest)} [{', '.join(style)}]")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(*lines: str, pad: str = "") -> str:
    """Return *lines* as one quoted DOT string; Graphviz also decodes HTML entities."""
    safe = (plain(line).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(f"{pad}{line}{pad}" for line in safe) + '"'
