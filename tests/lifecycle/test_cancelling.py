"""Cancelling at any point, from another thread or process: open calls are closed, the run ends, the journal holds."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, ModelCall, Policy, Reply, Result, ToolContext, replay, tool
from paor.errors import InvalidAnswer, ToolError
from paor.events import TransitionTaken
from paor.testing import RandomIds

from ..support.inside import ask, restore_run
from ..support.journeys import JOURNEYS, Journey, play
from ..support.worlds import CONTINUE, PARAMETERS, READ, SELECT, STOP, SUCCESS, TOOLS, engine
from .test_resume import in_child

ROOT = Path(__file__).resolve().parents[2]
WORK = [SELECT("notes.work"), PARAMETERS(page=1), STOP, SUCCESS]
DRIVERS = pytest.mark.parametrize("driver", ["sync", "async"])


def run(scripted: Engine, driver: str) -> Result:
    """Run on either driver."""
    return asyncio.run(scripted.arun("Work")) if driver == "async" else scripted.run("Work")


def judge(scripted: Engine, result: Result) -> list[Any]:
    """Assert that a run ended by being cancelled and that its journal holds; return its rows."""
    assert (result.state, result.reason) == ("Failed", "cancelled")
    journal = scripted.journal
    assert journal.reader.query("SELECT count(*) FROM leases WHERE owner IS NOT NULL") == [(0,)]
    rows = journal.transitions(result.run_id)
    assert [row.dest for row in rows if row.dest == "Failed"] == ["Failed"]
    assert rows[-1].trigger == "fail" and rows[-1].outcome["kind"] == "cancelled"
    assert journal.verify() == []
    assert replay(journal, result.run_id).identical
    assert scripted.resume(result.run_id) == scripted.cancel(result.run_id)
    assert len(journal.transitions(result.run_id)) == len(rows)
    return rows


def elsewhere(folder: Path, run_id: str) -> str:
    """Cancel from another process; return what it was told."""
    code = (
        "import sys; from pathlib import Path; from tests.support.worlds import engine, JOURNAL\n"
        "print(engine(Path(sys.argv[1]), []).cancel(sys.argv[2]).status)"
    )
    command = [sys.executable, "-c", code, str(folder), run_id]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=120
    ).stdout.strip()


# -- at every boundary ---------------------------------------------------------------------------------------------


@pytest.mark.whole
@DRIVERS
@pytest.mark.parametrize("journey", JOURNEYS, ids=[journey.name for journey in JOURNEYS])
def test_a_run_that_is_cancelled_after_any_row_ends_with_the_next(
    journey: Journey, driver: str, tmp_path: Path
) -> None:
    """Of every journey, after each of its rows: nothing more is begun, and what was recorded stays."""
    (tmp_path / "whole").mkdir()
    with journey.engine(tmp_path / "whole") as scripted:
        whole = scripted.journal.transitions(play(journey, scripted, driver=driver).run_id)
    step = max(1, len(whole) // 4)
    for after in range(0, len(whole) - 1, step):
        folder = tmp_path / f"after{after}"
        folder.mkdir()
        seen: list[str] = []

        def hook(event: Any, after: int = after, seen: list[str] = seen) -> None:
            if isinstance(event, TransitionTaken) and event.seq == after and not seen:
                seen.append(event.run_id)
                with journey.engine(folder) as other:  # noqa: B023 - called within the loop
                    other.cancel(event.run_id)

        with journey.engine(folder, hooks=[hook]) as scripted:
            with suppress(AssertionError, InvalidAnswer):  # it ends in another way than the journey's
                play(journey, scripted, driver=driver)
            result = scripted.resume(seen[0])
            rows = judge(scripted, result)
            asked = [row.request["kind"] for row in rows[after + 1 :] if row.request.get("model")]
            assert len(asked) <= 1, "the next request may have begun; no further one does"
            assert "tool" not in [row.request["kind"] for row in rows[after + 1 :]]
            assert [row.trigger for row in rows[: after + 1]] == [row.trigger for row in whole[: after + 1]]


# -- within a call -------------------------------------------------------------------------------------------------


class Slow:
    """A model that takes for ever to answer the n-th request, and keeps whether it was cancelled."""

    name = "slow"

    def __init__(self, folder: Path, at: int) -> None:
        self.script = engine(folder, WORK, TOOLS[:1]).model
        self.at = at
        self.inside, self.leave = threading.Event(), threading.Event()
        self.closed = False

    def ask(self, call: ModelCall) -> Reply:
        """Answer, the n-th time only when told to."""
        if call.number == self.at:
            self.inside.set()
            assert self.leave.wait(60)
        return ask(self.script, call)

    async def aask(self, call: ModelCall) -> Reply:
        """Answer, the n-th time never."""
        if call.number == self.at:
            self.inside.set()
            try:
                await asyncio.sleep(3600)
            finally:
                self.closed = True
        return ask(self.script, call)


@DRIVERS
@pytest.mark.parametrize("by", ["thread", "process"])
@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_request_that_is_open_is_closed(at: int, by: str, driver: str, tmp_path: Path) -> None:
    """Async: the wait is cancelled at once. Sync: the reply is waited for and recorded, and nothing more is asked."""
    model = Slow(tmp_path, at)
    made: list[int] = []

    @tool("notes.work")
    def work(page: int) -> str:
        """Work."""
        made.append(page)
        return "worked"

    with engine(tmp_path, [], [work], ids=RandomIds()) as scripted, ThreadPoolExecutor(1) as pool:
        scripted.model = model
        running = pool.submit(run, scripted, driver)
        assert model.inside.wait(60)
        run_id = scripted.journal.runs()[0].run_id
        status = scripted.cancel(run_id).status if by == "thread" else elsewhere(tmp_path, run_id)
        assert status in ("running", "failed")
        if driver == "sync":
            model.leave.set()
        rows = judge(scripted, running.result(60))
        assert len(made) == (1 if at > 1 else 0)
        asked = [row.request["kind"] for row in rows if row.request.get("model")]
        assert asked == ["selection", "parameters", "refinement", "review"][: at + 1]
        if driver == "async":
            assert model.closed
            assert rows[-1].request["kind"] == asked[-1] and "tokens_in" not in rows[-1].outcome
        else:
            assert rows[-1].request["kind"] == ("none" if at < 3 else "review")
            assert rows[-1].tokens_in > 0


def working(folder: Path, effect: Any, *, is_async: bool, log: list[str], enter: threading.Event) -> Engine:
    """Return an engine whose tool stays in its work for ever if it is async, else until it is let go."""

    async def awork(page: int) -> str:
        """Work."""
        log.append("begun")
        enter.set()
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            log.append("cleaned up")
        return "never"

    def work(page: int) -> str:
        """Work."""
        log.append("begun")
        enter.set()
        while "leave" not in log:
            time.sleep(0.005)
        log.append("ended")
        return "worked"

    made = tool("notes.work", effect=effect)(awork if is_async else work)
    return engine(folder, WORK, [made], ids=RandomIds())


@DRIVERS
@pytest.mark.parametrize("by", ["thread", "process"])
@pytest.mark.parametrize("effect", ["read", "idempotent", "once"])
def test_an_async_tool_is_broken_off_and_cleans_up(effect: str, by: str, driver: str, tmp_path: Path) -> None:
    """On both drivers; of a once tool the row and the answer say that its effect is in doubt."""
    log: list[str] = []
    enter = threading.Event()
    with (
        working(tmp_path, effect, is_async=True, log=log, enter=enter) as scripted,
        ThreadPoolExecutor(1) as pool,
    ):
        running = pool.submit(run, scripted, driver)
        assert enter.wait(60)
        run_id = scripted.journal.runs()[0].run_id
        if by == "thread":
            scripted.cancel(run_id)
        else:
            elsewhere(tmp_path, run_id)
        result = running.result(60)
        row = judge(scripted, result)[-1]
        assert log == ["begun", "cleaned up"]
        assert (row.source, row.request["kind"]) == ("Executing", "tool")
        assert row.outcome.get("in_doubt") == (1 if effect == "once" else None)
        assert (f"key {run_id}-1" in result.answer) is (effect == "once")


@DRIVERS
def test_a_sync_tool_is_waited_for_and_its_outcome_is_kept(driver: str, tmp_path: Path) -> None:
    """Nobody can break a thread off, so the tool has ended when the run ends, and nothing is in doubt."""
    log: list[str] = []
    enter = threading.Event()
    with (
        working(tmp_path, "once", is_async=False, log=log, enter=enter) as scripted,
        ThreadPoolExecutor(1) as pool,
    ):
        running = pool.submit(run, scripted, driver)
        assert enter.wait(60)
        assert scripted.cancel(scripted.journal.runs()[0].run_id).status == "running"
        log.append("leave")
        rows = judge(scripted, running.result(60))
        assert log == ["begun", "leave", "ended"]
        assert [row.trigger for row in rows[-3:]] == ["execute", "observe", "fail"]
        assert (rows[-1].source, rows[-1].outcome) == ("Reviewing", {"kind": "cancelled"})


def test_a_tool_that_does_not_give_in_has_ended_when_the_run_ends(tmp_path: Path) -> None:
    """An async tool may finish what it does: then its result is recorded, and the run ends after it."""
    begun = threading.Event()

    @tool("notes.work")
    async def work(page: int) -> str:
        """Work."""
        begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
        return "finished all the same"

    with engine(tmp_path, WORK, [work], ids=RandomIds()) as scripted:

        async def main() -> Result:
            task = asyncio.create_task(scripted.arun("Work"))
            while not begun.is_set():
                await asyncio.sleep(0.005)
            await asyncio.to_thread(scripted.cancel, scripted.journal.runs()[0].run_id)
            result = await task
            assert task.cancelling() == 0
            return result

        rows = judge(scripted, asyncio.run(main()))
        assert [row.trigger for row in rows[-3:]] == ["execute", "observe", "fail"]


def test_a_task_that_is_itself_cancelled_is_told_from_a_run_that_is(tmp_path: Path) -> None:
    """asyncio's own cancelling ends the driver, not the run: it is in doubt and can be resumed."""
    log: list[str] = []
    enter = threading.Event()
    with working(tmp_path, "once", is_async=True, log=log, enter=enter) as scripted:

        async def main() -> None:
            task = asyncio.create_task(scripted.arun("Work"))
            while not enter.is_set():
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert log == ["begun", "cleaned up"]
        (row,) = scripted.journal.runs()
        assert (row.status, row.state) == ("running", "Executing")
        assert scripted.resume(row.run_id).status == "waiting"
        rows = judge(scripted, scripted.cancel(row.run_id))
        assert rows[-1].outcome == {"kind": "cancelled", "in_doubt": 1}


def test_what_a_broken_off_tool_has_asked_of_the_model_is_counted(tmp_path: Path) -> None:
    """Its requests were paid for, so they stand in the row."""
    enter = threading.Event()

    async def asking(context: ToolContext, page: int) -> str:
        """Ask, then stay."""
        context.ask("write")
        enter.set()
        await asyncio.sleep(3600)
        return "never"

    made = tool("notes.ask", effect="read")(asking)
    script = [SELECT("notes.ask"), PARAMETERS(page=1), "a text of five words"]
    with engine(tmp_path, script, [made], ids=RandomIds()) as scripted, ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, scripted, "async")
        assert enter.wait(60)
        before = scripted.journal.transitions(scripted.journal.runs()[0].run_id)[-1]
        scripted.cancel(scripted.journal.runs()[0].run_id)
        rows = judge(scripted, running.result(60))
        assert rows[-1].tokens_in > before.tokens_in
        assert rows[-1].outcome["tokens_out"] == 5 and len(rows[-1].outcome["texts"]) == 1


def test_a_tool_of_a_cancelled_run_asks_no_model_any_more(tmp_path: Path) -> None:
    """A sync tool cannot be broken off, but it gets no further text."""
    told: list[str] = []

    @tool("notes.ask", effect="read")
    def ask(context: ToolContext, page: int) -> str:
        """Ask twice."""
        context.ask("write")
        scripted.cancel(context.run_id)
        try:
            context.ask("write")
        except ToolError as error:
            told.append(str(error))
        return "asked"

    script = [SELECT("notes.ask"), PARAMETERS(page=1), "one", "two"]
    with engine(tmp_path, script, [ask]) as scripted:
        judge(scripted, scripted.run("Work"))
        assert told == ["the run is cancelled; no model is asked any more"]


# -- between drivers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["before the kill", "after the kill"])
def test_a_run_whose_driver_was_killed_in_a_once_tool_is_cancelled_in_doubt(
    asked: str, tmp_path: Path
) -> None:
    """Whoever cancels it, or resumes it after somebody asked, calls nothing; the row says that nobody knows."""

    def make(*, deadly: bool) -> Engine:
        @tool("notes.work")
        def work(page: int) -> str:
            """Work."""
            (tmp_path / "effects").open("a").write("x")
            if deadly and asked == "before the kill":
                with engine(tmp_path, WORK, TOOLS[:1], ids=RandomIds()) as other:
                    other.cancel(other.journal.runs()[0].run_id)
            if deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return "worked"

        return engine(tmp_path, WORK, [work], ids=RandomIds())

    assert in_child(lambda: make(deadly=True).run("Work")) == signal.SIGKILL
    with make(deadly=False) as scripted:
        run_id = scripted.journal.runs()[0].run_id
        result = scripted.resume(run_id) if asked == "before the kill" else scripted.cancel(run_id)
        rows = judge(scripted, result)
        assert rows[-1].outcome == {"kind": "cancelled", "in_doubt": 1}
        assert (tmp_path / "effects").read_text() == "x"


def test_a_run_that_waits_is_cancelled_where_it_waits(tmp_path: Path) -> None:
    """In doubt or not; counters stay what they were."""
    with engine(tmp_path, [*READ(1), CONTINUE], policy=Policy(approvals=("notes.*",))) as scripted:
        waiting = scripted.run("Work")
        assert waiting.status == "waiting"
        before, _ = restore_run(scripted.journal.reader, waiting.run_id)
        rows = judge(scripted, scripted.cancel(waiting.run_id))
        assert rows[-1].outcome == {"kind": "cancelled"}
        assert rows[-1].step == before.counters.step


@DRIVERS
def test_a_request_that_comes_after_the_last_row_of_a_driver_is_not_lost(driver: str, tmp_path: Path) -> None:
    """The driver still has the lease, and no next row that would see the request: it looks for one when it has released the run."""
    asked: list[str] = []

    def cancel(event: Any) -> None:
        if isinstance(event, TransitionTaken) and event.trigger == "wait":
            with engine(tmp_path, []) as other:
                asked.append(other.cancel(event.run_id).status)

    with engine(tmp_path, READ(1), policy=Policy(approvals=("notes.*",)), hooks=[cancel]) as scripted:
        rows = judge(scripted, run(scripted, driver))
        assert asked == ["waiting"] and [row.trigger for row in rows[-2:]] == ["wait", "fail"]


@DRIVERS
def test_a_run_that_is_cancelled_just_before_it_would_wait_asks_nobody(driver: str, tmp_path: Path) -> None:
    """The row that was on its way is written; then the run ends instead of waiting for an answer (found by fuzzing)."""

    def cancel(event: Any) -> None:
        if isinstance(event, TransitionTaken) and event.trigger == "select":
            with engine(tmp_path, []) as other:
                other.cancel(event.run_id)

    policy = Policy(approvals=("notes.*",))
    with engine(tmp_path, [*READ(1), CONTINUE], policy=policy, hooks=[cancel]) as scripted:
        rows = judge(scripted, run(scripted, driver))
        assert "provide" not in [row.trigger for row in rows]
        assert len(rows) <= 3
