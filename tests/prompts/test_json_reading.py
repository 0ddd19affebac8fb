"""What `read_object` accepts of what models really return, and how it refuses the rest."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor.prompts.parsing.json_reading import DIGITS_MAX, Unreadable, read_object

from ..support.effort import examples

CODES = {
    "empty",
    "no_json",
    "truncated",
    "malformed",
    "duplicate_key",
    "not_finite",
    "too_large",
    "too_deep",
    "not_an_object",
    "several_objects",
    "bad_text",
}
OBJECT = {"action": "web.search", "n": 1, "list": ["a", {"b": None}]}
PLAIN = '{"action": "web.search", "n": 1, "list": ["a", {"b": null}]}'
PRETTY = json.dumps(OBJECT, indent=2)


def code_of(text: str, **limits: int) -> str:
    """Return the code of the refusal of *text*, after checking the message's form."""
    result = read_object(text, **limits)
    assert isinstance(result, Unreadable), result
    assert result.code in CODES
    assert result.message.isascii() and result.message.isprintable() and 0 < len(result.message) <= 200
    return result.code


READABLE = {
    "plain": PLAIN,
    "pretty": PRETTY,
    "byte order mark": f"\ufeff{PLAIN}",
    "json fence": f"```json\n{PRETTY}\n```",
    "json fence, never closed": f"Here you go:\n```json\n{PRETTY}",
    "fence without tag": f"```\n{PRETTY}\n```",
    "fence with prose inside": f"```\nHere is the JSON:\n{PRETTY}\n```",
    "sure, here is": f"Sure! Here is the JSON you asked for:\n\n```json\n{PRETTY}\n```\n\nLet me know if it fits.",
    "trailing explanation": f"{PLAIN}\n\nI chose web.search since the objective asks for news.",
    "tool call tags": f"<tool_call>\n{PLAIN}\n</tool_call>",
    "thinking tags": f"<think>The user wants {{something}}, maybe a set {{a, b}}.</think>\n{PLAIN}",
    "thinking aloud of another object": f'<think>Perhaps {{"action": "no"}}?</think>{PLAIN}',
    "braces in prose": f"{{like this}} here is it: {PLAIN}",
    "a lone opening brace": f"a set {{ of things. {PLAIN}",
    "same object twice": f"{PLAIN}\n{PLAIN}",
    "same object in prose and fence": f"{PLAIN}\n```json\n{PRETTY}\n```",
    "json fence among others": f'```python\nx = {{"a": 1}}\n```\n```json\n{PLAIN}\n```\n{{"b": 2}}',
    "fence against prose": f'Instead of {{"a": 1}}:\n```\n{PLAIN}\n```\nand not {{"b": 2}}',
    "fence after a cut-off try": f'First {{"action": "web\n```json\n{PLAIN}\n```',
    "a list of objects in prose before": f'They were [{{"id": 1}}, {{"id": 2}}]. {PLAIN}',
    "a cut-off word list in prose": f'{PLAIN} is from ["a", "b',
}


@pytest.mark.parametrize("name", READABLE)
def test_a_realistic_reply_is_read(name: str) -> None:
    """Packaging never hides the one object, and never changes it."""
    assert read_object(READABLE[name]) == OBJECT


REFUSED = {
    "": "empty",
    "\ufeff\u200b": "empty",
    "I cannot do that.": "no_json",
    "{": "truncated",
    "[": "truncated",
    "```json\n```": "no_json",
    "42": "not_an_object",
    "null": "not_an_object",
    "[]": "not_an_object",
    "[1, 2]": "not_an_object",
    "[1, 2,]": "malformed",
    "[a, b]": "no_json",
    '```json\n{"a": ...}\n```\n{"b": 1}': "malformed",
    '{"a": 1} [{"b": 2}': "truncated",
    f"[{PLAIN}]": "not_an_object",
    f"Here: [{PLAIN}]": "not_an_object",
    '{"a": 1': "truncated",
    '{"a": "x\\': "truncated",
    'Here: {"a": "b': "truncated",
    '{"a": 1,}': "malformed",
    "{'a': 1}": "malformed",
    '{a: {"b": 1}}': "malformed",
    '{"a": 1 // why\n}': "malformed",
    '{"a": True}': "malformed",
    '{"a" 1}': "malformed",
    '{"a": "x\ny"}': "malformed",
    '{"a": [1, 2}': "malformed",
    '{"a": ...}': "malformed",
    'With {"id": 1} I answer {"action": "x",}': "malformed",
    '{"a": 1, "b": 2, "a": 3}': "duplicate_key",
    '{"x": [{"a": 1, "a": 1}]}': "duplicate_key",
    '{"a": NaN}': "not_finite",
    '{"a": 1e999}': "not_finite",
    '{"a": "\ud800"}': "bad_text",
    '{"a": "\\ud800"}': "bad_text",
    '{"a": "\\u0000"}': "bad_text",
    '{"a": 1} {"b": 2}': "several_objects",
    '{"a": 1}\n{"a": 1.0}': "several_objects",
    '```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```': "several_objects",
    '<think>{"a": 1}</think>': "empty",
    'I <think>{"a": 1}</think>{"a": 2}': "several_objects",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_single_object_is_refused_with_its_code(text: str) -> None:
    """Nothing is repaired and nothing is guessed: the code says what is wrong."""
    assert code_of(text) == REFUSED[text]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1,}', "a trailing comma"),
        ("{'a': 1}", "quotes"),
        ('{"a": 1 // why\n}', "a comment"),
        ('{"a": True}', "a Python literal"),
        ('{a: {"b": 1}}', "a key without double quotes"),
        ('{"a": "x\ny"}', "a syntax error"),
        ('{"a": ",}", "b" 1}', "a syntax error"),
        ('{"a\u00fc\n": 1, "a\u00fc\n": 2}', "a syntax error"),
        ('{"key \u00fc": 1, "key \u00fc": 2}', "'key \\xfc'"),
        ('{"k": 1, "k": 2}', "'k'"),
        ('{"x": NaN}', "NaN"),
        ('{"x": 1e999}', "'1e999'"),
        ('{"a": 1} {"b": 2} {"a": 1} {"c": 3}', "3 JSON objects"),
    ],
)
def test_the_message_names_what_was_found(text: str, words: str) -> None:
    """The model is told what to change, in one ASCII line."""
    assert code_of(text) in CODES
    result = read_object(text)
    assert isinstance(result, Unreadable) and words in result.message


def test_long_names_and_numbers_are_cut_in_messages() -> None:
    """A message stays short whatever the reply holds."""
    key = "\U0001f600" * 10_000
    assert code_of(f'{{"{key}": 1, "{key}": 2}}') == "duplicate_key"
    assert code_of('{"a": 1' + "0" * 400 + ".0}") == "not_finite"


def test_values_are_read_as_python_reads_them() -> None:
    """Whole numbers keep all their digits, floats stay floats, escapes become text."""
    text = '{"big": 123456789012345678901234567890, "one": 1.0, "neg": -5e-3, "smile": "\\ud83d\\ude00 \\u00fc", "": {}}'
    result = read_object(text)
    assert result == {
        "big": 123456789012345678901234567890,
        "one": 1.0,
        "neg": -0.005,
        "smile": "😀 ü",
        "": {},
    }
    assert isinstance(result, dict) and type(result["big"]) is int and type(result["one"]) is float


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    """Python would raise ValueError beyond its own limit, which the environment can change."""
    assert code_of('{"a": ' + "9" * 5000 + "}") == "not_finite"
    assert code_of('{"a": -' + "9" * DIGITS_MAX + "}") == "not_finite"
    assert read_object('{"a": ' + "9" * DIGITS_MAX + "}") == {"a": int("9" * DIGITS_MAX)}
    assert math.isfinite(float("9" * DIGITS_MAX))


@pytest.mark.parametrize(
    "text",
    [
        '{"a" :1,"a":2}',
        '{"a":1,"b":{"c":[{"d":1,"d":1}]}}',
        '{"a":"\\u0022\\u0022","a":"x"}',
        '{"a":"x\\"","a":"y"}',
        '{"a":"","\\u0061":""}',
        '{"a":"\\"\\"\\"\\"","a":"\\u0022"}',
    ],
)
def test_a_key_that_is_there_twice_is_found_however_it_is_written(text: str) -> None:
    """The quick decoder would keep one of the two."""
    assert code_of(text) == "duplicate_key"


def test_a_text_over_the_limit_is_not_read() -> None:
    """The limit counts characters and is exact."""
    assert code_of(PLAIN, chars_max=len(PLAIN) - 1) == "too_large"
    assert read_object(PLAIN, chars_max=len(PLAIN)) == OBJECT


@pytest.mark.parametrize("wrapping", ["{}", "text {}", "```json\n{}\n```"])
def test_depth_is_counted_in_objects_and_arrays(wrapping: str) -> None:
    """The outermost object is level 1; brackets in strings do not count."""
    nested = '{"a": [{"b": "[[[[{{{{\\"[[["}]}'
    text = wrapping.replace("{}", nested)
    assert read_object(text, depth_max=3) == json.loads(nested)
    assert code_of(text, depth_max=2) == "too_deep"


def test_many_brackets_that_are_not_deep_are_fine() -> None:
    """A long flat reply is no deep reply."""
    wide = {"rows": [{"i": i, "text": 'a "quoted" \\ {[ text'} for i in range(1000)]}
    assert read_object(json.dumps(wide)) == wide
    assert read_object("Here it is: " + json.dumps(wide)) == wide
    assert code_of("Here it is: " + json.dumps(wide) + '{"b": 1}') == "several_objects"


@pytest.mark.whole
@pytest.mark.parametrize("part", ["{", "[", '{"a":', '[{"a":', "{{", "[[", "{'a':", '{"a":[', "{a:"])
def test_deep_nesting_is_refused_before_it_is_parsed(part: str) -> None:
    """A million brackets are refused, also where the caller's limit is beyond Python's."""
    text = part * (1_000_000 // len(part))
    assert code_of(text) in {"too_deep", "no_json"}
    assert code_of("see " + text, chars_max=2_000_000) in {"too_deep", "no_json"}
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    assert code_of(deep, depth_max=10**9) == "too_deep"


ADVERSARIAL = [
    *('"', "`", "```", "```json\n", "\n```", '\n```{"', '\n```\n{"a": "', "\\"),
    *("{ ", "{x ", "{}", "{a:}", "{}]", "{\u201c", "{" + " " * 99, '{"\\"'),
    *('{"a"}', '{"a": 1}', '{"a": 1,}', '{"a": 1, "a": 2}'),
    *("[1", "[1,", "[]", '["', '[""]', '[ "" ', "[{}"),
]


@pytest.mark.whole
@pytest.mark.parametrize("part", ADVERSARIAL)
def test_a_megabyte_of_one_pattern_is_read_to_an_end(part: str) -> None:
    """A pass that went back would need hours for these: they take seconds at most."""
    text = part * (1_000_000 // len(part))
    for variant in (text, '{"' + text[:-10]):
        result = read_object(variant)
        assert isinstance(result, (dict, Unreadable))


def test_a_caller_near_the_recursion_limit_gets_an_answer() -> None:
    """The parser shares the interpreter's stack with the caller; running out of it is no exception."""

    def deep(levels: int) -> Any:
        return deep(levels - 1) if levels else read_object('{"a":' * 60 + "1" + "}" * 60)

    outcomes = set()
    limit = sys.getrecursionlimit()
    for levels in range(limit - 200, limit):
        try:
            outcomes.add(type(deep(levels)))
        except RecursionError:  # Of this test's own frames.
            break
    assert outcomes <= {dict, Unreadable} and dict in outcomes


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inner, max_size=4
        )
    ),
    max_leaves=12,
)
json_objects = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), json_values, max_size=5
)
WRAPPINGS = [
    "@",
    "\ufeff@\n",
    "Sure! Here is it: @",
    "@ That is all.",
    "{like this} here is it: @",
    "```json\n@\n```",
    "Text {with} braces\n```json\n@\n```\nand more {of them}",
    "```\n@\n```",
    "```json@```",
    "<answer>@</answer>",
    "<think>a set {x} or [1]</think>\n@",
    "@\n@",
]


@given(json_objects, st.sampled_from(WRAPPINGS), st.booleans(), st.sampled_from([None, 2]))
def test_any_object_in_any_packaging_reads_back_equal(
    value: dict[str, Any], wrapping: str, ascii_only: bool, indent: int | None
) -> None:
    """What json.dumps writes is read back equal, types included."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    result = read_object(wrapping.replace("@", text))
    assert isinstance(result, dict), result
    assert repr(result) == repr(value)


PIECES = [
    *"{}[]\":,'\\\n a1\0\ud800",
    *("```", "json", "//", '"b"', "NaN", "\\u0000", "\n```json\n"),
    *('{"a": 1}', '{"b": ', '{"a": 1,}', "{x}", '{"a": [1, {"b": 2}]}'),
]
pieces = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@settings(max_examples=examples(400))
@given(pieces)
def test_what_is_read_stands_in_the_text(text: str) -> None:
    """A returned object is the strict reading of some piece of the reply, not inside a larger readable object."""
    result = read_object(text)
    if isinstance(result, Unreadable):
        assert code_of(text) == result.code
        return
    starts = [i for i, char in enumerate(text) if char == "{"]
    ends = [i + 1 for i, char in enumerate(text) if char == "}"]
    readings = []
    for start in starts:
        for end in ends:
            try:
                readings.append(json.loads(text[start:end]))
            except ValueError:
                continue
    assert any(repr(reading) == repr(result) for reading in readings)
    whole = read_object(json.dumps(result))
    assert repr(whole) == repr(result)


@given(json_objects, st.data())
def test_a_cut_off_object_is_never_read(value: dict[str, Any], data: st.DataObject) -> None:
    """No prefix of an object is taken for an object, however it is packed."""
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    wrapping = data.draw(st.sampled_from(["@", "Here: @", "```json\n@\n```", "```\n@"]))
    result = read_object(wrapping.replace("@", cut))
    assert isinstance(result, Unreadable) and result.code == "truncated"
