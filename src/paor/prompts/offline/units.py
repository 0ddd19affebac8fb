"""
Cut Markdown or plain text into units that can be quoted: sentences, list items, table rows, lines of code.

Headings may be marked, underlined, bold, numbered, in capitals, or short and alone, as in text that came out of a PDF. Every
unit but a table row is a piece of the source, white space folded and quote marks left out, so that it can be found there
again. A row repeats its headers ("Item: Storage; Price: 5 EUR"), and an item remembers the line that introduces its list
("The Supplier shall:"), because neither says anything alone. Nothing is ever refused, and every rule looks at one line or
at a fixed number of characters around one place: the time is linear in the text.

Words as the offline model compares them: function words, stems, near synonyms, and whether a text is English.

A stem is a word without its ending, cut by one rule for every language: good enough to find "invoices" by "invoicing" and
"Fristen" by "Frist", and no dictionary. What the rule misses, `corpus.Corpus.search` finds by common beginnings.
"""

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import zip_longest
from textwrap import wrap
from typing import Final

_ENGLISH: Final = """a about above after again all also am an and any are as at be because been before being below between both
    but by can could did do does doing down during each either few for from further had has have having he her here
    hers him his how however i if in into is it its itself just may me might more most must my neither no nor not
    now of off on once one only or other our out over own per same shall she should so some such than that the
    their theirs them then there these they this those through to too under until up upon us very was we were what
    when where whether which while who whom whose why will with within without would you your"""
STOP_WORDS: Final = frozenset(_ENGLISH.split())
"""English words that never say what a text is about."""

_FOREIGN: Final = """aber alle aller alles auch auf aus bei bis das dass dem den der des dies diese dieser durch ein eine einem einen einer
    es für haben hat ich ihr ihre im ist jede kann kein keine mit muss müssen nach nicht noch nur oder ohne sein sich sie sind
    und uns vom von vor wann warum welche welcher welches wenn wer wird wie wo wurde zu zum zur über à au aux avec ce ces cette
    chaque combien comment dans de depuis doit doivent du elle elles en entre est et il ils la le les leur ne où ou par pas pour
    quand que quel quelle quelles quels qui sa ses son sont sur tous toute toutes tout un une al como con cuando cuándo cuál
    cuáles cuánto debe deben del desde dónde el ella este esta ha han hasta hay las lo los más para pero por qué quién se según
    si sin sobre su sus también todos todas agli ai alla alle anche che chi cosa da dal dalla degli dei della delle deve dove è
    gli hanno il nel nella non ogni per più quali quale quando quanto questo sono tra tutti ao aos com das dos em é foi na não nas
    nos os pela pelo qual quais quem são sem ser seu sua uma aan dat deze die dit door een elke er geen haar heeft het hij hoe
    kan maar met moet naar niet ook op te tot uit van veel voor waar wanneer wat welke wordt zal zich zij zijn"""
FOREIGN_WORDS: Final = frozenset(_FOREIGN.split()) - (
    STOP_WORDS | {"die", "no", "as", "me", "per", "son", "sin"}
)
"""The most frequent words of German, French, Spanish, Italian, Portuguese and Dutch."""

_SYNONYMS: Final = """terminate termination cancel cancellation notice|pay paid payable payment invoice|price pricing cost fee charge rate tariff
    |deliver delivery shipment|liability liable damages indemnity|warranty guarantee|confidential confidentiality secret secrecy
    |penalty fine|store storage warehouse|renew renewal extend extension|duration term|vacation holiday leave|cap limit limited
    maximum|salary wage|support maintenance|law jurisdiction court|discount rebate|employee staff worker|customer client buyer
    |supplier vendor seller contractor provider|install installation setup|begin start commence|owner responsible assigned"""
_WORD = re.compile(r"[^\W_]+")
_ENDINGS: Final = ("ment", "ance", "able", "ing", "ion", "ed", "en", "ly", "al", "es", "e", "y")
_STEM_CHARS_MIN: Final = 4
_SAMPLE_CHARS: Final = 20_000


def content_words(text: str) -> list[str]:
    """Return the words of *text* in lower case but for function words of any language here, and single letters."""
    words = (word for word in _WORD.findall(text.lower()) if len(word) > 1 or word.isdigit())
    return [word for word in words if not is_function_word(word)]


def is_function_word(word: str) -> bool:
    """Return whether *word* is one that never says what a text is about."""
    return word.lower() in STOP_WORDS or word.lower() in FOREIGN_WORDS


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the lower-case *word* without its plural and one further ending; numbers stay as they are."""
    if word.endswith("ies") and len(word) > _STEM_CHARS_MIN:
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith("ss") and len(word) >= _STEM_CHARS_MIN:
        word = word[:-1]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_CHARS_MIN:
            return word[: -len(ending)]
    return word


_GROUPS: Final = [frozenset(map(stem, group.split())) for group in _SYNONYMS.split("|")]


def synonyms_of(stemmed: str) -> frozenset[str]:
    """Return the stems of words that mean nearly the same, *stemmed* among them; none if none are known."""
    return frozenset[str]().union(*(group for group in _GROUPS if stemmed in group))


def is_english(text: str) -> bool:
    """Return whether *text* has at least as many English function words as others in its beginning."""
    words = [word for word in _WORD.findall(text[:_SAMPLE_CHARS].lower()) if len(word) > 1]
    english = sum(word in STOP_WORDS for word in words)
    foreign = sum(word in FOREIGN_WORDS for word in words)
    return english >= foreign


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
_STOP = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»›)\]*_]{0,4}(?=\s)|[。！？]")
_TOKEN = re.compile(r"(?<![\w.\-/§])[\w.\-/§]*+$")
_NEXT = re.compile(r"[\"'“‘„«‹(\[*_¿¡]{0,4}(\w{1,24})")
_HEADING = re.compile(r"#{1,6}\s+(\S(?:.*[^# ])?)[# ]*+|(?:\*\*|__)([^*_]{1,90})(?:\*\*|__):?")
_UNDERLINE = re.compile("={3,}|-{3,}")
_RULE = re.compile(r"(?:[-*_=~] ?){3,}")
_ITEM = re.compile(
    r"(?:[-*+•‣▪●○◦·–]|\d{1,3}[.)]|\(?[a-zA-Z]\)|\(?[ivx]{1,4}\)|\(\d{1,3}\))\s+(?:\[[ xX]?\]\s+)?(?=\S)"
)
_OPENS = re.compile(
    r"(?:\d{1,2}(?:\.\d{1,2}){1,3}\.?|\(\d{1,2}\)|§+ ?\d+\w?|[^\W\d_a-z][^:|.!?]{0,36}:)\s+\S"
)
"""The number of a clause, or the name of a property: "Date: 3 March"."""
_CLAUSE = re.compile(r"(\d{1,3}(?:\.\d{1,3})+)[.)]?\s")
_PAGE = re.compile(
    r"(?:.{0,60}\b)?(?:page|seite|p\.) ?\d{1,4}(?: ?(?:of|von|/) ?\d{1,4})?|[-–] ?\d{1,4} ?[-–]|\d{1,3}",
    re.IGNORECASE,
)
_PAGE_MARK = re.compile(r"\[page \d{1,4}\]")
_CELL_MARK = re.compile(r"\| ?\[([A-Z]{1,3}\d{1,7}|row \d{1,9})\]")
"""What a reader of documents adds where a text does not show its own places."""
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
        form: ``sentence``, ``item``, ``row``, ``code`` or ``intro``.
        heading: The nearest heading above, without its marks; empty if there is none.
        intro: What introduces the list or table that this is in, ending in a colon.
        follows: Whether it continues the paragraph of the unit before it.
        page: The page or the cell that it is on: "page 2", "A7"; empty where the text does not say.
        clause: The clause or item that it is in: "clause 4.2 (a)", "item 3"; empty if there is none.
    """

    text: str
    form: str
    heading: str = ""
    intro: str = ""
    follows: bool = False
    page: str = ""
    clause: str = ""


def fold(text: str) -> str:
    """Return *text* with every run of white space, line ends included, turned into one blank."""
    return " ".join(text.split())


def shortened(text: str, chars_max: int) -> str:
    """Return *text* cut after a word, with a mark, if it is longer than *chars_max*."""
    return text if len(text) <= chars_max else text[:chars_max].rsplit(" ", 1)[0] + " …"


def split(text: str, *, chars_max: int = SENTENCE_CHARS_MAX) -> list[str]:
    """Cut *text*, one paragraph, into sentences of at most *chars_max* characters; together they are all of it but blanks."""
    folded = fold(text)
    ends = [stop.end() for stop in _STOP.finditer(folded) if _ends_sentence(folded, stop)]
    sentences = (folded[start:end] for start, end in zip([0, *ends], [*ends, len(folded)], strict=True))
    return [
        piece for sentence in sentences for piece in wrap(sentence.strip(), chars_max, break_on_hyphens=False)
    ]


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


def units(text: str, *, units_max: int) -> tuple[list[Unit], bool]:
    """Read *text*, Markdown or plain, into at most *units_max* units in their order; the second says whether that is all."""
    reader = _Reader(page="page 1" if _PAGE_MARK.search(text) else "")
    lines = [fold(line) for line in _PAGE_MARK.sub(r"\n\g<0>\n", text.rstrip()).splitlines()]
    for line, below in zip_longest(lines, lines[1:]):
        if len(reader.out) > units_max:
            break
        reader.read(line, below)
    reader.flush()
    return reader.out[:units_max], len(reader.out) <= units_max


@dataclass(slots=True)
class _Reader:
    """One pass over the lines of a text; ``block`` collects the lines of the paragraph or item being read."""

    out: list[Unit] = field(default_factory=list)
    block: list[str] = field(default_factory=list)
    form: str = "sentence"
    heading: str = ""
    intro: str = ""
    page: str = ""
    clause: str = ""
    item: str = ""
    fence: bool = False
    header: tuple[str, ...] | None = None

    def read(self, line: str, below: str | None) -> None:
        """Add *line* to the block that it belongs to; *below* is the next line, if there is one."""
        bars = line.count("|")
        if line.startswith(("```", "~~~")):
            self.flush()
            self.fence = not self.fence
        elif _PAGE_MARK.fullmatch(line):
            self.flush()
            self.page = line[1:-1]
        elif self.fence:
            self._emit(line, "code")
        elif _UNDERLINE.fullmatch(line) and len(self.block) == 1 and self.form == "sentence":
            self._open(self.block.pop())
        elif not line or _PAGE.fullmatch(line) or _RULE.fullmatch(line):
            self.flush()
            self.header = None
        elif bars and (self.header is not None or line[0] == "|" or bars == (below or "").count("|")):
            self._row(line, delimited=_delimits(below or ""))
        elif (marked := _HEADING.fullmatch(line)) and (marked[1] or not self.block):
            self._open(marked[1] or marked[2])
        elif self._is_title(line, below):
            self._open(line)
        else:
            self.header = None
            self._words(line.lstrip("> "))

    def _open(self, title: str) -> None:
        self.flush()
        self.heading, self.intro, self.header = title.strip("*_: ")[:200], "", None
        self.clause = self.item = ""

    def _words(self, line: str) -> None:
        """Add a line of running text: to the open block, or as the start of one."""
        item, last = _ITEM.match(line), self.block[-1] if self.block else ""
        introduced = last.endswith(":") if last else bool(self.intro)
        if item and (introduced or not re.match(r"\(\d", line)):  # else "(1)" is the number of a paragraph
            self.flush()
            self._label(re.sub(r"\W", "", item[0]))
            self.form, line = "item", line[item.end() :]
        elif last and _OPENS.match(line) and (last.endswith(_ENDS) or len(last) < 60):
            self.flush()  # a paragraph begins although no blank line is above it
        if not self.block and self.form != "item":
            self.item, self.clause = "", "" if self.clause.startswith("item") else self.clause
            if numbered := _CLAUSE.match(line):
                self.clause = f"clause {numbered[1]}"
        self.block.append(line)

    def _label(self, number: str) -> None:
        """Take the number of an item: of a clause or of a list, or the letter of a part of one."""
        if number.isdigit() and "." not in self.clause:
            self.clause, self.item = f"{'item' if self.heading else 'clause'} {number}", ""
        else:
            self.item = number and f"({number})"

    def _is_title(self, line: str, below: str | None) -> bool:
        """Return whether *line*, which no mark makes a heading, is one: what is lost as a heading is never quoted."""
        last = self.block[-1] if self.block else ""
        if below is None or len(line) > 90 or len(line.split()) > 8 or line.endswith(_ENDS):
            return False
        if _VERB.search(line) or (last and not last.endswith(_ENDS) and len(last) >= 60):
            return False
        if line.isupper() and sum(map(str.isalpha, line)) >= 4:
            return not below.isupper()
        if below[:1].islower():
            return False
        if numbered := _NUMBERED.fullmatch(line):
            listed = _ORDERED.match(line) and (self.form == "item" or _ORDERED.match(below))
            return not listed and (numbered[1][:1].isupper() or not (numbered[1] or line[0].isdigit()))
        alone = not below or (len(line) <= 45 and len(below) >= max(60, 2 * len(line)))
        return alone and not last and line[0].isupper() and not re.search(r": |\d", line)

    def _row(self, line: str, *, delimited: bool) -> None:
        """Read one row of a table: its header, its dashes, or values; of two cells without a header the first names the second."""
        marked = _CELL_MARK.match(line)
        line = line[marked.end() :] if marked else line
        bars = re.split(r"(?<!\\)\|", line.removeprefix("|").removesuffix("|"))[:40]
        cells = [re.sub(r"\*\*|\\(?=\|)", "", cell).strip()[:CELL_CHARS_MAX] for cell in bars]
        if self.header is None:
            self.flush()
            named = not any(map(str.isdigit, line)) and all(len(cell.split()) <= 4 for cell in cells)
            self.header = tuple(cells) if named or (delimited and len(cells) > 2) else ()
            if self.header:
                return
        if _delimits(line):
            return
        heads = self.header
        if not heads and len(cells) == 2:
            heads, cells = (cells[0].strip(":"),), cells[1:]
        pairs = [pair for pair in zip_longest(heads, cells, fillvalue="") if pair[1].strip("-–— ")]
        text = "; ".join(f"{head}: {value}" if head else value for head, value in pairs)
        self._emit(text, "row", self.intro, page=marked[1] if marked else None)

    def flush(self) -> None:
        """Emit the open block, and keep its last sentence as the introduction of what follows if it ends in a colon."""
        text, form = " ".join(self.block), self.form
        self.block, self.form = [], "sentence"
        if not text:
            return
        if form == "sentence":
            self.intro = ""
        pieces = [text] if form == "item" and len(text) <= ITEM_CHARS_MAX else split(text)
        for number, piece in enumerate(pieces):
            self._emit(piece, form, "" if number else self.intro, follows=number > 0)
        if form == "sentence" and text.endswith(":") and len(pieces[-1]) <= ITEM_CHARS_MAX:
            self.intro = pieces[-1]

    def _emit(
        self, text: str, form: str, intro: str = "", *, follows: bool = False, page: str | None = None
    ) -> None:
        """Add one unit if it holds a letter or a digit; a sentence that introduces it is quoted with it only."""
        if not any(map(str.isalnum, text)):
            return
        if intro and self.out and self.out[-1].text == intro:
            self.out[-1] = replace(self.out[-1], form="intro")
        page, clause = self.page if page is None else page, f"{self.clause} {self.item}".strip()
        self.out.append(Unit(text, form, self.heading, intro, follows, page, clause))


def _delimits(line: str) -> bool:
    """Return whether *line* is the row of dashes between a table's header and its body."""
    return "|" in line and "-" in line and not line.strip("|:- ")
