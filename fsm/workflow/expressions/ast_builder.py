"""What the parser calls for each rule of the grammar: one node per rule, checked as it is built."""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer

from .nodes import Node, call_node, new_node, number_of, text_of

WORDS = {"true": True, "false": False, "null": None, "nil": None}


class Builder(Transformer[Token, Node]):
    """Builds nodes bottom-up from nodes and tokens; each method is named as the rule it is for."""

    def number(self, found: list[Any]) -> Node:
        """Return ``3`` or ``0.5``."""
        return new_node("literal", found[0].start_pos, number_of(str(found[0]), found[0].start_pos))

    def text(self, found: list[Any]) -> Node:
        """Return ``"a"`` or ``'a'``."""
        return new_node("literal", found[0].start_pos, text_of(str(found[0]), found[0].start_pos))

    def word(self, found: list[Any]) -> Node:
        """Return ``true``, ``false`` or ``null``."""
        return new_node("literal", found[0].start_pos, WORDS[str(found[0])])

    def name(self, found: list[Any]) -> Node:
        """Return a variable."""
        return new_node("name", found[0].start_pos, str(found[0]))

    def items(self, found: list[Any]) -> Node:
        """Return ``[a, b]``."""
        return new_node("items", found[0].start_pos, None, _nodes(found))

    def call(self, found: list[Any]) -> Node:
        """Return ``len(a)``."""
        return call_node(str(found[0]), found[0].start_pos, _nodes(found))

    def member(self, found: list[Any]) -> Node:
        """Return ``a.key`` or ``a?.key``."""
        key = found[1]
        return new_node(
            "member", key.start_pos, None, (found[0], new_node("literal", key.start_pos, str(key)))
        )

    def item(self, found: list[Any]) -> Node:
        """Return ``a[index]``."""
        return new_node("member", found[1].start_pos, None, _nodes(found))

    def binary(self, found: list[Any]) -> Node:
        """Return an operator between two values, ``in`` and comparisons included."""
        left, operator, right = found
        return new_node("binary", operator.start_pos, str(operator), (left, right))

    def outside(self, found: list[Any]) -> Node:
        """Return ``a not in b``."""
        inside = self.binary([found[0], found[2], found[3]])
        return new_node("inverse", found[1].start_pos, None, (inside,))

    def signed(self, found: list[Any]) -> Node:
        """Return ``-a`` or ``+a``."""
        return new_node("signed", found[0].start_pos, str(found[0]), (found[1],))

    def inverse(self, found: list[Any]) -> Node:
        """Return ``!a`` or ``not a``."""
        return new_node("inverse", found[0].start_pos, None, (found[1],))

    def either(self, found: list[Any]) -> Node:
        """Return ``a || b``."""
        return new_node("either", found[0].at, None, _nodes(found))

    def both(self, found: list[Any]) -> Node:
        """Return ``a && b``."""
        return new_node("both", found[0].at, None, _nodes(found))

    def default(self, found: list[Any]) -> Node:
        """Return ``a ?? b``."""
        return new_node("default", found[0].at, None, _nodes(found))

    def choose(self, found: list[Any]) -> Node:
        """Return ``a ? b : c``."""
        return new_node("choose", found[0].at, None, _nodes(found))


def _nodes(found: list[Any]) -> tuple[Node, ...]:
    """Return the nodes among what a rule matched, without tokens and empty optional parts."""
    return tuple(item for item in found if isinstance(item, Node))
