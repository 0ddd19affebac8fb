"""
Where everything lies: the fixed drawing of the seven phases, and above it a column of whatever else a machine has.

In the column each phase is a box with its ways in lines beside it: at its left those that come up from the seven, at its right those
that lead on, each with its words on its line. Beside the column, all ways to one phase share one upright line, and so do all that come
from one of the seven; between the column and the seven they turn to where they lead. So no line crosses words, whatever the machine.
A table that the drawing has no place for is such a column as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...states.run.phase_names import FAILED, PHASES
from .captions import asks_for
from .geometry import (
    BOLD,
    NAME,
    SIGN,
    Anchor,
    Kind,
    Layout,
    Mark,
    Point,
    Rect,
    Route,
    cut,
    full_width,
    signs_of,
    width_of,
)
from .graph import Edge, Graph
from .seven_phases import BOXES, GATES, HEIGHT, LINE, WIDTH, fixed_route

NAME_WIDTH = 540.0
"""How wide the name of a phase may be; it is shortened where it is wider."""
_TOP, _LEAST, _EDGE = 8.0, 36.0, 24.0
"""Free above the column, least height of a box, and free at both sides."""
_RAIL, _TRACK, _BLOCK = 11.0, 9.0, 14.0
"""From one upright line to the next, from one level line to the next, and from one box to the next."""
_COIL = 20.0
"""How far a loop reaches out."""


def layout_of(graph: Graph) -> Layout:
    """Return the fixed drawing with a column above it where that has room for all, else a column alone."""
    if set(PHASES) <= set(graph.phases):
        fixed = [route for edge in graph.edges if (route := fixed_route(edge)) is not None]
        drawn = {route.edge for route in fixed}
        rest = [edge for edge in graph.edges if edge not in drawn]
        ends = {end for edge in rest for end in (edge.source, edge.dest) if end in PHASES}
        if ends <= {*GATES, FAILED} and all(edge.source != FAILED for edge in rest):
            layout = _Column(graph, BOXES, rest).layout(fixed)
            if not layout.clashes:
                return layout
    return _Column(graph, {}, graph.edges).layout([])


class _Column:
    """A column of phases while it is laid out, with the *docked* ones below it."""

    def __init__(self, graph: Graph, docked: Mapping[str, Rect], edges: Sequence[Edge]) -> None:
        self.graph, self.docked = graph, docked
        self.phases = [phase for phase in graph.phases if phase not in docked]
        self.phases.sort(key=lambda phase: phase != graph.initial)
        self.loops = [edge for edge in edges if edge.source == edge.dest and edge.source not in docked]
        ways = [edge for edge in edges if edge not in self.loops]
        self.rising = [edge for edge in ways if edge.source in docked and edge.dest not in docked]
        self.passing = [edge for edge in ways if edge.source in docked and edge.dest in docked]
        self.leading = [edge for edge in ways if edge.source not in docked]
        before = sorted({edge.source for edge in (*self.rising, *self.passing)}, key=self._outwards)
        after = sorted({edge.dest for edge in (*self.leading, *self.passing)}, key=self._outwards)
        left = _widest(self.rising) + 26 if self.rising else 14.0
        right = max(_widest(self.leading) + 22, _widest(self.loops) + _COIL + 18)
        names = [width_of(cut(name, NAME_WIDTH, NAME * BOLD), NAME * BOLD) for name in self.phases]
        names += [min(NAME_WIDTH, width_of(asks_for(graph, phase), SIGN)) for phase in graph.own]
        boxes = max([70.0, *names]) + 20 if self.phases else 0.0
        self.wide = max(boxes, _widest(self.passing) - left - right + 24)
        total = 2 * _EDGE + left + self.wide + right + _RAIL * (len(before) + len(after))
        self.x = _EDGE + _RAIL * len(before) + left + (max(0.0, WIDTH - total) / 2 if docked else 0.0)
        self.right = self.x + self.wide
        self.rises = {name: self.x - left - _RAIL * n for n, name in enumerate(reversed(before))}
        self.falls = {name: self.right + right + _RAIL * n for n, name in enumerate(after)}
        if docked and FAILED in self.falls:
            self.falls[FAILED] = max(self.falls[FAILED], BOXES[FAILED].right + 16)
        outermost = max([*self.falls.values(), self.right + right]) + 8
        self.width = max(outermost, WIDTH) if docked else outermost
        self.turning = [(name, 0) for name in after if name in docked and name != FAILED]
        self.turning += [(name, 1) for name in reversed(before)]
        self.ys, self.entries = dict[Edge, float](), dict[str, float]()
        self.marks = dict[Edge, tuple[Mark, ...]]()
        self.boxes = dict[str, Rect]()

    def _outwards(self, phase: str) -> tuple[bool, bool, float]:
        """Return the order of upright lines from the inner one to the outer one at the right, in which few cross."""
        docked = phase in self.docked
        return docked, phase == FAILED, BOXES[phase].x if docked else self.graph.phases.index(phase)

    def layout(self, fixed: Sequence[Route]) -> Layout:
        """Return the whole, with the *fixed* routes of the docked phases."""
        y = _TOP
        for phase in self.phases:
            y = self._place_block(phase, y) + _BLOCK
        for edge in self.passing:
            y = self._place_line(edge, self.x + self.wide / 2, y, "middle")
        levels = {turn: y + _TRACK * n for n, turn in enumerate(self.turning)}
        down = y + _TRACK * len(levels) if self.phases or self.passing else 0.0
        self.boxes |= {name: replace(box, y=box.y + down) for name, box in self.docked.items()}
        routes = list[Route]()
        for route in fixed:
            marks = tuple(replace(mark, y=mark.y + down) for mark in route.marks)
            points = tuple((x, at + down) for x, at in route.points)
            routes.append(replace(route, points=points, marks=marks))
        routes += [self._route(edge, levels) for edge in (*self.rising, *self.passing, *self.leading)]
        routes += [self._loop(edge) for edge in self.loops]
        boxes = {name: self.boxes[name] for name in self.graph.phases}
        return Layout(self.width, down + HEIGHT if self.docked else y, boxes, tuple(routes))

    def _place_block(self, phase: str, top: float) -> float:
        """Place a box with the lines beside it below *top*; return where it ends."""
        left = right = top + 4
        if phase in self.falls:
            self.entries[phase] = right + 6
            right += 10
        for edge in self.rising:
            if edge.dest == phase:
                left = self._place_line(edge, self.x - 16, left, "end")
        for edge in self.leading:
            if edge.source == phase:
                right = self._place_line(edge, self.right + 10, right, "start")
        for edge in self.loops:
            if edge.source == phase:
                self.ys[edge] = right + 4
                right += max(20.0, LINE * len(edge.labels)) + 6
                self._write(edge, self.right + _COIL + 8, self.ys[edge] + 11, "start")
        low = max(left, right, top + _LEAST)
        self.boxes[phase] = Rect(self.x, top, self.wide, low - top)
        return low

    def _place_line(self, edge: Edge, x: float, top: float, anchor: Anchor) -> float:
        """Place an edge's words below *top* and its line below them; return where the next may begin."""
        self._write(edge, x, top + 11, anchor)
        self.ys[edge] = top + LINE * len(edge.labels) + 3
        return self.ys[edge] + 3

    def _write(self, edge: Edge, x: float, y: float, anchor: Anchor) -> None:
        self.marks[edge] = tuple(
            Mark(label, x, y + LINE * n, anchor, signs_of(label)) for n, label in enumerate(edge.labels)
        )

    def _route(self, edge: Edge, levels: Mapping[tuple[str, int], float]) -> Route:
        """Return the way of an edge from its source over its line to its destination."""
        y, points = self.ys[edge], list[Point]()
        if edge.source in self.docked:
            gate, rail, level = self._gate(edge.source, 1), self.rises[edge.source], levels[edge.source, 1]
            points += [(gate, self.boxes[edge.source].y), (gate, level), (rail, level), (rail, y)]
        else:
            points.append((self.right, y))
        if edge in self.rising:
            return self._drawn(edge, [*points, (self.x, y)], trunk=True)
        rail, box = self.falls[edge.dest], self.boxes[edge.dest]
        if edge.dest in self.entries or edge.dest == FAILED:
            low = self.entries.get(edge.dest, box.middle[1])
            return self._drawn(edge, [*points, (rail, y), (rail, low), (box.right, low)])
        gate, level = self._gate(edge.dest, 0), levels[edge.dest, 0]
        return self._drawn(edge, [*points, (rail, y), (rail, level), (gate, level), (gate, box.y)])

    def _gate(self, phase: str, out: int) -> float:
        return BOXES[phase].middle[0] + GATES[phase][out]

    def _loop(self, edge: Edge) -> Route:
        y, x = self.ys[edge], self.right
        return self._drawn(edge, [(x, y), (x + _COIL, y), (x + _COIL, y + 18), (x, y + 18)])

    def _drawn(self, edge: Edge, points: Sequence[Point], *, trunk: bool = False) -> Route:
        place = self.graph.phases.index
        far = place(edge.dest) - place(edge.source)
        kind: Kind = (
            "own"
            if edge.own
            else "loop"
            if not far
            else "back"
            if far < 0
            else "flow"
            if far == 1
            else "skip"
        )
        kind = "fail" if edge.dest == FAILED and not edge.own and far else kind
        return Route(edge, kind, tuple(points), self.marks[edge], trunk)


def _widest(edges: Iterable[Edge]) -> float:
    return max((full_width(label) for edge in edges for label in edge.labels), default=0.0)
