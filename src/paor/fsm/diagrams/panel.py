"""
What is below the picture: every row with its guards in the order in which they are tried, or why two runs part.

The rows of each phase are a block of lines; each block goes to the column that is the shortest so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..explain.coverage import Coverage, GuardOutcome
from .captions import legend_of
from .drawing import px, safe, shape, words
from .geometry import BOLD, count_text, cut, width_of
from .graph import Graph, Parted, RunWalk, plain

MARGIN = 28.0
_COLUMN, _GUTTER = 246.0, 20.0
_ROW, _GUARD, _APART, _HEAD = 17.0, 15.0, 6.0, 30.0
_INDENT, _CHIP = 20.0, 32.0


class Panel(NamedTuple):
    """A part of the panel that is drawn: where it ends, and its SVG elements."""

    low: float
    parts: list[str]


def panel_of(graph: Graph, width: float, top: float) -> Panel:
    """Return what is below a picture of this *width* that ends at *top*; nothing below a single run."""
    overlay = graph.overlay
    if isinstance(overlay, RunWalk) or not graph.phases:
        return Panel(top, [])
    if isinstance(overlay, Parted):
        return _lines(legend_of(overlay), width, top)
    title = "Every row and its guards, in the order in which they are tried"
    sources = dict.fromkeys(row.source for row in graph.rows)
    low, parts = _section(
        title, [_block(graph, phase) for phase in graph.phases if phase in sources], width, top
    )
    if isinstance(overlay, Coverage):
        low, more = _lines(legend_of(overlay)[-1:] if overlay.foreign else [], width, low)
        parts += more
    elif graph.words:
        blocks = [_meaning(name, meaning) for name, meaning in graph.words.items()]
        low, more = _section("What your own guards mean", blocks, width, low + 4)
        parts += more
    return Panel(low + 12, parts)


def _section(title: str, blocks: Sequence[Panel], width: float, top: float) -> Panel:
    """Return a titled part of the panel: blocks, each with a left end and a top of 0, in as many columns as fit."""
    parts = [_rule(MARGIN, top, width - 2 * MARGIN), words("head2", MARGIN, top + 28, title)]
    count = max(1, min(len(blocks), int((width - 2 * MARGIN + _GUTTER) // (_COLUMN + _GUTTER))))
    pitch = (width - 2 * MARGIN + _GUTTER) / count
    lows = [top + 44] * count
    for low, inner in blocks:
        column = lows.index(min(lows))
        place = f"{px(MARGIN + pitch * column)} {px(lows[column])}"
        parts.append(f'<g transform="translate({place})">{"".join(inner)}</g>')
        lows[column] += low + 14
    return Panel(max(lows), parts)


def _block(graph: Graph, phase: str) -> Panel:
    """Return the rows of a phase."""
    parts = [words("strong", 0, 12, cut(phase, _COLUMN, 12 * BOLD)), _rule(0, 19, _COLUMN)]
    own = sorted((row.answers, place) for place, row in enumerate(graph.rows) if row.source == phase)
    y = _HEAD
    for number, (_, place) in enumerate(own, 1):
        parts.append(words("sub tiny end", 12, y + 8, str(number)))
        y, more = _row(graph, place, y)
        parts += more
    return Panel(y, parts)


def _row(graph: Graph, place: int, y: float) -> Panel:
    """Return one row of the table below *y*, with how often it and each outcome of its guards was seen, if that was counted."""
    row, found = graph.rows[place], graph.overlay if isinstance(graph.overlay, Coverage) else None
    room = _COLUMN - _INDENT - (48 if found is not None else 0)
    trigger = cut(row.trigger, room, 12 * BOLD)
    rest = cut(
        f"→ {row.dest}{' (waiting)' if row.answers else ''}",
        max(12.0, room - width_of(trigger, 12 * BOLD) - 5),
    )
    look = "strong yours" if row.host else "strong"
    told = f'<tspan class="{look}">{safe(trigger)}</tspan><tspan class="sub" font-weight="400"> {safe(rest)}</tspan>'
    parts = [f'<text x="{px(_INDENT)}" y="{px(y + 8)}">{told}</text>']
    if found is not None:
        count = found.rows[place].count
        look = "times strong end" if count else "lacks end small"
        parts.append(words(look, _COLUMN, y + 8, count_text(count) if count else "never"))
    y += _ROW
    seen = {one.guard: (one.true, one.false) for one in found.rows[place].seen} if found is not None else {}
    for guard in row.guards or ("always",) * (found is None):
        name = guard.removeprefix("not ")
        look, shown = "small yours" if name in graph.words else "sub small", guard if found is None else name
        parts.append(
            words(look, _INDENT, y + 7, cut(shown, _COLUMN - _INDENT - 2 * _CHIP * bool(seen) - 10, 11))
        )
        for index, value in enumerate((True, False)):
            if found is not None and GuardOutcome(place, name, value) in found.possible:
                x = _COLUMN - (2 - index) * _CHIP - (1 - index) * 4
                parts.append(chip("got" if seen[name][index] else "lack", x, y + 3.5, str(value).lower()))
        y += _GUARD
    return Panel(y + _APART, parts)


def _meaning(name: str, meaning: str) -> Panel:
    """Return a guard of the host's own with what it means."""
    parts, y = [words("strong yours", 0, 12, cut(name, _COLUMN, 12 * BOLD))], _HEAD - 10
    for line in _wrapped(meaning, _COLUMN, 11):
        parts.append(words("sub small", 0, y + 8, line))
        y += _GUARD
    return Panel(y, parts)


def _lines(lines: Sequence[str], width: float, top: float) -> Panel:
    """Return lines of text below each other, long ones in up to three."""
    parts, y = [_rule(MARGIN, top, width - 2 * MARGIN)] if lines else [], top + 30 * bool(lines)
    for line in lines:
        for part in _wrapped(line, width - 2 * MARGIN, 12, 3):
            parts.append(words("", MARGIN, y, part))
            y += 19
    return Panel(y, parts)


def chip(look: str, x: float, y: float, text: str) -> str:
    """Return a small plate with a guard's value; *y* is its middle."""
    plate = shape("rect", "chip", x=x, y=y - 6.5, width=_CHIP, height=13, rx=4)
    return f'<g class="{look}">{plate}{words("tiny mid", x + _CHIP / 2, y + 3.5, text)}</g>'


def _wrapped(text: str, width: float, size: float, most: int = 99) -> list[str]:
    """Return *text* in lines of at most *width*; the last of *most* lines is shortened."""
    lines = list[str]()
    for word in plain(text).split():
        if lines and (len(lines) == most or width_of(f"{lines[-1]} {word}", size) <= width):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [cut(line, width, size) for line in lines]


def _rule(x: float, y: float, width: float) -> str:
    return f'<path class="rule" d="M{px(x)} {px(y)}h{px(width)}"/>'
