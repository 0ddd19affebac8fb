"""
Tell headings without a mark from running text, as text that came out of a PDF has them.

A line is a heading if it is numbered ("4. Delivery", "§ 4 Kündigung", "ARTICLE 5"), in capitals, or short and alone: between blank
lines, or over a much longer line. What is lost as a heading is never quoted, so a line with a verb, with a number in its title or in a numbered list is
none: better a heading too few than a deadline too few.
"""

import re
from collections.abc import Sequence
from typing import Final

LINE_CHARS_MAX: Final = 90
_WORDS_MAX: Final = 10
_ORDERED = re.compile(r"\(?\d{1,3}[.)]\s")
_NUMBERED = re.compile(
    r"(?:(?:§+|section|article|clause|art\.|abschnitt|artikel|kapitel|chapter|chapitre|titre|título|titolo|capítulo"
    r"|artículo|articolo|artigo|teil|part|partie|annex|annexe|appendix|anlage|anhang|schedule|anexo|allegato|bijlage)\s*"
    r"[\dIVXLC]{1,5}[a-z]?\b|\d{1,2}(?:\.\d{1,2}){0,3}\.?|[IVX]{1,5}\.)\s*[:.–—-]?\s*(.*)",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:shall|must|will|may|is|are|was|has|have|muss|müssen|ist|sind|hat|haben|wird|werden|doit|doivent|est|sont|debe|deben|deve"
    r"|devono|è|são|moet|moeten|zijn)\b"
)
_TITLE = re.compile(r"\d{1,2}\. (?:[^\W\d_a-zäöüß]\S*|[a-z]\w{0,2})(?: (?:[^\W\d_a-zäöüß]\S*|[a-z]\w{0,2}))*")
_PAGE_WORD: Final = r"(?:page|seite|página|pagina|pág\.|p\.)"
PAGE = re.compile(
    rf"{_PAGE_WORD} ?\d{{1,4}}|(?:.{{0,60}}\b)?{_PAGE_WORD} ?\d{{1,4}} ?(?:of|von|de|sur|di|van|/) ?\d{{1,4}}"
    r"|[-–] ?\d{1,4} ?[-–]|\d{1,3}(?: ?/ ?\d{1,3})?",
    re.IGNORECASE,
)
ENDS: Final = (".", ":", ";", "!", "?", ",")
"""Marks after which the next line is not the continuation of a sentence."""
KEY = re.compile(r"(?:\*\*)?[^\W\d_a-z][^:|.!?]{0,36}:(?:\*\*)?\s+\S")
"""A line that names a property: "Date: 3 March"."""


def is_heading(lines: Sequence[str], number: int, line: str, *, after: int, last: str) -> bool:
    """
    Return whether a line without any mark is a heading.

    Args:
        lines: All lines as they are.
        number: The line in question.
        line: The same line, folded.
        after: The number of the next line that is not blank, or -1.
        last: The line right above it in the same paragraph; empty if it opens one.

    Returns:
        Whether it is numbered, in capitals, or alone between blank lines, and followed by something.
    """
    lone = after > number + 1
    if after < 0 or len(line) > LINE_CHARS_MAX or "|" in line or line.endswith((";", ",", "!", "?", ":")):
        return False
    if len(line.split()) > _WORDS_MAX or _VERB.search(line):
        return False
    if line.endswith(".") and not (lone and _TITLE.fullmatch(line)):
        return False
    ended = not last or last.endswith(ENDS)
    numbered = _NUMBERED.fullmatch(line)
    if numbered and (ended or len(last) < 60):
        return _is_title(numbered.group(1), line, lines[after]) and not _is_item(lines, number, line, after)
    letters = sum(map(str.isalpha, line))
    if line.isupper() and letters >= 4 and not lines[after].strip().isupper():
        return ended
    below = lines[after].strip()
    over = (
        len(line) <= 45
        and len(line.split()) <= 6
        and len(below) >= max(60, 2 * len(line))
        and below[0].isupper()
    )
    alone = (lone or over) and not last and letters >= 3 and len(line.split()) <= 8
    return alone and line[0].isupper() and not any(map(str.isdigit, line)) and not KEY.match(line)


def following(lines: Sequence[str]) -> list[int]:
    """Return for each line the number of the next line that is not blank, or -1."""
    result = [-1] * len(lines)
    nearest = -1
    for number in range(len(lines) - 1, -1, -1):
        result[number] = nearest
        if lines[number].strip():
            nearest = number
    return result


def indent_of(line: str) -> int:
    """Return how many characters of white space *line* begins with."""
    return len(line) - len(line.lstrip())


def _is_title(title: str, line: str, below: str) -> bool:
    """Whether *title*, what follows the number of *line*, can be a heading over the line *below*."""
    if any(map(str.isdigit, title)) or title[:1].islower() or below.strip()[:1].islower():
        return False
    return bool(title or not line[0].isdigit())


def _is_item(lines: Sequence[str], number: int, line: str, after: int) -> bool:
    """Whether a numbered line is an item: another one stands next to it, or what follows is indented below it."""
    if not _ORDERED.match(line):
        return False
    around = [*lines[max(0, number - 2) : number], lines[after]]
    return any(_ORDERED.match(other.strip()) for other in around) or indent_of(lines[after]) > indent_of(
        lines[number]
    )
