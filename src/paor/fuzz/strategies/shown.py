"""
Values that an agent shows by itself: in its code and schemas, in what its tools return and refuse.

Each is kept with the words that it was shown under (keys, names of variables, of tools): an argument gets those of its own words first.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from traceback import walk_tb
from types import CodeType
from typing import Any

from ...fsm.runtime.tool_results import message_of
from ...states.run.spec import ToolSpec
from ...tools.kept_values import json_of

Shown = tuple[frozenset[str], Any]
"""The words that a value was shown under, and the value."""

_LONG = 40
"""Longest text that is one value; of a longer one its parts are."""
_LARGE = 1e15
"""Numbers from here on are not drawn from: beyond, a float no longer holds every whole number."""
_DATA = (dict, list, tuple, set, frozenset, str, int, float)
_OURS = __name__.partition(".")[0] + "."


@dataclass(frozen=True, slots=True)
class Learned:
    """
    What is known of values for arguments, the newest last.

    Attributes:
        hints: Values by the name of an argument, as a host lists them.
        base: What is there before the first call, see `of_agent`.
        about: The tool that is to be called.
        calls: The last calls of a tool by where they ended: the lines that raised, none of a success.
        errors: What a tool last raised, in words, and what would help.
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

    def of(self, hints: Mapping[str, Sequence[Any]], base: tuple[Shown, ...]) -> Learned:
        """Return a copy for an agent with these hints, which shows *base* from the start."""
        calls = {end: [*calls] for end, calls in self.calls.items()}
        return Learned(hints, base, "", calls, {**self.errors}, [*self.shown], {**self.tried})

    def add(self, tool: str, arguments: Mapping[str, Any], ended: Any) -> None:
        """Learn from a call, and from what its function returned, or the exception that it raised."""
        failed = isinstance(ended, Exception)
        for name, value in _scalars(arguments):
            was = self.tried.pop((name, type(value), value), 0)
            self.tried[name, type(value), value] = was + (was >= 0) if failed else -1
        lines = tuple(line for _, line in walk_tb(ended.__traceback__)) if failed else ()
        alike = self.calls.setdefault((tool, lines), [])
        alike.append(dict(arguments))
        del alike[: -1 if failed else -16]
        if failed:
            said, listed = message_of(ended) or type(ended).__name__, ", ".join(arguments)
            found = [(words(tool), piece) for piece in _pieces(said, prose=True)]
            self.errors[tool] = ascii(said)[1:-1][:80] + (
                f"; list in values what it takes: {listed}" if listed else ""
            )
        else:
            found = [*_shown_in(json.loads(json_of(ended, lossy=True)[0]), words(tool))]
        given = json.dumps(arguments, ensure_ascii=False, default=str)  # what is said again shows nothing
        new = (item for item in found if not (isinstance(item[1], str) and item[1] in given))
        self.shown.extend(item for item in new if item not in self.shown)
        del self.shown[:-256]

    def seeds(self) -> list[Mapping[str, Any]]:
        """Return calls of the tool to change: the newest that succeeded, then one of each other end, the furthest first."""
        ends = [(lines, calls) for (tool, lines), calls in reversed(self.calls.items()) if tool == self.about]
        return [call for _, calls in sorted(ends, key=lambda end: bool(end[0])) for call in reversed(calls)]

    def lacking(self, tools: Iterable[str]) -> dict[str, str]:
        """Return those of *tools* in which no call has succeeded, with why, and what would help."""
        return {
            name: f"failed each time, at last: {self.errors[name]}" if name in self.errors else "never called"
            for name in tools
            if (name, ()) not in self.calls
        }

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
        if not isinstance(one, str) and abs(one) < _LARGE:
            yield from (one + 1, one - 1)
            for other in (other for other in taken if abs(other) < _LARGE):
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
        for item in sorted(value, key=repr) if isinstance(value, set | frozenset) else value:
            yield from _shown_in(item, names, keys=keys)
    elif isinstance(value, str):
        if value[:1] in ("[", "{"):
            with suppress(ValueError, RecursionError):
                yield from _shown_in(json.loads(value), names)
        yield from ((names, piece) for piece in _pieces(value))
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGE:
        yield names, value


# -- what is there before the first call ---------------------------------------------------------------------------


def of_agent(tools: Sequence[ToolSpec], functions: Iterable[Any]) -> tuple[Shown, ...]:
    """Return what the schemas and descriptions of *tools* show, the constants of *functions*, and the data that these refer to."""
    read: set[Any] = set()
    found = chain(
        ((words(tool.name), piece) for tool in tools for piece in _pieces(tool.description, prose=True)),
        (item for tool in tools for item in _in_schema(tool.parameters, words(tool.name))),
        (item for function in functions for item in _in_function(function, read)),
    )
    return tuple(dict.fromkeys(islice(found, 1024)))


def _in_schema(schema: Any, names: frozenset[str]) -> Iterator[Shown]:
    for key, value in schema.items() if isinstance(schema, Mapping) else [("", each) for each in schema]:
        if key in ("properties", "$defs") and isinstance(value, Mapping):
            for name, item in value.items():
                yield from _in_schema([item], names | words(name))
        elif key in ("enum", "examples", "const", "default", "minimum", "maximum"):
            yield from _shown_in(value, names)
        elif key == "description":
            yield from ((names, piece) for piece in _pieces(str(value), prose=True))
        elif isinstance(value, Mapping | list):
            yield from _in_schema(value, names | words(key))


def _in_function(function: Any, read: set[Any]) -> Iterator[Shown]:
    """Yield the constants of a function that is the host's own, and data, helpers and modules beside it that it refers to."""
    function = inspect.unwrap(getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    if code is None or code in read or str(function.__module__).startswith(_OURS):
        return
    read.add(code)
    yield from _in_code(code, words(function.__name__), function.__doc__)
    folder = os.path.dirname(code.co_filename)
    with suppress(
        TypeError, ValueError, RecursionError
    ):  # a variable without a value, data that holds itself
        used = inspect.getclosurevars(function)
        for name, value in {**used.globals, **used.nonlocals}.items():
            if inspect.isfunction(value) and os.path.dirname(value.__code__.co_filename) == folder:
                yield from _in_function(value, read)
            elif (
                inspect.ismodule(value) and os.path.dirname(getattr(value, "__file__", None) or "") == folder
            ):
                plain = {key: item for key, item in vars(value).items() if issubclass(type(item), _DATA)}
                yield from (
                    item for key in plain if key[0] != "_" for item in _shown_in(plain[key], words(key))
                )
            elif issubclass(type(value), _DATA):  # of what only says that it is, a proxy, nothing is known
                yield from _shown_in(value, words(name), keys=True)


def _in_code(code: CodeType, names: frozenset[str], said: str | None = None) -> Iterator[Shown]:
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _in_code(value, words(value.co_name))
        elif isinstance(value, str):  # of words for people only those that look like a name
            yield from ((names, piece) for piece in _pieces(value, prose=" " in value) if value != said)
        else:
            yield from _shown_in(value, names)
