"""
The kinds of finding that English sentences hold: obligation, deadline, date.

A unit is of a kind by its own words, by the line that introduces its list, or by the heading above it. A **deadline** is a
date or period with a word beside it that makes it one ("by", "within", "notice"), a date in a sentence that obliges somebody,
or a phrase that needs no date ("no later than the handover"). No pattern repeats without a bound.
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
        r"obligations?|dut(?:y|ies)|commitments?|requirements?|must(?: do)?|obliged|required to|ha(?:s|ve) to"
    ),
    "deadline": pattern(
        r"deadlines?|due(?: dates?| by)?|(?:by|until) when|time ?(?:limit|frame|line)s?|notice periods?|(?:key|important|expiry) dates?|milestones?"
    ),
}
"""How a reader or a heading names each kind that can be listed, in the order in which an answer names them."""
_OBLIGES = pattern(
    r"shall|must|should(?! (?:the|any|an?|it|you|they|this|that|either)\b)|(?:provided|(?:up)?on (?:the )?condition) that|only if you|please \w+|(?:is|are|be|being) (?:\w+ )?(?:required|obliged|obligated|bound|committed|expected) to|(?:is|are|be) (?:\w+ )?responsible for|(?:is|are) the responsibility of"
    r"|(?:agrees?|undertakes?|commits?|promises?|warrants?)(?: itself| themselves)? (?:to|that|not to)|ha(?:s|ve) to|needs?|requires?|may (?:not|only)"
    r"|(?:is|are) (?:not (?:allowed|permitted|entitled) to|prohibited|forbidden)|obligations? to|(?:dut|responsibilit)(?:y|ies) to"
    r"|(?:supplier|customer|contractor|client|seller|buyer|vendor|provider|licens(?:or|ee)|tenant|landlord|less(?:or|ee)|employ(?:er|ee)|company"
    r"|consultant|borrower|lender|bank|insurer|part(?:y|ies)|(?:user|member|participant|applicant|maintainer|team|committee|board|chair|secretary)s?"
    r"|we|you) will|(?:complaint|report|request|claim|application)s? will be"
)
_ORDERS = re.compile(
    r"(?:(?:if|when|before|after|once|for|to|in|at|by|during|similarly|then)\b[^.;:?!]{0,120}, )?(?:(?:please|always|only|also|\w{1,12}ly),? )?(?:(?:do not|don['’]t|never) \w"
    r"|(?:accompany|add|announce|ask|attach|avoid|bring|complete|comply|confirm|consult|convey|create|delete|deliver|describe|disclose|ensure|fill|follow|give|include"
    r"|inform|insert|keep|let|make|notify|obtain|pay|prepare|provide|put|read|refrain|remove|rename|return|send|submit|tell|treat|update|use|verify|wait|write)\b(?! (?:of|is|are)\b)"
    r"|(?:change|check|contact|distribute|document|email|join|limit|move|open|place|report|review|run|search|sign|state|stop|store|test)"
    r" (?:an?|the|any|all|each|every|our|your|their|its?|them|this|that|these|those|us)\b)",
    re.IGNORECASE,
)
"""How an order begins, perhaps with its case before it: "If you move, tell us"; verbs that are nouns too need an object."""
_EXEMPT = pattern(
    r"(?:shall|must|will|should) (?:(?:not|neither) )?(?:mean|(?:\w+ )?be (?:deemed|considered|construed|liable|governed|interpreted|understood|binding|effective)|prevail|survive|commence|continue"
    r"|expire|remain (?:in|valid|un)|come into|enter into force|take effect|become effective|apply|have the meaning)|(?:agreement|contract"
    r"|licen[cs]e|section|clause|annex|schedule|term|laws?|nothing|provision|courts?) (?:\w+ ){0,3}(?:shall|must|will|may not)"
    r"|(?:that|which|not(?: \w+)?) (?:requires?|needs?)|in no event\b.{0,200}?\bshall|no (?:amendment|waiver|failure|delay|variation|change)\b.{0,80}?\bshall|must have been"
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
    rf"(?P<date>{_YEAR}[-/]\d\d?[-/]\d\d?|\d\d?/\d\d?/(?:{_YEAR}|\d\d)|(?<![.])\d\d?\. ?\d\d?\. ?{_YEAR}|q[1-4][ /-]{{0,3}}{_YEAR}"
    rf"|{_DAY}(?: of)? ?-?{_MONTH}(?:,? ?-?{_YEAR})?|{_MONTH} {_DAY}(?:,? {_YEAR})?|{_MONTH},? {_YEAR})"
    rf"|(?P<period>(?:\d{{1,4}}(?:[.,]\d)?|{_NUMBER})(?: ?\(\w{{1,12}}\))?[ -](?:(?:business|working|calendar|full|further|consecutive|clear)[ -])?"
    rf"(?:minute|hour|day|night|week|month|quarter|year)s?)|{_WEEKDAY}|{_MONTH}|{_YEAR}|\d\d?:\d\d(?: ?(?:am|pm))?|\d\d? ?(?:am|pm)|q[1-4]"
    r"|(?:the )?(?:end|start) of (?:the |this |next )?(?:day|week|month|quarter|year|term|q[1-4])|next (?:week|month|quarter|year|meeting)|noon|midnight"
)
_LIMIT = pattern(
    r"(?:by|before|until|till|due|expir\w+|ends?|ending|payable|(?:not? )?(?:later|more) than|on or before|latest|last day|renews?|terminates?|within"
    r"|notice(?: period)? of|giving|after|in (?:less than|under)|(?:delivery|respond) in)"
    rf"(?:\W{{1,3}}(?:the|end|of|close|business|on|at|next|this|and|start|first|last|day|least|most|{_WEEKDAY}|{_MONTH}|\d\d?)){{0,6}}\W{{0,3}}$"
)
"""Words before a time that make it a deadline."""
_NOTICE = re.compile(
    r"['’]?\W{0,3}(?:is the last day|(?:is|are|falls) due|(?:\w+\W{1,2}){0,2}?(?:notice|before|prior to|after|following|of (?:receipt|the (?:date|invoice"
    r"|receipt|delivery|notice))|from (?:receipt|delivery|signature|invoice|the (?:date|day|time|moment|end|start))|in advance|beforehand|net))\b",
    re.IGNORECASE,
)
"""Words after a time that make it a deadline."""
_LASTING = pattern(
    r"(?:for|during|dated|over|lasts?|every|past|of|from|since|between)(?:\W{1,3}(?:the|a|initial|\d+))?\W{0,3}$"
)
_NOUN = pattern(
    r"(?:moved|postponed|rescheduled|extended|brought forward)\b.{0,80}?\b(?:to|until)|stays at|(?:delivery|closing|expiry|end|due) dates?|notice periods?"
    r"|time limits?|payment terms?|(?:response|delivery|lead) times?"
)
_PHRASE = pattern(
    r"not? later than|at the latest|deadlines?|due dates?|net \d\d|due (?:on|by)|overdue|as soon as possible|before (?:each|every) \w+|immediately|promptly"
    r"|without (?:undue )?delay|(?:first|last) (?:\w+ )?day of (?:each|every|the) \w+"
)
"""Words that make a deadline by themselves; `_NOUN` has those that need a date or period."""


@lru_cache(maxsize=4096)
def asked(text: str) -> frozenset[str]:
    """Return the kinds that the words of *text*, a request or a heading, ask for."""
    return frozenset(kind for kind, words in ASKS.items() if words.search(text))


def kinds_of(unit: Unit) -> frozenset[str]:
    """Return the kinds of *unit*; none for questions, and for introductions, which are quoted with their items."""
    text, headed = f"{unit.intro} {unit.text}".strip(), asked(unit.heading)
    if unit.form == "intro" or text.endswith("?"):
        return frozenset()
    obliges = bool(_OBLIGES.search(_EXEMPT.sub(" ", text)) or _ORDERS.match(unit.text.lstrip("*_ ")))
    obliges = obliges or (unit.form == "item" and _ORDERS.match(unit.intro) is not None)
    obliges = obliges or ("obligation" in headed and unit.form != "sentence")
    times = list(_TIME.finditer(text))
    dated = any(time["date"] for time in times)
    named = any(time["date"] or time["period"] for time in times)
    due = _PHRASE.search(text) or (named and ("deadline" in headed or _NOUN.search(text)))
    due = due or any(_is_deadline(text, time, obliges=obliges) for time in times)
    found = {"obligation": obliges, "date": dated, "deadline": due}
    return frozenset(kind for kind, holds in found.items() if holds)


def _is_deadline(text: str, time: re.Match[str], *, obliges: bool) -> bool:
    """Return whether the words around *time* make it a deadline; a date in a sentence that *obliges* somebody is one, too."""
    before, named = text[max(0, time.start() - 48) : time.start()], time["date"] or time["period"]
    if _LIMIT.search(before):
        return True
    limited = (obliges and time["date"]) or (named and _NOTICE.match(text, time.end()))
    return bool(limited and not _LASTING.search(before))
