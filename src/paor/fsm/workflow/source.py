"""
YAML and JSON files as plain JSON data that remembers where each value stood.

YAML is read event by event with PyYAML's parser, and the data is built here: no tags, no anchors, no types but those
of JSON, no key twice, and bounds on size, depth and number of values, so that a hostile file costs no more than reading
it. Plain scalars follow YAML 1.2's core schema: ``no``, ``on`` and ``1:30`` are texts, not a bool and a number.
A text whose first mark is ``{`` or ``[`` and that parses as JSON is JSON, with the same bounds.

Source: YAML 1.2.2 section 10.3 (core schema); document 004 for the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isinf
from typing import Any, NamedTuple

from ...states.base.errors import UsageError
from .expressions.extra import need_workflow_extra
from .expressions.functions import NUMBER_MAX

CHARS_MAX = 262_144
"""Largest file in characters: a plan of 1,000 steps has about 200,000."""

DEPTH_MAX = 32
VALUES_MAX = 50_000

Path = tuple[str | int, ...]


class Place(NamedTuple):
    """Line and column in a text, both from 1."""

    line: int
    column: int


class SourceError(UsageError):
    """
    A file cannot be read at all.

    Attributes:
        code: ``syntax``, ``limit``, ``duplicate_key`` or ``unsupported``.
        problem: What is wrong, one ASCII line.
        place: Where.
    """

    def __init__(self, code: str, problem: str, place: Place) -> None:
        super().__init__(code, problem, place)
        self.code = code
        self.problem = problem
        self.place = place

    def __str__(self) -> str:
        return f"line {self.place.line}, column {self.place.column}: {self.problem}"


@dataclass(frozen=True, slots=True)
class SourceText:
    """
    What a file holds.

    Attributes:
        data: Plain JSON data.
        places: Where each value begins, by its path; for a value under a key, where the key stands.
    """

    data: Any
    places: dict[Path, Place]

    def place(self, path: Path) -> Place:
        """Return where the value at *path* stands, or the nearest one around it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, Place(1, 1))


class _Mark(NamedTuple):
    """
    One step of building: begin or end of a collection, or a value, which in an object may be a key.

    Attributes:
        kind: ``{``, ``[``, ``}`` for the end of either, ``value``, or ``<<`` for YAML's merge key.
        place: Where it stands.
        value: The key or value.
    """

    kind: str
    place: Place
    value: Any = None


def read_source(text: str) -> SourceText:
    """
    Return what a YAML or JSON text holds.

    Raises:
        SourceError: No YAML, more than one document, a tag, an anchor or alias, a key twice or one that is no text,
            a number beyond a double, or too large or deep.
        MissingExtra: It is YAML, and the extra ``workflow`` is not installed; JSON is read without.
    """
    if len(text) > CHARS_MAX:
        raise SourceError("limit", f"{len(text)} characters, at most {CHARS_MAX} are read", Place(1, 1))
    body = text.removeprefix("\ufeff")
    if body.lstrip()[:1] in ("{", "["):
        try:
            json.loads(body, parse_constant=_no_constant)
        except (ValueError, RecursionError):  # a flow collection of YAML may begin alike
            return _build(_yaml_marks(body))
        return _build(_json_marks(body))
    return _build(_yaml_marks(body))


# -- building ------------------------------------------------------------------------------------------------------


def _build(marks: Iterator[_Mark]) -> SourceText:
    """Return the data that *marks* describe, within the bounds."""
    places: dict[Path, Place] = {}
    root: list[Any] = []
    stack: list[tuple[Any, Path]] = [(root, ())]
    key: str | None = None
    for count, (kind, place, value) in enumerate(marks):
        if count > VALUES_MAX:
            raise SourceError("limit", f"more than {VALUES_MAX} keys and values", place)
        if isinstance(value, str) and re.search("[\ud800-\udfff]", value):
            raise SourceError("unsupported", "a text with half a character (a lone surrogate)", place)
        around, path = stack[-1]
        if kind == "}":
            stack.pop()
            continue
        if key is None and isinstance(around, dict):
            key = _fresh_key(kind, value, around, place)
            places[(*path, key)] = place
            continue
        here: Path = () if around is root else (*path, key) if key is not None else (*path, len(around))
        places.setdefault(here, place)
        made: Any = {} if kind == "{" else [] if kind == "[" else value
        if key is not None:
            around[key] = made
        else:
            around.append(made)
        key = None
        if kind in "{[":
            if len(stack) > DEPTH_MAX:
                raise SourceError("limit", f"nested deeper than {DEPTH_MAX} levels", place)
            stack.append((made, here))
    return SourceText(root[0] if root else None, places)


def _fresh_key(kind: str, key: object, around: dict[str, Any], place: Place) -> str:
    if kind == "<<":
        raise SourceError("unsupported", "merge keys are not read; write the values out", place)
    if kind != "value":
        raise SourceError("unsupported", "a key is a text, not a list or an object", place)
    if not isinstance(key, str):
        message = f"a key is a text; write {json.dumps(str(key)[:40])} in quotes"
        raise SourceError("unsupported", message, place)
    if key in around:
        raise SourceError("duplicate_key", f"duplicate key {key[:60]!a}", place)
    return key


# -- YAML ----------------------------------------------------------------------------------------------------------

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE, _FALSE = frozenset(("true", "True", "TRUE")), frozenset(("false", "False", "FALSE"))
_INT = re.compile(r"[-+]?[0-9]{1,400}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)|0o[0-7]+|0x[0-9a-fA-F]+")


def _yaml_marks(text: str) -> Iterator[_Mark]:
    need_workflow_extra()
    import yaml

    documents = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            start: Any = event.start_mark
            place = Place(start.line + 1, start.column + 1)
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise SourceError("unsupported", "a second document; one is expected", place)
            elif isinstance(event, yaml.CollectionEndEvent):
                yield _Mark("}", place)
            elif isinstance(event, yaml.NodeEvent):
                yield _mark_of(event, place)
    except yaml.YAMLError as error:
        raise _yaml_error(error, text) from None


def _mark_of(event: Any, place: Place) -> _Mark:
    """Return the mark of an event that begins a value; raise for what JSON data has no form for."""
    import yaml

    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        raise SourceError("unsupported", "anchors and aliases are not read; write the value out", place)
    if event.tag is not None:
        raise SourceError("unsupported", f"tags such as {event.tag[:40]!a} are not read", place)
    if not isinstance(event, yaml.ScalarEvent):
        return _Mark("{" if isinstance(event, yaml.MappingStartEvent) else "[", place)
    if not event.implicit[0]:
        return _Mark("value", place, event.value)
    return _Mark("<<" if event.value == "<<" else "value", place, _scalar(event.value, place))


def _scalar(text: str, place: Place) -> Any:
    """Return a plain scalar's value by YAML 1.2's core schema, without the numbers that JSON has not."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INT.fullmatch(text):
        return _number(int(text), text, place)
    if _FLOAT.fullmatch(text):
        return _number(float(text), text, place)
    if _NOT_JSON.fullmatch(text):
        message = f"the number {text[:40]} has no form in JSON; write it in quotes"
        raise SourceError("unsupported", message, place)
    return text


def _number(value: float, text: str, place: Place) -> int | float:
    """Return a number that a double holds; a whole one is an int as far as a double is exact."""
    if isinf(value) if isinstance(value, float) else value.bit_length() > 1024:
        raise SourceError("limit", f"the number {text[:40]} is beyond what a double holds", place)
    return int(value) if abs(value) <= NUMBER_MAX and value == int(value) else value


def _yaml_error(error: Any, text: str) -> SourceError:
    """Return PyYAML's error as one line with its place."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:  # a character that YAML does not allow: only its position is told
        position = min(getattr(error, "position", 0), len(text))
        line = text.count("\n", 0, position)
        place = Place(line + 1, position - (text.rfind("\n", 0, position) + 1) + 1)
        return SourceError("syntax", "a character that YAML does not allow", place)
    words = " ".join(str(getattr(error, "problem", None) or "cannot be parsed").split())
    return SourceError(
        "syntax", f"neither YAML nor JSON: {ascii(words)[1:-1][:160]}", Place(mark.line + 1, mark.column + 1)
    )


# -- JSON ----------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|[{\[}\]]|[^ \t\r\n,:{}\[\]"]++', re.DOTALL)
"""A bracket, or a value that is none."""


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _json_marks(text: str) -> Iterator[_Mark]:
    """Yield the marks of a text that is known to be JSON."""
    line, begin, end = 1, 0, text.find("\n")
    for token in _TOKEN.finditer(text):
        while 0 <= end < token.start():
            line, begin, end = line + 1, end + 1, text.find("\n", end + 1)
        place = Place(line, token.start() - begin + 1)
        if token[0] in "{[":
            yield _Mark(token[0], place)
        elif token[0] in "}]":
            yield _Mark("}", place)
        else:
            yield _Mark("value", place, _json_scalar(token[0], place))


def _json_scalar(text: str, place: Place) -> Any:
    value = json.loads(text)
    return _number(value, text, place) if type(value) in (int, float) else value
