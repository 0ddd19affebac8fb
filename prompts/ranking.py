"""
Rank units for a set of words, and measure how central each is to its document.

Words are stemmed and given short names (``w17``), and SQLite's FTS5 ranks the units by BM25 over these names in a database
in memory. The names are letters and digits only, so no text of a user or document can ever become query syntax; they are
quoted all the same. Where SQLite was built without FTS5, the sum of the words' weights takes BM25's place.

A query word also stands for its near synonyms (``vocabulary.CONCEPTS``) and, in German and Dutch, for compounds with it.
How much of a query a unit covers is counted by word, each weighing its inverse frequency: BM25 alone cannot tell a unit that
has one rare word of three from one that has them all.
"""

import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from .clauses import words_of
from .languages import ALGORITHMS, STOP_WORDS
from .vocabulary import CONCEPTS

WORD_CHARS_MAX: Final = 40
STEMS_MAX: Final = 60_000
"""Words beyond this many different ones are indexed as they are; a book has some 20,000, a long log more."""
_HEADING_WEIGHT: Final = 0.6
_NEAR_WEIGHT: Final = 0.7
_COMPOUND_CHARS_MIN: Final = 4


@dataclass(frozen=True, slots=True)
class Term:
    """
    One word of a query.

    Attributes:
        own: Its stem, with compounds of it and what differs by one letter.
        near: Stems of words that mean nearly the same.
    """

    own: frozenset[str]
    near: frozenset[str] = frozenset()

    @property
    def stems(self) -> frozenset[str]:
        """All stems that the word stands for."""
        return self.own | self.near


class Stemmer:
    """Stems words with snowball, each only once. Not shared between calls: a snowball stemmer is not thread-safe."""

    def __init__(self) -> None:
        self._stemmers: dict[str, Any] = {}
        self._known: dict[tuple[str, str], str] = {}

    def stem(self, word: str, language: str) -> str:
        """Return the stem of the lower-case *word*."""
        key = (language, word)
        stem = self._known.get(key)
        if stem is None:
            stem = self._stemmer(language).stemWord(word) if self._worth(word) else word
            self._known[key] = stem
        return stem

    def stems(self, text: str, language: str) -> list[str]:
        """Return the stems of the words of *text* that are no function words, in order."""
        stop = STOP_WORDS[language]
        return [self.stem(word, language) for word in words_of(text) if word not in stop]

    def _worth(self, word: str) -> bool:
        return len(word) <= WORD_CHARS_MAX and len(self._known) < STEMS_MAX and not word.isdigit()

    def _stemmer(self, language: str) -> Any:
        if language not in self._stemmers:
            import snowballstemmer

            self._stemmers[language] = snowballstemmer.stemmer(ALGORITHMS[language])
        return self._stemmers[language]


class Index:
    """
    The words of a sequence of units, ready to be searched.

    Attributes:
        body: Stems of each unit's own words, in order.
        head: Stems of each unit's heading.
        weights: The inverse frequency of each stem.
    """

    def __init__(self, body: Sequence[Sequence[str]], head: Sequence[Sequence[str]]) -> None:
        self.body = [frozenset(stems) for stems in body]
        self.head = [frozenset(stems) for stems in head]
        self._rows = (body, head)
        self._places: dict[str, list[int]] = {}
        for place, (words, over) in enumerate(zip(self.body, self.head, strict=True)):
            for stem in sorted(words | over):
                self._places.setdefault(stem, []).append(place)
        self._names = {stem: f"w{number}" for number, stem in enumerate(self._places)}
        self.weights = {stem: self.weight((stem,)) for stem in self._places}
        self._database: sqlite3.Connection | None = None

    def weight(self, stems: Iterable[str]) -> float:
        """Return the inverse frequency of a word that any of *stems* stands for; highest where none occurs."""
        return math.log(1 + (len(self.body) + 1) / (len(self._where(stems)) + 0.5))

    def expand(self, stem: str, *, compounds: bool) -> frozenset[str]:
        """Return *stem* with the stems of this index that are one letter longer or, if wanted, compounds of it."""
        if len(stem) < _COMPOUND_CHARS_MIN:
            return frozenset((stem,))
        found = {stem}
        for other in self._places:
            near = (
                len(stem) >= 5
                and abs(len(other) - len(stem)) <= 1
                and (other.startswith(stem) or stem.startswith(other))
            )
            longer = (
                compounds and len(other) > len(stem) + 2 and (other.startswith(stem) or other.endswith(stem))
            )
            if (near and not other.isdigit()) or longer:
                found.add(other)
        return frozenset(found)

    def coverage(self, terms: Sequence[Term], *, named: Sequence[Iterable[int]] = ()) -> dict[int, float]:
        """
        Return how much of a query each unit covers.

        Args:
            terms: The words of the query.
            named: For each word the units whose document has it in its name: they need not repeat it.

        Returns:
            Unit number to a share of 1; a word that only the heading has, or a near synonym, counts for less. Units without
            a hit are missing.
        """
        weights = [self.weight(term.stems) for term in terms]
        total = sum(weights) or 1.0
        shares: dict[int, float] = {}
        for number, (term, weight) in enumerate(zip(terms, weights, strict=True)):
            for place in sorted(self._where(term.stems).union(named[number] if named else ())):
                shares[place] = shares.get(place, 0.0) + weight * self._part(place, term) / total
        return shares

    def bm25(self, terms: Sequence[Term]) -> dict[int, float]:
        """Return the BM25 score of each unit that has a word of *terms*, higher is better, between 0 and 1."""
        wanted = {stem for term in terms for stem in (term.own if self._where(term.own) else term.near)}
        names = sorted(self._names[stem] for stem in wanted if stem in self._names)
        if not names:
            return {}
        try:
            found = self._search(names)
        except sqlite3.OperationalError:
            found = self._count(terms)
        best = max(found.values(), default=0.0) or 1.0
        return {place: score / best for place, score in found.items()}

    def _where(self, stems: Iterable[str]) -> set[int]:
        """Return the units that have any of *stems*, in themselves or over them."""
        return {place for stem in stems for place in self._places.get(stem, ())}

    def _part(self, place: int, term: Term) -> float:
        """Return how well the unit at *place* has *term*."""
        if self.body[place] & term.own:
            return 1.0
        if self.body[place] & term.near:
            return _NEAR_WEIGHT
        return _HEADING_WEIGHT

    def close(self) -> None:
        """Close the database, if one was made."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _search(self, names: Sequence[str]) -> dict[int, float]:
        """Ask FTS5; raises sqlite3.OperationalError where it is not built in."""
        if self._database is None:
            self._database = self._build()
        query = " OR ".join(f'"{name}"' for name in names[:500])
        with closing(self._database.cursor()) as cursor:
            rows = cursor.execute(
                "SELECT rowid, bm25(units, 1.0, 0.5) FROM units WHERE units MATCH ?", (query,)
            )
            return {place: -score for place, score in rows}

    def _build(self) -> sqlite3.Connection:
        """Make the full-text table in memory."""
        database = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            database.execute("CREATE VIRTUAL TABLE units USING fts5(body, head, tokenize='ascii')")
        except sqlite3.OperationalError:
            database.close()
            raise
        body, head = self._rows
        named = (
            (
                place,
                " ".join(map(self._names.__getitem__, words)),
                " ".join(map(self._names.__getitem__, over)),
            )
            for place, (words, over) in enumerate(zip(body, head, strict=True))
        )
        database.executemany("INSERT INTO units(rowid, body, head) VALUES (?, ?, ?)", named)
        return database

    def _count(self, terms: Sequence[Term]) -> dict[int, float]:
        """Add up the weights of the words that each unit has."""
        scores: dict[int, float] = {}
        for term in terms:
            weight = self.weight(term.stems)
            for place in sorted(self._where(term.stems)):
                scores[place] = scores.get(place, 0.0) + weight
        return scores


def query_terms(
    words: Sequence[str], index: Index, stemmer: Stemmer, *, spoken: str, languages: Sequence[str]
) -> list[Term]:
    """
    Return what each of *words* stands for in *index*.

    Args:
        words: The words of a query in lower case.
        index: What will be searched.
        stemmer: Stems the words.
        spoken: The language of the query.
        languages: The languages of the documents, in whose way the words are stemmed too.

    Returns:
        One term a word, in order; a number stands for itself.
    """
    codes = tuple(dict.fromkeys((spoken, *languages)))
    compounds = bool({"de", "nl"} & set(codes))
    terms = []
    for word in words:
        own: set[str] = set()
        near: set[str] = set()
        for code in codes:
            stem = stemmer.stem(word, code)
            own |= index.expand(stem, compounds=compounds and not word.isdigit())
            near |= _synonyms(code).get(stem, frozenset())
        terms.append(Term(frozenset(own), frozenset(near - own)))
    return terms


@cache
def _synonyms(language: str) -> Mapping[str, frozenset[str]]:
    """Return the concept table by stem, as *language* stems words; those of other languages are left as they are."""
    stemmer = Stemmer()
    table: dict[str, frozenset[str]] = {}
    for concept in CONCEPTS:
        stems = frozenset(stemmer.stem(word, language) for word in concept.split())
        for stem in stems:
            table[stem] = table.get(stem, frozenset()) | stems
    return table
