"""
Values that an agent shows by itself: in the code and the schemas of its tools, in what these return and refuse.

Each is kept with the words that it was shown under (keys, names of variables, of tools): an argument gets those of its own words first.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.util import resolve_name
from traceback import walk_tb
from typing import Any

from ...fsm.runtime.tool_results import message_of
from ...states.run.spec import ToolSpec
from ...tools.kept_values import json_of

Shown = tuple[frozenset[str], Any]
"""The words that a value was shown under, and the value."""

_NOTHING: frozenset[str] = frozenset()
_LONG = 40
"""Longest text that is one value; of a longer one its parts are."""
_MODULES = 20
"""Most modules of the host that are read."""


@dataclass(frozen=True, slots=True)
class Memory:
    """
    What is known of values for arguments, the newest last.

    Attributes:
        hints: Values by the name of an argument, as a host lists them.
        base: What is there before the first call, see `of_agent`.
        calls: The last calls of a tool by how they ended, those that got furthest last: by the lines that raised, none of a success.
        shown: Values that tools have returned, or named in an error.
        tried: How many calls failed with a value, by the name of the argument and its type; below zero once one has succeeded.
        about: Words of the tool that is to be called.
    """

    hints: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    base: tuple[Shown, ...] = ()
    calls: dict[tuple[str, tuple[int, ...]], list[Mapping[str, Any]]] = field(default_factory=dict)
    shown: list[Shown] = field(default_factory=list)
    tried: dict[tuple[str, type, Any], int] = field(default_factory=dict)
    about: frozenset[str] = _NOTHING

    def of(self, hints: Mapping[str, Sequence[Any]], base: tuple[Shown, ...]) -> Memory:
        """Return a copy for an agent with these hints, which shows *base* from the start."""
        return replace(
            self,
            hints=hints,
            base=base,
            calls={end: [*calls] for end, calls in self.calls.items()},
            shown=[*self.shown],
            tried={**self.tried},
        )

    def add(self, tool: str, arguments: Mapping[str, Any], ended: Any) -> None:
        """Learn from a call, and from what its function returned, or the exception that it raised."""
        failed = isinstance(ended, Exception)
        for name, value in _scalars(arguments):
            key = name, type(value), value
            was = self.tried.pop(key, 0)
            self.tried[key] = was + 1 if failed and was >= 0 else was if failed else -1
        lines = (line for _, line in walk_tb(ended.__traceback__)) if failed else ()
        alike = self.calls.setdefault((tool, tuple(lines)), [])
        alike.append(dict(arguments))
        del alike[: -1 if failed else -16]
        given = json.dumps(arguments, ensure_ascii=False, default=str)
        if failed:
            found = [(words(tool), piece) for piece in _pieces(message_of(ended), prose=True)]
        else:
            found = [*_shown_in(json.loads(json_of(ended, lossy=True)[0]), words(tool))]
        new = [item for item in found if not (isinstance(item[1], str) and item[1] in given)]
        self.shown.extend(item for item in new if item not in self.shown)
        del self.shown[:-256]

    def seeds(self, tool: str) -> list[Mapping[str, Any]]:
        """Return calls of a tool to change: the newest that succeeded, then one of each other end, the furthest first."""
        failed = [calls[0] for (name, lines), calls in self.calls.items() if name == tool and lines]
        return self.calls.get((tool, ()), [])[::-1] + failed[::-1]

    def choices(self, name: str, fits: Callable[[Any], bool]) -> list[tuple[int, list[Any]]]:
        """Return values for the argument *name* that fit, in groups, with how often one of each group is drawn."""
        wanted = words(name)
        succeeded = [(other, kind, value) for (other, kind, value), count in self.tried.items() if count < 0]
        taken = [value for other, _, value in reversed(succeeded) if words(other) & wanted and fits(value)]
        anywhere = {(kind, value) for _, kind, value in succeeded}

        def rank(item: Shown) -> tuple[int, ...]:
            names, value = item
            failed = self.tried.get((name, type(value), value), 0) // 2
            own = 2 * bool(names & wanted) + bool(names & self.about)
            known = (type(value), value) in anywhere
            return failed, -own, -known, isinstance(value, str) and value.islower()

        every = [item[1] for item in sorted((*reversed(self.shown), *self.base), key=rank) if fits(item[1])]
        groups = [
            (3, taken[:8]),
            (3, [value for value in _near(taken[:4], every[:8]) if fits(value)]),
            (3, every[:4]),
            (2, every[:16]),
            (1, every),
        ]
        return [(weight, values) for weight, values in groups if values]


def _near(taken: Sequence[Any], shown: Sequence[Any]) -> Iterator[Any]:
    """Yield neighbours, sums and differences of numbers."""
    for one in (*taken, *shown):
        if not isinstance(one, str):
            yield from (one + 1, one - 1)
            for other in taken:
                yield from (one + other, one - other, one - other + 1)


def _scalars(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the texts and numbers in arguments, each with the name that it is under."""
    for key, item in value.items() if isinstance(value, Mapping) else [(name, each) for each in value]:
        if isinstance(item, Mapping | list):
            yield from _scalars(item, str(key))
        elif isinstance(item, str | int | float):
            yield str(key), item


@lru_cache(maxsize=4096)
def words(name: str) -> frozenset[str]:
    """Return the words of an identifier, in lower case and the singular."""
    found = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return frozenset(word.lower().removesuffix("s") for word in found)


def _pieces(text: str, *, prose: bool = False) -> Iterator[Any]:
    """Yield what may be a value in a text: itself, its cells and words, of *prose* only words that look like a name; quoted parts and numbers."""
    parts = re.findall(r"[\"'`]([^\"'`\n]+)[\"'`]", text)
    apart = [part.strip(".:!?") for part in re.split(r"[\s\"'`;,|(){}\[\]<>=]+", text)]
    parts += [part for part in apart if not part.isalpha()] if prose else []
    parts += [] if prose else [text, *re.split(r"[;,|\t\n]|: ", text), *apart]
    for part in dict.fromkeys(part.strip() for part in parts):
        if 0 < len(part) <= _LONG and part.isprintable():
            yield part
    for number in re.findall(r"(?<![\w.-])-?\d{1,12}(?:\.\d{1,6})?(?![\w-])", text):
        yield float(number) if "." in number else int(number)


def _shown_in(value: Any, names: frozenset[str] = _NOTHING) -> Iterator[Shown]:
    """Yield the values in a result of a tool."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _shown_in(item, names | words(str(key)))
            yield from [] if str(key).isidentifier() else [(names, key)]
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _shown_in(item, names)
    elif isinstance(value, str):
        if value[:1] in ("[", "{"):
            with suppress(ValueError, RecursionError):
                yield from _shown_in(json.loads(value), names)
        yield from ((names, piece) for piece in _pieces(value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield names, value


# -- what is there before the first call ---------------------------------------------------------------------------


def of_agent(tools: Sequence[ToolSpec], functions: Sequence[Any]) -> tuple[Shown, ...]:
    """Return what the schemas and descriptions of *tools* show, and the constants of the modules that *functions* are of and import."""
    found = [(words(tool.name), piece) for tool in tools for piece in _pieces(tool.description, prose=True)]
    found += [item for tool in tools for item in _in_schema(tool.parameters, words(tool.name))]
    plain = (inspect.unwrap(getattr(each, "func", each)) for each in functions)
    modules = list(dict.fromkeys(each.__module__ for each in plain if hasattr(each, "__module__")))
    for name in modules:  # those that it imports are added on the way
        constants, imported = _in_module(name)
        found += constants
        modules += [other for other in imported if other not in modules][: max(0, _MODULES - len(modules))]
    return tuple(dict.fromkeys(found))


def _in_schema(schema: Any, names: frozenset[str]) -> Iterator[Shown]:
    for key, value in schema.items() if isinstance(schema, Mapping) else [("", each) for each in schema]:
        if key in ("enum", "examples", "const", "default", "minimum", "maximum"):
            yield from _shown_in(value, names)
        elif key == "description":
            yield from ((names, piece) for piece in _pieces(str(value), prose=True))
        elif isinstance(value, Mapping | list):
            yield from _in_schema(value, names | words(key))


@lru_cache(maxsize=256)
def _in_module(name: str) -> tuple[list[Shown], list[str]]:
    """Return the constants of a module of the host, and its other modules that it imports."""
    module = sys.modules.get(name)
    if module is None or name.partition(".")[0] in ("builtins", __name__.partition(".")[0]):
        return [], []
    try:
        tree = ast.parse(inspect.getsource(module))
        constants = [*_in_code(tree, _NOTHING)]
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError):
        return [], []
    imported = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), module.__package__ or "")
            imported += [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
    return constants, [other for other in imported if _is_beside(other, module)]


def _is_beside(name: str, module: Any) -> bool:
    """Whether a module is loaded that is of the same package, or in the same folder."""
    file = getattr(sys.modules.get(name), "__file__", None)
    same = name.partition(".")[0] == module.__name__.partition(".")[0]
    return file is not None and (same or os.path.dirname(file) == os.path.dirname(module.__file__))


_SAID = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Return, ast.Import, ast.ImportFrom)
"""Code whose constants are words for people, or names of modules, or seen when they are returned."""


def _in_code(node: ast.AST, names: frozenset[str]) -> Iterator[Shown]:
    if isinstance(node, ast.Constant):
        yield from _shown_in(node.value, names)
    if isinstance(node, _SAID) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return
    parts = [*ast.iter_child_nodes(node)]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        parts = [part for part in parts if isinstance(part, ast.stmt | ast.arguments)]
        names = words(node.name)
    beside = [getattr(part, key, None) for part in parts for key in ("id", "attr")]
    names = names.union(
        *(words(name) for name in (*beside, getattr(node, "arg", 0)) if isinstance(name, str))
    )
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            own = words(str(key.value)) if isinstance(key, ast.Constant) else _NOTHING
            yield from _in_code(key, names) if key is not None else ()
            yield from _in_code(value, names | own)
        return
    for part in parts:
        yield from _in_code(part, names)
