"""
All sources of one call as one numbered sequence of units, with what is known of each: language, stems, kinds.
"""

import re
from collections.abc import Sequence
from typing import Final

from .blocks import Unit, units
from .clauses import words_of
from .dates import facts
from .extractive import Source
from .kinds import ALL, kinds_of
from .languages import detect, known
from .ranking import Index, Stemmer, Term, query_terms

UNITS_MAX: Final = 12_000
"""Units read in one call: some 250 pages."""
SOURCES_MAX: Final = 200
CONTEXT_CHARS_MAX: Final = 190
"""A longer sentence is not quoted only as context. Below a third of ``SENTENCE_CHARS_MAX``, so never cut out of a longer one."""
_BACKWARD = re.compile(
    r"(?:(?:it|they|he|she|er|sie|es|il|elle|ils|elles|hij|zij|ello|esso|essa|in (?:that|this|the last|such a?) case|within that period"
    r"|in diesem fall|dans ce cas|en este caso|in questo caso|in dat geval)"
    r"|(?:this|these|those|such|that|dies|dieser?|das|ce|cela|ceci|esto|este|eso|questo|ciò|isto|isso|dit|dat)"
    r" (?:is|are|was|were|shall|must|may|can|will|does|do|applies|apply|also|includes?|means|has|have|gilt|ist|sind|muss|kann|wird|hat"
    r"|est|sont|peut|doit|debe|puede|es|deve|può|è|pode|é|moet|kan))\b",
    re.IGNORECASE,
)


class Corpus:
    """
    The units of some sources.

    Attributes:
        units: All units in the order of the sources.
        origin: For each unit, the number of its source.
        names: The names of the sources.
        languages: The language of each source.
        unread: Names of sources that were too long to be read whole, with the number of units that were read.
        stemmer: The stemmer of this call.
    """

    def __init__(self, sources: Sequence[Source], *, default: str) -> None:
        self.units: list[Unit] = []
        self.origin: list[int] = []
        self.names = [source.name for source in sources]
        self.languages = [known(detect(source.text, default=default)) for source in sources]
        self.unread: list[tuple[str, int]] = []
        self.stemmer = Stemmer()
        self._titles: list[str] = []
        share = UNITS_MAX // max(1, min(len(sources), SOURCES_MAX))
        for number, source in enumerate(sources):
            room = share if number < SOURCES_MAX else 0
            found, whole = units(source.text, units_max=room)
            self.units.extend(found)
            self.origin.extend([number] * len(found))
            if found:
                self._titles.append(found[0].heading or found[0].text)
            if not (whole and source.whole):
                self.unread.append((source.name, len(found)))
        self._index: Index | None = None
        self._kinds: dict[int, frozenset[str]] = {}
        self._subjects: dict[int, frozenset[str]] = {}
        self._facts: dict[int, frozenset[str]] = {}

    @property
    def index(self) -> Index:
        """The index over all units, made when it is first needed."""
        if self._index is None:
            body = [
                self.stemmer.stems(f"{unit.intro} {unit.text}", self.language(place))
                for place, unit in enumerate(self.units)
            ]
            heads: dict[tuple[str, str], list[str]] = {}
            head = []
            for place, unit in enumerate(self.units):
                key = (unit.heading or "", self.language(place))
                if key not in heads:
                    heads[key] = self.stemmer.stems(*key)
                head.append(heads[key])
            self._index = Index(body, head)
        return self._index

    def language(self, place: int) -> str:
        """Return the language of the unit at *place*."""
        return self.languages[self.origin[place]]

    def kinds(self, place: int) -> frozenset[str]:
        """Return all kinds of the unit at *place*."""
        if place not in self._kinds:
            self._kinds[place] = kinds_of(self.units[place], self.language(place), ALL)
        return self._kinds[place]

    def is_any(self, place: int, wanted: frozenset[str]) -> bool:
        """Whether the unit at *place* is of a kind in *wanted*."""
        if not wanted:
            return False
        if place in self._kinds:
            return bool(self._kinds[place] & wanted)
        return bool(kinds_of(self.units[place], self.language(place), wanted))

    def passage(self, place: int, *, context: bool = True) -> str:
        """
        Return the words of the unit at *place* as they are quoted.

        A sentence that begins with "it" or "this" says nothing alone: with *context* the sentence before it in the same
        paragraph is quoted with it.
        """
        unit = self.units[place]
        if not (context and unit.follows and _BACKWARD.match(unit.text)):
            return unit.text
        before = self.units[place - 1].text
        room = len(before) <= CONTEXT_CHARS_MAX and before.endswith((".", "!", "?", ")", '"', "”"))
        return f"{before} {unit.text}" if room else unit.text

    def facts(self, place: int) -> frozenset[str]:
        """Return the numbers, months and weekdays in the unit at *place*."""
        if place not in self._facts:
            self._facts[place] = facts(self.units[place].text, self.language(place))
        return self._facts[place]

    def subject(self, place: int) -> frozenset[str]:
        """Return the stems of the unit at *place* without numbers and months: what it speaks of."""
        if place not in self._subjects:
            known_facts = self.facts(place)
            stems = (
                stem for stem in self.index.body[place] if not stem.isdigit() and stem[:3] not in known_facts
            )
            self._subjects[place] = frozenset(stems)
        return self._subjects[place]

    def terms(self, words: Sequence[str], spoken: str) -> list[Term]:
        """Return what each of *words*, of a query in the language *spoken*, stands for here."""
        return query_terms(words, self.index, self.stemmer, spoken=spoken, languages=self.languages)

    def shares(self, words: Sequence[str], spoken: str) -> dict[int, float]:
        """Return how much of *words* each unit covers; what names its document counts as if its heading had it."""
        named = []
        for word in words:
            origins = self.named((word,), spoken)
            named.append(
                [place for place, origin in enumerate(self.origin) if origin in origins] if origins else []
            )
        return self.index.coverage(self.terms(words, spoken), named=named)

    def named(self, hints: Sequence[str], spoken: str) -> frozenset[int]:
        """Return the sources whose name has one of the words *hints*; none if all of them or none have."""
        wanted = {self.stemmer.stem(word, spoken) for word in hints}
        found = {
            number
            for number, name in enumerate(self.names)
            if wanted
            & {self.stemmer.stem(word, spoken) for word in words_of(name.replace("_", " ").rsplit(".", 1)[0])}
        }
        return frozenset(found) if len(found) < len(self.names) else frozenset()

    def is_titled(self, word: str) -> bool:
        """Return whether *word* names a source: it is in its file name, or in its title, perhaps within a compound."""
        words = {part for name in self.names for part in words_of(name.replace("_", " "))}
        words |= {part for title in self._titles for part in words_of(title)}
        return any(part == word or (len(word) >= 5 and part.endswith(word)) for part in words)

    def close(self) -> None:
        """Release the index."""
        if self._index is not None:
            self._index.close()
