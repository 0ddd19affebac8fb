"""
Answer a request from documents without a language model: quote what they say, name where, and admit what they do not say.

``write`` reads the request into parts (`request`), the sources into units (`corpus`), chooses for each part the units that
answer it (`selection`), puts together what says the same (`comparison`) and fits it into Markdown of a given size. Nothing is
paraphrased, so nothing can be invented; the price is that nothing is concluded either. Everything here is a pure function of
its arguments: no clock, no chance, no file, no network.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .comparison import PassageEntry, merge, related, says_same
from .corpus import Corpus, Source
from .evidence import criterion_parts, find_evidence
from .markdown import bare, escape
from .request import Part, denies, limit_of, parse
from .selection import central, choose, pool_of, spread
from .units import split

ALONE_MAX: Final = 8
_MORE: Final = "Not shown: {} more."
_NOTES: Final = {
    "none": "No passage of {names} answers this.",
    "close": "No passage of {names} answers this directly; the closest:",
    "unmentioned": "No passage of this kind mentions {terms}; all of this kind:",
    "foreign": "Kinds of passages are known in English only; the main passages of {names}:",
    "alone": "There is only one document, so there is nothing to compare it with; its main points:",
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


@dataclass(frozen=True, slots=True)
class _Section:
    """One section before it is fitted into its room; *hidden* is how many findings were left out already."""

    heading: str
    note: str = ""
    entries: Sequence[PassageEntry] = ()
    hidden: int = 0

    @property
    def fixed(self) -> int:
        """The room that all but the findings needs, with a count of what is left out."""
        return len(self.heading) + len(self.note) + 10 + (len(_MORE) + 6 if self.entries else 0)


def write(
    request: str,
    sources: Sequence[Source],
    *,
    criteria: Sequence[str] = (),
    instructions: str = "",
    chars_max: int = 12_000,
) -> Written:
    """
    Answer *request* from *sources*.

    Args:
        request: What is asked, in words: "Summarise the obligations and list every deadline".
        sources: The documents, as Markdown or plain text.
        criteria: What the answer should hold; what the request's parts do not bring is looked for as a further part.
        instructions: Further wishes: a length ("at most 5 points", "brief") and kinds of finding to add ("also list risks").
        chars_max: The greatest length of the text, in characters.

    Returns:
        The answer. Each part of the request is a section; one that nothing answers says so.
    """
    corpus = Corpus(sources)
    if not corpus.units:
        text = (
            f"{_names(corpus)} has no readable text to answer from."
            if sources
            else "There is no document to answer from."
        )
        return Written(text[: max(0, chars_max)], (), (False,) * len(criteria))
    sections = [section for part in _parts(request, instructions) for section in _sections(part, corpus)]
    for name, count in corpus.unread[:5]:
        sections.append(_Section("", f"Only the beginning of {escape(name)} was read: {count} passages."))
    text, entries = _render(sections, corpus, chars_max)
    for part in (
        part for each in criteria if find_evidence(each, text) is None for part in criterion_parts(each)
    ):
        section = _section(part, corpus)
        if (
            section.entries
            and not section.note
            and section.heading not in {other.heading for other in sections}
        ):
            sections.append(section)
    text, entries = _render(sections, corpus, chars_max)
    findings = tuple(
        Quotation(corpus.passage(place), corpus.names[corpus.origin[place]], corpus.units[place].heading)
        for entry in entries
        for place in (entry.place, *entry.same, *entry.differing)
    )
    return Written(text, findings, tuple(find_evidence(each, text) is not None for each in criteria))


def _parts(request: str, instructions: str) -> list[Part]:
    """Return the parts of *request*, with the length and the further kinds that *instructions* ask for."""
    parts, limit = parse(request), limit_of(instructions)
    known = frozenset[str]().union(*(part.kinds for part in parts))
    wishes = " ".join(wish for wish in split(instructions[:4_000]) if not denies(wish))
    more = [part for part in parse(wishes) if part.shape == "list" and not part.kinds <= known]
    return [part if part.every else replace(part, limit=part.limit or limit) for part in parts] + more


def _sections(part: Part, corpus: Corpus) -> list[_Section]:
    """Return the section that answers *part*; for a comparison what differs, what only one source says, and what all say."""
    if part.shape not in ("compare", "conflicts"):
        return [_section(part, corpus)]
    if len(set(corpus.origin)) < 2:
        note = "" if part.terms else _NOTES["alone"]
        shape = "question" if part.terms else "summary"
        return [replace(_section(replace(part, shape=shape), corpus), note=note)]
    shares, pool = corpus.search(part.terms)[0] if part.terms else {}, pool_of(part, corpus)
    pool = [place for place in pool if shares.get(place, 0.0) >= 0.3] or pool
    pairs = related([place for place in pool if corpus.kinds(place) & part.bonus] or pool, corpus)
    different = [
        PassageEntry(one, 2.0, differing=[other]) for one, other in pairs if not says_same(one, other, corpus)
    ]
    note = "" if different else f"No passages of {_names(corpus)} on the same thing differ."
    sections = [_Section(part.heading, note, different)]
    paired = {place for pair in pairs for place in pair}
    for number, name in enumerate(corpus.names if part.shape == "compare" else ()):
        lone = [place for place in pool if corpus.origin[place] == number and place not in paired]
        weights = central(lone, corpus)
        kept = [PassageEntry(place, weights[place]) for place in spread(lone, weights, corpus, ALONE_MAX)]
        sections.append(_Section(f"Only in {escape(name)}", "", kept, len(lone) - len(kept)))
    same = [PassageEntry(one, 0.5, same=[other]) for one, other in pairs if says_same(one, other, corpus)]
    sections.append(_Section("The same in several", "", same if part.shape == "compare" else ()))
    return [section for section in sections if section.entries or section.note]


def _section(part: Part, corpus: Corpus) -> _Section:
    """Return the section with the units chosen for *part*, or with the honest sentence that there are none."""
    choice = choose(part, corpus)
    note = choice.note if choice.places else "none"
    terms = ", ".join(f"“{escape(term)}”" for term in part.terms)
    said = _NOTES[note].format(names=_names(corpus), terms=terms) if note else ""
    return _Section(escape(part.heading), said, merge(choice.places, choice.scores, corpus), choice.hidden)


def _names(corpus: Corpus) -> str:
    """Return the names of the sources in words, the first three by name and the others by number."""
    shown = [escape(name) for name in corpus.names[:3]]
    if len(corpus.names) > 3:
        shown[-1] += f" and {len(corpus.names) - 3} more"
    elif len(shown) > 1:
        shown[-2:] = [f"{shown[-2]} and {shown[-1]}"]
    return ", ".join(shown)


def _render(sections: Sequence[_Section], corpus: Corpus, chars_max: int) -> tuple[str, list[PassageEntry]]:
    """
    Write *sections* in at most *chars_max* characters; return the Markdown and the entries that are in it.

    The sections share the room: one that needs less than its share leaves the rest to the others.
    """
    kept = list(sections)
    while len(kept) > 1 and sum(section.fixed for section in kept) > chars_max:
        kept.pop()
    lines = [[_line(entry, corpus) for entry in section.entries] for section in kept]
    left = max(0, chars_max - sum(section.fixed for section in kept))
    fitting: dict[int, list[int]] = {}
    order = sorted(range(len(kept)), key=lambda number: (sum(map(len, lines[number])), number))
    for done, number in enumerate(order):
        fitting[number] = _fitting(kept[number].entries, lines[number], left // (len(kept) - done))
        left -= sum(len(lines[number][place]) + 1 for place in fitting[number])
    blocks = []
    for number, section in enumerate(kept):
        hidden = section.hidden + len(lines[number]) - len(fitting[number])
        quoted = "\n".join(lines[number][place] for place in fitting[number])
        parts = (
            section.heading and f"## {section.heading}",
            section.note,
            quoted,
            _MORE.format(hidden) if hidden else "",
        )
        blocks.append("\n\n".join(filter(None, parts)))
    text = "\n\n".join(blocks)
    shown = [section.entries[place] for number, section in enumerate(kept) for place in fitting[number]]
    return (text, shown) if len(text) <= chars_max else (text[: max(0, chars_max)].rstrip(), [])


def _fitting(entries: Sequence[PassageEntry], lines: Sequence[str], room: int) -> list[int]:
    """Return which entries go into *room*: the best first, in the order in which they are shown."""
    kept: list[int] = []
    for number in sorted(range(len(entries)), key=lambda number: (-entries[number].score, number)):
        if len(lines[number]) < room:
            kept.append(number)
            room -= len(lines[number]) + 1
    return sorted(kept)


def _line(entry: PassageEntry, corpus: Corpus) -> str:
    """Return *entry* as a list item with its sources, and below it what other sources say differently."""
    first = f"- {_words(entry.place, corpus)} *({_cited([entry.place, *entry.same], corpus)})*"
    others = (
        f"  - {_words(place, corpus)} *({_cited([place], corpus)}; differs)*" for place in entry.differing
    )
    return "\n".join([first, *others])


def _words(place: int, corpus: Corpus) -> str:
    """Return what a unit says, with what introduces its list, ready to be a list item."""
    unit, text = corpus.units[place], corpus.passage(place)
    if unit.form == "code" and "`" not in text:
        return f"`{bare(text)}`"
    if unit.form in ("item", "task"):
        text = re.sub(r"[;,](?: (?:and|or))?$", "", text)
    return escape(f"{unit.intro} {text}" if unit.intro and not unit.cells else text)


def _cited(places: Iterable[int], corpus: Corpus) -> str:
    """Return the names of the sources of *places* with the headings above them."""
    cited: dict[str, None] = {}
    for place in places:
        name, heading = corpus.names[corpus.origin[place]], corpus.units[place].heading
        heading = heading if len(heading) <= 70 else heading[:70].rsplit(" ", 1)[0] + " …"
        cited[", ".join(escape(part, start=False) for part in (name, heading) if part)] = None
    return "; ".join(cited)
