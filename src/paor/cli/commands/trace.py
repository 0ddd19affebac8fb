"""`paor trace`: runs as traces of OpenTelemetry, to a receiver or into a file."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import click

from ...fsm.journal.reader import JournalReader
from ...otel.content import content_wanted
from ...otel.otlp_json import json_lines
from ...otel.reading import runs_of_trace, spans_of
from ...otel.sending import endpoint_of, sender_for
from ...otel.span import Span
from ...states.base.errors import UsageError
from ..support.journals import find_run, reading
from ..support.options import command, option
from ..support.streams import OK, keep_journals, reason, say_either, say_or_write, tell
from ..support.text import count

CONNECT_S = 5.0
"""Seconds to wait for a receiver that does not answer at all."""


@command(
    "trace",
    "paor trace last --otlp http://localhost:4318",
    "paor trace 0199d2b4-6f1e --output run.otlp.jsonl",
    "paor trace --all --output - > runs.otlp.jsonl",
)
@click.argument("name", metavar="[RUN]", required=False)
@option("--otlp", "URL", "Send to this receiver by OTLP over HTTP; /v1/traces is added if it has no path.")
@option("--output", "FILE", "Write OTLP JSON lines there; - is standard output.")
@click.option("--all", "everything", is_flag=True, help="Every run of the journal.")
@click.option("--content", is_flag=True, help="With prompts, replies, arguments, results and answers.")
def trace(
    name: str | None,
    otlp: str | None,
    output: str | None,
    everything: bool,
    content: bool,
    journal: str,
    as_json: bool,
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
    if (otlp is None) == (output is None):
        raise click.UsageError("give either --otlp URL or --output FILE")
    if everything and name is not None:
        raise click.UsageError("--all goes without RUN")
    if output is not None:
        keep_journals("--output", output, journal)
    with reading(journal) as opened, opened.snapshot() as still:
        ids = _ids(still, None if everything else find_run(opened, name).run_id)
        told = Tally(len(ids))
        spans = told.counted(_spans(still, ids, content=content_wanted(content or None)))
        if otlp is not None:
            _send(spans, otlp)
        else:
            say_or_write(None if output == "-" else output, json_lines(spans))
        unended = sum(still.run(run_id).ended_at is None for run_id in ids)
    if unended:
        tell(f"{count(unended, 'run')} not ended: what is not over yet is sent when it is")
    if otlp is None and (output == "-" or not as_json):
        return OK
    data = {"runs": told.runs, "spans": told.spans, "traces": len(told.traces)}
    return say_either(as_json, data, [f"sent {count(told.spans, 'span')} of {count(told.runs, 'run')}"])


class Tally:
    """
    What was sent.

    Attributes:
        runs, spans: How many.
        traces: Their ids.
    """

    def __init__(self, runs: int) -> None:
        self.runs, self.spans = runs, 0
        self.traces: set[str] = set()

    def counted(self, spans: Iterator[Span]) -> Iterator[Span]:
        """Yield *spans* and count them."""
        for span in spans:
            self.spans += 1
            self.traces.add(span.trace_id)
            yield span


def _ids(journal: JournalReader, run_id: str | None) -> list[str]:
    """Return the runs of a trace, or of the whole journal, in the order in which they were started."""
    if run_id is not None:
        return runs_of_trace(journal, run_id)
    return journal.index.ids()


def _spans(journal: JournalReader, ids: list[str], *, content: bool) -> Iterator[Span]:
    return chain.from_iterable(spans_of(journal, run_id, content=content) for run_id in ids)


def _send(spans: Iterator[Span], otlp: str) -> None:
    """Send *spans*; raise `UsageError` with what the exporter says when they are not taken."""
    endpoint = endpoint_of(otlp)
    sender = sender_for(endpoint)
    _reach(endpoint)
    with _told_by_exporter() as told:
        try:
            sent, whole = sender.send(spans)
        finally:
            sender.close()
    if not whole:
        raise UsageError(
            f"{endpoint}: did not take the spans after {sent} of them ({told[-1] if told else 'no reason given'})"
        )


def _reach(endpoint: str) -> None:
    """Fail fast if the endpoint refuses connections; not checked behind a proxy."""
    parts = urlsplit(endpoint)
    host, port = parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme]
    if parts.scheme in getproxies() and not proxy_bypass(host):
        return
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{endpoint}: cannot be reached ({reason(error)})") from None


@contextmanager
def _told_by_exporter() -> Iterator[list[str]]:
    """Give what OpenTelemetry logs meanwhile, instead of printing it."""
    told: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    logger, kept = logging.getLogger("opentelemetry"), Kept()
    before, logger.propagate = logger.propagate, False
    logger.addHandler(kept)
    try:
        yield told
    finally:
        logger.removeHandler(kept)
        logger.propagate = before
