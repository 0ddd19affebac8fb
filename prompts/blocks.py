"""
Read Markdown or plain text into units that can be quoted: sentences, list items, table rows, lines of code.

It understands ATX, setext and bold-only headings, lists, pipe tables, quotes, fences and hard-wrapped lines, and in text
that came out of a PDF also numbered headings ("4. Delivery", "§ 4 Kündigung", "ARTICLE 5"), capitals, clause numbers and
page numbers. Not Markdown as the specification has it, but what business documents hold: nothing is ever refused.

Every unit but a table row is a piece of the folded source, so that it can be found there again. A row repeats its
headers ("Item: Storage; Price: 5 EUR") because a row alone says nothing. An item remembers the line that introduces its
list ("The Supplier shall:") because the item alone lacks its verb.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from .headings import ENDS, KEY, PAGE, following, indent_of, is_heading
from .sentences import fold, split
from .tables import cells_of, delimits, header_of, pairs_of

ITEM_CHARS_MAX: Final = 280
"""An item up to this length is quoted whole, a longer one by the sentence."""
INTRO_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Unit:
    """
    One piece of a document that can be quoted.

    Attributes:
        text: The words, verbatim from the folded source; of a table row, its cells with their headers.
        form: ``sentence``, ``item``, ``task`` (an item with a check box), ``row``, ``code`` or ``intro``.
        heading: The nearest heading above, without its marks.
        intro: What introduces the list that this item is in, ending in a colon.
        cells: Of a table row, pairs of header and value.
        first: Whether it opens its section.
        follows: Whether it goes on in the paragraph of the unit before it.
        quoted: Whether it was in a block quote, so that *text* may hold the marks of its further lines.
    """

    text: str
    form: str
    heading: str | None = None
    intro: str = ""
    cells: tuple[tuple[str, str], ...] = ()
    first: bool = False
    follows: bool = False
    quoted: bool = False


_ATX = re.compile(r"#{1,6}\s+(\S.*)")
_BOLD_LINE = re.compile(r"(?:\*\*|__)([^*_]{1,90})(?:\*\*|__):?")
_FENCE = re.compile(r"(?:```|~~~)")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_DIRECTIVE = re.compile(r"\.\. |:[\w-]{2,20}:(?: |$)")
_RULE = re.compile(r"(?:[-*_=~] ?){3,}")
_QUOTE = re.compile(r"(?:> ?)+")
_ITEM = re.compile(r"(?:[-*+•‣▪●○◦·–]|\(?\d{1,3}[.)]|\(?[a-zA-Z][)]|\(?[ivx]{1,4}\))\s+(?=\S)")
_PARAGRAPH = re.compile(r"\(\d{1,2}\)\s")
_BOX = re.compile(r"\[[ xX]?\]\s+(?=\S)")
_CLAUSE = re.compile(r"(?:\d{1,2}(?:\.\d{1,2}){1,3}\.?|\(\d{1,2}\)|§+ ?\d+\w?)\s+[^\W\d_a-zäöüß\"“„'«]?[^\s]")


def units(text: str, *, units_max: int) -> tuple[list[Unit], bool]:
    """
    Read *text* into units in their order.

    Args:
        text: Markdown or plain text; anything is accepted.
        units_max: Reading stops after so many units.

    Returns:
        The units, and whether the whole text was read.
    """
    reader = _Reader(text.splitlines(), units_max)
    return reader.read()


@dataclass(slots=True)
class _Reader:
    """One pass over the lines of a text; ``block`` collects the lines of the paragraph or item being read."""

    lines: Sequence[str]
    units_max: int
    out: list[Unit] = field(default_factory=list)
    block: list[str] = field(default_factory=list)
    form: str = "sentence"
    indent: int = 0
    heading: str | None = None
    fresh: bool = True
    quoted: bool = False
    fence: bool = False
    whole: bool = False
    lead: str = ""
    header: tuple[str, ...] | None = None
    intros: list[tuple[int, int, str]] = field(default_factory=list)
    following: list[int] = field(default_factory=list)

    def read(self) -> tuple[list[Unit], bool]:
        """Read all lines and return the units and whether none was left."""
        self.following = following(self.lines)
        for number, raw in enumerate(self.lines):
            if len(self.out) >= self.units_max:
                return self.out[: self.units_max], False
            self._line(number, raw, fold(raw))
        self._flush()
        return self.out[: self.units_max], len(self.out) <= self.units_max

    def _line(self, number: int, raw: str, line: str) -> None:
        """Take one line, folded in *line*, to the block it belongs to."""
        if _FENCE.match(line):
            self._flush()
            self.fence = not self.fence
        elif self.fence or _DIRECTIVE.match(line):
            self._flush()
            self._emit(line, "code")
        elif not line or PAGE.fullmatch(line):
            self._flush()
            self.header = None
        elif self._table(number, line) or self._title(number, line):
            pass
        elif _RULE.fullmatch(line):
            self._flush()
        else:
            self.header = None
            self._words(raw, line)

    def _words(self, raw: str, line: str) -> None:
        """Add a line of running text: to the open block, or as the start of one."""
        quote = _QUOTE.match(line)
        bare = line[quote.end() :] if quote else line
        item = _ITEM.match(bare)
        if item and not (_PARAGRAPH.match(bare) and not self._introduced()):
            self._flush()
            self.form, self.indent = "item", indent_of(raw)
            while self.intros and self.intros[-1][0] >= self.indent:
                self.intros.pop()
            bare = bare[item.end() :]
            box = _BOX.match(bare)
            if box:
                self.form, bare = "task", bare[box.end() :]
            line = bare
        elif self.block and self._starts(line):
            self._flush()
        if not self.block:
            self.quoted = quote is not None
            line = bare
        if line:
            self.block.append(line)

    def _introduced(self) -> bool:
        """Whether a line ending in a colon stands above: then "(1)" is an item, and else the number of a paragraph."""
        return self.block[-1].endswith(":") if self.block else bool(self.intros)

    def _starts(self, line: str) -> bool:
        """Whether *line* opens a paragraph although no blank line stands before it."""
        last = self.block[-1]
        if _CLAUSE.match(line):
            return last.endswith(ENDS) or len(last) < 50
        if not KEY.match(line):
            return False
        return len(last) < 60 or last.endswith((".", "!", "?")) or bool(KEY.match(last))

    def _title(self, number: int, line: str) -> bool:
        """Take *line* as a heading if it is one."""
        atx = _ATX.fullmatch(line)
        bold = _BOLD_LINE.fullmatch(line)
        if atx:
            self._head(atx.group(1).rstrip("# "))
        elif bold and not self.block:
            self._head(bold.group(1))
        elif len(self.block) == 1 and self.form == "sentence" and re.fullmatch(r"=+|-{2,}", line):
            title, self.block = self.block[0], []
            self._head(title)
        elif self._plain(number, line):
            self._head(line)
        else:
            return False
        return True

    def _plain(self, number: int, line: str) -> bool:
        """Whether a line without any mark is a heading."""
        last = self.block[-1] if self.block else ""
        return is_heading(self.lines, number, line, after=self.following[number], last=last)

    def _head(self, title: str) -> None:
        """Close what is open and set the heading, unless it only numbers a page."""
        self._flush()
        title = fold(_TAG.sub("", title.replace("**", "").replace("__", ""))).strip(":")
        if title and not PAGE.fullmatch(title):
            self.heading, self.fresh = title[:200], True
            self.intros.clear()

    def _table(self, number: int, line: str) -> bool:
        """Take *line* as part of a pipe table if it is one."""
        if "|" not in line:
            return False
        if self.header is None:
            below = fold(self.lines[number + 1]) if number + 1 < len(self.lines) else ""
            marked = delimits(below)
            bars = line.count(" | ")
            if not marked and not line.startswith("|") and not 0 < bars == below.count(" | "):
                return False
            self._flush()
            self._consume_intro()
            self.lead = self.intros[-1][2] if self.intros else ""
            self.intros.clear()
            self.header = header_of(cells_of(line), marked)
            if self.header:
                return True
        if not delimits(line):
            self._row(cells_of(line))
        return True

    def _row(self, cells: tuple[str, ...]) -> None:
        """Emit one table row with its headers in front of the values."""
        pairs = pairs_of(self.header or (), cells)
        text = "; ".join(f"{head}: {cell}" if head else cell for head, cell in pairs)
        self._emit(text, "row", intro=self.lead, cells=pairs)

    def _flush(self) -> None:
        """Emit the open block and get ready for the next."""
        if not self.block:
            return
        text, form = " ".join(self.block), self.form
        self.block, self.form = [], "sentence"
        if form == "sentence":
            self.intros.clear()
        intro = " ".join(words for _, _, words in self.intros[-2:])
        if form != "sentence":
            self._consume_intro()
        pieces = [text] if form != "sentence" and len(text) <= ITEM_CHARS_MAX else split(text)
        for number, piece in enumerate(pieces):
            self._emit(piece, form, intro="" if number else intro, follows=number > 0)
        if pieces and pieces[-1].endswith(":") and len(pieces[-1]) <= INTRO_CHARS_MAX and self.out:
            level = self.indent if form != "sentence" else -1
            self.intros.append((level, len(self.out) - 1, pieces[-1]))

    def _consume_intro(self) -> None:
        """Mark the unit that introduces the list or table now beginning: it will be quoted with each item."""
        if self.intros:
            place = self.intros[-1][1]
            self.out[place] = replace(self.out[place], form="intro")

    def _emit(
        self,
        text: str,
        form: str,
        *,
        intro: str = "",
        cells: tuple[tuple[str, str], ...] = (),
        follows: bool = False,
    ) -> None:
        """Add one unit if it holds a letter or a digit."""
        if any(map(str.isalnum, text)):
            follows = follows and self.whole
            self.out.append(Unit(text, form, self.heading, intro, cells, self.fresh, follows, self.quoted))
            self.fresh, self.whole = False, True
        else:
            self.whole = False
