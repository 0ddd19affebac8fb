"""
Read DOCX: lxml parses its parts, and the body is written as Markdown with the numbers and labels that Word prints.

python-docx, the format's own library, refuses files with a missing picture, and counts no paragraphs (2026-11-28).

Text in headers and footers, notes, comments, boxes and hidden runs is read; what changed, is hidden or struck out is marked
as such in its place. Linked files are not opened. Not covered: pictures, embedded objects and the look of charts, SmartArt and formulas, each of
which is counted in the notes.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from . import noted
from .archive import chart_text, checked_parts, drawing_words, stated_title
from .conversion import (
    RAISED,
    ConversionError,
    Converted,
    blocks_of,
    cell_of,
    numeral,
    one_line,
    repeated,
    table_of,
    tidy,
    whole,
)

_MIME = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
BODY = re.compile(r"word/document\d?\.xml")
"""Word in a browser writes ``document2.xml``."""
MARKS_MAX = 1_000_000
"""Opening and closing marks of the body; 200,000 paragraphs took minutes of a file of 20 kB (2026-11-22)."""
CHARS_MAX = 10_000_000
"""What is written of one file; labels and merged cells are written more than once."""
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_LABEL_MAX = 100
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_COLUMNS_MAX = 63
_LEVELS = 9
_MARKS = {"ins": "inserted", "moveTo": "inserted", "del": "deleted", "moveFrom": "deleted"}
_NUMBERINGS = {
    "lowerLetter": "a",
    "upperLetter": "A",
    "lowerRoman": "i",
    "upperRoman": "I",
    "decimal": "1",
    "decimalZero": "01",
    "none": "",
    "ordinal": "1st",
}
_TICKS = {
    "F0FE": "☒",
    "F0FD": "☒",
    "F052": "☑",
    "F0A8": "☐",
    "F06F": "☐",
    "F0A3": "☐",
    "F0FC": "✓",
}
"""Of Wingdings."""
_SYMBOLS: dict[int, str] = dict(zip((*range(0x21, 0x7F), *range(0xA0, 0xE6)), (
    "!∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
    "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑"
), strict=True))  # fmt: skip
"""Of Symbol, by the last byte of their codes; what joins up to a large bracket is left out."""
_COUNTED = {
    "pic": noted.PICTURES,
    "imagedata": noted.PICTURES,
    "OLEObject": noted.FILES,
}


def read_docx(data: bytes, charset: str = "") -> Converted:
    """Turn a Word document into Markdown: headings, lists as they are numbered, tables, notes; empty when the document is."""
    parts = checked_parts(data, "Word document", r"word/[^_].*\.xml|word/_rels/document\d?\.xml\.rels")
    marks = max(part.count(b"<") for part in parts.values())
    if marks > MARKS_MAX:
        raise ConversionError(
            "too_large", f"holds {marks:,} marks of structure; the limit is {MARKS_MAX:,}; split it"
        )
    body = next(filter(BODY.fullmatch, parts))
    writer = _Writer(parts, parts.get(body.replace("/", "/_rels/") + ".rels"))
    text = tidy(writer.document(_parsed(parts[body])))
    return Converted(text, _MIME, stated_title(data) or writer.title, notes=noted.counted(writer.seen))


def _parsed(part: bytes) -> Any:
    from lxml import etree

    return etree.fromstring(part, etree.XMLParser(resolve_entities=False, no_network=True))


class _Numbering:
    """Counts the paragraphs of each list, and says what is printed before them."""

    def __init__(self, root: Any) -> None:
        self._levels: dict[str, dict[int, Any]] = {}
        self._abstract: dict[str, str] = {}
        self._overrides: dict[str, dict[int, int]] = {}
        self._own: dict[str, dict[int, Any]] = {}
        self._counts: dict[str, list[int | None]] = {}
        self.by_style: dict[tuple[str, str], int] = {}
        for found in root.iterfind(f"{_W}abstractNum") if root is not None else ():
            self._levels[_value(found, "abstractNumId")] = {
                _count(level, "ilvl"): level for level in found.iterfind(f"{_W}lvl")
            }
        for found in root.iterfind(f"{_W}num") if root is not None else ():
            number = _value(found, "numId")
            self._abstract[number] = abstract = _inner(found, "abstractNumId")
            self._own[number] = {
                _count(level, "ilvl"): level for level in found.iterfind(f"{_W}lvlOverride/{_W}lvl")
            }
            levels = self._levels.get(abstract, {})
            self._overrides[number] = {
                _count(item, "ilvl"): start
                for item in found.iterfind(f"{_W}lvlOverride")
                if (start := whole(_inner(item, "startOverride"), -1)) >= 0
            }
            for place, level in levels.items():
                if style := _inner(level, "pStyle"):
                    self.by_style[number, style] = place

    def label(self, number: str, place: int) -> tuple[str, bool]:
        """Count a paragraph of list *number* at level *place*; return its label, and whether it is a mere bullet."""
        abstract = self._abstract.get(number)
        levels = self._levels.get(abstract or "", {}) | self._own.get(number, {})
        if abstract is None or place not in levels or not 0 <= place < _LEVELS:
            return "", abstract is not None
        counts = self._counts.setdefault(abstract, [None] * _LEVELS)
        start = self._overrides[number].pop(place, None)  # counts once, where the list is used first
        if start is not None:
            counts[place] = start
        else:
            before = counts[place]
            counts[place] = _start(levels[place]) if before is None else before + 1
        counts[place + 1 :] = [None] * (_LEVELS - place - 1)
        if _inner(levels[place], "numFmt") == "bullet":
            return "", True
        is_legal = levels[place].find(f"{_W}isLgl") is not None

        def part(found: re.Match[str]) -> str:
            level = levels.get(int(found[1]) - 1)
            if level is None:
                return ""
            count = counts[int(found[1]) - 1]
            form = "1" if is_legal else _NUMBERINGS.get(_inner(level, "numFmt"), "1")
            return numeral(_start(level) if count is None else count, form)

        text = _inner(levels[place], "lvlText")[:_LABEL_MAX]
        return re.sub("%([1-9])", part, text).strip(), False


class _Writer:
    """Writes the paragraphs and tables of one document, and counts what it does not write or only flattened."""

    def __init__(self, parts: dict[str, bytes], relations: bytes | None) -> None:
        self._related: dict[str, bytes] = {}
        self._parts: list[tuple[str, bytes]] = []
        for item in _parsed(relations) if relations else ():
            target = posixpath.normpath(posixpath.join("/word", item.get("Target", ""))).lstrip("/")
            if target in parts:
                self._related[item.get("Id", "")] = parts[target]
                self._parts.append((item.get("Type", "").rpartition("/")[2], parts[target]))
        self.title: str | None = None
        self.seen: Counter[str] = Counter()
        self._numbering = _Numbering(self._root("numbering"))
        self._styles = {_value(style, "styleId"): style for style in _found(self._root("styles"), "style")}
        self._default = next(
            (
                key
                for key, style in self._styles.items()
                if _value(style, "default") == "1" and _value(style, "type") == "paragraph"
            ),
            "",
        )
        self._known: dict[str, tuple[int, str, int, bool]] = {}
        self._notes: list[tuple[str, str]] = []
        self._anchors: dict[str, list[str]] = {}
        self._boxes: list[Any] = []
        self._fields: list[bool] = []
        self._chars = CHARS_MAX

    def document(self, body: Any) -> str:
        """Return the whole document."""
        blocks = [block for inner in body for block in self._blocks(inner)]
        for kind, what in (("header", "Page header"), ("footer", "Page footer")):
            texts = [self._plain(root) for root in self._roots(kind)]
            blocks += [("", f"{what}: {text}") for text in dict.fromkeys(filter(None, texts))]
            self.seen[noted.HEADS] += len(set(filter(None, texts)))
        notes = {
            (kind, _value(item, "id")): item
            for kind in ("footnote", "endnote")
            for item in reversed(self._noted(kind))  # of two with one id the first counts
        }
        for done, key in enumerate(self._notes, 1):  # a note may refer to another, which comes behind it
            blocks.append(("", f"[{done}] {self._plain(notes[key]) if key in notes else '(missing)'}"))
        for comment in self._noted("comment"):
            about = one_line("".join(self._anchors.get(_value(comment, "id"), ())))
            by = one_line(_value(comment, "author")) or "somebody"
            blocks.append(("", f"Comment by {by}{f' on “{about}”' if about else ''}: {self._plain(comment)}"))
            self.seen[noted.COMMENTS] += 1
        return blocks_of(blocks)

    def _spend(self, chars: int) -> None:
        self._chars -= chars
        if self._chars < 0:
            raise ConversionError("too_large", f"holds more than {CHARS_MAX:,} characters; split it")

    def _roots(self, kind: str) -> Iterator[Any]:
        return (_parsed(part) for name, part in self._parts if name == kind)

    def _root(self, kind: str) -> Any:
        return next(self._roots(kind), None)

    def _noted(self, kind: str) -> list[Any]:
        return [item for root in self._roots(f"{kind}s") for item in _found(root, kind)]

    def _plain(self, root: Any) -> str:
        """Return the text of a header, a note or a comment on one line."""
        return " ".join(blocks_of(list(self._blocks(root))).split())

    def _blocks(self, root: Any) -> Iterator[tuple[str, str]]:
        for item in root:
            kind = _kind(item)
            if kind == "p":
                following = item.getnext()
                if item.find(f"{_W}pPr/{_W}framePr[@{_W}dropCap]") is not None and _kind(following) == "p":
                    following[:0] = _found(item, "r")  # a large first letter, and the words that it begins
                yield from self._paragraph(item)
            elif kind == "tbl":
                yield "", self._table(item)
            elif kind in (
                "AlternateContent",
                "sdt",
                "sdtContent",
                "Choice",
                "ins",
                "moveTo",
                "customXml",
                "smartTag",
            ):
                yield from self._blocks(_chosen(item))
            elif kind == "altChunk":
                self.seen[noted.FILES] += 1

    def _paragraph(self, paragraph: Any) -> Iterator[tuple[str, str]]:
        level, number, place, is_list = self._format(paragraph)
        outer, self._boxes = self._boxes, []
        runs = groupby(self._runs(paragraph, ""), key=lambda run: run[0])
        text = "".join(_marked(mark, "".join(part for _, part in found)) for mark, found in runs)
        boxes, self._boxes = self._boxes, outer
        text = tidy(re.sub(" {2,}", " ", text)).strip()
        is_counted = number and (
            text or not _is_joined(paragraph)
        )  # also without a text, as of a column of numbers
        label, is_bullet = self._numbering.label(number, place) if is_counted else ("", False)
        if text or label:
            is_list = (bool(number) and is_bullet) or (is_list and not label)
            self._spend(len(text) + len(label))
            level, text = level * bool(text), f"{label} {text}".strip()
            if level:
                self.title = self.title or (one_line(text) if level == 1 else None)
                yield "", f"{'#' * level} {one_line(text)}"
            elif is_list:
                yield number or "-", f"{'  ' * min(place, 8)}- {text}"
            else:
                yield number if re.fullmatch(r"\d{1,3}[.)]", label) else "", text
        for box in boxes:
            yield from [("", box)] if isinstance(box, str) else self._blocks(box)

    def _format(self, paragraph: Any) -> tuple[int, str, int, bool]:
        """Return the level of a heading or 0, the list and the level in it, and whether its style is a list's."""
        style = _inner(paragraph, "pPr", "pStyle")
        heading, number, place, is_list = self._styled(style or self._default)
        own = paragraph.find(f"{_W}pPr/{_W}numPr")
        if own is not None:
            number = _inner(own, "numId") or number
            place = whole(_inner(own, "ilvl"), place)
        return heading, "" if number == "0" else number, place, is_list

    def _styled(self, key: str) -> tuple[int, str, int, bool]:
        if key in self._known:
            return self._known[key]
        heading, number, place, is_list = 0, "", 0, False
        at, passed = key, set[str]()
        while at in self._styles and at not in passed:
            passed.add(at)
            style = self._styles[at]
            name = _inner(style, "name").lower()
            named = re.fullmatch(r"heading ([1-9])", name)
            heading = heading or (min(6, int(named[1])) if named else int(name == "title"))
            is_list = is_list or name.startswith("list bullet")
            given = style.find(f"{_W}pPr/{_W}numPr")
            if given is not None and not number:
                number = _inner(given, "numId")
                place = whole(_inner(given, "ilvl"), self._numbering.by_style.get((number, at), 0))
            at = _inner(style, "basedOn")
        self._known[key] = heading, number, place, is_list
        return self._known[key]

    def _runs(self, root: Any, mark: str) -> Iterator[tuple[str, str]]:
        """Yield the texts of a paragraph, each with how it is marked."""
        for item in root:
            kind = _kind(item)
            if kind in ("t", "delText") and not any(self._fields):
                yield mark, item.text or ""
            elif kind in _MARKS:
                self.seen[noted.TRACKED] += bool(_kind(root) != "rPr")
                yield from self._runs(item, mark or _MARKS[kind])
            elif kind == "r":
                yield from self._raised(item, self._runs(item, mark or self._look(item)))
            elif kind in ("br", "cr", "tab", "ptab"):
                yield mark, "\n" if kind in ("br", "cr") and _value(item, "type") != "page" else " "
            elif kind in ("noBreakHyphen", "sym"):
                yield mark, "-" if kind != "sym" else _symbol(item)
            elif kind == "fldChar":
                yield from self._field(item, mark)
            elif kind in ("footnoteReference", "endnoteReference"):
                self._notes.append((kind.removesuffix("Reference"), _value(item, "id")))
                yield mark, f"[{len(self._notes)}]"
            elif kind in ("commentRangeStart", "commentRangeEnd"):
                yield from self._anchor(item, kind)
            elif kind in ("drawing", "pict", "object"):
                yield from self._drawing(item, kind, mark)
            elif kind == "oMath":
                self.seen[noted.FORMULAS] += 1
                yield mark, "".join(part.text or "" for part in item.iter() if _kind(part) == "t")
            elif kind == "ruby":
                for part, form in (("rubyBase", "{}"), ("rt", " ({})")):
                    texts = (text for at in _found(item, part) for _, text in self._runs(at, ""))
                    yield mark, form.format("".join(texts))
            elif kind not in ("instrText", "delInstrText", "pPr", "rPr", "sdtPr", "ffData"):
                yield from self._runs(_chosen(item), mark)

    def _anchor(self, item: Any, kind: str) -> Iterator[tuple[str, str]]:
        """Remember the words that a comment is about; nothing of it is shown here."""
        if kind == "commentRangeStart" and len(self._anchors) < 1000:
            words: list[str] = []
            for run in item.itersiblings():
                if _kind(run) == "commentRangeEnd" or sum(map(len, words)) > 200:
                    break
                words += [part.text or "" for part in run.iter(f"{_W}t")]
            self._anchors[_value(item, "id")] = words
        yield from ()

    def _field(self, item: Any, mark: str) -> Iterator[tuple[str, str]]:
        """Of a field its result is shown; of a form's box or list what is chosen."""
        kind = _value(item, "fldCharType")
        if kind == "begin":
            self._fields.append(True)
            for box in _found(item, "checkBox"):
                states = (box.find(f"{_W}{name}") for name in ("checked", "default"))
                state = next((found for found in states if found is not None), None)
                yield mark, "☒" if _is_on(state) else "☐"
            entries = [_value(entry, "val") for entry in _found(item, "listEntry")]
            chosen = next((_count(at, "val") for at in _found(item, "result")), 0)
            yield mark, entries[chosen] if chosen < len(entries) else ""
        elif kind == "separate" and self._fields:
            self._fields[-1] = False
        elif kind == "end" and self._fields:
            self._fields.pop()

    def _drawing(self, item: Any, kind: str, mark: str) -> Iterator[tuple[str, str]]:
        told: dict[str, None] = {}
        for part in item.iter():
            name = _kind(part)
            if name == "txbxContent":
                if not any(_kind(outer) in ("Fallback", "txbxContent") for outer in part.iterancestors()):
                    self._boxes.append(part)
            elif name in ("docPr", "shape") and (words := part.get("descr") or part.get("alt")):
                told[f"[picture: {one_line(words)}]"] = None
            elif name == "relIds":
                self.seen[noted.DRAWINGS] += 1
                key = part.get(f"{_R}dm")
                told |= dict.fromkeys(drawing_words(self._related[key])) if key in self._related else {}
            elif name == "chart":
                self.seen[noted.CHARTS] += 1
                source = self._related.get(part.get(f"{_R}id", ""), b"<none/>")
                text = chart_text(source)
                self._spend(len(source) + len(text))
                self._boxes.append(text)
            elif what := _COUNTED.get(name):
                self.seen[what] += kind != "object" or what == noted.FILES
        for words in told:
            yield mark, f" {words} "

    def _raised(self, run: Any, texts: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        is_raised = _inner(run, "rPr", "vertAlign") == "superscript"
        for mark, text in texts:
            yield mark, text.translate(RAISED) if is_raised and text.strip().isdigit() else text

    def _look(self, run: Any) -> str:
        """Return how a run is marked by its look."""
        look = run.find(f"{_W}rPr")
        if look is None:
            return ""
        for name, mark in (("vanish", "hidden"), ("strike", "struck out"), ("dstrike", "struck out")):
            if _is_on(look.find(f"{_W}{name}")):
                self.seen[noted.HIDDEN] += mark == "hidden"
                return mark
        return ""

    def _table(self, table: Any) -> str:
        """Return a table; a merged cell is repeated, a table in a cell is text."""
        rows: list[list[str]] = []
        for found in _within(table, "tr"):
            row: list[str] = []
            for cell in _within(found, "tc"):
                span = max(1, min(_COLUMNS_MAX, whole(_inner(cell, "tcPr", "gridSpan"), 1)))
                merge = cell.find(f"{_W}tcPr/{_W}vMerge")
                goes_on = merge is not None and _value(merge, "val") != "restart"
                if goes_on and rows and len(rows[-1]) > len(row):
                    text = repeated(rows[-1][len(row)])
                else:
                    text = cell_of("\n".join(block for _, block in self._blocks(cell)))
                self.seen[noted.MERGED] += span > 1 or (merge is not None and not goes_on)
                self._spend(span * (len(text) + 3))
                row += [text, *[repeated(text)] * (span - 1)]
            rows.append(row)
        return table_of(rows, max(map(len, rows), default=0)) if any(map(any, rows)) else ""


def _kind(item: Any) -> str:
    """Return the name of an element without its namespace; empty for comments and instructions."""
    return item.tag.rpartition("}")[2] if item is not None and isinstance(item.tag, str) else ""


def _chosen(item: Any) -> Any:
    """Return the children of an element; of two forms of the same the newer one."""
    if _kind(item) == "AlternateContent":
        return next((part for part in item if _kind(part) == "Choice"), ())
    return item if isinstance(item.tag, str) else ()


def _within(root: Any, kind: str) -> Iterator[Any]:
    """Yield the rows (``tr``) of a table, or the cells (``tc``) of a row, also those in a content control."""
    for item in root:
        if _kind(item) == kind:
            yield item
        elif _kind(item) in ("sdt", "sdtContent", "ins", "customXml"):
            yield from _within(item, kind)


def _found(root: Any, name: str) -> list[Any]:
    return list(root.iter(f"{_W}{name}")) if root is not None else []


def _value(item: Any, name: str) -> str:
    return str(item.get(f"{_W}{name}") or "")


def _inner(item: Any, *names: str) -> str:
    """Return the value of the child, or the child's child, of these *names*; empty without one."""
    found = item.find("/".join(_W + name for name in names))
    return _value(found, "val") if found is not None else ""


def _count(item: Any, name: str) -> int:
    return whole(_value(item, name))


def _start(level: Any) -> int:
    return whole(_inner(level, "start"))


def _is_on(switch: Any) -> bool:
    return switch is not None and _value(switch, "val") not in ("0", "false", "off")


def _is_joined(paragraph: Any) -> bool:
    """Return whether the end of a paragraph is hidden or deleted, so that it is none of its own."""
    ends = (paragraph.find(f"{_W}pPr/{_W}rPr/{_W}{name}") for name in ("vanish", "del"))
    return any(map(_is_on, ends))


def _symbol(item: Any) -> str:
    """Return a character that is given by its font and its code in that."""
    code = _value(item, "char").upper()
    if _value(item, "font") == "Symbol" and re.fullmatch("(F0|00)?[0-9A-F]{2}", code):
        return _SYMBOLS.get(int(code[-2:], 16), "\ufffd")
    return _TICKS.get(code, "\ufffd")


def _marked(mark: str, text: str) -> str:
    words = text.strip()
    return text.replace(words, f"[{mark}: {words}]", 1) if mark and words else text
