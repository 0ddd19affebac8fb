"""
Tell what kinds of finding a unit is: obligation, deadline, amount, action item and so on.

A unit is of a kind by its own words (``lexicon``, ``dates``), by the line that introduces its list, by the heading it stands
under ("Risks", "Action items"), or, in a table, by the header of a filled cell ("Owner", "Due"). Headings speak for list
items and rows, and for sentences only where the kind is a matter of topic (risks, decisions), not of grammar (obligations).
"""

import re
from functools import cache, lru_cache
from typing import Final

from .blocks import Unit
from .dates import Times, times
from .lexicon import ACTORS, CURRENCIES, KINDS, PASSIVE, PATTERNS
from .vocabulary import ASKS, COLUMNS

ALL: Final = frozenset(KINDS)
_TOPICAL: Final = frozenset({"definition", "step", "risk", "decision", "open", "contact", "right"})
_LISTED: Final = frozenset({"obligation", "action", "owner"})
_EMPTY: Final = frozenset({"", "-", "–", "—", "n/a", "na", "none", "tbd", "tba", "?", "x", "offen", "open"})
_AMOUNT = re.compile(
    rf"(?:{CURRENCIES})\.? ?\d|\d(?:[\d.,'’]{{0,14}}| (?:million|mio\.?|mrd\.?|thousand))? ?[-–]? ?(?:{CURRENCIES})(?!\w)"
    r"|\d ?% (?:p\.a\.|per|of the|off|des|der|du|de la|del|discount|rabatt|interest|zins\w*|sconto|remise)",
    re.IGNORECASE,
)
_CONTACT = re.compile(
    r"[\w.+-]{1,64}@[\w-]{1,64}\.\w{2,}|(?:tel|phone|telefon|téléphone|teléfono|telefono|telefone|mobile?|fax)\b\W{0,3}[+(\d]"
    r"|(?<!\d)\+\d[\d ()/-]{7,}",
    re.IGNORECASE,
)
_PARTS: Final = ("topic", "topic2", "topic3")


def kinds_of(unit: Unit, language: str, wanted: frozenset[str] = ALL) -> frozenset[str]:
    """
    Return the kinds of *unit*.

    Args:
        unit: The unit, with heading, introduction and cells.
        language: The language of its source, a key of the tables.
        wanted: Only these kinds are looked for, which saves time.

    Returns:
        A subset of *wanted*; empty for code and for introductions, which are quoted with their items.
    """
    if unit.form in ("code", "intro"):
        return frozenset()
    judge = _Judge(unit, language)
    return frozenset(kind for kind in KINDS if kind in wanted and judge.is_a(kind))


@lru_cache(maxsize=4096)
def asked(text: str, language: str) -> frozenset[str]:
    """Return the kinds that the words of *text*, a heading or a column header, ask for."""
    return frozenset(
        kind for kind in KINDS if any(pattern.search(text) for pattern in ask_patterns(kind, language))
    )


@cache
def ask_patterns(kind: str, language: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns that ask for *kind* in *language*, and in English, which is mixed into all others."""
    codes = dict.fromkeys((language, "en"))
    return tuple(re.compile(rf"(?<!\w)(?:{ASKS[code][kind]})(?!\w)", re.IGNORECASE) for code in codes)


def obligation_at(text: str, language: str) -> int | None:
    """Return where in *text* the words begin that oblige somebody, or None if there are none."""
    match = _pattern("obligation", language).search(text)
    return match.start() if match else None


def is_passive(unit: Unit, language: str) -> bool:
    """Return whether *unit* obliges without saying whom: "invoices must be paid"."""
    return _compiled(PASSIVE[language]).search(unit.text) is not None


def topics(match: re.Match[str]) -> list[str]:
    """Return what the compounds matched by an ask pattern are about: "Lieferfrist" is about "Liefer"."""
    groups = match.groupdict()
    return [groups[name] for name in _PARTS if groups.get(name)]


class _Judge:
    """Judges one unit; the findings about time and words are made once."""

    def __init__(self, unit: Unit, language: str) -> None:
        self.unit = unit
        self.language = language
        values = "; ".join(value for _, value in unit.cells) if unit.cells else unit.text
        self.words = f"{unit.intro} {values}" if unit.intro else values
        self._times: Times | None = None

    def is_a(self, kind: str) -> bool:
        """Whether the unit is of *kind*."""
        if self._by_column(kind) or self._by_heading(kind):
            return True
        if kind in ("deadline", "date"):
            return self._time(kind)
        if kind == "amount":
            return bool(_AMOUNT.search(self.words))
        if kind == "contact":
            return bool(_CONTACT.search(self.words))
        if kind == "obligation":
            return self._obliges()
        if kind == "action":
            return self._acts()
        if kind == "open" and self.words.endswith("?"):
            return self._asks()
        found = bool(_pattern(kind, self.language).search(self.words))
        return found or (kind == "owner" and self._acts())

    def _time(self, kind: str) -> bool:
        if self._asks():
            return False
        if self._times is None:
            self._times = times(self.words, self.language)
        if kind == "date":
            return self._times.date
        if self._times.deadline:
            return True
        dated = self._times.date or self._times.period
        if dated and "deadline" in self._headed():
            return True
        return self._times.bound and (self._obliges() or self._acts())

    def _obliges(self) -> bool:
        if self._asks() or not _pattern("obligation", self.language).search(self.words):
            return False
        rest = _pattern("exempt", self.language).sub(" ", self.words)
        return bool(_pattern("obligation", self.language).search(rest))

    def _acts(self) -> bool:
        if self.unit.form == "task":
            return True
        if self._asks():
            return False
        named = not self.unit.cells and _actors(self.language).search(self.words)
        return bool(named or _pattern("action", self.language).search(self.words))

    def _asks(self) -> bool:
        """Whether it is a question, and not a request in the form of one."""
        return self.words.endswith("?") and not _pattern("action", self.language).search(self.words)

    def _headed(self) -> frozenset[str]:
        return asked(self.unit.heading, self.language) if self.unit.heading else frozenset()

    def _by_heading(self, kind: str) -> bool:
        if kind not in _TOPICAL and (kind not in _LISTED or self.unit.form == "sentence"):
            return False
        return kind in self._headed()

    def _by_column(self, kind: str) -> bool:
        return any(
            value.lower() not in _EMPTY
            and _heads(header, kind, self.language)
            and (kind not in ("amount", "date", "deadline") or _fits(value, kind))
            for header, value in self.unit.cells
        )


def _fits(value: str, kind: str) -> bool:
    """Whether a cell under a header of *kind* holds what such a cell holds: a number, or for a deadline few words."""
    return any(map(str.isdigit, value)) or (kind == "deadline" and len(value) <= 40)


@lru_cache(maxsize=4096)
def _heads(header: str, kind: str, language: str) -> bool:
    """Whether a column called *header* holds things of *kind*."""
    header = header.replace("_", " ")
    if kind in asked(header, language):
        return True
    words = COLUMNS.get(kind)
    return bool(words and re.fullmatch(words, header, re.IGNORECASE))


def _pattern(kind: str, language: str) -> re.Pattern[str]:
    """Return the pattern of sentences of *kind*."""
    return _compiled(PATTERNS[language][kind])


@cache
def _compiled(alternatives: str) -> re.Pattern[str]:
    """Return *alternatives* compiled between word borders, without regard to case."""
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)


@cache
def _actors(language: str) -> re.Pattern[str]:
    return re.compile(ACTORS[language])
