"""
The layout of a host's own machine: its phases in a row above the seven, its rows between the two.

Each way has a horizontal track of its own with its words on it. At the upper side of one of the seven, the ways that lead there
share one vertical line, and so do those that lead on from it. Ways to Failed leave an own phase upwards, as those of the seven
leave downwards, and share one rail around the right. Nothing is drawn over the words: their place on the track is where no line crosses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ...states.run.phase_names import (
    EXECUTING,
    FAILED,
    OBSERVING,
    PHASES,
    PLANNING,
    REVIEWING,
    SPECIFYING,
)
from .geometry import (
    BOLD,
    HEADER,
    LINE,
    Layout,
    Mark,
    Point,
    Rect,
    Route,
    full_width,
    tags_of,
    width_of,
)
from .graph import Edge, Graph, plain
from .seven_phases import TOP, WIDTH, seven_phases

_HEIGHT, _NARROWEST = 50.0, 118.0
_TRACK = 29.0
"""From one track to the next; the words of a way stand on its line."""
_PORT = 15.0
"""At most between two ways at the lower side of an own phase."""
_APART = 8.0
"""At least between two vertical lines."""
_EDGE = 24.0
"""Between the outermost things and the ends of the picture."""
_BESIDE = 20.0
"""Between two labels in one line."""
_INTO = {PLANNING: -44.0, SPECIFYING: 44.0, REVIEWING: -16.0, EXECUTING: 14.0, OBSERVING: -30.0}
_FROM = {PLANNING: 0.0, SPECIFYING: 0.0, REVIEWING: 46.0, EXECUTING: -14.0, OBSERVING: 30.0}
"""Where own ways enter and leave one of the seven, from its middle: beside its lanes. Done is entered in the middle."""


@dataclass(slots=True)
class _Picture:
    """
    What is drawn above the seven phases while it is laid out.

    Attributes:
        ways: Edges with a track, from and to any phase.
        loops: Edges of an own phase to itself.
        falls: Those to Failed.
        straight: Those from one own phase to the one beside it.
        order: The own phases from left to right.
        seven: Boxes of the seven.
        boxes: Boxes of the own phases.
        ports: Where each way leaves and enters.
        tracks: Number of each way's track, from 0 at the top.
    """

    ways: list[Edge]
    loops: list[Edge]
    falls: list[Edge]
    seven: Mapping[str, Rect]
    straight: list[Edge] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    boxes: dict[str, Rect] = field(default_factory=dict)
    ports: dict[int, tuple[float, float]] = field(default_factory=dict)
    tracks: dict[int, int] = field(default_factory=dict)


def own_phases(graph: Graph, deep: float) -> Layout | None:
    """Return the layout of a host's own machine, or None where an edge of the seven phases has no place."""
    if not set(graph.phases) <= {*PHASES, *graph.own}:
        return None
    own = [edge for edge in graph.edges if edge.own or graph.own.keys() & {edge.source, edge.dest}]
    rest = tuple(edge for edge in graph.edges if edge not in own)
    below = seven_phases(replace(graph, phases=PHASES, initial=PLANNING, edges=rest), deep)
    if below is None:
        return None
    falls = [edge for edge in own if edge.dest == FAILED]
    loops = [edge for edge in own if edge.source == edge.dest]
    picture = _Picture([edge for edge in own if edge not in (*falls, *loops)], loops, falls, below.boxes)
    names = [name for name in graph.phases if name in graph.own]
    _place_boxes(picture, names, graph.initial)
    _place_ports(picture)
    _place_tracks(picture)
    return _composed(picture, below, graph)


# -- boxes ---------------------------------------------------------------------------------------------------------


def _place_boxes(picture: _Picture, names: Sequence[str], initial: str) -> None:
    """Put the own phases in a row, each near what it is joined with and as far apart as their words need."""
    ends: dict[str, list[float]] = defaultdict(list)
    for edge in picture.ways:
        for one, other in ((edge.source, edge.dest), (edge.dest, edge.source)):
            if one in names and other in picture.seven:
                ends[one].append(picture.seven[other].middle[0])
    wanted = {name: sum(ends[name]) / len(ends[name]) if ends[name] else WIDTH / 2 for name in names}
    picture.order = sorted(names, key=lambda name: wanted[name])
    wide = max([_NARROWEST, *(width_of(plain(name), 15 * BOLD) + 28 for name in names)])
    beside = {(edge.source, edge.dest): edge for edge in picture.ways}
    for one, two in pairwise(picture.order):
        found = beside.get((one, two)) or beside.get((two, one))
        picture.straight += [found] if found is not None else []
    picture.ways = [edge for edge in picture.ways if edge not in picture.straight]
    middles: list[float] = []
    for place, name in enumerate(picture.order):
        least = wide / 2 + (64 if name == initial else _EDGE)
        if place:
            before = picture.order[place - 1]
            gap = max(wide + 60, _right_of(picture, before) + 16 + _left_of(picture, name))
            words = [
                _row_width(edge) for edge in picture.straight if {edge.source, edge.dest} == {before, name}
            ]
            least = middles[-1] + max([gap, *(wide + width + 44 for width in words)])
        middles.append(max(least, wanted[name]))
    back = sum(middles) - sum(wanted.values())
    first = wide / 2 + (64 if picture.order[:1] == [initial] else _EDGE)
    shift = min(back / len(middles), middles[0] - first) if middles else 0.0
    top = HEADER + _room_above(picture)
    for name, middle in zip(picture.order, middles, strict=True):
        picture.boxes[name] = Rect(middle - shift - wide / 2, top, wide, _HEIGHT)


def _row_width(edge: Edge) -> float:
    widths = [full_width(label) for label in edge.labels]
    return sum(widths) + _BESIDE * (len(widths) - 1)


def _widest(edges: Iterable[Edge], name: str) -> float:
    return max(
        (full_width(label) for edge in edges if edge.source == name for label in edge.labels), default=0.0
    )


def _left_of(picture: _Picture, name: str) -> float:
    """Return how far the words of a phase's loop reach to the left of its middle."""
    return 21 + max(36.0, _widest(picture.loops, name)) / 2


def _right_of(picture: _Picture, name: str) -> float:
    """Return how far the words of a phase's way to Failed reach to the right of its middle."""
    return 51 + _widest(picture.falls, name)


def _room_above(picture: _Picture) -> float:
    """Return how much room loops and ways to Failed take above the own phases, below the header."""
    loops = [34 + LINE * len(edge.labels) for edge in picture.loops]
    falls = [16 + LINE * len(edge.labels) for edge in picture.falls]
    return (20.0 if falls else 10.0) + max([*loops, *falls, 0.0])


# -- ports and tracks ----------------------------------------------------------------------------------------------


def _gate(picture: _Picture, phase: str, offsets: Mapping[str, float]) -> float:
    """Return where own ways meet the upper side of one of the seven."""
    return picture.seven[phase].middle[0] + offsets.get(phase, 0.0)


def _place_ports(picture: _Picture) -> None:
    """Give each way its two ends; those of an own phase stand in the order of where they lead, so that few cross."""
    gates = {_gate(picture, name, offsets) for name in picture.seven for offsets in (_INTO, _FROM)}
    wanted: dict[tuple[str, int], list[float]] = defaultdict(list)
    for number, edge in enumerate(picture.ways):
        far = [
            picture.boxes[name].middle[0] if name in picture.boxes else _gate(picture, name, offsets)
            for name, offsets in ((edge.source, _FROM), (edge.dest, _INTO))
        ]
        picture.ports[number] = far[0], far[1]
        if edge.source in picture.boxes:
            wanted[edge.source, number].append(far[1])
        if edge.dest in picture.boxes:
            wanted[edge.dest, -1].append(far[0])  # all that leads to it enters at one place
    for name, box in picture.boxes.items():
        own = [(sum(far) / len(far), number) for (phase, number), far in wanted.items() if phase == name]
        places = _spread(box, [far for far, _ in sorted(own)], gates)
        for x, (_, number) in zip(places, sorted(own), strict=True):
            for at, edge in enumerate(picture.ways):
                if number == at:
                    picture.ports[at] = x, picture.ports[at][1]
                elif number == -1 and edge.dest == name:
                    picture.ports[at] = picture.ports[at][0], x


def _spread(box: Rect, far: Sequence[float], gates: Iterable[float]) -> list[float]:
    """Return places at the lower side of a box, in the order of *far*, on no line that comes up to it from the seven."""
    if not far:
        return []
    step = min(_PORT, (box.width - 20) / max(1, len(far) - 1))
    first = box.middle[0] - step * (len(far) - 1) / 2
    room = (box.width - 20 - step * (len(far) - 1)) / 2
    straight = [shift for n, x in enumerate(far) if abs(shift := x - first - step * n) <= room]

    def clashes(shift: float) -> tuple[int, bool, float]:
        places = [first + shift + step * n for n in range(len(far))]
        near = sum(
            abs(x - gate) < _APART and gate != to for x, to in zip(places, far, strict=True) for gate in gates
        )
        return near, shift not in straight, abs(shift)

    best = min((*straight, *map(float, range(-9, 10))), key=clashes)
    return [first + best + step * n for n in range(len(far))]


def _place_tracks(picture: _Picture) -> None:
    """Give each way the highest track where its line and words have room; the longest come first, so that few cross."""
    taken: list[list[tuple[float, float]]] = []
    spans = {number: (min(ends), max(ends)) for number, ends in picture.ports.items()}
    for number, (low, high) in sorted(spans.items(), key=lambda item: (item[1][0] - item[1][1], item[0])):
        lacking = max(0.0, _row_width(picture.ways[number]) + 16 - (high - low))
        low, high = low - 10, high + 10 + lacking
        free = (
            at
            for at, track in enumerate(taken)
            if all(high < other_low or other_high < low for other_low, other_high in track)
        )
        at = next(free, len(taken))
        if at == len(taken):
            taken.append([])
        taken[at].append((low, high))
        picture.tracks[number] = at


# -- the whole -----------------------------------------------------------------------------------------------------


def _composed(picture: _Picture, below: Layout, graph: Graph) -> Layout:
    """Return the layout: the own row on top, the tracks, then the seven phases moved down."""
    low = HEADER + _room_above(picture) + _HEIGHT if picture.boxes else HEADER - 8
    count = max(picture.tracks.values(), default=-1) + 1
    down = low + _TRACK * count + 14 - HEADER if own_rows(picture) else 0.0
    moved = _moved(below, down)
    right = max([box.right for box in picture.boxes.values()], default=0.0)
    right = max(
        [right, *(picture.boxes[e.source].middle[0] + 51 + _widest([e], e.source) for e in picture.falls)]
    )
    rail = max(moved.boxes[FAILED].right + 26, right + 14)
    width = max(WIDTH, rail + _EDGE if picture.falls else right + _EDGE)
    bare = [
        *(_way(edge, picture, number, low, down) for number, edge in enumerate(picture.ways)),
        *(_beside(edge, picture) for edge in picture.straight),
        *(_loop(edge, picture.boxes[edge.source]) for edge in picture.loops),
        *(_fall(edge, picture.boxes[edge.source], rail, moved.boxes[FAILED]) for edge in picture.falls),
    ]
    boxes = {name: (picture.boxes | moved.boxes)[name] for name in graph.phases}
    whole = Layout(width, moved.height, boxes, _start(boxes[graph.initial]), (*moved.routes, *bare))
    return replace(whole, routes=tuple(_named(whole)))


def own_rows(picture: _Picture) -> bool:
    """Return whether there is anything above the seven phases."""
    return bool(picture.boxes or picture.ways)


def _start(box: Rect) -> tuple[Point, Point]:
    return (box.x - 40, box.middle[1]), (box.x, box.middle[1])


def _moved(layout: Layout, down: float) -> Layout:
    """Return a layout that stands lower."""
    boxes = {name: replace(box, y=box.y + down) for name, box in layout.boxes.items()}
    routes = tuple(
        replace(
            route,
            points=tuple((x, y + down) for x, y in route.points),
            marks=tuple(replace(mark, y=mark.y + down) for mark in route.marks),
            dots=tuple((x, y + down) for x, y in route.dots),
        )
        for route in layout.routes
    )
    return replace(layout, height=layout.height + down, boxes=boxes, routes=routes)


def _way(edge: Edge, picture: _Picture, number: int, low: float, down: float) -> Route:
    """Return a way along its track, without its words."""
    y = low + _TRACK * (picture.tracks[number] + 1)
    x1, x2 = picture.ports[number]
    start = low if edge.source in picture.boxes else TOP + down
    end = low if edge.dest in picture.boxes else TOP + down
    turns = ((x1, y), (x2, y)) if abs(x1 - x2) > 1 else ()
    return Route(edge, "own", ((x1, start), *turns, (x2, end)), ())


def _beside(edge: Edge, picture: _Picture) -> Route:
    """Return the way between two own phases that stand side by side, with its words on it."""
    source, dest = picture.boxes[edge.source], picture.boxes[edge.dest]
    y = source.middle[1]
    ends = (source.right, dest.x) if source.x < dest.x else (source.x, dest.right)
    return _with_words(
        Route(edge, "own", ((ends[0], y), (ends[1], y)), ()), (sum(ends) - _row_width(edge)) / 2, y
    )


def _loop(edge: Edge, box: Rect) -> Route:
    """Return a loop above a box, with its words as a list above it."""
    left, right, high = box.middle[0] - 40, box.middle[0] - 2, box.y - 24
    marks = [
        Mark(label, (left + right - full_width(label)) / 2, high - 12 - LINE * place, tags_of(label))
        for place, label in enumerate(reversed(edge.labels))
    ]
    return Route(
        edge, "own", ((left, box.y), (left, high), (right, high), (right, box.y)), tuple(marks[::-1])
    )


def _fall(edge: Edge, box: Rect, rail: float, failed: Rect) -> Route:
    """Return a way up to the rail and around to Failed, with its words to the right of where it leaves."""
    x, high, y = box.middle[0] + 43, HEADER + 10, failed.middle[1]
    marks = tuple(
        Mark(label, x + 8, high + 16 + LINE * place, tags_of(label))
        for place, label in enumerate(edge.labels)
    )
    return Route(edge, "own", ((x, box.y), (x, high), (rail, high), (rail, y), (failed.right, y)), marks)


def _named(layout: Layout) -> Iterator[Route]:
    """Yield the routes, each with its words where no line, box or other word is."""
    marks = [mark.rect for route in layout.routes for mark in route.marks]
    lines = [piece for route in layout.routes for piece in route.pieces]
    others = [*layout.boxes.values(), *lines]
    for route in layout.routes:
        if route.marks:
            yield route
            continue
        x1, x2 = route.points[0][0], route.points[-1][0]
        y = (
            route.points[1][1]
            if len(route.points) > 2
            else min(route.points[0][1], route.points[1][1]) + _TRACK
        )
        width = _row_width(route.edge)
        best = (x1 + x2 - width) / 2
        most = int(abs(x1 - x2) / 2 + width + 20)
        for away in (side * step for step in range(0, most, 4) for side in (1, -1)):
            room = Rect(best + away - 4, y - 12 - LINE / 2, width + 8, LINE)
            if room.x > 12 and not any(room.meets(other) for other in (*others, *marks)):
                best += away
                break
        placed = _with_words(route, best, y)
        marks += [mark.rect for mark in placed.marks]
        yield placed


def _with_words(route: Route, x: float, y: float) -> Route:
    """Return a route with its words from *x* on above the line *y*, dots between them."""
    marks, dots = list[Mark](), list[Point]()
    for label in route.edge.labels:
        width = full_width(label)
        marks.append(Mark(label, x, y - 12, tags_of(label)))
        dots += [] if route.edge.walked else [(x + width + _BESIDE / 2, y - 12)]
        x += width + _BESIDE
    return replace(route, marks=tuple(marks), dots=tuple(dots[:-1]))
