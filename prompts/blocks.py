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

from .sentences import fold, split

ITEM_CHARS_MAX: Final = 280
"""An item up to this length is quoted whole, a longer one by the sentence."""
CELL_CHARS_MAX: Final = 240
INTRO_CHARS_MAX: Final = 200
COLUMNS_MAX: Final = 40


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
_BAR = re.compile(r"(?<!\\)\|")
_ITEM = re.compile(r"(?:[-*+•‣▪●○◦·–]|\(?\d{1,3}[.)]|\(?[a-zA-Z][)]|\(?[ivx]{1,4}\))\s+(?=\S)")
_PARAGRAPH = re.compile(r"\(\d{1,2}\)\s")
_ORDERED = re.compile(r"\(?\d{1,3}[.)]\s")
_BOX = re.compile(r"\[[ xX]?\]\s+(?=\S)")
_CLAUSE = re.compile(r"(?:\d{1,2}(?:\.\d{1,2}){1,3}\.?|\(\d{1,2}\)|§+ ?\d+\w?)\s+[^\W\d_a-zäöüß\"“„'«]?[^\s]")
_KEY = re.compile(r"(?:\*\*)?[^\W\d_a-z][^:|.!?]{0,36}:(?:\*\*)?\s+\S")
_NUMBERED = re.compile(
    r"(?:(?:§+|section|article|clause|art\.|abschnitt|artikel|kapitel|chapter|chapitre|titre|título|titolo|capítulo"
    r"|artículo|articolo|artigo|teil|part|partie|annex|annexe|appendix|anlage|anhang|schedule|anexo|allegato|bijlage)\s*"
    r"[\dIVXLC]{1,5}[a-z]?\b|\d{1,2}(?:\.\d{1,2}){0,3}\.?|[IVX]{1,5}\.)\s*[:.–—-]?\s*(.*)",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:shall|must|will|may|is|are|was|has|have|muss|müssen|ist|sind|hat|haben|wird|werden|doit|doivent|est|sont|debe|deben|deve"
    r"|devono|è|são|moet|moeten|zijn)\b"
)
_TITLE = re.compile(r"\d{1,2}\. (?:[^\W\d_a-zäöüß]\S*|\w{1,3})(?: (?:[^\W\d_a-zäöüß]\S*|\w{1,3}))*")
_PAGE_WORD: Final = r"(?:page|seite|página|pagina|pág\.|p\.)"
_PAGE = re.compile(
    rf"{_PAGE_WORD} ?\d{{1,4}}|(?:.{{0,60}}\b)?{_PAGE_WORD} ?\d{{1,4}} ?(?:of|von|de|sur|di|van|/) ?\d{{1,4}}"
    r"|[-–] ?\d{1,4} ?[-–]|\d{1,3}(?: ?/ ?\d{1,3})?",
    re.IGNORECASE,
)
_ENDS = (".", ":", ";", "!", "?", ",")


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
        self.following = _following(self.lines)
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
        elif not line or _PAGE.fullmatch(line):
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
            self.form, self.indent = "item", _indent(raw)
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
            return last.endswith(_ENDS) or len(last) < 50
        if not _KEY.match(line):
            return False
        return len(last) < 60 or last.endswith((".", "!", "?")) or bool(_KEY.match(last))

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
        elif len(line) <= 90 and self._plain(number, line):
            self._head(line)
        else:
            return False
        return True

    def _plain(self, number: int, line: str) -> bool:
        """Whether a line without any mark is a heading: numbered, in capitals, or alone between blank lines."""
        after = self.following[number]
        lone = after > number + 1
        if after < 0 or "|" in line or len(line.split()) > 10 or line.endswith((";", ",", "!", "?", ":")):
            return False
        if _VERB.search(line) or (line.endswith(".") and not (lone and _TITLE.fullmatch(line))):
            return False
        below, deeper = self.lines[after], _indent(self.lines[after]) > _indent(self.lines[number])
        last = self.block[-1] if self.block else "."
        numbered = _NUMBERED.fullmatch(line)
        if numbered and (last.endswith(_ENDS) or len(last) < 60):
            title = numbered.group(1)
            if any(map(str.isdigit, title)):
                return False
            listed = _ORDERED.match(line) and (
                _ORDERED.match(below.strip()) or deeper or self._in_list(number)
            )
            return (
                not listed
                and not title[:1].islower()
                and not below.strip()[:1].islower()
                and bool(title or line[0] == "§")
            )
        letters = sum(map(str.isalpha, line))
        if line.isupper() and letters >= 4 and not below.strip().isupper():
            return last.endswith(_ENDS)
        return (
            lone
            and not self.block
            and not any(map(str.isdigit, line))
            and letters >= 3
            and line[0].isupper()
            and len(line.split()) <= 8
            and not _KEY.match(line)
        )

    def _in_list(self, number: int) -> bool:
        """Whether the nearest line above *number*, at most two up, is an ordered item."""
        above = [self.lines[place].strip() for place in range(max(0, number - 2), number)]
        return any(_ORDERED.match(line) for line in above)

    def _head(self, title: str) -> None:
        """Close what is open and set the heading, unless it only numbers a page."""
        self._flush()
        title = fold(_TAG.sub("", title.replace("**", "").replace("__", ""))).strip(":")
        if title and not _PAGE.fullmatch(title):
            self.heading, self.fresh = title[:200], True
            self.intros.clear()

    def _table(self, number: int, line: str) -> bool:
        """Take *line* as part of a pipe table if it is one."""
        if "|" not in line:
            return False
        if self.header is None:
            below = fold(self.lines[number + 1]) if number + 1 < len(self.lines) else ""
            marked = _delimits(below)
            bars = line.count(" | ")
            if not marked and not line.startswith("|") and not 0 < bars == below.count(" | "):
                return False
            self._flush()
            self._consume_intro()
            self.lead = self.intros[-1][2] if self.intros else ""
            self.intros.clear()
            self.header = _header(_cells(line), marked)
            if self.header:
                return True
        if not _delimits(line):
            self._row(_cells(line))
        return True

    def _row(self, cells: tuple[str, ...]) -> None:
        """Emit one table row with its headers in front of the values."""
        if not self.header and len(cells) == 2 and len(cells[0]) <= 40:
            heads: tuple[str, ...] = (cells[0].strip(":"),)
            cells = cells[1:]
        else:
            heads = (self.header or ()) + ("",) * len(cells)
        pairs = tuple((head, cell) for head, cell in zip(heads, cells, strict=False) if cell.strip("-–— "))
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


def _header(cells: tuple[str, ...], marked: bool) -> tuple[str, ...]:
    """
    Return the headers of a table that begins with the row *cells*; none if that row is data.

    Args:
        cells: The first row.
        marked: Whether a row of dashes follows. Without one, a row with a digit is data; with one, a first row of two cells
            whose second is long is data too: such a table lists properties, "| Present | Anna, Bob and Chen Li |".
    """
    if not marked:
        return () if any(character.isdigit() for cell in cells for character in cell) else cells
    pairs = len(cells) == 2 and (
        len(cells[1].split()) > 4 or (any(map(str.isdigit, cells[1])) and len(cells[1]) > 8)
    )
    return () if pairs else cells


def _delimits(line: str) -> bool:
    """Whether *line* is the row of dashes between a table's header and its body."""
    return "|" in line and "-" in line and not line.strip("|:- ")


def _cells(line: str) -> tuple[str, ...]:
    """Return the trimmed cells of the table line *line*, each cut to a readable length."""
    parts = _BAR.split(line.strip().removeprefix("|").removesuffix("|"))[:COLUMNS_MAX]
    cells = []
    for part in parts:
        cell = re.sub(r"<br ?/?>", " / ", part).replace("\\|", "|").replace("**", "").strip()
        if len(cell) > CELL_CHARS_MAX:
            cell = cell[:CELL_CHARS_MAX].rsplit(" ", 1)[0] + " …"
        cells.append(cell)
    return tuple(cells)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _following(lines: Sequence[str]) -> list[int]:
    """For each line, the number of the next line that is not blank, or -1."""
    result = [-1] * len(lines)
    nearest = -1
    for number in range(len(lines) - 1, -1, -1):
        result[number] = nearest
        if lines[number].strip():
            nearest = number
    return result
