"""
Answers that nobody may keep: what a schema calls ``writeOnly`` or of the format ``password``.

Where such a value stood, everything that is written or told has a mark in its place. The value itself is held by the engine that took the
answer, in memory, and put in for the mark when a tool is called, where that tool's schema calls the parameter secret, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ...states.base.references import pointed

_MARK = re.compile(r"\(secret \d{1,9}-[0-9a-f]{24} [\w.\[\]-]{0,80}\)")
_FOREIGN = re.compile(r"[^\w.\[\]-]")
_DEPTH = 20


def is_secret(schema: object) -> bool:
    """Return whether *schema* calls anything secret, wherever in it."""
    if isinstance(schema, Mapping):
        return _calls_secret(schema) or any(map(is_secret, schema.values()))
    return isinstance(schema, list | tuple) and any(map(is_secret, schema))


def takes_secret(schema: Mapping[str, Any], name: str) -> bool:
    """Return whether a tool's parameter *name* is one that its *schema* calls secret."""
    return any(map(is_secret, _below(list(_forms(schema, schema)), name, schema)))


def _calls_secret(schema: Mapping[str, Any]) -> bool:
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def hidden(answer: Any, schema: Mapping[str, Any], question: str) -> tuple[Any, dict[str, Any]]:
    """
    Return an answer with marks for its secrets, and these by their marks.

    Args:
        answer: As it was given.
        schema: Of the question; where it calls something secret and none of that is found, the whole answer is.
        question: The question's id, which tells the mark from those of all others.
    """
    found: dict[str, Any] = {}
    if not is_secret(schema) or answer in (None, "", {}, []):
        return answer, found

    def mark(value: Any, path: str) -> str:
        name = f"(secret {question} {_FOREIGN.sub('_', path)[:80]})"
        found[name] = value
        return name

    def within(value: Any, forms: list[Mapping[str, Any]], path: str) -> Any:
        if value is not None and any(map(_calls_secret, forms)):
            return mark(value, path)
        if isinstance(value, dict):
            return {
                key: within(item, _below(forms, key, schema), f"{path}.{key}" if path else str(key))
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [
                within(item, _below(forms, place, schema), f"{path}[{place}]")
                for place, item in enumerate(value)
            ]
        return value

    told = within(answer, list(_forms(schema, schema)), "")
    return (told, found) if found else (mark(answer, "answer"), found)


def _forms(schema: object, root: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield every schema that says something of the same value."""
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return
    yield schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        with suppress(LookupError):
            yield from _forms(pointed(root, reference), root, depth + 1)
    for key in ("allOf", "anyOf", "oneOf", "if", "then", "else"):
        inner = schema.get(key)
        for item in inner if isinstance(inner, list) else [inner]:
            yield from _forms(item, root, depth + 1)


def _below(
    forms: list[Mapping[str, Any]], place: str | int, root: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Return what *forms* say of the value at *place* within theirs."""
    found: list[object] = []
    for form in forms:
        if isinstance(place, int):
            first = form.get("prefixItems")
            found += [form.get("items"), *(first[place : place + 1] if isinstance(first, list) else ())]
            continue
        named, patterns = form.get("properties"), form.get("patternProperties")
        found.append(named.get(place) if isinstance(named, Mapping) else None)
        found.append(form.get("additionalProperties"))
        found += patterns.values() if isinstance(patterns, Mapping) else ()
    return [part for item in found for part in _forms(item, root)]


PLAIN = frozenset((int, float, bool, type(None)))
"""Types of values of JSON in which there is no text."""


def marks_in(value: object) -> Iterator[str]:
    """Yield the marks in *value*, wherever in it."""
    if type(value) in PLAIN:
        return
    if isinstance(value, str):
        if _MARK.fullmatch(value):
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from marks_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from marks_in(item)


def texts_in(secret: object) -> Iterator[str]:
    """Yield each text and each number of a secret, as a text."""
    if isinstance(secret, Mapping | list | tuple):
        for item in secret.values() if isinstance(secret, Mapping) else secret:
            yield from texts_in(item)
    elif isinstance(secret, str | int | float):
        yield str(secret)


def revealed(value: Any, secrets: Mapping[str, Any]) -> Any:
    """Return *value* with the secrets in the place of their marks; a mark of none stays."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, str):
        return secrets.get(value, value) if _MARK.fullmatch(value) else value
    if isinstance(value, Mapping):
        return {key: revealed(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [revealed(item, secrets) for item in value]
    return value
