"""What a user has set on a machine, checked before anything is drawn from it: one line instead of a strange search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..states.errors import UsageError
from .oracles.reachable_rows import NEVER
from .repro import RUNS_MAX

_LISTS = ("fakes", "modes", "criteria", "documents")


def check_attributes(machine: Any) -> None:
    """
    Check the attributes of an `EngineMachine`.

    Raises:
        UsageError: One is of another type, such as a text where a list is expected, or has a value that none can have.
    """
    for name in _LISTS:
        _check_list(name, getattr(machine, name))
    if not machine.modes:
        raise UsageError("modes of the machine are empty, expected at least one")
    for mode in machine.modes:
        if mode not in NEVER:
            raise UsageError(f"modes of the machine have {mode!a:.80}, expected {', '.join(NEVER)}")
    if not isinstance(machine.values, Mapping):
        raise UsageError(
            f"values of the machine are of type {type(machine.values).__name__}, expected lists by name"
        )
    for name, values in machine.values.items():
        _check_list(f"values[{name!a:.80}]", values)
    if type(machine.runs) is not int or not 1 <= machine.runs <= RUNS_MAX:
        raise UsageError(f"runs of the machine are {machine.runs!a:.80}, expected 1 to {RUNS_MAX}")


def _check_list(name: str, value: object) -> None:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise UsageError(f"{name} of the machine are of type {type(value).__name__}, expected a list")
