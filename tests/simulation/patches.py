"""What the engine takes from the system, taken from the world that is simulated now: threads, clocks, owners, the disk."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import SimpleNamespace
from typing import Any, TypeAlias

from paor import Engine
from paor.worker import Worker

from .inside import Claim, RunQueue
from .inside import backend_module as backend
from .inside import cancel_requests_module as cancel_requests
from .inside import file_module as journal_file
from .inside import leases_module as leases
from .inside import source_module as source
from .inside import store_module as store
from .inside import timed_calls_module as timed_calls
from .primitives import Threading, Time
from .processes import ProcessTable
from .schedule import Schedule
from .storage import Disk

THREADING = Threading()

Replaced: TypeAlias = tuple[tuple[Any, dict[str, Any]], ...]
"""Modules, and by what name each has what instead."""


@contextmanager
def simulated(schedule: Schedule, table: ProcessTable, disk: Disk, more: Replaced = ()) -> Iterator[None]:
    """Give the engine this world instead of the system, and what else is to be replaced."""
    here, real_owner = get_ident(), leases._owner  # a thread of another test may renew its leases meanwhile
    opened = SimpleNamespace(**{**vars(sqlite3), "connect": disk.connect})
    clock = Time(THREADING)
    replaced: Replaced = (
        *more,
        (journal_file, {"sqlite3": opened}),
        (cancel_requests, {"threading": THREADING}),
        (backend, {"sqlite3": opened, "threading": THREADING}),
        (source, {"threading": THREADING}),
        (store, {"threading": THREADING}),
        (timed_calls, {"threading": THREADING}),
        (
            leases,
            {
                "threading": THREADING,
                "time": clock,
                "_owner": lambda pid: (table.current_owner if get_ident() == here else real_owner)(pid),
                "_start_of": table.start_of,
                "_exists": table.exists,
            },
        ),
    )
    before = [(module, name, getattr(module, name)) for module, names in replaced for name in names]
    THREADING.schedule, level = schedule, logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    leases._HELD.clear()
    try:
        for module, names in replaced:
            for name, value in names.items():
                setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
        THREADING.schedule = None
        logging.disable(level)
        leases._HELD.clear()


def queue_of(engine: Engine) -> RunQueue:
    """Return the queue of an engine's journal."""
    return engine._runner.queue


def claims_of(drives: Worker, most: int) -> list[Claim]:
    """Have a worker claim runs."""
    return drives._queue.claim(most, drives.name, drives._back_s)


def taken_up(drives: Worker, claim: Claim) -> Coroutine[Any, Any, bool]:
    """Have a worker drive a run that it has claimed."""
    return drives._take_up(claim)
