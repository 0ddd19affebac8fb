"""
What pages have to do with a question: a score, sentences that answer it, names they mention. Deterministic.

BM25 over the pages of one call, so a score says which of them is the best, not how good it is. Off by default.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from ...states.records.actions import WebFact
from .extraction import Page

K1, B = 1.2, 0.75
"""Source: the usual values of BM25; Robertson and Zaragoza, 2009."""

POINTS, POINT_CHARS, ENTITIES = 3, 240, 8
_CHARS = 50_000
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_MARKUP = re.compile(r"<[^>]{0,500}>|\]\([^)\s]{0,300}\)|[*_`#|\[\]]+")
_ENTITY = re.compile(
    r"(?<![.!?:]\s)(?<!^)\b[A-Z][\w'’-]+(?:\s+(?:(?:of|de|la|von|van|der|the)\s+)?[A-Z][\w'’-]+)*",
    re.MULTILINE,
)


class Enricher(Protocol):
    """A host's own enrichment: returns facts on pages, by their URLs; order does not matter, the score does."""

    def __call__(self, query: str, pages: Sequence[Page]) -> Sequence[WebFact]:
        """Return what is known of *pages* with regard to *query*; pages may be left out."""
        ...


def enrich(query: str, pages: Sequence[Page]) -> list[WebFact]:
    """Return a fact for each page: `relevance_score` from 0 to 1, the best one 1 when any word of *query* is found."""
    terms = sorted(set(_words(query)))
    texts = [_MARKUP.sub(" ", f"{page.title}. {page.text[:_CHARS]}") for page in pages]
    counts = [Counter(_words(text)) for text in texts]
    weights = _weights(terms, counts)
    mean = sum(map(Counter.total, counts)) / max(1, len(counts)) or 1.0
    scores = [_score(count, weights, mean) for count in counts]
    best = max(scores, default=0.0) or 1.0
    return [
        WebFact(page.url, round(score / best, 4), _points(page, weights), _entities(text))
        for page, text, score in zip(pages, texts, scores, strict=True)
    ]


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text) if len(word) > 2]


def _weights(terms: Sequence[str], counts: Sequence[Counter[str]]) -> dict[str, float]:
    """Return how much each word of the query tells: the fewer pages have it, the more."""
    total = len(counts)
    having = {term: sum(term in count for count in counts) for term in terms}
    return {term: math.log(1 + (total - n + 0.5) / (n + 0.5)) for term, n in having.items()}


def _score(count: Counter[str], weights: dict[str, float], mean: float) -> float:
    length = K1 * (1 - B + B * count.total() / mean)
    return sum(weight * count[term] * (K1 + 1) / (count[term] + length) for term, weight in weights.items())


def _points(page: Page, weights: dict[str, float]) -> tuple[str, ...]:
    """Return the sentences with the most that the query asks for, in the page's order."""
    plain = _MARKUP.sub(" ", page.text[:_CHARS])
    sentences = [" ".join(part.split()) for part in _SENTENCE.split(plain)]
    rated = [
        (sum(weights[word] for word in sorted(set(_words(sentence)) & weights.keys())), -number, sentence)
        for number, sentence in enumerate(sentences)
        if len(sentence) > 20
    ]
    least = max((entry[0] for entry in rated), default=0.0) / 2
    best = sorted((entry for entry in rated if entry[0] > 0 and entry[0] >= least), reverse=True)[:POINTS]
    ordered = sorted(best, key=lambda entry: -entry[1])
    return tuple(dict.fromkeys(sentence[:POINT_CHARS] for _, _, sentence in ordered))


def _entities(text: str) -> tuple[str, ...]:
    """Return names that a text mentions, the most frequent first: capitalised words within a sentence."""
    found = Counter(" ".join(match.split())[:80] for match in _ENTITY.findall(text))
    for name in [
        name for name in found if any(f" {name} " in f" {other} " for other in found if other != name)
    ]:
        del found[name]  # part of a longer one
    ranked = sorted(found.items(), key=lambda entry: (-entry[1], text.find(entry[0]), entry[0]))
    return tuple(name for name, _ in ranked[:ENTITIES])
