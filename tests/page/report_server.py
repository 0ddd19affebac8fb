"""A server for the live page, as small as a test needs: parts of a made-up run that grows, events, and answers that it records."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from .inside import CHUNK, page_html
from .report_browser import DeskRun, approval


def without_texts(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line as it comes with a row: without what no row changes."""
    return {name: value for name, value in line.items() if name not in ("objective", "key", "metadata")}


class LiveRun:
    """
    A run of which as much is there as the test has let come.

    Attributes:
        n: Rows that are there.
        waits: What waits for a person.
        erased: Whether nothing is left of what was said.
        posted: Path, header and body of each write.
        answers: What the next writes are answered with, as status and data; empty: it was done.
    """

    def __init__(self, n: int, *, rows: int = 60) -> None:
        self.run, self.n = DeskRun(rows), n
        self.waits = [approval()]
        self.posted: list[tuple[str, str | None, str]] = []
        self.posting = threading.Condition()
        self.answers: list[tuple[int, dict[str, Any]]] = []
        self.streams: dict[str, list[queue.Queue[tuple[str, str, Any] | None]]] = {}
        self.decided: list[dict[str, Any]] = []
        self.erased = False

    def line(self) -> dict[str, Any]:
        ended = self.n == len(self.run.rows)
        status = {
            "status": "done" if ended else "running",
            "verdict": "Done: it is" if ended else "Planning: not ended",
        }
        return self.run.line(rows=self.n, **status)

    def part(self, name: str) -> dict[str, Any]:
        """Return a part as it is now."""
        kind, _, rest = name.partition("/")
        if kind == "index":
            told = {"version": "0.1.0", "live": True, "journal": "runs.db", "title": "", "open": self.run.id}
            return told | {"runs": [self.line()], "waits": self.waits, "token": "page-token", "actions": True}
        if kind == "run":
            head: dict[str, Any] = self.run.run()
            story, first = head["story"], int(rest.partition("/")[2] or 0)
            calls = [call for call in story["calls"] if call["last"] < self.n]
            if self.decided:
                calls = [*calls, calls[0] | {"seq": self.n, "last": self.n, "decided": self.decided}]
            story |= {"run": story["run"] | {"head_seq": self.n - 1}, "calls": calls}
            story["rows"] = story["rows"][first : self.n]
            story["erasures"] = (
                [{"at": 1, "reason": "T-7", "payloads": "[[3,5],[7,7]]"}] if self.erased else []
            )
            for row in story["rows"] if self.erased else ():
                row["said"] = ""
            return head | {"line": self.line()}
        first = int(rest.rpartition("/")[2]) * CHUNK
        whole: dict[str, Any] = self.run.chunks()[name]
        return whole | {"rows": [row for row in whole["rows"] if first <= row["seq"] < self.n]}

    def grow(self, count: int = 1) -> None:
        """Let rows come."""
        for _ in range(count):
            self.n += 1
            seq = self.n - 1
            data = {"row": self.run.rows[seq], "line": without_texts(self.line())}
            self.tell(f"events/{self.run.id}", "row", data, str(seq))
        if self.n == len(self.run.rows):
            self.tell(f"events/{self.run.id}", "end", {})

    def tell(self, stream: str, event: str, data: Any, number: str = "") -> None:
        """Send an event to whoever listens."""
        for one in self.streams.get(stream, []):
            one.put((event, number, data))

    def drop(self) -> None:
        """Cut all streams."""
        for ones in self.streams.values():
            for one in ones:
                one.put(None)
        self.streams.clear()


class Handler(BaseHTTPRequestHandler):
    """Answers from the run of the class."""

    live: ClassVar[LiveRun]
    down: ClassVar[bool] = False

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Give the page, a part, or a stream."""
        place = urlsplit(self.path)
        path = unquote(place.path)[1:]
        if path.startswith("events"):
            self._stream(path, place.query)
        elif path.startswith("data/"):
            self._send(200, "application/json", json.dumps(self.live.part(path.removeprefix("data/"))))
        elif path == "":
            self._send(200, "text/html; charset=utf-8", page_html({}, live="/"))
        else:
            self._send(404, "text/plain", "")

    def do_POST(self) -> None:
        """Record a write."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with self.live.posting:
            self.live.posted.append((self.path, self.headers.get("X-Paor-Token"), body))
            self.live.posting.notify_all()
        status, told = self.live.answers.pop(0) if self.live.answers else (200, {"ok": True})
        self._send(status, "application/json", json.dumps(told))

    def _send(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, path: str, query: str) -> None:
        if self.down:
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        waiting: queue.Queue[tuple[str, str, Any] | None] = queue.Queue()
        after = self.headers.get("Last-Event-ID") or query.removeprefix("after=")
        self.wfile.write(b"retry: 100\n\n")
        if path != "events":
            for seq in range(int(after) + 1, self.live.n):
                line = without_texts(self.live.line())
                waiting.put(("row", str(seq), {"row": self.live.run.rows[seq], "line": line}))
        self.live.streams.setdefault(path, []).append(waiting)
        while (told := waiting.get()) is not None:
            event, number, data = told
            name = f"id: {number}\n" if number else ""
            self.wfile.write(f"{name}event: {event}\ndata: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()
        self.close_connection = True


@contextmanager
def served(live: LiveRun) -> Iterator[tuple[str, type[Handler]]]:
    """Serve a run on loopback; yield the address and the handler, whose `down` cuts new streams off."""
    handler = type("ThisHandler", (Handler,), {"live": live, "down": False})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", handler
    finally:
        live.drop()
        server.shutdown()
        server.server_close()
