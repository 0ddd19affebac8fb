"""A span as a value, and how its ids are derived."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal


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


Value = str | bool | int | float | tuple[str, ...]
"""What an attribute can be."""

Kind = Literal["agent", "model", "tool", "wait"]
"""What a span stands for; its name and kind in OpenTelemetry's sense are in ``conventions.json``."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """
    Something that happened within a span.

    Attributes:
        name: Such as ``paor.transition``.
        at_ns: Nanoseconds since the epoch.
        attributes: By key.
    """

    name: str
    at_ns: int
    attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Link:
    """
    Another span that a span follows from.

    Attributes:
        trace_id, span_id: Of the other one, as in `Span`.
        attributes: By key.
    """

    trace_id: str
    span_id: str
    attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Span:
    """
    One span that is over.

    Attributes:
        trace_id: 32 hexadecimal digits, never all zero.
        span_id: 16 hexadecimal digits, never all zero.
        parent_id: Span within which it happened, of the same trace; None for the root.
        name: Such as ``chat gpt-5``.
        kind: ``internal``, or ``client`` for a request to a model.
        start_ns, end_ns: Nanoseconds since the epoch; the end is never before the start.
        attributes: By key.
        events: In order of time.
        links: Spans that it follows from.
        failed: Whether its status is an error; ``error.type`` says which.
        events_dropped: How many events were left out at its beginning, because it has too many.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    events: tuple[SpanEvent, ...] = ()
    links: tuple[Link, ...] = ()
    failed: bool = False
    events_dropped: int = 0


def trace_id_of(workflow_id: str, round: int) -> str:
    """
    Return the id of a trace: one for each round of a workflow, which for a single run is its own.

    Args:
        workflow_id: As in `fsm.journal.rows.RunRow`: of a single run and of a fork its own run id.
        round: From 1.
    """
    return _digest(("trace", workflow_id, round), 32)


def span_id_of(run_id: str, seq: int, kind: str) -> str:
    """
    Return the id of a span.

    Args:
        run_id: The run.
        seq: Number of the row that ends a request, or begins a call or a wait; -1 for the run itself.
        kind: What the span stands for, because one row can end a request and begin a call.
    """
    return _digest(("span", run_id, seq, kind), 16)


def _digest(parts: tuple[str | int, ...], digits: int) -> str:
    """Return the first hexadecimal digits of SHA-256 over *parts*; the one value that no id may have is never returned."""
    text = "\0".join(("paor", *map(str, parts)))
    found = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    return found if found.strip("0") else found[:-1] + "1"
