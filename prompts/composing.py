"""
Compose an answer: the parts of an objective as sections, with what the sources say to each.

The order of work is in ``compose``; every step is a function of its own module. Where nothing answers a part, its section is one
sentence that says so.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

from .choosing import Choice, choose, pool_of
from .clauses import matcher
from .comparing import compare
from .corpus import Corpus
from .criteria import criterion_parts, find_evidence
from .extractive import Finding, Source, Written
from .languages import detect, known
from .merging import Entry, merge
from .objectives import OBJECTIVE_CHARS_MAX, Part, limit_in, parse
from .phrases import phrases
from .rendering import Section, escape, names_in, render
from .request_words import REQUEST_WORDS
from .sentences import split
from .summaries import tabular

BRIEF: Final = 5
"""Findings of a selection when the instructions want it short."""
NOTES_MAX: Final = 5


def compose(
    objective: str,
    sources: Sequence[Source],
    *,
    criteria: Sequence[str],
    language: str,
    instructions: str,
    chars_max: int,
) -> Written:
    """Return the answer to *objective*; the arguments are those of ``extractive.write``."""
    table = phrases(language)
    spoken = known(detect(objective, default=language))
    corpus = Corpus(sources, default=spoken)
    with closing(corpus):
        if not corpus.units:
            text = (
                table["no_sources"]
                if not sources
                else table["no_text"].format(names=names_in(corpus.names, table))
            )
            return Written(text[: max(0, chars_max)], (), (False,) * len(criteria))
        parts = _parts(objective, instructions, spoken, language)
        sections = [section for part in parts for section in _sections(part, corpus, spoken, table, language)]
        sections += _unread(corpus, table)
        text, entries = render(sections, corpus, table, chars_max=chars_max)
        missing = [criterion for criterion in criteria if find_evidence(criterion, text) is None]
        if missing:
            sections += _further(missing, corpus, table, sections)
            text, entries = render(sections, corpus, table, chars_max=chars_max)
        covered = tuple(find_evidence(criterion, text) is not None for criterion in criteria)
        return Written(text, tuple(_findings(entries, corpus)), covered)


def _parts(objective: str, instructions: str, spoken: str, language: str) -> list[Part]:
    """Return the parts of the objective, with the length and the further kinds that the instructions ask for."""
    parts = parse(objective, language=language)
    said = known(detect(instructions, default=spoken))
    words = REQUEST_WORDS[said]
    limit = limit_in(instructions, said)
    wishes = [
        wish for wish in split(instructions[:OBJECTIVE_CHARS_MAX]) if not matcher(words.not_).search(wish)
    ]
    for part in parse(" ".join(wishes), language=language) if wishes else ():
        if part.shape == "list" and not part.kinds <= frozenset[str]().union(
            *(other.kinds for other in parts)
        ):
            parts.append(part)
    if limit is None and matcher(words.some).search(instructions):
        return [part if part.every else replace(part, limit=part.limit or BRIEF) for part in parts]
    return [replace(part, limit=part.limit or limit) for part in parts]


def _sections(
    part: Part, corpus: Corpus, spoken: str, table: Mapping[str, str], language: str
) -> list[Section]:
    """Return the section that answers *part*, or for a comparison its sections."""
    heading = escape(part.heading)
    if part.shape == "compare":
        if len(set(corpus.origin)) > 1:
            return compare(part, corpus, spoken, table, heading)
        if part.terms:
            part = replace(part, shape="question", every=True)
        else:
            part = replace(part, shape="summary")
            return [replace(_section(part, corpus, spoken, table, heading), notes=(table["alone"],))]
    return [_section(part, corpus, spoken, table, heading)]


def _section(part: Part, corpus: Corpus, spoken: str, table: Mapping[str, str], heading: str) -> Section:
    """Return the section with the units chosen for *part*, or with the honest sentence that there are none."""
    choice = choose(part, corpus, spoken)
    if not choice.places:
        return Section(heading, (table["none"].format(names=names_in(corpus.names, table)),))
    notes: list[str] = []
    if choice.note:
        terms = ", ".join(f"“{escape(term)}”" for term in choice.terms)
        notes.append(table[choice.note].format(names=names_in(corpus.names, table), terms=terms))
    if part.shape == "summary":
        notes.extend(_tables(part, corpus, spoken, table))
    return Section(
        heading, tuple(notes), tuple(merge(choice.places, choice.scores, corpus)), hidden=choice.hidden
    )


def _tables(part: Part, corpus: Corpus, spoken: str, table: Mapping[str, str]) -> list[str]:
    """Describe each source that is mostly a table."""
    wanted = {corpus.origin[place] for place in pool_of(part, corpus, spoken)}
    return [
        table["table"].format(
            name=escape(corpus.names[source]), count=count, columns=", ".join(map(escape, heads)) or "–"
        )
        for source, (count, heads) in tabular(corpus).items()
        if source in wanted
    ][:NOTES_MAX]


def _unread(corpus: Corpus, table: Mapping[str, str]) -> list[Section]:
    """Say which sources were too long to be read whole."""
    return [
        Section("", (table["unread"].format(names=escape(name), count=count),))
        for name, count in corpus.unread[:NOTES_MAX]
    ]


def _further(
    missing: Iterable[str], corpus: Corpus, table: Mapping[str, str], seen: Sequence[Section]
) -> list[Section]:
    """Return sections for criteria that the answer does not meet yet but the sources can."""
    sections: list[Section] = []
    headings = {section.heading.casefold() for section in seen}
    for criterion in missing:
        spoken = known(detect(criterion, default=corpus.languages[0]))
        for part in criterion_parts(criterion, spoken):
            choice = choose(part, corpus, spoken) if part.shape in ("list", "question") else Choice()
            heading = escape(part.heading)
            if choice.places and not choice.note and heading.casefold() not in headings:
                headings.add(heading.casefold())
                entries = merge(choice.places, choice.scores, corpus)
                sections.append(Section(heading, (), tuple(entries), hidden=choice.hidden))
    return sections


def _findings(entries: Iterable[Entry], corpus: Corpus) -> Iterable[Finding]:
    """Yield what *entries* quote."""
    for entry in entries:
        for place in entry.places:
            unit = corpus.units[place]
            name = corpus.names[corpus.origin[place]]
            text = corpus.passage(place, context=entry.context or place != entry.place)
            yield Finding(text, name, unit.heading, round(entry.score, 4), corpus.kinds(place))
