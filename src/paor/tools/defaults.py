"""Defaults that code fills, not the prompt (document 000, "Defaults (Code-Level, not Prompt)")."""

from __future__ import annotations

from typing import Any

from ..states.records.actions import SET_BY_CODE
from ..states.run.spec import Spec, ToolSpec
from .schema.parameters import ParameterSchema
from .search_defaults import depth, time_window

LANGUAGE = "language"
FORMATS = "expectedDocumentFormats"
DEPTHS = ("searchDepth", "extractDepth")
TIME_RANGE = "timeRange"
FILLED = frozenset({LANGUAGE, FORMATS, TIME_RANGE, *DEPTHS})
"""Names of parameters that the run fills where a tool takes them."""


def fill_defaults(
    spec: Spec, tool: ToolSpec, schema: ParameterSchema, arguments: dict[str, Any]
) -> dict[str, Any]:
    """
    Return *arguments* with the run's defaults and the schema's own; what is set stays as it is.

    The language comes from the run (workflow over user), the depth is advanced for analyses and basic
    for look-ups (A034), a time window is set only where the words imply one (A035), ai.process writes Markdown unless
    other formats were asked for (A036, A076). A required parameter is never filled, nor any with a value that the tool
    would refuse.
    """
    if schema.optional.isdisjoint(FILLED):
        return schema.fill(arguments)
    values = {name: _default(name, spec, tool) for name in sorted(schema.optional & FILLED)}
    return schema.fill(arguments, {name: value for name, value in values.items() if value is not None})


def settled_by_code(spec: Spec, tool: ToolSpec, schema: ParameterSchema) -> bool:
    """Return whether no parameter of *tool* is left for a model to set: code sets all of them, or there is none."""
    left = {name for name in schema.names if name.lower() not in SET_BY_CODE}
    filled = {name for name in left & FILLED & schema.optional if _default(name, spec, tool) is not None}
    return not left - filled and schema.is_whole


def _default(name: str, spec: Spec, tool: ToolSpec) -> Any:
    """Return what the run has for a parameter of this name, or None."""
    if name == LANGUAGE:
        return spec.language
    if name == FORMATS:
        return ["md"] if tool.name == "ai.process" else None
    if name == TIME_RANGE:
        return time_window(spec.objective, spec.success_criteria)
    return depth(spec.objective, spec.success_criteria, spec.task_type)
