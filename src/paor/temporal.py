"""
Temporal: it decides where a run is driven and when it is looked at again; the journal stays the truth.

    client = await Client.connect("localhost:7233")
    await TemporalWorker(engine, client).run()

Needs ``pip install 'paor[temporal]'``.
"""

from __future__ import annotations

from .worker.temporal import TemporalWorker
from .worker.temporal_workflow import DriveRun, Place

__all__ = ["DriveRun", "Place", "TemporalWorker"]
