"""
Reply schemas in the form that providers enforce: every object closed, nothing that they refuse.

OpenAI's strict mode wants every property required; what may be left out is then null, which the readers of replies take
for absent. Anthropic's wants closed objects and no limits on values. Both cannot hold an object of any keys, so a schema
with one is sent as advice, or not at all. Schemas of tools are sent as they are, and where a server refuses one, in plainer words.

Source: the helpers of the installed SDKs, `openai.lib._pydantic` and `anthropic.transform_schema`, read 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...states.base.references import pointed, resolved
from .replies import WRAPPER
from .reply_forms import moved_references

INLINED_MAX = 20_000
"""Most values of a schema whose references are replaced by what they name: each may name several."""

_KEPT = ("description", "title", "enum", "const")
_LIMITS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "format", "minItems", "maxItems"),
)
_ALLOWED = {
    *(*_KEPT, *_LIMITS, "type", "anyOf", "items", "default"),
    *("properties", "required", "additionalProperties"),
}


def strict_schema(schema: Mapping[str, Any], *, optional: str, limits: bool) -> dict[str, Any] | None:
    """
    Return *schema* with every object closed, None if that would change what it means.

    Args:
        schema: JSON Schema of a reply.
        optional: What becomes of properties that are not required: ``null`` makes them required and nullable, ``keep``
            leaves them as they are, ``refuse`` returns None if there are any.
        limits: Whether limits on values stay; without them the reply must be checked, which it is anyway.
    """
    try:
        whole = wrapped(schema)
        return _node(_inlined(whole, whole, (), [INLINED_MAX]), optional, limits)
    except (ValueError, LookupError, TypeError):
        return None


def wrapped(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *schema* as that of an object: alternatives at the top, which providers refuse, go under one key."""
    if "anyOf" not in schema:
        return schema
    return {
        "type": "object",
        "properties": {WRAPPER: moved_references(schema, "#", f"#/properties/{WRAPPER}")},
        "required": [WRAPPER],
        "additionalProperties": False,
    }


def _inlined(schema: Any, root: Mapping[str, Any], within: tuple[str, ...], left: list[int]) -> Any:
    """Return *schema* with what its references name in their places; ValueError where one names itself, nothing, or too much."""
    left[0] -= 1
    if left[0] < 0:
        raise ValueError("too large without references")
    if isinstance(schema, list):
        return [_inlined(item, root, within, left) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    place = schema.get("$ref")
    if isinstance(place, str):
        if place in within:
            raise ValueError("a schema that refers to itself")
        schema = {**pointed(root, place), **{name: item for name, item in schema.items() if name != "$ref"}}
        return _inlined(schema, root, (*within, place), left)
    made = {name: _inlined(item, root, within, left) for name, item in schema.items() if name not in _MAPS}
    if isinstance(properties := schema.get("properties"), Mapping):
        made["properties"] = {name: _inlined(item, root, within, left) for name, item in properties.items()}
    return made


_MAPS = ("$defs", "properties")
"""Keys of names and no keywords; definitions are not needed any more."""


def without_patterns(schema: Any) -> Any:
    """Return *schema* without the key ``pattern``: servers that make a grammar of it know few regular expressions."""
    if isinstance(schema, list):
        return [without_patterns(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    is_pattern = isinstance(schema.get("pattern"), str)  # and no property of that name
    return {
        name: without_patterns(item)
        for name, item in schema.items()
        if not (is_pattern and name == "pattern")
    }


def _node(schema: object, optional: str, limits: bool) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or not _ALLOWED.issuperset(schema):
        raise ValueError("a bare true or false, or keywords that are not enforced everywhere")
    kept = (*_KEPT, *_LIMITS) if limits else _KEPT
    node = {name: schema[name] for name in kept if name in schema}
    if "anyOf" in schema:
        return node | {"anyOf": [_node(item, optional, limits) for item in schema["anyOf"]]}
    kind = schema.get("type")
    if isinstance(kind, list):
        return node | {"anyOf": [_node({**schema, "type": one}, optional, limits) for one in kind]}
    if kind is None and not ("enum" in schema or "const" in schema):
        raise ValueError("anything at all")
    if kind is not None:
        node["type"] = kind
    elif isinstance(schema.get("const"), str) or all(
        isinstance(one, str) for one in schema.get("enum", (0,))
    ):
        node["type"] = "string"
    if kind == "array":
        node["items"] = _node(schema.get("items"), optional, limits)
    elif kind == "object":
        node |= _object(schema, optional, limits)
    return node


def _object(schema: Mapping[str, Any], optional: str, limits: bool) -> dict[str, Any]:
    properties, required = schema.get("properties"), schema.get("required", ())
    if not isinstance(properties, Mapping) or schema.get("additionalProperties", False) is not False:
        raise ValueError("an object of any keys")
    missing = [name for name in properties if name not in required]
    if missing and optional == "refuse":
        raise ValueError("a property that may be left out")
    nodes = {name: _node(value, optional, limits) for name, value in properties.items()}
    if optional == "null":
        nodes |= {name: _nullable(nodes[name]) for name in missing}
        required = list(properties)
    return {"properties": nodes, "required": list(required), "additionalProperties": False}


def _nullable(node: dict[str, Any]) -> dict[str, Any]:
    options = node.get("anyOf", [node])
    if any(option.get("type") == "null" for option in options):
        return node
    return {"anyOf": [*options, {"type": "null"}]}


# -- schemas of tools ------------------------------------------------------------------------------------------------

_PLAIN = ("description", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DEPTH_MAX = 12


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the schema of a tool in what all providers take: an object at its top, basic keys, neither references nor combinations there.

    It takes whatever *schema* takes, and more, of an alternative at the top what that describes; arguments are checked against *schema*
    all the same. What such alternatives need is said in its description.

    Raises:
        ValueError: A property that is required has a name that providers refuse.
    """
    found = _Plain(schema)
    properties, required = found.object_of(schema, 0)
    said = [text for text in (schema.get("description"), *found.notes) if isinstance(text, str) and text]
    return {
        "type": "object",
        **({"description": " ".join(said)} if said else {}),
        "properties": properties,
        **({"required": required} if required else {}),
    }


class _Plain:
    """One schema on its way to `plain_schema`; *notes* are what its top says besides."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.notes: list[str] = []
        self._root = root
        self._left = INLINED_MAX

    def _resolved(self, schema: Mapping[str, Any], within: int) -> Mapping[str, Any]:
        """Return *schema* with what its reference names; nothing in it deep down, or where there is too much of it."""
        self._left -= 1
        return resolved(schema, self._root) if self._left > 0 and within <= _DEPTH_MAX else {}

    def members(self, schema: Mapping[str, Any], within: int) -> tuple[dict[str, Any], list[str]]:
        """Return the properties of an object and which of them it always needs."""
        schema = self._resolved(schema, within)
        required = [name for name in _listed(schema.get("required")) if isinstance(name, str)]
        properties: dict[str, Any] = {}
        given = schema.get("properties")
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if _PLAIN_NAME.fullmatch(name):
                properties[name] = self.node(value, within + 1)
            elif name in required:
                raise ValueError(f"the property {name!r} is required, and providers refuse its name")
        for part in filter(_is_mapping, _listed(schema.get("allOf"))):
            more, needed = self.members(part, within + 1)
            properties |= more
            required += needed
        branches = filter(_is_mapping, [*_listed(schema.get("anyOf")), *_listed(schema.get("oneOf"))])
        ways = [self.members(branch, within + 1) for branch in branches]
        for more, _ in ways:
            for name, node in more.items():
                properties[name] = _either(properties[name], node) if name in properties else node
        if ways:
            common = [name for name in ways[0][1] if all(name in needed for _, needed in ways)]
            required += common
            if not within and len({tuple(needed) for _, needed in ways}) > 1:
                told = [", ".join(needed) or "nothing more" for _, needed in ways]
                self.notes.append(f"Give one of: {'; '.join(told)}.")
        return properties, list(dict.fromkeys(required))

    def object_of(self, schema: Mapping[str, Any], within: int) -> tuple[dict[str, Any], list[str]]:
        """Return the same without what is needed and described nowhere."""
        properties, required = self.members(schema, within)
        return properties, [name for name in required if name in properties]

    def node(self, value: object, within: int) -> dict[str, Any]:
        """Return a schema below the top."""
        if not isinstance(value, Mapping):
            return {}
        schema = self._resolved(value, within)
        node = {name: schema[name] for name in _PLAIN if name in schema}
        if "const" in schema:
            node["enum"] = [schema["const"]]
        ways = [*_listed(schema.get("anyOf")), *_listed(schema.get("oneOf"))]
        if ways and "properties" not in schema:
            return node | {"anyOf": [self.node(way, within + 1) for way in ways]}
        kind = schema.get("type", "object" if "properties" in schema else None)
        for part in filter(_is_mapping, _listed(schema.get("allOf"))):
            whole = self._resolved(part, within + 1)
            if whole.get("type") == "object" or "properties" in whole:
                kind = kind or "object"
            else:
                node |= self.node(whole, within + 1)
        kind = kind or node.get("type")
        if kind is not None:
            node["type"] = kind
        if kind == "array" or "items" in schema:
            node["items"] = self.node(schema.get("items"), within + 1)
        if kind == "object":
            properties, required = self.object_of(schema, within)
            node |= {"properties": properties} if properties else {}
            node |= {"required": required} if required else {}
            if isinstance(more := schema.get("additionalProperties"), Mapping):
                node["additionalProperties"] = self.node(more, within + 1)
        return node


def _listed(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _either(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    if one == other:
        return one
    ways = one["anyOf"] if one.keys() == {"anyOf"} else [one]
    return {"anyOf": [*ways, other]} if other not in ways else one
