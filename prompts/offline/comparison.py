"""
Find passages that say the same: quoted once with all their sources, or side by side where a number or a "not" differs.

Likeness is the share of common words, numbers and months left out. Only units that share a rare word are compared, and with
a bounded number of others, so that the time is linear in the number of units.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from .corpus import Corpus

SAME: Final = 0.85
"""Likeness from which two passages are the same clause."""
RELATED: Final = 0.55
"""Likeness from which two passages speak of the same thing."""
NEAR_MAX: Final = 200
"""Entries that a unit is compared with, the latest ones: a bound for texts that repeat themselves all over."""
_TURNS = re.compile(
    r"\b(?:[A-Z]|(?i:no|not|never|neither|nor|without|unless|except|only|may|must|shall|should|can|could|will|would))\b"
)
"""Small words and single capitals ("class A") without which two sentences do not say the same."""


@dataclass(slots=True)
class Entry:
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


def merge(
    places: Sequence[int], scores: dict[int, float], corpus: Corpus, *, like: float = SAME
) -> list[Entry]:
    """Return *places* as entries in their order, those alike in different sources in one; a repetition within a source is left out."""
    subjects = {place: _subject(place, corpus) for place in places}
    counts = Counter(word for words in subjects.values() for word in words)
    holders: dict[str, list[Entry]] = {}
    entries: list[Entry] = []
    for place in places:
        rarest = sorted(subjects[place], key=lambda word: (counts[word], word))
        keys = rarest[: len(rarest) // 2 + 1] or [corpus.units[place].text]
        near = {id(entry): entry for key in keys for entry in holders.get(key, ())[-NEAR_MAX:]}
        alike = {n: _likeness(subjects[place], subjects[entry.place]) for n, entry in near.items()}
        ranked = sorted(
            near, key=lambda n: (-alike[n], corpus.facts(near[n].place) != corpus.facts(place), near[n].place)
        )
        if any(_joined(near[n], place, alike[n] >= like, corpus) for n in ranked[:NEAR_MAX]):
            continue
        entries.append(Entry(place, scores.get(place, 0.0)))
        for key in keys:
            holders.setdefault(key, []).append(entries[-1])
    return entries


def _joined(entry: Entry, place: int, alike: bool, corpus: Corpus) -> bool:
    """Add the unit at *place* to *entry* if another source says it; return whether it is dealt with."""
    one, other = (corpus.units[number].text for number in (entry.place, place))
    if corpus.origin[entry.place] == corpus.origin[place]:
        return one.casefold() == other.casefold()
    if alike:
        equal = corpus.facts(entry.place) == corpus.facts(place) and _TURNS.findall(one) == _TURNS.findall(
            other
        )
        (entry.same if equal else entry.differing).append(place)
    return alike


def _subject(place: int, corpus: Corpus) -> frozenset[str]:
    """Return the stems of the unit at *place* without numbers and months: what it speaks of."""
    known = corpus.facts(place)
    return frozenset(one for one in corpus.body[place] if not one.isdigit() and one[:3] not in known)


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return how many words two sets have in common, from 0 to 1."""
    return len(one & other) / math.sqrt(len(one) * len(other)) if one and other else 0.0
