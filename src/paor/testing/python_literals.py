"""
Values as Python source that holds nothing but literals and calls of a few names that are known here.

What came from a journal is always within a literal, written by `repr`, which escapes quotes, line ends and everything that
is not printable; the names that are called are in `CALLABLE`, those of arguments are checked to be identifiers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

WIDTH = 100
DEPTH_MAX = 20
"""Levels of lists and mappings that are written out; deeper data is written as JSON within a text."""

CALLABLE = {
    "AnswerNeeded": "paor",
    "Document": "paor",
    "EffectUnknown": "paor",
    "Limits": "paor",
    "ModelUnavailable": "paor",
    "NotStarted": "paor",
    "Policy": "paor",
    "Profile": "paor",
    "Reply": "paor",
    "ToolError": "paor",
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


def made(value: Any) -> Any:
    """Return what a value stands for: every `New` within it called."""
    if isinstance(value, New):
        from importlib import import_module

        found: Any = import_module(CALLABLE[value.name])
        for part in value.name.split("."):
            found = getattr(found, part)
        return found(
            *map(made, value.arguments), **{name: made(item) for name, item in value.options.items()}
        )
    if isinstance(value, dict):
        return {name: made(item) for name, item in value.items()}
    return type(value)(map(made, value)) if isinstance(value, list | tuple) else value


def changed(value: Any, change: Callable[[str | bytes], Any]) -> Any:
    """Return a value with *change* made to every text and every bytes within it."""
    if isinstance(value, New):
        options = {name: changed(item, change) for name, item in value.options.items()}
        return New(value.name, tuple(changed(item, change) for item in value.arguments), options)
    if isinstance(value, dict):
        return {changed(name, change): changed(item, change) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(changed(item, change) for item in value)
    return change(value) if isinstance(value, str | bytes) else value


def names_in(value: Any) -> set[str]:
    """Return the names that a value calls."""
    if isinstance(value, New):
        inner = [*value.arguments, *value.options.values()]
        return {value.name}.union(*map(names_in, inner))
    if isinstance(value, dict):
        return set[str]().union(*map(names_in, value.values()))
    return set[str]().union(*map(names_in, value)) if isinstance(value, list | tuple) else set()


def source(value: Any, indent: int = 0) -> str:
    """
    Return *value* as Python source.

    Args:
        value: Texts, bytes, numbers, True, False, None, lists, tuples, mappings and `New` values.
        indent: Blanks before the line that it begins on.
    """
    line = _line(value)
    if len(line) + indent <= WIDTH and "\\n" not in line:
        return line
    inner = indent + 4
    if isinstance(value, str) and "\n" in value[:-1]:
        return _block("(", [repr(part) for part in value.splitlines(keepends=True)], ")", indent, comma="")
    if depth(value) > DEPTH_MAX:
        return line
    if isinstance(value, New):
        parts = [source(item, inner) for item in value.arguments]
        parts += [f"{name}={source(item, inner)}" for name, item in value.options.items()]
        return _block(f"{value.name}(", parts, ")", indent) if parts else line
    if isinstance(value, dict) and value:
        parts = [f"{_line(name)}: {source(item, inner)}" for name, item in value.items()]
        return _block("{", parts, "}", indent)
    if isinstance(value, list | tuple) and value:
        ends = "[]" if isinstance(value, list) else "()"
        return _block(ends[0], [source(item, inner) for item in value], ends[1], indent)
    return line


def _block(start: str, parts: list[str], end: str, indent: int, comma: str = ",") -> str:
    blanks = " " * (indent + 4)
    lines = "".join(f"{blanks}{part}{comma}\n" for part in parts)
    return f"{start}\n{lines}{' ' * indent}{end}"


def _line(value: Any) -> str:
    """Return a value as source on one line."""
    if isinstance(value, New):
        parts = [_line(item) for item in value.arguments]
        parts += [f"{name}={_line(item)}" for name, item in value.options.items()]
        return f"{value.name}({', '.join(parts)})"
    if isinstance(value, dict | list) and depth(value) > DEPTH_MAX:
        return f"json.loads({json.dumps(value)!r})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_line(name)}: {_line(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_line, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_line, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, float) and not float("-inf") < value < float("inf"):
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
