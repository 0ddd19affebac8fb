"""
Compiles JSON Schema with jsonschema_rs: no network, no files, and no pattern that can run away.

Patterns are matched by Rust's `regex`, whose time is linear in the text. Only a pattern with look-around or
back-references needs the backtracking engine; its steps are limited, and since even without backtracking it starts
anew at every character (quadratic: 0.4 s for 20,000 characters), so is the length of the texts it is tried on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from .canonical import plain
from .references import Node, SchemaError, SchemaGraph, cut

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

ROUGH_TEXT_MAX = 2_000
"""Longest text for a pattern with look-around or back-references. Source: 5 ms (jsonschema_rs 0.60, 2026-11)."""

_BACKTRACKS_MAX = 50_000


def validator(schema: Node, *, rough: bool = False) -> Draft202012Validator:
    """
    Return a validator of *schema*.

    Args:
        schema: In plain JSON types; what it calls itself in ``$schema`` is ignored.
        rough: Allow patterns that need backtracking.

    Raises:
        ValueError: It is not valid by the 2020-12 metaschema, a reference leads nowhere or out, or a pattern is none.
    """
    from jsonschema_rs import Draft202012Validator, FancyRegexOptions, RegexOptions

    options = FancyRegexOptions(backtrack_limit=_BACKTRACKS_MAX) if rough else RegexOptions()
    return Draft202012Validator(schema, retriever=_refuse, mask="value", pattern_options=options)


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside the document")


def compile_schema(schema: Node, graph: SchemaGraph) -> Draft202012Validator:
    """
    Return the validator of a whole document, with patterns that need backtracking bounded.

    Raises:
        SchemaError: The schema is not usable; the message says where and why.
    """
    try:
        return validator(schema)
    except ValueError as error:
        rough = {pattern for pattern in _patterns(graph) if not _is_linear(pattern)}
        if not rough:
            raise _unusable(error) from None
    try:
        validator(schema, rough=True)
    except ValueError as error:
        raise _unusable(error) from None
    bounded = plain(schema)
    for node, place in SchemaGraph(bounded).nodes:
        if not rough.isdisjoint(node.get("patternProperties", ())):
            raise SchemaError(f"schema {cut(place)}/patternProperties: look-around is not supported in names")
        if node.get("pattern") in rough:
            _bind_pattern(node)
    return validator(bounded, rough=True)


def _bind_pattern(node: Node) -> None:
    """Make the pattern of *node* apply to short texts only, and refuse long ones."""
    short = {"maxLength": ROUGH_TEXT_MAX}
    bound = {"if": short, "then": {"pattern": node.pop("pattern")}, "else": short}
    node["allOf"] = [*node.get("allOf", ()), bound]


def _patterns(graph: SchemaGraph) -> Iterator[str]:
    for node, _ in graph.nodes:
        found: list[Any] = [node.get("pattern")]
        if isinstance(node.get("patternProperties"), dict):
            found += node["patternProperties"]
        yield from (pattern for pattern in found if isinstance(pattern, str))


def _is_linear(pattern: str) -> bool:
    try:
        validator({"pattern": pattern})
    except ValueError:
        return False
    return True


def _unusable(error: ValueError) -> SchemaError:
    """Return the validator's complaint as ours: one line, with the place in the schema."""
    place = "/".join(str(step) for step in getattr(error, "instance_path", ()))
    reason = str(getattr(error, "message", error)).partition("\n")[0]
    return SchemaError(f"schema #{'/' if place else ''}{cut(place)}: {cut(reason)}")
