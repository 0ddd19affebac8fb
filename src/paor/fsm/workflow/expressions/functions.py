"""
What the operators and functions of an expression do with JSON values.

Strict about types, since a condition that quietly means something else is worse than one that fails: ``1`` is not
``"1"`` and not ``true``, and only numbers or texts can be ordered. Null is the exception, so that a plan that is not
there can be asked for its steps: its keys and items are null, it is as long as an empty list, and false as a condition.
Numbers stay within what a double holds exactly, and a whole result is an int: ``4 / 2`` is ``2``.

Source: document 004 (``len(plan.steps) > 0`` of a plan that may be null); docs/spec-coverage.md, C21.
"""

from __future__ import annotations

import json
import math
import operator as operators
from collections.abc import Callable
from typing import Any, NamedTuple

NUMBER_MAX = 2**53 - 1
"""Largest number that arithmetic may reach; beyond it a double loses whole numbers."""

CHARS_MAX = 1_000_000
"""Longest text that an expression may build."""


WORK_MAX = 2_000_000
"""Most work of one evaluation or template: items and characters that are looked at or built, roughly a second."""


class Misfit(Exception):
    """
    A value is of the wrong type or out of range.

    Attributes:
        code: ``type``, ``range`` or ``limit``.
        problem: What is wrong, in a few words.
    """

    def __init__(self, code: str, problem: str) -> None:
        super().__init__(code, problem)
        self.code = code
        self.problem = problem


class Work:
    """
    What one evaluation may still do.

    Attributes:
        left: Items and characters.
    """

    __slots__ = ("left",)

    def __init__(self, left: int = WORK_MAX) -> None:
        self.left = left

    def spend(self, amount: int) -> None:
        """Take *amount* away; raise `Misfit` when nothing is left."""
        self.left -= amount
        if self.left < 0:
            raise Misfit("limit", "more work than one evaluation may do")


def weight_of(value: object) -> int:
    """Return how many items or characters a value has, itself included; what is within its items does not count."""
    return 1 + len(value) if isinstance(value, str | list | dict) else 1


def kind_of(value: object) -> str:
    """Return what a value is, for messages."""
    if value is None:
        return "null"
    if type(value) is bool:
        return "true" if value else "false"
    names = {str: "a text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "something that is not JSON")


def truth(value: object) -> bool:
    """Return a condition's value; null counts as false."""
    if value is None or type(value) is bool:
        return bool(value)
    raise Misfit("type", f"expected true or false, found {kind_of(value)}")


def is_number(value: object) -> bool:
    """Return whether *value* is a number; true and false are none."""
    return type(value) in (int, float)


def equal(left: Any, right: Any, work: Work) -> bool:
    """Return whether two values are the same JSON: ``1`` and ``1.0`` are, ``1`` and ``true`` are not."""
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        work.spend(1)
        if is_number(one) and is_number(other):
            if one != other:
                return False
        elif type(one) is not type(other):
            return False
        elif type(one) is list:
            if len(one) != len(other):
                return False
            work.spend(len(one))
            pairs += zip(one, other, strict=True)
        elif type(one) is dict:
            if one.keys() != other.keys():
                return False
            work.spend(len(one))
            pairs += [(one[key], other[key]) for key in one]
        elif one != other:
            return False
    return True


_ORDERS = {"<": operators.lt, "<=": operators.le, ">": operators.gt, ">=": operators.ge}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operators.add,
    "-": operators.sub,
    "*": operators.mul,
    "/": operators.truediv,
    "%": math.fmod,
}


def ordered(operator: str, left: Any, right: Any) -> bool:
    """Return what ``<``, ``<=``, ``>`` or ``>=`` says of two numbers or two texts."""
    if not ((is_number(left) and is_number(right)) or (type(left) is str and type(right) is str)):
        raise Misfit(
            "type", f"{operator} compares two numbers or two texts, not {kind_of(left)} and {kind_of(right)}"
        )
    return bool(_ORDERS[operator](left, right))


def within(operator: str, left: Any, right: Any, work: Work) -> bool:
    """Return what ``in``, ``contains``, ``startsWith`` or ``endsWith`` says."""
    work.spend(weight_of(left) + weight_of(right))
    if operator == "in":
        if right is None:
            return False
        if type(right) is list:
            return any(equal(left, item, work) for item in right)
        if type(right) in (dict, str) and type(left) is str:
            return left in right
        raise Misfit("type", f"{kind_of(left)} cannot be in {kind_of(right)}")
    if type(left) is not str or type(right) is not str:
        raise Misfit("type", f"{operator} takes two texts, not {kind_of(left)} and {kind_of(right)}")
    if operator == "contains":
        return right in left
    return left.startswith(right) if operator == "startsWith" else left.endswith(right)


def calculated(operator: str, left: Any, right: Any) -> Any:
    """Return the sum, difference, product, quotient or remainder; ``+`` joins two texts as well."""
    if operator == "+" and type(left) is str and type(right) is str:
        return _text(left + right)
    if not (is_number(left) and is_number(right)):
        what = "two numbers or two texts" if operator == "+" else "two numbers"
        raise Misfit("type", f"{operator} takes {what}, not {kind_of(left)} and {kind_of(right)}")
    if operator in "/%" and right == 0:
        raise Misfit("range", "a division by zero")
    _number(left), _number(right)
    return _number(_ARITHMETIC[operator](left, right))


def signed(sign: str, value: Any) -> Any:
    """Return a number with its sign."""
    if not is_number(value):
        raise Misfit("type", f"{sign} takes a number, not {kind_of(value)}")
    return _number(-value if sign == "-" else value)


def member(base: Any, key: Any) -> Any:
    """
    Return an item of a list (from the end if negative) or the value of an object's key.

    Null where there is none, and of null itself: a path never fails because something is not there yet.
    """
    if base is None:
        return None
    if type(base) is dict:
        if type(key) is not str:
            raise Misfit("type", f"a key of an object is a text, not {kind_of(key)}")
        return base.get(key)
    if type(base) is list:
        if not is_number(key) or key != int(key):
            raise Misfit("type", f"an item of a list has a whole number, not {_key_text(key)}")
        index = int(key)
        return base[index] if -len(base) <= index < len(base) else None
    raise Misfit("type", f"{kind_of(base)} has no {_key_text(key)}")


def text(value: Any) -> str:
    """Return a value as text: a text as it is, null as nothing, everything else as compact JSON."""
    if type(value) is str:
        return value
    return "" if value is None else json_text(value)


def json_text(value: Any) -> str:
    """Return a value as compact JSON, keys in their order."""
    return _text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _key_text(key: Any) -> str:
    return f"key {key[:40]!a}" if type(key) is str else f"item {key}" if is_number(key) else kind_of(key)


def _number(value: float) -> int | float:
    if not -NUMBER_MAX <= value <= NUMBER_MAX:
        raise Misfit("range", f"a number beyond {NUMBER_MAX}")
    return int(value) if value == int(value) else value


def _text(value: str) -> str:
    if len(value) > CHARS_MAX:
        raise Misfit("range", f"a text of more than {CHARS_MAX} characters")
    return value


# -- functions ---------------------------------------------------------------------------------------------------


def _check_argument(name: str, value: Any, what: str, *types: type) -> Any:
    """Return what a function is given, which is of one of these types."""
    if type(value) not in types:
        raise Misfit("type", f"{name}() takes {what}, not {kind_of(value)}")
    return value


def _list(name: str, value: Any) -> Any:
    return [] if value is None else _check_argument(name, value, "a list", list)


def _len(value: Any) -> int:
    return (
        0 if value is None else len(_check_argument("len", value, "a text, list or object", str, list, dict))
    )


def _keys(value: Any) -> list[str]:
    return [] if value is None else list(_check_argument("keys", value, "an object", dict))


def _float(value: Any) -> Any:
    if is_number(value):
        return _number(value)
    if type(value) is str and len(value) <= 40:
        try:
            return _number(float(value.strip().replace("_", "x")))
        except (ValueError, OverflowError):
            raise Misfit("type", f"{value!a} is no number") from None
    raise Misfit("type", f"expected a number or its text, found {kind_of(value)}")


def _numbers(name: str, values: tuple[Any, ...]) -> list[Any]:
    given = list(values[0]) if len(values) == 1 and type(values[0]) is list else list(values)
    for value in given:
        _check_argument(name, value, "numbers", int, float)
    if not given:
        raise Misfit("range", f"{name}() of an empty list")
    return given


def _join(values: Any, separator: Any = ",") -> str:
    given, between = _list("join", values), str(_check_argument("join", separator, "a text", str))
    texts = [text(value) for value in given]
    if sum(map(len, texts)) + len(between) * len(texts) > CHARS_MAX:
        raise Misfit("range", f"a text of more than {CHARS_MAX} characters")
    return between.join(texts)


def _on_text(name: str, call: Callable[[str], str]) -> Function:
    return Function(1, 1, lambda value: call(_check_argument(name, value, "a text", str)))


class Function(NamedTuple):
    """A function with the number of arguments that it takes."""

    least: int
    most: int
    call: Callable[..., Any]


FUNCTIONS: dict[str, Function] = {
    "len": Function(1, 1, _len),
    "string": Function(1, 1, text),
    "int": Function(1, 1, lambda value: int(_float(value))),
    "float": Function(1, 1, _float),
    "abs": Function(1, 1, lambda value: signed("-" if is_number(value) and value < 0 else "+", value)),
    "min": Function(1, 20, lambda *values: min(_numbers("min", values))),
    "max": Function(1, 20, lambda *values: max(_numbers("max", values))),
    "lower": _on_text("lower", str.lower),
    "upper": _on_text("upper", str.upper),
    "trim": _on_text("trim", str.strip),
    "join": Function(1, 2, _join),
    "keys": Function(1, 1, _keys),
    "first": Function(1, 1, lambda value: member(_list("first", value), 0)),
    "last": Function(1, 1, lambda value: member(_list("last", value), -1)),
    "toJSON": Function(1, 1, json_text),
}
"""Every function by name; named as in Go's ``expr``. The documents use ``len`` alone."""
