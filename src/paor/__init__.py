"""
paor: LLM agent loops as an explicit finite state machine, journaled to SQLite.

    from paor import Engine

    engine = Engine(journal="runs.db")
    result = engine.run("Summarise the obligations and list every deadline", documents=["contract.pdf"])
    print(result.state, result.answer)

Everything public is here; the folders below are described in docs/rooms.md. May import every room; nothing in a room may
import it. Start with `fsm/engine.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fsm.check.checker import check
    from .fsm.check.findings import Check, Finding
    from .fsm.diagrams.overlays import diagram
    from .fsm.engine import Engine
    from .fsm.erasure.execute import ErasureResult
    from .fsm.explain.coverage import Coverage, coverage
    from .fsm.explain.diff import RunDiff, diff
    from .fsm.explain.why import Why, WhyNot, why, why_not
    from .fsm.host.recover import Recovery
    from .fsm.journal.erasure_log import Erasure
    from .fsm.journal_api import Journal
    from .fsm.lifecycle.result import Result
    from .fsm.lifecycle.subruns import Task
    from .fsm.replay.replay import Divergence, Replay, Unchecked, replay
    from .fsm.runtime.ports import Clock, Ids, RandomIds, SeededIds, SteppingClock, SystemClock
    from .fsm.transfer.importer import Imported
    from .fsm.transfer.redaction import Redaction
    from .fsm.versioning.changes import ChangedPart
    from .fsm.workflow.reader import load_workflow
    from .fsm.workflow.validate import validate
    from .prompts.clients.anthropic import AnthropicModel
    from .prompts.clients.openai import OpenAIModel
    from .prompts.model import (
        CallStopped,
        Model,
        ModelCall,
        ModelUnavailable,
        Notice,
        OfferedTool,
        PromptMessage,
        Reply,
        ToolCall,
    )
    from .prompts.offline import OfflineModel
    from .prompts.scripted import ScriptedModel
    from .states.base.errors import (
        AlreadyAnswered,
        AnswerNeeded,
        EffectUnknown,
        Erased,
        IllegalEvent,
        InternalError,
        InvalidAnswer,
        InvalidFork,
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
    from .states.base.version import VERSION as __version__
    from .states.records.actions import WebFact
    from .states.records.events import (
        Event,
        ModelNotice,
        ModelText,
        RunEnded,
        RunStarted,
        RunWaiting,
        StepCompleted,
        TransitionTaken,
    )
    from .states.records.outcomes import Usage
    from .states.records.questions import Question
    from .states.records.workflow import Workflow
    from .states.settings.limits import Limits, ReplyTokens
    from .states.settings.policy import ApprovalRule, Policy
    from .states.settings.profile import Profile
    from .tools.documents.builtin import builtin_tools
    from .tools.documents.files import open_within
    from .tools.mcp.toolset import McpServer, mcp_tools
    from .tools.tool import Document, FunctionTool, Resumption, Tool, ToolContext, ToolOutput, tool
    from .tools.web.search import SearchBackend, SearchHit, SearchQuery, SearchReply
    from .tools.web.settings import WebSettings
    from .tools.web.tools import web_tools

__all__ = [
    "AlreadyAnswered",
    "AnswerNeeded",
    "AnthropicModel",
    "ApprovalRule",
    "CallStopped",
    "ChangedPart",
    "Check",
    "Clock",
    "Coverage",
    "Divergence",
    "Document",
    "EffectUnknown",
    "Engine",
    "Erased",
    "Erasure",
    "ErasureResult",
    "Event",
    "Finding",
    "FunctionTool",
    "Ids",
    "IllegalEvent",
    "Imported",
    "InternalError",
    "InvalidAnswer",
    "InvalidFork",
    "Journal",
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
    "Limits",
    "McpServer",
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
    "OfferedTool",
    "OfflineModel",
    "OpenAIModel",
    "PaorError",
    "Policy",
    "Profile",
    "PromptMessage",
    "Question",
    "RandomIds",
    "Recovery",
    "Redaction",
    "Replay",
    "ReplayDiverged",
    "Reply",
    "ReplyTokens",
    "Result",
    "Resumption",
    "RunChanged",
    "RunDiff",
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
    "TimedOut",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "TransitionTaken",
    "Unchecked",
    "UnknownRun",
    "Usage",
    "UsageError",
    "WebFact",
    "WebSettings",
    "Why",
    "WhyNot",
    "Workflow",
    "__version__",
    "builtin_tools",
    "check",
    "coverage",
    "diagram",
    "diff",
    "load_workflow",
    "mcp_tools",
    "open_within",
    "replay",
    "tool",
    "validate",
    "web_tools",
    "why",
    "why_not",
]

_PLACES = {
    ".fsm.explain.diff": (
        "RunDiff",
        "diff",
    ),
    ".fsm.versioning.changes": ("ChangedPart",),
    ".fsm.explain.coverage": (
        "Coverage",
        "coverage",
    ),
    ".fsm.diagrams.overlays": ("diagram",),
    ".fsm.engine": ("Engine",),
    ".fsm.host.recover": ("Recovery",),
    ".fsm.journal_api": ("Journal",),
    ".fsm.runtime.ports": (
        "Clock",
        "Ids",
        "RandomIds",
        "SeededIds",
        "SteppingClock",
        "SystemClock",
    ),
    ".fsm.erasure.execute": ("ErasureResult",),
    ".fsm.journal.erasure_log": ("Erasure",),
    ".fsm.transfer.importer": ("Imported",),
    ".fsm.check.findings": ("Check", "Finding"),
    ".fsm.check.checker": ("check",),
    ".fsm.transfer.redaction": ("Redaction",),
    ".fsm.replay.replay": (
        "Divergence",
        "Replay",
        "Unchecked",
        "replay",
    ),
    ".fsm.lifecycle.result": ("Result",),
    ".fsm.explain.why": (
        "Why",
        "WhyNot",
        "why",
        "why_not",
    ),
    ".fsm.workflow.reader": ("load_workflow",),
    ".fsm.lifecycle.subruns": ("Task",),
    ".fsm.workflow.validate": ("validate",),
    ".prompts.clients.anthropic": ("AnthropicModel",),
    ".prompts.model": (
        "CallStopped",
        "Model",
        "ModelCall",
        "ModelUnavailable",
        "Notice",
        "OfferedTool",
        "PromptMessage",
        "Reply",
        "ToolCall",
    ),
    ".prompts.offline": ("OfflineModel",),
    ".prompts.clients.openai": ("OpenAIModel",),
    ".prompts.scripted": ("ScriptedModel",),
    ".states.records.actions": ("WebFact",),
    ".states.base.errors": (
        "Erased",
        "AlreadyAnswered",
        "AnswerNeeded",
        "EffectUnknown",
        "TimedOut",
        "IllegalEvent",
        "InternalError",
        "InvalidAnswer",
        "InvalidFork",
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
        "NotAJournal",
        "NotStarted",
        "PaorError",
        "ReplayDiverged",
        "RunChanged",
        "ScriptExhausted",
        "ToolError",
        "UnknownRun",
        "UsageError",
    ),
    ".states.records.events": (
        "Event",
        "ModelNotice",
        "ModelText",
        "RunEnded",
        "RunStarted",
        "RunWaiting",
        "StepCompleted",
        "TransitionTaken",
    ),
    ".states.settings.limits": ("Limits", "ReplyTokens"),
    ".states.records.outcomes": ("Usage",),
    ".states.records.questions": ("Question",),
    ".states.settings.policy": ("ApprovalRule", "Policy"),
    ".states.settings.profile": ("Profile",),
    ".states.records.workflow": ("Workflow",),
    ".tools.documents.builtin": ("builtin_tools",),
    ".tools.documents.files": ("open_within",),
    ".tools.mcp.toolset": ("McpServer", "mcp_tools"),
    ".tools.tool": (
        "Document",
        "FunctionTool",
        "Resumption",
        "Tool",
        "ToolContext",
        "ToolOutput",
        "tool",
    ),
    ".tools.web.tools": ("web_tools",),
    ".tools.web.search": (
        "SearchBackend",
        "SearchHit",
        "SearchQuery",
        "SearchReply",
    ),
    ".tools.web.settings": ("WebSettings",),
}
"""Public names by module; one is imported when it is first asked for, so that ``import paor`` costs next to nothing."""

_MODULES = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name == "__version__":
        from .states.base.version import VERSION

        return VERSION
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
