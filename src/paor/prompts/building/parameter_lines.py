"""
A tool's JSON Schema as readable lines: a line a parameter, with its type, whether it must be given, and what bounds it.

    - unit (one of "celsius", "fahrenheit"; required): unit of the result
    - limit (integer from 1 to 50; optional, default 10)
    - address (object; required)
      - street (text; required)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from ...states.base.references import resolved
from ...states.records.actions import SchemaField

DEPTH_MAX = 4
"""How deep nested fields are shown; schemas may refer to themselves."""

LINES_MAX = 200
PARTS_MAX = 50
"""Of one object: ``allOf`` and choices may refer to themselves, too."""

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
    Return the parameters of *schema* as lines, in its order; at most `LINES_MAX` of them, then a mark.

    Args:
        schema: JSON Schema of an object.
        without: Names, in lower case, that are left out.
        hints: Descriptions of parameters that have none of their own, by name.
    """
    lines = list(islice(_lines(resolved(schema, schema), schema, 0, without, hints or {}), LINES_MAX + 1))
    return "\n".join([*lines[:LINES_MAX], *(["…"] if len(lines) > LINES_MAX else [])])


def field_lines(fields: Iterable[SchemaField]) -> str:
    """Return the fields of Stage 1's ``parametersSchema`` as lines, with the types that it has given them."""
    lines = []
    for field in fields:
        line = (
            f"- {' '.join(field.name.split())} ({field.type}; {'required' if field.required else 'optional'})"
        )
        about = " ".join(field.description.split())[:DESCRIPTION_CHARS]
        lines.append(f"{line}: {about}" if about else line)
    return "\n".join(lines)


def _lines(
    node: Mapping[str, Any],
    root: Mapping[str, Any],
    depth: int,
    without: frozenset[str],
    hints: Mapping[str, str],
) -> Iterator[str]:
    properties, required = _fields(node, root)
    for name, raw in properties.items():
        if str(name).lower() in without:
            continue
        part = resolved(raw, root)
        facts = [_kind(part, root), "required" if name in required else "optional"]
        if "default" in part:
            facts[-1] += f", default {_value(part['default'])}"
        about = " ".join(str(part.get("description") or hints.get(name, "")).split())[:DESCRIPTION_CHARS]
        line = f"{'  ' * depth}- {' '.join(str(name).split())} ({'; '.join(facts)})"
        yield f"{line}: {about}" if about else line
        inner = resolved(part.get("items"), root) if part.get("type") == "array" else part
        if depth < DEPTH_MAX:
            yield from _lines(inner, root, depth + 1, frozenset(), {})


def _fields(node: Mapping[str, Any], root: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the properties of an object, those of ``allOf`` and of choices too, and the names that must be given."""
    properties: dict[str, Any] = {}
    required: list[Any] = []
    parts = [(node, True)]
    for part, is_sure in parts:
        own = part.get("properties")
        properties = {**properties, **(own if isinstance(own, Mapping) else {}), **properties}
        required += _list(part.get("required")) if is_sure else []
        parts += [(resolved(item, root), is_sure) for item in _list(part.get("allOf"))]
        choices = [resolved(item, root) for item in _list(part.get("anyOf")) + _list(part.get("oneOf"))]
        objects = [item for item in choices if "properties" in item]
        parts += [(item, is_sure and len(objects) == 1) for item in objects]
        del parts[PARTS_MAX:]
    return properties, required


def _kind(part: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> str:
    """Return the type of a value in words, with its values and bounds."""
    if depth > DEPTH_MAX:
        return "any value"
    if "const" in part:
        return f"always {_value(part['const'])}"
    if values := _list(part.get("enum")):
        more = f" and {len(values) - VALUES_MAX} more" if len(values) > VALUES_MAX else ""
        return f"one of {', '.join(map(_value, values[:VALUES_MAX]))}{more}"
    choices = _list(part.get("anyOf")) or _list(part.get("oneOf"))
    if choices:
        return " or ".join(
            dict.fromkeys(_kind(resolved(item, root), root, depth + 1) for item in choices[:10])
        )
    given = part.get("type", "object" if "properties" in part or "allOf" in part else "any value")
    kinds = [str(kind) for kind in _list(given)] or [str(given)]
    words = " or ".join(_WORDS.get(kind, kind) for kind in kinds)
    if kinds == ["array"]:
        words = f"list of {_kind(resolved(part.get('items'), root), root, depth + 1)}"
    bounds = [(key, form.format(" ".join(str(part[key]).split()))) for key, form in _BOUNDS if key in part]
    for place, (key, bound) in enumerate(bounds):
        comma = "," if place and key != "maximum" else ""
        words += f"{comma} {bound}"
    return words


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _value(value: object) -> str:
    return " ".join(json.dumps(value, ensure_ascii=False, default=str).split())[:80]
