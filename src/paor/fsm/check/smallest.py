"""Small values that a JSON Schema allows, as far as small schemas go: for replies and answers that only have to fit. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...tools.schema.parameters import ParameterSchema, SchemaError

VALUES_MAX = 8
"""Values of one schema that are tried."""


def fitting_values(schema: Mapping[str, Any] | None) -> tuple[dict[str, Any], ...]:
    """
    Return objects that fit *schema*: a smallest one, and one for each other choice or truth value of its properties.

    Args:
        schema: Of an object; None for any, which is empty then.

    Returns:
        At most `VALUES_MAX`; empty when none could be made, such as for a pattern.
    """
    if schema is None:
        return ({},)
    least = smallest_of(schema)
    if not isinstance(least, dict):
        return ()
    found: list[dict[str, Any]] = []
    for value in (least, *_others(least, schema)):
        if value not in found and not problems_of(schema, value):
            found.append(value)
    return tuple(found[:VALUES_MAX])


def problems_of(schema: Mapping[str, Any] | None, value: dict[str, Any]) -> bool:
    """Return whether *value* does not fit *schema*, or nothing that can be said of it does."""
    try:
        return bool(ParameterSchema(dict(schema or {"type": "object"})).check(value))
    except SchemaError:
        return True


def _others(least: dict[str, Any], schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, item in schema.get("properties", {}).items():
        if isinstance(item, Mapping):
            choices = item.get("enum", [True, False] if item.get("type") == "boolean" else [])
            yield from ({**least, name: choice} for choice in choices)


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
    return {"boolean": True, "null": None}.get(kind)
