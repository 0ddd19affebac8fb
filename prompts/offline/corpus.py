"""
All sources of one answer as one numbered sequence of units, with what is known of each, and BM25 over them.

A query word finds its stem, its near synonyms, and words that begin like it. BM25 alone cannot tell a unit that has one rare
word of three from one that has them all, so the share of a query that a unit covers is counted too, by the words' weights.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, with each word counted once.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from .kinds import facts, kinds_of
from .units import Unit, units
from .words import content_words, is_english, stem, synonyms_of, words_of

UNITS_MAX: Final = 12_000
"""Units read in one call: some 250 pages."""
SOURCES_MAX: Final = 200
CONTEXT_CHARS_MAX: Final = 190
"""A longer sentence is not quoted only as context."""
_BACKWARD = re.compile(
    r"(?:it|they|in (?:that|this|the last|such a?) case|within that period|(?:this|these|those|such|that) (?:is|are|was|were|shall|must|may"
    r"|can|will|do(?:es)?|appl(?:ies|y)|also|includes?|means|ha(?:s|ve)))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Source:
    """
    One document to answer from.

    Attributes:
        name: What it is called in the answer: "contract.pdf".
        text: Its text, Markdown or plain.
        whole: Whether that is all of its text.
    """

    name: str
    text: str
    whole: bool = True


class Corpus:
    """
    The units of some sources.

    Attributes:
        units: All units in the order of the sources.
        origin: For each unit, the number of its source.
        names: The names of the sources.
        foreign: Whether a source is not in English.
        unread: Names of sources that were too long to be read whole, with the number of units that were read.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.units: list[Unit] = []
        self.origin: list[int] = []
        self.names = [source.name for source in sources]
        self.foreign = not all(is_english(source.text) for source in sources)
        self.unread: list[tuple[str, int]] = []
        share = UNITS_MAX // max(1, min(len(sources), SOURCES_MAX))
        for number, source in enumerate(sources):
            found, whole = units(source.text, units_max=share if number < SOURCES_MAX else 0)
            self.units.extend(found)
            self.origin.extend([number] * len(found))
            if not (whole and source.whole):
                self.unread.append((source.name, len(found)))
        self._kinds: dict[int, frozenset[str]] = {}
        self._facts: dict[int, frozenset[str]] = {}

    @cached_property
    def body(self) -> list[frozenset[str]]:
        """The stems of each unit's own words and of the line that introduces it."""
        return [frozenset(map(stem, content_words(f"{unit.intro} {unit.text}"))) for unit in self.units]

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """The units that have each stem, in themselves or in their heading."""
        titles = dict.fromkeys(unit.heading for unit in self.units)
        heads = {title: frozenset(map(stem, content_words(title))) for title in titles}
        found: dict[str, list[int]] = {}
        for place, (words, unit) in enumerate(zip(self.body, self.units, strict=True)):
            for one in sorted(words | heads[unit.heading]):
                found.setdefault(one, []).append(place)
        return found

    def weight(self, *stems: str) -> float:
        """Return the inverse frequency of a word that any of *stems* stands for; highest where none occurs."""
        count = min(len(self.units), sum(len(self.places.get(one, ())) for one in stems))
        return math.log(1 + (len(self.units) + 1) / (count + 0.5))

    def kinds(self, place: int) -> frozenset[str]:
        """Return the kinds of the unit at *place*."""
        if place not in self._kinds:
            self._kinds[place] = kinds_of(self.units[place])
        return self._kinds[place]

    def facts(self, place: int) -> frozenset[str]:
        """Return the numbers, months and weekdays in the unit at *place*, which are looked for once."""
        if place not in self._facts:
            self._facts[place] = facts(self.units[place].text)
        return self._facts[place]

    def passage(self, place: int, *, context: bool = True) -> str:
        """Return the unit at *place* as it is quoted: with the sentence before it if it begins with "it" or "this"."""
        unit = self.units[place]
        before = self.units[place - 1].text if context and unit.follows and _BACKWARD.match(unit.text) else ""
        return f"{before} {unit.text}" if 0 < len(before) <= CONTEXT_CHARS_MAX else unit.text

    def search(self, words: Sequence[str]) -> tuple[dict[int, float], dict[int, float]]:
        """Return which share of *words* each unit covers, and its BM25 score, both from 0 to 1; units without a hit are missing."""
        terms = [self._term(stem(word)) for word in words]
        weights = [self.weight(*own, *near) for own, near in terms]
        average = sum(map(len, self.body)) / (len(self.body) or 1) or 1.0
        shares: dict[int, float] = {}
        ranks: dict[int, float] = {}
        for (own, near), weight in zip(terms, weights, strict=True):
            for place in sorted({place for one in own | near for place in self.places.get(one, ())}):
                part = weight * (1.0 if self.body[place] & own else 0.7 if self.body[place] & near else 0.6)
                shares[place] = shares.get(place, 0.0) + part / (sum(weights) or 1.0)
                ranks[place] = ranks.get(place, 0.0) + part * 2.2 / (
                    1.3 + 0.9 * len(self.body[place]) / average
                )
        best = max(ranks.values(), default=0.0) or 1.0
        return shares, {place: rank / best for place, rank in ranks.items()}

    def named(self, hints: Iterable[str]) -> frozenset[int]:
        """Return the sources whose name has one of the words *hints*; none if all of them or none have."""
        wanted = {stem(word) for word in hints}
        parts = [set(map(stem, words_of(name.replace("_", " ").rsplit(".", 1)[0]))) for name in self.names]
        found = frozenset(number for number, own in enumerate(parts) if own & wanted)
        return found if len(found) < len(self.names) else frozenset()

    def _term(self, stemmed: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the stems that are *stemmed* but for an ending, and those of synonyms and of compounds with it."""
        near = set(synonyms_of(stemmed)) - {stemmed}
        for other in self.places if len(stemmed) >= 5 and not stemmed.isdigit() else ():
            begins = other.startswith(stemmed) or (len(other) >= 5 and stemmed.startswith(other))
            compound = self.foreign and (begins or other.endswith(stemmed))
            if other != stemmed and (compound or (begins and abs(len(other) - len(stemmed)) <= 2)):
                near.add(other)
        return frozenset({stemmed}), frozenset(near)
