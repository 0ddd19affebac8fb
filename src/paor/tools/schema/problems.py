"""
What is wrong with the arguments of a call, in words for a model and for people.

The words are made here, from the kind of a validator's error: they do not depend on its version, and they quote
little of a value, whatever it holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

MESSAGE_MAX = 200
"""Longest message, in characters."""

_PATH_MAX = 80
_QUOTED_MAX = 60
_LIMIT_MAX = 80
_NUMBER = re.compile(r"\+?[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class Problem:
    """
    One thing that is wrong with the arguments of a call.

    Attributes:
        code: ``missing``, ``unknown``, ``type`` or ``value``.
        path: Where: a parameter's name, ``order.items[0].sku`` below it, empty for the arguments as a whole; cut
            after 80 characters.
        message: One ASCII line that names the path, at most `MESSAGE_MAX` characters long.
    """

    code: str
    path: str
    message: str


def missing(path: Sequence[str | int]) -> Problem:
    """Return the problem of a required value that is not there."""
    return _problem("missing", path, "is required but missing")


def unknown(path: Sequence[str | int]) -> Problem:
    """Return the problem of a value that nobody knows."""
    return _problem("unknown", path, "is not a known parameter")


def no_secret(path: Sequence[str | int]) -> Problem:
    """Return the problem of a secret that is meant for a parameter whose schema does not call it one."""
    return _problem("value", path, "takes no secret: it is neither writeOnly nor of the format password")


def foreign(code: str, path: Sequence[str | int], reason: str) -> Problem:
    """Return the problem of a value that JSON has no form for."""
    return _problem(code, path, f"is no JSON: {reason}")


def misfit(code: str, path: Sequence[str | int], expected: str, found: object) -> Problem:
    """Return the problem of a value that is not as it must be."""
    return _problem(code, path, f"{_clip(expected, _LIMIT_MAX)}; found {_shown(found)}")


def _problem(code: str, path: Sequence[str | int], words: str) -> Problem:
    shown = _path_of(path)
    message = f"{_clip(_line(shown), _QUOTED_MAX) or 'the arguments'} {words}"
    return Problem(code, shown, _clip(message, MESSAGE_MAX))


def _path_of(path: Sequence[str | int]) -> str:
    """Return a path as people write it."""
    shown = ""
    for step in path:
        if isinstance(step, int):
            shown += f"[{step}]"
        else:
            shown += f"{'.' if shown else ''}{step[:_PATH_MAX]}"
    return shown[:_PATH_MAX]


def problems_of(error: Any, arguments: object) -> Iterator[Problem]:
    """
    Return the problems behind one of the validator's errors.

    For ``anyOf`` and ``oneOf`` that is what is wrong in the one branch that was meant, if that can be told: the only
    one of the right type, or the only one of those whose constants fit.

    Args:
        error: A `ValidationError` of jsonschema_rs; what its `kind` knows depends on the kind.
        arguments: What was validated.
    """
    kind = type(error.kind).__name__
    path, found = locate(arguments, error.instance_path)
    if kind == "Required":
        yield missing([*path, error.kind.property])
    elif kind in ("AdditionalProperties", "UnevaluatedProperties"):
        yield from (unknown([*path, name]) for name in error.kind.unexpected)
    elif kind == "FalseSchema":
        yield from _forbidden(error.schema_path, path, found)
    elif kind in ("AnyOf", "OneOfNotValid"):
        yield from _of_branches(error, arguments)
    elif kind == "Type":
        yield misfit("type", path, f"must be {_either(error.kind.types)}", found)
    else:
        yield misfit("value", path, _rule(kind, error.kind), found)


def _forbidden(place: Sequence[str | int], path: list[str | int], found: object) -> Iterator[Problem]:
    """Return the problems of a value under a schema that is ``false``; *place* is where that is in the schema."""
    if place[-1] == "additionalProperties" and isinstance(found, dict):
        yield from (unknown([*path, name]) for name in found)
    elif len(place) > 1 and place[-2] in ("properties", "patternProperties"):
        yield unknown(path)
    else:
        yield misfit("value", path, "is not allowed here", found)


def _of_branches(error: Any, arguments: object) -> Iterator[Problem]:
    """Return the problems of a value that fits no branch of ``anyOf`` or ``oneOf``."""
    path, found = locate(arguments, error.instance_path)
    branches: list[list[Any]] = error.kind.context
    meant = [branch for branch in branches if not _types_at(branch, error.instance_path)]
    if not meant:
        types = {name for branch in branches for name in _types_at(branch, error.instance_path)}
        yield misfit("type", path, f"must be {_either(types)}", found)
        return
    meant = [
        branch for branch in meant if not any(type(inner.kind).__name__ == "Constant" for inner in branch)
    ] or meant
    if len(meant) == 1:
        for inner in meant[0]:
            yield from problems_of(inner, arguments)
    else:
        yield misfit("value", path, f"fits none of the {len(branches)} allowed forms", found)


def _types_at(branch: list[Any], path: list[str | int]) -> list[str]:
    """Return the types that a branch wanted at *path* itself; none if the type was right."""
    return [
        name
        for inner in branch
        if type(inner.kind).__name__ == "Type" and inner.instance_path == path
        for name in inner.kind.types
    ]


def locate(arguments: object, path: Sequence[str | int]) -> tuple[list[str | int], Any]:
    """
    Return the real path and the value there.

    The validator's path has a number for a key such as ``"007"`` and leaves out keys that are empty
    (jsonschema_rs 0.33 to 0.60). A path that leads nowhere is followed as far as it goes.
    """
    real: list[str | int] = []
    found: Any = arguments
    steps = list(reversed(path))
    while steps:
        step = steps.pop()
        if isinstance(found, dict) and step not in found:
            same = (
                key for key in found if isinstance(step, int) and _NUMBER.fullmatch(key) and int(key) == step
            )
            key = next(same, "")
            if not key:
                steps.append(step)
            step = key
        try:
            found = found[step]
        except (LookupError, TypeError):
            break
        real.append(step)
    return real, found


_RULES = {
    "Constant": ("must be {}", "expected_value"),
    "Contains": ("has too few or too many items of a certain kind", ""),
    "Enum": ("must be one of {}", "options"),
    "ExclusiveMaximum": ("must be less than {}", "limit"),
    "ExclusiveMinimum": ("must be greater than {}", "limit"),
    "MaxItems": ("must have at most {} items", "limit"),
    "MaxLength": ("must have at most {} characters", "limit"),
    "MaxProperties": ("must have at most {} keys", "limit"),
    "Maximum": ("must be at most {}", "limit"),
    "MinItems": ("must have at least {} items", "limit"),
    "MinLength": ("must have at least {} characters", "limit"),
    "MinProperties": ("must have at least {} keys", "limit"),
    "Minimum": ("must be at least {}", "limit"),
    "MultipleOf": ("must be a multiple of {}", "multiple_of"),
    "OneOfMultipleValid": ("fits more than one of the allowed forms, must fit one", ""),
    "Pattern": ("must match the pattern {}", "pattern"),
    "PropertyNames": ("has a key that is not allowed", ""),
    "UnevaluatedItems": ("has items that are not allowed", ""),
    "UniqueItems": ("must not hold an item twice", ""),
}
"""Words for a kind of error, and the attribute that holds the schema's limit."""


def _rule(kind: str, facts: object) -> str:
    words, attribute = _RULES.get(kind, ("is of a form that is not allowed", ""))
    if not attribute:
        return words
    limit = getattr(facts, attribute)
    return words.format(", ".join(map(_json, limit)) if kind == "Enum" else _json(limit))


def _either(types: Iterable[str]) -> str:
    """Return types in words, in an order that does not depend on the validator."""
    return " or ".join(sorted(types, key=lambda name: (name == "null", name)))


def _shown(value: object) -> str:
    """Return a value in few words; of text and numbers the beginning, of the rest the kind and size."""
    if isinstance(value, dict):
        return f"an object of {len(value)} keys"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)} items"
    if isinstance(value, str):
        return _clip(json.dumps(value[:_QUOTED_MAX]), _QUOTED_MAX - 3 * (len(value) > _QUOTED_MAX))
    if value is None or isinstance(value, (bool, int, float)):
        return _clip(_json(value), _QUOTED_MAX)
    return f"a Python {type(value).__name__[:_QUOTED_MAX]}"


def _json(value: object) -> str:
    try:
        return json.dumps(value)
    except ValueError:  # More digits than Python writes.
        return "a very long number"


def _line(text: str) -> str:
    """Return *text* as printable ASCII in one line."""
    return json.dumps(text)[1:-1].replace('\\"', '"').replace("\x7f", "?")


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
