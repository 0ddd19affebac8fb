"""What is new comes to all who listen: from any process, from where a client stopped, and whatever other clients do."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs paor[inspect]")

from paor import Engine, Journal, ModelCall, Reply, Result, ScriptedModel, tool
from paor.inspect import app
from paor.testing import SeededIds, call_tools, step

from ..support.pages import ROOT
from .inside import Changes, JournalView, Views
from .inspect_kit import Browser, Events, bank, own_environment, paying, payments, served


def writer(path: Path, pages: int, pause_s: float = 0.0) -> subprocess.Popen[str]:
    """Start a process that drives a run once it is told to."""
    command = [sys.executable, "-m", "tests.page.inspect_writer", str(path), str(pages), str(pause_s)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=own_environment(), stdin=pipe, stdout=pipe, text=True)


def go(process: subprocess.Popen[str]) -> None:
    """Let the process begin."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def first_run(browser: Browser) -> str:
    """Return the id of the first run, once it is there."""
    with browser.events("events") as events:
        return str(next(data["runs"][0]["id"] for _, _, data in events if data["runs"]))


def rows_seen(events: Events) -> list[int]:
    """Return the numbers of all rows up to the end of a run."""
    seen = []
    for name, number, data in events:
        if name == "end":
            assert data["line"]["status"] == "done"
            break
        assert name == "row", (name, number, data)
        assert int(number) == data["row"]["seq"] and data["line"]["id"]
        seen.append(data["row"]["seq"])
    return seen


@pytest.mark.parametrize("how", ["Last-Event-ID", "after"])
def test_a_client_goes_on_where_it_stopped(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each row as the last one that it has, in a run that waits and in one that has ended; few rows are kept for it."""
    monkeypatch.setattr("paor.fsm.journal.feeds.KEPT", 3)
    with bank(tmp_path / "runs.db", [], 5) as engine, served(app(engine.journal)) as browser:
        run_id = engine.run("Pay").run_id

        def rest(after: int, count: int) -> list[tuple[str, str, Any]]:
            headers = {"Last-Event-ID": str(after)} if how == "Last-Event-ID" else {}
            query = f"?after={after}" if how == "after" else "?after=-1"
            with browser.events(f"events/{run_id}{query}", **headers) as events:
                return list(islice(events, count))

        assert [data["row"]["seq"] for _, _, data in rest(-1, 2)] == [0, 1]
        question = engine.result(run_id).waiting_for
        assert question is not None
        engine.resume(run_id, answer={"approve": True}, question=question.id)
        head = engine.journal.run(run_id).head_seq
        whole = rest(-1, head + 2)
        assert [name for name, _, _ in whole] == ["row"] * (head + 1) + ["end"]
        for after in range(head + 1):
            assert [item[:2] for item in rest(after, head + 2)] == [item[:2] for item in whole[after + 1 :]]
        assert [name for name, _, _ in rest(head + 5, 2)] == ["end"]


@pytest.mark.whole
def test_100_clients_of_one_run_see_every_row(tmp_path: Path) -> None:
    """While it is driven by another process; one thread looks at the file for all of them."""
    path = tmp_path / "runs.db"
    Journal(path).close()
    with (
        writer(path, 15, 0.01) as process,
        Journal(path, read_only=True) as journal,
        served(app(journal)) as browser,
    ):
        go(process)
        run_id = first_run(browser)

        def listen(_: int) -> list[int]:
            with browser.events(f"events/{run_id}") as events:
                return rows_seen(events)

        with ThreadPoolExecutor(100) as pool:
            seen = list(pool.map(listen, range(100)))
        out, _ = process.communicate(timeout=60)
        rows = [int(line.split()[0]) for line in out.splitlines()]
        assert seen == [rows] * 100
        watching = [thread for thread in threading.enumerate() if thread.name == "paor-events"]
        assert len(watching) <= 1


@pytest.mark.whole
def test_clients_that_take_nothing_hold_nobody_up(tmp_path: Path) -> None:
    """Twenty of them are connected and read nothing; the twenty-first sees every row, and the server ends."""
    path = tmp_path / "runs.db"
    Journal(path).close()
    with (
        writer(path, 20) as process,
        Journal(path, read_only=True) as journal,
        served(app(journal)) as browser,
    ):
        go(process)
        run_id = first_run(browser)
        deaf = []
        for _ in range(20):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.connect(("127.0.0.1", browser.port))
            lines = (
                f"GET /events/{run_id} HTTP/1.1\r\nHost: {browser.host}\r\nCookie: {browser.cookie}\r\n\r\n"
            )
            connection.sendall(lines.encode())
            deaf.append(connection)
        with browser.events(f"events/{run_id}") as events:
            seen = rows_seen(events)
        process.communicate(timeout=60)
        assert seen == list(range(journal.run(run_id).head_seq + 1))
        for connection in deaf[:10]:
            connection.close()  # the others are still there when the server ends


def test_a_run_that_has_no_row_yet_has_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opens it while its model writes the first reply hears nothing but heartbeats before the first row."""
    monkeypatch.setattr("paor.inspect.live_events.HEARTBEAT_S", 0.05)
    asked, answer = threading.Event(), threading.Event()

    class Slow(ScriptedModel):
        """Answers when it is told to."""

        def ask(self, ask: ModelCall) -> Reply:
            asked.set()
            assert answer.wait(30)
            return super().ask(ask)

    model = Slow(payments(5))
    with (
        Engine(model, [paying([])], tmp_path / "runs.db") as engine,
        served(app(engine.journal)) as browser,
        ThreadPoolExecutor(1) as pool,
    ):
        running: Future[Result] = pool.submit(engine.run, "Pay")
        try:
            assert asked.wait(30)
            with browser.events(f"events/{first_run(browser)}") as events:
                assert [events.answer.readline() for _ in range(3)] == [b"retry: 1000\n", b"\n", b":\n"]
                answer.set()
                seen = rows_seen(events)
        finally:
            answer.set()
        assert seen == list(range(engine.journal.run(running.result(30).run_id).head_seq + 1))


@pytest.mark.parametrize("count", [3, 6, 12, 40, pytest.param(300, marks=pytest.mark.whole)])
def test_a_run_that_was_opened_keeps_nobody_in_the_past(count: int, tmp_path: Path) -> None:
    """The oldest and the newest of many runs are opened, as pages do; a run that another process drives then is in every list."""
    path = tmp_path / "runs.db"
    replies: list[Any] = [call_tools(step("bank.pay", amount=5)), "It is paid."] * count
    with (
        Engine(ScriptedModel(replies), [paying([])], path, ids=SeededIds("many"), profile="native") as engine,
        writer(path, 2) as process,
        served(app(engine.journal)) as browser,
        browser.events("events") as events,
    ):
        next(events)
        journal = engine.journal
        runs = [engine.run(f"Pay {number}").run_id for number in range(count)]
        for run_id in (runs[0], runs[-1]):
            head = journal.run(run_id).head_seq
            with browser.events(f"events/{run_id}") as opened:
                assert rows_seen(opened) == list(range(head + 1))
        go(process)
        process.communicate(timeout=60)
        for name, _, data in events:
            assert name == "runs"
            if any(line["status"] == "done" and line["id"] not in runs for line in data["runs"]):
                break
        assert len(browser.get("data/index").json["runs"]) == count + 1


def test_who_is_shown_less_than_the_journal_holds_is_told_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A statement that is not read to its end keeps what reads for all pages at the journal as it was then."""
    path = tmp_path / "runs.db"
    with (
        bank(path, [], 5) as engine,  # which keeps the file as one that is written, not one that is at rest
        writer(path, 2) as process,
        served(shown := app(engine.journal)) as browser,
        browser.events("events") as events,
        ExitStack() as listening,
    ):
        next(events)
        before = engine.run("Pay").run_id
        while not next(events)[2]["waits"]:
            pass
        quiet = listening.enter_context(browser.events(f"events/{before}"))
        head = engine.journal.run(before).head_seq
        while next(quiet)[1] != str(head):
            pass
        held = shown._views.reader.source.scan(
            "SELECT id FROM transitions WHERE id >= ? ORDER BY id", 0, size=1
        )
        next(held)
        go(process)
        process.communicate(timeout=60)
        for name, _, data in events:
            if name == "behind":
                break
            assert [line["id"] for line in data["runs"]] == [before]  # what was still to be told of it
        assert "older than the journal" in caplog.text
        assert [line["id"] for line in browser.get("data/index").json["runs"]] == [before]
        assert next(quiet) == ("behind", "", {"behind": True})
        held.close()
        assert next(quiet) == ("behind", "", {"behind": False}), "though this run has nothing new"
        assert next(
            line["status"] for _, _, data in events for line in data.get("runs", ()) if line["id"] != before
        )
        assert len(browser.get("data/index").json["runs"]) == 2


def test_the_index_tells_what_changed(tmp_path: Path) -> None:
    """A run that begins, waits and ends; a client that comes again gets what it has missed, a stranger's number everything."""
    with bank(tmp_path / "runs.db", [], 5) as engine, served(app(engine.journal)) as browser:
        with browser.events("events") as events:
            assert next(events)[2] == {"runs": [], "waits": []}
            run_id = engine.run("Pay").run_id
            line: dict[str, Any] = {}
            last = ""
            while line.get("status") != "waiting":
                _, last, data = next(events)
                line = data["runs"][0]
            assert line["id"] == run_id and data["waits"][0]["run"] == run_id
        question = engine.result(run_id).waiting_for
        assert question is not None
        engine.resume(run_id, answer={"approve": True}, question=question.id)
        with browser.events("events", **{"Last-Event-ID": last}) as events:
            _, now, _ = next(events)
        other = (
            f"other-{now.partition('-')[2]}"  # of a server that was there before: here it would be up to date
        )
        for number in (last, "", other, "x-1", "1", "x" * 99):
            with browser.events("events", **({"Last-Event-ID": number} if number else {})) as events:
                *_, data = next(events)
                assert [(line["id"], line["status"]) for line in data["runs"]] == [(run_id, "done")]
                assert data["waits"] == []


def test_a_journal_in_memory_is_followed_too(tmp_path: Path) -> None:
    """This process alone can write it."""
    with bank(":memory:", [], 5) as engine, served(app(engine)) as browser:
        run_id = engine.run("Pay").run_id
        with browser.events(f"events/{run_id}") as events:
            assert [data["row"]["seq"] for _, _, data in islice(events, 2)] == [0, 1]
            (wait,) = browser.get("data/index").json["waits"]
            assert (
                browser.post(
                    f"answer/{run_id}", {"name": wait["name"], "answer": {"approve": True}, "actor": "ann"}
                ).status
                == 200
            )
            assert rows_seen(events) == list(range(2, engine.journal.run(run_id).head_seq + 1))


def test_nobody_looks_at_the_file_when_nobody_listens(tmp_path: Path) -> None:
    """The thread ends with the last client, and another one begins with the next."""

    def watching() -> bool:
        return any(thread.name == "paor-events" for thread in threading.enumerate())

    with bank(tmp_path / "runs.db", [], 5) as engine, served(app(engine.journal)) as browser:
        run_id = engine.run("Pay").run_id
        for _ in range(2):
            with browser.events(f"events/{run_id}") as events:
                next(events)
                assert watching()
            until = time.monotonic() + 20
            while watching() and time.monotonic() < until:
                time.sleep(0.02)
            assert not watching()


def test_too_many_clients_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on."""
    monkeypatch.setattr("paor.inspect.live_events.CLIENTS_MAX", 2)
    with bank(tmp_path / "runs.db", [], 5) as engine, served(app(engine.journal)) as browser:
        run_id = engine.run("Pay").run_id
        with browser.events(f"events/{run_id}") as one, browser.events("events") as two:
            next(one), next(two)
            assert browser.get(f"events/{run_id}").status == 503


def test_a_run_is_checked_when_it_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its page comes at once, its end when it was replayed and verified; then its part says what was found. A long run is not checked."""
    with bank(tmp_path / "runs.db", [], 5) as engine:
        waiting = engine.run("Pay").run_id
        long = engine.fork(waiting, 1, drive=False).run_id
        engine.cancel(waiting)
        engine.cancel(long)
        with served(app(engine.journal)) as browser:
            checked: list[str] = []
            checks = JournalView.checks

            def counted(self: Any, run_id: str) -> Any:
                checked.append(run_id)
                return checks(self, run_id)

            monkeypatch.setattr(JournalView, "checks", counted)
            told = browser.get(f"data/run/{waiting}").json
            assert (told["replay"], told["verify"]) == (None, None)
            for _ in range(3):
                with browser.events(f"events/{waiting}") as events:
                    assert [name for name, _, _ in events] == ["row", "row", "row", "end"]
            told = browser.get(f"data/run/{waiting}").json
            assert told["replay"]["identical"] is True and told["verify"] == {"defects": [], "count": 0}
            assert checked == [waiting]
            monkeypatch.setattr("paor.inspect.views.CHECKED_ROWS", 2)
            with browser.events(f"events/{long}") as events:
                assert [name for name, _, _ in events][-1] == "end"
            assert browser.get(f"data/run/{long}").json["replay"] is None and checked == [waiting]


# -- noticing and reading ------------------------------------------------------------------------------------------


def test_a_watch_sees_every_way_in_which_a_file_changes(tmp_path: Path) -> None:
    """Opened by nobody, then by another, closed again, replaced, deleted, and there again."""
    path = tmp_path / "runs.db"
    with bank(path, [], 5) as engine:
        engine.run("Pay")
    with Journal(path, read_only=True) as journal:
        watch = journal.reader.watch()
        assert watch.changed() and not watch.changed()
        with bank(path, [], 5, ids=SeededIds("other")) as engine:
            watch.changed()  # it was opened, which is no change of its content, and may count as one
            assert not watch.changed()
            engine.run("Pay again")
            assert watch.changed() and not watch.changed()
        watch.changed()
        assert not watch.changed()
        copy = tmp_path / "copy.db"
        copy.write_bytes(path.read_bytes())
        for name in ("runs.db-wal", "runs.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        copy.replace(path)
        assert watch.changed() and not watch.changed()
        path.rename(tmp_path / "away.db")
        assert not watch.changed()
        (tmp_path / "away.db").rename(path)
        assert watch.changed() and not watch.changed()
        watch.close()


def test_changes_are_those_of_runs_that_have_not_ended_and_of_new_ones(tmp_path: Path) -> None:
    """Each is told once; an erasure counts for the run that it is in."""
    path = tmp_path / "runs.db"
    with bank(path, [], 5) as engine:
        changes = Changes(engine.journal.reader)
        assert changes.look() == []
        runs = [engine.run("Pay").run_id for _ in range(3)]
        assert changes.look() == runs and changes.look() == []
        question = engine.result(runs[1]).waiting_for
        assert question is not None
        engine.resume(runs[1], answer={"approve": True}, question=question.id)
        assert changes.look() == [runs[1]] and changes.look() == []
        engine.journal.erase(runs[1])
        assert changes.look() == [runs[1]] and changes.look() == []
        engine.cancel(runs[0])
        fork = engine.fork(runs[2], 0, drive=False).run_id
        assert changes.look() == [runs[0], fork] and changes.look() == []


def test_what_was_erased_is_shown_no_more(tmp_path: Path) -> None:
    """Although it was read, and kept, before."""
    with bank(tmp_path / "runs.db", [], 5) as engine, served(app(engine.journal)) as browser:
        run_id = engine.run("Pay the secret sum").run_id
        question = engine.result(run_id).waiting_for
        assert question is not None
        engine.resume(run_id, answer={"approve": True}, question=question.id)
        parts = ("index", f"run/{run_id}", f"rows/{run_id}/0")
        assert all(b"secret sum" in browser.get(f"data/{name}").body for name in parts)
        engine.journal.erase(run_id)
        assert not any(b"secret sum" in browser.get(f"data/{name}").body for name in parts)
        assert browser.get("search?q=secret").json == {"runs": []}


def test_what_was_told_before_an_erasure_is_not_told_again(tmp_path: Path) -> None:
    """Neither by the index nor by the run: who comes again with an old number reads the journal."""
    engine = bank(tmp_path / "paor.db", [], 5)
    with served(app(engine, token=False)) as browser:
        with browser.events("events") as events:
            _, first, _ = next(events)
            run_id = engine.run("the hidden objective", metadata={"who": "hidden"}).run_id
            told = next(data for _, _, data in events if any(line["id"] == run_id for line in data["runs"]))
            assert "the hidden objective" in str(told)
        engine.journal.erase(run_id, force=True)
        with browser.events("events", **{"Last-Event-ID": first}) as events:
            _, _, data = next(events)
            assert "hidden" not in str(data)
        with browser.events(f"events/{run_id}") as events:
            assert "hidden" not in str(next(events))


def test_a_line_that_was_read_before_an_erasure_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody reads a run, it is erased, somebody else notices that: the first reader keeps nothing."""
    engine = bank(tmp_path / "paor.db", [], 5)
    run_id = engine.run("the hidden objective").run_id
    engine.cancel(run_id)
    views = Views(engine.journal)
    read = views._view.line

    def slowly(name: str) -> dict[str, Any]:
        line = read(name)
        monkeypatch.undo()
        engine.journal.erase(run_id, force=True)
        views.waits()
        return line

    monkeypatch.setattr(views._view, "line", slowly)
    assert views.line(run_id)["objective"] == "the hidden objective"
    assert views.line(run_id)["objective"] is None
    assert b"hidden" not in views.part("index")


class Writer:
    """
    A model that calls a tool twice and then streams; each call waits for its turn, and so does the rest of the answer.

    Attributes:
        first, second: Let the calls go on; a page that shows the result of the first one listens by the second.
        rest: Lets the answer end.
        written: Set when all words of it were given.
        tool: For the engine.
    """

    name, streams = "writer", True

    def __init__(self, pieces: Sequence[str] = ("It was ", "sk-live-", "1234567890", " paid")) -> None:
        self.pieces = pieces
        self.first, self.second, self.rest, self.written = (threading.Event() for _ in range(4))
        gates = [self.first, self.second]

        @tool("bank.pay", effect="read", repeat_allowed=True)
        def pay(amount: int) -> str:
            """Pay."""
            assert gates[amount].wait(60)
            return "paid"

        self.tool = pay

    def ask(self, call: ModelCall) -> Reply:
        """Call the tool, or write."""
        done = sum(message.role == "tool" for message in call.messages)
        if done < 2:
            return Reply(json.dumps(call_tools(step("bank.pay", amount=done))))
        for piece in self.pieces:
            if call.on_text is not None:
                call.on_text(piece)
        self.written.set()
        assert self.rest.wait(60)
        return Reply(f"{''.join(self.pieces)} for.")

    def end(self) -> None:
        """Let all go on."""
        for gate in (self.first, self.second, self.rest):
            gate.set()


@pytest.mark.parametrize("given", ["engine", "journal", "in memory"])
def test_words_come_before_their_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """Of a run that this process drives: as the model writes, without keys also where pieces cut them, and after the rows before."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-live-1234567890")
    model = Writer()
    with (
        Engine(
            model,
            [model.tool],
            ":memory:" if given == "in memory" else tmp_path / "runs.db",
            profile="native",
        ) as engine,
        served(app(engine.journal if given == "journal" else engine)) as browser,
        ThreadPoolExecutor(1) as pool,
    ):
        driving: Future[Result] = pool.submit(engine.run, "Pay five")
        try:
            with browser.events(f"events/{first_run(browser)}") as events:
                model.first.set()
                seen, text = [], ""
                while "paid" not in text:
                    name, _, data = next(events)
                    seen.append(name)
                    text += data["text"] if name == "said" else ""
                    assert name in ("row", "said")
                    if name == "row" and data["row"]["trigger"] == "execute":
                        model.second.set()
                assert text == "It was [secret redacted] paid" and seen.index("said") == seen.count("row")
                assert not driving.done()
                model.rest.set()
                rest = [name for name, _, _ in events]
                assert rest[-1] == "end" and "row" in rest
        finally:
            model.end()
        assert driving.result(60).state == "Done"


KEY = "sk-live-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize("before", [4096, 8192])
def test_a_key_whose_beginning_was_dropped_is_not_told(
    before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a long reply the first words are not kept: a page that is opened late begins in the middle of a word, which may be a key."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    text = "x" * (before - 20) + KEY + "y" * (65_536 - 40)  # so that what is kept begins within the key
    model = Writer([text[at : at + 16] for at in range(0, len(text), 16)])
    with (
        Engine(model, [model.tool], tmp_path / "runs.db", profile="native") as engine,
        served(app(engine)) as browser,
        ThreadPoolExecutor(1) as pool,
    ):
        driving: Future[Result] = pool.submit(engine.run, "Pay five")
        try:
            run_id = first_run(browser)
            with browser.events(f"events/{run_id}") as events:
                model.first.set()
                for name, _, data in events:
                    if name == "row" and data["row"]["trigger"] == "execute":
                        break
                model.second.set()
                assert model.written.wait(60)
                with browser.events(f"events/{run_id}") as late:
                    words = ""
                    while "yyyy" not in words:
                        name, _, data = next(late)
                        words += data["text"] if name == "said" else ""
            assert not [at for at in range(len(KEY) - 7) if KEY[at : at + 8] in words]
        finally:
            model.end()
        assert driving.result(60).state == "Done"


def test_a_driver_that_leaves_takes_no_listener_of_rows_with_it() -> None:
    """A journal in memory is read as the one that is written: the rows of the next driver are told like those of the first."""
    with bank(":memory:", [], 5, 6) as engine, served(app(engine)) as browser:
        run = engine.run("Pay")
        with browser.events(f"events/{run.run_id}") as events:
            seen = 0
            while run.waiting_for is not None:
                while seen < len(engine.journal.transitions(run.run_id)):
                    seen = int(next(events)[1]) + 1
                for _ in range(20):  # so that the page has noticed by then that nobody drives the run
                    browser.get(f"part/run/{run.run_id}")
                run = engine.resume(run.run_id, answer={"approve": True}, question=run.waiting_for.id)
            assert [name for name, *_ in events][-1] == "end"
