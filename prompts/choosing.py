"""
Choose the units that answer one part of an objective.

A **list** takes every unit of the wanted kinds, narrowed to the topic if the part names one. A **question** takes the units
that cover most of its words and rank best by BM25. A **summary** takes the most central units (``summaries``). Where nothing is
found, the choice says so, or offers what comes closest under that name: a reader must be able to tell an answer from a guess.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from .clauses import words_of
from .corpus import Corpus
from .kinds import asked, is_passive, obligation_at
from .objectives import Part
from .ranking import Term
from .summaries import best_of, central, dullness, spread, tabular

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
_CERTAIN: Final = frozenset({"deadline", "date", "owner", "contact", "amount", "definition"})
"""Kinds that an answer to "when", "who" or "how much" cannot lack: if any passage has one, the others are left out."""


@dataclass(frozen=True, slots=True)
class Choice:
    """
    What was chosen for one part.

    Attributes:
        places: The units, in the order in which they are shown.
        scores: The score of each.
        hidden: How many more there are.
        note: The phrase to say first, if any, and what it is filled with.
        terms: What the note speaks of.
    """

    places: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    hidden: int = 0
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
    whole = part.shape in ("summary", "compare")
    named = corpus.named((*part.hints, *(part.terms if whole else ())), spoken)
    return [place for place in quotable if corpus.origin[place] in named] if named else quotable


def _list(part: Part, corpus: Corpus, spoken: str, pool: Sequence[int]) -> Choice:
    """Choose units by kind, and by topic if the part has one."""
    hits = [place for place in pool if corpus.is_any(place, part.kinds)]
    if "owner" in part.kinds:
        hits = [place for place in hits if not _is_nobodys(place, corpus)]
    note, missing = "", tuple[str, ...]()
    if not hits and part.bonus - part.kinds:
        note, hits = "close", [place for place in pool if corpus.is_any(place, part.bonus)]
    scores = dict.fromkeys(hits, 1.0)
    if part.terms and hits:
        terms = corpus.terms(part.terms, spoken)
        shares = corpus.shares(part.terms, spoken)
        best = max(shares.get(place, 0.0) for place in hits)
        near = [place for place in hits if shares.get(place, 0.0) >= max(0.5 * best, 0.15)]
        if near:
            hits = _by_subject(near, part, corpus, frozenset().union(*(term.stems for term in terms)))
            scores = {place: 1.0 + shares[place] for place in hits}
        else:
            note, missing = "unmentioned", part.terms
    for place in hits:
        scores[place] += 0.25 * corpus.is_any(place, part.bonus - part.kinds)
    if part.every:
        kept = hits if part.limit is None else best_of(hits, scores, part.limit)
        return _choice(kept, scores, hidden=len(hits) - len(kept), note=note, terms=missing)
    weights = central(hits, corpus)
    for place in hits:
        scores[place] += weights[place]
    kept = spread(hits, scores, corpus, part.limit or SELECTION_MAX)
    return _choice(kept, scores, hidden=len(hits) - len(kept), note=note, terms=missing)


def _is_nobodys(place: int, corpus: Corpus) -> bool:
    """Whether the unit at *place* obliges, but nobody in particular, and names no owner."""
    if corpus.is_any(place, frozenset({"owner", "action"})):
        return False
    return is_passive(corpus.units[place], corpus.language(place))


def _by_subject(places: Sequence[int], part: Part, corpus: Corpus, stems: frozenset[str]) -> list[int]:
    """Of obligations keep those whose subject is the topic, if any are: "obligations of the supplier"."""
    if "obligation" not in part.kinds:
        return list(places)
    subjects = {place: _subject(place, corpus) for place in places}
    named = [
        place for place in places if any(_same(word, term) for word in subjects[place] for term in part.terms)
    ]
    kept = named or [
        place
        for place in places
        if any(corpus.stemmer.stem(word, corpus.language(place)) in stems for word in subjects[place])
    ]
    return kept or list(places)


def _subject(place: int, corpus: Corpus) -> list[str]:
    """Return the words before the verb that obliges, and those of a heading like "Obligations of the supplier"."""
    unit, language = corpus.units[place], corpus.language(place)
    heading = unit.heading or ""
    text = f"{unit.intro} {unit.text}"
    verb = obligation_at(text, language)
    return words_of(f"{heading if 'obligation' in asked(heading, language) else ''} {text[:verb]}")


def _same(word: str, other: str) -> bool:
    """Whether two words are the same but for an ending: stems also join "arrendador" and "arrendatario"."""
    longest = max(len(word), len(other))
    common = next(
        (number for number in range(longest) if word[number : number + 1] != other[number : number + 1]),
        longest,
    )
    return common >= 3 and common >= longest - 2


def _question(part: Part, corpus: Corpus, spoken: str, pool: Sequence[int]) -> Choice:
    """Choose the units that cover most of a question."""
    terms = corpus.terms(part.terms, spoken)
    shares = corpus.shares(part.terms, spoken)
    ranks = corpus.index.bm25(terms)
    scores: dict[int, float] = {}
    for place in pool:
        if shares.get(place, 0.0) >= _CLOSE:
            extra = 0.15 * min(2, len(corpus.kinds(place) & part.bonus)) if part.bonus else 0.0
            scores[place] = (
                shares[place] + 0.4 * ranks.get(place, 0.0) + extra - 0.5 * dullness(corpus, place)
            )
    answering = [place for place in scores if shares[place] >= _ANSWERS]
    if not answering:
        return _choice(best_of(scores, scores, CLOSE_MAX), scores, note="close") if scores else Choice()
    told = _told(answering, part, corpus, shares)
    best = max(scores[place] for place in told or answering)
    least = best - (1.0 - _GOOD) * abs(best)
    good = [place for place in told or answering if scores[place] >= least]
    if not told:
        good += _sections(terms, good, pool, corpus, scores, least)
    kept = best_of(good, scores, part.limit or (len(good) if part.every else QUESTION_MAX))
    first = [place for place in kept if shares.get(place, 0.0) >= _FULL]
    rest = [place for place in kept if shares.get(place, 0.0) < _FULL]
    if len(part.terms) < 2:
        first, rest = kept, []
    order = [*_grouped(first, scores, corpus), *_grouped(rest, scores, corpus)]
    return _choice(order, scores, hidden=len(good) - len(kept))


def _told(answering: Sequence[int], part: Part, corpus: Corpus, shares: dict[int, float]) -> list[int]:
    """Return the units that hold what the question word asks for: a date after "when", an amount after "how much"."""
    if not part.bonus <= _CERTAIN:
        return []
    least = max(shares[place] for place in answering) - 0.25
    return [place for place in answering if shares[place] >= least and corpus.kinds(place) & part.bonus]


def _sections(
    terms: Sequence[Term],
    good: Sequence[int],
    pool: Sequence[int],
    corpus: Corpus,
    scores: dict[int, float],
    least: float,
) -> list[int]:
    """Return the other units of short sections whose heading is what the question is about, and give them the score *least*."""
    titled = {
        place
        for place in pool
        if corpus.index.head[place] and all(corpus.index.head[place] & term.own for term in terms)
    }
    sizes = Counter((corpus.origin[place], corpus.units[place].heading) for place in sorted(titled))
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
    terms = [term for term in part.terms if not corpus.named((term,), spoken) and not corpus.is_titled(term)]
    if terms:
        shares = corpus.shares(terms, spoken)
        near = [place for place in pool if shares.get(place, 0.0) >= _CLOSE]
        if not near:
            return Choice()
        pool = near
    tables = tabular(corpus)
    pool = [place for place in pool if corpus.units[place].form != "code"]
    told = [place for place in pool if corpus.origin[place] not in tables]
    pool = told or pool
    weights = central(pool, corpus)
    count = part.limit or min(SELECTION_MAX, 4 + len(pool) // 8)
    return _choice(spread(pool, weights, corpus, count), weights)


def _choice(
    places: Sequence[int],
    scores: dict[int, float],
    *,
    hidden: int = 0,
    note: str = "",
    terms: Sequence[str] = (),
) -> Choice:
    return Choice(tuple(places), tuple(scores[place] for place in places), hidden, note, tuple(terms))
