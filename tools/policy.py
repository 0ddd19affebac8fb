"""
What a run may do: the tool policy and the safety of argument values. Pure; decided before any intent row.

Order (SPEC D21): deny wins, then the task type's list, then `Policy.allow`, then the run's own tools list (which
is the catalog). A tool that is offered is not thereby permitted: the check is made again before each execution.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from ..states.policy import Policy
from .catalog import folded

_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):")
_SCHEMES_WITHOUT_HOST = frozenset({"javascript", "data", "file", "vbscript"})
_URL_NAMES = frozenset({"url", "urls", "uri", "uris", "href", "link", "endpoint"})
_PATH_NAMES = frozenset(
    {"path", "paths", "file", "files", "filename", "filepath", "dir", "directory", "folder"}
)


@lru_cache(maxsize=4096)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in folded_pattern(pattern).split("*")) + r"\Z")


def folded_pattern(pattern: str) -> str:
    """Return *pattern* in the spelling of `folded`, with its stars kept."""
    return "*".join(folded(part) if part else "" for part in pattern.split("*"))


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether the tool *name*, in any spelling, fits one of *patterns*."""
    if not patterns:
        return False
    key = folded(name)
    return any(_pattern(pattern).match(key) for pattern in patterns)


def denial(policy: Policy, task_type: str | None, tool: str) -> str | None:
    """Return why *tool* may not be used, in one line, or None when it may."""
    if matches(tool, policy.deny):
        return f"{tool} is denied by policy"
    if (
        task_type is not None
        and task_type in policy.task_types
        and not matches(tool, policy.task_types[task_type])
    ):
        return f"{tool} is not allowed for task type {task_type}"
    if policy.allow and not matches(tool, policy.allow):
        return f"{tool} is not among the allowed tools"
    return None


def approval_needed(policy: Policy, tool: str) -> bool:
    """Return whether a person must approve each call of *tool*."""
    return bool(policy.approvals) and matches(tool, policy.approvals)


def unsafe(policy: Policy, arguments: Mapping[str, Any]) -> str | None:
    """
    Return the first argument value that must not reach a tool, with the reason, or None.

    Looks at every string at any depth: dangerous schemes anywhere; in arguments named like a URL or a path also
    private hosts, user info, and paths that climb (SPEC A092).
    """
    for name, value in _strings(arguments, ""):
        reason = _unsafe_text(policy, name.rsplit(".", 1)[-1].lower(), value)
        if reason is not None:
            return f"argument {name or 'value'}: {reason}"
    return None


def _strings(value: Any, name: str) -> Iterable[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item, name)


def _unsafe_text(policy: Policy, name: str, text: str) -> str | None:
    if "\0" in text:
        return "holds a NUL character"
    found = _URL.match(text)
    if found is None:
        if name in _PATH_NAMES and ".." in re.split(r"[/\\]", text):
            return "a path must not climb with .."
        return None
    scheme = found.group(1).lower()
    if scheme in _SCHEMES_WITHOUT_HOST and scheme not in policy.url_schemes:
        return f"the scheme {scheme}: is not allowed"
    if name not in _URL_NAMES and not text.lstrip().lower().startswith(("http://", "https://")):
        return None
    if scheme not in policy.url_schemes:
        return f"the scheme {scheme}: is not allowed"
    return None if policy.private_hosts else _unsafe_host(text)


def _unsafe_host(url: str) -> str | None:
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not a valid URL"
    if not host:
        return "has no host"
    if parts.username is not None or parts.password is not None:
        return "must not carry user info"
    host = host.rstrip(".").lower()
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return "names a private host"
    address = _address(host)
    if address is not None and not address.is_global:
        return "names a private address"
    return None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address *host* spells, also in the decimal, octal, hex and short forms that resolvers take."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return _legacy_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


def _legacy_address(host: str) -> ipaddress.IPv4Address | None:
    parts = host.split(".")
    if len(parts) > 4 or not all(re.fullmatch(r"0x[0-9a-f]+|[0-9]+", part) for part in parts):
        return None
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        return None
    value = numbers[-1]
    for index, number in enumerate(numbers[:-1]):
        value += number << (8 * (3 - index))
    return ipaddress.IPv4Address(value) if 0 <= value < 2**32 else None


def _number(part: str) -> int:
    if part.startswith("0x"):
        return int(part, 16)
    return int(part, 8) if part.startswith("0") and part != "0" else int(part)
