"""
The small language of conditions and templates, from text to tree.

It takes the source documents' expressions as they stand: ``len(results) > 0``, ``results[-1].result``,
``iteration < 3 && len(plan.steps) > 0``, ``iteration + 1``. The grammar is a subset of Go's ``expr``, which those were
written for: literals, names, ``.key``, ``?.key``, ``[index]``, lists, the operators below and calls of the functions in
`expression_values`. There are no assignments, loops, lambdas and methods, so every expression ends. Loosest first::

    a ? b : c      || or      && and      not      == != < <= > >= in, not in, contains, startsWith, endsWith
    + -      * / %      - + ! (before a value)      ??      .key ?.key [index]

A library parses (lark, LALR: no backtracking, no recursion), and our own nodes are built while it does; nothing here
runs text as code. Libraries that evaluate as well were tried: none takes all of the expressions above as they stand
without a language runtime beneath it (no ``&&`` in those on Python's syntax, no ``[-1]`` in those of CEL in C or Rust).

Source: document 004 sections 2 and 5; docs/spec-coverage.md, C21;
https://expr-lang.org/docs/language-definition for the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ....states.base.errors import UsageError
from .extra import need_workflow_extra
from .functions import FUNCTIONS, NUMBER_MAX

if TYPE_CHECKING:
    from lark import Lark

TEXT_MAX = 4_000
"""Longest expression in characters; the longest of the documents has 36."""

DEPTH_MAX = 64
"""Deepest nesting; a chain of operators of one kind nests as well."""

NODES_MAX = 1_000

GRAMMAR = r"""
?start: conditional
?conditional: either | either "?" conditional ":" conditional -> choose
?either: both | either _OR both                               -> either
?both: inverse | both _AND inverse                            -> both
?inverse: comparison | NOT inverse                            -> inverse
?comparison: sum
    | comparison (EQUAL | ORDER | IN | WITHIN) sum            -> binary
    | comparison NOT IN sum                                   -> outside
?sum: product | sum (PLUS | MINUS) product                    -> binary
?product: unary | product (TIMES | OVER | REST) unary         -> binary
?unary: default | BANG unary                                  -> inverse
    | (PLUS | MINUS) unary                                    -> signed
?default: place | default "??" operand                        -> default
?operand: place | BANG operand                                -> inverse
    | (PLUS | MINUS) operand                                  -> signed
?place: value | place ("." | "?.") NAME                       -> member
    | place OPEN conditional "]"                              -> item
?value: "(" conditional ")"
    | OPEN [conditional ("," conditional)* [","]] "]"         -> items
    | NAME "(" [conditional ("," conditional)*] ")"           -> call
    | NAME                                                    -> name
    | NUMBER                                                  -> number
    | TEXT                                                    -> text
    | WORD                                                    -> word
_OR: /\|\||or\b/
_AND: /&&|and\b/
NOT.2: /not\b/
BANG: "!"
WORD.2: /(?:true|false|null|nil)\b/
OPEN: "["
EQUAL: "==" | "!="
ORDER: "<=" | ">=" | "<" | ">"
IN: /in\b/
WITHIN: /(?:contains|startsWith|endsWith)\b/
PLUS: "+"
MINUS: "-"
TIMES: "*"
OVER: "/"
REST: "%"
NAME: /[^\W\d]\w*/
NUMBER: /\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/
TEXT: /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/
%ignore /[ \t\r\n]+/
"""

_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "/": "/"}
_HINTS = {
    "=": "write == to compare",
    "&": "write && or and",
    "|": "write || or or",
    "`": "write texts in ' or \"",
    "$": "within an expression names stand without ${}",
    "{": "there are no objects in expressions",
    "^": "there is no such operator",
}


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
        return f"{self.problem}, at character {self.position + 1} of {shown(self.text)}"


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


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Expression:
    """
    Return *text* as an expression.

    Args:
        text: At most `TEXT_MAX` characters; a ``${...}`` around the whole is allowed.

    Raises:
        ExpressionError: It is empty, too long, too deep, no expression, calls what is no function, or calls one with
            too few or too many arguments.
        MissingExtra: The extra ``workflow`` is not installed.
    """
    need_workflow_extra()
    from lark.exceptions import UnexpectedInput

    if len(text) > TEXT_MAX:
        raise ExpressionError("limit", f"longer than {TEXT_MAX} characters", text, TEXT_MAX)
    body, offset = _unwrapped(text)
    if not body.strip():
        raise ExpressionError("syntax", "an empty expression", text, 0)
    try:
        root: Any = _parser().parse(body)
    except Fault as fault:
        raise ExpressionError(fault.code, fault.problem, text, fault.at + offset) from None
    except UnexpectedInput as error:
        raise _syntax_error(error, text, body, offset) from None
    if offset:
        root = _moved(root, offset)
    return Expression(text, root, tuple(dict.fromkeys(_names(root))))


def _unwrapped(text: str) -> tuple[str, int]:
    """Return what stands in a ``${...}`` that is the whole text, and where that begins."""
    start = len(text) - len(text.lstrip())
    body = text.strip()
    if body.startswith("${") and body.endswith("}"):
        return body[2:-1], start + 2
    return text, 0


class Fault(Exception):
    """What is wrong at one place; becomes an `ExpressionError` where the whole text is known."""

    def __init__(self, code: str, problem: str, at: int) -> None:
        super().__init__(code, problem, at)
        self.code = code
        self.problem = problem
        self.at = at


def _syntax_error(error: Any, text: str, body: str, offset: int) -> ExpressionError:
    """Return what the parser's error means."""
    token = getattr(error, "token", None)
    at: int | None = getattr(error, "pos_in_stream", None)
    if token is not None and token.type == "$END":
        at = None
    elif token is not None:
        at = token.start_pos
    if at is None or at < 0 or at >= len(body):
        return ExpressionError("syntax", "the expression ends too early", text, len(body) + offset)
    found = str(token) if token is not None else body[at]
    if found in "\"'" and token is None:
        return ExpressionError("syntax", "a text that is not closed", text, at + offset)
    hint = _HINTS.get(found)
    problem = f"unexpected {shown(found)}" + (f" ({hint})" if hint else "")
    return ExpressionError("syntax", problem, text, at + offset)


def _moved(node: Node, offset: int) -> Node:
    parts = tuple(_moved(part, offset) for part in node.parts)
    return Node(node.kind, node.at + offset, node.value, parts, node.depth, node.size)


def _names(node: Node) -> list[str]:
    own = [node.value] if node.kind == "name" else []
    return own + [name for part in node.parts for name in _names(part)]


def made(kind: str, at: int, value: Any = None, parts: tuple[Node, ...] = ()) -> Node:
    """
    Return a node with its depth and size.

    Raises:
        Fault: It would be too deep or too large.
    """
    depth = 1 + max((part.depth for part in parts), default=0)
    size = 1 + sum(part.size for part in parts)
    if depth > DEPTH_MAX:
        raise Fault("limit", f"nested deeper than {DEPTH_MAX} levels", at)
    if size > NODES_MAX:
        raise Fault("limit", f"more than {NODES_MAX} parts", at)
    return Node(kind, at, value, parts, depth, size)


def number_of(digits: str, at: int) -> int | float:
    """Return a number literal's value; a whole one is an int, as in JSON's canonical form."""
    value = float(digits)
    if not value <= NUMBER_MAX:
        raise Fault("range", f"a number beyond {NUMBER_MAX}", at)
    return int(value) if value.is_integer() else value


def text_of(quoted: str, at: int) -> str:
    """Return a text literal's value; what follows a backslash is as in JSON, with ``\\'`` as well."""

    def replaced(found: re.Match[str]) -> str:
        mark = found[1]
        if len(mark) == 5:
            return chr(int(mark[1:], 16))
        if mark not in _ESCAPED:
            raise Fault("syntax", f"an unknown escape {shown(found[0])}", at + 1 + found.start())
        return _ESCAPED[mark]

    value = _ESCAPE.sub(replaced, quoted[1:-1])
    try:
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise Fault("syntax", "a text with half a character", at) from None


def called(name: str, at: int, arguments: tuple[Node, ...]) -> Node:
    """Return the call of a function that exists with as many arguments as it takes."""
    if name not in FUNCTIONS:
        near = get_close_matches(name, FUNCTIONS, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(FUNCTIONS)}"
        raise Fault("unknown_function", f"there is no function {shown(name)}{hint}", at)
    least, most = FUNCTIONS[name].least, FUNCTIONS[name].most
    if not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise Fault("arguments", f"{name}() takes {wanted} arguments, found {len(arguments)}", at)
    return made("call", at, name, arguments)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    """Return the parser; built once, when the first expression is read."""
    from lark import Lark

    from .ast_builder import Builder

    return Lark(GRAMMAR, parser="lalr", lexer="contextual", transformer=Builder(), cache=False)


def shown(text: str) -> str:
    """Return *text* for a message: in quotes, on one line, at most 60 characters of ASCII."""
    quoted = ascii(text[:60])
    return quoted if len(text) <= 60 and len(quoted) <= 62 else f"{quoted[:57]}...'"
