"""
Values as Python source that holds nothing but literals and calls of a few names that are known here.

What came from a journal is always within a literal, written by `repr`, which escapes quotes, line ends and everything that
is not printable; the names that are called are in `CALLABLE`, those of arguments are checked to be identifiers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import isfinite
from operator import attrgetter
from typing import Any

WIDTH = 100
DEPTH_MAX = 20
"""Levels of lists and mappings that are written out; deeper data is written as JSON within a text."""

CALLABLE = {
    "AnswerNeeded": "paor.errors",
    "Document": "paor",
    "EffectUnknown": "paor.errors",
    "TimedOut": "paor.errors",
    "Limits": "paor",
    "ModelUnavailable": "paor.errors",
    "NotStarted": "paor.errors",
    "Policy": "paor",
    "Profile": "paor",
    "Reply": "paor",
    "ToolError": "paor.errors",
    "ToolOutput": "paor",
    "Usage": "paor",
    "Workflow.model_validate": "paor",
    "Asks": "paor.testing",
    "scripted_tool": "paor.testing",
}
"""What a value may call, and where it is imported from."""


@dataclass(frozen=True, slots=True)
class New:
    """
    A call of one of the names in `CALLABLE`.

    Attributes:
        name: Which.
        arguments, options: Its arguments by place and by name, values themselves.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in CALLABLE or not all(name.isidentifier() for name in self.options):
            raise ValueError(f"{self.name!a:.80} is not called by a test")


def mapped(value: Any, leaf: Callable[[Any], Any], call: Callable[..., Any] = New) -> Any:
    """
    Return a value with all that is within it replaced, from the inside out.

    Args:
        value: As `source` takes it.
        leaf: Returns what takes the place of a text, bytes or a number; of a name of a mapping, too.
        call: Returns what takes the place of a `New`, from its name, arguments and options.
    """
    if isinstance(value, New):
        options = {name: mapped(item, leaf, call) for name, item in value.options.items()}
        return call(value.name, tuple(mapped(item, leaf, call) for item in value.arguments), options)
    if isinstance(value, dict):
        return {leaf(name): mapped(item, leaf, call) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(mapped(item, leaf, call) for item in value)
    return leaf(value)


def value_of(value: Any) -> Any:
    """Return what a value stands for: every `New` within it called."""
    return mapped(
        value,
        lambda item: item,
        lambda name, arguments, options: attrgetter(name)(import_module(CALLABLE[name]))(
            *arguments, **options
        ),
    )


def source(value: Any, indent: int | None = 0) -> str:
    """
    Return *value* as Python source.

    Args:
        value: Texts, bytes, numbers, True, False, None, lists, tuples, mappings and `New` values.
        indent: Blanks before the line that it begins on; None: all is written on one line.
    """
    if isinstance(value, dict | list) and depth(value) > DEPTH_MAX:
        return f"json.loads({json.dumps(value)!r})"
    if isinstance(value, New):
        start, end = f"{value.name}(", ")"
        items = [("", item) for item in value.arguments]
        items += [(f"{name}=", item) for name, item in value.options.items()]
    elif isinstance(value, dict):
        start, end = "{", "}"
        items = [(f"{source(name, None)}: ", item) for name, item in value.items()]
    elif isinstance(value, list | tuple):
        start, end = ("[", "]") if isinstance(value, list) else ("(", ")")
        items = [("", item) for item in value]
    elif indent is not None and isinstance(value, str) and "\n" in value[:-1]:
        return _block("(", [repr(part) for part in value.splitlines(keepends=True)], "", ")", indent)
    else:
        return _scalar(value)
    comma = "," if isinstance(value, tuple) and len(items) == 1 else ""
    line = f"{start}{', '.join(label + source(item, None) for label, item in items)}{comma}{end}"
    if indent is None or not items or (len(line) + indent <= WIDTH and "\\n" not in line):
        return line
    return _block(start, [label + source(item, indent + 4) for label, item in items], ",", end, indent)


def _block(start: str, parts: Sequence[str], comma: str, end: str, indent: int) -> str:
    blanks = " " * (indent + 4)
    lines = "".join(f"{blanks}{part}{comma}\n" for part in parts)
    return f"{start}\n{lines}{' ' * indent}{end}"


def _scalar(value: Any) -> str:
    if isinstance(value, float) and not isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    raise TypeError(f"a {type(value).__name__} has no literal")


def depth(value: Any) -> int:
    """Return how many levels of lists and mappings plain data has, counted no further than too many."""
    levels, level = 0, [value]
    while level:
        items = [item for item in level if isinstance(item, dict | list)]
        level = [inner for item in items for inner in (item.values() if isinstance(item, dict) else item)]
        levels += 1
        if levels > DEPTH_MAX + 1:
            break
    return levels
