"""
Answer a request from documents without a language model: quote what they say, name where, and admit what they do not say.

``write`` reads the request into parts (`request`), the sources into units (`corpus`), chooses for each part the units that
answer it (`selection`) and fits them into Markdown of a given size. Nothing is paraphrased, so nothing can be invented; the
price is that nothing is concluded either. Everything here is a pure function of its arguments: no clock, no chance, no file,
no network.

Judge whether a finished text holds what a criterion asks for: one of its sentences, list items or rows, or nothing.

A criterion that cannot be judged by quoting, because it is about the whole text, or about the absence of something ("no
invented facts"), gets no evidence: better an honest None than a sentence that proves nothing.

Show words of a source as Markdown.

What comes from a source is data: it is put in so that it shows as plain words and cannot become a heading, a link, HTML, a
fence, or an open emphasis that swallows what follows. Every pattern is bounded, so the time is linear in the text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from .corpus import Corpus, Source
from .kinds import pattern
from .request import HEADING_CHARS_MAX, Part, parse
from .selection import choose
from .units import shortened, stem

_DENIES = pattern("does not|do not|doesn't|don't|no|without|avoids?|never|nothing|must not|should not|omits?")
_SOURCES = pattern(r"sources?|cit(?:es?|ed|ations?)|references?")
_CITED = re.compile(r"\([^()]{0,200}\.\w{2,5}\b[^()]{0,200}\)|\[\d{1,3}\]|\bsource:", re.IGNORECASE)
_FORM = pattern(
    r"(?:the |an? )?(?:final )?(?:answer|summary|report|response|text) (?:should|must|shall|has to|needs to|will|also|clearly)|listed|named"
    r"|mentioned|stated|covered|included|identified|given|provided|explained|described|summari[sz]ed|cited?s?|found|shown|present|clear(?:ly)?"
    r"|correct(?:ly)?|complete(?:ly)?|answered|specified|quoted|accurate|at least one|findings?|explicit(?:ly)?|sources?|references?"
)
"""What a criterion says of the answer's form, which is no topic to look for."""
_ABSENT = re.compile(
    r"(?<!\w)(?:(?:documents?|sources?|texts?|passages?|contracts?|reports?|it|they) (?:does|do|did) not (?:mention|contain|state|say|answer"
    r"|give|list|name)|no (?:\w+ ){1,5}(?:found|mentioned|stated|specified|answers this)|(?:is|are|was|were) not (?:found|mentioned|stated"
    r"|specified|answered)|there (?:is|are) no|no passage|not shown: \d)|^(?:only the beginning of|kinds of passages are known)",
    re.IGNORECASE,
)
"""A sentence that says that something was not found, ours or another's."""


def find_evidence(criterion: str, text: str) -> str | None:
    """Return a sentence, item or row of *text* that supports the whole *criterion*; None if none does or it cannot be judged."""
    corpus, parts = Corpus([Source("", text)]), criterion_parts(criterion)
    cited = bool(_SOURCES.search(criterion))
    usable = [
        place
        for place, unit in enumerate(corpus.units)
        if unit.form != "intro" and not _ABSENT.search(f"{unit.intro} {unit.text}".strip())
        if _CITED.search(unit.text) or not cited
    ]
    if cited and not parts:
        parts = [Part("Sources", "question")]
    proofs = [_proof(part, corpus, usable) for part in parts]
    return proofs[0] if proofs and all(proofs) else None


def criterion_parts(criterion: str) -> list[Part]:
    """Return what *criterion* asks for, one part for each thing; none if it denies something or says nothing testable."""
    if _DENIES.search(criterion):
        return []  # no quotation can show that something is not there
    parts = parse(_FORM.sub(" ", criterion), statements=True)
    return [part for part in parts if part.shape != "summary"]


def _proof(part: Part, corpus: Corpus, usable: list[int]) -> str | None:
    """Return the unit of *usable* that best supports *part*: of one of its kinds, with its numbers and most of its words."""
    shares = corpus.search(part.terms) if part.terms else dict.fromkeys(usable, 1.0)
    numbers = {stem(word) for word in part.terms if word.isdigit()}
    found = [
        place
        for place in usable
        if shares.get(place, 0.0) >= (0.5 if part.kinds else 0.65) and numbers <= corpus.body[place]
        if not part.kinds or part.kinds & corpus.kinds[place]
    ]
    return corpus.units[max(found, key=lambda place: (shares[place], -place))].text if found else None


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_STRONG = re.compile(r"(\*\*|__)(?=\S)([^*_]{1,300}?)(?<=\S)\1")
_EMPHASIS = re.compile(r"(?<![\w*\\])([*_])(?=[^\s*_])([^*_]{1,300}?)(?<=[^\s*_])\1(?![\w*])")
_CODE = re.compile(r"((?<!`)`[^`]+`(?!`))")
_LINK = re.compile(r"!?\[([^\[\]]{0,200})\]\(([^()\s]{0,300})(?: \"[^\"]{0,100}\")?\)")
_SPECIAL = re.compile(r"[*\[\]`]|\\(?=[!-/:-@\[-`{-~]|$)|(?<!\w)_|_(?!\w)|~~")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_START = re.compile(r"(?:#{1,6}(?=\s|$)|>|[-+](?=\s|$)|[-=~]{3,}|\d{1,9}(?=[.)](?:\s|$)))")


def escape(text: str, *, start: bool = True) -> str:
    """
    Return *text*, one line of a source, as Markdown that shows its words and nothing else.

    Code spans stay; links show their target as text; bold and italic marks around words go. With *start* it may come to
    be at the start of a line, where more is special.
    """
    line = _SURROGATE.sub("\ufffd", _CONTROL.sub("", " ".join(text.split())))
    pieces = _CODE.split(line)
    pieces[::2] = map(_plain, pieces[::2])
    line = "".join(pieces)
    mark = _START.match(line) if start else None
    if mark is None:
        return line
    return line[: mark.end()] + "\\" + line[mark.end() :] if mark.group()[0].isdigit() else "\\" + line


def _plain(text: str) -> str:
    """Escape *text*, which holds no code span."""
    if "](" in text:
        text = _LINK.sub(
            lambda link: f"{link[1]} ({link[2]})" if link[2] not in ("", link[1]) else link[1], text
        )
    text = _EMPHASIS.sub(r"\2", _STRONG.sub(r"\2", text))
    return _TAG.sub("&lt;", _SPECIAL.sub(r"\\\g<0>", text))


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
        place: How a person finds it there: ``page 2, Payment``, ``clause 4.2``, ``Prices!A7``.
    """

    text: str
    source: str
    heading: str
    place: str


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
        Quotation(
            corpus.passage(place),
            corpus.names[corpus.origin[place]],
            corpus.units[place].heading,
            _place(place, corpus),
        )
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
    """Return the name of the source of the unit at *place*, and where in it that is."""
    names = (corpus.names[corpus.origin[place]], _place(place, corpus))
    return ", ".join(escape(name, start=False) for name in names if name)


def _place(place: int, corpus: Corpus) -> str:
    """Return the page or cell of a unit, the heading above it, and its clause where the unit does not begin with that."""
    unit = corpus.units[place]
    heading = shortened(unit.heading, HEADING_CHARS_MAX)
    if unit.form == "row" and unit.page[:1].isupper():
        return f"{heading.removesuffix(' (hidden)')}!{unit.page}".lstrip("!")
    is_said = corpus.passage(place).startswith(unit.clause.removeprefix("clause "))
    return ", ".join(filter(None, (unit.page, heading, "" if is_said else unit.clause)))


def _words(place: int, corpus: Corpus) -> str:
    """Return what a unit says, with what introduces its list, ready to be a list item."""
    unit, text = corpus.units[place], corpus.passage(place)
    if unit.form == "item":
        text = re.sub(r"[;,](?: (?:and|or))?$", "", text)
    return escape(f"{unit.intro} {text}" if unit.intro and unit.form != "row" else text)
