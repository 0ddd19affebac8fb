"""
The machine, for hosts that extend it: guards, phases and rows of their own, and what their functions are given.

`Machine` and `Phase` are at the top, too. ``docs/howto/machine.md`` shows how they are used. `guards` is the module of paor's own guards:
each is a pure function of a `GuardContext`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from .fsm.check.checker import defects_of

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
    "defects_of",
    "guards",
    "should_continue",
]


def __getattr__(name: str) -> Any:
    """Import `defects_of` on first use: it explores runs, which a module of guards need not load."""
    if name != "defects_of":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .fsm.check.checker import defects_of

    return defects_of
