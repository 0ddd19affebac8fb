"""
Cut Markdown or plain text into units that can be quoted: sentences, list items, table rows, lines of code.

Headings may be marked, underlined, bold, numbered, in capitals, or short and alone, as in text that came out of a PDF. Every
unit but a table row is a piece of the source, white space folded and quote marks left out, so that it can be found there
again. A row repeats its headers ("Item: Storage; Price: 5 EUR"), and an item remembers the line that introduces its list
("The Supplier shall:"), because neither says anything alone. Nothing is ever refused, and every rule looks at one line or
at a fixed number of characters around one place: the time is linear in the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from .words import is_function_word

SENTENCE_CHARS_MAX: Final = 600
"""A longer sentence is cut. The 99th percentile of sentences in contracts is near 500 (own count on licences)."""
ITEM_CHARS_MAX: Final = 280
"""An item up to this length is quoted whole, a longer one by the sentence."""
CELL_CHARS_MAX: Final = 240
_ABBREVIATION = re.compile(
    r"(?:nos?|nrs?|arts?|para|figs?|vol|pp?|eds?|dr|mrs?|ms|prof|cf|al|approx|ca|bzw|vgl|abs|ziff|tel|inkl|ggf|sog|mme|núm|sra?|dott|jan|feb"
    r"|apr|jun|jul|aug|sept?|o[ck]t|nov|de[cz]|inc|incl|ltd|llc|plc|corp?|gmbh|ag|etc|usw|st|min|max|ref|sec|mio|mrd|[^\W\d_]|§.*|\w(?:\.\w)+)"
)
"""What a full stop abbreviates: it ends a sentence only if a function word with a capital comes next."""
_STOP = re.compile(r"[.!?…]+[\"'”’»›)\]*_]{0,4}(?=\s)|[。！？]")
_TOKEN = re.compile(r"[\w.\-/§]*$")
_NEXT = re.compile(r"[\"'“‘„«‹(\[*_¿¡]{0,4}(\w{1,24})")
_HEADING = re.compile(r"#{1,6}\s+(\S.*?)[# ]*|(?:\*\*|__)([^*_]{1,90})(?:\*\*|__):?")
_RULE = re.compile(r"(?:[-*_=~] ?){3,}")
_ITEM = re.compile(
    r"(?:[-*+•‣▪●○◦·–]|\d{1,3}[.)]|\(?[a-zA-Z]\)|\(?[ivx]{1,4}\)|\(\d{1,3}\))\s+(\[[ xX]?\]\s+)?(?=\S)"
)
_CLAUSE = re.compile(r"(?:\d{1,2}(?:\.\d{1,2}){1,3}\.?|\(\d{1,2}\)|§+ ?\d+\w?)\s+\S")
_KEY = re.compile(r"[^\W\d_a-z][^:|.!?]{0,36}:\s+\S")
"""A line that names a property: "Date: 3 March"."""
_PAGE = re.compile(
    r"(?:.{0,60}\b)?(?:page|seite|p\.) ?\d{1,4}(?: ?(?:of|von|/) ?\d{1,4})?|[-–] ?\d{1,4} ?[-–]|\d{1,3}",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    r"(?:(?:§+|section|article|clause|artikel|chapter|part|annex|appendix|schedule)\s*[\dIVXLC]{1,5}\b|\d{1,2}(?:\.\d{1,2}){0,3}\.?(?=\s)"
    r"|[IVX]{1,5}\.)\s*[:–—-]?\s*(\D*)",
    re.IGNORECASE,
)
_ORDERED = re.compile(r"\s*\(?\d{1,3}[.)]\s")
_VERB = re.compile(
    r"\b(?:shall|must|will|may|is|are|was|has|have|muss|ist|sind|wird|doit|est|debe|deve|moet)\b"
)
_ENDS: Final = (".", ":", ";", "!", "?", ",")
"""Marks after which the next line does not continue a sentence."""


@dataclass(frozen=True, slots=True)
class Unit:
    """
    One piece of a document that can be quoted.

    Attributes:
        text: The words, white space folded; of a table row, its cells with their headers.
        form: ``sentence``, ``item``, ``task`` (an item with a check box), ``row``, ``code`` or ``intro``.
        heading: The nearest heading above, without its marks; empty if there is none.
        intro: What introduces the list or table that this is in, ending in a colon.
        cells: Of a table row, pairs of header and value.
        follows: Whether it continues the paragraph of the unit before it.
    """

    text: str
    form: str
    heading: str = ""
    intro: str = ""
    cells: tuple[tuple[str, str], ...] = ()
    follows: bool = False


def fold(text: str) -> str:
    """Return *text* with every run of white space, line ends included, turned into one blank."""
    return " ".join(text.split())


def split(text: str, *, chars_max: int = SENTENCE_CHARS_MAX) -> list[str]:
    """Cut *text*, one paragraph, into sentences of at most *chars_max* characters; together they are all of it but blanks."""
    folded = fold(text)
    ends = [stop.end() for stop in _STOP.finditer(folded) if _ends_sentence(folded, stop)]
    sentences = (folded[start:end] for start, end in zip([0, *ends], [*ends, len(folded)], strict=True))
    return [piece for sentence in sentences for piece in _shorten(sentence.strip(), chars_max)]


def _ends_sentence(text: str, stop: re.Match[str]) -> bool:
    """Return whether the punctuation at *stop* ends a sentence, and not an abbreviation, a number or a date."""
    following = _NEXT.match(text, stop.end() + 1)
    if stop.group()[0] in "!?。！？" or following is None:
        return True
    before = _TOKEN.search(text, max(0, stop.start() - 24), stop.start())
    token, word = before.group().lower() if before else "", following.group(1)
    if token.replace(".", "").isdigit() and len(token) <= 5 and len(token) != 4:
        return stop.start() > len(token) and is_function_word(word)  # not "4.1. The Supplier", nor "31. März"
    strict = bool(_ABBREVIATION.fullmatch(token))
    return not word[0].islower() and (not strict or (len(word) > 1 and is_function_word(word)))


def _shorten(sentence: str, chars_max: int) -> Iterator[str]:
    """Yield *sentence* in pieces of at most *chars_max* characters, cut at a mark or a blank; nothing if it is empty."""
    start = 0
    while len(sentence) - start > chars_max:
        least, limit = start + chars_max // 3, start + chars_max
        cut = next(
            (at + 1 for mark in ("; ", ", ", " ") if (at := sentence.rfind(mark, least, limit)) > 0), limit
        )
        yield sentence[start:cut].strip()
        start = cut
    if rest := sentence[start:].strip():
        yield rest


def units(text: str, *, units_max: int) -> tuple[list[Unit], bool]:
    """Read *text*, Markdown or plain, into at most *units_max* units in their order; the second says whether that is all."""
    reader = _Reader(text.splitlines())
    nearest, after = -1, [-1] * len(reader.lines)  # of each line the next one that is not blank
    for number in range(len(reader.lines) - 1, -1, -1):
        after[number] = nearest
        nearest = number if reader.lines[number].strip() else nearest
    for number, raw in enumerate(reader.lines):
        if len(reader.out) > units_max:
            break
        reader.read(number, after[number], fold(raw))
    reader.flush()
    return reader.out[:units_max], len(reader.out) <= units_max


@dataclass(slots=True)
class _Reader:
    """One pass over the lines of a text; ``block`` collects the lines of the paragraph or item being read."""

    lines: Sequence[str]
    out: list[Unit] = field(default_factory=list)
    block: list[str] = field(default_factory=list)
    form: str = "sentence"
    heading: str = ""
    intro: str = ""
    fence: bool = False
    header: tuple[str, ...] | None = None

    def read(self, number: int, after: int, line: str) -> None:
        """Add one line, folded in *line*, to the block that it belongs to."""
        if line.startswith(("```", "~~~")):
            self.flush()
            self.fence = not self.fence
        elif self.fence:
            self._emit(line, "code")
        elif not line or _PAGE.fullmatch(line) or (_RULE.fullmatch(line) and not self._underlines(line)):
            self.flush()
            self.header = None
        elif "|" in line and self._is_table(number, line):
            self._row(number, line)
        elif title := self._title(number, after, line):
            self.flush()
            self.heading, self.intro, self.header = title.strip("*_: ")[:200], "", None
        else:
            self.header = None
            self._words(line.lstrip("> ") if line[0] == ">" else line)

    def _words(self, line: str) -> None:
        """Add a line of running text: to the open block, or as the start of one."""
        item = _ITEM.match(line)
        introduced = self.block[-1].endswith(":") if self.block else bool(self.intro)
        if item and (introduced or not re.match(r"\(\d", line)):  # else "(1)" is the number of a paragraph
            self.flush()
            self.form, line = "task" if item[1] else "item", line[item.end() :]
        elif self.block and _starts(line, self.block[-1]):
            self.flush()
        self.block.append(line)

    def _underlines(self, line: str) -> bool:
        """Return whether *line* makes the one line of the open block a heading."""
        return len(self.block) == 1 and self.form == "sentence" and line[0] in "=-" and " " not in line

    def _title(self, number: int, after: int, line: str) -> str:
        """Return *line* without its marks if it is a heading, else nothing."""
        if _RULE.fullmatch(line):
            return self.block.pop()
        if (marked := _HEADING.fullmatch(line)) and (marked[1] or not self.block):
            return marked[1] or marked[2]
        last, below = self.block[-1] if self.block else "", self.lines[after].strip() if after >= 0 else ""
        # What is lost as a heading is never quoted: with a verb or a number in its title a line is none.
        if (
            not below
            or len(line) > 90
            or line.endswith(_ENDS)
            or "|" in line
            or _VERB.search(line)
            or len(line.split()) > 8
        ):
            return ""
        ended = not last or last.endswith(_ENDS) or len(last) < 60
        if numbered := _NUMBERED.fullmatch(line):
            around = (*self.lines[max(0, number - 2) : number], below)
            listed = _ORDERED.match(line) and any(map(_ORDERED.match, around))
            named = numbered[1][:1].isupper() or not (numbered[1] or line[0].isdigit())
            return line if ended and named and not listed and not below[0].islower() else ""
        if line.isupper() and sum(map(str.isalpha, line)) >= 4:
            return line if ended and not below.isupper() else ""
        alone = after > number + 1 or (
            len(line) <= 45 and len(below) >= max(60, 2 * len(line)) and below[0].isupper()
        )
        plain = alone and not last and line[0].isupper() and not any(map(str.isdigit, line))
        return line if plain and not _KEY.match(line) else ""

    def _is_table(self, number: int, line: str) -> bool:
        """Return whether *line* is part of a pipe table: in one, or by its bars and those of the line below."""
        below, bars = self._below(number), line.count(" | ")
        return self.header is not None or _delimits(below) or line[0] == "|" or 0 < bars == below.count(" | ")

    def _below(self, number: int) -> str:
        return fold(self.lines[number + 1]) if number + 1 < len(self.lines) else ""

    def _row(self, number: int, line: str) -> None:
        """Read one row of a table: its header, its dashes, or values; of two cells without a header the first names the second."""
        bars = re.split(r"(?<!\\)\|", line.removeprefix("|").removesuffix("|"))[:40]
        cells = tuple(re.sub(r"\*\*|\\(?=\|)", "", cell).strip()[:CELL_CHARS_MAX] for cell in bars)
        if self.header is None:
            self.flush(before_list=True)
            digits = any(map(str.isdigit, "".join(cells[1:] if _delimits(self._below(number)) else cells)))
            listing = len(cells) == 2 and (digits or len(cells[1].split()) > 4)
            self.header = () if listing or (digits and not _delimits(self._below(number))) else cells
            if self.header:
                return
        if _delimits(line):
            return
        heads = self.header
        if not heads and len(cells) == 2 and len(cells[0]) <= 40:
            heads, cells = (cells[0].strip(":"),), cells[1:]
        pairs = zip((*heads, *("" for _ in cells)), cells, strict=False)
        kept = tuple((head, cell) for head, cell in pairs if cell.strip("-–— "))
        self._emit(
            "; ".join(f"{head}: {cell}" if head else cell for head, cell in kept),
            "row",
            intro=self.intro,
            cells=kept,
        )

    def flush(self, *, before_list: bool = False) -> None:
        """Emit the open block; *before_list* if an item or a row comes next, whose introduction its last sentence may be."""
        text, form = " ".join(self.block), self.form
        self.block, self.form = [], "sentence"
        listed = before_list or (form != "sentence" and bool(text))
        if listed and self.out and self.intro and self.out[-1].text == self.intro:
            self.out[-1] = replace(self.out[-1], form="intro")  # it is quoted with each item
        if not text:
            return
        if form == "sentence":
            self.intro = ""
        for n, piece in enumerate(
            [text] if form != "sentence" and len(text) <= ITEM_CHARS_MAX else split(text)
        ):
            self._emit(piece, form, intro="" if n else self.intro, follows=n > 0)
        if (
            form == "sentence"
            and text.endswith(":")
            and self.out
            and len(self.out[-1].text) <= ITEM_CHARS_MAX
        ):
            self.intro = self.out[-1].text
            if before_list:
                self.out[-1] = replace(self.out[-1], form="intro")

    def _emit(self, text: str, form: str, **details: Any) -> None:
        """Add one unit if it holds a letter or a digit."""
        if any(map(str.isalnum, text)):
            self.out.append(Unit(text, form, self.heading, **details))


def _starts(line: str, last: str) -> bool:
    """Return whether *line* opens a paragraph although no blank line is between it and *last*."""
    if _CLAUSE.match(line):
        return last.endswith(_ENDS) or len(last) < 50
    return bool(_KEY.match(line)) and (
        len(last) < 60 or last.endswith((".", "!", "?")) or bool(_KEY.match(last))
    )


def _delimits(line: str) -> bool:
    """Return whether *line* is the row of dashes between a table's header and its body."""
    return "|" in line and "-" in line and not line.strip("|:- ")
