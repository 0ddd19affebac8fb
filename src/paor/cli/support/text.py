"""
Text for people: foreign text made harmless, numbers with units, columns and wrapping.

Objectives, answers, names and messages come from users, models and tools. On a terminal a control character in
them could move the cursor, recolour or hide what stands there, so each becomes a visible picture of itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import click
from rich.cells import cell_len, chop_cells, set_cell_size

CUT = "…"
_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {0x7F: "\u2421"}
_HIDDEN = [*range(0x80, 0xA0), 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)]
_HARMLESS = _PICTURES | dict.fromkeys(_HIDDEN, "\ufffd")
"""C0 controls as their pictures; C1 controls, direction overrides and lone surrogates as the replacement mark."""

_BULLET = re.compile(r"\s*(?:[-*+>] |\d{1,3}[.)] )?")


def harmless(text: str) -> str:
    """Return *text* with every control character but line feed and tab made visible."""
    return text.replace("\r\n", "\n").translate(_HARMLESS)


def one_line(text: str) -> str:
    """Return *text* harmless and on one line."""
    return harmless(" ".join(text.split()))


def cut(text: str, width: int) -> str:
    """Return one line within *width* terminal cells, with a mark when something was cut."""
    line = one_line(text)
    if cell_len(line) <= width:
        return line
    return set_cell_size(line, max(0, width - 1)).rstrip() + CUT


def folded(text: str, width: int) -> list[str]:
    """Return *text* as lines of at most *width* cells, broken at spaces where there are any."""
    lines: list[str] = []
    for paragraph in harmless(text).expandtabs(4).split("\n"):
        lines += _paragraph(paragraph, max(8, width))
    return lines


def _paragraph(text: str, width: int) -> list[str]:
    """Wrap one line; what follows hangs under the text of a list item."""
    if cell_len(text) <= width:
        return [text.rstrip()]
    match = _BULLET.match(text)
    hang = " " * min(len(match[0]) if match else 0, width // 2)
    lines, line = [], ""
    for word in re.findall(r"\s*\S+", text):
        if line.strip() and cell_len(line) + cell_len(word) > width:
            lines.append(line.rstrip())
            word = hang + word.lstrip()
            line = ""
        line += word
        if cell_len(line) > width:
            *whole, line = chop_cells(line, width)
            lines += whole
    return [*lines, line.rstrip()]


def count(number: int, noun: str) -> str:
    """Return ``1 step``, ``5,210 tokens``: the noun in its right number."""
    plural = noun if number == 1 else f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"


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


STYLES: dict[str, dict[str, object]] = {
    "": {},
    "head": {"dim": True},
    "dim": {"dim": True},
    "strong": {"bold": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "warn": {"fg": "yellow"},
}


def styled(text: str, style: str) -> str:
    """Return *text* with the colours of *style*; what is printed without colours takes them out again."""
    options = STYLES[style]
    return click.style(text, **options) if options and text else text  # type: ignore[arg-type]


STATE_STYLES = {"done": "good", "failed": "bad", "waiting": "warn", "running": ""}
"""Style of a run's state by its status."""


class Column(NamedTuple):
    """
    One column of a table.

    Attributes:
        head: Its heading.
        right: Whether numbers stand to the right.
        wide: Whether it gets what the others leave, its text being wrapped or cut.
        least: Cells that it has at least; with none it is left out when all its cells are empty.
    """

    head: str
    right: bool = False
    wide: bool = False
    least: int = 0


def table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    width: int,
    *,
    wrap: bool = False,
    head: bool = True,
) -> list[str]:
    """
    Return a table as lines of at most *width* cells.

    Args:
        columns: Left to right; one of them may be wide.
        rows: Cells of one line each.
        width: Cells of the terminal.
        wrap: Wrap the wide column's text over further lines instead of cutting it.
        head: Whether the headings come first.
    """
    cells = [[Cell(one_line(cell.text), cell.style) for cell in row] for row in rows]
    used = [
        index
        for index, column in enumerate(columns)
        if column.wide or column.least or any(row[index].text for row in cells)
    ]
    columns = [columns[index] for index in used]
    cells = [[row[index] for index in used] for row in cells]
    widths = [
        max([column.least, cell_len(column.head), *(cell_len(row[index].text) for row in cells)])
        for index, column in enumerate(columns)
    ]
    fixed = sum(own for own, column in zip(widths, columns, strict=True) if not column.wide) + 2 * (
        len(columns) - 1
    )
    widths = [
        max(8, min(own, width - fixed)) if column.wide else own
        for own, column in zip(widths, columns, strict=True)
    ]
    lines = (
        _row([Cell(column.head, "head") for column in columns], columns, widths, wrap=False) if head else []
    )
    for row in cells:
        lines += _row(row, columns, widths, wrap=wrap)
    return lines


def _row(row: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int], *, wrap: bool) -> list[str]:
    """Return one row of a table, in more lines when a cell is wrapped."""
    stacks = [
        (folded(cell.text, own) if wrap and column.wide else [cut(cell.text, own)])
        for cell, column, own in zip(row, columns, widths, strict=True)
    ]
    lines = []
    for level in range(max(map(len, stacks))):
        texts = [stack[level] if level < len(stack) else "" for stack in stacks]
        parts = [
            (" " * (own - cell_len(text)) + styled(text, cell.style))
            if column.right
            else (styled(text, cell.style) + " " * (own - cell_len(text)))
            for text, cell, column, own in zip(texts, row, columns, widths, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
    return lines


def facts(pairs: Iterable[tuple[str, str, str]], width: int, *, lines_max: int = 4) -> list[str]:
    """
    Return names and values in two columns; a value is wrapped, at most *lines_max* lines.

    Args:
        pairs: Name, value and the value's style; an empty value leaves the pair out, an empty name goes on.
        width: Cells of the terminal.
        lines_max: Lines of one value.
    """
    kept = [pair for pair in pairs if pair[1]]
    names = max((len(name) for name, _, _ in kept), default=0)
    lines = []
    for name, value, style in kept:
        found = folded(value, width - names - 2)
        texts = found[:lines_max]
        if len(found) > lines_max:
            texts[-1] = f"{cut(texts[-1], width - names - 4).removesuffix(CUT)} {CUT}"
        for index, text in enumerate(texts):
            head = styled(name.ljust(names), "dim") if index == 0 else " " * names
            lines.append(f"{head}  {styled(text, style)}".rstrip())
    return lines
