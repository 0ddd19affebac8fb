"""A tool's schema as lines for Stage 2: a line a parameter, nothing that opens a section, and an end for every schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor.prompts.building.parameter_lines import DEPTH_MAX, LINES_MAX, VALUES_MAX, parameter_lines

from ..support.cases import SET_BY_CODE, short


def shown(part: Any, *, required: bool = False, defs: Any = None) -> str:
    """Return the lines of a schema with the one parameter *part*, ``a``."""
    schema = {"type": "object", "properties": {"a": part}, "required": ["a"] if required else []}
    return parameter_lines(schema | {"$defs": defs or {}})


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ({"type": "string"}, "- a (text; optional)"),
        ({"type": "boolean"}, "- a (true or false; optional)"),
        ({"type": ["string", "null"]}, "- a (text or null; optional)"),
        ({"type": "object"}, "- a (object; optional)"),
        (True, "- a (any value; optional)"),
        ({"type": "string", "description": " two\nlines "}, "- a (text; optional): two lines"),
        ({"type": "string", "default": ""}, '- a (text; optional, default "")'),
        ({"enum": ["celsius", 1, None, True]}, '- a (one of "celsius", 1, null, true; optional)'),
        ({"const": "v1"}, '- a (always "v1"; optional)'),
        ({"type": "integer", "minimum": 1, "maximum": 50}, "- a (integer from 1 to 50; optional)"),
        ({"type": "number", "maximum": 0.5}, "- a (number to 0.5; optional)"),
        (
            {"type": "string", "minLength": 2, "maxLength": 9},
            "- a (text at least 2 characters, at most 9 characters; optional)",
        ),
        ({"type": "string", "pattern": "^a, to b$"}, "- a (text matching ^a, to b$; optional)"),
        ({"type": "string", "format": "date"}, "- a (text as date; optional)"),
        (
            {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1, "maxItems": 3},
            "- a (list of integer from 1 at least 1 items, at most 3 items; optional)",
        ),
        (
            {"oneOf": [{"type": "string"}, {"const": 1}, {"type": "string"}]},
            "- a (text or always 1; optional)",
        ),
    ],
    ids=short,
)
def test_a_parameter_is_one_line(part: Any, line: str) -> None:
    """Type, values and bounds, need and default, meaning."""
    assert shown(part) == line
    assert shown(part, required=True) == line.replace("; optional", "; required")


def test_many_values_and_long_texts_are_cut() -> None:
    """What is left out of a list of values is counted; a description ends after 300 characters."""
    line = shown({"enum": list(range(VALUES_MAX + 5))})
    assert f", {VALUES_MAX - 1} and 5 more; " in line and f", {VALUES_MAX}" not in line
    assert shown({"type": "string", "description": "d" * 400}).endswith(": " + "d" * 300)


def test_nested_fields_stand_under_their_object() -> None:
    """Of an object, of the objects of a list, of the one object of a choice; each with its own need."""
    address = {
        "type": "object",
        "properties": {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]+$"}},
        "required": ["street"],
    }
    fields = ["  - street (text; required)", "  - zip (text matching ^[0-9]+$; optional)"]
    for part, kind in (
        (address, "object"),
        ({"type": "array", "items": address}, "list of object"),
        ({"anyOf": [address, {"type": "null"}]}, "object or null"),
        ({"$ref": "#/$defs/address"}, "object"),
        ({"allOf": [{"$ref": "#/$defs/address"}]}, "object"),
    ):
        lines = shown(part, defs={"address": address}).splitlines()
        assert lines == [f"- a ({kind}; optional)", *fields]


def test_a_choice_of_objects_shows_the_fields_of_all() -> None:
    """None of them as required, since each choice has its own."""
    one, two = ({"properties": {name: {"type": "string"}}, "required": [name]} for name in ("one", "two"))
    assert shown({"oneOf": [one, two]}).splitlines() == [
        "- a (object; optional)",
        "  - one (text; optional)",
        "  - two (text; optional)",
    ]


def test_references_are_followed_and_their_neighbours_count() -> None:
    """With escaped names, over several steps; one to nothing, or out of the document, says nothing."""
    defs = {"x/y": {"$ref": "#/$defs/z"}, "z": {"type": "integer", "description": "far"}}
    assert shown({"$ref": "#/$defs/x~1y"}, defs=defs) == "- a (integer; optional): far"
    near = {"$ref": "#/$defs/z", "description": "near"}
    assert shown(near, defs=defs) == "- a (integer; optional): near"
    for nowhere in ("#/$defs/none", "https://example.com/schema"):
        assert shown({"$ref": nowhere}) == "- a (any value; optional)"
    assert shown({"$ref": "#/properties/a"}) == "- a (any value; optional)", "a loop"


def test_the_parameters_themselves_may_be_referred_to_and_combined() -> None:
    """As `ParameterSchema` reads them: through a reference and ``allOf`` at the top, with what these require."""
    part = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
    for schema in ({"$ref": "#/$defs/part"}, {"allOf": [{"$ref": "#/$defs/part"}]}):
        assert parameter_lines(schema | {"$defs": {"part": part}}) == "- b (text; required)"


def test_what_code_sets_is_left_out_at_the_top_only() -> None:
    """In any case; a field of an object may have such a name."""
    inner = {"type": "object", "properties": {"history": {"type": "string"}}}
    schema = {"type": "object", "properties": {"ConnectionReference": inner, "documentList": {}, "b": inner}}
    lines = parameter_lines(schema, without=SET_BY_CODE).splitlines()
    assert lines == ["- b (object; optional)", "  - history (text; optional)"]


def test_hints_describe_what_has_no_description() -> None:
    """What Stage 1 said of a field; the tool's own words win, and a field inside of an object gets none."""
    own = {"a": {"type": "object", "properties": {"b": {"type": "string"}}}, "b": {"description": "own"}}
    lines = parameter_lines({"properties": own}, hints={"a": "said\n## Rules", "b": "said"}).splitlines()
    assert lines == [
        "- a (object; optional): said ## Rules",
        "  - b (text; optional)",
        "- b (any value; optional): own",
    ]


# -- schemas of strangers ------------------------------------------------------------------------------------------


def test_a_value_of_any_json_has_an_end() -> None:
    """Schemas that refer to themselves are common: a value that is a text, or a list of such values."""
    value = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/value"}}]}
    line = shown({"$ref": "#/$defs/value"}, defs={"value": value})
    assert line.startswith("- a (text or list of text or ") and len(line) < 200
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    lines = shown({"$ref": "#/$defs/node"}, defs={"node": node}).splitlines()
    assert [line.strip() for line in lines[1:]] == ["- next (object; optional)"] * DEPTH_MAX


def test_a_schema_that_grows_without_end_is_cut_with_a_mark() -> None:
    """Forty fields, each an object of the same forty: two hundred lines are made and no more."""
    names = [f"f{number}" for number in range(40)]
    wide = {"type": "object", "properties": {name: {"$ref": "#"} for name in names}}
    lines = parameter_lines(wide).splitlines()
    assert len(lines) == LINES_MAX + 1 and lines[-1] == "…"
    both = {"allOf": [{"$ref": "#/$defs/both"}] * 3, "properties": {"b": {}}}
    assert parameter_lines({"$ref": "#/$defs/both", "$defs": {"both": both}}) == "- b (any value; optional)"


TEXTS = st.text(st.sampled_from("ab#=:- \n\r\u2028\t(;)"), min_size=1, max_size=12)
LEAVES = st.one_of(
    st.fixed_dictionaries({"type": st.just("string")}, optional={"pattern": TEXTS, "format": TEXTS}),
    st.fixed_dictionaries({"enum": st.lists(TEXTS | st.integers(), min_size=1, max_size=3)}),
    st.fixed_dictionaries({"const": TEXTS, "default": TEXTS, "description": TEXTS}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])}, optional={"minimum": st.integers()}
    ),
    st.just({"$ref": "#/$defs/d"}),
)
NAMES = st.sampled_from(["a", "b", "c", "documents", "x\n## Rules"])


def objects(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return schemas of objects with *parts* as properties, some of them required."""
    return st.builds(
        lambda properties, count: {
            "type": "object",
            "properties": properties,
            "required": list(properties)[:count],
        },
        st.dictionaries(NAMES, parts, max_size=4),
        st.integers(0, 3),
    )


PARTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        objects(inner),
        inner.map(lambda one: {"type": "array", "items": one}),
        st.lists(inner, min_size=1, max_size=3).map(lambda several: {"anyOf": several}),
        st.lists(inner, min_size=1, max_size=2).map(lambda several: {"allOf": several}),
    ),
    max_leaves=8,
)


@given(objects(PARTS), PARTS, objects(LEAVES))
def test_every_schema_is_shown_in_lines_that_open_no_section(
    top: dict[str, Any], definition: Any, more: dict[str, Any]
) -> None:
    """Each line is a parameter; each parameter that the tool knows has one, with its need."""
    schema = top | {"$defs": {"d": definition}, "allOf": [more]}
    text = parameter_lines(schema, without=SET_BY_CODE)
    lines = text.split("\n") if text else []
    assert all(line.lstrip(" ").startswith("- ") or line == "…" for line in lines)
    assert len(text.splitlines()) == len(lines), "no other line breaks either"
    expected: dict[str, bool] = {}
    for part in (top, more):
        for name in part["properties"]:
            if name not in SET_BY_CODE:
                expected[" ".join(name.split())] = name in [*top["required"], *more["required"]]
    found = [line for line in lines if line.startswith("- ")]
    assert [line[2:].partition(" (")[0] for line in found] == list(expected)
    for line, needed in zip(found, expected.values(), strict=True):
        assert ("; required" in line) >= needed
