"""
What stands where in the SVG: boxes, routes and labels, as plain numbers; and how much room a text takes.

Text is measured by `width_of`, on the safe side: an SVG does not know the reader's font.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import inf
from typing import Literal, NamedTuple
from unicodedata import east_asian_width

from .graph import Edge, Label, plain

Kind = Literal["flow", "skip", "back", "loop", "fail", "own"]
Point = tuple[float, float]

FONT = 12.0
"""Size of a label in px; names of phases are larger."""
BOLD = 1.12
"""How much wider bold text is."""
BADGE = 16.0
"""Height of a badge, such as the one with the place in the order of first use."""
BETWEEN = 5.0
"""Between the parts of a mark."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """
    How large the parts of a picture are, in px; as they are here, those of a picture that stands by itself.

    Attributes:
        compact: Whether room is scarce, and counts are written later, if at all. Then lists stand centred, a name is nearer to its
            line than its count, and own phases are as narrow as their names in two lines.
        longest: How wide a trigger may be; it is shortened where it is wider.
        font, name: Sizes of the text of labels and of phases' names.
        line: From one label to the one below it.
        width: Of the seven phases and what is around them.
        header, legend: Height that title and subtitle take, and the legend.
        rim: Free at every side.
        start: Length of the arrow to the first phase.
        box: Width and height of one of the seven phases.
        pitch, left: From one phase to the next, and where the first one begins.
        room: From the header to the boxes.
        lane, lanes: From the header to the outermost lane, and from one lane to the next.
        short: From the boxes up to the way between two phases side by side.
        words: From a line up to the middle of its words.
        above, below: From the main flow to its names and to its counts.
        nudge: How far its names stand to the left of the middle, for the sake of the arrow's head.
        loop, list: How deep a loop is, and from it to its first word.
        fall: From the middle of a box to where its way to Failed leaves.
        rail, fallen: From the boxes to the way to Failed, and from that up to its words.
        beside: From a way down to its words.
        deeper: How much lower that way may be, in the order in which it is tried.
        foot: Below the lowest box, above the legend.
        own: Padding of an own phase's name, at both sides together.
        narrowest: Least width of an own phase.
        gates: Where own ways enter and leave Specifying, from its middle.
        track: From one own way to the next.
        under: Below the last one.
        edge: Between the outermost things and the ends of the picture.
        gap: Least between two own phases.
        apart, ends: Least between the words of two own phases, and around those of a way between them.
        top: From the header to the rail of own phases.
        coil: How high the loop of an own phase is.
        aside: From Failed to the rail that comes down beside it.
    """

    compact: bool = False
    longest: float = inf
    font: float = FONT
    name: float = 15.0
    line: float = 17.0
    width: float = 1100.0
    header: float = 76.0
    legend: float = 44.0
    rim: float = 8.0
    start: float = 40.0
    box: tuple[float, float] = (106.0, 50.0)
    pitch: float = 177.0
    left: float = 81.0
    room: float = 150.0
    lane: float = 24.0
    lanes: float = 34.0
    short: float = 24.0
    words: float = 12.0
    above: float = 12.0
    below: float = 14.0
    nudge: float = 3.0
    loop: float = 26.0
    list: float = 14.0
    fall: float = 43.0
    rail: float = 138.0
    fallen: float = 42.0
    beside: float = 8.0
    deeper: tuple[float, ...] = (0.0, 51.0)
    foot: float = 27.0
    own: float = 28.0
    narrowest: float = 118.0
    gates: tuple[float, float] = (44.0, 0.0)
    track: float = 29.0
    under: float = 14.0
    edge: float = 24.0
    gap: float = 60.0
    apart: float = 16.0
    ends: float = 44.0
    top: float = 10.0
    coil: float = 24.0
    aside: float = 26.0

    def port(self, offset: float) -> float:
        """Return how far from the middle of a box of this size a line meets it that meets a full one *offset* from there."""
        return offset * self.box[0] / 106


FULL = Sizes()


_ROUND = 4.0
"""From a corner to where its round line is as good as straight."""


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
        sizes: Of the picture.
        most: How wide the trigger may be; it is shortened where it is wider.
    """

    label: Label
    x: float
    y: float
    tags: tuple[Tag, ...] = ()
    name: bool = True
    sizes: Sizes = FULL
    most: float = inf

    @property
    def text(self) -> str:
        """Return the trigger as it is shown."""
        return cut(self.label.trigger, min(self.most, self.sizes.longest), self.sizes.font * BOLD)

    @property
    def rect(self) -> Rect:
        """Return the room it takes, as estimated."""
        high = self.sizes.line
        wide = mark_width(self.label, self.tags, self.sizes, name=self.name, most=self.most)
        return Rect(self.x, self.y - high / 2, wide, high)


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
        sizes: Of its parts.
    """

    width: float
    height: float
    boxes: dict[str, Rect]
    start: tuple[Point, Point] | None
    routes: tuple[Route, ...]
    columns: float | None = None
    sizes: Sizes = FULL

    @property
    def corners(self) -> Iterator[Rect]:
        """Return the room on the inner side of the lines' round corners; none where there is room enough around all words."""
        for route in self.routes if self.sizes.compact else ():
            for before, (x, y), after in zip(route.points, route.points[1:], route.points[2:], strict=False):
                left = min(before[0], after[0]) < x - 1
                above = min(before[1], after[1]) < y - 1
                yield Rect(x - _ROUND * left, y - _ROUND * above, _ROUND, _ROUND)

    @property
    def clashes(self) -> bool:
        """Return whether a text lies on another one, on a box or on a line, or outside the picture."""
        marks = [mark.rect for route in self.routes for mark in route.marks]
        lines = (piece for route in self.routes for piece in route.pieces)
        others = [*self.boxes.values(), *lines, *self.corners]
        rim, high = self.sizes.rim, self.sizes.header
        right, low = self.width - rim, self.height - self.sizes.legend
        return (
            any(mark.x < rim or mark.y < high or mark.right > right or mark.low > low for mark in marks)
            or any(one.meets(two) for one, two in combinations(marks, 2))
            or any(mark.meets(other) for mark in marks for other in others)
        )


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


Entry = tuple[Label, tuple[Tag, ...], bool]
"""A line of a list: what it is about, its signs, and whether it shows the trigger."""


def entries(labels: Iterable[Label], sizes: Sizes, room: float, *, stacked: bool = False) -> list[Entry]:
    """
    Return labels as the lines of a list.

    Args:
        labels: Of one edge.
        sizes: Of the picture.
        room: How wide a line may be; where room is scarce the signs of a wider one stand on a line below it.
        stacked: Whether two signs or more always do.
    """
    lines: list[Entry] = []
    for label in labels:
        tags = tags_of(label)
        wide = sizes.compact and full_width(label, sizes) > room
        if tags and (wide or (stacked and len(tags) > 1)):
            lines += [(label, (), True), (label, tags, False)]
        else:
            lines.append((label, tags, True))
    return lines


def name_lines(name: str, sizes: Sizes) -> tuple[str, ...]:
    """Return the name of an own phase in the lines in which its box shows it: two, where it is long and room is scarce."""
    name = plain(name)
    if not sizes.compact or width_of(name, sizes.name * BOLD) <= sizes.narrowest:
        return (name,)
    parts = [at for at in range(1, len(name)) if name[at].isupper() and not name[at - 1].isupper()]
    if not parts and len(name) < 16:
        return (name,)
    at = min(parts or range(1, len(name)), key=lambda at: abs(width_of(name[:at]) - width_of(name[at:])))
    return name[:at], name[at:]


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


def tag_width(tag: Tag, sizes: Sizes = FULL) -> float:
    """Return the width of a sign: plain text, or a badge around it."""
    if tag.look == "times":
        return width_of(tag.text, sizes.font)
    return max(BADGE, 8 + 6 * len(tag.text) if tag.look == "place" else 10 + width_of(tag.text, 10 * BOLD))


def mark_width(
    label: Label, tags: tuple[Tag, ...], sizes: Sizes = FULL, *, name: bool, most: float = inf
) -> float:
    """Return how wide a mark is: trigger and tags with the spaces between them; the trigger is at *most* that wide."""
    size, most = sizes.font * (BOLD if label.count else 1), min(most, sizes.longest)
    parts = [min(most, width_of(plain(label.trigger), size))] if name else []
    parts += [tag_width(tag, sizes) for tag in tags]
    return sum(parts) + BETWEEN * (len(parts) - 1)


def full_width(label: Label, sizes: Sizes = FULL) -> float:
    """Return the width of a label with everything that belongs to it in one line."""
    return mark_width(label, tags_of(label), sizes, name=True)
