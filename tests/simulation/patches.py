"""What the engine takes from the system, taken from the world that is simulated now: threads, clocks, owners, the disk."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from paor.fsm.journal import cancel_requests, group_commit, leases
from paor.fsm.journal.sqlite import backend, source
from paor.fsm.journal.sqlite import file as journal_file
from paor.fsm.runtime import timed_calls

from .primitives import Threading, Time
from .processes import ProcessTable
from .schedule import Schedule
from .storage import Disk

THREADING = Threading()


@contextmanager
def simulated(schedule: Schedule, table: ProcessTable, disk: Disk) -> Iterator[None]:
    """Give the engine this world instead of the system."""
    opened = SimpleNamespace(**{**vars(sqlite3), "connect": disk.connect})
    clock = Time(THREADING)
    replaced: tuple[tuple[Any, dict[str, Any]], ...] = (
        (journal_file, {"sqlite3": opened}),
        (cancel_requests, {"threading": THREADING}),
        (backend, {"sqlite3": opened, "threading": THREADING}),
        (source, {"threading": THREADING}),
        (group_commit, {"threading": THREADING}),
        (timed_calls, {"threading": THREADING}),
        (
            leases,
            {
                "threading": THREADING,
                "time": clock,
                "_owner": table.current_owner,
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
