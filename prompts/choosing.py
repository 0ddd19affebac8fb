"""
Choose the units that answer one part of an objective.

A **list** takes every unit of the wanted kinds, narrowed to the topic if the part names one. A **question** takes the units
that cover most of its words and rank best by BM25. A **summary** takes units that hold many of the words that their document
repeats, as SumBasic does: each chosen unit makes its own words count less, so that the next one says something else; first
sentences of sections and sentences with obligations, dates and amounts come earlier.

Source: Nenkova and Vanderwende, "The impact of frequency on summarization" (SumBasic), 2005.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from .corpus import Corpus
from .kinds import obligation_at
from .objectives import Part
from .ranking import Term

QUESTION_MAX: Final = 12
SECTION_MAX: Final = 12
"""A section up to this size is quoted whole when its heading is what a question asks about."""
SELECTION_MAX: Final = 10
CLOSE_MAX: Final = 2
_ANSWERS: Final = 0.5
"""A unit answers a question if it covers half of it by weight; with less it is only close."""
_CLOSE: Final = 0.3
_FULL: Final = 0.85
_GOOD: Final = 0.6
"""Units with less than this share of the best one's score are left out."""
_TELLING: Final = frozenset({"obligation", "deadline", "amount", "decision", "action", "risk", "date"})
_WORD = re.compile(r"[^\W_]+")
_BACKWARD = re.compile(
    r"(?:it|this|these|those|they|he|she|such|however|therefore|thus|also|furthermore|moreover|but|and|or|otherwise|in addition|er"
    r"|sie|es|dies\w*|jedoch|daher|deshalb|außerdem|zudem|hierzu|dabei|il|elle|ils|ce|cela|cette|ces|toutefois|en outre|este|esto"
    r"|ello|además|sin embargo|questo|questa|esso|inoltre|tuttavia|isto|isso|além|dit|deze|zij|bovendien|echter)\b",
    re.IGNORECASE,
)
_KEYED = re.compile(r"[^\W\d_]{2,20}: ")
_DULL = re.compile(
    r"©|\(c\) \d|copyright|all rights reserved|https?://|www\.|\bfax\b|\bpage \d", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Choice:
    """
    What was chosen for one part.

    Attributes:
        places: The units, in the order in which they are shown.
        scores: The score of each.
        every: Whether these are all there are, so that what does not fit must be counted.
        note: The phrase to say first, if any, and what it is filled with.
        terms: What the note speaks of.
    """

    places: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    every: bool = False
    note: str = ""
    terms: tuple[str, ...] = ()


def choose(part: Part, corpus: Corpus, spoken: str) -> Choice:
    """
    Return the units of *corpus* that answer *part*.

    Args:
        part: A list, a question or a summary.
        corpus: Where to look.
        spoken: The language of the objective.

    Returns:
        The choice; without places where nothing answers.
    """
    pool = pool_of(part, corpus, spoken)
    if part.shape == "list":
        return _list(part, corpus, spoken, pool)
    if part.shape == "summary":
        return _summary(part, corpus, spoken, pool)
    return _question(part, corpus, spoken, pool)


def pool_of(part: Part, corpus: Corpus, spoken: str) -> list[int]:
    """Return the units that can be quoted, of the documents that the part names if it names any."""
    quotable = [place for place, unit in enumerate(corpus.units) if unit.form != "intro"]
    named = corpus.named((*part.hints, *part.terms), spoken)
    return [place for place in quotable if corpus.origin[place] in named] if named else quotable


def _list(part: Part, corpus: Corpus, spoken: str, pool: Sequence[int]) -> Choice:
    """Choose units by kind, and by topic if the part has one."""
    hits = [place for place in pool if corpus.is_any(place, part.kinds)]
    note, missing = "", tuple[str, ...]()
    if not hits and part.bonus - part.kinds:
        note, hits = "close", [place for place in pool if corpus.is_any(place, part.bonus)]
    scores = dict.fromkeys(hits, 1.0)
    if part.terms and hits:
        terms = corpus.terms(part.terms, spoken)
        shares = corpus.index.coverage(terms)
        best = max(shares.get(place, 0.0) for place in hits)
        near = [place for place in hits if shares.get(place, 0.0) >= max(0.5 * best, 0.15)]
        if near:
            hits = _by_subject(near, part, corpus, frozenset().union(*(term.stems for term in terms)))
            scores = {place: 1.0 + shares[place] for place in hits}
        else:
            note, missing = "unmentioned", part.terms
    for place in hits:
        scores[place] += 0.25 * len(corpus.kinds(place) & part.bonus)
    if part.every:
        kept = hits if part.limit is None else _best(hits, scores, part.limit)
        return _choice(kept, scores, every=True, note=note, terms=missing)
    weights = central(hits, corpus)
    for place in hits:
        scores[place] += weights[place]
    kept = spread(hits, scores, corpus, part.limit or SELECTION_MAX)
    return _choice(kept, scores, every=True, note=note, terms=missing)


def _by_subject(places: Sequence[int], part: Part, corpus: Corpus, stems: frozenset[str]) -> list[int]:
    """Of obligations keep those whose subject is the topic, if any are: "obligations of the supplier"."""
    if "obligation" not in part.kinds:
        return list(places)
    kept = [place for place in places if _is_subject(place, corpus, stems)]
    return kept or list(places)


def _is_subject(place: int, corpus: Corpus, stems: frozenset[str]) -> bool:
    """Whether a word of *stems* stands before the verb that obliges, or in the heading or introduction."""
    unit, language = corpus.units[place], corpus.language(place)
    text = f"{unit.intro} {unit.text}"
    verb = obligation_at(text, language)
    if verb is None or corpus.index.head[place] & stems:
        return True
    return any(corpus.stemmer.stem(word, language) in stems for word in _WORD.findall(text[:verb].lower()))


def _question(part: Part, corpus: Corpus, spoken: str, pool: Sequence[int]) -> Choice:
    """Choose the units that cover most of a question."""
    terms = corpus.terms(part.terms, spoken)
    shares = corpus.index.coverage(terms)
    ranks = corpus.index.bm25(terms)
    scores: dict[int, float] = {}
    for place in pool:
        if shares.get(place, 0.0) >= _CLOSE:
            extra = 0.15 * min(2, len(corpus.kinds(place) & part.bonus)) if part.bonus else 0.0
            scores[place] = shares[place] + 0.4 * ranks.get(place, 0.0) + extra - _dullness(corpus, place)
    answering = [place for place in scores if shares[place] >= _ANSWERS]
    if not answering:
        return _choice(_best(scores, scores, CLOSE_MAX), scores, note="close") if scores else Choice()
    best = max(scores[place] for place in answering)
    good = [place for place in answering if scores[place] >= _GOOD * best]
    good += _sections(terms, good, pool, corpus, scores, _GOOD * best)
    kept = _best(good, scores, part.limit or (len(good) if part.every else QUESTION_MAX))
    first = [place for place in kept if shares.get(place, 0.0) >= _FULL]
    rest = [place for place in kept if shares.get(place, 0.0) < _FULL]
    if len(part.terms) < 2:
        first, rest = kept, []
    order = [*_grouped(first, scores, corpus), *_grouped(rest, scores, corpus)]
    return _choice(order, scores, every=part.every)


def _sections(
    terms: Sequence[Term], good: Sequence[int], pool: Sequence[int], corpus: Corpus, scores: dict[int, float], least: float
) -> list[int]:
    """Return the other units of short sections whose heading is what the question is about, and give them the score *least*."""
    titled = {
        place
        for place in pool
        if corpus.index.head[place] and all(corpus.index.head[place] & term.own for term in terms)
    }
    sizes = Counter((corpus.origin[place], corpus.units[place].heading) for place in titled)
    others = [
        place
        for place in sorted(titled - set(good))
        if sizes[corpus.origin[place], corpus.units[place].heading] <= SECTION_MAX
    ]
    scores.update(dict.fromkeys(others, least))
    return others


def _grouped(places: Iterable[int], scores: dict[int, float], corpus: Corpus) -> list[int]:
    """Order units by the best of their section, and within a section as they stand."""
    sections: dict[tuple[int, str], list[int]] = {}
    for place in sorted(places):
        sections.setdefault((corpus.origin[place], corpus.units[place].heading or ""), []).append(place)
    ranked = sorted(sections.values(), key=lambda group: (-max(scores[place] for place in group), group[0]))
    return [place for group in ranked for place in group]


def _summary(part: Part, corpus: Corpus, spoken: str, pool: Sequence[int]) -> Choice:
    """Choose the most central units, each source having its share."""
    terms = [
        term for term in part.terms if not corpus.named((term,), spoken) and term not in _name_words(corpus)
    ]
    if terms:
        shares = corpus.index.coverage(corpus.terms(terms, spoken))
        near = [place for place in pool if shares.get(place, 0.0) >= _CLOSE]
        if not near:
            return Choice()
        pool = near
    pool = [place for place in pool if corpus.units[place].form != "code"]
    weights = central(pool, corpus)
    count = part.limit or min(SELECTION_MAX, 4 + len(pool) // 8)
    return _choice(spread(pool, weights, corpus, count), weights)


def _name_words(corpus: Corpus) -> frozenset[str]:
    return frozenset(word.lower() for name in corpus.names for word in _WORD.findall(name))


def central(places: Sequence[int], corpus: Corpus) -> dict[int, float]:
    """Return how central each of *places* is to its document, about 0 to 2."""
    counts: dict[int, Counter[str]] = {}
    for place in places:
        counts.setdefault(corpus.origin[place], Counter()).update(corpus.index.body[place])
    raw: dict[int, float] = {}
    for place in places:
        words = [word for word in corpus.index.body[place] if not word.isdigit()]
        count = counts[corpus.origin[place]]
        raw[place] = sum(count[word] - 1 for word in words) / (len(words) + 4) ** 0.7
    best = max(raw.values(), default=0.0) or 1.0
    return {place: raw[place] / best + _worth(place, corpus) for place in places}


def _worth(place: int, corpus: Corpus) -> float:
    """Return what place, form and kinds add to a unit's centrality."""
    unit = corpus.units[place]
    worth = 0.12 * min(3, len(corpus.kinds(place) & _TELLING)) - _dullness(corpus, place)
    start = place == 0 or corpus.origin[place - 1] != corpus.origin[place]
    opens = unit.form == "sentence" and not _KEYED.match(unit.text)
    return worth + (0.5 if start and opens else 0.2 if unit.first and opens else 0.0)


def _dullness(corpus: Corpus, place: int) -> float:
    """Return how little a unit says when it stands alone: fragments, back references, boilerplate."""
    unit = corpus.units[place]
    length = len(unit.text.split())
    dull = 0.5 if length < 4 else 0.2 if length < 7 else 0.15 if length > 50 else 0.0
    dull += 0.2 if unit.form == "sentence" and _BACKWARD.match(unit.text) else 0.0
    dull += 0.4 if _DULL.search(unit.text) else 0.0
    dull += 0.3 if unit.form == "sentence" and _KEYED.match(unit.text) else 0.0
    dull += 0.3 if unit.text.endswith((":", "?")) else 0.0
    return dull + (0.4 if unit.form == "code" else 0.1 if unit.form == "row" else 0.0)


def spread(places: Sequence[int], scores: dict[int, float], corpus: Corpus, count: int) -> list[int]:
    """Pick *count* units by score so that words, sections and sources already chosen count less; in document order."""
    left = dict.fromkeys(_best(places, scores, 20 * count + 200))
    said: set[str] = set()
    sections: Counter[tuple[int, str]] = Counter()
    origins: Counter[int] = Counter()
    chosen: list[int] = []

    def value(place: int) -> tuple[float, int]:
        words = corpus.index.body[place]
        repeated = len(words & said) / (len(words) or 1)
        crowd = sections[corpus.origin[place], corpus.units[place].heading or ""]
        return scores[place] - 0.9 * repeated - 0.25 * crowd - 0.15 * origins[
            corpus.origin[place]
        ] / count, -place

    while left and len(chosen) < count:
        place = max(left, key=value)
        del left[place]
        chosen.append(place)
        said |= corpus.index.body[place]
        sections[corpus.origin[place], corpus.units[place].heading or ""] += 1
        origins[corpus.origin[place]] += 1
    return sorted(chosen)


def _best(places: Iterable[int], scores: dict[int, float], count: int) -> list[int]:
    """Return the *count* best of *places* in document order."""
    return sorted(sorted(places, key=lambda place: (-scores[place], place))[:count])


def _choice(
    places: Sequence[int],
    scores: dict[int, float],
    *,
    every: bool = False,
    note: str = "",
    terms: Sequence[str] = (),
) -> Choice:
    return Choice(tuple(places), tuple(scores[place] for place in places), every, note, tuple(terms))
