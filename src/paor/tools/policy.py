"""
What a run may do: the tool policy and the safety of argument values. Pure; decided before any intent row.

Order: deny wins, then the task type's list, then `Policy.allow`, then the run's own tools list (which
is the catalog). A tool that is offered is not thereby permitted: the check is made again before each execution.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from ..states.base.errors import UsageError
from ..states.settings.base import TOLD_MAX
from ..states.settings.policy import ApprovalRule, Policy
from .addresses import CREDENTIALS, address_of, gives_credentials, is_metadata, is_public, unsafe_host
from .catalog import fold_name
from .schema.secret_values import PLAIN

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PROSE = re.compile(r"\s*[A-Za-z]+:(\s|\Z)")
"""A word, a colon, a space: ``Data: all dates`` is no URL, unless the argument is named like one."""

_SCHEMES_WITHOUT_HOST = frozenset({"javascript", "data", "file", "vbscript"})
_URL_NAMES = ("url", "urls", "uri", "uris", "href", "hrefs", "link", "links", "endpoint", "endpoints")
_PATH_NAMES = ("path", "paths", "file", "files", "filename", "dir", "dirs", "directory", "folder", "folders")
"""How the names of such arguments end, in lower case: ``pageUrl``, ``output_path``."""

_DROPPED = str.maketrans("", "", "\t\r\n")
_EDGES = "".join(map(chr, range(33)))
"""What URL parsers drop: tabs and line breaks anywhere, control characters and spaces at both ends."""

URL_CHARS = 2000
"""Longest URL that is fetched; what browsers and proxies agree on."""

_LINES = re.compile(r"[\x00-\x1f\x7f]")
_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_SEVERAL = re.compile(r"(?<![\s,;|])[\s,;|]++(?=[A-Za-z][A-Za-z0-9+.-]*+://)")
"""What is between two URLs in one text; a tool may take both."""


def glob(pattern: str) -> re.Pattern[str]:
    """
    Return what matches the texts that *pattern* fits as a whole, ``*`` being any characters, in a time that grows with their size only.

    Each part but the last is taken where it is first: whatever fits behind a later place fits behind that one, too.
    """
    first, *parts = map(re.escape, pattern.split("*"))
    taken = "".join(f"(?>.*?{part})" for part in parts[:-1])
    return re.compile(f"{first}{taken}" + (f".*{parts[-1]}" if parts else "") + r"\Z", re.DOTALL)


@lru_cache(maxsize=4096)
def _pattern(pattern: str) -> re.Pattern[str]:
    return glob(folded_pattern(pattern))


def folded_pattern(pattern: str) -> str:
    """Return *pattern* in the spelling of `fold_name`, with its stars kept."""
    return "*".join(fold_name(part) if part else "" for part in pattern.split("*"))


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether the tool *name*, in any spelling, fits one of *patterns*."""
    if not patterns:
        return False
    key = fold_name(name)
    return any(_pattern(pattern).match(key) for pattern in patterns)


def denial(policy: Policy, task_type: str | None, tool: str) -> str | None:
    """Return why *tool* may not be used, in one line, or None when it may."""
    if matches(tool, policy.deny):
        return f"{tool} is denied by policy"
    # with a list of types one that is not among them may use nothing: a misspelt type must not allow everything
    if (
        task_type is not None
        and policy.task_types
        and not matches(tool, policy.task_types.get(task_type, ()))
    ):
        return f"{tool} is not allowed for task type {task_type}"
    if policy.allow and not matches(tool, policy.allow):
        return f"{tool} is not among the allowed tools"
    return None


def unsafe(policy: Policy, arguments: Mapping[str, Any]) -> str | None:
    """
    Return the first argument value that must not reach a tool, with the reason, or None.

    Looks at every string at any depth: dangerous schemes, and http URLs with private hosts or user info, under any
    name; in arguments named like a URL or a path also other schemes, private hosts without a scheme, and paths that
    climb. What a public name resolves to is not known here.
    """
    for name, value in _strings(arguments, ""):
        reason = _unsafe_text(policy, name.rsplit(".", 1)[-1].lower(), value)
        if reason is not None:
            return f"argument {name or 'value'}: {reason}"
    return None


def unsafe_url(policy: Policy, url: str) -> str | None:
    """
    Return why a program must not fetch *url*, or None; for what tools fetch themselves, at each redirect again.

    Stricter than `unsafe`: a whole URL of http or https, never with user info, and of the ports below 1024 only 80
    and 443. What its host resolves to is checked when it is connected to, by `unsafe_address`.
    """
    scheme = url.partition(":")[0].lower()
    if scheme not in ("http", "https") or scheme not in policy.url_schemes:
        return f"the scheme {scheme[:20]!a} cannot be fetched" if ":" in url else "is not a URL"
    if len(url) > URL_CHARS:
        return f"has more than {URL_CHARS} characters"
    if _CONTROL.search(url):
        return "holds a blank or a control character"
    reason = unsafe_host(url, private_hosts=policy.private_hosts)
    if reason is not None:
        return reason
    port = urlsplit(url).port
    return None if port is None or port in (80, 443) or port >= 1024 else f"has the port {port}"


def unsafe_address(policy: Policy, address: str) -> bool:
    """Return whether *address*, as a resolver gave it, is none to connect to: not public, not an address, or giving credentials."""
    found = address_of(address)
    if found is None:
        return not policy.private_hosts
    return is_metadata(found) or not (policy.private_hosts or is_public(found))


def _strings(value: Any, name: str) -> Iterable[tuple[str, str]]:
    if type(value) in PLAIN:
        return
    if isinstance(value, str):
        yield name, value
    elif value is None or isinstance(value, int | float):
        return
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item, name)


def _unsafe_text(policy: Policy, name: str, text: str) -> str | None:
    if "\0" in text:
        return "holds a NUL character"
    if name.endswith(_PATH_NAMES):
        if ".." in re.split(r"[/\\:]", unquote(text)):
            return "a path must not climb with .."
        if policy.file_roots and (reason := _unsafe_path(policy.file_roots, text)) is not None:
            return reason
    if not name.endswith(_URL_NAMES):
        return None if _PROSE.match(text) else _unsafe_as_url(policy, text, named=False)
    reasons = (_unsafe_as_url(policy, part, named=True) for part in _SEVERAL.split(text))
    return next((reason for reason in reasons if reason is not None), None)


def _unsafe_as_url(policy: Policy, text: str, *, named: bool) -> str | None:
    """Return why a text must not be fetched, where it is a URL; *named*: its argument says that it is one."""
    url = text.translate(_DROPPED).strip(_EDGES)
    found = _SCHEME.match(url)
    if found is None:
        if not named or not url or re.match(r"/(?!/)|[?#]", url):
            return None
        return _unsafe_host(policy, "http://" + url.removeprefix("//"), bare=not url.startswith("//"))
    scheme = found.group(1).lower()
    if scheme not in policy.url_schemes:
        forbidden = named or scheme in _SCHEMES_WITHOUT_HOST or scheme in ("http", "https")
        return f"the scheme {scheme}: is not allowed" if forbidden else None
    if scheme in _SCHEMES_WITHOUT_HOST or not (named or scheme in ("http", "https")):
        return None
    reason = _unsafe_host(policy, url)
    if reason is None and named and _LINES.search(text.strip(_EDGES)):
        return "is a URL with a line break or a control character in it"
    return reason


def _unsafe_host(policy: Policy, url: str, *, bare: bool = False) -> str | None:
    if policy.private_hosts:
        return CREDENTIALS if gives_credentials(url) else None
    return unsafe_host(url, bare=bare)


def path_arguments(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the arguments at any depth that are named like a path, with their texts."""
    named = (item for item in _strings(arguments, ""))
    return [(name, text) for name, text in named if name.rsplit(".", 1)[-1].lower().endswith(_PATH_NAMES)]


def _unsafe_path(roots: Sequence[str], text: str) -> str | None:
    """Return why a path cannot lie under *roots*, as far as its text tells; links are followed when a tool starts."""
    if text.startswith("~") or re.match(r"[A-Za-z]:|\\\\", text) or not text.isprintable():
        return "is no path under the folders that the policy allows"
    path = posixpath.normpath(text)
    if path.startswith("/") and not any(
        path == root or path.startswith(root.rstrip("/") + "/") for root in roots
    ):
        return "is outside the folders that the policy allows"
    return None


def check_patterns(policy: Policy, names: Collection[str]) -> None:
    """
    Refuse a pattern in *policy* that fits no tool: what it was to forbid would be allowed without a word.

    Args:
        policy: As the host gave it; one with `Policy.missing_ok` is for more tools than these.
        names: Of all tools that there are.

    Raises:
        UsageError: One line that names every such pattern and the tools that are nearest to it.
    """
    if policy.missing_ok:
        return
    lists = {"allow": policy.allow, "deny": policy.deny}
    lists |= {f"task_types[{kind!a}]": patterns for kind, patterns in policy.task_types.items()}
    lists["approvals"] = tuple(
        rule.tool if isinstance(rule, ApprovalRule) else rule for rule in policy.approvals
    )
    found = [
        f"{place}: {pattern!a} matches no tool; nearest: {_nearest(pattern, names)}"
        for place, patterns in lists.items()
        for pattern in patterns
        if not any(matches(name, (pattern,)) for name in names)
    ]
    if found:
        more = [f"and {len(found) - TOLD_MAX} more"] if len(found) > TOLD_MAX else []
        told = "; ".join(found[:TOLD_MAX] + more)
        raise UsageError(f"Policy: {told}. missing_ok=True accepts patterns of tools that are not there")


def _nearest(pattern: str, names: Collection[str]) -> str:
    return ", ".join(get_close_matches(pattern.replace("*", ""), sorted(names), n=3, cutoff=0))
