"""
Read a request: which parts it has, and what is asked in each.

"Summarise the obligations and list every deadline" has two parts. A part ends at a connector ("and", a comma) behind which
something new is asked: a verb or question word of its own, or something after a kind of finding ("the obligations, deadlines
and prices"). Otherwise the connector only joins words ("research and development"). Only English is read this way; a
request in another language is one question about its words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .kinds import ASKS, asked, pattern
from .units import content_words, fold, is_english, shortened, split

PARTS_MAX: Final = 8
REQUEST_CHARS_MAX: Final = 4_000
HEADING_CHARS_MAX: Final = 70
_VERBS: Final = (
    r"please|lists?|names?|enumerate|gives?|show|find|extract|identify|tell|collect|get|provide|write|describe|explain|outline|compare|check"
    r"|states?|report|create|make|produce|prepare|draft|review|analy[sz]e|determine|highlight|answer|note|summari[sz]es?|sum up|read|look"
    r"|search|define|quote|says?|contains?|includes?|covers?|mentions?|suggest|(?:can|could) you|(?:i|we) (?:want|need)|specif(?:y|ies)|cites?"
)
_QUESTIONS: Final = "what|which|who|whom|whose|(?:by |until )?when|where|why|how|is|are|does|do|did|can|must|should|will|has|have|was|were"
_SOME: Final = (
    "summar(?:y|ies|i[sz]e[ds]?|i[sz]ing)|overview|gist|points|highlights|takeaways|sum up|outline|about|main|key|most|important|top|major"
    "|central|brief(?:ly)?|short(?:ly)?|quick|concise|few|biggest|best"
)
"""Words that ask for a selection."""
_EMPTY: Final = (
    r"much|many|long|documents?|texts?|files?|contents?|pages?|reports?|sections?|information|info|details?|things?|items?|lists?|tables?|sources?"
    r"|questions?|answers?|terms|conditions|clauses?|provisions?|statements?|passages?|parts?|contracts?|agreements?|minutes|meetings?|notes?"
    r"|letters?|e-?mails?|articles?|papers?|polic(?:y|ies)|offers?|manuals?|guides?|data|facts?|sentences?|words?|bullets?|pdf|docx?|csv|html?"
    r"|user|following|given|attached|two|both|new|old|says?|said|needs?|happens?|apply|applies|relevant|english|least|exists?|costs?|asks?"
    r"|every|all|each|complete(?:ly)?|full|entire|any|whole"
)
"""Words that name documents or parts of an answer: no topic."""
_OPENING = pattern(f"{_VERBS}|{_QUESTIONS}")
_QUESTION = pattern(_QUESTIONS)
_LEAD = pattern(
    rf"(?:what|which) (?:is|are|were)|{_VERBS}|and|also|then|every|all|each|any|the|an?|their|its|me|us|of"
)
_SELECTIVE = pattern(_SOME)
_WHEN = pattern("when|how long|(?:what|which) date")
_NO_TOPIC = pattern(f"{_VERBS}|{_QUESTIONS}|{_SOME}|{_EMPTY}")
_CONNECTOR = re.compile(
    r"(\s?[,;]\s(?:(?:and|as well as|then|also|but)\s)?|\s(?:and|as well as|plus|then|&)\s)", re.IGNORECASE
)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")


@dataclass(frozen=True, slots=True)
class Part:
    """
    One thing that a request asks for.

    Attributes:
        heading: What its section is called, from the request's own words where they give a short name.
        shape: ``summary``, ``list`` or ``question``.
        kinds: A list's findings are of one of these; a question's findings of these come first.
        terms: What it is about, in lower case; none means everything.
        every: Whether all findings are wanted, not a selection.
    """

    heading: str
    shape: str
    kinds: frozenset[str] = frozenset()
    terms: tuple[str, ...] = ()
    every: bool = False


def parse(request: str, *, statements: bool = False) -> list[Part]:
    """Return the parts of *request*, one to eight, a summary if there is none; *statements* counts sentences that ask for nothing."""
    text = request[:REQUEST_CHARS_MAX]
    if not is_english(text):
        return [Part(_short(fold(text)), "question", terms=tuple(dict.fromkeys(content_words(text))))]
    sentences = [piece for line in text.splitlines() for piece in split(_BULLET.sub("", line))]
    asking = [one for one in sentences if statements or _OPENING.match(one) or asked(one) or "?" in one]
    parts = [part for clause in _clauses(asking or sentences) if (part := _read(clause)) is not None]
    unique = {part.heading.casefold(): part for part in reversed(parts)}
    return list(unique.values())[::-1][:PARTS_MAX] or [Part("Summary", "summary")]


def _clauses(sentences: Sequence[str]) -> list[str]:
    """Cut *sentences* into clauses that each ask for one thing."""
    result: list[str] = []
    for sentence in sentences:
        first, *rest = _CONNECTOR.split(sentence)
        result.append(first)
        for glue, piece in zip(rest[::2], rest[1::2], strict=True):
            if _begins(piece, result[-1]):
                result.append(piece)
            else:
                result[-1] += glue + piece
    return result


def _begins(piece: str, before: str) -> bool:
    """Return whether *piece*, behind a connector, makes a request of its own after the clause *before*."""
    start = _OPENING.match(piece)
    if not content_words(piece[start.end() :] if start else piece):
        return False
    return bool(start or (asked(before) and (asked(piece) or asked(before.split()[-1]))))


def _read(clause: str) -> Part | None:
    """Return what *clause*, one request, asks for, or None if no word of it says anything."""
    when = _WHEN.search(clause) is not None
    kinds = frozenset({"deadline", "date"}) if when else asked(clause)
    rest = clause
    for words in ASKS.values():
        rest = words.sub(" ", rest)
    terms = tuple(dict.fromkeys(word for word in content_words(rest) if not _NO_TOPIC.fullmatch(word)))
    selective = _SELECTIVE.search(clause) is not None
    if not kinds and not terms:
        return Part("Summary", "summary") if selective else None
    shape = "list" if kinds and not (when and terms) else "question"
    every = shape == "list" and not selective
    return Part(_heading(clause, kinds, terms), shape, kinds, terms, every)


def _heading(clause: str, kinds: frozenset[str], terms: tuple[str, ...]) -> str:
    """Return a short name: the noun phrase of *clause*, all of it if it is a question, or a label."""
    own = name = fold(clause).strip(" .!:,;-?")
    while lead := _LEAD.match(name):
        name = name[lead.end() :].strip(" ,:")
    if _QUESTION.match(name):
        return _short(own) + "?"
    if kinds and (not content_words(name) or re.search(r"(?i)\b(?:every|each|any)\b", own)):
        label = next(f"{kind.capitalize()}s" for kind in ASKS if kind in kinds)
        return _short(f"{label}: {' '.join(terms)}") if terms else label
    return _short(name)


def _short(name: str) -> str:
    """Return *name* with a capital and at most so many characters as a heading should have."""
    name = shortened(name, HEADING_CHARS_MAX)
    return name[:1].upper() + name[1:]
