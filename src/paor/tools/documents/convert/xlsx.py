"""
Read XLSX and XLSM: each sheet as a Markdown table of what its cells show, as last saved.

openpyxl streams the rows, so that the size of a sheet on paper costs nothing. Formulas are not calculated and macros
not run: a formula gives the value that was saved with it, or its own text where there is none. Not covered: charts,
pictures, comments, pivot tables and number formats other than dates and plain percentages.
"""

import datetime
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import repeat
from typing import Any

from .archive import checked_parts, stated_title
from .conversion import ConversionError, Converted, cell_of, one_line, table_of, tidy

MIME = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
SHEETS_MAX = 200
ROWS_MAX = 100_000
"""Rows of one sheet that are shown; what comes after them is named in a note."""
CELLS_MAX = 2_000_000
"""Cells of a file that are looked at, empty ones between others included: about 10 seconds (2026-11-22)."""
FILLED_COST = 4
"""Empty cells that a filled one counts as, so that it is about 15 seconds for 500,000 filled ones too."""
CHARS_MAX = 10_000_000
_STRINGS = "xl/sharedStrings.xml"
_STRINGS_MAX = 60_000_000
_PARTS = r"xl/(sharedStrings|worksheets/[^/]+)\.xml"
_SHEETS_BYTES_MAX = 60_000_000
"""XML of all sheets: openpyxl reads one that does not say how large it is to its end before the first row is given."""
_FORMULA = re.compile(rb"<(?:\w+:)?f[\s/>]")
_PERCENT = re.compile(r"0(\.0+)?%\Z")


class _Budget:
    """What may still be read and written of one file."""

    def __init__(self) -> None:
        self.cells, self.chars = CELLS_MAX, CHARS_MAX
        self.formulas = 0
        self.stopped = False

    @property
    def is_spent(self) -> bool:
        self.stopped = self.stopped or self.cells < 0 or self.chars < 0
        return self.stopped


def read_sheets(data: bytes, charset: str = "") -> Converted:
    """Turn a workbook into Markdown: a heading and a table for each sheet with content; notes say what was cut."""
    parts = checked_parts(data, "workbook", _PARTS)
    texts = len(parts.pop(_STRINGS, b""))
    sheets = sum(map(len, parts.values()))
    for what, size, limit in (("texts", texts, _STRINGS_MAX), ("sheets", sheets, _SHEETS_BYTES_MAX)):
        if size > limit:
            raise ConversionError("too_large", f"holds {size:,} bytes of {what}; the limit is {limit:,}")
    return _read(data, formulas=any(map(_FORMULA.search, parts.values())))


def _read(data: bytes, *, formulas: bool) -> Converted:
    """Return a checked workbook as Markdown; *formulas*: there are any, so their own text is looked at too."""
    from openpyxl import load_workbook

    with ExitStack() as opened:

        def sheets_of(*, values: bool) -> list[Any]:
            book = load_workbook(io.BytesIO(data), read_only=True, data_only=values, keep_links=False)
            opened.callback(book.close)
            return list(book.worksheets)

        budget = _Budget()
        notes: list[str] = []
        parts: list[str] = []
        sheets = sheets_of(values=True)
        twins = sheets_of(values=False) if formulas else repeat(None)
        for sheet, twin in zip(sheets[:SHEETS_MAX], twins, strict=False):
            text = _table(_rows(sheet, twin, budget), budget, notes, sheet.title)
            if not text:
                continue
            hidden = " (hidden)" if sheet.sheet_state != "visible" else ""
            parts.append(f"## {one_line(sheet.title) or 'Sheet'}{hidden}\n\n{text}")
            if budget.is_spent:
                notes.append("the file is larger than what is read of one; the rest is left out")
                break
        if len(sheets) > SHEETS_MAX:
            notes.append(f"{len(sheets) - SHEETS_MAX} more sheets are left out")
    if budget.formulas:
        notes.append(
            f"{budget.formulas} formulas have no saved value and are shown as they are written;"
            " open and save the file in its own program to have them calculated"
        )
    return Converted(tidy("\n\n".join(parts)), MIME, stated_title(data), notes=tuple(notes))


def _rows(sheet: Any, twin: Any, budget: _Budget) -> Iterator[list[str]]:
    """Yield the rows of a sheet as texts, without empty cells at their ends."""
    sheet.reset_dimensions()
    if twin is not None:
        twin.reset_dimensions()
    written: Iterable[Any] = twin.iter_rows() if twin is not None else repeat(repeat(None))
    for cells, sources in zip(sheet.iter_rows(), written, strict=False):
        budget.cells -= len(cells) + 1
        if budget.is_spent:
            return
        row = [_shown(cell, source, budget) for cell, source in zip(cells, sources, strict=False)]
        budget.cells -= FILLED_COST * (len(row) - row.count(""))
        while row and not row[-1]:
            row.pop()
        budget.chars -= sum(map(len, row))
        yield row


def _table(rows: Iterable[list[str]], budget: _Budget, notes: list[str], title: str) -> str:
    """Return a sheet's rows as a table without empty rows and columns around it; its first row is the head."""
    kept: list[list[str]] = []
    left_out = 0
    chars = budget.chars
    for row in rows:
        if row and len(kept) < ROWS_MAX:
            kept.append(row)
        elif row:
            left_out += 1
    if not kept:
        return ""
    name = repr(one_line(title))
    if left_out:
        notes.append(f"{left_out:,} rows of the sheet {name} are left out")
    first = min(next((place for place, cell in enumerate(row) if cell), len(row)) for row in kept)
    width = max(map(len, kept)) - first
    columns = max(1, chars // (4 * len(kept)))
    if width > columns:
        notes.append(f"{width - columns:,} columns of the sheet {name} are left out")
        width = columns
    cut = [row[first : first + width] for row in kept]
    text = table_of(cut, width)
    budget.chars = chars - len(text)
    return text


def _shown(cell: Any, source: Any, budget: _Budget) -> str:
    """Return what a cell shows, for a Markdown table."""
    value = cell.value
    written = source.value if source is not None else None
    if value is None and written is not None:
        formula = getattr(written, "text", written)  # of an array formula
        if isinstance(formula, str) and formula.startswith("="):
            budget.formulas += 1
            value = formula
    if value is None:
        return ""
    return cell_of(_text(value, cell))


def _text(value: Any, cell: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime.datetime):
        is_day = value.time() == datetime.time()
        return value.date().isoformat() if is_day else value.isoformat(" ", "seconds")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float | int):
        percent = _PERCENT.match(str(cell.number_format or ""))
        number, unit = (value * 100, "%") if percent else (value, "")
        return (str(number) if isinstance(number, int) else format(number, ".15g")) + unit
    return str(value)
