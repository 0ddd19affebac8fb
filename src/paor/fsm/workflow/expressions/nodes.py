"""
The tree of an expression: its nodes, its bounds, and what is wrong with a text that is none.

The parser builds the nodes from the leaves up, and each is checked as it is built, so that no text makes a tree beyond the bounds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ....states.base.errors import UsageError
from .functions import FUNCTIONS, NUMBER_MAX, Misfit

TEXT_MAX = 4_000
"""Longest expression in characters; the longest of the documents has 36."""

DEPTH_MAX = 64
"""Deepest nesting; a chain of operators of one kind nests as well."""

NODES_MAX = 1_000

_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "/": "/"}


class ExpressionError(UsageError):
    """
    An expression or template cannot be used; nothing was changed.

    Attributes:
        code: ``syntax``, ``limit``, ``unknown_function``, ``unknown_name``, ``arguments``, ``type`` or ``range``.
        position: Where in *text*, in characters from 0.
        text: What was to be read.
        problem: What is wrong, without the place.
    """

    def __init__(self, code: str, problem: str, text: str, position: int) -> None:
        super().__init__(code, problem, text, position)
        self.code = code
        self.problem = problem
        self.text = text
        self.position = position

    def __str__(self) -> str:
        return f"{self.problem}, at character {self.position + 1} of {quoted(self.text)}"


@dataclass(frozen=True, slots=True)
class Node:
    """
    One node of an expression.

    Attributes:
        kind: ``literal``, ``name``, ``member``, ``items``, ``call``, ``binary``, ``signed``, ``inverse``, ``either``,
            ``both``, ``default`` or ``choose``.
        at: Where its text begins, in characters from 0.
        value: The literal's value, a name, a function's name, an operator.
        parts: What it is made of.
        depth: Levels from here down, itself included.
        size: Nodes from here down, itself included.
    """

    kind: str
    at: int
    value: Any = None
    parts: tuple[Node, ...] = ()
    depth: int = 1
    size: int = 1


@dataclass(frozen=True, slots=True)
class Expression:
    """
    A parsed expression.

    Attributes:
        text: As it was written.
        root: Its tree.
        names: The variables that it reads, each once, in their order.
    """

    text: str
    root: Node
    names: tuple[str, ...]


class ParseFault(Misfit):
    """What is wrong at one place; becomes an `ExpressionError` where the whole text is known."""

    def __init__(self, code: str, problem: str, at: int) -> None:
        super().__init__(code, problem)
        self.at = at


def new_node(kind: str, at: int, value: Any = None, parts: tuple[Node, ...] = ()) -> Node:
    """
    Return a node with its depth and size.

    Raises:
        ParseFault: It would be too deep or too large.
    """
    depth = 1 + max((part.depth for part in parts), default=0)
    size = 1 + sum(part.size for part in parts)
    if depth > DEPTH_MAX:
        raise ParseFault("limit", f"nested deeper than {DEPTH_MAX} levels", at)
    if size > NODES_MAX:
        raise ParseFault("limit", f"more than {NODES_MAX} parts", at)
    return Node(kind, at, value, parts, depth, size)


def number_of(digits: str, at: int) -> int | float:
    """Return a number literal's value; a whole one is an int, as in JSON's canonical form."""
    value = float(digits)
    if not value <= NUMBER_MAX:
        raise ParseFault("range", f"a number beyond {NUMBER_MAX}", at)
    return int(value) if value.is_integer() else value


def text_of(literal: str, at: int) -> str:
    """Return a text literal's value; what follows a backslash is as in JSON, with ``\\'`` as well."""

    def replaced(found: re.Match[str]) -> str:
        mark = found[1]
        if len(mark) == 5:
            return chr(int(mark[1:], 16))
        if mark not in _ESCAPED:
            raise ParseFault("syntax", f"an unknown escape {quoted(found[0])}", at + 1 + found.start())
        return _ESCAPED[mark]

    value = _ESCAPE.sub(replaced, literal[1:-1])
    try:
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ParseFault("syntax", "a text with half a character", at) from None


def call_node(name: str, at: int, arguments: tuple[Node, ...]) -> Node:
    """Return the call of a function that exists with as many arguments as it takes."""
    if name not in FUNCTIONS:
        near = get_close_matches(name, FUNCTIONS, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(FUNCTIONS)}"
        raise ParseFault("unknown_function", f"there is no function {quoted(name)}{hint}", at)
    least, most = FUNCTIONS[name].least, FUNCTIONS[name].most
    if not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise ParseFault("arguments", f"{name}() takes {wanted} arguments, found {len(arguments)}", at)
    return new_node("call", at, name, arguments)


def quoted(text: str) -> str:
    """Return *text* for a message: in quotes, on one line, at most 60 characters of ASCII."""
    escaped = ascii(text[:60])
    return escaped if len(text) <= 60 and len(escaped) <= 62 else f"{escaped[:57]}...'"
