"""
Cut an objective into clauses that each ask for one thing.

A clause ends at a connector ("and", a comma) behind which something new is asked: a verb or question word of its own
("... and list every deadline"), a kind of finding after another kind ("the obligations, deadlines and prices"), or a noun
phrase with its own article after a first one ("the payment terms and the warranty"). Otherwise the connector only joins
words ("research and development") and stays. "By when" after a question about people belongs to that question.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from .kinds import ask_patterns, topics
from .languages import STOP_WORDS
from .lexicon import KINDS
from .request_words import REQUEST_WORDS
from .sentences import fold, split

_WITH_TIME: Final = frozenset({"owner", "action", "obligation", "decision"})
_TIMED: Final = frozenset({"owner", "deadline", "date"})
_WORD = re.compile(r"[^\W_]+")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_REFERS = re.compile(
    r"\b(?:them|they|it|those|these|sie|diese|ihnen|eux|elles?|ils?|ellos|ellas|essi|esse|eles|elas|ze|hen)\b",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\b(?:between|zwischen|entre|tra|fra|tussen|either|both)\b", re.IGNORECASE)
ARTICLES: Final = (
    r"(?:the|an?|any|der|die|das|den|dem|eine?n?|les?|la|l['’]|une?|des|du|el|l[ao]s|una|il|lo|gli|i|os?|as?|de|het|een"
    r"|their|its|his|her|our|deren|ihre?|ses|leurs?|sus?)"
)
_ARTICLE = re.compile(rf"{ARTICLES}(?:\s+|(?<=['’]))(?=\S)", re.IGNORECASE)


@dataclass(slots=True)
class Clause:
    """
    One request of an objective.

    Attributes:
        text: Its own words.
        verb: The first words of the clause before whose verb it shares; empty if it has its own.
        extra: A question about what it asks for ("and who owns them"), which says what its findings should come with.
    """

    text: str
    verb: str = ""
    extra: str = ""


def clauses(text: str, spoken: str) -> list[Clause]:
    """
    Cut *text* into clauses.

    Args:
        text: An objective, perhaps of several lines or sentences.
        spoken: Its language, a key of ``REQUEST_WORDS``.

    Returns:
        The clauses in order; none for a blank text.
    """
    result: list[Clause] = []
    for line in text.splitlines():
        for sentence in split(_BULLET.sub("", line)):
            result.extend(_requests(sentence, spoken))
    return result


def words_of(text: str) -> list[str]:
    """Return the words of *text* in lower case, without single letters, which are mostly left over from apostrophes."""
    return [word for word in _WORD.findall(text.lower()) if len(word) > 1 or word.isdigit()]


@cache
def matcher(alternatives: str) -> re.Pattern[str]:
    """Return *alternatives* compiled between word borders, without regard to case."""
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)


@cache
def opening(spoken: str) -> re.Pattern[str]:
    """Return the pattern of what begins a request or a question."""
    words = REQUEST_WORDS[spoken]
    return re.compile(rf"(?:{words.verbs}|{words.questions})(?!\w)", re.IGNORECASE)


def split_extras(text: str, spoken: str) -> tuple[str, str]:
    """Split "action items with owners" before "with", if something stands on both sides."""
    match = matcher(REQUEST_WORDS[spoken].extras).search(text)
    if match is None or not text[: match.start()].strip() or not text[match.end() :].strip():
        return text, ""
    return text[: match.start()], text[match.end() :]


def kinds_in(text: str, spoken: str) -> tuple[frozenset[str], list[str], str]:
    """
    Return what kinds of finding *text* asks for.

    Args:
        text: A clause.
        spoken: Its language.

    Returns:
        The kinds; what compounds among the words are about ("Liefer" of "Lieferfrist"); the text without these words.
    """
    kinds: set[str] = set()
    compounds: list[str] = []
    rest = text
    for kind in KINDS:
        for pattern in ask_patterns(kind, spoken):
            for match in pattern.finditer(text):
                kinds.add(kind)
                compounds.extend(topic for topic in topics(match) if len(topic) > 2)
            rest = pattern.sub(lambda match: " " * len(match.group()), rest)
    return frozenset(kinds), compounds, rest


def _requests(sentence: str, spoken: str) -> list[Clause]:
    """Cut one sentence at the connectors behind which a new request begins."""
    result: list[Clause] = []
    for glue, piece in _pieces(sentence, spoken):
        if (
            result
            and opening(spoken).match(piece)
            and _REFERS.search(piece)
            and kinds_in(result[-1].text, spoken)[0]
        ):
            result[-1].extra += glue + piece
        elif result and not _begins(piece, result[-1], spoken):
            result[-1].text += glue + piece
        elif result and not opening(spoken).match(piece):
            before = result[-1]
            result.append(Clause(piece, before.verb or " ".join(before.text.split()[:2])))
        else:
            result.append(Clause(piece))
    return [part for clause in result for part in _unpack(clause, spoken)]


def _pieces(sentence: str, spoken: str) -> list[tuple[str, str]]:
    """Cut *sentence* at every connector; each piece comes with the connector before it."""
    joined = REQUEST_WORDS[spoken].connectors
    connector = re.compile(rf"\s*,\s+(?:(?:{joined})\s+)?|\s+(?:{joined})\s+|\s*;\s+", re.IGNORECASE)
    pieces: list[tuple[str, str]] = []
    start, glue = 0, ""
    for match in connector.finditer(sentence):
        pieces.append((glue, sentence[start : match.start()]))
        start, glue = match.end(), match.group()
    return [*pieces, (glue, sentence[start:])]


def _begins(piece: str, before: Clause, spoken: str) -> bool:
    """Whether *piece* makes a request of its own after the clause *before*."""
    words = REQUEST_WORDS[spoken]
    head, extras = split_extras(before.text, spoken)
    known = kinds_in(head, spoken)[0]
    if not fold(matcher(words.when).sub(" ", piece)).strip("?.! "):
        return not known & _WITH_TIME
    if matcher(words.compare).search(before.text):
        return False
    start = opening(spoken).match(piece)
    if start:
        return bool(words_of(piece[start.end() :]))
    if extras or _BETWEEN.search(before.text):
        return False
    asked = kinds_in(piece, spoken)[0]
    if asked and "action" in known and asked <= _TIMED:
        return False
    if asked or matcher(words.summary).search(piece):
        return bool(known or matcher(words.summary).search(before.text))
    return (
        not known
        and bool(opening(spoken).match(before.text) or before.verb)
        and _nominal(piece, before, spoken)
    )


def _nominal(piece: str, before: Clause, spoken: str) -> bool:
    """Whether *piece* is a noun phrase of its own after another one."""
    content = [word for word in words_of(before.text) if word not in STOP_WORDS[spoken]]
    generic = matcher(REQUEST_WORDS[spoken].generic)
    content = [
        word for word in content if not generic.fullmatch(word) and not opening(spoken).fullmatch(word)
    ]
    return bool(content) and _ARTICLE.match(piece) is not None and len(piece.split()) <= 8


def _unpack(clause: Clause, spoken: str) -> list[Clause]:
    """Turn "a summary with all risks" into two requests: its extras are of a kind, and nothing before them is."""
    head, extras = split_extras(clause.text, spoken)
    summary = matcher(REQUEST_WORDS[spoken].summary)
    if extras and kinds_in(extras, spoken)[0] and not kinds_in(head, spoken)[0] and summary.search(head):
        return [Clause(head, clause.verb), Clause(extras, "")]
    return [clause]
