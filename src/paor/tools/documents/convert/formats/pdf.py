"""
Read PDF: PDFium finds the characters of each page, `reflow` makes running text of the lines that they form.

Not covered: text in pictures (OCR), columns that a file stores line by line across the page, files that
need a password. One damaged page is left out with a note; a damaged file is an error.
"""

import re
from collections.abc import Iterator
from ctypes import addressof, c_double, create_string_buffer
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, isfinite
from threading import Lock
from typing import Any, NamedTuple

from .conversion import ConversionError, Converted, clean, one_line
from .reflow import Page, PageLine, flow

_PAGES_MAX = 5_000
_CHARS_MAX = 50_000_000
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_BOLD = re.compile(r"bold|black|heavy|-medi$|-demi|cmbx", re.IGNORECASE)
_FIXED = re.compile(r"mono|monl|courier|consol|typewriter|cmtt|menlo", re.IGNORECASE)
_MARKER = re.compile(r"\W{1,2}|\(?(?:[a-zA-Z]|[ivxlc]{1,5})[.)]|\(?\d{1,3}(?:\.\d{1,3})*[.)]?")
_LEADERS = re.compile(r" ?(?:[.·_] ?){5,}")
_CELL_GAP = 1.5
"""Cells are set apart by more than this many times the type size, words by a third of it."""
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
_LISTED = 10
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
    """A run of text in one type, with its place and right end on the upright page."""

    type: _Type
    x: float
    y: float
    end: float
    text: str = ""

    def takes(self, piece: "_Piece") -> bool:
        """Whether *piece* goes on with this one; then its text is added."""
        size = self.type.size
        if (
            self.type != piece.type
            or abs(self.y - piece.y) > 0.05 * size
            or piece.x - self.end > _CELL_GAP * size
        ):
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
                if pieces and is_ended and not _is_beside(pieces[-1], piece):
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
            _Piece(self._type, x, self._base, end) if isfinite(x + end) else _Piece(_UPRIGHT, 0.0, 0.0, 0.0)
        )

    def _begin_object(self, place: int) -> None:
        """Look up what all characters of one object of the page have in common."""
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


def _is_beside(before: _Piece, piece: _Piece) -> bool:
    """Whether a piece goes on where the one before ends, a little higher or lower: raised numbers are no new line."""
    size = max(before.type.size, piece.type.size)
    return abs(piece.y - before.y) < 0.6 * size and -0.1 * size < piece.x - before.end < 0.4 * size


def read_pdf(data: bytes, charset: str = "") -> Converted:
    """
    Turn a PDF file into running text, page by page.

    Raises:
        ConversionError: ``encrypted``, ``scanned``, ``broken``, ``empty`` or ``too_large``.
    """
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
            pages, notes = _pages(document, raw)
            title = one_line(document.get_metadata_value("Title"))
        finally:
            document.close()
    text, left_out = flow(pages)
    if left_out:
        notes.append(f"{left_out} repeated page headers or footers left out")
    if title is None or _JUNK_TITLE.match(title):
        title = _heading(pages)
    return Converted(text, "application/pdf", title, len(pages), tuple(notes))


def _pages(document: Any, raw: Any) -> tuple[list[Page], list[str]]:
    """Return the lines of each page, and notes on pages that gave no text or a doubtful one."""
    count = len(document)
    if count > _PAGES_MAX:
        raise ConversionError("too_large", f"has {count} pages, the limit is {_PAGES_MAX}; split it")
    pages: list[Page] = []
    unread, glued, unknown = [], [], []
    chars = 0
    for number in range(1, count + 1):
        try:
            lines, is_unknown = _lines(document, number - 1, raw)
        except Exception:  # noqa: BLE001 - one bad page must not hide the others; it is named in a note
            lines, is_unknown = [], False
            unread.append(number)
        pages.append(lines)
        chars += sum(len(line.text) for line in lines)
        if chars > _CHARS_MAX:
            raise ConversionError("too_large", f"holds more than {_CHARS_MAX:,} characters; split it")
        glued += [number] if _is_glued(lines) else []
        unknown += [number] if is_unknown else []
    if len(unread) == count:
        raise ConversionError("broken" if count else "empty", "has no page that could be read")
    blank = sum(not page for page in pages) - len(unread)
    if blank + len(unread) == count:
        message = (
            f"holds no text, probably only pictures (pages: {count}); OCR is not done here, run it first"
        )
        raise ConversionError("scanned", message)
    notes = [f"{blank} of {count} pages hold no text"] if blank else []
    for numbers, what in (
        (unread, "could not be read"),
        (glued, "words seem to be glued together, the file does not set them apart"),
        (unknown, "the file does not say which letters its signs are, so the text may be wrong"),
    ):
        notes += [f"page{'s' * (len(numbers) > 1)} {_listed(numbers)}: {what}"] if numbers else []
    return pages, notes


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:_LISTED]))
    return f"{shown} and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else shown


def _lines(document: Any, index: int, raw: Any) -> tuple[Page, bool]:
    """Return the lines of a page, and whether many of its characters are of unknown meaning."""
    page = document[index]
    try:
        text_page = page.get_textpage()
        reader = _Reader(raw, text_page)
        lines = [line for pieces in reader.lines() for line in _line(pieces)]
        text_page.close()
    finally:
        page.close()
    return lines, reader.unknown > _UNKNOWN_SHARE * reader.chars


def _is_glued(lines: Page) -> bool:
    """Whether much of a page are words that are too long for any language which sets words apart."""
    words = _LETTERS.findall(" ".join(line.text for line in lines))
    long = sum(len(word) for word in words if len(word) > _LONG_WORD)
    return long > _GLUED_SHARE * sum(map(len, words))


def _line(pieces: list[_Piece]) -> Page:
    """Return the line that *pieces* make, or no line when they are blank."""
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
            text = text.translate(_RAISED)
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
