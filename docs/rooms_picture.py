"""
The rooms of the house for the documentation: a picture and a table, drawn from the imports as they are.

A floor is a band, a room a box in it, and a box is above everything that it imports. An arrow that others imply is left out, and so
are arrows between floors, since a floor may use all that is below it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / ".ci"))

from rooms import House, read_house

BANDS = (("src/paor", "the face: command line, testing, fuzzing"), ("fsm", "decides, records, drives"))
SIDE_BY_SIDE = (("prompts", "says and reads"), ("tools", "acts"))
GROUND = ("states", "the vocabulary")
BOX, GAP, ROW, PAD, WIDTH = (150, 34), 14, 62, 14, 1010
STYLE = """
.band { fill: #f6f6f3; stroke: #d8d8d0; }
.room { fill: #ffffff; stroke: #3b5b7a; stroke-width: 1.2; }
.arrow { fill: none; stroke: #6f8194; stroke-width: 1; marker-end: url(#tip); }
text { font: 12px "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: #1d1f21; }
.floor { font-weight: 600; font-size: 14px; }
.note, .size { fill: #555a60; font-size: 11px; }
@media (prefers-color-scheme: dark) {
.band { fill: #1f2327; stroke: #3a4047; } .room { fill: #14181c; stroke: #8fb3d6; } .arrow { stroke: #98a8b8; }
text { fill: #e8e8e8; } .note, .size { fill: #b4bac0; } }
""".strip()


class Box(NamedTuple):
    """A room in the picture: where its upper left corner is, in pixels."""

    room: str
    x: float
    y: float


def rooms_table() -> str:
    """Return every room with its purpose, its number of modules, and what it imports: rooms of its floor, floors below."""
    house = read_house()
    lines = ["| room | what it is for | modules | imports |", "|---|---|---|---|"]
    for room, modules in house.rooms.items():
        inner = [module for module in modules if not module.package]
        purpose = " ".join(modules[0].doc.partition("\n\n")[0].split())
        own = {to for to in house.arrows[room] if _floor(to) == _floor(room)}
        below = {_floor(to) for to in house.arrows[room] - own}
        targets = ", ".join(f"`{name}`" for name in [*sorted(own), *sorted(below)])
        lines.append(f"| `{room or 'paor'}` | {purpose} | {len(inner)} | {targets or 'nothing'} |")
    return "\n".join(lines)


def rooms_svg() -> str:
    """Return the picture."""
    house = read_house()
    parts: list[str] = []
    y = PAD
    for floor, note in BANDS:
        height, drawn = _band(house, floor, note, PAD, y, WIDTH - 2 * PAD)
        parts += drawn
        y += height + PAD
    half = (WIDTH - 3 * PAD) / 2
    sides = [
        _band(house, *side, PAD + number * (half + PAD), y, half) for number, side in enumerate(SIDE_BY_SIDE)
    ]
    tallest = max(height for height, _ in sides)
    for number, side in enumerate(SIDE_BY_SIDE):
        parts += _band(house, *side, PAD + number * (half + PAD), y, half, tallest)[1]
    y += tallest + PAD
    height, drawn = _band(house, *GROUND, PAD, y, WIDTH - 2 * PAD)
    parts += drawn
    y += height + PAD
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" role="img" '
        'aria-label="The rooms of paor and what they import">'
    )
    tip = (
        '<defs><marker id="tip" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0,0 L6,3 L0,6 z" fill="#6f8194"/></marker></defs>'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", tip, *parts, "</svg>"]) + "\n"


def _band(
    house: House, floor: str, note: str, x: float, y: float, width: float, height: float = 0
) -> tuple[float, list[str]]:
    """Return the height of a floor's band, at least *height*, and what is drawn in it."""
    rooms = [room for room in house.rooms if _floor(room) == floor]
    graph = {room: house.arrows[room] & set(rooms) for room in rooms}
    rows = _rows(graph, int((width - 2 * PAD + GAP) // (BOX[0] + GAP)))
    height = max(height, 34 + len(rows) * ROW + 4)
    boxes = {box.room: box for box in _placed(rows, x, y + 38, width)}
    drawn = [
        f'<rect class="band" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6"/>',
        (
            f'<text class="floor" x="{x + PAD:.0f}" y="{y + 22:.0f}">{escape(floor)}'
            f'<tspan class="note" dx="10">{escape(note)}</tspan></text>'
        ),
    ]
    drawn += [_arrow(boxes[room], boxes[to]) for room, targets in _reduced(graph).items() for to in targets]
    drawn += [_box(house, boxes[room], floor) for room in sorted(boxes)]
    return height, drawn


def _floor(room: str) -> str:
    floor = room.split(".")[0]
    return floor if floor in ("fsm", "prompts", "tools", "states") else "src/paor"


def _rows(graph: Mapping[str, Iterable[str]], most: int) -> list[list[str]]:
    """Return the rooms from the top row to the bottom one, each above what it imports."""
    depth: dict[str, int] = {}

    def depth_of(room: str) -> int:
        if room not in depth:
            depth[room] = 1 + max((depth_of(to) for to in graph[room]), default=-1)
        return depth[room]

    rows: list[list[str]] = []
    for level in range(max(map(depth_of, graph), default=0), -1, -1):
        row = sorted(room for room in graph if depth[room] == level)
        rows += [row[start : start + most] for start in range(0, len(row), most)]
    return rows


def _placed(rows: list[list[str]], x: float, y: float, width: float) -> Iterable[Box]:
    for number, row in enumerate(rows):
        step = width / len(row)
        for place, room in enumerate(row):
            yield Box(room, x + step * (place + 0.5) - BOX[0] / 2, y + number * ROW)


def _reduced(graph: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    """Return the arrows of *graph* that no longer way implies."""

    def reach(room: str) -> set[str]:
        return {room}.union(*(reach(to) for to in graph[room])) if graph[room] else {room}

    return {
        room: sorted(to for to in targets if not any(to in reach(other) for other in targets if other != to))
        for room, targets in sorted(graph.items())
    }


def _arrow(start: Box, end: Box) -> str:
    x, y = start.x + BOX[0] / 2, start.y + BOX[1]
    to_x, to_y = end.x + BOX[0] / 2, end.y
    bend = (to_y - y) / 2
    return (
        f'<path class="arrow" d="M{x:.0f},{y:.0f} C{x:.0f},{y + bend:.0f} '
        f'{to_x:.0f},{to_y - bend:.0f} {to_x:.0f},{to_y - 1:.0f}"/>'
    )


def _box(house: House, box: Box, floor: str) -> str:
    name = box.room.removeprefix(f"{floor}.") or "paor"
    size = sum(not module.package for module in house.rooms[box.room])
    middle = box.x + BOX[0] / 2
    return (
        f"<g><title>{escape(' '.join(house.rooms[box.room][0].doc.partition(chr(10) * 2)[0].split()))}</title>"
        f'<rect class="room" x="{box.x:.0f}" y="{box.y:.0f}" width="{BOX[0]}" height="{BOX[1]}" rx="4"/>'
        f'<text x="{middle:.0f}" y="{box.y + 15:.0f}" text-anchor="middle">{escape(name)}</text>'
        f'<text class="size" x="{middle:.0f}" y="{box.y + 28:.0f}" text-anchor="middle">'
        f"{size} module{'s' if size != 1 else ''}</text></g>"
    )
