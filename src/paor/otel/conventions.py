"""The names that are exported, from ``conventions.json``, and limits of what is."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def conventions() -> dict[str, Any]:
    """Return the data file, read once."""
    found: dict[str, Any] = json.loads((files(__package__) / "conventions.json").read_bytes())
    return found


@cache
def keys() -> dict[str, str]:
    """Return the key of each attribute by the name that code has for it."""
    return {name: attribute["key"] for name, attribute in conventions()["attributes"].items()}


@cache
def content_names() -> frozenset[str]:
    """Return the names, in code, of the attributes that are texts of users, models and tools."""
    return frozenset(
        name for name, attribute in conventions()["attributes"].items() if attribute.get("content")
    )


@cache
def limit(name: str) -> int:
    """Return a limit: ``text_chars`` of a content, ``name_chars`` of any other text, ``events`` of a span."""
    return int(conventions()["limits"][name])


def model_names(name: str) -> tuple[str, str]:
    """Return provider and model of a model's name in the journal, such as ``openai:NAME``; one of a host's own is ``custom``."""
    providers = conventions()["providers"]
    provider, sign, model = name.partition(":")
    if provider in providers and provider:
        return providers[provider], model if sign and model else name
    return providers[""], name
