"""
Judge whether a finished text holds what a criterion asks for: one of its sentences, list items or rows, or nothing.

A criterion that cannot be judged by quoting, because it is about the whole text, or about the absence of something ("no
invented facts"), gets no evidence: better an honest None than a sentence that proves nothing.
"""

import re
from collections.abc import Sequence
from typing import Final

from .kinds import kinds_of
from .request import Part, clauses, denies, read_part
from .units import Unit, fold, units
from .words import content_words, is_english, stem, synonyms_of, words_of

UNITS_MAX: Final = 3_000
CRITERION_CHARS_MAX: Final = 2_000
_SOURCES = re.compile(r"\b(?:sources?|cit(?:es?|ed|ations?)|references?)\b", re.IGNORECASE)
_CITED = re.compile(r"\([^()]{0,200}\.\w{2,5}\b[^()]{0,200}\)|\[\d{1,3}\]|\bsource:|§ ?\d", re.IGNORECASE)
_LENGTH = re.compile(
    r"\b(?:at most|max(?:imum|\.)?(?: of)?|under|(?:less|fewer) than|(?:no|not) (?:more|longer) than|up to|within)"
    r"\s+(\d{1,6})\s+(words?|char\w*)",
    re.IGNORECASE,
)
_ENGLISH = re.compile(r"\bin english\b", re.IGNORECASE)
_OPENING = re.compile(
    r"(?:the |this |an? )?(?:final )?(?:answer|summary|report|response|result|output|text|list|it)"
    r"(?: (?:should|must|shall|has to|needs to|will|is to|can|also|clearly|explicitly)){0,3}\s",
    re.IGNORECASE,
)
_FORM = re.compile(
    r"\b(?:listed|named|mentioned|stated|covered|included|identified|given|provided|explained|described|summari[sz]ed|cited|found"
    r"|shown|present|clear(?:ly)?|correct(?:ly)?|complete(?:ly)?|answered|addressed|specified|quoted|accurate|at least one"
    r"|findings?|explicit(?:ly)?|fully|sources?|references?|its|their)\b",
    re.IGNORECASE,
)
"""What a criterion says of the answer's form, which is no topic to look for."""
_ABSENT = re.compile(
    r"(?<!\w)(?:(?:documents?|sources?|texts?|passages?|files?|contracts?|minutes|reports?|it|they) (?:does|do|did) not (?:mention|contain"
    r"|state|say|specify|answer|give|list|name|define)|no (?:\w+ ){1,5}(?:found|mentioned|stated|specified|identified|answers this)"
    r"|(?:is|are|was|were) not (?:found|mentioned|stated|specified|answered|documented)|nothing (?:in|about|on)|there (?:is|are) no"
    r"|no passage|not shown: \d)|^(?:only the beginning of|kinds of passages are known)",
    re.IGNORECASE,
)
"""A sentence that says that something was not found, ours or another's."""


def find_evidence(criterion: str, text: str) -> str | None:
    """Return a sentence, item or row of *text* that supports the whole *criterion*; None if none does or it cannot be judged."""
    usable = [
        unit
        for unit in units(text, units_max=UNITS_MAX)[0]
        if unit.form != "intro" and not _ABSENT.search(unit.text)
    ]
    if not usable:
        return None
    if length := _LENGTH.search(criterion):
        size = len(text) if length[2].lower().startswith("char") else len(words_of(text))
        return usable[0].text if size <= int(length[1]) else None
    if _ENGLISH.search(criterion):
        return usable[0].text if is_english(text) else None
    parts, cited = criterion_parts(criterion), bool(_SOURCES.search(criterion))
    if cited and not any(part.kinds or len(part.terms) > 1 for part in parts):
        return next((unit.text for unit in usable if _CITED.search(unit.text)), None)
    proofs = [_proof(part, usable, cited=cited) for part in parts]
    return proofs[0] if proofs and all(proofs) else None


def criterion_parts(criterion: str) -> list[Part]:
    """Return what *criterion* asks for, one part for each thing; none if it denies something or says nothing testable."""
    parts: list[Part] = []
    text = criterion[:CRITERION_CHARS_MAX]
    if not is_english(text):
        return (
            [Part(fold(text)[:70], "question", terms=terms)] if (terms := tuple(content_words(text))) else []
        )
    for clause in clauses(text):
        if denies(clause):
            return []
        part = read_part(fold(_FORM.sub(" ", _OPENING.sub("", clause.strip(), count=1))))
        if part is not None and (part.kinds or part.terms):
            parts.append(part)
    return parts


def _proof(part: Part, usable: Sequence[Unit], *, cited: bool) -> str | None:
    """Return the unit that best supports *part*; if *cited*, only one that names its source."""
    best, proof = 0.0, None
    for unit in usable:
        if (cited and not _CITED.search(unit.text)) or _ABSENT.search(unit.intro):
            continue
        share = _share(part, unit)
        if (
            share >= (0.5 if part.kinds else 0.6)
            and share > best
            and (not part.kinds or part.kinds & kinds_of(unit))
        ):
            best, proof = share, unit.text
    return proof


def _share(part: Part, unit: Unit) -> float:
    """Return which share of the words of *part* the unit has; its heading counts half; 0 if it lacks one of the numbers."""
    body = set(map(stem, content_words(f"{unit.intro} {unit.text}")))
    head = set(map(stem, content_words(unit.heading)))
    total = 0.0
    for word in part.terms:
        stems = {stem(word)} | synonyms_of(stem(word))
        if word.isdigit() and word not in body:
            return 0.0
        total += 1.0 if stems & body else 0.5 if stems & head else 0.0
    return total / len(part.terms) if part.terms else 1.0
