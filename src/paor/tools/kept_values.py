"""What a call returned in the form that a journal keeps; of what has no such form as much as there is, with notes of the rest. Total."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import orjson
from pydantic import BaseModel, TypeAdapter

from ..states.base.errors import ToolError
from ..states.records.actions import WebFact
from ..states.settings.limits import Limits
from .tool import Document, ToolOutput

DEPTH_MAX, VALUES_MAX = 200, 300_000
"""How deep a value is followed, and how many values within it."""

_BITS_MAX = 10_000
"""Of whole numbers that are written in decimal digits."""

OF_ITS_CLASS = (Exception, SystemExit)
"""What a class of a host's own may raise when a value of it is looked at; an exit is no end of the program either."""

_NO_JSON = "JSON has no such number: it is kept as null"
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
_SAME_NAMES = "two names were the same in JSON: a number tells them apart"
_OPTIONS = orjson.OPT_SERIALIZE_NUMPY  # compact: every blank is a token


def exact(text: str) -> str:
    """Return a text as `str` has it: a class of a host's own may do anything when it is asked for its characters."""
    return str.__str__(text)


def json_of(value: Any, *, lossy: bool = False) -> tuple[str, list[str]]:
    """
    Return a value as JSON, and notes of what of it was lost.

    Args:
        value: Anything.
        lossy: Whether what has no JSON form is left out, its type named in its place.

    Raises:
        ToolError: Without *lossy*: something within it has no JSON form.
    """
    try:
        text = _dumped(value)
        if "null" not in text or _has_no_nan(value):
            return text, []
    except OF_ITS_CLASS:  # a model's own serializers, too
        text = ""
    walk = _Walk()
    found = walk.of(value)
    if walk.foreign and not lossy:
        raise ToolError(f"the tool ran and returned a {walk.foreign[0]}, which has no JSON form")
    kept = text or json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return kept, list(walk.notes)


def _dumped(value: Any) -> str:
    """
    Return a value as JSON.

    Raises:
        ValueError, TypeError: It has no JSON form, or one in which an object has a name twice.
    """
    try:
        return orjson.dumps(value, option=_OPTIONS, default=plain).decode()
    except TypeError:  # names that are no texts, among others
        text = orjson.dumps(value, option=_OPTIONS | orjson.OPT_NON_STR_KEYS, default=plain).decode()
    json.loads(text, object_pairs_hook=_with_own_names)
    return text


def _with_own_names(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name twice")


def _has_no_nan(value: Any) -> bool:
    """Return whether data that JSON has holds no number that it has not; False also for other data."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def plain(value: Any) -> Any:
    """Return the JSON form of what orjson does not know: sets sorted, decimals and durations as text, models."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if callable(value) or isinstance(value, Iterator | BaseException):
        raise TypeError(type(value).__name__)
    try:
        return _ANYTHING.dump_python(value, mode="json", by_alias=True)
    except OF_ITS_CLASS:
        raise TypeError(type(value).__name__) from None


class _Walk:
    """
    One walk through a value.

    Attributes:
        foreign: Types of what has no JSON form.
        notes: What was lost, each once.
    """

    def __init__(self) -> None:
        self.foreign: list[str] = []
        self.notes: dict[str, None] = {}
        self._left = VALUES_MAX
        self._around: set[int] = set()

    def of(self, value: Any, depth: int = 0) -> Any:
        """Return a value as JSON data."""
        self._left -= 1
        if depth > DEPTH_MAX or self._left < 0:
            return self._lost(value, "it is nested too deep or has too many parts")
        if value is None or isinstance(value, bool):
            return value
        if type(value) is int:
            return value if value.bit_length() <= _BITS_MAX else hex(value)
        if type(value) is float:
            if math.isfinite(value):
                return value
            self.notes[_NO_JSON] = None
            return None
        if type(value) is str:
            return value.encode("utf-8", "replace").decode()
        if id(value) in self._around:
            return self._lost(value, "it holds itself")
        self._around.add(id(value))
        try:
            return self._within(value, depth + 1)
        except OF_ITS_CLASS:
            return self._lost(value)
        finally:
            self._around.discard(id(value))

    def _within(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            made: dict[str, Any] = {}
            for name, item in value.items():
                own = said = self._name(name)
                number = len(made) + 1
                while own in made:
                    own, number = f"{said} ({number})", number + 1
                    self.notes[_SAME_NAMES] = None
                made[own] = self.of(item, depth)
            return made
        if isinstance(value, AbstractSet):
            return [self.of(item, depth) for item in sorted(value, key=str)]
        if isinstance(value, list | tuple):
            return [self.of(item, depth) for item in value]
        try:
            return orjson.loads(_dumped(value))
        except (ValueError, TypeError):
            pass
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [item.name for item in dataclasses.fields(value)]
            return {name: self.of(getattr(value, name, None), depth) for name in names}
        if isinstance(value, BaseModel):
            return {name: self.of(item, depth) for name, item in value}
        other = plain(value)
        return self._lost(value) if type(other) is type(value) else self.of(other, depth)

    def _name(self, name: Any) -> str:
        found = self.of(name)
        return found if isinstance(found, str) else json.dumps(found)

    def _lost(self, value: Any, why: str = "it has no JSON form") -> str:
        name = type(value).__name__
        self.foreign.append(name)
        self.notes[f"a {name} was left out: {why}"] = None
        return f"<{name}>"


def rescued(value: Any, limits: Limits) -> ToolOutput:
    """
    Return what can be kept of a value that was returned: whatever its form, its documents fit into the limits of a run.

    A call that came back is done; an error here would invite a second one.
    """
    notes: list[str] = []
    if isinstance(value, ToolOutput):
        documents = [_sound(item, notes) for item in _items(value.documents, notes, "documents")]
        notes += [_text(note) for note in _items(value.notes, notes, "notes")]
        web = [fact for item in _items(value.web, notes, "web facts") for fact in _fact(item, notes)]
    else:
        documents, web = [_sound(value, notes)], []
    return ToolOutput(_fitting([item for item in documents if item is not None], limits, notes), notes, web)


def _items(given: Any, notes: list[str], name: str) -> list[Any]:
    if isinstance(given, Sequence | AbstractSet | Iterator) and not isinstance(given, str | bytes):
        found: list[Any] = []
        try:
            for item in given:
                found.append(item)  # noqa: PERF402 - those before an error are kept
        except OF_ITS_CLASS as error:
            notes.append(f"the {name} end with a {type(error).__name__}")
        return found
    notes.append(f"the {name} are a {type(given).__name__}, not a list")
    return [] if given is None else [given]


def _sound(value: Any, notes: list[str]) -> Document | None:
    if isinstance(value, Document) and isinstance(value.data, str | bytes):
        name, mime = _text(value.name), _text(value.mime)
        return dataclasses.replace(value, name=name, mime=mime, data=_body(value.data), label="", position=0)
    if isinstance(value, Document):
        notes.append(f"what {_text(value.name)} says is a {type(value.data).__name__}")
        value = value.data
    if isinstance(value, str):
        return Document("result.txt", exact(value))
    if isinstance(value, bytes | bytearray):
        return Document("result.bin", _body(value), "application/octet-stream")
    text, lost = json_of(value, lossy=True)
    notes += lost
    return Document("result.json", text, "application/json")


def _fact(item: Any, notes: list[str]) -> list[WebFact]:
    try:
        return [item if isinstance(item, WebFact) else WebFact.of(item)]
    except OF_ITS_CLASS:
        notes.append(f"a web fact was left out: it is a {type(item).__name__} of another form")
        return []


def _text(value: Any) -> str:
    try:
        return exact(value if isinstance(value, str) else str(value))
    except OF_ITS_CLASS:
        return f"<{type(value).__name__}>"


def _body(data: str | bytes | bytearray) -> Any:
    return exact(data) if isinstance(data, str) else b"".join((data,))


def exact_document(document: Document) -> Document:
    """Return *document* with its name, its type and what it says as `exact` texts or bytes."""
    if not isinstance(document.data, str | bytes):
        raise ToolError(f"a document holds a {type(document.data).__name__}, which is neither text nor bytes")
    found = exact(document.name), exact(document.mime), _body(document.data)
    return dataclasses.replace(document, name=found[0], mime=found[1], data=found[2])


def _fitting(documents: Sequence[Document], limits: Limits, notes: list[str]) -> list[Document]:
    """Return as much of documents as a run may keep: texts are cut, other bytes left out."""
    kept, left = [], limits.result_bytes
    for document in documents:
        most, size = min(limits.document_bytes, left), document.size_bytes
        if size > most:
            notes.append(
                f"{document.name[:60]} has {size} bytes; {most if isinstance(document.data, str) else 0} are kept"
            )
            if isinstance(document.data, bytes):
                continue
            data = document.data.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
            document = dataclasses.replace(document, data=data, mime="text/plain")
        kept.append(document)
        left -= document.size_bytes
    return kept
