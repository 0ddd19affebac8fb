"""What the tests of `paor.inspect` share: runs that wait, a real server on loopback, and a browser of a few lines."""

from __future__ import annotations

import http.client
import json
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import paor
from paor import Engine, Journal, Policy, ScriptedModel, Tool, tool
from paor.testing import SeededIds, call, refine, review

from ..support.pages import environment
from .inside import Inspector, listen, server_of

ASKS = Policy(approvals=("bank.pay",))
Header = tuple[str, str]


def paying(paid: list[int]) -> Tool:
    """Return a tool that pays, once a call."""

    @tool("bank.pay", effect="once", repeat_allowed=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    return pay


def payments(*amounts: int) -> list[Any]:
    """Return the replies of a model that pays, and ends."""
    script: list[Any] = []
    for at, amount in enumerate(amounts):
        script += [*call("bank.pay", amount=amount), refine("stop" if at == len(amounts) - 1 else "continue")]
    return [*script, review("success", answer="All is paid.")]


def bank(journal: Path | Journal | str, paid: list[int], *amounts: int, **options: Any) -> Engine:
    """Return an engine whose runs pay after an approval each."""
    given = journal if isinstance(journal, Journal) else str(journal)
    ids = options.pop("ids", None) or SeededIds("bank")
    return Engine(ScriptedModel(payments(*amounts)), [paying(paid)], given, policy=ASKS, ids=ids, **options)


def rows_of(path: Path | str) -> list[Any]:
    """Return all that an action could change in a journal's file: rows, runs, and requests to cancel."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return [
            connection.execute(sql).fetchall()
            for sql in (
                "SELECT id, hash FROM transitions ORDER BY id",
                "SELECT run_id FROM specs ORDER BY run",
                "SELECT run, cancel FROM leases ORDER BY run",
            )
        ]


def own_environment(**variables: str) -> dict[str, str]:
    """Return the environment of a process that uses the same paor as these tests."""
    return {**environment(), "PYTHONPATH": str(Path(paor.__file__).parents[1]), **variables}


class Answer:
    """
    What a server answered.

    Attributes:
        status: Of the answer; 0 where the connection was closed without one.
        headers: By name in small letters.
        body: As bytes.
    """

    def __init__(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers}

    @property
    def json(self) -> Any:
        """The body read as JSON."""
        return json.loads(self.body)


class Browser:
    """
    One person's browser: it has opened the address with the token.

    Args:
        address: As the server told it.
        base: Where the application stands.
    """

    def __init__(self, address: str, base: str = "/") -> None:
        place, _, self.token = address.partition("?token=")
        self.port = int(place.split("/")[2].rpartition(":")[2])
        self.host, self.base, self.cookie = f"127.0.0.1:{self.port}", base, ""
        if self.token:
            opened = self.ask("GET", f"?token={self.token}")
            assert opened.status == 303, opened.body
            self.cookie = opened.headers["set-cookie"].partition(";")[0]
        self.page_token = self.get("data/index").json["token"]

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Ask as a browser does, with the cookie."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        own = {"Cookie": self.cookie} if self.cookie else {}
        with closing(connection):
            connection.request(method, self.base + path, body, {**own, **headers})
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())

    def get(self, path: str, **headers: str) -> Answer:
        """Read something."""
        return self.ask("GET", path, None, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        """Write something, as the page does."""
        return self.ask("POST", path, json.dumps(body).encode(), **self.writing() | headers)

    def writing(self) -> dict[str, str]:
        """Return the headers of a write, without the cookie."""
        return {
            "X-Paor-Token": self.page_token,
            "Content-Type": "application/json",
            "Origin": f"http://{self.host}",
        }

    @contextmanager
    def events(self, path: str, **headers: str) -> Iterator[Events]:
        """Listen to a stream for as long as the block runs."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with closing(connection):
            connection.request("GET", self.base + path, headers={"Cookie": self.cookie, **headers})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield Events(answer, connection)


class Events:
    """Events of a stream, one after the other, as name, id and data; comments are left out."""

    def __init__(self, answer: http.client.HTTPResponse, connection: http.client.HTTPConnection) -> None:
        self.answer, self.connection = answer, connection

    def __iter__(self) -> Iterator[tuple[str, str, Any]]:
        return self

    def __next__(self) -> tuple[str, str, Any]:
        found: dict[str, str] = {}
        until = time.monotonic() + 60  # a fuse: a stream that says nothing goes on for ever
        while time.monotonic() < until:
            line = self.answer.readline().decode()
            if not line:
                raise StopIteration
            name, _, value = line.rstrip("\n").partition(": ")
            if line == "\n" and "data" in found:
                return found.get("event", ""), found.get("id", ""), json.loads(found["data"])
            if name:
                found[name] = value
        raise AssertionError("nothing was told for a minute")


@contextmanager
def served(inspector: Inspector) -> Iterator[Browser]:
    """Serve an application with uvicorn on a free port, and open it."""
    with running(inspector) as address:
        yield Browser(address)


@contextmanager
def running(inspector: Inspector, host: str = "127.0.0.1", **options: Any) -> Iterator[str]:
    """Serve an application with uvicorn on a free port; give the address."""
    bound, begun, told = listen(host, 0, **options), threading.Event(), []

    def ready(address: str) -> None:
        told.append(address)
        begun.set()

    server = server_of(inspector, bound, ready)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        assert begun.wait(20)
        yield told[0]
    finally:
        inspector.stop()
        server.should_exit = True
        thread.join(20)
        inspector.close()
        bound.close()
    assert not thread.is_alive()


def sent(port: int, data: bytes) -> Answer:
    """Send bytes as they are and return what comes back; nothing of them is checked or completed."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            connection.sendall(data)
            answer = http.client.HTTPResponse(connection, method="GET")
            answer.begin()
            return Answer(answer.status, answer.getheaders(), answer.read())
        except (http.client.HTTPException, ConnectionError):
            return Answer(0, [], b"")


def request(method: str, target: str, headers: Sequence[Header], body: bytes = b"") -> bytes:
    """Return a request as bytes; a header may stand twice, and may hold anything."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\nConnection: close\r\n\r\n" + body
