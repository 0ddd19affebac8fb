"""Submitting: a run is written and queued, and a worker of any machine takes it up."""

from __future__ import annotations

from datetime import UTC, datetime

from ...states.base.errors import UsageError
from ..journal.store import KeyTaken
from ..lifecycle.fallback import stand_in
from ..lifecycle.runner import Runner
from ..lifecycle.start import NewRun
from ..results.result import Result
from .keyed_start import check_same_start
from .look import result_now


def submit(runner: Runner, new: NewRun, not_before: datetime | None) -> Result:
    """
    Write a run for a worker; see `fsm.engine.Engine.submit`.

    Raises:
        UsageError: It has what only the process that starts it has.
        KeyConflict: Its key names a run that was started otherwise.
    """
    given = [name for name, value in (("connections", new.connections), ("deps", new.deps)) if value]
    if given:
        raise UsageError(
            f"submit: {' and '.join(given)} would be lost: they are never written, so a worker's engine brings its own"
        )
    ready_at = runner.queue.now_us() if not_before is None else _moment(not_before)
    try:
        run_id = runner.submitted(new, ready_at)
    except KeyTaken as taken:
        check_same_start(runner.journal.reader, taken.run_id, new)
        run_id = stand_in(runner.journal.reader, taken.run_id)
    return result_now(runner.journal.reader, run_id)


def _moment(when: datetime) -> int:
    if not isinstance(when, datetime):
        raise UsageError(f"not_before {when!a:.60}: expected a datetime")
    if when.tzinfo is None:
        when = when.astimezone()
    return round((when - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
