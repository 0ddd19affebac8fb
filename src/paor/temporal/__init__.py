"""
Temporal: it decides where a run is driven and when it is looked at again; the journal stays the truth.

    client = await Client.connect("localhost:7233")
    await TemporalWorker(engine, client).run()

Needs ``pip install 'paor[temporal]'``. May import the four folders and the workers. Start with `worker`.
"""

from __future__ import annotations

from importlib.util import find_spec

from ..states.base.errors import MissingExtra

if find_spec("temporalio") is None:
    raise MissingExtra('Temporal needs its package: pip install "paor[temporal]"')

from .worker import TemporalWorker
from .workflow import DriveRun, Place

__all__ = ["DriveRun", "Place", "TemporalWorker"]
