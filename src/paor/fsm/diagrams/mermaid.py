"""
The Mermaid form, a ``stateDiagram-v2``, and the DOT form, with everything escaped that could mean something to their grammars.

In the Mermaid form an edge shows its triggers alone, so that it can be read where a page is narrow; guards are comments beside it.
State diagrams have no statement that colours an edge, but a style sheet of one's own reaches each of them by its number.
Where it is not read (by another renderer, or by Mermaid before version 11) the labels say the same in words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...states.run.phase_names import PHASES
from .captions import gate_words, heading, legend_of
from .graph import Graph, Look, plain

COLOURS = {
    "seen": ("#dbe4ff", "#3b5bdb", "#1b2a5e"),
    "unseen": ("#f2f4f7", "#c5cad3", "#667085"),
    "running": ("#3b5bdb", "#3b5bdb", "#ffffff"),
    "waiting": ("#f5a524", "#b35c00", "#2b1a00"),
    "done": ("#27803a", "#27803a", "#ffffff"),
    "failed": ("#c92a2a", "#c92a2a", "#ffffff"),
    "own": ("#d5efeb", "#0b6e66", "#08413c"),
}
"""Fill, rim and text of a phase by its look; every pair is legible on a light and on a dark page."""

EDGES: dict[Look, tuple[str, int, str]] = {
    "walked": ("#4c6ef5", 3, ""),
    "both": ("#667085", 3, ""),
    "left": ("#e8590c", 3, ""),
    "right": ("#845ef7", 3, "8 4"),
    "faded": ("#98a2b3", 1, ""),
    "never": ("#98a2b3", 1, "4 4"),
    "own": ("#12988d", 2, ""),
}
"""Colour, width and dashes of an edge by its look; legible on a light and on a dark page."""

LEGEND_LINES = 200
"""Lines of the legend: Mermaid refuses a text that is too long."""
_ROOM = '    %%{init: {"state": {"nodeSpacing": SPACE, "rankSpacing": 50}, "flowchart": {"wrappingWidth": 600}}}%%'
"""
Pixels between phases side by side and between ranks, and of a line of the legend before it is wrapped.

A directive and no front matter, so that the text begins with the diagram's kind.
Source: rendered with Mermaid 11.17 in a browser; with less room the labels of loops lie on those of other edges.
"""
_SAFE = re.compile(r"[^\w ,.()\[\]|×-]")


def mermaid(graph: Graph) -> str:
    """Return a ``stateDiagram-v2``."""
    overlay, names = graph.overlay, _names(graph.phases)
    title = _title(graph)
    lines = ["---", f'title: "{_description(title)}"', *_edge_styles(graph), "---"] if title else []
    lines += ["stateDiagram-v2", _ROOM.replace("SPACE", "120" if overlay else "60")]
    for phase, name in names.items():
        if phase != name:
            gate = gate_words(graph, phase)
            lines.append(f'    state "{_description(f"{phase} ({gate})" if gate else phase)}" as {name}')
    lines += [f"    [*] --> {names[graph.initial]}"] if names else []
    for edge in graph.edges:
        texts = [label.walked_text if overlay else label.trigger for label in edge.labels]
        lines.append(f"    {names[edge.source]} --> {names[edge.dest]} : {'<br/>'.join(map(_text, texts))}")
        guarded = [] if overlay else [label.text for label in edge.labels if label.text != label.trigger]
        lines += [f"    %% {_text(text)}" for text in guarded]
    lines += [f"    {names[phase]} --> [*]" for phase in graph.phases if phase in graph.final]
    looks = {phase: graph.look_of(phase) or ("own" if phase in graph.own else "") for phase in graph.phases}
    for look, (fill, rim, text) in COLOURS.items():
        if of_look := [names[phase] for phase in graph.phases if looks[phase] == look]:
            lines.append(f"    classDef {look} fill:{fill},stroke:{rim},color:{text},stroke-width:2px")
            lines.append(f"    class {','.join(of_look)} {look}")
    told = legend_of(overlay)
    if (
        told and names
    ):  # at the first final phase, so below the whole; no line begins with a text of somebody's
        place = next((phase for phase in graph.phases if phase in graph.final), graph.phases[-1])
        told = (
            [*told[:LEGEND_LINES], f"and {len(told) - LEGEND_LINES} more"]
            if len(told) > LEGEND_LINES
            else told
        )
        note = "<br/>".join(map(_description, told))
        lines += [f"    note right of {names[place]}", f"        {note}", "    end note"]
    return "\n".join(lines) + "\n"


def _title(graph: Graph) -> str:
    """Return a picture's title; none for the standard machine alone."""
    if graph.overlay is not None:
        return heading(graph).line
    return heading(graph).sub.partition("; ")[2] if graph.has_own else ""


def _edge_styles(graph: Graph) -> list[str]:
    """Return the style sheet that colours the edges; Mermaid counts the arrows from 0, and that of the start is the first."""
    lines = []
    for look, (colour, width, dashes) in EDGES.items():
        edges = [
            f"path[data-id=edge{number}]" for number, edge in enumerate(graph.edges, 1) if edge.look == look
        ]
        if edges:
            dashed = f"; stroke-dasharray:{dashes}" if dashes else ""
            lines.append(f"    {', '.join(edges)} {{stroke:{colour}; stroke-width:{width}px{dashed}}}")
    return ["config:", "  themeCSS: |", *lines] if lines else []


def _names(phases: Sequence[str]) -> dict[str, str]:
    """Return an identifier for each phase: Mermaid stumbles over harmless words (``end``, ``note``, ``constructor``)."""
    return {phase: phase if phase in PHASES else f"s{number}" for number, phase in enumerate(phases)}


def _text(text: str) -> str:
    """Return *text* for a label: what could mean something to Mermaid's grammar becomes a character code."""
    return _SAFE.sub(lambda found: f"#{ord(found[0])};", plain(text)).replace("#35;", "#") or "-"


def _description(text: str) -> str:
    """Return *text* for a title, a quoted name or a note, where codes are not read: with marks that look alike, or question marks."""
    alike = plain(text).translate(str.maketrans('<>&"#;{}`\\', "‹›＆'＃，（）'/"))
    return re.sub(r"[^\w ,.()\[\]|×·:?!'/+=%‹›＆＃，（）…→≠-]", "?", alike) or "-"


_HEAD = """\
    graph [rankdir=TB, fontname="Helvetica", fontsize=14, nodesep=0.6, ranksep=0.7, labelloc=t, pad=0.3]
    node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=13, margin="0.2,0.1"]
    node [color="#667085", fillcolor="#f2f4f7", fontcolor="#1f2430"]
    edge [fontname="Helvetica", fontsize=10, color="#667085", fontcolor="#1f2430", arrowsize=0.8]
    " start" [shape=circle, width=0.16, fixedsize=true, fillcolor="#667085", label=""]"""


def dot(graph: Graph) -> str:
    """Return a Graphviz digraph."""
    overlay, title = graph.overlay, _title(graph)
    lines = ["digraph paor {", _HEAD, *([f"    label={_dot_string(title)}"] if title else [])]
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
        if edge.look:
            colour, width, dashes = EDGES[edge.look]
            style.append(f'color="{colour}", penwidth={width}{", style=dashed" if dashes else ""}')
        lines.append(f"    {_dot_string(edge.source)} -> {_dot_string(edge.dest)} [{', '.join(style)}]")
    if told := legend_of(overlay):
        legend = _dot_string(*told, end="\\l")
        lines.append(f'    " legend" [shape=note, style="", fontsize=10, label={legend}]')
        lines += [f'    {_dot_string(end)} -> " legend" [style=invis]' for end in sorted(graph.final)]
    return "\n".join([*lines, "}"]) + "\n"


def _dot_string(*lines: str, pad: str = "", end: str = "") -> str:
    """Return *lines* as one quoted DOT string; Graphviz also decodes HTML entities."""
    safe = (plain(line).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + (end or "\\n").join(f"{pad}{line}{pad}" for line in safe) + end + '"'
