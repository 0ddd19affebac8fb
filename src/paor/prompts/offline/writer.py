"""
Answer a request from documents without a language model: quote what they say, name where, and admit what they do not say.

``write`` reads the request into parts (`request`), the sources into units (`corpus`), chooses for each part the units that
answer it (`selection`) and fits them into Markdown of a given size. Nothing is paraphrased, so nothing can be invented; the
price is that nothing is concluded either. Everything here is a pure function of its arguments: no clock, no chance, no file,
no network.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from .corpus import Corpus, Source
from .evidence import criterion_parts, find_evidence
from .markdown import escape
from .request import HEADING_CHARS_MAX, Part, parse
from .selection import choose
from .units import shortened

_MORE: Final = "Not shown: {} more."
_NOTES: Final = {
    "none": "No passage of {names} answers this.",
    "close": "No passage of {names} answers this directly; the closest:",
    "unmentioned": "No passage of this kind mentions {terms}; all of this kind:",
    "foreign": "Kinds of passages are known in English only; the main passages of {names}:",
}


@dataclass(frozen=True, slots=True)
class Quotation:
    """
    One passage that an answer quotes.

    Attributes:
        text: A sentence, list item or line of code, as its source has it but for white space; of a table row, its cells.
        source: The name of its source.
        heading: The nearest heading above it; empty if there is none.
    """

    text: str
    source: str
    heading: str


@dataclass(frozen=True, slots=True)
class Written:
    """
    An answer.

    Attributes:
        text: The answer in Markdown.
        findings: What it quotes, in its order.
        covered: For each criterion, whether the answer holds evidence for it.
    """

    text: str
    findings: tuple[Quotation, ...]
    covered: tuple[bool, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Finding:
    """One list item: its Markdown and score, and the places of the units that say it, one of each source."""

    line: str
    score: float
    places: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Section:
    """One section before it is fitted into its room; *hidden* is how many findings were left out already."""

    heading: str
    note: str = ""
    findings: Sequence[_Finding] = ()
    hidden: int = 0

    @property
    def fixed(self) -> int:
        """The room that all but the findings needs, with a count of what is left out."""
        return len(self.heading) + len(self.note) + 10 + (len(_MORE) + 6 if self.findings else 0)


def write(
    request: str, sources: Sequence[Source], *, criteria: Sequence[str] = (), chars_max: int = 12_000
) -> Written:
    """
    Answer *request* from *sources*.

    Args:
        request: What is asked, in words: "Summarise the obligations and list every deadline".
        sources: The documents, as Markdown or plain text.
        criteria: What the answer should hold; what the request's parts do not bring is looked for as a further part.
        chars_max: The greatest length of the text, in characters.

    Returns:
        The answer. Each part of the request is a section; one that nothing answers says so.
    """
    corpus = Corpus(sources)
    if not corpus.units:
        text = "There is no document to answer from."
        if sources:
            text = f"{_names(corpus)} has no readable text to answer from."
        return Written(text[: max(0, chars_max)], (), (False,) * len(criteria))
    sections = [_section(part, corpus) for part in parse(request)]
    for name, count in corpus.unread[:5]:
        sections.append(_Section("", f"Only the beginning of {escape(name)} was read: {count} passages."))
    text, _ = _render(sections, chars_max)
    for part in (
        part for each in criteria if find_evidence(each, text) is None for part in criterion_parts(each)
    ):
        section = _section(part, corpus)
        if section.findings and not section.note and section.heading not in {one.heading for one in sections}:
            sections.append(section)
    text, shown = _render(sections, chars_max)
    findings = tuple(
        Quotation(corpus.passage(place), corpus.names[corpus.origin[place]], corpus.units[place].heading)
        for finding in shown
        for place in finding.places
    )
    return Written(text, findings, tuple(find_evidence(each, text) is not None for each in criteria))


def _section(part: Part, corpus: Corpus) -> _Section:
    """Return the section with the units chosen for *part*, or with the honest sentence that there are none."""
    choice = choose(part, corpus)
    carried = {place - 1 for place in choice.places if corpus.passage(place) != corpus.units[place].text}
    saying: dict[str, dict[int, int]] = {}  # by text the first unit of each source
    for place in choice.places:
        if place not in carried:
            saying.setdefault(_words(place, corpus), {}).setdefault(corpus.origin[place], place)
    findings: list[_Finding] = []
    for text, firsts in saying.items():
        places = list(firsts.values())
        cited = "; ".join(_cited(place, corpus) for place in places)
        findings.append(_Finding(f"- {text} *({cited})*", choice.scores.get(places[0], 0.0), places))
    note = choice.note if choice.places else "none"
    terms = ", ".join(f"“{escape(term)}”" for term in part.terms)
    said = _NOTES[note].format(names=_names(corpus), terms=terms) if note else ""
    return _Section(escape(part.heading), said, findings, choice.hidden)


def _names(corpus: Corpus) -> str:
    """Return the names of the sources, the first three by name and the others by number."""
    shown = ", ".join(escape(name) for name in corpus.names[:3])
    return f"{shown} and {len(corpus.names) - 3} more" if len(corpus.names) > 3 else shown


def _render(sections: Sequence[_Section], chars_max: int) -> tuple[str, list[_Finding]]:
    """
    Write *sections* in at most *chars_max* characters; return the Markdown and the findings that are in it.

    The sections take turns, the best finding of each first, until the room is full.
    """
    kept = list(sections)
    while len(kept) > 1 and sum(section.fixed for section in kept) > chars_max:
        kept.pop()
    left = chars_max - sum(section.fixed for section in kept)
    ranked = [sorted(section.findings, key=lambda finding: -finding.score) for section in kept]
    fitting: dict[_Finding, None] = {}
    for finding in (finding for turn in zip_longest(*ranked) for finding in turn if finding):
        if len(finding.line) < left:
            fitting[finding] = None
            left -= len(finding.line) + 1
    blocks: list[str] = []
    shown: list[_Finding] = []
    for section in kept:
        fitted = [finding for finding in section.findings if finding in fitting]
        hidden = section.hidden + len(section.findings) - len(fitted)
        blocks += [f"## {section.heading}" if section.heading else "", section.note]
        blocks += ["\n".join(finding.line for finding in fitted), _MORE.format(hidden) if hidden else ""]
        shown += fitted
    text = "\n\n".join(filter(None, blocks))
    return (text, shown) if len(text) <= chars_max else (text[: max(0, chars_max)].rstrip(), [])


def _cited(place: int, corpus: Corpus) -> str:
    """Return the name of the source of the unit at *place*, with the heading above it."""
    heading = shortened(corpus.units[place].heading, HEADING_CHARS_MAX)
    names = (corpus.names[corpus.origin[place]], heading)
    return ", ".join(escape(name, start=False) for name in names if name)


def _words(place: int, corpus: Corpus) -> str:
    """Return what a unit says, with what introduces its list, ready to be a list item."""
    unit, text = corpus.units[place], corpus.passage(place)
    if unit.form == "item":
        text = re.sub(r"[;,](?: (?:and|or))?$", "", text)
    return escape(f"{unit.intro} {text}" if unit.intro and unit.form != "row" else text)
