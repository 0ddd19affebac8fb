"""
JSON values of arguments and schemas: checked, copied, and written in one canonical form.

Two values are equal here when they are the same JSON: the order of keys does not matter, the order of lists does,
``1`` and ``1.0`` are one number, ``1`` and ``true`` are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from ...states.base.wire import json_text

DEPTH_MAX = 128
"""Deepest nesting of a value. Source: twice what `read_object` accepts; jsonschema_rs 0.60 ends at 255."""

INT_BITS_MAX = 2048
"""Largest whole number, about 616 digits. Source: Python can be set to refuse texts of more than 640 digits."""

IGNORED_KEY = "call_id"
"""A transient id that some models add to the arguments. Source: docs/spec-coverage.md, C2.4."""

NODES_MAX = 1_000_000
"""Most values in a value. Source: a reply of 1 MB, the most that is read, holds half as many."""


class NotJson(ValueError):
    """
    A value that JSON has no form for.

    Attributes:
        code: ``type`` for a Python object of another kind, ``value`` for a number or text outside JSON's range.
        reason: What is wrong with it.
        path: Keys and indexes that lead to it, outermost first.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason
        self.path: list[str | int] = []

    def __str__(self) -> str:
        place = "".join(f"[{part!r}]" for part in self.path)
        return f"not JSON{' at ' + place[:120] if place else ''}: {self.reason}"


def plain(value: object, *, nodes_max: int = NODES_MAX) -> Any:
    """
    Return a deep copy of *value* in exact JSON types; a float that is whole becomes an int, a tuple a list.

    Args:
        value: Anything.
        nodes_max: How many values it may hold, each time it is reached counted.

    Raises:
        NotJson: NaN, an infinity, a number over 600 digits, a lone surrogate, a key that is no str, another kind of object,
            or too much of it.
    """
    if type(value) is dict and _is_flat(value) and len(value) <= nodes_max:
        return value.copy()
    return _plain(value, DEPTH_MAX, [nodes_max])


_MOST = 1 << 63


def _is_flat(value: dict[Any, Any]) -> bool:
    """Return whether a mapping, as most arguments are, holds nothing that a plain copy of it would not."""
    for key, item in value.items():
        if type(key) is not str or not key.isascii():
            return False
        kind = type(item)
        if kind is str:
            if not item.isascii():
                return False
        elif kind is int:
            if not -_MOST <= item < _MOST:
                return False
        elif item is not None and kind is not bool:
            return False
    return True


def _plain(value: object, depth: int, left: list[int]) -> Any:
    if isinstance(value, str):
        if not (value.isascii() or _encodable(value)):
            raise NotJson("value", "text with a lone surrogate")
        return value if type(value) is str else str.__str__(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > INT_BITS_MAX:
            raise NotJson("value", "a number of more than 600 digits")
        return int(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise NotJson("value", "a number that is not finite")
        return int(value) if value.is_integer() else float(value)
    if depth <= 0 or left[0] <= 0:
        raise NotJson("value", "a value that is nested too deep or too large")
    if isinstance(value, Mapping):
        return {_key(key): _item(item, key, depth, left) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_item(item, index, depth, left) for index, item in enumerate(value)]
    raise NotJson("type", f"a Python {type(value).__name__}")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise NotJson("type", f"a key of type {type(key).__name__}")
    return str(_plain(key, 0, [0]))


def _item(item: object, place: str | int, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    try:
        return _plain(item, depth - 1, left)
    except NotJson as error:
        error.path.insert(0, place)
        raise


def dump(value: Any) -> bytes:
    """Return a `plain` value as JSON with sorted keys; equal values give equal bytes."""
    return json_text(value, sort_keys=True).encode()


def canonical_arguments(arguments: Mapping[str, Any] | None) -> bytes:
    """
    Return the canonical JSON of a call's arguments: equal bytes for what is the same call.

    The order of keys is ignored at every depth, that of lists is not; ``"1"``, ``1`` and ``true`` differ, ``1`` and
    ``1.0`` do not; null is distinct from absent; a top-level ``call_id`` is left out; no arguments are ``{}``.

    Args:
        arguments: By name; None for none at all.

    Raises:
        ValueError: NaN, an infinity, a lone surrogate, a key that is no str, or a value that is no JSON.

    Source: docs/spec-coverage.md, C2.4.
    """
    if not arguments:
        return b"{}"
    if IGNORED_KEY in arguments:
        arguments = {name: value for name, value in arguments.items() if name != IGNORED_KEY}
    return dump(plain(arguments))


def _encodable(text: str) -> bool:
    """Return whether *text* has a UTF-8 form, that is, holds no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
