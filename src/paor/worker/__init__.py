"""
Workers: processes, on any number of machines, that drive the runs which `Engine.submit` has queued.

    worker = Worker(engine, concurrency=8)
    asyncio.run(worker.run())

``paor worker --app MODULE:ENGINE`` does the same; `temporal` has Temporal decide where a run is driven. May import the four folders.
Start with `worker`.
"""

from __future__ import annotations

from .worker import Worker

__all__ = ["Worker"]
