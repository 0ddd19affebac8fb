"""
Which layout a picture has, and the one for any table.

The fixed one (`seven_phases`) is used when all edges have a place in it and nothing clashes, with a host's own phases and
rows above it (`own_phases`). Else the ladder: one column per phase, one line per edge, which has room for any table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from ...states.run.phase_names import FAILED, PHASES
from .geometry import (
    BOLD,
    FULL,
    Kind,
    Layout,
    Mark,
    Rect,
    Route,
    Sizes,
    full_width,
    name_lines,
    tags_of,
    width_of,
)
from .graph import Edge, Graph, plain
from .own_phases import PLAIN, Manner, own_phases
from .seven_phases import seven_phases


def layout_of(graph: Graph, sizes: Sizes = FULL) -> Layout:
    """Return the fixed layout where it fits, if need be with more room below the boxes; else the ladder."""
    manner = _manner(graph, sizes) if graph.has_own and sizes.compact else PLAIN
    for deep in sizes.deeper:
        fixed = own_phases(graph, deep, sizes, manner) if graph.has_own else seven_phases(graph, deep, sizes)
        if fixed is not None and not fixed.clashes:
            return fixed
    return _ladder(graph, sizes)


# -- a host's own machine ------------------------------------------------------------------------------------------

_BESIDE_ALL = 84.0
"""To the left of the seven phases, where words have no room elsewhere."""
_ROUNDS = 5
"""How often ways whose words have no room choose another track."""
_NEAR = 5.0
"""Two lines that are nearer to each other than that look like one."""
_Found = tuple[tuple[int, int, float], Layout, Manner]
"""What is wrong with a layout, the layout, and its manner."""


def _manner(graph: Graph, sizes: Sizes) -> Manner:
    """Return the manner in which a host's own machine is best drawn: the first whose words all have room, or else the best of all."""
    first = own_phases(graph, 0.0, sizes)
    if first is None:
        return PLAIN

    def drawn(manner: Manner) -> Layout:
        layout = own_phases(graph, 0.0, sizes, manner)
        assert layout is not None, "it has places for all edges in any manner"
        return layout

    banded = first.width > sizes.width + sizes.aside and drawn(Manner(banded=True)).width < first.width
    found = []
    for left in (0.0, _BESIDE_ALL):
        found.append(_mended(drawn, [Manner(banded, steep, left) for steep in (True, False)]))
        if not _astray(found[-1][1]):
            break
    return min(found, key=lambda item: item[0])[2]


def _astray(layout: Layout) -> list[Edge]:
    """Return the own ways that have words without room."""
    own = (edge for edge in crowded_edges(layout) if edge.own and edge.dest not in (FAILED, edge.source))
    return list(dict.fromkeys(own))


def _mended(drawn: Callable[[Manner], Layout], manners: Sequence[Manner]) -> _Found:
    """Return the best layout of some manners, in which ways whose words have no room have chosen other tracks."""

    def best_of(those: Sequence[Manner]) -> _Found:
        return min(
            ((_wrong(layout), layout, one) for one in those for layout in [drawn(one)]),
            key=lambda item: item[0],
        )

    wrong, best, manner = best_of(manners)
    for _ in range(_ROUNDS):
        astray = _astray(best)
        if not astray:
            break
        others = []
        for edge in astray[:3]:
            turns = tuple(one for one in manner.turns if one != edge)
            after = tuple(one for one in manner.after if one != edge)
            others.append(manner._replace(turns=(edge, *turns), after=after))
            others.append(manner._replace(turns=turns, after=(*after, edge)))
        own = sum(box not in PHASES for box in best.boxes)
        others += [manner._replace(swaps=(*manner.swaps, place)) for place in range(own - 1)]
        nearest = best_of(others)
        if nearest[0] >= wrong:
            break
        wrong, best, manner = nearest
    return wrong, best, manner


def crowded_edges(layout: Layout) -> list[Edge]:
    """Return the edges that have words on another word, a box or a line, or outside the picture."""
    marks = [(route.edge, mark.rect) for route in layout.routes for mark in route.marks]
    lines = (piece for route in layout.routes for piece in route.pieces)
    others = [*layout.boxes.values(), *lines, *layout.corners]
    found = []
    for edge, rect in marks:
        outside = rect.x < 0 or rect.y < 0 or rect.right > layout.width or rect.low > layout.height
        rest = (one for _, one in marks if one is not rect)
        if outside or any(rect.meets(other) for other in (*others, *rest)):
            found.append(edge)
    return found


def _wrong(layout: Layout) -> tuple[int, int, float]:
    """Return what is wrong with a layout, the worst first: words without room, lines on lines, and crossings and height."""
    pieces = [
        (route, piece) for route in layout.routes if route.edge.dest != FAILED for piece in route.pieces
    ]
    upright = [(route, piece) for route, piece in pieces if piece.width <= 2]
    level = [(route, piece) for route, piece in pieces if piece.width > 2]
    crossings = sum(one.meets(two) for way, one in upright for other, two in level if way is not other)
    loose = sum(_is_loose(route) for route in layout.routes if route.kind == "own")
    covered = 0
    for (way, one), (other, two) in combinations(upright, 2):
        if way is not other and abs(one.x - two.x) < _NEAR and one.y < two.low and two.y < one.low:
            shared = way.points[0] == other.points[0] or way.points[-1] == other.points[-1]
            covered += not shared
    return len(crowded_edges(layout)), covered, crossings + 3 * loose + layout.height / 20


def _is_loose(route: Route) -> bool:
    """Return whether the words of a way with a level part stand only beside it, not above it."""
    if len(route.points) != 4 or not route.marks:
        return False
    ends = sorted(x for x, _ in route.points[1:3])
    left, right = min(mark.x for mark in route.marks), max(mark.rect.right for mark in route.marks)
    return right - 12 < ends[0] or left + 12 > ends[1]


# -- any other table -----------------------------------------------------------------------------------------------

_GAP, _PADDING = 48.0, 24.0
_CLOSE, _SNUG = 10.0, 10.0
"""The same where room is scarce: between two phases, and around a name."""


def _ladder(graph: Graph, sizes: Sizes) -> Layout:
    """Return one column per phase and one line per edge: as wide as the widest text, as high as it needs."""
    phases, left = graph.phases, 24 + sizes.start
    gap, padding = (_CLOSE, _SNUG) if sizes.compact else (_GAP, _PADDING)
    names = [
        name for phase in phases for name in (name_lines(phase, sizes) if phase in graph.own else (phase,))
    ]
    box = max([sizes.box[0] - 10, *(width_of(plain(name), sizes.name * BOLD) + padding for name in names)])
    pitch = max(box + gap, min(480.0, (sizes.width - left) / max(1, len(phases))))
    high = sizes.header + 16
    tall = sizes.box[1] - 6 if not sizes.compact else sizes.box[1]
    boxes = {phase: Rect(left + pitch * place, high, box, tall) for place, phase in enumerate(phases)}
    y, right, routes = high + tall + 18, left + pitch * len(phases) - gap, []
    for edge in graph.edges:
        route, y = _draw_rung(edge, boxes, y, sizes)
        routes.append(route)
        right = max([right, *(mark.rect.right for mark in route.marks)])
    first = boxes.get(graph.initial)
    start = ((first.x - 32, first.middle[1]), (first.x, first.middle[1])) if first else None
    wide, low = max(sizes.width, right + 24), y + 16 + sizes.legend
    return Layout(wide, low, boxes, start, tuple(routes), y, sizes)


def _draw_rung(edge: Edge, boxes: dict[str, Rect], y: float, sizes: Sizes) -> tuple[Route, float]:
    """Return one line of the ladder below *y*, and where it ends."""
    x1, x2 = boxes[edge.source].middle[0], boxes[edge.dest].middle[0]
    widths, line = [full_width(label, sizes) for label in edge.labels], sizes.line
    stays = edge.source == edge.dest
    left = [x1 + 36 if stays else max(16.0, (x1 + x2) / 2 - width / 2) for width in widths]
    places = enumerate(zip(edge.labels, left, strict=True))
    marks = tuple(
        Mark(label, x, y + line * (n + 0.5), tags_of(label), sizes=sizes) for n, (label, x) in places
    )
    if stays:
        low = y + max(18.0, line * len(widths))
        return Route(edge, "loop", ((x1, y), (x1 + 26, y), (x1 + 26, low), (x1, low)), marks), low + 14
    at = y + line * len(widths) + 3
    near = list(boxes).index(edge.dest) == list(boxes).index(edge.source) + 1
    kind: Kind = "fail" if edge.dest == FAILED else "back" if x2 < x1 else "flow" if near else "skip"
    return Route(edge, kind, ((x1, at), (x2, at)), marks), at + 14
