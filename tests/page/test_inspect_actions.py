"""Who may act, what of a request is taken, and that an action holds up nobody: neither another answer nor the event loop."""

from __future__ import annotations

import asyncio
import shlex
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs paor[inspect]")

from paor import Task
from paor.inspect import app

from ..lifecycle.test_questions import CALL, pay
from ..support.planning import World
from ..support.worlds import STOP, SUCCESS
from .inside import ACTORS, AsRecorded, JournalReader
from .inspect_kit import bank, rows_of, served
from .test_inspect_answers import ASKS_ALL, wait_of


@pytest.mark.parametrize("nobody", [None, ""])
@pytest.mark.parametrize("action", ["answer", "cancel", "fork"])
def test_whom_the_host_does_not_know_changes_nothing(action: str, nobody: str | None, tmp_path: Path) -> None:
    """By no action; whom it knows may do each."""
    path, known = tmp_path / "runs.db", nobody
    with bank(path, [], 5) as engine, served(app(engine.journal, actor=lambda scope: known)) as browser:
        run_id = engine.run("Pay").run_id
        answer = {"name": wait_of(browser, run_id)["name"], "answer": {"approve": True}, "actor": "eve"}
        body = {"answer": answer, "cancel": {}, "fork": {"seq": 0}}[action]
        before = rows_of(path)
        told = browser.post(f"{action}/{run_id}", body)
        assert (told.status, told.json) == (403, {"error": "nobody is logged in"})
        assert rows_of(path) == before
        known = "ann"
        assert browser.post(f"{action}/{run_id}", body).status == 200
        assert rows_of(path) != before


@pytest.mark.parametrize("value", [False, 0, [], {}, True, 7, ["ann"]])
@pytest.mark.parametrize("name", ["reason", "actor", "outcome"])
def test_what_is_no_text_is_refused(name: str, value: Any, tmp_path: Path) -> None:
    """Also what Python takes for nothing; an empty text and null are as good as nothing said."""
    path = tmp_path / "runs.db"
    with bank(path, [], 5) as engine, served(app(engine.journal)) as browser:
        run_id = engine.run("Pay").run_id
        body = {"name": wait_of(browser, run_id)["name"], "answer": {"approve": True}}
        before = rows_of(path)
        told = browser.post(f"answer/{run_id}", body | {name: value})
        assert (told.status, told.json) == (400, {"error": f"{name}: expected a text"})
        assert rows_of(path) == before
        nobody = browser.post(f"answer/{run_id}", body | {"reason": "", "actor": "  "})
        assert nobody.status == 400 and "with the name of the person" in nobody.json["error"]
        assert rows_of(path) == before
        assert browser.post(f"answer/{run_id}", body | {"reason": "", "actor": "ann"}).status == 200


def test_the_command_that_goes_on_can_be_pasted(tmp_path: Path) -> None:
    """Whatever the journal's path is."""
    path = tmp_path / "my runs; $(date) 'all'.db"
    with bank(path, [], 5) as engine, served(app(engine.journal)) as browser:
        run_id = engine.run("Pay").run_id
        body = {"name": wait_of(browser, run_id)["name"], "answer": {"approve": True}, "actor": "ann"}
        told = browser.post(f"answer/{run_id}", body).json
        assert shlex.split(told["next"]) == ["paor", "resume", run_id, "--journal", str(path)]


@pytest.mark.whole
def test_runs_that_others_have_hold_up_no_other_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More answers than there are threads wait for a lease; one to a free run is taken meanwhile, and then they are."""
    monkeypatch.setattr("paor.inspect.actions.LEASE_WAIT_S", 300.0)
    tried: set[str] = set()
    answer = AsRecorded.answer

    def counted(self: AsRecorded, run_id: str, **message: Any) -> tuple[str, int]:
        try:
            return answer(self, run_id, **message)
        finally:
            tried.add(run_id)
            if len(tried) == len(held):
                all_wait.set()

    monkeypatch.setattr(AsRecorded, "answer", counted)
    with bank(tmp_path / "runs.db", [], 5) as engine, served(app(engine.journal)) as browser:
        *held, free = [engine.run("Pay").run_id for _ in range(2 * ACTORS + 1)]
        all_wait, leases = threading.Event(), engine.journal.store.leases
        fences = {run: leases.acquire(run) for run in (engine.journal.run(run_id).run for run_id in held)}
        bodies = {
            run_id: {"name": wait_of(browser, run_id)["name"], "answer": {"approve": True}, "actor": "ann"}
            for run_id in (*held, free)
        }
        with ThreadPoolExecutor(len(held)) as pool:
            told = [pool.submit(browser.post, f"answer/{run_id}", bodies[run_id]) for run_id in held]
            try:
                assert all_wait.wait(20)
                assert browser.post(f"answer/{free}", bodies[free]).status == 200
                assert not any(one.done() for one in told)
            finally:
                for run, fence in fences.items():
                    leases.release(run, fence)
            assert [one.result(60).status for one in told] == [200] * len(held)


@pytest.mark.whole
def test_nothing_is_read_on_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task is answered, its workflow is to go on and cannot, and all who look are told: each look at the journal is a thread's."""
    script = [lambda call: SUCCESS if call.kind == "review" else CALL[0], CALL[1], STOP, SUCCESS]
    query = JournalReader.query
    on_loop: list[str] = []
    asked: list[str] = []

    def seen(self: JournalReader, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        (on_loop if asyncio._get_running_loop() is not None else asked).append(sql)
        return query(self, sql, values)

    def options(row: Any) -> Any:
        goes_on.append(row.run_id)
        raise RuntimeError("no connection")

    goes_on: list[str] = []
    with World(tmp_path, script, [pay], policy=ASKS_ALL) as world:
        flow = world.engine.run_workflow("Pay ann", tasks=[Task("Pay her")])
        with served(app(world.engine, options=options)) as browser:
            (wait,) = browser.get("data/index").json["waits"]
            monkeypatch.setattr(JournalReader, "query", seen)
            with browser.events(f"events/{flow.run_id}") as events, browser.events("events") as others:
                next(others)
                body = {"name": wait["name"], "answer": {"approve": True}, "actor": "ann"}
                assert browser.post(f"answer/{wait['run']}", body).status == 200
                assert browser.post(f"fork/{wait['run']}", {"seq": 0}).status == 200
                assert browser.get(f"data/run/{flow.run_id}").status == 200
                with browser.events(f"events/{wait['run']}") as own:
                    assert "RuntimeError" in str(next(data for name, _, data in own if name == "problem"))
                next(events)
    assert goes_on[0] == flow.run_id and asked and on_loop == []
