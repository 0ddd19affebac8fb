"""
Traces: the spans of a run, derived from its rows alone, as OpenTelemetry's conventions for generative AI name them.

    from paor import Engine
    from paor.otel import OpenTelemetry

    engine = Engine(hooks=[OpenTelemetry()])        # to OTEL_EXPORTER_OTLP_ENDPOINT, http://localhost:4318 by default

Ids of traces and spans are digests of run ids and row numbers, times are those of the rows: an export that is live, late or repeated
gives the same spans. ``docs/howto/traces.md`` says what is exported; names are in ``conventions.json``. Needs the extra
``paor[otel]`` to send anything, and nothing of it to derive spans. May import the four folders; nothing but `paor.cli` may import it.
Start reading at `run_spans`, where rows become spans.
"""

from __future__ import annotations

from .live import OpenTelemetry
from .reading import spans_of, trace_of
from .span import Link, Span, SpanEvent

__all__ = ["Link", "OpenTelemetry", "Span", "SpanEvent", "spans_of", "trace_of"]
