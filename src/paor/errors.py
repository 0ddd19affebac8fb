"""
Every error that paor raises: one tree under `PaorError`, split by whose fault it is.

    from paor.errors import LeaseHeld, RunChanged

Beside them what a model of your own raises, `ModelUnavailable` and `CallStopped`.
"""

from __future__ import annotations

from .prompts.model import CallStopped, ModelUnavailable
from .states.base.errors import (
    AlreadyAnswered,
    AnswerNeeded,
    EffectUnknown,
    Erased,
    HostFunctionError,
    IllegalEvent,
    InternalError,
    InvalidAnswer,
    InvalidFork,
    InvalidOutput,
    JournalBusy,
    JournalConflict,
    JournalDamaged,
    JournalError,
    JournalFull,
    JournalTooNew,
    JournalTooOld,
    KeyConflict,
    LeaseHeld,
    LeaseLost,
    MissingExtra,
    ModelError,
    NotAJournal,
    NotStarted,
    PaorError,
    ReplayDiverged,
    RunChanged,
    ScriptExhausted,
    TimedOut,
    ToolError,
    UnknownRun,
    UsageError,
)

__all__ = [
    "AlreadyAnswered",
    "AnswerNeeded",
    "CallStopped",
    "EffectUnknown",
    "Erased",
    "HostFunctionError",
    "IllegalEvent",
    "InternalError",
    "InvalidAnswer",
    "InvalidFork",
    "InvalidOutput",
    "JournalBusy",
    "JournalConflict",
    "JournalDamaged",
    "JournalError",
    "JournalFull",
    "JournalTooNew",
    "JournalTooOld",
    "KeyConflict",
    "LeaseHeld",
    "LeaseLost",
    "MissingExtra",
    "ModelError",
    "ModelUnavailable",
    "NotAJournal",
    "NotStarted",
    "PaorError",
    "ReplayDiverged",
    "RunChanged",
    "ScriptExhausted",
    "TimedOut",
    "ToolError",
    "UnknownRun",
    "UsageError",
]
