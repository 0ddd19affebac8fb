"""
Read ODT, ODS, ODP and ODG: what is written in paragraphs, headings, lists as they are numbered, tables, sheets and slides.

The XML goes through the standard library's parser as a stream, and no tree is made of it. Cells give what they show; formulas
are not calculated and macros not run. Embedded parts are written where they
are: the titles and data of a chart, a sheet, the signs of a formula. Not covered: pictures and the look of charts and formulas, which are counted.
"""

import re
from collections import Counter
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import XMLParser

from . import noted
from .archive import checked_parts, stated_title
from .conversion import (
    PLACES_MAX,
    RAISED,
    ConversionError,
    Converted,
    blocks_of,
    cell_of,
    numeral,
    one_line,
    repeated,
    rows_of,
    table_of,
    tidy,
    whole,
)

MIME = "application/vnd.oasis.opendocument."
KINDS = ("text", "spreadsheet", "presentation", "graphics")
CELLS_MAX = 2_000_000
"""Cells of a file, those included that are repeated or that fill up short rows."""
CHARS_MAX = 10_000_000
COLUMNS_MAX = 16_384
"""Of a sheet, in the programs that make them."""
_CONTENT, _STYLES, _META, _MANIFEST = "content.xml", "styles.xml", "meta.xml", "META-INF/manifest.xml"
_LEFT_OUT = frozenset(("text:note-citation", "text:number", "http:date"))
_APART = {
    "office:annotation": "Comment",
    "text:tracked-changes": "",
    "text:deletion": "",
    **dict.fromkeys(("style:header", "style:header-left", "style:header-first"), "Page header"),
    **dict.fromkeys(("style:footer", "style:footer-left", "style:footer-first"), "Page footer"),
}
"""Elements whose paragraphs are kept apart from the text around them."""
_ASIDE = {
    "http:creator": "",
    "svg-compatible:title": " [picture: {}] ",
    "svg-compatible:desc": " [picture: {}] ",
    "text:ruby-text": " ({})",
    "text:hidden-text": "[hidden: {}] ",
    "presentation:header-decl": "Page header: {}",
    **dict.fromkeys(("presentation:footer-decl", "presentation:date-time-decl"), "Page footer: {}"),
    **dict.fromkeys(
        ("text:page-number", "text:page-count", "text:sheet-name", "text:title", "text:date", "text:time"),
        "{}",
    ),
}
"""Elements within a line, and how their text is written."""
_VALUES = tuple(f"office:{what}value" for what in ("string-", "boolean-", "date-", "time-", ""))
"""Of a cell, for one that says it in no other way; a date is written in this form in any case."""
_TEXTS = frozenset(("text:p", "text:h"))
_LEVELS = 10
_LABEL_MAX = 50
_FORMULA = re.compile(rb"<(?:\w+:)?math[\s>]")
CUT = "the file is larger than what is read of one; the rest is left out"


def read_opendocument(data: bytes, charset: str = "") -> Converted:
    """Turn an OpenDocument file into Markdown; notes say what was cut."""
    wanted = "|".join(map(re.escape, (_CONTENT, _STYLES, "mimetype", _MANIFEST)))
    parts = checked_parts(data, "OpenDocument file", wanted + "|.+/content.xml")
    if b"encryption-data" in parts.get(_MANIFEST, b""):
        raise ConversionError("encrypted", "is protected by a password; save a copy without one")
    if _CONTENT not in parts:
        raise ConversionError("broken", f"has no {_CONTENT}, so it holds no document; save it again")
    around, writer = _Writer(), _Writer(parts)
    for name, target in ((_STYLES, around), (_CONTENT, writer)):
        if name in parts:
            _feed(parts[name], target)
            writer.learn(around)
    writer.seen[noted.FILES] += sum(name.endswith(f"/{_CONTENT}") for name in writer.parts)
    mime = parts.get("mimetype", b"").decode("ascii", "replace").strip()
    title, text = stated_title(data, _META) or writer.title, tidy(writer.text())
    if writer.notes and not text:
        raise ConversionError(
            "too_large", f"holds more text than is read of one file ({CHARS_MAX:,} characters)"
        )
    notes = (*writer.notes, *noted.counted(writer.seen))
    return Converted(text, mime, title, notes=notes, places=rows_of(text, writer.places))


def _feed(part: bytes, target: "_Writer") -> None:
    parser = XMLParser(target=target)
    parser.feed(part)
    parser.close()


@dataclass(slots=True)
class _Level:
    """How the items of one level of a list are labelled."""

    form: str
    before: str
    after: str
    start: int
    shown: int


class _Writer:
    """Takes the events of the parser and writes Markdown."""

    def __init__(self, parts: dict[str, bytes] | None = None) -> None:
        self.parts = {**(parts or {})}
        self.title: str | None = None
        self.notes: dict[str, None] = {}
        self.seen: Counter[str] = Counter()
        self.places: list[str] = []
        self._blocks: list[tuple[str, str]] = []
        self._ends: list[tuple[str, str]] = []
        self._heads: dict[tuple[str, str], None] = {}
        self._words: list[str] = []
        self._outer: list[tuple[list[str], int, bool]] = []
        self._apart: list[tuple[str, list[str], list[str]]] = []
        self._aside: list[list[str]] = []
        self._spans: list[str] = []
        self._skipped = self._level = self._notes = self._tables = self._slides = 0
        self._is_sheet = self._is_item_begun = self._has_text = self._is_labelled = False
        self._prefix = self._sheet = self._author = self._change = self._style = ""
        self._looks: dict[str, str] = {}
        self._styles: dict[str, dict[int, _Level]] = {}
        self._levels: dict[int, _Level] = {}
        self._counts: dict[str, list[int]] = {}
        self._lists: list[str] = []
        self._changes: dict[str, str] = {}
        self._inserted: set[str] = set()
        self._rows: list[list[str]] = []
        self._numbers: list[int] = []
        self._row: list[str] = []
        self._cell: list[str] = []
        self._value, self._is_day = "", False
        self._repeats = {"row": 1, "cell": 1}
        self._covers = (1, 1)
        self._covered: dict[int, tuple[str, int]] = {}
        self._lines = self._column = 0
        self._hidden_columns: list[int] = []
        self._is_hidden_row = False
        self._cells, self._chars = CELLS_MAX, CHARS_MAX

    def learn(self, around: "_Writer") -> None:
        """Take over the styles, and the page headers and footers, that a file keeps in a part for them."""
        self._styles, self._looks = around._styles, around._looks
        self._heads = {**around._heads, **self._heads}
        self.seen[noted.HEADS] = len(self._heads)

    def text(self) -> str:
        """Return what was written, without blank lines between the items of a list; nothing if there are only headings of slides."""
        return blocks_of([*self._blocks, *self._heads, *dict.fromkeys(self._ends)]) if self._has_text else ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name, given = _short(tag), {_short(key): value for key, value in attributes.items()}
        if self._skipped or name in _LEFT_OUT:
            self._skipped += 1
        elif name in _APART:
            self._apart.append((name, [], self._words))
            self._words = []
            self._author = ""
        elif name in _ASIDE:
            self._aside.append(self._words)
            self._words = [given.get("text:string-value", "")]
        elif name in _TEXTS and not self._notes:
            self._outer.append((self._words, self._level, self._is_labelled))
            self._words = []  # a frame with paragraphs can stand within one
            self._level = _count(given.get("text:outline-level"), 6) if name == "text:h" else 0
            self._is_labelled = given.get("text:is-list-header") != "true"
        elif name == "text:span":
            self._spans.append(self._looks.get(given.get("text:style-name", ""), ""))
            if self._spans[-1] == "struck out":
                self._words.append("[struck out: ")
        elif name == "text:note-body":
            self._notes += 1
            self._words.append(" (")
        elif name in ("text:s", "text:tab", "text:line-break"):
            self._words.append(" " if name != "text:line-break" else "\n")
        elif name in ("text:list", "text:list-item", "text:list-header"):
            self._start_list(name, given)
        elif name == "office:spreadsheet":
            self._is_sheet = True
        elif name == "drawing:page":
            self._slides += 1
            hidden = self._looks.get(given.get("drawing:style-name", "")) == "hidden"
            self._add(f"## Slide {self._slides}{' (hidden)' * hidden}")
            self.seen[noted.HIDDEN] += hidden
        elif name == "presentation:notes":
            self._prefix = "Notes: "
        elif name == "drawing:object":
            self._embedded(given.get("http:href", "").removeprefix("./") + f"/{_CONTENT}")
        elif name == "drawing:object-ole":
            self.seen[noted.FILES] += 1
        elif name == "drawing:image":
            self.seen[noted.PICTURES] += not given.get("http:href", "").startswith("./ObjectReplacements/")
        elif name == "text:section" and given.get("text:display", "true") != "true":
            self.seen[noted.HIDDEN] += 1
            self._prefix = "[hidden section] "
        elif name.startswith(("style:", "text:list-", "text:outline-")):
            self._start_style(name, given)
        elif name.startswith("form:"):
            self._field(name, given)
        elif name == "text:insertion":
            self._inserted.add(self._change)
        elif name.startswith("text:change"):
            self._start_change(name, given)
        elif name.startswith("table:"):
            self._start_table(name, given)

    def end(self, tag: str) -> None:
        name = _short(tag)
        if self._skipped:
            self._skipped -= 1
        elif name in _APART and self._apart:
            self._end_apart()
        elif name in _ASIDE and self._aside:
            text = " ".join("".join(self._words).split())
            self._words = self._aside.pop()
            self.seen[noted.HIDDEN] += name == "text:hidden-text"
            if name == "http:creator":
                self._author = text
            elif text and name.endswith("-decl"):
                self._heads["", _ASIDE[name].format(text)] = None
            elif text and not (_ASIDE[name] == "{}" and self._apart and "style:" in self._apart[-1][0]):
                self._words.append(_ASIDE[name].format(text) if text else "")
        elif name in _TEXTS and self._notes:
            self._words.append(" ")
        elif name in _TEXTS:
            self._paragraph(re.sub(" ?\n ?", "\n", re.sub(" +", " ", "".join(self._words))).strip())
            self._words, self._level, self._is_labelled = self._outer.pop()
        elif name == "text:span" and self._spans:
            self._words.append("]" if self._spans.pop() == "struck out" else "")
        elif name == "text:note-body":
            self._notes -= 1
            self._words = ["".join(self._words).rstrip() + ")"]
        elif name == "text:list" and self._lists:
            self._lists.pop()
        elif name in ("presentation:notes", "text:section"):
            self._prefix = ""
        elif name.startswith("table:") and self._tables:
            self._end_table(name)

    def data(self, text: str) -> None:
        if not self._skipped:
            raised = self._spans and self._spans[-1] == "raised" and text.strip().isdigit()
            self._words.append(re.sub(r"\s+", " ", text.translate(RAISED) if raised else text))

    def close(self) -> None:
        """Nothing is left to be done."""

    def _add(self, block: str, name: str = "") -> None:
        self._chars -= len(block)
        if self._chars < 0:
            self.notes[CUT] = None
        else:
            self._blocks.append((name, block))

    def _paragraph(self, text: str) -> None:
        if self._apart:
            self._apart[-1][1].append(text)
            return
        self._has_text = self._has_text or bool(text)
        if self._tables:
            self._cell.append(text)
            return
        if text:
            text, self._prefix = self._prefix + text, ""
        if text and self._level:
            is_first, self._is_item_begun = bool(self._lists) and not self._is_item_begun, True
            label = self._label(self._lists[-1], len(self._lists)) if is_first else ""
            label = label or (self._label("", self._level) if self._is_labelled else "")
            text = f"{label} {text}".lstrip()
            self.title = self.title or (one_line(text) if self._level == 1 else None)
            self._add(f"{'#' * self._level} {one_line(text)}")
        elif text and self._lists:
            depth, label, mark = len(self._lists), "", "  "
            if not self._is_item_begun:
                label, mark = self._label(self._lists[-1], depth), "- "
            self._is_item_begun = True
            if label:
                self._add(f"{label} {text}", self._lists[-1] if re.fullmatch(r"\d{1,3}[.)]", label) else "")
            else:
                self._add("  " * min(depth - 1, 8) + mark + text, self._lists[-1] or "-")
        elif text:
            self._add(text)

    def _embedded(self, name: str) -> None:
        """Write an embedded chart, sheet or text where it is, behind a table that it is in; a formula is part of its line."""
        source = self.parts.pop(name, b"")  # once, should many refer to it
        if _FORMULA.search(source[:1000]):
            self.seen[noted.FORMULAS] += 1
            root = ElementTree.fromstring(source)
            words = (
                "".join(item.itertext())
                for item in root.iter()
                if item.tag.endswith(("}mi", "}mn", "}mo", "}mtext"))
            )
            self._words.append(" ".join(words))
        elif source:
            inner = _Writer()
            inner._chars, inner._cells = self._chars, self._cells
            _feed(source, inner)
            is_chart = b"chart:chart" in source
            # the data of a sheet's chart are cells of the sheet
            kept = (
                text
                for _, text in inner._blocks
                if not (is_chart and self._is_sheet and text.startswith("| "))
            )
            text = "\n\n".join(kept)
            self._chars, self._cells = inner._chars, inner._cells
            self._has_text = self._has_text or bool(text)
            self.seen += inner.seen
            self.seen[noted.CHARTS if is_chart else noted.FILES] += is_chart or not text
            (self._end if self._tables or self._is_sheet else self._add)(text)

    def _start_list(self, name: str, given: dict[str, str]) -> None:
        if name == "text:list":
            style = given.get("text:style-name") or (self._lists[-1] if self._lists else "")
            goes_on = given.get("text:continue-numbering") == "true" or "text:continue-list" in given
            if style not in self._lists and not goes_on:
                self._counts.pop(style, None)
            self._lists.append(style)
        else:
            self._is_item_begun = name == "text:list-header"
            start = given.get("text:start-value", "")
            if name == "text:list-item" and start and self._lists and len(self._lists) <= _LEVELS:
                self._counts.setdefault(self._lists[-1], [-1] * _LEVELS)[len(self._lists) - 1] = (
                    _count(start) - 1
                )

    def _label(self, style: str, depth: int) -> str:
        """Count an item of a list, or a heading, and return what is printed before it; nothing for a bullet."""
        levels = self._styles.get(style, {})
        level = levels.get(depth)
        if level is None or depth > _LEVELS:
            return ""
        counts = self._counts.setdefault(style, [-1] * _LEVELS)
        counts[depth - 1] = level.start if counts[depth - 1] < 0 else counts[depth - 1] + 1
        counts[depth:] = [-1] * (_LEVELS - depth)
        if not level.form:
            return ""
        shown = range(max(1, depth - level.shown + 1), depth + 1)
        known = [
            (levels[place], counts[place - 1]) for place in shown if place in levels and levels[place].form
        ]
        numbers = (numeral(at.start if count < 0 else count, at.form) for at, count in known)
        return (level.before + ".".join(numbers) + level.after).strip()

    def _start_style(self, name: str, given: dict[str, str]) -> None:
        if name in ("text:list-style", "text:outline-style"):
            self._levels = self._styles.setdefault(
                given.get("style:name", "") if name == "text:list-style" else "", {}
            )
        elif name in ("text:list-level-style-number", "text:outline-level-style"):
            before, after = (
                given.get(f"style:num-{place}", "")[:_LABEL_MAX] for place in ("prefix", "suffix")
            )
            level = _Level(given.get("style:num-format", "")[:3], before, after, 1, 1)
            level.start, level.shown = (
                _count(given.get(f"text:{what}")) for what in ("start-value", "display-levels")
            )
            self._levels[_count(given.get("text:level"), _LEVELS)] = level
        elif name == "style:style":
            self._style = given.get("style:name", "")
        elif name.endswith("-properties"):
            strike = given.get("style:text-line-through-style", "none") != "none"
            hidden = given.get("table:display") == "false" or given.get("presentation:visibility") == "hidden"
            raised = given.get("style:text-position", "").startswith("super")
            look = "struck out" if strike else "raised" if raised else "hidden" if hidden else ""
            if look:
                self._looks[self._style] = look

    def _start_change(self, name: str, given: dict[str, str]) -> None:
        """Mark what was inserted, and write what was deleted where it was."""
        key = given.get("text:change-id", "")
        if name == "text:changed-region":
            self._change = given.get("text:id") or next(
                (value for at, value in given.items() if at.endswith("id")), ""
            )
        elif name == "text:change" and self._changes.get(key):
            self._words.append(f"[deleted: {self._changes[key]}]")
            self.seen[noted.TRACKED] += 1
        elif name in ("text:change-start", "text:change-end") and key in self._inserted:
            self._words.append("[inserted: " if name == "text:change-start" else "]")
            self.seen[noted.TRACKED] += name == "text:change-start"

    def _end_apart(self) -> None:
        name, found, self._words = self._apart.pop()
        text = " ".join(" ".join(found).split())
        if name == "text:deletion":
            self._changes[self._change] = text
        elif name == "office:annotation":
            by = f" by {self._author}" if self._author else ""
            self.seen[noted.COMMENTS] += 1
            self._end(f"Comment{by}{self._place()}: {text}")
        elif _APART[name] and len(re.findall(r"\w{2,}", text)) > 1:  # one is the word for a page
            self._heads["", f"{_APART[name]}: {text}"] = None

    def _end(self, text: str) -> None:
        """Write a text after all others."""
        self._chars -= len(text)
        if self._chars < 0:
            self.notes[CUT] = None
        else:
            self._ends.append(("", text))

    def _place(self) -> str:
        if self._tables:
            return f" on row {self._lines + 1}, column {self._column + 1}" + (
                f" of {self._sheet[3:]}" if self._sheet else ""
            )
        about = one_line("".join(self._words)[-60:])
        return f" after “{about}”" if about else ""

    def _field(self, name: str, given: dict[str, str]) -> None:
        """Write a field of a form, with what is filled in."""
        state, value = (
            given.get("form:current-state"),
            given.get("form:current-value", given.get("form:value")),
        )
        if name in ("form:checkbox", "form:radio"):
            value = (
                "☒"
                if (state or given.get("form:state")) == "checked"
                or given.get("form:current-selected") == "true"
                else "☐"
            )
        elif name == "form:option":
            value = given.get("form:label") if given.get("form:current-selected") == "true" else None
        if value is not None:
            self.seen[noted.FIELDS] += 1
            label = one_line(given.get("form:label") or given.get("form:name") or "") or "field"
            self._has_text = True
            self._end(f"Form field {label}: {value}")

    def _start_table(self, name: str, given: dict[str, str]) -> None:
        """Tables within cells become text of the cell."""
        repeats = _count(given.get("table:number-columns-repeated"), COLUMNS_MAX)
        if name == "table:table":
            self._tables += 1
            if self._tables == 1:
                hidden = self._looks.get(given.get("table:style-name", "")) == "hidden"
                self.seen[noted.HIDDEN] += hidden
                self._rows, self._covered, self._lines, self._hidden_columns = [], {}, 0, []
                self._numbers = []
                self._sheet = (
                    f"## {one_line(given.get('table:name', '')) or 'Sheet'}{' (hidden)' * hidden}"
                    if self._is_sheet
                    else ""
                )
                self._column = 0
        elif self._tables != 1:
            return
        elif name == "table:table-column":
            if given.get("table:visibility", "visible") != "visible":
                self._hidden_columns += range(self._column, self._column + repeats)[:1000]
            self._column += repeats
        elif name == "table:table-row":
            self._row, self._repeats["row"] = [], _count(given.get("table:number-rows-repeated"))
            self._is_hidden_row = given.get("table:visibility", "visible") != "visible"
            self._column = 0
        elif name in ("table:table-cell", "table:covered-table-cell"):
            wide, high = (
                _count(given.get(f"table:number-{what}-spanned"), 1000) for what in ("columns", "rows")
            )
            self._cell, self._repeats["cell"], self._covers = [], repeats, (wide, high)
            self._value = next((given[what] for what in _VALUES if what in given), "")
            self._is_day = self._is_sheet and "office:date-value" in given

    def _end_table(self, name: str) -> None:
        if name == "table:table":
            self._tables -= 1
            if not self._tables and self._rows:
                width = max(map(len, self._rows))
                kept = max(1, CELLS_MAX // width)
                if len(self._rows) > kept:
                    self.notes[CUT] = None
                for place in (place for place in self._hidden_columns if place < len(self._rows[0])):
                    self.seen[noted.HIDDEN] += 1
                    self._rows[0] = [*self._rows[0]]
                    self._rows[0][place] = f"[hidden column] {self._rows[0][place]}"
                if self._sheet:
                    sheet = self._sheet[3:].removesuffix(" (hidden)")
                    first, *rest = [
                        f"{sheet}!A{number}" for number in self._numbers[: min(kept, PLACES_MAX + 1)]
                    ]
                    self.places += [first, "", *rest]
                self._blocks.append(("", f"{self._sheet}\n\n{table_of(self._rows[:kept], width)}".lstrip()))
        elif self._tables == 1 and name in ("table:table-cell", "table:covered-table-cell"):
            self._end_cell(covered=name == "table:covered-table-cell")
        elif self._tables == 1 and name == "table:table-row":
            while self._row and not self._row[-1]:
                self._row.pop()
            self._lines += self._repeats["row"]
            if self._is_hidden_row and self._row:
                self.seen[noted.HIDDEN] += self._repeats["row"]
                self._row[0] = f"[hidden row] {self._row[0]}"
            wanted = self._repeats["row"] if self._row else 0
            cells = max(1, len(self._row))
            chars = 4 * cells + sum(map(len, self._row))
            fits = min(wanted, self._chars // chars, self._cells // cells)
            self._rows += [self._row] * fits
            begin = self._lines + 1 - self._repeats["row"]
            self._numbers += range(begin, begin + fits)
            self._chars, self._cells = self._chars - fits * chars, self._cells - fits * cells
            if fits < wanted:
                self.notes[CUT] = None

    def _end_cell(self, *, covered: bool) -> None:
        """Add a cell; one that another covers gets the text of that one where it is short."""
        text = "" if self._is_day else "\n".join(filter(None, self._cell))
        text = cell_of(text or self._value.replace("T", " " if self._is_day else "T"))
        repeats = min(self._repeats["cell"], max(0, COLUMNS_MAX - len(self._row)))
        if covered and not text:
            found = (
                self._covered.get(place, ("", 0))
                for place in range(self._column, self._column + min(repeats, 1000))
            )
            texts = [text if self._lines < last else "" for text, last in found]
            self._row += texts + [""] * (repeats - len(texts))
        else:
            self._row += [text] * repeats
            if self._covers != (1, 1):
                self.seen[noted.MERGED] += 1
                for place in range(self._column, self._column + self._covers[0]):
                    self._covered[place] = (repeated(text), self._lines + self._covers[1])
        self._column += repeats


def _short(tag: str) -> str:
    """Return the name of an element or attribute with the usual short form of its namespace: ``text:p``."""
    space, _, name = tag[1:].partition("}")
    parts = space.split(":")
    return f"{parts[-2]}:{name}" if len(parts) > 1 else name


def _count(given: str | None, most: int = CELLS_MAX) -> int:
    """Return a count as an attribute gives it, 1 where it is missing or no number."""
    return max(1, min(most, whole(given or "", 1)))
