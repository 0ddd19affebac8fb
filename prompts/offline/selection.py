"""
Choose the units that answer one part of a request.

A **list** takes every unit of the wanted kinds, narrowed to the topic if the part names one. A **question** takes the units
that cover most of its words. A **summary** takes the most central units: those with many of the words that their document
repeats, each one chosen making its own words count less. Where nothing is found, the choice says so, or offers what comes
closest under that name: a reader must be able to tell an answer from a guess.

Source: Nenkova and Vanderwende, "The impact of frequency on summarization" (SumBasic), 2005; weights set by hand on contracts,
minutes, licences and manuals.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from .corpus import Corpus
from .kinds import asked, obligation_at
from .request import Part
from .words import stem, words_of

SELECTION_MAX: Final = 10
WEIGHED_MAX: Final = 1_500
"""Of more units only the most central ones are looked at closely, to bound the time."""
_ANSWERS: Final = 0.5
"""A unit answers a question if it covers half of it by weight; with less it is only close."""
_CLOSE: Final = 0.3
_TELLING: Final = frozenset({"obligation", "deadline", "amount", "decision", "action", "risk"})
_DULL = re.compile(
    r"^last (?:edited|updated)|^version \d|©|copyright|https?://|www\.|\bfax\b|^[^\W\d_]{2,20}: ",
    re.IGNORECASE,
)
_BACKWARD = re.compile(
    r"(?:it|this|these|they|such|however|therefore|also|but|and|or|otherwise)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Choice:
    """
    What was chosen for one part.

    Attributes:
        places: The units, in the order in which they are shown.
        scores: The score of each unit looked at.
        hidden: How many more there are.
        note: The name of the phrase to say first, if any.
    """

    places: Sequence[int] = ()
    scores: dict[int, float] = field(default_factory=dict)
    hidden: int = 0
    note: str = ""


def choose(part: Part, corpus: Corpus) -> Choice:
    """Return the units of *corpus* that answer *part*, a list, a question or a summary; no places where nothing does."""
    return {"list": _list, "summary": _summary}.get(part.shape, _question)(
        part, corpus, pool_of(part, corpus)
    )


def pool_of(part: Part, corpus: Corpus) -> list[int]:
    """Return the units that can be quoted, of the documents that *part* names if it names any."""
    named = corpus.named((*part.hints, *part.terms)) if part.shape == "summary" else corpus.named(part.hints)
    return [
        n
        for n, unit in enumerate(corpus.units)
        if unit.form != "intro" and (not named or corpus.origin[n] in named)
    ]


def _list(part: Part, corpus: Corpus, pool: Sequence[int]) -> Choice:
    """Choose units by kind, and by topic if the part has one."""
    hits = [place for place in pool if corpus.kinds(place) & part.kinds]
    if not hits and corpus.foreign:
        return _central(pool, corpus, SELECTION_MAX, note="foreign")
    shares, note = corpus.search(part.terms)[0] if part.terms else {}, ""
    if part.terms and hits:
        least = max(0.15, 0.5 * max(shares.get(place, 0.0) for place in hits))
        near = [place for place in hits if shares.get(place, 0.0) >= least]
        hits, note = (_by_subject(near, part, corpus), "") if near else (hits, "unmentioned")
    extra = part.bonus - part.kinds
    scores = {
        place: 1.0 + shares.get(place, 0.0) + 0.25 * bool(corpus.kinds(place) & extra) for place in hits
    }
    if not part.every:
        chosen = _central(hits, corpus, part.limit or SELECTION_MAX, note=note, extra=scores)
        return Choice(chosen.places, chosen.scores, len(hits) - len(chosen.places), note)
    kept = _best_of(hits, scores, part.limit or len(hits))
    return Choice(kept, scores, len(hits) - len(kept), note)


def _by_subject(places: list[int], part: Part, corpus: Corpus) -> list[int]:
    """Of obligations keep those whose subject, or that of their heading, is the topic, if any are: "of the supplier"."""
    wanted = {stem(word) for word in part.terms}
    kept = []
    for place in places if "obligation" in part.kinds else ():
        unit = corpus.units[place]
        text = f"{unit.intro} {unit.text}"
        heading = unit.heading if "obligation" in asked(unit.heading) else ""
        if wanted & set(map(stem, words_of(f"{heading} {text[: obligation_at(text)]}"))):
            kept.append(place)
    return kept or places


def _question(part: Part, corpus: Corpus, pool: Sequence[int]) -> Choice:
    """Choose the units that cover most of a question, the best first; those that hold what its question word asks for, if any do."""
    shares, ranks = corpus.search(part.terms)
    scores = {}
    for place in pool:
        if shares.get(place, 0.0) >= _CLOSE:
            bonus = 0.15 * len(corpus.kinds(place) & part.bonus) if part.bonus else 0.0
            scores[place] = shares[place] + 0.4 * ranks[place] + bonus - 0.5 * _dullness(place, corpus)
    answering = [place for place in scores if shares[place] >= _ANSWERS]
    if not answering:
        return Choice(_best_of(scores, scores, 2), scores, note="close")
    most = max(shares[place] for place in answering)
    held = [place for place in answering if shares[place] >= most - 0.25 and corpus.kinds(place) & part.bonus]
    best = max(scores[place] for place in held or answering)
    good = [place for place in held or answering if scores[place] >= best - 0.4 * abs(best)]
    kept = _best_of(good, scores, part.limit or (len(good) if part.every else SELECTION_MAX))
    return Choice(sorted(kept, key=lambda place: (-scores[place], place)), scores, len(good) - len(kept))


def _summary(part: Part, corpus: Corpus, pool: Sequence[int]) -> Choice:
    """Choose the most central units, of those about the topic if there is one that is not only the name of a document."""
    if terms := [term for term in part.terms if not corpus.named((term,))]:
        shares, _ = corpus.search(terms)
        pool = [place for place in pool if shares.get(place, 0.0) >= _CLOSE]
    pool = [place for place in pool if corpus.units[place].form not in ("code", "row")] or pool
    return _central(pool, corpus, part.limit or min(SELECTION_MAX, 4 + len(pool) // 8))


def _best_of(places: Iterable[int], scores: dict[int, float], count: int) -> list[int]:
    """Return the *count* best of *places* in document order."""
    return sorted(sorted(places, key=lambda place: (-scores[place], place))[:count])


def _central(
    places: Sequence[int],
    corpus: Corpus,
    count: int,
    *,
    note: str = "",
    extra: dict[int, float] | None = None,
) -> Choice:
    """Choose the *count* most central of *places*, with *extra* scores if there are any."""
    weights = {
        place: weight + (extra or {}).get(place, 0.0) for place, weight in central(places, corpus).items()
    }
    return Choice(spread(places, weights, corpus, count), weights, note=note)


def central(places: Sequence[int], corpus: Corpus) -> dict[int, float]:
    """Return how central each of *places* is to its document, about 0 to 2."""
    counts: dict[int, Counter[str]] = {}
    for place in places:
        counts.setdefault(corpus.origin[place], Counter()).update(corpus.body[place])
    scores: dict[int, float] = {}
    best: dict[int, float] = {}
    for place in places:
        count, words = counts[corpus.origin[place]], corpus.body[place]
        mass = math.fsum(math.sqrt(count[word] - 1) * corpus.weight(word) for word in sorted(words))
        scores[place] = mass / (len(words) + 4) ** 0.7
        best[corpus.origin[place]] = max(best.get(corpus.origin[place], 0.1), scores[place])
    scores = {place: score / best[corpus.origin[place]] for place, score in scores.items()}
    opened: set[int] = set()
    for place in _best_of(places, scores, WEIGHED_MAX):
        dull = _dullness(place, corpus)
        scores[place] += 0.12 * min(3, len(corpus.kinds(place) & _TELLING)) - dull
        if not dull and corpus.units[place].form == "sentence" and corpus.origin[place] not in opened:
            opened.add(corpus.origin[place])  # the first whole sentence mostly says what a document is
            scores[place] += 0.5
    return scores


def _dullness(place: int, corpus: Corpus) -> float:
    """Return how little a unit says when it is alone: fragments, back references, boilerplate."""
    unit = corpus.units[place]
    length = len(unit.text.split())
    dull = 0.5 if length < 4 else 0.2 if length < 7 else 0.15 if length > 50 else 0.0
    dull += 0.7 * bool(_DULL.search(unit.text)) + 0.3 * unit.text.endswith((":", "?", ","))
    if unit.form == "sentence":
        dull += 0.2 * bool(_BACKWARD.match(unit.text)) + 0.25 * unit.text[-1:].isalnum()
    return dull + {"code": 0.4, "row": 0.1}.get(unit.form, 0.0)


def spread(places: Sequence[int], scores: dict[int, float], corpus: Corpus, count: int) -> list[int]:
    """Pick *count* units by score so that words, sections and sources already chosen count less; in document order."""
    left = dict.fromkeys(_best_of(places, scores, 20 * count + 200))
    said: set[str] = set()
    crowd: Counter[object] = Counter()
    chosen: list[int] = []

    def value(place: int) -> tuple[float, int]:
        words, origin = corpus.body[place], corpus.origin[place]
        repeated = 0.9 * len(words & said) / (len(words) or 1)
        crowded = 0.25 * crowd[origin, corpus.units[place].heading] + 0.12 * crowd[origin]
        return scores[place] - repeated - crowded, -place

    while left and len(chosen) < count:
        place = max(left, key=value)
        del left[place]
        chosen.append(place)
        said |= corpus.body[place]
        crowd.update([corpus.origin[place], (corpus.origin[place], corpus.units[place].heading)])
    return sorted(chosen)
