"""
Cut Markdown or plain text into units that can be quoted: sentences, list items, table rows, lines of code.

Headings may be marked, underlined, bold, numbered, in capitals, or short and alone, as in text that came out of a PDF. Every
unit but a table row is a piece of the source, white space folded and quote marks left out, so that it can be found there
again. A row repeats its headers ("Item: Storage; Price: 5 EUR"), and an item remembers the line that introduces its list
("The Supplier shall:"), because neither says anything alone. Nothing is ever refused.

Every rule looks at one line, or at a fixed number of characters around one place: the time is linear in the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from .words import is_function_word

SENTENCE_CHARS_MAX: Final = 600
"""A longer sentence is cut. The 99th percentile of sentences in contracts is near 500 (own count on licences)."""
ITEM_CHARS_MAX: Final = 280
"""An item up to this length is quoted whole, a longer one by the sentence."""
CELL_CHARS_MAX: Final = 240
_ABBREVIATIONS: Final = frozenset(
    """no nos nr nrs art para fig vol pp ed eds dr mr mrs ms prof cf al approx ca bzw vgl abs ziff tel inkl ggf sog mme
    núm pág sr sra dott sig z.b d.h u.a i.d e.g i.e p.ex jan feb apr jun jul aug sep sept oct okt nov dec dez incl
    inc ltd llc plc co corp gmbh ag etc usw a.m p.m u.s u.k p.a st min max ref sec gen am pm mio mrd""".split()
)
"""Words whose full stop ends a sentence only if a function word with a capital comes next: "Acme Inc. The Buyer"."""
_STOP = re.compile(r"[.!?…]+[\"'”’»›)\]*_]{0,4}(?=\s)|[。！？]")
_LAST_TOKEN = re.compile(r"(?:\b\w\. ?)?[\w.\-/§]*$")
_NEXT_WORD = re.compile(r"[\"'“‘„«‹(\[*_¿¡]{0,4}(\w{1,24})")
_ATX = re.compile(r"#{1,6}\s+(\S.*)")
_BOLD = re.compile(r"(?:\*\*|__)([^*_]{1,90})(?:\*\*|__):?")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>|\*\*|__")
_RULE = re.compile(r"(?:[-*_=~] ?){3,}")
_QUOTE = re.compile(r"(?:> ?)+")
_ITEM = re.compile(
    r"(?:[-*+•‣▪●○◦·–]|\d{1,3}[.)]|\(?[a-zA-Z]\)|\(?[ivx]{1,4}\)|\(\d{1,3}\))\s+(\[[ xX]?\]\s+)?(?=\S)"
)
_CLAUSE = re.compile(r"(?:\d{1,2}(?:\.\d{1,2}){1,3}\.?|\(\d{1,2}\)|§+ ?\d+\w?)\s+\S")
_KEY = re.compile(r"(?:\*\*)?[^\W\d_a-z][^:|.!?]{0,36}:(?:\*\*)?\s+\S")
"""A line that names a property: "Date: 3 March"."""
_PAGE = re.compile(
    r"(?:.{0,60}\b)?(?:page|seite|p\.) ?\d{1,4}(?: ?(?:of|von|/) ?\d{1,4})?|[-–] ?\d{1,4} ?[-–]|\d{1,3}",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    r"(?:(?:§+|section|article|clause|artikel|chapter|part|annex|appendix|schedule)\s*[\dIVXLC]{1,5}\b"
    r"|\d{1,2}(?:\.\d{1,2}){0,3}\.?(?=\s)|[IVX]{1,5}\.)\s*[:–—-]?\s*(\D*)",
    re.IGNORECASE,
)
_ORDERED = re.compile(r"\s*\(?\d{1,3}[.)]\s")
_VERB = re.compile(
    r"\b(?:shall|must|will|may|is|are|was|has|have|muss|ist|sind|wird|doit|est|debe|deve|moet)\b"
)
_ENDS: Final = (".", ":", ";", "!", "?", ",")
"""Marks after which the next line does not continue a sentence."""
_BAR = re.compile(r"(?<!\\)\|")


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
    starts = [0, *ends]
    sentences = (folded[start:end] for start, end in zip(starts, [*ends, len(folded)], strict=True))
    return [piece for sentence in sentences for piece in _shorten(sentence.strip(), chars_max)]


def _ends_sentence(text: str, stop: re.Match[str]) -> bool:
    """Return whether the punctuation at *stop* ends a sentence, and not an abbreviation, a number or a date."""
    following = _NEXT_WORD.match(text, stop.end() + 1)
    if stop.group()[0] in "!?。！？" or following is None:
        return True
    if following.group(1)[0].islower():
        return False
    before = _LAST_TOKEN.search(text[max(0, stop.start() - 24) : stop.start()])
    token = before.group().lower().replace(" ", "") if before else ""
    if token.replace(".", "").isdigit() and (len(token) <= 2 or "." in token):
        return stop.start() > 24 and is_function_word(following.group(1)) and "." not in token
    short = token in _ABBREVIATIONS or (len(token) == 1 and token.isalpha()) or token.startswith("§")
    return not short or (len(following.group(1)) > 1 and is_function_word(following.group(1)))


def _shorten(sentence: str, chars_max: int) -> Iterator[str]:
    """Yield *sentence* in pieces of at most *chars_max* characters, cut at a mark or a blank; nothing if it is empty."""
    while len(sentence) > chars_max:
        least = chars_max // 3
        cuts = (sentence.rfind(mark, least, chars_max) + len(mark) for mark in ("; ", ", ", " "))
        cut = next((cut for cut in cuts if cut > least), chars_max)
        yield sentence[:cut].strip()
        sentence = sentence[cut:].strip()
    if sentence:
        yield sentence


def units(text: str, *, units_max: int) -> tuple[list[Unit], bool]:
    """Read *text*, Markdown or plain, into at most *units_max* units in their order; the second says whether that is all."""
    return _Reader(text.splitlines(), units_max).read()


@dataclass(slots=True)
class _Reader:
    """One pass over the lines of a text; ``block`` collects the lines of the paragraph or item being read."""

    lines: Sequence[str]
    units_max: int
    out: list[Unit] = field(default_factory=list)
    block: list[str] = field(default_factory=list)
    form: str = "sentence"
    indent: int = 0
    heading: str = ""
    fence: bool = False
    header: tuple[str, ...] | None = None
    intros: list[tuple[int, str]] = field(default_factory=list)
    """Open introductions of lists, the outermost first: indent and words."""

    def read(self) -> tuple[list[Unit], bool]:
        """Read all lines and return the units and whether none was left."""
        nearest, after = -1, [-1] * len(self.lines)  # of each line the next one that is not blank
        for number in range(len(self.lines) - 1, -1, -1):
            after[number] = nearest
            nearest = number if self.lines[number].strip() else nearest
        for number, raw in enumerate(self.lines):
            if len(self.out) >= self.units_max:
                return self.out[: self.units_max], False
            self._line(number, after[number], fold(raw))
        self._flush()
        return self.out[: self.units_max], len(self.out) <= self.units_max

    def _line(self, number: int, after: int, line: str) -> None:
        """Add one line, folded in *line*, to the block that it belongs to."""
        if line.startswith(("```", "~~~")):
            self._flush()
            self.fence = not self.fence
        elif self.fence:
            self._emit(line, "code")
        elif not line or _PAGE.fullmatch(line):
            self._flush()
            self.header = None
        elif "|" in line and self._is_table(number, line):
            self._row(number, line)
        elif title := self._title(number, after, line):
            self._flush()
            self.heading = fold(_TAG.sub("", title)).strip(":")[:200]
            self.intros.clear()
        elif _RULE.fullmatch(line):
            self._flush()
        else:
            self.header = None
            self._words(self.lines[number], _QUOTE.sub("", line, count=1) if line[0] == ">" else line)

    def _words(self, raw: str, line: str) -> None:
        """Add a line of running text: to the open block, or as the start of one."""
        item = _ITEM.match(line)
        introduced = self.block[-1].endswith(":") if self.block else bool(self.intros)
        if item and (introduced or not re.match(r"\(\d", line)):  # else "(1)" is the number of a paragraph
            self._flush()
            self.form, self.indent = "task" if item.group(1) else "item", len(raw) - len(raw.lstrip())
            self.intros = [(indent, words) for indent, words in self.intros if indent < self.indent]
            line = line[item.end() :]
        elif self.block and _starts(line, self.block[-1]):
            self._flush()
        if line:
            self.block.append(line)

    def _title(self, number: int, after: int, line: str) -> str:
        """Return *line* without its marks if it is a heading, else nothing."""
        if found := _ATX.fullmatch(line) or (None if self.block else _BOLD.fullmatch(line)):
            return found.group(1).rstrip("# ")
        if len(self.block) == 1 and self.form == "sentence" and re.fullmatch(r"=+|-{2,}", line):
            return self.block.pop()
        last = self.block[-1] if self.block else ""
        below = self.lines[after].strip() if after >= 0 else ""
        # What is lost as a heading is never quoted: with a verb or a number in its title a line is none.
        if not below or len(line) > 90 or line.endswith(_ENDS) or "|" in line or _VERB.search(line):
            return ""
        ended, brief = not last or last.endswith(_ENDS) or len(last) < 60, len(line.split()) <= 8
        numbered = _NUMBERED.fullmatch(line)
        if numbered and ended and brief:
            title = numbered.group(1)
            ordered = _ORDERED.match(line) and any(
                map(_ORDERED.match, (*self.lines[max(0, number - 2) : number], below))
            )
            capital = title[:1].isupper() or not (title or line[0].isdigit())
            return line if capital and not ordered and not below[0].islower() else ""
        if line.isupper() and sum(map(str.isalpha, line)) >= 4:
            return line if ended and not below.isupper() else ""
        alone = after > number + 1 or (
            len(line) <= 45 and len(below) >= max(60, 2 * len(line)) and below[0].isupper()
        )
        plain = not last and brief and line[0].isupper() and not any(map(str.isdigit, line))
        return line if alone and plain and not _KEY.match(line) else ""

    def _is_table(self, number: int, line: str) -> bool:
        """Return whether *line* is part of a pipe table: in one, or by its bars and those of the line below."""
        below = fold(self.lines[number + 1]) if number + 1 < len(self.lines) else ""
        bars = line.count(" | ")
        return self.header is not None or _delimits(below) or line[0] == "|" or 0 < bars == below.count(" | ")

    def _row(self, number: int, line: str) -> None:
        """Read one row of a table: its header, its dashes, or values to emit with their headers."""
        cells = _cells_of(line)
        if self.header is None:
            self._flush()
            self._close_intro()
            marked = number + 1 < len(self.lines) and _delimits(fold(self.lines[number + 1]))
            self.header = cells if _is_header(cells, marked) else ()
            if self.header:
                return
        if not _delimits(line):
            self._values(cells)

    def _values(self, cells: tuple[str, ...]) -> None:
        """Emit a row with its headers; where there are none, the first of two cells names the second."""
        heads = self.header or ()
        if not heads and len(cells) == 2 and len(cells[0]) <= 40:
            heads, cells = (cells[0].strip(":"),), cells[1:]
        pairs = zip((*heads, *("" for _ in cells)), cells, strict=False)
        kept = tuple((head, cell) for head, cell in pairs if cell.strip("-–— "))
        text = "; ".join(f"{head}: {cell}" if head else cell for head, cell in kept)
        self._emit(text, "row", intro=self.intros[-1][1] if self.intros else "", cells=kept)

    def _flush(self) -> None:
        """Emit the open block and get ready for the next."""
        if not self.block:
            return
        text, form = " ".join(self.block), self.form
        self.block, self.form = [], "sentence"
        if form == "sentence":
            self.intros.clear()
        else:
            self._close_intro()
        intro = " ".join(words for _, words in self.intros[-2:])
        pieces = [text] if form != "sentence" and len(text) <= ITEM_CHARS_MAX else split(text)
        for number, piece in enumerate(pieces):
            self._emit(piece, form, intro="" if number else intro, follows=number > 0)
        if pieces[-1].endswith(":") and len(pieces[-1]) <= ITEM_CHARS_MAX:
            self.intros.append((self.indent if form != "sentence" else -1, pieces[-1]))

    def _close_intro(self) -> None:
        """Mark the unit that introduces the list or table now beginning: it is quoted with each item."""
        if self.intros and self.out and self.out[-1].text == self.intros[-1][1]:
            self.out[-1] = replace(self.out[-1], form="intro")

    def _emit(self, text: str, form: str, **options: object) -> None:
        """Add one unit if it holds a letter or a digit."""
        if any(map(str.isalnum, text)):
            self.out.append(Unit(text, form, self.heading, **options))  # type: ignore[arg-type]


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


def _cells_of(line: str) -> tuple[str, ...]:
    """Return the trimmed cells of the table line *line*, at most 40, each cut to a readable length."""
    parts = (
        part.strip().replace("**", "") for part in _BAR.split(line.removeprefix("|").removesuffix("|"))[:40]
    )
    texts = (part.replace("\\|", "|").replace("<br>", " / ").replace("<br/>", " / ") for part in parts)
    return tuple(text if len(text) <= CELL_CHARS_MAX else text[:CELL_CHARS_MAX] + " …" for text in texts)


def _is_header(cells: tuple[str, ...], marked: bool) -> bool:
    """Return whether a table's first row names its columns: not with a digit, and not if its second cell is a long value."""
    if not marked:
        return not any(map(str.isdigit, "".join(cells)))
    return not (len(cells) == 2 and (len(cells[1].split()) > 4 or any(map(str.isdigit, cells[1]))))
