"""
The parameters of a tool as JSON Schema 2020-12: compiled once, then arguments are checked and filled with it.

The rules of JSON Schema hold, with one addition: an unknown top-level argument is a problem also where the schema
says nothing about `additionalProperties`. Formats are annotations, as the standard has it, and are not checked.

Safe for schemas and arguments of strangers: no reference leaves the document, patterns run in linear time (those
with look-around or back-references only on short texts), and the graph of the schema is bounded (`SchemaGraph`).
Messages are made here, not by the validator: they do not change with its version, and quote little of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .canonical import NotJson, canonical_arguments, dump, is_plain, plain
from .schema_graph import COMBINED, IN_PLACE, Node, SchemaError, SchemaGraph
from .schema_problems import Problem, misfit, problems_of, shown_path

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

__all__ = ["ParameterSchema", "Problem", "SchemaError", "canonical_arguments"]

SCHEMA_BYTES_MAX = 500_000
"""Largest schema. Source: the largest tool schemas that we have seen, made from OpenAPI documents, have 200 KB."""

ROUGH_TEXT_MAX = 2_000
"""Longest text matched against a pattern with look-around or back-references: 5 ms, and quadratic (jsonschema_rs 0.60)."""

_BACKTRACKS_MAX = 50_000
_VISITS_MAX = 20_000
_CHOICES = IN_PLACE - {"not"}


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
        schema: JSON Schema 2020-12 of the arguments as one object; empty for a tool without parameters. ``type`` may
            be missing at the top; ``definitions`` work like ``$defs``; unknown keywords and formats are ignored.

    Attributes:
        schema: A deep copy in plain JSON types, keys in their order; a whole float is an int. Not to be changed.
        names: Parameters in order of declaration: the properties at the top level, through ``$ref`` and ``allOf`` too.
        required: Names that must be given, in order of declaration.

    Raises:
        SchemaError: Not a mapping, not JSON, invalid by the metaschema, a top-level type that is not ``object``, a
            reference to nothing or out of the document, a reference loop, a pattern that is none, or absurd size.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema: dict[str, Any] = _copied(schema)
        self._graph = SchemaGraph(self.schema)
        self._validator = _compiled(self.schema, self._graph)
        declared = self._graph.parts(self.schema, keys=COMBINED)
        _check_types(self.schema, declared)
        properties = [part.get("properties", {}) for part in declared]
        self.names: tuple[str, ...] = tuple(dict.fromkeys(name for names in properties for name in names))
        required = [part.get("required", ()) for part in declared]
        self.required: tuple[str, ...] = tuple(dict.fromkeys(name for names in required for name in names))
        self._learn_names(self._graph.parts(self.schema, keys=_CHOICES))
        self._plans: dict[int, _Plan] = {}
        self._fills = any("default" in node for node, _ in self._graph.nodes)
        self._top = self._checked_plan(self._plan(self.schema))

    def _learn_names(self, parts: list[Node]) -> None:
        """Settle which top-level arguments are known; the branches of ``anyOf`` and the like may name some, too."""
        extra = ("additionalProperties", "unevaluatedProperties")
        self._known = frozenset(
            name for part in parts for key in ("properties", "required") for name in part.get(key, ())
        )
        self._open = any(part.get(key, False) is not False for part in parts for key in extra)
        patterns = {pattern: True for part in parts for pattern in part.get("patternProperties", ())}
        self._named: Callable[[object], bool] | None = None
        if patterns and not self._open:
            self._named = _validator({"patternProperties": patterns, "additionalProperties": False}).is_valid

    def _is_known(self, name: str) -> bool:
        return name in self._known or self._open or (self._named is not None and self._named({name: None}))

    def check(self, arguments: Mapping[str, Any]) -> tuple[Problem, ...]:
        """
        Return everything that is wrong with *arguments*; empty if nothing is.

        Missing parameters come first, in order of declaration, then unknown ones, then wrong types and values.
        A missing required parameter is a problem even if it has a default. ``True`` is no integer, ``1.0`` is one.
        Anything is answered, also what is not JSON; nothing is raised.
        """
        if (
            type(arguments) is dict
            and is_plain(arguments)
            and (arguments.keys() <= self._known or all(map(self._is_known, arguments)))
            and self._validator.is_valid(arguments)
        ):
            return ()
        if not isinstance(arguments, Mapping):
            return (misfit("type", [], "must be object", arguments),)
        return tuple(self._problems(arguments))

    def _problems(self, arguments: Mapping[str, Any]) -> list[Problem]:
        usable: dict[str, Any] = {}
        foreign: list[Problem] = []
        for name, value in arguments.items():
            try:
                usable.update(plain({name: value}))
            except NotJson as error:
                foreign.append(misfit(error.code, error.path, f"cannot be {error.reason}", None))
        problems = [Problem.missing([name]) for name in self.required if name not in arguments]
        problems += [Problem.unknown([name], self.names) for name in usable if not self._is_known(name)]
        found = [*foreign, *self._listed(usable)]
        found = [problem for problem in found if problem.code != "missing" or problem.path not in arguments]
        found.sort(
            key=lambda problem: ("missing", "unknown").index(problem.code) if "n" in problem.code[1:3] else 2
        )
        seen = {(problem.code, problem.path) for problem in problems}
        return problems + [problem for problem in found if (problem.code, problem.path) not in seen]

    def _listed(self, arguments: dict[str, Any]) -> Iterator[Problem]:
        """Return what the validator finds wrong, unless that could take too long to list."""
        if self._validator.is_valid(arguments):
            return
        if self._graph.is_costly(arguments, visits_max=_VISITS_MAX):
            yield misfit("value", [], "do not fit the schema, and are too large to say where", arguments)
            return
        for error in self._validator.iter_errors(arguments):
            yield from problems_of(error, arguments)
