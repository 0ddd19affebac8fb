"""The ordeal: workers that are killed and a PostgreSQL that crashes, while hundreds of runs call a tool that must not be called twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paor import Engine, Journal, ScriptedModel, replay
from paor.errors import JournalBusy, PaorError

from ..journal.conformance import export_of
from ..support.postgres_server import PostgresServer, needs_postgres
from ..support.shop_app import look, pay
from ..support.temporal_server import TemporalServer, needs_temporal, temporal_missing

if not temporal_missing():
    from temporalio.client import Client, WorkflowHistory
    from temporalio.worker import Replayer

pytestmark = needs_postgres
LEASE_S = 2.0
APP = Path(__file__).parents[1] / "support" / "shop_app.py"


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
        seed: Of which worker dies when.
        temporal: That places the runs, and crashes, too; None for the queue alone.
    """

    def __init__(
        self, folder: Path, server: PostgresServer, seed: int, temporal: TemporalServer | None = None
    ) -> None:
        self.folder, self.server, self.url, self.temporal = folder, server, server.url("ordeal"), temporal
        shutil.copy(APP, folder)
        self.chance = random.Random(seed)
        self.host = Engine(
            ScriptedModel([]),
            [pay, look],
            Journal(self.url, lease_s=LEASE_S, busy_timeout_s=60),
            builtins=False,
        )
        self.workers = [self._start() for _ in range(3)]
        self.kills = self.crashes = self.doubts = 0

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "paor",
                "worker",
                "--app",
                "shop_app:own_engine",
                "--quiet",
                "--concurrency",
                "8",
                *(("--temporal",) if self.temporal is not None else ()),
            ],
            cwd=self.folder,
            env={
                **os.environ,
                **({"TEMPORAL_ADDRESS": self.temporal.address} if self.temporal is not None else {}),
                "PAID": str(self.folder / "paid"),
                "WHERE": self.url,
                "LOOK_S": "0.01",
                "PAY_S": "0.01",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=open(self.folder / "told", "ab"),  # the worker's own
        )

    def kill_one(self) -> None:
        """Kill a worker and start another one."""
        at = self.chance.randrange(3)
        self.workers[at].kill()
        self.workers[at].wait()
        self.workers[at] = self._start()
        self.kills += 1

    def crash(self) -> None:
        """Crash a server and have it come back: Temporal's and PostgreSQL's by turns."""
        if self.temporal is not None and self.crashes % 2 == 0:
            self.temporal.kill()
            time.sleep(1)  # so that workers and hosts meet one that is away
            self.temporal.start()
        else:
            self.server.stop()
            self.server.start()
        self.crashes += 1

    def paid(self) -> list[str]:
        """Return the orders that were paid."""
        file = self.folder / "paid"
        return file.read_text().split() if file.exists() else []

    def submit(self, number: int) -> str:
        """Submit a run, again where the server crashed meanwhile: its key has it started once."""
        while True:
            try:
                return self.host.submit(f"Run {number}", key=f"order-{number}").run_id
            except JournalBusy:
                continue

    def settle(self) -> None:
        """Say of each call that nobody knows the end of what came of it, as whoever can look does."""
        for waiting in self.host.waiting():
            assert waiting.waiting_for is not None and waiting.waiting_for.kind == "in_doubt"
            outcome = (
                {"outcome": "done", "result": "paid"}
                if waiting.run_id in self.paid()
                else {"outcome": "retry"}
            )
            self.host.answer(waiting.run_id, question=waiting.waiting_for.id, **outcome)
            self.doubts += 1

    def open(self) -> int:
        """Return how many runs have not ended, or once all have, how many workflows."""
        runs = len(self.host.journal.reader.index.open())
        return runs or (asyncio.run(self._workflows()) if self.temporal is not None else 0)

    async def _workflows(self) -> int:
        assert self.temporal is not None
        client = await Client.connect(self.temporal.address)
        return (await client.count_workflows("ExecutionStatus = 'Running'")).count

    def end(self) -> list[int]:
        """Have the workers drain; return their exit codes."""
        for worker in self.workers:
            worker.terminate()
        return [worker.wait(timeout=90) for worker in self.workers]


def suffer(
    folder: Path,
    server: PostgresServer,
    *,
    runs: int,
    kill_every_s: float,
    crashes: int,
    temporal: TemporalServer | None = None,
) -> Ordeal:
    """Submit runs, and have everything that can happen happen until all have ended; then nothing is lost, nothing doubled."""
    ordeal, pool = Ordeal(folder, server, runs, temporal), ThreadPoolExecutor(1)
    host = ordeal.host
    try:
        began = last = time.monotonic()
        submitting = pool.submit(lambda: [ordeal.submit(number) for number in range(runs)])
        while not submitting.done() or ordeal.open():
            assert time.monotonic() - began < 900, f"{ordeal.open()} runs are left"
            now, left = time.monotonic(), runs - len(host.journal.runs(state="Done"))
            if now - last > kill_every_s and left > runs // 20:
                ordeal.kill_one()
                last = now
            if ordeal.crashes < crashes and left < runs * (1 - (ordeal.crashes + 1) / (crashes + 2)):
                ordeal.crash()
            try:
                ordeal.settle()
            except PaorError as error:  # a driver has it still: the next look settles it
                assert "driven by" in str(error) or isinstance(error, JournalBusy), error
            time.sleep(0.1)
        ids = submitting.result()
    finally:
        codes = ordeal.end()
    # one that had only just been started ends at once
    assert set(codes) <= {0, -signal.SIGTERM}, (folder / "told").read_text()[-2000:]
    counted = Counter(ordeal.paid())
    assert set(counted) == set(ids) and set(counted.values()) == {1}, "lost or doubled"
    journal = host.journal
    assert {row.run_id for row in journal.runs(state="Done")} == set(ids)
    assert journal.verify() == []
    assert ordeal.crashes == crashes and ordeal.kills > 0
    copy = Journal(folder / "copy.db", "off")
    for run_id in ids:
        exported = export_of(journal, run_id)
        copy.import_lines(exported.split(b"\n"))
        assert export_of(copy, run_id) == exported
    assert all(replay(journal, run_id).identical for run_id in ids[:: max(1, runs // 50)])
    with (folder / "figures").open("w") as file:
        json.dump({"runs": runs, "kills": ordeal.kills, "crashes": crashes, "in doubt": ordeal.doubts}, file)
    return ordeal


def test_sixty_runs_over_kills_and_a_crash(tmp_path: Path, server: PostgresServer) -> None:
    """What the thousand below are in small."""
    suffer(tmp_path, server, runs=60, kill_every_s=1.5, crashes=1)


@pytest.mark.large
def test_a_thousand_runs_over_kills_and_five_crashes(tmp_path: Path, server: PostgresServer) -> None:
    """A worker is killed every two seconds, the server crashes five times."""
    ordeal = suffer(tmp_path, server, runs=1000, kill_every_s=2.0, crashes=5)
    print((tmp_path / "figures").read_text(), ordeal.doubts)


def suffer_with_temporal(folder: Path, server: PostgresServer, *, runs: int, crashes: int) -> None:
    """Have Temporal place the runs; then every history replays, and none is longer than its run's waits make it."""
    from paor.temporal import DriveRun

    temporal = TemporalServer()

    async def look() -> None:
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
        sizes = sorted(len(history.to_json()) for history in found)
        print(
            f"{len(found)} histories, {sizes[0]:,} to {sizes[-1]:,} bytes of JSON, the median {sizes[len(sizes) // 2]:,}"
        )

    try:
        suffer(folder, server, runs=runs, kill_every_s=4.0, crashes=crashes, temporal=temporal)
        asyncio.run(look())
    finally:
        temporal.close()


async def _each(found: list[WorkflowHistory]) -> AsyncIterator[WorkflowHistory]:
    for history in found:
        yield history


@pytest.mark.whole
@needs_temporal
def test_forty_runs_that_temporal_places(tmp_path: Path, server: PostgresServer) -> None:
    """Workers are killed; Temporal crashes and comes back, and so does PostgreSQL."""
    suffer_with_temporal(tmp_path, server, runs=40, crashes=2)


@pytest.mark.large
@needs_temporal
def test_two_hundred_runs_that_temporal_places(tmp_path: Path, server: PostgresServer) -> None:
    """The same for longer."""
    suffer_with_temporal(tmp_path, server, runs=200, crashes=4)


def test_a_lost_worker_is_replaced_when_its_lease_has_run_out(tmp_path: Path, server: PostgresServer) -> None:
    """One that cannot be seen to be dead, as on another machine."""
    ordeal = Ordeal(tmp_path, server, seed=1)
    ordeal.end()
    run_id = ordeal.host.submit("Pay").run_id
    leases, backend = ordeal.host.journal.store.leases, ordeal.host.journal.store.backend
    (claim,) = ordeal.host._runner.queue.claim(1, "far", LEASE_S)
    leases.acquire(claim.run)
    leases._held.clear()  # its driver renews no more
    elsewhere = {"host": "far", "boot": "b", "space": "s", "pid": 1, "start": 1, "clock": None}
    backend.execute(
        "UPDATE leases SET owner = ?, lease_until = lease_until + 3000000", (json.dumps(elsewhere),)
    )
    ((until,),) = backend.query("SELECT lease_until FROM leases")
    ordeal.workers = [ordeal._start() for _ in range(3)]
    try:
        deadline = time.monotonic() + 60
        while ordeal.open():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        ordeal.end()
    first = ordeal.host.journal.transitions(run_id)[0]
    assert first.at >= until, "not before its lease ran out"
    print(f"{(first.at - until) / 1e6:.2f} s from the end of the lease to the next row")
