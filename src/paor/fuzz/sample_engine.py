"""The engine that is fuzzed when nobody names one: the built-in tools, and small ones of every effect class."""

from __future__ import annotations

from typing import Any

from ..fsm.engine import Engine
from ..fsm.journal_api import Journal
from ..states.base.errors import ToolError
from ..states.settings.policy import Policy
from ..tools.tool import Tool, ToolContext, tool


@tool("notes.read", effect="read", label="page")
def read(page: int) -> dict[str, Any]:
    """Read one page of the notes."""
    return {"page": page, "lines": [f"line {number}" for number in range(3)]}


@tool("notes.find", effect="read", repeat_allowed=True)
def find(text: str, limit: int = 3) -> list[str]:
    """Find pages by their words."""
    return [f"{text} {number}" for number in range(max(0, min(limit, 9)))]


@tool("notes.save", effect="idempotent", retries=1)
def save(page: int, text: str = "") -> str:
    """Save a page."""
    if page < 0:
        raise ToolError(f"there is no page {page}")
    return f"saved page {page}"


@tool("notes.send", label="receipt")
def send(context: ToolContext, text: str) -> str:
    """Send a note; it cannot be taken back."""
    return f"sent {text} under {context.idempotency_key}"


@tool("notes.summarise", effect="read")
def summarise(context: ToolContext, text: str) -> str:
    """Have the model summarise a text."""
    return context.ask(text)


@tool("notes.delete")
def delete(page: int) -> str:
    """Never be called: the policy denies it."""
    return f"deleted page {page}"


TOOLS: tuple[Tool, ...] = (read, find, save, send, summarise, delete)


def sample_engine(journal: Journal) -> Engine:
    """Return an engine with the built-in tools and those above; one of them is denied."""
    return Engine("offline", TOOLS, journal, policy=Policy(deny=("notes.delete",)))
