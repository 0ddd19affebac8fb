"""
Which calls a person must approve, and what an approval is for. Pure; asked before any intent row.

An approval is for one call: of this run, this tool, these arguments, under this policy. Whatever differs is another call and
is asked about anew; so is one whose approval was given longer ago than `Policy.approval_valid_s`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import orjson

from ..states.settings.policy import ApprovalRule, Policy
from .policy import matches


def approval_needed(policy: Policy, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a person must approve the call of *tool* with *arguments* (complete, defaults filled)."""
    for rule in policy.approvals:
        if isinstance(rule, str):
            if matches(tool, (rule,)):
                return True
        elif matches(tool, (rule.tool,)) and _concerns(rule, arguments):
            return True
    return False


def approval_id(policy: Policy, tool: str, key: str) -> str:
    """
    Return the call that an approval is for, as 32 hex digits; that it was given to this run is beside it.

    Args:
        policy: In force when the question is asked.
        tool: Canonical name.
        key: The call's key: a digest of the tool and its canonical arguments, salted per run.
    """
    bound = orjson.dumps([tool, key, _digest(policy)])
    return hashlib.sha256(bound).hexdigest()[:32]


@lru_cache(maxsize=64)
def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(policy: Policy) -> str:
    return _digest_of(policy.model_dump_json())


def _concerns(rule: ApprovalRule, arguments: Mapping[str, Any]) -> bool:
    """Return whether all argument patterns of a rule hold for a call."""
    return all(
        _holds(pattern, list(_values(arguments, path.split(".")))) for path, pattern in rule.arguments.items()
    )


def fits_value(pattern: str, value: Any) -> bool:
    """Return whether an argument that is *value* fits the pattern of an `ApprovalRule`."""
    return _holds(pattern, list(_values(value, [])))


def _holds(pattern: str, values: list[str]) -> bool:
    """Return whether a value fits; with a leading ``!``, whether one does not, or there is none."""
    if pattern.startswith("!"):
        return not values or any(not _glob(pattern[1:]).match(value) for value in values)
    return any(_glob(pattern).match(value) for value in values)


@lru_cache(maxsize=1024)
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))) + r"\Z", re.DOTALL)


def _values(value: Any, path: list[str]) -> Iterator[str]:
    """Yield the texts of what is at *path*, of each element of a list; other values as their JSON."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _values(item, path)
    elif path:
        if isinstance(value, Mapping) and path[0] in value:
            yield from _values(value[path[0]], path[1:])
    else:
        yield value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
