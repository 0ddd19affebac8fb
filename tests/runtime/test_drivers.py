"""The sync and the async driver: the same rows, effects performed as each of them can, faults told and never lost."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from paor import Event, Journal, Result, Tool, tool
from paor.errors import JournalError
from paor.events import RunEnded, RunStarted, RunWaiting, StepCompleted, TransitionTaken
from paor.fsm.journal.store import AsyncWriter
from paor.states.base.errors import InternalError
from paor.testing import RandomIds

from ..support.journeys import BY_NAME, JOURNEYS, Journey, Lost, play
from ..support.stored import file_of
from ..support.worlds import CONTINUE, PARAMETERS, READ, SELECT, STOP, SUCCESS, TOOLS, Script, engine

SCRIPT = [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]
ONCE = [SELECT("notes.work"), PARAMETERS(page=1), STOP, SUCCESS]


def work(function: Callable[..., Any], **options: Any) -> Tool:
    """Return the tool `notes.work` that calls *function*."""
    schema = {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}
    return Tool(name="notes.work", parameters=schema, run=function, effect="read", **options)


def streamed(journey: Journey, folder: Path, *, driver: str) -> list[Event]:
    """Return every event of a journey that does not wait."""
    with journey.engine(folder) as scripted:
        if driver == "sync":
            return list(scripted.stream("Go", **journey.run, on_close="stop"))

        async def collect() -> list[Event]:
            return [event async for event in scripted.astream("Go", **journey.run, on_close="stop")]

        return asyncio.run(collect())


# -- events --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_events_tell_what_is_durable(driver: str, tmp_path: Path) -> None:
    """Start, every transition, every observed step, and the end; each with what a progress display needs."""
    events = streamed(BY_NAME["blocked"], tmp_path, driver=driver)
    assert isinstance(events[0], RunStarted) and not events[0].resumed
    assert isinstance(events[-1], RunEnded) and events[-1].result.state == "Done"
    taken = [event for event in events if isinstance(event, TransitionTaken)]
    assert [event.seq for event in taken] == list(range(len(taken)))
    assert [event.tokens for event in taken] == sorted(event.tokens for event in taken)
    steps = [event for event in events if isinstance(event, StepCompleted)]
    assert [(step.action, step.success) for step in steps] == [(1, True), (2, False), (3, True)]
    assert "duplicate_call_blocked" in steps[1].summary
    refused = next(event for event in taken if event.trigger == "refuse")
    assert "same call" in refused.detail


@pytest.mark.parametrize("name", ["blocked", "tool_error", "documents", "formatted", "retried_run"])
def test_both_drivers_emit_the_same_events(name: str, tmp_path: Path) -> None:
    """What a host shows does not depend on how it drives."""
    found = []
    for driver in ("sync", "async"):
        (tmp_path / driver).mkdir()
        events = streamed(BY_NAME[name], tmp_path / driver, driver=driver)
        found.append([event for event in events if not isinstance(event, RunEnded)])
    assert found[0] == found[1]


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_run_that_waits_says_for_what(driver: str, tmp_path: Path) -> None:
    """The last event but one holds the question."""
    events = streamed(BY_NAME["approved"], tmp_path, driver=driver)
    waiting = next(event for event in events if isinstance(event, RunWaiting))
    assert waiting.question.kind == "approval"
    assert isinstance(events[-1], RunEnded) and events[-1].result.status == "waiting"


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_every_event_comes_after_its_row(driver: str, tmp_path: Path) -> None:
    """A host never shows what a crash could take back."""
    with BY_NAME["two_pages"].engine(tmp_path) as scripted:
        heads: list[tuple[int, int]] = []

        def hook(event: Event) -> None:
            if isinstance(event, TransitionTaken):
                heads.append((event.seq, scripted.journal.run(event.run_id).head_seq))

        scripted._runner.hooks = (hook,)
        play(BY_NAME["two_pages"], scripted, driver=driver)
    # an execution and its observation are written together
    assert heads == [(seq, seq + 1 if seq in (2, 7) else seq) for seq in range(11)]


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_hook_that_raises_is_logged_and_changes_nothing(
    driver: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else's display cannot break a run."""

    def hook(event: Event) -> None:
        raise RuntimeError("no screen")

    with caplog.at_level(logging.ERROR, "paor"), engine(tmp_path, SCRIPT, hooks=[hook]) as scripted:
        run = scripted.run if driver == "sync" else lambda objective: asyncio.run(scripted.arun(objective))
        result: Result = run("Read")
    assert result.state == "Done"
    assert "a hook raised on transition" in caplog.text


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_stream_that_nobody_reads_starts_nothing(driver: str, tmp_path: Path) -> None:
    """And one that is left in the middle lets the run go, so that it can be resumed at once."""
    with engine(tmp_path, SCRIPT) as scripted:
        if driver == "sync":
            scripted.stream("Never", on_close="stop")
            events = scripted.stream("Read", on_close="stop")
            next(events)
            next(events)
            events.close()
        else:

            async def leave() -> None:
                scripted.astream("Never", on_close="stop")
                events = scripted.astream("Read", on_close="stop")
                await anext(events)
                await anext(events)
                await events.aclose()

            asyncio.run(leave())
        (row,) = scripted.journal.runs()
        assert row.head_seq == 0
        assert scripted.resume(row.run_id).state == "Done"
        assert scripted.journal.verify() == []


# -- effects -------------------------------------------------------------------------------------------------------


def test_an_async_tool_runs_in_a_sync_engine(tmp_path: Path) -> None:
    """In a loop of its own, also when the host's thread runs one already."""

    async def function(page: int) -> str:
        await asyncio.sleep(0)
        return f"page {page}"

    with engine(tmp_path, ONCE, [work(function)], ids=RandomIds()) as scripted:
        assert scripted.run("Work").documents[0].read() == "page 1"

        async def inside() -> Result:
            return scripted.run("Work")

        assert asyncio.run(inside()).documents[0].read() == "page 1"


def test_a_sync_tool_does_not_block_the_event_loop(tmp_path: Path) -> None:
    """It runs in a thread; the loop goes on meanwhile."""
    ticks: list[int] = []
    reached = threading.Event()

    def function(page: int) -> int:
        assert reached.wait(30), "the loop stood still"
        return threading.get_ident()

    async def main() -> Result:
        running = asyncio.create_task(scripted.arun("Work"))
        while not running.done():
            await asyncio.sleep(0.001)
            ticks.append(1)
            if len(ticks) > 20:
                reached.set()
        return await running

    with engine(tmp_path, ONCE, [work(function)]) as scripted:
        result = asyncio.run(main())
    assert result.state == "Done"


@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_a_tool_raises_is_its_outcome(asynchronous: bool, driver: str, tmp_path: Path) -> None:
    """Any exception; the run goes on and the model reads one line of it."""

    async def acting(page: int) -> str:
        raise ZeroDivisionError("division\nby zero")

    def function(page: int) -> str:
        raise ZeroDivisionError("division\nby zero")

    with engine(tmp_path, ONCE, [work(acting if asynchronous else function)]) as scripted:
        run = scripted.run if driver == "sync" else lambda objective: asyncio.run(scripted.arun(objective))
        result: Result = run("Work")
        row = next(row for row in scripted.journal.transitions(result.run_id) if row.trigger == "execute")
    assert (row.outcome["ok"], row.outcome["error"]) == (False, "tool_error")


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_what_ends_the_process_is_no_outcome(driver: str, tmp_path: Path) -> None:
    """An interrupt goes through; the run is let go and stands before the effect's outcome."""
    journey = BY_NAME["in_doubt_done"]
    with journey.engine(tmp_path) as scripted:
        with pytest.raises(Lost):
            if driver == "sync":
                scripted.run("Lose")
            else:
                asyncio.run(scripted.arun("Lose"))
        (row,) = scripted.journal.runs()
        assert (row.state, row.status) == ("Executing", "running")
        assert scripted.journal.reader.query("SELECT owner FROM leases") == [(None,)]


def test_a_cancelled_task_lets_its_run_go(tmp_path: Path) -> None:
    """Wherever it was cancelled, the journal holds and the run can be resumed."""

    async def function(page: int) -> str:
        started.set()
        await asyncio.sleep(30)
        return "never"

    async def main() -> None:
        task = asyncio.create_task(scripted.arun("Work"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with engine(tmp_path, ONCE, [work(function)]) as scripted:
        started = asyncio.Event()
        asyncio.run(main())
        (row,) = scripted.journal.runs()
        assert row.state == "Executing"
    with engine(tmp_path, ONCE, [work(lambda page: "at last")]) as scripted:
        assert scripted.resume(row.run_id).documents[0].read() == "at last"
        assert scripted.journal.verify() == []


@pytest.mark.parametrize("delay", range(12))
def test_a_task_that_is_cancelled_anywhere_leaves_a_journal_that_holds(delay: int, tmp_path: Path) -> None:
    """Also between an append and its commit."""

    async def main() -> None:
        task = asyncio.create_task(scripted.arun("Read"))
        for _ in range(1 + 3 * delay):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    with engine(tmp_path, SCRIPT) as scripted:
        asyncio.run(main())
        assert scripted.journal.verify() == []
        for row in scripted.journal.runs():
            assert scripted.resume(row.run_id).state == "Done"
        assert scripted.journal.verify() == []


# -- the async writer ----------------------------------------------------------------------------------------------


def test_an_append_to_a_closed_engine_fails_and_hangs_nobody(tmp_path: Path) -> None:
    """Everybody who waits is told, also who began to wait while the first was told."""
    started = threading.Event()
    go_on = threading.Event()

    def function(page: int) -> str:
        started.set()
        go_on.wait(30)
        return "too late"

    async def main() -> list[BaseException]:
        runs = [asyncio.create_task(scripted.arun(f"Work {number}")) for number in range(3)]
        await asyncio.to_thread(started.wait)
        scripted.journal.close()
        go_on.set()
        done = await asyncio.wait_for(asyncio.gather(*runs, return_exceptions=True), 30)
        return [error for error in done if isinstance(error, BaseException)]

    with engine(tmp_path, ONCE, [work(function)], ids=RandomIds()) as scripted:
        errors = asyncio.run(main())
        assert len(errors) == 3
        assert all(isinstance(error, JournalError) for error in errors)
        assert "the journal has been closed" in str(errors[0])
    with engine(tmp_path, ONCE, [work(function)], ids=RandomIds()) as again:
        for row in again.journal.runs():
            assert again.resume(row.run_id).state == "Done"


def test_who_waits_while_a_batch_fails_is_told_too(tmp_path: Path) -> None:
    """The next batch is tried by itself; nobody has to come and push."""
    failing = threading.Event()

    class Stub:
        def append_all(self, entries: list[Any]) -> None:
            failing.wait(30)
            raise RuntimeError("gone")

    class Entry:
        error: BaseException | None = None

    async def main() -> list[Any]:
        writer = AsyncWriter(Stub())  # type: ignore[arg-type]
        first = asyncio.create_task(writer.append(Entry()))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        second = asyncio.create_task(writer.append(Entry()))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        failing.set()
        return list(await asyncio.wait_for(asyncio.gather(first, second, return_exceptions=True), 30))

    assert [type(error) for error in asyncio.run(main())] == [InternalError, InternalError]


def test_a_cancelled_writer_tells_who_waits(tmp_path: Path) -> None:
    """When the loop ends under a running commit, nothing waits for ever."""
    begun = threading.Event()
    failing = threading.Event()

    class Stub:
        def append_all(self, entries: list[Any]) -> None:
            begun.set()
            failing.wait(30)

    class Entry:
        error: BaseException | None = None

    async def main() -> BaseException:
        writer = AsyncWriter(Stub())  # type: ignore[arg-type]
        first = asyncio.create_task(writer.append(Entry()))  # type: ignore[arg-type]
        await asyncio.to_thread(begun.wait)
        assert writer._flushing is not None
        writer._flushing.cancel()
        (error,) = await asyncio.wait_for(asyncio.gather(first, return_exceptions=True), 30)
        failing.set()
        assert isinstance(error, BaseException)
        return error

    assert isinstance(asyncio.run(main()), InternalError)


def test_an_error_of_one_row_reaches_its_own_run_only(tmp_path: Path) -> None:
    """Of two runs that share commits, one loses its lease; the other ends well."""

    async def main() -> list[Any]:
        one = asyncio.create_task(scripted.arun("One"))
        two = asyncio.create_task(scripted.arun("Two"))
        while not all(row.head_seq >= 0 for row in scripted.journal.runs()) or not scripted.journal.runs():
            await asyncio.sleep(0)
        file_of(scripted.journal).connection.execute("UPDATE leases SET fence = 9 WHERE run = 1")
        return list(await asyncio.gather(one, two, return_exceptions=True))

    with engine(tmp_path, SCRIPT, ids=RandomIds()) as scripted:
        lost, done = asyncio.run(main())
        assert isinstance(lost, JournalError) and "taken the run over" in str(lost)
        assert done.state == "Done"
        assert scripted.journal.verify() == []


def test_a_lease_that_cannot_be_released_does_not_hide_why_the_driver_stops(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first error is the one that is told."""
    journey = BY_NAME["in_doubt_done"]
    with journey.engine(tmp_path) as scripted:
        events = scripted.stream("Lose", on_close="stop")
        with pytest.raises(Lost):
            for event in events:
                if event.kind == "transition" and getattr(event, "trigger", "") == "specify":
                    file_of(scripted.journal).connection.execute("PRAGMA query_only = ON")
        file_of(scripted.journal).connection.execute("PRAGMA query_only = OFF")
    assert "the lease could not be released" in caplog.text


# -- both ----------------------------------------------------------------------------------------------------------


def test_threads_and_event_loops_may_share_one_engine(tmp_path: Path) -> None:
    """Runs of both kinds at once, in one journal."""
    script: Script = SCRIPT
    with (
        engine(
            tmp_path, script, TOOLS, ids=RandomIds(), journal=Journal(tmp_path / "runs.db", "off")
        ) as scripted,
        ThreadPoolExecutor(8) as pool,
    ):
        plain: list[Future[Result]] = [pool.submit(scripted.run, f"Thread {number}") for number in range(10)]
        loops = [pool.submit(lambda: asyncio.run(scripted.arun("Loop"))) for _ in range(10)]
        assert [future.result().state for future in (*plain, *loops)] == ["Done"] * 20
        assert scripted.journal.verify() == []


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_a_resume_of_a_finished_run_appends_nothing(journey: Journey, tmp_path: Path) -> None:
    """It returns the same result, with either driver."""
    with journey.engine(tmp_path) as scripted:
        result = play(journey, scripted)
        rows = scripted.journal.transitions(result.run_id)
        assert scripted.resume(result.run_id) == result
        assert asyncio.run(scripted.aresume(result.run_id)) == result
        assert scripted.cancel(result.run_id) == result
        assert scripted.journal.transitions(result.run_id) == rows


def test_the_decorated_tools_stay_functions() -> None:
    """What a tool does can be tested without a run."""

    @tool("notes.plus", effect="read")
    def plus(one: int, two: int) -> int:
        """Add."""
        return one + two

    assert plus(1, 2) == 3
