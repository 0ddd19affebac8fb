"""The schema of a tool in plain words, where a server refuses it as it is: it takes whatever the tool takes, and every provider takes it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from .inside import plain_schema

KEYS = {
    *("type", "description", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
    *("properties", "required", "items", "additionalProperties", "anyOf"),
}
NAMES = st.sampled_from(["route", "file", "all"])
LEAVES: Any = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer", "minimum": 0},
        {"type": ["boolean", "null"]},
        {"const": "x"},
        {"enum": ["x", 1]},
        {"$ref": "#/$defs/leaf"},
        {"$ref": "#/$defs/tree"},
        {"$ref": "#/$defs/nowhere"},
        {"type": "string", "pattern": "^x", "format": "date"},
        {"not": {"type": "string"}},
        True,
        {},
    ]
)


def combined(inner: Any) -> Any:
    """Return objects, lists, alternatives and conditions of schemas."""
    properties = st.dictionaries(NAMES, inner, max_size=3)
    objects = st.builds(
        lambda members, needed, more: {"type": "object", "properties": members, "required": needed} | more,
        properties, st.lists(NAMES, max_size=2, unique=True), st.sampled_from([{}, {"additionalProperties": False}, {"additionalProperties": {"type": "integer"}}]),
    )  # fmt: skip
    ways = st.lists(inner, min_size=1, max_size=3)
    return (
        objects
        | st.builds(lambda item: {"type": "array", "items": item}, inner)
        | st.builds(lambda items: {"type": "array", "prefixItems": items}, ways)
        | st.builds(lambda key, parts: {key: parts}, st.sampled_from(["anyOf", "oneOf", "allOf"]), ways)
        | st.builds(lambda first, then: {"if": first, "then": then, "else": then}, inner, inner)
    )


SCHEMAS = st.recursive(LEAVES, combined, max_leaves=8)
DEFINED = {
    "leaf": {"type": "string", "maxLength": 3},
    "tree": {"type": "object", "properties": {"all": {"$ref": "#/$defs/tree"}}},
}
TOPS = st.builds(
    lambda properties, needed, more: {"type": "object", "properties": properties, "required": needed, "$defs": DEFINED} | more,
    st.dictionaries(NAMES, SCHEMAS, max_size=3), st.lists(NAMES, max_size=2, unique=True),
    st.just({}) | st.builds(lambda key, parts: {key: parts}, st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(SCHEMAS, min_size=1, max_size=3)),
)  # fmt: skip
VALUES: Any = st.recursive(
    st.sampled_from(["x", "", "xyz!", 1, -1, True, None, 2.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def are_open(schema: Any) -> bool:
    """Whether alternatives describe a parameter differently, or only some of them: plain words then say what the describing ones do."""
    if not isinstance(schema, dict):
        return False
    ways = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    inner = [*schema.get("properties", {}).values(), *ways, *schema.get("allOf", ())]
    return (bool(ways) and ("properties" in schema or "properties" in str(ways))) or any(map(are_open, inner))


@given(schema=TOPS, arguments=st.dictionaries(NAMES, VALUES, max_size=3))
def test_what_a_tool_takes_fits_its_plain_schema(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Or a call that is right could not be made."""
    assume("nowhere" not in str(schema) and not are_open({**schema, "$defs": {}}))
    plain = plain_schema(schema)
    Draft202012Validator.check_schema(plain)
    fits = Draft202012Validator(schema).is_valid(arguments)
    assert not fits or Draft202012Validator(plain).is_valid(arguments)


def keys_of(node: Any) -> set[str]:
    """Return the keywords of a schema."""
    if not isinstance(node, dict):
        return set()
    inner = [
        *node.get("properties", {}).values(),
        *node.get("anyOf", ()),
        node.get("items"),
        node.get("additionalProperties"),
    ]
    return set(node).union(*map(keys_of, inner))


@given(schema=TOPS)
def test_every_provider_takes_a_plain_schema(schema: dict[str, Any]) -> None:
    """An object at its top, without alternatives there, with basic keys alone; what is required is there."""
    plain = plain_schema(schema)
    assert plain["type"] == "object" and "anyOf" not in plain and keys_of(plain) <= KEYS
    assert set(plain.get("required", ())) <= set(plain["properties"])


def test_alternatives_at_the_top_are_said() -> None:
    """A model reads what none of the keys says any more."""
    parts = {"route": {"type": "string"}, "file": {"type": "string"}}
    schema = {
        "description": "An impact.",
        "properties": parts,
        "anyOf": [{"required": ["route"]}, {"required": ["file"]}],
    }
    plain = plain_schema(schema)
    assert plain == {
        "type": "object",
        "description": "An impact. Give one of: route; file.",
        "properties": parts,
    }


def test_what_a_reference_at_the_top_names_is_there() -> None:
    """Servers that take none would see an object of nothing."""
    call = {"type": "object", "properties": {"page": {"$ref": "#/$defs/page"}}, "required": ["page"]}
    schema = {"$ref": "#/$defs/call", "$defs": {"call": call, "page": {"type": "integer"}}}
    assert plain_schema(schema) == {
        "type": "object",
        "properties": {"page": {"type": "integer"}},
        "required": ["page"],
    }


def test_names_that_providers_refuse_are_left_out_if_they_can_be() -> None:
    """A required one cannot: the tool is left out instead."""
    schema = {"properties": {"$filter": {"type": "string"}, "top": {"type": "integer"}}}
    assert plain_schema(schema)["properties"] == {"top": {"type": "integer"}}
    with pytest.raises(ValueError, match="filter"):
        plain_schema(schema | {"required": ["$filter"]})


def test_a_schema_that_names_itself_again_and_again_stays_small() -> None:
    """Each level names the next twice: without a bound there were more of them than fit into memory."""
    levels = {
        f"d{n}": {
            "type": "object",
            "properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}, "b": {"$ref": f"#/$defs/d{n + 1}"}},
        }
        for n in range(40)
    }
    assert len(json.dumps(plain_schema({"$ref": "#/$defs/d0", "$defs": levels}))) < 2_000_000
