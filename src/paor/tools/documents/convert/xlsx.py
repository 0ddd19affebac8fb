"""
Read XLSX and XLSM: each sheet as a Markdown table of what its cells show, as last saved.

openpyxl streams the rows, so that the size of a sheet on paper costs nothing. Formulas are not calculated and macros
not run: a formula gives the value that was saved with it, or its own text where there is none. Dates are written as
2026-03-01, whatever their format. Of a chart its titles are written: its data are
cells. Not covered: pictures and embedded objects, which are counted.
"""

import datetime
import io
import math
import posixpath
import re
import zipfile
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import lru_cache, partial
from html import unescape
from itertools import islice, repeat
from operator import eq, ge, gt, le, lt, ne
from typing import Any
from xml.etree import ElementTree

from . import noted
from .archive import checked_parts, drawing_words, packed, stated_title, usual_form
from .conversion import (
    ConversionError,
    Converted,
    cell_of,
    one_line,
    repeated,
    rows_of,
    table_of,
    whole,
)

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
_PARTS = r"xl/(sharedStrings\.xml|styles\.xml|worksheets/[^/]+\.xml|(worksheets|drawings)/_rels/[^/]+|drawings/[^/]+\.xml|(diagrams/data|charts/chart)[^/]*\.xml|comments/?[^/]*\.xml|chartsheets/[^/]+\.xml)"
_SHEETS_BYTES_MAX = 60_000_000
"""XML of all sheets: openpyxl reads one that does not say how large it is to its end before the first row is given."""
_FORMULA = re.compile(rb"<(?:\w+:)?f[\s/>]")
_HIDDEN_ROW = re.compile(rb'<(?:\w+:)?row\s(?=[^>]*\shidden="(?:1|true)")[^>]*?\br="(\d{1,7})"')
_HIDDEN_COLUMNS = re.compile(rb'<(?:\w+:)?col\s(?=[^>]*\shidden="(?:1|true)")[^>]*>')
_MERGE = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?\bref="([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})"')
_STYLE_NAMES = re.compile(rb"<(?:\w+:)?cellStyles\s.*</(?:\w+:)?cellStyles>", re.DOTALL)
_MERGES_MAX = 20_000
_HEAD = re.compile(rb"<(?:\w+:)?(?:odd|even|first)(Header|Footer)>([^<]{1,2000})<")
_HEAD_CODE = re.compile(r'&(?:"[^"]*"|K[0-9A-F]{6}|[A-Z]|\d{1,3})', re.IGNORECASE)
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
"""A character that XML cannot hold, as workbooks write it."""
_FORMAT = re.compile(
    r"(?P<whole>[#0?,]{0,200}0|[#?,]{0,200}[#?])(?:\.(?P<part>[#0?]+))?(?P<scale>,*)(?P<percent>%?)"
)
_FRACTION = re.compile(r"# \?{1,3}/(\?{1,3})")
_CONDITION = re.compile(r"\[([<>]=?|<>|=)(-?\d{1,15}(?:\.\d{1,15})?)\]")
_HOLDS = {"<": lt, "<=": le, ">": gt, ">=": ge, "<>": ne, "=": eq}
_POWERS = re.compile(r"0(?:\.(0{1,30}))?E\+00")
_LITERAL = re.compile(r'"([^"]{0,200})"|\\(.)|\[\$([^\]-]{0,200})[^\]]{0,200}\]|\[[^\]]{0,200}\]|_.|\*.')
FORMULA = (
    "formulas without a saved value, shown as they are written; open and save the file in its own program"
)
ROUNDED = "numbers rounded as the sheet shows them"
HIDDEN_SHEETS, HIDDEN_ROWS, HIDDEN_COLUMNS = (
    f"hidden {what}, marked as such" for what in ("sheets", "rows", "columns")
)


class _Budget:
    """What may still be read and written of one file."""

    def __init__(self) -> None:
        self.cells, self.chars = CELLS_MAX, CHARS_MAX
        self.seen: Counter[str] = Counter()
        self.strikes = False
        self.stopped = False

    @property
    def is_spent(self) -> bool:
        self.stopped = self.stopped or self.cells < 0 or self.chars < 0
        return self.stopped


def read_sheets(data: bytes, charset: str = "") -> Converted:
    """Turn a workbook into Markdown: a heading and a table for each sheet with content; notes say what was cut."""
    parts = checked_parts(data, "workbook", _PARTS)
    texts = len(parts.pop(_STRINGS, b""))
    found = [part for name, part in parts.items() if name.startswith("xl/worksheets/")]
    sizes = (("texts", texts, _STRINGS_MAX), ("sheets", sum(map(len, found)), _SHEETS_BYTES_MAX))
    for what, size, limit in sizes:
        if size > limit:
            raise ConversionError("too_large", f"holds {size:,} bytes of {what}; the limit is {limit:,}")
    return _read(usual_form(data), parts, formulas=any(map(_FORMULA.search, found)))


def _read(data: bytes, parts: dict[str, bytes], *, formulas: bool) -> Converted:
    """Return a checked workbook as Markdown; *formulas*: there are any, so their own text is looked at too."""
    from openpyxl import load_workbook

    with ExitStack() as opened:

        def sheets_of(*, values: bool) -> list[Any]:
            load = partial(load_workbook, read_only=True, data_only=values, keep_links=False)
            try:
                book = load(io.BytesIO(data))
            except (KeyError, TypeError):
                book = load(io.BytesIO(_mended(data)))
            opened.callback(book.close)
            return list(book.worksheets)

        budget = _Budget()
        budget.strikes = b"<strike" in parts.get("xl/styles.xml", b"")
        notes: list[str] = []
        blocks: list[str] = []
        places: list[str] = []
        sheets = sheets_of(values=True)
        twins = sheets_of(values=False) if formulas else repeat(None)
        for sheet, twin in zip(sheets[:SHEETS_MAX], twins, strict=False):
            drawn = _Drawn(parts, sheet._worksheet_path.lstrip("/"), budget)
            text, rows = _table(_rows(sheet, twin, budget), budget, notes, sheet.title, drawn)
            beside = drawn.texts()
            if text or beside:
                hidden = " (hidden)" if sheet.sheet_state != "visible" else ""
                budget.seen[HIDDEN_SHEETS] += bool(hidden)
                name = one_line(sheet.title) or "Sheet"
                places += [row and f"{name}!{row}" for row in rows]
                blocks.append("\n\n".join(filter(None, [f"## {name}{hidden}", text, *beside])))
            if budget.is_spent:
                notes.append("the file is larger than what is read of one; the rest is left out")
                break
        if len(sheets) > SHEETS_MAX:
            notes.append(f"{len(sheets) - SHEETS_MAX} more sheets are left out")
    budget.seen[noted.CHARTS] += sum(name.startswith("xl/chartsheets/") for name in parts)
    title = stated_title(data)
    notes += noted.counted(budget.seen)
    text = "\n\n".join(blocks)
    return Converted(text, MIME, title, notes=tuple(notes), places=rows_of(text, places))


def _mended(data: bytes) -> bytes:
    """Return a workbook without the names of styles, and with a part for texts: openpyxl wants every name, and any part that is announced."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {_STRINGS: b"<sst/>"} | {name: archive.read(name) for name in archive.namelist()}
    styles = parts.get("xl/styles.xml", b"<styleSheet/>")
    return packed(parts | {"xl/styles.xml": _STYLE_NAMES.sub(b"", styles, count=1)})


class _Drawn:
    """What a sheet's own XML and the parts beside it say, and openpyxl does not read row by row."""

    def __init__(self, parts: dict[str, bytes], path: str, budget: _Budget) -> None:
        self._parts, self._path, self._budget = parts, path, budget
        self._source = source = parts.get(path, b"")
        hides = b'hidden="' in source
        self.rows = {int(row[1]) for row in _HIDDEN_ROW.finditer(source)} if hides else set()
        self.columns: list[tuple[int, int]] = []
        for column in _HIDDEN_COLUMNS.findall(source) if hides else ():
            ends = [re.search(rb'\b%b="(\d{1,5})"' % end, column) for end in (b"min", b"max")]
            self.columns += [(int(ends[0][1]), int(ends[1][1]))] if ends[0] and ends[1] else []
        self.merges = [
            (_column(left), int(top), _column(right), int(bottom))
            for left, top, right, bottom in islice(map(re.Match.groups, _MERGE.finditer(source)), _MERGES_MAX)
        ]

    def texts(self) -> list[str]:
        """Return headers and footers, comments and the texts of drawings; the rest of it is counted."""
        seen = self._budget.seen
        found: dict[str, None] = {}
        for kind, head in _HEAD.findall(self._source):
            written = unescape(head.decode("utf-8", "replace"))
            words = one_line(_HEAD_CODE.sub(" ", written))
            is_number = "&P" in written and words is not None and len(words.split()) < 3  # of the page
            found |= {f"Page {kind.decode().lower()}: {words}": None} if words and not is_number else {}
        seen[noted.HEADS] += len(found)
        seen[noted.FILES] += len(re.findall(rb"<(?:\w+:)?oleObject\s", self._source))
        for kind, path in self._beside(self._path):
            root = ElementTree.fromstring(self._parts[path])
            if kind == "comments":
                authors = ["".join(item.itertext()) for item in root.iterfind("{*}authors/{*}author")]
                for item in root.iterfind("{*}commentList/{*}comment"):
                    by = whole(item.get("authorId", ""))
                    words = " ".join(
                        "".join(part.text or "" for part in item.iter() if part.tag.endswith("}t")).split()
                    )
                    name = one_line(authors[by]) if by < len(authors) else None
                    found[
                        f"Comment on {item.get('ref', '')[:20]}{f' by {name}' if name else ''}: {words}"
                    ] = None
                    seen[noted.COMMENTS] += 1
            elif kind == "drawing":
                for picture in root.iterfind(".//{*}pic/{*}nvPicPr/{*}cNvPr"):
                    words = one_line(picture.get("descr", ""))
                    seen[noted.PICTURES] += not words
                    found |= {f"[picture: {words}]": None} if words else {}
                beside = dict.fromkeys(self._beside(path, known=False))
                for chart in (part for kind, part in beside if kind == "chart"):
                    seen[noted.CHARTS] += 1
                    source = self._parts.get(chart, b"<none/>")  # its data are cells of the book
                    self._budget.chars -= len(source)
                    found |= dict.fromkeys(f"Chart: {words}" for words in drawing_words(source))
                found |= dict.fromkeys(f"Text box: {words}" for words in drawing_words(self._parts[path]))
                for diagram in (part for kind, part in self._beside(path) if kind == "diagramData"):
                    seen[noted.DRAWINGS] += 1
                    found |= dict.fromkeys(
                        f"Drawing: {words}" for words in drawing_words(self._parts[diagram])
                    )
        return list(found)

    def _beside(self, path: str, *, known: bool = True) -> Iterator[tuple[str, str]]:
        """Yield the kind and the path of each part that a part refers to."""
        folder, _, name = path.rpartition("/")
        source = self._parts.get(f"{folder}/_rels/{name}.rels")
        for item in ElementTree.fromstring(source) if source else ():
            target = posixpath.normpath(posixpath.join("/", folder, item.get("Target", ""))).lstrip("/")
            if target in self._parts or not known:
                yield item.get("Type", "").rpartition("/")[2], target


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


def _letters(number: int) -> str:
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


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


def _table(
    rows: Iterable[list[str]], budget: _Budget, notes: list[str], title: str, drawn: _Drawn
) -> tuple[str, list[str]]:
    """Return a sheet's rows as a table without empty rows and columns around it, and the first cell of each of its lines."""
    kept: dict[int, list[str]] = {}
    left_out = 0
    chars = budget.chars
    for number, row in enumerate(rows, 1):
        if row and len(kept) < ROWS_MAX:
            kept[number] = row
        elif row:
            left_out += 1
    if not kept:
        return "", []
    name = repr(one_line(title))
    if left_out:
        notes.append(f"{left_out:,} rows of the sheet {name} are left out")
    first = min(next((place for place, cell in enumerate(row) if cell), len(row)) for row in kept.values())
    _repeat_merged(kept, max(map(len, kept.values())), drawn, budget)
    _mark_hidden(kept, first, drawn, budget)
    width = max(map(len, kept.values())) - first
    columns = max(1, chars // (4 * len(kept)))
    if width > columns:
        notes.append(f"{width - columns:,} columns of the sheet {name} are left out")
        width = columns
    cut = [row[first : first + width] for row in kept.values()]
    text = table_of(cut, width)
    budget.chars = chars - len(text)
    places = [f"{_letters(first + 1)}{number}" for number in kept]
    return text, [places[0], "", *places[1:]]


def _repeat_merged(kept: dict[int, list[str]], width: int, drawn: _Drawn, budget: _Budget) -> None:
    """Write the text of merged cells into those that they cover."""
    numbers = list(kept)
    for left, top, right, bottom in drawn.merges:
        row = kept.get(top, [])
        text = row[left - 1] if 0 < left <= len(row) else ""
        if not text:
            continue
        budget.seen[noted.MERGED] += 1
        covered = numbers[bisect_left(numbers, top) : bisect_right(numbers, bottom)] if repeated(text) else []
        budget.cells -= len(covered) * max(1, min(right, width) - left + 1)
        if budget.cells < 0:
            return
        for number in covered:
            row = kept[number]
            row += [""] * (min(right, width) - len(row))
            row[left - 1 : right] = [cell or text for cell in row[left - 1 : right]]


def _mark_hidden(kept: dict[int, list[str]], first: int, drawn: _Drawn, budget: _Budget) -> None:
    """Mark rows and columns that the sheet does not show, in the first of their cells."""
    for number in drawn.rows & kept.keys():
        budget.seen[HIDDEN_ROWS] += 1
        row = kept[number]
        place = next((place for place, cell in enumerate(row) if cell), 0)
        row[place] = f"[hidden row] {row[place]}"
    head = next(iter(kept.values()))
    for low, high in drawn.columns:
        for place in range(max(low - 1, first), min(high, len(head))):
            budget.seen[HIDDEN_COLUMNS] += 1
            head[place] = f"[hidden column] {head[place]}"


def _shown(cell: Any, source: Any, budget: _Budget) -> str:
    """Return what a cell shows, for a Markdown table."""
    value = cell.value
    written = source.value if source is not None else None
    if value is None and written is not None:
        formula = getattr(written, "text", written)  # of an array formula
        if isinstance(formula, str) and formula.startswith("="):
            budget.seen[FORMULA] += 1
            value = formula
    if value is None:
        return ""
    text = cell_of(_text(value, cell, budget))
    return (
        f"[struck out: {text}]" if budget.strikes and text and cell.has_style and cell.font.strike else text
    )


def _text(value: Any, cell: Any, budget: _Budget) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime.datetime):
        is_day = value.time() == datetime.time()
        return value.date().isoformat() if is_day else value.isoformat(" ", "seconds")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float | int):
        return _number(value, str(cell.number_format or ""), budget)
    return _ESCAPE.sub(lambda code: chr(int(code[1], 16)), str(value))


def _number(value: float, form: str, budget: _Budget) -> str:
    """Return a number as its format shows it; as it is where the format is not understood."""
    if (powers := _POWERS.fullmatch(form)) and math.isfinite(value):
        text = f"{value:.{len(powers[1] or '')}E}"
        budget.seen[ROUNDED] += float(text) != value
        return text
    if (parts := _FRACTION.fullmatch(form)) and abs(value) < 1e15:
        near = Fraction(value).limit_denominator(10 ** len(parts[1]) - 1)
        budget.seen[ROUNDED] += float(near) != value
        count, rest = divmod(abs(near), 1)
        return f"{'-' if near < 0 else ''}{count if count or not rest else ''}{f' {rest}' if rest else ''}".strip()
    before, digits, after = _format_of(form, value)
    plain = str(value) if isinstance(value, int) else format(value, ".15g")
    if digits is None or not math.isfinite(value) or abs(value) >= 1e15:
        return plain
    whole, most, least, scale, grouped = digits
    scaled = Decimal(plain).copy_abs() * Decimal(10) ** scale
    places = max(least, min(most, -int(scaled.normalize().as_tuple().exponent)))
    shown = scaled.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    budget.seen[ROUNDED] += shown != scaled
    text = f"{shown:{',' if grouped else ''}.{places}f}"
    left, point, right = text.partition(".")
    return f"{before}{left.rjust(whole, '0')}{point}{right}{after}"


@lru_cache(1000)
def _sections(form: str) -> list[str]:
    """Return the parts of a number format: they end at each semicolon outside of quotes."""
    found, quoted = [""], False
    for letter in form:
        quoted ^= letter == '"'
        if letter == ";" and not quoted:
            found.append("")
        else:
            found[-1] += letter
    return found


def _format_of(form: str, value: float) -> tuple[str, tuple[int, int, int, int, bool] | None, str]:
    """
    Return what a number format writes before and after the digits, and of them the least whole ones, the most and least decimals, the power of ten and
    whether thousands are set apart; None for a format that is no plain number (dates, powers).
    """
    sections, negative = _sections(form[:200]), value < 0
    asked = [_CONDITION.search(section) for section in sections]
    if any(asked):
        fits = (asks is None or _HOLDS[asks[1]](value, float(asks[2])) for asks in asked)
        own = next((section for section, fit in zip(sections, fits, strict=True) if fit), sections[-1])
    else:
        own = dict(enumerate(sections)).get(1 if negative else 2 if not value else 0, sections[0])
    literals: list[str] = []

    def kept(found: re.Match[str]) -> str:
        literals.append(next((part for part in found.groups() if part), " " if found[0][0] == "_" else ""))
        return chr(0xE000 + len(literals) - 1)

    bare = _LITERAL.sub(kept, own)
    found = list(_FORMAT.finditer(bare))
    if len(found) != 1 or re.search(r"[A-Za-z/@?]", bare):
        return "", None, ""

    def words(text: str) -> str:
        return re.sub("[\ue000-\ue0ff]", lambda mark: literals[ord(mark[0]) - 0xE000], text)

    digits = found[0]
    before, after = words(bare[: digits.start()]).lstrip(), words(bare[digits.end() :]).rstrip()
    sign = "-" if negative and (len(sections) < 2 or any(asked)) else ""
    part = digits["part"] or ""
    scale = 2 * bool(digits["percent"] or "%" in after) - 3 * len(digits["scale"])
    return (
        sign + before,
        (digits["whole"].count("0"), len(part), part.count("0"), scale, "," in digits["whole"].strip(",")),
        digits["percent"] + after,
    )
