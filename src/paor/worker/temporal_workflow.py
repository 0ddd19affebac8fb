"""
The workflow of Temporal: has a run driven until it waits, waits for its answer or its time, and so on to its end.

All that it is told are ids and numbers, so that its history stays small and holds no text of anybody. It decides by what the
activities return, so a replay of its history decides alike, whatever is in the journal by then.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import is_cancelled_exception

from .driving import State

DRIVE, CANCEL = "paor.drive", "paor.cancel"
"""Names of the activities."""

HEARTBEAT_S = 10.0
"""Seconds without a sign of a driver after which another one is sent; the lease of the run has to have run out, too."""

DRIVE_S = 3600.0
"""Seconds after which a driver leaves a run, after its current call, for whoever comes next."""

DRIVES = 100
"""Drives after which the workflow begins again with an empty history."""

_RETRIES = RetryPolicy(maximum_interval=timedelta(seconds=30))


@dataclass(frozen=True)
class Place:
    """
    Where a run stands.

    Attributes:
        run_id: Its id.
        row: Number of its newest row; -1 before the first.
    """

    run_id: str
    row: int = -1


@dataclass(frozen=True)
class Drive:
    """
    What a drive has come to.

    Attributes:
        place: Where the run stands; of one that has failed and fell back, the other one.
        state: See `paor.worker.driving.Standing`.
        wait_s: Seconds for which nobody has to look at one that waits.
    """

    place: Place
    state: State
    wait_s: float = 0.0


@workflow.defn(name="paor.DriveRun", sandboxed=False)  # nothing that it uses differs between two replays
class DriveRun:
    """
    Drives one run to its end.

    Signals: ``woken`` has it look at its run again, since there is an answer; ``cancel`` asks the run to stop. Temporal's own
    cancellation does that, too, and then counts as the end of the workflow. Query: ``where``.
    """

    def __init__(self) -> None:
        self._place = Place("")
        self._is_woken = False

    @workflow.signal
    def woken(self) -> None:
        """Look at the run again."""
        self._is_woken = True

    @workflow.signal
    async def cancel(self) -> None:
        """Ask the run to stop."""
        await self._cancel()
        self._is_woken = True

    @workflow.query
    def where(self) -> Place:
        """Return where the run was seen last."""
        return self._place

    @workflow.run
    async def run(self, place: Place) -> Place:
        """
        Have the run driven to its end.

        Args:
            place: Where it stands.

        Returns:
            Where it has ended; of one that fell back, the other run.
        """
        self._place = place
        try:
            await self._drive_to_end()
        except BaseException as error:
            if not is_cancelled_exception(error):
                raise
            await self._cancel()
            await self._drive_to_end()
            raise
        return self._place

    async def _drive_to_end(self) -> None:
        drives = 0
        while True:
            self._is_woken = False  # before the drive: what comes during it has the run driven again
            drive = await self._drive()
            self._place, drives = drive.place, drives + 1
            if drive.state == "waits":
                with suppress(asyncio.TimeoutError):
                    await workflow.wait_condition(lambda: self._is_woken, timeout=drive.wait_s)
            is_long = drives >= DRIVES or workflow.info().is_continue_as_new_suggested()
            if drive.state == "ended" or is_long:
                await workflow.wait_condition(workflow.all_handlers_finished)  # no request to cancel is lost
                if drive.state == "ended":
                    return
                workflow.continue_as_new(self._place)

    async def _drive(self) -> Drive:
        """Have the run driven by some worker; another one comes after it once it gives no sign for a while."""
        found: Drive = await workflow.execute_activity(
            DRIVE,
            self._place,
            result_type=Drive,
            start_to_close_timeout=timedelta(seconds=DRIVE_S * 24),
            heartbeat_timeout=timedelta(seconds=HEARTBEAT_S),
            retry_policy=_RETRIES,
        )
        return found

    async def _cancel(self) -> None:
        """Write the request to stop into the journal, where whoever drives the run sees it."""
        await workflow.execute_activity(
            CANCEL, self._place, start_to_close_timeout=timedelta(seconds=60), retry_policy=_RETRIES
        )
