"""Names in a policy that are nearly a tool's: what such a rule was to forbid would be allowed without a word. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches

from ..states.settings.policy import ApprovalRule, Policy
from .policy import matches


def find_typos(policy: Policy, names: Collection[str]) -> Iterator[str]:
    """
    Yield a line for every name in *policy* that is no tool's and nearly one's: what it was to forbid would be allowed.

    Args:
        policy: The engine's. Patterns with ``*`` may fit what is not there, and a name that is like no other as well.
        names: Of all tools that the engine has.
    """
    lists = {"deny": policy.deny, "allow": policy.allow}
    lists |= {f"task_types[{kind!a}]": patterns for kind, patterns in policy.task_types.items()}
    lists["approvals"] = tuple(
        rule.tool if isinstance(rule, ApprovalRule) else rule for rule in policy.approvals
    )
    for place, patterns in lists.items():
        for pattern in patterns:
            if "*" in pattern or any(matches(name, (pattern,)) for name in names):
                continue
            for meant in get_close_matches(pattern, names, n=1, cutoff=0.85):
                yield f"policy.{place}: {pattern!a} is the name of no tool; is {meant!a} meant?"
