"""
Which layout a picture has, and the one for any table.

The fixed one (`seven_phases`) is used when all edges have a place in it and nothing clashes, with a host's own phases and
rows above it (`own_phases`). Else the ladder: one column per phase, one line per edge, which has room for any table.
"""

from __future__ import annotations

from ...states.run.phase_names import FAILED
from .geometry import (
    BOLD,
    HEADER,
    LEGEND,
    LINE,
    Kind,
    Layout,
    Mark,
    Rect,
    Route,
    full_width,
    tags_of,
    width_of,
)
from .graph import Edge, Graph, plain
from .own_phases import own_phases
from .seven_phases import DEEP, WIDTH, seven_phases


def layout_of(graph: Graph) -> Layout:
    """Return the fixed layout where it fits, if need be with more room below the boxes; else the ladder."""
    for deep in (0.0, DEEP):
        fixed = own_phases(graph, deep) if graph.has_own else seven_phases(graph, deep)
        if fixed is not None and not fixed.clashes:
            return fixed
    return _ladder(graph)


# -- any other table -----------------------------------------------------------------------------------------------

_GAP = 48.0


def _ladder(graph: Graph) -> Layout:
    """Return one column per phase and one line per edge: as wide as the widest text, as high as it needs."""
    phases, left = graph.phases, 64.0
    box = max([96.0, *(width_of(plain(phase), 15 * BOLD) + 24 for phase in phases)])
    pitch = max(box + _GAP, min(480.0, (WIDTH - left) / max(1, len(phases))))
    boxes = {phase: Rect(left + pitch * place, HEADER + 16, box, 44) for place, phase in enumerate(phases)}
    y, right, routes = HEADER + 78, left + pitch * len(phases) - _GAP, []
    for edge in graph.edges:
        route, y = _draw_rung(edge, boxes, y)
        routes.append(route)
        right = max([right, *(mark.rect.right for mark in route.marks)])
    first = boxes.get(graph.initial)
    start = ((first.x - 32, first.middle[1]), (first.x, first.middle[1])) if first else None
    return Layout(max(WIDTH, right + 24), y + 16 + LEGEND, boxes, start, tuple(routes), y)


def _draw_rung(edge: Edge, boxes: dict[str, Rect], y: float) -> tuple[Route, float]:
    """Return one line of the ladder below *y*, and where it ends."""
    x1, x2 = boxes[edge.source].middle[0], boxes[edge.dest].middle[0]
    widths = [full_width(label) for label in edge.labels]
    stays = edge.source == edge.dest
    left = [x1 + 36 if stays else max(16.0, (x1 + x2) / 2 - width / 2) for width in widths]
    places = enumerate(zip(edge.labels, left, strict=True))
    marks = tuple(Mark(label, x, y + LINE * (n + 0.5), tags_of(label)) for n, (label, x) in places)
    if stays:
        low = y + max(18.0, LINE * len(widths))
        return Route(edge, "loop", ((x1, y), (x1 + 26, y), (x1 + 26, low), (x1, low)), marks), low + 14
    line = y + LINE * len(widths) + 3
    near = list(boxes).index(edge.dest) == list(boxes).index(edge.source) + 1
    kind: Kind = "fail" if edge.dest == FAILED else "back" if x2 < x1 else "flow" if near else "skip"
    return Route(edge, kind, ((x1, line), (x2, line)), marks), line + 14
