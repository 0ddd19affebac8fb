"""Read RTF with striprtf: the text, and tables row by row; type, pictures and fields are left out."""

import re
from itertools import groupby
from typing import Any

from .conversion import ConversionError, Converted, cell_of, one_line, table_of, tidy

MIME = "application/rtf"
_TITLE = re.compile(r"\{\\title ([^{}\\]{1,300})\}")
_FONTS = re.compile(r"\{[^{}]*\\fonttbl")
_FONTS_STEPS_MAX = 50_000_000
"""Steps of the search for fonts in their table; 300 fonts on one line take 10 million of them."""
_FONTS_REST_MAX = 300
"""Characters after the last semicolon of the table; the search takes their cube."""


def read_rtf(data: bytes, charset: str = "") -> Converted:
    """
    Turn an RTF file into text with its tables as Markdown.

    Raises:
        ConversionError: ``broken`` when its table of fonts is made to take very long.
    """
    from striprtf.striprtf import rtf_to_text

    source = data.decode("latin-1")
    fonts = _font_table(source)
    steps = sum(len("".join(re.findall(r"\\f(\d+)", line))) * len(line) for line in fonts.split("\n"))
    if steps > _FONTS_STEPS_MAX or len(fonts) - fonts.rfind(";") > _FONTS_REST_MAX:
        raise ConversionError(
            "broken", "has a table of fonts that does not end, or that no program would write"
        )
    read: Any = rtf_to_text  # it says that it is typed and is not
    lines = str(read(source, errors="replace")).split("\n")
    parts: list[str] = []
    for is_table, found in groupby(lines, lambda line: line.rstrip().endswith("|")):
        group = list(found)
        rows = [[cell_of(cell) for cell in line.rstrip()[:-1].split("|")] for line in group]
        parts += ["", table_of(rows, max(map(len, rows))), ""] if is_table else group
    stated = _TITLE.search(source[:100_000])
    return Converted(tidy("\n".join(parts)), MIME, one_line(stated[1]) if stated else None)


def _font_table(source: str) -> str:
    """Return the group of fonts, up to the end of the file where it is not closed; nothing without one."""
    found = _FONTS.search(source)
    if found is None:
        return ""
    group, depth = source[found.end() :], 1
    for brace in re.finditer("[{}]", group):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return group[: brace.end()]
    return group
