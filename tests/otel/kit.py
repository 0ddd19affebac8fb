"""For the tests of traces: receivers over HTTP, spans as one compares them, and what must hold of the spans of every run."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any, Self
from urllib.request import Request, urlopen

from paor import Journal
from paor.otel import Span, SpanEvent, trace_of

TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
OPERATION = "gen_ai.operation.name"

MARKER = "the last one"
"""Name of a span that is no run's."""

Compared = dict[str, dict[str, Any]]
"""By span id all that is exported of a span, as JSON data."""


class Receiver:
    """
    An OTLP receiver on 127.0.0.1 that keeps every span it was sent.

    Attributes:
        spans: Each as `compared` has it, in the order in which they came.
        requests: How many requests were taken.
        refuse: Status with which it answers instead; 0: it takes all.
    """

    def __init__(self) -> None:
        self.spans: list[tuple[str, dict[str, Any]]] = []
        self.requests = 0
        self.refuse = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path != "/v1/traces" or receiver.refuse:
                    self.send_response(receiver.refuse or 404)
                else:
                    receiver.spans += read_protobuf(body)
                    receiver.requests += 1
                    self.send_response(200)
                    self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def by_id(self) -> Compared:
        """What was received; the same span twice is the same."""
        return single(self.spans)

    def settle(self) -> None:
        """Do nothing: what was sent is here."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def single(spans: Iterable[tuple[str, dict[str, Any]]]) -> Compared:
    """Return spans by their ids; assert that one which came twice was the same."""
    found: Compared = {}
    for span_id, data in spans:
        assert found.setdefault(span_id, data) == data, "a span came twice and was not the same"
    return found


class Tap:
    """The same of the receiver ``oteltap``, which others have written; it hands spans over a little later."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, dict[str, Any]]] = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._started, self._over, self._marked = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._receive()), daemon=True)

    @property
    def by_id(self) -> Compared:
        """What was received; the same span twice is the same."""
        return single(self.spans)

    async def _receive(self) -> None:
        oteltap = import_module("oteltap")
        settings = oteltap.OtelTapHttpProtobufReceiverSettings(http_port=self._port)
        async with oteltap.OtelTapHttpProtobufReceiver(settings) as receiver:

            async def take() -> None:
                async for span in receiver.stream_traces():
                    if span.name == MARKER:
                        self._marked.set()
                    else:
                        self.spans.append(of_message(span))

            taking = asyncio.create_task(take())
            self._started.set()
            await asyncio.to_thread(self._over.wait)
            taking.cancel()

    def settle(self) -> None:
        """Send a span of its own and wait for it: it comes after all that were sent before."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self._marked.clear()
        told = ExportTraceServiceRequest()
        span = told.resource_spans.add().scope_spans.add().spans.add()
        span.name, span.trace_id, span.span_id = MARKER, b"m" * 16, b"m" * 8
        headers = {"Content-Type": "application/x-protobuf"}
        with urlopen(Request(f"{self.url}/v1/traces", told.SerializeToString(), headers), timeout=30):
            assert self._marked.wait(30)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(30)
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join(30)


def read_protobuf(body: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the spans of a request."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        for scope in resource.scope_spans:
            yield from map(of_message, scope.spans)


def of_message(span: Any) -> tuple[str, dict[str, Any]]:
    """Return id and data of a span that a receiver has decoded."""
    return span.span_id.hex(), {
        "trace": span.trace_id.hex(),
        "parent": span.parent_span_id.hex() or None,
        "name": span.name,
        "kind": span.kind,
        "times": (span.start_time_unix_nano, span.end_time_unix_nano),
        "attributes": _attributes(span.attributes),
        "events": [
            (event.name, event.time_unix_nano, _attributes(event.attributes)) for event in span.events
        ],
        "links": [
            (link.trace_id.hex(), link.span_id.hex(), _attributes(link.attributes)) for link in span.links
        ],
        "failed": span.status.code == 2,
        "dropped": span.dropped_events_count,
    }


def _attributes(attributes: Iterable[Any]) -> dict[str, Any]:
    return {item.key: _value(item.value) for item in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind)


def compared(spans: Iterable[Span]) -> Compared:
    """Return spans as `Receiver` has them."""
    found = {}
    for span in spans:
        assert span.span_id not in found, "two spans have one id"
        found[span.span_id] = {
            "trace": span.trace_id,
            "parent": span.parent_id,
            "name": span.name,
            "kind": {"internal": 1, "client": 3}[span.kind],
            "times": (span.start_ns, span.end_ns),
            "attributes": _plain(span.attributes),
            "events": [(event.name, event.at_ns, _plain(event.attributes)) for event in span.events],
            "links": [(link.trace_id, link.span_id, _plain(link.attributes)) for link in span.links],
            "failed": span.failed,
            "dropped": span.events_dropped,
        }
    return found


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in attributes.items()}


def of_lines(lines: bytes) -> Compared:
    """Return the spans of OTLP JSON lines as `Receiver` has them, read by OpenTelemetry's own classes."""
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    json_format = import_module("google.protobuf.json_format")  # which has no types
    found: Compared = {}
    for line in lines.splitlines():
        data = json_format.ParseDict(_with_base64(json.loads(line)), TracesData())
        for resource in data.resource_spans:
            for scope in resource.scope_spans:
                found |= dict(map(of_message, scope.spans))
    return found


def _with_base64(data: Any) -> Any:
    """Return OTLP JSON, in which ids are hexadecimal, as protobuf's own JSON, in which bytes are base64."""
    from base64 import b64encode

    if isinstance(data, list):
        return [_with_base64(item) for item in data]
    if not isinstance(data, dict):
        return data
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        key: b64encode(bytes.fromhex(value)).decode() if key in ids else _with_base64(value)
        for key, value in data.items()
    }


def check(journal: Journal, run_id: str) -> list[Span]:
    """Assert what must hold of the trace of a run that has ended, and return its spans."""
    spans = list(trace_of(journal, run_id))
    assert compared(spans) == compared(trace_of(journal, run_id)), "the same journal gave other spans"
    ids = [span.span_id for span in spans]
    assert len(set(ids)) == len(ids)
    assert len({span.trace_id for span in spans}) == 1
    by_id = {span.span_id: span for span in spans}
    for span in spans:
        assert len(span.trace_id) == 32 and int(span.trace_id, 16)
        assert len(span.span_id) == 16 and int(span.span_id, 16)
        assert 0 < span.start_ns <= span.end_ns < 2**63
        assert all(span.start_ns <= event.at_ns <= span.end_ns for event in span.events)
        assert list(span.events) == sorted(span.events, key=lambda event: event.at_ns)
        for link in span.links:
            if link.attributes["paor.link"] == "resumed":
                assert by_id[link.span_id].name.startswith("paor.wait")
        if span.parent_id is not None:
            parent = by_id[span.parent_id]
            assert parent.start_ns <= span.start_ns and span.end_ns <= parent.end_ns
    own = {row.run_id: row for row in journal.runs() if row.run_id in {_run(span) for span in spans}}
    for row in own.values():
        _check_run(journal, row, [span for span in spans if _run(span) == row.run_id])
    return spans


def whole(span: Span | SpanEvent, key: str) -> int:
    """Return an attribute that is a whole number."""
    value = span.attributes[key]
    assert isinstance(value, int)
    return value


def _run(span: Span) -> str:
    return str(span.attributes["paor.run.id"])


def _check_run(journal: Journal, row: Any, spans: list[Span]) -> None:
    """Assert that the spans of one run tell what its own rows do: every row once, its tokens, calls and waits."""
    rows = journal.transitions(row.run_id)
    own = [item for item in rows if item.run == row.run]
    told = sorted(event.attributes["paor.row"] for span in spans for event in span.events)
    assert told == [item.seq for item in own]
    assert sum(span.attributes.get(OPERATION) == "invoke_agent" for span in spans) == 1
    used = [0, 0]
    for item in own:
        if item.request.get("tool") != "workflow.task":
            used[0] += item.outcome.get("tokens_in", 0)
            used[1] += item.outcome.get("tokens_out", 0)
    models = [span for span in spans if span.attributes.get(OPERATION) == "chat"]
    for key, number in zip(TOKENS, used, strict=True):
        assert sum(whole(span, key) for span in models) == number
    if row.task and row.parent_run_id is None:
        assert used == [rows[-1].tokens_in, rows[-1].tokens_out], "as the journal's own sum"
    calls = [span for span in spans if span.attributes.get(OPERATION) == "execute_tool"]
    begun = [item for item in own if item.trigger == "specify"]
    if row.parent_run_id is None:
        assert len(calls) == len(begun)
        known = journal.db.query(
            "SELECT tool, coalesce(ok, 0) AS ok FROM v_calls WHERE run_id = ?", (row.run_id,)
        )
        for span, made in zip(calls, known, strict=True):
            assert made["tool"] in (None, span.attributes["gen_ai.tool.name"]), "None once it is erased"
            assert span.attributes["paor.tool.ok"] is bool(made["ok"])
        waits = [span for span in spans if span.name.startswith("paor.wait")]
        assert len(waits) == sum(item.trigger == "wait" for item in own)
