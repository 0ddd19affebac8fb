"""
Judge whether a finished text holds evidence for a criterion: find a sentence that supports it.

A criterion is read like an objective ("every deadline is listed" asks for deadlines), without the words that only speak of
the answer itself. A sentence supports it if it is of the kinds that are asked for and has most of the words, and every number.
Sentences that say that nothing was found support nothing. Three criteria about the answer as a whole can be judged too: that it
names sources, its language, its length. What can only be judged by understanding, or by the absence of something ("no invented
facts"), gets no evidence: better an honest None than a sentence that proves nothing.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from .blocks import Unit, units
from .clauses import clauses, matcher, opening, words_of
from .kinds import kinds_of
from .languages import detect, known
from .objectives import Part, read_part
from .phrases import all_phrases
from .ranking import Index, Stemmer, Term, query_terms
from .request_words import CRITERION_OPENINGS, CRITERION_WORDS, REQUEST_WORDS
from .sentences import fold

UNITS_MAX: Final = 3_000
CRITERION_CHARS_MAX: Final = 2_000
_ENOUGH: Final = 0.6
_ENOUGH_OF_KIND: Final = 0.5
_SOURCES = re.compile(
    r"\b(?:sources?|cit(?:es?|ed|ations?)|references?|quellen?\w*|belegt|fundstellen?|sourcée?s?|citée?s?|fuentes?|font[ei]|fontes?"
    r"|bron(?:nen)?)\b",
    re.IGNORECASE,
)
_CITED = re.compile(
    r"\([^()]{0,200}\.\w{2,5}\b[^()]{0,200}\)|\[\d{1,3}\]|\bsource:|\bquelle:|§ ?\d", re.IGNORECASE
)
_LENGTH = re.compile(
    r"\b(?:at most|max(?:imum|\.)?(?: of)?|under|less than|fewer than|(?:no|not) (?:more|longer) than|up to|within|höchstens|maximal"
    r"|weniger als|au plus|maximum|como máximo|al massimo|no máximo|hooguit)\s+(\d{1,6})\s+(words?|wörter|mots|palabras|parole|palavras"
    r"|woorden|char\w*|zeichen|caract\w+|caratteri|tekens)",
    re.IGNORECASE,
)
_TONGUE = re.compile(
    r"\b(?:in|auf|en|em|het)\s+(english|german|deutsch\w*|french|français|französisch\w*|spanish|español|spanisch\w*|italian\w*"
    r"|portugu\w+|dutch|nederlands|englisch\w*|anglais|allemand|inglés|alemán|francés|inglese|tedesco|francese)\b",
    re.IGNORECASE,
)
_CODES: Final = (
    ("eng", "en"), ("ang", "en"), ("ing", "en"), ("ger", "de"), ("deu", "de"), ("all", "de"), ("ale", "de"), ("ted", "de"),
    ("fre", "fr"), ("fra", "fr"), ("spa", "es"), ("esp", "es"), ("ita", "it"), ("por", "pt"), ("dut", "nl"), ("ned", "nl"),
)  # fmt: skip


def find_evidence(criterion: str, text: str) -> str | None:
    """
    Return a sentence of *text* that supports *criterion*.

    Args:
        criterion: What a good answer has, in words: "names the notice period".
        text: The finished answer, Markdown or plain.

    Returns:
        A sentence, list item or table row of *text*, white space folded; None if none supports the whole criterion, or if the
        criterion cannot be judged by quoting.
    """
    found, _ = units(text, units_max=UNITS_MAX)
    spoken = known(detect(criterion, default=detect(text)))
    usable = [unit for unit in found if unit.form != "intro" and not _absent().search(unit.text)]
    if not usable:
        return None
    whole = _about_the_whole(criterion, text, usable, spoken)
    if whole is not None:
        return whole or None
    parts = criterion_parts(criterion, spoken)
    judge = _Judge(usable, known(detect(text, default=spoken)), spoken)
    cited = bool(_SOURCES.search(criterion))
    proofs = [judge.proof(part, cited=cited) for part in parts]
    return proofs[0] if proofs and all(proof is not None for proof in proofs) else None


def criterion_parts(criterion: str, spoken: str) -> list[Part]:
    """Return what *criterion* asks for, one part for each thing; none if it denies something or says nothing testable."""
    parts: list[Part] = []
    words = REQUEST_WORDS[spoken]
    for clause in clauses(criterion[:CRITERION_CHARS_MAX], spoken):
        text = matcher(CRITERION_OPENINGS[spoken]).sub("", clause.text, count=1).strip()
        verb = opening(spoken).match(text)
        if matcher(words.not_).match(text) or (
            verb and matcher(words.not_).match(text[verb.end() :].strip())
        ):
            return []
        clause.text, clause.verb = fold(matcher(CRITERION_WORDS[spoken]).sub(" ", text)), ""
        part = read_part(clause, spoken, spoken)
        if part is not None and (part.kinds or part.terms):
            parts.append(part)
    return parts


class _Judge:
    """Looks for proofs of the parts of one criterion in the units of one text."""

    def __init__(self, usable: Sequence[Unit], language: str, spoken: str) -> None:
        self.units = usable
        self.language = language
        self.spoken = spoken
        self.stemmer = Stemmer()
        body = [self.stemmer.stems(f"{unit.intro} {unit.text}", language) for unit in usable]
        self.index = Index(body, [self.stemmer.stems(unit.heading or "", language) for unit in usable])

    def proof(self, part: Part, *, cited: bool) -> str | None:
        """Return the unit that best supports *part*; if *cited*, only one that names its source."""
        terms = query_terms(
            part.terms, self.index, self.stemmer, spoken=self.spoken, languages=(self.language,)
        )
        needed = _ENOUGH_OF_KIND if part.kinds else _ENOUGH
        best, proof = 0.0, None
        for place, unit in enumerate(self.units):
            if cited and not _CITED.search(unit.text):
                continue
            if (part.terms or not part.kinds) and _absent().search(unit.intro):
                continue
            share = self._share(place, part, terms)
            exact = sum(bool(term.own & self.index.body[place]) for term in terms) / (len(terms) or 1)
            if share >= needed and share + exact > best and self._of_kind(unit, part):
                best, proof = share + exact, unit.text
        return proof

    def _share(self, place: int, part: Part, terms: Sequence[Term]) -> float:
        """Return which share of the words of *part* the unit has; 0 if it lacks one of the numbers."""
        if not terms:
            return 1.0
        total = 0.0
        for word, term in zip(part.terms, terms, strict=True):
            if term.stems & self.index.body[place]:
                total += 1.0
            elif word.isdigit():
                return 0.0
            elif term.stems & self.index.head[place]:
                total += 0.5
        return total / len(terms)

    def _of_kind(self, unit: Unit, part: Part) -> bool:
        """Whether *unit* is of a kind that *part* asks for, in the language of the text or of the criterion."""
        if not part.kinds:
            return True
        return any(kinds_of(unit, code, part.kinds) for code in dict.fromkeys((self.language, self.spoken)))


def _about_the_whole(criterion: str, text: str, usable: Sequence[Unit], spoken: str) -> str | None:
    """Judge a criterion about length, language or sources: the proof, "" if it fails, None if it is none of these."""
    first = usable[0].text
    length = _LENGTH.search(criterion)
    if length:
        size = (
            len(text) if length[2].lower().startswith(("char", "zei", "car", "tek")) else len(words_of(text))
        )
        return first if size <= int(length[1]) else ""
    tongue = _TONGUE.search(criterion)
    if tongue:
        wanted = next(code for start, code in _CODES if tongue[1].lower().startswith(start))
        return first if detect(text, default="") == wanted else ""
    if _SOURCES.search(criterion) and not any(part.kinds for part in criterion_parts(criterion, spoken)):
        rest = [word for part in criterion_parts(_SOURCES.sub(" ", criterion), spoken) for word in part.terms]
        if len(rest) <= 1:
            return next((unit.text for unit in usable if _CITED.search(unit.text)), "")
    return None


@cache
def _absent() -> re.Pattern[str]:
    """Return the pattern of sentences that say that something was not found, ours and others'."""
    others = "|".join(words.absent for words in REQUEST_WORDS.values())
    ours = "|".join(re.escape(phrase) for phrase in all_phrases())
    return re.compile(rf"(?<!\w)(?:{others})|^(?:{ours})", re.IGNORECASE)
