"""
The machine at a compact size, for a page that plays a run on it: every part has an id, and no colour.

The page sets classes: on the parts of an edge and on nodes. Edges share pieces of lines, so one that was walked is moved to the
end of its group, where no other one covers it. Into the places for counts, which are empty, the page writes how often a row was
taken, in four characters at most: ``×999``, then ``×1k`` to ``×99k``, then ``×.1M`` to ``×9M``. The layout has room for them, since
it is that of a machine whose rows were all taken often; so it has for labels in bold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...states.run.phase_names import FAILED
from ..machine.machine import Machine
from .geometry import BETWEEN, Layout, Mark, Rect, Route, Sizes, name_lines
from .graph import Edge, Graph, graph_of
from .layout import layout_of
from .legend import px, safe, shape
from .svg import rounded, with_tip

COMPACT = Sizes(
    compact=True,
    longest=150.0,
    font=11.5,
    name=12.0,
    line=14.5,
    width=670.0,
    header=0.0,
    legend=0.0,
    rim=0.0,
    start=0.0,
    box=(79.0, 34.0),
    pitch=113.0,
    left=22.0,
    room=113.0,
    lane=18.0,
    lanes=24.0,
    short=23.0,
    words=9.5,
    above=26.5,
    below=12.0,
    nudge=0.0,
    loop=19.0,
    list=11.0,
    fall=35.5,
    rail=85.0,
    fallen=9.5,
    beside=6.0,
    deeper=(0.0, 29.0, 58.0, 116.0),
    foot=3.0,
    own=14.0,
    narrowest=79.0,
    gates=(8.0, -7.0),
    track=22.0,
    under=4.0,
    edge=4.0,
    gap=30.0,
    apart=6.0,
    ends=22.0,
    top=6.0,
    coil=19.0,
    aside=14.0,
)
"""At this width a page shows it as it is, next to two other columns."""
_LEADING = 13.0
"""From one line of a name to the next."""
_ABOVE = 12.0
"""Words that lie less than this above their line stand beside it."""
_MOST = 999
"""The widest count of four characters."""


@dataclass(frozen=True, slots=True)
class Playable:
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


def playable(machine: Machine) -> Playable:
    """Return *machine*, derived from its table, as a picture with an id for each of its parts; same machine, same bytes."""
    return playable_graph(graph_of(machine.rows, None, machine.host))


def playable_graph(graph: Graph) -> Playable:
    """Return the same of a graph without an overlay; its names may be any text."""
    graph = _taken_often(graph)
    layout = layout_of(graph, COMPACT)
    names = {edge: f"m-e{number}" for number, edge in enumerate(graph.edges)}
    nodes = {phase: f"m-n{number}" for number, phase in enumerate(graph.phases)}
    size = f'viewBox="0 0 {px(layout.width)} {px(layout.height)}" font-size="{COMPACT.font:g}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="machine" {size} role="img" aria-label="{safe(_told(graph))}">',
        '<g class="edges">',
        *_lifelines(layout),
        *(_edge(route, names[route.edge]) for route in layout.routes),
        '</g><g class="labels">',
        *(_label(route, mark, names[route.edge]) for route in layout.routes for mark in route.marks),
        '</g><g class="nodes">',
        *(_node(graph, layout, phase, name) for phase, name in nodes.items()),
        "</g></svg>",
    ]
    return Playable("\n".join(parts) + "\n", dict(_edge_ids(graph.edges, names)), nodes)


def _taken_often(graph: Graph) -> Graph:
    """Return the graph with a count at each label, so that the layout keeps room for it."""

    def often(edge: Edge) -> Edge:
        return replace(edge, labels=tuple(replace(one, count=_MOST, covers=True) for one in edge.labels))

    return replace(graph, edges=tuple(often(edge) for edge in graph.edges))


def _edge_ids(edges: Sequence[Edge], names: dict[Edge, str]) -> Iterator[tuple[str, list[str]]]:
    for edge in edges:
        name = names[edge]
        for place, label in enumerate(edge.labels):
            ids = [name, f"{name}-line", f"{name}-{place}", f"{name}-{place}-count"]
            yield f"{edge.source}|{label.trigger}|{edge.dest}", ids


def _told(graph: Graph) -> str:
    """Return what the picture shows, on one line."""
    ways = len(graph.edges)
    return f"The machine: {len(graph.phases)} phases and {ways} ways between them; a run begins in {graph.initial}"


# -- parts ---------------------------------------------------------------------------------------------------------


def _lifelines(layout: Layout) -> Iterator[str]:
    """Yield the columns of a ladder."""
    if layout.columns is not None:
        for box in layout.boxes.values():
            yield f'<path class="life" d="M{px(box.middle[0])} {px(box.low)}V{px(layout.columns)}"/>'


def _edge(route: Route, name: str) -> str:
    """Return the line of an edge with its head."""
    look = f"edge {route.kind}{' own' if route.edge.own and route.kind != 'own' else ''}"
    ends, tip = with_tip(route.points, 7.5, 3.6)
    line = f'<path id="{name}-line" class="line" d="{rounded(ends, 8)}"/>'
    return f'<g id="{name}" class="{look}">{line}<path class="head" d="{tip}"/></g>'


def _label(route: Route, mark: Mark, name: str) -> str:
    """Return a trigger and the place for its count; where the layout has them apart, the one that *mark* is of."""
    place = route.edge.labels.index(mark.label)
    own, x, anchor = " own" if mark.label.own else "", *_anchored(route, mark.rect)
    at = f'x="{px(x)}" y="{px(mark.y + 4)}" text-anchor="{anchor}"'
    count = f'id="{name}-{place}-count" class="count"'
    if not mark.name:
        return f"<text {count} {at}></text>"
    beside = f'<tspan {count} dx="{px(BETWEEN - 1)}"></tspan>' if mark.tags else ""
    whole = f"<title>{safe(mark.label.trigger)}</title>" if mark.text != mark.label.trigger else ""
    return f'<text id="{name}-{place}" class="label{own}" {at}>{whole}{safe(mark.text)}{beside}</text>'


def _anchored(route: Route, room: Rect) -> tuple[float, str]:
    """Return where a text is fixed in its room and by which end: at its line, for the room may be wider than the text."""
    ends = [x for x, _ in route.points]
    rung = len(route.points) == 2 and route.points[0][1] == route.points[1][1] and route.kind != "own"
    if rung:
        return room.middle[0], "middle"
    if route.edge.dest == FAILED or (route.kind in ("own", "loop") and room.x > max(ends) - _ABOVE):
        return room.x, "start"
    if route.kind == "own" and room.right < min(ends) + _ABOVE:
        return room.right, "end"
    return room.middle[0], "middle"


def _node(graph: Graph, layout: Layout, phase: str, name: str) -> str:
    """Return one phase; an end has two rims, the first phase a dot where a run comes in."""
    box, final = layout.boxes[phase], phase in graph.final
    own, start = phase in graph.own, phase == graph.initial
    looks = ["node", *(["end"] * final), *(["own"] * own), *(["start"] * start)]
    rim = _rect("rim", box, 0, box.height / 2 if own else 8)
    inner = _rect("inner", box, 3, 5.5) if final else ""
    dot = shape("circle", "dot", cx=box.x, cy=box.middle[1], r=3.5) if start else ""
    lines = name_lines(phase, COMPACT) if own else (phase,)
    first = box.middle[1] + 4.2 - _LEADING * (len(lines) - 1) / 2
    text = "".join(_name(line, box.middle[0], first + _LEADING * n) for n, line in enumerate(lines))
    return f'<g id="{name}" class="{" ".join(looks)}">{rim}{inner}{dot}{text}</g>'


def _name(text: str, x: float, y: float) -> str:
    """Return one line of a phase's name."""
    size = f'font-size="{COMPACT.name:g}" font-weight="600" text-anchor="middle"'
    return f'<text class="name" x="{px(x)}" y="{px(y)}" {size}>{safe(text)}</text>'


def _rect(look: str, box: Rect, inset: float, radius: float) -> str:
    wide, high = box.width - 2 * inset, box.height - 2 * inset
    return shape("rect", look, x=box.x + inset, y=box.y + inset, width=wide, height=high, rx=radius)
