"""
What is below the picture: every row with its guards in the order in which they are tried, or why two runs part.

The rows of each phase are a block; blocks fill columns from left to right, as evenly as their order allows.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from ..explain.coverage import Coverage, GuardOutcome, RowCoverage
from ..machine.table import OWN, ROWS, STOPS, Row
from .captions import count_words, foreign_words, going_on
from .geometry import BADGE, BOLD, FONT, Tag, count_text, cut, tag_width, width_of
from .graph import Covered, Graph, Parted, RunWalk, plain

MARGIN = 28.0
_COLUMN, _GUTTER = 246.0, 20.0
_ROW, _GUARD, _APART = 17.0, 15.0, 6.0
_HEAD = 30.0
_INDENT = 20.0
_CHIP = 32.0
FOREIGN_LINES = 12
"""Steps that are not in the table which are listed."""


@dataclass(frozen=True, slots=True)
class Panel:
    """
    A panel that is drawn.

    Attributes:
        low: Where the picture ends with it.
        parts: Its SVG elements.
    """

    low: float
    parts: tuple[str, ...]


_Block = tuple[float, list[str]]
"""What is said of one phase: how high it is, and its elements for a left end of 0 and a top of 0."""


def panel_of(graph: Graph, width: float, top: float) -> Panel:
    """Return what is below a picture of this *width* that ends at *top*; nothing below a single run."""
    overlay = graph.overlay
    if isinstance(overlay, RunWalk) or not graph.phases:
        return Panel(top, ())
    if isinstance(overlay, Parted):
        return _reasons(overlay, width, top)
    title = "Every row and its guards, in the order in which they are tried"
    own = graph.has_own
    rows = [_block(graph, phase) for phase in graph.phases if any(row.source == phase for row in graph.rows)]
    low, parts = _section(title, rows, width, top)
    if isinstance(overlay, Covered):
        low, more = _foreign(overlay.coverage, width, low)
        parts += more
    elif overlay is None and (own or graph.rows == ROWS):
        if graph.words:
            blocks = [_words_block(name, meaning) for name, meaning in graph.words.items()]
            low, more = _section("What your own guards mean", blocks, width, low + 4)
            parts += more
        stops = [_stops_block(guard, heading, own=own) for guard, heading in STOP_HEADINGS.items()]
        title = "Why a run stops, in the order in which the reasons are read"
        low, more = _section(title, stops, width, low + 4)
        parts += more
    return Panel(low + 12, tuple(parts))


def _section(title: str, blocks: Sequence[_Block], width: float, top: float) -> tuple[float, list[str]]:
    """Return where a titled part of the panel ends, and its elements: blocks in as many columns as fit."""
    parts = [_rule(width, top), words("head2", MARGIN, top + 28, title)]
    low = top + 44
    count = max(1, min(len(blocks), int((width - 2 * MARGIN + _GUTTER) // (_COLUMN + _GUTTER))))
    pitch = (width - 2 * MARGIN + _GUTTER) / count
    for column, places in enumerate(_columns([height for height, _ in blocks], count)):
        y = top + 44
        for place in places:
            x = MARGIN + pitch * column
            height, inner = blocks[place]
            parts.append(f'<g transform="translate({px(x)} {px(y)})">{"".join(inner)}</g>')
            y += height + 14
        low = max(low, y)
    return low, parts


STOP_HEADINGS = {
    "hard_stop": "hard_stop: read first in a phase",
    "stop_reached": "stop_reached: after each action",
    "answer_present": "answer_present: no action",
    "": "last fail of a phase: no row fitted",
}
"""By the guard that a stop makes hold, when it is read."""


def _stops_block(guard: str, heading: str, *, own: bool) -> _Block:
    """Return the stops that make *guard* hold, each with where it is read and what must hold, in their order."""
    y, parts = _HEAD, _heading(heading)
    for number, stop in enumerate((stop for stop in STOPS if stop.guard == guard), start=1):
        parts.append(words("sub tiny end", 12, y + 8, str(number)))
        parts.append(words("strong", _INDENT, y + 8, stop.reason or "as concluded"))
        y += _ROW
        where = "any phase with a request" if len(stop.phases) > 2 else " or ".join(stop.phases)
        where = "your own phases" if own and stop.phases == (OWN,) else where
        for line in _guard_lines([where, *stop.when]):
            parts.append(words("sub small", _INDENT, y + 7, line))
            y += _GUARD
        y += _APART
    return y, parts


def _words_block(name: str, meaning: str) -> _Block:
    """Return a guard of the host's own with what it means."""
    parts, y = [words("strong yours", 0, 12, cut(name, _COLUMN, 12 * BOLD))], _HEAD - 10
    for line in _wrap_lines(meaning.split(), _COLUMN, 11):
        parts.append(words("sub small", 0, y + 8, cut(line, _COLUMN, 11)))
        y += _GUARD
    return y, parts


def _columns(heights: Sequence[float], count: int) -> list[list[int]]:
    """Return the blocks of each column, in order, so that the highest column is as low as can be."""
    best: dict[tuple[int, int], tuple[float, int]] = {(0, 0): (0.0, 0)}
    for used in range(1, count + 1):
        for end in range(used, len(heights) + 1):
            ways = [
                (max(best[start, used - 1][0], sum(heights[start:end])), start)
                for start in range(used - 1, end)
                if (start, used - 1) in best
            ]
            best[end, used] = min(ways)
    found, end = list[list[int]](), len(heights)
    for used in range(count, 0, -1):
        start = best[end, used][1]
        found.append(list(range(start, end)))
        end = start
    return found[::-1]


def _heading(text: str) -> list[str]:
    line = f'<path class="rule" d="M0 19H{px(_COLUMN)}"/>'
    return [words("strong", 0, 12, cut(text, _COLUMN, 12 * BOLD)), line]


def _block(graph: Graph, phase: str) -> _Block:
    found = graph.overlay.coverage if isinstance(graph.overlay, Covered) else None
    possible = frozenset(found.possible) if found is not None else frozenset()
    y, parts, number, told = _HEAD, _heading(phase), 0, False
    own = [(place, row) for place, row in enumerate(graph.rows) if row.source == phase]
    for place, row in sorted(own, key=lambda item: (item[1].answers, item[0])):
        waits = row.answers
        if waits and not told:
            parts.append(words("sub small", 0, y + 8, "while it waits:"))
            y, told = y + _ROW, True
        number += not waits
        mark = str(number) if not waits else ""
        seen = found.rows[place] if found is not None else None
        y, more = _row(row, mark, seen, place, possible, y, own=graph.words)
        parts += more
    return y, parts


def _row(
    row: Row,
    number: str,
    seen: RowCoverage | None,
    place: int,
    possible: frozenset[GuardOutcome],
    y: float,
    *,
    own: Container[str],
) -> tuple[float, list[str]]:
    """Return one row of the table below *y*, and where it ends."""
    parts = [words("sub tiny end", 12, y + 8, number)] if number else []
    room = _COLUMN - _INDENT - (48 if seen is not None else 0)
    trigger = cut(row.trigger, room, 12 * BOLD)
    rest = cut(f"→ {row.dest}", max(12.0, room - width_of(trigger, 12 * BOLD) - 5))
    look = "strong yours" if row.host else "strong"
    to = f'<tspan class="sub" font-weight="400"> {safe(rest)}</tspan>'
    parts.append(
        f'<text x="{px(_INDENT)}" y="{px(y + 8)}"><tspan class="{look}">{safe(trigger)}</tspan>{to}</text>'
    )
    if seen is not None:
        look = "times strong end" if seen.count else "lacks end small"
        parts.append(words(look, _COLUMN, y + 8, count_text(seen.count) if seen.count else "never"))
    y += _ROW
    if seen is None:
        for line in _guard_lines(row.guards) or ["always"]:
            parts.append(_guard_line(line, y + 7, own))
            y += _GUARD
        return y + _APART, parts
    for one in seen.seen:
        guard = cut(one.guard, _COLUMN - _INDENT - 2 * _CHIP - 10, 11)
        parts.append(words("sub small", _INDENT, y + 7, guard))
        for index, (value, count) in enumerate(((True, one.true), (False, one.false))):
            if GuardOutcome(place, one.guard, value) in possible:
                x = _COLUMN - (2 - index) * _CHIP - (1 - index) * 4
                parts.append(chip("got" if count else "lack", x, y + 3.5, str(value).lower()))
        y += _GUARD + 1
    return y + _APART, parts


def _guard_line(line: str, y: float, own: Container[str]) -> str:
    """Return one line of guards, in which those of the host's own stand out."""
    texts = [text.removesuffix(",") for text in line.split(", ")]
    if not any(text.removeprefix("not ") in own for text in texts):
        return words("sub small", _INDENT, y, line)
    end = "," * line.endswith(",")
    told = ", ".join(
        f'<tspan class="{"yours" if text.removeprefix("not ") in own else "sub"}">{safe(text)}</tspan>'
        for text in texts
    )
    return f'<text class="sub small" x="{px(_INDENT)}" y="{px(y)}">{told}{end}</text>'


def _guard_lines(guards: Sequence[str]) -> list[str]:
    """Return a row's guards in lines that fit a column."""
    texts = [cut(guard, _COLUMN - _INDENT - 8, 11) + "," for guard in guards]
    texts[-1:] = [text.removesuffix(",") for text in texts[-1:]]
    return _wrap_lines(texts, _COLUMN - _INDENT, 11)


def _wrap_lines(texts: Iterable[str], width: float, size: float, most: int = 99) -> list[str]:
    """Return *texts* in lines of at most *width*; the last of *most* lines holds all the rest."""
    lines = list[str]()
    for text in texts:
        if lines and (len(lines) == most or width_of(f"{lines[-1]} {text}", size) <= width):
            lines[-1] += f" {text}"
        else:
            lines.append(text)
    return lines


def _foreign(found: Coverage, width: float, y: float) -> tuple[float, list[str]]:
    """Return the steps that are not in the table, as a list below everything else."""
    if not found.foreign:
        return y, []
    parts = [words("strong lacks", MARGIN, y + 12, foreign_words(found))]
    y += 24
    told = [f"{step.source} {step.trigger} {step.dest} {count_text(step.count)}" for step in found.foreign]
    if len(told) > FOREIGN_LINES + 1:
        told = [*told[:FOREIGN_LINES], f"and {len(told) - FOREIGN_LINES} more"]
    for text in told:
        parts.append(words("sub small", MARGIN, y + 8, cut(text, width - 2 * MARGIN, 11)))
        y += _GUARD
    return y + _APART, parts


# -- two runs ------------------------------------------------------------------------------------------------------


def _reasons(parted: Parted, width: float, top: float) -> Panel:
    """Return both runs with their ends, where they part and what made them."""
    parts, y, left = [_rule(width, top)], top + 30, MARGIN + 92
    for tag, walk in ((Tag("left", "A"), parted.left), (Tag("right", "B"), parted.right)):
        end = plain(walk.status + (f" · {walk.reason}" if walk.reason else ""))
        end = end if walk.state.lower() == walk.status else f"{walk.state}, {end}"
        end = f"{end}, {count_words(walk.transitions, 'transition')}"
        name = cut(walk.title, (width - 2 * MARGIN) / 2)
        parts += [badge(MARGIN, y - 4, tag), words("", MARGIN + 24, y, name)]
        rest = MARGIN + 24 + max(300.0, width_of(name)) + 20
        parts.append(words("sub", rest, y, cut(end, width - MARGIN - rest)))
        y += 24
    told = [("identical", "nothing differs but ids, times and salts")]
    if parted.seq is not None:
        told = [("differ first", f"row {parted.seq:,}, decided in {parted.source or 'no phase'}")]
        told += [("cause", parted.cause), ("", parted.detail), ("then", going_on(parted))]
    y += 6
    for name, text in told:
        room = width - MARGIN - left
        for index, line in enumerate(_wrap_lines(plain(text).split(), room, FONT, 3)):
            parts += [words("sub", MARGIN, y, name)] if name and not index else []
            parts.append(words("strong" if name == "cause" else "", left, y, cut(line, room)))
            y += 19
    return Panel(y + 8, tuple(parts))


# -- small parts ---------------------------------------------------------------------------------------------------


def safe(text: str) -> str:
    """Return *text* for an element or an attribute."""
    return escape(plain(text))


def px(number: float) -> str:
    """Return a coordinate with at most one decimal."""
    return f"{number:.1f}".removesuffix(".0")


def shape(tag: str, look: str, **sizes: float) -> str:
    """Return an element without content; *sizes* are its attributes."""
    given = "".join(f' {name}="{px(size)}"' for name, size in sizes.items())
    return f'<{tag} class="{look}"{given}/>'


def words(look: str, x: float, y: float, text: str) -> str:
    """Return a text; *y* is its base line."""
    style = f'class="{look}" ' if look else ""
    return f'<text {style}x="{px(x)}" y="{px(y)}">{safe(text)}</text>'


def chip(look: str, x: float, y: float, text: str) -> str:
    """Return a small plate with a guard's value; *y* is its middle."""
    plate = shape("rect", "chip", x=x, y=y - 6.5, width=_CHIP, height=13, rx=4)
    return f'<g class="{look}">{plate}{words("tiny mid", x + _CHIP / 2, y + 3.5, text)}</g>'


def badge(x: float, y: float, tag: Tag) -> str:
    """Return a badge; *x* is its left end, *y* its middle."""
    width, look, side = tag_width(tag), "tag", f" {tag.look}"
    if tag.look == "place":
        look, side = "place", ""
    plate = shape("rect", f"badge{side}", x=x, y=y - BADGE / 2, width=width, height=BADGE, rx=BADGE / 2)
    return plate + words(look, x + width / 2, y + 3.5, tag.text)


def _rule(width: float, y: float) -> str:
    return f'<path class="rule" d="M{px(MARGIN)} {px(y)}H{px(width - MARGIN)}"/>'
