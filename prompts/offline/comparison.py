"""
Find passages that say the same: quoted once with all their sources, or side by side where a number or a "not" differs.

Likeness is the share of common words, numbers and months left out. Only units that share a rare word are compared, and with
a bounded number of others, so that the time is linear in the number of units.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from .corpus import Corpus

SAME: Final = 0.85
"""Likeness from which two passages are the same clause."""
RELATED: Final = 0.45
"""Likeness from which two passages speak of the same thing."""
NEAR_MAX: Final = 50
"""Entries that a unit is compared with, the latest ones: a bound for texts that repeat themselves all over."""
_TURNS = re.compile(
    r"\b(?:[A-Z]|(?i:no|not|never|neither|nor|without|unless|except|only|may|must|shall|should|can|could|will|would))\b"
)
"""Small words and single capitals ("class A") without which two sentences do not say the same."""


@dataclass(slots=True)
class PassageEntry:
    """
    One finding as it is shown.

    Attributes:
        place: The unit that is quoted.
        score: How well it answers.
        same: Units of other sources that say the same.
        differing: Units of other sources that say nearly the same, with another number, date, "not" or "may".
    """

    place: int
    score: float
    same: list[int] = field(default_factory=list)
    differing: list[int] = field(default_factory=list)


def merge(places: Sequence[int], scores: dict[int, float], corpus: Corpus) -> list[PassageEntry]:
    """Return *places* as entries in their order, those alike in different sources in one; a repetition within a source is left out."""
    subjects = {place: _subject(place, corpus) for place in places}
    holding: dict[int, PassageEntry] = {}
    entries: list[PassageEntry] = []
    for place, others in _earlier(places, subjects, corpus):
        near = list({id(holding[other]): holding[other] for other in others}.values())
        alike = {entry.place: _common(subjects[place], subjects[entry.place]) for entry in near}
        text = corpus.units[place].text
        near.sort(
            key=lambda entry: (-alike[entry.place], corpus.units[entry.place].text != text, entry.place)
        )
        joined = next(
            (entry for entry in near if _joined(entry, place, alike[entry.place] >= SAME, corpus)), None
        )
        holding[place] = joined or PassageEntry(place, scores.get(place, 0.0))
        if joined is None:
            entries.append(holding[place])
    quoted = {
        entry.place for entry in entries if corpus.passage(entry.place) != corpus.units[entry.place].text
    }
    return [entry for entry in entries if entry.same or entry.differing or entry.place + 1 not in quoted]


def related(places: Sequence[int], corpus: Corpus) -> list[tuple[int, int]]:
    """Return pairs of units of different sources that speak of the same thing, the most alike first, each unit once."""
    subjects = {place: _subject(place, corpus) for place in places}
    alike: list[tuple[float, int, int]] = []
    for place, others in _earlier(places, subjects, corpus):
        for other in others:
            if corpus.origin[other] != corpus.origin[place]:
                kinds = 0.15 * bool(corpus.kinds(place) & corpus.kinds(other))
                alike.append((-_likeness(subjects[place], subjects[other], corpus) - kinds, other, place))
    used: set[int] = set()
    pairs: list[tuple[int, int]] = []
    for likeness, one, other in sorted(alike):
        if -likeness >= RELATED and not used & {one, other}:
            used |= {one, other}
            pairs.append((one, other))
    return pairs


def says_same(one: int, other: int, corpus: Corpus) -> bool:
    """Return whether two units have the same numbers, dates and small words that turn a sentence's sense."""
    turns = [_TURNS.findall(corpus.units[place].text) for place in (one, other)]
    return corpus.facts(one) == corpus.facts(other) and turns[0] == turns[1]


def _earlier(
    places: Sequence[int], subjects: dict[int, frozenset[str]], corpus: Corpus
) -> Iterator[tuple[int, list[int]]]:
    """Yield each of *places* with the nearest earlier ones that share one of its rarer words."""
    counts = Counter(word for words in subjects.values() for word in words)
    holders: dict[str, list[int]] = {}
    for place in places:
        rarest = sorted(subjects[place], key=lambda word: (counts[word], word))
        keys = rarest[: len(rarest) // 2 + 1] or [corpus.units[place].text]
        yield place, sorted({other for key in keys for other in holders.get(key, ())[-NEAR_MAX:]})[-NEAR_MAX:]
        for key in keys:
            holders.setdefault(key, []).append(place)


def _joined(entry: PassageEntry, place: int, alike: bool, corpus: Corpus) -> bool:
    """Add the unit at *place* to *entry* if another source says it; return whether it is dealt with."""
    if corpus.origin[entry.place] == corpus.origin[place]:
        return corpus.units[entry.place].text.casefold() == corpus.units[place].text.casefold()
    if alike:
        (entry.same if says_same(entry.place, place, corpus) else entry.differing).append(place)
    return alike


def _subject(place: int, corpus: Corpus) -> frozenset[str]:
    """Return the stems of the unit at *place* without numbers and months: what it speaks of."""
    known = corpus.facts(place)
    return frozenset(one for one in corpus.body[place] if not one.isdigit() and one[:3] not in known)


def _common(one: frozenset[str], other: frozenset[str]) -> float:
    """Return which share of two sets of words is common, from 0 to 1."""
    return 2 * len(one & other) / (len(one) + len(other) or 1)


def _likeness(one: frozenset[str], other: frozenset[str], corpus: Corpus) -> float:
    """Return which share of two sets of words is common by weight: rare words tell what a passage speaks of."""
    total = math.fsum(corpus.weight(word) for words in (one, other) for word in sorted(words))
    return 2 * math.fsum(corpus.weight(word) for word in sorted(one & other)) / (total or 1.0)
