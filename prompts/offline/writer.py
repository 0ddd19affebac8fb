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

from .comparison import Entry, merge, pairs, says_same, subject_of
from .corpus import Corpus, Source
from .evidence import criterion_parts, find_evidence
from .markdown import bare, escape
from .request import Part, parse, wishes
from .selection import central, choose, pool_of, spread

COMPARED_MAX: Final = 300
"""Units compared of each document; of a longer one the most central."""
ALONE_MAX: Final = 8
_HEADING_CHARS_MAX: Final = 70
_MORE: Final = "Not shown: {} more."
_NOTES: Final = {
    "none": "No passage of {names} answers this.",
    "close": "No passage of {names} answers this directly; the closest:",
    "unmentioned": "No passage of this kind mentions {terms}; all of this kind:",
    "foreign": "Kinds of passages are known in English only; the main passages of {names}:",
    "alone": "There is only one document, so there is nothing to compare it with; its main points:",
    "agree": "No passages of {names} on the same subject differ.",
}
_TAIL = re.compile(r"[;,](?: (?:and|or))?$")


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One passage that an answer quotes.

    Attributes:
        text: A sentence, list item or line of code, as its source has it but for white space; of a table row, its cells.
        source: The name of its source.
        heading: The nearest heading above it; empty if there is none.
        kinds: What it is: "obligation", "deadline" and so on, see ``kinds.KINDS``.
    """

    text: str
    source: str
    heading: str
    kinds: frozenset[str]


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
    findings: tuple[Finding, ...]
    covered: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class _Section:
    """One section of an answer before it is fitted into its room: heading, sentences before the findings, findings, how many were left out."""

    heading: str
    note: str = ""
    entries: Sequence[Entry] = ()
    level: int = 2
    hidden: int = 0


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
    missing = [criterion for criterion in criteria if find_evidence(criterion, text) is None]
    if missing:
        sections += _further(missing, corpus, {section.heading.casefold() for section in sections})
        text, entries = _render(sections, corpus, chars_max)
    covered = tuple(find_evidence(criterion, text) is not None for criterion in criteria)
    return Written(text, tuple(_findings(entries, corpus)), covered)


def _parts(request: str, instructions: str) -> list[Part]:
    """Return the parts of *request*, with the length and the further kinds that *instructions* ask for."""
    parts = parse(request)
    more, limit = wishes(instructions)
    wanted = frozenset[str]().union(*(part.kinds for part in parts))
    limited = [part if part.every else replace(part, limit=part.limit or limit) for part in parts]
    return [*limited, *(part for part in more if not part.kinds <= wanted)]


def _sections(part: Part, corpus: Corpus) -> list[_Section]:
    """Return the section that answers *part*, or for a comparison its sections."""
    if part.shape not in ("compare", "conflicts"):
        return [_section(part, corpus)]
    if len(set(corpus.origin)) > 1:
        return _compared(part, corpus)
    if part.terms:
        return [_section(replace(part, shape="question", every=True), corpus)]
    return [replace(_section(replace(part, shape="summary"), corpus), note=_NOTES["alone"])]


def _section(part: Part, corpus: Corpus) -> _Section:
    """Return the section with the units chosen for *part*, or with the honest sentence that there are none."""
    choice = choose(part, corpus)
    note = choice.note if choice.places else "none"
    terms = ", ".join(f"“{escape(term)}”" for term in part.terms)
    said = _NOTES[note].format(names=_names(corpus), terms=terms) if note else ""
    return _Section(
        escape(part.heading), said, merge(choice.places, choice.scores, corpus), hidden=choice.hidden
    )


def _compared(part: Part, corpus: Corpus) -> list[_Section]:
    """Return what documents say differently, and for a comparison what only one says and what is the same in all."""
    sources: dict[int, list[int]] = {}
    for place in pool_of(part, corpus):
        sources.setdefault(corpus.origin[place], []).append(place)
    shares = corpus.search(part.terms)[0] if part.terms else {}
    for source, places in sources.items():
        near = [place for place in places if shares.get(place, 0.0) >= 0.3] or places
        near = [place for place in near if corpus.kinds(place) & part.bonus] or near
        weights = central(near, corpus) if len(near) > COMPARED_MAX else {}
        sources[source] = spread(near, weights, corpus, COMPARED_MAX) if weights else near
    groups = pairs(list(sources.values()), corpus)
    same = {group[0] for group in groups if all(_equal(group[0], other, corpus) for other in group[1:])}
    different = [Entry(group[0], 2.0, differing=group[1:]) for group in groups if group[0] not in same]
    if part.shape == "conflicts":
        return [
            _Section(
                part.heading, "" if different else _NOTES["agree"].format(names=_names(corpus)), different
            )
        ]
    sections = [_Section(part.heading), _Section("Different", entries=different, level=3)]
    for source in sources:
        lone = [group[0] for group in groups if len(group) == 1 and corpus.origin[group[0]] == source]
        weights = central(lone, corpus)
        entries = [Entry(place, weights[place]) for place in spread(lone, weights, corpus, ALONE_MAX)]
        name = f"Only in {escape(corpus.names[source])}"
        sections.append(_Section(name, entries=entries, level=3, hidden=len(lone) - len(entries)))
    common = [Entry(group[0], 0.5, same=group[1:]) for group in groups if group[0] in same and len(group) > 1]
    sections.append(_Section("The same in all", entries=common, level=3))
    return [section for section in sections if section.entries or section.level == 2]


def _equal(one: int, other: int, corpus: Corpus) -> bool:
    """Return whether two units say the same in almost the same words."""
    first, second = subject_of(one, corpus), subject_of(other, corpus)
    return len(first & second) >= 0.9 * len(first | second) and says_same(one, other, corpus)


def _further(missing: Iterable[str], corpus: Corpus, seen: set[str]) -> Iterable[_Section]:
    """Yield sections for criteria that the answer does not meet yet but the sources can; *seen* are the headings there are."""
    for part in (part for criterion in missing for part in criterion_parts(criterion)):
        choice = choose(part, corpus)
        if choice.places and not choice.note and part.heading.casefold() not in seen:
            seen.add(part.heading.casefold())
            yield _Section(
                escape(part.heading), "", merge(choice.places, choice.scores, corpus), hidden=choice.hidden
            )


def _findings(entries: Iterable[Entry], corpus: Corpus) -> Iterable[Finding]:
    """Yield what *entries* quote."""
    for entry in entries:
        for place in entry.places:
            text = corpus.passage(place, context=entry.context or place != entry.place)
            unit, name = corpus.units[place], corpus.names[corpus.origin[place]]
            yield Finding(text, name, unit.heading, corpus.kinds(place))


def _names(corpus: Corpus) -> str:
    """Return the names of the sources in words, the first three by name and the others by number."""
    shown = [escape(name) for name in corpus.names[:3]]
    if len(corpus.names) > 3:
        return f"{', '.join(shown)} and {len(corpus.names) - 3} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def _render(sections: Sequence[_Section], corpus: Corpus, chars_max: int) -> tuple[str, list[Entry]]:
    """Write *sections* in at most *chars_max* characters; return the Markdown and the entries that are in it."""
    kept = list(sections)
    while len(kept) > 1 and sum(map(_fixed, kept)) > chars_max:
        kept.pop()
    lines = [[_line(entry, corpus) for entry in section.entries] for section in kept]
    rooms = _shared([sum(len(line) + 1 for line in own) for own in lines], chars_max - sum(map(_fixed, kept)))
    blocks: list[str] = []
    shown: list[Entry] = []
    for section, own, room in zip(kept, lines, rooms, strict=True):
        fitting = _fitting(section.entries, own, room)
        shown.extend(section.entries[number] for number in fitting)
        hidden = section.hidden + len(own) - len(fitting)
        heading = f"{'#' * section.level} {section.heading}" if section.heading else ""
        quoted = "\n".join(own[number] for number in fitting)
        blocks.append(
            "\n\n".join(filter(None, (heading, section.note, quoted, _MORE.format(hidden) if hidden else "")))
        )
    text = "\n\n".join(blocks)
    return (text, shown) if len(text) <= chars_max else (text[: max(0, chars_max)].rstrip(), [])


def _fixed(section: _Section) -> int:
    """Return the room that all of *section* but its findings needs, with a count of what is left out."""
    return (
        len(section.heading)
        + len(section.note)
        + section.level
        + 9
        + (len(_MORE) + 6 if section.entries else 0)
    )


def _shared(needs: Sequence[int], room: int) -> list[int]:
    """Share *room* evenly, but give nobody more than it needs."""
    rooms = [0] * len(needs)
    left = max(0, room)
    for done, number in enumerate(sorted(range(len(needs)), key=lambda number: (needs[number], number))):
        rooms[number] = min(needs[number], left // (len(needs) - done))
        left -= rooms[number]
    return rooms


def _fitting(entries: Sequence[Entry], lines: Sequence[str], room: int) -> list[int]:
    """Return which entries go into *room*: the best first, in the order in which they are shown."""
    kept: list[int] = []
    for number in sorted(range(len(entries)), key=lambda number: (-entries[number].score, number)):
        if len(lines[number]) < room:
            kept.append(number)
            room -= len(lines[number]) + 1
    return sorted(kept)


def _line(entry: Entry, corpus: Corpus) -> str:
    """Return *entry* as a list item with its sources, and below it what other sources say differently."""
    first = f"- {_words(entry.place, corpus, entry.context)} *({_cited([entry.place, *entry.same], corpus)})*"
    others = (
        f"  - {_words(place, corpus)} *({_cited([place], corpus)}; differs)*" for place in entry.differing
    )
    return "\n".join([first, *others])


def _words(place: int, corpus: Corpus, context: bool = True) -> str:
    """Return what a unit says, with what introduces its list, ready to be a list item."""
    unit, text = corpus.units[place], corpus.passage(place, context=context)
    if unit.form == "code" and "`" not in text:
        return f"`{bare(text)}`"
    text = _TAIL.sub("", text) if unit.form in ("item", "task") else text
    return escape(f"{unit.intro} {text}" if unit.intro and not unit.cells else text)


def _cited(places: Iterable[int], corpus: Corpus) -> str:
    """Return the names of the sources of *places* with the headings above them."""
    cited: dict[str, None] = {}
    for place in places:
        heading, name = corpus.units[place].heading, corpus.names[corpus.origin[place]]
        if len(heading) > _HEADING_CHARS_MAX:
            heading = heading[:_HEADING_CHARS_MAX].rsplit(" ", 1)[0] + " …"
        cited[", ".join(escape(part, start=False) for part in (name, heading) if part)] = None
    return "; ".join(cited)
