"""
paor: LLM agent loops as an explicit finite state machine, journaled to SQLite.

    from paor import Engine

    engine = Engine(journal="runs.db")
    result = engine.run("Summarise the obligations and list every deadline", documents=["contract.pdf"])
    print(result.state, result.answer)

The nouns of an agent and its runs are here. The rest of what is public: `paor.documents` (files as text), `paor.events`, `paor.errors`, `paor.audit` (what reading and
checking a journal gives back), `paor.models` (for a model of your own), `paor.machine` (for a machine of your own), `paor.web`, `paor.otel`, `paor.worker`, `paor.temporal`, `paor.testing`, `paor.fuzz`. The folders below are
described in docs/rooms.md. May import every room; nothing in a room may import it. Start with `fsm/engine.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fsm.check.checker import check
    from .fsm.diagrams.overlays import diagram
    from .fsm.engine import Engine
    from .fsm.explain.coverage import coverage
    from .fsm.explain.diff import diff
    from .fsm.explain.why import why, why_not
    from .fsm.journal_api import Journal
    from .fsm.lifecycle.instructions import InstructionsContext
    from .fsm.lifecycle.options import AnswerOptions, ForkOptions, ResumeOptions, RunOptions
    from .fsm.lifecycle.recover import Recovery
    from .fsm.lifecycle.subruns import Task
    from .fsm.machine.machine import Machine
    from .fsm.replay.replay import replay
    from .fsm.report.html import report
    from .fsm.runtime.events import Event
    from .fsm.runtime.result import CriterionResult, Result, ResultDocument
    from .fsm.workflow.reader import load_workflow
    from .fsm.workflow.validate import validate
    from .prompts.clients.anthropic import AnthropicModel
    from .prompts.clients.openai import OpenAIModel
    from .prompts.model import Model, ModelCall, Reply
    from .prompts.offline import OfflineModel
    from .prompts.scripted import ScriptedModel
    from .states.base.errors import PaorError
    from .states.base.version import VERSION as __version__
    from .states.phase import Phase
    from .states.records.outcomes import Usage
    from .states.records.questions import Question
    from .states.records.workflow import Workflow
    from .states.settings.limits import Limits, ReplyTokens
    from .states.settings.policy import ApprovalRule, Policy
    from .states.settings.profile import Profile
    from .tools.documents.files import open_within
    from .tools.documents.tools import builtin_tools
    from .tools.mcp.toolset import McpServer, mcp_tools
    from .tools.tool import Document, FunctionTool, Resumption, Tool, ToolContext, ToolOutput, tool
    from .tools.web.tools import web_tools

__all__ = [
    "AnswerOptions",
    "AnthropicModel",
    "ApprovalRule",
    "CriterionResult",
    "Document",
    "Engine",
    "Event",
    "ForkOptions",
    "FunctionTool",
    "InstructionsContext",
    "Journal",
    "Limits",
    "Machine",
    "McpServer",
    "Model",
    "ModelCall",
    "OfflineModel",
    "OpenAIModel",
    "PaorError",
    "Phase",
    "Policy",
    "Profile",
    "Question",
    "Recovery",
    "Reply",
    "ReplyTokens",
    "Result",
    "ResultDocument",
    "ResumeOptions",
    "Resumption",
    "RunOptions",
    "ScriptedModel",
    "Task",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "Usage",
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
    "report",
    "tool",
    "validate",
    "web_tools",
    "why",
    "why_not",
]

_PLACES = {
    ".fsm.check.checker": ("check",),
    ".fsm.diagrams.overlays": ("diagram",),
    ".fsm.engine": ("Engine",),
    ".fsm.explain.coverage": ("coverage",),
    ".fsm.explain.diff": ("diff",),
    ".fsm.explain.why": (
        "why",
        "why_not",
    ),
    ".fsm.lifecycle.instructions": ("InstructionsContext",),
    ".fsm.lifecycle.options": ("AnswerOptions", "ForkOptions", "ResumeOptions", "RunOptions"),
    ".fsm.lifecycle.recover": ("Recovery",),
    ".fsm.journal_api": ("Journal",),
    ".fsm.lifecycle.subruns": ("Task",),
    ".fsm.machine.machine": ("Machine",),
    ".fsm.replay.replay": ("replay",),
    ".fsm.report.html": ("report",),
    ".fsm.runtime.events": ("Event",),
    ".fsm.runtime.result": (
        "CriterionResult",
        "Result",
        "ResultDocument",
    ),
    ".fsm.workflow.reader": ("load_workflow",),
    ".fsm.workflow.validate": ("validate",),
    ".prompts.clients.anthropic": ("AnthropicModel",),
    ".prompts.clients.openai": ("OpenAIModel",),
    ".prompts.model": (
        "Model",
        "ModelCall",
        "Reply",
    ),
    ".prompts.offline": ("OfflineModel",),
    ".prompts.scripted": ("ScriptedModel",),
    ".states.base.errors": ("PaorError",),
    ".states.phase": ("Phase",),
    ".states.records.outcomes": ("Usage",),
    ".states.records.questions": ("Question",),
    ".states.records.workflow": ("Workflow",),
    ".states.settings.limits": (
        "Limits",
        "ReplyTokens",
    ),
    ".states.settings.policy": (
        "ApprovalRule",
        "Policy",
    ),
    ".states.settings.profile": ("Profile",),
    ".tools.documents.tools": ("builtin_tools",),
    ".tools.documents.files": ("open_within",),
    ".tools.mcp.toolset": (
        "McpServer",
        "mcp_tools",
    ),
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
}
"""Public names by module; one is imported when it is first asked for, so that ``import paor`` costs next to nothing."""

_FURTHER = (
    "audit",
    "documents",
    "errors",
    "events",
    "inspect",
    "machine",
    "models",
    "otel",
    "temporal",
    "testing",
    "web",
    "worker",
)
"""Modules with the other public names; each is imported when it is first asked for."""

_MODULES = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name == "__version__":
        from .states.base.version import VERSION

        return VERSION
    from importlib import import_module

    if name in _FURTHER:
        return import_module(f".{name}", __name__)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
