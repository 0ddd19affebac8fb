"""
Read a request: which parts it has, and what is asked in each.

"Summarise the obligations and list every deadline" has two parts. A part ends at a connector ("and", a comma) behind which
something new is asked: a verb or question word of its own, or something after a kind of finding ("the obligations, deadlines
and prices"). Otherwise the connector only joins words ("research and development"). A request in another language than English is
one question about its words.
"""

import re
from typing import Final

from .corpus import Wish
from .kinds import ASKS, asked, pattern
from .units import fold, shortened, split, words_of

PARTS_MAX: Final = 8
REQUEST_CHARS_MAX: Final = 4_000
HEADING_CHARS_MAX: Final = 70
_VERBS: Final = (
    r"please|lists?|names?|enumerate|gives?|show|find|extract|identify|tell|collect|get|provide|write|describe|explain|outline|compare|check|states?"
    r"|report|create|make|prepare|draft|review|analy[sz]e|determine|highlight|answer|note|summari[sz]es?|sum up|read|look|search|define|quote|says?"
    r"|contains?|includes?|covers?|mentions?|suggest|(?:can|could) you|(?:i|we) (?:want|need)|specif(?:y|ies)|cites?"
)
_QUESTIONS: Final = "what|which|who|whom|whose|(?:by |until )?when|where|why|how|is|are|does|do|did|can|must|should|will|has|have|was|were"
_SOME: Final = "summar(?:y|i[sz]e[ds]?)|overview|gist|points|highlights|takeaways|sum up|outline|about|main|key|most|important|top|brief(?:ly)?|short(?:ly)?"
"""Words that ask for a selection."""
_EMPTY: Final = (
    r"much|many|long|documents?|texts?|files?|contents?|pages?|reports?|sections?|information|details?|things?|items?|lists?|tables?|sources?|questions?"
    r"|answers?|terms|conditions|clauses?|provisions?|statements?|passages?|parts?|contracts?|agreements?|minutes|meetings?|notes?|letters?|e-?mails?"
    r"|articles?|papers?|polic(?:y|ies)|offers?|manuals?|data|facts?|user|following|given|attached|two|both|new|old|said|needs?|happens?|appl(?:y|ies)"
    r"|relevant|least|exists?|costs?|asks?|every|all|each|complete(?:ly)?|full|entire|any|whole"
)
"""Words that name documents or parts of an answer: no topic."""
_OPENING = pattern(f"{_VERBS}|{_QUESTIONS}")
_SELECTIVE = pattern(_SOME)
_WHEN = pattern("when|how long|(?:what|which) date")
_NO_TOPIC = pattern(f"{_VERBS}|{_QUESTIONS}|{_SOME}|{_EMPTY}")
_CONNECTOR = re.compile(
    r"(?i)(\s?[,;]\s(?:(?:and|as well as|then|also|but)\s)?|\s(?:and|as well as|plus|then|&)\s)"
)


def parse(request: str) -> list[Wish]:
    """Return the parts of *request*, one to eight, a summary if there is none."""
    lines = request[:REQUEST_CHARS_MAX].splitlines()
    sentences = [
        piece for line in lines for piece in split(re.sub(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+", "", line))
    ]
    asking = [one for one in sentences if _OPENING.match(one) or asked(one) or "?" in one]
    clauses = list[str]()
    for sentence in asking or sentences:
        first, *rest = _CONNECTOR.split(sentence)
        clauses.append(first)
        for glue, piece in zip(rest[::2], rest[1::2], strict=True):
            if _begins(piece, clauses[-1]):
                clauses.append(piece)
            else:
                clauses[-1] += glue + piece
    parts = {part.heading.casefold(): part for part in map(read_wish, clauses[::-1]) if part}
    return list(parts.values())[::-1][:PARTS_MAX] or [Wish("Summary", "summary")]


def _begins(piece: str, before: str) -> bool:
    """Return whether *piece*, behind a connector, makes a request of its own after the clause *before*."""
    start = _OPENING.match(piece)
    if not words_of(piece[start.end() :] if start else piece):
        return False
    return bool(start or (asked(before) and (asked(piece) or asked(before.split()[-1]))))


def read_wish(clause: str) -> Wish | None:
    """Return what *clause*, one request, asks for, or None if no word of it says anything."""
    when = _WHEN.search(clause) is not None
    kinds, rest = frozenset({"deadline", "date"}) if when else asked(clause), clause
    for words in ASKS.values():
        rest = words.sub(" ", rest)
    terms = tuple(dict.fromkeys(word for word in words_of(rest) if not _NO_TOPIC.fullmatch(word)))
    if not kinds and not terms:
        return Wish("Summary", "summary") if _SELECTIVE.search(clause) else None
    shape = "list" if kinds and not (when and terms) else "question"
    name = fold(clause).strip(" .!:,;-")
    if kinds and not terms:
        name = next(f"{kind}s" for kind in ASKS if kind in kinds)
    name = shortened(name, HEADING_CHARS_MAX)
    selective = _SELECTIVE.search(clause) is not None
    return Wish(name[:1].upper() + name[1:], shape, kinds, terms, selective)
