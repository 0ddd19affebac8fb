"""
Where everything of the SVG stands: boxes, routes and labels, as plain numbers.

Two layouts. The fixed one is made by hand for the seven phases: the main flow from left to right, ways back and
shortcuts above it, loops below, every way to Failed on one rail. It is used when all edges have a place in it and
nothing clashes. Else the ladder: one column per phase, one line per edge, which has room for any table.

Text is measured by `width_of`, on the safe side: an SVG does not know the reader's font.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Literal, NamedTuple
from unicodedata import east_asian_width

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
from .graph import Edge, Graph, Label, plain

Kind = Literal["flow", "skip", "back", "loop", "fail"]
Point = tuple[float, float]

FONT = 12.0
"""Size of a label in px; names of phases are larger."""
LINE = 17.0
"""From one label to the one below it."""
HEADER = 76.0
"""Height that title and subtitle take."""
LEGEND = 44.0
"""Height that the legend takes."""
BOLD = 1.12
"""How much wider bold text is."""
BADGE = 16.0
"""Height of a badge, such as the one with the place in the order of first use."""
BETWEEN = 5.0
"""Between the parts of a mark."""


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle by its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Return its right side."""
        return self.x + self.width

    @property
    def low(self) -> float:
        """Return its lower side."""
        return self.y + self.height

    @property
    def middle(self) -> Point:
        """Return its centre."""
        return self.x + self.width / 2, self.y + self.height / 2

    def meets(self, other: Rect) -> bool:
        """Return whether the two share any area."""
        return self.x < other.right and other.x < self.right and self.y < other.low and other.y < self.low


class Tag(NamedTuple):
    """A sign beside a trigger: its place in the order of first use, how often it was taken, or by which of two runs."""

    look: Literal["place", "times", "left", "right"]
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """
    One piece of text at an edge: a trigger, or its tags, or both.

    Attributes:
        label: What it is about.
        x, y: Left end and middle line.
        tags: Its signs; a place stands before the trigger, the others behind it.
        name: Show the trigger.
    """

    label: Label
    x: float
    y: float
    tags: tuple[Tag, ...] = ()
    name: bool = True

    @property
    def rect(self) -> Rect:
        """Return the room it takes, as estimated."""
        return Rect(self.x, self.y - LINE / 2, mark_width(self.label, self.tags, name=self.name), LINE)


@dataclass(frozen=True, slots=True)
class Route:
    """
    One edge: a line of horizontal and vertical pieces, and its marks.

    Attributes:
        edge: What it draws.
        kind: What it means for a reader, as the legend tells.
        points: Corners from source to destination.
        marks: Its texts.
        dots: Between texts that stand side by side.
    """

    edge: Edge
    kind: Kind
    points: tuple[Point, ...]
    marks: tuple[Mark, ...]
    dots: tuple[Point, ...] = ()

    @property
    def pieces(self) -> Iterator[Rect]:
        """Return its straight pieces as thin rectangles."""
        for (x1, y1), (x2, y2) in pairwise(self.points):
            yield Rect(min(x1, x2) - 1, min(y1, y2) - 1, abs(x1 - x2) + 2, abs(y1 - y2) + 2)


@dataclass(frozen=True, slots=True)
class Layout:
    """
    A picture's geometry.

    Attributes:
        width, height: Of the whole, header and legend included.
        boxes: One per phase.
        start: Corners of the arrow that leads to the initial phase.
        routes: One per edge.
        columns: Lower end of the ladder's columns; None in the fixed layout.
    """

    width: float
    height: float
    boxes: dict[str, Rect]
    start: tuple[Point, Point] | None
    routes: tuple[Route, ...]
    columns: float | None = None

    @property
    def clashes(self) -> bool:
        """Return whether a text lies on another one, on a box or on a line, or outside the picture."""
        marks = [mark.rect for route in self.routes for mark in route.marks]
        others = [*self.boxes.values(), *(piece for route in self.routes for piece in route.pieces)]
        right, low = self.width - 8, self.height - LEGEND
        return (
            any(mark.x < 8 or mark.y < HEADER or mark.right > right or mark.low > low for mark in marks)
            or any(one.meets(two) for one, two in combinations(marks, 2))
            or any(mark.meets(other) for mark in marks for other in others)
        )


def layout_of(graph: Graph) -> Layout:
    """Return the fixed layout where it fits, if need be with more room below the boxes; else the ladder."""
    for deep in (0.0, _DEEP):
        fixed = _seven_phases(graph, deep)
        if fixed is not None and not fixed.clashes:
            return fixed
    return _ladder(graph)


# -- measuring -----------------------------------------------------------------------------------------------------


def width_of(text: str, size: float = FONT) -> float:
    """
    Return about how wide *text* is at *size*.

    Source: widths of DejaVu Sans, the widest font that the stylesheet's list is likely to end in.
    """
    return sum(size * _em(char) for char in text)


def _em(char: str) -> float:
    if char in "ijlI.,:;'!| ":
        return 0.33
    if char in "frt()[]-":
        return 0.42
    if east_asian_width(char) in "WF":
        return 1.05
    return 0.95 if char in "mwMW@%" else 0.8 if char == "×" else 0.72 if char.isupper() else 0.62


def cut(text: str, width: float, size: float = FONT) -> str:
    """Return *text* on one line, shortened with an ellipsis where it is wider than *width*."""
    text = plain(text)
    if width_of(text, size) <= width:
        return text
    while text and width_of(text + "…", size) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def count_text(count: int) -> str:
    """Return ``×3``; from ten thousand on in thousands or millions, rounded down."""
    for size, unit in ((1_000_000, "M"), (10_000, "k")):
        if count >= size:
            return f"×{count // (1000 if unit == 'k' else size)}{unit}"
    return f"×{count}"


def tags_of(label: Label) -> tuple[Tag, ...]:
    """Return the signs of a trigger; none where it was not taken."""
    if not label.count:
        return ()
    if label.sides is not None and label.sides[0] != label.sides[1]:
        one, two = (count_text(count) for count in label.sides)
        tags = (Tag("left", f"A{one}"), Tag("right", f"B{two}"))
        return tuple(tag for tag, count in zip(tags, label.sides, strict=True) if count)
    times = Tag("times", count_text(label.sides[0] if label.sides is not None else label.count))
    return (Tag("place", str(label.first)), times) if label.first else (times,)


def tag_width(tag: Tag) -> float:
    """Return the width of a sign: plain text, or a badge around it."""
    if tag.look == "times":
        return width_of(tag.text)
    return max(BADGE, 8 + 6 * len(tag.text) if tag.look == "place" else 10 + width_of(tag.text, 10 * BOLD))


def mark_width(label: Label, tags: tuple[Tag, ...], *, name: bool) -> float:
    """Return how wide a mark is: trigger and tags with the spaces between them."""
    parts = [width_of(plain(label.trigger), FONT * (BOLD if label.count else 1))] if name else []
    parts += [tag_width(tag) for tag in tags]
    return sum(parts) + BETWEEN * (len(parts) - 1)


def full_width(label: Label) -> float:
    """Return the width of a label with everything that belongs to it in one line."""
    return mark_width(label, tags_of(label), name=True)


# -- the seven phases ----------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 1100.0, 510.0
_BOX = (106.0, 50.0)
_PITCH, _LEFT = 177.0, 81.0
_TOP = HEADER + 150
_MIDDLE, _BOTTOM = _TOP + _BOX[1] / 2, _TOP + _BOX[1]
_RAIL = _BOTTOM + 138
_DEEP = 3 * LINE
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


def _seven_phases(graph: Graph, deep: float) -> Layout | None:
    """Return the layout for the seven phases, or None where an edge has no place in it."""
    if set(graph.phases) != set(PHASES):
        return None
    boxes = {name: Rect(_LEFT + _PITCH * place, _TOP, *_BOX) for place, name in enumerate(_FLOW)}
    boxes[FAILED] = Rect(boxes[DONE].x, _RAIL + deep - _BOX[1] / 2, *_BOX)
    routes = [_fixed_route(edge, boxes, deep) for edge in graph.edges]
    if graph.initial != PLANNING or None in routes:
        return None
    start = ((boxes[PLANNING].x - 40, _MIDDLE), (boxes[PLANNING].x, _MIDDLE))
    found = tuple(route for route in routes if route is not None)
    return Layout(_WIDTH, _HEIGHT + deep, boxes, start, found)


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
    return Route(edge, kind, ((x1, _TOP), (x1, y), (x2, y), (x2, _TOP)), tuple(marks), tuple(dots[:-1]))


def _short_lane(edge: Edge, boxes: dict[str, Rect]) -> Route:
    """Return the way back from Specifying to Planning, with its names and their signs in lines above it."""
    x1 = boxes[SPECIFYING].middle[0] - _BETWEEN_LANES
    x2 = boxes[PLANNING].middle[0] + _BETWEEN_LANES
    y = _TOP - 24
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
    return Route(edge, "back", ((x1, _TOP), (x1, y), (x2, y), (x2, _TOP)), tuple(marks))


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


# -- any other table -----------------------------------------------------------------------------------------------

_GAP = 48.0


def _ladder(graph: Graph) -> Layout:
    """Return one column per phase and one line per edge: as wide as the widest text, as high as it needs."""
    phases, left = graph.phases, 64.0
    box = max([96.0, *(width_of(plain(phase), 15 * BOLD) + 24 for phase in phases)])
    pitch = max(box + _GAP, min(480.0, (_WIDTH - left) / max(1, len(phases))))
    boxes = {phase: Rect(left + pitch * place, HEADER + 16, box, 44) for place, phase in enumerate(phases)}
    y, right, routes = HEADER + 78, left + pitch * len(phases) - _GAP, []
    for edge in graph.edges:
        route, y = _draw_rung(edge, boxes, y)
        routes.append(route)
        right = max([right, *(mark.rect.right for mark in route.marks)])
    first = boxes.get(graph.initial)
    start = ((first.x - 32, first.middle[1]), (first.x, first.middle[1])) if first else None
    return Layout(max(_WIDTH, right + 24), y + 16 + LEGEND, boxes, start, tuple(routes), y)


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
