"""
What the user is asked when a plan's step lacks required arguments: exactly those, each as the tool declares it.

A missing required argument is asked for even if its schema has a default.

Source: docs/spec-coverage.md, A150, C12.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..states.plans import Elicitation
from ..states.spec import ToolSpec

_SHARED = ("$defs", "definitions")


def missing_question(tool: ToolSpec, missing: Sequence[str]) -> Elicitation:
    """
    Return the question for arguments that a call lacks.

    Its schema asks for each of them as the tool's schema declares it; one that is not declared by itself is a text.
    """
    declared = tool.parameters.get("properties")
    known = declared if isinstance(declared, Mapping) else {}
    properties = {name: known.get(name, {"type": "string"}) for name in missing}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(missing)}
    if "$ref" in json.dumps(properties):
        schema |= {key: tool.parameters[key] for key in _SHARED if key in tool.parameters}
    words = ", ".join(missing)
    return Elicitation.model_validate(
        {"message": f"The tool {tool.name} needs {words}.", "requestedSchema": schema}
    )
