"""
Values that an agent shows by itself: in its schemas and docstrings, in the code of its tools, in what its tools return and refuse.

A value is kept with the words that it was shown under (keys, names of variables, of tools), so that an argument gets first what
was shown under its own words. What the host's code holds is read once, from the source; what tools say is read in the example in
which they said it, and nowhere else: hypothesis takes an example again from its own choices alone.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple

from ...states.run.spec import ToolSpec
from ...tools.kept_values import json_of

MOST = 400
"""Most values that are kept of one place: of the host's code, of what the tools say."""

_LONG = 40
"""Longest text that is taken as one value; of a longer one its parts are."""

_MODULES = 20
"""Most modules of the host that are read."""

_NOT_THE_HOSTS = tuple({sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")})
"""Folders of the standard library and of installed packages."""

_NOTHING: frozenset[str] = frozenset()


Call = tuple[str, Mapping[str, Any]]
"""A tool and its arguments."""


class Shown(NamedTuple):
    """A value, and the words that it was shown under."""

    names: frozenset[str]
    value: Any


def words(name: str) -> frozenset[str]:
    """Return the words of an identifier, in lower case and the singular."""
    found = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return frozenset(word.lower().removesuffix("s") for word in found)


def pieces(text: str, *, marked: bool = False) -> Iterator[Any]:
    """
    Yield what in a text may be a value: itself, its lines, quoted parts, cells, words, and numbers.

    Args:
        text: Of a result, a message, a constant.
        marked: Yield of its words only those that look like a name of something: with a digit, a sign within, or quotes.
    """
    whole = text.strip()
    if whole and len(whole) <= _LONG and not marked:
        yield text if "\n" not in text else whole
    quoted = re.findall(r"[\"'`]([^\"'`\n]{1,40})[\"'`]", text)
    yield from quoted
    if not marked:
        cells = (cell.strip() for line in text.splitlines() for cell in re.split(r"[;,|\t]|: ", line))
        yield from (cell for cell in cells if 0 < len(cell) <= _LONG)
    for word in re.findall(r"[^\s\"'`;,|(){}\[\]<>=]+", text):
        plain = word.strip(".:!?")
        if plain and len(plain) <= _LONG and not (marked and re.fullmatch(r"[^\W\d]*", plain)):
            yield plain
    for number in re.findall(r"(?<![\w.-])-?\d{1,12}(?:\.\d{1,6})?(?![\w-])", text):
        yield float(number) if "." in number else int(number)


def shown_in(value: Any, names: frozenset[str] = _NOTHING) -> Iterator[Shown]:
    """Yield the values in a result of a tool, the first of each kind of place first."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from shown_in(item, names | words(str(key)))
        yield from (Shown(names, key) for key in value if not str(key).isidentifier())
    elif isinstance(value, list | tuple):
        for item in value:
            yield from shown_in(item, names)
    elif isinstance(value, str):
        if value.lstrip()[:1] in ("[", "{"):
            with suppress(ValueError, RecursionError):
                yield from shown_in(json.loads(value), names)
                return
        yield from (Shown(names, piece) for piece in dict.fromkeys(pieces(value)))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield Shown(names, value)


def of_result(call: Call, value: Any) -> list[Shown]:
    """Return what a result of a tool shows, but for what it repeats of its arguments."""
    text, _ = json_of(value, lossy=True)
    return _new(call, shown_in(json.loads(text), words(call[0])))


def of_error(call: Call, message: str) -> list[Shown]:
    """Return what the words of a tool's error show, but for what they repeat of its arguments."""
    return _new(call, (Shown(words(call[0]), piece) for piece in pieces(message, marked=True)))


def _new(call: Call, found: Iterable[Shown]) -> list[Shown]:
    given = [str(item.value) for item in of_arguments(call[1])]
    given += [ascii(text)[1:-1] for text in given]

    def is_new(value: Any) -> bool:
        return not isinstance(value, str) or not any(
            value in text or (len(text) > 3 and text in value) for text in given
        )

    return distinct(item for item in found if is_new(item.value))


def of_arguments(arguments: Mapping[str, Any]) -> list[Shown]:
    """Return the texts and numbers in the arguments of a call, each as it is."""
    return [Shown(words(name), value) for name, value in scalars(arguments)]


def scalars(value: Any, name: str = "") -> Iterator[Argument]:
    """Yield the texts and numbers in the arguments of a call, each with the name that it is under."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from scalars(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from scalars(item, name)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield name, value


def distinct(items: Iterable[Shown]) -> list[Shown]:
    """Return values once each, with all words that they were shown under, at most `MOST`."""
    found: dict[tuple[type, Any], frozenset[str]] = {}
    for item in items:
        key = type(item.value), item.value
        if key in found or len(found) < MOST:
            found[key] = found.get(key, _NOTHING) | item.names
    return [Shown(names, value) for (_, value), names in found.items()]


_CALLS = 16
"""Most calls of one tool that are kept for later examples."""


Argument = tuple[str, Any]
"""The name of an argument, and a text or a number that it had."""

_REFUSALS = 3
"""Calls with a value that have to fail, and none to succeed, for the value not to be drawn again under that name."""


class Learned:
    """
    What examples have shown, for later ones.

    It is given to them as it stands when hypothesis begins with them: what changes while it runs would make of an example
    that it takes again another one.

    Attributes:
        calls: Calls that succeeded, each once.
        shown: Values that tools have returned or named in errors.
        failed, taken: How often a call with an argument failed; the arguments of calls that succeeded.
    """

    def __init__(self) -> None:
        self.failed: Counter[Argument] = Counter()
        self.taken: set[Argument] = set()
        self.calls: dict[str, Call] = {}
        self.shown: list[Shown] = []

    def add(self, calls: Sequence[Call], failed: Sequence[Call], shown: Iterable[Shown]) -> None:
        """Take in an example."""
        self.failed.update(item for call in failed for item in scalars(call[1]))
        self.taken.update(item for call in calls for item in scalars(call[1]))
        for tool, arguments in reversed(calls):
            key = json.dumps([tool, arguments], sort_keys=True, default=str)
            self.calls[key] = tool, dict(arguments)
            same = [other for other, call in self.calls.items() if call[0] == tool]
            if len(same) > _CALLS:
                del self.calls[same[0]]
        self.shown = distinct([*self.shown, *shown])

    def now(self) -> Known:
        """Return what is known now."""
        refused = {item for item, count in self.failed.items() if count >= _REFUSALS}
        return Known(tuple(self.calls.values()), tuple(self.shown), frozenset(refused - self.taken))


class Known(NamedTuple):
    """What is known when hypothesis begins: calls that succeeded, values that were shown, arguments that are refused."""

    calls: tuple[Call, ...] = ()
    shown: tuple[Shown, ...] = ()
    refused: frozenset[Argument] = frozenset()


class Pool(NamedTuple):
    """
    What is known of values for arguments.

    Attributes:
        hints: Values by the name of an argument, as a host lists them.
        taken: Arguments of calls that succeeded, the newest first, each under the words of its name.
        shown: Every other value, what was shown last first.
        refused: Arguments with which calls only fail.
    """

    hints: Mapping[str, Sequence[Any]] = {}
    taken: tuple[Shown, ...] = ()
    shown: tuple[Shown, ...] = ()
    refused: frozenset[Argument] = frozenset()

    def choices(self, name: str, fits: Callable[[Any], bool]) -> list[tuple[int, list[Any]]]:
        """Return values for the argument *name* that fit, in groups, with how often one of each group is drawn."""
        wanted = words(name)
        taken = [item.value for item in self.taken if item.names & wanted and fits(item.value)]
        shown = [item for item in self.shown if fits(item.value) and (name, item.value) not in self.refused]
        by_words = sorted(shown, key=lambda item: -len(item.names & wanted))
        related = [item.value for item in by_words if item.names & wanted]
        every = [item.value for item in by_words]
        named = [value for value in every if not isinstance(value, str) or re.search(r"[^a-z ]", value)]
        near = dict.fromkeys(
            number
            for number in _numbers_near(taken, every)
            if fits(number) and (name, number) not in self.refused
        )
        often = 4 if taken and isinstance(taken[0], str) else 2
        groups = [
            (often, taken[:8]),
            (3, [*near][:40]),
            (3, related[:8]),
            (1, related),
            (2, named),
            (1, every),
        ]
        return [(weight, values) for weight, values in groups if values]


def _numbers_near(taken: Sequence[Any], shown: Sequence[Any]) -> Iterator[Any]:
    """Yield sums, differences and neighbours of numbers that were taken, and of the first that were shown."""
    if not all(isinstance(value, int | float) for value in (*taken[:1], *shown[:1])):
        return
    for one in taken[:4]:
        yield from (one + 1, one - 1)
        yield from (one + other for other in taken[:4])
    for one in shown[:8]:
        yield from (one + 1, one - 1)
        yield from (one - other for other in taken[:4])
        yield from (one - other + 1 for other in taken[:4])


# -- what is there before the first call ---------------------------------------------------------------------------


def of_schemas(tools: Sequence[ToolSpec]) -> list[Shown]:
    """Return what the schemas and descriptions of tools show: choices, bounds, examples, words that look like a name."""
    return distinct(item for tool in tools for item in _of_tool(tool))


def _of_tool(tool: ToolSpec) -> Iterator[Shown]:
    names = words(tool.name)
    yield from _of_schema(tool.parameters, names)
    yield from (Shown(names, piece) for piece in pieces(tool.description, marked=True))


def _of_schema(schema: Any, names: frozenset[str]) -> Iterator[Shown]:
    if isinstance(schema, list):
        for part in schema:
            yield from _of_schema(part, names)
    if not isinstance(schema, Mapping):
        return
    for key, value in schema.items():
        if key in ("enum", "examples", "const", "default"):
            yield from shown_in(value, names)
        elif key == "description" and isinstance(value, str):
            yield from (Shown(names, piece) for piece in pieces(value, marked=True))
        elif key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            for name, part in value.items():
                yield from _of_schema(part, names | words(name))
        else:
            yield from _of_schema(value, names)


def of_code(functions: Iterable[Callable[..., Any] | type | None]) -> tuple[Shown, ...]:
    """Return the constants of the modules in which *functions* are, and of the host's own modules that those use."""
    start = (getattr(_unwrapped(function), "__module__", None) for function in functions)
    found = list(dict.fromkeys(name for name in start if name and not _is_ours(name)))
    for name in found:  # those that it uses are added on the way
        found += [other for other in _used_by(name) if other not in found][: max(0, _MODULES - len(found))]
    return tuple(distinct(item for name in found for item in _of_module(name)))


def _unwrapped(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function) if callable(function) else function
    return function if hasattr(function, "__module__") else type(function)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in (__name__.partition(".")[0], "builtins")


@lru_cache(maxsize=256)
def _used_by(name: str) -> list[str]:
    """Return modules that a module has got something from, as far as they are the host's own."""
    values = [*vars(sys.modules.get(name, sys)).values()] if name in sys.modules else []
    used = {
        value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None) for value in values
    }
    return sorted(other for other in used if isinstance(other, str) and _is_hosts(other, name))


def _is_hosts(other: str, name: str) -> bool:
    file = getattr(sys.modules.get(other), "__file__", None)
    if not file or _is_ours(other) or not file.endswith(".py"):
        return False
    same = other.partition(".")[0] == name.partition(".")[0]
    return same or not file.startswith(_NOT_THE_HOSTS)


@lru_cache(maxsize=256)
def _of_module(name: str) -> tuple[Shown, ...]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (KeyError, OSError, TypeError, SyntaxError, ValueError, RecursionError):
        return ()
    reader = _Constants()
    reader.visit(tree)
    return tuple(distinct(reader.found))


class _Constants(ast.NodeVisitor):
    """Reads the constants of a module, with the names that each is beside; messages of errors and names of tools are none."""

    def __init__(self) -> None:
        self.found: list[Shown] = []
        self._names = _NOTHING
        self._returns = False

    def _under(self, names: Iterable[str], *nodes: ast.AST | None) -> None:
        before = self._names
        self._names = before.union(*map(words, names))
        for node in nodes:
            if node is not None:
                self.visit(node)
        self._names = before

    def visit_Constant(self, node: ast.Constant) -> None:
        self.found += shown_in(node.value, self._names)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            if isinstance(value := node.operand.value, int | float):
                self.found += shown_in(-value, self._names)
            return
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._under(_identifiers(*node.targets), node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._under(_identifiers(node.target), node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        self._under([node.arg or ""], node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._under(_identifiers(node), node.left, *node.comparators)

    def visit_Call(self, node: ast.Call) -> None:
        self._under(_identifiers(node.func), *node.args, *node.keywords)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            is_text = isinstance(key, ast.Constant) and isinstance(key.value, str)
            name = key.value if is_text else ""  # type: ignore[union-attr]
            if key is not None and not str(name).isidentifier():
                self.visit(key)
            elif name and not self._returns:
                self.found.append(Shown(self._names, name))
            self._under([str(name)], value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        given = [*node.args.defaults, *(item for item in node.args.kw_defaults if item is not None)]
        self._names = _NOTHING
        self._under([node.name], *given, *node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names = _NOTHING
        self._under([node.name], *node.body)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if not isinstance(
            node.value, ast.Constant
        ):  # it is seen when it is returned, and so are the keys of an object
            self._returns = True
            self.generic_visit(node)
            self._returns = False

    def _skip(self, node: ast.AST) -> None:
        """Leave out what a node holds."""

    visit_Raise = visit_JoinedStr = visit_Assert = visit_Import = visit_ImportFrom = _skip


def _identifiers(*nodes: ast.AST) -> list[str]:
    found = (part for node in nodes for part in ast.walk(node))
    return [
        str(getattr(part, "id", None) or getattr(part, "attr", ""))
        for part in found
        if isinstance(part, ast.Name | ast.Attribute)
    ]
