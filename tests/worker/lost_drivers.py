"""Drivers that are lost: on another machine, so that nobody can see that they are dead and only their lease runs out."""

from __future__ import annotations

import json

from paor import Journal

ELSEWHERE = {"host": "far", "boot": "b", "space": "s", "pid": 1, "start": 1, "clock": None}
"""The owner of a lease on another machine."""


def lose_driver(journal: Journal, run_id: str, longer_s: float = 0.0) -> int:
    """Have a process of another machine take up a run and never renew its lease; return when that runs out, in microseconds."""
    leases, backend = journal.store.leases, journal.store.backend
    run = journal.run(run_id).run
    leases.acquire(run)
    leases._held.clear()
    backend.execute(
        "UPDATE leases SET owner = ?, lease_until = lease_until + ? WHERE run = ?",
        (json.dumps(ELSEWHERE), round(longer_s * 1e6), run),
    )
    ((until,),) = backend.query("SELECT lease_until FROM leases WHERE run = ?", (run,))
    return int(until)
