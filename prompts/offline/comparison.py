"""
Find passages that say the same: quoted once with all their sources, or side by side where a number or a "not" differs.

``merge`` puts near duplicates together, ``pairs`` what different documents say on the same thing. Only units that share a
rare word are compared, and with a bounded number of others, so that the time is linear in the number of units.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from .corpus import Corpus

LIKE: Final = 0.75
NEAR_MAX: Final = 200
"""Entries that a unit is compared with, the latest ones: a bound for texts that repeat themselves all over."""
_PAIRED: Final = 0.5
_TURNS = re.compile(
    r"\b(?:[A-Z]|(?i:no|not|never|neither|nor|without|unless|except|only|may|must|shall|should|can|could|will|would|nicht|kein\w*|nie"
    r"|ohne|nur|darf|muss|soll|kann|pas|jamais|aucune?|sans|peut|doit|nunca|puede|debe|mai|senza|può|deve|não|sem|niet|geen|zonder))\b"
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


def merge(places: Sequence[int], scores: dict[int, float], corpus: Corpus) -> list[Entry]:
    """
    Return *places* as entries in their order, near duplicates in one; a repetition within one source is left out.

    Two sets that share three quarters of their words must share one of the first quarter in any common order.
    Source: prefix filtering, Bayardo, Ma and Srikant, "Scaling up all pairs similarity search", 2007.
    """
    subjects = {place: subject_of(place, corpus) for place in places}
    counts = Counter(word for words in subjects.values() for word in words)
    holders: dict[str, list[Entry]] = {}
    entries: list[Entry] = []
    for place in places:
        ordered = sorted(subjects[place], key=lambda word: (counts[word], word))
        prefix = ordered[: len(ordered) - math.ceil(LIKE * len(ordered)) + 1] or [corpus.units[place].text]
        near = {id(entry): entry for word in prefix for entry in holders.get(word, ())[-NEAR_MAX:]}
        ranked = sorted(near.values(), key=lambda entry: -_jaccard(subjects[entry.place], subjects[place]))
        if not any(_join(entry, place, subjects, corpus) for entry in ranked[:NEAR_MAX]):
            entries.append(Entry(place, scores[place]))
            for word in prefix:
                holders.setdefault(word, []).append(entries[-1])
    quoted = {entry.place for entry in entries}
    for entry in entries:
        entry.context = entry.place - 1 not in quoted
    return entries


def _join(entry: Entry, place: int, subjects: dict[int, frozenset[str]], corpus: Corpus) -> bool:
    """Add the unit at *place* to *entry* if it says the same; return whether it belongs there."""
    equal = says_same(entry.place, place, corpus)
    if corpus.origin[entry.place] == corpus.origin[place]:
        return equal and corpus.units[entry.place].text.casefold() == corpus.units[place].text.casefold()
    if _jaccard(subjects[entry.place], subjects[place]) < LIKE:
        return False
    (entry.same if equal else entry.differing).append(place)
    return True


def pairs(groups: Sequence[Sequence[int]], corpus: Corpus) -> list[list[int]]:
    """Return units of different documents that speak of the same thing, one list of *groups* a document, lone units as groups of one."""
    found: list[list[int]] = []
    for places in groups:
        alike = {
            (n, place): _likeness(group[0], place, corpus)
            for n, group in enumerate(found)
            for place in places
        }
        left = set(places)
        taken: set[int] = set()
        for (number, place), likeness in sorted(alike.items(), key=lambda item: (-item[1], item[0])):
            if likeness >= _PAIRED and place in left and number not in taken:
                left.remove(place)
                taken.add(number)
                found[number].append(place)
        found.extend([place] for place in places if place in left)
    return found


def says_same(one: int, other: int, corpus: Corpus) -> bool:
    """Return whether two units have the same numbers and dates, and the same small words that turn a sentence's sense."""
    turns = (_TURNS.findall(corpus.units[place].text) for place in (one, other))
    return corpus.facts(one) == corpus.facts(other) and next(turns) == next(turns)


def subject_of(place: int, corpus: Corpus) -> frozenset[str]:
    """Return the stems of the unit at *place* without numbers and months: what it speaks of."""
    known = corpus.facts(place)
    return frozenset(one for one in corpus.body[place] if not one.isdigit() and one[:3] not in known)


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of words that two sets have in common."""
    return len(one & other) / (len(one | other) or 1)


def _likeness(one: int, other: int, corpus: Corpus) -> float:
    """Return how much two units speak of the same thing: common words by weight, and the same heading or kinds."""
    first, second = subject_of(one, corpus), subject_of(other, corpus)
    total = math.fsum(corpus.weights[word] for word in (*sorted(first), *sorted(second)))
    share = 2 * math.fsum(corpus.weights[word] for word in sorted(first & second)) / (total or 1.0)
    headed = bool(corpus.head[one]) and corpus.head[one] == corpus.head[other]
    return share and share + 0.2 * headed + 0.15 * bool(corpus.kinds(one) & corpus.kinds(other))
