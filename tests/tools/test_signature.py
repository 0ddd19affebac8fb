"""Typed Python functions as tools: their schema, their context, and their call with JSON arguments."""

import copy
import datetime
import functools
import gc
import json
import typing
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, NotRequired, Optional, Required, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_serializer, field_validator

from paor import ToolContext
from paor.errors import ToolError, UsageError

from .inside import BindError, ParameterSchema, SchemaError, bind, context_parameter, schema_of
from .inside import signature_module as signature
from .inside import signature_summary_of as summary_of


class Color(Enum):
    """A choice."""

    RED = "red"
    TWO = 2


class Level(IntEnum):
    """A number with a name."""

    LOW = 1
    HIGH = 2


@dataclass
class Point:
    """A place."""

    x: int
    y: float = 0.5
    tags: list[str] = field(default_factory=list)


class Person(BaseModel):
    """Somebody."""

    name: str = Field(description="Full name", min_length=1)
    boss: Optional["Person"] = None

    @field_validator("name")
    @classmethod
    def no_digits(cls, value: str) -> str:
        """Refuse digits; JSON Schema cannot know."""
        if any(char.isdigit() for char in value):
            raise ValueError("names have no digits")
        return value


class Old(typing.TypedDict):
    """The standard library's, which pydantic refuses before Python 3.12."""

    id: int
    note: NotRequired[Annotated[str, Field(description="Anything")]]


class Loose(typing.TypedDict, total=False):
    """All keys are optional but one."""

    id: Required[int]
    olds: list[Old]


class Loop(typing.TypedDict):
    """Refers to itself."""

    loop: list["Loop"]


class Odd(BaseModel):
    """Cannot be written as JSON."""

    x: int = 1

    @field_serializer("x")
    def fail(self, value: int) -> int:
        """Raise what a serializer must not."""
        raise KeyError(value)


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    """Holds one thing."""

    item: T


def search(
    query: str,
    limit: int = 10,
    *,
    colors: list[Color] | None = None,
    depth: Literal["basic", "advanced"] = "basic",
    ratio: Annotated[float, Field(gt=0, description="Between the two")] = 1.5,
    context: ToolContext,
) -> str:
    """
    Search the web
    for pages.

    More about it.

    Args:
        query: What to look for,
            in any language.
        limit (int): At most so many.
        ratio: not used, since the annotation has one
        nothing: no such parameter
        depth:
            On the next line.

    Returns:
        limit: this is no parameter.
    """
    return query


def prop(annotation: Any, default: Any = ...) -> dict[str, Any]:
    """Return the schema of one parameter with this annotation, references resolved."""

    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    if default is not ...:
        function.__defaults__ = (default,)
    schema = schema_of(function)
    ParameterSchema(schema)
    found: dict[str, Any] = schema["properties"]["value"]
    if "$ref" in found:
        found = {**schema["$defs"][found["$ref"].rpartition("/")[2]], **found}
        del found["$ref"]
    return found


def converted(annotation: Any, value: Any) -> Any:
    """Return what a function with one parameter of this annotation gets for a JSON value."""

    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    assert ParameterSchema(schema_of(function)).check({"value": value}) == ()
    return bind(function, {"value": value})["value"]


def test_the_schema_of_a_typed_function() -> None:
    """Types, defaults, descriptions, requirements; no context, no titles, nothing else allowed."""
    assert schema_of(search) == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, in any language."},
            "limit": {"type": "integer", "description": "At most so many.", "default": 10},
            "colors": {
                "anyOf": [{"items": {"$ref": "#/$defs/Color"}, "type": "array"}, {"type": "null"}],
                "default": None,
            },
            "depth": {
                "enum": ["basic", "advanced"],
                "type": "string",
                "description": "On the next line.",
                "default": "basic",
            },
            "ratio": {
                "type": "number",
                "exclusiveMinimum": 0,
                "description": "Between the two",
                "default": 1.5,
            },
        },
        "required": ["query"],
        "additionalProperties": False,
        "$defs": {"Color": {"description": "A choice.", "enum": ["red", 2], "title": "Color"}},
    }
    compiled = ParameterSchema(schema_of(search))
    assert compiled.names == ("query", "limit", "colors", "depth", "ratio") and compiled.required == (
        "query",
    )


def test_a_function_without_parameters() -> None:
    """Its schema allows nothing."""

    def ping(context: ToolContext) -> None: ...

    assert schema_of(ping) == {"type": "object", "properties": {}, "additionalProperties": False}
    assert bind(ping, {}) == {}


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, 1.0, 1),
        (float, 1, 1.0),
        (list[Color], ["red", 2], [Color.RED, Color.TWO]),
        (Level, 2.0, Level.HIGH),
        (Point, {"x": 1.0, "y": 2, "tags": ["a"]}, Point(1, 2.0, ["a"])),
        (list[Point] | None, [{"x": 1}], [Point(1)]),
        (Box[Point], {"item": {"x": 1}}, Box[Point](item=Point(1))),
        (Loose, {"id": 1, "olds": [{"id": 2, "note": "n"}]}, {"id": 1, "olds": [{"id": 2, "note": "n"}]}),
        (datetime.date, "2026-11-21", datetime.date(2026, 11, 21)),
        (
            uuid.UUID,
            "12345678-1234-5678-1234-567812345678",
            uuid.UUID("12345678-1234-5678-1234-567812345678"),
        ),
    ],
)
def test_json_becomes_the_annotated_type(annotation: Any, value: Any, expected: Any) -> None:
    """Type and value, also deep inside."""
    result = converted(annotation, value)
    assert result == expected and type(result) is type(expected)
    assert repr(result) == repr(expected)


@pytest.mark.parametrize(
    ("annotation", "value", "code"),
    [
        (int, "1", "type"),
        (int, True, "type"),
        (Color, "RED", "value"),
        (datetime.date, 20261121, "type"),
        (datetime.date, "tomorrow", "value"),
        (Point, {"x": 1, "z": 2}, "unknown"),
        (Person, {"name": ""}, "value"),
        (Person, {"name": "R2D2"}, "value"),
        (Annotated[int, Field(ge=1)], 0, "value"),
    ],
)
def test_nothing_is_coerced(annotation: Any, value: Any, code: str) -> None:
    """The text "1" is no number: the tool is not called, and the model may read why."""

    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    with pytest.raises(BindError) as caught:
        bind(function, {"value": value})
    (problem,) = caught.value.problems
    assert problem.code == code and problem.path.startswith("value")
    assert problem.message in str(caught.value) and "function" in str(caught.value)
    assert str(caught.value).isascii() and "\n" not in str(caught.value)


def test_a_bind_error_is_a_tools_error_and_pickles() -> None:
    """It becomes an observation; all its problems travel with it."""
    with pytest.raises(BindError) as caught:
        bind(search, {"limit": "many", "ratio": -1, "zoom": 1})
    error = caught.value
    assert isinstance(error, ToolError) and isinstance(error, ValueError)
    assert [(problem.code, problem.path) for problem in error.problems] == [
        *(("missing", "query"), ("type", "limit"), ("value", "ratio"), ("unknown", "zoom"))
    ]
    assert str(error).startswith(
        'wrong arguments for search: query is required but missing; limit must be a valid integer; found "many"'
    )
    again = copy.copy(error)  # as pickle makes it anew
    assert str(again) == str(error) and again.problems == error.problems
    with pytest.raises(BindError, match=r"names have no digits; found \"R2\""):
        bind(Holder().store, {"person": {"name": "R2"}})
    with pytest.raises(BindError, match="a number that is not finite") as caught:
        bind(search, {"query": "x", "limit": 2**70, "ratio": float("nan")})
    assert caught.value.problems[0].path == "ratio"
    with pytest.raises(BindError, match="a Python set"):
        bind(search, {"query": {1}})


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        (float, 1.0, 1),
        (Color, Color.RED, "red"),
        (Point, Point(1), {"x": 1, "y": 0.5, "tags": []}),
        (datetime.date, datetime.date(2026, 1, 2), "2026-01-02"),
        (int, float("nan"), ...),
        (str, None, ...),
        (Annotated[int, Field(gt=0)], -1, ...),
        (Odd, Odd(), ...),
    ],
)
def test_a_default_is_in_the_schema_if_json_has_a_form_for_it(
    annotation: Any, default: Any, expected: Any
) -> None:
    """A default of the wrong type, or none of JSON's, is the function's own business: the parameter is optional."""
    found = prop(annotation, default)
    assert found.get("default", ...) == expected
    assert type(found.get("default", ...)) is type(expected)


class Holder:
    """Has tools as methods."""

    def store(self, person: Person, times: int = 1) -> None:
        """Store somebody."""

    @classmethod
    def make(cls, name: str) -> None:
        """Make one."""

    @staticmethod
    def help(topic: str) -> None:
        """Help."""

    def __call__(self, text: str, context: ToolContext) -> None:
        """Be called."""


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function as decorators do."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


async def fetch(url: str) -> str:
    """Fetch."""
    return url


@pytest.mark.parametrize(
    ("function", "names", "summary"),
    [
        (Holder().store, ["person", "times"], "Store somebody."),
        (Holder.make, ["name"], "Make one."),
        (Holder.help, ["topic"], "Help."),
        (Holder(), ["text"], "Be called."),
        (fetch, ["url"], "Fetch."),
        (wrapped(search), ["query", "limit", "colors", "depth", "ratio"], "Search the web for pages."),
        (
            functools.partial(search, limit=3),
            ["query", "limit", "colors", "depth", "ratio"],
            "Search the web for pages.",
        ),
        (Point, ["x", "y", "tags"], "A place."),
    ],
)
def test_all_kinds_of_callables(function: Callable[..., Any], names: list[str], summary: str) -> None:
    """Methods without self, wrapped functions, partials, callable objects, classes, coroutine functions."""
    assert list(schema_of(function)["properties"]) == names
    assert summary_of(function) == summary


def test_a_partials_values_are_defaults() -> None:
    """What is bound already may be left out."""
    schema = schema_of(functools.partial(search, query="news"))
    assert schema["properties"]["query"]["default"] == "news" and "required" not in schema


def unannotated(a: int, b) -> None: ...  # type: ignore[no-untyped-def]
def positional(a: int, /, b: int) -> None: ...
def star(a: int, *rest: int) -> None: ...
def stars(a: int, **rest: int) -> None: ...
def unknown(a: int, b: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def foreign(a: int, b: Callable[[int], int]) -> None: ...
def loops(a: int, b: Loop) -> None: ...
def assigned(a: int, b: int = Field(default=1)) -> None: ...
def twice(b: ToolContext, a: int, c: ToolContext) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (unannotated, "function unannotated: parameter b has no annotation"),
        (positional, "function positional: parameter a is positional-only"),
        (star, "function star: parameter rest is variadic positional"),
        (stars, "function stars: parameter rest is variadic keyword"),
        (unknown, "function unknown: parameter b: its annotation cannot be resolved: name 'Nowhere'"),
        (foreign, "function foreign: parameter b: "),
        (loops, "function loops: parameter b: its annotation cannot be resolved"),
        (assigned, "function assigned: parameter b has Field(...) as its default; expected Annotated"),
        (twice, "function twice: parameter c is a second ToolContext"),
        (Holder.__init_subclass__, "its signature cannot be read"),
        (lambda x: x, "parameter x has no annotation"),
        (dict, "function dict: its signature cannot be read"),
    ],
)
def test_an_unusable_function_is_refused_by_name(function: Callable[..., Any], words: str) -> None:
    """The message names function and parameter; both for the schema and for a call."""
    for attempt in (schema_of, lambda function: bind(function, {})):
        with pytest.raises(SchemaError) as caught:
            attempt(function)
        assert words in str(caught.value) and "\n" not in str(caught.value)
        assert isinstance(caught.value, UsageError)


class Elsewhere:
    """Holds another class of that name."""

    class ToolContext:
        """Called the same."""


def by_text(a: int, ctx: "ToolContext") -> None: ...
def by_dotted_text(a: int, ctx: "signature.ToolContext") -> None: ...  # type: ignore[name-defined]
def by_optional_text(ctx: "Optional[ToolContext]", a: int) -> None: ...  # noqa: UP045
def by_typing_text(ctx: "typing.Optional['ToolContext']", a: int) -> None: ...  # noqa: UP045
def by_union_text(a: int, ctx: "ToolContext | None" = None) -> None: ...
def by_union(a: int, *, ctx: ToolContext | None = None) -> None: ...
def by_reference(a: int, ctx: Optional["ToolContext"] = None) -> None: ...
def by_annotated(a: int, ctx: Annotated[ToolContext, "x"]) -> None: ...
def by_other_class(a: int, ctx: Elsewhere.ToolContext) -> None: ...
def by_name_only(a: int, context: str) -> None: ...
def by_list(a: int, ctx: list[ToolContext]) -> None: ...
def by_position(ctx: ToolContext, /) -> None: ...
def by_similar_text(a: int, ctx: "NoToolContext") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def loose(a, *args, ctx: ToolContext = None, **kwargs) -> None: ...  # type: ignore[no-untyped-def, assignment]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        *((search, "context"), (by_text, "ctx"), (by_dotted_text, "ctx"), (by_optional_text, "ctx")),
        *((by_typing_text, "ctx"), (by_union_text, "ctx"), (by_union, "ctx"), (by_reference, "ctx")),
        *(
            (by_annotated, "ctx"),
            (by_other_class, "ctx"),
            (Holder(), "context"),
            (wrapped(search), "context"),
        ),
        *((by_name_only, None), (by_list, None), (by_position, None), (by_similar_text, None), (fetch, None)),
        *((loose, "ctx"), (print, None), (dict, None), (3, None)),
    ],
)
def test_the_context_is_found_by_its_class(function: Any, expected: str | None) -> None:
    """Also where the class is imported for type checkers only, and for functions that no schema could be made of."""
    assert context_parameter(function) == expected
    assert context_parameter(function) == expected
    if expected == "ctx" and function is not loose:
        assert schema_of(function)["properties"] == {"a": {"type": "integer"}}


def test_a_function_is_not_kept_alive() -> None:
    """A host that makes tools per request must not leak them."""

    def temporary(a: int) -> None: ...

    schema_of(temporary)
    context_parameter(temporary)
    left = weakref.ref(temporary)
    del temporary
    gc.collect()
    assert left() is None


EVERYTHING = {
    "query": st.text(st.characters(exclude_categories=["Cs"])),
    "limit": st.integers() | st.integers(-100, 100).map(float),
    "colors": st.none() | st.lists(st.sampled_from(["red", 2])),
    "depth": st.sampled_from(["basic", "advanced"]),
    "ratio": st.floats(0.01, 1e300) | st.integers(1, 5),
}


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {"query": EVERYTHING["query"]}, optional={k: EVERYTHING[k] for k in EVERYTHING if k != "query"}
    )
)
def test_what_the_schema_allows_can_be_bound(arguments: dict[str, Any]) -> None:
    """Checked arguments reach the function, and no others: its own defaults hold."""
    schema = ParameterSchema(schema_of(search))
    assert schema.check(arguments) == ()
    bound = bind(search, arguments)
    assert bound.keys() == arguments.keys()
    assert type(bound.get("limit", 1)) is int and type(bound.get("ratio", 1.5)) is float
    assert bind(search, json.loads(json.dumps(arguments))) == bind(search, arguments)
