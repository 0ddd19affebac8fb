"""
A host's module for ``--app``: the scenario `HOSTED` in `FOLDER`, killed at the point that the environment says.

It watches from its import on, for a command opens the journal before it asks for the engine; so no test imports it.
"""

from __future__ import annotations

import os
from pathlib import Path

from paor import Engine, Journal

from .outside import Outside
from .points import Points, watching
from .scenarios import BY_NAME, FOLDER, GENERATION, HOSTED, TARGET, clock_of

_points = Points(int(os.environ.get(TARGET, "0")))
_watching = watching(_points)
_watching.__enter__()


def engine(journal: Journal) -> Engine:
    """Return the engine of this process on the journal that the command has opened."""
    folder, generation = Path(os.environ[FOLDER]), int(os.environ.get(GENERATION, "0"))
    outside = Outside(folder, clock_of(generation))
    ids = f"ids of {generation}"
    return BY_NAME[HOSTED].engine(folder, _points, outside, ids=ids, journal=journal)
