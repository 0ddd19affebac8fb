"""Spans of OpenTelemetry's SDK, made of ours and given to an exporter in requests of bounded size. Imports the SDK, so it is imported on use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY as SUPPRESSED
from opentelemetry.context import attach, detach, set_value
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from ..fsm.runtime.logs import LOGGER
from ..states.base.version import VERSION
from .otlp_json import service_name
from .span import Span, Value, conventions

SPANS_A_REQUEST, CHARS_A_REQUEST = 256, 2_000_000
"""Most spans of a request, and about how many characters of attributes it may have: receivers refuse what is too long."""


class FinishedSpan(ReadableSpan):
    """
    A span of the SDK's that the SDK has not recorded.

    Args:
        dropped: How many events were left out.
        **options: Of `ReadableSpan`.
    """

    def __init__(self, dropped: int, **options: Any) -> None:
        super().__init__(**options)
        self._dropped = dropped

    @property
    def dropped_events(self) -> int:
        """How many events were left out."""
        return self._dropped


class Sender:
    """
    Sends spans with an exporter of the SDK's.

    Args:
        exporter: Of the SDK's.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._resource = Resource.create({"service.name": service_name()})
        self._scope = InstrumentationScope(conventions()["scope"], VERSION, conventions()["schema_url"])

    def send(self, spans: Iterable[Span]) -> tuple[int, bool]:
        """Send *spans* until a request is not taken; return how many were, and whether that is all. The exporter logs why one was not."""
        sent = 0
        for batch in _batches(spans):
            if not self._export([self._converted(span) for span in batch]):
                return sent, False
            sent += len(batch)
        return sent, True

    def _export(self, spans: list[ReadableSpan]) -> bool:
        """Send one request, of which no instrumentation of the host's makes a span, and return whether it was taken."""
        token = attach(set_value(SUPPRESSED, True))
        try:
            return self._exporter.export(spans) is SpanExportResult.SUCCESS
        except Exception:  # an exporter may be the host's own
            LOGGER.exception("traces: an exporter raised")
            return False
        finally:
            detach(token)

    def close(self) -> None:
        """Release what the exporter holds."""
        with suppress(Exception):
            self._exporter.shutdown()

    def _converted(self, span: Span) -> ReadableSpan:
        parent = _context(span.trace_id, span.parent_id) if span.parent_id is not None else None
        return FinishedSpan(
            span.events_dropped,
            name=span.name,
            context=_context(span.trace_id, span.span_id),
            parent=parent,
            resource=self._resource,
            attributes=dict(span.attributes),
            events=[Event(event.name, dict(event.attributes), event.at_ns) for event in span.events],
            links=[Link(_context(link.trace_id, link.span_id), dict(link.attributes)) for link in span.links],
            kind=SpanKind.CLIENT if span.kind == "client" else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR) if span.failed else Status(StatusCode.UNSET),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), False, TraceFlags(TraceFlags.SAMPLED))


def _batches(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Yield *spans* in groups that a receiver takes in one request; one that is too long by itself goes alone."""
    batch: list[Span] = []
    chars = 0
    for span in spans:
        parts = [span.attributes, *(event.attributes for event in span.events)]
        size = sum(_chars(attributes) + 100 for attributes in parts)
        if batch and (len(batch) >= SPANS_A_REQUEST or chars + size > CHARS_A_REQUEST):
            yield batch
            batch, chars = [], 0
        batch.append(span)
        chars += size
    if batch:
        yield batch


def _chars(attributes: Mapping[str, Value]) -> int:
    return sum(len(key) + len(str(value)) for key, value in attributes.items())
