"""
The sources of one answer as one sequence of units, and the choice of those that answer a part of a request.

A query word finds its stem, its near synonyms, and words that begin or end like it. A unit is as good as the share of the query
that it covers, where a rare word weighs more than a frequent one. A **list** takes every unit of the wanted kinds, narrowed to its
topic; a **question** takes the units that cover most of it; a **summary** takes what each section says first.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from .kinds import kinds_of
from .units import SYNONYMS, Unit, stem, units, words_of

UNITS_MAX: Final = 12_000
"""Units read in one call: some 250 pages."""
SOURCES_MAX: Final = 200
FINDINGS_MAX: Final = 10
"""Findings of a question or a summary."""


@dataclass(frozen=True, slots=True)
class Source:
    """A document to answer from: its name in the answer, its text, and whether that is all of its text."""

    name: str
    text: str
    whole: bool = True


class Wish(NamedTuple):
    """
    One thing that a request asks for: a ``list`` of *kinds*, a ``question``, or a ``summary``.

    *terms* say what it is about, in lower case; *selective* is a list of the main findings only.
    """

    heading: str
    shape: str
    kinds: frozenset[str] = frozenset()
    terms: tuple[str, ...] = ()
    selective: bool = False


class Choice(NamedTuple):
    """The units chosen for one part in the order shown, how many more there are, and the name of a note."""

    places: Sequence[int]
    hidden: int = 0
    note: str = ""


class Corpus:
    """
    The units of some sources.

    Attributes:
        units: All units in the order of the sources.
        origin: For each unit, the number of its source.
        names: The names of the sources.
        unread: Names of sources that were too long to be read whole, with the number of units that were read.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.units: list[Unit] = []
        self.origin: list[int] = []
        self.names = [source.name for source in sources]
        self.unread: list[tuple[str, int]] = []
        share = UNITS_MAX // max(1, min(len(sources), SOURCES_MAX))
        for number, source in enumerate(sources):
            found, whole = units(source.text, units_max=share if number < SOURCES_MAX else 0)
            self.units += found
            self.origin += [number] * len(found)
            if not (whole and source.whole):
                self.unread.append((source.name, len(found)))

    @cached_property
    def body(self) -> list[frozenset[str]]:
        """The stems of each unit's own words and of the line that introduces it."""
        return [frozenset(map(stem, words_of(f"{unit.intro} {unit.text}"))) for unit in self.units]

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """The units that have each stem, in themselves or in their heading."""
        found: dict[str, list[int]] = {}
        for place, (words, unit) in enumerate(zip(self.body, self.units, strict=True)):
            for one in sorted(words | set(map(stem, words_of(unit.heading)))):
                found.setdefault(one, []).append(place)
        return found

    @cached_property
    def kinds(self) -> list[frozenset[str]]:
        """The kinds of each unit."""
        return list(map(kinds_of, self.units))

    def weight(self, stems: Iterable[str]) -> float:
        """Return the inverse frequency of a word that any of *stems* stands for; highest where none occurs."""
        count = min(len(self.units), sum(len(self.places.get(one, ())) for one in stems))
        return math.log(1 + (len(self.units) + 1) / (count + 0.5))

    def search(self, words: Sequence[str]) -> dict[int, float]:
        """Return which share of *words*, from 0 to 1 by their weights, each unit covers; units without a hit are missing."""
        near = {word: self._near(word) for word in map(stem, words)}
        weights = {word: self.weight({word, *others}) for word, others in near.items()}
        total = sum(weights.values()) or 1.0
        shares: dict[int, float] = {}
        for word, others in near.items():
            for place in sorted({place for one in (word, *others) for place in self.places.get(one, ())}):
                fit = 1.0 if word in self.body[place] else 0.7
                shares[place] = shares.get(place, 0.0) + fit * weights[word] / total
        return shares

    def _near(self, stemmed: str) -> set[str]:
        """Return the stems of synonyms of *stemmed*, of words that are it but for an ending, and of compounds with it."""
        near = set[str]().union(*(group for group in SYNONYMS if stemmed in group))
        for other in self.places if len(stemmed) >= 5 and not stemmed.isdigit() else ():
            if (
                other.startswith(stemmed)
                or other.endswith(stemmed)
                or (len(other) >= 5 and stemmed.startswith(other))
            ):
                near.add(other)
        return near - {stemmed}

    def choose(self, part: Wish) -> Choice:
        """Return the units that answer *part*; no places where nothing does."""
        pool = [place for place, unit in enumerate(self.units) if unit.form != "intro"]
        if part.shape == "summary":
            return self._firsts(pool)
        shares = self.search(part.terms)
        return (
            self._question(part, pool, shares) if part.shape == "question" else self._list(part, pool, shares)
        )

    def _firsts(self, pool: Sequence[int]) -> Choice:
        """Choose the first of *pool* in each section that says something alone, at most ten from all over the documents."""
        firsts: dict[tuple[int, str], int] = {}
        for place in pool:
            unit = self.units[place]
            ends = unit.form == "item" or (unit.form == "sentence" and unit.text.endswith("."))
            if ends and 7 <= len(unit.text.split()) <= 50:
                firsts.setdefault((self.origin[place], unit.heading), place)
        chosen = list(firsts.values()) or pool
        count = min(len(chosen), FINDINGS_MAX)
        spread = [chosen[number * len(chosen) // count] for number in range(count)]
        return Choice(spread, len(pool) - count)

    def _list(self, part: Wish, pool: Sequence[int], shares: Mapping[int, float]) -> Choice:
        """Choose units by kind, and by topic if the part has one."""
        hits = [place for place in pool if self.kinds[place] & part.kinds]
        if not part.terms or not hits:
            listed = Choice(hits, note="" if hits else "unknown")
            return self._firsts(hits) if part.selective and len(hits) > FINDINGS_MAX else listed
        least = max(0.15, 0.5 * max(shares.get(place, 0.0) for place in hits))
        near = [place for place in hits if shares.get(place, 0.0) >= least]
        return Choice(near or hits, note="" if near else "unmentioned")

    def _question(self, part: Wish, pool: Sequence[int], shares: Mapping[int, float]) -> Choice:
        """Choose the units that cover most of a question, the best first; those of the kind that it asks for, if any are."""
        good = [place for place in pool if shares.get(place, 0.0) >= 0.5]
        if not good:
            return Choice((), note="none")
        good = [place for place in good if self.kinds[place] & part.kinds] or good
        scores = {place: shares[place] * (1 + 4 / (10 + len(self.body[place]))) for place in good}
        least = 0.6 * max(scores.values())
        good = sorted((place for place in good if scores[place] >= least), key=lambda place: -scores[place])
        return Choice(good[:FINDINGS_MAX], max(0, len(good) - FINDINGS_MAX))
