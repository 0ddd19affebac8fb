"""
Arguments from a tool's JSON Schema: valid ones, and ones that nearly are.

Written for schemas as tools have them: types, enums, ranges, lengths, patterns, common formats, nested objects and
lists, ``$ref``, ``anyOf``, ``oneOf``, ``allOf``. Other keywords are left to the validator: what was drawn is held to
the compiled schema, and values that do not fit are drawn again. So what is called valid here is valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial, reduce
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ...states.base.references import pointed
from ...states.settings.policy import Policy
from ...tools.policy import unsafe
from ...tools.schema.parameters import ParameterSchema
from .reply_builder import INJECTED
from .shown import Learned

_DEPTH_MAX = 4
"""How deep objects and lists that may be left out are filled; a schema may refer to itself."""

_ENDLESS = 24
"""How deep what may not be left out is filled; a schema that asks for more asks for itself, and nothing fits it."""

_WORDS = st.sampled_from(["a", "note", "Order 17", "Zürich", "x y", "0", "2026-01-31", "quarterly report"])
_TEXTS = st.one_of(_WORDS, st.text("ab \n\"'{}$éß漢🙂", max_size=12))
_FORMATS: dict[str, SearchStrategy[str]] = {
    "date": st.sampled_from(["2026-01-31", "2024-02-29", "1999-12-31"]),
    "time": st.sampled_from(["09:30:00Z", "23:59:59+01:00"]),
    "date-time": st.sampled_from(["2026-01-31T09:30:00Z", "2024-02-29T23:59:59+01:00"]),
    "email": st.sampled_from(["ann@example.com", "o'neil+x@example.org"]),
    "uuid": st.sampled_from(["0199d2b4-6f1e-7abc-8def-0123456789ab"]),
    "uri": st.sampled_from(["https://example.com/a?b=c", "https://example.org/"]),
    "hostname": st.sampled_from(["example.com"]),
    "ipv4": st.sampled_from(["93.184.216.34"]),
}
_PLAIN = st.characters(min_codepoint=32, max_codepoint=126)
_URLS = st.sampled_from(["https://example.com/a", "https://example.org/b?c=d"])
_PATHS = st.sampled_from(["notes.txt", "reports/2026.md"])
_JSON: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 1000) | _WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
)

UNSAFE = ("file:///etc/passwd", "http://127.0.0.1/", "http://user:secret@example.com/", "javascript:alert(1)")
"""Values that the policy lets into no tool, under any name of an argument."""


_FAR = (100, 1_000, 100_000)
"""How far from nought, or from the one bound that there is, numbers are drawn beside those close to it."""

_LOOKS = {"": "(?s).*", "date": r"\d{4}-\d\d-\d\d", "email": r"[^@\s]+@[^@\s]+", "uri": r"https?://\S+"}
"""How a text of a format looks that was shown somewhere; of others only those are drawn that the kit has itself."""

Known = Mapping[str, Sequence[Any]] | Learned
"""Values that are known to mean something: ids that exist, for example, by the name of an argument."""

NOTHING_KNOWN = Learned()


def weighted(*parts: tuple[int, SearchStrategy[Any]]) -> SearchStrategy[Any]:
    """
    Return one of several strategies, each as often as its weight says.

    `hypothesis.strategies.one_of` cannot: it counts a strategy that stands several times once, and one that is itself a
    choice of five as five.
    """
    places = [place for place, (weight, _) in enumerate(parts) for _ in range(weight)]
    return st.sampled_from(places).flatmap(lambda place: parts[place][1])


def arguments(schema: Mapping[str, Any], known: Known = NOTHING_KNOWN) -> SearchStrategy[dict[str, Any]]:
    """
    Return a strategy of arguments that fit *schema*; it may generate nothing if none can be found.

    Args:
        schema: JSON Schema of the arguments as one object.
        known: Values to use for most arguments, by name.
    """
    return _fitting(schema, known)[1]


def _fitting(
    schema: Mapping[str, Any], known: Known
) -> tuple[ParameterSchema, SearchStrategy[dict[str, Any]]]:
    plain, compiled = _compiled(json.dumps(schema, default=str))
    memory = known if isinstance(known, Learned) else Learned(known)
    drawn = _Drawing(plain, memory).value({**plain, "type": "object"}, 0)
    fitting = drawn.filter(lambda values: not compiled.check(values))
    seeds = memory.seeds()
    return compiled, weighted((1, fitting), (2, _changed(fitting, seeds, compiled))) if seeds else fitting


@st.composite
def _changed(
    draw: DrawFn, fitting: SearchStrategy[dict[str, Any]], seeds: Sequence[Any], compiled: ParameterSchema
) -> dict[str, Any]:
    """Return the arguments of an earlier call, one of them changed or none."""
    drawn = draw(fitting)
    kept = draw(st.sampled_from(seeds[: draw(st.sampled_from((1, 3, 16)))]))
    name = draw(st.sampled_from(["", *drawn]))
    mixed = {**kept, name: drawn[name]} if name else {**kept}
    return drawn if compiled.check(mixed) else mixed


@lru_cache(maxsize=1024)
def _compiled(text: str) -> tuple[dict[str, Any], ParameterSchema]:
    return json.loads(text), ParameterSchema(json.loads(text))


def near_arguments(
    schema: Mapping[str, Any], known: Known = NOTHING_KNOWN
) -> SearchStrategy[tuple[str, dict[str, Any], bool | None]]:
    """
    Return a strategy of arguments that nearly fit: how they miss, the values, and whether they do fit.

    None stands for values that fit the schema, and that the policy may refuse.
    """
    compiled, fitting = _fitting(schema, known)
    names = st.sampled_from(sorted([*MISSES, *INSIDE, *INSIDE]))

    def miss(values: dict[str, Any], name: str, place: int) -> tuple[str, dict[str, Any], bool | None]:
        changed = MISSES[name](dict(values), compiled, place)
        return name, changed, False if compiled.check(changed) else None

    return st.builds(miss, fitting, names, st.integers(0, 3))


# -- near misses ---------------------------------------------------------------------------------------------------

Miss = Callable[[dict[str, Any], ParameterSchema, int], dict[str, Any]]


def _name(values: Mapping[str, Any], schema: ParameterSchema, place: int) -> str:
    """Return the name of one argument: of those that are there, else of all, else a new one."""
    names = list(values) or list(schema.names) or ["odd"]
    return names[place % len(names)]


def _set(value: Any) -> Miss:
    return lambda values, schema, place: values | {_name(values, schema, place): value}


def _missing(values: dict[str, Any], schema: ParameterSchema, place: int) -> dict[str, Any]:
    required = [name for name in schema.required if name in values] or list(values)
    if required:
        del values[required[place % len(required)]]
    return values


def _text_of(values: dict[str, Any], schema: ParameterSchema, place: int) -> dict[str, Any]:
    """Send a value as text, as models do with numbers, lists and objects."""
    name = _name(values, schema, place)
    return values | {name: json.dumps(values.get(name))}


def _other_case(values: dict[str, Any], schema: ParameterSchema, place: int) -> dict[str, Any]:
    name = _name(values, schema, place)
    return {(key.upper() if key == name else key): value for key, value in values.items()}


def _inside(value: str) -> Miss:
    """Return a miss that puts a text where the schema has one deeper down: into a list, or an object in it."""

    def change(values: dict[str, Any], schema: ParameterSchema, place: int) -> dict[str, Any]:
        for name, item in values.items():
            if isinstance(item, list) and item and all(isinstance(text, str) for text in item):
                return values | {name: [*item[:-1], value]}
            if isinstance(item, dict) and (keys := [key for key in item if isinstance(item[key], str)]):
                return values | {name: item | {keys[place % len(keys)]: value}}
        return values

    return change


MISSES: dict[str, Miss] = {
    "missing": _missing,
    "unknown_name": lambda values, schema, place: values | {"colour": "red"},
    "other_case": _other_case,
    "as_text": _text_of,
    "null": _set(None),
    "list": _set([1, "two"]),
    "object": _set({"value": 1}),
    "boolean": _set(True),
    "negative": _set(-1),
    "huge_number": _set(10**18),
    "fraction": _set(0.5),
    "empty_text": _set(""),
    "long_text": _set("x" * 20_000),
    "injected": _set(INJECTED),
    "nul": _set("a\0b"),
    "climbing_path": _set("../../etc/passwd"),
    "placeholder": _set("$step[0].output"),
    **{f"unsafe_{number}": _set(value) for number, value in enumerate(UNSAFE)},
    **{f"unsafe_inside_{number}": _inside(value) for number, value in enumerate(UNSAFE)},
}
"""Ways in which arguments go wrong, by name."""

INSIDE = tuple(name for name in MISSES if "inside" in name)
"""Those that fit many a schema, and are the easiest to overlook; they are drawn more often."""


# -- drawing -------------------------------------------------------------------------------------------------------


class _Drawing:
    def __init__(self, root: Mapping[str, Any], known: Learned) -> None:
        self._root = root
        self._known = known

    def value(self, schema: Any, depth: int, name: str = "") -> SearchStrategy[Any]:
        """Return values of *schema*, which is under *name*, those that are known most of the time."""
        drawn = self._value(schema, depth, name)
        hints = self._known.hints.get(name)
        return weighted((3, st.sampled_from(list(hints))), (1, drawn)) if hints else drawn

    def _scalar(
        self, drawn: SearchStrategy[Any], schema: Mapping[str, Any], name: str
    ) -> SearchStrategy[Any]:
        """Return a text or a number that is drawn, or one that the agent itself has shown."""
        form = json.dumps({"properties": {name: schema}}, default=str)
        groups = self._known.choices(name, partial(_fits, form, name))
        shown = [(weight, st.sampled_from(values)) for weight, values in groups]
        return weighted((1, drawn), *shown) if shown else drawn

    def _value(self, schema: Any, depth: int, name: str) -> SearchStrategy[Any]:
        if not isinstance(schema, Mapping):
            return _JSON if schema is not False else st.nothing()
        if depth > _ENDLESS:
            return st.nothing()
        schema = self._whole(schema)
        if "const" in schema:
            return st.just(schema["const"])
        if schema.get("enum"):
            return st.sampled_from(list(schema["enum"]))
        for key in ("anyOf", "oneOf"):
            if schema.get(key):
                rest = {name: value for name, value in schema.items() if name != key}
                parts = [self.value(_merge(rest, part), depth, name) for part in schema[key]]
                return st.one_of(*parts)
        kinds = schema.get("type", _implied_type(schema))
        kinds = [kinds] if isinstance(kinds, str) else list(kinds)
        return st.one_of(*[self._of_type(kind, schema, depth, name) for kind in kinds])

    def _whole(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return *schema* with its ``$ref`` and ``allOf`` put into it; a few turns are enough for real ones."""
        for _ in range(8):
            parts = [self._target(str(schema["$ref"]))] if "$ref" in schema else []
            parts += schema.get("allOf") or ()
            rest = {name: value for name, value in schema.items() if name not in ("$ref", "allOf")}
            schema = reduce(_merge, parts, rest)
            if not parts:
                break
        return {name: value for name, value in schema.items() if name not in ("$ref", "allOf")}

    def _target(self, reference: str) -> Mapping[str, Any]:
        try:
            found = pointed(self._root, reference)
        except LookupError:
            return {}
        return found if isinstance(found, Mapping) else {}

    def _of_type(self, kind: str, schema: Mapping[str, Any], depth: int, name: str) -> SearchStrategy[Any]:
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth, name)
        if kind == "string":
            return self._scalar(_text(schema, name), {**schema, "type": kind}, name)
        if kind in ("integer", "number"):
            return self._scalar(_number(schema, whole=kind == "integer"), {**schema, "type": kind}, name)
        return {"boolean": st.booleans(), "null": st.none()}.get(kind, _JSON)

    def _object(self, schema: Mapping[str, Any], depth: int) -> SearchStrategy[dict[str, Any]]:
        """Return objects; what may be left out is, deep down, left out."""
        properties = schema.get("properties") or {}
        required = [name for name in schema.get("required", ()) if isinstance(name, str)]
        needed = {name: self.value(properties.get(name, {}), depth + 1, name) for name in required}
        optional = {
            name: self.value(part, depth + 1, name)
            for name, part in properties.items()
            if name not in required and depth < _DEPTH_MAX and part is not False
        }
        return st.fixed_dictionaries(needed, optional=optional)

    def _array(self, schema: Mapping[str, Any], depth: int, name: str) -> SearchStrategy[list[Any]]:
        first = [self.value(part, depth + 1, name) for part in schema.get("prefixItems", ())]
        least = max(0, int(schema.get("minItems", 0)) - len(first))
        most = max(least, min(int(schema.get("maxItems", 3)) - len(first), least + 2))
        if depth >= _DEPTH_MAX:
            most = least
        items = self.value(schema.get("items", {}), depth + 1, name) if most else st.nothing()
        by = (lambda value: json.dumps(value, sort_keys=True)) if schema.get("uniqueItems") else None
        rest = st.lists(items, min_size=least, max_size=most, unique_by=by) if most else st.just([])
        if not first:
            return rest
        return st.tuples(st.tuples(*first), rest).map(lambda pair: [*pair[0], *pair[1]])


_IMPLIED = {
    "object": {"properties", "required"},
    "array": {"items", "prefixItems"},
    "number": {"minimum", "maximum", "multipleOf"},
    "string": {"pattern", "format", "minLength", "maxLength"},
}


@lru_cache(maxsize=1 << 16, typed=True)
def _fits(schema: str, name: str, value: Any) -> bool:
    """Whether a value that was shown somewhere fits *schema*, and is nothing that the policy lets into no tool."""
    form, compiled = _compiled(schema)
    looks = _LOOKS.get(form["properties"][name].get("format", ""), "")
    safe = unsafe(Policy(), {name: value}) is None and not str(value).startswith(("docList:", "docItem:"))
    return safe and re.fullmatch(looks, str(value)) is not None and not compiled.check({name: value})


def _implied_type(schema: Mapping[str, Any]) -> str:
    """Return the type that a schema without one is about."""
    return next((kind for kind, names in _IMPLIED.items() if names & schema.keys()), "any")


def _merge(one: Mapping[str, Any], other: Any) -> Mapping[str, Any]:
    """Return two schemas as one that holds to both, as far as their keys are those of objects."""
    if not isinstance(other, Mapping):
        return one
    both = {**one, **other}
    for key in ("properties", "$defs", "definitions"):
        if key in one and key in other:
            both[key] = {**one[key], **other[key]}
    if "required" in one and "required" in other:
        both["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    return both


def _text(schema: Mapping[str, Any], name: str) -> SearchStrategy[str]:
    least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
    if isinstance(schema.get("pattern"), str):
        try:
            pattern = re.compile(schema["pattern"])
            return st.from_regex(pattern, fullmatch=True, alphabet=_PLAIN)
        except re.error:
            return _TEXTS
    if schema.get("format") in _FORMATS and not least and most is None:
        return _FORMATS[str(schema["format"])]
    lowered = name.lower()
    if lowered.endswith(("url", "urls", "uri", "uris", "href", "link", "endpoint")):
        texts: SearchStrategy[str] = _URLS
    elif lowered.endswith(("path", "paths", "file", "files", "filename", "dir", "folder")):
        texts = _PATHS
    else:
        texts = _TEXTS
    most = 200 if most is None else int(most)
    if not least:
        return texts.map(lambda text: text[:most])
    return texts.map(lambda text: (text or "a").ljust(least, "x")[: max(most, least)])


def _number(schema: Mapping[str, Any], *, whole: bool) -> SearchStrategy[Any]:
    least, most = _bound_of(schema.get("minimum")), _bound_of(schema.get("maximum"))
    above, below = _bound_of(schema.get("exclusiveMinimum")), _bound_of(schema.get("exclusiveMaximum"))
    least = least if above is None else above + 1 if whole else above
    most = most if below is None else below - 1 if whole else below
    step = _bound_of(schema.get("multipleOf"))
    if whole or (step is not None and step.is_integer()):
        size = int(step) if step is not None and step >= 1 else 1
        low = -3 if most is None else int(most // size) - 9
        low = low if least is None else -int(-least // size)
        high = int(most // size) if most is not None else low + 9
        close = st.integers(low, max(low, high)).map(lambda number: number * size)
        far = [*(low + way for way in _FAR if most is None), *(high - way for way in _FAR if least is None)]
        return weighted((4, close), (1, st.sampled_from([place * size for place in far]))) if far else close
    start = least if least is not None else most - 9 if most is not None else -3.0
    end = max(start, most if most is not None else start + 9)
    if start.is_integer() and end - start >= 1:
        return st.one_of(st.integers(int(start), int(end)), st.sampled_from([start + 0.5, start + 0.25]))
    return st.floats(start, end, allow_nan=False, allow_infinity=False)


def _bound_of(value: Any) -> float | None:
    """Return a bound of a schema as a number; whole ones stay exact as far as a double does."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
