"""
A JSON Schema as a graph: its references resolved, and bounded in what following them can cost.

Only references within the document are followed (``#``, ``#/a/b``, ``#anchor``); nothing is ever fetched. Two kinds
of edges are told apart: those that stay at the same place of the instance (``$ref``, ``allOf``, ``anyOf`` and so on:
*in place*) and those that step into it (``properties``, ``items`` and so on). A cycle of in-place edges alone would
never end and is refused; recursion through the instance is fine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...states.base.errors import UsageError
from ...states.base.references import pointed

COMBINED = frozenset(("$ref", "$dynamicRef", "allOf"))
"""What holds for every instance; properties found through these are declared properties."""

IN_PLACE = COMBINED | {"anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"}

PARTS_MAX = 1_000
"""How many subschemas may apply to one place of an instance, each time it is reached counted."""

TOTAL_MAX = 100_000
"""The same, added up over all subschemas of a document."""

_NESTED_MAX = 64
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = (
    *("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)
_REFERENCES = ("$ref", "$dynamicRef")

Node = dict[str, Any]


class SchemaError(UsageError):
    """A parameter schema cannot be used; the message says where and why. Nothing was compiled or kept."""


class SchemaGraph:
    """
    The subschemas of one document and how they hang together.

    Args:
        root: A document of exact JSON types; kept, not copied, never changed.

    Attributes:
        root: The same.
        nodes: Every subschema with its place.

    Raises:
        SchemaError: A reference out of the document or to nothing, or a graph that grows without bounds.
    """

    def __init__(self, root: Node) -> None:
        self.root = root
        self._anchors: dict[str, Node] = {}
        self.nodes = self._walk()
        total = 0
        for node, place in self.nodes:
            total += len(self.parts(node, place=place))
            if total > TOTAL_MAX:
                raise SchemaError(f"schema: more than {TOTAL_MAX} subschemas, with what they refer to")

    def _walk(self) -> list[tuple[Node, str]]:
        """Return every subschema once, also those that only a reference leads to."""
        nodes: dict[int, tuple[Node, str]] = {}
        stack: list[tuple[Any, str, bool]] = [(self.root, "#", False)]
        while stack:
            node, place, rebased = stack.pop()
            if not isinstance(node, dict) or id(node) in nodes:
                continue
            nodes[id(node)] = (node, place)
            rebased = rebased or (node is not self.root and "$id" in node)
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(key), str):
                    self._anchors[node[key]] = node
            stack.extend((child, f"{place}/{step}", rebased) for step, child in _children(node))
            stack.extend(self._targets(node, place, rebased))
        return list(nodes.values())

    def _targets(self, node: Node, place: str, rebased: bool) -> Iterator[tuple[Any, str, bool]]:
        """Check the references of one subschema; return what those by pointer lead to."""
        for key in _REFERENCES:
            reference = node.get(key)
            if not isinstance(reference, str):
                continue
            if not reference.startswith("#"):
                raise SchemaError(
                    f"schema {cut(place)}: {key} {cut(reference)} leaves the document; use #/$defs/..."
                )
            if rebased:
                raise SchemaError(
                    f"schema {cut(place)}: {key} below a nested $id is not supported; remove the $id"
                )
            if reference == "#" or reference.startswith("#/"):
                yield self._follow_pointer(reference, place), reference, False

    def _follow_pointer(self, reference: str, place: str) -> Any:
        try:
            return pointed(self.root, reference)
        except LookupError:
            raise SchemaError(
                f"schema {cut(place)}: {cut(reference)} does not exist in the document"
            ) from None

    def _target(self, reference: str, place: str) -> Any:
        if reference == "#" or reference.startswith("#/"):
            return self._follow_pointer(reference, place)
        if reference[1:] not in self._anchors:
            raise SchemaError(f"schema {cut(place)}: there is no anchor {cut(reference)} in the document")
        return self._anchors[reference[1:]]

    def parts(self, node: Any, *, keys: frozenset[str] = IN_PLACE, place: str = "#") -> list[Node]:
        """
        Return *node* and every subschema that applies to the same place of an instance, in order of declaration.

        Args:
            node: A subschema; a boolean has no parts.
            keys: Which in-place keywords to follow.
            place: Where it stands, for the message.

        Raises:
            SchemaError: There are more than `PARTS_MAX`, or a cycle.
        """
        parts: list[Node] = []
        stack: list[tuple[Any, int]] = [(node, 0)]
        while stack:
            part, depth = stack.pop()
            if not isinstance(part, dict):
                continue
            if depth > _NESTED_MAX or len(parts) >= PARTS_MAX:
                raise SchemaError(f"schema {cut(place)}: its references form a loop or too large a tree")
            parts.append(part)
            for key in reversed(part):
                if key in keys:
                    children = self._in_place(key, part[key], place)
                    stack.extend((child, depth + 1) for child in reversed(children))
        return parts

    def _in_place(self, key: str, value: Any, place: str) -> list[Any]:
        """Return the subschemas under one in-place keyword."""
        if key in _REFERENCES:
            return [self._target(value, place)] if isinstance(value, str) else []
        if isinstance(value, list):
            return value
        if key == "dependentSchemas":
            return list(value.values()) if isinstance(value, dict) else []
        return [value]

    def is_costly(self, instance: Any, *, visits_max: int) -> bool:
        """
        Return whether listing all errors of *instance* can take more than so many visits of a subschema.

        A validator that lists errors follows every branch, and a recursive schema can offer several branches at
        every level: the visits then double with each level of the instance.
        """
        stack: list[tuple[Any, Any]] = [(self.root, instance)]
        while stack:
            node, value = stack.pop()
            for part in self.parts(node):
                visits_max -= 1
                if visits_max < 0:
                    return True
                if isinstance(value, dict):
                    stack.extend(_steps_into_object(part, value))
                elif isinstance(value, list):
                    items = part.get("items", True)
                    stack.extend((items, item) for item in value)
                    stack.extend((part["contains"], item) for item in value if "contains" in part)
                    stack.extend(zip(part.get("prefixItems", ()), value, strict=False))
        return False


def _steps_into_object(part: Node, value: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Return the subschemas of *part* for the values of an object; rather too many than too few."""
    properties = part.get("properties", {})
    for name, item in value.items():
        if name in properties:
            yield properties[name], item
        else:
            yield part.get("additionalProperties", True), item
            yield part.get("unevaluatedProperties", True), item
        for pattern in part.get("patternProperties", {}).values():
            yield pattern, item


def _children(node: Node) -> Iterator[tuple[str, Any]]:
    """Return the subschemas that stand in *node*, with the steps that lead to them."""
    for key in _MAPS:
        if isinstance(node.get(key), dict):
            yield from ((f"{key}/{name}", child) for name, child in node[key].items())
    for key in _LISTS:
        if isinstance(node.get(key), list):
            yield from ((f"{key}/{index}", child) for index, child in enumerate(node[key]))
    yield from ((key, node[key]) for key in _SINGLE if key in node)


def cut(text: str) -> str:
    """Return *text* as ASCII, cut to what a message can carry."""
    shown = ascii(text)[1:-1]
    return shown if len(shown) <= 100 else f"{shown[:97]}..."
