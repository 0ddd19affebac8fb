"""
Cut Markdown or plain text into units that can be quoted: sentences, list items, table rows.

A unit other than a table row is a piece of the source with its white space folded. A row repeats its headers ("Item: Storage; Price:
5 EUR"), and an item remembers the line that introduces its list, because neither says anything alone. No text is refused;
every rule looks at one line or at a bounded number of characters, so the time is linear in the text.

Words are compared by stems: the word without its ending, cut by one rule for every language.
"""

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import zip_longest
from textwrap import wrap
from typing import Final

_WORDS: Final = """a about above after again all also am an and any are as at be because been before being below between both but by can could
    did do does doing down during each either few for from further had has have having he her here hers him his how however i if in
    into is it its itself just may me might more most must my neither no nor not now of off on once one only or other our out over
    own per same shall she should so some such than that the their them then there these they this those through to too under until
    up upon us very was we were what when where whether which while who whom whose why will with within without would you your
    aber alle auch auf aus bei bis das dass dem den der des die dies diese durch ein eine einem einen einer es für haben hat ich ihr
    ihre im ist kann kein keine mit muss nach nicht noch nur oder ohne sein sich sie sind und von vor wann welche welcher wenn wer wie
    wird wo wurde zu zum zur à au aux avec ce ces cette combien dans de doit du elle en est et il la le les leur ne où ou par pas pour
    quand que quel quelle qui sa ses sont sur une al como con cuando cuándo cuánto debe del el esta este ha hay las lo los más para pero
    por qué quién se si sobre su sus un una alla anche che chi da dal della deve di dove è gli hanno nel non quale quando sono com do dos
    em é foi na não nas nos os pela pelo qual quem são uma aan dat deze een geen het hoe kan maar met moet naar niet ook op te tot van voor
    wanneer wat welke wordt zijn"""
"""The function words of English, and the most frequent ones of German, French, Spanish, Italian, Portuguese and Dutch."""
_FUNCTION_WORDS: Final = frozenset(_WORDS.split())
_SYNONYMS: Final = """terminate termination cancel cancellation notice|pay paid payable payment invoice|price pricing cost fee charge rate
    |deliver delivery shipment|liability liable damages|warranty guarantee|confidential secret|renew renewal extend extension|duration term
    |cap limit limited maximum|salary wage|law jurisdiction court|employee staff worker|customer client buyer
    |supplier vendor seller contractor|begin start commence|owner responsible assigned"""
_WORD = re.compile(r"[^\W_]+")
_ENDINGS: Final = ("ment", "ance", "able", "ing", "ion", "ed", "en", "ly", "al", "es", "e", "y")


def words_of(text: str) -> list[str]:
    """Return the words of *text* in lower case but for function words and single letters."""
    words = (word for word in _WORD.findall(text.lower()) if len(word) > 1 or word.isdigit())
    return [word for word in words if word not in _FUNCTION_WORDS]


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the lower-case *word* without its plural and one further ending; at least four letters stay."""
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith("ss") and len(word) >= 4:
        word = word[:-1]
    ending = next((one for one in _ENDINGS if word.endswith(one) and len(word) - len(one) >= 4), "")
    return word.removesuffix(ending)


SYNONYMS: Final = [frozenset(map(stem, group.split())) for group in _SYNONYMS.split("|")]
"""Groups of stems that mean nearly the same."""
ITEM_CHARS_MAX: Final = 280
"""An item up to this length is quoted whole, a longer one by the sentence."""
_ABBREVIATION = re.compile(
    r"nos?|nrs?|arts?|figs?|vol|pp?|eds?|dr|mrs?|ms|prof|cf|approx|ca|vgl|abs|jan|feb|apr|jun|jul|aug|sept?|oct|nov|dec|inc|ltd|llc|co|corp"
    r"|etc|st|min|max|ref|sec|[^\W\d_]|\w(?:\.\w)+"
)
_STOP = re.compile(r"(?<=[.!?…])[\"'”’»›)\]*_]{0,4} (?=[\"'“‘„«‹(\[*_¿¡]{0,4}(\w{1,24}))")
_BACKWARD = re.compile(
    r"(?i)(?:it|they|in (?:that|this|the last|such a?) case|within that period|(?:this|these|those|such|that) (?:is|are|was|were|shall|must|may"
    r"|can|will|do(?:es)?|appl(?:ies|y)|also|includes?|means|ha(?:s|ve)))\b"
)
"""How a sentence begins that is not understood without the one before."""
_HEADING = re.compile(r"#{1,6}\s+(\S(?:.*[^# ])?)[# ]*+|(?:\*\*|__)([^*_]{1,90})(?:\*\*|__):?")
_ITEM = re.compile(
    r"(?:[-*+•‣▪●○◦·–]|\d{1,3}[.)]|\(?[a-zA-Z]\)|\(?[ivx]{1,4}\)|\(\d{1,3}\))\s+(?:\[[ xX]?\]\s+)?(?=\S)"
)
_OPENS = re.compile(
    r"(?:\d{1,2}(?:\.\d{1,2}){1,3}\.?|\(\d{1,2}\)|§+ ?\d+\w?|[^\W\d_a-z][^:|.!?]{0,36}:)\s+\S"
)
"""The number of a clause, or the name of a property: "Date: 3 March"."""
_CLAUSE = re.compile(r"(\d{1,3}(?:\.\d{1,3})+)[.)]?\s")
_FOOTER = re.compile(r"(?i)(?:.{0,60}\b)?(?:page|seite) ?\d{1,4}(?: ?(?:of|von|/) ?\d{1,4})?|\d{1,3}")
_PAGE_MARK = re.compile(r"(?m)(?:^|(?<=[.!?:;] )|(?<=[.!?:;][\"'”’»)\]] ))\[page (\d{1,4})\](?=\s|\Z)")
_CELL_MARK = re.compile(r"\| ?\[([A-Z]{1,3}\d{1,7}|row \d{1,9})\]")
"""What a reader of documents adds where a text does not show its own places: of a page only where a line or a sentence begins."""
_NUMBERED = re.compile(
    r"(?i)(?:(?:§+|section|article|clause|artikel|chapter|part|annex|schedule)\s*[\dIVXLC]{1,5}\b|\d{1,2}(?:\.\d{1,2}){0,3}\.?(?=\s)"
    r"|[IVX]{1,5}\.)\s*[:–—-]?\s*(\D*)"
)
_VERB = re.compile(r"\b(?:shall|must|will|may|is|are|was|has|have|muss|ist|sind|wird|doit|est|debe)\b")
_ENDS: Final = (".", ":", ";", "!", "?", ",")


@dataclass(frozen=True, slots=True)
class Unit:
    """
    One piece of a document that can be quoted.

    Attributes:
        text: The words, white space folded; of a table row, its cells with their headers.
        form: ``sentence``, ``item``, ``row`` or ``intro``.
        heading: The nearest heading above, without its marks; empty if there is none.
        intro: What introduces the list or table that this is in, ending in a colon.
        page: The page or the cell that it is on: "page 2", "A7"; empty where the text does not say.
        clause: The clause or item that it is in: "clause 4.2 (a)", "item 3"; empty if there is none.
    """

    text: str
    form: str
    heading: str = ""
    intro: str = ""
    page: str = ""
    clause: str = ""


def fold(text: str) -> str:
    """Return *text* with every run of white space, line ends included, turned into one blank."""
    return " ".join(text.split())


def shortened(text: str, chars_max: int) -> str:
    """Return *text* cut after a word, with a mark, if it is longer than *chars_max*."""
    return text if len(text) <= chars_max else text[:chars_max].rsplit(" ", 1)[0] + " …"


def split(text: str) -> list[str]:
    """Cut *text*, one paragraph, into sentences of at most 600 characters; one that begins with "it" or "this" stays with the one before."""
    folded, start, ends = fold(text), 0, list[int]()
    for stop in _STOP.finditer(folded):
        token = folded[max(start, stop.start() - 24) : stop.start()].rpartition(" ")[2].lower()
        if folded[stop.start() - 1] == "." and not _ends(token.strip("(.…"), stop[1], stop.start() - start):
            continue
        if _BACKWARD.match(folded, stop.end()) and stop.start() - start <= 190:
            continue
        ends.append(start := stop.end())
    pieces = (folded[begin:end] for begin, end in zip([0, *ends], [*ends, len(folded)], strict=True))
    return [part for piece in pieces for part in wrap(piece.strip(), 600, break_on_hyphens=False)]


def _ends(token: str, word: str, chars: int) -> bool:
    """Return whether a full stop between *token* and *word*, after *chars* characters, ends a sentence: not "No. 4", nor "3. May"."""
    common = word.lower() in _FUNCTION_WORDS
    if token.replace(".", "").isdigit() and len(token) <= 5 and len(token) != 4:
        return common and chars > len(token) + 1
    return not word[0].islower() and (not _ABBREVIATION.fullmatch(token) or (common and len(word) > 1))


def units(text: str, *, units_max: int) -> tuple[list[Unit], bool]:
    """Read *text*, Markdown or plain, into at most *units_max* units in their order; the second says whether that is all."""
    reader = _Reader(page="page 1" if _PAGE_MARK.search(text) else "")
    lines = [fold(line) for line in _PAGE_MARK.sub(r"\n\g<0>\n", text.rstrip()).splitlines()]
    for line, below in zip_longest(lines, lines[1:], fillvalue=""):
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
    header: list[str] | None = None

    def read(self, line: str, below: str) -> None:
        """Add *line* to the block that it belongs to; *below* is the next line."""
        bars = line.count("|")
        if (mark := _PAGE_MARK.fullmatch(line)) and int(mark[1]) > int(self.page.removeprefix("page ") or 1):
            self.flush()
            self.page = line[1:-1]
        elif bars and (self.header is not None or line[0] == "|" or bars == below.count("|")):
            self._row(line, below)
        elif not any(map(str.isalnum, line)) or _FOOTER.fullmatch(line):
            self.flush()
            self.header = None
        elif (title := _HEADING.fullmatch(line)) and (title[1] or not self.block):
            self._open(title[1] or title[2])
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
            number = re.sub(r"\W", "", item[0])
            if number.isdigit() and "." not in self.clause:
                self.clause, self.item = f"{'item' if self.heading else 'clause'} {number}", ""
            else:
                self.item = number and f"({number})"
            self.form, line = "item", line[item.end() :]
        elif last and _OPENS.match(line) and (last.endswith(_ENDS) or len(last) < 60):
            self.flush()  # a paragraph begins although no blank line is above it
        if not self.block and self.form != "item":
            self.item, self.clause = "", "" if self.clause.startswith("item") else self.clause
            if numbered := _CLAUSE.match(line):
                self.clause = f"clause {numbered[1]}"
        self.block.append(line)

    def _is_title(self, line: str, below: str) -> bool:
        """Return whether *line* is a heading without a mark: numbered, or in capitals."""
        last = self.block[-1] if self.block else ""
        if len(line) > 90 or len(line.split()) > 8 or line.endswith(_ENDS) or _VERB.search(line):
            return False
        if below[:1].islower() or (last and not last.endswith(_ENDS) and len(last) >= 60):
            return False
        if line.isupper() and sum(map(str.isalpha, line)) >= 4:
            return not below.isupper()
        if numbered := _NUMBERED.fullmatch(line):
            listed = _ITEM.match(line) and (self.form == "item" or _ITEM.match(below))
            return not listed and (numbered[1][:1].isupper() or not (numbered[1] or line[0].isdigit()))
        return False

    def _row(self, line: str, below: str) -> None:
        """Read one row of a table: its header, its dashes, or values; of two cells without a header the first names the second."""
        mark = _CELL_MARK.match(line)
        bars = re.split(r"(?<!\\)\|", line[mark.end() if mark else 0 :].removeprefix("|").removesuffix("|"))[
            :40
        ]
        cells = [re.sub(r"\*\*|\\(?=\|)", "", cell).strip()[:240] for cell in bars]
        if self.header is None:
            self.flush()
            named = not any(map(str.isdigit, "".join(cells))) and all(
                len(cell.split()) <= 4 for cell in cells
            )
            delimited = "-" in below and not below.strip("|:- ")
            self.header = cells if named or (delimited and len(cells) > 2) else []
            if self.header:
                return
        heads = self.header
        if not heads and len(cells) == 2:
            heads, cells = [cells[0].strip(":")], cells[1:]
        pairs = [pair for pair in zip_longest(heads, cells, fillvalue="") if pair[1].strip("-–—: ")]
        text = "; ".join(f"{head}: {value}" if head else value for head, value in pairs)
        self._emit(text, "row", self.intro, page=mark[1] if mark else None)

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
            self._emit(piece, form, "" if number else self.intro)
        if form == "sentence" and text.endswith(":") and len(pieces[-1]) <= ITEM_CHARS_MAX:
            self.intro = pieces[-1]

    def _emit(self, text: str, form: str, intro: str = "", *, page: str | None = None) -> None:
        """Add one unit if it holds a letter or a digit; a sentence that introduces it is quoted with it only."""
        if not any(map(str.isalnum, text)):
            return
        if intro and self.out and self.out[-1].text == intro:
            self.out[-1] = replace(self.out[-1], form="intro")
        clause = f"{self.clause} {self.item}".strip()
        self.out.append(Unit(text, form, self.heading, intro, self.page if page is None else page, clause))
