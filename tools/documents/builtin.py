"""The tools that every engine has unless told otherwise."""

from __future__ import annotations

from ..tool import Tool
from .process_tool import process
from .tools import extract, generate_report


def builtin_tools() -> tuple[Tool, ...]:
    """Return the built-in tools in catalog order."""
    return (process, extract, generate_report)
