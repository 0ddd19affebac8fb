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
from math import inf
from typing import NamedTuple

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
    FULL,
    Entry,
    Layout,
    Mark,
    Point,
    Rect,
    Route,
    Sizes,
    entries,
    full_width,
    mark_width,
    name_lines,
    tags_of,
    width_of,
)
from .graph import Edge, Graph, Label
from .seven_phases import seven_phases

_SHORT = 100.0
"""A row of words that is shorter is not broken, however short its way is."""
_STEEP, _CORNER = 10.0, 11.0
"""Least between two ways at the lower side of an own phase where each leads straight down, and from its corners."""
_PORT = 15.0
"""At most between two ways at the lower side of an own phase."""
_APART = 8.0
"""At least between two vertical lines."""
_BESIDE = 20.0
"""Between two labels in one line."""
_INTO = {PLANNING: -44.0, REVIEWING: -16.0, EXECUTING: 14.0, OBSERVING: -30.0}
_FROM = {PLANNING: 0.0, REVIEWING: 46.0, EXECUTING: -14.0, OBSERVING: 30.0}
"""Where own ways enter and leave one of the seven, from its middle: beside its lanes. Done is entered in the middle.
For Specifying, which has the most lanes, see `Sizes.gates`."""


class Manner(NamedTuple):
    """
    One of several ways to lay out the same.

    Attributes:
        banded: Whether the words of ways to Failed stand above those of loops, and so need no room beside them.
        steep: Whether a way leaves an own phase straight above where it leads, wherever that is possible.
        left: Free to the left of the seven phases, for words.
        swaps: Places of own phases that change with the one to their right.
        turns: Ways in the order in which they choose their tracks; the others follow, the longest first.
        after: Ways that choose last, a track of their own.
    """

    banded: bool = False
    steep: bool = False
    left: float = 0.0
    swaps: tuple[int, ...] = ()
    turns: tuple[Edge, ...] = ()
    after: tuple[Edge, ...] = ()


PLAIN = Manner()


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
        heights: Of the tracks.
        sizes: Of the whole picture.
        manner: How it is laid out.
    """

    ways: list[Edge]
    loops: list[Edge]
    falls: list[Edge]
    seven: Mapping[str, Rect]
    sizes: Sizes
    manner: Manner
    straight: list[Edge] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    boxes: dict[str, Rect] = field(default_factory=dict)
    ports: dict[int, tuple[float, float]] = field(default_factory=dict)
    tracks: dict[int, int] = field(default_factory=dict)
    heights: list[float] = field(default_factory=list)


def own_phases(graph: Graph, deep: float, sizes: Sizes = FULL, manner: Manner = PLAIN) -> Layout | None:
    """Return the layout of a host's own machine, or None where an edge of the seven phases has no place."""
    if not set(graph.phases) <= {*PHASES, *graph.own}:
        return None
    own = [edge for edge in graph.edges if edge.own or graph.own.keys() & {edge.source, edge.dest}]
    rest = tuple(edge for edge in graph.edges if edge not in own)
    below = seven_phases(replace(graph, phases=PHASES, initial=PLANNING, edges=rest), deep, sizes)
    if below is None:
        return None
    below = _moved(below, 0.0, manner.left)
    falls = [edge for edge in own if edge.dest == FAILED]
    loops = [edge for edge in own if edge.source == edge.dest]
    ways = [edge for edge in own if edge not in (*falls, *loops)]
    picture = _Picture(ways, loops, falls, below.boxes, sizes, manner)
    _place_boxes(picture, [name for name in graph.phases if name in graph.own], graph.initial)
    _place_ports(picture)
    _place_tracks(picture)
    return _composed(picture, below, graph)


# -- boxes ---------------------------------------------------------------------------------------------------------


def _place_boxes(picture: _Picture, names: Sequence[str], initial: str) -> None:
    """Put the own phases in a row, each near what it is joined with and as far apart as their words need."""
    sizes, ends = picture.sizes, defaultdict[str, list[float]](list)
    for edge in picture.ways:
        for one, other in ((edge.source, edge.dest), (edge.dest, edge.source)):
            if one in names and other in picture.seven:
                ends[one].append(picture.seven[other].middle[0])
    wanted = {name: sum(ends[name]) / len(ends[name]) if ends[name] else sizes.width / 2 for name in names}
    picture.order = sorted(names, key=lambda name: wanted[name])
    for place in picture.manner.swaps:
        picture.order[place : place + 2] = picture.order[place : place + 2][::-1]
    wide = _widths(names, sizes)
    beside = {(edge.source, edge.dest): edge for edge in picture.ways}
    for one, two in pairwise(picture.order):
        found = beside.get((one, two)) or beside.get((two, one))
        fits = found is not None and (len(found.labels) == 1 or not sizes.compact)
        picture.straight += [found] if found is not None and fits else []
    picture.ways = [edge for edge in picture.ways if edge not in picture.straight]
    middles: list[float] = []
    for place, name in enumerate(picture.order):
        least = _least(picture, name, wide[name], first=name == initial)
        if place:
            least = middles[-1] + _pitch(picture, picture.order[place - 1], name, wide)
        middles.append(max(least, wanted[name]))
    back = sum(middles) - sum(wanted.values())
    first = [_least(picture, name, wide[name], first=name == initial) for name in picture.order[:1]]
    shift = min(back / len(middles), middles[0] - first[0]) if middles else 0.0
    top = sizes.header + _room_above(picture)
    for name, middle in zip(picture.order, middles, strict=True):
        picture.boxes[name] = Rect(middle - shift - wide[name] / 2, top, wide[name], sizes.box[1])


def _widths(names: Sequence[str], sizes: Sizes) -> dict[str, float]:
    """Return how wide the own phases are: as wide as the widest, or each as its name needs it."""
    lines = {name: name_lines(name, sizes) for name in names}
    wide = {
        name: max([sizes.narrowest, *(width_of(line, sizes.name * BOLD) + sizes.own for line in parts)])
        for name, parts in lines.items()
    }
    return wide if sizes.compact else dict.fromkeys(names, max(wide.values(), default=0.0))


def _least(picture: _Picture, name: str, wide: float, *, first: bool) -> float:
    """Return how far to the left the middle of an own phase may be; *first*: a run begins in it."""
    sizes = picture.sizes
    return max(wide / 2 + sizes.edge + (sizes.start if first else 0), _left_of(picture, name) + 1)


def _pitch(picture: _Picture, before: str, name: str, wide: Mapping[str, float]) -> float:
    """Return how far apart the middles of two own phases side by side are at least."""
    sizes = picture.sizes
    half = (wide[before] + wide[name]) / 2
    straight = [edge for edge in picture.straight if {edge.source, edge.dest} == {before, name}]
    words = [half + _beside_width(edge, sizes) + sizes.ends for edge in straight]
    left = _left_of(picture, name)
    if sizes.compact and (picture.manner.banded or all(edge.source != name for edge in picture.loops)):
        falls = any(edge.source == name for edge in picture.falls)
        left = -sizes.fall if falls else -half  # nothing is above its left side
    if picture.manner.banded:
        words.append(_loop_width(picture, before) + sizes.apart + _left_of(picture, name))
    return max([half + sizes.gap, _right_of(picture, before) + sizes.apart + left, *words])


def _loop_width(picture: _Picture, name: str) -> float:
    """Return how far what is above a phase reaches to the right of its middle: the words of its loop, its way to Failed."""
    sizes = picture.sizes
    return max(sizes.fall, _widest(picture.loops, name, sizes) / 2 - sizes.port(21))


def _beside_width(edge: Edge, sizes: Sizes) -> float:
    """Return how wide the words of a way between two own phases are; the counts stand below it where room is scarce."""
    if not sizes.compact or len(edge.labels) > 1:
        return _row_width(edge.labels, sizes)
    label = edge.labels[0]
    return max(mark_width(label, (), sizes, name=True), mark_width(label, tags_of(label), sizes, name=False))


def _row_width(labels: Sequence[Label], sizes: Sizes) -> float:
    widths = [full_width(label, sizes) for label in labels]
    return sum(widths) + _BESIDE * (len(widths) - 1)


def _widest(edges: Iterable[Edge], name: str, sizes: Sizes) -> float:
    lines = (line for edge in edges if edge.source == name for line in _entries(edge, sizes))
    room = _room(sizes)
    return max(
        (mark_width(one, tags, sizes, name=named, most=room) for one, tags, named in lines), default=0.0
    )


def _room(sizes: Sizes) -> float:
    """Return how wide the words of a loop and of a way to Failed may be."""
    return 2 * (sizes.fall + sizes.port(21) - 4) if sizes.compact else inf


def _entries(edge: Edge, sizes: Sizes) -> list[Entry]:
    """Return the words of a loop or of a way to Failed as a list."""
    return entries(edge.labels, sizes, _room(sizes))


def _left_of(picture: _Picture, name: str) -> float:
    """Return how far the words of a phase's loop reach to the left of its middle."""
    sizes = picture.sizes
    return sizes.port(21) + max(sizes.port(36), _widest(picture.loops, name, sizes)) / 2


def _right_of(picture: _Picture, name: str) -> float:
    """Return how far the words of a phase's way to Failed reach to the right of its middle."""
    sizes = picture.sizes
    return sizes.fall + sizes.beside + _widest(picture.falls, name, sizes)


def _room_above(picture: _Picture) -> float:
    """Return how much room loops and ways to Failed take above the own phases, below the header."""
    sizes = picture.sizes
    loops = [sizes.coil + 10 + sizes.line * len(_entries(edge, sizes)) for edge in picture.loops]
    falls = [16 + sizes.line * len(_entries(edge, sizes)) for edge in picture.falls]
    top = sizes.top + 10 if falls else sizes.top
    if picture.manner.banded:
        return top + max(loops, default=0.0) + max(falls, default=0.0) - 8
    return top + max([*loops, *falls, 0.0])


# -- ports and tracks ----------------------------------------------------------------------------------------------


def _gate(picture: _Picture, phase: str, offsets: Mapping[str, float]) -> float:
    """Return where own ways meet the upper side of one of the seven."""
    sizes, middle = picture.sizes, picture.seven[phase].middle[0]
    if phase == SPECIFYING:
        return middle + sizes.gates[offsets is _FROM]
    return middle + sizes.port(offsets.get(phase, 0.0))


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
        spread = _steep if picture.manner.steep else _spread
        places = spread(box, [far for far, _ in sorted(own)], gates)
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


def _steep(box: Rect, far: Sequence[float], gates: Iterable[float]) -> list[float]:
    """Return places at the lower side of a box, in the order of *far* and each as near to it as the others let it be."""
    low, high, count = box.x + _CORNER, box.right - _CORNER, len(far)
    step = min(_STEEP, (high - low) / max(1, count - 1))
    groups: list[list[float]] = []
    for place, x in enumerate(far):
        groups.append([min(max(x, low), high) - step * place])
        while len(groups) > 1 and _mean(groups[-2]) >= _mean(groups[-1]):
            last = groups.pop()
            groups[-1] += last
    firsts = [_mean(group) for group in groups for _ in group]
    most = high - step * max(0, count - 1)
    return [min(max(first, low), most) + step * place for place, first in enumerate(firsts)]


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _place_tracks(picture: _Picture) -> None:
    """Give each way the highest track where its line and words have room; the longest come first, so that few cross."""
    taken: list[list[tuple[float, float]]] = []
    spans = {number: (min(ends), max(ends)) for number, ends in picture.ports.items()}
    sizes, manner = picture.sizes, picture.manner
    turns = {edge: place - len(manner.turns) for place, edge in enumerate(manner.turns)}
    turns |= {edge: place + 1 for place, edge in enumerate(manner.after)}

    def turn(item: tuple[int, tuple[float, float]]) -> tuple[int, float, int]:
        number, (low, high) = item
        return turns.get(picture.ways[number], 0), low - high, number

    for number, (low, high) in sorted(spans.items(), key=turn):
        if sizes.compact and high - low <= 1 and len(picture.ways[number].labels) == 1:
            picture.tracks[number] = 0  # straight up or down; its words stand beside it
            continue
        rows = _rows(picture.ways[number], high - low, sizes)
        lacking = max(0.0, _block_width(rows, sizes) + 16 - (high - low))
        low, high = low - 10, high + 10 + lacking
        least = len(taken) if picture.ways[number] in manner.after else 0
        free = (
            at
            for at, track in enumerate(taken)
            if at >= least and all(high < other_low or other_high < low for other_low, other_high in track)
        )
        at = next(free, len(taken))
        if at == len(taken):
            taken.append([])
            picture.heights.append(0.0)
        taken[at].append((low, high))
        picture.tracks[number] = at
        picture.heights[at] = max(picture.heights[at], sizes.track + sizes.line * (len(rows) - 1))
    if picture.ways and not picture.heights:
        picture.heights.append(sizes.track)


def _rows(edge: Edge, span: float, sizes: Sizes) -> list[list[Label]]:
    """Return the triggers of a way in the rows in which they stand: in one, or where room is scarce in as many as it takes."""
    if not sizes.compact:
        return [list(edge.labels)]
    rows: list[list[Label]] = []
    for label in edge.labels:
        if rows and _row_width([*rows[-1], label], sizes) <= max(span - 16, _SHORT):
            rows[-1].append(label)
        else:
            rows.append([label])
    return rows


def _block_width(rows: Sequence[Sequence[Label]], sizes: Sizes) -> float:
    return max(_row_width(row, sizes) for row in rows)


# -- the whole -----------------------------------------------------------------------------------------------------


def _composed(picture: _Picture, below: Layout, graph: Graph) -> Layout:
    """Return the layout: the own row on top, the tracks, then the seven phases moved down."""
    sizes, top = picture.sizes, picture.sizes.header
    bare_low = top - min(8.0, sizes.track - sizes.words - sizes.line / 2)
    low = top + _room_above(picture) + sizes.box[1] if picture.boxes else bare_low
    down = low + sum(picture.heights) + sizes.under - top if own_rows(picture) else 0.0
    moved = _moved(below, down)
    right = max([box.right for box in picture.boxes.values()], default=0.0)
    falling = (edge.source for edge in picture.falls)
    right = max([right, *(picture.boxes[name].middle[0] + _right_of(picture, name) for name in falling)])
    rail = max(moved.boxes[FAILED].right + sizes.aside, right + 14)
    width = max(below.width, rail + sizes.edge if picture.falls else right + sizes.edge)
    bare = [
        *(_way(edge, picture, number, low, down) for number, edge in enumerate(picture.ways)),
        *(_beside(edge, picture) for edge in picture.straight),
        *(_loop(edge, picture.boxes[edge.source], sizes) for edge in picture.loops),
        *(_fall(edge, picture, rail, moved.boxes[FAILED]) for edge in picture.falls),
    ]
    boxes = {name: (picture.boxes | moved.boxes)[name] for name in graph.phases}
    start, routes = _start(boxes[graph.initial], sizes), (*moved.routes, *bare)
    whole = Layout(width, moved.height, boxes, start, routes, sizes=sizes)
    return replace(whole, routes=tuple(_named(whole)))


def own_rows(picture: _Picture) -> bool:
    """Return whether there is anything above the seven phases."""
    return bool(picture.boxes or picture.ways)


def _start(box: Rect, sizes: Sizes) -> tuple[Point, Point]:
    return (box.x - sizes.start, box.middle[1]), (box.x, box.middle[1])


def _moved(layout: Layout, down: float, right: float = 0.0) -> Layout:
    """Return a layout that stands lower, or farther to the right."""
    boxes = {name: replace(box, x=box.x + right, y=box.y + down) for name, box in layout.boxes.items()}
    routes = tuple(
        replace(
            route,
            points=tuple((x + right, y + down) for x, y in route.points),
            marks=tuple(replace(mark, x=mark.x + right, y=mark.y + down) for mark in route.marks),
            dots=tuple((x + right, y + down) for x, y in route.dots),
        )
        for route in layout.routes
    )
    return replace(
        layout, width=layout.width + right, height=layout.height + down, boxes=boxes, routes=routes
    )


def _way(edge: Edge, picture: _Picture, number: int, low: float, down: float) -> Route:
    """Return a way along its track, without its words."""
    sizes = picture.sizes
    y = low + sum(picture.heights[: picture.tracks[number] + 1])
    x1, x2 = picture.ports[number]
    x1 = x2 if abs(x1 - x2) <= 1 else x1
    top = sizes.header + sizes.room + down
    start = low if edge.source in picture.boxes else top
    end = low if edge.dest in picture.boxes else top
    turns = ((x1, y), (x2, y)) if x1 != x2 else ()
    return Route(edge, "own", ((x1, start), *turns, (x2, end)), ())


def _beside(edge: Edge, picture: _Picture) -> Route:
    """Return the way between two own phases that stand side by side, with its words on it."""
    source, dest = picture.boxes[edge.source], picture.boxes[edge.dest]
    y = source.middle[1]
    ends = (source.right, dest.x) if source.x < dest.x else (source.x, dest.right)
    bare, sizes = Route(edge, "own", ((ends[0], y), (ends[1], y)), ()), picture.sizes
    if sizes.compact and len(edge.labels) == 1:
        return replace(bare, marks=tuple(_above_and_below(edge.labels[0], sum(ends) / 2, y, sizes)))
    return _with_words(bare, (sum(ends) - _row_width(edge.labels, sizes)) / 2, y, sizes)


def _above_and_below(label: Label, x: float, y: float, sizes: Sizes) -> Iterator[Mark]:
    """Yield a name in the middle above a line and its count below it."""
    yield Mark(label, x - mark_width(label, (), sizes, name=True) / 2, y - sizes.words, sizes=sizes)
    if tags := tags_of(label):
        wide = mark_width(label, tags, sizes, name=False)
        yield Mark(label, x - wide / 2, y + sizes.below, tags, name=False, sizes=sizes)


def _loop(edge: Edge, box: Rect, sizes: Sizes) -> Route:
    """Return a loop above a box, with its words as a list above it."""
    left, right = box.middle[0] - sizes.port(40), box.middle[0] - sizes.port(2)
    high, marks = box.y - sizes.coil, list[Mark]()
    room = _room(sizes)
    for place, (label, tags, name) in enumerate(reversed(_entries(edge, sizes))):
        x = (left + right - mark_width(label, tags, sizes, name=name, most=room)) / 2
        y = high - sizes.words - sizes.line * place
        marks.append(Mark(label, x, y, tags, name, sizes, room))
    return Route(
        edge, "own", ((left, box.y), (left, high), (right, high), (right, box.y)), tuple(marks[::-1])
    )


def _fall(edge: Edge, picture: _Picture, rail: float, failed: Rect) -> Route:
    """Return a way up to the rail and around to Failed, with its words to the right of where it leaves."""
    box, sizes = picture.boxes[edge.source], picture.sizes
    x, high, y = box.middle[0] + sizes.fall, sizes.header + sizes.top, failed.middle[1]
    marks = tuple(
        Mark(label, x + sizes.beside, high + 16 + sizes.line * place, tags, name, sizes, _room(sizes))
        for place, (label, tags, name) in enumerate(_entries(edge, sizes))
    )
    return Route(edge, "own", ((x, box.y), (x, high), (rail, high), (rail, y), (failed.right, y)), marks)


def _named(layout: Layout) -> Iterator[Route]:
    """Yield the routes, each with its words where no line, box or other word is."""
    sizes, marks = layout.sizes, [mark.rect for route in layout.routes for mark in route.marks]
    lines = [piece for route in layout.routes for piece in route.pieces]
    others = [*layout.boxes.values(), *lines, *layout.corners]
    for route in layout.routes:
        if route.marks:
            yield route
            continue
        rows = _rows(route.edge, abs(route.points[0][0] - route.points[-1][0]), sizes)
        wide, high = _block_width(rows, sizes), sizes.line * len(rows)
        spots, beside = list(_spots(route, wide, high, sizes)), dict[float, list[Rect]]()
        clear = 5.0 if sizes.compact else 4.0
        for x, y in spots:
            room = Rect(x - clear, y - sizes.words + sizes.line / 2 - high, wide + 2 * clear, high)
            inside = room.x > sizes.rim + 8 - clear and room.right < layout.width
            if y not in beside:
                beside[y] = [rect for rect in (*others, *marks) if rect.y < room.low and room.y < rect.low]
            if inside and not any(room.meets(other) for other in beside[y]):
                placed = _with_words(route, x, y, sizes)
                break
        else:
            placed = _with_words(route, *spots[0], sizes)
        marks += [mark.rect for mark in placed.marks]
        yield placed


def _spots(route: Route, wide: float, high: float, sizes: Sizes) -> Iterator[Point]:
    """Yield where a block of words may begin and the line that it stands on, the best first: in the middle of its way."""
    (x1, y1), (x2, y2) = route.points[0], route.points[-1]
    bent = len(route.points) > 2
    y = route.points[1][1] if bent else min(y1, y2) + sizes.track
    best = (x1 + x2 - wide) / 2
    if sizes.compact and not bent:
        for line in range(int(min(y1, y2) + sizes.words + high), int(max(y1, y2) - sizes.room), 6):
            yield x1 + 6, line
            yield x1 - 6 - wide, line
    most = int(abs(x1 - x2) / 2 + (wide / 2 + 10 if sizes.compact else wide + 20))
    for away in (side * step for step in range(0, most, 4) for side in (1, -1)):
        yield best + away, y


def _with_words(route: Route, x: float, y: float, sizes: Sizes) -> Route:
    """Return a route with its words from *x* on above the line *y*, dots between them."""
    marks, dots = list[Mark](), list[Point]()
    rows = _rows(route.edge, abs(route.points[0][0] - route.points[-1][0]), sizes)
    wide = _block_width(rows, sizes)
    for place, row in enumerate(reversed(rows)):
        at, line = x + (wide - _row_width(row, sizes)) / 2, y - sizes.words - sizes.line * place
        for label in row:
            width = full_width(label, sizes)
            marks.append(Mark(label, at, line, tags_of(label), sizes=sizes))
            dots += [] if route.edge.walked else [(at + width + _BESIDE / 2, line)]
            at += width + _BESIDE
    return replace(route, marks=tuple(marks), dots=tuple(dots[:-1]))
