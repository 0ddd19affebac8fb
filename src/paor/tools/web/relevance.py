"""
What pages have to do with a question: a score, sentences that answer it, names they mention. Deterministic.

BM25 over the stems of the pages of one call, and the search engine's own scores where it gives them, so a score says which of them is
the best, not how good it is. Off by default.
"""

from __future__ import annotations

import math
import re
import unicodedata
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
    r"(?<![.!?:] )(?<!^)\b[A-Z][\w'’-]+(?: (?:(?:of|de|la|von|van|der|the) )?[A-Z][\w'’-]+)*",
    re.MULTILINE,
)
_ENDINGS = ("ies", "ing", "ed", "es", "er", "en", "s", "e", "n", "y")
_STEM = 3
"""How many letters of a word an ending leaves at least."""

_GERMAN = re.compile(r"\b(?:der|die|das|und|ist|nicht|eine?)\b")
_DATE = re.compile(
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
)


class Enricher(Protocol):
    """A host's own enrichment: returns facts on pages, by their URLs; order does not matter, the score does."""

    def __call__(self, query: str, pages: Sequence[Page]) -> Sequence[WebFact]:
        """Return what is known of *pages* with regard to *query*; pages may be left out."""
        ...


def enrich(query: str, pages: Sequence[Page]) -> list[WebFact]:
    """
    Return a fact for each page: its relevance by the stems that it has of *query*, from 0 to 1.

    Where the search engine scored every page, the relevance is the mean of both; where no page has a word of *query*, it is the engine's
    score, or None, which leaves the order.
    """
    terms = sorted(set(_stems(query)))
    texts = [_MARKUP.sub(" ", f"{page.title}\n{page.text[:_CHARS]}") for page in pages]
    counts = [Counter(_stems(text)) for text in texts]
    weights = _weights(terms, counts)
    mean = sum(map(Counter.total, counts)) / max(1, len(counts)) or 1.0
    scores = _shares([_score(count, weights, mean) for count in counts])
    judged = _shares([page.score for page in pages if page.score is not None and math.isfinite(page.score)])
    if len(judged) < len(pages):
        relevance: Sequence[float | None] = scores if any(scores) else [None] * len(pages)
    elif any(scores):
        relevance = [(score + own) / 2 for score, own in zip(scores, judged, strict=True)]
    else:
        relevance = judged
    return [
        WebFact(
            page.url, found if found is None else round(found, 4), _points(page, weights), _entities(text)
        )
        for page, text, found in zip(pages, texts, relevance, strict=True)
    ]


def _shares(scores: Sequence[float]) -> list[float]:
    """Return *scores* from 0 to 1, the best one 1 if any is above 0."""
    best = max(scores, default=0.0)
    return [max(0.0, score / best) if best > 0 else 0.0 for score in scores]


def _stems(text: str) -> list[str]:
    """Return the words of *text* without accents and endings: another form of a word is the same, seldom another word."""
    return [_stem(word) for word in _WORD.findall(text.casefold()) if len(word) > 2]


def _stem(word: str) -> str:
    plain = "".join(one for one in unicodedata.normalize("NFKD", word) if not unicodedata.combining(one))
    while True:
        shorter = (plain.removesuffix(ending) for ending in _ENDINGS)
        stem = next((one for one in shorter if _STEM <= len(one) < len(plain)), plain)
        if stem == plain:
            return stem
        plain = stem


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
        (sum(weights[word] for word in sorted(set(_stems(sentence)) & weights.keys())), -number, sentence)
        for number, sentence in enumerate(sentences)
        if len(sentence) > 20
    ]
    least = max((entry[0] for entry in rated), default=0.0) / 2
    best = sorted((entry for entry in rated if entry[0] > 0 and entry[0] >= least), reverse=True)[:POINTS]
    ordered = sorted(best, key=lambda entry: -entry[1])
    return tuple(dict.fromkeys(sentence[:POINT_CHARS] for _, _, sentence in ordered))


def _entities(text: str) -> tuple[str, ...]:
    """
    Return names that a text mentions, the most frequent first: capitalised words within a sentence.

    Headings have none, and a single word is none where all nouns are capitalised, where it is also written small, or where it is a date's.
    """
    lines = [line for line in map(" ".join, map(str.split, text.splitlines())) if not _is_heading(line)]
    words = _WORD.findall(" ".join(lines))
    small = {word for word in words if word.islower()}
    german = len(_GERMAN.findall(" ".join(lines))) * 30 > len(words)
    found = Counter(match[:80] for line in lines for match in _ENTITY.findall(line))
    for name in list(found):
        parts = name.split()
        alone = len(parts) == 1 and (german or _DATE.fullmatch(name) or name.casefold() in small)
        part = any(f" {name} " in f" {other} " for other in found if other != name)
        if alone or part or len(set(parts)) < len(parts) or (german and "der" in parts):
            del found[name]
    ranked = sorted(found.items(), key=lambda entry: (-entry[1], text.find(entry[0]), entry[0]))
    return tuple(name for name, _ in ranked[:ENTITIES])


def _is_heading(line: str) -> bool:
    """Return whether *line* is no sentence: it ends in none of their marks, and most of its words are capitalised."""
    words = _WORD.findall(line)
    return not line.rstrip("\"'»”)").endswith((".", "!", "?")) and sum(
        word[0].isupper() for word in words
    ) * 2 > len(words)
