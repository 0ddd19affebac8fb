"""
Worlds for tests: replies in document 003's JSON, small tools, and an engine whose clock and ids are fixed.

    with engine(tmp_path, [SELECT(), PARAMETERS(page=1), STOP, SUCCESS]) as scripted:
        result = scripted.run("Read page 1")

The n-th reply answers the n-th model request of a run: selection, parameters and refinement in each iteration, and
one review after a stop. The same call in another folder writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from paor import Engine, Journal, ScriptedModel, Tool, tool
from paor.errors import NotStarted, ToolError
from paor.testing import SeededIds, SteppingClock

Script = Sequence[str | Mapping[str, Any] | Any]
JOURNAL = "runs.db"
"""Name of the journal in the test's folder."""


# -- replies ---------------------------------------------------------------------------------------------------


def SELECT(
    action: str = "notes.read", fields: Mapping[str, str] | None = None, **keys: Any
) -> dict[str, Any]:
    """
    Return Stage 1's choice of *action*.

    Args:
        action: Compound name.
        fields: Names and types for Stage 2; None: ``page``, a number; empty: Stage 2 is not asked.
        **keys: Other keys of the reply, under their wire names (``requiredInputDocuments=[...]``).
    """
    fields = {"page": "number"} if fields is None else fields
    schema = [
        {"name": name, "type": kind, "required": True, "description": name} for name, kind in fields.items()
    ]
    return {
        "action": action,
        "actionObjective": f"use {action}",
        "learnings": [],
        "requiredInputDocuments": [],
        "requiredConnection": None,
        "parametersContext": "as the objective says",
        "parametersSchema": {"fields": schema},
    } | keys


def PARAMETERS(**values: Any) -> dict[str, Any]:
    """Return Stage 2's values."""
    return {"schema": "parameters_v1", "parameters": values}


def REFINE(decision: str, **keys: Any) -> dict[str, Any]:
    """Return a refinement: ``continue`` or ``stop``, with `hint`, `answer`, `criteria`, `score`."""
    return {"decision": decision, "reason": f"the script says {decision}"} | keys


def REVIEW(status: str, *improvements: str, **keys: Any) -> dict[str, Any]:
    """Return a completion review: ``success``, ``retry`` or ``failed``."""
    return {"status": status, "improvements": list(improvements)} | keys


def ANSWER(text: str = "It is known already.") -> dict[str, Any]:
    """Return Stage 1's direct answer, without an action."""
    return {"action": None, "answer": text}


def MET(criterion: str, *, met: bool = True) -> dict[str, Any]:
    """Return the judgement of one criterion, for the key ``criteria`` of a refinement or review."""
    return {"criterion": criterion, "met": met}


CONTINUE = REFINE("continue", hint="read on")
STOP = REFINE("stop")
SUCCESS = REVIEW("success", answer="All is read.")


def READ(page: int) -> list[dict[str, Any]]:
    """Return the replies of one iteration up to its refinement."""
    return [SELECT(), PARAMETERS(page=page)]


def template(name: str, more: str) -> str:
    """Return the shipped template of this name, and more at its end."""
    from paor.prompts.building.templates import default_templates

    return default_templates()[name] + more


# -- tools -----------------------------------------------------------------------------------------------------


@tool("notes.read", effect="idempotent", label="page")
def read(page: int) -> str:
    """Read one page of the notes."""
    return f"Page {page}: the supplier delivers within {page * 10} days of the order."


@tool("notes.send", effect="once", label="receipt")
def send(text: str) -> str:
    """Send a note; it cannot be taken back."""
    return f"sent: {text}"


@tool("notes.fail", effect="idempotent")
def fail(page: int) -> str:
    """Fail with the same message each time."""
    raise ToolError(f"page {page} is torn out")


def flaky(
    times: int, *, name: str = "notes.flaky", retries: int = 1, effect: Literal["idempotent", "once"] = "once"
) -> Tool:
    """Return a tool that states *times* times that its effect did not begin, then works."""
    left = [times]

    @tool(name, retries=retries, effect=effect)
    def try_again(page: int) -> str:
        """Work at last."""
        left[0] -= 1
        if left[0] >= 0:
            raise NotStarted("the line is busy")
        return f"page {page} at last"

    return try_again


TOOLS: tuple[Tool, ...] = (read, send, fail)


# -- engines ---------------------------------------------------------------------------------------------------


def engine(tmp_path: Path, replies: Script, tools: Sequence[Tool] = TOOLS, **options: Any) -> Engine:
    """
    Return an engine with a script, a stepping clock and seeded ids, on a journal in *tmp_path*.

    Args:
        tmp_path: Folder; the journal in it is `JOURNAL`, opened with durability ``off``.
        replies: The script.
        tools: The host's tools.
        **options: Of `Engine`; the built-in tools are left out unless asked for.
    """
    options.setdefault("builtins", False)
    options.setdefault("clock", SteppingClock())
    options.setdefault("ids", SeededIds())
    if "journal" not in options:
        options["journal"] = Journal(tmp_path / JOURNAL, "off")
    return Engine(model=ScriptedModel(replies), tools=list(tools), **options)
