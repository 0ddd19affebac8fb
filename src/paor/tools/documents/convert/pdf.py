"""
Read PDF: PDFium finds the characters of each page, `flow` makes running text of the lines that they form.

What is filled into a form is written beside its label, what readers have remarked behind the page.
Not covered: text in pictures (OCR), columns that a file stores line by line across the page, files that
need a password. One damaged page is left out with a note; a damaged file is an error.

A PDF file knows where each line is, not what it belongs to. `flow` decides, from position, type size and wording,
which lines are one paragraph, a heading, an item, a table row or code, which repeat on every page, and which words
were split at a line's end. It is pure: lines go in, text comes out.

Rules in short: a paragraph goes on unless something says otherwise. It ends at a larger gap, a change of
type size, an indent after a full stop, or a short line after a full stop. A line that stops early without
a full stop is a row of its own. A line that begins with a small letter continues what is unfinished before
it, also over a column's or page's end.
"""

import re
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, addressof, c_double, c_float, c_ushort, cast, create_string_buffer
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import hypot, isfinite
from threading import Lock
from typing import Any, NamedTuple

from . import noted
from .conversion import (
    RAISED,
    ConversionError,
    Converted,
    DocumentPlace,
    cell_of,
    clean,
    one_line,
    table_of,
)
from .pdf_tables import PageCell, tables

_FINISHED = re.compile(r"[.!?:;][\"'”’»)\]¹²³⁴⁵⁶⁷⁸⁹⁰]*$")
_BULLET = re.compile(r"(?:[•‣▪●○◦■□➢✓·]|[-–—*](?=\s))\s*")
_NUMBER = re.compile(
    r"(?:\d{1,3}(?:\.\d{1,3})*[.)]|\d{1,3}(?:\.\d{1,3})+|\((?:\d{1,3}|[a-z]{1,4})\)|[a-z]\))\s"
)
_SPLIT_WORD = re.compile(r"(?<![^\W\d_])([^\W\d_]++)-([⁰¹²³⁴⁵⁶⁷⁸⁹]*)$")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_PAGE_NUMBER = re.compile(r"^\W{0,2}(\d{1,4})(?=[\s–—-]|$)|(?<![\d.,])(\d{1,4})\W{0,2}$")
_EDGE_LINES = 3
_WORD_MAX = 80
_HEAD_CHARS = 300
"""Longest line in which each number is tried as one that counts the pages; that takes its length once for each."""
_SHORT = 0.65
"""A line this much shorter than the usual one ends early on purpose."""
_BODY_SHARE_MIN = 0.4
"""If less than this is left, the pages are copies of one another and not headed alike."""
_HEAD_SIZE = 1.25
_SAME_SIZE = 1.07
_GAP = 1.4
"""Paragraphs are set apart by more than this many times the usual distance between lines."""


@dataclass(frozen=True, slots=True)
class PageLine:
    """
    One printed line.

    Attributes:
        text: What it says; never blank.
        x: Where it begins, in points from the left, along the reading direction.
        y: Height of its base line in points; larger is higher up on the page.
        size: Type size in points of most of the line.
        bold: All of it is in bold type.
        code: All of it is in type of fixed width.
        row: It has cells, set apart by " | ".
        beside: It is not printed on the page: a reader's remark.
    """

    text: str
    x: float
    y: float
    size: float
    bold: bool = False
    code: bool = False
    row: bool = False
    beside: bool = False


Page = list[PageLine]


def flow(pages: Sequence[Page]) -> tuple[str, list[str], list[int]]:
    """
    Join the lines of all pages to running text.

    Args:
        pages: Lines of each page in reading order; a page without text is an empty list.

    Returns:
        Paragraphs separated by blank lines, items, rows and code by line breaks; a paragraph that goes on
        over a page's end is not interrupted. And the different headers and footers, which are not in it, and where
        each page begins in the text.
    """
    bare, heads = drop_running_heads(pages)
    usual = _Usual(bare)
    parts: list[str] = []
    starts: list[int] = []
    last: PageLine | None = None
    for page in bare:
        starts.append(len(parts))
        for index, line in enumerate(page):
            text, joint = _BULLET.sub("- ", line.text, count=1) if _is_bullet(line) else line.text, ""
            if last is not None:
                joint = usual.joint(last, line) if index else _page_joint(last, line)
                parts[-1], joint, text = usual.mend(parts[-1], joint, text)
            parts += (joint, text)
            last = line
    places = [0, *accumulate(map(len, parts))]
    joints = (int(0 < start < len(parts)) for start in starts)  # a page begins behind what joins it
    return (
        "".join(parts),
        heads,
        [places[start + joint] for start, joint in zip(starts, joints, strict=True)],
    )


class _Usual:
    """What is usual in one document: distance between lines, length of lines, words."""

    def __init__(self, pages: Sequence[Page]) -> None:
        gaps: defaultdict[int, list[float]] = defaultdict(list)
        lengths: defaultdict[int, list[int]] = defaultdict(list)
        self._words: set[str] = set()
        for page in pages:
            for line in page:
                lengths[round(line.size)].append(len(line.text))
                split = _SPLIT_WORD.search(line.text, max(0, len(line.text) - _WORD_MAX))
                for word in _WORD.findall(line.text[: split.start()] if split else line.text):
                    self._words.update((word.lower(), *word.lower().split("-")))
            for above, below in pairwise(page):
                gap = above.y - below.y
                if round(above.size) == round(below.size) and 0.8 < gap / below.size < 3:
                    gaps[round(below.size)].append(gap)
        self._leading = {size: sorted(found)[len(found) // 4] for size, found in gaps.items()}
        self._length = {size: sorted(found)[int(len(found) * 0.9)] for size, found in lengths.items()}

    def joint(self, above: PageLine, below: PageLine) -> str:
        """Return what is between two lines of one page: nothing, a space, one line break or two."""
        leading = self._leading.get(round(below.size), below.size * 1.2)
        gap = above.y - below.y
        apart = not -0.5 * below.size < gap < _GAP * leading
        goes_on = _goes_on(above, below)
        stray_row = above.row != below.row and goes_on  # a line spread out to fill its width
        if above.code or below.code or ((above.row or below.row) and not stray_row):
            return "\n" if _kind(above) == _kind(below) else "\n\n"
        if _is_bullet(below):
            return "\n"
        finished = _FINISHED.search(above.text) is not None
        short = len(above.text) < _SHORT * self._length[round(above.size)]
        if _NUMBER.match(below.text) and (apart or finished or short):
            return "\n\n" if apart else "\n"
        if not _same_size(above, below):
            return "\n\n"
        if goes_on and gap < 3 * leading:
            return " "
        if apart or above.bold != below.bold:
            return "\n\n"
        if abs(gap) < 0.3 * below.size:
            return " "
        indent = below.x - above.x
        if finished and abs(indent) > 0.7 * below.size and not (indent > 0 and _is_item(above)):
            return "\n\n" if indent > 0 else "\n"
        if short:
            return "\n\n" if finished else "\n"
        return " "

    def mend(self, before: str, joint: str, after: str) -> tuple[str, str, str]:
        """
        Undo a split at a line's end: "circumvent-" and "ing" become one word, "third-" and "party" too.

        Args:
            before: Text up to the line's end.
            joint: What :meth:`joint` answered; only after a space can there be a split word.
            after: Text of the next line.

        Returns:
            The three with the hyphen gone where the document's own words speak against it.
        """
        split = _SPLIT_WORD.search(before, max(0, len(before) - _WORD_MAX))
        first = re.match(r"[^\W\d_]+", after)
        if joint != " " or split is None:
            return before, joint, after
        if first is None or not first[0][0].islower():
            return before, "", after
        left, right = split[1].lower(), first[0].lower()
        known = self._words
        hard = f"{left}-{right}" in known or (len(left) > 2 and left in known and right in known)
        if hard and left + right not in known:
            return before, "", after
        return before[: split.start()] + split[1], "", first[0] + split[2] + after[first.end() :]


def _kind(line: PageLine) -> tuple[bool, bool]:
    return line.code, line.row


def _page_joint(above: PageLine, below: PageLine) -> str:
    if _kind(above) == _kind(below) != (False, False):
        return "\n"
    plain = _kind(above) == _kind(below)
    return " " if plain and _same_size(above, below) and _goes_on(above, below) else "\n\n"


def _same_size(above: PageLine, below: PageLine) -> bool:
    return max(above.size, below.size) <= _SAME_SIZE * min(above.size, below.size)


def _goes_on(above: PageLine, below: PageLine) -> bool:
    return below.text[0].islower() and _FINISHED.search(above.text) is None and not _is_bullet(below)


def _is_bullet(line: PageLine) -> bool:
    return not line.code and _BULLET.match(line.text) is not None


def _is_item(line: PageLine) -> bool:
    return _is_bullet(line) or _NUMBER.match(line.text) is not None


def drop_running_heads(pages: Sequence[Page]) -> tuple[list[Page], list[str]]:
    """
    Leave out what is printed on page after page: headers, footers and page numbers.

    A line near the top or bottom counts when it is there on most pages, or as the outermost line on three
    pages or more. Numbers in it must be the same each time, but for one that counts the pages. An outermost
    line also counts when its page number goes on over most pages, whatever else it says. Large type is a
    title: it must be there on most pages, word for word.

    Args:
        pages: Lines of each page.

    Returns:
        The pages without these lines, and the different ones. Pages that would lose most of their text stay as they are.
    """
    sizes = sorted(line.size for page in pages for line in page) or [0.0]
    size_max = _HEAD_SIZE * sizes[len(sizes) // 2]
    marked = [list(_edge_keys(page, number, size_max)) for number, page in enumerate(pages)]
    found: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    for number, marks in enumerate(marked):
        for _, keys in marks:
            for key in keys:
                found[key].add(number)
    most = sum(map(bool, pages)) // 2 + 1
    least = {"near": max(2, most), "outermost": 3, "page": max(3, most)}
    heads = {key for key, on_pages in found.items() if len(on_pages) >= least[key[0]]}
    bare = [[line for line, keys in marks if heads.isdisjoint(keys)] for marks in marked]
    if _chars(bare) < _BODY_SHARE_MIN * _chars(pages):
        return list(pages), []
    dropped = (line.text for marks in marked for line, keys in marks if not heads.isdisjoint(keys))
    return bare, list({re.sub(r"\d+", "#", text): text for text in dropped}.values())


def _chars(pages: Iterable[Page]) -> int:
    return sum(len(line.text) for page in pages for line in page)


def _edge_keys(page: Page, number: int, size_max: float) -> Iterator[tuple[PageLine, list[tuple[str, ...]]]]:
    """Yield each line with what a line of another page has in common with it if both are a running head."""
    heights = sorted({round(line.y) for line in page if not line.beside})
    ranks = {height: min(rank, len(heights) - 1 - rank) for rank, height in enumerate(heights)}
    for line in page:
        rank = _EDGE_LINES if line.beside or line.text.startswith("| ") else ranks[round(line.y)]
        keys: list[tuple[str, ...]] = []
        if rank < _EDGE_LINES:
            outermost = rank == 0 and line.size <= size_max
            wording = f"{round(line.size)} {' '.join(line.text.split())}"
            is_counted = outermost and len(wording) <= _HEAD_CHARS
            wordings = _counted(wording, number) if is_counted else {wording}
            if len(heights) > _EDGE_LINES:
                keys += [("near", text) for text in wordings]
            if outermost:
                keys += [("outermost", str(round(line.y / 3)), text) for text in wordings]
                ends = _PAGE_NUMBER.findall(line.text)
                keys += [("page", str(int(begin or end) - number)) for begin, end in ends]
        yield line, keys


def _counted(wording: str, number: int) -> set[str]:
    """Return *wording* as it is, and with each number in it, and a Roman one at its end, as it counts the pages."""
    keys = {wording, re.sub(r"(?<= )[ivxlc]{1,7}$", "#", wording)}
    for digits in re.finditer(r"(?<=\D)\d{1,9}", wording):
        place = f"#{int(digits[0]) - number}"
        keys.add(wording[: digits.start()] + place + wording[digits.end() :])
    return keys


PAGES_MAX = 5_000
CHARS_MAX = 50_000_000
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})
_BOLD = re.compile(r"bold|black|heavy|-medi$|-demi|cmbx", re.IGNORECASE)
_FIXED = re.compile(r"mono|monl|courier|consol|typewriter|cmtt|menlo", re.IGNORECASE)
_MARKER = re.compile(r"\W{1,2}|\(?(?:[a-zA-Z]|[ivxlc]{1,5})[.)]|\(?\d{1,3}(?:\.\d{1,3})*[.)]?")
_LEADERS = re.compile(r" ?(?:[.·_] ?){5,}")
_CELL_GAP = 1.5
"""Cells are set apart by more than this many times the type size, words by a third of it."""
_WIDE_SPACE = 0.38
"""A space is hardly ever wider, but in justified text. Cells of a tight table may be set apart by no more."""
_TITLE_SIZE = 1.3
"""A title is at least this many times larger than the usual line of its page."""
_JUNK_TITLE = re.compile(
    r"untitled|microsoft word - |[\w .-]+\.(docx?|tex|dvi|indd|qxd|wpd|pdf)$", re.IGNORECASE
)
_LETTERS = re.compile(r"[a-zà-ɏͰ-ӿ]+", re.IGNORECASE)
"""Of scripts that set words apart."""
_LONG_WORD = 25
_GLUED_SHARE = 0.3
"""Of the letters of a page, in words that long: in real prose below one in a hundred."""
_UNKNOWN_SHARE = 0.1
_SILENT_MIN = 5
"""Texts that are drawn on a page and of which nothing is known; a few are signs without a meaning."""
_LISTED = 10
_ANNOTATIONS, _ANNOTATIONS_MAX = "annotations", 10_000
_STRING_MAX = 100_000
_SPLIT = (0x02, 0xAD, 0xFFFE)
"""What PDFium gives for a hyphen at the end of a line; the end itself it leaves out then."""
_BULLETS = (0x0F, 0x88)
"""Of TeX's fonts of symbols, which do not say what they are and may have no name."""
_ONE_AT_A_TIME = Lock()
"""PDFium is not made for threads."""


class _Type(NamedTuple):
    """How characters are set: the direction as a unit vector, the size in points, and the name of the font."""

    across: float
    up: float
    size: float
    font: str


_UPRIGHT = _Type(1.0, 0.0, 1.0, "")


@dataclass(slots=True)
class _Piece:
    """A run of text in one type, with its place and right end on the upright page, and which object of the file it is of."""

    type: _Type
    x: float
    y: float
    end: float
    owner: int | None = None
    text: str = ""

    def is_apart(self, piece: "_Piece") -> bool:
        """Whether *piece* may be another cell: it is far off, or an object of its own that is no word further on."""
        gap, size = piece.x - self.end, max(self.type.size, piece.type.size)
        return gap > _CELL_GAP * size or (gap > _WIDE_SPACE * size and self.owner != piece.owner)

    def takes(self, piece: "_Piece") -> bool:
        """Whether *piece* goes on with this one; then its text is added."""
        size = self.type.size
        if self.type != piece.type or abs(self.y - piece.y) > 0.05 * size or self.is_apart(piece):
            return False
        self.text += piece.text
        self.end = self.end if piece.text.isspace() else max(self.end, piece.end)
        return True


class _Reader:
    """Reads one page; *raw* is PDFium's own interface, *page* its text page."""

    def __init__(self, raw: Any, page: Any) -> None:
        self._raw, self._page = raw, page.raw
        self._x, self._y, self._box, self._matrix = c_double(), c_double(), raw.FS_RECTF(), raw.FS_MATRIX()
        self._name = create_string_buffer(256)
        self._owner: int | None = None
        self._type, self._base, self._is_unknown = _UPRIGHT, 0.0, False
        self.owners = set[int]()
        self.chars = self.unknown = 0

    def lines(self) -> Iterator[list[_Piece]]:
        """Yield the pieces of each line that has any, in the order of the page."""
        raw, page = self._raw, self._page
        pieces: list[_Piece] = []
        is_ended = False
        for place in range(raw.FPDFText_CountChars(page)):
            code = raw.FPDFText_GetUnicode(page, place)
            if code in (0x0A, 0x0D):
                is_ended = True
            elif code == 0x20 and raw.FPDFText_IsGenerated(page, place) == 1:
                if pieces:
                    pieces[-1].text += " "
            else:
                piece = self._piece(place)
                ends = pieces and (is_ended or _is_below(pieces[-1], piece))
                if ends and not _is_beside(pieces[-1], piece):
                    yield pieces
                    pieces = []
                is_bullet = code in _BULLETS and (not piece.type.font or "CMSY" in piece.type.font)
                piece.text = "-" if code in _SPLIT else "•" if is_bullet else chr(code)
                if not (pieces and pieces[-1].takes(piece)):
                    pieces.append(piece)
                is_ended = code in _SPLIT
        if pieces:
            yield pieces

    def _piece(self, place: int) -> _Piece:
        """Return where and how a character is set."""
        raw, page, box = self._raw, self._page, self._box
        owner = raw.FPDFText_GetTextObject(page, place)
        address = addressof(owner.contents) if owner else None
        if address is None or address != self._owner:
            self._owner = address
            self._begin_object(place)
        self.chars += 1
        self.unknown += self._is_unknown
        raw.FPDFText_GetLooseCharBox(page, place, box)
        across, up = self._type.across, self._type.up
        left, right = (box.left, box.right) if across > 0 else (box.right, box.left)
        low, high = (box.bottom, box.top) if up > 0 else (box.top, box.bottom)
        x, end = left * across + low * up, right * across + high * up
        return (
            _Piece(self._type, x, self._base, end, self._owner)
            if isfinite(x + end)
            else _Piece(_UPRIGHT, 0.0, 0.0, 0.0)
        )

    def _begin_object(self, place: int) -> None:
        """Look up what all characters of one object of the page have in common."""
        self.owners |= {self._owner} if self._owner is not None else set()
        raw, page, matrix, name = self._raw, self._page, self._matrix, self._name
        raw.FPDFText_GetMatrix(page, place, matrix)
        raw.FPDFText_GetFontInfo(page, place, name, 255, None)
        raw.FPDFText_GetCharOrigin(page, place, self._x, self._y)
        scale = hypot(matrix.a, matrix.b)
        size = abs(raw.FPDFText_GetFontSize(page, place)) * scale
        sane = isfinite(size) and size > 0
        across, up, size = (
            (matrix.a / scale, matrix.b / scale, round(size, 2) or 1.0) if sane else _UPRIGHT[:3]
        )
        self._type = _Type(across, up, size, name.value.decode("utf-8", "replace"))
        base = self._y.value * self._type.across - self._x.value * self._type.up
        self._base = base if isfinite(base) else 0.0
        self._is_unknown = raw.FPDFText_HasUnicodeMapError(page, place) == 1


def _is_below(before: _Piece, piece: _Piece) -> bool:
    """Whether a piece begins a line of its own: on a page with few words PDFium tells no ends of lines."""
    size = max(before.type.size, piece.type.size)
    return before.type[:2] == piece.type[:2] and piece.x < before.x and before.y - piece.y > size


def _is_beside(before: _Piece, piece: _Piece) -> bool:
    """Whether a piece goes on in the line of the one before: level with it at any distance, or close to it and a little higher or lower."""
    size, gap = max(before.type.size, piece.type.size), piece.x - before.end
    is_level = before.type == piece.type and abs(piece.y - before.y) < 0.05 * size
    return gap > -0.1 * size and (is_level or (gap < 0.4 * size and abs(piece.y - before.y) < 0.6 * size))


PICTURE_PIXELS = 1_568
"""Of the longer side of a page as a picture; larger ones are made smaller by providers. Source: Anthropic's reference, read 2026-11."""


def pictures_of(data: bytes, numbers: Iterable[int]) -> tuple[int, list[bytes]]:
    """
    Return how many pages a PDF file has, and pictures in shades of grey of those of *numbers* that it has, as PNG; empty for one that cannot
    be drawn.

    Raises:
        ConversionError: ``encrypted`` or ``broken``.
    """
    from pypdfium2 import PdfiumError

    with _opened(data) as document:
        found = []
        for number in numbers:
            if 0 < number <= len(document):
                try:
                    page = document[number - 1]
                    bitmap = page.render(scale=PICTURE_PIXELS / max(*page.get_size(), 1.0), grayscale=True)
                except PdfiumError:
                    found.append(b"")
                    continue
                found.append(_png(bytes(bitmap.buffer), bitmap.width, bitmap.height, bitmap.stride))
        return len(document), found


def _png(pixels: bytes, width: int, height: int, stride: int) -> bytes:
    """Return a picture with a byte a pixel as PNG. Source: W3C, Portable Network Graphics, sections 5 and 11."""
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, stride * height, stride))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    written = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


@contextmanager
def _opened(data: bytes) -> Iterator[Any]:
    from pypdfium2 import PdfDocument, raw

    with _ONE_AT_A_TIME:
        opened = raw.FPDF_LoadMemDocument64(data, len(data), None)
        if not opened and raw.FPDF_GetLastError() == raw.FPDF_ERR_PASSWORD:
            raise ConversionError("encrypted", "is protected by a password; save a copy without one")
        if not opened:
            raise ConversionError(
                "broken", "is damaged, or no PDF file; open it in its own program and save it again"
            )
        document = PdfDocument(opened)
        try:
            if document.get_formtype() != raw.FORMTYPE_NONE:
                document.init_forms()
            yield document
        finally:
            document.close()


def read_pdf(data: bytes, charset: str = "") -> Converted:
    """
    Turn a PDF file into running text, page by page.

    Raises:
        ConversionError: ``encrypted``, ``scanned``, ``broken``, ``empty`` or ``too_large``.
    """
    from pypdfium2 import raw

    with _opened(data) as document:
        pages, notes = _pages(document, raw)
        notes += _attached(document, raw)
        title = one_line(document.get_metadata_value("Title"))
    text, heads, starts = flow(pages)
    notes += noted.counted({noted.HEADS: len(heads)})
    if title is None or _JUNK_TITLE.match(title):
        title = _heading(pages)
    places = tuple(
        DocumentPlace(start, f"page {number}") for number, start in enumerate(starts, 1) if pages[number - 1]
    )
    repeated = [f"Page header or footer: {head}" for head in heads if any(map(str.isalpha, head))]
    places += (DocumentPlace(len(text), "headers and footers"),) * bool(repeated)
    text = "\n\n".join((text, *repeated))
    return Converted(text, "application/pdf", title, len(pages), tuple(notes), places)


def _pages(document: Any, raw: Any) -> tuple[list[Page], list[str]]:
    """Return the lines of each page, and notes on pages that gave no text or a doubtful one."""
    count = len(document)
    if count > PAGES_MAX:
        raise ConversionError("too_large", f"has {count} pages, the limit is {PAGES_MAX}; split it")
    pages: list[Page] = []
    unread, glued, unknown, silent = [], [], [], []
    seen: Counter[str] = Counter()
    chars = 0
    for number in range(1, count + 1):
        try:
            lines, is_unknown, is_silent = _lines(document, number - 1, raw, seen)
        except Exception:  # noqa: BLE001 - one bad page must not hide the others; it is named in a note
            lines, is_unknown, is_silent = [], False, False
            unread.append(number)
        pages.append(lines)
        chars += sum(len(line.text) for line in lines)
        if chars > CHARS_MAX:
            raise ConversionError("too_large", f"holds more than {CHARS_MAX:,} characters; split it")
        glued += [number] if _is_glued(lines) else []
        unknown += [number] if is_unknown else []
        silent += [number] if is_silent and lines else []
    if len(unread) == count:
        raise ConversionError("broken" if count else "empty", "has no page that could be read")
    blank = sum(not page for page in pages) - len(unread)
    if blank + len(unread) == count:
        message = (
            f"holds no text, probably only pictures (pages: {count}); OCR is not done here, run it first"
        )
        raise ConversionError("scanned", message)
    if seen.pop(_ANNOTATIONS, 0) >= _ANNOTATIONS_MAX:
        seen[f"remarks and fields beyond {_ANNOTATIONS_MAX:,}, left out"] += 1
    notes = [f"{blank} of {count} pages hold no text"] if blank else []
    for numbers, what in (
        (unread, "could not be read"),
        (silent, "not all of the text could be read, such as vertical lines"),
        (glued, "words seem to be glued together, the file does not set them apart"),
        (unknown, "the file does not say which letters its signs are, so the text may be wrong"),
    ):
        notes += [f"page{'s' * (len(numbers) > 1)} {_listed(numbers)}: {what}"] if numbers else []
    return pages, [*notes, *noted.counted(seen)]


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:_LISTED]))
    return f"{shown} and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else shown


def _lines(document: Any, index: int, raw: Any, seen: Counter[str]) -> tuple[Page, bool, bool]:
    """Return the lines of a page, whether many of its characters are of unknown meaning, and whether some of its text gives none."""
    page = document[index]
    try:
        text_page = page.get_textpage()
        reader = _Reader(raw, text_page)
        lines = _with_tables([(line, pieces) for pieces in reader.lines() for line in _line(pieces)])
        text_page.close()
        if seen[_ANNOTATIONS] < _ANNOTATIONS_MAX:
            lines = _annotated(document, page, raw, lines, seen)
        is_silent = _counted_objects(page, raw, reader, seen)
    finally:
        page.close()
    return lines, reader.unknown > _UNKNOWN_SHARE * reader.chars, is_silent


def _counted_objects(page: Any, raw: Any, reader: _Reader, seen: Counter[str]) -> bool:
    """Count the pictures of a page, and return whether it draws texts of which PDFium gives nothing."""
    left, low, right, high = (c_float() for _ in range(4))
    tall = flat = 0
    for place in range(raw.FPDFPage_CountObjects(page.raw)):
        found = raw.FPDFPage_GetObject(page.raw, place)
        kind = raw.FPDFPageObj_GetType(found)
        seen[noted.PICTURES] += kind == raw.FPDF_PAGEOBJ_IMAGE
        if kind == raw.FPDF_PAGEOBJ_TEXT and addressof(found.contents) not in reader.owners:
            raw.FPDFPageObj_GetBounds(found, left, low, right, high)
            is_drawn = high.value - low.value > 0.5 or right.value - left.value > 0.5
            tall, flat = tall + is_drawn, flat + (not is_drawn)  # flat ones are spaces, if they are few
    return tall > _SILENT_MIN or flat > max(_SILENT_MIN, reader.chars)


def _annotated(document: Any, page: Any, raw: Any, lines: Page, seen: Counter[str]) -> Page:
    """Return the lines of a page with what is filled in beside its labels, and behind them what readers have remarked."""
    form = document.formenv.raw if document.formenv else None
    remarks = list(_told_pictures(page, raw))
    for place in range(min(raw.FPDFPage_GetAnnotCount(page.raw), _ANNOTATIONS_MAX)):
        found = raw.FPDFPage_GetAnnot(page.raw, place)
        if not found:
            continue
        seen[_ANNOTATIONS] += 1
        kind = raw.FPDFAnnot_GetSubtype(found)
        is_hidden = bool(
            raw.FPDFAnnot_GetFlags(found) & (raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW)
        )
        if kind == raw.FPDF_ANNOT_WIDGET:
            if filled := _filled(found, form, raw):
                seen[noted.HIDDEN if is_hidden else noted.FIELDS] += 1
                lines = _beside(found, raw, lines, f"[hidden: {filled}]" if is_hidden else filled)
        elif kind not in (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP):
            words = " ".join(_string(raw.FPDFAnnot_GetStringValue, found, b"Contents").split())
            by = one_line(_string(raw.FPDFAnnot_GetStringValue, found, b"T"))
            what = {
                raw.FPDF_ANNOT_FILEATTACHMENT: noted.FILES,
                **dict.fromkeys(range(raw.FPDF_ANNOT_SOUND, raw.FPDF_ANNOT_WIDGET), noted.MEDIA),
            }
            seen[noted.COMMENTS if words else what.get(kind, noted.MARKED)] += 1
            remarks += [f"Comment{f' by {by}' if by else ''}: {words}"] if words else []
        raw.FPDFPage_CloseAnnot(found)
    low = min((line.y for line in lines), default=0.0)
    size = lines[-1].size if lines else 10.0
    return lines + [
        PageLine(text, 0.0, low - 9 * size * (number + 1), size, beside=True)
        for number, text in enumerate(remarks)
    ]


def _told_pictures(page: Any, raw: Any) -> Iterator[str]:
    """Yield the words that a page's structure has for its pictures."""
    tree = raw.FPDF_StructTree_GetForPage(page.raw)
    if not tree:
        return
    count = max(0, raw.FPDF_StructTree_CountChildren(tree))
    pending = [
        raw.FPDF_StructTree_GetChildAtIndex(tree, place) for place in range(min(count, _ANNOTATIONS_MAX))
    ]
    for _ in range(_ANNOTATIONS_MAX):  # a tree that says of itself that it is a circle ends, too
        if not pending:
            break
        found = pending.pop()
        if found:
            words = one_line(_string(raw.FPDF_StructElement_GetAltText, found))
            if words:
                yield f"[picture: {words}]"
            count = max(0, raw.FPDF_StructElement_CountChildren(found))
            inner = (
                raw.FPDF_StructElement_GetChildAtIndex(found, place)
                for place in range(min(count, _ANNOTATIONS_MAX))
            )
            pending += reversed(list(inner))
    raw.FPDF_StructTree_Close(tree)


def _filled(found: Any, form: Any, raw: Any) -> str:
    """Return what is filled into a field, with its name, also on a page that was taken out of its form; empty for an empty one."""
    kind, own_text = raw.FPDFAnnot_GetFormFieldType(form, found), raw.FPDFAnnot_GetStringValue
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        value = "☒" if raw.FPDFAnnot_IsChecked(form, found) else "☐"
    elif kind in (raw.FPDF_FORMFIELD_PUSHBUTTON, raw.FPDF_FORMFIELD_SIGNATURE):
        return ""
    else:
        own = _string(raw.FPDFAnnot_GetFormFieldValue, form, found) or _string(own_text, found, b"V")
        value = " ".join(own.split())
    names = (
        _string(raw.FPDFAnnot_GetFormFieldAlternateName, form, found),
        _string(raw.FPDFAnnot_GetFormFieldName, form, found),
        *(_string(own_text, found, key) for key in (b"TU", b"T")),
    )
    name = next(filter(None, map(one_line, names)), None)
    return f"[{name or 'field'}: {value}]" if value else ""


def _beside(found: Any, raw: Any, lines: Page, text: str) -> Page:
    """Return the lines with *text* at the end of the one before the field, or else as a line of its own below the one above."""
    box = raw.FS_RECTF()
    if not raw.FPDFAnnot_GetRect(found, box):
        return [*lines, PageLine(text, 0.0, 0.0, 10.0)]
    low, high = sorted((box.bottom, box.top))
    level = [place for place, line in enumerate(lines) if low - 2 <= line.y + line.size / 3 <= high + 2]
    left = [place for place in level if lines[place].x <= box.left + 1]
    if left:
        place = max(left, key=lambda at: (lines[at].x, at))
        changed = replace(lines[place], text=f"{lines[place].text} {text}")
        return [*lines[:place], changed, *lines[place + 1 :]]
    above = [place for place, line in enumerate(lines) if line.y >= low]
    place = min(above, key=lambda at: (lines[at].y, -at)) + 1 if above else 0
    size = lines[place - 1].size if above else 10.0
    return [*lines[:place], PageLine(text, box.left, low, size), *lines[place:]]


def _attached(document: Any, raw: Any) -> list[str]:
    """Return a note that names the files within the file."""
    count = raw.FPDFDoc_GetAttachmentCount(document.raw)
    some = (raw.FPDFDoc_GetAttachment(document.raw, place) for place in range(min(count, _LISTED)))
    names = [
        one_line(_string(raw.FPDFAttachment_GetName, found)) or "without a name" for found in some if found
    ]
    return [f"{noted.FILES}: {count} ({', '.join(names)})"] if count > 0 else []


def _string(read: Any, *given: Any) -> str:
    """Return a text that PDFium writes as UTF-16 into a buffer."""
    size = min(read(*given, None, 0), _STRING_MAX)
    if size < 4:
        return ""
    buffer = create_string_buffer(size)
    read(*given, cast(buffer, POINTER(c_ushort)), size)
    return clean(buffer.raw.decode("utf-16-le", "replace").partition("\0")[0])


def _is_glued(lines: Page) -> bool:
    """Whether much of a page are words that are too long for any language which sets words apart."""
    words = _LETTERS.findall(" ".join(line.text for line in lines))
    long = sum(len(word) for word in words if len(word) > _LONG_WORD)
    return long > _GLUED_SHARE * sum(map(len, words))


def _line(pieces: list[_Piece]) -> Page:
    """Return the line that *pieces* make, which are cleaned, or no line when they are blank."""
    for piece in pieces:
        piece.text = clean(piece.text).translate(_LIGATURES)
    inked = [piece for piece in pieces if piece.text.strip()]
    if not inked:
        return []
    main = max(inked, key=lambda piece: len(piece.text.strip()))
    parts = [pieces[0].text]
    row = False
    for place, (before, piece) in enumerate(pairwise(pieces)):
        text = piece.text
        if _is_raised(before, piece):
            piece.text = text = text.translate(RAISED)
        elif _is_cell(before, piece) and (place or _MARKER.fullmatch(before.text.strip()) is None):
            row = True
            text = f" | {text}"
        parts.append(text)
    text = re.sub(r"\s+", " ", "".join(parts)).strip()
    text, leaders = _LEADERS.subn(" … ", text)
    lettered = [piece for piece in inked if any(map(str.isalpha, piece.text))] or inked
    bold = all(_BOLD.search(piece.type.font) for piece in lettered)
    code = all(_FIXED.search(piece.type.font) for piece in lettered)
    return [PageLine(text, inked[0].x, main.y, main.type.size, bold=bold, code=code, row=row or leaders > 0)]


def _with_tables(lines: list[tuple[PageLine, list[_Piece]]]) -> Page:
    """Return the lines of a page, those of a table as Markdown."""
    found: Page = []
    done = 0
    for start, end, rows in tables([_cells(pieces) for _, pieces in lines]):
        found += [line for line, _ in lines[done:start]]
        table = table_of([[cell_of(cell) for cell in row.cells] for row in rows], len(rows[0].cells))
        head = lines[start][0]
        heights = [rows[0].y, *(row.y for row in rows)]
        found += [
            replace(head, text=text, y=y, bold=False, code=False, row=True)
            for text, y in zip(table.split("\n"), heights, strict=True)
        ]
        done = end
    return found + [line for line, _ in lines[done:]]


def _cells(pieces: list[_Piece]) -> list[PageCell]:
    """Return the cells of a line, also of a number before a text; one of a line of a table of contents."""
    cells: list[list[_Piece]] = [[]]
    is_led = _LEADERS.search("".join(piece.text for piece in pieces)) is not None
    for piece in pieces:
        if cells[-1] and cells[-1][-1].is_apart(piece) and not is_led:
            cells.append([])
        cells[-1].append(piece)
    texts = (" ".join("".join(piece.text for piece in cell).split()) for cell in cells)
    found = zip(texts, cells, strict=True)
    return [
        PageCell(text, cell[0].x, cell[-1].end, cell[0].y, cell[0].type.size) for text, cell in found if text
    ]


def _is_raised(before: _Piece, piece: _Piece) -> bool:
    """Tell a footnote's number; where the rise is not visible, only behind a digit, so that H2O stays."""
    if piece.type.size >= 0.8 * before.type.size or not piece.text.strip().isdigit():
        return False
    rise = (piece.y - before.y) / before.type.size
    return 0.15 < rise < 1 or (abs(rise) < 0.05 and before.text[-1:].isdigit())


def _is_cell(before: _Piece, piece: _Piece) -> bool:
    told = before.text.strip()
    far = piece.x - before.end > _CELL_GAP * max(piece.type.size, before.type.size)
    return far and bool(told and piece.text.strip())


def _heading(pages: list[Page]) -> str | None:
    """Return the lines of the largest type on the first page with text, if that is a title's size."""
    first = next(page for page in pages if page)
    sizes = sorted(line.size for line in first)
    if sizes[-1] < _TITLE_SIZE * sizes[len(sizes) // 2]:
        return None
    return one_line(" ".join(line.text for line in first if line.size > sizes[-1] * 0.95))
