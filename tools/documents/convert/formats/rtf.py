"""Read RTF with striprtf: the text, and tables row by row; type, pictures and fields are left out."""

import re
from itertools import groupby
from typing import Any

from .conversion import Converted, cell_of, one_line, table_of, tidy

MIME = "application/rtf"
_TITLE = re.compile(r"\{\\title ([^{}\\]{1,300})\}")


def read_rtf(data: bytes, charset: str = "") -> Converted:
    """Turn an RTF file into text with its tables as Markdown."""
    from striprtf.striprtf import rtf_to_text

    source = data.decode("latin-1")
    read: Any = rtf_to_text  # it says that it is typed and is not
    lines = str(read(source, errors="replace")).split("\n")
    parts: list[str] = []
    for is_table, found in groupby(lines, lambda line: line.rstrip().endswith("|")):
        group = list(found)
        rows = [[cell_of(cell) for cell in line.rstrip()[:-1].split("|")] for line in group]
        parts += ["", table_of(rows, max(map(len, rows))), ""] if is_table else group
    stated = _TITLE.search(source[:100_000])
    return Converted(tidy("\n".join(parts)), MIME, one_line(stated[1]) if stated else None)
