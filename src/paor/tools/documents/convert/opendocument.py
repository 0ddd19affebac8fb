"""
Read ODT, ODS, ODP and ODG: what is written in paragraphs, headings, lists, tables, sheets and slides.

The XML goes through the standard library's parser as a stream, and no tree is made of it. Cells give what they show; formulas
are not calculated and macros not run. Not covered: comments, deletions of tracked changes, charts, page headers and footers,
and whether a list is numbered, which only its style says.
"""

import re
from typing import Any
from xml.etree.ElementTree import XMLParser

from .archive import checked_parts, stated_title
from .conversion import ConversionError, Converted, cell_of, one_line, table_of, tidy

MIME = "application/vnd.oasis.opendocument."
KINDS = ("text", "spreadsheet", "presentation", "graphics")
CELLS_MAX = 2_000_000
"""Cells of a file, those included that are repeated or that fill up short rows."""
CHARS_MAX = 10_000_000
COLUMNS_MAX = 16_384
"""Of a sheet, in the programs that make them."""
_CONTENT, _META, _MANIFEST = "content.xml", "meta.xml", "META-INF/manifest.xml"
_LEFT_OUT = frozenset(
    (
        "office:annotation",
        "text:tracked-changes",
        "text:note-citation",
        "office:forms",
        "drawing:object",
        "table:covered-table-cell",
    )
)
_TEXTS = frozenset(("text:p", "text:h"))
CUT = "the file is larger than what is read of one; the rest is left out"


def read_opendocument(data: bytes, charset: str = "") -> Converted:
    """Turn an OpenDocument file into Markdown; notes say what was cut."""
    parts = checked_parts(data, "OpenDocument file", f"{re.escape(_CONTENT)}|mimetype|{re.escape(_MANIFEST)}")
    if b"encryption-data" in parts.get(_MANIFEST, b""):
        raise ConversionError("encrypted", "is protected by a password; save a copy without one")
    if _CONTENT not in parts:
        raise ConversionError("broken", f"has no {_CONTENT}, so it holds no document; save it again")
    writer = _Writer()
    parser = XMLParser(target=writer)
    parser.feed(parts[_CONTENT])
    parser.close()
    mime = parts.get("mimetype", b"").decode("ascii", "replace").strip()
    title, text = stated_title(data, _META) or writer.title, tidy(writer.text())
    if writer.notes and not text:
        raise ConversionError(
            "too_large", f"holds more text than is read of one file ({CHARS_MAX:,} characters)"
        )
    return Converted(text, mime, title, notes=tuple(writer.notes))


class _Writer:
    """Takes the events of the parser and writes Markdown."""

    def __init__(self) -> None:
        self.title: str | None = None
        self.notes: dict[str, None] = {}
        self._blocks: list[tuple[bool, str]] = []
        self._words: list[str] = []
        self._outer: list[tuple[list[str], int]] = []
        self._skipped = self._level = self._lists = self._notes = self._tables = self._slides = 0
        self._is_sheet = self._is_item_begun = self._has_text = False
        self._prefix = self._sheet = ""
        self._rows: list[list[str]] = []
        self._row: list[str] = []
        self._cell: list[str] = []
        self._repeats = {"row": 1, "cell": 1}
        self._cells, self._chars = CELLS_MAX, CHARS_MAX

    def text(self) -> str:
        """Return what was written, without blank lines between the items of a list; nothing if there are only headings of slides."""
        if not self._has_text:
            return ""
        parts: list[str] = []
        for number, (is_item, block) in enumerate(self._blocks):
            tight = is_item and number > 0 and self._blocks[number - 1][0]
            parts += ["\n" if tight else "\n\n", block]
        return "".join(parts)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name, given = _short(tag), {_short(key): value for key, value in attributes.items()}
        if self._skipped or name in _LEFT_OUT:
            self._skipped += 1
        elif name in _TEXTS and not self._notes:
            self._outer.append((self._words, self._level))  # a frame with paragraphs can stand within one
            self._words = []
            self._level = _count(given.get("text:outline-level"), 6) if name == "text:h" else 0
        elif name == "text:note-body":
            self._notes += 1
            self._words.append(" (")
        elif name in ("text:s", "text:tab", "text:line-break"):
            self._words.append(" " if name != "text:line-break" else "\n")
        elif name == "text:list":
            self._lists += 1
        elif name == "text:list-item":
            self._is_item_begun = False
        elif name == "office:spreadsheet":
            self._is_sheet = True
        elif name == "drawing:page":
            self._slides += 1
            self._add(f"## Slide {self._slides}")
        elif name == "presentation:notes":
            self._prefix = "Notes: "
        elif name.startswith("table:"):
            self._start_table(name, given)

    def end(self, tag: str) -> None:
        name = _short(tag)
        if self._skipped:
            self._skipped -= 1
        elif name in _TEXTS and self._notes:
            self._words.append(" ")
        elif name in _TEXTS:
            self._paragraph(re.sub(" ?\n ?", "\n", re.sub(" +", " ", "".join(self._words))).strip())
            self._words, self._level = self._outer.pop()
        elif name == "text:note-body":
            self._notes -= 1
            self._words = ["".join(self._words).rstrip() + ")"]
        elif name == "text:list":
            self._lists -= 1
        elif name.startswith("table:") and self._tables:
            self._end_table(name)

    def data(self, text: str) -> None:
        if not self._skipped:
            self._words.append(re.sub(r"\s+", " ", text))

    def close(self) -> None:
        """Nothing is left to be done."""

    def _add(self, block: str, *, is_item: bool = False) -> None:
        self._chars -= len(block)
        if self._chars < 0:
            self.notes[CUT] = None
        else:
            self._blocks.append((is_item, block))

    def _paragraph(self, text: str) -> None:
        self._has_text = self._has_text or bool(text)
        if self._tables:
            self._cell.append(text)
            return
        if text:
            text, self._prefix = self._prefix + text, ""
        if text and self._level:
            self.title = self.title or (one_line(text) if self._level == 1 else None)
            self._add(f"{'#' * self._level} {one_line(text)}")
        elif text and self._lists:
            mark, self._is_item_begun = ("  " if self._is_item_begun else "- "), True
            self._add("  " * min(self._lists - 1, 8) + mark + text, is_item=True)
        elif text:
            self._add(text)

    def _start_table(self, name: str, given: dict[str, str]) -> None:
        """Tables within cells become text of the cell."""
        if name == "table:table":
            self._tables += 1
            if self._tables == 1:
                self._rows = []
                self._sheet = (
                    f"## {one_line(given.get('table:name', '')) or 'Sheet'}" if self._is_sheet else ""
                )
        elif self._tables == 1 and name == "table:table-row":
            self._row, self._repeats["row"] = [], _count(given.get("table:number-rows-repeated"))
        elif self._tables == 1 and name == "table:table-cell":
            columns = (given.get(f"table:number-columns-{how}") for how in ("repeated", "spanned"))
            self._cell, self._repeats["cell"] = [], max(_count(count, COLUMNS_MAX) for count in columns)

    def _end_table(self, name: str) -> None:
        if name == "table:table":
            self._tables -= 1
            if not self._tables and self._rows:
                width = max(map(len, self._rows))
                kept = max(1, CELLS_MAX // width)
                if len(self._rows) > kept:
                    self.notes[CUT] = None
                self._blocks.append(
                    (False, f"{self._sheet}\n\n{table_of(self._rows[:kept], width)}".lstrip())
                )
        elif self._tables == 1 and name == "table:table-cell":
            self._row += [cell_of("\n".join(filter(None, self._cell)))] * self._repeats["cell"]
        elif self._tables == 1 and name == "table:table-row":
            while self._row and not self._row[-1]:
                self._row.pop()
            wanted = self._repeats["row"] if self._row else 0
            cells = max(1, len(self._row))
            chars = 4 * cells + sum(map(len, self._row))
            fits = min(wanted, self._chars // chars, self._cells // cells)
            self._rows += [self._row] * fits
            self._chars, self._cells = self._chars - fits * chars, self._cells - fits * cells
            if fits < wanted:
                self.notes[CUT] = None


def _short(tag: str) -> str:
    """Return the name of an element or attribute with the usual short form of its namespace: ``text:p``."""
    space, _, name = tag[1:].partition("}")
    parts = space.split(":")
    return f"{parts[-2]}:{name}" if len(parts) > 1 else name


def _count(given: Any, most: int = CELLS_MAX) -> int:
    """Return a count as an attribute gives it, 1 where it is missing or no number."""
    digits = str(given or "1")
    return max(1, min(most, int(digits))) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 1
