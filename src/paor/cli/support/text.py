"""
Text for people: foreign text made harmless, numbers with units, tables and wrapping by the cells that rich counts.

Objectives, answers, names and messages come from users, models and tools. On a terminal a control character in them
could move the cursor, recolour or hide what is printed, so each becomes a visible picture of itself, and that before rich
sees the text: rich drops some control characters and prints others.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple, TextIO

from rich.cells import cell_len, chop_cells, set_cell_size

CUT = "…"
WIDE_LEAST = 8
"""Cells that text has at least, however narrow the terminal is."""

_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {0x7F: "\u2421"}
_HIDDEN = [*range(0x80, 0xA0), 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)]
_SEPARATORS = {0x2028: "\n", 0x2029: "\n"}
_HARMLESS = _PICTURES | dict.fromkeys(_HIDDEN, "\ufffd") | _SEPARATORS
"""C0 controls as their pictures; C1 controls, direction overrides and lone surrogates as the replacement mark."""

_WORD = re.compile(r"\A\s*\S+\s*|\S+\s*")
_BULLET = re.compile(r"\s*(?:[-*+>] |\d{1,3}[.)] )?")


NARROW = 92
"""Below this width tables leave out what can be seen elsewhere: the phase a row comes from, the year of a date."""

SLIM = 78
"""Below this one they keep what tells rows apart and their text: no numbers of single rows, no dates."""


def width(stream: TextIO | None = None) -> int:
    """Return the cells of a line of *stream*: the terminal's, ``COLUMNS``, or 100 for neither; at least 40."""
    with suppress(ValueError):
        return max(40, int(os.environ.get("COLUMNS") or ""))
    with suppress(OSError, ValueError):
        return max(40, os.get_terminal_size((stream or sys.stdout).fileno()).columns)
    return 100


def arrow() -> str:
    """Return an arrow that standard output can show."""
    try:
        "→".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "->"
    return "→"


def harmless(text: str) -> str:
    """Return *text* with every control character but line feed and tab made visible; line separators are line feeds."""
    return text.replace("\r\n", "\n").translate(_HARMLESS)


def one_line(text: str) -> str:
    """Return *text* harmless and on one line."""
    return harmless(" ".join(text.split()))


def cut(text: str, cells: int) -> str:
    """Return one line within *cells* terminal cells, with a mark when something was cut."""
    line = one_line(text)
    if cell_len(line) <= cells:
        return line
    return set_cell_size(line, max(0, cells - 1)).rstrip() + CUT


def folded(text: str, cells: int | None = None) -> list[str]:
    """Return *text* as lines of at most *cells* cells, default the terminal's, broken at spaces where there are any."""
    cells = max(WIDE_LEAST, width() if cells is None else cells)
    paragraphs = harmless(text).expandtabs(4).split("\n")
    return [line for paragraph in paragraphs for line in _paragraph(paragraph, cells)]


def _paragraph(text: str, cells: int) -> list[str]:
    """Wrap one line; what follows hangs under the text of a list item."""
    if cell_len(text) <= cells:
        return [text.rstrip()]
    bullet = _BULLET.match(text)
    lead = bullet[0] if bullet and len(bullet[0]) <= cells // 2 else ""
    lines = _wrapped(text[len(lead) :], cells - cell_len(lead))
    return [f"{' ' * len(lead) if index else lead}{line}".rstrip() for index, line in enumerate(lines)]


def _wrapped(text: str, cells: int) -> list[str]:
    """Break a text at its spaces into lines of at most *cells* cells; a word that is longer is broken, too."""
    lines, line, used = [], "", 0
    for word in _WORD.findall(text):
        length = cell_len(word.rstrip())
        if used + length <= cells:
            line, used = line + word, used + cell_len(word)
            continue
        lines += [line] if line else []
        *whole, line = chop_cells(word, cells) if length > cells else [word]
        lines, used = lines + whole, cell_len(line)
    return [item.rstrip() for item in (*lines, line)]


def answer_lines(answer: str) -> list[str]:
    """Return an answer as it is printed: wrapped on a terminal, else line by line as it is."""
    return folded(answer) if sys.stdout.isatty() else harmless(answer.rstrip("\n")).split("\n")


def count(number: int, noun: str) -> str:
    """Return ``1 step``, ``5,210 tokens``: the noun in its right number."""
    plural = noun if number == 1 else f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"


def cached_text(share: float) -> str:
    """Return what stands behind a number of tokens: how much of the input came from a provider's cache; nothing for none."""
    return f" ({share:.0%} of the input cached)" if share else ""


def duration(seconds: float) -> str:
    """Return a time for people: ``85 ms``, ``1.2 s``, ``2 min 05 s``, ``1 h 02 min``."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"


def local_time(microseconds: int) -> str:
    """Return a moment in the reader's time zone, to the second."""
    try:
        return datetime.fromtimestamp(microseconds / 1e6).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return "?"


def size(number: int) -> str:
    """Return a size for people: ``312 B``, ``4.1 kB``, ``12 MB``."""
    amount = float(number)
    for unit in ("B", "kB", "MB"):
        if amount < 999.5:
            return f"{amount:.1f} {unit}" if amount < 9.95 and unit != "B" else f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} GB"


class Cell(NamedTuple):
    """One cell of a table: its text, and the name of its style (see `STYLES`)."""

    text: str
    style: str = ""


STYLES = {
    "": ("", 0),
    "dim": ("dim", 2),
    "strong": ("bold", 1),
    "good": ("green", 32),
    "bad": ("red", 31),
    "warn": ("yellow", 33),
}
"""What the names of styles mean to rich, and their codes on a terminal."""


def styled(text: str, style: str) -> str:
    """Return *text* with the colours of *style*; what is printed without colours takes them out again."""
    return f"\x1b[{STYLES[style][1]}m{text}\x1b[0m" if style and text else text


STATE_STYLES = {"done": "good", "failed": "bad", "waiting": "warn", "running": ""}
"""Style of a run's state by its status."""


def state_text(state: str, why: str, status: str) -> str:
    """Return the phase of a run with the reason of its end, or what else says how it is, in the colour of its status."""
    return styled(f"{state} ({why})", STATE_STYLES.get(status, ""))


class Column(NamedTuple):
    """
    One column of a table.

    Attributes:
        head: Its heading.
        right: Whether it is aligned to the right, as numbers are.
        wide: Whether it gets what the others leave, its text being wrapped or cut.
        least: Cells that it has at least; with none it is left out when all its cells are empty.
        from_width: Cells of the narrowest terminal on which it is shown.
    """

    head: str
    right: bool = False
    wide: bool = False
    least: int = 0
    from_width: int = 0


def table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    cells: int | None = None,
    *,
    wrap: bool = False,
    head: bool = True,
) -> list[str]:
    """
    Return a table as lines of at most *cells* cells.

    Args:
        columns: Left to right; those that are wide share what the others leave.
        rows: Cells of one line each.
        cells: Cells of a line; default the terminal's.
        wrap: Wrap the wide column's text over further lines instead of cutting it.
        head: Whether the headings come first.
    """
    cells = width() if cells is None else cells
    lines = [[Cell(one_line(cell.text), cell.style) for cell in row] for row in rows]
    own = [
        max(cell_len(text) for text in (column.head, *(row[place].text for row in lines)))
        for place, column in enumerate(columns)
    ]
    used = [
        place
        for place, column in enumerate(columns)
        if cells >= column.from_width
        and (column.wide or column.least or any(row[place].text for row in lines))
    ]
    # only wide columns shrink
    wide = [place for place in used if columns[place].wide]
    widths = {place: max(columns[place].least, own[place]) for place in used if place not in wide}
    room = cells - sum(widths.values()) - 2 * (len(used) - 1)
    for left, place in zip(range(len(wide), 0, -1), sorted(wide, key=lambda place: own[place]), strict=True):
        widths[place] = max(columns[place].least or WIDE_LEAST, min(own[place], room // left))
        room -= widths[place]
    heads = [[Cell(column.head, "dim") for column in columns]] if head else []
    return [
        line
        for row in (*heads, *lines)
        for line in _row_lines([(row[place], widths[place], columns[place].right) for place in used], wrap)
    ]


def _row_lines(row: Sequence[tuple[Cell, int, bool]], wrap: bool) -> Iterator[str]:
    """Yield the lines of one row of a table, of which each cell has its width and whether it is aligned to the right."""
    texts = [_cell_lines(cell.text, cells, wrap) for cell, cells, _ in row]
    for number in range(max(map(len, texts), default=0)):
        pieces = []
        for (cell, cells, right), lines in zip(row, texts, strict=True):
            text = lines[number] if number < len(lines) else ""
            gap, shown = " " * (cells - cell_len(text)), styled(text, cell.style)
            pieces.append(gap + shown if right else shown + gap)
        yield "  ".join(pieces).rstrip()


def _cell_lines(text: str, cells: int, wrap: bool) -> list[str]:
    if cell_len(text) <= cells:
        return [text]
    if not wrap:
        return [set_cell_size(text, cells - 1) + CUT]
    return _wrapped(text, cells)


def facts(
    pairs: Iterable[tuple[str, str, str]], cells: int | None = None, *, lines_max: int = 4
) -> list[str]:
    """
    Return names and values in two columns; a value is wrapped, at most *lines_max* lines.

    Args:
        pairs: Name, value and the value's style; an empty value leaves the pair out, an empty name goes on.
        cells: Cells of a line; default the terminal's.
        lines_max: Lines of one value.
    """
    cells = width() if cells is None else cells
    kept = [pair for pair in pairs if pair[1]]
    names = max((len(name) for name, _, _ in kept), default=0)
    lines = []
    for name, value, style in kept:
        found = folded(value, cells - names - 2)
        texts = found[:lines_max]
        if len(found) > lines_max:
            texts[-1] = f"{cut(texts[-1], cells - names - 4).removesuffix(CUT)} {CUT}"
        for index, text in enumerate(texts):
            head = styled(name.ljust(names), "dim") if index == 0 else " " * names
            lines.append(f"{head}  {styled(text, style)}".rstrip())
    return lines
