"""
Read a request: which parts it has, and what is asked in each.

"Summarise the obligations and list every deadline" has two parts. A part ends at a connector ("and", a comma) behind which
something new is asked: a verb or question word of its own, or a kind of finding after another kind ("the obligations,
deadlines and prices"). Otherwise the connector only joins words ("research and development"). Only English is read this
way; a request in another language is one question about its words.
"""

import re
from dataclasses import dataclass
from typing import Final

from .kinds import ASKS, KINDS, asked, pattern
from .units import fold, split
from .words import content_words, is_english

PARTS_MAX: Final = 8
REQUEST_CHARS_MAX: Final = 4_000
HEADING_CHARS_MAX: Final = 70
_PEOPLE: Final = frozenset({"owner", "action", "obligation"})
_TIMES: Final = frozenset({"deadline", "date"})
_VERBS: Final = (
    r"please|lists?|names?|enumerate|gives?|show|find|extract|identify|tell|collect|get|provide|write|describe|explain|outline|compare|check"
    r"|states?|report|create|make|produce|prepare|draft|review|analy[sz]e|determine|highlight|answer|note|summari[sz]es?|sum up|read|look"
    r"|search|define|quote|says?|contains?|includes?|covers?|mentions?|suggest|(?:can|could) you|(?:i|we) (?:want|need)|specif(?:y|ies)|cites?"
)
_QUESTIONS: Final = "what|which|who|whom|whose|(?:by |until )?when|where|why|how|is|are|does|do|did|can|must|should|will|has|have|was|were"
_OPENING = pattern(f"{_VERBS}|{_QUESTIONS}")
_QUESTION = pattern(_QUESTIONS)
_LEAD = pattern(
    rf"(?:what|which) (?:is|are|were)|{_VERBS}|and|also|then|every|all|each|any|the|an?|their|its|me|us|of"
)
_SUMMARY = pattern(
    r"summar(?:y|ies|i[sz]e[ds]?|i[sz]ing)|overview|gist|(?:key|main) points|highlights|takeaways|sum up|outline|what is .{1,40} about"
)
_CONFLICTS = pattern(r"conflict\w*|contradict\w*|inconsisten\w*|discrepanc\w*|disagree\w*|deviat\w*")
_COMPARE = pattern(
    r"compar(?:e[ds]?|ing|ison)|differences?|differs?|versus|vs|what (?:has )?changed|changes between"
)
_EVERY = pattern("every|all|each|lists?|complete(?:ly)?|full|entire|any|whole")
_SOME = pattern(
    "main|key|most|important|top|major|central|brief(?:ly)?|short(?:ly)?|quick|concise|few|biggest|best"
)
_GENERIC = pattern(
    r"documents?|texts?|files?|contents?|pages?|reports?|sections?|information|info|details?|points?|things?|items?|lists?|tables?|sources?"
    r"|questions?|answers?|terms|conditions|clauses?|provisions?|statements?|passages?|parts?|contracts?|agreements?|minutes|meetings?|notes?"
    r"|letters?|e-?mails?|articles?|papers?|polic(?:y|ies)|offers?|manuals?|guides?|data|facts?|sentences?|words?|bullets?|pdf|docx?|csv|html?"
    r"|user|following|given|attached|two|both|new|old|says?|said|needs?|happens?|apply|applies|relevant|english|least|exists?|costs?|asks?"
)
"""Nouns and verbs that name documents or parts of an answer: no topic, but perhaps the name of a document."""
_ANSWERS: Final = (
    (pattern("(?:by |until )?when|due|(?:what|which) date|deadline|how long"), _TIMES),
    (pattern("who|whom|whose|which person"), frozenset({"owner"})),
    (
        pattern("how (?:much|many|expensive|large|big)|what (?:price|cost)|(?:cost|price) of"),
        frozenset({"amount"}),
    ),
)
"""Question words and the kinds that answer them."""
_CONNECTOR = re.compile(
    r"\s?[,;]\s(?:(?:and|as well as|then|also|but)\s)?|\s(?:and|as well as|plus|then|&|with|including)\s",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_DENIES = pattern("does not|do not|doesn't|don't|no|without|avoids?|never|nothing|must not|should not|omits?")
_COUNTS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS: Final = dict(zip(_COUNTS, range(1, 11), strict=True))
_LIMIT = pattern(
    rf"(?:top )?(\d\d?|{'|'.join(_NUMBERS)}) (?:(?:main|key|most|important|biggest|top|best|bullet) ){{0,3}}(?:points?|bullets?|items?"
    r"|sentences?|lines?|findings|passages?|deadlines?|obligations?|risks?|actions?|facts|dates?)"
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
    """

    heading: str
    shape: str
    kinds: frozenset[str] = frozenset()
    bonus: frozenset[str] = frozenset()
    terms: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    every: bool = False
    limit: int | None = None


def parse(request: str) -> list[Part]:
    """Return the parts of *request* in their order, one to eight; a request that asks for nothing gets a summary."""
    text = request[:REQUEST_CHARS_MAX]
    if not is_english(text):
        return [Part(_short(fold(text)), "question", terms=tuple(dict.fromkeys(content_words(text))))]
    read = [(clause, part) for clause in clauses(text) if (part := read_part(clause)) is not None]
    asking = [
        part for clause, part in read if part.shape != "question" or _OPENING.match(clause) or "?" in clause
    ]
    unique = {part.heading.casefold(): part for part in reversed(asking or [part for _, part in read])}
    return list(unique.values())[::-1][:PARTS_MAX] or [Part("Summary", "summary")]


def denies(text: str) -> bool:
    """Return whether *text* speaks of what is not to be: no quotation can show that."""
    return _DENIES.search(text) is not None


def limit_of(text: str) -> int | None:
    """Return how many findings *text* wants at most: "top 5", "three sentences", five if it only wants it brief."""
    if (match := _LIMIT.search(text)) is None:
        return 5 if _SOME.search(text) else None
    return _NUMBERS.get(match[1].lower()) or int(match[1])


def clauses(text: str) -> list[str]:
    """Cut *text*, perhaps of several lines or sentences, into clauses that each ask for one thing."""
    result: list[str] = []
    for sentence in (piece for line in text.splitlines() for piece in split(_BULLET.sub("", line))):
        found, glue, start = list[str](), "", 0
        for match in [*_CONNECTOR.finditer(sentence), None]:
            piece = sentence[start : match.start()] if match else sentence[start:]
            if found and not _begins(piece, found[-1], glue):
                found[-1] += glue + piece
            else:
                found.append(piece)
            glue, start = (match.group(), match.end()) if match else ("", 0)
        result.extend(found)
    return result


def _begins(piece: str, before: str, glue: str) -> bool:
    """Return whether *piece*, behind the connector *glue*, makes a request of its own after the clause *before*."""
    known, wanted = asked(before), asked(piece)
    if glue.strip() in ("with", "including"):
        return bool(wanted and not known and _SUMMARY.search(before))
    if _COMPARE.search(before) or _CONFLICTS.search(before) or not piece.strip():
        return False
    if start := _OPENING.match(piece):
        return bool(content_words(piece[start.end() :]))
    return bool(known and wanted) and not ("action" in known and wanted <= _TIMES | {"owner"})


def read_part(clause: str) -> Part | None:
    """Return what *clause*, one request, asks for, or None if no word of it says anything."""
    kinds = asked(clause)
    answers = frozenset(kind for words, found in _ANSWERS if words.search(clause) for kind in found)
    if answers and not kinds & (answers | _PEOPLE):
        kinds = frozenset()  # after "when" or "how much" a kind that does not answer that is only a topic
    bonus = answers or kinds
    if "action" in kinds:
        kinds -= _TIMES | {"owner"}  # "action items with owners and due dates" are action items
    elif "owner" in bonus and kinds & _PEOPLE:
        kinds = (kinds | _PEOPLE) - _TIMES
    rest, named = clause, asked(clause) if "action" in kinds else kinds
    for words in (
        *(ASKS[kind] for kind in KINDS if kind in named),
        *(words for words, _ in _ANSWERS),
        _LIMIT,
    ):
        rest = words.sub(" ", rest)
    small = (_EVERY, _SOME, _COMPARE, _CONFLICTS, _SUMMARY, _OPENING)
    left = [
        word for word in content_words(_noun(fold(rest))) if not any(words.fullmatch(word) for words in small)
    ]
    terms = tuple(dict.fromkeys(word for word in left if not _GENERIC.fullmatch(word)))
    shape = _shape(clause, kinds, asks=bool(answers and terms))
    if shape == "question" and not terms:
        if not bonus:
            return None
        shape, kinds = "list", bonus
    selective = bool(_SUMMARY.search(clause) or _SOME.search(clause))
    every = not selective and (shape == "list" or bool(_EVERY.search(clause)))
    heading, hints = _heading(clause, shape, kinds, terms), tuple(word for word in left if word not in terms)
    limit = limit_of(clause) if _LIMIT.search(clause) else None
    return Part(heading, shape, kinds if shape == "list" else frozenset(), bonus, terms, hints, every, limit)


def _shape(clause: str, kinds: frozenset[str], *, asks: bool) -> str:
    """Return the shape of the answer to *clause*; *asks* if it has a question word for a kind, and a topic."""
    shapes = ((_CONFLICTS, "conflicts"), (_COMPARE, "compare"))
    named = next((shape for words, shape in shapes if words.search(clause)), None)
    return named or ("list" if kinds and not asks else "summary" if _SUMMARY.search(clause) else "question")


def _heading(clause: str, shape: str, kinds: frozenset[str], terms: tuple[str, ...]) -> str:
    """Return a short name for a part: its noun phrase, its question, or a label."""
    own = fold(clause).strip(" .!:,;-?")
    name = _noun(own)
    if shape in ("compare", "conflicts", "summary"):
        label = {"compare": "Comparison", "conflicts": "Conflicts", "summary": "Summary"}[shape]
        return _short(f"{label}: {' '.join(terms)}") if terms and shape == "summary" else label
    if _QUESTION.match(name):
        return _short(own) + "?"
    if not content_words(name) or (kinds and re.match(r"(?i).*\b(?:every|each|any)\b", own)):
        label = next((kind.capitalize() + "s" for kind in KINDS if kind in kinds), "Answer")
        return _short(f"{label}: {' '.join(terms)}") if terms else label
    return _short(name)


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
