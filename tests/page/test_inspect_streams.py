"""Streams under strain: a run that cannot be read, a change between two requests, long texts, too many clients, deaf ones, and bugs."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs paor[inspect]")

from paor import Engine
from paor.errors import JournalBusy
from paor.inspect import app

from .inside import KEPT, KEPT_BYTES, EventStream, Feed, Views
from .inspect_kit import bank, served


def resumed(engine: Engine, run_id: str) -> None:
    """Answer what a run waits for, and drive it to its end."""
    question = engine.result(run_id).waiting_for
    assert question is not None
    engine.resume(run_id, answer={"approve": True}, question=question.id)


def test_a_run_that_cannot_be_read_silences_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody listens to it while it is removed from the file; the other run and the index go on, and it is not named with every look."""
    monkeypatch.setattr("paor.inspect.live_events.HEARTBEAT_S", 3600.0)  # so that who waits in vain fails
    path = tmp_path / "runs.db"
    with bank(path, [], 5) as engine, served(app(engine.journal)) as browser:
        broken, other = [engine.run("Pay").run_id for _ in range(2)]
        with (
            browser.events(f"events/{broken}") as one,
            browser.events(f"events/{other}?after=1") as two,
            browser.events("events") as index,
            caplog.at_level(logging.WARNING, "paor"),
        ):
            next(one), next(index)
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("DELETE FROM specs WHERE run_id = ?", (broken,))
            resumed(engine, other)
            assert [name for name, _, _ in two][-1] == "end"
            lines: list[Any] = []
            while not any(line["status"] == "done" for line in lines):
                lines += next(index)[2]["runs"]
            for _ in range(4):  # each is a look at every run that somebody listens to
                later = engine.run("Pay").run_id
                while not any(line["id"] == later for line in lines):
                    lines += next(index)[2]["runs"]
            named = [record.getMessage() for record in caplog.records]
            # once by its own stream, and once by the list where that was reading it just then
            assert 1 <= sum(text.startswith(f"run {broken}: cannot be shown") for text in named) <= 2


def test_a_change_between_the_index_and_its_events_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index says where its events go on; who asks for those after it is told what others were told of meanwhile, and of nothing that has not changed."""
    monkeypatch.setattr("paor.inspect.live_events.NEWEST", 1)
    monkeypatch.setattr("paor.inspect.live_events.HEARTBEAT_S", 0.1)
    with bank(tmp_path / "runs.db", [], 5) as engine:
        old, *_ = [engine.run("Pay").run_id for _ in range(3)]
        with served(app(engine.journal)) as browser:
            at = browser.get("data/index").json["at"]
            with browser.events(f"events?after={at}") as events:
                lines = [events.answer.readline() for _ in range(6)]
                assert lines == [b"retry: 1000\n", b"\n", b":\n", b"\n", b":\n", b"\n"]
            monkeypatch.setattr(
                "paor.inspect.live_events.HEARTBEAT_S", 3600.0
            )  # so that who waits in vain fails
            at = browser.get("data/index").json["at"]
            with browser.events(f"events?after={at}") as others:
                engine.cancel(old)
                told = next(others)[2]["runs"]
                with browser.events(f"events?after={at}") as events:
                    assert next(events)[2]["runs"] == told
            assert [(line["id"], line["status"]) for line in told] == [(old, "failed")]
            assert "at" not in browser.get(f"data/run/{old}").json


def test_a_change_that_could_not_be_told_is_told_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is busy while the line of a run is read: nothing is written after it, and it comes all the same."""
    line = Views.line
    failed: list[str] = []

    def busy(self: Views, run_id: str) -> dict[str, Any]:
        if not failed:
            failed.append(run_id)
            raise JournalBusy("busy")
        return line(self, run_id)

    with bank(tmp_path / "runs.db", [], 5) as engine, served(app(engine.journal)) as browser:
        run_id = engine.run("Pay").run_id
        at = browser.get("data/index").json["at"]
        monkeypatch.setattr(Views, "line", busy)
        monkeypatch.setattr("paor.inspect.live_events.HEARTBEAT_S", 3600.0)  # so that who waits in vain fails
        engine.cancel(run_id)
        with browser.events(f"events?after={at}") as events:
            assert [item["id"] for item in next(events)[2]["runs"]] == [run_id]
    assert failed == [run_id]


def test_a_row_does_not_repeat_the_texts_of_its_run(tmp_path: Path) -> None:
    """An objective of 100,000 characters is in no row; what a row changes of the line is."""
    with bank(tmp_path / "runs.db", [], 5) as engine, served(app(engine.journal)) as browser:
        run_id = engine.run("x" * 100_000, metadata={"tenant": "y" * 1000}).run_id
        resumed(engine, run_id)
        with browser.events(f"events/{run_id}") as events:
            told = list(events)
        for name, _, data in told[:-1]:
            assert name == "row" and len(str(data)) < 10_000
            assert data["line"]["status"] == "done"
            assert not data["line"].keys() & {"objective", "metadata", "key"}


def test_what_is_kept_for_those_who_listen_is_bounded() -> None:
    """By number and by bytes, the newest; who needs an older one is not told that it has all."""
    feed: Feed[bytes] = Feed(0)
    for count in range(1, 30):
        feed.tell([(count, bytes(KEPT_BYTES // 10))])
        assert sum(len(data) for _, data in feed.kept) <= KEPT_BYTES
    assert [told[0] for told in feed.kept] == list(range(20, 30))
    assert feed.after(19) == list(feed.kept) and feed.after(18) is None and feed.after(29) == []
    feed.tell([(30, bytes(KEPT_BYTES + 1))])
    assert list(feed.kept) == [] and feed.after(29) is None and feed.after(30) == []
    feed.tell([(number, b"x") for number in range(31, 31 + 2 * KEPT)])
    assert [told[0] for told in feed.kept] == list(range(31 + KEPT, 31 + 2 * KEPT))


# -- without a socket ----------------------------------------------------------------------------------------------


class Client:
    """One client of the application, without a socket: it takes what it is sent, until it is deaf or goes."""

    def __init__(self, path: str, method: str = "GET") -> None:
        self.gone, self.status, self.sent = asyncio.Event(), 0, b""
        self.begun = asyncio.Event()
        self.deaf_after: bytes | None = None
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "scheme": "http",
            "headers": [(b"host", b"127.0.0.1:80")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.begun.set()
            return
        if self.deaf_after is not None and self.deaf_after in self.sent:
            await asyncio.Event().wait()
        self.sent += message["body"]


def test_of_clients_that_come_at_once_no_more_are_let_in_than_may_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each counts before it listens; one that has gone counts no more, and one that wants only the headers has gone at once."""
    monkeypatch.setattr("paor.inspect.live_events.CLIENTS_MAX", 2)
    listens = asyncio.Event()

    async def slowly(_hub: Any, _last: str) -> AsyncIterator[bytes]:
        await listens.wait()
        yield b"data: {}\n\n"

    monkeypatch.setattr("paor.inspect.application.index_events", slowly)

    async def all_at_once(inspector: Any) -> list[int]:
        clients = [Client("/events") for _ in range(5)]
        asking = [asyncio.create_task(inspector(one.scope, one.receive, one.send)) for one in clients]
        await asyncio.gather(*(one.begun.wait() for one in clients))
        for one in clients:
            one.gone.set()
        await asyncio.gather(*asking)
        later = [Client("/events", "HEAD") for _ in range(5)]
        for one in later:
            await inspector(one.scope, one.receive, one.send)
        return [*sorted(one.status for one in clients), *(one.status for one in later)]

    with bank(tmp_path / "runs.db", [], 5) as engine:
        inspector = app(engine.journal, token=False)
        assert asyncio.run(all_at_once(inspector)) == [200, 200, 503, 503, 503, *[200] * 5]
        inspector.close()


def stream_of(events: AsyncIterator[bytes], left: list[str]) -> EventStream:
    """Return a stream that notes when it has ended."""
    return EventStream(events, str.upper, lambda: left.append("left"))


@pytest.mark.parametrize("after", [b"", b"retry", b"data: 1"])
def test_a_client_that_takes_nothing_is_let_go(
    after: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its connection stays open and it takes no more: what it was to be sent ends, and that is no news."""
    monkeypatch.setattr("paor.inspect.live_events.SEND_S", 0.05)
    left: list[str] = []

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"data: 1\n\n"
        finally:
            left.append("events ended")

    async def listen() -> None:
        client = Client("/events")
        client.deaf_after = after
        await asyncio.wait_for(stream_of(endless(), left)(client.scope, client.receive, client.send), 60)

    with caplog.at_level(logging.INFO, "paor"):
        asyncio.run(listen())
    assert left == (["left"] if after == b"" else ["events ended", "left"])
    assert not caplog.records


def test_a_bug_in_a_stream_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """With its traceback; the client is told where to look, and its stream ends."""
    left: list[str] = []

    async def broken() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        raise ZeroDivisionError("the hidden text")

    async def listen() -> bytes:
        client = Client("/events")
        await stream_of(broken(), left)(client.scope, client.receive, client.send)
        return client.sent

    with caplog.at_level(logging.ERROR, "paor"):
        sent = asyncio.run(listen())
    (record,) = caplog.records
    assert record.exc_info is not None and record.exc_info[0] is ZeroDivisionError
    assert b"ZeroDivisionError: see the log" in sent and b"hidden" not in sent and left == ["left"]
