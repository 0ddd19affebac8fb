"""A web site on loopback that behaves well and badly, a search server beside it, and a context to call tools with."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from paor import Document, Limits, Policy, Tool, ToolOutput, web_tools
from paor.errors import ToolError
from paor.tools.web.search import SearchHit, SearchQuery, SearchReply
from paor.web import WebSettings

LOCAL = Policy(private_hosts=True)
FAST = WebSettings(host_interval_s=0, request_s=5, page_s=10, call_s=20)
Answer = Callable[["Visit"], None]

ARTICLES = {
    "/fsm.html": ("FSM basics", "A finite state machine is in exactly one state at a time. Events move it to another.", ["/mealy.html", "/guards.html"]),
    "/mealy.html": ("Mealy machines", "The output of a Mealy machine depends on its state and its input. George Mealy described it in 1955.", ["/fsm.html"]),
    "/guards.html": ("Guards", "A guard is a condition on a transition. The machine takes the transition only when the guard holds.", ["/fsm.html", "/rice.html"]),
    "/rice.html": ("Cooking rice", "Rinse the rice in cold water, then simmer it for twelve minutes with the lid closed.", []),
}  # fmt: skip


def article(title: str, text: str, links: Sequence[str] = (), *, charset: str = "utf-8") -> str:
    """Return a page as sites have them: navigation, an article with a table, a footer and a script."""
    items = "".join(f'<li><a href="{link}">about {link}</a></li>' for link in links)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="{charset}"><title>{title}</title></head><body>'
        '<nav><a href="/">Home</a> <a href="/about">About us</a></nav>'
        f"<article><h1>{title}</h1><p>{text}</p><p>This page explains the subject in more words, so that it is long "
        "enough to be taken for an article and not for a menu. It has a second sentence, and a third one.</p>"
        "<table><tr><th>from</th><th>to</th></tr><tr><td>planning</td><td>acting</td></tr></table>"
        f"<h2>See also</h2><ul>{items}</ul></article>"
        "<aside>Subscribe to our newsletter!</aside><footer>Copyright, cookies, imprint</footer>"
        "<script>var secret = 1;</script></body></html>"
    )


class Visit(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """Answer by path."""
        site = self.server.site
        path = urlsplit(self.path).path
        site.visits.append((time.monotonic(), self.path, dict(self.headers)))
        answer = site.answers.get(path)
        if answer is not None:
            answer(self)
        elif path in ARTICLES:
            self.html(article(*ARTICLES[path]))
        else:
            self.reply(b"no such page", "text/plain", status=404)

    def do_POST(self) -> None:
        """Keep what was sent, then answer by path."""
        length = int(self.headers.get("content-length", 0))
        self.server.site.bodies.append(json.loads(self.rfile.read(length)))
        self.do_GET()

    @property
    def query(self) -> dict[str, str]:
        """The query's fields."""
        return dict(parse_qsl(urlsplit(self.path).query))

    def html(self, text: str, **headers: str) -> None:
        """Send a page."""
        self.reply(text.encode(), "text/html; charset=utf-8", status=200, **headers)

    def json(self, value: object, *, status: int = 200) -> None:
        """Send JSON."""
        self.reply(json.dumps(value).encode(), "application/json", status=status)

    def reply(self, body: bytes, mime: str, *, status: int = 200, **headers: str) -> None:
        """Send a whole answer; names of headers with _ for -."""
        self.head(mime, status, content_length=str(len(body)), **headers)
        self.wfile.write(body)

    def head(self, mime: str, status: int = 200, **headers: str) -> None:
        """Send status and headers."""
        self.send_response(status)
        if mime:
            self.send_header("Content-Type", mime)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def endless(self, chunk: bytes, pause: float = 0.0) -> None:
        """Send *chunk* for ever, without a length, until the client goes or the site closes."""
        self.close_connection = True
        while not self.server.site.closing.wait(pause) if pause else not self.server.site.closing.is_set():
            try:
                self.wfile.write(chunk)
            except OSError:
                return

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    site: Site

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are what is tested."""


class Site:
    """
    A server on a free port of loopback.

    Attributes:
        answers: By path; an article of `ARTICLES` where there is none, else 404.
        visits: When, path with query, headers; of every request.
        bodies: JSON bodies that were posted.
    """

    def __init__(
        self, answers: dict[str, Answer] | None = None, *, tls: ssl.SSLContext | None = None
    ) -> None:
        self.answers = dict(answers or {})
        self.visits: list[tuple[float, str, dict[str, str]]] = []
        self.bodies: list[Any] = []
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), Visit)
        self._server.site = self
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def url(self, path: str = "", host: str = "127.0.0.1") -> str:
        """Return the URL of a path."""
        return f"http://{host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        """Paths that were asked for, without those of robots.txt."""
        return [path for _, path, _ in self.visits if path != "/robots.txt"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


# -- answers ---------------------------------------------------------------------------------------------------------


def redirect(target: str, status: int = 302) -> Answer:
    """Return an answer that sends on to *target*."""
    return lambda visit: visit.reply(b"", "text/plain", status=status, Location=target)


def sends(
    body: bytes | str, mime: str = "text/html; charset=utf-8", status: int = 200, **headers: str
) -> Answer:
    """Return an answer with this body."""
    data = body.encode() if isinstance(body, str) else body
    return lambda visit: visit.reply(data, mime, status=status, **headers)


def robots(text: str, status: int = 200) -> dict[str, Answer]:
    """Return a robots.txt."""
    return {"/robots.txt": sends(text, "text/plain", status)}


def bomb(size: int) -> bytes:
    """Return *size* zeros, packed: about a thousandth of that."""
    return gzip.compress(b"\0" * size, 9)


def packed(text: str, form: str) -> bytes:
    """Return *text* as gzip, zlib or bare deflate."""
    data = text.encode()
    if form == "gzip":
        return gzip.compress(data)
    if form == "zlib":
        return zlib.compress(data)
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


# -- calling tools ---------------------------------------------------------------------------------------------------


class Context:
    """What a tool may know, by hand."""

    run_id = "run"
    action = 1
    language = "en"
    success_criteria: tuple[str, ...] = ()
    idempotency_key = "run-1"
    answer = ""
    connection: Any = None
    deps: Any = None
    final_format: str | None = None
    timeout_s: float | None = None
    limits = Limits()
    takes_pictures = False
    resumption: Any = None
    traceparent = ""

    def __init__(
        self, documents: Sequence[Document] = (), policy: Policy = LOCAL, objective: str = "state machines"
    ) -> None:
        self.objective = objective
        self.policy = policy
        self._documents = list(documents)

    def stopped(self) -> str | None:
        """Never."""
        return None

    def documents(self, references: Sequence[str]) -> list[Document]:
        """Return all documents."""
        return self._documents

    def ask(
        self,
        request: str,
        documents: Sequence[tuple[str, str | bytes]] = (),
        *,
        instructions: str = "",
        format: str = "",
    ) -> str:
        """Refuse."""
        raise ToolError("no model")

    async def aask(
        self, request: str, documents: Sequence[tuple[str, str | bytes]] = (), **given: str
    ) -> str:
        """Refuse."""
        raise ToolError("no model")


class Index:
    """A search back end that finds what it was given, and keeps what it was asked."""

    name = "index"

    def __init__(self, *hits: SearchHit | str, answer: str = "") -> None:
        self.hits = tuple(SearchHit(hit) if isinstance(hit, str) else hit for hit in hits)
        self.answer = answer
        self.asked: list[SearchQuery] = []

    def search(self, query: SearchQuery) -> SearchReply:
        """Return everything, whatever was asked."""
        self.asked.append(query)
        return SearchReply(self.hits, self.answer)


def tools(search: Any = None, settings: WebSettings = FAST, **options: Any) -> dict[str, Tool]:
    """Return the web tools by name."""
    found = web_tools(search or Index(), settings=settings, **options)
    return {tool.name: tool for tool in found}


def scraped(url: str, settings: WebSettings = FAST, policy: Policy = LOCAL, **arguments: Any) -> ToolOutput:
    """Return what web.scrape makes of one URL."""
    given = {"query": url, **{key: value for key, value in arguments.items() if key != "resolver"}}
    options = {"resolver": arguments["resolver"]} if "resolver" in arguments else {}
    output = tools(settings=settings, **options)["web.scrape"].invoke(given, Context(policy=policy))
    assert isinstance(output, ToolOutput)
    return output


def text_of(output: ToolOutput) -> str:
    """Return the texts of all documents."""
    return "\n".join(str(document.data) for document in output.documents)
