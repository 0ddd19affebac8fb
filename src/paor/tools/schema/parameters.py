"""
The parameters of a tool as JSON Schema 2020-12: compiled once, then arguments are checked and filled with it.

The rules of JSON Schema hold, with one addition: an unknown top-level argument is a problem also where the schema
says nothing about `additionalProperties`. Formats are annotations, as the standard has it, and are not checked.

Safe for schemas and arguments of strangers: no reference leaves the document, patterns run in linear time (those
with look-around or back-references only on short texts), and the graph of the schema is bounded (`SchemaGraph`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from .canonical import DEPTH_MAX, NotJson, canonical_arguments, dump, plain
from .compiler import compile_schema, validator
from .drafts import in_todays_words
from .problems import Problem, foreign, misfit, missing, problems_of, unknown
from .references import COMBINED, IN_PLACE, Node, SchemaError, SchemaGraph

__all__ = ["ParameterSchema", "Problem", "SchemaError", "canonical_arguments"]

SCHEMA_BYTES_MAX = 500_000
"""Largest schema. Source: the largest tool schemas we know, made from OpenAPI documents, have about 200 KB."""

SCHEMA_NODES_MAX = 100_000
"""Most values in a schema."""

_VISITS_MAX = 20_000
_CHOICES = IN_PLACE - {"not"}
_ORDER = ("missing", "unknown", "type", "value")


@dataclass(frozen=True, slots=True)
class _Plan:
    """
    What `fill` does for the objects of one subschema.

    Attributes:
        defaults: Optional properties with their defaults.
        nested: Properties that are objects with properties of their own.
    """

    defaults: tuple[tuple[str, Any], ...]
    nested: tuple[tuple[str, Node], ...]


class ParameterSchema:
    """
    A compiled parameter schema.

    Args:
        schema: JSON Schema 2020-12 of the arguments as one object, or of the draft -04, -06 or -07 that its ``$schema`` names; empty for a tool without parameters. ``type`` may
            be missing at the top; ``definitions`` work like ``$defs``; unknown keywords and formats are ignored.

    Attributes:
        schema: A deep copy in plain JSON types, keys in their order; a whole float is an int. Not to be changed.
        names: Parameters in order of declaration: the properties at the top level, through ``$ref`` and ``allOf`` too.
        required: Names that must be given, in order of declaration.
        optional: Names that may be left out.
        is_open: Whether it takes arguments of any name.
        is_whole: Whether `names` are all that it takes: it is not open, and no choice or pattern names another.

    Raises:
        SchemaError: Not a mapping, not JSON, invalid by the metaschema, a top-level type that is not ``object``, a
            reference to nothing or out of the document, a reference loop, a pattern that is none, or absurd size.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema: dict[str, Any] = _copy(schema)
        self._graph = SchemaGraph(self.schema)
        self._validator = compile_schema(self.schema, self._graph)
        declared = self._graph.parts(self.schema, keys=COMBINED)
        _check_types(self.schema, declared)
        self.names: tuple[str, ...] = _names(declared, "properties")
        self.required: tuple[str, ...] = _names(declared, "required")
        self.optional: frozenset[str] = frozenset(self.names) - frozenset(self.required)
        self._learn_names(self._graph.parts(self.schema, keys=_CHOICES))
        self._plans: dict[int, _Plan] = {}
        self._has_defaults = any("default" in node for node, _ in self._graph.nodes)
        self._top = self._plan(self.schema)

    def _learn_names(self, parts: list[Node]) -> None:
        """Settle which top-level arguments are known; the branches of ``anyOf`` and the like may name some, too."""
        extra = ("additionalProperties", "unevaluatedProperties")
        self.is_open = any(part.get(key, False) is not False for part in parts for key in extra)
        self._known = frozenset(_names(parts, "properties") + _names(parts, "required"))
        patterns = dict.fromkeys(_names(parts, "patternProperties"), True)
        self._is_named: Callable[[object], bool] | None = None
        if patterns:
            self._is_named = validator(
                {"patternProperties": patterns, "additionalProperties": False}
            ).is_valid
        self.is_whole = not (self.is_open or patterns or self._known - frozenset(self.names))

    def is_known(self, name: str) -> bool:
        """Return whether there is a parameter *name*."""
        return (
            self.is_open
            or name in self._known
            or (self._is_named is not None and self._is_named({name: None}))
        )

    def check(self, arguments: Mapping[str, Any]) -> tuple[Problem, ...]:
        """
        Return everything that is wrong with *arguments*; empty if nothing is.

        Missing parameters come first, in order of declaration, then unknown ones, then wrong types and values.
        A missing required parameter is a problem even if it has a default. ``True`` is no integer, ``1.0`` is one.
        Anything is answered, also what is not JSON; nothing is raised.
        """
        fits = self._is_valid(arguments) and all(map(self.is_known, arguments))
        return () if fits else tuple(self._problems(arguments))

    def without_nulls(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return *arguments* without the nulls of optional parameters that take none; some servers want every name given."""
        nulls = [name for name, value in arguments.items() if value is None and name in self.optional]
        refused = (
            {problem.path for problem in self.check(arguments) if problem.path in nulls} if nulls else ()
        )
        return (
            {name: value for name, value in arguments.items() if name not in refused}
            if refused
            else arguments
        )

    def _is_valid(self, arguments: object) -> bool:
        try:
            return self._validator.is_valid(plain(arguments))
        except NotJson:
            return False

    def _problems(self, arguments: object) -> list[Problem]:
        """Return all problems, the long way."""
        if not isinstance(arguments, Mapping):
            return [misfit("type", [], "must be an object", arguments)]
        usable: dict[str, Any] = {}
        unusable: dict[str, Problem] = {}
        for name, value in arguments.items():
            try:
                usable.update(plain({name: value}))
            except NotJson as error:
                unusable[name] = foreign(error.code, error.path, error.reason)
        problems = [missing([name]) for name in self.required if name not in arguments]
        problems += [unknown([name]) for name in usable if not self.is_known(name)]
        found = [*unusable.values(), *self._list_problems(usable)]
        found = [problem for problem in found if problem.code != "missing" or problem.path not in unusable]
        found.sort(key=lambda problem: (_ORDER.index(problem.code), problem.path, problem.message))
        return list(dict.fromkeys(problems + found))

    def _list_problems(self, arguments: dict[str, Any]) -> Iterator[Problem]:
        """Return what the validator finds wrong, unless that could take too long to list."""
        if self._validator.is_valid(arguments):
            return
        if self._graph.is_costly(arguments, visits_max=_VISITS_MAX):
            yield misfit("value", [], "do not fit the schema, and are too large to say where", arguments)
            return
        for error in self._validator.iter_errors(arguments):
            yield from problems_of(error, arguments)

    def fill(
        self, arguments: Mapping[str, Any], preferred: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """
        Return *arguments* with the defaults of optional parameters that are not given.

        Nested objects that are given are filled as well, through their properties. A required parameter is never
        filled, a given one never changed, null included. A default that would itself be a problem is left out: what
        `check` says about the result it also says about *arguments*.

        Args:
            arguments: By name.
            preferred: Defaults that come before the schema's own, by name of a parameter; a required one is ignored.

        Returns:
            A new dict; values that were not filled are the same objects as in *arguments*, defaults are copies.
        """
        given = dict(arguments)
        wanted = given
        if preferred:
            wanted = {name: value for name, value in preferred.items() if name in self.optional}
            wanted = given | {name: value for name, value in wanted.items() if name not in given}
        filled = self._fill(self._top, wanted, DEPTH_MAX) if self._has_defaults else wanted
        if filled is given or self._is_valid(filled):
            return filled
        result, before = given, set(self.check(given))
        for name, value in filled.items():
            if name not in given or value is not given[name]:
                trial = {**result, name: value}
                after = set(self.check(trial))
                if after <= before:
                    result, before = trial, after
        return self.fill(result) if preferred else result

    def _fill(self, plan: _Plan, given: dict[str, Any], depth: int) -> dict[str, Any]:
        """Return *given* with defaults, or *given* itself if there are none to fill."""
        changes: dict[str, Any] = {}
        for name, node in plan.nested:
            value = given.get(name)
            if isinstance(value, dict) and depth > 0:
                filled = self._fill(self._plan(node), value, depth - 1)
                if filled is not value:
                    changes[name] = filled
        for name, default in plan.defaults:
            if name not in given:
                changes[name] = deepcopy(default) if isinstance(default, (dict, list)) else default
        return {**given, **changes} if changes else given

    def _plan(self, node: Node) -> _Plan:
        """Return what to fill in objects of *node*; the first default found for a property counts."""
        plan = self._plans.get(id(node))
        if plan is not None:
            return plan
        parts = self._graph.parts(node, keys=COMBINED)
        required = set(_names(parts, "required"))
        defaults: dict[str, Any] = {}
        nested: dict[str, Node] = {}
        for name, child in (item for part in parts for item in part.get("properties", {}).items()):
            for part in self._graph.parts(child, keys=COMBINED):
                if "default" in part and name not in required:
                    defaults.setdefault(name, part["default"])
                if part.get("properties"):
                    nested.setdefault(name, child)
        plan = self._plans[id(node)] = _Plan(tuple(defaults.items()), tuple(nested.items()))
        return plan


def _names(parts: list[Node], key: str) -> tuple[str, ...]:
    """Return the names that stand under *key* in *parts*, each once, in order of declaration."""
    return tuple(dict.fromkeys(name for part in parts for name in part.get(key, ())))


def _copy(schema: object) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        raise SchemaError(f"schema: expected a mapping, found a {type(schema).__name__}")
    try:
        copy: dict[str, Any] = plain(schema, nodes_max=SCHEMA_NODES_MAX)
        size = len(dump(copy))
    except ValueError as error:
        raise SchemaError(f"schema: {error}") from None
    if size > SCHEMA_BYTES_MAX:
        raise SchemaError(f"schema: found {size} bytes of JSON; expected at most {SCHEMA_BYTES_MAX}")
    return in_todays_words(copy)  # type: ignore[no-any-return]


def _check_types(root: Node, declared: list[Node]) -> None:
    """Refuse a schema that no object of arguments can satisfy."""
    if root.get("type", "object") != "object":
        raise SchemaError(f'schema #/type: expected "object", found {dump(root["type"])[:80].decode()}')
    for part in declared:
        kind = part.get("type", "object")
        if kind != "object" and "object" not in kind:
            raise SchemaError(
                f"schema: a top-level $ref or allOf asks for {dump(kind)[:80].decode()}, not an object"
            )
