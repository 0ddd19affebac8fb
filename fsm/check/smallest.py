"""The smallest value that a JSON Schema allows, as far as small schemas go: for replies and answers that only have to fit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PLAIN: dict[str, Any] = {
    "string": "x",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "array": [],
    "null": None,
}


def smallest_of(schema: Any) -> Any:
    """Return a small value of *schema*: its constant, its first choice, its required names, what its type and bounds need."""
    if not isinstance(schema, Mapping):
        return "x"
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for name in ("anyOf", "oneOf"):
        if schema.get(name):
            return smallest_of(schema[name][0])
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: smallest_of(properties.get(name, {})) for name in schema.get("required", ())}
    if kind == "array":
        return [smallest_of(schema.get("items", {}))] * schema.get("minItems", 0)
    if kind == "string":
        return "x" * max(1, schema.get("minLength", 1))
    if kind in ("integer", "number"):
        return schema.get("minimum", schema.get("maximum", 1))
    return _PLAIN.get(kind)
