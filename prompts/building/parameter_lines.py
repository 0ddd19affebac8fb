"""
A tool's JSON Schema as readable lines: a line a parameter, with its type, whether it must be given, and what bounds it.

    - unit (one of "celsius", "fahrenheit"; required): unit of the result
    - limit (integer from 1 to 50; optional, default 10)
    - address (object; required)
      - street (text; required)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

DEPTH_MAX = 4
"""How deep nested fields are shown; schemas may refer to themselves."""

VALUES_MAX = 30
DESCRIPTION_CHARS = 300

_WORDS = {
    "string": "text",
    "boolean": "true or false",
    "number": "number",
    "integer": "integer",
    "null": "null",
}
_BOUNDS = (
    ("minimum", "from {}"),
    ("exclusiveMinimum", "above {}"),
    ("maximum", "to {}"),
    ("exclusiveMaximum", "below {}"),
    ("multipleOf", "multiple of {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("pattern", "matching {}"),
    ("format", "as {}"),
)


def parameter_lines(
    schema: Mapping[str, Any],
    *,
    without: frozenset[str] = frozenset(),
    hints: Mapping[str, str] | None = None,
) -> str:
    """
    Return the parameters of *schema* as lines, in its order.

    Args:
        schema: JSON Schema of an object.
        without: Names, in lower case, that are left out.
        hints: Descriptions of parameters that have none of their own, by name.
    """
    return "\n".join(_lines(schema, schema, 0, without, hints or {}))


def _lines(
    node: Mapping[str, Any],
    root: Mapping[str, Any],
    depth: int,
    without: frozenset[str],
    hints: Mapping[str, str],
) -> Iterator[str]:
    required = _list(node.get("required"))
    for name, raw in _properties(node, root).items():
        if str(name).lower() in without:
            continue
        part = _resolved(raw, root)
        facts = [_kind(part, root), "required" if name in required else "optional"]
        if "default" in part:
            facts[-1] += f", default {_value(part['default'])}"
        about = " ".join(str(part.get("description") or hints.get(name, "")).split())[:DESCRIPTION_CHARS]
        line = f"{'  ' * depth}- {' '.join(str(name).split())} ({'; '.join(facts)})"
        yield f"{line}: {about}" if about else line
        inner = _resolved(part.get("items"), root) if part.get("type") == "array" else _object_in(part, root)
        if depth < DEPTH_MAX:
            yield from _lines(inner, root, depth + 1, frozenset(), {})


def _properties(node: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of an object, those of ``allOf`` too."""
    found: dict[str, Any] = {}
    for part in (node, *(_resolved(item, root) for item in _list(node.get("allOf")))):
        properties = part.get("properties")
        found |= properties if isinstance(properties, Mapping) else {}
    return found


def _object_in(part: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *part*, or where it is a choice that has one object (or null), that object."""
    choices = [_resolved(item, root) for item in _list(part.get("anyOf")) or _list(part.get("oneOf"))]
    objects = [item for item in choices if "properties" in item]
    return objects[0] if len(objects) == 1 else part


def _kind(part: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """Return the type of a value in words, with its values and bounds."""
    if "const" in part:
        return f"always {_value(part['const'])}"
    if values := _list(part.get("enum")):
        more = f" and {len(values) - VALUES_MAX} more" if len(values) > VALUES_MAX else ""
        return f"one of {', '.join(map(_value, values[:VALUES_MAX]))}{more}"
    choices = _list(part.get("anyOf")) or _list(part.get("oneOf"))
    if choices:
        return " or ".join(dict.fromkeys(_kind(_resolved(item, root), root) for item in choices[:10]))
    given = part.get("type", "object" if "properties" in part or "allOf" in part else "any value")
    kinds = [str(kind) for kind in _list(given)] or [str(given)]
    words = " or ".join(_WORDS.get(kind, kind) for kind in kinds)
    if kinds == ["array"]:
        words = f"list of {_kind(_resolved(part.get('items'), root), root)}"
    bounds = [form.format(part[key]) for key, form in _BOUNDS if part.get(key) is not None]
    return " ".join([words, ", ".join(bounds)]).replace(", to ", " to ").strip()


def _resolved(node: object, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *node* without references; an empty one where it is no object or refers to nothing."""
    for _ in range(10):
        if not isinstance(node, Mapping):
            return {}
        place = node.get("$ref")
        if not isinstance(place, str) or not place.startswith("#"):
            return node
        found: object = root
        for key in place[1:].strip("/").split("/") if place != "#" else ():
            key = key.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        own = {name: value for name, value in node.items() if name != "$ref"}
        node = {**found, **own} if isinstance(found, Mapping) else own
    return {}


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _value(value: object) -> str:
    return " ".join(json.dumps(value, ensure_ascii=False, default=str).split())[:80]
