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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .corpus import BACKWARD, Corpus
from .request import Part

FINDINGS_MAX: Final = 10
"""Findings of a part that does not want all that there are."""
_ANSWERS: Final = 0.5
"""A unit answers a question if it covers half of it by weight; with less it is only close."""
_CLOSE: Final = 0.3
_DULL = re.compile(
    r"^last (?:edited|updated)|^version \d|©|copyright|https?://|www\.|\bfax\b|^[^\W\d_]{2,20}: ",
    re.IGNORECASE,
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

    places: Sequence[int]
    scores: Mapping[int, float]
    hidden: int = 0
    note: str = ""


def choose(part: Part, corpus: Corpus) -> Choice:
    """Return the units of *corpus* that answer *part*, a list, a question or a summary; no places where nothing does."""
    pool = [place for place, unit in enumerate(corpus.units) if unit.form != "intro"]
    if part.shape == "list":
        return _list(part, corpus, pool)
    if part.shape == "question":
        return _question(part, corpus, pool)
    pool = [place for place in pool if corpus.units[place].form not in ("code", "row")] or pool
    return _central(pool, corpus, {}, min(FINDINGS_MAX, 4 + len(pool) // 8))


def _list(part: Part, corpus: Corpus, pool: Sequence[int]) -> Choice:
    """Choose units by kind, and by topic if the part has one."""
    hits = [place for place in pool if corpus.kinds[place] & part.kinds]
    if not hits and corpus.foreign:
        return replace(_central(pool, corpus, {}), note="foreign")
    shares, note = corpus.search(part.terms) if part.terms else {}, ""
    if part.terms and hits:
        least = max(0.15, 0.5 * max(shares.get(place, 0.0) for place in hits))
        near = [place for place in hits if shares.get(place, 0.0) >= least]
        hits, note = near or hits, "" if near else "unmentioned"
    if part.every:
        return Choice(hits, shares, note=note)
    chosen = _central(hits, corpus, shares)
    return replace(chosen, hidden=len(hits) - len(chosen.places), note=note)


def _question(part: Part, corpus: Corpus, pool: Sequence[int]) -> Choice:
    """Choose the units that cover most of a question, the best first; those that hold what its question word asks for, if any do."""
    shares = corpus.search(part.terms)
    scores = {
        place: shares[place] * (1 + 4 / (10 + len(corpus.body[place]))) - 0.5 * _dullness(place, corpus)
        for place in pool
        if shares.get(place, 0.0) >= _CLOSE
    }
    answering = [place for place in scores if shares[place] >= _ANSWERS]
    if not answering:
        return Choice(_best_of(scores, scores, 2), scores, note="close")
    held = [place for place in answering if corpus.kinds[place] & part.kinds] if part.kinds else []
    best = max(scores[place] for place in held or answering)
    good = [place for place in held or answering if scores[place] >= best - 0.4 * abs(best)]
    kept = _best_of(good, scores, FINDINGS_MAX)
    return Choice(sorted(kept, key=lambda place: (-scores[place], place)), scores, len(good) - len(kept))


def _best_of(places: Iterable[int], scores: Mapping[int, float], count: int) -> list[int]:
    """Return the *count* best of *places* in document order."""
    return sorted(sorted(places, key=lambda place: (-scores[place], place))[:count])


def _central(
    places: Sequence[int], corpus: Corpus, extra: Mapping[int, float], count: int = FINDINGS_MAX
) -> Choice:
    """Choose the *count* most central of *places*, with *extra* scores: the best of each section before the second of any."""
    counts = Counter(word for place in places for word in sorted(corpus.body[place]))
    masses = {word: math.sqrt(count - 1) * corpus.weight(word) for word, count in counts.items()}
    scores: dict[int, float] = {}
    for place in places:
        words = corpus.body[place]
        scores[place] = math.fsum(map(masses.__getitem__, sorted(words))) / math.sqrt(len(words) + 4)
    best = max(scores.values(), default=0.0) or 1.0
    for place in places:
        telling = 0.12 * len(corpus.kinds[place]) - _dullness(place, corpus)
        scores[place] = scores[place] / best + telling + extra.get(place, 0.0)
    turns: Counter[tuple[int, str, str]] = Counter()
    for place in sorted(places, key=lambda place: (-scores[place], place)):
        section = (corpus.origin[place], corpus.units[place].heading, corpus.units[place].intro)
        scores[place] -= 3 * turns[section]
        turns[section] += 1
    return Choice(_best_of(places, scores, count), scores)


def _dullness(place: int, corpus: Corpus) -> float:
    """Return how little a unit says when it is alone: fragments, back references, boilerplate."""
    unit = corpus.units[place]
    length = len(unit.text.split())
    dull = 0.5 if length < 4 else 0.2 if length < 7 or length > 50 else 0.0
    dull += 0.7 * bool(_DULL.search(unit.text)) + 0.3 * unit.text.endswith((":", "?", ","))
    if unit.form == "sentence":
        dull += 0.2 * bool(BACKWARD.match(unit.text)) + 0.25 * unit.text[-1:].isalnum()
    return dull + 0.4 * (unit.form == "code") + 0.1 * (unit.form == "row")
