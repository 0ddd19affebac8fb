"""
The kinds of finding that English sentences hold: obligation, deadline, date.

A unit is of a kind by its own words, by the line that introduces its list, or by the heading above it ("Obligations of the
Client"). A **deadline** is a date or period with a word beside it that makes it one ("by", "within", "notice"), a date in a
sentence that obliges somebody, or a phrase that needs no date ("no later than the handover"). Dates are found first and only
some 50 characters around each are looked at, and no pattern repeats without a bound, so none can run away on hostile text.
"""

import re
from functools import lru_cache
from typing import Final

from .units import Unit


def pattern(alternatives: str) -> re.Pattern[str]:
    """Compile *alternatives* between word borders, without regard to case."""
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)


ASKS: Final = {
    "obligation": pattern(
        r"obligations?|dut(?:y|ies)|commitments?|requirements?|undertakings?|must(?: do)?|obliged|required to|ha(?:s|ve) to"
    ),
    "deadline": pattern(
        r"deadlines?|due(?: dates?| by)?|(?:by|until) when|time ?(?:limit|frame|line)s?|cut-?offs?|notice periods?|(?:key|important|expiry)"
        r" dates?|milestones?"
    ),
}
"""How a reader or a heading names each kind that can be listed, in the order in which an answer names them."""
_OBLIGES: Final = pattern(
    r"shall|must|(?:is|are|be|being) (?:\w+ )?(?:required|obliged|obligated|bound|committed) to|(?:is|are|be) (?:\w+ )?(?:responsible for|expected to)"
    r"|(?:agrees?|undertakes?|covenants?|commits?|promises?|warrants?)(?: itself| themselves)? (?:to|that|not to)|ha(?:s|ve) to"
    r"|needs?|requires?|may (?:not|only)|(?:is|are) (?:not (?:allowed|permitted|entitled) to|prohibited|forbidden)|obligations? to"
    r"|(?:dut|responsibilit)(?:y|ies) to|pledges? (?:to|that)|(?:supplier|customer|contractor|client|seller|buyer|vendor|provider|licens(?:or|ee)|tenant|landlord|less(?:or|ee)"
    r"|employ(?:er|ee)|company|consultant|borrower|lender|bank|insurer|part(?:y|ies)|(?:user|member|participant|applicant|maintainer|team|committee|board|chair|secretary)s?|we|you) will"
    r"|(?:complaint|report|request|claim|application)s? will be"
)
"""What obliges somebody by name, or whoever says "we"."""
_ORDERS: Final = re.compile(r"(?:please,? )?(?:do not|don['’]t|never) \w", re.IGNORECASE)
_EXEMPT: Final = pattern(
    r"(?:shall|must|will) (?:mean|be (?:deemed|construed|governed|interpreted|understood|binding|effective)|prevail|survive|commence"
    r"|continue|expire|remain (?:in|valid|un)|come into|enter into force|take effect|become effective|apply|have the meaning)"
    r"|(?:agreement|contract|licen[cs]e|section|clause|annex|schedule|term|laws?|nothing|provision|courts?) (?:\w+ ){0,3}"
    r"(?:shall|must|will|may not)|no (?:amendment|waiver|failure|delay|variation|change)\b.{0,80}?\bshall|must have been"
)
"""Words that oblige nobody although they look like it."""

_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?"
    r"|dec(?:ember)?)\.?"
)
_YEAR: Final = r"(?:19|20)\d\d"
_DAY: Final = r"\d\d?(?:st|nd|rd|th)?"
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|tomorrow|today"
_NUMBER: Final = (
    "an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fourteen|fifteen|twenty|thirty|sixty|ninety"
)
_TIME = pattern(
    rf"(?P<date>{_YEAR}-\d\d?-\d\d?|{_YEAR}/\d\d?/\d\d?|\d\d?/\d\d?/(?:{_YEAR}|\d\d)|(?<![.])\d\d?\. ?\d\d?\. ?{_YEAR}"
    rf"|q[1-4][ /-]{{0,3}}{_YEAR}|{_DAY}(?: of)? ?-?{_MONTH}(?:,? ?-?{_YEAR})?|{_MONTH} {_DAY}(?:,? {_YEAR})?|{_MONTH},? {_YEAR})"
    rf"|(?P<period>(?:\d{{1,4}}(?:[.,]\d)?|{_NUMBER})(?: ?\(\w{{1,12}}\))?[ -](?:(?:business|working|calendar|full|further|consecutive"
    r"|clear)[ -])?(?:minute|hour|day|night|week|month|quarter|year)s?)"
    rf"|{_WEEKDAY}|{_MONTH}|{_YEAR}|\d\d?:\d\d(?: ?(?:am|pm))?|\d\d? ?(?:am|pm)|q[1-4]|(?:the )?(?:end|start) of (?:the |this |next )?"
    r"(?:day|week|month|quarter|year|term|q[1-4])|next (?:week|month|quarter|year|meeting)|eod|cob|noon|midnight|(?:year|month)[- ]end"
)
_LIMIT = pattern(
    r"(?:by|before|until|till|due|expir\w+|ends?|ending|payable|(?:not? )?(?:later|more) than|on or before|latest|last day|renews?"
    r"|terminates?|within|notice(?: period)? of|giving|in (?:less than|under)|(?:delivery|respond) in)"
    rf"(?:\W{{1,3}}(?:the|end|of|close|business|on|at|next|this|and|start|first|last|day|least|most|{_WEEKDAY}|{_MONTH}|\d\d?)){{0,6}}"
    r"\W{0,3}$"
)
"""What before a time makes it a deadline."""
_NOTICE = re.compile(
    r"['’]?\W{0,3}(?:is the last day|(?:is|are|falls) due|(?:\w+\W{1,2}){0,2}?(?:notice|before|prior to"
    r"|after|following|of (?:receipt|the (?:date|invoice|receipt|delivery|notice))|from (?:receipt|delivery|signature|invoice|enactment|the (?:date|day|time|moment|end|start))"
    r"|in advance|beforehand|net))\b",
    re.IGNORECASE,
)
"""What after a time makes it a deadline."""
_LASTING = pattern(
    r"(?:for|during|dated|over|lasts?|every|past|of|from|since|after|between)(?:\W{1,3}(?:the|a|initial|\d+))?\W{0,3}$"
)
_AFTER = re.compile(r"(?<!\w)after\W{1,3}$", re.IGNORECASE)
"""What before a period makes its end a date."""
_NOUN = pattern(
    r"(?:moved|postponed|rescheduled|extended|brought forward)\b.{0,80}?\b(?:to|until)|stays at|(?:delivery|closing|expiry|end|due) dates?"
    r"|notice periods?|periods? of notice|time limits?|payment terms?|(?:response|delivery|lead) times?"
)
_PHRASE = pattern(
    r"not? later than|at the latest|deadlines?|due dates?|on or before|net \d\d|due (?:on|by)|overdue|eod"
)
_PROMPT = pattern(
    r"as soon as possible|asap|before (?:each|every) \w+|without (?:undue )?delay|immediately|promptly|(?:first|last) (?:\w+ )?day of (?:each|every|the) \w+"
)


@lru_cache(maxsize=4096)
def asked(text: str) -> frozenset[str]:
    """Return the kinds that the words of *text*, a request or a heading, ask for."""
    return frozenset(kind for kind, words in ASKS.items() if words.search(text))


def kinds_of(unit: Unit) -> frozenset[str]:
    """Return the kinds of *unit*; none for questions, for code, and for introductions, which are quoted with their items."""
    text, headed = f"{unit.intro} {unit.text}".strip(), asked(unit.heading)
    if unit.form in ("code", "intro") or text.endswith("?"):
        return frozenset()
    found = set[str]()
    obliges = _OBLIGES.search(_EXEMPT.sub(" ", text)) or _ORDERS.match(unit.text.lstrip("*_ "))
    if ("obligation" in headed and unit.form != "sentence") or obliges:
        found.add("obligation")
    times = list(_TIME.finditer(text))
    if any(time["date"] for time in times):
        found.add("date")
    if _is_deadline(text, times, obliges="obligation" in found, headed="deadline" in headed):
        found.add("deadline")
    return frozenset(found)


def _is_deadline(text: str, times: list[re.Match[str]], *, obliges: bool, headed: bool) -> bool:
    """Return whether one of the *times* of *text* is a deadline; *headed* if its heading speaks of deadlines."""
    if _PHRASE.search(text) or (obliges and _PROMPT.search(text)):
        return True
    named = [time for time in times if time["date"] or time["period"]]
    if named and (headed or _NOUN.search(text)):
        return True
    for time in times:
        before = text[max(0, time.start() - 48) : time.start()]
        limited = (obliges and time["date"]) or (time in named and _NOTICE.match(text, time.end()))
        waits = time["period"] and _AFTER.search(before)
        if _LIMIT.search(before) or waits or (limited and not _LASTING.search(before)):
            return True
    return False
