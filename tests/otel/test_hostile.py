"""Traces of runs in which every free field is hostile: nothing of it leaves unless asked for, and then no receiver stumbles over it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from paor import Journal
from paor.otel import spans_of

from ..mcp.hostile_run import write
from .inside import conventions, json_lines, limit, sender_for
from .kit import Receiver, check, compared, of_lines

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs paor[otel]")

MARK = "ZQX"
"""A marker that no name of paor's own holds."""

AROUND = (
    "<script>{}</script><img src=x onerror={}>",
    "\u202e{}\u2066\u200b\ufeff{}",
    "\x1b]0;{}\x07\x1b[2J{}\x9b",
    "{}\u2028\u2029\u0085{}\r\n",
    "\U000e0041{}\ufe0f\U0010ffff{}",
    '"}},{{"{}\\": \\"{}\\\\',
)
"""Tags, direction and width, escapes of a terminal, ends of lines, half characters, hidden letters, JSON."""

HALVES = ("tool.error", "tool.document.text", "model.fault", "document.text")
"""Fields that can hold half characters and NUL; in a host's they are refused, and a model is asked again."""

LONG_CHARS = 1_000_000


class Marked:
    """Gives every field a hostile text with a marker; one of them is a million characters long."""

    def __init__(self) -> None:
        self.fields: set[str] = set()
        self.count = 0

    def __call__(self, field: str) -> str:
        self.count += 1
        mark = f"{MARK}{self.count}Q"
        text = AROUND[self.count % len(AROUND)].format(mark, mark)
        if field == "tool.document.text" and field not in self.fields:
            text += f" {mark}" * (LONG_CHARS // len(mark))
        if field in HALVES:
            text = f"\ud800{text}\x00\udfff"
        self.fields.add(field)
        return text


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a journal with runs of every kind."""
    path = tmp_path_factory.mktemp("hostile") / "runs.db"
    give = Marked()
    write(path, give)
    assert len(give.fields) >= 60 and "tool.document.text" in give.fields
    return path


def test_nothing_that_anybody_wrote_is_in_a_trace_unless_asked_for(journal: Path) -> None:
    """Of no run, in no name, attribute, event or link, however it is written."""
    with Journal(journal, read_only=True) as read:
        runs = [row.run_id for row in read.runs()]
        told = [b"".join(json_lines(spans_of(read, run_id))) for run_id in runs]
    assert journal.stat().st_size > LONG_CHARS
    assert len(runs) >= 15 and sum(bool(text) for text in told) >= 15
    for text in told:
        for form in (text.lower(), json.dumps(text.decode()).encode().lower()):
            assert MARK.lower().encode() not in form and MARK.encode().hex().encode() not in form
        assert text.isascii(), "names of paor's own and of the host's code"


def test_with_content_every_text_is_bounded_and_every_receiver_reads_it(journal: Path) -> None:
    """As lines of JSON and over the wire the same; in lines nothing ends one, and half characters are none."""
    most = 8 * (limit("text_chars") + 200)
    with Journal(journal, read_only=True) as read, Receiver() as receiver:
        sender = sender_for(receiver.url)
        for row in read.runs():
            spans = spans_of(read, row.run_id, content=True)
            lines = b"".join(json_lines(spans))
            assert of_lines(lines) == compared(spans)
            assert len(lines.splitlines()) == -(-len(spans) // 256)
            assert sender.send(spans) == (len(spans), True)
            assert compared(spans).items() <= receiver.by_id.items()
        sender.close()
        texts = [
            value
            for span in receiver.by_id.values()
            for value in span["attributes"].values()
            if isinstance(value, str)
        ]
        contents = {item["key"] for item in conventions()["attributes"].values() if item.get("content")}
        shown = {key for span in receiver.by_id.values() for key in span["attributes"]}
    assert contents <= shown
    assert max(map(len, texts)) > limit("text_chars") and any("more characters]" in text for text in texts)
    assert max(map(len, texts)) < most


def test_what_holds_of_every_trace_holds_of_theirs(journal: Path) -> None:
    """Every row once, parents that are there, times in order, the journal's tokens and calls."""
    with Journal(journal, read_only=True) as read:
        ended = [row.run_id for row in read.runs() if row.ended_at is not None]
        assert len(ended) >= 8
        for run_id in ended:
            check(read, run_id)


class Endless:
    """
    A receiver on 127.0.0.1 whose answer does not end.

    Args:
        status: Of it; of one that leads elsewhere its address is its own.

    Attributes:
        sent: How many bytes it could send of one answer, at most.
    """

    def __init__(self, status: int) -> None:
        self.sent, self.done = 0, threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(status)
                self.send_header("Location", "/other")
                self.end_headers()
                sent = 0
                try:
                    while sent < 200_000_000:
                        sent += self.wfile.write(bytes(100_000))
                except OSError:
                    pass
                outer.sent = max(outer.sent, sent)
                outer.done.set()

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.mark.parametrize("status", [200, 302, 400, 503])
def test_of_an_answer_without_end_a_bounded_part_is_read(status: int, journal: Path) -> None:
    """Whatever it says: what the receiver can send is what the buffers of the two sockets hold."""
    receiver = Endless(status)
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    sender = sender_for(receiver.url)
    try:
        with Journal(journal, read_only=True) as reader:
            spans = spans_of(reader, reader.runs()[0].run_id)
            closing = threading.Timer(1.0, sender.close)  # a receiver that is asked again is not waited for
            closing.start()
            sender.send(spans)
            closing.join()
        assert receiver.done.wait(30) and 0 < receiver.sent < 100_000_000
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()
