"""What a conversion gives back, how it fails, and the clean-up and the tables that formats share."""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from ....states.base.errors import ToolError

CODES = (
    "unsupported",
    "empty",
    "scanned",
    "encrypted",
    "broken",
    "too_large",
    "missing_extra",
    "binary",
    "too_slow",
    "stopped",
)
"""Every value that :attr:`ConversionError.code` can have."""

RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
"""A raised number is no digit of the one before it: 10³, a footnote¹."""

_CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]")
_NEWLINES = re.compile("\r\n?|[\f\x85\u2028\u2029]")
_SPACES = str.maketrans({"\xa0": " ", "\u202f": " ", "\u2007": " ", "\xad": None, "\u200b": None})
_BLANK_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """
    Where a part of a text was in its document.

    Attributes:
        at: Position of the first of its characters; the part ends where the next one begins.
        name: How a person finds it: ``page 3``, ``clause 4.2``, ``Prices!A7`` for the row that begins with this cell.
    """

    at: int
    name: str


@dataclass(frozen=True, slots=True)
class Converted:
    """
    One document as text.

    Attributes:
        text: Markdown or plain text; never empty, always encodable as UTF-8.
        mime: Kind of the source, e.g. ``application/pdf``.
        title: Title that the document gives itself, ``None`` where it has none.
        pages: Number of pages; only PDF files have pages, else ``None``.
        notes: Short facts a reader of ``text`` should know, e.g. ``"2 of 14 pages hold no text"``.
        places: Pages of a PDF file, rows of sheets, else headings and numbered clauses, in their order.
    """

    text: str
    mime: str
    title: str | None = None
    pages: int | None = None
    notes: tuple[str, ...] = ()
    places: tuple[DocumentPlace, ...] = ()

    def place(self, at: int) -> str | None:
        """
        Return the name of the place that holds a character of the text, None before the first.

        Args:
            at: Position of the character, from 0.
        """
        before = bisect_right(self.places, at, key=lambda place: place.at)
        return self.places[before - 1].name if before else None

    @property
    def marked(self) -> str:
        """
        The text with the places in it that it does not show itself, for readers who are to name them.

        ``[page 2]`` is before the first sentence that begins on a page, from the second page on; ``[A7]`` or ``[row 7]`` in the
        first cell of a row.
        """
        parts: list[str] = []
        done = 0
        for place in self.places:
            if cell := _CELL.search(place.name):
                at, mark = place.at + 2, f"[{cell[1] or cell[0]}] "
            elif _PAGE.fullmatch(place.name) and place.name != "page 1":
                last = min(len(self.text), place.at + _SENTENCE_MAX)
                ends = (found.end() for found in _BEGINS.finditer(self.text, max(0, place.at - 9), last))
                at = max(done, next((end for end in ends if end >= place.at), last))
                mark = f"[{place.name}]{' ' if self.text[at - 1 : at] == ' ' else chr(10)}"
            else:
                continue
            parts += (self.text[done:at], mark)
            done = at
        return "".join((*parts, self.text[done:]))


_CELL = re.compile(r"^row \d+$|!([A-Z]{1,3}\d+)$")
_SENTENCE_MAX = 2_000
_PAGE = re.compile(r"page \d+")
_BEGINS = re.compile(r"\A|\n+(?=\S)|[.!?:;][\"'”’»)\]¹²³⁴⁵⁶⁷⁸⁹⁰]* (?=\S)")
"""After it a line or a sentence begins."""


class ConversionError(ToolError):
    """
    A document could not be turned into text; inside a run the model reads the message as the observation.

    Attributes:
        code: ``unsupported``, ``empty``, ``scanned``, ``encrypted``, ``broken``, ``too_large``, ``missing_extra``, ``binary``,
            ``too_slow`` or ``stopped``.
        message: One line for a person: what is wrong and what to do.
    """

    def __init__(self, code: str, message: str) -> None:
        assert code in CODES, code
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


def clean(text: str) -> str:
    """
    Return *text* without what only disturbs a reader: control characters, soft hyphens, odd spaces, lone surrogates.

    ``\\n`` is the only line break in it, and UTF-8 can encode it. Visible characters stay as they are.
    """
    text = _NEWLINES.sub("\n", text)
    text = _CONTROLS.sub("", text.translate(_SPACES))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def tidy(text: str) -> str:
    """Return *text* cleaned, without spaces at line ends, blank lines at its ends, or two of them in a row; perhaps empty."""
    text = "\n".join(line.rstrip() for line in clean(text).split("\n"))
    return _BLANK_LINES.sub("\n\n", text).strip("\n")


def one_line(text: str) -> str | None:
    """Return at most 200 characters of *text* on one line, as a title; None when nothing is left of it."""
    return " ".join(clean(text).split())[:200] or None


_MARKED = re.compile(
    r"(?m)^(?:(#{1,6}) )?(?:[-*] )?(?:((?:§ ?)?\d{1,3}(?:\.\d{1,3})*[.)]?|\((?:[a-z]{1,4}|\d{1,2})\))(?= )|(?<=# ))(.{0,80})"
)
"""A heading, or a paragraph with a number of its own."""


def places_of(text: str, pages: Sequence[DocumentPlace]) -> tuple[DocumentPlace, ...]:
    """Return the places of a text: its pages, and in them headings and numbered clauses."""
    places: list[DocumentPlace] = []
    clause, inner, head, page = "", "", "", 0
    pending = deque(pages)
    for found in _MARKED.finditer(text):
        while pending and pending[0].at <= found.start():
            places.append(pending.popleft())
            page = len(pages) - len(pending)
        number = (found[2] or "").strip(" .").removesuffix(")")
        inner = f"{number})" if number.startswith("(") else ""
        if not number:
            clause = head = f"“{' '.join(found[3].split())}”"
        elif number.isdigit() and head and not found[1]:
            clause = f"{head}, item {number}"
        elif not inner:
            clause, head = f"clause {number}", head if not found[1] else ""
        here = [*([pages[page - 1].name] if page else []), f"{clause} {inner}".strip()]
        places.append(DocumentPlace(found.start(), ", ".join(here)))
    return (*places, *pending)


PLACES_MAX = 100_000
"""Rows that have places; a table of more has none."""


def rows_of(text: str, names: Sequence[str]) -> tuple[DocumentPlace, ...]:
    """Return the places of a text's table rows, each with its name; an empty name is for the line below the head of a table."""
    rows = [found.start() for found in islice(re.finditer(r"(?m)^\| ", text), PLACES_MAX + 1)]
    named = zip(rows, names, strict=True) if len(rows) == len(names) else ()  # else a text looks like a table
    return tuple(DocumentPlace(at, name) for at, name in named if name)


def whole(digits: str, otherwise: int = 0) -> int:
    """Return the whole number that an attribute of a file says; *otherwise* where that is none, or one of more than nine digits."""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else otherwise


def blocks_of(blocks: Iterable[tuple[str, str]]) -> str:
    """Return blocks of text, each with the name of the list that it is an item of or an empty one, as Markdown."""
    parts: list[str] = []
    last = ""
    for name, block in blocks:
        if block:
            parts += ["\n" if name and name == last else "\n\n"] * bool(parts) + [block]
            last = name
    return "".join(parts)


def numeral(number: int, form: str) -> str:
    """Return how *number* is printed in a list whose first item is *form*: ``1``, ``01``, ``1st``, ``a``, ``A``, ``i`` or ``I``; empty for an empty one."""
    if form in ("a", "A") and 0 < number <= 26 * 26:  # after z comes aa, then bb, as office programs do
        letters = "abcdefghijklmnopqrstuvwxyz"[(number - 1) % 26] * ((number - 1) // 26 + 1)
        return letters if form == "a" else letters.upper()
    if form in ("i", "I") and 0 < number < 4000:
        rest, roman = number, ""
        for value, digits in _ROMAN:
            roman, rest = roman + digits * (rest // value), rest % value
        return roman if form == "i" else roman.upper()
    if form == "1st":
        is_teen = number % 100 in (11, 12, 13)
        return f"{number}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
    return f"{number:02}" if form == "01" else str(number) if form else ""


_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl")),
    *((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)


REPEATED_MAX = 60
"""Characters of a merged cell that is written in each cell it covers; a longer one is written once, in the first."""


def repeated(cell: str) -> str:
    """Return what a cell holds that is covered by *cell*."""
    return cell if len(cell) <= REPEATED_MAX else ""


def cell_of(text: str) -> str:
    """Return *text* as a cell of a Markdown table: bars are escaped, a line break is ``<br>``."""
    if text.isalnum() and text.isascii():
        return text  # most cells, and most of the time
    return tidy(text).strip().replace("|", "\\|").replace("\n", "<br>")


def table_of(rows: Sequence[Sequence[str]], width: int) -> str:
    """Return *rows* of cells as a Markdown table of *width* columns; the first row is the head, short ones are filled up."""
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in rows]
    lines[1:1] = [f"| {' | '.join(['---'] * width)} |"] * bool(rows)
    return "\n".join(lines)
