"""Submitted runs and workers, over a file and over PostgreSQL: each run is driven by one worker, to its end, whoever dies."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, Policy, Task, replay
from paor.audit import RunRow
from paor.cli import main
from paor.errors import KeyConflict, UsageError
from paor.worker import Worker, worker

from ..support.inside import Queued, RunQueue
from ..support.postgres_server import PostgresServer, server_missing
from .shop_app import POINTS, Holds, Shop, look, pay

PROGRAM = [sys.executable, "-m", "paor"]
APP = Path(__file__).with_name("shop_app.py")


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.whole)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where a new journal is."""
    if request.param == "file":
        return str(tmp_path / "runs.db")
    if reason := server_missing():
        pytest.skip(reason)
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.url()


@pytest.fixture
def opened(place: str) -> Iterator[Callable[..., Engine]]:
    """Return what makes an engine over one more connection to the journal."""
    with ExitStack() as stack:

        def make(*replies: Any, lease_s: float = 30.0, **options: Any) -> Engine:
            journal = stack.enter_context(Journal(place, "off", lease_s=lease_s))
            return Engine(Shop(*replies), [look, pay], journal, builtins=False, **options)

        yield make


@pytest.fixture(autouse=True)
def paid_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the shop note here what was paid, in this process and in others."""
    monkeypatch.setenv("PAID", str(tmp_path / "paid"))


def paid() -> list[str]:
    """Return the orders that were paid."""
    file = Path(os.environ["PAID"])
    return file.read_text().split() if file.exists() else []


def queue_of(engine: Engine) -> RunQueue:
    """Return the queue of an engine's journal."""
    return RunQueue(engine.journal.store.backend)


def rows_of(engine: Engine) -> list[Queued]:
    """Return what stands in it."""
    return queue_of(engine).rows()


def work(engine: Engine, **options: Any) -> int:
    """Work until nothing is left; return how many runs were driven."""
    return asyncio.run(asyncio.wait_for(Worker(engine, **options).run(until_idle=True), 30))


# -- submitting --------------------------------------------------------------------------------------------------------


def test_a_submitted_run_is_driven_by_a_worker(opened: Callable[..., Engine]) -> None:
    """Nobody drives it before; then it ends as it would have here, verifies and replays, and is out of the queue."""
    host, other = opened(), opened()
    result = host.submit("Pay it back", ["it is paid"], [("order.txt", "O-1")], metadata={"team": "a"})
    assert (result.status, result.state) == ("running", "Planning")
    assert not host.journal.store.leases.is_driven(1)
    assert work(other) == 1
    found = host.result(result.run_id)
    assert found.state == "Done" and found.answer == "Paid." and paid().count(result.run_id) == 1
    assert host.journal.runs(metadata={"team": "a"})[0].run_id == result.run_id
    assert host.journal.verify() == [] and replay(host.journal, result.run_id).identical
    assert rows_of(host) == [] and work(other) == 0


def test_a_key_is_submitted_once(opened: Callable[..., Engine]) -> None:
    """The same start again is the same run, before and after its end; another start is refused."""
    host = opened()
    first = host.submit("Pay", key="m-1")
    assert host.submit("Pay", key="m-1").run_id == first.run_id
    with pytest.raises(KeyConflict):
        host.submit("Pay twice", key="m-1")
    assert work(host) == 1
    again = host.submit("Pay", key="m-1")
    assert again.run_id == first.run_id and again.state == "Done"
    assert len(host.journal.runs()) == 1 and rows_of(host) == []


def test_what_a_worker_could_not_have_is_refused(opened: Callable[..., Engine]) -> None:
    """Connections and deps are never written; nothing is."""
    host = opened()
    for given in (
        {"connections": {"db": object()}},
        {"deps": object()},
        {"not_before": 7},
        {"limits": {"nope": 1}},
    ):
        with pytest.raises(UsageError):
            host.submit("Pay", **given)
    assert host.journal.runs() == []


def test_not_before_is_kept(opened: Callable[..., Engine]) -> None:
    """Nobody claims it earlier; one that is due is driven, whatever its time zone."""
    host = opened()
    late = host.submit("Late", not_before=datetime.now(UTC) + timedelta(hours=2))
    due = host.submit("Due", not_before=datetime.now(UTC) - timedelta(hours=2))
    assert work(host) == 1
    assert host.result(due.run_id).state == "Done" and host.result(late.run_id).state == "Planning"
    assert [row.run_id for row in rows_of(host)] == [late.run_id]
    queue_of(host).release(host.journal.run(late.run_id).run)
    assert work(host) == 1 and host.result(late.run_id).state == "Done"


# -- claiming ----------------------------------------------------------------------------------------------------------


def test_no_run_is_claimed_twice(opened: Callable[..., Engine]) -> None:
    """Eight claim at the same time, over connections of their own; together they get every run once, the oldest first."""
    hosts = [opened() for _ in range(8)]
    for number in range(60):
        hosts[0].submit(f"Run {number}")
    ready = threading.Barrier(8)

    def claim(host: Engine) -> list[int]:
        ready.wait()
        found: list[int] = []
        while len(found) < 100 and (claims := queue_of(host).claim(3, "w", 60.0)):
            assert [item.run for item in claims] == sorted(item.run for item in claims)
            found += [item.run for item in claims]
        return found

    with ThreadPoolExecutor(8) as pool:
        taken = [run for runs in pool.map(claim, hosts) for run in runs]
    assert sorted(taken) == list(range(1, 61))
    assert queue_of(hosts[0]).claim(1, "w", 60.0) == []


def test_a_run_that_is_driven_is_left_to_its_driver(opened: Callable[..., Engine]) -> None:
    """It counts as no attempt, and comes up when the lease of its driver runs out."""
    host, other = opened(), opened(lease_s=0.3)
    run_id = host.submit("Pay").run_id
    fence = other.journal.store.leases.acquire(1)
    driver = Worker(host)
    (claim,) = queue_of(host).claim(1, "w", 30.0)
    assert asyncio.run(driver._take_up(claim)) is False
    (row,) = rows_of(host)
    assert row.attempts == 0 and row.reason == "driven by another"
    ahead = (row.ready_at or 0) - queue_of(host).now_us()
    assert ahead <= 400_000, "when its lease runs out"
    other.journal.store.leases.release(1, fence)
    assert work(host) == 1 and host.result(run_id).state == "Done"


def test_no_more_is_claimed_than_was_asked_for(opened: Callable[..., Engine]) -> None:
    """Whatever plan the database makes, also one from when there was less."""
    host = opened()
    host.submit("Run")
    if host.journal.store.backend.is_shared:
        host.journal.store.backend.execute("ANALYZE queue", ())
    for number in range(20):
        host.submit(f"Run {number}")
    for count in (1, 2, 5):
        assert len(queue_of(host).claim(count, "w", 60.0)) == count


def test_what_a_worker_notes_late_counts_no_more(opened: Callable[..., Engine]) -> None:
    """An answer that comes between the end of its drive and its note has the run come up; so has another claim."""
    host = opened(policy=ASKED)
    host.submit("Pay")
    queue = queue_of(host)
    (claim,) = queue.claim(1, "w", 60.0)
    queue.release(1)
    queue.put_back(claim, queue.now_us() + 3_600_000_000, "waits", counted=False)
    queue.hold_back(claim, "late")
    (row,) = rows_of(host)
    assert row.ready_at is not None and row.ready_at <= queue.now_us() and row.attempts == 0


@pytest.mark.parametrize("left", ["with its end", "within the other", "not at all", "by a lost driver"])
def test_a_run_that_falls_back_goes_on_with_the_other_run(left: str, opened: Callable[..., Engine]) -> None:
    """Whenever its worker leaves it, or is lost: the other one stands in the queue in its place, and nothing is left over."""
    bad = "no JSON"
    host = opened(bad, bad, bad, bad)
    run_id = host.submit("Pay", fallback="batch").run_id
    drives = Worker(host)

    def hook(event: Any) -> None:
        if event.kind != "transition":
            return
        its_end = event.run_id == run_id and event.dest == "Failed"
        if (its_end and left == "with its end") or (event.run_id != run_id and left == "within the other"):
            drives.drain()

    if left == "by a lost driver":
        for event in host.resume_stream(run_id, on_close="stop"):
            if event.run_id != run_id and event.kind == "start":
                break
    host.hooks = (hook,)
    asyncio.run(asyncio.wait_for(drives.run(until_idle=True), 30))
    host.hooks = ()
    states = [row.state for row in host.journal.runs()]
    if left in ("with its end", "within the other"):
        assert states != ["Failed", "Failed"] and len(rows_of(host)) == (left == "within the other")
        assert len(states) == (1 if left == "with its end" else 2)
        assert work(host) == 1
    assert [row.state for row in host.journal.runs()] == ["Failed", "Failed"]
    assert queue_of(host).next_ready() is None and rows_of(host) == []


# -- waiting for a person ----------------------------------------------------------------------------------------------

ASKED = Policy(approvals=("shop.pay",))


def test_a_run_that_waits_is_taken_up_with_its_answer(opened: Callable[..., Engine]) -> None:
    """Until then it is looked at rarely; the answer alone wakes a worker."""
    host = opened(policy=ASKED)
    run_id = host.submit("Pay").run_id
    assert work(host) == 1
    (row,) = rows_of(host)
    assert row.reason == "waits" and (row.ready_at or 0) > queue_of(host).now_us() + 3_000_000_000
    assert work(host) == 0 and run_id not in paid()
    (waiting,) = host.waiting()
    assert waiting.waiting_for is not None
    host.answer(run_id, question=waiting.waiting_for.id, answer={"approve": True}, actor="Dana")
    assert work(host) == 1
    assert host.result(run_id).state == "Done" and paid().count(run_id) == 1


def test_a_worker_that_listens_is_woken_by_the_answer(
    opened: Callable[..., Engine], monkeypatch: Any
) -> None:
    """Within a moment, not with its next look; on a file the look is soon."""
    monkeypatch.setattr(worker, "LOOK_S", 0.2)
    host, other = opened(policy=ASKED), opened(policy=ASKED)

    async def both() -> None:
        drives = Worker(other)
        task = asyncio.create_task(drives.run())
        run_id = (await host.asubmit("Pay")).run_id
        while not (found := await host.awaiting()):
            await asyncio.sleep(0.02)
        assert found[0].waiting_for is not None
        await host.aanswer(run_id, question=found[0].waiting_for.id, answer={"approve": True})
        while (await host.aresult(run_id)).state != "Done":
            await asyncio.sleep(0.02)
        drives.drain()
        assert await task == 2

    asyncio.run(asyncio.wait_for(both(), 30))


def test_a_question_that_is_overdue_is_declined(opened: Callable[..., Engine]) -> None:
    """The run comes up by itself when its question counts as declined."""
    host = opened(policy=ASKED, limits=Limits(elicitation_timeout_s=0.2, max_steps=2))
    run_id = host.submit("Pay").run_id
    assert work(host) >= 2
    assert host.result(run_id).status in ("done", "failed") and run_id not in paid()


# -- workflows ---------------------------------------------------------------------------------------------------------

TASKS = [Task("Pay the first"), Task("Pay the second")]


def runs_by_task(host: Engine, run_id: str) -> dict[int, RunRow]:
    """Return the runs of a workflow by their task, 0 the whole."""
    return {row.task: row for row in host.journal.runs() if row.workflow_id == run_id}


@pytest.mark.parametrize("tasks", [None, TASKS], ids=["planned", "given"])
def test_a_submitted_workflow_is_driven_with_its_tasks(tasks: Any, opened: Callable[..., Engine]) -> None:
    """As `run_workflow` would drive it; its key names one workflow."""
    host, other = opened(), opened()
    submitted = host.submit_workflow("Pay both", ["both are paid"], tasks=tasks, key="w-1")
    assert (submitted.status, submitted.state) == ("running", "Planning")
    assert host.submit_workflow("Pay both", ["both are paid"], tasks=tasks, key="w-1") == submitted
    with pytest.raises(KeyConflict):
        host.submit_workflow("Pay all", tasks=tasks, key="w-1")
    with pytest.raises(UsageError, match="deps would be lost"):
        host.submit_workflow("Pay both", tasks=tasks, deps=object())
    assert work(other) == 1
    runs = runs_by_task(host, submitted.run_id)
    assert [runs[task].state for task in range(3)] == ["Done"] * 3 and rows_of(host) == []
    assert paid() == [runs[1].run_id, runs[2].run_id]
    assert host.journal.verify() == []
    assert all(replay(host.journal, row.run_id).identical for row in runs.values())
    direct = host.run_workflow("Pay both", ["both are paid"], tasks=tasks)
    assert host.result(submitted.run_id).answer == direct.answer
    assert [row.head_seq for row in runs_by_task(host, direct.run_id).values()] == [
        row.head_seq for row in runs.values()
    ]


@pytest.mark.parametrize("by", ["the whole", "the task", "a resume of the task"])
def test_a_workflow_goes_on_with_the_answer_to_its_task(by: str, opened: Callable[..., Engine]) -> None:
    """To whichever run it is given; the workflow is looked at rarely before, and at once after it."""
    host = opened(policy=ASKED)
    run_id = host.submit_workflow("Pay both", tasks=TASKS).run_id
    for task in (1, 2):
        assert work(host) == 1
        (row,) = rows_of(host)
        assert row.run_id == run_id and row.reason == "waits"
        assert (row.ready_at or 0) > queue_of(host).now_us() + 3_000_000_000
        waiting = host.result(run_id).waiting_for
        assert waiting is not None and len(paid()) == task - 1
        its_run = runs_by_task(host, run_id)[task].run_id
        if by == "a resume of the task":
            host.resume(its_run, question=waiting.id, answer={"approve": True})
        else:
            asked = run_id if by == "the whole" else its_run
            host.answer(asked, question=waiting.id, answer={"approve": True})
    assert work(host) == 1
    runs = runs_by_task(host, run_id)
    assert [runs[task].state for task in range(3)] == ["Done"] * 3
    assert paid() == [runs[1].run_id, runs[2].run_id] and rows_of(host) == []


def test_a_workflow_whose_task_somebody_else_drives_is_looked_at_soon(opened: Callable[..., Engine]) -> None:
    """It has nothing to wait for but him; no hour passes."""
    host, other = opened(policy=ASKED), opened(policy=ASKED)
    run_id = host.submit_workflow("Pay one", tasks=TASKS[:1]).run_id
    assert work(host) == 1
    waiting = host.result(run_id).waiting_for
    assert waiting is not None
    its_run = runs_by_task(host, run_id)[1].run_id
    driving = host.resume_stream(its_run, question=waiting.id, answer={"approve": True}, on_close="stop")
    assert any(event.kind == "transition" for event in driving)  # and he holds it
    queue_of(host).release(1)
    (claim,) = queue_of(other).claim(1, "w", 60.0)
    asyncio.run(Worker(other)._take_up(claim))
    (row,) = rows_of(host)
    assert row.reason == "waits" and (row.ready_at or 0) < queue_of(host).now_us() + 10_000_000
    assert len(list(driving)) > 1
    assert work(other) == 1
    assert host.result(run_id).state == "Done" and paid() == [its_run]


@pytest.mark.parametrize("of", ["a run", "a task"])
def test_what_takes_its_answer_is_looked_at_within_a_lease(of: str, opened: Callable[..., Engine]) -> None:
    """Whoever drives it on may die at once: until then it was looked at once an hour, and so was the workflow that waits for it."""
    host, other = opened(policy=ASKED), opened(policy=ASKED)
    task = of == "a task"
    run_id = (host.submit_workflow("Pay one", tasks=TASKS[:1]) if task else host.submit("Pay")).run_id
    assert work(host) == 1
    waiting = host.result(run_id).waiting_for
    assert waiting is not None
    asks = runs_by_task(host, run_id)[1].run_id
    driving = host.resume_stream(asks, question=waiting.id, answer={"approve": True}, on_close="stop")
    assert any(event.kind == "transition" for event in driving)
    (row,) = rows_of(host)
    assert row.run_id == run_id and (row.ready_at or 0) <= queue_of(host).now_us() + 30_000_000
    assert len(list(driving)) > 1
    work(other)
    assert host.result(run_id).state == "Done" and paid() == [asks] and rows_of(host) == []


def test_a_workflow_that_is_cancelled_ends_with_its_tasks(opened: Callable[..., Engine]) -> None:
    """While a task of it waits."""
    host = opened(policy=ASKED)
    run_id = host.submit_workflow("Pay both", tasks=TASKS).run_id
    assert work(host) == 1
    assert host.cancel(run_id).reason == "cancelled"
    assert [row.state for row in runs_by_task(host, run_id).values()] == ["Failed", "Failed"]
    assert work(host) == 0 and rows_of(host) == [] and paid() == []


def test_a_worker_that_drains_leaves_a_workflow_within_its_task(opened: Callable[..., Engine]) -> None:
    """After the current call of the task, so that nothing is in doubt; the lease of both is free, and another goes on at once."""
    host = opened()
    run_id = host.submit_workflow("Pay both", tasks=TASKS).run_id
    drives = Worker(host)

    def hook(event: Any) -> None:
        if event.kind == "transition" and event.run_id != run_id and event.dest == "Executing":
            drives.drain()

    host.hooks = (hook,)
    asyncio.run(asyncio.wait_for(drives.run(), 30))
    host.hooks = ()
    runs = runs_by_task(host, run_id)
    assert runs[0].state == "Executing" and runs[1].state in ("Observing", "Reviewing")
    assert not any(host.journal.store.leases.is_driven(row.run) for row in runs.values())
    (row,) = rows_of(host)
    assert row.reason == "left" and (row.ready_at or 0) <= queue_of(host).now_us()
    assert work(host) == 1
    runs = runs_by_task(host, run_id)
    assert [runs[task].state for task in range(3)] == ["Done"] * 3
    assert paid() == [runs[1].run_id, runs[2].run_id]


def test_a_workflow_gets_further_with_the_rows_of_its_tasks(opened: Callable[..., Engine]) -> None:
    """Else one with a long task would be held back as a run that kills its workers."""
    host = opened()
    run_id = host.submit_workflow("Pay both", tasks=TASKS).run_id
    rows_of_whole = []
    for _ in range(4):
        drives = Worker(host, attempts=1)

        def hook(event: Any, drives: Worker = drives) -> None:
            if event.kind == "transition":
                drives.drain()

        host.hooks = (hook,)
        asyncio.run(asyncio.wait_for(drives.run(until_idle=True), 30))
        rows_of_whole.append(host.journal.run(run_id).head_seq)
        host.journal.store.backend.execute("UPDATE queue SET attempts = 9", ())  # as if its worker had died
        (row,) = rows_of(host)
        assert row.reason == "left" and row.ready_at is not None
    assert len(set(rows_of_whole)) < 4, "it was left within a task"
    host.hooks = ()
    assert work(host, attempts=1) == 1 and host.result(run_id).state == "Done"


# -- what cannot go on -------------------------------------------------------------------------------------------------


def test_a_run_that_ends_by_other_hands_leaves_the_queue(opened: Callable[..., Engine]) -> None:
    """Cancelled, or resumed by its host."""
    host = opened()
    one, two = host.submit("Pay").run_id, host.submit("Pay").run_id
    assert host.cancel(one).reason == "cancelled"
    assert host.resume(two).state == "Done"
    assert rows_of(host) == []
    assert work(host) == 0 and paid().count(two) == 1


def begun(host: Engine) -> str:
    """Return a run that was submitted and has four rows."""
    run_id = host.submit("Pay").run_id
    for event in host.resume_stream(run_id, on_close="stop"):
        if event.kind == "transition" and event.seq == 3:
            break
    return run_id


def test_while_two_versions_work_each_run_goes_on_with_its_own(
    opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that a run does not fit gives it back for one that it fits, however often it claims it first."""
    monkeypatch.setattr(worker, "BACK_OFF_S", (0.01,))
    monkeypatch.setattr(worker, "LOOK_S", 0.05)
    host = opened()
    run_id, tried = begun(host), list[int]()

    def options(row: Any) -> Any:
        tried.append(row.run)
        return {}

    async def both() -> None:
        newer = Worker(opened(policy=ASKED), options=options)
        task = asyncio.create_task(newer.run())
        while len(tried) < 2:
            await asyncio.sleep(0.01)
        newer.drain()
        assert await task == 0
        assert await Worker(opened()).run(until_idle=True) == 1

    asyncio.run(asyncio.wait_for(both(), 30))
    assert host.result(run_id).state == "Done" and paid() == [run_id]


def test_a_host_that_raises_is_tried_again_and_then_held_back(
    opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many times at one row, each time later; the reason stands in the queue, and the other runs go on."""
    monkeypatch.setattr(worker, "BACK_OFF_S", (0.01,))
    monkeypatch.setattr(worker, "LOOK_S", 0.05)
    tried: list[int] = []

    def options(row: Any) -> Any:
        tried.append(row.run)
        if row.run == 1:
            raise ConnectionError("db.internal: secret of a customer")
        return {}

    host = opened()
    bad, good = host.submit("Bad").run_id, host.submit("Good").run_id
    assert work(host, options=options, attempts=3) == 1
    assert tried.count(1) == 3 and tried.count(2) == 1
    (row,) = rows_of(host)
    assert row.run_id == bad and row.ready_at is None
    assert row.reason == (
        "given up: 3 times taken up before its first row without getting further, at last: ConnectionError before its"
        " first row"
    )
    assert host.result(good).state == "Done" and host.result(bad).state == "Planning"


def test_what_no_other_try_can_change_is_held_back_at_once(opened: Callable[..., Engine]) -> None:
    """An answer to no question, say; without it the run goes on once it is released."""
    host = opened()
    run_id = host.submit("Pay").run_id
    assert work(host, options=lambda row: {"answer": {"approve": True}}) == 0
    (row,) = rows_of(host)
    assert row.ready_at is None and row.attempts == 1 and row.reason == "InvalidAnswer before its first row"
    queue_of(host).release(1)
    assert work(host) == 1 and host.result(run_id).state == "Done"


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), -1, 10**9])
@pytest.mark.parametrize("column", ["attempts", "tried_seq", "ready_at"])
def test_a_row_with_absurd_numbers_stops_nobody(
    column: str, number: int, opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host may write them; the other runs are driven, and the list shows the row."""
    monkeypatch.setattr(worker, "BACK_OFF_S", (0.01,))
    monkeypatch.setattr(worker, "LOOK_S", 0.05)
    host = opened()
    bad, good = host.submit("Bad").run_id, host.submit("Good").run_id
    host.journal.store.backend.execute(f"UPDATE queue SET {column} = ? WHERE run = 1", (number,))
    assert bad in {row.run_id for row in rows_of(host)}
    work(host)
    assert host.result(good).state == "Done"
    assert host.result(bad).state == "Done" or bad in {row.run_id for row in rows_of(host)}


@pytest.mark.parametrize(
    "given", [{"attempts": 0}, {"concurrency": True}, {"concurrency": 1001}, {"attempts": "3"}]
)
def test_numbers_out_of_range_are_refused(given: dict[str, Any], opened: Callable[..., Engine]) -> None:
    """Before anything is claimed."""
    with pytest.raises(UsageError, match="expected a whole number from 1 to 1000"):
        Worker(opened(), **given)


# -- real processes ----------------------------------------------------------------------------------------------------


def start_worker(folder: Path, place: str, *options: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start ``paor worker`` with the app of this module."""
    shutil.copy(APP, folder)
    return subprocess.Popen(
        [*PROGRAM, "worker", "--app", "shop_app:engine", "--journal", place, *options],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.whole
def test_workers_that_are_killed_lose_and_double_nothing(
    opened: Callable[..., Engine], place: str, tmp_path: Path
) -> None:
    """One dies looking, one before it pays, one after it: only what those two last were doing is in doubt, and nothing is paid twice."""
    host, holds, lost = opened(), Holds(tmp_path / "holds"), dict[str, str]()
    workflow = host.submit_workflow("Pay both", tasks=TASKS).run_id
    ids = [workflow, *(host.submit(f"Run {number}").run_id for number in range(3))]
    for point in POINTS:
        holds.hold(point)
        process = start_worker(tmp_path, place, "--quiet", "--concurrency", "1", HOLDS=str(holds.folder))
        call = holds.held(point)
        assert call.pid == process.pid
        process.send_signal(signal.SIGKILL)
        process.communicate()
        holds.release(point)
        lost[point] = call.order
        _ready_now(host)
    assert lost["look"] == lost["unpaid"] != lost["paid"], "the oldest first"

    def finish() -> None:
        last = start_worker(tmp_path, place, "--quiet", "--until-idle")
        last.communicate(timeout=60)
        assert last.returncode == 0

    finish()
    doubtful = {row.run_id for row in host.journal.runs(status="waiting") if row.task}
    assert doubtful == {lost["unpaid"], lost["paid"]} and lost["unpaid"] not in paid()
    for run_id, outcome in ((lost["unpaid"], "retry"), (lost["paid"], "done")):
        waiting = host.result(run_id).waiting_for
        assert waiting is not None and waiting.kind == "in_doubt"
        host.answer(run_id, question=waiting.id, outcome=outcome)
    finish()
    assert [host.result(run_id).state for run_id in ids] == ["Done"] * 4
    every = {row.run_id: row for row in host.journal.runs()}
    assert sorted(paid()) == sorted(run_id for run_id, row in every.items() if row.task)
    assert host.journal.verify() == []
    assert all(replay(host.journal, run_id).identical for run_id in every)


@pytest.mark.whole
def test_a_worker_drains_on_sigterm(opened: Callable[..., Engine], place: str, tmp_path: Path) -> None:
    """It ends the call that it is in, gives the run back at once, and exits with 0; another one goes on with it."""
    host, holds = opened(), Holds(tmp_path / "holds")
    run_id = host.submit("Pay").run_id
    holds.hold("look")
    first = start_worker(tmp_path, place, HOLDS=str(holds.folder))
    assert first.stderr is not None and holds.held("look") == (first.pid, run_id)
    first.send_signal(signal.SIGTERM)
    assert any(b"draining" in line for line in iter(first.stderr.readline, b""))
    holds.release("look")
    out, _ = first.communicate(timeout=60)
    assert first.returncode == 0 and out == b""
    row = host.journal.run(run_id)
    assert row.status == "running" and row.state in ("Observing", "Reviewing"), "left after its call"
    assert not host.journal.store.leases.is_driven(row.run)
    (queued,) = rows_of(host)
    assert queued.reason == "left" and (queued.ready_at or 0) <= queue_of(host).now_us()
    second = start_worker(tmp_path, place, "--until-idle", "--json")
    out, _ = second.communicate(timeout=60)
    assert second.returncode == 0 and json.loads(out)["driven"] == 1
    assert host.result(run_id).state == "Done" and paid() == [run_id]


def test_a_drain_comes_between_no_intent_and_its_call(opened: Callable[..., Engine]) -> None:
    """Else the next driver could not know that a call which must not be made twice was never begun."""
    host = opened()
    run_id = host.submit("Pay").run_id
    drives = Worker(host)
    seen: list[str] = []

    def hook(event: Any) -> None:
        if event.kind == "transition" and event.dest == "Executing":
            seen.append(event.trigger)
            if len(seen) == 2:  # of the once tool
                drives.drain()

    host.hooks = (hook,)
    asyncio.run(asyncio.wait_for(drives.run(), 30))
    assert host.journal.run(run_id).state != "Executing" and paid().count(run_id) == 1
    host.hooks = ()
    assert work(host) == 1 and host.result(run_id).state == "Done" and paid().count(run_id) == 1


@pytest.mark.whole
def test_a_run_that_kills_its_workers_is_held_back(
    opened: Callable[..., Engine], place: str, tmp_path: Path
) -> None:
    """After so many attempts at the same row; the reason stands in the queue, and a release has it tried again."""
    host = opened()
    run_id = host.submit("Pay").run_id
    for _ in range(4):
        _ready_now(host)
        process = start_worker(tmp_path, place, "--until-idle", "--quiet", "--attempts", "2", POISON="1")
        process.communicate(timeout=60)
    assert process.returncode == 0, "the last one did not touch it"
    (row,) = rows_of(host)
    assert row.ready_at is None and row.reason is not None and "given up: 2 times" in row.reason
    queue_of(host).release(1)
    healthy = start_worker(tmp_path, place, "--until-idle", "--quiet")
    healthy.communicate(timeout=60)
    assert host.result(run_id).state == "Done" and paid() == [run_id]


def test_a_run_is_released_that_is_queued_and_no_other(
    opened: Callable[..., Engine], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Of any other it is said that it is in no queue: no worker would take it up."""
    shutil.copy(APP, tmp_path)
    monkeypatch.chdir(tmp_path)
    host = opened()
    run_id = host.run("Pay").run_id
    words = ["worker", "--app", "shop_app:engine", "--journal", place, "--release"]
    for _ in range(2):  # as long as nothing was ever queued, and then
        assert main([*words, run_id]) == 2
        said = capsys.readouterr()
        assert said.out == "" and f"run {run_id} is in no queue" in said.err and said.err.count("\n") == 1
        late = host.submit("Pay", not_before=datetime.now(UTC) + timedelta(hours=1)).run_id
    assert main([*words, late]) == 0 and f"run {late}  comes up again" in capsys.readouterr().out
    (_, row) = sorted(rows_of(host), key=lambda row: row.run_id)
    assert (row.ready_at or 0) <= queue_of(host).now_us()
    assert host.resume(late).state == "Done" and main([*words, late]) == 2
    assert f"run {late} is in no queue" in capsys.readouterr().err


def test_an_answer_brings_up_what_waits_or_is_claimed_and_nothing_that_is_held_back(
    opened: Callable[..., Engine],
) -> None:
    """A worker may have seen the run wait before the answer: its note on the run counts no more."""
    host = opened()
    for _ in range(2):
        host.submit("Pay")
    queue = queue_of(host)
    claimed, held = queue.claim(2, "w", 3600.0)
    queue.hold_back(held, "given up")
    queue.bring_forward([claimed.run, held.run], 30.0)
    queue.put_back(claimed, claimed.ready_at, "waits")
    ready = {row.reason: row.ready_at for row in rows_of(host)}
    assert ready["given up"] is None and 0 < (ready[None] or 0) <= queue.now_us() + 30_000_000


def _ready_now(host: Engine) -> None:
    """Have what a lost worker had claimed come up at once, as its lease would; the attempts count on."""
    backend = host.journal.store.backend
    backend.execute("UPDATE queue SET ready_at = 1 WHERE ready_at IS NOT NULL", ())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--concurrency", "0"], "--concurrency"),
        (["--attempts", "x"], "--attempts"),
        (["--app", "no_such_module:engine"], "no_such_module"),
        (["--journal", "postgresql://u:secret@127.0.0.1:1/x"], "cannot be reached"),
        (["--journal", "postgresql://u:secret@127.0.0.1:1/x?schema=A B"], "schema"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And the exit code 2; a password is in no message."""
    shutil.copy(APP, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAOR_BUSY_TIMEOUT_S", "0.1")
    start = ["--app", "shop_app:engine"] if "--app" not in words else []
    assert main(["worker", *start, *words, "--until-idle"]) == 2
    said = capsys.readouterr()
    assert told in said.err and "Traceback" not in said.err
    assert "secret" not in said.out + said.err and said.err.count("\n") <= 3
