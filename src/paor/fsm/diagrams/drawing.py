"""
The parts of the machine's drawing as SVG elements, and the drawing that a page plays: with an id for each part, and no colour.

The page sets classes: on the parts of an edge and on nodes. Edges share pieces of lines, so one that was walked is moved to the
end of its group, where no other one covers it. Into the places for counts, which are empty, the page writes how often a row was
taken, in four characters at most: ``×999``, then ``×1k`` to ``×99k``, then ``×.1M`` to ``×9M``. The layout has room for them, since
it is that of a machine whose rows were all taken often; so it has for labels in bold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import NamedTuple

from .geometry import BETWEEN, BOLD, FONT, LONGEST, NAME, SIGN, Mark, Point, Rect, cut
from .graph import Graph, plain
from .layout import NAME_WIDTH, layout_of

_MOST = 999
"""The widest count of four characters."""
_RADIUS, _HEAD, _WIDE = 8.0, 7.5, 3.6
"""Of round corners, and length and half the width of an arrow's head."""


def safe(text: str) -> str:
    """Return *text* for an element or an attribute."""
    return escape(plain(text))


def px(number: float) -> str:
    """Return a coordinate with at most one decimal."""
    return f"{number:.1f}".removesuffix(".0")


def shape(tag: str, look: str, **sizes: float) -> str:
    """Return an element without content; *sizes* are its attributes."""
    given = "".join(f' {name}="{px(size)}"' for name, size in sizes.items())
    return f'<{tag} class="{look}"{given}/>'


def words(look: str, x: float, y: float, text: str) -> str:
    """Return a text; *y* is its base line."""
    style = f'class="{look}" ' if look else ""
    return f'<text {style}x="{px(x)}" y="{px(y)}">{safe(text)}</text>'


def arrow(points: Sequence[Point], name: str = "", *, backwards: bool = False) -> str:
    """Return a line of horizontal and vertical pieces with round corners and a head at its end; *backwards*: written from there."""
    (x1, y1), (x2, y2) = points[-2:]
    dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
    ends = [*points[:-1], (x2 - dx * (_HEAD - 1), y2 - dy * (_HEAD - 1))]
    back, side = (x2 - dx * _HEAD, y2 - dy * _HEAD), (dy * _WIDE, dx * _WIDE)
    tip = ((x2, y2), (back[0] + side[0], back[1] + side[1]), (back[0] - side[0], back[1] - side[1]))
    head = f'<path class="head" d="M{"L".join(f"{px(x)} {px(y)}" for x, y in tip)}Z"/>'
    known = f'id="{name}-line" ' if name else ""
    return f'<path {known}class="line" d="{_rounded(ends[::-1] if backwards else ends)}"/>{head}'


def _rounded(points: Sequence[Point]) -> str:
    """Return a path along *points* whose inner corners are round."""
    parts = [f"M{px(points[0][0])} {px(points[0][1])}"]
    for before, (x, y), after in zip(points, points[1:], points[2:], strict=False):
        near = []
        for dx, dy in ((a - x, b - y) for a, b in (before, after)):
            share = min(0.5, _RADIUS / (abs(dx) + abs(dy) or 1))
            near.append(f"{px(x + dx * share)} {px(y + dy * share)}")
        parts.append(f"L{near[0]}Q{px(x)} {px(y)} {near[1]}")
    return "".join([*parts, f"L{px(points[-1][0])} {px(points[-1][1])}"])


def node(graph: Graph, phase: str, box: Rect, looks: Sequence[str], name: str = "", below: str = "") -> str:
    """Return one phase, with a second line *below* its name; an end has two rims, the first phase a dot where a run comes in."""
    own, end = phase in graph.own, phase in graph.final
    x, y = box.middle
    known = f'id="{name}" ' if name else ""
    looks = ["node", *(["end"] * end), *(["own"] * own), *(["start"] * (phase == graph.initial)), *looks]
    rims = [("rim", 0.0, 18 if own else 8), *([("inner", 3.0, 5.5)] if end else [])]
    parts = list[str]()
    for rim, by, radius in rims:
        wide, high = box.width - 2 * by, box.height - 2 * by
        parts.append(shape("rect", rim, x=box.x + by, y=box.y + by, width=wide, height=high, rx=radius))
    parts += [shape("circle", "dot", cx=box.x, cy=y, r=3.5)] * (phase == graph.initial)
    size = f'font-size="{NAME:g}" font-weight="600" text-anchor="middle"'
    shown = safe(cut(phase, NAME_WIDTH, NAME * BOLD))
    parts.append(f'<text class="name" x="{px(x)}" y="{px(y + (-2 if below else 4.2))}" {size}>{shown}</text>')
    parts.append(words("below", x, y + 12, cut(below, box.width - 12, SIGN)) if below else "")
    return f'<g {known}class="{" ".join(looks)}">{"".join(parts)}</g>'


def label_text(mark: Mark, look: str, name: str = "") -> str:
    """Return a trigger with its signs; with the ids that begin with *name*, the trigger and the empty place for its count."""
    at = f'x="{px(mark.x)}" y="{px(mark.y)}" text-anchor="{mark.anchor}"'
    shown = safe(cut(mark.label.trigger, LONGEST, FONT * BOLD)) if mark.name else ""
    signs = list[str]()
    for n, sign in enumerate(mark.signs):
        apart = f' dx="{px(BETWEEN)}"' if n or mark.name else ""
        known = f'id="{name}-count" class="count"' if name else f'class="{sign.look}"'
        signs.append(f"<tspan {known}{apart}>{'' if name else sign.text}</tspan>")
    known = f'id="{name}" ' if name and mark.name else ""
    full = safe(mark.label.trigger)
    whole = f"<title>{full}</title>" if name and shown not in ("", full) else ""
    return f'<text {known}class="{look}" {at}>{whole}{shown}{"".join(signs)}</text>'


class Playable(NamedTuple):
    """
    A machine that a page can play.

    Attributes:
        svg: The picture, one SVG element.
        edges: By ``SOURCE|TRIGGER|DEST`` of its rows the ids of four elements: the edge, which several triggers may share, its
            line, along which something can be moved, the trigger's label, and the place for its count.
        nodes: The id of each phase's element.
    """

    svg: str
    edges: dict[str, list[str]]
    nodes: dict[str, str]


def playable(graph: Graph) -> Playable:
    """Return a graph without an overlay as a picture with an id for each of its parts; its names may be any text."""
    often = (tuple(replace(label, count=_MOST, covers=True) for label in edge.labels) for edge in graph.edges)
    edges = tuple(replace(edge, labels=labels) for edge, labels in zip(graph.edges, often, strict=True))
    layout = layout_of(replace(graph, edges=edges))
    names = {edge: f"m-e{number}" for number, edge in enumerate(edges)}
    nodes = {phase: f"m-n{number}" for number, phase in enumerate(graph.phases)}
    lines, labels, ids = list[str](), list[str](), dict[str, list[str]]()
    for route in layout.routes:
        edge, name = route.edge, names[route.edge]
        own = " own" if edge.own and route.kind != "own" else ""
        lines.append(f'<g id="{name}" class="edge {route.kind}{own}">{arrow(route.points, name)}</g>')
        for place, label in enumerate(edge.labels):
            known, look = f"{name}-{place}", "label own" if label.own else "label"
            ids[f"{edge.source}|{label.trigger}|{edge.dest}"] = [
                name,
                f"{name}-line",
                known,
                f"{known}-count",
            ]
            labels += [label_text(mark, look, known) for mark in route.marks if mark.label == label]
    told = f"The machine: {len(nodes)} phases and {len(names)} ways between them; a run begins in {graph.initial}"
    size = f'viewBox="0 0 {px(layout.width)} {px(layout.height)}" font-size="{FONT:g}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="machine" {size} role="img" aria-label="{safe(told)}">',
        *('<g class="edges">', *lines, '</g><g class="labels">', *labels, '</g><g class="nodes">'),
        *(node(graph, phase, layout.boxes[phase], (), name) for phase, name in nodes.items()),
        "</g></svg>",
    ]
    return Playable("\n".join(parts) + "\n", ids, nodes)
