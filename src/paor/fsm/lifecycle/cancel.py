"""Cancelling: ask whoever drives a run to stop, or end it here when nobody does."""

from __future__ import annotations

import asyncio

from ..journal.rows import RunRow
from ..replay.callers import unfinished_called
from ..replay.restore import restore_run
from ..runtime.result import Result, result_of_run
from .runner import Acquisition, Runner


def cancel(runner: Runner, run_id: str) -> Result:
    """Ask a run and those that it has called to stop; see `fsm.engine.Engine.cancel`."""
    row = runner.journal.reader.run(run_id)
    for called in _request(runner, row):
        cancel(runner, called)
    found = _end(runner, row)
    if isinstance(found, Result):
        return found
    result = runner.result(found, resumed=True)
    runner.queue.release(row.run)  # whoever waits for its answer need not
    return result


async def acancel(runner: Runner, run_id: str) -> Result:
    """Do the same as `cancel` on the running event loop."""
    row = runner.journal.reader.run(run_id)
    for called in _request(runner, row):
        await acancel(runner, called)
    found = _end(runner, row)
    if isinstance(found, Result):
        return found
    result = await runner.aresult(found, resumed=True)
    await asyncio.to_thread(runner.queue.release, row.run)
    return result


def _request(runner: Runner, row: RunRow) -> list[str]:
    """Leave the request for whoever drives a run, and return what it has called and has not ended; for an ended run do nothing."""
    if row.status in ("done", "failed"):
        return []
    # the request first, then the lease: a driver that is alive sees it with its next row, or when it has released the run
    # (`Runner.drive`); if there is none, or it ends between the two, the lease can be taken here and the end written
    runner.journal.leases.request_cancel(row.run)
    return unfinished_called(runner.journal.reader, row)


def _end(runner: Runner, row: RunRow) -> Acquisition | Result:
    """Return what ends a run here; its result when it has ended, or another driver will end it."""
    if row.status not in ("done", "failed") and (end := runner.cancelling(row.run_id)) is not None:
        return end
    return result_of_run(restore_run(runner.journal.reader, row.run_id)[0], runner.journal.reader)
