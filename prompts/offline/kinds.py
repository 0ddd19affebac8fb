"""
The kinds of finding that English sentences hold: obligation, deadline, date, amount, action item, owner, risk, decision.

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


def pattern(alternatives: str) -> re.Pattern[str]:
    """Compile *alternatives* between word borders, without regard to case."""
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)


_SAYS: Final = {
    "obligation": pattern(
        r"shall|must|(?:is|are|be|being) (?:\w+ )?(?:required|obliged|obligated|bound|committed) to|(?:is|are|be) (?:\w+ )?responsible for"
        r"|(?:agrees?|undertakes?|covenants?|commits?|promises?|warrants?)(?: itself| themselves)? (?:to|that|not to)|ha(?:s|ve) to"
        r"|needs?|requires?|may (?:not|only)|(?:is|are) (?:not (?:allowed|permitted|entitled) to|prohibited|forbidden)|obligations? to"
        r"|duty to|(?:supplier|customer|contractor|client|seller|buyer|vendor|provider|licens(?:or|ee)|tenant|landlord|less(?:or|ee)"
        r"|employ(?:er|ee)|company|consultant|borrower|lender|bank|insurer|part(?:y|ies)|user|member|participant|applicant|we|you) will"
    ),
    "exempt": pattern(
        r"(?:shall|must|will) (?:mean|be (?:deemed|construed|governed|interpreted|understood|binding|effective)|prevail|survive|commence"
        r"|continue|expire|remain (?:in|valid|un)|come into|enter into force|take effect|become effective|apply|have the meaning)"
        r"|(?:agreement|contract|licen[cs]e|section|clause|annex|schedule|term|laws?|nothing|provision|courts?) (?:\w+ ){0,3}"
        r"(?:shall|must|will|may not)|no (?:amendment|waiver|failure|delay|variation|change)\b.{0,80}?\bshall|must have been"
    ),
    "owner": pattern(
        r"responsible|responsibility|in charge of|owne[rd](?: by)?|assigned to|accountable|led by|handled by|contact person"
    ),
    "action": pattern(
        r"(?:could|can|would|will) you|please (?!note|see|find|refer|visit)\w+|actions?(?: items?| points?)?(?: \d+)?:|to-?do:?|tasks?:"
        r"|(?:we|i|he|she|they)(?: will|['’]ll) (?!be\b|have\b|not\b)\w+|(?:offered|promised|volunteered) to \w+"
    ),
    "risk": pattern(
        r"risks?|dangers?|threats?|hazards?|vulnerab\w+|penalt(?:y|ies)|breach\w*|(?:may|might|could) (?:fail|be delayed|cause|lead|result"
        r"|slip|lose)|fails? to|failure to|concern(?:s|ed)? (?:about|that)|at stake|uncertain\w*|warning"
    ),
    "decision": pattern(
        r"decided|decisions?:?|agreed (?:that|on|to)|resolved (?:to|that)|approved|adopted|rejected|postponed|signed off"
    ),
    "amount": re.compile(
        r"(?:[€$£¥]|\b(?:eur|euros?|usd|gbp|chf|jpy)\b)\.? ?\d|\d[\d.,'’]{0,14}(?: (?:million|thousand))? ?-? ?(?:[€$£¥]|(?:eur|euros?|usd"
        r"|dollars?|gbp|pounds?|chf|francs?|jpy|yen)\b)|\d ?(?:%|per ?cent) (?:p\.a\.|per|a year|of the|off|discount|interest)",
        re.IGNORECASE,
    ),
}
"""What a sentence of each kind looks like; ``exempt`` is no obligation although it has a word of one."""

ASKS: Final = {
    "obligation": pattern(
        r"obligations?|dut(?:y|ies)|commitments?|requirements?|undertakings?|must(?: do)?|obliged|required to|ha(?:s|ve) to"
    ),
    "deadline": pattern(
        r"deadlines?|due(?: dates?| by)?|(?:by|until) when|time ?(?:limit|frame|line)s?|cut-?offs?|notice periods?|(?:key|important|expiry)"
        r" dates?|milestones?"
    ),
    "date": pattern(r"dates?|schedules?|timing"),
    "amount": pattern(r"amounts?|prices?|pricing|costs?|fees?|(?<!in )charges?|rates?|how much"),
    "owner": pattern(
        r"owners?|responsib(?:le|ility|ilities)|assignees?|assigned to|accountable|in charge|who does what"
    ),
    "action": pattern(
        r"action (?:items?|points?)|actions?|to-?dos?(?: lists?)?|tasks?|next steps|follow-?ups?"
    ),
    "risk": pattern(r"risks?|dangers?|threats?|hazards?|red flags?|pitfalls?"),
    "decision": pattern(r"decisions?|decided|resolutions?|resolved|what was agreed|agreed on"),
}
"""How a reader, a heading or a column header names each kind."""
KINDS: Final = tuple(ASKS)
"""Every kind, in the order in which an answer names them."""
_COLUMNS: Final = {
    "owner": "who|name|person|assigned|lead",
    "deadline": r"by|when|until|till|eta|(?:target|delivery|end|completion|submission|payment|review)(?: date)?",
    "action": "what|activity|deliverable",
    "amount": "total|net|gross|eur|usd|chf|gbp|price.*|per month|monthly",
}
"""Whole column headers that name a kind although in a sentence the word would not."""

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
_DATE = pattern(
    rf"{_YEAR}-\d\d?-\d\d?|{_YEAR}/\d\d?/\d\d?|\d\d?/\d\d?/(?:{_YEAR}|\d\d)|(?<![.])\d\d?\. ?\d\d?\. ?{_YEAR}|q[1-4][ /-]{{0,3}}{_YEAR}"
    rf"|{_DAY}(?: of)? ?-?{_MONTH}(?:,? ?-?{_YEAR})?|{_MONTH} {_DAY}(?:,? {_YEAR})?|{_MONTH},? {_YEAR}"
)
_POINT = pattern(
    rf"{_WEEKDAY}|{_MONTH}|{_YEAR}|\d\d?:\d\d(?: ?(?:am|pm))?|\d\d? ?(?:am|pm)|q[1-4]|(?:the )?(?:end|start) of (?:the |this |next )?"
    r"(?:day|week|month|quarter|year|term|q[1-4])|next (?:week|month|quarter|year|meeting)|eod|cob|noon|midnight|(?:year|month)[- ]end"
)
_PERIOD = pattern(
    rf"(?:\d{{1,4}}(?:[.,]\d)?|{_NUMBER})(?: ?\(\w{{1,12}}\))?[ -](?:(?:business|working|calendar|full|further|consecutive|clear)[ -])?"
    r"(?:minute|hour|day|night|week|month|quarter|year)s?"
)
_UNTIL = re.compile(
    r"\b(?:by|before|until|till|due|deadlines?|expir\w+|ends?|ending|through|payable|not? later than|on or before|latest|up to|last day"
    rf"|renews?|terminates?)(?:\W{{1,3}}(?:the|end|of|close|business|on|no|later|than|at|next|this|and|start|first|last|day|{_WEEKDAY}"
    rf"|{_MONTH}|\d\d?)){{0,6}}\W{{0,3}}$",
    re.IGNORECASE,
)
_OVERDUE = re.compile(
    r"\W{0,3}(?:at the latest|is the (?:deadline|last day)|(?:is|are|falls) due)\b", re.IGNORECASE
)
_WITHIN = re.compile(
    r"\b(?:within|not? (?:later|more) than|notice (?:period )?of|by giving|in (?:less than|under)|net|(?:delivery|due|respond) in)"
    r"(?:\W{1,3}\w+){0,2}?\W{0,3}$",
    re.IGNORECASE,
)
_NOTICE = re.compile(
    r"['’]?\W{0,3}(?:\w+\W{1,2}){0,2}?(?:notice|before|prior to|after|following|of (?:receipt|the (?:date|invoice|receipt|delivery|notice))"
    r"|from (?:receipt|delivery|signature|invoice|the (?:date|day))|in advance|beforehand|net|at the latest)",
    re.IGNORECASE,
)
_LASTING = re.compile(
    r"\b(?:for|during|dated|over|lasts?|every|past|of|from|since|after|between)(?:\W{1,3}(?:the|a|initial|\d+))?\W{0,3}$",
    re.IGNORECASE,
)
_NOUN = pattern(
    r"(?:moved|postponed|rescheduled|extended|brought forward)\b.{0,80}?\b(?:to|until)|stays at|(?:delivery|closing|expiry|end|due) dates?"
    r"|notice periods?|periods? of notice|deadlines?|time limits?|payment terms?|(?:response|delivery|lead) times?"
)
_PHRASE = pattern(
    r"not? later than|at the latest|deadline|due dates?|on or before|net \d\d|due (?:on|by)|overdue|eod"
)
_PROMPT = pattern(
    r"as soon as possible|asap|without (?:undue )?delay|immediately|promptly|(?:first|last) (?:\w+ )?day of (?:each|every|the) \w+"
)
_ACTOR = re.compile(
    r"\b(?!(?:The|This|It|There|That|You|These|Those) )[A-Z][\w'’-]+(?: (?:[A-Z][\w'’.-]+|and|&)){0,3} (?:will|is to|has to|needs to|agreed to"
    r"|offered to|promised to|takes over) (?!be\b|have\b|not\b|remain\b|apply\b|include\b|mean\b)[a-z]+|(?:^|[:;] )(?!(?:As|Due|How|In|Next"
    r"|According|Prior|Subject|Thanks|The|Used|Write|Refer|Send|Up) )(?:[A-Z][\w'’.-]+ (?:and )?){1,3}to (?!(?:the|an?|be|this|our|your)\b)[a-z]+"
)
"""A named person who does something: what an action item looks like. Case counts here."""
_FACT = re.compile(rf"\d+(?:[.,:]\d+)*|(?<!\w)(?:{_MONTH}|{_WEEKDAY}|{_NUMBER})(?!\w)", re.IGNORECASE)


@lru_cache(maxsize=4096)
def asked(text: str) -> frozenset[str]:
    """Return the kinds that the words of *text*, a request, a heading or a column header, ask for."""
    return frozenset(kind for kind, words in ASKS.items() if words.search(text))


def facts(text: str) -> frozenset[str]:
    """Return the numbers, months and weekdays of *text*: where two like sentences differ in these, both are needed."""
    found = (match.lower() for match in _FACT.findall(text))
    return frozenset(fact if fact[0].isdigit() else fact[:3] for fact in found if fact not in ("a", "an"))


def obligation_at(text: str) -> int:
    """Return where in *text* the words begin that oblige somebody, or 0 if there are none."""
    match = _SAYS["obligation"].search(text)
    return match.start() if match else 0


def kinds_of(unit: Unit) -> frozenset[str]:
    """Return the kinds of *unit*; none for questions, for code, and for introductions, which are quoted with their items."""
    text = f"{unit.intro} {'; '.join(value for _, value in unit.cells) or unit.text}".strip()
    found = {kind for kind, words in _SAYS.items() if words.search(text)}
    if unit.form in ("code", "intro") or (text.endswith("?") and "action" not in found):
        return frozenset()
    headed = asked(unit.heading)
    found |= headed & (
        {"risk", "decision"} | ({"obligation", "action", "owner"} if unit.form != "sentence" else set())
    )
    if "exempt" in found and not _SAYS["obligation"].search(_SAYS["exempt"].sub(" ", text)):
        found.discard("obligation")
    if unit.form == "task" or (not unit.cells and _ACTOR.search(text)):
        found.add("action")
    if "action" in found:
        found.add("owner")
    found |= {kind for header, value in unit.cells for kind in _column(header.replace("_", " "), value)}
    dates = list(_DATE.finditer(text))
    if dates:
        found.add("date")
    if _is_deadline(text, dates, obliges=bool(found & {"obligation", "action"}), headed="deadline" in headed):
        found.add("deadline")
    return frozenset(found - {"exempt"})


def _is_deadline(text: str, dates: list[re.Match[str]], *, obliges: bool, headed: bool) -> bool:
    """Return whether one of the *dates* or a period of *text* is a deadline; *headed* if its heading speaks of deadlines."""
    periods = list(_PERIOD.finditer(text))
    if (
        _PHRASE.search(text)
        or ((dates or periods) and (headed or _NOUN.search(text)))
        or (obliges and _PROMPT.search(text))
    ):
        return True
    for match in (*dates, *_POINT.finditer(text)):
        if _UNTIL.search(_before(text, match)) or _OVERDUE.match(text, match.end()):
            return True
    for match in periods:
        if _WITHIN.search(_before(text, match)):
            return True
        if _NOTICE.match(text, match.end()) and not _LASTING.search(_before(text, match)):
            return True
    return obliges and any(not _LASTING.search(_before(text, date)) for date in dates)


def _before(text: str, match: re.Match[str]) -> str:
    """Return some characters before *match*."""
    return text[max(0, match.start() - 48) : match.start()]


@lru_cache(maxsize=4096)
def _column(header: str, value: str) -> frozenset[str]:
    """Return the kinds that a table's cell *value* has by the *header* of its column; none if the cell is as good as empty."""
    if not value.strip("-–— ?") or value.lower() in ("n/a", "none", "tbd", "x", "open"):
        return frozenset()
    whole = {kind for kind, words in _COLUMNS.items() if re.fullmatch(words, header, re.IGNORECASE)}
    digit = any(map(str.isdigit, value))
    fits = {"amount": digit, "date": digit, "deadline": digit or len(value) <= 40}
    return frozenset(kind for kind in asked(header) | whole if fits.get(kind, True))
