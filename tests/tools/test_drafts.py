"""Schemas that say that they are of an earlier draft mean what that draft means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft4Validator, Draft7Validator

from paor.errors import UsageError

from .inside import ParameterSchema

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
NAMES = st.sampled_from(["a", "b", "items"])
LEAVES: Any = st.sampled_from(
    [{"type": "integer"}, {"type": "string"}, {"enum": ["x", {"items": [1]}]}, {"minimum": 1}]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner | st.lists(inner, max_size=3))
        | st.builds(lambda items, rest: {"items": items, "additionalItems": rest}, st.lists(inner, min_size=1, max_size=2), inner | st.just(False))
        | st.builds(lambda needed: {"dependencies": needed}, st.dictionaries(NAMES, inner | st.lists(NAMES, max_size=2, unique=True), max_size=2))
        | st.builds(lambda properties: {"type": "object", "properties": properties}, st.dictionaries(NAMES, inner, max_size=2))
        | st.builds(lambda ways: {"anyOf": ways}, st.lists(inner, min_size=1, max_size=2))
    ),
    max_leaves=6,
)  # fmt: skip
VALUES: Any = st.recursive(
    st.sampled_from(["x", 0, 1, 2, None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(part=SCHEMAS, value=VALUES)
def test_what_fits_by_draft_07_fits(part: dict[str, Any], value: Any) -> None:
    """Tuples, what follows them, and dependencies, wherever they stand; values that look like schemas stay values."""
    schema = {"$schema": DRAFT_7, "type": "object", "properties": {"a": part}, "additionalProperties": False}
    assert (ParameterSchema(schema).check({"a": value}) == ()) == Draft7Validator(schema).is_valid(
        {"a": value}
    )


@pytest.mark.parametrize(
    "bounds",
    [
        {"minimum": 1, "exclusiveMinimum": True},
        {"maximum": 2, "exclusiveMaximum": True},
        {"minimum": 1, "exclusiveMinimum": False},
    ],
)
@pytest.mark.parametrize("value", [0, 1, 1.5, 2, 3])
def test_bounds_of_draft_04_are_exclusive_by_a_truth(bounds: dict[str, Any], value: float) -> None:
    """They are numbers of their own in later drafts."""
    schema = {"$schema": DRAFT_4, "properties": {"a": {"type": "number"} | bounds}}
    assert (ParameterSchema(schema).check({"a": value}) == ()) == Draft4Validator(schema).is_valid(
        {"a": value}
    )


def test_without_a_declaration_a_schema_is_of_2020_12() -> None:
    """A list of items is none there, and nobody guesses."""
    with pytest.raises(UsageError, match="items"):
        ParameterSchema({"properties": {"a": {"items": [{}]}}})
