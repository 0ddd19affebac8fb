"""
One run that is taken up: drive it from where its journal ends, say where it stands then, and how long to leave it alone.

A worker and an activity of Temporal do this alike; they differ in who tells them to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

from ..fsm.journal.rows import RunRow
from ..fsm.lifecycle.fallback import is_owed, stand_in
from ..fsm.lifecycle.look import asked_at, result_now
from ..fsm.lifecycle.options import ResumeOptions
from ..fsm.lifecycle.resume import Continuation, continuation
from ..fsm.lifecycle.runner import Left, Runner, leaving
from ..fsm.replay.callers import asking_run, called_runs
from ..fsm.replay.restore import restore_run
from ..fsm.runtime.result import Result
from ..fsm.runtime.run_context import Leaves
from ..states.base.errors import ConversationBusy, JournalTooNew, MissingExtra, RunChanged, UsageError

LOOK_AGAIN_S = 3600.0
"""Poll interval for waiting runs, in seconds, in case a wake-up was lost."""

TASK_AGAIN_S = 1.0
"""Seconds after which a workflow whose task went on by other hands is looked at: perhaps somebody still drives that."""

State: TypeAlias = Literal["ended", "waits", "owed", "left"]

Options: TypeAlias = Callable[[RunRow], ResumeOptions]
"""Called with each run; returns what `Engine.resume` takes beside the id, such as its connections."""


class Standing(NamedTuple):
    """
    Where a run stands.

    Attributes:
        run_id: The run, or the one that stands in for it since it has failed.
        state: ``ended``; ``waits`` for a person; ``owed`` another run in its place; ``left`` where its journal ends.
        wait_s: Seconds for which nobody has to look at one that waits.
    """

    run_id: str
    state: State
    wait_s: float = 0.0


async def drive(runner: Runner, row: RunRow, options: Options | None, leaves: Leaves) -> tuple[Result, bool]:
    """
    Drive a run from where it stands.

    Args:
        runner: That has the journal.
        row: The run.
        options: See `Worker`.
        leaves: Whether it is to be left after its current call.

    Returns:
        The run as it is then, and whether there was anything to do.
    """
    given = options(row) if options is not None else ResumeOptions()
    found = await asyncio.to_thread(partial(continuation, runner, row.run_id, **given))
    if isinstance(found, Continuation):
        with suppress(Left):
            await runner.aresult(leaving(found.acquire, leaves), resumed=found.resumed)
    result = await asyncio.to_thread(result_now, runner.journal.reader, row.run_id)
    return result, isinstance(found, Continuation)


def is_final(error: Exception) -> bool:
    """Return whether no other try can change an error, not even a later one, or that of a worker of another version of the app."""
    is_of_now = isinstance(error, (RunChanged, MissingExtra, JournalTooNew, ConversationBusy))
    return isinstance(error, UsageError) and not is_of_now


def standing(runner: Runner, result: Result) -> Standing:
    """Return where the run of a result stands."""
    reader = runner.journal.reader
    if result.status in ("done", "failed"):
        other = stand_in(reader, result.run_id)
        if other != result.run_id:
            return standing(runner, result_now(reader, other))
        is_to_start_again = result.status == "failed" and is_owed(
            reader, restore_run(reader, result.run_id)[0]
        )
        return Standing(result.run_id, "owed" if is_to_start_again else "ended")
    if result.status == "waiting":
        return Standing(result.run_id, "waits", _waits_s(runner, result))
    return Standing(result.run_id, "left")


def _waits_s(runner: Runner, result: Result) -> float:
    """Return how long a run waits before it counts as declined or is looked at again; a doubt never counts as declined."""
    reader, question = runner.journal.reader, result.waiting_for
    row = reader.run(result.run_id)
    asks = asking_run(reader, row)
    if asks is None:
        return TASK_AGAIN_S
    timeout_s = reader.spec(asks.run_id).limits.elicitation_timeout_s
    if timeout_s is None or question is None or question.kind == "in_doubt":
        return LOOK_AGAIN_S
    waited_us = runner.clock.now_us() - asked_at(reader, asks)
    return min(
        LOOK_AGAIN_S, max(0.0, timeout_s - waited_us / 1e6) + 0.01
    )  # at the time itself it may not count yet


def rests(runner: Runner, busy: ConversationBusy) -> bool:
    """Return whether nobody drives the round that another one waits for: it waits for a person, or in line itself."""
    return busy.status == "waiting" or runner.journal.reader.spec(busy.run_id).in_line


def got_to(runner: Runner, row: RunRow) -> int:
    """Return how far a run has got: the number of its newest row, with the rows of the runs that it has called."""
    below = called_runs(runner.journal.reader, row)
    return row.head_seq + sum(got_to(runner, called) + 1 for called in below)


def place_of(row: RunRow) -> str:
    """Return the run's status without any of its content."""
    return f"after row {row.head_seq}" if row.head_seq >= 0 else "before its first row"
