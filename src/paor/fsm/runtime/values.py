"""Values from the host that guards may look at: what the engine's ``values`` port gives, asked for right before a decision."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from ...states.base.errors import HostFunctionError, UsageError
from ...states.run.labels import values_of
from ...states.run.state import Run

ValuesPort = Callable[[str, str], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Called with a run's id and the phase that it is in; gives JSON data. It may be a coroutine function."""


def values_text(run: Run, came_to: object) -> str:
    """
    Return what the port gave as JSON, to be journaled before anything follows from it.

    Raises:
        HostFunctionError: It raised, or gave what has no JSON form; nothing was decided.
    """
    where = f"run {run.run_id}, row {run.seq} in {run.state}: the values port"
    if isinstance(came_to, BaseException):
        raise HostFunctionError(f"{where} raised {type(came_to).__name__}: {came_to}"[:500]) from came_to
    try:
        return orjson.dumps(values_of(came_to), option=orjson.OPT_SORT_KEYS).decode()
    except UsageError as error:
        raise HostFunctionError(f"{where}: {error}") from None


def is_awaitable(value: object) -> bool:
    """Return whether the port gave something to wait for."""
    return inspect.isawaitable(value)
