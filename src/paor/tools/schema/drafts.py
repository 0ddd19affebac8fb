"""
Schemas of earlier drafts in the words of 2020-12, where they say that they are of one: ``$schema`` with draft-04, -06 or -07.

Most tools of MCP servers declare draft-07, in which a list of ``items`` is a tuple. Only what the drafts say differently is rewritten. References
into what has another place then lead nowhere, which the compiler says.
"""

from __future__ import annotations

import re
from typing import Any

_EARLIER = re.compile(r"https?://json-schema\.org/draft-0[467]/schema#?")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependencies", "dependentSchemas")
_VALUES = ("const", "enum", "default", "examples")


def in_todays_words(schema: dict[str, Any]) -> dict[str, Any]:
    """Return *schema*, plain JSON, in the words of 2020-12; itself where it does not say that it is of an earlier draft."""
    stated = schema.get("$schema")
    is_earlier = isinstance(stated, str) and _EARLIER.fullmatch(stated)
    return _node(schema) if is_earlier else schema


def _any(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_any(item) for item in schema]
    return _node(schema) if isinstance(schema, dict) else schema


def _node(schema: dict[str, Any]) -> dict[str, Any]:
    node = {name: item if name in _VALUES else _member(name, item) for name, item in schema.items()}
    if isinstance(node.get("items"), list):
        node["prefixItems"] = node.pop("items")
        if "additionalItems" in node:
            node["items"] = node.pop("additionalItems")
    for bound, name in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(node.get(name), bool):  # draft-04
            is_exclusive = node.pop(name)
            if is_exclusive and bound in node:
                node[name] = node.pop(bound)
    if isinstance(given := node.pop("dependencies", None), dict):
        needed = {name: item for name, item in given.items() if isinstance(item, list)}
        fits = {name: item for name, item in given.items() if not isinstance(item, list)}
        node |= {"dependentRequired": needed} if needed else {}
        node |= {"dependentSchemas": fits} if fits else {}
    return node


def _member(name: str, item: Any) -> Any:
    if name in _MAPS and isinstance(item, dict):
        return {key: _any(value) for key, value in item.items()}
    return _any(item)
