"""
What went wrong between a client and a server, as one value; which of it another attempt may cure, and when.

The codes are those of `prompts.model.FAULT_CODES`. The words of a server are kept, one line of them, whatever JSON they stand in; what
is decided here is decided by status, type and code. What they say of the request is read in `refusals`.

Source: the error classes and retry rules of the installed SDKs, openai 3.54 and anthropic 2.12, read 2026-11.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec import Struct

from ....states.records.outcomes import Usage

MESSAGE_CHARS = 500
TLS_FAILED = "TLS failed"
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
        param: The parameters that the server names, empty without one.
        usage: What the attempt used, as far as known.
        absent: Whether nobody listens or the server says that it is not ready, as one that starts or loads its model.
        is_slip: Whether the server could not take what its model wrote, such as a call that is none: asked again it may be another.
    """

    code: str
    message: str
    again: bool = False
    wait_s: float | None = None
    status: int = 0
    param: str = ""
    usage: Usage | None = None
    absent: bool = False
    is_slip: bool = False


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
        told = "it redirects to another address, which is not followed"
    else:
        told = words_of(body) or "no details"
    message = f"HTTP {status}: {told}"
    wait = retry_after_s(headers, now_s) if again else None
    absent = again and status == 503
    return AttemptFault(
        code, message, again, wait, status, _param(body), absent=absent, is_slip=_is_slip(body)
    )


def told_fault(error: object, usage: Usage | None = None) -> AttemptFault:
    """Return what an error object within a response or a stream means; its type or code is looked at."""
    status = next((_TYPES[name] for name in _names(error) if name in _TYPES), 0)
    number = _inner(error).get("code") if isinstance(error, Mapping) else None
    if not status and type(number) is int and 400 <= number <= 599:
        status = number
    code, again = status_code(status or 500)
    message = f"the server broke off: {words_of(error) or 'no details'}"
    slip = _is_slip(error)
    return AttemptFault(code, message, again, status=status, param=_param(error), usage=usage, is_slip=slip)


def _inner(body: object) -> Mapping[str, Any]:
    """Return the object that holds what an error is: some servers put it into a list, most into the member ``error``."""
    if isinstance(body, list):
        body = next((item for item in body if isinstance(item, Mapping)), None)
    if not isinstance(body, Mapping):
        return {}
    error = body.get("error")
    return error if isinstance(error, Mapping) else body


def _names(body: object) -> list[str]:
    inner = _inner(body)
    details = inner.get("details")
    more = details.get("error_code") if isinstance(details, Mapping) else None
    return [name for name in (inner.get("code"), inner.get("type"), more) if isinstance(name, str)]


_SLIP = re.compile(r"tool_use_failed|malformed_function_call|json_validate_failed|output_parse_failed")


def _is_slip(body: object) -> bool:
    return "failed_generation" in _inner(body) or any(_SLIP.search(name.lower()) for name in _names(body))


_TOLD = (
    *("message", "msg", "error", "errors", "detail", "details", "description", "error_description"),
    *("error_message", "error_msg", "errorMessage", "Message", "title", "fieldViolations"),
    *("field_violations", "metadata", "raw", "cause"),
)
"""Members in which servers say what is wrong, the most usual first; what a request said, which some repeat, is in none of them."""
_PLACES = ("param", "loc", "field", "path", "pointer")
"""Members in which they say of what."""
_INNER_BYTES, _INNER_DEPTH = 10_000, 10


def _told(value: object, depth: int = _INNER_DEPTH) -> Iterator[str | Mapping[str, Any]]:
    """Yield what an error says, objects and texts, also in JSON within a text, as gateways pass on what they were told."""
    if isinstance(value, str):
        is_json = value.lstrip()[:1] in ("{", "[") and len(value) <= _INNER_BYTES
        found = list(_told(_decoded(value), depth - 1)) if is_json and depth else []
        yield from found
        if not any(isinstance(part, str) for part in found):
            yield value
    elif isinstance(value, list) and depth:
        for item in value[:20]:
            yield from _told(item, depth - 1)
    elif isinstance(value, Mapping) and depth:
        yield value
        for key in _TOLD:
            yield from _told(value.get(key), depth - 1)


def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _param(body: object) -> str:
    """Return the places that an error names, such as ``messages.0.role``."""
    found: list[str] = []
    for part in _told(body):
        for place in map(part.get, _PLACES) if isinstance(part, Mapping) else ():
            if isinstance(place, list) and all(isinstance(one, str | int) for one in place):
                found.append(".".join(str(one) for one in place if one != "body"))
            elif isinstance(place, str):
                found.append(place)
    return one_line(" ".join(dict.fromkeys(found)))


def words_of(body: object) -> str:
    """Return what an error body says, whatever JSON it is, as one line of bounded length; empty for nothing."""
    found: list[str] = []
    for text in _told(body):
        if isinstance(text, str) and text.strip() and not any(text in other for other in found):
            found.append(text)
    told = " ".join(found) or " ".join(_names(body))
    if not told and isinstance(body, Mapping | list) and body:
        told = json.dumps(body, ensure_ascii=False, default=str)[: 4 * MESSAGE_CHARS]
    return one_line(told)


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
