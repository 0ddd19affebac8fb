"""
Every regular expression of the product takes a time that grows with its text only, whatever stands there.

The expressions are found in the source, each with the methods that it is used by. The texts are made of what an expression names,
repeated, since what makes one slow is always a repetition of its own pieces. `re` keeps all threads of a process waiting, so a text
that a stranger wrote must never reach an expression that is slow.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections.abc import Iterator
from functools import cache
from re import _constants as kinds
from re import _parser as parser
from typing import Any, NamedTuple

import pytest

from ..support.effort import TooSlow, at_most_s
from ..support.pages import ROOT

SOURCE = ROOT / "src"
METHODS = {
    "match": 2,
    "search": 2,
    "fullmatch": 2,
    "findall": 2,
    "finditer": 2,
    "split": 3,
    "sub": 4,
    "subn": 4,
}
"""The place of the flags among the arguments of the functions of `re`."""

FUSE_S = 1.0
"""Of the processor, for one text. What is linear takes milliseconds; what is not, hours."""

ELSEWHERE = {
    "paor.fsm.transfer.redaction": "the patterns and secrets of whoever exports",
    "paor.fuzz.oracles.invariants": "of the tests' own tools",
    "paor.fuzz.strategies.json_schema": "of the schemas of the host under test",
    "paor.prompts.clients.remedies": "the names of a host's own settings, escaped",
    "paor.prompts.clients.wire.refusals": "alternatives of words",
    "paor.prompts.offline.kinds": "alternatives of words",
    "paor.prompts.parsing.unparsed": "alternatives of words",
    "paor.states.base.secrets": "alternatives of texts",
    "paor.tools.defaults": "alternatives of words",
    "paor.tools.documents.convert.xlsx": "a number behind one of two names",
    "paor.tools.documents.convert.archive": "names of parts of archives",
    "paor.tools.documents.convert.html": "a closing tag",
    "paor.tools.mcp.naming": "one class of characters",
    "paor.tools.policy": "`glob`, tested below",
}
"""Modules that make expressions of what they are given, and of what."""


class Found(NamedTuple):
    """An expression, where it stands, and the methods that it is used by."""

    place: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


@cache
def found() -> tuple[tuple[Found, ...], tuple[str, ...]]:
    """Return the expressions of the source, and the places of those that are made when they are used."""
    known: list[Found] = []
    made: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_of_re(node)]
        if not calls:
            continue
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        values = vars(importlib.import_module(name))
        for call in calls:
            place = f"{name}:{call.lineno}"
            try:
                known.append(Found(place, _compiled(call, values), frozenset(_methods(call, tree))))
            except NameError:
                made.append(name)
    return tuple(known), tuple(made)


def _is_of_re(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and ast.unparse(function.value) == "re"
        and function.attr in {*METHODS, "compile"}
    )


def _compiled(call: ast.Call, values: dict[str, Any]) -> re.Pattern[Any]:
    assert isinstance(call.func, ast.Attribute)
    place = METHODS.get(call.func.attr, 1)
    flags = [keyword.value for keyword in call.keywords if keyword.arg == "flags"] or call.args[place:]
    given = [_value(argument, values) for argument in (call.args[0], *flags[:1])]
    return re.compile(*given)


def _value(node: ast.AST, values: dict[str, Any]) -> Any:
    """Return what an expression is that is made of texts, names and attributes; raise `NameError` for any other."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            if name not in values and not hasattr(builtins, name):
                raise NameError(name)
            return values.get(name, getattr(builtins, name, None))
        case ast.Attribute(value=inner, attr=name):
            return getattr(_value(inner, values), name)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left, values) + _value(right, values)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _value(left, values) | _value(right, values)
        case ast.JoinedStr(values=parts):
            return "".join(_value(part, values) for part in parts)
        case ast.FormattedValue(value=inner):
            return str(_value(inner, values))
        case ast.Call(func=function, args=[*arguments], keywords=[]) if not arguments or not isinstance(
            arguments[0], ast.GeneratorExp
        ):
            return _value(function, values)(*(_value(argument, values) for argument in arguments))
    raise NameError(ast.unparse(node))


def _methods(call: ast.Call, tree: ast.Module) -> Iterator[str]:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr != "compile":
        yield call.func.attr
        return
    names = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and node.value is call
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in METHODS and ast.unparse(node.value) in names
    }
    yield from used or {"search"}


def pieces(pattern: re.Pattern[Any]) -> list[str]:
    """Return the texts that parts of an expression match: single characters, repeated parts, groups, and the whole."""
    told: list[str] = []

    def walk(parts: Any) -> str:
        whole = ""
        for kind, value in parts:
            whole += (piece := _piece(kind, value))
            told.append(piece)
        told.append(whole)
        return whole

    def _piece(kind: Any, value: Any) -> str:
        if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT):
            return walk(value[2]) * max(1, min(int(value[0]), 3))
        if kind is kinds.SUBPATTERN:
            return walk(value[3])
        if kind is kinds.ATOMIC_GROUP:
            return walk(value)
        if kind is kinds.BRANCH:
            first, *_ = [walk(branch) for branch in value[1]]
            return first
        if kind in (kinds.ASSERT, kinds.ASSERT_NOT):
            told.append(walk(value[1]))
            return ""
        return _character(kind, value)

    walk(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
    return [piece for piece in dict.fromkeys(told) if 0 < len(piece) < 60][:14]


def _character(kind: Any, value: Any) -> str:
    if kind is kinds.LITERAL:
        return chr(value)
    if kind in (kinds.ANY, kinds.NOT_LITERAL):
        return "a" if value != ord("a") else "b"
    if kind is not kinds.IN:
        return ""
    kind, value = value[0]
    if kind is kinds.CATEGORY:
        return {kinds.CATEGORY_DIGIT: "0", kinds.CATEGORY_SPACE: " ", kinds.CATEGORY_WORD: "a"}.get(
            value, "-"
        )
    return chr(value[0] if kind is kinds.RANGE else value) if kind in (kinds.RANGE, kinds.LITERAL) else "\x01"


def hostile(pattern: re.Pattern[Any], chars: int) -> Iterator[Any]:
    """Yield texts of that many characters in which pieces of an expression, and pairs of them, are repeated without an end that fits."""
    own = pieces(pattern)
    pairs = [one + other for one in own[:6] for other in own[:6] if one != other]
    for piece in dict.fromkeys((*own, " ", "\n", "a", "<!---->", *pairs)):
        for lead in dict.fromkeys(("", *own[:1], *own[-1:])):
            text = lead + piece * (chars // len(piece)) + "\x01"
            yield text.encode() if isinstance(pattern.pattern, bytes) else text


def tried(one: Found, chars: int) -> None:
    """Try an expression with every hostile text."""
    for text in hostile(one.pattern, chars):
        for method in sorted(one.methods):
            try:
                with at_most_s(FUSE_S):
                    if method in ("match", "search", "fullmatch"):
                        getattr(one.pattern, method)(text)
                    else:
                        for _ in one.pattern.finditer(text):
                            pass
            except TooSlow:
                pytest.fail(f"{one.place}: {one.pattern.pattern!r}.{method} is slow: {text[:60]!r}...")


def test_every_expression_is_found() -> None:
    """Also those that cannot be tried here: what is made of given texts stands in a list, with the reason."""
    known, made = found()
    assert len(known) > 200 and set(made) == set(ELSEWHERE)


def test_no_expression_tries_a_text_in_more_ways_than_it_has_characters() -> None:
    """Exponential and cubic ones do not come to an end even where the text is short."""
    for one in found()[0]:
        tried(one, 1_000)


@pytest.mark.whole
@pytest.mark.parametrize("one", found()[0], ids=lambda one: one.place)
def test_no_expression_takes_a_time_that_grows_with_the_square(one: Found) -> None:
    tried(one, 60_000)


def test_a_pattern_of_a_policy_takes_a_time_that_grows_with_the_text() -> None:
    """However many stars it has; and it fits what it fitted as an expression of ``.*``."""
    from paor.tools.policy import glob

    with at_most_s(FUSE_S):
        assert glob("*a" * 30 + "*b").match("a" * 3_000) is None
    assert glob("x*a*ab").match("x..aab") and not glob("x*a*ab").match("x.ab")
