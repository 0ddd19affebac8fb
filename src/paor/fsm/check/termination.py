"""
Why no walk goes on for ever: in every loop there is a counter that only grows and that has a bound. Pure.

The edges of a graph are taken apart: of each strongly connected part a counter is looked for that no edge within lowers;
the edges that raise it can be taken only as often as its bound allows, so no endless walk takes them for ever, and they
are left out. What then still hangs together is taken apart again. When nothing is left, every endless walk would use up
some bound, and there is none: the counters found, in this order, are a lexicographic ranking. What is left otherwise is a
loop without a bound.

A part is looked at by its edges alone, so this holds for any graph; `fsm.check.state_space` gives that of a world.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar


class Arc(Protocol):
    """What is asked of an edge."""

    @property
    def source(self) -> int:
        """Where it begins."""

    @property
    def dest(self) -> int:
        """Where it ends."""

    @property
    def raised(self) -> tuple[str, ...]:
        """Bounded counters that it raises."""

    @property
    def lowered(self) -> tuple[str, ...]:
        """Counters that it lowers."""


A = TypeVar("A", bound=Arc)


def unbounded_parts(arcs: Iterable[A], *, outside: Callable[[A], bool] = lambda arc: False) -> list[list[A]]:
    """
    Return the parts of a graph in which a walk can go on for ever without using up a bound.

    Args:
        arcs: All edges.
        outside: Edges that somebody outside bounds; they are left out.

    Returns:
        For each part its edges; empty when every walk ends.
    """
    found: list[list[A]] = []
    open_parts = [[arc for arc in arcs if not outside(arc)]]
    while open_parts:
        for part in _parts_of(open_parts.pop()):
            if rising := _rising_counters(part):
                open_parts.append([arc for arc in part if not set(rising).intersection(arc.raised)])
            else:
                found.append(part)
    return found


def _parts_of(arcs: Sequence[A]) -> list[list[A]]:
    """Return the edges within each strongly connected part that holds a loop (Kosaraju's algorithm, without recursion)."""
    leads, comes = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for arc in arcs:
        leads[arc.source].append(arc.dest)
        comes[arc.dest].append(arc.source)
    part: dict[int, int] = {}
    for root in reversed(_left_in_order(leads)):
        line = [root]
        while line:
            node = line.pop()
            if node not in part:
                part[node] = root
                line += comes[node]
    within = defaultdict[int, list[A]](list)
    for arc in arcs:
        if part[arc.source] == part[arc.dest]:
            within[part[arc.source]].append(arc)
    return list(within.values())


def _left_in_order(leads: Mapping[int, list[int]]) -> list[int]:
    """Return all nodes in the order in which a search in depth leaves them."""
    found: set[int] = set()
    left: list[int] = []
    line = [(node, False) for node in leads]
    while line:
        node, is_done = line.pop()
        if is_done:
            left.append(node)
        elif node not in found:
            found.add(node)
            line.append((node, True))
            line += ((following, False) for following in leads.get(node, ()))
    return left


def endless_walk(arcs: Sequence[A]) -> list[A]:
    """
    Return a closed walk through a part that `unbounded_parts` gave, which can be gone again and again.

    It is a shortest loop; and for every counter that it raises it also goes by an edge that lowers it.
    """
    leads = defaultdict[int, list[A]](list)
    for arc in arcs:
        leads[arc.source].append(arc)
    loops = (_way(start, start, leads) for start in sorted(leads))
    walk = min((loop for loop in loops if loop), key=len)
    start = walk[0].source
    while risen := _rising_counters(walk):
        back = next(arc for arc in arcs if risen[0] in arc.lowered)
        there = _way(start, back.source, leads) if back.source != start else []
        home = _way(back.dest, start, leads) if back.dest != start else []
        walk = [*walk, *there, back, *home]
    return walk


def _rising_counters(arcs: Sequence[Arc]) -> list[str]:
    """Return the counters that some edge raises and none lowers."""
    lowered = {name for arc in arcs for name in arc.lowered}
    return sorted({name for arc in arcs for name in arc.raised} - lowered)


def _way(start: int, end: int, leads: Mapping[int, list[A]]) -> list[A]:
    """Return a shortest way of at least one edge, no edges when there is none."""
    via: dict[int, A] = {}
    line = [start]
    for node in line:
        for arc in leads.get(node, ()):
            if arc.dest == end:
                way = [arc]
                while way[0].source != start:
                    way.insert(0, via[way[0].source])
                return way
            if arc.dest not in via and arc.dest != start:
                via[arc.dest] = arc
                line.append(arc.dest)
    return []
