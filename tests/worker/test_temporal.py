"""Runs that Temporal places, on its real development server: each is driven to its end, and its history holds no word of it."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, Policy, Task, replay, tool
from paor.errors import LeaseHeld, MissingExtra, UsageError
from paor.fsm.journal.run_queue import RunQueue
from paor.testing import call, plan, refine, review, step

from .lost_drivers import lose_driver
from .shop_app import Holds, Shop, look, pay
from .temporal_server import TemporalServer, needs_temporal, temporal_missing

if not temporal_missing():
    from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHistory
    from temporalio.service import RPCError
    from temporalio.worker import Replayer

    from paor.temporal import DriveRun, TemporalWorker
    from paor.worker import temporal as temporal_room
    from paor.worker import temporal_workflow
    from paor.worker.temporal import client_of_environment

ASKED = Policy(approvals=("shop.pay",))


@pytest.fixture(scope="session")
def temporal() -> Iterator[TemporalServer]:
    """Give a server that is used by all tests of this process, each with a task queue of its own."""
    if reason := temporal_missing():
        pytest.skip(reason)
    server = TemporalServer()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def paid_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the shop note here what was paid."""
    monkeypatch.setenv("PAID", str(tmp_path / "paid"))


@pytest.fixture
def holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Holds:
    """Give the points at which calls of the shop are held."""
    monkeypatch.setenv("HOLDS", str(tmp_path / "holds"))
    return Holds(tmp_path / "holds")


class Place:
    """
    Engines over one journal, and the workers that Temporal has there.

    Args:
        where: The journal.
        temporal: The server.
    """

    def __init__(self, where: Path, temporal: TemporalServer) -> None:
        self.where, self.temporal = where, temporal
        self.stack = ExitStack()

    def engine(
        self, *replies: Any, tools: Any = (look, pay), lease_s: float = 30.0, **options: Any
    ) -> Engine:
        """Return one more engine over one more connection to the journal."""
        journal = self.stack.enter_context(Journal(self.where, "off", lease_s=lease_s))
        return Engine(Shop(*replies), tools, journal, builtins=False, **options)

    def paid(self) -> list[str]:
        """Return the orders that were paid."""
        file = self.where.parent / "paid"
        return file.read_text().split() if file.exists() else []

    async def client(self) -> Client:
        """Return a client of the server."""
        return await Client.connect(self.temporal.address)

    @asynccontextmanager
    async def worker(self, engine: Engine, **options: Any) -> AsyncIterator[TemporalWorker]:
        """Have a worker work meanwhile."""
        drives = TemporalWorker(engine, await self.client(), task_queue=str(self.where), **options)
        task = asyncio.create_task(drives.run())
        try:
            yield drives
        finally:
            drives.drain()
            await asyncio.wait_for(task, 60)

    async def ended(self, run_id: str) -> Any:
        """Return what a run's workflow has come to once it has ended."""
        handle = (await self.client()).get_workflow_handle(
            f"paor-{run_id}", result_type=temporal_workflow.Place
        )
        for _ in range(200):  # it may not have been started yet
            with suppress(Exception):
                await handle.describe()
                break
            await asyncio.sleep(0.05)
        return await asyncio.wait_for(
            handle.result(), 120
        )  # an attempt that meets a lease comes again after it

    async def failure(self, run_id: str, *, without: str = "") -> str:
        """Wait until an attempt to drive a run has failed; return the error's class, once no word *without* is in it."""
        handle = (await self.client()).get_workflow_handle(f"paor-{run_id}")
        async with asyncio.timeout(30):
            while True:
                with suppress(RPCError):  # it may not have been started yet
                    pending = (await handle.describe()).raw_description.pending_activities
                    if pending and pending[0].HasField("last_failure"):
                        break
                await asyncio.sleep(0.05)
        assert not without or without not in str(pending)
        return str(pending[0].last_failure.application_failure_info.type)

    async def waits(self, run_id: str) -> None:
        """Wait until a run's first drive is over, so that nothing but its workflow can go on with it."""
        async with asyncio.timeout(30):
            while True:
                with suppress(RPCError):  # it may not have been started yet
                    if "ACTIVITY_TASK_COMPLETED" in kinds(await self.history(run_id)):
                        return
                await asyncio.sleep(0.05)

    async def history(self, run_id: str, part: str | None = None) -> WorkflowHistory:
        """Return the history of a run's workflow, by default of its last part."""
        client = await self.client()
        return await client.get_workflow_handle(f"paor-{run_id}", run_id=part).fetch_history()


@pytest.fixture
def place(tmp_path: Path, temporal: TemporalServer) -> Iterator[Place]:
    """Give a journal of one test's own."""
    found = Place(tmp_path / "runs.db", temporal)
    yield found
    found.stack.close()


def play(work: Coroutine[Any, Any, Any]) -> Any:
    """Have it done, within a minute."""
    return asyncio.run(asyncio.wait_for(work, 240))


async def until(holds: Callable[[], Any]) -> Any:
    """Wait until something holds; return it."""
    deadline = time.monotonic() + 30
    while not (found := holds()):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    return found


async def replayed(*histories: WorkflowHistory) -> None:
    """Have the SDK replay histories: the workflow as it is decides alike."""
    replayer = Replayer(workflows=[DriveRun])
    for history in histories:
        await replayer.replay_workflow(history)


async def answered(host: Engine, run_id: str, answer: Any, *, after: str = "", **how: Any) -> str:
    """Answer what a run asks a person after another question, once it does; return the question's id."""

    def asked() -> Any:
        question = host.result(run_id).waiting_for
        is_new = question is not None and question.kind == "approval" and question.id != after
        return question if is_new else None

    waiting = await until(asked)
    while True:
        try:
            host.answer(run_id, question=waiting.id, answer=answer, **how)
            return str(waiting.id)
        except LeaseHeld:  # whoever asks has not let go yet
            await asyncio.sleep(0.01)


def found(data: Any, name: str) -> Iterator[Any]:
    """Yield all values under a name, however deep they are."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key == name:
                yield value
            yield from found(value, name)
    elif isinstance(data, list):
        for item in data:
            yield from found(item, name)


def kinds(history: WorkflowHistory) -> list[str]:
    """Return the kinds of a history's events."""
    return [event["eventType"].removeprefix("EVENT_TYPE_") for event in history.to_json_dict()["events"]]


# -- to the end --------------------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_a_submitted_run_is_driven_where_temporal_places_it(place: Place) -> None:
    """To its end, as it would have ended here; then it is out of the queue."""

    async def work() -> None:
        host, other = place.engine(), place.engine()
        result = host.submit("Pay it back", ["it is paid"], [("order.txt", "O-1")], key="m-1")
        async with place.worker(other):
            stands = await place.ended(result.run_id)
        found = host.result(result.run_id)
        assert found.state == "Done" and place.paid() == [result.run_id]
        assert stands == temporal_workflow.Place(result.run_id, host.journal.run(result.run_id).head_seq)
        assert host.journal.verify() == [] and replay(host.journal, result.run_id).identical
        assert RunQueue(host.journal.store.backend).rows() == []
        await replayed(await place.history(result.run_id))

    play(work())


def test_nothing_of_a_run_is_in_its_history(place: Place) -> None:
    """No objective, document, reply, argument, outcome, question or answer, and no word of an error; ids and numbers alone."""

    @tool("shop.break", effect="read")
    def broken() -> str:
        """Break."""
        raise RuntimeError("zebra-tool")

    async def work() -> None:
        replies = (
            *call("shop.break"),
            refine("continue"),
            *call("shop.pay", order="zebra-argument"),
            refine("stop"),
            review("success", answer="zebra-answer"),
        )
        host, other = (place.engine(*replies, tools=[broken, pay], policy=ASKED) for _ in range(2))
        result = host.submit("zebra-objective", ["zebra-criterion"], [("zebra.txt", "zebra-text")])
        async with place.worker(other):
            await answered(host, result.run_id, {"approve": True}, reason="zebra-reason", actor="zebra")
            await place.ended(result.run_id)
        assert host.result(result.run_id).state == "Done"
        told = (await place.history(result.run_id)).to_json_dict()
        payloads = [base64.b64decode(data).decode() for data in found(told, "data")]
        assert payloads and "zebra" not in json.dumps(told) + "".join(payloads)
        assert all(
            set(json.loads(text)) <= {"run_id", "row", "place", "state", "wait_s"} for text in payloads
        )
        await replayed(await place.history(result.run_id))

    play(work())


@pytest.mark.whole
def test_an_error_leaves_by_its_name_alone(place: Place) -> None:
    """The words of a host's own error may quote anything; what no other try can change ends the workflow."""

    async def work() -> None:
        host = place.engine()
        result = host.submit("Pay")

        def options(row: Any) -> Any:
            raise RuntimeError("zebra")

        async with place.worker(place.engine(), options=options):
            assert await place.failure(result.run_id, without="zebra") == "RuntimeError"
            await (await place.client()).get_workflow_handle(f"paor-{result.run_id}").terminate()

    play(work())


@pytest.mark.whole
def test_what_no_other_try_can_change_ends_its_workflow_and_goes_on_when_released(place: Place) -> None:
    """An answer to no question, say: for a person to look at; then the same run goes on."""

    async def work() -> None:
        host = place.engine()
        result = host.submit("Pay")
        async with place.worker(place.engine(), options=lambda row: {"answer": {"approve": True}}):
            with pytest.raises(WorkflowFailureError) as raised:
                await place.ended(result.run_id)
        assert "InvalidAnswer" in repr(raised.value.cause.__cause__)
        assert host.result(result.run_id).status == "running"
        RunQueue(host.journal.store.backend).release(host.journal.run(result.run_id).run)
        async with place.worker(place.engine()):
            await until(lambda: host.result(result.run_id).state == "Done")
        assert place.paid() == [result.run_id]

    play(work())


@pytest.mark.whole
def test_a_key_that_is_submitted_again_has_one_workflow(place: Place, holds: Holds) -> None:
    """And a run that comes to the front again while it is driven, too."""

    async def work() -> None:
        host = place.engine()
        holds.hold("look")
        run_id = host.submit("Pay", key="m-1").run_id
        async with place.worker(place.engine()), place.worker(place.engine()):
            await asyncio.to_thread(holds.held, "look")
            for signals in (1, 2):
                RunQueue(host.journal.store.backend).release(1)
                assert host.submit("Pay", key="m-1").run_id == run_id
                async with asyncio.timeout(30):
                    while kinds(await place.history(run_id)).count("WORKFLOW_EXECUTION_SIGNALED") < signals:
                        await asyncio.sleep(0.02)
            holds.release("look")
            await place.ended(run_id)
        client = await place.client()
        async with asyncio.timeout(10):
            while not (
                seen := [item async for item in client.list_workflows(f'WorkflowId = "paor-{run_id}"')]
            ):
                await asyncio.sleep(0.1)
        assert len(seen) == 1 and place.paid() == [run_id]

    play(work())


@pytest.mark.whole
def test_a_run_that_cannot_be_placed_keeps_no_other_back(place: Place) -> None:
    """One whose texts were erased is held back with the reason; the next one is driven."""

    async def work() -> None:
        host = place.engine()
        erased, other = host.submit("Pay").run_id, host.submit("Pay").run_id
        host.journal.erase(erased, force=True)
        async with place.worker(place.engine()):
            await place.ended(other)
            await until(
                lambda: [row.reason for row in RunQueue(host.journal.store.backend).rows()] == ["Erased"]
            )
        (row,) = RunQueue(host.journal.store.backend).rows()
        assert row.run_id == erased and row.ready_at is None and place.paid() == [other]

    play(work())


@pytest.mark.whole
def test_a_run_that_falls_back_keeps_its_workflow(place: Place) -> None:
    """The run that stands in for it is driven by the same one, and found by its answer."""

    async def work() -> None:
        host = place.engine(policy=ASKED)
        result = host.submit("Pay", fallback="batch")
        planned = (plan(step("shop.pay", order="O-1")), review("success", answer="Paid."))

        class Falls(Shop):
            def ask(self, request: Any) -> Any:
                """Say what cannot be read in the first run, then what pays."""
                reply = "no JSON" if request.run_id == result.run_id else planned[request.number]
                return json.dumps(reply)

        journal = place.stack.enter_context(Journal(place.where, "off"))
        async with place.worker(Engine(Falls(), [look, pay], journal, builtins=False, policy=ASKED)):
            (other,) = await until(lambda: host.journal.runs(status="waiting"))
            assert other.run_id != result.run_id
            await place.waits(result.run_id)
            await answered(host, other.run_id, {"approve": True})
            await until(lambda: host.journal.run(other.run_id).state == "Done")
            with pytest.raises(RPCError, match="not found"):
                await place.history(other.run_id)
            stands = await place.ended(result.run_id)
        assert stands.run_id == other.run_id and host.result(other.run_id).state == "Done"
        await replayed(await place.history(result.run_id))

    play(work())


@pytest.mark.whole
def test_a_workflow_of_tasks_is_one_workflow_of_temporal(place: Place) -> None:
    """Its tasks are driven within it; the answer to a task goes on with the whole, and its history holds ids alone."""

    async def work() -> None:
        host, other = place.engine(policy=ASKED), place.engine(policy=ASKED)
        run_id = host.submit_workflow("zebra", tasks=[Task("zebra one"), Task("zebra two")]).run_id
        async with place.worker(other):
            question = await answered(host, run_id, {"approve": True})
            await answered(host, run_id, {"approve": True}, after=question)
            stands = await place.ended(run_id)
        assert stands.run_id == run_id and host.result(run_id).state == "Done" and len(place.paid()) == 2
        history = await place.history(run_id)
        told = [base64.b64decode(data) for data in found(history.to_json_dict(), "data")]
        assert told and not any(b"zebra" in data for data in told) and "zebra" not in history.to_json()
        await replayed(history)

    play(work())


# -- waiting -----------------------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_a_question_that_is_overdue_is_declined_by_a_timer(place: Place) -> None:
    """Temporal keeps the time; nobody polls."""

    async def work() -> None:
        host, other = (
            place.engine(policy=ASKED, limits=Limits(elicitation_timeout_s=0.5, max_steps=2)) for _ in "12"
        )
        result = host.submit("Pay")
        async with place.worker(other):
            await place.ended(result.run_id)
        assert host.result(result.run_id).status in ("done", "failed") and place.paid() == []
        history = await place.history(result.run_id)
        timers = [kind for kind in kinds(history) if kind.startswith("TIMER")]
        assert timers == ["TIMER_STARTED", "TIMER_FIRED"]
        await replayed(history)

    play(work())


@pytest.mark.whole
def test_an_answer_from_anywhere_wakes_the_workflow(place: Place) -> None:
    """A process that knows of no Temporal gives it; the workflow gets a signal, which says nothing but that."""

    async def work() -> None:
        host, other = place.engine(policy=ASKED), place.engine(policy=ASKED)
        run_id = host.submit("Pay").run_id
        async with place.worker(other):
            await answered(host, run_id, {"approve": True})
            await place.ended(run_id)
        assert host.result(run_id).state == "Done" and place.paid() == [run_id]
        history = await place.history(run_id)
        assert "WORKFLOW_EXECUTION_SIGNALED" in kinds(history) and "TIMER_FIRED" not in kinds(history)
        await replayed(history)

    play(work())


@pytest.mark.whole
def test_a_workflow_begins_anew_before_its_history_is_long(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that asks often: each history is short, each replays, and the run ends."""
    monkeypatch.setattr(temporal_workflow, "DRIVES", 2)

    async def work() -> None:
        asking = [item for n in range(5) for item in (*call("shop.pay", order=f"O-{n}"), refine("continue"))]
        replies = (*asking, *call("shop.look", order="O"), refine("stop"), review("success", answer="Paid."))
        limits = Limits(max_steps=9)
        host, other = (place.engine(*replies, policy=ASKED, limits=limits) for _ in range(2))
        run_id = host.submit("Pay").run_id
        async with place.worker(other):
            question = ""
            for _ in range(5):
                question = await answered(host, run_id, {"approve": True}, after=question)
            await place.ended(run_id)
        assert host.result(run_id).state == "Done"
        histories = [await place.history(run_id)]
        while before := [*found(histories[-1].to_json_dict(), "continuedExecutionRunId")]:
            histories.append(await place.history(run_id, before[0]))
        assert len(histories) >= 3
        last, *others = (kinds(history)[-1] for history in histories)
        assert last == "WORKFLOW_EXECUTION_COMPLETED"
        assert set(others) == {"WORKFLOW_EXECUTION_CONTINUED_AS_NEW"}
        await replayed(*histories)

    play(work())


# -- stopping ----------------------------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize("how", ["signal", "cancellation", "journal"])
@pytest.mark.parametrize("when", ["it waits", "it is driven"])
def test_a_request_to_cancel_ends_the_run(how: str, when: str, place: Place, holds: Holds) -> None:
    """By a signal, by Temporal's own cancellation, or by a host; the journal says so, and no call is begun after it."""
    if when == "it is driven":
        holds.hold("look")

    async def work() -> None:
        host, other = place.engine(policy=ASKED), place.engine(policy=ASKED)
        run_id = host.submit("Pay").run_id
        handle = (await place.client()).get_workflow_handle(f"paor-{run_id}")
        async with place.worker(other):
            if when == "it waits":
                await place.waits(run_id)
            else:
                await asyncio.to_thread(holds.held, "look")
            if how == "signal":
                await handle.signal(DriveRun.cancel)
            elif how == "cancellation":
                await handle.cancel()
            else:
                await host.acancel(run_id)
            if when == "it is driven":
                holds.release("look")
            if how == "cancellation":
                with pytest.raises(WorkflowFailureError):
                    await place.ended(run_id)
            else:
                await place.ended(run_id)
        found = host.result(run_id)
        assert (found.state, found.reason) == ("Failed", "cancelled") and place.paid() == []
        ended = (await handle.describe()).status
        assert ended == WorkflowExecutionStatus["CANCELED" if how == "cancellation" else "COMPLETED"]
        assert RunQueue(host.journal.store.backend).rows() == []
        await replayed(await place.history(run_id))

    play(work())


@pytest.mark.whole
def test_a_worker_that_drains_leaves_its_run_to_another(place: Place, holds: Holds) -> None:
    """After its current call, so that nothing is in doubt; the other one goes on at once."""

    async def work() -> None:
        host = place.engine()
        holds.hold("look")
        run_id = host.submit("Pay").run_id
        async with place.worker(place.engine()) as drives:
            await asyncio.to_thread(holds.held, "look")
            drives.drain()
            holds.release("look")
        left = host.result(run_id)
        assert left.status == "running" and left.waiting_for is None and place.paid() == []
        async with place.worker(place.engine()):
            await place.ended(run_id)
        assert host.result(run_id).state == "Done" and place.paid() == [run_id]
        history = await place.history(run_id)
        assert "ACTIVITY_TASK_FAILED" not in kinds(history)
        await replayed(history)

    play(work())


@pytest.mark.whole
def test_a_run_that_somebody_else_drives_is_left_to_him(place: Place) -> None:
    """Until his lease runs out; then it goes on here."""

    async def work() -> None:
        host, other = place.engine(), place.engine(lease_s=2.0)
        run_id = host.submit("Pay").run_id
        until_us = lose_driver(other.journal, run_id)
        async with place.worker(place.engine()):
            await place.ended(run_id)
        assert host.journal.transitions(run_id)[0].at >= until_us and place.paid() == [run_id]
        await replayed(await place.history(run_id))

    play(work())


@pytest.mark.whole
def test_a_round_in_line_waits_for_its_turn(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is wrong with it: it is tried again, and no log calls that an error."""
    monkeypatch.setattr(temporal_room, "REST_S", 0.2)

    async def work() -> None:
        host = place.engine(policy=ASKED)
        first = host.submit("Pay", conversation="c").run_id
        last = host.submit("Pay", conversation="c", queue=True).run_id
        async with place.worker(place.engine(policy=ASKED)):
            await place.waits(first)
            assert await place.failure(last) == "ConversationBusy"
            await host.aresume(first, answer={"approve": True})
            await place.ended(last)
        assert place.paid() == [first] and host.journal.spec(last).follows == first
        await replayed(await place.history(last))

    play(work())
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


# -- what lasts --------------------------------------------------------------------------------------------------------


@pytest.mark.whole
@needs_temporal
def test_what_is_submitted_while_temporal_is_away_is_placed_when_it_is_back(tmp_path: Path) -> None:
    """A host needs no Temporal to submit; a worker that runs all the time goes on by itself."""
    server = TemporalServer()
    place = Place(tmp_path / "runs.db", server)

    async def work() -> None:
        host = place.engine(lease_s=2.0)
        async with place.worker(place.engine(lease_s=2.0)):
            server.kill()
            run_id = (await host.asubmit("Pay")).run_id
            await asyncio.to_thread(server.start)
            await place.ended(run_id)
        assert host.result(run_id).state == "Done" and place.paid() == [run_id]

    try:
        asyncio.run(asyncio.wait_for(work(), 120))
    finally:
        place.stack.close()
        server.close()


@pytest.mark.whole
@needs_temporal
def test_a_worker_that_is_started_while_temporal_is_away_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it would for its journal; a restart of both at once needs no order."""
    server = TemporalServer()
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)

    async def work() -> None:
        server.kill()
        connecting = asyncio.create_task(client_of_environment())
        await asyncio.sleep(1)
        assert not connecting.done()
        await asyncio.to_thread(server.start)
        assert (await connecting).namespace == "default"

    try:
        play(work())
    finally:
        server.close()


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.whole
@needs_temporal
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "Temporal cannot be reached"),
        (("--until-idle",), "--until-idle is not for --temporal"),
        (("--attempts", "3"), "--attempts is not for --temporal"),
    ],
)
def test_what_the_command_cannot_do_is_one_line(options: tuple[str, ...], says: str, tmp_path: Path) -> None:
    """And no key is in it."""
    shutil.copy(Path(__file__).with_name("shop_app.py"), tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "paor", "worker", "--app", "shop_app:engine", "--temporal", *options],
        cwd=tmp_path,
        env={**os.environ, "TEMPORAL_ADDRESS": "127.0.0.1:1", "TEMPORAL_API_KEY": "zebra"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert says in done.stderr and done.stderr.count("\n") == 1 and "zebra" not in done.stderr


@pytest.mark.whole
@pytest.mark.parametrize("concurrency", [0, 1001, True, 2.5])
def test_a_number_out_of_range_is_refused(concurrency: Any, place: Place) -> None:
    async def work() -> None:
        with pytest.raises(UsageError, match="concurrency"):
            TemporalWorker(place.engine(), await place.client(), concurrency=concurrency)

    play(work())


@pytest.mark.whole
@needs_temporal
def test_without_its_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("paor.temporal", "paor.worker"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"paor\[temporal\]"):
        importlib.import_module("paor.temporal")
