"""
Judge whether a finished text holds what a criterion asks for: one of its sentences, list items or rows, or nothing.

A criterion that cannot be judged by quoting, because it is about the whole text, or about the absence of something ("no
invented facts"), gets no evidence: better an honest None than a sentence that proves nothing.
"""

import re

from .corpus import Corpus, Source
from .kinds import pattern
from .request import Part, parse
from .words import stem

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
