"""
Values that an agent shows by itself: in its code and schemas, in what its tools return and refuse.

Each is kept with the words that it was shown under (keys, names of variables, of tools): an argument gets those of its own words first.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import resolve_name
from traceback import walk_tb
from typing import Any

from ...fsm.runtime.tool_results import message_of
from ...states.run.spec import ToolSpec
from ...tools.kept_values import json_of

Shown = tuple[frozenset[str], Any]
"""The words that a value was shown under, and the value."""

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
        about: The tool that is to be called.
        calls: The last calls of a tool by where they ended: the lines that raised, none of a success.
        errors: What a tool last raised, in words.
        shown: Values that tools have returned, or named in an error.
        tried: How many calls failed with a value, by the name of the argument and its type; below zero once one has succeeded.
    """

    hints: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    base: tuple[Shown, ...] = ()
    about: str = ""
    calls: dict[tuple[str, tuple[int, ...]], list[Mapping[str, Any]]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    shown: list[Shown] = field(default_factory=list)
    tried: dict[tuple[str, type, Any], int] = field(default_factory=dict)

    def of(self, hints: Mapping[str, Sequence[Any]], base: tuple[Shown, ...]) -> Memory:
        """Return a copy for an agent with these hints, which shows *base* from the start."""
        calls = {end: [*calls] for end, calls in self.calls.items()}
        return Memory(hints, base, "", calls, {**self.errors}, [*self.shown], {**self.tried})

    def add(self, tool: str, arguments: Mapping[str, Any], ended: Any) -> None:
        """Learn from a call, and from what its function returned, or the exception that it raised."""
        failed = isinstance(ended, Exception)
        for name, value in _scalars(arguments):
            was = self.tried.pop((name, type(value), value), 0)
            self.tried[name, type(value), value] = was + (was >= 0) if failed else -1
        alike = self.calls.setdefault(
            (tool, tuple(line for _, line in walk_tb(ended.__traceback__)) if failed else ()), []
        )
        alike.append(dict(arguments))
        del alike[: -1 if failed else -16]
        if failed:
            self.errors[tool] = message_of(ended) or type(ended).__name__
            found = [(words(tool), piece) for piece in _pieces(self.errors[tool], prose=True)]
        else:
            found = [*_shown_in(json.loads(json_of(ended, lossy=True)[0]), words(tool))]
        given = json.dumps(arguments, ensure_ascii=False, default=str)
        self.shown.extend(
            item
            for item in found
            if item not in self.shown and not (isinstance(item[1], str) and item[1] in given)
        )
        del self.shown[:-256]

    def seeds(self) -> list[Mapping[str, Any]]:
        """Return calls of the tool to change: the newest that succeeded, then one of each other end, the furthest first."""
        ends = [(lines, calls) for (tool, lines), calls in reversed(self.calls.items()) if tool == self.about]
        return [call for _, calls in sorted(ends, key=lambda end: bool(end[0])) for call in reversed(calls)]

    def lacking(self, tools: Iterable[str]) -> dict[str, str]:
        """Return those of *tools* in which no call has succeeded, with why, and what would help."""
        found = {}
        for name in tools:
            ends = {lines: calls for (tool, lines), calls in self.calls.items() if tool == name}
            given = ", ".join(dict.fromkeys(key for calls in ends.values() for call in calls for key in call))
            if not ends:
                found[name] = "never called"
            elif () not in ends:
                advice = f"; list in values what it takes: {given}" if given else ""
                found[name] = f"failed each time, at last: {ascii(self.errors[name])[1:-1]:.80}{advice}"
        return found

    def choices(self, name: str, fits: Callable[[Any], bool]) -> list[tuple[int, list[Any]]]:
        """Return values for the argument *name* that fit, in groups, with how often one of each group is drawn."""
        wanted, near = words(name), words(self.about)
        succeeded = [key for key, count in reversed(self.tried.items()) if count < 0]
        taken = [value for other, _, value in succeeded if words(other) & wanted and fits(value)]
        anywhere = {key[1:] for key in succeeded}

        def rank(item: Shown) -> tuple[int, ...]:
            names, value = item
            failed = self.tried.get((name, type(value), value), 0) // 2
            own = 2 * bool(names & wanted) + bool(names & near)
            return failed, -own, (type(value), value) not in anywhere, str(value).islower()

        every = [item[1] for item in sorted((*reversed(self.shown), *self.base), key=rank) if fits(item[1])]
        beside = [value for value in _near(taken[:4], every[:8]) if fits(value)]
        groups = [(3, taken[:8]), (3, beside), (3, every[:4]), (2, every[:16]), (1, every)]
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
    parts += [] if prose else [text, *re.split(r"[;,|\t\n]|: ", text)]
    parts += [part for part in apart if not (prose and part.isalpha())]
    for part in dict.fromkeys(part.strip() for part in parts):
        if 0 < len(part) <= _LONG and part.isprintable():
            yield part
    for number in re.findall(r"(?<![\w.-])-?\d{1,12}(?:\.\d{1,6})?(?![\w-])", text):
        yield float(number) if "." in number else int(number)


def _shown_in(value: Any, names: frozenset[str], *, keys: bool = False) -> Iterator[Shown]:
    """Yield the values in data, such as the result of a tool; of the *keys* else only those that are no names."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _shown_in(item, names | words(str(key)), keys=keys)
            yield from _shown_in(key, names) if keys or not str(key).isidentifier() else ()
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _shown_in(item, names, keys=keys)
    elif isinstance(value, str):
        if value[:1] in ("[", "{"):
            with suppress(ValueError, RecursionError):
                yield from _shown_in(json.loads(value), names)
        yield from ((names, piece) for piece in _pieces(value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield names, value


# -- what is there before the first call ---------------------------------------------------------------------------


def of_agent(tools: Sequence[ToolSpec], functions: Iterable[Any]) -> tuple[Shown, ...]:
    """Return what the schemas and descriptions of *tools* show, and the constants of the modules that *functions* are of and import."""
    found = [(words(tool.name), piece) for tool in tools for piece in _pieces(tool.description, prose=True)]
    found += [item for tool in tools for item in _in_schema(tool.parameters, words(tool.name))]
    plain = (inspect.unwrap(getattr(each, "func", each)) for each in functions)
    modules = list(dict.fromkeys(getattr(each, "__module__", "") for each in plain))
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
    found: list[Shown] = []
    imported: list[str] = []
    module = sys.modules.get(name)
    if module is None or name.partition(".")[0] in ("builtins", __name__.partition(".")[0]):
        return found, imported
    with suppress(OSError, TypeError, SyntaxError, ValueError, RecursionError):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom):
                origin = resolve_name("." * node.level + (node.module or ""), module.__package__ or "")
                imported += [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                imported += [alias.name for alias in node.names]
            else:
                found += _in_statement(node)
    files = {other: getattr(sys.modules.get(other), "__file__", None) or "" for other in imported}
    folder = os.path.dirname(module.__file__ or "")
    same = name.partition(".")[0]
    return found, [
        other
        for other, file in files.items()
        if file and (os.path.dirname(file) == folder or other.partition(".")[0] == same)
    ]


def _in_statement(node: ast.AST) -> Iterator[Shown]:
    """Yield the constants of a plain statement, or of a condition, with the names in it; none that is only words for people, or is returned."""
    if isinstance(node, ast.If | ast.While):
        node = node.test
    elif not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr):
        return
    value = getattr(node, "value", node)
    if isinstance(node, ast.Expr) and isinstance(value, ast.Constant):
        return
    parts = [*ast.walk(node)]
    beside = (getattr(part, key, None) for part in parts for key in ("id", "attr", "arg"))
    names = frozenset[str]().union(*(words(name) for name in beside if isinstance(name, str)))
    try:
        yield from _shown_in(ast.literal_eval(value), names, keys=True)
    except ValueError:
        for part in parts:
            if isinstance(part, ast.Constant):
                yield from _shown_in(part.value, names)
