"""
Read pipe tables: rows, headers, and rows as words that can be read alone.
"""

import re
from collections.abc import Sequence
from typing import Final

CELL_CHARS_MAX: Final = 240
COLUMNS_MAX: Final = 40
_BAR = re.compile(r"(?<!\\)\|")


def pairs_of(header: Sequence[str], cells: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """
    Return the cells of a row with their headers, without cells that hold only a dash.

    Args:
        header: The headers; without any, the first of two cells names the second, as in a list of properties.
        cells: The row.

    Returns:
        Pairs of header, perhaps empty, and value.
    """
    if not header and len(cells) == 2 and len(cells[0]) <= 40:
        header, cells = (cells[0].strip(":"),), cells[1:]
    heads = (*header, *("" for _ in cells))
    return tuple((head, cell) for head, cell in zip(heads, cells, strict=False) if cell.strip("-–— "))


def header_of(cells: tuple[str, ...], marked: bool) -> tuple[str, ...]:
    """
    Return the headers of a table that begins with the row *cells*; none if that row is data.

    Args:
        cells: The first row.
        marked: Whether a row of dashes follows. Without one, a row with a digit is data; with one, a first row of two cells
            whose second is long is data too: such a table lists properties, "| Present | Anna, Bob and Chen Li |".
    """
    if not marked:
        return () if any(character.isdigit() for cell in cells for character in cell) else cells
    pairs = len(cells) == 2 and (
        len(cells[1].split()) > 4 or (any(map(str.isdigit, cells[1])) and len(cells[1]) > 8)
    )
    return () if pairs else cells


def delimits(line: str) -> bool:
    """Whether *line* is the row of dashes between a table's header and its body."""
    return "|" in line and "-" in line and not line.strip("|:- ")


def cells_of(line: str) -> tuple[str, ...]:
    """Return the trimmed cells of the table line *line*, each cut to a readable length."""
    parts = _BAR.split(line.strip().removeprefix("|").removesuffix("|"))[:COLUMNS_MAX]
    cells = []
    for part in parts:
        cell = re.sub(r"<br ?/?>", " / ", part).replace("\\|", "|").replace("**", "").strip()
        if len(cell) > CELL_CHARS_MAX:
            cell = cell[:CELL_CHARS_MAX].rsplit(" ", 1)[0] + " …"
        cells.append(cell)
    return tuple(cells)
