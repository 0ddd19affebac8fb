"""
What went wrong between a client and a server, as one value; which of it another attempt may cure, and when.

The codes are those of `prompts.model.FAULT_CODES`. The words of a server are kept, one line of them; what is decided is
decided by status, type and code, never by wording, but for servers that refuse a parameter that they do not know.

Source: the error classes and retry rules of the installed SDKs, openai 3.54 and anthropic 2.12, read 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec import Struct

from ....states.records.outcomes import Usage

MESSAGE_CHARS = 500
WAIT_CEILING_S = 1e9
BACKOFF_FIRST_S, BACKOFF_MAX_S, JITTER = 0.5, 8.0, 0.25
"""The SDKs' own back-off: doubling from half a second to eight, up to a quarter less by chance."""


class AttemptFault(Struct, frozen=True):
    """
    Why an attempt came to nothing.

    Attributes:
        code: See `prompts.model.FAULT_CODES`.
        message: One line; may hold what a server said.
        again: Whether another attempt may succeed.
        wait_s: Seconds that the server asks to wait, None if it does not say.
        status: HTTP status, 0 without one.
        param: The parameter that the server names, empty without one.
        usage: What the attempt used, as far as known.
        absent: Whether nobody listens or the server says that it is not ready, as one that starts or loads its model.
    """

    code: str
    message: str
    again: bool = False
    wait_s: float | None = None
    status: int = 0
    param: str = ""
    usage: Usage | None = None
    absent: bool = False


_STATUS = {
    401: ("unauthorized", False),
    402: ("quota", False),
    403: ("forbidden", False),
    404: ("not_found", False),
    408: ("timeout", True),
    409: ("server_error", True),
    425: ("overloaded", True),
    429: ("rate_limited", True),
    501: ("bad_request", False),
    503: ("overloaded", True),
    529: ("overloaded", True),
}
_NAMED = {
    400: ("invalid_request_error", "invalid_prompt"),
    401: ("authentication_error", "invalid_api_key"),
    402: ("billing_error", "insufficient_quota"),
    403: ("permission_error",),
    404: ("not_found_error", "model_not_found"),
    408: ("timeout_error",),
    413: ("request_too_large",),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    500: ("api_error", "server_error", "internal_error", "internal_server_error"),
    529: ("overloaded_error", "slow_down"),
}
_TYPES = {name: status for status, names in _NAMED.items() for name in names}
_SPENT = re.compile(r"insufficient_quota|billing|spend_limit|credit_balance|hard_limit")
"""Codes of a 429 that no waiting cures."""


def status_code(status: int) -> tuple[str, bool]:
    """Return the code of an HTTP status that is no success, and whether another attempt may cure it."""
    if status in _STATUS:
        return _STATUS[status]
    if 300 <= status < 400:
        return "unreachable", False
    return ("server_error", True) if status >= 500 else ("bad_request", False)


def status_fault(status: int, body: object, headers: Mapping[str, str], now_s: float) -> AttemptFault:
    """
    Return what a response with an error status means.

    Args:
        status: The HTTP status.
        body: Its body, as JSON where it is that, else as text.
        headers: Names in lower case.
        now_s: Seconds since the epoch, for dates.
    """
    code, again = status_code(status)
    names = " ".join(_names(body))
    if status == 429 and _SPENT.search(names):
        code, again = "quota", False
    should = headers.get("x-should-retry")
    if should in ("true", "false"):
        again = should == "true"
    if 300 <= status < 400:
        told = "the server redirects to another address, which is not followed; name that one as base_url"
    else:
        told = words_of(body) or "no details"
    message = f"HTTP {status}: {told}"
    wait = retry_after_s(headers, now_s) if again else None
    return AttemptFault(code, message, again, wait, status, _param(body), absent=again and status == 503)


def told_fault(error: object, usage: Usage | None = None) -> AttemptFault:
    """Return what an error object within a response or a stream means; its type or code is looked at."""
    status = next((_TYPES[name] for name in _names(error) if name in _TYPES), 0)
    number = _inner(error).get("code") if isinstance(error, Mapping) else None
    if not status and type(number) is int and 400 <= number <= 599:
        status = number
    code, again = status_code(status or 500)
    message = f"the server broke off: {words_of(error) or 'no details'}"
    return AttemptFault(code, message, again, status=status, param=_param(error), usage=usage)


def _inner(body: object) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        return {}
    error = body.get("error")
    return error if isinstance(error, Mapping) else body


def _names(body: object) -> list[str]:
    inner = _inner(body)
    details = inner.get("details")
    more = details.get("error_code") if isinstance(details, Mapping) else None
    return [name for name in (inner.get("code"), inner.get("type"), more) if isinstance(name, str)]


def _param(body: object) -> str:
    param = _inner(body).get("param")
    return param if isinstance(param, str) else ""


def words_of(body: object) -> str:
    """Return what an error body says, as one line of bounded length; empty for nothing."""
    if isinstance(body, Mapping):
        inner = _inner(body)
        found = (inner.get("message"), body.get("error"), body.get("message"), body.get("detail"))
        text = next((item for item in found if isinstance(item, str) and item.strip()), "")
        text = text or " ".join(_names(body))
    else:
        text = body if isinstance(body, str) else ""
    return one_line(text)


def one_line(text: str) -> str:
    """Return *text* as one line without control characters, cut to `MESSAGE_CHARS`."""
    shown = "".join(char if char.isprintable() else " " for char in text[: 4 * MESSAGE_CHARS])
    line = " ".join(shown.split())
    return line if len(line) <= MESSAGE_CHARS else line[: MESSAGE_CHARS - 1] + "…"


# -- when to try again -------------------------------------------------------------------------------------------

_SECONDS = re.compile(r"\s*(\d+(?:\.\d+)?)\s*")


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """
    Return how many seconds a server asks to wait, None if it does not say so in a form that can be read.

    Forms: ``retry-after-ms``, and ``retry-after`` in seconds or as a date; a date that is past means at once.
    """
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        match = _SECONDS.fullmatch(headers.get(name, "")[:400])
        if match is not None:
            return min(float(match[1]) / divisor, WAIT_CEILING_S)
    try:
        date = parsedate_to_datetime(headers.get("retry-after", "")[:100])
        return min(max(0.0, date.timestamp() - now_s), WAIT_CEILING_S)
    except (TypeError, ValueError, OverflowError):
        return None


def backoff_s(attempt: int, jitter: float) -> float:
    """Return the seconds to wait after the *attempt*-th attempt, from 1; *jitter* from 0 to 1 makes it shorter."""
    whole: float = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(attempt - 1, 10))
    return whole * (1 - JITTER * jitter)


# -- what a server lacks -----------------------------------------------------------------------------------------

_UNSUPPORTED = re.compile(
    r"unsupported|not support|n't support|unknown|unrecogni[sz]ed|unexpected|not permitted|extra (?:inputs|fields)|"
    r"not allowed|not implemented|not available|unavailable|not enabled|use '?max_"
)
_WRONG_SCHEMA = re.compile(r"invalid (?:json )?schema|schema (?:error|conversion)|(?:parse|compile) grammar")
"""How servers say that it is this schema which they do not take; some of them with status 500."""
_FEATURES = (
    ("stream_options", r"stream_options|include_usage"),
    ("include", r"\binclude\b|encrypted.content"),
    ("cache", r"cache_control|prompt_cache"),
    ("tool_choice", r"tool_choice"),
    ("parts", r"reasoning_content|annotations|\bmessages[.\[]|\binput[.\[]"),
    ("max_completion_tokens", r"max_completion_tokens"),
    ("max_tokens", r"max_tokens"),
    ("temperature", r"temperature"),
    ("effort", r"effort|reasoning"),
    ("store", r"\bstore\b"),
    ("structure", r"response_format|json_object|text\.format|output_config|output_format|grammar|schema"),
)
"""What can be left out of a request, and how servers call it."""
_NOT_THEIRS = re.compile(r"\A(?=.*?(?:signature|encrypted))(?=.*?(?:invalid|verif|decrypt))", re.DOTALL)
"""How providers say that a turn which is sent back is of another account, or of a key that is no more."""


def lacking(fault: AttemptFault, sent: Iterable[str]) -> tuple[str, bool] | None:
    """
    Return which feature of a request a server refused, and whether in every request; None if it was none.

    A schema that the server calls wrong is refused for itself; whatever it says it does not support, for all. Patterns are
    what servers most often cannot take of a schema: they go before the schema does.

    Args:
        fault: Of the attempt.
        sent: Features that were in the request.
    """
    if fault.status not in (400, 404, 405, 415, 422, 500, 501):
        return None
    words = f"{fault.param} {fault.message}".lower()
    unsupported, wrong = _UNSUPPORTED.search(words) is not None, _WRONG_SCHEMA.search(words) is not None
    if not (unsupported or wrong) and fault.status not in (400, 422):
        return None
    there = frozenset(sent)
    if wrong and "pattern" in there:
        return "pattern", True
    if "parts" in there and _NOT_THEIRS.search(words):
        return "parts", False
    for name, pattern in _FEATURES:
        named = re.search(pattern, words) is not None
        if name in there and named and (unsupported or name == "structure"):
            return name, unsupported and not wrong
    return None
