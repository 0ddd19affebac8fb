"""
The fixed layout: made by hand for the seven phases.

The main flow from left to right, ways back and shortcuts above it, loops below, every way to Failed on one rail.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf

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
    FULL,
    Kind,
    Layout,
    Mark,
    Rect,
    Route,
    Sizes,
    Tag,
    entries,
    full_width,
    mark_width,
    tags_of,
)
from .graph import Edge, Graph, Label

_LIST_ENDS = 7.0
"""Between a list and the one beside it, where room is scarce."""
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


def seven_phases(graph: Graph, deep: float, sizes: Sizes = FULL) -> Layout | None:
    """Return the layout for the seven phases, or None where an edge has no place in it."""
    if set(graph.phases) != set(PHASES):
        return None
    top, (wide, high) = sizes.header + sizes.room, sizes.box
    boxes = {
        name: Rect(sizes.left + sizes.pitch * place, top, wide, high) for place, name in enumerate(_FLOW)
    }
    rail = top + high + sizes.rail + deep
    boxes[FAILED] = Rect(boxes[DONE].x, rail - high / 2, wide, high)
    routes = [_fixed_route(edge, boxes, deep, sizes) for edge in graph.edges]
    if graph.initial != PLANNING or None in routes:
        return None
    x, y = boxes[PLANNING].x, boxes[PLANNING].middle[1]
    found = tuple(route for route in routes if route is not None)
    low = boxes[FAILED].low + sizes.foot + sizes.legend
    return Layout(sizes.width, low, boxes, ((x - sizes.start, y), (x, y)), found, sizes=sizes)


def _fixed_route(edge: Edge, boxes: dict[str, Rect], deep: float, sizes: Sizes) -> Route | None:
    """Return the place of one edge, if there is one for it."""
    ends = (edge.source, edge.dest)
    if edge.source in (DONE, FAILED):
        return None
    if edge.dest == edge.source:
        return _loop(edge, boxes[edge.source], sizes, stacked=deep > 0)
    if edge.dest == FAILED:
        return _fall(edge, boxes[edge.source], boxes[FAILED], sizes)
    if ends in _LANES:
        return _lane(edge, boxes, sizes)
    if ends == (SPECIFYING, PLANNING):
        return _short_lane(edge, boxes, sizes)
    if ends in pairwise(_FLOW):
        return _straight(edge, boxes[edge.source], boxes[edge.dest], sizes)
    return None


def _straight(edge: Edge, source: Rect, dest: Rect, sizes: Sizes) -> Route:
    """Return a step of the main flow: names above the line, counts below it."""
    left, right, lines = source.right, dest.x, len(edge.labels)
    middle, y = (left + right) / 2, source.middle[1]
    low, marks = y + sizes.below, []
    for line, label in enumerate(edge.labels):
        above = y - sizes.above - sizes.line * (lines - 1 - line)
        x = middle - mark_width(label, (), sizes, name=True) / 2 - sizes.nudge
        marks.append(Mark(label, x, above, sizes=sizes))
        tags = tags_of(label)
        for group in [tags] if label.sides is None else [(tag,) for tag in tags]:
            if group:
                x = middle - mark_width(label, group, sizes, name=False) / 2
                marks.append(Mark(label, x, low, group, name=False, sizes=sizes))
                low += sizes.line
    return Route(edge, "flow", ((left, y), (right, y)), tuple(marks))


def _lane(edge: Edge, boxes: dict[str, Rect], sizes: Sizes) -> Route:
    """Return a way in a lane above the main flow, with its marks on it in one line."""
    lane, leaves, enters = _LANES[edge.source, edge.dest]
    x1 = boxes[edge.source].middle[0] + sizes.port(leaves)
    x2 = boxes[edge.dest].middle[0] + sizes.port(enters)
    top, y = boxes[edge.source].y, sizes.header + sizes.lane + sizes.lanes * lane
    widths = [full_width(label, sizes) for label in edge.labels]
    x = boxes[EXECUTING].middle[0] - (sum(widths) + _BESIDE * (len(widths) - 1)) / 2
    marks, dots = [], []
    for label, width in zip(edge.labels, widths, strict=True):
        marks.append(Mark(label, x, y - sizes.words, tags_of(label), sizes=sizes))
        dots += [] if edge.walked else [(x + width + _BESIDE / 2, y - sizes.words)]
        x += width + _BESIDE
    kind: Kind = "back" if edge.source == REVIEWING else "skip"
    return Route(edge, kind, ((x1, top), (x1, y), (x2, y), (x2, top)), tuple(marks), tuple(dots[:-1]))


def _short_lane(edge: Edge, boxes: dict[str, Rect], sizes: Sizes) -> Route:
    """Return the way back from Specifying to Planning, with its names and their signs in lines above it."""
    x1 = boxes[SPECIFYING].middle[0] - sizes.port(_BETWEEN_LANES)
    x2 = boxes[PLANNING].middle[0] + sizes.port(_BETWEEN_LANES)
    top = boxes[SPECIFYING].y
    y = top - sizes.short
    lines: list[tuple[Label, tuple[Tag, ...], bool]] = []
    for label in edge.labels:
        both = [(label, (), True), *([(label, tags, False)] if (tags := tags_of(label)) else [])]
        lines += both[::-1] if sizes.compact else both
    marks = [
        Mark(
            label,
            (x1 + x2 - mark_width(label, tags, sizes, name=name)) / 2,
            y - sizes.words - sizes.line * (len(lines) - 1 - line),
            tags,
            name,
            sizes,
        )
        for line, (label, tags, name) in enumerate(lines)
    ]
    return Route(edge, "back", ((x1, top), (x1, y), (x2, y), (x2, top)), tuple(marks))


def _loop(edge: Edge, box: Rect, sizes: Sizes, *, stacked: bool) -> Route:
    """Return a loop below a box, with its marks as a list below it; *stacked*: the tags below their triggers."""
    middle, bottom = box.middle[0], box.low
    left, right, low = middle - sizes.port(40), middle - sizes.port(2), bottom + sizes.loop
    room = min(middle + sizes.fall - 6, sizes.pitch - _LIST_ENDS) if sizes.compact else inf
    groups = entries(edge.labels, sizes, room, stacked=stacked)
    widths = [mark_width(label, tags, sizes, name=name, most=room) for label, tags, name in groups]
    placed = any(label.first for label in edge.labels) and not stacked
    indents = [BADGE + BETWEEN if placed and not label.first else 0 for label, _, _ in groups]
    widest = max(map(sum, zip(widths, indents, strict=True)))
    centre = min((left + right) / 2, middle + sizes.fall - 5 - widest / 2)
    marks = []
    for line, (label, tags, name) in enumerate(groups):
        left_aligned = edge.walked and not sizes.compact
        x = centre - (widest if left_aligned else widths[line]) / 2 + indents[line]
        marks.append(Mark(label, x, low + sizes.list + sizes.line * line, tags, name, sizes, room))
    return Route(edge, "loop", ((left, bottom), (left, low), (right, low), (right, bottom)), tuple(marks))


def _fall(edge: Edge, box: Rect, failed: Rect, sizes: Sizes) -> Route:
    """Return a way down to the rail that leads to Failed, with its marks to the right of it."""
    x, rail = box.middle[0] + sizes.fall, failed.middle[1]
    room = sizes.pitch - sizes.beside - 6 if sizes.compact else inf
    lines = entries(edge.labels, sizes, room)
    widest = max(mark_width(label, tags, sizes, name=name, most=room) for label, tags, name in lines)
    last = rail - sizes.fallen
    if x + sizes.beside + widest > failed.x:
        last = min(last, failed.y - sizes.line / 2 - 1)
    y = last - sizes.line * (len(lines) - 1)
    marks = [
        Mark(label, x + sizes.beside, y + sizes.line * n, tags, name, sizes, room)
        for n, (label, tags, name) in enumerate(lines)
    ]
    return Route(edge, "fail", ((x, box.low), (x, rail), (failed.x, rail)), tuple(marks))
