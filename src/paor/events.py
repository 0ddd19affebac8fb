"""
What `Engine.stream` yields, and what hooks are called with.

    from paor.events import RunEnded, TransitionTaken

`Event` is any of them; ``kind`` tells them apart.
"""

from __future__ import annotations

from .fsm.runtime.events import (
    Event,
    ModelNotice,
    ModelText,
    RunEnded,
    RunStarted,
    RunWaiting,
    StepCompleted,
    TransitionTaken,
)

__all__ = [
    "Event",
    "ModelNotice",
    "ModelText",
    "RunEnded",
    "RunStarted",
    "RunWaiting",
    "StepCompleted",
    "TransitionTaken",
]
