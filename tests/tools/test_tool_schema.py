"""Parameter schemas: what is refused as a schema, what is a problem of arguments, which texts are read, what is one call."""

from __future__ import annotations

import copy
import json
import random
from collections import UserDict
from collections.abc import Mapping
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor.errors import UsageError

from ..support.effort import examples
from .inside import (
    MESSAGE_MAX,
    ROUGH_TEXT_MAX,
    SCHEMA_BYTES_MAX,
    NotJson,
    ParameterSchema,
    Problem,
    canonical_arguments,
    dump,
    json_value,
    locate,
    plain,
)
from .inside import canonical_DEPTH_MAX as DEPTH_MAX
from .inside import parameters_SchemaError as SchemaError

SEARCH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "default": "never filled"},
        "maxResults": {"type": "integer", "minimum": 1, "default": 10},
        "language": {"type": ["string", "null"]},
        "depth": {"enum": ["basic", "advanced"], "default": "basic"},
        "site": {"type": "object", "properties": {"host": {"type": "string"}, "port": {"default": 443}}},
    },
    "required": ["query"],
}


def codes(problems: tuple[Problem, ...]) -> list[tuple[str, str]]:
    """Return code and path of each problem, after checking the messages' form."""
    for problem in problems:
        assert problem.code in {"missing", "unknown", "type", "value"}
        assert len(problem.message) <= MESSAGE_MAX and len(problem.path) <= 80
        assert problem.message.isascii() and problem.message.isprintable()
    assert len(set(problems)) == len(problems)
    return [(problem.code, problem.path) for problem in problems]


def check(schema: Mapping[str, Any], arguments: Any) -> list[tuple[str, str]]:
    """Return what is wrong with *arguments*."""
    return codes(ParameterSchema(schema).check(arguments))


def one(schema: Any, value: Any) -> list[tuple[str, str]]:
    """Return what is wrong with the argument ``x`` of this schema."""
    return check({"properties": {"x": schema}}, {"x": value})


# schemas


def chain(length: int) -> dict[str, Any]:
    """Return a schema whose references double at each of *length* steps."""
    steps: dict[str, Any] = {
        f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}, {"$ref": f"#/$defs/a{i + 1}"}]}
        for i in range(length)
    }
    return {"$ref": "#/$defs/a0", "$defs": {**steps, f"a{length}": {"type": "object"}}}


def nested(levels: int, key: str = "not") -> dict[str, Any]:
    """Return a schema of so many levels."""
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {key: schema}
    return schema


cycle: dict[str, Any] = {}
cycle["properties"] = {"a": cycle}

UNUSABLE: dict[str, tuple[Any, str]] = {
    "a wrong keyword": ({"type": "object", "required": "query"}, "#/required"),
    "a wrong keyword behind a reference": ({"$ref": "#/x/A", "x": {"A": {"required": 5}}}, "#/x/A/required"),
    "a top-level array": ({"type": "array"}, '#/type: expected "object"'),
    "a top-level type in allOf": ({"allOf": [{"type": ["string", "null"]}]}, "not an object"),
    "a remote reference": ({"$ref": "https://example.org/schema.json"}, "leaves the document"),
    "a dangling reference": ({"properties": {"a": {"$ref": "#/$defs/nope"}}}, "#/$defs/nope does not exist"),
    "a reference below $id": (
        {"$defs": {"a": {"$id": "http://x.invalid/a", "properties": {"b": {"$ref": "#/$defs/a"}}}}},
        "below a nested $id",
    ),
    "a loop of references": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "loop",
    ),
    "references that double": (chain(30), "too large a tree"),
    "an object": ({"properties": {"a": {"default": object()}}}, "a Python object"),
    "a set": ({"properties": {"a": {"enum": {1}}}}, "['enum']"),
    "a key that is no text": ({"properties": {1: {}}}, "a key of type int"),
    "NaN": ({"properties": {"a": {"minimum": float("nan")}}}, "not finite"),
    "a huge number": ({"properties": {"a": {"maximum": 10**1000}}}, "600 digits"),
    "itself": (cycle, "too deep"),
    "too many levels": (nested(DEPTH_MAX + 1), "too deep"),
    "much text": ({"description": "x" * SCHEMA_BYTES_MAX}, f"at most {SCHEMA_BYTES_MAX}"),
    "many nodes": ({"x": [[[]] * 1000] * 2000}, "too large"),
    "no pattern": ({"properties": {"a": {"pattern": "(a"}}}, "regex"),
    "look-around in names": ({"patternProperties": {"^(?!_)": True}}, "look-around"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_schema_is_refused_with_place_and_reason(name: str) -> None:
    """The host learns at once, not when a model calls the tool."""
    schema, words = UNUSABLE[name]
    with pytest.raises(SchemaError) as caught:
        ParameterSchema(schema)
    assert words in str(caught.value)
    assert len(str(caught.value)) <= 400 and "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, UsageError)
    assert str(copy.copy(caught.value)) == str(caught.value)  # as pickle makes it anew


USABLE: dict[str, dict[str, Any]] = {
    "empty": {},
    "draft-07 definitions": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": {"$ref": "#/definitions/A"}},
        "definitions": {"A": {"type": "string"}},
    },
    "unknown keywords": {"x-order": 1, "properties": {"a": {"x-widget": {"$ref": "http://x.invalid/"}}}},
    "boolean schemas": {"properties": {"a": True, "b": False}},
    "escaped pointers": {
        "properties": {"a": {"$ref": "#/$defs/x%20y~1z~0"}, "b": {"$ref": "#/allOf/0"}},
        "allOf": [{}],
        "$defs": {"x y/z~": {}},
    },
    "dynamic references": {"$dynamicAnchor": "node", "properties": {"a": {"$dynamicRef": "#node"}}},
    "recursion": {"properties": {"a": {"$ref": "#"}, "b": {"type": "array", "items": {"$ref": "#"}}}},
    "deep": nested(60, "items"),
    "other kinds of mappings": {"properties": MappingProxyType({"a": UserDict({"enum": (1, 2)})})},
}


@pytest.mark.parametrize("name", USABLE)
def test_a_schema_from_the_world_is_accepted(name: str) -> None:
    """What providers, pydantic, zod and OpenAPI converters write is usable, and `{}` satisfies the optional ones."""
    schema = ParameterSchema(USABLE[name])
    assert schema.check({name: "" for name in schema.required}) == ()
    assert json.loads(json.dumps(schema.schema)) == json.loads(json.dumps(plain(USABLE[name])))
    assert schema.names == tuple(schema.schema.get("properties", ()))


def test_the_schema_is_a_deep_copy_in_json_types() -> None:
    """The host may change its dict afterwards; the compiled schema stays what it was."""
    source = copy.deepcopy(SEARCH)
    schema = ParameterSchema(source)
    source["properties"]["query"]["type"] = "integer"
    assert schema.schema == SEARCH and schema.check({"query": "x"}) == ()
    tricky = ParameterSchema({"properties": {"a": UserDict({"enum": (1, 2.0, StrEnum("E", ["A"]).A)})}})  # type: ignore[attr-defined]
    assert tricky.schema == {"properties": {"a": {"enum": [1, 2, "a"]}}}
    assert type(tricky.schema["properties"]["a"]["enum"][1]) is int
    assert type(tricky.schema["properties"]["a"]["enum"][2]) is str


def test_names_come_in_order_of_declaration_and_through_references() -> None:
    """The tiny catalog shows them in this order."""
    schema = ParameterSchema(
        {
            "properties": {"z": {}, "a": {}},
            "allOf": [{"$ref": "#/$defs/Page"}, {"properties": {"a": {}, "own": {}}, "required": ["own"]}],
            "$ref": "#/$defs/Base",
            "required": ["z", "extra"],
            "$defs": {
                "Page": {"properties": {"page": {}}, "required": ["page", "z"]},
                "Base": {"properties": {"base": {}}},
            },
            "anyOf": [{"properties": {"hidden": {}}}, True],
        }
    )
    assert schema.names == ("z", "a", "page", "own", "base")
    assert schema.required == ("z", "extra", "page", "own")
    assert codes(schema.check({"hidden": 1, "z": 1, "extra": 1, "page": 1, "own": 1, "nope": 1})) == [
        ("unknown", "nope")
    ]


# check


def test_all_problems_are_listed_missing_names_first() -> None:
    """A077: the rejection lists every missing name."""
    schema = {
        "properties": {
            "a": {"type": "integer"},
            "b": {},
            "c": {"default": 1},
            "d": {"minimum": 5, "multipleOf": 2},
        },
        "required": ["c", "b", "e"],
    }
    found = ParameterSchema(schema).check({"z": 1, "a": "x", "y": 2, "d": 3})
    assert codes(found) == [
        *(("missing", "c"), ("missing", "b"), ("missing", "e")),
        *(("unknown", "z"), ("unknown", "y")),
        *(("type", "a"), ("value", "d"), ("value", "d")),
    ]
    assert [problem.message for problem in found] == [
        "c is required but missing",
        "b is required but missing",
        "e is required but missing",
        "z is not a known parameter",
        "y is not a known parameter",
        'a must be integer; found "x"',
        "d must be a multiple of 2; found 3",
        "d must be at least 5; found 3",
    ]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "integer"}, 1.0, []),
        ({"const": {"a": [1]}}, {"a": [1.0]}, []),
        ({"type": "string", "format": "email"}, "no address", []),
        ({"type": "array"}, (1, 2), []),
        ({"type": "object"}, UserDict(a=1), []),
        ({"type": "integer"}, IntEnum("I", ["A"]).A, []),  # type: ignore[attr-defined]
        ({"type": "integer"}, True, [("type", "x")]),
        ({"enum": [1]}, True, [("value", "x")]),
        ({"minimum": 1}, 0, [("value", "x")]),
        ({"multipleOf": 2}, 3, [("value", "x")]),
        ({"pattern": "^a"}, "b", [("value", "x")]),
        ({"uniqueItems": True}, [1, 1.0], [("value", "x")]),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, [("value", "x")]),
        ({"not": {"type": "string"}}, "a", [("value", "x")]),
        ({"if": {"minimum": 5}, "then": {"multipleOf": 2}}, 7, [("value", "x")]),
        ({"items": {"type": "integer"}}, [1, "a", 2, "b"], [("type", "x[1]"), ("type", "x[3]")]),
        (
            {"prefixItems": [{"type": "integer"}], "items": False},
            ["a", 2],
            [("type", "x[0]"), ("value", "x[1]")],
        ),
        ({"unevaluatedItems": False}, [1], [("value", "x")]),
        ({"additionalProperties": False}, {"a": 1, "b c": 2}, [("unknown", "x.a"), ("unknown", "x.b c")]),
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"a": 1, "b": 2}, [("unknown", "x.b")]),
        ({"additionalProperties": {"type": "string"}}, {"a": 1}, [("type", "x.a")]),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, [("missing", "x.b")]),
        (
            {"items": {"properties": {"a": {"items": {"type": "null"}}}}},
            [{}, {"a": [None, 1]}],
            [("type", "x[1].a[1]")],
        ),
        ({}, {"any": [None]}, []),
    ],
)
def test_each_rule_of_json_schema_holds(schema: Any, value: Any, expected: list[tuple[str, str]]) -> None:
    """The code says what kind of problem it is, the path where it is."""
    assert one(schema, value) == expected
    if expected:
        assert check({"properties": {"x": schema}, "additionalProperties": True}, {"x": value}) == expected


def test_an_optional_value_of_the_wrong_type_is_a_type_problem() -> None:
    """Branches of other types are no news to the model; the one that was meant is."""
    optional = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert one(optional, None) == []
    (problem,) = ParameterSchema({"properties": {"x": optional}}).check({"x": "a"})
    assert problem == Problem("type", "x", 'x must be integer or null; found "a"')
    point = {"type": "object", "properties": {"y": {"type": "integer"}}, "required": ["y", "z"]}
    assert one({"anyOf": [point, {"type": "null"}]}, {"y": "a"}) == [("missing", "x.z"), ("type", "x.y")]
    assert one({"oneOf": [{"anyOf": [point, {"type": "null"}]}, {"type": "string"}]}, {"y": 1}) == [
        ("missing", "x.z")
    ]


@pytest.mark.parametrize(
    ("extra", "unknown"),
    [
        ({}, ["b", "x_1"]),
        ({"additionalProperties": True}, []),
        ({"unevaluatedProperties": True}, []),
        ({"patternProperties": {"^x_": {}}}, ["b"]),
        ({"allOf": [{"properties": {"b": {}}}]}, ["x_1"]),
        ({"anyOf": [{"properties": {"b": {}}}, {"properties": {"x_1": {}}}]}, []),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"b": {}}}}}, ["x_1"]),
        ({"if": {"required": ["a"]}, "then": {"properties": {"b": {}}}}, ["x_1"]),
    ],
)
def test_an_unknown_argument_is_a_problem_unless_the_schema_opens_up(
    extra: dict[str, Any], unknown: list[str]
) -> None:
    """Models invent parameters; only an explicit word of the schema lets them."""
    schema = {"properties": {"a": {}}, **extra}
    assert check(schema, {"a": 1, "b": 2, "x_1": 3}) == [("unknown", name) for name in unknown]


def test_a_recursive_schema_is_followed_into_the_instance() -> None:
    """`$ref` to the whole document, and to a definition that contains itself."""
    tree = {"properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#"}}}}
    assert check(tree, {"v": 1, "kids": [{"v": 2, "kids": []}, {"v": "x"}]}) == [("type", "kids[1].v")]
    deep: dict[str, Any] = {"v": "bad"}
    for _ in range(40):
        deep = {"v": 1, "kids": [deep]}
    assert [code for code, _ in check(tree, deep)] == ["type"]


class Color(Enum):
    """A Python type that JSON does not know."""

    RED = "red"


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        (float("nan"), "value", "x"),
        ([1, {"a": -float("inf")}], "value", "x[1].a"),
        ("\ud800", "value", "x"),
        ({1: 2}, "type", "x"),
        (Color.RED, "type", "x"),
        pytest.param(10**5000, "value", "x", id="huge"),
        ([0] * 2 + [nested(DEPTH_MAX)], "value", "x[2]" + ".not" * 19),
    ],
)
def test_what_is_no_json_is_a_problem(value: Any, code: str, path: str) -> None:
    """Never an exception, never taken for null; the other arguments are checked all the same."""
    schema = {"properties": {"x": {}, "y": {"type": "string"}, "w": {}}, "required": ["x", "w"]}
    found = check(schema, {"x": value, "y": 1})
    assert [item for item in found if item[0] in ("missing", "unknown")] == [("missing", "w")]
    assert ("type", "y") in found
    assert [(a, b[: len(path)]) for a, b in found if b.startswith("x")] == [(code, path)]


@pytest.mark.parametrize("value", [None, [], pytest.param(10**5000, id="huge"), object()])
def test_arguments_that_are_no_object_are_one_problem(value: Any) -> None:
    """The engine hands over what the model sent, whatever it is."""
    assert check(SEARCH, value) == [("type", "")]


@pytest.mark.parametrize("key", ["0", "", '"', "~1", "\n", "٣", "1" * 30])
def test_paths_hold_for_any_key(key: str) -> None:
    """The validator takes ``"0"`` for an index and drops empty keys; the path in a problem is the real one."""
    strings = {"additionalProperties": {"additionalProperties": {"items": {"type": "string"}}}}
    (problem,) = ParameterSchema(strings).check({"p": {"x": [], key: ["", 5]}})
    assert problem.code == "type" and problem.path == f"p.{key}[1]"
    assert problem.message.endswith("must be string; found 5")
    assert check(strings, {"": {"": {}, key: [0]}})[0][0] == "type"
    assert locate({"a": [1]}, ["a", 1]) == (["a"], [1]) and locate({"a": 1}, ["b", "c"]) == ([], {"a": 1})
    shut = {
        "properties": {"p": {"properties": {"x": {}}, "additionalProperties": False, "required": [f"{key}r"]}}
    }
    assert check(shut, {"p": {key: 1}}) == [("missing", f"p.{key}r"), ("unknown", f"p.{key}")]


def test_messages_quote_little() -> None:
    """A megabyte in the arguments is no megabyte in the next prompt."""
    long = "\U0001f600\n" * 100_000
    schema = {
        "properties": {
            "enum": {"enum": [f"option {i}" for i in range(1000)]},
            "pattern": {"pattern": "x" * 1000},
            "const": {"const": "y" * 1000},
            "number": {"type": "string"},
            "list": {"type": "string"},
            "names": {"propertyNames": {"maxLength": 3}},
            "shut": {"properties": {}, "additionalProperties": False},
        }
    }
    arguments = dict.fromkeys(("enum", "pattern", "const"), long)
    found = ParameterSchema(schema).check(
        {**arguments, "number": 10**500, "list": [long], "names": {long: 1}, "shut": {long: 1}, long: 1}
    )
    assert len(found) == 8 and codes(found)
    for problem in found:
        assert problem.message.count("\\ud83d") <= 8
        assert len(problem.path.encode()) <= 320


def test_patterns_take_linear_time() -> None:
    """Nested repetition is harmless; what needs backtracking is tried on short texts only, and with bounded steps."""
    for pattern in ("(a+)+$", "(a|aa)+$", "^(a|a?)+$", "(x+x+)+y", "^(\\w+\\s?)*$"):
        assert one({"pattern": pattern}, "a" * 500_000 + "!") == [("value", "x")]
    rough = {"type": "string", "pattern": "^(?!/)[a-z/]+$", "allOf": [{"minLength": 2}]}
    assert (
        one(rough, "a/b") == []
        and one(rough, "/a") == [("value", "x")]
        and one(rough, "a") == [("value", "x")]
    )
    assert one(rough, "a" * ROUGH_TEXT_MAX) == []
    assert one(rough, "a" * (ROUGH_TEXT_MAX + 1)) == [("value", "x")]
    assert one({"anyOf": [rough, {"type": "integer"}]}, 5) == []
    for pattern in (r"(a+)+\1$", r"(?<=a)(a*)*$", "(?!.*foo)bar", r"(a*)*\1\1$"):
        assert one({"pattern": pattern}, "a" * 1_000_000 + "!") == [("value", "x")]
        assert one({"pattern": pattern}, "a" * (ROUGH_TEXT_MAX - 1) + "!") in ([], [("value", "x")])
    shared = {
        "properties": {"x": {"pattern": "(?!b)"}, "y": {"pattern": "^b"}},
        "patternProperties": {"^z": {}},
    }
    assert check(shared, {"x": "a", "y": "a", "z1": 1}) == [("value", "y")]
    assert ParameterSchema(shared).schema == shared


@pytest.mark.whole
def test_listing_problems_is_bounded() -> None:
    """Many wrong items, or branches that double at every level, end in one problem instead of gigabytes."""
    numbers = {"properties": {"x": {"items": {"type": "integer"}}, "y": {}}, "required": ["y"]}
    assert len(check(numbers, {"x": ["a"] * 5000})) == 5001
    assert check(numbers, {"x": ["a"] * 500_000, "z": 1}) == [
        ("missing", "y"),
        ("unknown", "z"),
        ("value", ""),
    ]
    both = {"additionalProperties": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, "minProperties": 1}
    either = {
        "anyOf": [
            {"properties": {"a": {"$ref": "#"}}, "required": ["a"]},
            {"properties": {"a": {"$ref": "#"}}},
        ],
        "patternProperties": {
            "^b": {"prefixItems": [{"$ref": "#"}], "contains": {"$ref": "#"}, "items": {"$ref": "#"}}
        },
        "maxProperties": 1,
    }
    for schema, key in ((both, "a"), (either, "a")):
        deep: Any = {} if schema is both else {"a": 1, "b": 2}
        for _ in range(60):
            deep = {key: deep}
        assert check(schema, deep) == [("value", "")]
    wrapped: Any = {"a": 1, "b": 2}
    for _ in range(20):
        wrapped = {"b": [wrapped]}
    assert check(either, wrapped) == [("value", "")]


# texts that are values


def test_a_json_text_where_an_object_or_a_list_must_be_is_read_as_it() -> None:
    """At any depth, nothing else changed; a text that fits is a text, and one that would not fit once read stays as it is."""
    schema = ParameterSchema(
        {
            "properties": {
                "site": {
                    "type": "object",
                    "properties": {"ports": {"type": "array", "items": {"type": "integer"}}},
                },
                "either": {"type": ["object", "string"]},
                "perhaps": {"anyOf": [{"type": "object"}, {"type": "null"}]},
                "number": {"type": "integer"},
            }
        }
    )
    read = json_value
    given = {"site": {"ports": "[80, 443]"}, "either": "{}", "perhaps": '{"a": 1}', "number": "5"}
    before = copy.deepcopy(given)
    expected = {"site": {"ports": [80, 443]}, "either": "{}", "perhaps": {"a": 1}, "number": "5"}
    assert schema.texts_read(given, read) == expected and given == before
    for text in ('["x"]', "[1", "[1] and more", '{"a": 1, "a": 2}', "[NaN]", "80", ""):
        kept = {"site": {"ports": text}}
        assert schema.texts_read(kept, read) == kept
    whole = {"site": json.dumps({"ports": [1]})}
    assert schema.texts_read(whole, read) == {"site": {"ports": [1]}}
    broken = {"site": "{}", "z": float("nan")}
    assert schema.texts_read(broken, read) == broken, "what is no JSON at all is refused as it is"


# canonical_arguments

SAME: list[tuple[Any, Any]] = [
    ({"a": [0.0, -0.0]}, {"a": [0, 0]}),
    ({"a": 1e30}, {"a": int(1e30)}),
    ({}, None),
    ({}, {"call_id": "c1"}),
    ({"a": (1, 2)}, {"a": [1, 2]}),
    (UserDict(a=UserDict(b=1)), {"a": {"b": 1}}),
    ({"a": StrEnum("E", ["X"]).X}, {"a": "x"}),  # type: ignore[attr-defined]
]
DIFFERENT: list[tuple[Any, Any]] = [
    ({"a": {"call_id": 1}}, {"a": {}}),
    ({"a": 1e30}, {"a": 10**30}),
    ({"a": 2**53}, {"a": 2**53 + 1}),
    ({"a": '","b":"'}, {"a": "", "b": ""}),
    ({"a": "1e30"}, {"a": 1e30}),
]


def test_the_same_call_has_one_key_and_another_call_another() -> None:
    """What the property below cannot draw: types of Python, large numbers, names that count for nothing."""
    for left, right in SAME:
        assert canonical_arguments(left) == canonical_arguments(right), left
    for one, other in DIFFERENT:
        assert canonical_arguments(one) != canonical_arguments(other), one


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        {1: 2},
        object(),
        nested(DEPTH_MAX + 1),
        pytest.param([10**5000], id="huge"),
    ],
)
def test_what_is_no_json_has_no_key(value: Any) -> None:
    """The guard must not compare what cannot be written down."""
    with pytest.raises(ValueError, match="not JSON at"):
        canonical_arguments({"a": value})


def test_not_json_says_where() -> None:
    """The path is cut, the reason stays."""
    with pytest.raises(NotJson) as caught:
        plain({"k" * 500: [1, {2}]})
    assert caught.value.path == ["k" * 500, 1] and caught.value.code == "type"
    assert str(caught.value).endswith(": a Python set") and len(str(caught.value)) < 200


# properties

texts = st.text(st.sampled_from('ab\u00e9\U0001f600 "\\'), max_size=3)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, -0.0, 1.0, 1.5, 2.0**70, 2**70])
    | texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=3)


def json_equal(left: Any, right: Any) -> bool:
    """Return whether two values are the same JSON, by the plain definition."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right
    return type(left) is type(right) and bool(left == right)


def respelled(value: Any, chance: random.Random) -> Any:
    """Return the same JSON, spelt differently."""
    if isinstance(value, dict):
        items = [(key, respelled(item, chance)) for key, item in value.items()]
        chance.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return [respelled(item, chance) for item in value]
    if type(value) is int and abs(value) < 2**53 and chance.random() < 0.5:
        return float(value)
    return value


@settings(max_examples=examples(60), deadline=None)
@given(objects, objects, st.randoms(use_true_random=False))
def test_keys_are_equal_exactly_for_equal_json(
    left: dict[str, Any], right: dict[str, Any], chance: random.Random
) -> None:
    """Neither a missed duplicate nor a false one; a key is JSON of the call itself."""
    assert (canonical_arguments(left) == canonical_arguments(right)) == json_equal(left, right)
    assert canonical_arguments(respelled(left, chance)) == canonical_arguments(left)
    assert json_equal(json.loads(canonical_arguments(left)), left)
    assert dump(plain(left)) == canonical_arguments(left)


names = st.sampled_from(["a", "b", "c"])
small = st.integers(0, 3)
leaves: st.SearchStrategy[Any] = st.one_of(
    st.just({}),
    st.just(True),
    st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"]).map(
        lambda kind: {"type": kind}
    ),
    st.lists(scalars, min_size=1, max_size=3).map(lambda options: {"enum": options}),
    st.builds(lambda low, high: {"minimum": low, "maximum": high}, small, small),
    st.builds(lambda low: {"minLength": low, "pattern": "a"}, small),
    st.builds(lambda step: {"multipleOf": step + 1}, small),
    st.just({"$ref": "#/$defs/tree"}),
    st.just({"uniqueItems": True, "maxItems": 2}),
)


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return schemas made of other schemas."""
    some = st.lists(inner, min_size=1, max_size=3)
    properties = st.dictionaries(names, inner, max_size=3)
    return st.one_of(
        st.builds(
            lambda p, r, e: {
                "properties": p,
                "required": r,
                **({} if e is None else {"additionalProperties": e}),
            },
            properties,
            st.lists(names, unique=True, max_size=2),
            st.none() | st.booleans() | inner,
        ),
        st.builds(lambda kind, parts: {kind: parts}, st.sampled_from(["allOf", "anyOf", "oneOf"]), some),
        st.builds(lambda kind, part: {kind: part}, st.sampled_from(["not", "items", "contains"]), inner),
        st.builds(lambda a, b, c: {"if": a, "then": b, "else": c}, inner, inner, inner),
        st.builds(lambda parts, rest: {"prefixItems": parts, "items": rest}, some, inner),
        st.builds(lambda a, b: {"patternProperties": {"^a": a}, "unevaluatedProperties": b}, inner, inner),
        st.builds(lambda part, value: {"default": value, "allOf": [part]}, inner, values),
    )


schemas = st.recursive(leaves, grown, max_leaves=8)
tops = st.builds(
    lambda properties, required, extra, more: {
        "properties": properties,
        "required": required,
        "allOf": [more],
        **({} if extra is None else {"additionalProperties": extra}),
        "$defs": {
            "tree": {"properties": {"a": {"$ref": "#/$defs/tree"}, "b": {"type": "integer", "default": 1}}}
        },
    },
    st.dictionaries(names, schemas, max_size=3),
    st.lists(names, unique=True, max_size=2),
    st.none() | st.booleans() | schemas,
    st.just(True) | grown(leaves),
)
calls = st.dictionaries(names | texts, values, max_size=3)


def made(schema: dict[str, Any]) -> ParameterSchema | None:
    """Return the compiled schema, or None for one that no object satisfies."""
    try:
        return ParameterSchema(schema)
    except SchemaError:
        return None


@pytest.mark.whole
@settings(max_examples=examples(300), deadline=None)
@given(tops, calls)
def test_reading_texts_makes_no_new_problems(source: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Whatever the schema: what was fine stays as it is, and nothing is wrong that was not wrong before."""
    schema = made(source)
    if schema is None:
        return
    before = copy.deepcopy(arguments)
    read = schema.texts_read(arguments, json_value)
    assert arguments == before
    assert read.keys() == arguments.keys()
    assert len(schema.check(read)) <= len(schema.check(arguments))
    if not schema.check(arguments):
        assert read is arguments


@pytest.mark.whole
@settings(max_examples=examples(300), deadline=None)
@given(tops, calls)
def test_problems_are_found_exactly_where_the_reference_validator_finds_them(
    source: dict[str, Any], arguments: dict[str, Any]
) -> None:
    """The pure-Python `jsonschema` is the oracle; strictness about unknown names is the one difference."""
    jsonschema = pytest.importorskip("jsonschema", reason="the oracle is not installed")
    schema = made(source)
    if schema is None:
        return
    problems = schema.check(arguments)
    codes(problems)
    oracle = jsonschema.Draft202012Validator(schema.schema)
    if oracle.is_valid(arguments):
        assert all(problem.code == "unknown" and problem.path in arguments for problem in problems)
    else:
        assert problems
    absent = [name for name in schema.required if name not in arguments]
    assert [problem.path for problem in problems if problem.code == "missing"][: len(absent)] == absent
