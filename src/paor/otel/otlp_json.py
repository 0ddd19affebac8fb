"""Spans as lines of OTLP JSON, as OpenTelemetry's collector reads and writes them in files; needs no library."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from ..states.base.version import VERSION
from .content import whole_characters
from .span import Link, Span, SpanEvent, Value, conventions

SPANS_A_LINE = 256
"""Most spans of a line."""

_KINDS = {"internal": 1, "client": 3}
_ERROR = 2
_LOCAL = 256
"""Flag of a span or link: whether its parent or target is remote is known; it is not."""


def service_name() -> str:
    """Return the name under which traces are filed: ``OTEL_SERVICE_NAME``, or ``paor``."""
    return whole_characters(os.environ.get("OTEL_SERVICE_NAME", "")) or "paor"


def json_lines(spans: Iterable[Span]) -> Iterator[bytes]:
    """Yield lines of UTF-8, each with its end and an object ``resourceSpans`` with at most `SPANS_A_LINE` spans; the same for the same spans."""
    rest = iter(spans)
    while batch := [_span(span) for span in islice(rest, SPANS_A_LINE)]:
        scope = {"name": conventions()["scope"], "version": VERSION}
        own = {"scope": scope, "spans": batch, "schemaUrl": conventions()["schema_url"]}
        resource = {"attributes": _attributes({"service.name": service_name()})}
        data = {"resourceSpans": [{"resource": resource, "scopeSpans": [own]}]}
        yield json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _span(span: Span) -> dict[str, Any]:
    data: dict[str, Any] = {"traceId": span.trace_id, "spanId": span.span_id}
    if span.parent_id is not None:
        data["parentSpanId"] = span.parent_id
    data |= {"flags": _LOCAL, "name": span.name, "kind": _KINDS[span.kind]}
    data |= {"startTimeUnixNano": str(span.start_ns), "endTimeUnixNano": str(span.end_ns)}
    data["attributes"] = _attributes(span.attributes)
    if span.events:
        data["events"] = [_event(event) for event in span.events]
    if span.events_dropped:
        data["droppedEventsCount"] = span.events_dropped
    if span.links:
        data["links"] = [_link(link) for link in span.links]
    return {**data, "status": {"code": _ERROR}} if span.failed else data


def _event(event: SpanEvent) -> dict[str, Any]:
    place = {"timeUnixNano": str(event.at_ns), "name": event.name}
    return {**place, "attributes": _attributes(event.attributes)}


def _link(link: Link) -> dict[str, Any]:
    place = {"traceId": link.trace_id, "spanId": link.span_id}
    return {**place, "attributes": _attributes(link.attributes), "flags": _LOCAL}


def _attributes(attributes: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [_value(item) for item in value]}}
