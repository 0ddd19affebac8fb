"""References within a JSON document: one reading of JSON pointers (RFC 6901) for every look into a schema. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

_HOPS_MAX = 12
"""References that lead to references, at most; more of them go round in a circle."""


def pointed(root: object, reference: str) -> Any:
    """
    Return the value in *root* that *reference*, ``#`` or ``#/a/b``, points to.

    Raises:
        LookupError: There is none, or the reference leaves the document.
    """
    if reference != "#" and not reference.startswith("#/"):
        raise LookupError(reference)
    found: Any = root
    for step in unquote(reference[1:]).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdecimal() and int(step[:9]) < len(found):
            found = found[int(step[:9])]
        else:
            raise LookupError(reference)
    return found


def resolved(node: object, root: object) -> Mapping[str, Any]:
    """Return the schema *node* with the keys of the one that its ``$ref`` names; empty where it is no object, or a circle."""
    for _ in range(_HOPS_MAX):
        if not isinstance(node, Mapping) or not isinstance(place := node.get("$ref"), str):
            return node if isinstance(node, Mapping) else {}
        own = {name: value for name, value in node.items() if name != "$ref"}
        try:
            named = pointed(root, place)
        except LookupError:
            return own
        node = {**named, **own} if isinstance(named, Mapping) else own
    return {}
