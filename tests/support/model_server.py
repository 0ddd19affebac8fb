"""
A real HTTP server on 127.0.0.1 that does to a client what servers do on bad days.

It speaks no interface of its own: a test says, request by request, which bytes come back, in what pieces, and where the
connection ends. The bodies of the three interfaces are built by `Wire`.
"""

from __future__ import annotations

import gzip
import json
import socket
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from paor import AnthropicModel, OpenAIModel

KEY = "sk-secret-0123456789abcdefgh"
REFINEMENT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {"enum": ["continue", "stop"]},
        "reason": {"type": "string"},
        "hint": {"type": "string"},
        "score": {"type": "number"},
    },
    "required": ["decision", "reason"],
}
"""A schema that a reply is asked to satisfy: one object, two of its members may be left out."""
DOCUMENTED_USAGE = {"in": 1200, "out": 34, "cached": 1000, "reasoning": 20}


@dataclass
class Received:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Behaviour = Callable[["Connection", Received], None]
TLS_HANDSHAKE = b"\x16"
"""The first byte that a client sends to a server that it takes for one with TLS."""
QUESTIONS = ("/v1/models", "/props", "/api/show", "/api/ps")
"""Where a client asks what a server can do."""
NO_TOOLS: dict[str, object] = {"/v1/models": {"data": [{"id": "any", "supported_parameters": []}]}}


class Connection:
    """The server's side of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Send a status line and headers."""
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def chunk(self, data: bytes) -> None:
        """Send one chunk of a chunked body."""
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def reset(self) -> None:
        """End the connection at once."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self._socket.close()

    def hold(self) -> bool:
        """Keep the connection until the client closes it; return false when it has not done so in 30 seconds."""
        self._socket.settimeout(30)
        try:
            while self._socket.recv(4096):
                pass
        except TimeoutError:
            return False
        except OSError:  # reset, which is closed as well
            pass
        return True


class ModelServer:
    """
    Answers the n-th request by the n-th behaviour, the last one for ever; questions about itself by what it says.

    Attributes:
        says: The answers to `QUESTIONS`, by path; others are not found. Unless a test says otherwise it calls no tools.
        questions: Paths of the questions that came in, in order.
        requests: What else came in, in order.
        url: Where it is.
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Received] = []
        self.questions: list[str] = []
        self.says = NO_TOOLS
        self._behaviours: list[Behaviour] = []
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", port))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def script(self, *behaviours: Behaviour) -> None:
        """Answer the next requests so."""
        with self._lock:
            self._behaviours = list(behaviours)
            self.requests.clear()
            self.questions.clear()

    def close(self) -> None:
        """Stop listening."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._accepting.join(5)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, suppress(OSError):
            file = sock.makefile("rb")
            is_tls = (
                file.peek(1)[:1] == TLS_HANDSHAKE
            )  # whose random bytes may look like a line of three words
            first = [] if is_tls else file.readline(65536).decode("latin-1").split(" ")
            if len(first) != 3:
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                return
            headers: dict[str, str] = {}
            while (line := file.readline().strip()) != b"":
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.lower()] = value.strip()
            raw = file.read(int(headers.get("content-length", "0")))
            received = Received(first[1], headers, json.loads(raw or b"{}"))
            with self._lock:
                if received.path in QUESTIONS:
                    self.questions.append(received.path)
                    behaviour = plain(
                        self.says.get(received.path), status=200 if received.path in self.says else 404
                    )
                else:
                    self.requests.append(received)
                    behaviour = self._behaviours[0]
                    if len(self._behaviours) > 1:
                        self._behaviours.pop(0)
            behaviour(Connection(sock), received)


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Run a server while the block runs."""
    server = ModelServer()
    try:
        yield server
    finally:
        server.close()


# -- behaviours --------------------------------------------------------------------------------------------------


def plain(
    body: object,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    kind: str = "application/json",
) -> Behaviour:
    """Answer with one whole body: bytes as they are, text as UTF-8, anything else as JSON."""
    data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()

    def behave(connection: Connection, received: Received) -> None:
        sent = {
            "content-type": kind,
            "content-length": str(len(data)),
            "connection": "close",
            **(headers or {}),
        }
        connection.head(status, sent)
        connection.send(data)

    return behave


def packed(
    body: bytes, *, kind: str = "application/json", packing: str = "gzip", status: int = 200
) -> Behaviour:
    """Answer with a packed body, by gzip unless *packing* is ``deflate``."""
    data = zlib.compress(body) if packing == "deflate" else gzip.compress(body)
    return plain(data, kind=kind, headers={"content-encoding": packing}, status=status)


def streamed(
    pieces: Iterable[bytes],
    *,
    end: bool = True,
    then: Callable[[Connection], object] | None = None,
    headers: Mapping[str, str] | None = None,
    kind: str = "text/event-stream",
) -> Behaviour:
    """Answer with a chunked body; without *end* the connection closes before the body does, after *then*."""
    kept = list(pieces)

    def behave(connection: Connection, received: Received) -> None:
        sent = {
            "content-type": kind,
            "transfer-encoding": "chunked",
            "connection": "close",
            **(headers or {}),
        }
        connection.head(200, sent)
        for piece in kept:
            connection.chunk(piece)
        if then is not None:
            then(connection)
        elif end:
            connection.send(b"0\r\n\r\n")

    return behave


def dead(connection: Connection, received: Received) -> None:
    """Close without a word."""
    connection.reset()


def silent(connection: Connection, received: Received) -> None:
    """Say nothing for as long as the client waits."""
    connection.hold()


# -- the three interfaces ----------------------------------------------------------------------------------------


@dataclass
class Wire:
    """
    One interface: how its bodies look, and a model that speaks it.

    Attributes:
        name: ``chat``, ``responses`` or ``messages``.
    """

    name: str
    path: str = field(init=False)

    def __post_init__(self) -> None:
        places = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
        self.path = places[self.name]

    def model(self, url: str, **options: Any) -> OpenAIModel | AnthropicModel:
        """Return a model at *url*."""
        options = {"api_key": KEY, **options}
        if self.name == "messages":
            return AnthropicModel("claude-haiku-5-5", base_url=url, **options)
        return OpenAIModel("gpt-6-luna", base_url=f"{url}/v1", api=self.name, **options)

    def usage(self) -> dict[str, Any]:
        """Return the usage of a documented exchange in this interface's words."""
        used = DOCUMENTED_USAGE
        if self.name == "messages":
            return {
                "input_tokens": used["in"] - used["cached"],
                "output_tokens": used["out"],
                "cache_read_input_tokens": used["cached"],
                "cache_creation_input_tokens": 0,
                "output_tokens_details": {"thinking_tokens": used["reasoning"]},
            }
        kinds = ("prompt", "completion") if self.name == "chat" else ("input", "output")
        return {
            f"{kinds[0]}_tokens": used["in"],
            f"{kinds[1]}_tokens": used["out"],
            "total_tokens": used["in"] + used["out"],
            f"{kinds[0]}_tokens_details": {"cached_tokens": used["cached"]},
            f"{kinds[1]}_tokens_details": {"reasoning_tokens": used["reasoning"]},
        }

    def body(self, text: str, end: str = "stop", **more: Any) -> dict[str, Any]:
        """Return a whole response that ends by *end*, in the words of Chat Completions."""
        return getattr(self, f"_{self.name}")(text, end) | more  # type: ignore[no-any-return]

    def _chat(self, text: str, end: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None}
        if end == "refusal":
            message, end = {"role": "assistant", "content": None, "refusal": text}, "stop"
        choice = {"index": 0, "message": message, "finish_reason": end, "logprobs": None}
        return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": self.usage()}

    def _responses(self, text: str, end: str) -> dict[str, Any]:
        part = {"type": "output_text", "text": text, "annotations": []}
        if end == "refusal":
            part = {"type": "refusal", "refusal": text}
        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        return {
            "id": "resp_1",
            "object": "response",
            "status": "incomplete" if end in reasons else "completed",
            "incomplete_details": {"reason": reasons[end]} if end in reasons else None,
            "output": [
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]},
            ],
            "usage": self.usage(),
        }

    def _messages(self, text: str, end: str) -> dict[str, Any]:
        ends = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}],
            "stop_reason": ends.get(end, end),
            "usage": self.usage(),
        }

    def events(self, text: str, end: str = "stop", *, size: int = 7) -> list[bytes]:
        """Return the events of the same as a stream, text in pieces of *size* characters."""
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        return getattr(self, f"_{self.name}_events")(pieces, self.body(text, end), end)  # type: ignore[no-any-return]

    def _chat_events(self, pieces: list[str], body: dict[str, Any], end: str) -> list[bytes]:
        name = "refusal" if end == "refusal" else "content"
        end = "stop" if end == "refusal" else end
        deltas: list[dict[str, Any]] = [
            {"role": "assistant", "content": ""},
            *({name: piece} for piece in pieces),
        ]
        chunks: list[dict[str, Any]] = [
            {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            for delta in deltas
        ]
        chunks.append({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, "finish_reason": end}]})
        chunks.append({"id": "chatcmpl-1", "choices": [], "usage": body["usage"]})
        return [*(event(chunk) for chunk in chunks), b"data: [DONE]\n\n"]

    def _responses_events(self, pieces: list[str], body: dict[str, Any], end: str) -> list[bytes]:
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {"id": "resp_1", "usage": None}}
        ]
        kind = "response.refusal.delta" if end == "refusal" else "response.output_text.delta"
        events += [{"type": kind, "delta": piece} for piece in pieces]
        events += [{"type": "response.output_item.done", "item": item} for item in body["output"]]
        events.append({"type": f"response.{body['status']}", "response": body})
        return [event(data, data["type"]) for data in events]

    def _messages_events(self, pieces: list[str], body: dict[str, Any], end: str) -> list[bytes]:
        usage = self.usage() | {"output_tokens": 1}
        start: dict[str, Any] = {
            "id": "msg_1",
            "type": "message",
            "content": [],
            "stop_reason": None,
            "usage": usage,
        }
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "ping"},
        ]
        events += [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ]
        events += [
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": body["stop_reason"], "stop_sequence": None},
                "usage": {
                    "output_tokens": DOCUMENTED_USAGE["out"],
                    "output_tokens_details": {"thinking_tokens": 20},
                },
            },
            {"type": "message_stop"},
        ]
        return [event(data, data["type"]) for data in events]

    def error(
        self, words: str, *, type: str = "api_error", code: str | None = None, param: str | None = None
    ) -> Any:
        """Return the body of an error."""
        inner = {"type": type, "message": words, "param": param, "code": code}
        return {"type": "error", "error": inner, "request_id": "req_err"}


def event(data: object, name: str = "") -> bytes:
    """Return one server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


WIRES = [Wire("chat"), Wire("responses"), Wire("messages")]


class QuickPort:
    """Real clocks, but waiting takes no time: it is written down."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def now(self) -> float:
        import time

        return time.monotonic()

    def wall(self) -> float:
        return 1_795_000_000.0

    def jitter(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def asleep(self, seconds: float) -> None:
        self.waits.append(seconds)
