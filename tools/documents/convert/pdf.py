"""
Read PDF: pypdf finds the pieces of text on each page, `reflow` makes running text of them.

Not covered: text in pictures (OCR), columns that a file stores line by line across the page, files that
need a password. One damaged page is left out with a note; a damaged file is an error.
"""

import io
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from logging.handlers import BufferingHandler
from math import hypot, isfinite
from threading import Lock
from typing import TYPE_CHECKING, Any

from .conversion import ConversionError, Converted, clean, one_line
from .reflow import Page, PageLine, flow

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

_PAGES_MAX = 5_000
_CHARS_MAX = 50_000_000
OPERATIONS_MAX = 3_000_000
"""Drawing operations of all pages: two minutes of work (2026-11-22). A page of print has a thousand of them or two."""
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_BOLD = re.compile(r"bold|black|heavy|-medi$|-demi", re.IGNORECASE)
_FIXED = re.compile(r"mono|monl|courier|consol|typewriter|cmtt|menlo", re.IGNORECASE)
_NARROW = re.compile(r"times|roman|garamond|romno9|serif", re.IGNORECASE)
_MARKER = re.compile(r"\W{1,2}|\(?(?:[a-zA-Z]|[ivxlc]{1,5})[.)]|\(?\d{1,3}(?:\.\d{1,3})*[.)]?")
_LEADERS = re.compile(r" ?(?:[.·_] ?){5,}")
_CELL_GAP = 2.0
"""Cells are set apart by more than this many times the type size, words by a third of it."""
_TITLE_SIZE = 1.3
"""A title is at least this many times larger than the usual line of its page."""
_JUNK_TITLE = re.compile(
    r"untitled|microsoft word - |[\w .-]+\.(docx?|tex|dvi|indd|qxd|wpd|pdf)$", re.IGNORECASE
)
_LOGGING = Lock()


class _Piece:
    """A run of text in one type, with its place and size on the upright page."""

    def __init__(self, text: str, cm: list[float], tm: list[float], font: Any, size: float) -> None:
        a, b = tm[0] * cm[0] + tm[1] * cm[2], tm[0] * cm[1] + tm[1] * cm[3]
        x, y = tm[4] * cm[0] + tm[5] * cm[2] + cm[4], tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
        scale = hypot(a, b) or 1.0
        placed = (x * a + y * b) / scale, (y * a - x * b) / scale, abs(size) * scale
        self.x, self.y, self.size = placed if all(map(isfinite, placed)) else (0.0, 0.0, 1.0)
        self.size = self.size or 1.0
        self.text = text
        self.font = str(font.get("/BaseFont", "")) if font else ""

    @property
    def end(self) -> float:
        """Estimated right end: letters are about half as wide as high, capitals three quarters."""
        letters = len(self.text.rstrip())
        capitals = 0.0 if _FIXED.search(self.font) else 0.22 * sum(map(str.isupper, self.text))
        width = 0.6 if _FIXED.search(self.font) else 0.42 if _NARROW.search(self.font) else 0.5
        return self.x + self.size * (letters * width + capitals)


def read_pdf(data: bytes, charset: str = "") -> Converted:
    """
    Turn a PDF file into running text, page by page.

    Raises:
        ConversionError: ``encrypted``, ``scanned``, ``broken``, ``empty`` or ``too_large``.
    """
    from pypdf import PdfReader

    with _quiet() as complaints:
        reader = PdfReader(io.BytesIO(data))
        _unlock(reader)
        pages, unread = _pages(reader)
        title = _title(reader)
    if len(unread) == len(pages):
        raise ConversionError("broken" if pages else "empty", "has no page that could be read")
    blank = sum(not page for page in pages) - len(unread)
    if blank + len(unread) == len(pages):
        message = (
            f"holds no text, probably only pictures (pages: {len(pages)}); OCR is not done here, run it first"
        )
        raise ConversionError("scanned", message)
    text, left_out = flow(pages)
    notes = [f"{blank} of {len(pages)} pages hold no text"] if blank else []
    notes += [f"page {number} could not be read" for number in unread]
    if left_out:
        notes.append(f"{left_out} repeated page headers or footers left out")
    if complaints:
        notes.append(f"the file is not quite valid ({len(complaints)} warnings)")
    return Converted(text, "application/pdf", title or _heading(pages), len(pages), tuple(notes))


def _unlock(reader: "PdfReader") -> None:
    from pypdf.errors import DependencyError

    if not reader.is_encrypted:
        return
    try:
        opened = reader.decrypt("")
    except DependencyError as error:
        message = "is encrypted with AES; pip install cryptography, or save a copy without protection"
        raise ConversionError("encrypted", message) from error
    if not opened:
        raise ConversionError("encrypted", "is protected by a password; save a copy without one")


def _pages(reader: "PdfReader") -> tuple[list[Page], list[int]]:
    """Return the lines of each page and the numbers, from 1, of pages that could not be read."""
    count = len(reader.pages)
    if count > _PAGES_MAX:
        raise ConversionError("too_large", f"has {count} pages, the limit is {_PAGES_MAX}; split it")
    pages: list[Page] = []
    unread: list[int] = []
    chars, work = 0, _Work(OPERATIONS_MAX)
    for number in range(1, count + 1):
        try:
            pages.append(_lines(reader.pages[number - 1], work))
        except ConversionError:
            raise
        except Exception:  # noqa: BLE001 - one bad page must not hide the others; it is named in a note
            pages.append([])
            unread.append(number)
        chars += sum(len(line.text) for line in pages[-1])
        if chars > _CHARS_MAX:
            raise ConversionError("too_large", f"holds more than {_CHARS_MAX:,} characters; split it")
    return pages, unread


class _Work:
    """Counts drawing operations, so that pages which share a long stream are not drawn for hours."""

    def __init__(self, most: int) -> None:
        self._left = self._most = most

    def count(self, *operation: Any) -> None:
        """Count one; raise `ConversionError` when there are too many."""
        self._left -= 1
        if self._left < 0:
            message = f"has more than {self._most:,} drawing operations, which would take long; split it"
            raise ConversionError("too_large", message)


def _lines(page: "PageObject", work: _Work) -> Page:
    pieces: list[_Piece] = []
    lines: Page = []

    def visit(text: str, cm: list[float], tm: list[float], font: Any, size: float) -> None:
        for index, part in enumerate(text.split("\n")):
            if index:
                lines.extend(_line(pieces))
                pieces.clear()
            if part:
                pieces.append(_Piece(clean(part).translate(_LIGATURES), cm, tm, font, size))

    page.extract_text(visitor_text=visit, visitor_operand_before=work.count)
    return [*lines, *_line(pieces)]


def _line(pieces: list[_Piece]) -> Page:
    """Return the line that *pieces* make, or no line when they are blank."""
    inked = [piece for piece in pieces if piece.text.strip()]
    if not inked:
        return []
    main = max(inked, key=lambda piece: len(piece.text.strip()))
    parts = [pieces[0].text]
    row = False
    for before, piece in pairwise(pieces):
        text = piece.text
        if _is_raised(before, piece):
            text = text.translate(_RAISED)
        elif _is_cell(before, piece):
            row = True
            text = f" | {text}"
        parts.append(text)
    text = re.sub(r"\s+", " ", "".join(parts)).strip()
    text, leaders = _LEADERS.subn(" … ", text)
    lettered = [piece for piece in inked if any(map(str.isalpha, piece.text))] or inked
    bold = all(_BOLD.search(piece.font) for piece in lettered)
    code = all(_FIXED.search(piece.font) for piece in lettered)
    return [PageLine(text, inked[0].x, main.y, main.size, bold=bold, code=code, row=row or leaders > 0)]


def _is_raised(before: _Piece, piece: _Piece) -> bool:
    """Tell a footnote's number; where the rise is not visible, only behind a digit, so that H2O stays."""
    if piece.size >= 0.8 * before.size or not piece.text.strip().isdigit():
        return False
    rise = (piece.y - before.y) / before.size
    return 0.15 < rise < 1 or (abs(rise) < 0.05 and before.text[-1:].isdigit())


def _is_cell(before: _Piece, piece: _Piece) -> bool:
    told = before.text.strip()
    far = piece.x - before.end > _CELL_GAP * max(piece.size, before.size)
    return far and bool(told and piece.text.strip()) and _MARKER.fullmatch(told) is None


def _title(reader: "PdfReader") -> str | None:
    try:
        title = one_line((reader.metadata and reader.metadata.title) or "")
    except Exception:  # noqa: BLE001 - a damaged title is no reason to refuse the text
        return None
    return None if title is None or _JUNK_TITLE.match(title) else title


def _heading(pages: list[Page]) -> str | None:
    """Return the lines of the largest type on the first page with text, if that is a title's size."""
    first = next(page for page in pages if page)
    sizes = sorted(line.size for line in first)
    if sizes[-1] < _TITLE_SIZE * sizes[len(sizes) // 2]:
        return None
    return one_line(" ".join(line.text for line in first if line.size > sizes[-1] * 0.95))


@contextmanager
def _quiet() -> Iterator[list[logging.LogRecord]]:
    """Collect what pypdf would log, instead of showing it; one conversion at a time, so none mix."""
    logger = logging.getLogger("pypdf")
    handler = BufferingHandler(sys.maxsize)
    handler.setLevel(logging.WARNING)
    with _LOGGING:
        before = logger.propagate
        logger.addHandler(handler)
        logger.propagate = False
        try:
            yield handler.buffer
        finally:
            logger.removeHandler(handler)
            logger.propagate = before
