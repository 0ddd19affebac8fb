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

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .extra import need_workflow_extra
from .nodes import TEXT_MAX, Expression, ExpressionError, Node, ParseFault, quoted

if TYPE_CHECKING:
    from lark import Lark

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

_HINTS = {
    "=": "write == to compare",
    "&": "write && or and",
    "|": "write || or or",
    "`": "write texts in ' or \"",
    "$": "within an expression names stand without ${}",
    "{": "there are no objects in expressions",
    "^": "there is no such operator",
}


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
    body = _unwrap(text)
    if not body.strip():
        raise ExpressionError("syntax", "an empty expression", text, 0)
    try:
        root: Any = _parser().parse(body)
    except ParseFault as fault:
        raise ExpressionError(fault.code, fault.problem, text, fault.at) from None
    except UnexpectedInput as error:
        raise _syntax_error(error, text, body) from None
    return Expression(text, root, tuple(dict.fromkeys(_names(root))))


def _unwrap(text: str) -> str:
    """Return *text* with blanks instead of a ``${`` before it, and without the ``}`` behind it."""
    body = text.strip()
    if body.startswith("${") and body.endswith("}"):
        return body[2:-1].rjust(len(text.rstrip()) - 1)
    return text


def _syntax_error(error: Any, text: str, body: str) -> ExpressionError:
    token = getattr(error, "token", None)
    at: int | None = getattr(error, "pos_in_stream", None) if token is None else token.start_pos
    if at is None or not 0 <= at < len(body) or (token is not None and token.type == "$END"):
        return ExpressionError("syntax", "the expression ends too early", text, len(body))
    found = str(token) if token is not None else body[at]
    if found in "\"'" and token is None:
        return ExpressionError("syntax", "a text that is not closed", text, at)
    hint = _HINTS.get(found)
    problem = f"unexpected {quoted(found)}" + (f" ({hint})" if hint else "")
    return ExpressionError("syntax", problem, text, at)


def _names(node: Node) -> list[str]:
    own = [node.value] if node.kind == "name" else []
    return own + [name for part in node.parts for name in _names(part)]


@lru_cache(maxsize=1)
def _parser() -> Lark:
    """Return the parser; built once, when the first expression is read."""
    from lark import Lark

    from .ast_builder import Builder

    return Lark(GRAMMAR, parser="lalr", lexer="contextual", transformer=Builder(), cache=False)
