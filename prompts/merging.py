"""
Put findings together that say the same: once, with all their sources, or side by side where a number differs.

Two documents that both hold a clause need it quoted once. If they differ in a number or a date, both versions are what the
reader is looking for. Likeness is the share of common stems, numbers and months left out. Pairs are found by their rarest
words: two sets that share three quarters of their words must share one of the first quarter, in any common order.

Source: prefix filtering as in Bayardo, Ma and Srikant, "Scaling up all pairs similarity search", 2007.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from .corpus import Corpus

LIKE: Final = 0.75
CONTAINED_WORDS_MIN: Final = 4
_TURNS: Final = """no not never neither nor without unless except only may must shall should can could will would
    nicht kein keine keinen keiner nie ohne außer nur darf muss soll kann ne pas jamais aucun aucune sans sauf peut doit
    sin nunca ningún salvo puede debe non mai senza può deve não sem pode niet geen zonder mag moet kan"""
_TURNING: Final = frozenset(_TURNS.split())
"""Words that are left out of a comparison by topic, but without which two sentences do not say the same."""
_WORD = re.compile(r"[^\W\d_]+")
_LETTER = re.compile(r"[A-Z]")
NEAR_MAX: Final = 200
"""Entries that a unit is compared with, the latest ones: a bound for texts that repeat themselves all over."""
ALIKE_MAX: Final = 20
"""Entries of the same source with the same dates that are looked at for a repetition."""


@dataclass(slots=True)
class Entry:
    """
    One finding as it is shown.

    Attributes:
        place: The unit that is quoted.
        score: How well it answers.
        same: Units of other sources that say the same.
        differing: Units of other sources that say nearly the same, with another number, date, "not" or "may".
        context: Whether a sentence that needs the one before it is quoted with it: not if that one is quoted anyway.
    """

    place: int
    score: float
    same: list[int] = field(default_factory=list)
    differing: list[int] = field(default_factory=list)
    context: bool = True

    @property
    def places(self) -> list[int]:
        """All units of this entry."""
        return [self.place, *self.same, *self.differing]


def merge(places: Sequence[int], scores: Sequence[float], corpus: Corpus) -> list[Entry]:
    """
    Return *places* as entries, near duplicates in one.

    Args:
        places: Numbers of units in the order in which they are shown.
        scores: The score of each.
        corpus: Where the units are.

    Returns:
        The entries in the order of their first unit. An exact repetition within one source is left out.
    """
    facts = {place: corpus.facts(place) for place in places}
    words = {place: corpus.subject(place) for place in places}
    counts = Counter(word for place in places for word in words[place])
    entries: list[Entry] = []
    holders: dict[str, list[int]] = {}
    dated: dict[tuple[int, frozenset[str]], list[int]] = {}
    for place, score in zip(places, scores, strict=True):
        ordered = sorted(words[place], key=lambda word: (counts[word], word))
        prefix = ordered[: len(ordered) - math.ceil(LIKE * len(ordered)) + 1]
        alike = dated.setdefault((corpus.origin[place], facts[place]), []) if facts[place] else []
        near = sorted(
            {number for word in prefix for number in holders.get(word, ())} | set(alike[-ALIKE_MAX:])
        )
        ranked = sorted(
            near[-NEAR_MAX:], key=lambda number: _rank(number, entries[number], place, words, corpus)
        )
        if not any(_join(entries[number], place, words, corpus) for number in ranked):
            for word in prefix:
                holders.setdefault(word, []).append(len(entries))
            alike.append(len(entries))
            entries.append(Entry(place, score))
    quoted = {entry.place for entry in entries}
    for entry in entries:
        entry.context = entry.place - 1 not in quoted
    return entries


def _rank(
    number: int, entry: Entry, place: int, words: dict[int, frozenset[str]], corpus: Corpus
) -> tuple[float, bool, int]:
    """Return the sort key of *entry* for the unit at *place*: the most alike first, of these the same wording."""
    other = corpus.units[entry.place].text != corpus.units[place].text
    return -_likeness(words, entry.place, place), other, number


def _join(
    entry: Entry,
    place: int,
    words: dict[int, frozenset[str]],
    corpus: Corpus,
) -> bool:
    """Add the unit at *place* to *entry* if it says the same; return whether it belongs there."""
    like = _likeness(words, entry.place, place)
    equal = corpus.facts(entry.place) == corpus.facts(place)
    equal = equal and turns_of(entry.place, corpus) == turns_of(place, corpus)
    if corpus.origin[entry.place] == corpus.origin[place]:
        return equal and _repeats(entry, place, words, bool(corpus.facts(place)), corpus)
    if like < LIKE:
        return False
    (entry.same if equal else entry.differing).append(place)
    return True


def _repeats(entry: Entry, place: int, words: dict[int, frozenset[str]], dated: bool, corpus: Corpus) -> bool:
    """Whether the unit at *place* only repeats *entry* in the same source; the longer wording is kept."""
    one, other = corpus.units[entry.place], corpus.units[place]
    if one.text.casefold() == other.text.casefold():
        return True
    shorter = min(len(words[entry.place]), len(words[place]))
    contained = len(words[entry.place] & words[place]) == shorter >= CONTAINED_WORDS_MIN
    if not (dated and contained) or one.cells or other.cells or one.intro != other.intro:
        return False
    if len(words[place]) > len(words[entry.place]):
        entry.place = place
    return True


def turns_of(place: int, corpus: Corpus) -> list[str]:
    """Return the small words of a unit that turn its sense, and its single capitals, as in "class A"."""
    return [
        word
        for word in _WORD.findall(corpus.units[place].text)
        if word.lower() in _TURNING or _LETTER.fullmatch(word)
    ]


def _likeness(words: dict[int, frozenset[str]], one: int, other: int) -> float:
    """Return the share of words that two units have in common."""
    return len(words[one] & words[other]) / (len(words[one] | words[other]) or 1)
