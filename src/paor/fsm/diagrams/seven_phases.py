"""
The drawing of the seven phases: a fixed place for each phase and each edge of the standard machine.

The main flow runs from left to right, ways back and shortcuts above it, loops below, every way to Failed on one rail.
No place depends on what was walked; signs have room everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ...states.run.phase_names import DONE, EXECUTING, FAILED, OBSERVING, PLANNING, REVIEWING, SPECIFYING
from .geometry import Kind, Mark, Rect, Route, full_width, mark_width, signs_of
from .graph import Edge, Label

WIDTH, HEIGHT, ROOM = 680.0, 307.0, 112.0
"""Of the drawing, and of what is above the boxes."""
LINE = 14.0
"""From one line of text to the next."""
_FLOW = (PLANNING, SPECIFYING, EXECUTING, OBSERVING, REVIEWING, DONE)
_WIDE, _HIGH, _PITCH, _RAIL = 79.0, 36.0, 113.0, 287.0
BOXES = {
    **{name: Rect(31 + _PITCH * place, ROOM, _WIDE, _HIGH) for place, name in enumerate(_FLOW)},
    FAILED: Rect(31 + _PITCH * 5, _RAIL - _HIGH / 2, _WIDE, _HIGH),
}
_MIDDLES = {name: box.middle[0] for name, box in BOXES.items()}
_LANES: dict[tuple[str, str], tuple[float, float, float, Kind]] = {
    (REVIEWING, PLANNING): (18, 24, -19, "back"),
    (PLANNING, REVIEWING): (42, 19, 0, "skip"),
    (REVIEWING, SPECIFYING): (66, -24, -19, "back"),
    (SPECIFYING, OBSERVING): (90, 19, 0, "skip"),
    (SPECIFYING, PLANNING): (90, -30, 30, "back"),
}
"""Height of a lane, and where it leaves and enters, from each box's middle. Nested, so that no two cross."""
_LANE_WORDS = 317.0
"""Middle of the words of a long lane: no gate is there."""
GATES = {
    PLANNING: (-33.0, 6.0),
    SPECIFYING: (6.0, -7.0),
    OBSERVING: (-22.0, 22.0),
    REVIEWING: (-12.0, 34.0),
    DONE: (0.0, 0.0),
}
"""Where other ways enter and leave a box from above, from its middle: beside its lanes. They enter Failed from the right."""
_FALL, _COIL = 24.0, (-26.0, 2.0, 22.0)
"""From a box's middle to its way to Failed, and to the two sides of its loop, with the depth of that."""
_LIST, _ROOM = 22.0, 108.0
"""From a box's middle to the right end of the list below a loop, and at most the width of that."""
_GAP, _APART = 31.0, 14.0
"""What has room between two boxes, and between two labels in one line."""
_LOW = ROOM + _HIGH


def fixed_route(edge: Edge) -> Route | None:
    """Return the place of an edge in the drawing, None where it has none."""
    ends = edge.source, edge.dest
    if edge.own or edge.source in (DONE, FAILED) or not {*ends} <= BOXES.keys():
        return None
    if edge.source == edge.dest:
        return _loop(edge)
    if edge.dest == FAILED:
        return _fall(edge)
    if ends in _LANES:
        return _lane(edge)
    return _straight(edge) if ends in pairwise(_FLOW) else None


def _straight(edge: Edge) -> Route:
    """Return a step of the main flow: its names above the line; its signs below it, or below the boxes where they are too wide."""
    left, right = BOXES[edge.source].right, BOXES[edge.dest].x
    x, y, names = (left + right) / 2, BOXES[edge.source].middle[1], len(edge.labels)
    marks = [Mark(label, x, ROOM - 5 - LINE * (names - 1 - n)) for n, label in enumerate(edge.labels)]
    signs = [line for label in edge.labels for line in _lines(label, _GAP, apart=True) if not line.name]
    fits = all(line.rect.width <= _GAP for line in signs)
    below = _listed(signs, x, y + 15 if fits else _LOW + 12)
    return Route(edge, "flow", ((left, y), (right, y)), (*marks, *below))


def _lane(edge: Edge) -> Route:
    """Return a way in a lane above the main flow, with its words on it: in one line, in the short lane in several."""
    y, leaves, enters, kind = _LANES[edge.source, edge.dest]
    x1, x2 = _MIDDLES[edge.source] + leaves, _MIDDLES[edge.dest] + enters
    points = ((x1, ROOM), (x1, y), (x2, y), (x2, ROOM))
    if edge.dest == PLANNING and edge.source == SPECIFYING:
        lines = [line for label in edge.labels for line in _lines(label, x1 - x2, apart=True)]
        return Route(edge, kind, points, _listed(lines, (x1 + x2) / 2, y - 5.5, -LINE))
    widths = [full_width(label) for label in edge.labels]
    x, marks = _LANE_WORDS - (sum(widths) + _APART * (len(widths) - 1)) / 2, list[Mark]()
    for label, wide in zip(edge.labels, widths, strict=True):
        marks.append(Mark(label, x + wide / 2, y - 5.5, "middle", signs_of(label)))
        x += wide + _APART
    return Route(edge, kind, points, tuple(marks))


def _loop(edge: Edge) -> Route:
    """Return a loop below a box, with its words as a list below it."""
    middle, deep = _MIDDLES[edge.source], _LOW + _COIL[2]
    left, right = middle + _COIL[0], middle + _COIL[1]
    lines = [line for label in edge.labels for line in _lines(label, min(_ROOM, middle + _LIST - 2))]
    widest = max(line.rect.width for line in lines)
    x = min((left + right) / 2, middle + _LIST - widest / 2)
    points = ((left, _LOW), (left, deep), (right, deep), (right, _LOW))
    return Route(edge, "loop", points, _listed(lines, x, deep + 16))


def _fall(edge: Edge) -> Route:
    """Return a way down to the rail that leads to Failed, with its words to the right of it."""
    x, failed = _MIDDLES[edge.source] + _FALL, BOXES[FAILED]
    widest = max(map(full_width, edge.labels))
    low = _RAIL - 6 if x + 6 + widest < failed.x else failed.y - 5
    lines = [replace(line, anchor="start") for label in edge.labels for line in _lines(label, _ROOM)]
    marks = _listed(lines[::-1], x + 6, low, -LINE)
    return Route(edge, "fail", ((x, _LOW), (x, _RAIL), (failed.x, _RAIL)), marks)


def _lines(label: Label, room: float, *, apart: bool = False) -> list[Mark]:
    """Return the lines of a label: one where it fits into *room* and is not *apart*, else its trigger and below that its signs."""
    signs = signs_of(label)
    if not apart and full_width(label) <= room:
        return [Mark(label, 0, 0, "middle", signs)]
    rest = [signs] if mark_width(label, signs, name=False) <= room else [(sign,) for sign in signs]
    return [Mark(label, 0, 0), *(Mark(label, 0, 0, "middle", some, name=False) for some in rest if some)]


def _listed(lines: Sequence[Mark], x: float, y: float, step: float = 13.5) -> tuple[Mark, ...]:
    """Return lines one below the other, the first at *y*."""
    return tuple(replace(line, x=x, y=y + step * n) for n, line in enumerate(lines))
