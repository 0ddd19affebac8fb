"""
Which calls a person must approve, and what an approval is for. Pure; asked before any intent row.

A condition on an argument holds, does not hold, or cannot be told: the argument is missing, or is nothing that can be compared. A
rule applies unless a condition certainly does not hold, so that doubt leads to a person.

An approval is for one call: of this run, this tool, these arguments, under this policy. Whatever differs is another call and
is asked about anew; so is one whose approval was given longer ago than `Policy.approval_valid_s`.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson

from ..states.settings.policy import ApprovalRule, Condition, Policy, is_number
from .policy import glob, matches

MISSING: Final = object()
"""The value of an argument that a call does not have."""


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
    """Return whether all conditions of a rule hold for a call, or may hold."""
    return all(
        any(holds(condition, value) is not False for value in _values(arguments, path.split(".")))
        for path, condition in rule.arguments.items()
    )


def holds(condition: Condition, value: Any) -> bool | None:
    """Return whether *value* fits a condition; None if that cannot be told: it is missing, or cannot be compared."""
    if value is MISSING:
        return None
    found = [_COMPARED[name](value, wanted) for name, wanted in condition.operators.items()]
    return False if False in found else None if None in found else True


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool | None]:
    return lambda value, wanted: compare(value, wanted) if is_number(value) else None


def _is(value: Any, wanted: Any) -> bool | None:
    """Return whether two scalars are the same; None for those of different types, one of which is not None."""
    if wanted is None or (is_number(value) and is_number(wanted)):
        return bool(value == wanted)
    return bool(value == wanted) if type(value) is type(wanted) in (str, bool) else None


def _is_not(value: Any, wanted: Any) -> bool | None:
    same = _is(value, wanted)
    return None if same is None else not same


def _is_in(value: Any, wanted: Sequence[Any]) -> bool | None:
    """Return whether *value* is one of *wanted*; None if it could be compared with none of them but None."""
    found = [_is(value, item) for item in wanted]
    told = [same for same, item in zip(found, wanted, strict=True) if item is not None] or [False]
    return True if True in found else False if False in told else None


def _fits(value: Any, pattern: str) -> bool | None:
    """Return whether a value fits a pattern as a whole; with a leading ``!``, whether it does not."""
    text = _text(value)
    if text is None:
        return None
    turned = pattern.startswith("!")
    return (_glob(pattern[1:] if turned else pattern).match(text) is None) is turned


_COMPARED: dict[str, Callable[[Any, Any], bool | None]] = {
    "gt": _ordered(operator.gt),
    "ge": _ordered(operator.ge),
    "lt": _ordered(operator.lt),
    "le": _ordered(operator.le),
    "eq": _is,
    "ne": _is_not,
    "in": _is_in,
    "pattern": _fits,
}


_glob = lru_cache(maxsize=1024)(glob)


def _text(value: Any) -> str | None:
    """Return what a pattern is compared with: a text, of other values their JSON; None for what has none."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # a number of more than 64 bits, or a lone surrogate
        return None


def _values(value: Any, path: list[str]) -> Iterator[Any]:
    """Yield what is at *path*, of each element of a list; `MISSING` wherever there is nothing."""
    if isinstance(value, list | tuple):
        for item in value or (MISSING,):
            yield from _values(item, path)
    elif not path:
        yield value
    else:
        # a name may hold dots itself: whichever way the path can be read counts
        names = [".".join(path[:count]) for count in range(1, len(path) + 1)]
        known = [name for name in names if isinstance(value, Mapping) and name in value]
        for name in known:
            yield from _values(value[name], path[name.count(".") + 1 :])
        if not known:
            yield MISSING
