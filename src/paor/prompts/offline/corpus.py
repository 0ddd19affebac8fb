"""
All sources of one answer as one numbered sequence of units, with what is known of each, and a search in them.

A query word finds its stem, its near synonyms, and words that begin like it. A unit is as good as the share of the query that it
covers, where a rare word weighs more than a frequent one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from .kinds import kinds_of, pattern
from .units import Unit, content_words, is_english, stem, synonyms_of, units

UNITS_MAX: Final = 12_000
"""Units read in one call: some 250 pages."""
SOURCES_MAX: Final = 200
CONTEXT_CHARS_MAX: Final = 190
"""A longer sentence is not quoted only as context."""
BACKWARD = pattern(
    r"it|they|in (?:that|this|the last|such a?) case|within that period|(?:this|these|those|such|that) (?:is|are|was|were|shall|must|may"
    r"|can|will|do(?:es)?|appl(?:ies|y)|also|includes?|means|ha(?:s|ve))"
)
"""How a sentence begins that cannot be understood without the one before."""


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

    @cached_property
    def body(self) -> list[frozenset[str]]:
        """The stems of each unit's own words and of the line that introduces it."""
        return [frozenset(map(stem, content_words(f"{unit.intro} {unit.text}"))) for unit in self.units]

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """The units that have each stem, in themselves or in their heading."""
        found: dict[str, list[int]] = {}
        for place, (words, unit) in enumerate(zip(self.body, self.units, strict=True)):
            for one in sorted(words | set(map(stem, content_words(unit.heading)))):
                found.setdefault(one, []).append(place)
        return found

    def weight(self, *stems: str) -> float:
        """Return the inverse frequency of a word that any of *stems* stands for; highest where none occurs."""
        count = min(len(self.units), sum(len(self.places.get(one, ())) for one in stems))
        return math.log(1 + (len(self.units) + 1) / (count + 0.5))

    @cached_property
    def kinds(self) -> list[frozenset[str]]:
        """The kinds of each unit."""
        return list(map(kinds_of, self.units))

    def passage(self, place: int) -> str:
        """Return the unit at *place* as it is quoted: with the sentence before it if it begins with "it" or "this"."""
        unit = self.units[place]
        before = self.units[place - 1].text if unit.follows and BACKWARD.match(unit.text) else ""
        return f"{before} {unit.text}" if 0 < len(before) <= CONTEXT_CHARS_MAX else unit.text

    def search(self, words: Sequence[str]) -> dict[int, float]:
        """Return which share of *words*, from 0 to 1 by their weights, each unit covers; units without a hit are missing."""
        near = {word: self._near(word) for word in map(stem, words)}
        weights = {word: self.weight(word, *others) for word, others in near.items()}
        total = sum(weights.values()) or 1.0
        shares: dict[int, float] = {}
        for word, others in near.items():
            for place in sorted({place for one in (word, *others) for place in self.places.get(one, ())}):
                body = self.body[place]
                fit = 1.0 if word in body else 0.7 if body & others else 0.6
                shares[place] = shares.get(place, 0.0) + fit * weights[word] / total
        return shares

    def _near(self, stemmed: str) -> frozenset[str]:
        """Return the stems of synonyms of *stemmed*, of words that are it but for an ending, and of compounds with it."""
        near = set(synonyms_of(stemmed))
        for other in self.places if len(stemmed) >= 5 and not stemmed.isdigit() else ():
            begins = other.startswith(stemmed) or (len(other) >= 5 and stemmed.startswith(other))
            if begins or (self.foreign and other.endswith(stemmed)):
                near.add(other)
        return frozenset(near - {stemmed})
