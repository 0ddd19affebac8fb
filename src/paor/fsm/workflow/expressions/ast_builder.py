"""What the parser calls for each rule of the grammar: one node per rule, checked as it is built."""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer, Tree

from .nodes import Node, call_node, new_node, number_of, text_of

WORDS = {"true": True, "false": False, "null": None, "nil": None}


class Builder(Transformer[Token, Node]):
    """Builds nodes bottom-up from nodes and tokens."""

    def __default__(self, data: str, children: list[Any], meta: object) -> Node | Tree[Any]:
        """Return the node of the rule *data*: it is where its first token is, else where its first part is."""
        if data.startswith("_"):  # a repetition within a rule, which the parser takes apart again
            return Tree(data, children)
        tokens = [item for item in children if isinstance(item, Token)]
        parts = tuple(item for item in children if isinstance(item, Node))
        word, at = (str(tokens[0]), int(tokens[0].start_pos or 0)) if tokens else ("", parts[0].at)
        match data:
            case "number":
                return new_node("literal", at, number_of(word, at))
            case "text":
                return new_node("literal", at, text_of(word, at))
            case "word":
                return new_node("literal", at, WORDS[word])
            case "call":
                return call_node(word, at, parts)
            case "member":  # a.key, a?.key
                return new_node("member", at, None, (*parts, new_node("literal", at, word)))
            case "item":  # a[index]
                return new_node("member", at, None, parts)
            case "outside":  # a not in b
                inside = new_node("binary", int(tokens[1].start_pos or 0), str(tokens[1]), parts)
                return new_node("inverse", at, None, (inside,))
            case "name" | "binary" | "signed":
                return new_node(data, at, word, parts)
        return new_node(data, at, None, parts)
