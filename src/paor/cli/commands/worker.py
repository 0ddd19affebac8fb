"""`paor worker`: drive the runs that hosts have submitted, beside any number of other workers."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from logging import LogRecord
from typing import Annotated, Any

import click

from ...fsm.engine import Engine
from ...fsm.journal.run_queue import RunQueue
from ...fsm.lifecycle.options import ResumeOptions
from ...fsm.runtime.events import Event, RunEnded, RunStarted
from ...worker.base import BaseWorker
from ...worker.driving import Options
from ...worker.worker import ATTEMPTS, Worker
from ..support import terminal as io
from ..support.app import EngineOptions
from ..support.driving import why_of
from ..support.journals import find_run
from ..support.options import Accept, Quiet, command

LOGGERS = ("paor.worker", "paor.temporal", "temporalio")
"""Whose warnings are shown, a line each."""

_COUNT = {"type": click.IntRange(1, 1000)}
_ATTEMPTS = (
    f"Times that a run is taken up without getting further before it is held back.  [default: {ATTEMPTS}]"
)


@command(
    "paor worker --app shop:engine",
    "paor worker --app shop:engine --journal postgresql://paor@db/agents --concurrency 16",
    "paor worker --app shop:engine --journal postgresql://paor@db/agents --temporal",
    "paor worker --list --json",
)
def worker(
    concurrency: Annotated[
        int, "--concurrency N", "Runs at a time.", _COUNT | {"default": 4, "show_default": True}
    ],
    attempts: Annotated[int | None, "--attempts N", _ATTEMPTS, _COUNT],
    accept_changes: Accept,
    temporal: Annotated[
        bool, "--temporal", "Have Temporal place the runs; its own settings say where it is."
    ],
    until_idle: Annotated[bool, "--until-idle", "End once no run is left but those that wait for a person."],
    listing: Annotated[bool, "--list", "List the runs in the queue, and drive none."],
    release: Annotated[
        str | None, "--release RUN", "Have a run that was held back come up again, and drive none."
    ],
    quiet: Quiet,
    options: EngineOptions,
) -> int:
    """
    Drive the runs that Engine.submit has queued, each to its end or until it waits; any number of workers share them.

    A worker that dies loses nothing: its runs come up again when their leases run out, and go on where their journals end. On
    SIGTERM or Ctrl-C it takes up no more, leaves each run after its current call, and ends.

    With --temporal a run is driven where Temporal places it, and looked at again when its timer or a signal says so; the journal
    stays the truth. TEMPORAL_ADDRESS and the other settings of Temporal's own tools say where it is; needs paor[temporal].

    Exit codes: 0 it was ended, or nothing is left; 2 bad input or journal, or no Temporal.
    """
    if release is not None:
        with options.driving() as engine:
            row, queue = find_run(engine.journal, release), RunQueue(engine.journal.store.backend)
            gone = "it was not submitted, or it has ended"
            told = f"run {row.run_id} is in no queue: {gone}; see: paor show {row.run_id}"
            io.unless_wrong((row.status == "done" or not queue.has(row.run), told))
            queue.release(row.run)
        return io.say_either({"released": row.run_id}, [f"run {row.run_id}  comes up again"])
    if listing:
        return _list(options)
    alone = "is not for --temporal, which knows alone what comes next, and how often"
    io.unless_wrong(
        (temporal and until_idle, f"--until-idle {alone}"),
        (temporal and attempts is not None, f"--attempts {alone}"),
    )
    with (
        options.tools() as tools,
        options.driving(tools, hooks=() if quiet else (_told,)) as engine,
        io.logged(LOGGERS, _log),
    ):
        given: ResumeOptions = {"accept_changes": accept_changes}
        with redirect_stdout(sys.stderr):
            if temporal:
                work = _placed(engine, concurrency, lambda row: given, quiet=quiet)
            else:
                most = attempts or ATTEMPTS
                drives = Worker(engine, concurrency=concurrency, attempts=most, options=lambda row: given)
                work = _run(drives, drives.run(until_idle=until_idle), quiet=quiet)
            name, driven = asyncio.run(work)
        held = [row.run_id for row in RunQueue(engine.journal.store.backend).rows() if row.ready_at is None]
        drove = f"worker {name}: {io.count(driven, 'run')} driven to an end or to a question"
        held_back = f"{io.count(len(held), 'run')} held back; which and why: paor worker --list"
        notes = [*([] if quiet else [drove]), *([held_back] if held else [])]
        return io.say_either({"worker": name, "driven": driven, "held_back": held}, (), *notes)


async def _placed(engine: Engine, concurrency: int, given: Options, *, quiet: bool) -> tuple[str, int]:
    """Drive the runs that Temporal places here."""
    from ...worker.temporal import TemporalWorker, client_of_environment

    drives = TemporalWorker(engine, await client_of_environment(), concurrency=concurrency, options=given)
    return await _run(drives, drives.run(), quiet=quiet)


async def _run(drives: BaseWorker, work: Coroutine[Any, Any, int], *, quiet: bool) -> tuple[str, int]:
    """Have a worker work until it is drained; return its name, and how many runs it has driven."""
    if not quiet:
        runs = io.count(drives.concurrency, "run")
        io.tell(f"worker {drives.name}: {drives.engine.journal.path}, {runs} at a time")
    with _draining(drives):
        return drives.name, await work


def _list(options: EngineOptions) -> int:
    """List the queue: when each run comes up, how often it was taken up in vain, by whom, and why it is held back."""
    with options.looking() as journal:
        queue = RunQueue(journal.store.backend)
        rows, now = queue.rows(), queue.now_us()
    cells: list[list[io.Cell]] = []
    for row in rows:
        ready: io.Cell = ("held back", "bad")
        if row.ready_at is not None:
            ready = "now" if row.ready_at <= now else f"in {(row.ready_at - now) / 1e6:,.0f} s"
        cells.append([row.run_id, ready, str(row.attempts), row.worker or "", row.reason or ""])
    columns = io.columns("run", "ready", "attempts>", "worker", "why")
    lines = io.table(columns, cells) if cells else ["the queue is empty"]
    return io.say_either([row._asdict() for row in rows], lines)


@contextmanager
def _draining(drives: BaseWorker) -> Iterator[None]:
    """Have a signal drain the worker; a second one ends the process at once."""

    def drain(number: int, frame: object) -> None:
        signal.signal(number, before[signal.Signals(number)])
        io.tell(f"worker {drives.name}: draining; once more to end at once")
        drives.drain()

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, drain)
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(TypeError):  # one that was not set by Python
                signal.signal(number, handler)


def _told(event: Event) -> None:
    if isinstance(event, RunStarted):
        io.tell(f"run {event.run_id}: {'goes on' if event.resumed else 'begins'}")
    elif isinstance(event, RunEnded):
        result = event.result
        io.tell(f"run {event.run_id}: {io.state_text(result.state, why_of(result), result.status)}")


def _log(record: LogRecord) -> None:
    error = record.exc_info[1] if record.exc_info else None
    io.tell(io.one_line(record.getMessage() + (f": {type(error).__name__}: {error}" if error else "")))
