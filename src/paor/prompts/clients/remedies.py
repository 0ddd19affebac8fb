"""How a run that a server ends says so: the server, the request, its words, and what can be changed; pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from ..model import ModelCall
from .wire.faults import TLS_FAILED, AttemptFault

NO_TOOLS = "use another profile, such as two_stage, which calls no tools at the server"
_TOOLS = re.compile(r"\btools?\b|tool use|function.?calling")
_CONTEXT = re.compile(
    r"context|too long|too large|prompt is|(?:input|prompt|maximum).{0,20}tokens|exceed.{0,30}tokens"
)
_CREDIT = re.compile(r"credit|balance|billing|quota|payment")
_SCHEMA = re.compile(r"schema|grammar|response.?format|structured")
_LATER = "try again later, or raise retries"
BY_CODE = {
    "unauthorized": "set a key that is valid there, by api_key or {key}",
    "forbidden": "use a key that may use this model, or another model",
    "quota": "raise the account's credit or limit at the provider, or use another key or model",
    "rate_limited": f"{_LATER} or wait_max_s",
    "overloaded": _LATER,
    "server_error": f"{_LATER}; the server's log says more",
    "timeout": "raise timeout_s, lower max_tokens, or use a faster model",
    "unreachable": "check that the server runs, and base_url, network and proxy",
    "cut_stream": f"{_LATER}; the server's log says more",
    "bad_body": "check that base_url is that of the API, not of a page or of a proxy in front of it",
    "not_found": "check the model's name and base_url",
    "script_exhausted": "give more replies",
    "bad_request": "change or leave out what the server names",
    "unexpected": "check the installed SDK and the client that you pass",
}
"""What to do about each of `prompts.model.FAULT_CODES` that says no more."""


def next_step(
    fault: AttemptFault, call: ModelCall, *, extra: Collection[str], lacks_v1: bool, key: str
) -> str:
    """
    Return what a person can change so that the request succeeds.

    Args:
        fault: Of the last attempt.
        call: What was asked.
        extra: Names of the host's own members of the body.
        lacks_v1: Whether most servers with this API are found below a path that the address does not have.
        key: Name of the variable with the key.
    """
    words = f"{fault.param} {fault.message}".lower()
    if fault.code in ("bad_request", "not_found"):
        named = [name for name in extra if re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", words)]
        if named:
            return f"extra sends {', '.join(named)}: leave that out"
    if call.tools and fault.code in ("bad_request", "not_found", "server_error") and _TOOLS.search(words):
        return NO_TOOLS
    if fault.status in (404, 405) and lacks_v1:
        return "let base_url end in /v1, below which most compatible servers listen"
    if fault.code == "bad_request":
        if _CREDIT.search(words):
            return BY_CODE["quota"]
        if _SCHEMA.search(words):
            return 'try structured="none" or another profile'
        if fault.status == 413 or _CONTEXT.search(words):
            return "lower Limits.context_tokens to what the server takes, or give fewer documents and tools"
    if fault.code == "unreachable" and TLS_FAILED in fault.message:
        return "let base_url begin with http or https as the server speaks, or trust its certificate (SSL_CERT_FILE)"
    if 300 <= fault.status < 400:
        return "name the address that it redirects to as base_url"
    return BY_CODE[fault.code].format(key=key)


def ending(server: str, model: str, call: ModelCall, told: str, step: str, *, refused: bool) -> str:
    """Return the one sentence with which a run ends that its server does not answer."""
    what = "refused" if refused else "did not answer"
    return f"{server} {what} a request ({call.kind}) to {model}: {told.rstrip('. ')}; {step}"
