"""
The worker: places queued runs in Temporal, and does the activities that drive them.

The queue of the journal stays the place where a run is found: `Engine.submit`, an answer, and a release, from whatever process they
come, bring it to the front, and some worker tells its workflow. So a host needs no client of Temporal, and what is told twice, or
after a crash, is told to the same workflow.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError
from temporalio.worker import Worker

from ..fsm.engine import Engine
from ..fsm.journal.queue.run_queue import Claim
from ..fsm.journal.rows import RunRow
from ..fsm.results.result import Result
from ..states.base.errors import JournalError, LeaseHeld, LeaseLost, UsageError
from ..worker.driving import UNCHANGING, Options, drive, standing
from .workflow import CANCEL, DRIVE, DRIVE_S, HEARTBEAT_S, Drive, DriveRun, Place

LOGGER = logging.getLogger("paor.temporal")

TASK_QUEUE = "paor"
"""Of Temporal, where a host names none."""

LOOK_S = 1.0
"""Seconds between two looks: into the queue, where the database has told of nothing, and whether another driver has let go."""

PLACED_AT_ONCE = 50
"""Runs that are claimed to be placed at a time."""

TOLD_AGAIN_S = 86_400.0
"""Seconds after which a workflow is told of its run again, should a word have been lost."""


class TemporalWorker:
    """
    Drives the runs that `Engine.submit` has queued where Temporal places them.

    Args:
        engine: What drives them: its model, tools, limits and journal.
        client: Of the namespace.
        task_queue: Of Temporal, shared by the workers of one engine.
        concurrency: Runs that are driven here at a time.
        options: Called with each run; returns what `Engine.resume` takes beside the id, such as its connections.
    """

    def __init__(
        self,
        engine: Engine,
        client: Client,
        *,
        task_queue: str = TASK_QUEUE,
        concurrency: int = 100,
        options: Options | None = None,
    ) -> None:
        self.engine, self.client, self.task_queue = engine, client, task_queue
        self.concurrency = concurrency
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._options = options
        self._runner = engine._runner
        self._queue = self._runner.queue
        self._journal = self._runner.journal
        self._draining = False
        self._driven = 0
        self._wake: Callable[[], None] = _nothing

    def drain(self) -> None:
        """Take up no more, and leave every run after its current call; safe in a signal handler and from other threads."""
        self._draining = True
        self._wake()

    async def run(self) -> int:
        """
        Place and drive runs until `drain`.

        Returns:
            How many runs it has driven to their end, or until they wait.

        Raises:
            JournalError: The journal cannot be opened for its queue.
        """
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(woken.set)

        self._wake = wake
        await asyncio.to_thread(self._queue.prepare)
        end_listening = self._journal.backend.listen(wake)
        worker = Worker(
            self.client,
            task_queue=self.task_queue,
            workflows=[DriveRun],
            activities=[self._drive, self._cancel],
            max_concurrent_activities=self.concurrency,
            graceful_shutdown_timeout=timedelta(seconds=1),
        )
        try:
            async with worker:
                await self._place_queued(woken)
            return self._driven
        finally:
            self._draining, self._wake = True, _nothing
            end_listening()

    # -- placing -------------------------------------------------------------------------------------------------------

    async def _place_queued(self, woken: asyncio.Event) -> None:
        """Tell workflows of the runs that have come to the front."""
        while not self._draining:
            woken.clear()  # before the claim: what is signalled during it wakes at once
            claims: list[Claim] = []
            try:
                claims = await asyncio.to_thread(
                    self._queue.claim, PLACED_AT_ONCE, self.name, self._journal.leases.lease_s
                )
                await asyncio.gather(*(self._tell(claim) for claim in claims))
            except (JournalError, RPCError) as error:  # what was not told comes up again by itself
                LOGGER.warning("worker %s: %s", self.name, error)
            if not claims:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(woken.wait(), LOOK_S)

    async def _tell(self, claim: Claim) -> None:
        """Start the workflow of a run, or tell it to look at its run again."""
        found = await asyncio.to_thread(self._named, claim.run)
        if found is None:
            await asyncio.to_thread(self._queue.remove, claim.run)
            return
        row, first = found
        await self.client.start_workflow(
            DriveRun.run,
            Place(row.run_id, row.head_seq),
            id=f"paor-{first}",
            task_queue=self.task_queue,
            start_signal="woken",
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        at = self._queue.now_us() + round(TOLD_AGAIN_S * 1e6)
        await asyncio.to_thread(self._queue.put_back, claim, at, "placed", counted=False)

    def _named(self, run: int) -> tuple[RunRow, str] | None:
        """Return a run by its number, and the id of the run that was submitted; None for one that is not there any more."""
        reader = self._journal.reader
        names = reader.index.names([run])
        if not names:
            return None
        row = reader.run(names[run])
        return row, reader.spec(row.run_id).fallback_for or row.run_id

    # -- driving -------------------------------------------------------------------------------------------------------

    @activity.defn(name=DRIVE)
    async def _drive(self, place: Place) -> Drive:
        """Drive a run until it waits or ends, and give a sign of it now and then."""
        loop, is_cancelled = asyncio.get_running_loop(), False
        end = loop.time() + DRIVE_S

        def leaves() -> bool:
            return is_cancelled or activity.is_worker_shutdown() or loop.time() > end

        driving = asyncio.create_task(self._drive_run(place, leaves))
        while not driving.done():
            activity.heartbeat()
            try:
                await asyncio.wait({driving}, timeout=HEARTBEAT_S / 4)
            except asyncio.CancelledError:  # never within a call: nobody could know what became of it
                is_cancelled = True
        return driving.result()

    async def _drive_run(self, place: Place, leaves: Callable[[], bool]) -> Drive:
        """Drive a run; what leaves this says its error by name, since its words may quote texts of the run."""
        reader = self._journal.reader
        try:
            row = await asyncio.to_thread(reader.run, place.run_id)
            result, _ = await drive(self._runner, row, self._options, leaves)
            return await asyncio.to_thread(self._noted, row, result)
        except (LeaseHeld, LeaseLost) as error:
            delay = timedelta(seconds=await asyncio.to_thread(self._held_s, place))
            raise ApplicationError(
                "driven by another",
                type=type(error).__name__,
                next_retry_delay=delay,
                category=ApplicationErrorCategory.BENIGN,
            ) from None
        except Exception as error:
            LOGGER.exception("worker %s: run %s could not go on", self.name, place.run_id)
            is_final = isinstance(error, UNCHANGING)
            raise ApplicationError(
                "the run could not go on", type=type(error).__name__, non_retryable=is_final
            ) from None

    def _noted(self, row: RunRow, result: Result) -> Drive:
        """Return where a run stands; the queue has it until its end."""
        stands = standing(self._runner, result)
        now = self._journal.reader.run(stands.run_id)
        if now.run != row.run:
            self._queue.replace(row.run, now.run)
        if stands.state == "ended":
            self._queue.remove(now.run)
        self._driven += stands.state in ("ended", "waits")
        return Drive(Place(now.run_id, now.head_seq), stands.state, stands.wait_s)

    def _held_s(self, place: Place) -> float:
        """Return after how many seconds to look whether somebody else has let go of a run: at the latest when its lease runs out."""
        run = self._journal.reader.run(place.run_id).run
        left_us = self._queue.lease_end([run]).get(run, 0) - self._queue.now_us()
        return min(LOOK_S, max(0.05, left_us / 1e6))

    @activity.defn(name=CANCEL)
    async def _cancel(self, place: Place) -> None:
        """Ask a run to stop."""
        await self.engine.acancel(place.run_id)


async def client_of_environment() -> Client:
    """
    Return a client as Temporal's own tools find their server: ``TEMPORAL_ADDRESS``, ``TEMPORAL_NAMESPACE``, its TOML file.

    Raises:
        UsageError: The settings cannot be read, or nobody answers there.
    """
    try:
        given = ClientConfig.load_client_connect_config()
        given.setdefault("target_host", "localhost:7233")
        return await Client.connect(**given)
    except (OSError, RuntimeError, ValueError, RPCError) as error:
        raise UsageError(f"Temporal cannot be reached: {str(error)[:300]}") from None


def _nothing() -> None:
    """Nobody is to be woken."""
