"""
What stands where in the SVG: boxes, routes and labels, as plain numbers; and how much room a text takes.

Text is measured by `width_of`, on the safe side: an SVG does not know the reader's font.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Literal, NamedTuple
from unicodedata import east_asian_width

from .graph import Edge, Label, plain

Kind = Literal["flow", "skip", "back", "loop", "fail", "own"]
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
