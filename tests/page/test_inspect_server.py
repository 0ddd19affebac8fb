"""`paor.inspect.serve` in a program, what of uvicorn is muted for it, and how the journal is opened for the page."""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="needs paor[inspect]")

from paor import Journal
from paor.errors import UsageError
from paor.inspect import app, serve

from .inside import AsRecorded, listen
from .inspect_kit import Browser, bank, own_environment, running, sent
from .test_inspect import SHOP

PROGRAM = """
import signal

import paor.inspect
from shop import make

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started with it ignored

def options(row):
    print("goes on", row.run_id, flush=True)
    return {}

def actor(scope):
    return dict(scope["headers"]).get(b"x-user", b"").decode() or None

try:
    paor.inspect.serve(
        make("paor.db"),
        port=0,
        token="a-token-of-my-own-42",
        hosts=("shop.example",),
        options=options,
        actor=actor,
        ready=lambda address: print(address, flush=True),
    )
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.whole
def test_a_program_serves_its_engine(tmp_path: Path) -> None:
    """What it was given holds: its token, its names, who its users are, and what a run goes on with; Ctrl-C ends it while a page listens."""
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    with bank(tmp_path / "paor.db", [], 5) as engine:
        run_id = engine.run("Pay five").run_id
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=own_environment(),
        stdout=pipe,
        stderr=pipe,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address.endswith("/?token=a-token-of-my-own-42"), process.stderr and process.stderr.read()
            browser = Browser(address)
            assert browser.get("data/index", Host="evil.example").status == 403
            (wait,) = browser.get("data/index").json["waits"]
            body = {"name": wait["name"], "answer": {"approve": True}, "actor": "eve"}
            with browser.events(f"events/{run_id}?after=1") as events:
                assert browser.post(f"answer/{run_id}", body).status == 403
                assert browser.post(f"answer/{run_id}", body, **{"X-User": "ann"}).json["drives"] is True
                assert [name for name, _, _ in events][-1] == "end"
            with browser.events("events") as events:
                next(events)
                process.send_signal(signal.SIGINT)
                out, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert out.splitlines() == [f"goes on {run_id}", "paying 5", "interrupted"] and "Traceback" not in errors
    with Journal(tmp_path / "paor.db", read_only=True) as journal:
        assert [decided.actor for call in journal.calls(run_id) for decided in call.decided] == ["ann"]


# -- what uvicorn says ---------------------------------------------------------------------------------------------


def test_what_cannot_be_served_leaves_its_port(tmp_path: Path) -> None:
    """A port that somebody has is refused; one that was taken for settings that cannot be used is free again."""
    with bank(tmp_path / "runs.db", [], 5) as engine:
        with closing(listen("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(UsageError, match=f"127.0.0.1:{port} cannot be used"):
                serve(engine, port=port)
        for options in ({"token": "short"}, {"hosts": ("a b",)}):
            with pytest.raises(UsageError, match="expected"):
                serve(engine, port=port, **options)
        with pytest.raises(UsageError, match="is for an engine"):
            serve(engine.journal, port=port, options=lambda row: {})
        listen("127.0.0.1", port).close()


@contextmanager
def another_server() -> Iterator[int]:
    """Serve an application of somebody else's in this process; give its port."""

    async def hello(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    bound = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(hello, log_config=None, http="h11", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)


def test_another_server_of_this_process_is_not_muted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines are there, before ours and after; of ours, neither what a stranger sends nor an address with its token."""
    for name in ("uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        monkeypatch.setattr(logger, "handlers", [caplog.handler])
        monkeypatch.setattr(logger, "propagate", False)
        caplog.set_level(logging.INFO, name)
    with bank(tmp_path / "runs.db", [], 5) as engine, another_server() as port:
        with running(app(engine.journal)) as address:
            browser = Browser(address)
            caplog.clear()
            for one in (browser.port, port):
                sent(one, b"GET /\x00 HTTP/1.1\r\n\r\n")
                sent(one, b"GET /?token=of-a-person HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            Browser(address)
            seen = [record.getMessage() for record in caplog.records]
        assert [text for text in seen if "Invalid HTTP request" in text] == ["Invalid HTTP request received."]
        assert [text for text in seen if "token" in text] == [text for text in seen if "of-a-person" in text]
        assert len([text for text in seen if "of-a-person" in text]) == 1
        caplog.clear()
        sent(port, b"GET /later HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert any("/later" in record.getMessage() for record in caplog.records)
        assert logging.getLogger("uvicorn.error").level == logging.INFO


# -- the journal ---------------------------------------------------------------------------------------------------


def test_the_page_waits_for_the_file_as_long_as_its_host(tmp_path: Path) -> None:
    """Each connection that is opened for it, the snapshot of a search too."""
    with Journal(tmp_path / "runs.db", busy_timeout_s=0.25) as journal:
        inspector = app(journal)
        reader = inspector._reading.reader
        assert reader is not journal.reader and reader.query("PRAGMA busy_timeout") == [(250,)]
        with reader.snapshot() as own:
            assert own.query("PRAGMA busy_timeout") == [(250,)] and own.source.busy_timeout_s == 0.25
        inspector.close()
        acting = AsRecorded(journal.path, busy_timeout_s=0.25)
        assert acting._runner().journal.reader.query("PRAGMA busy_timeout") == [(250,)]
        acting.close()


BEGINNINGS = {
    "nothing": b"",
    "half a line": b"GET / HT",
    "half a head": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "half a body": b"POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{",
    "a second one": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / HT",
}


@pytest.mark.parametrize(
    "said",
    [name if name != "a second one" else pytest.param(name, marks=pytest.mark.whole) for name in BEGINNINGS],
)
def test_a_connection_that_falls_silent_is_cut(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, within and after a request: as many as are served at once could otherwise keep everybody else out."""
    monkeypatch.setattr("paor.inspect.server.REQUEST_S", 0.2)
    with bank(tmp_path / "paor.db", [], 5) as engine:
        engine.run("Pay five")
    with Journal(tmp_path / "paor.db", read_only=True) as journal, running(app(journal)) as address:
        port = int(address.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(BEGINNINGS[said])
            with suppress(ConnectionResetError):
                while connection.recv(65536):
                    pass  # until it is cut; else the time of the socket is over
