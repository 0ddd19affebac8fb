"""
Tables of PDF pages: which lines are the rows of one, told by where their cells are. Pure.

A file knows no tables: it has runs of text at places. Lines that stand in the same columns, with room between these that none of them
crosses, are a table where three rows or more have several cells. A row is what stands on one height, wrapped cells included: of a cell
with several lines these come one after the other, or a line has text in none of the columns that begin a row.
Not covered: cells that span columns, which end a table, and smaller tables, whose rows are lines with bars.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

_NEAR = 3.5
"""Rows are at most this many times the type size apart."""
_LEVEL = 0.8
"""Lines are on one height that are less than this many times the type size apart: cells may be centred beside a wrapped one."""
_WRAPPED = 1.35
"""Lines of one cell are at most this many times the type size apart."""
_PROSE_CHARS, _PROSE_WIDTH = 20, 0.6
"""Of the lines of running text in a column: characters, and share of the column's width, at least."""
_ROWS_MIN = 3
"""Rows with several cells that a table has at least: two may be a page's header and what happens to stand under it."""
_LINES_MAX, _COLUMNS_MAX = 400, 40
"""Of one table; what comes after so many lines is another one."""
_NUMBER = re.compile(r"\(?(?:[a-zA-Z]|[ivxlc]{1,5})[.)]|\(?\d{1,3}(?:\.\d{1,3})*[.)]?")
_LABEL = re.compile(r"\d{1,3}[a-z]?")
"""What numbers the lines of a form: one under another is no rest of it, nor is the text beside it."""


class PageCell(NamedTuple):
    """A run of text in a line, apart from the others."""

    text: str
    x: float
    end: float
    y: float
    size: float


class PageRow(NamedTuple):
    """A row of a table: its height on the page, and a text for each column."""

    y: float
    cells: list[str]


def tables(lines: Sequence[Sequence[PageCell]]) -> Iterator[tuple[int, int, list[PageRow]]]:
    """Yield the first line, the end, and the rows of each table among *lines* of one page, in their order."""
    done = start = 0
    while start < len(lines):
        begin, columns = _begun(lines, start, done)
        end, columns = _grown(lines, begin, start, columns)
        cells = [cell for line in lines[begin:end] for cell in line]
        rows = _rows(cells, columns) if end - start > 1 else []
        if _is_table(rows, end - begin) and not _is_prose(cells, columns):
            yield begin, end, rows
            start = done = end
        else:
            start += max(1, (end - start) // 2)  # else each line is looked at again and again


_Column = tuple[float, float]


def _begun(lines: Sequence[Sequence[PageCell]], start: int, done: int) -> tuple[int, list[_Column]]:
    """Return where a table begins whose first line of several cells is *start*, and its columns: cells before may be wrapped ones."""
    columns = [(cell.x, cell.end) for cell in lines[start]]
    begin = start
    if not 1 < len(columns) <= _COLUMNS_MAX:
        return begin, columns
    y, size = lines[start][0].y, lines[start][0].size
    while done < begin > start - _COLUMNS_MAX and len(lines[begin - 1]) == 1 and len(columns) < _COLUMNS_MAX:
        cell = lines[begin - 1][0]
        wider = _with(columns, [cell])
        is_beside = abs(cell.y - y) < _NEAR * size and (begin < start or cell.y < y + 0.3 * size)
        own = start - begin and _column(cell, columns) == _column(lines[begin][0], columns)
        if wider is None or not is_beside or not (own or len(wider) > len(columns)):
            break
        columns, begin = wider, begin - 1
    return begin, columns


def _grown(
    lines: Sequence[Sequence[PageCell]], begin: int, start: int, columns: list[_Column]
) -> tuple[int, list[_Column]]:
    """Return where a table ends that has a line, and its columns; lines of one cell at its end are none of it."""
    end, kept = start + 1, columns
    if not 1 < len(columns) <= _COLUMNS_MAX:
        return end, kept
    low = min(line[0].y for line in lines[begin : start + 1])
    for number in range(start + 1, min(len(lines), start + _LINES_MAX)):
        line = lines[number]
        y, size = line[0].y, line[0].size
        if not low - _NEAR * size < y < lines[start][0].y + _NEAR * size:
            break
        wider = _with(columns, line)
        if wider is None or len(wider) > _COLUMNS_MAX or (len(line) == 1 and len(wider) > len(columns)):
            break
        columns = wider
        goes_on = _column(line[0], columns) > 0 and y > low - _WRAPPED * size
        if len(line) > 1 or goes_on or y > low - _LEVEL * size:
            end, kept = number + 1, columns
        low = min(low, y)
    return end, kept


def _with(columns: list[_Column], line: Sequence[PageCell]) -> list[_Column] | None:
    """Return *columns* with the cells of a line in them; None where one of these crosses the room between two."""
    if len(line) > _COLUMNS_MAX:
        return None
    columns = list(columns)
    taken = set[int]()
    for cell in line:
        slack = 0.2 * cell.size
        hit = [at for at, (x, end) in enumerate(columns) if cell.x < end - slack and x < cell.end - slack]
        if len(hit) > 1 or (hit and hit[0] in taken):
            return None
        if hit:
            x, end = columns[hit[0]]
            columns[hit[0]] = min(x, cell.x), max(end, cell.end)
        else:
            columns.append((cell.x, cell.end))
        taken.add(hit[0] if hit else len(columns) - 1)
    return sorted(columns)


def _rows(cells: Sequence[PageCell], columns: Sequence[_Column]) -> list[PageRow]:
    """Return the rows that cells make, from the top."""
    rows: list[PageRow] = []
    low = inf
    labels = sorted((cell.y, _column(cell, columns)) for cell in cells if _LABEL.fullmatch(cell.text))
    for run in sorted(_runs(cells, columns), key=lambda run: -run[0].y):
        first, column = run[0], _column(run[0], columns)
        text = " ".join(cell.text for cell in run)
        is_level = first.y > low - _LEVEL * first.size
        # the rest of a cell whose first line stands in the row above
        goes_on = column > 0 and first.y > low - _WRAPPED * first.size and rows[-1].cells[column] != ""
        if labels and goes_on and not is_level:
            near = (bisect_left(labels, (first.y + part * first.size, 0)) for part in (-0.3, 0.3))
            goes_on = not any(_LABEL.fullmatch(rows[-1].cells[at]) for _, at in labels[slice(*near)])
        if is_level or goes_on:
            rows[-1].cells[column] = f"{rows[-1].cells[column]} {text}".strip()
        else:
            rows.append(PageRow(first.y, [""] * len(columns)))
            rows[-1].cells[column] = text
        low = min(low, run[-1].y) if is_level else run[-1].y
    return rows


def _runs(cells: Sequence[PageCell], columns: Sequence[_Column]) -> list[list[PageCell]]:
    """Return cells, those together that the file has as the lines of one: what comes behind them is higher up again."""
    runs: list[list[PageCell]] = []
    for cell in cells:
        last = runs[-1][-1] if runs else None
        is_below = last is not None and 0 < last.y - cell.y < _NEAR * cell.size
        is_below = is_below and not (last and _LABEL.fullmatch(last.text) and _LABEL.fullmatch(cell.text))
        if last is not None and is_below and _column(last, columns) == _column(cell, columns):
            runs[-1].append(cell)
        else:
            runs.append([cell])
    followed = [*(run[0].y for run in runs[1:]), 0.0]
    return [
        part
        for run, after in zip(runs, followed, strict=True)
        for part in ([run] if after > run[-1].y + 0.2 * run[-1].size else [[cell] for cell in run])
    ]


def _column(cell: PageCell, columns: Sequence[_Column]) -> int:
    """Return the column of a cell: the last that begins before its end."""
    return sum(x < cell.end - 0.2 * cell.size for x, _ in columns[1:])


def _is_table(rows: Sequence[PageRow], lines: int) -> bool:
    """Whether rows, of so many lines, are a table that is not as well read line by line, and no text in columns or numbered list."""
    filled = [[text for text in row.cells if text] for row in rows]
    if sum(len(texts) > 1 for texts in filled) < _ROWS_MIN:
        return False
    is_sparse = 2 * sum(map(len, filled)) < len(rows) * len(rows[0].cells)
    is_plain = lines == len(rows) and all(len(row) == len(rows[0].cells) == 2 for row in filled)
    firsts = [row.cells[0] for row in rows if row.cells[0]]
    bullets = sum(not any(map(str.isalnum, first)) for first in firsts)
    is_list = 2 * bullets >= len(firsts) or all(map(_NUMBER.fullmatch, firsts))
    return not (is_plain or is_sparse or is_list)


def _is_prose(cells: Sequence[PageCell], columns: Sequence[_Column]) -> bool:
    """Whether cells are lines of running text in columns: in two of them they are long, and most fill the column's width."""
    full = 0
    for number, (x, end) in enumerate(columns):
        own = [cell for cell in cells if _column(cell, columns) == number]
        chars, width = sum(len(cell.text) for cell in own), sum(cell.end - cell.x for cell in own)
        full += chars > _PROSE_CHARS * len(own) and width > _PROSE_WIDTH * (end - x) * len(own)
    return full > 1
