"""
The Mermaid form: a ``stateDiagram-v2``; everything that could mean something to its grammar is a character code.

State diagrams have no statement that colours an edge, but a style sheet of one's own reaches each of them by its number.
Where it is not read (by another renderer, or by Mermaid before version 11) the labels say the same in words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from ...states.run.phase_names import FAILED, PHASES
from .captions import caption, legend_of, missing_by_phase, own_title
from .graph import Covered, Graph, Look, plain

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

EDGES: dict[Look | Literal["own"], tuple[str, str]] = {
    "walked": ("path", "stroke:#4c6ef5; stroke-width:3px"),
    "both": ("path", "stroke-width:3px"),
    "left": ("path", "stroke:#e8590c; stroke-width:3px"),
    "right": ("path", "stroke:#845ef7; stroke-width:3px; stroke-dasharray:8 4"),
    "faded": ("", "opacity:0.65"),
    "never": ("", "opacity:0.75; stroke-dasharray:4 4"),
    "own": ("path", "stroke:#12988d; stroke-width:2px"),
}
"""Elements of an edge (its line, or label and all) and their style by its look; legible on a light and on a dark page."""

LEGEND_LINES = 24
LEGEND_BLOCKS = 12
"""Lines of one paragraph of the legend and number of them; Mermaid refuses texts that are too long."""

_SPACE = '    %%{{init: {{"state": {{"nodeSpacing": {}, "rankSpacing": {}}}{}}}}}%%'
"""A directive and no front matter, so that the text begins with the diagram's kind."""
_WRAP = ', "flowchart": {"wrappingWidth": 600}'
"""Pixels of a line of the legend before it is wrapped: Mermaid's 200 make a column of it."""
_ROOM_WALKED = (170, 110)
_ROOM_GUARDS = (210, 180)
"""
Pixels between phases side by side and between ranks, with what runs did on the edges and with guards, which are longer.

Source: rendered with Mermaid 11.17 in a browser; with less room the labels of loops lie on those of other edges.
"""
_SAFE = re.compile(r"[^\w ,.()\[\]|×-]")


def mermaid(graph: Graph) -> str:
    """Return a ``stateDiagram-v2``."""
    overlay, names = graph.overlay, _names(graph.phases)
    title = caption(overlay) if overlay else own_title(graph) if graph.has_own else ""
    lines = ["---", f"title: {_yaml(title)}", *_edge_styles(graph), "---"] if title else []
    room = _SPACE.format(*_ROOM_WALKED, _WRAP) if overlay else _SPACE.format(*_ROOM_GUARDS, "")
    lines += ["stateDiagram-v2", room]
    for phase, name in names.items():
        if phase != name:
            lines.append(f'    state "{_description(phase)}" as {name}')
    lines += [f"    [*] --> {names[graph.initial]}"] if names else []
    for edge in graph.edges:
        texts = [label.walked_text if overlay else label.text for label in edge.labels]
        label = "<br/>".join(map(_text, texts))
        lines.append(f"    {names[edge.source]} --> {names[edge.dest]} : {label}")
    lines += [f"    {names[phase]} --> [*]" for phase in graph.phases if phase in graph.final]
    lines += _styles(graph, names)
    lines += _legend(graph, names) if overlay else []
    return "\n".join(lines) + "\n"


def _styles(graph: Graph, names: Mapping[str, str]) -> list[str]:
    """Return the lines that colour the phases by how the overlay left them, without one the host's own."""
    looks = {phase: graph.look_of(phase) or ("own" if phase in graph.own else "") for phase in graph.phases}
    lines, classes = [], []
    for look, (fill, rim, text) in COLOURS.items():
        of_look = [names[phase] for phase in graph.phases if looks[phase] == look]
        if of_look:
            lines.append(f"    classDef {look} fill:{fill},stroke:{rim},color:{text},stroke-width:2px")
            classes.append(f"    class {','.join(of_look)} {look}")
    return lines + classes


def _edge_styles(graph: Graph) -> list[str]:
    """
    Return the style sheet that colours the edges by how the overlay left them, else the host's own, as lines of the front matter.

    Mermaid counts the arrows from 0 in the order in which they are written; that of the start is the first.
    """
    lines = []
    for look, (element, style) in EDGES.items():
        numbers = [
            number
            for number, edge in enumerate(graph.edges, 1)
            if (edge.look or ("own" if edge.own else "")) == look
        ]
        if numbers:
            which = ", ".join(f"{element}[data-id=edge{number}]" for number in numbers)
            lines.append(f"    {which} {{{style}}}")
    return ["config:", "  themeCSS: |", *lines] if lines else []


def _legend(graph: Graph, names: Mapping[str, str]) -> list[str]:
    """
    Return the legend, for a coverage one paragraph a phase: a note at the first final phase, so below the whole.

    No line of it begins with a text of somebody's, which might end the note or be taken for a comment.
    """
    overlay, blocks = graph.overlay, list[list[str]]()
    if isinstance(overlay, Covered):
        missing = missing_by_phase(overlay.coverage)
        blocks = [[f"never seen in {phase}", *told] for phase, told in missing.items()]
    blocks = blocks or [legend_of(overlay)]
    lines = list[str]()
    for told in filter(None, blocks[:LEGEND_BLOCKS]):
        if len(told) > LEGEND_LINES:
            told = [*told[: LEGEND_LINES - 1], f"and {len(told) - LEGEND_LINES + 1} more"]
        lines.append("        " + "<br/>" * bool(lines) + "<br/>".join(map(_description, told)))
    if not lines or not names:
        return []
    place = next((phase for phase in graph.phases if phase in graph.final), graph.phases[-1])
    return [f"    note right of {names[place]}", *lines, "    end note"]


def _names(phases: Sequence[str]) -> dict[str, str]:
    """
    Return an identifier for each phase: the seven keep their names, others get numbers.

    Mermaid stumbles over many harmless words: ``end``, ``note``, ``root``, ``accTitle``, ``constructor``.
    """
    return {phase: phase if phase in PHASES else f"s{number}" for number, phase in enumerate(phases)}


def _text(text: str) -> str:
    """Return *text* for a label: what could mean something to Mermaid's grammar becomes a character code."""
    return _SAFE.sub(lambda found: f"#{ord(found[0])};", plain(text)).replace("#35;", "#") or "-"


def _description(text: str) -> str:
    """
    Return *text* for a quoted description, in which Mermaid does not read character codes back.

    What could mean something there becomes a mark that looks alike, or a question mark.
    """
    alike = plain(text).translate(str.maketrans('<>&"#;{}`\\', "‹›＆'＃，（）'/"))
    return re.sub(r"[^\w ,.()\[\]|×:?!'/+=%‹›＆＃，（）…→≠-]", "?", alike) or "-"


def _yaml(text: str) -> str:
    """
    Return *text* as a double-quoted YAML scalar in which only letters, digits and a few marks stand plain.

    Mermaid drops or doubly escapes what looks like HTML in a title, so those three marks become others that look alike.
    """
    text = text.translate(str.maketrans("<>&", "‹›＆"))
    return '"' + re.sub(r"[^\w .,():×?!'/‹›＆-]", lambda found: f"\\U{ord(found[0]):08x}", text) + '"'


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
    lines += _legend_nodes(graph)
    return "\n".join([*lines, "}"]) + "\n"


def _legend_nodes(graph: Graph) -> list[str]:
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
