"""
Read an objective: which parts it has, and what is asked in each.

"Summarise the obligations and list every deadline" has two parts. Each says what shape the answer takes (a summary, a
list, a comparison, or the answer to a question), which kinds of finding it wants, which words it is about, whether it
wants all of them, and what its heading is. Only words are looked at: what asks for nothing that the tables know is a
question about its remaining words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from .clauses import ARTICLES, Clause, clauses, kinds_in, matcher, opening, split_extras, words_of
from .languages import STOP_WORDS, detect, known
from .lexicon import KINDS
from .phrases import labels
from .request_words import NUMBERS, REQUEST_WORDS, RequestWords
from .sentences import fold

PARTS_MAX: Final = 8
OBJECTIVE_CHARS_MAX: Final = 4_000
HEADING_CHARS_MAX: Final = 70
_SOFT: Final = frozenset({"step", "definition", "contact"})
_TIMES: Final = frozenset({"deadline", "date"})
_PEOPLE: Final = frozenset({"owner", "action", "obligation"})
_SAYS = re.compile(
    r"\b(?:say|says|said|states?|stated|tells? (?:us|me)|contain|dit|disent|dice|dicono|dicen|diz|zegt|sagt|sagen|steht|stehen)"
    r"\s+(?:\w+\s+){0,3}?(?:about|on|regarding|über|zu[mr]?|sur|de|sobre|su|sul|sulla|over)\s+",
    re.IGNORECASE,
)
_NAMING = re.compile(
    rf"(?:what|which|welche[rs]?|was|wie|quel(?:le)?s?|cuál(?:es)?|qué|quali?|qual|quais|welke|wat)\s+(?:is|are|was|were|sind|ist"
    rf"|lauten?|sont|est|son|es|sono|è|são|é|zijn|luiden?)\s+(?!\w+ed\b)(?:{ARTICLES}\s+)?",
    re.IGNORECASE,
)
_ARTICLE = re.compile(rf"(?:{ARTICLES}\s+|l['’]|(?:me|us|mir|uns|moi|nous|mij|of|von)\s+)", re.IGNORECASE)
_PARTICLE = re.compile(r"\s+(?:zusammen|auf|an|heraus|samen|op|uit)$", re.IGNORECASE)
_INSIDE = re.compile(
    r"\b(?:in|of|from|to|im|aus|des|dem|vom|dans|du|de|del|nel|della|no|da|van|het)\s+(?:the|this|that|dem|der|diesem|le|la|el|il"
    r"|o|a|de|het)?\s*$",
    re.IGNORECASE,
)
_SINGLE = re.compile(r"(?:every|each|any|jede\w*|chaque|cada|ogni|elke?|iedere?)\b", re.IGNORECASE)
_MARKS: Final = {"fr": ("", " ?"), "es": ("¿", "?")}
"""What stands before and after a question, where it is not only a question mark."""
_OF = re.compile(
    r"\b(?:of|for|from|by|des|der|du|de|von|vom|für|del|della|di|do|da|van|voor|pour|para|per)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Part:
    """
    One thing that an objective asks for.

    Attributes:
        heading: What its section is called, from the objective's own words where they give a short name.
        shape: ``summary``, ``list``, ``question`` or ``compare``.
        kinds: A list's findings are of one of these.
        bonus: Findings of these kinds come first.
        terms: What it is about, in lower case; none means everything.
        hints: Words that may name the document to look in.
        every: Whether all findings are wanted, not a selection.
        limit: The greatest number of findings that is wanted, if it says one.
        asks: Whether its words ask at all: a verb, a question, a kind of finding.
        shared: Whether its terms also belong to the parts before it: "obligations and deadlines of the supplier".
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
    shared: bool = False


def parse(objective: str, *, language: str = "en") -> list[Part]:
    """
    Return the parts of *objective* in their order.

    Args:
        objective: A request in words; its first 4,000 characters are read.
        language: Of the labels that stand in for a heading, and of the objective where its words do not tell.

    Returns:
        At least one part and at most eight; an objective that asks for nothing gets a summary.
    """
    text = objective[:OBJECTIVE_CHARS_MAX]
    spoken = known(detect(text, default=language))
    found = [read_part(clause, spoken, language) for clause in clauses(text, spoken)]
    parts = _share([part for part in found if part is not None])
    result: dict[str, Part] = {}
    for part in [part for part in parts if part.asks] or parts:
        result.setdefault(part.heading.casefold(), part)
    return list(result.values())[:PARTS_MAX] or [Part(labels(language)["summary"], "summary")]


def read_part(clause: Clause, spoken: str, language: str) -> Part | None:
    """
    Return what *clause* asks for.

    Args:
        clause: One request, without a second one in it.
        spoken: The language of the request.
        language: The language of labels.

    Returns:
        The part, or None if no word of the clause says anything.
    """
    words = REQUEST_WORDS[spoken]
    whole = f"{clause.verb} {clause.text}" if clause.verb else clause.text
    names, core = _scope(clause.text, spoken)
    wish = _wish(whole, names, core, clause.extra, spoken)
    kinds, terms, hints, bonus = wish.kinds, wish.terms, wish.hints, wish.bonus
    shape = _shape(whole, kinds, terms, words)
    if shape == "question" and not terms:
        if not bonus:
            return None
        shape, kinds = "list", kinds or bonus
    selective = bool(matcher(words.summary).search(whole) or matcher(words.some).search(whole))
    part = Part(
        heading="",
        shape=shape,
        kinds=kinds if shape == "list" else frozenset(),
        bonus=bonus,
        terms=terms,
        hints=(*names, *hints),
        every=not selective
        and (shape == "list" or bool(matcher(words.every).search(core if names else whole))),
        limit=limit_in(whole, spoken),
        asks=shape != "question"
        or bool(bonus or clause.verb or "?" in core or opening(spoken).match(clause.text)),
        shared=bool(clause.verb and _OF.search(core)),
    )
    return replace(part, heading=_heading(clause.text, core, part, spoken, language))


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a clause is after: kinds, kinds that come first, topic words, words that may name a document."""

    kinds: frozenset[str]
    bonus: frozenset[str]
    terms: tuple[str, ...]
    hints: tuple[str, ...]


def _wish(whole: str, names: Sequence[str], core: str, extra: str, spoken: str) -> _Wish:
    """
    Return what a clause is after.

    Args:
        whole: The clause with the verb that it shares.
        names: Words in it that name a document.
        core: The clause without them.
        extra: A question about what it asks for.
        spoken: Its language.

    Returns:
        Its kinds and words. After "when", "who" or "how much" a kind that does not answer that is only a topic.
    """
    words = REQUEST_WORDS[spoken]
    head, extras = split_extras(core, spoken)
    kinds, compounds, rest = kinds_in(head, spoken)
    answers = _bonus(whole, words)
    if answers and kinds and not kinds & (answers | _PEOPLE | _SOFT):
        kinds, rest = frozenset(), head
    beside = kinds_in(" ".join((*names, extras, extra)), spoken)[0]
    bonus = kinds | beside | answers | _bonus(extra, words)
    if "owner" in kinds:
        kinds = (kinds | _PEOPLE) - _TIMES
    elif kinds & _PEOPLE and matcher(words.who).search(whole):
        kinds |= _PEOPLE
    topic = "" if kinds_in(extras, spoken)[0] else extras
    terms, hints = _terms(
        f"{rest} {topic}", compounds, spoken, words.units if limit_in(whole, spoken) else ""
    )
    if not terms and bonus - kinds:
        terms = tuple(word for word in hints if not _INSIDE.search(core.lower().split(word)[0]))
    return _Wish(kinds, bonus, terms, hints)


def limit_in(text: str, spoken: str) -> int | None:
    """Return the number of findings that *text* asks for at most ("top 5", "three sentences"), if it says one."""
    words = REQUEST_WORDS[spoken]
    number = f"({'|'.join(NUMBERS)})"
    match = re.search(
        rf"\b{number}\s+(?:(?:{words.some})\s+){{0,2}}(?:{words.units})(?!\w)|\btop\s+{number}\b|\b{number}\s+(?:{words.some})(?!\w)",
        text,
        re.IGNORECASE,
    )
    return NUMBERS[next(group for group in match.groups() if group).lower()] if match else None


def _shape(whole: str, kinds: frozenset[str], terms: tuple[str, ...], words: RequestWords) -> str:
    """Return the shape of the answer to a clause."""
    if matcher(words.compare).search(whole):
        return "compare"
    if kinds and not (kinds <= _SOFT and terms):
        return "list"
    return "summary" if matcher(words.summary).search(whole) else "question"


def _scope(text: str, spoken: str) -> tuple[tuple[str, ...], str]:
    """Split "what does the price list say about storage" into the words that name a document and the topic."""
    parts = _SAYS.split(text, maxsplit=1)
    if len(parts) < 2 or not words_of(parts[1]):
        return (), text
    words = REQUEST_WORDS[spoken]
    small = matcher(f"{words.verbs}|{words.questions}")
    names = [
        word for word in words_of(parts[0]) if word not in STOP_WORDS[spoken] and not small.fullmatch(word)
    ]
    return tuple(names), parts[1]


def _bonus(text: str, words: RequestWords) -> frozenset[str]:
    """Return the kinds that answer the question words of *text*."""
    answers = (
        (words.when, {"deadline", "date"}),
        (words.who, {"owner", "contact"}),
        (words.much, {"amount"}),
    )
    return frozenset(kind for asked, kinds in answers if matcher(asked).search(text) for kind in kinds)


def _terms(
    rest: str, compounds: list[str], spoken: str, ignored: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the topic words of *rest* but those *ignored*, and its generic nouns, which may name a document."""
    words = REQUEST_WORDS[spoken]
    small = matcher(
        f"{words.questions}|{words.every}|{words.some}|{words.compare}|{words.summary}|{words.when}|{words.extras}"
        + (f"|{ignored}" if ignored else "")
    )
    rest = _noun(fold(matcher(f"{words.much}|{words.who}|{words.when}").sub(" ", rest)), spoken)[0]
    terms: dict[str, None] = {}
    hints: dict[str, None] = {}
    for word in words_of(rest):
        if word in STOP_WORDS[spoken] or small.fullmatch(word) or (word in NUMBERS and not word.isdigit()):
            continue
        (hints if matcher(words.generic).fullmatch(word) else terms)[word] = None
    for compound in compounds:
        terms[compound.lower()] = None
    return tuple(terms), tuple(hints)


def _share(parts: list[Part]) -> list[Part]:
    """Let "obligations and deadlines of the supplier" be about the supplier in both parts."""
    result = list(parts)
    for place in range(len(result) - 1, 0, -1):
        after, before = result[place], result[place - 1]
        if after.shared and after.terms and not before.terms and before.shape == "list":
            result[place - 1] = replace(before, terms=after.terms, shared=place > 1)
    return result


def _heading(text: str, core: str, part: Part, spoken: str, language: str) -> str:
    """Return a short name for *part*: its noun phrase, its question, or a label."""
    label = labels(language)
    if part.shape == "compare":
        return label["compare"]
    if part.shape == "summary":
        return (
            f"{label['summary']}: {' '.join(part.terms)}"[:HEADING_CHARS_MAX]
            if part.terms
            else label["summary"]
        )
    own = fold(core).strip(" .!:,;-¿¡")
    asks = own.endswith("?") or bool(matcher(REQUEST_WORDS[spoken].questions).match(own))
    naming = _NAMING.match(own)
    if core != text or naming:
        name = own[naming.end() :] if naming else own
        name = _ARTICLE.sub("", name, count=1) if _ARTICLE.match(name) else name
        if 0 < len(name.split()) <= 7:
            return _short(name.strip(" ?"))
    if asks and not naming and (part.terms or part.bonus & _PEOPLE or not part.kinds):
        return _short(own.rstrip(" ?"), around=_MARKS.get(spoken, ("", "?")))
    name, single = _noun(own, spoken)
    if asks or not name or (single and not part.terms) or not words_of(name):
        first = label[next((kind for kind in KINDS if kind in part.kinds), "answer")]
        return first if name == own or not part.terms else _short(f"{first}: {' '.join(part.terms)}")
    return _short(name)


def _noun(name: str, spoken: str) -> tuple[str, bool]:
    """Return *name* without verbs, quantifiers and articles before its noun, and whether it spoke of each one."""
    words = REQUEST_WORDS[spoken]
    lead = matcher(f"{words.connectors}|{words.verbs}|{words.every}")
    single = False
    if spoken in ("de", "nl"):
        name = _PARTICLE.sub("", name)
    for _ in range(8):
        match = lead.match(name) or _ARTICLE.match(name)
        if match is None:
            break
        single = single or bool(_SINGLE.match(name))
        name = name[match.end() :].strip(" ,:")
    return name, single


def _short(name: str, *, around: tuple[str, str] = ("", "")) -> str:
    """Return *name* with a capital, at most so many characters as a heading should have, and marks *around* it."""
    if len(name) > HEADING_CHARS_MAX:
        name = name[:HEADING_CHARS_MAX].rsplit(" ", 1)[0] + " …"
    return around[0] + name[:1].upper() + name[1:] + around[1]
