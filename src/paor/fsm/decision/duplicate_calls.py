"""
The duplicate guard: when is the next call one too many?

Let E be the keys of the calls this run has executed (blocked ones are not executed), in order, and k the key of
the proposed call. Blocked when one of these holds, in this order:

1. consecutive: k stands n times at the end of E, and n + 1 reaches `consecutive_limit`;
2. frequency: k is at least `window_freq_limit` times in the last `window_size` of E;
3. alternation: the last 7 of E and k are 8 keys, exactly two different, each equal to the one two before.

Before them: a ``once`` call that has succeeded in the run is not made again (``made``), and with `Limits.block_repeated_success` no
call whose key is the last of E and that succeeded. A tool may have bounds of its own for the first two (`Tool.duplicate_limits`).

Source: docs/spec-coverage.md, C1, after document 004's "Duplicate-call safety net".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar

from ...states.settings.limits import Limits
from ...tools.schema.parameters import canonical_arguments

T = TypeVar("T")

ALTERNATION = 8
"""Length of the alternating pattern, the proposal included."""


def duplicate_key(salt: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """
    Return the duplicate key of a call: 32 hex digits.

    Args:
        salt: The run's own, so that keys of different runs cannot be compared and say nothing of the arguments.
        tool: Canonical name.
        arguments: After placeholders and defaults, as the tool would get them.

    Raises:
        ValueError: A value that JSON has no form for.
    """
    return hashlib.sha256(
        salt.encode() + b"\0" + tool.encode() + b"\0" + canonical_arguments(arguments)
    ).hexdigest()[:32]


def rule_broken(
    key: str, window: tuple[str, ...], same_key: int, limits: Limits, *, succeeded: bool = False
) -> str | None:
    """
    Return the name of the rule that the call *key* breaks, or None.

    Args:
        key: Of the proposed call.
        window: Keys of the last executed calls, oldest first; at least `window_length` of them if there are so many.
        same_key: How often the last key of *window* is at the end of all executed calls.
        limits: The three numbers of the rules, and the flag.
        succeeded: Whether the last executed call did.
    """
    if limits.block_repeated_success and succeeded and window and window[-1] == key:
        return "repeated_success"
    trailing = same_key if window and window[-1] == key else 0
    if trailing + 1 >= limits.consecutive_limit:
        return "consecutive"
    if window[-limits.window_size :].count(key) >= limits.window_freq_limit:
        return "frequency"
    return "alternation" if _alternates((*window[-(ALTERNATION - 1) :], key)) else None


def _alternates(keys: tuple[str, ...]) -> bool:
    return (
        len(keys) == ALTERNATION
        and keys[0] != keys[1]
        and all(keys[i] == keys[i - 2] for i in range(2, ALTERNATION))
    )


def window_length(limits: Limits) -> int:
    """Return how many executed keys a run must remember for its guard."""
    return max(limits.window_size, ALTERNATION - 1)


def limits_for(limits: Limits, own: Mapping[str, int]) -> Limits:
    """Return *limits* with a tool's *own* bounds in their place."""
    return limits.model_copy(update=dict(own)) if own else limits


def extend_window(window: tuple[T, ...], limits: Limits, *more: T) -> tuple[T, ...]:
    """Return *window*, of keys or of what is kept beside each of them, after *more* calls were executed, in order."""
    return (*window, *more)[-window_length(limits) :]


def repeated_step(key: str, window: tuple[str, ...], steps: tuple[int, ...]) -> int:
    """
    Return the step of the last call with *key*, 0 where it was made before those of the window.

    Args:
        key: Of a call that is blocked.
        window: Keys of the last executed calls, oldest first.
        steps: Of each of them its step.
    """
    pairs = zip(reversed(window), reversed(steps), strict=True)
    return next((step for made, step in pairs if made == key), 0)
