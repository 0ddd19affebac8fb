"""
Answer a request from documents without a language model: quote what they say, name where, and admit what they do not say.

Nothing is paraphrased, so nothing can be invented; the price is that nothing is concluded either. Everything here is a pure
function of its arguments. What comes from a source is data: it is escaped so that it shows as plain words and cannot become a
heading, a link, HTML, a fence or an open emphasis. Every pattern is bounded, so the time is linear in the text.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from .corpus import Choice, Corpus, Source, Wish
from .kinds import pattern
from .request import HEADING_CHARS_MAX, parse, read_wish
from .units import shortened, stem

_DENIES = pattern("does not|do not|doesn't|don't|no|without|avoids?|never|nothing|must not|should not|omits?")
_SOURCES = pattern(r"sources?|cit(?:es?|ed|ations?)|references?")
_FORM = pattern(
    r"(?:the |an? )?(?:final )?(?:answer|summary|report|response|text) (?:should|must|shall|has to|needs to|will|also|clearly)|listed|named|mentioned"
    r"|stated|covered|included|identified|given|provided|explained|described|summari[sz]ed|cited?s?|found|shown|present|clear(?:ly)?|correct(?:ly)?"
    r"|complete(?:ly)?|answered|specified|quoted|accurate|at least one|findings?|explicit(?:ly)?|sources?|references?"
)
"""Words of a criterion about the answer's form, which are no topic to look for."""
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_EMPHASIS = re.compile(r"(?<![\w*_\\])(\*{1,2}|_{1,2})(?=[^\s*_])([^*_]{1,300}?)(?<=[^\s*_])\1(?![\w*_])")
_SPECIAL = re.compile(r"[*\[\]`<]|\\(?=[!-/:-@\[-`{-~]|$)|(?<!\w)_|_(?!\w)|~~")
_START = re.compile(r"(?:#{1,6}(?=\s|$)|>|[-+](?=\s|$)|[-=~]{3,}|\d{1,9}(?=[.)](?:\s|$)))")
_MORE: Final = "Not shown: {} more."
_NOTES: Final = {
    "none": "No passage of {names} answers this.",
    "unknown": "No passage of {names} answers this; what a passage is about is known in English only.",
    "unmentioned": "No passage of this kind mentions {terms}; all of this kind:",
    "": "",
}


class Quotation(NamedTuple):
    """A passage that an answer quotes: its text, the name of its source, the heading above it, and the page, clause or cell."""

    text: str
    source: str
    heading: str
    place: str


class Written(NamedTuple):
    """An answer in Markdown, what it quotes in its order, and for each criterion whether it holds evidence for it."""

    text: str
    findings: tuple[Quotation, ...]
    covered: tuple[bool, ...]


class _Section(NamedTuple):
    """A section: its heading, a note, and its list items, each with its places in the corpus, of which *hidden* are left out."""

    heading: str
    note: str = ""
    items: Sequence[tuple[str, Sequence[int]]] = ()
    hidden: int = 0


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
        text = (
            f"{_names(corpus)} has no readable text to answer from."
            if sources
            else "There is no document to answer from."
        )
        return Written(text[: max(0, chars_max)], (), (False,) * len(criteria))
    sections = [_section(part, corpus) for part in parse(request)]
    for name, count in corpus.unread[:5]:
        sections.append(_Section("", f"Only the beginning of {escape(name)} was read: {count} passages."))
    wishes, (text, shown) = [_criterion(each) for each in criteria], _render(sections, chars_max)
    for wish in wishes:
        section = _section(wish, corpus) if wish and not _supports(wish, corpus, shown) else _Section("")
        if section.items and not section.note and section.heading not in {one.heading for one in sections}:
            sections.append(section)
    text, shown = _render(sections, chars_max)
    findings = tuple(_quotation(place, corpus) for place in shown)
    return Written(text, findings, tuple(_supports(wish, corpus, shown) for wish in wishes))


def _criterion(criterion: str) -> Wish | None:
    """Return what *criterion* asks for; None where quoting cannot judge: the whole text, or the absence of something."""
    wish = None if _DENIES.search(criterion) else read_wish(_FORM.sub(" ", criterion))
    if wish is not None and wish.shape != "summary":
        return wish
    cites = _SOURCES.search(criterion) and not _DENIES.search(criterion)
    return Wish("Sources", "question") if cites else None  # every quotation names its source


def _supports(wish: Wish | None, corpus: Corpus, places: Sequence[int]) -> bool:
    """Return whether the units at *places* support all of *wish*: of each of its kinds one, with its numbers and most of its words."""
    if wish is None:
        return False
    shares, least = corpus.search(wish.terms), 0.5 if wish.kinds else 0.65
    numbers = {stem(word) for word in wish.terms if word.isdigit()}
    fit = [
        place
        for place in places
        if numbers <= corpus.body[place] and (not wish.terms or shares.get(place, 0.0) >= least)
    ]
    return bool(fit) and all(any(kind in corpus.kinds[place] for place in fit) for kind in sorted(wish.kinds))


def escape(text: str, *, start: bool = True) -> str:
    """Return *text*, one line of a source, as Markdown that shows its words and nothing else; with *start* it may begin a line."""
    line = _CONTROL.sub("", " ".join(text.split()))
    line = _SPECIAL.sub(r"\\\g<0>", _EMPHASIS.sub(r"\2", line))
    mark = _START.match(line) if start else None
    if mark is None:
        return line
    return line[: mark.end()] + "\\" + line[mark.end() :] if mark[0].isdigit() else "\\" + line


def _section(part: Wish, corpus: Corpus) -> _Section:
    """Return the section with the units chosen for *part*, or with the honest sentence that there are none."""
    choice: Choice = corpus.choose(part)
    saying: dict[str, dict[int, int]] = {}  # by text the first unit of each source
    for place in choice.places:
        saying.setdefault(_words(place, corpus), {}).setdefault(corpus.origin[place], place)
    items = list[tuple[str, Sequence[int]]]()
    for text, firsts in saying.items():
        cited = "; ".join(_cited(place, corpus) for place in firsts.values())
        items.append((f"- {text} *({cited})*", [*firsts.values()]))
    terms = ", ".join(f"“{escape(term)}”" for term in part.terms)
    note = _NOTES[choice.note].format(names=_names(corpus), terms=terms)
    return _Section(escape(part.heading), note, items, choice.hidden)


def _names(corpus: Corpus) -> str:
    """Return the names of the sources, the first three by name and the others by number."""
    shown = ", ".join(escape(name) for name in corpus.names[:3])
    return f"{shown} and {len(corpus.names) - 3} more" if len(corpus.names) > 3 else shown


def _render(sections: Sequence[_Section], chars_max: int) -> tuple[str, list[int]]:
    """Write *sections* in at most *chars_max* characters, each in an equal share of the room; return the Markdown and its places."""
    blocks, shown, left = list[str](), list[int](), chars_max
    sizes = [sum(len(line) + 1 for line, _ in section.items) for section in sections]
    for number, section in enumerate(sections):
        others = sum(min(size, left // len(sections)) for size in sizes[number + 1 :])
        head = [f"## {section.heading}" if section.heading else "", section.note]
        room = left - others - sum(map(len, head)) - len(_MORE) - 10
        fitting = list[str]()
        for line, places in section.items:
            if len(line) < room:
                room -= len(line) + 1
                fitting.append(line)
                shown += places
        hidden = section.hidden + len(section.items) - len(fitting)
        block = "\n\n".join(filter(None, [*head, "\n".join(fitting), _MORE.format(hidden) if hidden else ""]))
        left -= len(block) + 2
        blocks.append(block)
    text = "\n\n".join(blocks)
    return (text, shown) if len(text) <= chars_max else (text[: max(0, chars_max)].rstrip(), [])


def _quotation(place: int, corpus: Corpus) -> Quotation:
    """Return a quotation of a unit, with its page or cell, the heading above it, and its clause where it does not begin with that."""
    unit, source = corpus.units[place], corpus.names[corpus.origin[place]]
    heading = shortened(unit.heading, HEADING_CHARS_MAX)
    if unit.form == "row" and unit.page[:1].isupper():
        where = f"{heading.removesuffix(' (hidden)')}!{unit.page}".lstrip("!")
    else:
        said = unit.text.startswith(unit.clause.removeprefix("clause "))
        where = ", ".join(filter(None, (unit.page, heading, "" if said else unit.clause)))
    return Quotation(unit.text, source, unit.heading, where)


def _cited(place: int, corpus: Corpus) -> str:
    """Return the name of the source of the unit at *place*, and where in it that is."""
    quoted = _quotation(place, corpus)
    return ", ".join(escape(name, start=False) for name in (quoted.source, quoted.place) if name)


def _words(place: int, corpus: Corpus) -> str:
    """Return what a unit says, with what introduces its list, ready to be a list item."""
    unit = corpus.units[place]
    text = re.sub(r"[;,](?: (?:and|or))?$", "", unit.text) if unit.form == "item" else unit.text
    return escape(f"{unit.intro} {text}" if unit.intro and unit.form != "row" else text)
