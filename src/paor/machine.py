"""
The machine, for hosts that extend it: guards, phases and rows of their own, and what their functions are given.

`Machine` and `Phase` are at the top, too. ``docs/howto/machine.md`` shows how they are used. `guards` is the module of paor's own guards:
each is a pure function of a `GuardContext`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .fsm.decision.guard_context import GuardContext
from .fsm.machine import guards
from .fsm.machine.machine import Machine
from .fsm.machine.safety import MachineDefect
from .fsm.machine.stop_rules import should_continue
from .states.phase import Phase
from .states.records.actions import Intent, Selection, ToolResult
from .states.records.observations import Message, Observation, StepCheck
from .states.records.outcomes import (
    Answered,
    Cancelled,
    Ended,
    InDoubt,
    ModelFault,
    NoOutcome,
    Recalled,
    Replied,
    Unaffordable,
)
from .states.records.reviews import Refinement, Review
from .states.records.visits import Visit
from .states.run.state import Counters

__all__ = [
    "Answered",
    "Cancelled",
    "Counters",
    "Ended",
    "GuardContext",
    "InDoubt",
    "Intent",
    "Machine",
    "MachineDefect",
    "Message",
    "ModelFault",
    "NoOutcome",
    "Observation",
    "Phase",
    "Recalled",
    "Refinement",
    "Replied",
    "Review",
    "Selection",
    "StepCheck",
    "ToolResult",
    "Unaffordable",
    "Visit",
    "breaks",
    "defects_of",
    "guards",
    "should_continue",
]


def defects_of(machine: Machine) -> tuple[MachineDefect, ...]:
    """
    Return what an engine refuses a machine for, nothing for the standard one: what its table shows, else what its smallest runs come to.

    Args:
        machine: With its host's functions; none of them is called.
    """
    from .fsm.check.checker import machine_defects  # which a module of guards need not load

    return machine_defects(machine)


def breaks(machine: Machine, never: str, path: Mapping[str, Any]) -> bool:
    """
    Return whether a walk that `paor check` has shown still breaks a property: the regression test of what was mended.

    Args:
        machine: That decides now.
        never: The property, such as ``"Done without Verifying"``; one of ``--always`` as ``A without ever B``.
        path: The walk, as the finding holds it: JSON data.

    Raises:
        UsageError: *never* is no property of the machine.
    """
    from .fsm.check.checker import breaks as walked

    return walked(machine, never, path)
