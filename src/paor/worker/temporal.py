"""
The worker of Temporal: places queued runs in Temporal, and does the activities that drive them.

The queue of the journal stays the place where a run is found: `Engine.submit`, an answer, and a release, from whatever process they
come, bring it to the front, and some worker tells its workflow. So a host needs no client of Temporal, and what is told twice, or
after a crash, is told to the same workflow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec

from ..states.base.errors import MissingExtra

if find_spec("temporalio") is None:
    raise MissingExtra('Temporal needs its package: pip install "paor[temporal]"')

from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError
from temporalio.worker import Worker

from ..fsm.engine import Engine
from ..fsm.journal.rows import RunRow
from ..fsm.journal.run_queue import Claim
from ..fsm.runtime.result import Result
from ..states.base.errors import ConversationBusy, JournalError, LeaseHeld, LeaseLost, PaorError, UsageError
from .base import BaseWorker
from .driving import Options, drive, is_final, rests, standing
from .temporal_workflow import CANCEL, DRIVE, DRIVE_S, HEARTBEAT_S, Drive, DriveRun, Place

LOGGER = logging.getLogger("paor.temporal")

TASK_QUEUE = "paor"
"""Of Temporal, where a host names none."""

LOOK_S = 1.0
"""Seconds between two looks: into the queue, where the database has told of nothing, and whether another driver has let go."""

REST_S = 30.0
"""Seconds between two looks whether the turn of a round has come that waits for one which nobody drives."""

CONNECT_S, CONNECT_AGAIN_S = 10.0, 0.5
"""Seconds for which a worker that is started while Temporal is away tries to reach it, and between two tries."""

PLACED_AT_ONCE = 50
"""Runs that are claimed to be placed at a time."""

TOLD_AGAIN_S = 86_400.0
"""Seconds after which a workflow is told of its run again, should a word have been lost."""


class TemporalWorker(BaseWorker):
    """
    Drives the runs that `Engine.submit` has queued where Temporal places them.

    Args:
        engine: What drives them: its model, tools, limits and journal.
        client: Of the namespace.
        task_queue: Of Temporal, shared by the workers of one engine.
        concurrency: Runs that are driven here at a time, from 1 to 1000.
        options: Called with each run; returns what `Engine.resume` takes beside the id, such as its connections.
        name: In the queue and in logs; by default host and process.

    Raises:
        UsageError: *concurrency* is out of range.
    """

    def __init__(
        self,
        engine: Engine,
        client: Client,
        *,
        task_queue: str = TASK_QUEUE,
        concurrency: int = 100,
        options: Options | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(engine, concurrency, options, name)
        self.client, self.task_queue = client, task_queue
        self._driven = 0

    async def run(self) -> int:
        """
        Place and drive runs until `drain`.

        Returns:
            How many runs it has driven to their end, or until they wait.

        Raises:
            JournalError: The journal cannot be opened for its queue.
        """
        async with (
            self._listening() as woken,
            Worker(
                self.client,
                task_queue=self.task_queue,
                workflows=[DriveRun],
                activities=[self._drive, self._cancel],
                max_concurrent_activities=self.concurrency,
                graceful_shutdown_timeout=timedelta(seconds=1),
            ),
        ):
            await self._place_queued(woken)
        return self._driven

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
            except JournalError as error:  # also of a server that takes no writes for a moment
                LOGGER.warning("worker %s: %s", self.name, error)
            await asyncio.gather(*(self._place(claim) for claim in claims))
            if not claims:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(woken.wait(), LOOK_S)

    async def _place(self, claim: Claim) -> None:
        """Tell the workflow of a run; one that cannot be read keeps none of the others back."""
        try:
            await self._tell(claim)
        except (PaorError, RPCError) as error:  # what was not told comes up again by itself
            LOGGER.warning("worker %s: run number %d: %s", self.name, claim.run, error)
            if is_final(error):
                await asyncio.to_thread(self._queue.hold_back, claim, type(error).__name__)

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
        await asyncio.to_thread(self._told, claim)

    def _told(self, claim: Claim) -> None:
        at = self._queue.now_us() + round(TOLD_AGAIN_S * 1e6)
        self._queue.put_back(claim, at, "placed", counted=False)

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
        """Drive a run, and note where it stands then."""
        with self._by_name(place.run_id):
            try:
                row = await asyncio.to_thread(self._journal.reader.run, place.run_id)
                result, _ = await drive(self._runner, row, self._options, leaves)
                return await asyncio.to_thread(self._noted, row, result)
            except (LeaseHeld, LeaseLost) as error:
                delay_s = await asyncio.to_thread(self._held_s, place)
                raise _not_now("driven by another", error, delay_s) from None
            except ConversationBusy as busy:
                rest = await asyncio.to_thread(rests, self._runner, busy)
                raise _not_now("waits in line", busy, REST_S if rest else LOOK_S) from None

    @contextmanager
    def _by_name(self, run_id: str) -> Iterator[None]:
        """Have an error leave by its name alone, since its words may quote texts of the run; they are in this worker's log."""
        try:
            yield
        except ApplicationError:
            raise
        except PaorError as error:
            LOGGER.error(
                "worker %s: run %s could not go on: %s", self.name, run_id, error
            )  # said by its words
            raise _without_words(error) from None
        except Exception as error:  # whatever a host's own code raises
            LOGGER.exception("worker %s: run %s could not go on", self.name, run_id)
            raise _without_words(error) from None

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
        with self._by_name(place.run_id):
            await self.engine.acancel(place.run_id)


def _not_now(words: str, error: PaorError, delay_s: float) -> ApplicationError:
    """Return what Temporal is told of a run that cannot be driven yet: nothing is wrong with it."""
    return ApplicationError(
        words,
        type=type(error).__name__,
        next_retry_delay=timedelta(seconds=delay_s),
        category=ApplicationErrorCategory.BENIGN,
    )


def _without_words(error: Exception) -> ApplicationError:
    """Return what Temporal is told of an error."""
    kind = type(error).__name__
    return ApplicationError("the run could not go on", type=kind, non_retryable=is_final(error))


async def client_of_environment() -> Client:
    """
    Return a client as Temporal's own tools find their server: ``TEMPORAL_ADDRESS``, ``TEMPORAL_NAMESPACE``, its TOML file.

    Raises:
        UsageError: The settings cannot be read, or nobody answers there for `CONNECT_S`.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + CONNECT_S
    while True:
        try:
            given = ClientConfig.load_client_connect_config()
            given.setdefault("target_host", "localhost:7233")
            return await Client.connect(**given)
        except (OSError, RuntimeError, ValueError, RPCError) as error:
            why, is_over = str(error)[:300], isinstance(error, ValueError) or loop.time() >= end
        # also before giving up: a process that ends while a thread of the SDK still gives its answer back is aborted
        await asyncio.sleep(CONNECT_AGAIN_S)
        if is_over:
            raise UsageError(f"Temporal cannot be reached, see TEMPORAL_ADDRESS: {why}")
