"""
A reverse proxy on loopback that counts what an engine asks of a server of chat completions.

It stands in front of every engine alike, so that requests and tokens are counted at one place, from the ``usage`` of the
server's own responses, and so that every engine gets the same temperature, seed and longest reply.
"""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 900


@dataclass
class Tally:
    """
    What one run used.

    Attributes:
        sampling: Members that replace those of every request, such as ``temperature`` and ``seed``.
        reply_tokens: Most tokens of a reply; a request's own lower limit stays.
        requests: Requests for a completion, failed ones included.
        tokens_in, tokens_out: Sums over the responses.
        tokens_cached: Those of *tokens_in* that the server had evaluated before, as it tells.
        unmetered: Responses that told no usage; the sums are too low if there are any.
        log: Bodies of requests and responses, in the order of the responses.
    """

    sampling: dict[str, Any]
    reply_tokens: int
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    unmetered: int = 0
    log: list[tuple[bytes, bytes]] = field(default_factory=list)

    def rewritten(self, body: bytes) -> bytes:
        """Return a request's body with the same sampling for everybody; a stream is asked for its usage."""
        request = json.loads(body) | self.sampling
        limits = [request.pop(name) for name in ("max_tokens", "max_completion_tokens") if request.get(name)]
        request["max_tokens"] = min([*limits, self.reply_tokens])
        if request.get("stream"):
            request["stream_options"] = {**(request.get("stream_options") or {}), "include_usage": True}
        return json.dumps(request).encode()

    def count(self, request: bytes, response: bytes) -> None:
        """Log a request and its response, and add the usage that it told, if it did."""
        self.log.append((request, response))
        usage = _usage_in(response)
        if not isinstance(usage, dict):
            self.unmetered += 1
            return
        self.tokens_in += usage.get("prompt_tokens") or 0
        self.tokens_out += usage.get("completion_tokens") or 0
        self.tokens_cached += (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0


class CountingProxy(ThreadingHTTPServer):
    """
    The proxy; `open_tally` gives each run an address of its own.

    Args:
        url: Address of the server with its path, such as ``http://127.0.0.1:8080/v1``.
    """

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        parts = urlsplit(url.rstrip("/"))
        self.origin, self.base_path = f"{parts.scheme}://{parts.netloc}", parts.path
        self.tallies: list[Tally] = []
        self.lock = threading.Lock()

    def open_tally(self, tally: Tally) -> str:
        """Return the address whose requests *tally* counts."""
        self.tallies.append(tally)
        return f"http://127.0.0.1:{self.server_port}/{len(self.tallies) - 1}{self.base_path}"


class _Handler(BaseHTTPRequestHandler):
    server: CountingProxy
    begun: bool
    """Whether a response has begun."""

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._pass_on(None)

    def do_POST(self) -> None:
        self._pass_on(self.rfile.read(int(self.headers.get("content-length") or 0)))

    def _pass_on(self, body: bytes | None) -> None:
        number, _, path = self.path.lstrip("/").partition("/")
        tally = self.server.tallies[int(number)]
        is_completion = body is not None and path.endswith("/completions")
        if is_completion and body is not None:
            body = tally.rewritten(body)
            with self.server.lock:
                tally.requests += 1
        headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() in ("authorization", "content-type")
        }
        request = urllib.request.Request(f"{self.server.origin}/{path}", data=body, headers=headers)
        self.begun, data = False, b""
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                data = self._answer(response.status, response)
        except urllib.error.HTTPError as error:
            with error:
                self._answer(error.code, error)
        except (OSError, HTTPException) as error:
            told = json.dumps({"error": {"message": f"the server behind the proxy: {error}"}}).encode()
            if not self.begun:  # otherwise the end of the connection is what the engine sees
                self._whole(502, "application/json", told)
        finally:
            if is_completion and body is not None:
                with self.server.lock:
                    tally.count(body, data)

    def _answer(self, status: int, response: HTTPResponse | urllib.error.HTTPError) -> bytes:
        """Hand a response on as it comes; return its body."""
        kind = response.headers.get("content-type") or "application/json"
        if not kind.startswith("text/event-stream"):
            data = response.read()
            self._whole(status, kind, data)
            return data
        self.begun = True
        self.send_response(status)
        self.send_header("content-type", kind)
        self.end_headers()  # HTTP/1.0: the end of the connection ends the body
        lines = []
        for line in response:
            self.wfile.write(line)
            self.wfile.flush()
            lines.append(line)
        return b"".join(lines)

    def _whole(self, status: int, kind: str, data: bytes) -> None:
        self.begun = True
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _usage_in(response: bytes) -> Any:
    """Return the last usage that a body told, a stream's or a whole one's; None if there is none."""
    usage = None
    for line in [response] if response.lstrip().startswith(b"{") else response.splitlines():
        try:
            told = json.loads(line.removeprefix(b"data:"))
        except ValueError:
            continue
        usage = (told.get("usage") if isinstance(told, dict) else None) or usage
    return usage


@contextmanager
def counting_proxy(url: str) -> Iterator[CountingProxy]:
    """Run a proxy in front of *url* while the block runs."""
    proxy = CountingProxy(url)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join(5)
