"""YAML and JSON files: data and places, and hostile files refused in one line."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from .inside import CHARS_MAX, DEPTH_MAX, VALUES_MAX, Place, SourceError, read_source

YAML = """\
# a comment
init:
  results: []   # none yet
stage:
  loop:
    - when: len(plan.steps) > 0
      text: "tool ${step.name} failed: ${error}"
      data: ${results[-1].result}
    - [1, -2.5, .5, 1e2, +3, 007, ~, null, true, False, no, on, yes, 1:30, 2026-11-22, 1_000, "1", '']
  block: |
    one
    two
"""


def test_yaml_becomes_data_with_places() -> None:
    """Lines and columns from 1; a value under a key has the key's place."""
    source = read_source(YAML)
    assert source.data["init"] == {"results": []}
    first, second = source.data["stage"]["loop"]
    assert first == {
        "when": "len(plan.steps) > 0",
        "text": "tool ${step.name} failed: ${error}",
        "data": "${results[-1].result}",
    }
    assert second == [
        *(1, -2.5, 0.5, 100, 3, 7, None, None, True, False),
        *("no", "on", "yes", "1:30", "2026-11-22", "1_000", "1", ""),
    ]
    assert type(second[3]) is int
    assert source.data["stage"]["block"] == "one\ntwo\n"
    assert source.place(("stage", "loop", 0, "text")) == Place(7, 7)
    assert source.place(("stage", "loop", 1, 1)) == Place(9, 11)
    assert source.place(("stage", "loop", 7, "nowhere")) == Place(5, 3)
    assert source.place(("nowhere",)) == source.place(()) == Place(2, 1)


def test_json_becomes_the_same_with_places() -> None:
    """Also with tabs, which YAML does not allow between things."""
    text = '{\n\t"steps": [\n\t\t{"name": "a\\"}", "n": 1.0e2, "x": [true, null, -0.5]},\n {"é": {}, "": "\\u00e4"}]}\n'
    source = read_source(text)
    assert source.data == json.loads(text)
    assert type(source.data["steps"][0]["n"]) is int
    assert source.place(("steps",)) == Place(2, 2)
    assert source.place(("steps", 0)) == Place(3, 3)
    assert source.place(("steps", 0, "x", 1)) == Place(3, 44)
    assert source.place(("steps", 1, "")) == Place(4, 12)
    assert read_source("\ufeff[1]").data == [1]
    assert read_source("[NaN, 1]").data == ["NaN", 1]  # no JSON, and in YAML a text
    assert read_source("{a: 1, b: [x]}").data == {"a": 1, "b": ["x"]}
    assert read_source("").data is None and read_source("# nothing\n").data is None


REFUSED = {
    "a: 1\nb: 2\na: 3": ("duplicate_key", 3, 1),
    "a: &x [1]\nb: 2": ("unsupported", 1, 4),
    "a: *x": ("unsupported", 1, 4),
    "a: !!python/object/apply:os.system ['true']": ("unsupported", 1, 4),
    "a: !!str 5": ("unsupported", 1, 4),
    "a:\n  <<: {b: 1}": ("unsupported", 2, 3),
    "1: a": ("unsupported", 1, 1),
    "? [a]\n: b": ("unsupported", 1, 3),
    "a: .inf": ("unsupported", 1, 4),
    "a: 0x1F": ("unsupported", 1, 4),
    "a: 1e999": ("limit", 1, 4),
    f"a: 1{'0' * 399}": ("limit", 1, 4),
    "a: 1\n---\nb: 2": ("unsupported", 2, 1),
    '["\\ud800"]': ("unsupported", 1, 2),
    "a: [1": ("syntax", 1, 6),
    "a: b: c": ("syntax", 1, 5),
    "\tx: 1": ("syntax", 1, 1),
    "x: 1\na: \x01": ("syntax", 2, 4),
    "\x00": ("syntax", 1, 1),
    "{": ("syntax", 1, 2),
    '{"a": 1,,}': ("syntax", 1, 9),
    "%YAML 3.0\n---\na": ("syntax", 1, 1),
    "[" * 10_000: ("limit", 1, DEPTH_MAX + 1),
    f"{'[' * 500}{']' * 500}": ("limit", 1, DEPTH_MAX + 1),
    "- " * 10_000 + "a": ("limit", 1, 2 * DEPTH_MAX + 1),
    "\n".join(["- a"] * (VALUES_MAX + 5)): ("limit", VALUES_MAX + 1, 3),
    "x" * (CHARS_MAX + 1): ("limit", 1, 1),
}


@pytest.mark.parametrize(
    "text",
    [pytest.param(text, marks=pytest.mark.whole if len(text) > 200_000 else ()) for text in REFUSED],
    ids=lambda text: ascii(text[:25]),
)
def test_what_cannot_be_data_is_refused_with_its_place(text: str) -> None:
    """One line that says what to do; never another exception, and never much work."""
    with pytest.raises(SourceError) as caught:
        read_source(text)
    error = caught.value
    assert (error.code, *error.place) == REFUSED[text], str(error)
    assert str(error).isascii() and str(error).isprintable() and len(str(error)) < 300
    assert str(error).startswith(f"line {error.place.line}, column {error.place.column}: ")


def test_a_bomb_of_anchors_is_refused_at_its_first_anchor() -> None:
    """A few lines that would become billions of values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(SourceError, match=r"line 1, column 5: anchors and aliases are not read"):
        read_source("\n".join(lines))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


def paths(data: Any, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """Return the path of every value."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return {path}.union(*(paths(value, (*path, key)) for key, value in inner))


@given(JSON, st.sampled_from([None, 0, 2]), st.booleans())
def test_any_json_is_read_as_it_is(data: Any, indent: int | None, ascii_only: bool) -> None:
    """In any layout; every value has a place."""
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
    if text[0] not in "{[" and not ascii_only:
        return
    if isinstance(data, dict | list):
        source = read_source(text)
        assert source.data == data and set(source.places) == paths(data)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-999, 999) | st.text("abc: -#'\n", max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text("ab:-# ", max_size=4), inner, max_size=3)
        ),
        max_leaves=12,
    )
)
def test_yaml_that_another_tool_wrote_is_read_back(data: Any) -> None:
    """In block style, as people write it."""
    source = read_source(yaml.safe_dump(data, default_flow_style=False))
    assert source.data == data and set(source.places) == paths(data)


@given(st.text(max_size=60) | st.text(alphabet="{}[],:\"'ab1 -#&*!|>%@\n\t?", max_size=40))
def test_any_text_is_data_or_refused(text: str) -> None:
    """Never another exception."""
    try:
        json.dumps(read_source(text).data, allow_nan=False)
    except SourceError as error:
        assert error.place.line >= 1 and error.place.column >= 1
