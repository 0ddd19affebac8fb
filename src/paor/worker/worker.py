"""
A worker: claims queued runs, drives each under its lease, and says what became of it.

Nothing depends on a worker living. What it has claimed comes up again by itself, the lease of a run says whether somebody still drives
it, and its journal where it stands; so what a worker notes in the queue is a matter of speed, not of safety.
"""

from __future__ import annotations

import asyncio
import logging

from ..fsm.engine import Engine
from ..fsm.journal.rows import RunRow
from ..fsm.journal.run_queue import Claim
from ..fsm.runtime.result import Result
from ..states.base.errors import ConversationBusy, JournalBusy, JournalError, LeaseHeld, LeaseLost, PaorError
from .base import BaseWorker, check_count
from .driving import LOOK_AGAIN_S, Options, drive, got_to, is_final, place_of, rests, standing

LOGGER = logging.getLogger("paor.worker")

LOOK_S = 1.0
"""Poll interval, in seconds, when no notification arrives."""

ATTEMPTS = 5
"""Times that a run is taken up without getting further, by default."""

BACK_OFF_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before a run that could not go on is tried again, by the number of times that it was."""


class Worker(BaseWorker):
    """
    Drives queued runs, several at a time, on one event loop.

    Args:
        engine: What drives them: its model, tools, limits and journal.
        concurrency: Runs at a time.
        options: Called with each run; returns what `Engine.resume` takes beside the id, such as its connections.
        attempts: How often a run is taken up without getting further before it is held back, with the reason; then a resume, or
            ``paor worker --release``, has it go on.
        name: In the queue and in logs; by default host and process.

    Raises:
        UsageError: A number is out of range.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        concurrency: int = 4,
        options: Options | None = None,
        attempts: int = ATTEMPTS,
        name: str | None = None,
    ) -> None:
        super().__init__(engine, concurrency, options, name)
        check_count("attempts", attempts)
        self.attempts = attempts
        self._back_s = self._journal.leases.lease_s

    async def run(self, *, until_idle: bool = False) -> int:
        """
        Drive runs until `drain`, or until nothing is left.

        Args:
            until_idle: End once no run is claimed and none will be ready by itself, but for those that wait for a person.

        Returns:
            How many runs it has driven to their end, or until they wait.

        Raises:
            JournalError: The journal cannot be opened for its queue.
        """
        driven, running = 0, set[asyncio.Task[bool]]()
        async with self._listening() as woken:
            await asyncio.to_thread(self._queue.prune)
            try:
                while not self._draining:
                    woken.clear()  # before the claim: what is signalled during it wakes at once
                    free = self.concurrency - len(running)
                    claims = await self._claim(free) if free else []
                    running.update(asyncio.create_task(self._take_up(claim)) for claim in claims)
                    if until_idle and not running and not await self._will_be_ready():
                        break
                    if len(claims) < free or len(running) >= self.concurrency:
                        await self._wait(running, woken)
                    driven += _collected(running)
                if running:
                    await asyncio.wait(running)
                return driven + _collected(running)
            finally:
                self._draining = True  # whatever ends this: no run is left to itself
                if running:
                    await asyncio.wait(running)

    async def _wait(self, running: set[asyncio.Task[bool]], woken: asyncio.Event) -> None:
        """Wait until a run has ended, one may be ready, or it is time to look."""
        waking = asyncio.create_task(woken.wait())
        try:
            await asyncio.wait({waking, *running}, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()

    async def _claim(self, count: int) -> list[Claim]:
        """Return what this worker is to drive now; nothing while the journal cannot be reached."""
        try:
            return await asyncio.to_thread(self._queue.claim, count, self.name, self._back_s)
        except JournalError as error:  # also of a server that takes no writes for a moment
            LOGGER.warning("worker %s: %s", self.name, error)
            return []

    async def _will_be_ready(self) -> bool:
        """Return whether a run comes up by itself before long."""
        try:
            at = await asyncio.to_thread(self._queue.next_ready)
            now = await asyncio.to_thread(self._queue.now_us)
        except JournalError:
            return True
        return at is not None and at < now + LOOK_AGAIN_S * 500_000

    # -- one run -------------------------------------------------------------------------------------------------------

    async def _take_up(self, claim: Claim) -> bool:
        """Drive a run and note what became of it; return whether it got to its end or waits."""
        try:
            row = await asyncio.to_thread(self._row, claim.run)
            if row is None:
                await asyncio.to_thread(self._queue.remove, claim.run)
                return False
            return await self._driven(claim, row)
        except PaorError as error:  # of the journal: what is not noted comes up again by itself
            LOGGER.warning("worker %s: run number %d: %s", self.name, claim.run, error)
            return False

    async def _driven(self, claim: Claim, row: RunRow) -> bool:
        here = await asyncio.to_thread(got_to, self._runner, row)
        if here > claim.tried_seq:
            await asyncio.to_thread(self._queue.got_further, claim, here)
            claim = claim._replace(attempts=1, tried_seq=here)
        elif claim.attempts > self.attempts:
            await asyncio.to_thread(self._give_up, claim, row)
            return False
        try:
            result, is_driven = await drive(self._runner, row, self._options, lambda: self._draining)
        except (LeaseHeld, LeaseLost):
            await asyncio.to_thread(self._leave_to_driver, claim)
            return False
        except ConversationBusy as busy:
            await asyncio.to_thread(self._wait_in_line, claim, busy)
            return False
        except JournalBusy:
            raise
        except PaorError as error:
            LOGGER.error(
                "worker %s: run %s cannot go on: %s", self.name, row.run_id, error
            )  # said by its words
            await asyncio.to_thread(self._fail, claim, row, error)
            return False
        except Exception as error:  # whatever a host's own code raises: the other runs go on
            LOGGER.exception("worker %s: run %s could not be driven", self.name, row.run_id)
            await asyncio.to_thread(self._fail, claim, row, error)
            return False
        return await asyncio.to_thread(self._settle, claim, result) and is_driven

    def _row(self, run: int) -> RunRow | None:
        reader = self._journal.reader
        names = reader.index.names([run])
        return reader.run(names[run]) if names else None

    def _settle(self, claim: Claim, result: Result) -> bool:
        """Note where a run stands now; return whether it has ended or waits."""
        stands, now = standing(self._runner, result), self._queue.now_us()
        if stands.run_id != result.run_id:
            other = self._journal.reader.run(stands.run_id).run
            self._queue.replace(claim.run, other)
            claim = claim._replace(run=other, attempts=1, tried_seq=-1)
        if stands.state == "ended":
            self._queue.let_on(result.run_id, stands.run_id)  # its driver may have died before
            self._queue.remove(claim.run)
        elif stands.state == "waits":
            self._queue.put_back(claim, now + round(stands.wait_s * 1e6), "waits", counted=False)
        else:
            reason = "to be started again" if stands.state == "owed" else "left"
            self._queue.put_back(claim, now, reason, counted=False)
        return stands.state in ("ended", "waits")

    def _leave_to_driver(self, claim: Claim) -> None:
        """Have a run that somebody else drives come up when his lease runs out, should he not renew it."""
        until = self._queue.lease_end([claim.run]).get(claim.run)
        now = self._queue.now_us()
        at = max(now + 50_000, until + 1) if until is not None else now + 50_000
        at = min(at, now + round(self._back_s * 1e6))
        self._queue.put_back(claim, at, "driven by another", counted=False)

    def _wait_in_line(self, claim: Claim, busy: ConversationBusy) -> None:
        """Have a round come up when the one before it ends; that is looked at before only while somebody drives it, who may die."""
        wait_s = LOOK_AGAIN_S if rests(self._runner, busy) else LOOK_S
        at = self._queue.now_us() + round(wait_s * 1e6)
        self._queue.wait_for(claim, busy.run_id, at)
        if self._journal.reader.run(busy.run_id).status in ("done", "failed"):  # before the note
            self._queue.let_on(busy.run_id)

    def _fail(self, claim: Claim, row: RunRow, error: Exception) -> None:
        """Note a run that could not go on; what no other try can change is held back at once."""
        # the name alone: what an error says may quote a run's texts, and the queue is not erased with them
        reason = f"{type(error).__name__} {place_of(row)}"
        if is_final(error):
            self._queue.hold_back(claim, reason)
            return
        wait_s = BACK_OFF_S[min(claim.attempts, len(BACK_OFF_S)) - 1]
        self._queue.put_back(claim, self._queue.now_us() + round(wait_s * 1e6), reason)

    def _give_up(self, claim: Claim, row: RunRow) -> None:
        """Hold a run back that was taken up as often as it may be."""
        last = f", at last: {claim.reason}" if claim.reason else ""
        reason = (
            f"given up: {claim.attempts - 1} times taken up {place_of(row)} without getting further{last}"
        )
        LOGGER.error("worker %s: run %s: %s", self.name, row.run_id, reason)
        self._queue.hold_back(claim, reason)


def _collected(running: set[asyncio.Task[bool]]) -> int:
    """Take the tasks that have ended out, and return how many runs they have brought to an end or to a wait."""
    ended = {task for task in running if task.done()}
    running -= ended
    return sum(task.result() for task in ended)
