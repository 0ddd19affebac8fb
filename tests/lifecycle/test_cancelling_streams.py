"""Cancelling while a real exchange is open: the connection is closed at once, whoever asks, and the run ends cancelled."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Event, Journal, ModelCall, OpenAIModel, Reply, Result
from paor.errors import CallStopped
from paor.events import ModelText, RunEnded
from paor.models import PromptMessage

from ..support.model_server import (
    KEY,
    WIRES,
    Behaviour,
    Connection,
    ModelServer,
    QuickPort,
    Received,
    Wire,
    model_server,
    plain,
)
from ..support.worlds import JOURNAL, PARAMETERS, SUCCESS, TOOLS
from .test_cancelling import elsewhere, judge

CHAT, RESPONSES, MESSAGES = WIRES
TEXT = json.dumps({"action": "notes.read", "actionObjective": "read", "parametersContext": "page 1"})
WRITING = [
    {"action": "ai.process", "actionObjective": "write", "parametersContext": "it"},
    PARAMETERS(aiPrompt="write"),
]
LONG_S = 60
"""How long a test waits for what should be at once: far below the timeouts of the model, which are minutes."""


class Line:
    """
    A server's end of one open exchange.

    Attributes:
        open: Set once the exchange is as the test wants it.
        closed: Set when the client has closed the connection.
    """

    def __init__(self) -> None:
        self.open, self.closed = threading.Event(), threading.Event()

    def wait_for_the_end(self, connection: Connection) -> None:
        """Hold the connection until the client closes it."""
        self.open.set()
        if connection.hold():
            self.closed.set()

    def silent(self, wire: Wire) -> Behaviour:
        """Say nothing at all."""
        return lambda connection, received: self.wait_for_the_end(connection)

    def stalled(self, wire: Wire) -> Behaviour:
        """Begin to stream, then say nothing."""

        def behave(connection: Connection, received: Received) -> None:
            connection.head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
            with suppress(OSError):  # who has heard the first piece may have closed before the last is sent
                for piece in wire.events(TEXT, size=1)[:9]:
                    connection.chunk(piece)
            self.wait_for_the_end(connection)

        return behave

    def dripping(self, wire: Wire) -> Behaviour:
        """Stream without end."""

        def behave(connection: Connection, received: Received) -> None:
            connection.head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
            pieces = wire.events(TEXT, size=1)
            try:
                for piece in pieces[:9]:
                    connection.chunk(piece)
                self.open.set()
                while not self.closed.wait(0.02):
                    connection.chunk(pieces[4])
            except OSError:
                self.closed.set()

        return behave

    def busy(self, wire: Wire) -> Behaviour:
        """Ask to be asked again in 50 seconds."""

        def behave(connection: Connection, received: Received) -> None:
            plain(wire.error("busy"), status=429, headers={"retry-after": "50"})(connection, received)
            self.closed.set()
            self.open.set()

        return behave


def listened(engine: Engine) -> Result:
    """Run with somebody listening, sync."""
    return ended(engine.stream("Work", on_close="stop"))


async def alistened(engine: Engine) -> Result:
    """Run with somebody listening, async."""
    return ended([item async for item in engine.astream("Work", on_close="stop")])


def ended(events: Iterable[Event]) -> Result:
    """Return the result that events end with."""
    (result,) = [item.result for item in events if isinstance(item, RunEnded)]
    assert isinstance(result, Result)
    return result


HOW: dict[str, Callable[[Engine], Result]] = {
    "run": lambda engine: engine.run("Work"),
    "stream": listened,
    "arun": lambda engine: asyncio.run(engine.arun("Work")),
    "astream": lambda engine: asyncio.run(alistened(engine)),
}


@contextmanager
def asking(folder: Path, server: ModelServer, wire: Wire, **options: Any) -> Iterator[Engine]:
    """Open an engine with a real client, whose own timeouts are longer than any test waits."""
    model = wire.model(server.url, stream=options.pop("live", True), timeout_s=600, **options)
    journal = Journal(folder / JOURNAL, "off")
    with Engine(model, tools=TOOLS, journal=journal, builtins=True) as engine:
        yield engine


def cancelled(engine: Engine, folder: Path, by: str) -> str:
    """Cancel the one run that is going on, from here or from another process; return what was told."""
    run_id = engine.journal.runs()[0].run_id
    return engine.cancel(run_id).status if by == "thread" else elsewhere(folder, run_id)


STATES = ("silent", "stalled", "dripping", "busy")
CASES = [
    (WIRES[(row + column) % 3], how, state)
    for row, how in enumerate(HOW)
    for column, state in enumerate(STATES)
]


@pytest.mark.parametrize(
    "wire, how, state", CASES, ids=[f"{how}-{state}-{wire.name}" for wire, how, state in CASES]
)
def test_a_cancel_from_another_thread_closes_the_open_exchange(
    wire: Wire, how: str, state: str, tmp_path: Path
) -> None:
    """Before the first byte, between two, within a stream without end, and while it is waited to ask again."""
    line = Line()
    with model_server() as server, asking(tmp_path, server, wire) as engine, ThreadPoolExecutor(1) as pool:
        server.script(getattr(line, state)(wire))
        running = pool.submit(HOW[how], engine)
        assert line.open.wait(LONG_S)
        cancelled(engine, tmp_path, "thread")
        rows = judge(engine, running.result(LONG_S))
        assert line.closed.wait(LONG_S)
        assert (len(rows), rows[0].source, rows[0].request["kind"]) == (1, "Planning", "selection")
        assert len(server.requests) == 1, "nothing more is asked"


@pytest.mark.whole
@pytest.mark.parametrize("how", HOW)
def test_a_cancel_from_another_process_closes_the_open_stream(how: str, tmp_path: Path) -> None:
    """Which knows of the run from the journal alone."""
    line = Line()
    with model_server() as server, asking(tmp_path, server, CHAT) as engine, ThreadPoolExecutor(1) as pool:
        server.script(line.stalled(CHAT))
        running = pool.submit(HOW[how], engine)
        assert line.open.wait(LONG_S)
        assert cancelled(engine, tmp_path, "process") in ("running", "failed")
        judge(engine, running.result(LONG_S))
        assert line.closed.wait(LONG_S)


@pytest.mark.parametrize("live", [False, True])
def test_a_cancel_from_another_task_closes_the_open_stream(live: bool, tmp_path: Path) -> None:
    """Of the same event loop, which the open exchange does not block."""
    line = Line()

    async def main(engine: Engine) -> Result:
        run = alistened(engine) if live else engine.arun("Work")
        task = asyncio.create_task(run)
        while not line.open.is_set():
            await asyncio.sleep(0.005)
        engine.cancel(engine.journal.runs()[0].run_id)
        return await asyncio.wait_for(task, LONG_S)

    with model_server() as server, asking(tmp_path, server, MESSAGES) as engine:
        server.script(line.stalled(MESSAGES))
        judge(engine, asyncio.run(main(engine)))
        assert line.closed.wait(LONG_S)


@pytest.mark.parametrize("how", HOW)
def test_a_cancel_closes_what_a_tool_has_the_model_write(how: str, tmp_path: Path) -> None:
    """`ai.process` waits for a text: its exchange is closed, the call has failed, and nothing more is begun."""
    line = Line()
    with model_server() as server, asking(tmp_path, server, CHAT) as engine, ThreadPoolExecutor(1) as pool:
        said = [plain(CHAT.body(json.dumps(item))) for item in WRITING]
        server.script(*said, line.stalled(CHAT))
        running = pool.submit(HOW[how], engine)
        assert line.open.wait(LONG_S)
        cancelled(engine, tmp_path, "thread")
        rows = judge(engine, running.result(LONG_S))
        assert line.closed.wait(LONG_S) and len(server.requests) == 3
        (call,) = [row for row in rows if row.request["kind"] == "tool"]
        if call.trigger == "execute":
            body = engine.journal.payload(call.run, call.change["n"]).body
            assert "what the model would have written is not waited for" in str(body)


def test_a_whole_reply_that_is_waited_for_without_a_stream_is_closed_too(tmp_path: Path) -> None:
    """The longest wait of all: nothing comes before the whole."""
    line = Line()
    with model_server() as server, asking(tmp_path, server, RESPONSES, live=False) as engine:
        server.script(line.silent(RESPONSES))
        with ThreadPoolExecutor(1) as pool:
            running: Future[Result] = pool.submit(engine.run, "Work")
            assert line.open.wait(LONG_S)
            cancelled(engine, tmp_path, "thread")
            judge(engine, running.result(LONG_S))
        assert line.closed.wait(LONG_S) and server.requests[0].body.get("stream", False) is False


@pytest.mark.parametrize("state", ["stalled", "dripping"])
def test_who_stops_listening_closes_the_stream_at_once(state: str, tmp_path: Path) -> None:
    """Also one that says nothing any more; the run is where it stood and can be resumed."""
    line = Line()
    with model_server() as server, asking(tmp_path, server, CHAT) as engine:
        server.script(getattr(line, state)(CHAT))
        stream = engine.stream("Work", on_close="stop")
        run_id = next(item.run_id for item in stream if isinstance(item, ModelText))
        stream.close()
        assert line.closed.wait(LONG_S) and engine.journal.transitions(run_id) == []
        server.script(
            *(plain(CHAT.body(json.dumps(item))) for item in ({"action": None, "answer": "so"}, SUCCESS))
        )
        assert engine.resume(run_id).state == "Done"


def test_many_open_streams_are_told_apart(tmp_path: Path) -> None:
    """Of six runs in six threads one is cancelled: only its stream is closed."""
    lines = [Line() for _ in range(6)]
    with model_server() as server, asking(tmp_path, server, CHAT) as engine, ThreadPoolExecutor(6) as pool:
        running: list[Future[Result]] = []
        for line in lines:
            server.script(line.stalled(CHAT))
            running.append(pool.submit(engine.run, "Work"))
            assert line.open.wait(LONG_S)
        ids = [row.run_id for row in sorted(engine.journal.runs(), key=lambda row: row.run)]
        engine.cancel(ids[2])
        assert running[2].result(LONG_S).reason == "cancelled" and lines[2].closed.wait(LONG_S)
        assert [line.closed.is_set() for line in lines] == [number == 2 for number in range(6)]
        for run_id in ids[:2] + ids[3:]:
            engine.cancel(run_id)
        assert {future.result(LONG_S).reason for future in running} == {"cancelled"}
        assert engine.journal.verify() == []


def test_a_client_that_a_host_has_made_is_left_at_its_next_piece(tmp_path: Path) -> None:
    """Its event loop and sockets are the host's: it is not asked beside its thread."""
    import openai

    line = Line()
    with model_server() as server, openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1") as client:
        model = OpenAIModel("m", client=client, stream=True)
        engine = Engine(model, tools=TOOLS, journal=Journal(tmp_path / JOURNAL, "off"))
        with engine, ThreadPoolExecutor(1) as pool:
            server.script(line.dripping(CHAT))
            running: Future[Result] = pool.submit(engine.run, "Work")
            assert line.open.wait(LONG_S)
            cancelled(engine, tmp_path, "thread")
            judge(engine, running.result(LONG_S))
            assert line.closed.wait(LONG_S)


# -- models of hosts -----------------------------------------------------------------------------------------------


class Polite:
    """A model of a host's that looks whether it is to stop."""

    name, stops = "polite", True

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.stopped = False

    def ask(self, call: ModelCall) -> Reply:
        """Wait to be told."""
        self.inside.set()
        assert call.is_cancelled is not None
        while not call.is_cancelled():
            threading.Event().wait(0.01)
        self.stopped = True
        raise CallStopped

    async def aask(self, call: ModelCall) -> Reply:
        """Not used here."""
        raise NotImplementedError


def test_a_hosts_own_model_can_stop_as_well(tmp_path: Path) -> None:
    """With ``stops = True`` it is told, and `CallStopped` ends the run as cancelled."""
    model = Polite()
    with (
        Engine(model, tools=TOOLS, journal=Journal(tmp_path / JOURNAL, "off")) as engine,
        ThreadPoolExecutor(1) as pool,
    ):
        running: Future[Result] = pool.submit(engine.run, "Work")
        assert model.inside.wait(LONG_S)
        cancelled(engine, tmp_path, "thread")
        judge(engine, running.result(LONG_S))
        assert model.stopped


def test_a_model_that_stops_without_being_told_is_a_fault(tmp_path: Path) -> None:
    """Nobody has cancelled the run, so it is not said to be."""

    class Moody(Polite):
        def ask(self, call: ModelCall) -> Reply:
            raise CallStopped("enough")

    with Engine(Moody(), tools=TOOLS, journal=Journal(tmp_path / JOURNAL, "off")) as engine:
        result = engine.run("Work")
        assert (result.reason, engine.journal.transitions(result.run_id)[0].outcome["code"]) == (
            "model_error",
            "unexpected",
        )


def test_an_exchange_beside_its_thread_raises_what_it_would_have_raised() -> None:
    """Faults and replies alike, without anything of the SDK behind them; and it is begun anew after them."""
    from paor.errors import ModelUnavailable

    with model_server() as server:
        call = ModelCall("text", (PromptMessage("user", "x"),), is_cancelled=lambda: False)
        for wire in WIRES:
            model = wire.model(server.url, port=QuickPort())
            server.script(plain(wire.error("no"), status=401), plain(wire.body("fine")))
            with pytest.raises(ModelUnavailable) as caught:
                model.ask(call)
            assert caught.value.__cause__ is None and caught.value.__context__ is None
            assert model.ask(call).text == "fine"
        with pytest.raises(CallStopped):
            line = Line()
            server.script(line.silent(CHAT))
            CHAT.model(server.url, timeout_s=5, retries=0).ask(
                ModelCall("text", call.messages, is_cancelled=line.open.is_set)
            )
        assert line.closed.wait(LONG_S)
