"""
The kinds of finding that English sentences hold: obligation, deadline, amount, action item and so on.

A unit is of a kind by its own words, by the line that introduces its list, by the heading above it ("Risks", "Action items"),
or, in a table, by the header of a filled cell ("Owner", "Due"). A **deadline** is a date or period with a word beside it
that makes it one ("by", "within", "notice"), a date in a sentence that obliges somebody, or a phrase that needs no date
("no later than the handover"). Dates are found first and only some 50 characters around each are looked at, and no
pattern repeats without a bound, so none can run away on hostile text.
"""

import re
from functools import lru_cache
from typing import Final

from .units import Unit

_ROLES: Final = (
    "(?:supplier|customer|contractor|client|seller|buyer|purchaser|vendor|provider|licensor|licensee|tenant|landlord|lessor"
    "|lessee|employer|employee|company|consultant|agency|borrower|lender|bank|insurer|party|parties|operator|subcontractor"
    "|processor|controller|user|member|participant|applicant|bidder|we|you)"
)
_WORDS: Final = {
    "obligation": r"shall|must|(?:is|are|be|being) (?:\w+ )?(?:required|obliged|obligated|bound|committed|under an?"
    r" (?:duty|obligation)) to|(?:is|are|be) (?:\w+ )?responsible for|(?:agrees?|undertakes?|covenants?|commits?|promises?"
    r"|warrants?)(?: itself| themselves)? (?:to|that|not to)|(?:has|have) to|needs? to|needs|requires?|may not|may only"
    r"|(?:is|are) not (?:allowed|permitted|entitled) to|(?:is|are) (?:prohibited|forbidden)|obligations? to|duty to"
    rf"|{_ROLES} will",
    "exempt": r"(?:shall|must|will) (?:mean|be (?:deemed|construed|governed|interpreted|understood|binding|effective)|prevail"
    r"|survive|commence|continue|expire|remain (?:in|valid|un)|come into|enter into force|take effect|become effective|apply"
    r"|have the meaning|include but)|(?:agreement|contract|licen[cs]e|section|clause|annex|schedule|term|laws?|nothing"
    r"|provision|invalidity|courts?) (?:\w+ ){0,3}(?:shall|must|will|may not)|no (?:amendment|waiver|failure|delay"
    r"|variation|change)\b.{0,80}?\bshall|must be understood|must have been|will be deemed",
    "owner": r"responsible(?: for)?|responsibility|in charge of|owner|owned by|assigned to|assignee|accountable|led by"
    r"|handled by|takes? (?:over|care of)|point of contact|contact person",
    "action": r"(?:could|can|would|will) you|please (?!note|see|find|refer|contact|visit)\w+|actions?(?: items?| points?)?"
    r"(?: \d+)?:|to-?do:?|follow[- ]?up:|next steps?:|tasks?:|(?:we|i|he|she|they)(?: will|['’]ll) (?!be\b|have\b|not\b"
    r"|remain|see\b|need\b)\w+|(?:offered|promised|volunteered) to \w+",
    "risk": r"risks?|dangers?|threats?|hazards?|vulnerab\w+|exposure|penalt(?:y|ies)|breach\w*|liquidated damages"
    r"|delays? (?:may|might|could|would)|(?:may|might|could) (?:fail|be delayed|not be|cause|lead|result|slip|lose)"
    r"|fails? to|failure to|blockers?|bottlenecks?|concern(?:s|ed)? (?:about|that)|not guaranteed|at stake|uncertain\w*"
    r"|warning|caution",
    "decision": r"decided|decisions?:?|agreed (?:that|on|to)|resolved (?:to|that)|approved|adopted|rejected|chosen"
    r"|it was agreed|unanimously|postponed|confirmed that|signed off|go ahead",
}
"""What a sentence of each kind looks like; ``exempt`` is no obligation although it has a word of one."""

_ASKS: Final = {
    "obligation": r"obligations?|dut(?:y|ies)|commitments?|requirements?|undertakings?|covenants?|must(?: do)?|obliged"
    r"|required to|have to|has to",
    "deadline": r"deadlines?|due(?: dates?| by)?|by when|until when|time ?limits?|time ?frames?|cut-?offs?(?: dates?)?|expiry"
    r" dates?|notice periods?|key dates|important dates|milestones?|time ?lines?",
    "date": r"dates?|schedules?|timing",
    "amount": r"amounts?|prices?|pricing|costs?|fees?|(?<!in )charges?|rates?|how much|sums? of money",
    "owner": r"owners?|responsib(?:le|ility|ilities)|assignees?|assigned to|accountable|in charge|who does what",
    "action": r"action (?:items?|points?)|actions?|to-?dos?(?: lists?)?|tasks?|next steps|follow-?ups?|assignments?",
    "risk": r"risks?|dangers?|threats?|hazards?|red flags?|pitfalls?|vulnerabilit(?:y|ies)",
    "decision": r"decisions?|decided|resolutions?|resolved|what was agreed|agreed on",
}
"""How a reader, a heading or a column header names each kind."""

_COLUMNS: Final = {
    "owner": r"who|name|person|assigned|lead",
    "deadline": r"by|when|until|till|eta|(?:target|delivery|end|completion|submission|closing|payment|review)(?: date)?",
    "action": r"what|activity|deliverable|action required",
    "amount": r"total|net|gross|eur|usd|chf|gbp|price.*|per month|monthly",
}
"""Whole column headers that name a kind although in a sentence the word would not."""

KINDS: Final = tuple(_ASKS)
"""Every kind, in the order in which an answer names them."""

_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY: Final = r"\d\d?(?:st|nd|rd|th)?"
_YEAR: Final = r"(?:19|20)\d\d"
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|tomorrow|tonight|today"
_NUMBER: Final = (
    r"an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fourteen|fifteen|twenty(?:-one)?|thirty"
    r"|forty-five|sixty|ninety"
)
_DATE: Final = (
    rf"{_YEAR}-\d\d?-\d\d?|{_YEAR}/\d\d?/\d\d?|\d\d?/\d\d?/(?:{_YEAR}|\d\d)|\d\d?-\d\d?-{_YEAR}"
    rf"|(?<![.])\d\d?\. ?\d\d?\. ?{_YEAR}|(?:q[1-4]|h[12])[ /-]{{0,3}}{_YEAR}|(?:cw|week) ?\d\d?(?:[ /]{{1,3}}{_YEAR})?"
    rf"|{_DAY}(?: of)? ?-?{_MONTH}(?:,? ?-?{_YEAR})?|{_MONTH} {_DAY}(?:,? {_YEAR})?|{_MONTH},? {_YEAR}"
)
_POINT: Final = (
    rf"{_WEEKDAY}|{_MONTH}|{_YEAR}|\d\d?:\d\d(?: ?(?:am|pm))?|\d\d? ?(?:am|pm)|q[1-4]|(?:the )?(?:end|beginning|middle|start) of"
    r" (?:the |this |next )?(?:day|week|month|quarter|year|term|q[1-4])|next (?:week|month|quarter|year|meeting|session)"
    r"|eod|eow|cob|(?:the )?close of business|noon|midnight|(?:year|month)[- ]end|easter|christmas"
)
_PERIOD: Final = (
    rf"(?:\d{{1,4}}(?:[.,]\d)?|{_NUMBER})(?: ?\(\w{{1,12}}\))?[ -](?:(?:business|working|calendar|full|further|additional"
    r"|consecutive|more|clear)[ -])?(?:minute|hour|day|night|week|month|quarter|year)s?"
)
_FILLERS: Final = (
    rf"(?:\W{{1,3}}(?:the|end|of|close|business|on|no|later|than|at|latest|next|this|coming|about|and|including|early|mid|late"
    rf"|start|beginning|middle|first|last|day|or|before|in|{_WEEKDAY}|{_MONTH}|\d\d?)){{0,6}}\W{{0,3}}$"
)
_UNTIL: Final = (
    r"(?:by|before|until|till|due|deadlines?|expir\w+|ends?|ending|closing|valid (?:until|through|to)|through|payable|submitted"
    r"|no(?:t)? later than|on or before|latest|up to|last day|closes|renews?|term(?:inates?|ination))"
)


def _compiled(pattern: str, *, close: bool = True) -> re.Pattern[str]:
    """Compile *pattern* between word borders, without regard to case; the last border only if *close*."""
    return re.compile(rf"(?<!\w)(?:{pattern})" + (r"(?!\w)" if close else ""), re.IGNORECASE)


_SAYS: Final = {kind: _compiled(pattern) for kind, pattern in _WORDS.items()}
ASKS: Final = {kind: _compiled(pattern) for kind, pattern in _ASKS.items()}
"""The pattern that asks for each kind."""
_DATES, _POINTS, _PERIODS = _compiled(_DATE), _compiled(_POINT), _compiled(_PERIOD)
_BEFORE_DATE = _compiled(_UNTIL + _FILLERS, close=False)
_AFTER_DATE = _compiled(
    r"\W{0,3}(?:at the latest|latest|is the (?:deadline|last day)|deadline|(?:is|are|falls) due)"
)
_BEFORE_PERIOD = _compiled(
    r"(?:within|no(?:t)? (?:later|more) than|at the latest|deadline|notice (?:period )?of|period of notice|by giving"
    r"|in (?:less than|under)|net|(?:delivery|due|respond) in)(?:\W{1,3}\w+){0,2}?\W{0,3}$",
    close=False,
)
_AFTER_PERIOD = re.compile(
    r"['’]?\W{0,3}(?:\w+\W{1,2}){0,2}?(?:(?:written |prior |advance |of ){0,2}notice|before|prior to|after|following"
    r"|of receipt|from (?:(?:receipt|delivery|signature|invoice)|the (?:date|day)|(?:the )?\w+ date)|in advance|ahead"
    r"|of the (?:date|invoice|receipt|delivery|notice)|net|beforehand|deadline|at the latest)",
    re.IGNORECASE,
)
_LASTING = _compiled(
    r"(?:for|during|dated|over|lasts?|every|past|previous|of|from|since|after|between)(?:\W{1,3}(?:the|a|initial|\d+))?\W{0,3}$",
    close=False,
)
_DUE_NOUN = _compiled(
    r"(?:moved|postponed|rescheduled|deferred|brought forward|extended)\b.{0,80}?\b(?:to|until)|stays at|(?:delivery|closing"
    r"|expiry|end|target|due) dates?|notice periods?|periods? of notice|deadlines?|time limits?|cut-off|payment terms?"
    r"|(?:response|delivery|lead) times?"
)
_DUE_PHRASE = _compiled(
    r"no(?:t)? later than|at the latest|deadline|due dates?|on or before|net \d\d|due (?:on|by)|overdue|eod"
)
_PROMPT = _compiled(
    r"as soon as possible|asap|without (?:undue )?delay|immediately|promptly|forthwith|(?:first|last|\d\d?(?:st|nd|rd|th))"
    r" (?:\w+ )?day of (?:each|every|the) \w+"
)
_ACTOR = re.compile(
    r"\b(?!(?:The|This|It|There|That|You|These|Those) )[A-Z][\w'’-]+(?: (?:[A-Z][\w'’.-]+|and|&)){0,3} (?:will|is to|are to|has to"
    r"|needs to|agreed to|offered to|promised to|takes over|takes care of) (?!be\b|have\b|not\b|remain\b|become\b|apply\b|include\b"
    r"|contain\b|expire\b|mean\b)[a-z]+|(?:^|[:;] )(?!(?:Subject|Access|Write|Talk|Refer|Apply|Reply|Send|Respond|Listen|Due"
    r"|According|Prior|Pursuant|Introduction|Thanks|Welcome|Back|Up|How|Next|Return|Go|Want|Need|As|In|Used|Able|The) )"
    r"(?:[A-Z][\w'’.-]+ (?:and |& )?){1,3}to (?!(?:the|an?|th[ai]t|this|these|those|our|your|their|his|her|its|all|any|be|each)\b)[a-z]+"
)
"""A named person who does something: what an action item looks like. Case counts here."""
_PASSIVE = _compiled(
    r"(?:shall|must|may|will|is to|are to|ha(?:s|ve) to)(?: not| only)? be (?!responsible|liable|entitled|obliged|able)\w+"
    r"(?:ed|en|t|d)\b(?! by)"
)
_AMOUNT = re.compile(
    r"(?:€|\$|£|¥|eur|euros?|usd|dollars?|gbp|pounds?|chf|francs?|jpy|yen)\.? ?\d|\d[\d.,'’]{0,14}(?: (?:million|thousand))?"
    r" ?[-–]? ?(?:€|\$|£|¥|(?:eur|euros?|usd|dollars?|gbp|pounds?|chf|francs?|jpy|yen)(?!\w))"
    r"|\d ?(?:%|per ?cent) (?:p\.a\.|per|a year|of the|off|discount|interest)",
    re.IGNORECASE,
)
_FACTS = re.compile(rf"\d+(?:[.,:]\d+)*|(?<!\w)(?:{_MONTH}|{_WEEKDAY}|{_NUMBER})(?!\w)", re.IGNORECASE)
_EMPTY: Final = frozenset({"", "n/a", "na", "none", "tbd", "tba", "?", "x", "open"})


@lru_cache(maxsize=4096)
def asked(text: str) -> frozenset[str]:
    """Return the kinds that the words of *text*, a request, a heading or a column header, ask for."""
    return frozenset(kind for kind in KINDS if ASKS[kind].search(text))


def facts(text: str) -> frozenset[str]:
    """Return the numbers, months and weekdays of *text*: where two like sentences differ in these, both are needed."""
    found = (match.lower() for match in _FACTS.findall(text))
    return frozenset(fact if fact[0].isdigit() else fact[:3] for fact in found if fact not in ("a", "an"))


def kinds_of(unit: Unit) -> frozenset[str]:
    """Return the kinds of *unit*; none for questions, for code, and for introductions, which are quoted with their items."""
    values = "; ".join(value for _, value in unit.cells) or unit.text
    words = f"{unit.intro} {values}" if unit.intro else values
    found = {kind for kind, pattern in _SAYS.items() if pattern.search(words)}
    if unit.form in ("code", "intro") or (words.endswith("?") and "action" not in found):
        return frozenset()
    headed = asked(unit.heading) if unit.heading else frozenset[str]()
    found |= headed & (
        {"risk", "decision"}
        if unit.form == "sentence"
        else {"obligation", "action", "owner", "risk", "decision"}
    )
    if "exempt" in found and not _SAYS["obligation"].search(_SAYS["exempt"].sub(" ", words)):
        found.discard("obligation")
    if unit.form == "task" or (not unit.cells and _ACTOR.search(words)):
        found.add("action")
    if "action" in found:
        found.add("owner")
    if _AMOUNT.search(words):
        found.add("amount")
    found |= _times(words, obliges=bool(found & {"obligation", "action"}), headed="deadline" in headed)
    found |= {kind for header, value in unit.cells for kind in _column(header, value)}
    return frozenset(found - {"exempt"})


def obligation_at(text: str) -> int:
    """Return where in *text* the words begin that oblige somebody, or 0 if there are none."""
    match = _SAYS["obligation"].search(text)
    return match.start() if match else 0


def is_passive(text: str) -> bool:
    """Return whether *text* obliges without saying whom: "invoices must be paid"."""
    return _PASSIVE.search(text) is not None


def _times(text: str, *, obliges: bool, headed: bool) -> set[str]:
    """Return which of ``date`` and ``deadline`` *text* is; *headed* if its heading speaks of deadlines."""
    dates, periods = list(_DATES.finditer(text)), list(_PERIODS.finditer(text))
    due = (
        _DUE_PHRASE.search(text) is not None
        or bool((dates or periods) and (headed or _DUE_NOUN.search(text)))
        or any(_is_due(text, match) for match in (*dates, *_POINTS.finditer(text)))
        or any(_is_limit(text, match) for match in periods)
        or (
            obliges
            and (
                bool(_PROMPT.search(text))
                or any(not _LASTING.search(_around(text, date)[0]) for date in dates)
            )
        )
    )
    return ({"date"} if dates else set()) | ({"deadline"} if due else set())


def _is_due(text: str, match: re.Match[str]) -> bool:
    """Return whether a word right beside the date at *match* makes it a deadline: "by", "is due"."""
    before, after = _around(text, match)
    return bool(_BEFORE_DATE.search(before) or _AFTER_DATE.match(after))


def _is_limit(text: str, match: re.Match[str]) -> bool:
    """Return whether a word right beside the period at *match* makes it a deadline: "within", "notice"."""
    before, after = _around(text, match)
    return bool(_BEFORE_PERIOD.search(before) or (_AFTER_PERIOD.match(after) and not _LASTING.search(before)))


def _around(text: str, match: re.Match[str]) -> tuple[str, str]:
    """Return some characters before and after *match*."""
    return text[max(0, match.start() - 48) : match.start()], text[match.end() : match.end() + 48]


@lru_cache(maxsize=4096)
def _column(header: str, value: str) -> frozenset[str]:
    """Return the kinds that a table's cell *value* has by the *header* of its column."""
    header = header.replace("_", " ")
    if not value.strip("-–— ") or value.lower() in _EMPTY:
        return frozenset()
    whole = {kind for kind, words in _COLUMNS.items() if re.fullmatch(words, header, re.IGNORECASE)}
    digit = any(map(str.isdigit, value))
    fits = {"amount": digit, "date": digit, "deadline": digit or len(value) <= 40}
    return frozenset(kind for kind in asked(header) | whole if fits.get(kind, True))
