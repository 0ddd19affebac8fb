"""The tools that every engine has unless told otherwise."""

from __future__ import annotations

from .ai import process
from .documents import extract, generate_report
from .tool import Tool


def builtin_tools() -> tuple[Tool, ...]:
    """Return the built-in tools in catalog order."""
    return (process, extract, generate_report)
