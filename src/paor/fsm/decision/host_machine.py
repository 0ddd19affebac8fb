"""The phases of a host's own machine as its spec records them: data, without the host's functions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from ...states.base.errors import HostFunctionError
from ...states.phase import Phase
from ...states.run.spec import machine_data


@lru_cache(maxsize=64)
def recorded_phases(text: str) -> Mapping[str, Phase]:
    """Return the host's own phases by name; *text* is a spec's `host_machine`."""
    return {data["name"]: phase_of(data) for data in machine_data(text).get("states", ()) if "asks" in data}


def phase_of(data: Mapping[str, Any]) -> Phase:
    """Return a phase from its data, as `phase_data` gives it; a function of the host is only named there, and left out."""
    asks = dict(data["asks"])
    for name in ("arguments", "question"):
        told = asks.get(name)
        if isinstance(told, Mapping):
            asks[name] = told["values"] if "values" in told else Unbound(told["function"])
    return Phase(data["name"], **asks)


class Unbound:
    """
    A function of the host, of which only the name is there: what it gave is in the journal.

    Attributes:
        __name__: Its name.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, context: object) -> Any:
        """Raise `HostFunctionError`: without the host's code nothing new can be decided."""
        raise HostFunctionError(
            f"the host's function {self.__name__} is not here; give the engine its machine"
        )


def phase_data(phase: Phase) -> dict[str, Any]:
    """Return a phase as data: what is not at its default, functions and models by their names."""
    asks = {name: _told(getattr(phase, name)) for name in ASKS if getattr(phase, name) not in (None, False)}
    if isinstance(phase.arguments, Mapping):
        asks["arguments"] = {"values": dict(phase.arguments)}
    return {"name": phase.name, "asks": orjson.loads(orjson.dumps(asks, default=dict))}


ASKS = ("prompt", "reply", "model", "chooses", "tool", "arguments", "question", "answer")
"""What a phase is made with, by name."""


def _told(value: Any) -> Any:
    if callable(value):
        return {"function": value.__name__}
    return value.name if hasattr(value, "ask") or hasattr(value, "aask") else value
