"""
Find dates, periods and deadlines in one sentence.

A **date** is a day, a month with its year or a quarter. A **deadline** is a date or period with a word beside it that
makes it one ("by", "within", "notice"), a date in a sentence that obliges someone, a period in a sentence that speaks of
a notice period, or a phrase that needs no date ("no later than the handover"). Weekdays, bare months and years count only
right after such a word, as in "by Friday".

The words are data (``calendars``). Dates are found first, in one pass, and then some 50 characters around each are
looked at, so that no pattern ever runs over a whole text twice.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from .calendars import CALENDARS, Calendar
from .languages import STOP_WORDS

_WINDOW: Final = 48
_FACTS = re.compile(r"\d+(?:[.,:]\d+)*")
_YEAR: Final = r"(?:19|20)\d\d"
_NUMERIC: Final = (
    rf"{_YEAR}-\d\d?-\d\d?|{_YEAR}/\d\d?/\d\d?|\d\d?/\d\d?/(?:{_YEAR}|\d\d)|\d\d?-\d\d?-{_YEAR}"
    rf"|(?<![.])\d\d?\. ?\d\d?\. ?{_YEAR}|(?<![.])\d\d\.\d\d\.\d\d(?![.])|(?<![.])[0-3]\d\.[01]\d\.(?!\d)"
)
_QUARTER: Final = (
    rf"(?:q[1-4]|h[12])[ /-]{{0,3}}{_YEAR}|{_YEAR}[ /-]{{0,3}}q[1-4]|(?:kw|cw|week) ?\d\d?(?:[ /]{{1,3}}{_YEAR})?"
    rf"|(?:\d\.|\w{{4,8}}) (?:quartal|quarter|trimestre|kwartaal|halbjahr)(?: \w{{2,3}})? {_YEAR}"
)
_CLOCK: Final = r"\d\d?[:h]\d\d(?: ?(?:am|pm|uhr))?|\d\d? ?(?:am|pm|a\.m\.|p\.m\.|uhr)|q[1-4]"


@dataclass(frozen=True, slots=True)
class _Patterns:
    """The compiled expressions of one language, named as in ``Calendar``."""

    date: re.Pattern[str]
    point: re.Pattern[str]
    period: re.Pattern[str]
    until: re.Pattern[str]
    overdue: re.Pattern[str]
    within: re.Pattern[str]
    notice: re.Pattern[str]
    lasting: re.Pattern[str]
    nouns: re.Pattern[str]
    strong: re.Pattern[str]
    prompt: re.Pattern[str]
    months: re.Pattern[str]
    numbers: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Times:
    """
    What one sentence says about time.

    Attributes:
        date: It holds a date.
        period: It holds a period such as "30 days".
        deadline: A date or period is a deadline by the words beside it, or a phrase says so.
        bound: It holds a date, or a word like "immediately", that is a deadline if the sentence obliges somebody; not
            looked for where it holds a deadline anyway.
    """

    date: bool
    period: bool
    deadline: bool
    bound: bool


def times(text: str, language: str) -> Times:
    """
    Return what *text*, one sentence or row, says about time.

    Args:
        text: At most some hundred characters.
        language: A key of ``CALENDARS``.

    Returns:
        The four answers of ``Times``.
    """
    patterns = _patterns(language)
    dates = list(patterns.date.finditer(text))
    periods = list(patterns.period.finditer(text))
    deadline = (
        patterns.strong.search(text) is not None
        or bool((dates or periods) and patterns.nouns.search(text))
        or any(_is_due(text, match, patterns) for match in dates)
        or any(_is_limit(text, match, patterns) for match in periods)
        or any(_is_due(text, match, patterns) for match in patterns.point.finditer(text))
    )
    bound = not deadline and (
        patterns.prompt.search(text) is not None
        or any(patterns.lasting.search(_around(text, match)[0]) is None for match in dates)
    )
    return Times(bool(dates), bool(periods), deadline, bound)


def facts(text: str, language: str) -> frozenset[str]:
    """Return the numbers, in digits or words, months and weekdays of *text*: where two like sentences differ in these, both are needed."""
    patterns = _patterns(language)
    months = {match.group().lower()[:3] for match in patterns.months.finditer(text)}
    words = {match.group().lower() for match in patterns.numbers.finditer(text)} - STOP_WORDS[language]
    return frozenset(_FACTS.findall(text)) | months | words


def _is_due(text: str, match: re.Match[str], patterns: _Patterns) -> bool:
    """Whether the date or point in time at *match* stands right beside a word that makes it a deadline."""
    before, after = _around(text, match)
    return patterns.until.search(before) is not None or patterns.overdue.match(after) is not None


def _is_limit(text: str, match: re.Match[str], patterns: _Patterns) -> bool:
    """Whether the period at *match* stands beside a word that makes it a deadline: "within", "notice"."""
    before, after = _around(text, match)
    if patterns.within.search(before):
        return True
    return patterns.notice.match(after) is not None and patterns.lasting.search(before) is None


def _around(text: str, match: re.Match[str]) -> tuple[str, str]:
    """Return some characters before and after *match*."""
    return text[max(0, match.start() - _WINDOW) : match.start()], text[match.end() : match.end() + _WINDOW]


@cache
def _patterns(language: str) -> _Patterns:
    """Compile the calendar of *language*."""
    words = CALENDARS[language]
    filler = rf"(?:\W{{1,3}}(?:{words.fillers}|{words.weekdays}|{words.months}|\d\d?))"
    before = rf"(?:{filler}){{0,6}}\W{{0,3}}$"
    near = r"(?:\W{1,3}\w+){0,2}?\W{0,3}$"
    return _Patterns(
        date=_compile(_dates(words)),
        point=_compile(rf"{words.weekdays}|{words.ends}|{words.months}|{_YEAR}|{_CLOCK}"),
        period=_compile(_periods(words)),
        until=_compile(rf"(?:{words.until}){before}", close=False),
        overdue=re.compile(rf"[\W]{{0,3}}(?:{words.overdue})\b", re.IGNORECASE),
        within=_compile(rf"(?:{words.within}){near}", close=False),
        notice=re.compile(rf"['’]?\W{{0,3}}(?:\w+\W{{1,2}}){{0,2}}?(?:{words.notice})", re.IGNORECASE),
        lasting=_compile(
            rf"(?:{words.lasting})(?:\W{{1,3}}(?:the|den|der|les|los|gli|os|de|a|initial|\d+))?\W{{0,3}}$",
            close=False,
        ),
        nouns=_compile(words.nouns),
        strong=_compile(words.strong),
        prompt=_compile(words.prompt),
        months=_compile(rf"{words.months}|{words.weekdays}"),
        numbers=_compile(words.numbers),
    )


def _compile(pattern: str, *, close: bool = True) -> re.Pattern[str]:
    """Compile *pattern* between word borders, without regard to case; the last border only if *close*."""
    return re.compile(rf"(?<!\w)(?:{pattern})" + (r"(?!\w)" if close else ""), re.IGNORECASE)


def _dates(words: Calendar) -> str:
    """Return the expression for a date with a day, or a month with its year."""
    month = rf"(?:{words.months})\.?"
    day = r"\d\d?(?:st|nd|rd|th|er|\.|º|°|ª)?"
    join = rf"(?: (?:{words.joins}))?"
    year = rf"(?:,?{join} {_YEAR})"
    return (
        rf"{_NUMERIC}|{_QUARTER}|{day}{join} ?-?{month}(?:{year}|-{_YEAR})?"
        rf"|{month} {day}(?:,? {_YEAR})?|{month}{year}"
    )


def _periods(words: Calendar) -> str:
    """Return the expression for a period: a number, in digits or words, and a unit."""
    number = rf"(?:\d{{1,4}}(?:[.,]\d)?|{words.numbers})"
    return rf"{number}(?: ?\(\w{{1,12}}\))?[ -](?:(?:{words.adjectives})[ -])?(?:{words.periods})"
