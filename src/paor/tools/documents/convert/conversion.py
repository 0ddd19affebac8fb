"""What a conversion gives back, how it fails, and the clean-up and the tables that formats share."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

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

_CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]")
_NEWLINES = re.compile("\r\n?|[\f\x85\u2028\u2029]")
_SPACES = str.maketrans({"\xa0": " ", "\u202f": " ", "\u2007": " ", "\xad": None, "\u200b": None})
_BLANK_LINES = re.compile(r"\n{3,}")


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
    """

    text: str
    mime: str
    title: str | None = None
    pages: int | None = None
    notes: tuple[str, ...] = ()


class ConversionError(ToolError):
    """
    A document could not be turned into text; inside a run the model reads the message as the observation.

    Attributes:
        code: One of :data:`CODES`.
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
