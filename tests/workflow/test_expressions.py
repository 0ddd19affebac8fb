"""Expressions and templates of workflows: the documents' own, every operator, what is refused and where, bounds."""

from __future__ import annotations

import json
import math
import pickle  # pure: errors cross process borders pickled
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ..support.effort import examples
from .inside import (
    CHARS_MAX,
    DEPTH_MAX,
    NODES_MAX,
    NUMBER_MAX,
    TEMPLATE_DEPTH_MAX,
    TEXT_MAX,
    VALUES_MAX,
    ExpressionError,
    evaluate,
    rendered,
)

DATA: dict[str, Any] = {
    "results": [{"name": "web.fetch", "result": "raw"}, {"name": "calc.eval", "result": {"sum": 3}}],
    "empty": [],
    "iteration": 2,
    "plan": {"steps": [{"type": "tool"}], "elicitation": {"message": "Provide API key"}},
    "nothing": None,
    "step": {"name": "web.fetch", "in": 5, "a-b": 6},
    "error": "no route",
    "text": "tea time",
    "half": 0.5,
    "yes": True,
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("len(results) > 0", True),
        ("len(plan.steps) > 0", True),
        ("results[-1].result", {"sum": 3}),
        ("iteration < 3 && len(plan.steps) > 0", True),
        ("iteration + 1", 3),
        ("${plan.elicitation}", {"message": "Provide API key"}),
        ("${results[-1].result}", {"sum": 3}),
        ("${iteration + 1}", 3),
    ],
)
def test_A134_A161_A162_the_documents_expressions_work_as_they_stand(expression: str, value: Any) -> None:
    """Document 004, sections 2 and 5; a host copies them from there."""
    assert evaluate(expression, DATA) == value


@pytest.mark.parametrize("plan", [None, {}, {"steps": None}, {"steps": []}])
def test_A134_a_plan_that_is_null_or_empty_has_no_steps(plan: Any) -> None:
    """The executor is skipped without an error, whatever the planner left."""
    assert evaluate("len(plan.steps) > 0", {"plan": plan}) is False


def test_A164_a_text_with_placeholders_is_rendered() -> None:
    """The hook of recipe 5.5."""
    assert rendered("tool ${step.name} failed: ${error}", DATA) == "tool web.fetch failed: no route"


SAME = {
    "1": 1,
    "2e3": 2000,
    '"a\\n\\t\\r\\"\\/\\\\\\u00e4"': 'a\n\t\r"/\\ä',
    "'it\\'s'": "it's",
    "'\\ud83d\\ude00'": "😀",
    "null": None,
    "nil": None,
    "[]": [],
    "[1, 'a', [null],]": [1, "a", [None]],
    "trueish ?? 1": 1,
    "notes ?? 1": 1,
    "nothing.a.b[0]['c']": None,
    "nothing?.a": None,
    "step.missing": None,
    "step.in": 5,
    "step['a-b']": 6,
    "step?.name": "web.fetch",
    "results[0].name": "web.fetch",
    "results[2]": None,
    "results[-3].name": None,
    "results[1.0].name": "calc.eval",
    "results[iteration - 2].result": "raw",
    "empty[-1].result": None,
    "nothing ?? empty ?? 1": [],
    "nothing ?? -1": -1,
    "nothing ?? +half": 0.5,
    "nothing ?? !yes": False,
    "nothing ?? 1 + 1": 2,
    "7 / 2": 3.5,
    "-7 % 3": -1,
    "7.5 % 2": 1.5,
    "-iteration": -2,
    "'a' + 'b'": "ab",
    "1 == 1.0": True,
    "1 == true": False,
    "'1' == 1": False,
    "nothing == null": True,
    "[1, [2]] == [1.0, [2]]": True,
    "[1] == [1, 2]": False,
    "results[1] == results[0]": False,
    "'a' < 'b'": True,
    "1 in [1.0]": True,
    "1 in ['1', true]": False,
    "1 not in [2]": True,
    "'name' in step": True,
    "'tea' in text": True,
    "1 in nothing": False,
    "text contains 'time'": True,
    "text startsWith 'tea'": True,
    "text endsWith 'tea'": False,
    "not 1 == 2": True,
    "!nothing": True,
    "yes and nothing": False,
    "nothing || yes": True,
    "yes or missing": True,
    "nothing && missing": False,
    "yes ? 1 : missing": 1,
    "nothing ? missing : 2": 2,
    "yes ? nothing ? 1 : 2 : 3": 2,
    "iteration == 2 ? 'a' : 'b'": "a",
    "len('ä😀')": 2,
    "len(step)": 3,
    "len(nothing)": 0,
    "string(half)": "0.5",
    "string(nothing)": "",
    "string(results[1].result)": '{"sum":3}',
    "int(' 42 ')": 42,
    "int(-1.9)": -1,
    "float('0.5')": 0.5,
    "abs(-3)": 3,
    "min(3, 1, 2)": 1,
    "max([1, 4])": 4,
    "lower('TEA') + upper('tea') + trim('  x ')": "teaTEAx",
    "join(['a', 1, null], '-')": "a-1-",
    "join(nothing)": "",
    "keys(step)": ["name", "in", "a-b"],
    "first(results).name": "web.fetch",
    "last(results).result.sum": 3,
    "last(nothing)": None,
    "toJSON([1, 'ä', null])": '[1,"ä",null]',
    "\n len ( empty )\t": 0,
}


@pytest.mark.parametrize("expression", SAME)
def test_every_operator_and_function(expression: str) -> None:
    """One line for each rule; a whole number is an int whatever it came from."""
    value = evaluate(expression, DATA, strict="?? 1" not in expression)
    assert value == SAME[expression]
    assert type(value) is type(SAME[expression])


REFUSED: dict[str, tuple[str, int]] = {
    "": ("syntax", 0),
    "${}": ("syntax", 0),
    "1 = 2": ("syntax", 2),
    "a & b": ("syntax", 2),
    "len(": ("syntax", 4),
    "1 2": ("syntax", 2),
    "a..b": ("syntax", 2),
    "a.": ("syntax", 2),
    "{}": ("syntax", 0),
    "$a": ("syntax", 0),
    "2 ** 3": ("syntax", 3),
    "'a": ("syntax", 0),
    '"a\nb"': ("syntax", 0),
    "'\\x41'": ("syntax", 1),
    "'a\\ud83d'": ("syntax", 0),
    "yes ? 1": ("syntax", 7),
    "x => 1": ("syntax", 2),
    "results.map(1)": ("syntax", 11),
    "(len)(results)": ("syntax", 5),
    "import os": ("syntax", 7),
    "lenn(results)": ("unknown_function", 0),
    "1 + eval('1')": ("unknown_function", 4),
    "__import__('os')": ("unknown_function", 0),
    "getattr(step, 'name')": ("unknown_function", 0),
    "len()": ("arguments", 0),
    "1e999": ("range", 0),
    "9007199254740992": ("range", 0),
    "(" * 5000: ("limit", TEXT_MAX),
    "!" * DEPTH_MAX + "a": ("limit", 0),
    "+".join(["a"] * (DEPTH_MAX + 1)): ("limit", 2 * DEPTH_MAX - 1),
    f"[{','.join(['1'] * NODES_MAX)}]": ("limit", 0),
    "${1 +}": ("syntax", 5),
    "  ${lenn(1)} ": ("unknown_function", 4),
    "resluts": ("unknown_name", 0),
    "1 + missing": ("unknown_name", 4),
    "len(5)": ("type", 0),
    "1 < 'a'": ("type", 2),
    "nothing > 3": ("type", 8),
    "1 < 2 < 3": ("type", 6),
    "1 && true": ("type", 0),
    "!results": ("type", 0),
    "1 + 'a'": ("type", 2),
    "yes * 2": ("type", 4),
    "-'a'": ("type", 0),
    "1 / 0": ("range", 2),
    "9007199254740991 + 1": ("range", 17),
    "9007199254740991 * 9007199254740991": ("range", 17),
    "text.name": ("type", 5),
    "text[0]": ("type", 4),
    "results.name": ("type", 8),
    "results['0']": ("type", 7),
    "results[0.5]": ("type", 7),
    "step[0]": ("type", 4),
    "1 in 5": ("type", 2),
    "1 in text": ("type", 2),
    "results contains 1": ("type", 8),
    "int('x')": ("type", 0),
    "int('nan')": ("range", 0),
    "int(results)": ("type", 0),
    "float('1' + '0123456789012345678901234567890123456789')": ("type", 0),
    "min([])": ("range", 0),
    "min('a', 'b')": ("type", 0),
    "join(1)": ("type", 0),
    "join(results, 1)": ("type", 0),
}


@pytest.mark.parametrize("expression", REFUSED, ids=lambda text: ascii(text[:30]))
def test_what_is_wrong_is_named_with_its_place(expression: str) -> None:
    """One clear line, with the position of the culprit; never another exception."""
    with pytest.raises(ExpressionError) as caught:
        evaluate(expression, DATA | {"a": 1, "b": 2})
    error = caught.value
    assert (error.code, error.position) == REFUSED[expression]
    assert str(error).isascii() and str(error).isprintable() and len(str(error)) < 400
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301  # pure: this test's own bytes


@pytest.mark.parametrize("value", [object(), (1, 2), {1, 2}, b"bytes", len])
def test_what_is_not_json_has_nothing_to_show(value: Any) -> None:
    """No attribute, item or length of a Python object is reachable."""
    for expression in ("x.__class__", "x['__class__']", "x[0]", "len(x)", "x + 1", "x < 1", "!x", "-x"):
        with pytest.raises(ExpressionError) as caught:
            evaluate(expression, {"x": value})
        assert caught.value.code == "type"


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("", ""),
        ("plain", "plain"),
        ("${iteration}", 2),
        (" ${iteration} ", 2),
        ("${nothing}", None),
        ("${results[0]}", DATA["results"][0]),
        ("a ${nothing} b", "a  b"),
        (" ${iteration}${yes} ", " 2true "),
        ("n=${iteration}", "n=2"),
        ("${plan.steps} $ {", '[{"type":"tool"}] $ {'),
        ("$${iteration}", "${iteration}"),
        ("$$${iteration}", "$${iteration}"),
        ("a $${x} ${'}'} b", "a ${x} } b"),
        ('${"\\"}"}', '"}'),
        ({"a": ["${iteration}", 5, None], "${x}": "b"}, {"a": [2, 5, None], "${x}": "b"}),
        (True, True),
    ],
)
def test_templates(template: Any, value: Any) -> None:
    """A text that is one placeholder keeps the type, elsewhere the value becomes text; keys stay."""
    result = rendered(template, DATA)
    assert result == value and type(result) is type(value)


@pytest.mark.parametrize(
    ("template", "code", "position"),
    [
        ("a ${iteration", "syntax", 2),
        ("a ${'}", "syntax", 2),
        ("a ${} b", "syntax", 4),
        ("a ${1 +} b", "syntax", 7),
        ("a ${missing} b", "unknown_name", 4),
        ("${missing}", "unknown_name", 2),
        (" \n${missing} ", "unknown_name", 4),
        ("n: ${iteration < 'a'}", "type", 15),
    ],
)
def test_errors_of_a_template_count_in_the_whole_text(template: str, code: str, position: int) -> None:
    """What stands before the placeholder counts as well."""
    with pytest.raises(ExpressionError) as caught:
        rendered(template, DATA)
    assert (caught.value.code, caught.value.position, caught.value.text) == (code, position, template)


def test_a_variable_that_the_caller_did_not_set_can_count_as_null() -> None:
    """Recipe 5.1: an optional input such as ``${myPrompt}``."""
    assert rendered({"promptTemplate": "${myPrompt}"}, {}, strict=False) == {"promptTemplate": None}


def test_variables_cannot_grow_without_bound() -> None:
    """Doubling a variable in every round of a loop ends in an error, not in the machine's memory."""
    variables: dict[str, Any] = {"text": "0123456789", "list": [1]}
    with pytest.raises(ExpressionError) as caught:
        for _ in range(40):
            variables["text"] = rendered("${text + text}", variables)
    assert caught.value.code == "range" and len(variables["text"]) <= CHARS_MAX
    with pytest.raises(ExpressionError) as caught:
        for _ in range(40):
            variables["list"] = rendered("${[list, list]}", variables)
    assert caught.value.code == "range"
    for template in (
        "${text}${text}",
        "${join([text, text])}",
        ["${text}", "${text}"],
        {"a" * 999_999: "bb"},
    ):
        with pytest.raises(ExpressionError) as caught:
            rendered(template, {"text": "x" * 600_000})
        assert caught.value.code == "range"
    with pytest.raises(ExpressionError):
        rendered("a ${x}", {"x": ["y" * 1_000_001]})
    with pytest.raises(ExpressionError):
        rendered([0] * (VALUES_MAX + 1), {})
    deep: Any = 0
    for _ in range(TEMPLATE_DEPTH_MAX + 1):
        deep = [deep]
    with pytest.raises(ExpressionError, match="nested too deep"):
        rendered(deep, {})


@pytest.mark.whole
@pytest.mark.parametrize(
    "template",
    [
        "${" + " || ".join(["x in big"] * 60) + "}",
        "${" + " || ".join(["big == same"] * 60) + "}",
        "${" + " || ".join(["objects == others"] * 60) + "}",
        "${big}" * 60,
        [{"a": "${string(big) contains '-'}"}] * 60,
        ["${len(big)}"] * 60,
        "${text}" * 60,
    ],
    ids=lambda template: str(template)[:20],
)
def test_the_work_of_a_template_is_bounded(template: Any) -> None:
    """All of its placeholders share one budget; no time is measured."""
    variables = {
        "x": -1,
        "big": list(range(100_000)),
        "same": [*range(99_999), 0],
        "text": "x" * 40_000,
        "objects": {str(n): n for n in range(50_000)},
        "others": {str(n): -n for n in range(50_000)},
    }
    with pytest.raises(ExpressionError) as caught:
        rendered(template, variables)
    assert caught.value.code in ("limit", "range")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.text(max_size=80) | st.text(alphabet="abn1 ()[].?:!&|=<>+-*/%'\"${},lenotrue", max_size=60), JSON)
def test_any_text_is_a_value_or_a_typed_error(text: str, value: Any) -> None:
    """And the same one each time."""
    outcomes = []
    for _ in range(2):
        try:
            outcomes.append(json.dumps(evaluate(text, {"a": value, "b": 1, "n": None}), default=repr))
        except ExpressionError as error:
            assert 0 <= error.position <= len(text)
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


NUMBERS = st.integers(-1000, 1000)


def _sum(draw: Any, depth: int) -> tuple[str, float]:
    """Draw an arithmetic expression with the value that Python gives it."""
    if depth == 0 or draw(st.booleans()):
        number = draw(NUMBERS)
        return (f"({number})" if number < 0 else str(number)), number
    operator = draw(st.sampled_from("+-*/%"))
    (left, one), (right, other) = _sum(draw, depth - 1), _sum(draw, depth - 1)
    if operator in "/%" and other == 0:
        operator = "+"
    value = {
        "+": lambda: one + other,
        "-": lambda: one - other,
        "*": lambda: one * other,
        "/": lambda: one / other,
        "%": lambda: math.fmod(one, other),
    }[operator]()
    return f"({left} {operator} {right})", value


def _logic(draw: Any, depth: int) -> tuple[str, bool]:
    """Draw a condition in all spellings with its value."""
    if depth == 0 or draw(st.booleans()):
        (left, one), (right, other) = _sum(draw, 1), _sum(draw, 1)
        operator = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
        value = {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}
        return f"{left} {operator} {right}", {**value, "==": one == other, "!=": one != other}[operator]
    operator = draw(st.sampled_from(["&&", "and", "||", "or", "!", "not"]))
    left, holds_left = _logic(draw, depth - 1)
    if operator in ("!", "not"):
        return f"{operator} ({left})", not holds_left
    right, holds_right = _logic(draw, depth - 1)
    both = operator in ("&&", "and")
    return f"({left} {operator} {right})", (holds_left and holds_right) if both else (
        holds_left or holds_right
    )


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_arithmetic_and_logic_agree_with_an_oracle(data: st.DataObject) -> None:
    """Python computes the same from the tree that the text was written from."""
    text, value = _sum(data.draw, 4)
    if abs(value) <= NUMBER_MAX:
        try:
            assert evaluate(text, {}) == value
        except ExpressionError as error:
            assert error.code == "range"
    text, truth = _logic(data.draw, 4)
    assert evaluate(text, {}) is truth
