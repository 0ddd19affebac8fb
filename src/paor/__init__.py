"""
paor: LLM agent loops as an explicit finite state machine, journaled to SQLite.

    from paor import Engine

    engine = Engine(journal="runs.db")
    result = engine.run("Summarise the obligations and list every deadline", documents=["contract.pdf"])
    print(result.state, result.answer)

Everything public is here; the folders below are described in docs/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fsm.engine import Engine
    from .fsm.journal import Journal
    from .fsm.ports import Clock, Ids, RandomIds, SeededIds, SteppingClock, SystemClock
    from .fsm.replay import Divergence, Replay, replay
    from .fsm.result import Result
    from .fsm.validate import validate
    from .fsm.version import VERSION as __version__
    from .fsm.workflow_reading import load_workflow
    from .fsm.workflows import Task
    from .prompts.anthropic import AnthropicModel
    from .prompts.model import Model, ModelCall, ModelUnavailable, Notice, PromptMessage, Reply
    from .prompts.offline import OfflineModel
    from .prompts.openai import OpenAIModel
    from .prompts.scripted import ScriptedModel
    from .states.actions import WebFact
    from .states.errors import (
        IllegalEvent,
        InternalError,
        InvalidAnswer,
        JournalBusy,
        JournalDamaged,
        JournalError,
        JournalFull,
        JournalTooNew,
        LeaseHeld,
        LeaseLost,
        MissingExtra,
        ModelError,
        NotAJournal,
        NotStarted,
        PaorError,
        ReplayDiverged,
        ScriptExhausted,
        ToolError,
        UnknownRun,
        UsageError,
    )
    from .states.events import (
        Event,
        ModelNotice,
        ModelText,
        RunEnded,
        RunStarted,
        RunWaiting,
        StepCompleted,
        TransitionTaken,
    )
    from .states.limits import Limits
    from .states.outcomes import Usage
    from .states.policy import Policy
    from .states.profile import Profile
    from .states.workflow import Workflow
    from .tools.builtin import builtin_tools
    from .tools.tool import Document, Tool, ToolContext, ToolOutput, tool
    from .tools.web import web_tools
    from .tools.web_search import SearchBackend, SearchHit, SearchQuery, SearchReply
    from .tools.web_settings import WebSettings

__all__ = [
    "AnthropicModel",
    "Clock",
    "Divergence",
    "Document",
    "Engine",
    "Event",
    "Ids",
    "IllegalEvent",
    "InternalError",
    "InvalidAnswer",
    "Journal",
    "JournalBusy",
    "JournalDamaged",
    "JournalError",
    "JournalFull",
    "JournalTooNew",
    "LeaseHeld",
    "LeaseLost",
    "Limits",
    "MissingExtra",
    "Model",
    "ModelCall",
    "ModelError",
    "ModelNotice",
    "ModelText",
    "ModelUnavailable",
    "NotAJournal",
    "NotStarted",
    "Notice",
    "OfflineModel",
    "OpenAIModel",
    "PaorError",
    "Policy",
    "Profile",
    "PromptMessage",
    "RandomIds",
    "Replay",
    "ReplayDiverged",
    "Reply",
    "Result",
    "RunEnded",
    "RunStarted",
    "RunWaiting",
    "ScriptExhausted",
    "ScriptedModel",
    "SearchBackend",
    "SearchHit",
    "SearchQuery",
    "SearchReply",
    "SeededIds",
    "StepCompleted",
    "SteppingClock",
    "SystemClock",
    "Task",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "TransitionTaken",
    "UnknownRun",
    "Usage",
    "UsageError",
    "WebFact",
    "WebSettings",
    "Workflow",
    "__version__",
    "builtin_tools",
    "load_workflow",
    "replay",
    "tool",
    "validate",
    "web_tools",
]

_PLACES = {
    ".fsm.engine": ("Engine",),
    ".fsm.journal": ("Journal",),
    ".fsm.ports": (
        "Clock",
        "Ids",
        "RandomIds",
        "SeededIds",
        "SteppingClock",
        "SystemClock",
    ),
    ".fsm.replay": (
        "Divergence",
        "Replay",
        "replay",
    ),
    ".fsm.result": ("Result",),
    ".fsm.workflow_reading": ("load_workflow",),
    ".fsm.workflows": ("Task",),
    ".fsm.validate": ("validate",),
    ".prompts.anthropic": ("AnthropicModel",),
    ".prompts.model": (
        "Model",
        "ModelCall",
        "ModelUnavailable",
        "Notice",
        "PromptMessage",
        "Reply",
    ),
    ".prompts.offline": ("OfflineModel",),
    ".prompts.openai": ("OpenAIModel",),
    ".prompts.scripted": ("ScriptedModel",),
    ".states.actions": ("WebFact",),
    ".states.errors": (
        "IllegalEvent",
        "InternalError",
        "InvalidAnswer",
        "JournalBusy",
        "JournalDamaged",
        "JournalError",
        "JournalFull",
        "JournalTooNew",
        "LeaseHeld",
        "LeaseLost",
        "MissingExtra",
        "ModelError",
        "NotAJournal",
        "NotStarted",
        "PaorError",
        "ReplayDiverged",
        "ScriptExhausted",
        "ToolError",
        "UnknownRun",
        "UsageError",
    ),
    ".states.events": (
        "Event",
        "ModelNotice",
        "ModelText",
        "RunEnded",
        "RunStarted",
        "RunWaiting",
        "StepCompleted",
        "TransitionTaken",
    ),
    ".states.limits": ("Limits",),
    ".states.outcomes": ("Usage",),
    ".states.policy": ("Policy",),
    ".states.profile": ("Profile",),
    ".states.workflow": ("Workflow",),
    ".tools.builtin": ("builtin_tools",),
    ".tools.tool": (
        "Document",
        "Tool",
        "ToolContext",
        "ToolOutput",
        "tool",
    ),
    ".tools.web": ("web_tools",),
    ".tools.web_search": (
        "SearchBackend",
        "SearchHit",
        "SearchQuery",
        "SearchReply",
    ),
    ".tools.web_settings": ("WebSettings",),
}
"""Public names by module; one is imported when it is first asked for, so that ``import paor`` costs next to nothing."""

_MODULES = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name == "__version__":
        from .fsm.version import VERSION

        return VERSION
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
