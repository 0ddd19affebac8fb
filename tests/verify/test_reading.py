"""What `verify` passes over unread in a row's columns names no payload."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor.fsm.verify.references import json_object, references, refers_to_nothing

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_WRITTEN = ('"n"', '"\\u006e"', '"\\u006E" ')
"""How a key may be written."""


@st.composite
def _texts(draw: st.DrawFn, inmost: Any) -> str:
    """Return the text of an object that holds *inmost* at some depth."""
    value: Any = {draw(st.sampled_from(["reply", "spec", "n", ""])): inmost}
    for name in draw(st.lists(st.sampled_from(["texts", "n", "m"]), max_size=4)):
        value = {name: draw(st.sampled_from([value, [value], [1, value]]))}
    return json.dumps(value | {"other": draw(_VALUES)})


@given(st.data())
def test_an_object_with_a_number_is_never_passed_over(data: st.DataObject) -> None:
    """However its key is written, and however deep it is."""
    number = data.draw(st.integers(0, 2**32 - 1))
    text = data.draw(_texts({"n": number, "digest": "ab"}))
    text = text.replace('"n"', data.draw(st.sampled_from(_WRITTEN)))
    assert references(json_object(text))[0]["n"] == number
    assert not refers_to_nothing(text)


@given(_VALUES)
def test_what_is_passed_over_holds_none(value: Any) -> None:
    text = json.dumps(value)
    if refers_to_nothing(text):
        assert isinstance(value, dict) and "payloads" not in value and references(value) == []


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "7", '"x"', "{", "", '{"a": 1} {', "null"),
        *('{"a": 1e999}', '{"a": 1E5000}', f'{{"a": {"9" * 400}}}', f'{{"a": {"[" * 5000}{"]" * 5000}}}'),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_json_object_is_read_in_full_and_told(text: str) -> None:
    assert not refers_to_nothing(text)
