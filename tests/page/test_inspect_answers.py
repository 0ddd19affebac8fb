"""Answers from the page: each kind of question, by many at once, with an engine that goes on and without one; cancel and fork."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs paor[inspect]")

from paor import Engine, Journal, Policy, Task, Tool, replay, tool
from paor.inspect import app
from paor.testing import SeededIds

from ..lifecycle.test_answer_only import KINDS, triggers
from ..lifecycle.test_questions import CALL, pay
from ..support.planning import World
from ..support.worlds import STOP, SUCCESS
from .inside import AsRecorded, Inspector, access_of
from .inspect_kit import ASKS, Answer, Browser, bank, paying, payments, rows_of, served


def wait_of(browser: Browser, run_id: str) -> dict[str, Any]:
    """Return what a run asks, as the inbox has it."""
    (found,) = [wait for wait in browser.get("data/index").json["waits"] if wait["run"] == run_id]
    return dict(found)


def ended(journal: Journal, run_id: str, *, status: str = "done") -> None:
    """Wait until a run that goes on in the background has ended."""
    until = time.monotonic() + 30
    while journal.run(run_id).status != status and time.monotonic() < until:
        time.sleep(0.01)
    assert journal.run(run_id).status == status, triggers(journal, run_id)


@contextmanager
def waiting(tmp_path: Path, name: str) -> Iterator[tuple[World, str]]:
    """Give an engine with a run that waits with a question of this kind."""
    made, policy, script, mode, _, _ = KINDS[name]
    with World(tmp_path, script, [made], policy=policy) as world:
        yield world, world.run(**({"mode": mode} if mode else {})).run_id


@pytest.mark.parametrize("by", ["an engine", "a journal"])
@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_question_is_answered(name: str, by: str, tmp_path: Path) -> None:
    """With an engine the run goes on to its end; with a journal its answer is kept, and the page says who goes on."""
    with (
        waiting(tmp_path, name) as (world, run_id),
        served(app(world.engine if by == "an engine" else world.journal)) as browser,
    ):
        wait, before = wait_of(browser, run_id), triggers(world.journal, run_id)
        *_, fitting, wrong = KINDS[name]
        wrong = (
            {"answer": None} if name == "planner asks" else wrong
        )  # without a schema anything else is an answer
        message = {"name": wait["name"], "actor": "ann", "reason": "seen"}
        refused = browser.post(f"answer/{run_id}", {**message, **wrong})
        assert (
            400 <= refused.status < 500
            and refused.json["error"]
            and triggers(world.journal, run_id) == before
        )
        told = browser.post(f"answer/{run_id}", {**message, **fitting})
        assert (told.status, told.json["ok"], told.json["seq"]) == (200, True, len(before)), told.body
        if by == "an engine":
            assert told.json["drives"] is True
        else:
            assert told.json["drives"] is False and told.json["next"].startswith(f"paor resume {run_id}")
            assert "nobody drives runs here" in wait["counts_for"]
            assert triggers(world.journal, run_id) == [*before, "provide"]
            assert world.engine.resume(run_id).state == "Done"
        ended(world.journal, run_id)
        (row,) = [row for row in world.journal.transitions(run_id) if row.seq == len(before)]
        assert row.trigger == "provide"
        assert world.journal.verify() == [] and replay(world.journal, run_id, world.engine).identical


@contextmanager
def two_servers(path: Path, engine: Engine | None) -> Iterator[list[Browser]]:
    """Serve one journal twice, as two processes would: with an engine and without, or both without."""
    with (
        Journal(path) as one,
        Journal(path) as other,
        served(app(engine or one)) as first,
        served(app(other)) as second,
    ):
        yield [first, second]


@pytest.mark.parametrize("with_engine", [True, False])
def test_of_50_requests_that_answer_at_once_one_is_first(with_engine: bool, tmp_path: Path) -> None:
    """
    One row; the others are told who it was, whichever server they asked. The payment is made once.

    The requests come from 50 threads of one process, as a browser would send them; no browser is started.
    """
    path = tmp_path / "runs.db"
    paid: list[int] = []
    with bank(path, paid, 5) as engine:
        run_id = engine.run("Pay five").run_id
        with two_servers(path, engine if with_engine else None) as browsers:
            wait, gate = wait_of(browsers[0], run_id), threading.Barrier(50)

            def answer(number: int) -> tuple[int, Answer]:
                gate.wait()
                body = {
                    "name": wait["name"],
                    "answer": {"approve": number % 3 != 0},
                    "actor": f"person {number}",
                }
                return number, browsers[number % 2].post(f"answer/{run_id}", body)

            with ThreadPoolExecutor(50) as pool:
                told = list(pool.map(answer, range(50)))
            statuses = [found.status for _, found in told]
            assert sorted(statuses) == [200] + [409] * 49, [found.body for _, found in told]
            (first,) = [number for number, found in told if found.status == 200]
            said = "denied" if first % 3 == 0 else "approved"
            for _, found in told:
                if found.status == 409:
                    assert found.json["error"] == f"person {first} was first ({said}); nothing was changed"
                    assert (found.json["by"], found.json["said"]) == (f"person {first}", said)
            if with_engine and first % 2 == 0:
                ended(engine.journal, run_id)
        assert engine.resume(run_id).state == "Done"
        assert triggers(engine.journal, run_id).count("provide") == 1
        assert paid == ([5] if said == "approved" else [])
        assert engine.journal.verify() == []


def test_the_next_question_is_not_settled_by_an_answer_to_the_first(tmp_path: Path) -> None:
    """The run goes on to another question of the same words; a second answer to the first one is refused and names who was first."""
    paid: list[int] = []
    with bank(tmp_path / "runs.db", paid, 5, 5) as engine, served(app(engine)) as browser:
        run_id = engine.run("Pay twice").run_id
        wait = wait_of(browser, run_id)
        body = {"name": wait["name"], "answer": {"approve": True}, "actor": "ann"}
        assert browser.post(f"answer/{run_id}", body).status == 200
        until = time.monotonic() + 20
        while triggers(engine.journal, run_id).count("wait") < 2 and time.monotonic() < until:
            time.sleep(0.01)
        again = browser.post(f"answer/{run_id}", body | {"actor": "bob"})
        assert again.status == 409 and again.json["by"] == "ann" and paid == [5]
        assert (
            browser.post(f"answer/{run_id}", body | {"name": wait_of(browser, run_id)["name"]}).status == 200
        )
        ended(engine.journal, run_id)
        assert paid == [5, 5]


def test_a_workflow_goes_on_when_its_task_was_answered(tmp_path: Path) -> None:
    """The question is the task's; what goes on is the workflow."""
    script = [lambda call: SUCCESS if call.kind == "review" else CALL[0], CALL[1], STOP, SUCCESS]
    with World(tmp_path, script, [pay], policy=ASKS_ALL) as world, served(app(world.engine)) as browser:
        flow = world.engine.run_workflow("Pay ann", tasks=[Task("Pay her")])
        (wait,) = browser.get("data/index").json["waits"]
        assert wait["run"] != flow.run_id
        body = {"name": wait["name"], "answer": {"approve": True}, "actor": "ann"}
        assert browser.post(f"answer/{wait['run']}", body).status == 200
        ended(world.journal, flow.run_id)


ASKS_ALL = Policy(approvals=("bank.*",))


# -- who answers, and who drives -----------------------------------------------------------------------------------


def test_an_engine_that_cannot_go_on_refuses_the_answer(tmp_path: Path) -> None:
    """It has another policy than the run was recorded with; nothing is written."""
    path = tmp_path / "runs.db"
    with bank(path, [], 5) as engine:
        run_id = engine.run("Pay").run_id
    other = Engine("offline", [paying([])], str(path), policy=Policy(deny=("bank.*",)), ids=SeededIds("x"))
    with other, served(app(other)) as browser:
        before = rows_of(path)
        body = {"name": wait_of(browser, run_id)["name"], "answer": {"approve": True}, "actor": "ann"}
        told = browser.post(f"answer/{run_id}", body)
        assert (
            told.status == 409
            and "recorded with other parts" in told.json["error"]
            and "\n" not in told.json["error"]
        )
        assert rows_of(path)[0] == before[0]


def test_what_goes_wrong_after_the_answer_is_shown(tmp_path: Path) -> None:
    """The answer stands; all who look at the run are told why it does not go on."""
    with bank(tmp_path / "runs.db", [], 5) as engine:
        run_id = engine.run("Pay").run_id

        def options(_row: Any) -> Any:
            raise RuntimeError("no connection")

        with (
            served(app(engine, options=options)) as browser,
            browser.events(f"events/{run_id}?after=1") as events,
        ):
            body = {"name": wait_of(browser, run_id)["name"], "answer": {"approve": True}, "actor": "ann"}
            assert browser.post(f"answer/{run_id}", body).status == 200
            seen = dict(next((name, data) for name, _, data in events if name == "problem") for _ in range(1))
            assert "RuntimeError" in seen["problem"]["error"]
        assert triggers(engine.journal, run_id)[-1] == "provide"


def test_a_run_goes_on_even_if_others_look_at_it_first(tmp_path: Path) -> None:
    """Between an answer and its drive somebody else has the lease for a moment."""
    with bank(tmp_path / "runs.db", [], 5) as engine, served(app(engine)) as browser:
        run_id = engine.run("Pay").run_id
        number, leases = engine.journal.run(run_id).run, engine.journal.store.leases
        held: list[int] = []
        release = leases.release

        def release_and_take(run: int, fence: int, *, answered: int | None = None) -> None:
            release(run, fence, answered=answered)
            if not held:
                held.append(leases.acquire(number))
                threading.Timer(0.5, release, (number, held[0])).start()

        leases.release = release_and_take  # type: ignore[method-assign]
        body = {"name": wait_of(browser, run_id)["name"], "answer": {"approve": True}, "actor": "ann"}
        assert browser.post(f"answer/{run_id}", body).status == 200
        ended(engine.journal, run_id)
        assert held


def test_a_journal_that_is_only_shown_is_not_written(tmp_path: Path) -> None:
    """Neither where that was asked for, nor where the journal is opened so; the page is told."""
    path = tmp_path / "runs.db"
    with bank(path, [], 5) as engine:
        run_id = engine.run("Pay").run_id
        before = rows_of(path)
        with Journal(path, read_only=True) as opened:
            for inspector in (app(engine, read_only=True), app(opened)):
                with served(inspector) as browser:
                    assert browser.get("data/index").json["actions"] is False
                    wait = wait_of(browser, run_id)
                    for action, body in (
                        ("answer", {"name": wait["name"], "answer": {"approve": True}, "actor": "ann"}),
                        ("cancel", {}),
                        ("fork", {"seq": 0}),
                    ):
                        told = browser.post(f"{action}/{run_id}", body)
                        assert told.status == 403 and "only shown" in told.json["error"]
        assert rows_of(path) == before


def test_nothing_is_opened_for_writing_before_an_action(tmp_path: Path) -> None:
    """So looking at a journal leaves no file beside it and changes nothing."""
    path = tmp_path / "runs.db"
    with bank(path, [], 5) as engine:
        run_id = engine.run("Pay").run_id
    data = path.read_bytes()
    with Journal(path, read_only=True) as opened:
        inspector = Inspector(opened, AsRecorded(str(path)), access_of(None))
        with served(inspector) as browser:
            wait = wait_of(browser, run_id)
            assert browser.get(f"data/run/{run_id}").status == 200
            assert path.read_bytes() == data and [item.name for item in tmp_path.iterdir()] == ["runs.db"]
            assert (
                browser.post(
                    f"answer/{run_id}", {"name": wait["name"], "answer": {"approve": True}, "actor": "ann"}
                ).status
                == 200
            )
            (call,) = browser.get(f"data/run/{run_id}").json["story"]["calls"]
            assert call["decided"][0]["actor"] == "ann"


# -- cancel and fork -----------------------------------------------------------------------------------------------


def test_a_waiting_run_is_cancelled(tmp_path: Path) -> None:
    """It ends with one row; once more changes nothing."""
    with bank(tmp_path / "runs.db", [], 5) as engine, served(app(engine)) as browser:
        run_id = engine.run("Pay").run_id
        assert browser.post(f"cancel/{run_id}", {}).json == {"ok": True, "status": "failed"}
        rows = triggers(engine.journal, run_id)
        assert rows[-1] == "fail" and engine.journal.run(run_id).reason == "cancelled"
        assert browser.post(f"cancel/{run_id}", {}).json["status"] == "failed"
        assert triggers(engine.journal, run_id) == rows


def test_a_run_that_somebody_drives_is_asked_to_stop(tmp_path: Path) -> None:
    """Its driver ends it."""
    begun, go = threading.Event(), threading.Event()

    @tool("bank.pay", effect="idempotent")
    def slow(amount: int) -> str:
        """Pay."""
        begun.set()
        go.wait(20)
        return "paid"

    path = tmp_path / "runs.db"
    from paor import ScriptedModel

    with (
        Engine(ScriptedModel(payments(5)), [slow], str(path)) as engine,
        Journal(path) as own,
        served(app(own)) as browser,
    ):
        thread = threading.Thread(target=engine.run, args=("Pay",))
        thread.start()
        assert begun.wait(20)
        run_id = engine.journal.runs()[0].run_id
        assert browser.post(f"cancel/{run_id}", {}).json["status"] == "running"
        go.set()
        thread.join(20)
        assert engine.journal.run(run_id).reason == "cancelled"


@pytest.mark.parametrize("with_engine", [True, False])
def test_a_fork_goes_on_unless_it_could_repeat_what_happens_once(with_engine: bool, tmp_path: Path) -> None:
    """A fork before a payment is created, named with the payment, and left to a person."""
    paid: list[int] = []
    with bank(tmp_path / "runs.db", paid, 5) as engine:
        with served(app(engine if with_engine else engine.journal)) as browser:
            run_id = engine.run("Pay").run_id
            early = browser.post(f"fork/{run_id}", {"seq": 0}).json
            assert (early["repeats"], early["drives"]) == ([], with_engine)
            if with_engine:
                ended(engine.journal, early["run"], status="waiting")
            body = {"name": wait_of(browser, run_id)["name"], "answer": {"approve": True}, "actor": "ann"}
            browser.post(f"answer/{run_id}", body)
            engine.resume(run_id) if not with_engine else ended(engine.journal, run_id)
            late = browser.post(f"fork/{run_id}", {"seq": 2}).json
            assert (late["repeats"], late["drives"]) == (["bank.pay"], False)
            assert late["next"].startswith("paor resume")
            assert browser.post(f"fork/{run_id}", {"seq": 99}).status == 422
        # the server has ended, and with it all that it drove
        assert paid == [5] and triggers(engine.journal, late["run"]) == ["select", "wait", "provide"]
        assert engine.journal.verify() == []


# -- whatever is answered ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000])
def test_a_number_that_no_row_can_hold_is_refused(number: str, tmp_path: Path) -> None:
    """A question without a schema takes any JSON, and these are none, or none that comes back as it was."""
    with waiting(tmp_path, "planner asks") as (world, run_id), served(app(world.journal)) as browser:
        before = triggers(world.journal, run_id)
        body = f'{{"name": "{wait_of(browser, run_id)["name"]}", "answer": {{"page": {number}}}}}'
        told = browser.ask("POST", f"answer/{run_id}", body.encode(), **browser.writing())
        assert 400 <= told.status < 500 and triggers(world.journal, run_id) == before, told.body


def test_an_engine_of_the_host_goes_on_in_its_own_event_loop(tmp_path: Path) -> None:
    """An async tool that needs the loop it was made in works."""
    loops: list[asyncio.AbstractEventLoop] = []

    @tool("bank.pay", effect="once")
    async def apay(amount: int) -> str:
        """Pay."""
        loops.append(asyncio.get_running_loop())
        return "paid"

    from paor import ScriptedModel

    made: list[Tool] = [apay]
    with Engine(ScriptedModel(payments(5)), made, str(tmp_path / "runs.db"), policy=ASKS) as engine:
        run_id = engine.run("Pay").run_id

        async def watch(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                loops.append(asyncio.get_running_loop())
            await inspector(scope, receive, send)

        inspector = app(engine)
        watching = type(
            "Watching",
            (),
            {
                "__call__": staticmethod(watch),
                "stop": inspector.stop,
                "close": inspector.close,
                "address": inspector.address,
            },
        )()
        with served(watching) as browser:
            body = {"name": wait_of(browser, run_id)["name"], "answer": {"approve": True}, "actor": "ann"}
            assert browser.post(f"answer/{run_id}", body).status == 200
            ended(engine.journal, run_id)
        assert len(set(loops)) == 1
