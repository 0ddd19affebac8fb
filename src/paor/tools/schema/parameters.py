"""
The parameters of a tool as JSON Schema 2020-12: compiled once, then arguments are read and checked with it.

The rules of JSON Schema hold, with one addition: an unknown top-level argument is a problem also where the schema
says nothing about `additionalProperties`. Formats are annotations, as the standard has it, and are not checked.

Safe for schemas and arguments of strangers: no reference leaves the document, patterns run in linear time (those
with look-around or back-references only on short texts), and the graph of the schema is bounded (`SchemaGraph`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from .canonical import NotJson, canonical_arguments, dump, plain
from .compiler import compile_schema, validator
from .drafts import in_todays_words
from .problems import Problem, foreign, locate, misfit, missing, no_secret, problems_of, unknown
from .references import COMBINED, IN_PLACE, Node, SchemaError, SchemaGraph
from .secret_values import marks_in, takes_secret

__all__ = ["ParameterSchema", "Problem", "SchemaError", "canonical_arguments"]

SCHEMA_BYTES_MAX = 500_000
"""Largest schema. Source: the largest tool schemas we know, made from OpenAPI documents, have about 200 KB."""

SCHEMA_NODES_MAX = 100_000
"""Most values in a schema."""

_VISITS_MAX = 20_000
_TEXTS_MAX = 50
_CHOICES = IN_PLACE - {"not"}
_ORDER = ("missing", "unknown", "type", "value")


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
        defaults: Of optional parameters, as the schema declares them. A call is not filled with them: they are the function's own.
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
        self.defaults: dict[str, Any] = _defaults(declared, self.required)

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
        Anything is answered, also what is not JSON; nothing is raised. The mark of a secret fits a parameter that is one, and no other.
        """
        if isinstance(arguments, Mapping) and (
            marked := [name for name in arguments if any(marks_in(arguments[name]))]
        ):
            return self._check_marked(arguments, marked)
        fits = self._is_valid(arguments) and all(map(self.is_known, arguments))
        return () if fits else tuple(self._problems(arguments))

    def _check_marked(self, arguments: Mapping[str, Any], marked: list[str]) -> tuple[Problem, ...]:
        """Return what is wrong with *arguments* of which some are marks of secrets, whose values nobody knows here."""
        found = [
            problem
            for problem in self._problems(arguments)
            if problem.code == "unknown" or not any(_is_of(problem.path, name) for name in marked)
        ]
        wrong = [name for name in marked if self.is_known(name) and not takes_secret(self.schema, name)]
        return (*found, *(no_secret([name]) for name in wrong))

    def without_nulls(self, arguments: dict[str, Any], *, keep_defaults: bool = False) -> dict[str, Any]:
        """
        Return *arguments* without the nulls of optional parameters that take none; some servers want every name given.

        With *keep_defaults* a null stays that a default would replace: nothing is not that default.
        """
        kept = self.defaults if keep_defaults else ()
        nulls = [
            name
            for name, value in arguments.items()
            if value is None and name in self.optional and name not in kept
        ]
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

    def texts_read(self, arguments: dict[str, Any], read: Callable[[str], Any]) -> dict[str, Any]:
        """
        Return *arguments* with each JSON text read that stands where an object or a list must be; themselves without one.

        A text that the schema takes stays a text, and so does one that would not fit once it is read.

        Args:
            arguments: By name.
            read: Returns the object or the list that a text is, None for any other text.
        """
        if self._is_valid(arguments):
            return arguments
        for place in self._misfit_texts(arguments):
            changed = _with(arguments, place, read)
            if changed is not None and len(self.check(changed)) < len(self.check(arguments)):
                arguments = changed
        return arguments

    def _misfit_texts(self, arguments: dict[str, Any]) -> list[list[str | int]]:
        """Return where texts stand that are none of what must be there, at most `_TEXTS_MAX`."""
        try:
            value = plain(arguments)
        except NotJson:
            return []
        if self._graph.is_costly(value, visits_max=_VISITS_MAX):
            return []
        errors = self._validator.iter_errors(value)
        found = (locate(value, error.instance_path) for error in islice(errors, _TEXTS_MAX))
        return [place for place, text in found if place and isinstance(text, str)]


def _with(arguments: Any, place: Sequence[str | int], read: Callable[[str], Any]) -> Any:
    """Return a copy of *arguments* with the text at *place* read, None if it is no JSON."""
    if not place:
        return read(arguments)
    changed = _with(arguments[place[0]], place[1:], read)
    if changed is None:
        return None
    copy: Any = dict(arguments) if isinstance(arguments, dict) else list(arguments)
    copy[place[0]] = changed
    return copy


def _defaults(declared: list[Node], required: Sequence[str]) -> dict[str, Any]:
    """Return the defaults of optional parameters that stand beside them."""
    found: dict[str, Any] = {}
    for name, node in (item for part in declared for item in part.get("properties", {}).items()):
        if isinstance(node, dict) and "default" in node and name not in required:
            found.setdefault(name, node["default"])
    return found


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
    return in_todays_words(copy)


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


def _is_of(path: str, name: str) -> bool:
    """Return whether a problem's *path* is that of the parameter *name* or of something within it."""
    return path == name or path.startswith((f"{name}.", f"{name}["))
