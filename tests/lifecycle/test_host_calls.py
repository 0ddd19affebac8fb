"""What a host calls beside `run`: a resume as a stream, a cancel and a context on an event loop, an answer to an ended run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Task, tool
from paor.errors import AlreadyAnswered, InvalidAnswer, JournalError, LeaseHeld, UnknownRun
from paor.events import RunEnded, RunStarted, TransitionTaken
from paor.testing import RandomIds

from ..support.worlds import ANSWER, PARAMETERS, SELECT, STOP, SUCCESS, engine
from .test_keyed_start import once
from .test_recover import by_kind, lost

APPROVE = {"approve": True}


def streamed(scripted: Engine, run_id: str, *, loop: bool, **options: Any) -> list[Any]:
    """Return all events of a resume."""
    if not loop:
        return list(scripted.resume_stream(run_id, **options, on_close="stop"))

    async def events() -> list[Any]:
        return [event async for event in scripted.aresume_stream(run_id, **options, on_close="stop")]

    return asyncio.run(events())


LOOP = pytest.mark.parametrize("loop", [False, True], ids=["sync", "async"])


@LOOP
def test_a_resume_as_a_stream_yields_every_row_and_the_end(tmp_path: Path, loop: bool) -> None:
    """What hooks hear, in the same order; after an answer, and from where a driver was lost."""
    heard: list[Any] = []
    with once(tmp_path, waits=True, hooks=[heard.append]) as scripted:
        run_id = lost(scripted, 1)
        heard.clear()
        events = streamed(scripted, run_id, loop=loop)
        assert events == heard and events[0] == RunStarted(run_id, "Work", True, 0)
        assert [event.trigger for event in events if isinstance(event, TransitionTaken)] == ["wait"]
        assert events[-1] == RunEnded(run_id, 1, scripted.result(run_id))
        heard.clear()
        events = streamed(scripted, run_id, loop=loop, answer=APPROVE)
        assert events == heard and events[-1].result.status == "done"
        seqs = [event.seq for event in events if isinstance(event, TransitionTaken)]
        assert seqs == list(range(2, scripted.journal.run(run_id).head_seq + 1))


@LOOP
def test_where_there_is_nothing_to_do_a_stream_is_its_beginning_and_its_end(
    tmp_path: Path, loop: bool
) -> None:
    """Of a run that waits or has ended; nothing is written and hooks hear nothing."""
    heard: list[Any] = []
    with once(tmp_path, waits=True, hooks=[heard.append]) as scripted:
        result = scripted.run("Work")
        for _ in range(2):
            heard.clear()
            before = scripted.journal.heads()
            events = streamed(scripted, result.run_id, loop=loop)
            seq = scripted.journal.run(result.run_id).head_seq
            started, ended = (
                RunStarted(result.run_id, "Work", True, seq),
                RunEnded(result.run_id, seq, result),
            )
            assert events == [started, ended]
            assert heard == [] and scripted.journal.heads() == before
            result = scripted.resume(result.run_id, answer=APPROVE) if result.status == "waiting" else result


@LOOP
def test_what_a_resume_refuses_its_stream_refuses_with_the_first_event(tmp_path: Path, loop: bool) -> None:
    """The same errors; nothing was taken."""
    with once(tmp_path, waits=True) as scripted:
        result = scripted.run("Work")
        scripted.resume_stream(result.run_id, on_close="stop")
        scripted.aresume_stream(result.run_id, on_close="stop")
        with pytest.raises(UnknownRun):
            streamed(scripted, "nowhere", loop=loop)
        with pytest.raises(InvalidAnswer):
            streamed(scripted, result.run_id, loop=loop, answer={"approve": "perhaps"})
        with pytest.raises(TypeError):
            streamed(scripted, result.run_id, loop=loop, anser=APPROVE)
        assert scripted.resume(result.run_id, answer=APPROVE).status == "done"
        with pytest.raises(AlreadyAnswered):
            streamed(scripted, result.run_id, loop=loop, answer=APPROVE)


@LOOP
def test_a_stream_that_is_closed_gives_its_lease_back_at_once(tmp_path: Path, loop: bool) -> None:
    """The next driver need not wait for the garbage collector."""
    with once(tmp_path) as scripted:
        run_id = lost(scripted, 1)

        async def two_events() -> None:
            events = scripted.aresume_stream(run_id, on_close="stop")
            await anext(events)
            await anext(events)
            with pytest.raises(LeaseHeld):
                scripted.resume(run_id)
            await events.aclose()
            kept.append(events)

        kept: list[Any] = []
        if loop:
            asyncio.run(two_events())
        else:
            stream = scripted.resume_stream(run_id, on_close="stop")
            next(stream)
            next(stream)
            with pytest.raises(LeaseHeld):
                scripted.resume(run_id)
            stream.close()
        result = scripted.resume(run_id)
        assert result.waiting_for is not None and result.waiting_for.kind == "in_doubt"


def test_closing_an_async_stream_of_a_new_run_gives_its_lease_back_at_once(tmp_path: Path) -> None:
    """Also that of `astream`, through every generator between."""
    with once(tmp_path) as scripted:

        async def one() -> str:
            events = scripted.astream("Work", on_close="stop")
            run_id: str = (await anext(events)).run_id
            await events.aclose()
            kept.append(events)
            return run_id

        kept: list[Any] = []
        assert scripted.resume(asyncio.run(one())).status == "done"


@LOOP
def test_an_answer_to_a_workflow_streams_its_task_first(tmp_path: Path, loop: bool) -> None:
    """Then the workflow; the last event is the workflow's end."""
    with by_kind(tmp_path, waits=True) as scripted:
        flow = scripted.run_workflow("All", tasks=[Task("One"), Task("Two")])
        events = streamed(scripted, flow.run_id, loop=loop, answer=APPROVE)
        ends = [event for event in events if isinstance(event, RunEnded)]
        assert [scripted.journal.run(event.run_id).task for event in ends] == [1, 0]
        assert ends[-1].run_id == flow.run_id and ends[-1].result == scripted.result(flow.run_id)
        assert ends[-1].result.waiting_for is not None and ends[-1].result.waiting_for.kind == "approval"
        events = streamed(
            scripted, flow.run_id, loop=loop, answer=APPROVE, question=ends[-1].result.waiting_for.id
        )
        assert events[-1].result.status == "done"


# -- cancelling ----------------------------------------------------------------------------------------------------


def test_a_cancel_on_an_event_loop_is_that_of_a_thread(tmp_path: Path) -> None:
    """Of a run that nobody drives, one that waits, one that has ended, one that is not there."""

    async def act(scripted: Engine) -> None:
        for run_id in (lost(scripted, 1), scripted.run("Wait").run_id):
            result = await scripted.acancel(run_id)
            assert (result.status, result.reason) == ("failed", "cancelled")
            assert await scripted.acancel(run_id) == result == scripted.cancel(run_id)
        with pytest.raises(UnknownRun):
            await scripted.acancel("nowhere")

    with once(tmp_path, waits=True) as scripted:
        asyncio.run(act(scripted))
        assert scripted.journal.verify() == []


def test_a_cancel_on_an_event_loop_reaches_a_run_on_the_same_loop(tmp_path: Path) -> None:
    """While its tool waits; the loop is not held up."""
    begun = threading.Event()

    @tool("notes.work", effect="read")
    async def work(page: int) -> str:
        """Work for long."""
        begun.set()
        await asyncio.sleep(60)
        return "worked"

    async def act() -> None:
        script = [SELECT("notes.work"), PARAMETERS(page=1), STOP, SUCCESS]
        async with engine(tmp_path, script, [work], ids=RandomIds()) as scripted:
            running = asyncio.create_task(scripted.arun("Work"))
            while not begun.is_set():
                await asyncio.sleep(0.01)
            asked = await scripted.acancel(scripted.journal.runs()[0].run_id)
            assert asked.status == "running"
            result = await asyncio.wait_for(running, 30)
            assert (result.status, result.reason) == ("failed", "cancelled")

    asyncio.run(act())


def test_a_cancel_on_an_event_loop_ends_the_tasks_of_a_workflow(tmp_path: Path) -> None:
    """All of them, and the workflow."""
    with by_kind(tmp_path, waits=True) as scripted:
        flow = scripted.run_workflow("All", tasks=[Task("One")])
        assert asyncio.run(scripted.acancel(flow.run_id)).reason == "cancelled"
        assert {row.reason for row in scripted.journal.runs()} == {"cancelled"}


# -- a context -----------------------------------------------------------------------------------------------------


def test_an_engine_is_a_context_on_an_event_loop(tmp_path: Path) -> None:
    """Closed at the end, also by an error; leases are given back and the loop goes on meanwhile."""

    async def act() -> None:
        async with engine(tmp_path, [ANSWER(), SUCCESS]) as scripted:
            assert (await scripted.arun("Read")).status == "done"
        with pytest.raises(JournalError, match="closed"):
            scripted.journal.runs()
        with pytest.raises(ZeroDivisionError):
            async with engine(tmp_path, [ANSWER(), SUCCESS], ids=RandomIds()) as scripted:
                raise ZeroDivisionError
        with pytest.raises(JournalError, match="closed"):
            scripted.journal.runs()

    asyncio.run(act())


# -- an answer to a run that has ended -----------------------------------------------------------------------------

ANSWERS: list[dict[str, Any]] = [
    {"answer": APPROVE},
    {"answer": "yes"},
    {"answer": {"action": "decline"}},
    {"outcome": "done"},
    {"outcome": "retry", "question": "1-" + "0" * 24},
]


@pytest.mark.parametrize("given", ANSWERS, ids=str)
@pytest.mark.parametrize("ends", ["done", "failed", "cancelled", "workflow"])
def test_an_answer_to_a_run_that_has_ended_is_refused(
    tmp_path: Path, ends: str, given: dict[str, Any]
) -> None:
    """With one line that says so; every way of answering, and nothing is appended."""
    script = [ANSWER(), SUCCESS] if ends != "failed" else ["no JSON"] * 3
    with engine(tmp_path, script, ids=RandomIds()) as scripted:
        if ends == "cancelled":
            result = scripted.cancel(lost(scripted, 0))
        elif ends == "workflow":
            scripted.model = by_kind(tmp_path).model
            result = scripted.run_workflow("All", tasks=[Task("One")])
        else:
            result = scripted.run("Read")
        before = scripted.journal.heads()
        acts: tuple[Callable[[], Any], ...] = (
            lambda: scripted.resume(result.run_id, **given),
            lambda: asyncio.run(scripted.aresume(result.run_id, **given)),
            lambda: list(scripted.resume_stream(result.run_id, **given, on_close="stop")),
        )
        for act in acts:
            with pytest.raises(InvalidAnswer) as found:
                act()
            words = "does not ask" if "question" in given else "has ended in"
            assert words in str(found.value) and "takes no answer" in str(found.value)
            assert "\n" not in str(found.value)
        assert scripted.journal.heads() == before
