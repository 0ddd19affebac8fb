"""
Tell which units say most about their document, and pick a few that together say much.

A unit is central if it holds many of the words that its document repeats; each chosen unit makes its own words count less, so
that the next one says something else, as SumBasic does. The opening sentence, first sentences of sections and sentences with
obligations, dates and amounts come earlier; fragments, boilerplate and what refers back to another sentence come later.

Source: Nenkova and Vanderwende, "The impact of frequency on summarization" (SumBasic), 2005. The weights are set by hand on
contracts, minutes, licences and manuals.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from .corpus import Corpus

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
    r"^last (?:edited|updated|modified)|^version \d|^stand: |©|\(c\) \d|^copyright|copyright (?:\(c\)|\d)|all rights reserved|https?://|www\.|\bfax\b|\bpage \d",
    re.IGNORECASE,
)


WEIGHED_MAX: Final = 1_500
"""Of more units only the most central ones are looked at closely, to bound the time."""


def best_of(places: Iterable[int], scores: dict[int, float], count: int) -> list[int]:
    """Return the *count* best of *places* in document order."""
    return sorted(sorted(places, key=lambda place: (-scores[place], place))[:count])


def central(places: Sequence[int], corpus: Corpus) -> dict[int, float]:
    """Return how central each of *places* is to its document, about 0 to 2."""
    counts: dict[int, Counter[str]] = {}
    for place in places:
        counts.setdefault(corpus.origin[place], Counter()).update(corpus.index.body[place])
    raw: dict[int, float] = {}
    for place in places:
        words = [word for word in sorted(corpus.index.body[place]) if not word.isdigit()]
        count = counts[corpus.origin[place]]
        mass = sum(math.sqrt(count[word] - 1) * corpus.index.weights[word] for word in words)
        raw[place] = mass / (len(words) + 4) ** 0.7
    best: dict[int, float] = {}
    for place in places:
        best[corpus.origin[place]] = max(best.get(corpus.origin[place], 0.1), raw[place])
    scores = {place: raw[place] / best[corpus.origin[place]] for place in places}
    openings = _openings(places, corpus)
    for place in sorted({*best_of(places, scores, WEIGHED_MAX), *openings}):
        scores[place] += _worth(place, corpus, openings)
    return scores


def _openings(places: Sequence[int], corpus: Corpus) -> frozenset[int]:
    """Return the first whole sentence of each source, which mostly says what the document is."""
    found: dict[int, int] = {}
    for place in places:
        unit = corpus.units[place]
        if unit.form == "sentence" and dullness(corpus, place) == 0.0:
            found.setdefault(corpus.origin[place], place)
    return frozenset(found.values())


def _worth(place: int, corpus: Corpus, openings: frozenset[int]) -> float:
    """Return what place, form and kinds add to a unit's centrality."""
    unit = corpus.units[place]
    worth = 0.12 * min(3, len(corpus.kinds(place) & _TELLING)) - dullness(corpus, place)
    if place in openings:
        return worth + 0.5
    return worth + (0.2 if unit.first and unit.form == "sentence" else 0.0)


def dullness(corpus: Corpus, place: int) -> float:
    """Return how little a unit says when it stands alone: fragments, back references, boilerplate."""
    unit = corpus.units[place]
    length = len(unit.text.split())
    dull = 0.5 if length < 4 else 0.2 if length < 7 else 0.15 if length > 50 else 0.0
    dull += 0.2 if unit.form == "sentence" and _BACKWARD.match(unit.text) else 0.0
    dull += 0.7 if _DULL.search(unit.text) else 0.0
    dull += 0.3 if unit.form == "sentence" and _KEYED.match(unit.text) else 0.0
    dull += 0.3 if unit.text.endswith((":", "?")) else 0.0
    dull += 0.25 if (unit.form == "sentence" and unit.text[-1:].isalnum()) or unit.text.endswith(",") else 0.0
    return dull + (0.4 if unit.form == "code" else 0.1 if unit.form == "row" else 0.0)


def spread(places: Sequence[int], scores: dict[int, float], corpus: Corpus, count: int) -> list[int]:
    """Pick *count* units by score so that words, sections and sources already chosen count less; in document order."""
    left = dict.fromkeys(best_of(places, scores, 20 * count + 200))
    said: set[str] = set()
    sections: Counter[tuple[int, str]] = Counter()
    origins: Counter[int] = Counter()
    chosen: list[int] = []

    def value(place: int) -> tuple[float, int]:
        words = corpus.index.body[place]
        repeated = len(words & said) / (len(words) or 1)
        crowd = sections[corpus.origin[place], corpus.units[place].heading or ""]
        return scores[place] - 0.9 * repeated - 0.25 * crowd - 0.12 * origins[corpus.origin[place]], -place

    while left and len(chosen) < count:
        place = max(left, key=value)
        del left[place]
        chosen.append(place)
        said |= corpus.index.body[place]
        sections[corpus.origin[place], corpus.units[place].heading or ""] += 1
        origins[corpus.origin[place]] += 1
    return sorted(chosen)


def tabular(corpus: Corpus) -> dict[int, tuple[int, tuple[str, ...]]]:
    """
    Return the sources that are mostly a table, whose rows alone do not tell what they are.

    Args:
        corpus: All sources.

    Returns:
        Number of the source to its number of rows and its headers.
    """
    rows: dict[int, list[int]] = {}
    for place, unit in enumerate(corpus.units):
        if unit.cells:
            rows.setdefault(corpus.origin[place], []).append(place)
    sizes = Counter(corpus.origin)
    found = {}
    for source, places in rows.items():
        if len(places) > 3 and len(places) > 0.6 * sizes[source]:
            heads = dict.fromkeys(head for place in places for head, _ in corpus.units[place].cells if head)
            found[source] = (len(places), tuple(heads)[:10])
    return found
