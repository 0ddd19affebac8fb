"""Defaults that code fills, not the prompt (document 000, "Defaults (Code-Level, not Prompt)")."""

from __future__ import annotations

from typing import Any

from ..states.spec import Spec, ToolSpec
from .schema import ParameterSchema

LANGUAGE = "language"
FORMATS = "expectedDocumentFormats"


def filled(spec: Spec, tool: ToolSpec, schema: ParameterSchema, arguments: dict[str, Any]) -> dict[str, Any]:
    """
    Return *arguments* with the run's defaults and the schema's own; what is set stays as it is.

    The language comes from the run (workflow over user, SPEC A033, A075); ai.process writes Markdown unless other
    formats were asked for (A036, A076). A required parameter is never filled.
    """
    result = dict(arguments)
    optional = [name for name in schema.names if name not in schema.required]
    if LANGUAGE in optional:
        result.setdefault(LANGUAGE, spec.language)
    if FORMATS in optional and tool.name == "ai.process":
        result.setdefault(FORMATS, ["md"])
    return schema.fill(result)
