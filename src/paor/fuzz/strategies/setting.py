"""What a reply may know of the run that asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...states.run.spec import ToolSpec
from ...tools.catalog import CONNECTION, DOCUMENT_LIST
from .json_schema import NOTHING_KNOWN
from .shown import Learned


class Setting(NamedTuple):
    """
    What a generated reply can use of the run that asks.

    Attributes:
        tools: The tools that are offered.
        denied: Names of those that the policy forbids.
        criteria: The success criteria.
        labels: Labels of documents that exist, with how many there are.
        tool: The selected tool, for its parameters.
        parameters: Schema of those, as the request has it.
        known: Values for arguments, listed by the host or shown by the agent, and calls that succeeded.
        made: Calls that the run has made, each once, the last one last: tool and arguments.
        focus: Names of the few tools that the example is about; empty for all.
        families: Families of near misses that the example has had; others are drawn first.
        reply: Schema of the reply to a phase of the host's own.
        chooses: Whether that phase chooses the run's mode and limits.
        strict_paths: Whether the policy has folders of its own, so that no path is known to be safe.
    """

    tools: tuple[ToolSpec, ...] = ()
    denied: frozenset[str] = frozenset()
    criteria: tuple[str, ...] = ()
    labels: tuple[tuple[str, int], ...] = ()
    tool: ToolSpec | None = None
    parameters: Mapping[str, Any] = {}
    strict_paths: bool = False
    known: Learned = NOTHING_KNOWN
    made: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    focus: frozenset[str] = frozenset()
    families: frozenset[str] = frozenset()
    reply: Mapping[str, Any] = {}
    chooses: bool = False

    @property
    def usable(self) -> tuple[ToolSpec, ...]:
        """The tools that a selection may name."""
        usable = tuple(
            tool
            for tool in self.tools
            if tool.name not in self.denied
            and CONNECTION not in tool.parameters.get("required", ())
            and (self.labels or DOCUMENT_LIST not in tool.parameters.get("required", ()))
        )
        return tuple(tool for tool in usable if tool.name in self.focus) or usable


ANY = Setting()
"""A run that is about nothing in particular."""
