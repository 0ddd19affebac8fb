"""
Conditions and templates of a workflow, evaluated on JSON data.

Pure, bounded and without a way to Python: values are None, bool, int, float, str, list and dict, attributes are never
looked up, and the work of one evaluation is bounded by the expression's size (`expression_parsing`), since there are no
loops. A template is any JSON value whose texts hold ``${...}``: a text that is nothing but one placeholder keeps the
type of its value, elsewhere the value is put into the text. ``$${`` stands for a plain ``${``.

Source: document 004 sections 2 and 5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from .functions import (
    CHARS_MAX,
    FUNCTIONS,
    Misfit,
    Work,
    calculated,
    equal,
    member,
    ordered,
    signed,
    text,
    truth,
    weight_of,
    within,
)
from .nodes import Expression, ExpressionError, Node, quoted
from .parser import parse_expression

__all__ = [
    "Expression",
    "ExpressionError",
    "evaluate",
    "holds",
    "parse_expression",
    "rendered",
    "template_parts",
]

VALUES_MAX = 200_000
"""Most values (items, keys, texts) in what one template comes to, so that variables cannot grow without bound."""

TEMPLATE_DEPTH_MAX = 64

_INNER = re.compile(r"""(?:[^"'}]++|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')*+""", re.DOTALL)
"""What may be between ``${`` and ``}``: texts in quotes, and everything but quotes and the mark itself."""


def evaluate(expression: str | Expression, variables: Mapping[str, Any], *, strict: bool = True) -> Any:
    """
    Return the value of *expression*.

    Args:
        expression: Its text, with or without ``${...}`` around it, or what `parse_expression` returned.
        variables: JSON values by name; read only, and parts of them are returned as they are, not copied.
        strict: Whether a variable that is not there is an error; otherwise it is null.

    Raises:
        ExpressionError: It cannot be parsed, reads a variable that is not there, or an operator or function does not
            fit a value. The same expression and variables give the same result or error everywhere.
    """
    parsed = parse_expression(expression) if isinstance(expression, str) else expression
    return _Evaluation(parsed.text, _Scope(variables, strict, Work())).value(parsed.root)


def holds(condition: str | bool | None, variables: Mapping[str, Any]) -> bool:
    """
    Return whether a condition holds; without one (None) it does.

    Raises:
        ExpressionError: As `evaluate`, or it is neither true, false nor null.
    """
    if condition is None or isinstance(condition, bool):
        return condition is not False
    value = evaluate(condition, variables)
    try:
        return truth(value)
    except Misfit as misfit:
        raise ExpressionError(misfit.code, f"a condition: {misfit.problem}", condition, 0) from None


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the placeholders of one template share."""

    variables: Mapping[str, Any]
    strict: bool
    work: Work


class _Evaluation:
    """One evaluation: the text for messages, and what it shares with others."""

    def __init__(self, text: str, scope: _Scope) -> None:
        self.text, self.variables, self.strict, self.work = text, scope.variables, scope.strict, scope.work
        self.kinds: dict[str, Callable[[Node], Any]] = {
            "literal": lambda node: node.value,
            "name": self._name,
            "items": lambda node: [self.value(part) for part in node.parts],
            "member": lambda node: member(self.value(node.parts[0]), self.value(node.parts[1])),
            "call": self._call,
            "binary": self._binary,
            "signed": lambda node: signed(node.value, self.value(node.parts[0])),
            "inverse": lambda node: not truth(self.value(node.parts[0])),
            "either": lambda node: truth(self.value(node.parts[0])) or truth(self.value(node.parts[1])),
            "both": lambda node: truth(self.value(node.parts[0])) and truth(self.value(node.parts[1])),
            "default": self._default,
            "choose": self._choose,
        }

    def value(self, node: Node) -> Any:
        """Return the value of one node."""
        try:
            return self.kinds[node.kind](node)
        except Misfit as misfit:
            raise ExpressionError(misfit.code, misfit.problem, self.text, node.at) from None

    def _name(self, node: Node) -> Any:
        name = node.value
        if name in self.variables:
            return self.variables[name]
        if not self.strict:
            return None
        near = get_close_matches(name, list(self.variables), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ExpressionError(
            "unknown_name", f"there is no variable {quoted(name)}{hint}", self.text, node.at
        )

    def _binary(self, node: Node) -> Any:
        operator, left, right = node.value, self.value(node.parts[0]), self.value(node.parts[1])
        if operator in ("==", "!="):
            return equal(left, right, self.work) is (operator == "==")
        if operator in ("<", "<=", ">", ">="):
            return ordered(operator, left, right)
        if operator in ("in", "contains", "startsWith", "endsWith"):
            return within(operator, left, right, self.work)
        result = calculated(operator, left, right)
        self.work.spend(weight_of(result))
        return result

    def _call(self, node: Node) -> Any:
        arguments = [self.value(part) for part in node.parts]
        self.work.spend(sum(map(weight_of, arguments)))
        result = FUNCTIONS[node.value].call(*arguments)
        self.work.spend(weight_of(result))
        return result

    def _default(self, node: Node) -> Any:
        first = self.value(node.parts[0])
        return self.value(node.parts[1]) if first is None else first

    def _choose(self, node: Node) -> Any:
        condition, yes, no = node.parts
        return self.value(yes if truth(self.value(condition)) else no)


def template_parts(template: str) -> list[str | tuple[int, Expression]]:
    """
    Return the pieces of a template text: plain text, or where a placeholder begins and its expression.

    Raises:
        ExpressionError: A placeholder that is not closed, or whose expression cannot be parsed; its position counts in
            the whole text.
    """
    parts: list[str | tuple[int, Expression]] = []
    plain, at = "", 0
    while (start := template.find("${", at)) >= 0:
        if start and template[start - 1] == "$":
            plain, at = plain + template[at : start - 1] + "${", start + 2
            continue
        plain += template[at:start]
        if plain:
            parts.append(plain)
        end = _end_of(template, start)
        try:
            parts.append((start, parse_expression(template[start + 2 : end])))
        except ExpressionError as error:
            position = error.position + start + 2
            raise ExpressionError(error.code, error.problem, template, position) from None
        plain, at = "", end + 1
    plain += template[at:]
    return [*parts, plain] if plain or not parts else parts


def _end_of(template: str, start: int) -> int:
    """Return where the ``}`` stands that closes the placeholder at *start*; one within a text does not count."""
    inner = _INNER.match(template, start + 2)
    if inner is None or not template.startswith("}", inner.end()):
        raise ExpressionError("syntax", "a placeholder ${ that is not closed", template, start)
    return inner.end()


def rendered(template: Any, variables: Mapping[str, Any], *, strict: bool = True) -> Any:
    """
    Return *template* with every placeholder replaced; keys of objects are left as they are.

    Args:
        template: Any JSON value.
        variables: JSON values by name; what is returned may share parts with them.
        strict: As for `evaluate`.

    Raises:
        ExpressionError: A placeholder cannot be parsed or evaluated, or the result is too large.
    """
    result = _render_value(template, _Scope(variables, strict, Work()), TEMPLATE_DEPTH_MAX)
    if type(result) in (list, dict) and not _is_small(result):
        raise ExpressionError("range", f"more than {VALUES_MAX} values or {CHARS_MAX} characters", "", 0)
    return result


def _render_value(template: Any, scope: _Scope, depth: int) -> Any:
    if type(template) is str:
        return _fill(template, scope)
    if depth <= 0:
        raise ExpressionError("limit", "a template nested too deep", "", 0)
    if type(template) is list:
        return [_render_value(item, scope, depth - 1) for item in template]
    if type(template) is dict:
        return {key: _render_value(item, scope, depth - 1) for key, item in template.items()}
    return template


def _fill(template: str, scope: _Scope) -> Any:
    if "${" not in template:
        return template
    parts = template_parts(template)
    filled = [part for part in parts if not (isinstance(part, str) and part.isspace())]
    if len(filled) == 1 and isinstance(filled[0], tuple):
        return _value_of(template, filled[0], scope)
    texts: list[str] = []
    for part in parts:
        try:
            texts.append(part if isinstance(part, str) else text(_value_of(template, part, scope)))
            scope.work.spend(len(texts[-1]))
        except Misfit as misfit:
            at = 0 if isinstance(part, str) else part[0]
            raise ExpressionError(misfit.code, misfit.problem, template, at) from None
    if sum(map(len, texts)) > CHARS_MAX:
        raise ExpressionError("range", f"a text of more than {CHARS_MAX} characters", template, 0)
    return "".join(texts)


def _value_of(template: str, part: tuple[int, Expression], scope: _Scope) -> Any:
    """Return a placeholder's value; an error's position counts in the whole template."""
    start, expression = part
    try:
        return _Evaluation(expression.text, scope).value(expression.root)
    except ExpressionError as error:
        position = error.position + start + 2
        raise ExpressionError(error.code, error.problem, template, position) from None


def _is_small(value: Any) -> bool:
    """Return whether a value, each time it is reached counted, stays within the bounds."""
    values, chars, stack = 0, 0, [value]
    while stack:
        item = stack.pop()
        values += 1
        if type(item) is str:
            chars += len(item)
        elif type(item) is list:
            stack += item
        elif type(item) is dict:
            stack += item.values()
            chars += sum(map(len, item))
        if values + len(stack) > VALUES_MAX or chars > CHARS_MAX:
            return False
    return True
