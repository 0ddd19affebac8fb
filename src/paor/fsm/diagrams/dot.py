"""The DOT form, for Graphviz; every text of somebody's is in a quoted string."""

from __future__ import annotations

from ...states.run.phase_names import FAILED
from .captions import caption, legend_of, own_title
from .graph import Graph, Look, plain
from .mermaid import COLOURS

_HEAD = """\
    graph [rankdir=TB, fontname="Helvetica", fontsize=14, nodesep=0.6, ranksep=0.7, labelloc=t, pad=0.3]
    node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=13, margin="0.2,0.1"]
    node [color="#667085", fillcolor="#f2f4f7", fontcolor="#1f2430"]
    edge [fontname="Helvetica", fontsize=10, color="#667085", fontcolor="#1f2430", arrowsize=0.8]
    " start" [shape=circle, width=0.16, fixedsize=true, fillcolor="#667085", label=""]"""
_ASIDE = ["tailport=se"]  # else the ways to Failed run through the labels of the loops
_LOOKS: dict[Look, list[str]] = {
    "": [],
    "walked": ['color="#3b5bdb", fontcolor="#2b3f94", penwidth=2.4'],
    "faded": ['color="#c5cad3", fontcolor="#667085"'],
    "never": ['color="#98a2b3", fontcolor="#667085", style=dashed'],
    "both": ['color="#344054", fontcolor="#1f2430", penwidth=2.4'],
    "left": ['color="#c2410c", fontcolor="#9a3412", penwidth=2.4'],
    "right": ['color="#7048e8", fontcolor="#5f3dc4", penwidth=2.4, style=dashed'],
}

_OWN = ['color="#0b6e66", fontcolor="#0b6e66", penwidth=1.6']


def dot(graph: Graph) -> str:
    """Return a Graphviz digraph."""
    overlay = graph.overlay
    lines = ["digraph paor {", _HEAD]
    if overlay:
        lines.append(f"    label={_dot_string(caption(overlay))}")
    elif graph.has_own:
        lines.append(f"    label={_dot_string(own_title(graph))}")
    for phase in graph.phases:
        style = ["peripheries=2"] if phase in graph.final else []
        look = graph.look_of(phase) or ("own" if phase in graph.own else "")
        if look:
            fill, rim, text = COLOURS[look]
            style.append(f'fillcolor="{fill}", color="{rim}", fontcolor="{text}"')
        lines.append(f"    {_dot_string(phase)} [{', '.join(style)}]")
    lines += [f'    " start" -> {_dot_string(graph.initial)}'] if graph.phases else []
    for edge in graph.edges:
        texts = [label.walked_text if overlay else label.text for label in edge.labels]
        style = [f"label={_dot_string(*texts, pad='  ')}"]
        style += _ASIDE * (edge.dest == FAILED) + (_OWN if edge.own and not edge.look else _LOOKS[edge.look])
        lines.append(f"    {_dot_string(edge.source)} -> {_dot_string(edge.dest)} [{', '.join(style)}]")
    lines += _legend(graph)
    return "\n".join([*lines, "}"]) + "\n"


def _legend(graph: Graph) -> list[str]:
    """Return a box that lists what was never seen, or says what made two runs part."""
    texts = legend_of(graph.overlay)
    if not texts:
        return []
    label = _dot_string(*texts, end="\\l")
    ends = [_dot_string(phase) for phase in graph.phases if phase in graph.final]
    box = f'    " legend" [shape=note, style="", fontsize=10, color="#667085", label={label}]'
    return [box, *(f'    {end} -> " legend" [style=invis]' for end in ends)]


def _dot_string(*lines: str, pad: str = "", end: str = "") -> str:
    """Return *lines* as one quoted DOT string; Graphviz also decodes HTML entities."""
    safe = (plain(line).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + (end or "\\n").join(f"{pad}{line}{pad}" for line in safe) + end + '"'
