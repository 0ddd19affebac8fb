"""`paor trace`: runs as traces of OpenTelemetry, to a receiver or into a file."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ...otel.content import content_wanted
from ...otel.otlp_json import json_lines
from ...otel.reading import runs_of_trace, spans_of
from ...otel.sending import endpoint_of, sender_for
from ...otel.span import Span
from ...states.base.errors import UsageError
from ..support import terminal as io
from ..support.journals import find_run, reading
from ..support.options import KEPT, Everything, Run, command, refuse

CONNECT_S = 5.0
"""Seconds to wait for a receiver that does not answer at all."""


@command(
    "paor trace last --otlp http://localhost:4318",
    "paor trace 0199d2b4-6f1e --output run.otlp.jsonl",
    "paor trace --all --output - > runs.otlp.jsonl",
)
def trace(
    name: Run,
    otlp: Annotated[
        str | None,
        "--otlp URL",
        "Send to this receiver by OTLP over HTTP; /v1/traces is added if it has no path.",
    ],
    output: Annotated[
        str | None, "--output FILE", "Write OTLP JSON lines there; - is standard output.", KEPT
    ],
    everything: Everything,
    content: Annotated[bool, "--content", "With prompts, replies, arguments, results and answers."],
    journal: str,
) -> int:
    """
    Send runs as traces of OpenTelemetry, or write them to a file.

    Ids and times come from the journal: sent again, while a run goes on or years later, the spans are the same. The whole
    trace of RUN is sent, of a workflow its tasks too; without RUN it is the newest. What is not over yet is left out. Texts
    are left out unless --content or OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT asks for them; erased ones always.
    Headers for the receiver come from OTEL_EXPORTER_OTLP_HEADERS. Sending needs paor[otel], a file does not.

    Exit codes: 0 sent or written, 2 no such run, an address that is none, no paor[otel], or a receiver that does not take it,
    4 a row cannot be read.
    """
    refuse(
        ((otlp is None) == (output is None), "give either --otlp URL or --output FILE"),
        (everything and name is not None, "--all goes without RUN"),
    )
    sent, traces = 0, set[str]()
    with reading(journal) as opened, opened.snapshot() as still:
        ids = still.index.ids() if everything else runs_of_trace(still, find_run(opened, name).run_id)
        texts = content_wanted(content or None)

        def spans() -> Iterator[Span]:
            nonlocal sent
            for span in (span for run_id in ids for span in spans_of(still, run_id, content=texts)):
                sent += 1
                traces.add(span.trace_id)
                yield span

        if otlp is not None:
            _send(spans(), endpoint_of(otlp))
        else:
            io.say_or_write(None if output == "-" else output, json_lines(spans()))
        unended = sum(still.run(run_id).ended_at is None for run_id in ids)
    if unended:
        io.tell(f"{io.count(unended, 'run')} not ended: what is not over yet is sent when it is")
    if otlp is None and (output == "-" or not io.wants_json()):
        return io.OK
    data = {"runs": len(ids), "spans": sent, "traces": len(traces)}
    return io.say_either(data, [f"sent {io.count(sent, 'span')} of {io.count(len(ids), 'run')}"])


def _send(spans: Iterator[Span], endpoint: str) -> None:
    """Send *spans*; raise `UsageError` with what the exporter logs when they are not taken, at once where nobody listens."""
    sender = sender_for(endpoint)
    parts = urlsplit(endpoint)
    host, port = parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme]
    if parts.scheme not in getproxies() or proxy_bypass(host):
        try:
            socket.create_connection((host, port), CONNECT_S).close()
        except (OSError, UnicodeError) as error:
            raise UsageError(f"{endpoint}: cannot be reached ({io.reason(error)})") from None
    told = ["no reason given"]
    with io.logged(["opentelemetry"], lambda record: told.append(record.getMessage()), alone=True):
        try:
            sent, whole = sender.send(spans)
        finally:
            sender.close()
    if not whole:
        raise UsageError(f"{endpoint}: did not take the spans after {sent} of them ({told[-1]})")
