"""
The fixed layout: made by hand for the seven phases.

The main flow from left to right, ways back and shortcuts above it, loops below, every way to Failed on one rail.
"""

from __future__ import annotations

from itertools import pairwise

from ...states.run.phase_names import (
    DONE,
    EXECUTING,
    FAILED,
    OBSERVING,
    PHASES,
    PLANNING,
    REVIEWING,
    SPECIFYING,
)
from .geometry import (
    BADGE,
    BETWEEN,
    HEADER,
    LINE,
    Kind,
    Layout,
    Mark,
    Rect,
    Route,
    Tag,
    full_width,
    mark_width,
    tags_of,
)
from .graph import Edge, Graph, Label

WIDTH, _HEIGHT = 1100.0, 510.0
BOX = (106.0, 50.0)
_PITCH, _LEFT = 177.0, 81.0
TOP = HEADER + 150
_MIDDLE, _BOTTOM = TOP + BOX[1] / 2, TOP + BOX[1]
_RAIL = _BOTTOM + 138
DEEP = 3 * LINE
"""More room above the rail, for loops whose tags stand below their triggers."""
_BESIDE = 20.0
"""Between two labels in one line."""
_FLOW = (PLANNING, SPECIFYING, EXECUTING, OBSERVING, REVIEWING, DONE)
_LANES: dict[tuple[str, str], tuple[int, float, float]] = {
    (REVIEWING, PLANNING): (0, 32, -26),
    (PLANNING, REVIEWING): (1, 26, 0),
    (REVIEWING, SPECIFYING): (2, -32, -26),
    (SPECIFYING, OBSERVING): (3, 26, 0),
}
"""Lane from the outermost, and where it leaves and enters, from each box's middle. Nested, so no two cross."""
_BETWEEN_LANES = 40.0
"""From the middle of Specifying and of Planning to the way back between them; it has the room beside their lanes."""


def seven_phases(graph: Graph, deep: float) -> Layout | None:
    """Return the layout for the seven phases, or None where an edge has no place in it."""
    if set(graph.phases) != set(PHASES):
        return None
    boxes = {name: Rect(_LEFT + _PITCH * place, TOP, *BOX) for place, name in enumerate(_FLOW)}
    boxes[FAILED] = Rect(boxes[DONE].x, _RAIL + deep - BOX[1] / 2, *BOX)
    routes = [_fixed_route(edge, boxes, deep) for edge in graph.edges]
    if graph.initial != PLANNING or None in routes:
        return None
    start = ((boxes[PLANNING].x - 40, _MIDDLE), (boxes[PLANNING].x, _MIDDLE))
    found = tuple(route for route in routes if route is not None)
    return Layout(WIDTH, _HEIGHT + deep, boxes, start, found)


def _fixed_route(edge: Edge, boxes: dict[str, Rect], deep: float) -> Route | None:
    """Return the place of one edge, if there is one for it."""
    ends = (edge.source, edge.dest)
    if edge.source in (DONE, FAILED):
        return None
    if edge.dest == edge.source:
        return _loop(edge, boxes[edge.source].middle[0], stacked=deep > 0)
    if edge.dest == FAILED:
        return _fall(edge, boxes[edge.source].middle[0], boxes[FAILED].x, _RAIL + deep)
    if ends in _LANES:
        return _lane(edge, boxes)
    if ends == (SPECIFYING, PLANNING):
        return _short_lane(edge, boxes)
    if ends in pairwise(_FLOW):
        return _straight(edge, boxes[edge.source], boxes[edge.dest])
    return None


def _straight(edge: Edge, source: Rect, dest: Rect) -> Route:
    """Return a step of the main flow: names above the line, counts below it."""
    left, right, lines = source.right, dest.x, len(edge.labels)
    middle, low = (left + right) / 2, _MIDDLE + 14
    marks = []
    for line, label in enumerate(edge.labels):
        above = _MIDDLE - 12 - LINE * (lines - 1 - line)
        marks.append(Mark(label, middle - mark_width(label, (), name=True) / 2 - 3, above))
        tags = tags_of(label)
        for group in [tags] if label.sides is None else [(tag,) for tag in tags]:
            if group:
                x = middle - mark_width(label, group, name=False) / 2
                marks.append(Mark(label, x, low, group, name=False))
                low += LINE
    return Route(edge, "flow", ((left, _MIDDLE), (right, _MIDDLE)), tuple(marks))


def _lane(edge: Edge, boxes: dict[str, Rect]) -> Route:
    """Return a way in a lane above the main flow, with its marks on it in one line."""
    lane, leaves, enters = _LANES[edge.source, edge.dest]
    x1, x2 = boxes[edge.source].middle[0] + leaves, boxes[edge.dest].middle[0] + enters
    y = HEADER + 24 + 34 * lane
    widths = [full_width(label) for label in edge.labels]
    x = boxes[EXECUTING].middle[0] - (sum(widths) + _BESIDE * (len(widths) - 1)) / 2
    marks, dots = [], []
    for label, width in zip(edge.labels, widths, strict=True):
        marks.append(Mark(label, x, y - 12, tags_of(label)))
        dots += [] if edge.walked else [(x + width + _BESIDE / 2, y - 12)]
        x += width + _BESIDE
    kind: Kind = "back" if edge.source == REVIEWING else "skip"
    return Route(edge, kind, ((x1, TOP), (x1, y), (x2, y), (x2, TOP)), tuple(marks), tuple(dots[:-1]))


def _short_lane(edge: Edge, boxes: dict[str, Rect]) -> Route:
    """Return the way back from Specifying to Planning, with its names and their signs in lines above it."""
    x1 = boxes[SPECIFYING].middle[0] - _BETWEEN_LANES
    x2 = boxes[PLANNING].middle[0] + _BETWEEN_LANES
    y = TOP - 24
    lines: list[tuple[Label, tuple[Tag, ...], bool]] = []
    for label in edge.labels:
        lines.append((label, (), True))
        lines += [(label, tags, False)] if (tags := tags_of(label)) else []
    marks = [
        Mark(
            label,
            (x1 + x2 - mark_width(label, tags, name=name)) / 2,
            y - 12 - LINE * (len(lines) - 1 - line),
            tags,
            name,
        )
        for line, (label, tags, name) in enumerate(lines)
    ]
    return Route(edge, "back", ((x1, TOP), (x1, y), (x2, y), (x2, TOP)), tuple(marks))


def _loop(edge: Edge, middle: float, *, stacked: bool) -> Route:
    """Return a loop below a box, with its marks as a list below it; *stacked*: the tags below their triggers."""
    left, right, low = middle - 40, middle - 2, _BOTTOM + 26
    groups: list[tuple[Label, tuple[Tag, ...], bool]] = []
    for label in edge.labels:
        tags = tags_of(label)
        if stacked and len(tags) > 1:
            groups += [(label, (), True), (label, tags, False)]
        else:
            groups.append((label, tags, True))
    widths = [mark_width(label, tags, name=name) for label, tags, name in groups]
    placed = any(label.first for label in edge.labels) and not stacked
    indents = [BADGE + BETWEEN if placed and not label.first else 0 for label, _, _ in groups]
    widest = max(map(sum, zip(widths, indents, strict=True)))
    centre = min((left + right) / 2, middle + 38 - widest / 2)
    marks = []
    for line, (label, tags, name) in enumerate(groups):
        x = centre - (widest if edge.walked else widths[line]) / 2 + indents[line]
        marks.append(Mark(label, x, low + 14 + LINE * line, tags, name))
    return Route(edge, "loop", ((left, _BOTTOM), (left, low), (right, low), (right, _BOTTOM)), tuple(marks))


def _fall(edge: Edge, middle: float, right: float, rail: float) -> Route:
    """Return a way down to the rail that leads to Failed, with its marks to the right of it."""
    x, y = middle + 43, rail - 42 - LINE * (len(edge.labels) - 1)
    marks = [Mark(label, x + 8, y + LINE * n, tags_of(label)) for n, label in enumerate(edge.labels)]
    return Route(edge, "fail", ((x, _BOTTOM), (x, rail), (right, rail)), tuple(marks))
