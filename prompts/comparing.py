"""
Compare documents: what they say differently, what only one says, what is the same in all.

Units of different documents are paired when they speak of the same thing: by common words, more so under like headings and
with the same kinds. A pair that differs in words or numbers is shown side by side; what has no partner is shown per document,
the most telling first.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from .choosing import pool_of
from .corpus import Corpus
from .merging import Entry, turns_of
from .objectives import Part
from .rendering import Section, escape
from .summaries import central, spread

COMPARED_MAX: Final = 300
"""Units compared of each document; of a longer one the most central."""
ALONE_MAX: Final = 8
_PAIRED: Final = 0.5
_SAME: Final = 0.9
_ALIKE: Final = frozenset({"amount", "deadline", "definition", "right", "obligation"})


def compare(part: Part, corpus: Corpus, spoken: str, table: Mapping[str, str], heading: str) -> list[Section]:
    """
    Return the sections of a comparison.

    Args:
        part: What to compare, with its topic if it has one.
        corpus: At least two documents.
        spoken: The language of the objective.
        table: The phrases of the answer's language.
        heading: What the comparison is called.

    Returns:
        A section with the heading, then one for what differs, what stands in one document only and what is the same.
    """
    by_source = _by_source(part, corpus, spoken)
    groups = _pair(by_source, corpus)
    different = [group for group in groups if len(group) > 1 and not _equal(group, corpus)]
    same = [group for group in groups if len(group) > 1 and _equal(group, corpus)]
    lone = [group[0] for group in groups if len(group) == 1]
    sections = [Section(heading)]
    if different:
        entries = [Entry(group[0], 2.0, differing=group[1:]) for group in different]
        sections.append(Section(table["different"], entries=tuple(entries), level=3))
    for source in by_source:
        mine = [place for place in lone if corpus.origin[place] == source]
        if mine:
            scores = central(mine, corpus)
            kept = spread(mine, scores, corpus, ALONE_MAX)
            entries = [Entry(place, scores[place]) for place in kept]
            name = table["only"].format(name=escape(corpus.names[source]))
            sections.append(Section(name, entries=tuple(entries), level=3, hidden=len(mine) - len(kept)))
    if same:
        entries = [Entry(group[0], 0.5, same=group[1:]) for group in same]
        sections.append(Section(table["same"], entries=tuple(entries), level=3))
    return sections


def _by_source(part: Part, corpus: Corpus, spoken: str) -> dict[int, list[int]]:
    """Return the units to compare of each document."""
    pool = [place for place in pool_of(part, corpus, spoken) if corpus.units[place].form != "code"]
    if part.terms:
        shares = corpus.shares(part.terms, spoken)
        pool = [place for place in pool if shares.get(place, 0.0) >= 0.3] or pool
    if part.bonus:
        pool = [place for place in pool if corpus.is_any(place, part.bonus)] or pool
    result: dict[int, list[int]] = {}
    for place in pool:
        result.setdefault(corpus.origin[place], []).append(place)
    for source, places in result.items():
        if len(places) > COMPARED_MAX:
            result[source] = spread(places, central(places, corpus), corpus, COMPARED_MAX)
    return result


def _pair(by_source: Mapping[int, Sequence[int]], corpus: Corpus) -> list[list[int]]:
    """Return groups of units of different documents that speak of the same thing, lone units as groups of one."""
    groups: list[list[int]] = []
    for places in by_source.values():
        pairs = [
            (likeness, -number, -place)
            for place in places
            for number, group in enumerate(groups)
            if (likeness := _likeness(group[0], place, corpus)) >= _PAIRED
        ]
        taken: set[int] = set()
        placed: set[int] = set()
        for _, number, place in sorted(pairs, reverse=True):
            if number not in taken and place not in placed:
                taken.add(number)
                placed.add(place)
                groups[-number].append(-place)
        groups.extend([place] for place in places if -place not in placed)
    return groups


def _likeness(one: int, other: int, corpus: Corpus) -> float:
    """Return how much two units speak of the same thing: common words by weight, and the same heading or kinds."""
    first, second = corpus.subject(one), corpus.subject(other)
    common = first & second
    if not common:
        return 0.0
    weights = corpus.index.weights
    share = 2 * sum(weights[stem] for stem in common) / sum(weights[stem] for stem in (*first, *second))
    heads = corpus.index.head[one], corpus.index.head[other]
    share += 0.2 if heads[0] and heads[0] == heads[1] else 0.0
    return share + (0.15 if corpus.kinds(one) & corpus.kinds(other) & _ALIKE else 0.0)


def _equal(group: Sequence[int], corpus: Corpus) -> bool:
    """Whether all units of *group* say the same with the same numbers."""
    first = group[0]
    for place in group[1:]:
        one, other = corpus.subject(first), corpus.subject(place)
        if len(one & other) < _SAME * len(one | other) or corpus.facts(first) != corpus.facts(place):
            return False
        if turns_of(first, corpus) != turns_of(place, corpus):
            return False
    return True
