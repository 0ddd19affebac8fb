"""Asking a model from a driver of either kind, whichever of ``ask`` and ``aask`` it has."""

from __future__ import annotations

import asyncio
from typing import cast

from ..model import AsyncModel, Model, ModelCall, Reply, SyncModel


def stops(model: Model) -> bool:
    """Return whether a request of a sync driver gives up when `ModelCall.is_cancelled` is true."""
    return bool(getattr(model, "stops", False)) or not hasattr(model, "ask")


def ask(model: Model, call: ModelCall) -> Reply:
    """Return the answer of *model*; one that has ``aask`` alone is asked on an event loop in a separate thread."""
    if hasattr(model, "ask"):
        return cast("SyncModel", model).ask(call)
    from .background_loop import BACKGROUND

    return BACKGROUND.wait(model.aask(call), call.is_cancelled or (lambda: False))


async def aask(model: Model, call: ModelCall) -> Reply:
    """Return the answer of *model*; one that has ``ask`` alone is asked in a separate thread."""
    if hasattr(model, "aask"):
        return await cast("AsyncModel", model).aask(call)
    return await asyncio.to_thread(model.ask, call)
