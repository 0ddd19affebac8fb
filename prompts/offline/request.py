"""
Read a request: which parts it has, and what is asked in each.

"Summarise the obligations and list every deadline" has two parts. A part ends at a connector ("and", a comma) behind which
something new is asked: a verb or question word of its own, a kind of finding after another kind ("the obligations, deadlines
and prices"), or a noun phrase with an own article. Otherwise the connector only joins words ("research and development").
Only English is read this way; a request in another language is one question about its words.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from .kinds import ASKS, KINDS, asked
from .units import fold, split
from .words import content_words, is_english, is_function_word, words_of

PARTS_MAX: Final = 8
REQUEST_CHARS_MAX: Final = 4_000
HEADING_CHARS_MAX: Final = 70
_TIMES: Final = frozenset({"deadline", "date"})
_PEOPLE: Final = frozenset({"owner", "action", "obligation"})
_LABELS: Final = "Obligations|Deadlines|Dates|Amounts|Responsibilities|Action items|Risks|Decisions".split(
    "|"
)
_VERBS: Final = (
    r"please|lists?|names?|enumerate|gives?|shows?|find|extract|identify|tell|collect|get|provides?|write|describes?|explains?"
    r"|outline|compare|check|states?|report|create|make|produce|prepare|draft|compile|review|analy[sz]e|determine|present"
    r"|highlight|answer|note|summari[sz](?:es?|ing)|sum up|read|look|search|define|quote|says?|contains?|includes?|covers?"
    r"|mentions?|propose|suggest|recommend|(?:can|could) you|i want|i need|we need|point out|return|output|specif(?:y|ies)|cites?"
)
_QUESTIONS: Final = r"what|which|who|whom|whose|(?:by |until )?when|where|why|how|is|are|does|do|did|can|must|should|will|has|have|was|were"


def _words(alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)


_OPENING = _words(f"{_VERBS}|{_QUESTIONS}|until|by")
_LEAD = _words(
    rf"{_VERBS}|and|also|then|every|all|each|any|complete|full|the|an?|their|its|his|her|our|me|us|of"
)
_QUESTION = _words(_QUESTIONS)
_SUMMARY = _words(
    r"summar(?:y|ies|i[sz]e[ds]?|i[sz]ing)|overview|gist|key points|main points|tl;?dr|highlights|in short|key takeaways|sum up"
    r"|outline|synopsis|digest|what is .{1,40} about"
)
_CONFLICTS = _words(r"conflict\w*|contradict\w*|inconsisten\w*|discrepanc\w*|disagree\w*|deviat\w*")
_COMPARE = _words(
    r"compar(?:e[ds]?|ing|ison)|differences?|differs?|versus|vs|what (?:has )?changed|changes between"
)
_EVERY = _words(r"every|all|each|lists?|complete(?:ly)?|full|entire|any|whole")
_SOME = _words(
    r"main|key|most important|important|top|major|central|essential|brief(?:ly)?|short(?:ly)?|quick|concise|few|biggest|best"
)
_GENERIC = _words(
    r"documents?|texts?|files?|attachments?|contents?|pages?|reports?|sections?|information|info|details?|points?|things?|items?"
    r"|lists?|tables?|sources?|questions?|answers?|terms|conditions|clauses?|provisions?|statements?|passages?|parts?|contracts?"
    r"|agreements?|minutes|meetings?|notes?|letters?|e-?mails?|transcripts?|articles?|papers?|polic(?:y|ies)|offers?|quotations?"
    r"|manuals?|guides?|readme|protocols?|data|facts?|sentences?|paragraphs?|words?|bullets?|format|pdf|docx?|csv|html?|md|txt"
    r"|results?|user|reader|following|given|attached|above|two|both|three|new|old|says?|said|needs?|needed|happens?|happened"
    r"|apply|applies|concerning|related|relevant|specific|english|versions?|correct(?:ly)?|clear(?:ly)?|least|exists?|costs?|asks?"
)
"""Nouns and verbs that name documents or parts of an answer: no topic, but perhaps the name of a document."""
_ANSWERS: Final = (
    (_words(r"(?:by |until )?when|due|(?:what|which) date|deadline|how long"), _TIMES),
    (_words(r"who|whom|whose|which person"), frozenset({"owner"})),
    (
        _words(r"how (?:much|many|expensive|large|big)|what (?:price|cost)|(?:cost|price) of"),
        frozenset({"amount"}),
    ),
)
"""Question words and the kinds that answer them."""
_WITH = _words(r"with|including|together with|along with|incl")
_SAYS_ABOUT = _words(
    r"(?:says?|said|states?|tells? (?:us|me)|contains?) (?:\w+ ){0,3}?(?:about|on|regarding)"
)
_CONNECTOR = re.compile(
    r"\s?,\s(?:(?:and|as well as|plus|then|also|but)\s)?|\s(?:and|as well as|plus|then|&)\s|\s?;\s",
    re.IGNORECASE,
)
_NAMING = _words(r"(?:what|which) (?:is|are|was|were)(?! \w+ed\b)")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_REFERS = _words("them|they|it|those|these")
_DENIES = _words("does not|do not|doesn't|don't|no|without|avoids?|never|nothing|must not|should not|omits?")
_NUMBERS: Final = {
    word: n for n, word in enumerate("one two three four five six seven eight nine ten".split(), 1)
}
_COUNT: Final = rf"(\d\d?|{'|'.join(_NUMBERS)})"
_LIMIT = _words(
    rf"top {_COUNT}|{_COUNT} (?:(?:main|key|most|important|biggest|top|best|bullet) ){{0,3}}(?:points?|bullets?|items?|sentences?"
    r"|lines?|findings|passages?|deadlines?|obligations?|risks?|actions?|facts|dates?)"
)


@dataclass(frozen=True, slots=True)
class Part:
    """
    One thing that a request asks for.

    Attributes:
        heading: What its section is called, from the request's own words where they give a short name.
        shape: ``summary``, ``list``, ``question``, ``compare`` or ``conflicts``.
        kinds: A list's findings are of one of these.
        bonus: Findings of these kinds come first.
        terms: What it is about, in lower case; none means everything.
        hints: Words that may name the document to look in.
        every: Whether all findings are wanted, not a selection.
        limit: The greatest number of findings that is wanted, if it says one.
        asks: Whether it opens with a verb or question word.
    """

    heading: str
    shape: str
    kinds: frozenset[str] = frozenset()
    bonus: frozenset[str] = frozenset()
    terms: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    every: bool = False
    limit: int | None = None
    asks: bool = True


def parse(request: str) -> list[Part]:
    """Return the parts of *request* in their order, one to eight; a request that asks for nothing gets a summary."""
    text = request[:REQUEST_CHARS_MAX]
    if not is_english(text):
        return [Part(_short(fold(text)), "question", terms=tuple(dict.fromkeys(content_words(text))))]
    parts = [part for clause in clauses(text) if (part := read_part(clause)) is not None]
    for place in range(len(parts) - 1, 0, -1):
        before, after = parts[place - 1], parts[place]
        if before.shape == after.shape == "list" and after.terms and not (before.terms or after.asks):
            parts[place - 1] = replace(
                before, terms=after.terms
            )  # both of "obligations and deadlines of the supplier"
    parts = [part for part in parts if part.asks or part.shape != "question"] or parts
    unique = {part.heading.casefold(): part for part in reversed(parts)}
    return list(unique.values())[::-1][:PARTS_MAX] or [Part("Summary", "summary")]


def wishes(instructions: str) -> tuple[list[Part], int | None]:
    """Return the lists that *instructions* ask for besides, and how many findings they want of a selection, if they say it."""
    wanted = " ".join(wish for wish in split(instructions[:REQUEST_CHARS_MAX]) if not denies(wish))
    parts = parse(wanted) if wanted else []
    limit = _limit(instructions) or (5 if _SOME.search(instructions) else None)
    return [part for part in parts if part.shape == "list"], limit


def denies(text: str) -> bool:
    """Return whether *text* speaks of what is not to be: no quotation can show that."""
    return _DENIES.search(text) is not None


def clauses(text: str) -> list[str]:
    """Cut *text*, perhaps of several lines or sentences, into clauses that each ask for one thing."""
    result: list[str] = []
    for sentence in (piece for line in text.splitlines() for piece in split(_BULLET.sub("", line))):
        found: list[str] = []
        start, glue = 0, ""
        for end, after, following in _cuts(sentence):
            if found and not _begins(sentence[start:end], found[-1]):
                found[-1] += glue + sentence[start:end]
            else:
                found.append(sentence[start:end])
            start, glue = after, following
        result.extend(found)
    return [part for clause in result for part in _unpacked(clause)]


def _cuts(sentence: str) -> list[tuple[int, int, str]]:
    """Return the connectors of *sentence*, its end as the last one: where each begins and ends, and its words."""
    found = [(match.start(), match.end(), match.group()) for match in _CONNECTOR.finditer(sentence)]
    return [*found, (len(sentence), len(sentence), "")]


def _begins(piece: str, before: str) -> bool:
    """Return whether *piece* makes a request of its own after the clause *before*."""
    head, extras = _with(before)
    known, wanted = asked(head), asked(piece)
    if not fold(_ANSWERS[0][0].sub(" ", piece)).strip("?.! "):
        return not known & (_PEOPLE | {"decision"})  # "who does what, and by when?"
    if _COMPARE.search(before) or _CONFLICTS.search(before):
        return False
    if start := _OPENING.match(piece):
        return bool(words_of(piece[start.end() :])) and not (known and _REFERS.search(piece))
    if extras or ("action" in known and wanted and wanted <= _TIMES | {"owner"}):
        return False
    if wanted or _SUMMARY.search(piece):
        return bool(known or _SUMMARY.search(before))
    topic = [
        word for word in content_words(before) if not (_GENERIC.fullmatch(word) or _OPENING.fullmatch(word))
    ]
    named = re.match(r"(?:the|an?|any|their|its)\s", piece, re.IGNORECASE) and len(piece.split()) <= 8
    return bool(named and topic and not known and _OPENING.match(before))


def _with(text: str) -> tuple[str, str]:
    """Split "action items with owners" before "with", if something is on both sides."""
    match = _WITH.search(text)
    sides = (text[: match.start()], text[match.end() :]) if match else (text, "")
    return sides if all(side.strip() for side in sides) else (text, "")


def _unpacked(clause: str) -> list[str]:
    """Turn "a summary with all risks" into two requests: its extras are of a kind, and nothing before them is."""
    head, extras = _with(clause)
    return [head, extras] if asked(extras) and not asked(head) and _SUMMARY.search(head) else [clause]


def read_part(clause: str) -> Part | None:
    """Return what *clause*, one request, asks for, or None if no word of it says anything."""
    about = _SAYS_ABOUT.search(clause)
    names, core = (clause[: about.start()], clause[about.end() :]) if about else ("", clause)
    head, extras = _with(core)
    kinds = asked(head)
    bonus = frozenset(kind for words, found in _ANSWERS if words.search(clause) for kind in found)
    if bonus and kinds and not kinds & (bonus | _PEOPLE):
        kinds = frozenset()  # after "when" or "how much" a kind that does not answer that is only a topic
    bonus |= kinds | asked(f"{names} {extras}")
    if "owner" in kinds or ("owner" in bonus and kinds & _PEOPLE):
        kinds = (kinds | _PEOPLE) - _TIMES
    rest = f"{head} {'' if asked(extras) else extras}"
    for pattern in (
        *(ASKS[kind] for kind in KINDS if kind in kinds),
        *(words for words, _ in _ANSWERS),
        _LIMIT,
    ):
        rest = pattern.sub(" ", rest)
    small = (_EVERY, _SOME, _COMPARE, _CONFLICTS, _SUMMARY, _WITH)
    words = [
        word
        for word in words_of(_noun(fold(rest)))
        if not (is_function_word(word) or any(p.fullmatch(word) for p in small))
    ]
    terms = tuple(dict.fromkeys(word for word in words if not _GENERIC.fullmatch(word)))
    shape = _shape(clause, kinds)
    if shape == "question" and not terms:
        if not bonus:
            return None
        shape, kinds = "list", kinds or bonus
    selective = bool(_SUMMARY.search(clause) or _SOME.search(clause))
    return Part(
        heading=_heading(clause, core, shape, kinds, terms),
        shape=shape,
        kinds=kinds if shape == "list" else frozenset(),
        bonus=bonus,
        terms=terms,
        hints=(*content_words(names), *(word for word in words if _GENERIC.fullmatch(word))),
        every=not selective and (shape == "list" or bool(_EVERY.search(core))),
        limit=_limit(clause),
        asks=bool(_OPENING.match(clause.strip()) or "?" in clause),
    )


def _limit(text: str) -> int | None:
    """Return the number of findings that *text* asks for at most: "top 5", "three sentences"."""
    match = _LIMIT.search(text)
    number = (match[1] or match[2]).lower() if match else ""
    return _NUMBERS.get(number) or (int(number) if number.isdigit() else None)


def _shape(clause: str, kinds: frozenset[str]) -> str:
    """Return the shape of the answer to *clause*."""
    shapes = ((_CONFLICTS, "conflicts"), (_COMPARE, "compare"))
    named = next((shape for words, shape in shapes if words.search(clause)), None)
    return named or ("list" if kinds else "summary" if _SUMMARY.search(clause) else "question")


def _heading(clause: str, core: str, shape: str, kinds: frozenset[str], terms: tuple[str, ...]) -> str:
    """Return a short name for a part: its noun phrase, its question, or a label."""
    label = next((label for kind, label in zip(KINDS, _LABELS, strict=True) if kind in kinds), "Answer")
    label = {"compare": "Comparison", "conflicts": "Conflicts", "summary": "Summary"}.get(shape, label)
    labelled = _short(f"{label}: {' '.join(terms)}") if terms else label
    own = fold(core).strip(" .!:,;-?")
    naming = _NAMING.match(own)
    name = _noun(own[naming.end() :].strip() if naming else own)
    if shape not in ("list", "question"):
        return labelled if shape == "summary" else label
    if (core != clause or naming) and name and len(name.split()) <= 7:
        return _short(name)
    if "?" in core or _QUESTION.match(own):
        return _short(own) + "?" if terms or kinds & _PEOPLE or not kinds else label
    return labelled if not words_of(name) or re.search(r"(?i)\b(?:every|each|any)\b", own) else _short(name)


def _noun(name: str) -> str:
    """Return *name* without verbs, quantifiers and articles before its noun."""
    for _ in range(8):
        lead = _LEAD.match(name)
        name = name[lead.end() :].strip(" ,:") if lead else name
    return name


def _short(name: str) -> str:
    """Return *name* with a capital and at most so many characters as a heading should have."""
    if len(name) > HEADING_CHARS_MAX:
        name = name[:HEADING_CHARS_MAX].rsplit(" ", 1)[0] + " …"
    return name[:1].upper() + name[1:]
