"""
Where the parts of a picture lie, as plain numbers, and how much room a text takes.

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
Anchor = Literal["start", "middle", "end"]

FONT, NAME, SIGN = 11.5, 12.0, 10.5
"""Sizes of a trigger, of a phase's name, and of the signs beside a trigger, in px."""
BOLD = 1.12
"""How much wider bold text is."""
BETWEEN = 4.0
"""Between a trigger and its signs."""
LONGEST = 150.0
"""How wide a trigger may be; it is shortened where it is wider."""


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


class Sign(NamedTuple):
    """What is beside a trigger: its place in the order of first use, how often it was taken, or by which of two runs."""

    look: Literal["place", "times", "left", "right"]
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """
    One line of text at an edge: a trigger, its signs, or both.

    Attributes:
        x, y, anchor: Where it is fixed, by which end, and its base line.
        signs: Behind the trigger.
        name: Whether it shows the trigger.
    """

    label: Label
    x: float
    y: float
    anchor: Anchor = "middle"
    signs: tuple[Sign, ...] = ()
    name: bool = True

    @property
    def rect(self) -> Rect:
        """Return the room it takes, as estimated."""
        wide = mark_width(self.label, self.signs, name=self.name)
        left = self.x - wide * {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]
        return Rect(left, self.y - 9.5, wide, 12.5)


@dataclass(frozen=True, slots=True)
class Route:
    """
    One edge: a line of horizontal and vertical pieces, and its marks.

    Attributes:
        kind: What it means for a reader, see the legend.
        points: Corners from source to destination.
        trunk: Whether it shares its first piece with others, and not its last one.
    """

    edge: Edge
    kind: Kind
    points: tuple[Point, ...]
    marks: tuple[Mark, ...]
    trunk: bool = False

    @property
    def pieces(self) -> Iterator[Rect]:
        """Return its straight pieces as thin rectangles."""
        for (x1, y1), (x2, y2) in pairwise(self.points):
            yield Rect(min(x1, x2) - 0.7, min(y1, y2) - 0.7, abs(x1 - x2) + 1.4, abs(y1 - y2) + 1.4)


@dataclass(frozen=True, slots=True)
class Layout:
    """The geometry of the machine: its size, a box for each phase, and a route for each edge."""

    width: float
    height: float
    boxes: dict[str, Rect]
    routes: tuple[Route, ...]

    @property
    def clashes(self) -> bool:
        """Return whether a text lies on another one, on a box or on a line, or outside the picture."""
        marks = [mark.rect for route in self.routes for mark in route.marks]
        others = [*self.boxes.values(), *(piece for route in self.routes for piece in route.pieces)]
        return (
            any(m.x < 0 or m.y < 0 or m.right > self.width or m.low > self.height for m in marks)
            or any(one.meets(two) for one, two in combinations(marks, 2))
            or any(mark.meets(other) for mark in marks for other in others)
        )


def width_of(text: str, size: float = 12.0) -> float:
    """
    Return about how wide *text* is at *size*.

    Source: widths of DejaVu Sans, the widest font that the stylesheet's list is likely to end in.
    """
    return sum(size * _em(char) for char in text)


def _em(char: str) -> float:
    if char in "ijlI.,:;'!| frt()[]-":
        return 0.33 if char in "ijlI.,:;'!| " else 0.42
    if east_asian_width(char) in "WF":
        return 1.05
    return 0.95 if char in "mwMW@%" else 0.8 if char in "×#" else 0.72 if char.isupper() else 0.62


def cut(text: str, width: float, size: float = 12.0) -> str:
    """Return *text* on one line, shortened with an ellipsis where it is wider than *width*."""
    text = plain(text)
    if width_of(text, size) <= width:
        return text
    while text and width_of(text + "…", size) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def count_text(count: int) -> str:
    """Return ``×3``; from ten thousand on in thousands or millions, rounded down."""
    if count >= 1_000_000:
        return f"×{count // 1_000_000}M"
    return f"×{count // 1000}k" if count >= 10_000 else f"×{count}"


def signs_of(label: Label) -> tuple[Sign, ...]:
    """Return the signs of a trigger; none where it was not taken."""
    if not label.count:
        return ()
    if label.sides is not None and label.sides[0] != label.sides[1]:
        one, two = (count_text(count) for count in label.sides)
        signs = (Sign("left", f"A{one}"), Sign("right", f"B{two}"))
        return tuple(sign for sign, count in zip(signs, label.sides, strict=True) if count)
    times = Sign("times", count_text(label.sides[0] if label.sides is not None else label.count))
    return (Sign("place", f"#{label.first}"), times) if label.first else (times,)


def mark_width(label: Label, signs: tuple[Sign, ...], *, name: bool = True) -> float:
    """Return how wide a mark is: trigger and signs with the spaces between them."""
    size = FONT * (BOLD if label.count else 1)
    parts = [min(LONGEST, width_of(plain(label.trigger), size))] if name else []
    parts += [width_of(sign.text, SIGN * BOLD) for sign in signs]
    return sum(parts) + BETWEEN * (len(parts) - 1)


def full_width(label: Label) -> float:
    """Return the width of a label with all its signs in one line."""
    return mark_width(label, signs_of(label))
