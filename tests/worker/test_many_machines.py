"""
The ordeal: workers that are killed and servers that crash, at points that the test chooses, while runs call a tool that must not be
called twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from paor import Engine, Journal, ScriptedModel, replay
from paor.errors import JournalBusy, LeaseHeld

from ..support.postgres_server import PostgresServer, needs_postgres
from .lost_drivers import lose_driver
from .shop_app import Holds, look, pay
from .temporal_server import TemporalServer, needs_temporal, temporal_missing

if not temporal_missing():
    from temporalio.client import Client, WorkflowHistory
    from temporalio.worker import Replayer

    from paor.temporal import DriveRun

pytestmark = pytest.mark.whole
LEASE_S = 2.0
APP = Path(__file__).with_name("shop_app.py")
BATCH = 10
"""Runs that are submitted before each blow, so that some get to the point at which it falls."""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """Give a server of one test's own, which writes to its disk as it should."""
    own = PostgresServer()
    yield own
    own.close()


class Ordeal:
    """
    Three workers over one journal, and what happens to them.

    Args:
        folder: For the app and what was paid.
        server: With the journal.
        temporal: That places the runs, and crashes, too; None for the queue alone.

    Attributes:
        settled: What was answered of each call that was in doubt, by its run.
    """

    def __init__(self, folder: Path, server: PostgresServer, temporal: TemporalServer | None = None) -> None:
        self.folder, self.server, self.url, self.temporal = folder, server, server.url("ordeal"), temporal
        shutil.copy(APP, folder)
        self.holds = Holds(folder / "holds")
        self.host = Engine(
            ScriptedModel([]),
            [pay, look],
            Journal(self.url, lease_s=LEASE_S, busy_timeout_s=60),
            builtins=False,
        )
        self.pool = ThreadPoolExecutor(1)
        self.submitted: list[str] = []
        self.settled: dict[str, str] = {}
        self.workers = [self.start() for _ in range(3)]

    def start(self) -> subprocess.Popen[bytes]:
        """Start a worker."""
        placed = {} if self.temporal is None else {"TEMPORAL_ADDRESS": self.temporal.address}
        paths = {"PAID": str(self.folder / "paid"), "HOLDS": str(self.holds.folder), "WHERE": self.url}
        command = ["worker", "--app", "shop_app:own_engine", "--quiet", "--concurrency", "8"]
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "paor", *command, *(["--temporal"] if placed else [])],
                cwd=self.folder,
                env={**os.environ, **placed, **paths},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )

    def submit(self) -> Future[None]:
        """Begin to submit a batch, each run again where the server crashes meanwhile: its key has it started once."""

        def each() -> None:
            for number in range(len(self.submitted), len(self.submitted) + BATCH):
                while len(self.submitted) <= number:
                    with suppress(JournalBusy):
                        run = self.host.submit(f"Run {number}", key=f"order-{number}")
                        self.submitted.append(run.run_id)

        return self.pool.submit(each)

    def kill_at(self, point: str) -> str:
        """Kill the worker whose call comes to a point first, start another one, and return the order of that call."""
        self.holds.hold(point)
        self.submit().result()
        call = self.holds.held(point, self.settle)
        at = next(number for number, worker in enumerate(self.workers) if worker.pid == call.pid)
        self.workers[at].kill()
        self.workers[at].wait()
        self.holds.release(point)
        self.workers[at] = self.start()
        return call.order

    def crash(self, stop: Callable[[], object], start: Callable[[], object]) -> None:
        """Crash a server within a call of a run and with runs half submitted, and have it come back."""
        self.holds.hold("look")
        self.submit().result()
        self.holds.held("look", self.settle)
        stop()
        submitting = self.submit()
        start()
        self.holds.release("look")
        submitting.result()

    def paid(self) -> list[str]:
        """Return the orders that were paid."""
        file = self.folder / "paid"
        return file.read_text().split() if file.exists() else []

    def settle(self) -> None:
        """Say of each call that is in doubt what came of it, as a person does; replace workers that began while a server was away."""
        for at, worker in enumerate(self.workers):
            if worker.poll() == 2:
                self.workers[at] = self.start()
        with suppress(JournalBusy):
            for waiting in self.host.waiting():
                assert waiting.waiting_for is not None and waiting.waiting_for.kind == "in_doubt"
                is_paid = waiting.run_id in self.paid()
                given = {"outcome": "done", "result": "paid"} if is_paid else {"outcome": "retry"}
                with suppress(LeaseHeld):  # its driver has not let go: the next look settles it
                    self.host.answer(waiting.run_id, question=waiting.waiting_for.id, **given)
                    self.settled[waiting.run_id] = str(given["outcome"])

    def finish(self) -> None:
        """Settle doubts until every run, and every workflow of Temporal, has ended; then have the workers drain."""
        deadline = time.monotonic() + 300
        while left := self._left():
            assert time.monotonic() < deadline, f"{left} runs are left"
            self.settle()
            time.sleep(0.05)
        self.end()

    def _left(self) -> int:
        runs = sum(run.status not in ("done", "failed") for run in self.host.journal.runs())
        return runs or (asyncio.run(self._workflows()) if self.temporal is not None else 0)

    async def _workflows(self) -> int:
        assert self.temporal is not None
        client = await Client.connect(self.temporal.address)
        return (await client.count_workflows("ExecutionStatus = 'Running'")).count

    def end(self) -> None:
        """Have the workers drain; one that was only just started ends at once."""
        for worker in self.workers:
            worker.terminate()
        codes = {worker.wait(timeout=90) for worker in self.workers}
        assert codes <= {0, -signal.SIGTERM}, (self.folder / "said").read_text()[-2000:]


def suffer(folder: Path, server: PostgresServer, temporal: TemporalServer | None = None) -> Ordeal:
    """Kill a worker at every point, twice, and crash every server; then nothing is lost, nothing doubled."""
    ordeal = Ordeal(folder, server, temporal)
    try:
        orders = {point: [ordeal.kill_at(point)] for point in ("look", "unpaid", "paid")}
        if temporal is not None:
            ordeal.crash(temporal.kill, temporal.start)
        ordeal.crash(server.stop, server.start)
        for point, lost in orders.items():
            lost.append(ordeal.kill_at(point))
        ordeal.finish()
    finally:
        for worker in ordeal.workers:
            worker.kill()
    journal, ids = ordeal.host.journal, set(ordeal.submitted)
    assert Counter(ordeal.paid()) == dict.fromkeys(ids, 1), "lost or doubled"
    assert {run.run_id for run in journal.runs(state="Done")} == ids
    assert len(ids) == len(ordeal.submitted) == BATCH * (8 if temporal is None else 10)
    assert {ordeal.settled[order] for order in orders["unpaid"]} == {"retry"}
    assert {ordeal.settled[order] for order in orders["paid"]} == {"done"}
    assert journal.verify() == []
    copy = Journal(folder / "copy.db", "off")
    for run_id in ids:
        lines = list(journal.export(run_id))
        copy.import_lines(json.dumps(line).encode() for line in lines)
        assert list(copy.export(run_id)) == lines
    assert all(replay(journal, run_id).identical for run_id in ids)
    return ordeal


@needs_postgres
def test_runs_over_kills_and_a_crash(tmp_path: Path, server: PostgresServer) -> None:
    """Workers that the queue gives their runs."""
    suffer(tmp_path, server)


@needs_postgres
@needs_temporal
def test_runs_that_temporal_places(tmp_path: Path, server: PostgresServer) -> None:
    """Temporal crashes as well; then every history replays."""
    temporal = TemporalServer()

    async def look_at(runs: int) -> None:
        client = await Client.connect(temporal.address)
        async with asyncio.timeout(30):
            while len(listed := [item async for item in client.list_workflows()]) < runs:
                await asyncio.sleep(0.1)  # the list is written behind the workflows
        found = [
            await client.get_workflow_handle(item.id, run_id=item.run_id).fetch_history() for item in listed
        ]
        replayer = Replayer(workflows=[DriveRun])
        results = await replayer.replay_workflows(_each(found), raise_on_replay_failure=False)
        assert results.replay_failures == {}

    try:
        ordeal = suffer(tmp_path, server, temporal)
        asyncio.run(look_at(len(ordeal.submitted)))
    finally:
        temporal.close()


async def _each(found: list[WorkflowHistory]) -> AsyncIterator[WorkflowHistory]:
    for history in found:
        yield history


@needs_postgres
def test_a_lost_worker_is_replaced_when_its_lease_has_run_out(tmp_path: Path, server: PostgresServer) -> None:
    """One that cannot be seen to be dead, as on another machine."""
    ordeal = Ordeal(tmp_path, server)
    ordeal.end()
    run_id = ordeal.host.submit("Pay").run_id
    until = lose_driver(ordeal.host.journal, run_id, 3.0)
    ordeal.workers = [ordeal.start() for _ in range(3)]
    ordeal.finish()
    assert ordeal.host.journal.transitions(run_id)[0].at >= until, "not before its lease ran out"
