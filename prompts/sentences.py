"""
Fold white space and cut running text into sentences.

A full stop ends a sentence unless something speaks against it: an abbreviation before it ("No. 5", "z. B.", "Art. 12"),
an initial, a day before its month ("31. März"), a lower-case word after it. Abbreviations that can also stand last in a
sentence ("Inc.", "etc.", "usw.") end it when a capitalised function word follows ("... of Acme Inc. The Buyer ...").

Every sentence is a piece of the folded text, character by character, so that it can be found again in its source. One
that is too long to be quoted is cut at a semicolon, a comma or a space. All rules look at a fixed number of characters
around one place, so the time is linear in the text.
"""

import re
from collections.abc import Iterator
from typing import Final

from .languages import STOP_WORDS

SENTENCE_CHARS_MAX: Final = 600
"""A longer sentence is cut. The 99th percentile of contract sentences is near 500 (own count on licences)."""

_NEVER: Final = """nos nr nrs secs para paras figs vol vols pp ed eds dr mr mrs ms prof cf al approx ca bzw vgl abs ziff str
    tel inkl exkl zzgl ggf evtl bspw sog arts artt rn hrsg mme mlle réf env ex ej núm num pág sr sra sres dott sig sigg
    avv ing dipl arch messrs cl ch resp z.b d.h u.a o.ä i.d d.r s.o s.u e.g i.e v.a p.ex jan feb apr jun jul aug sep
    sept oct okt nov dec dez janv févr avr juil déc ene abr ago dic giu lug ott fev bl blz jl incl excl tit kap
    qty ver zb dh"""
_MAYBE: Final = """inc ltd llc plc corp co gmbh ag sa srl bv nv jr etc usw ecc enz am pm eu us uk uds ud ltda cie mio mrd std
    dept est bros a.m p.m u.s u.k s.a l.r p.a m.e n.b no art out set mar max min app ref col sec gen fig st pag rev
    lit mag reg const dist ext gov lt c.v"""
_NEVER_LAST: Final = frozenset(_NEVER.split())
_MAYBE_LAST: Final = frozenset(_MAYBE.split())
_MONTHS: Final = re.compile(
    r"(?:jan|feb|fév|mär|mar|apr|avr|abr|mai|may|mei|mag|maj|maa|jun|jui|giu|jul|lug|aug|aoû|ago|sep|set|okt|oct|ott|out"
    r"|nov|dez|dec|déc|dic|ene|gen|quartal|quarter|trimestre|halbjahr|kalender|werktag|arbeitstag|tag)",
    re.IGNORECASE,
)
_STARTERS: Final = frozenset().union(*STOP_WORDS.values())
_STOP = re.compile(r"[.!?…]+[\"'”’»›)\]*_]{0,4}(?=\s)|[。！？]")
_LAST_TOKEN = re.compile(r"(?:\b\w\. ?)?[\w.\-/§]*$")
_NEXT_WORD = re.compile(r"[\"'“‘„«‹(\[*_¿¡]{0,4}(\w+)")
_CLAUSE_NUMBER = re.compile(r"\d{1,3}(?:\.\d{1,3}){0,4}")
_SPLITS: Final = ("; ", ": ", ", ", " ")


def fold(text: str) -> str:
    """Return *text* with every run of white space, line ends included, turned into one blank."""
    return " ".join(text.split())


def split(text: str, *, chars_max: int = SENTENCE_CHARS_MAX) -> list[str]:
    """
    Cut *text* into sentences.

    Args:
        text: One paragraph; it is folded first.
        chars_max: Longest piece; at least 20.

    Returns:
        The sentences in order, none empty, each a piece of the folded text; together they are all of it but blanks.
    """
    folded = fold(text)
    pieces: list[str] = []
    start = 0
    for match in _STOP.finditer(folded):
        end = match.end()
        if _ends_sentence(folded, start, match):
            pieces.extend(_shorten(folded[start:end].strip(), chars_max))
            start = end
    pieces.extend(_shorten(folded[start:].strip(), chars_max))
    return pieces


def _ends_sentence(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether the punctuation at *stop* ends the sentence that began at *start*."""
    mark = stop.group()
    if mark[0] in "!?。！？":
        return True
    following = _NEXT_WORD.match(text, stop.end() + 1)
    if following is None:
        return True
    word = following.group(1)[:24]
    if word[0].islower():
        return False
    if mark.startswith((".", "…")) and len(mark) > 1 and mark[1] in ".…":
        return True
    before = _LAST_TOKEN.search(text[max(start, stop.start() - 24) : stop.start()])
    token = before.group() if before else ""
    if _CLAUSE_NUMBER.fullmatch(token) and stop.start() - len(token) == start + (start > 0):
        return False
    return _token_ends(token, word)


def _token_ends(token: str, word: str) -> bool:
    """Whether a sentence can end after *token* and a full stop when *word*, not in lower case, comes next."""
    lower = token.lower().replace(" ", "")
    starter = word.lower() in _STARTERS
    if lower.isdigit() and len(lower) <= 2:
        return starter and not _MONTHS.match(word)
    if lower in _NEVER_LAST:
        return False
    if lower in _MAYBE_LAST or (len(lower) == 1 and lower.isalpha()):
        return starter and len(word) > 1
    return not (lower.startswith("§") and not starter)


def _shorten(sentence: str, chars_max: int) -> Iterator[str]:
    """Yield *sentence*, in pieces of at most *chars_max* characters if it is longer; nothing if it is empty."""
    start = 0
    while len(sentence) - start > chars_max:
        limit = start + chars_max
        cut = limit
        for mark in _SPLITS:
            place = sentence.rfind(mark, start + chars_max // 3, limit)
            if place > 0:
                cut = place + len(mark)
                break
        yield sentence[start:cut].strip()
        start = cut
    rest = sentence[start:].strip()
    if rest:
        yield rest
