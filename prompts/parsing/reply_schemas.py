"""JSON Schemas of the replies, for models that can be held to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...states.records.actions import FORBIDDEN_FIELDS
from ...states.records.requests import RequestKind
from .plan_schemas import PLAN, TASK_PLAN, TEXT, TEXTS, fields

_OPTIONAL_TEXT = {"type": ["string", "null"]}
_CRITERIA = {
    "type": "array",
    "items": fields("criterion met", criterion=TEXT, met={"type": "boolean"}, evidence=TEXT),
}
_FIELD = fields(
    "name type required description",
    name=TEXT,
    type={"enum": ["string", "number", "boolean", "enum", "object"]},
    required={"type": "boolean"},
    description=TEXT,
)
SELECTION = fields(
    "action",
    action=_OPTIONAL_TEXT,
    actionObjective=TEXT,
    learnings=TEXTS,
    requiredInputDocuments=TEXTS,
    requiredConnection=_OPTIONAL_TEXT,
    parametersContext=TEXT,
    parametersSchema=fields("fields", fields={"type": "array", "items": _FIELD}),
    answer=TEXT,
)
SINGLE_SELECTION = fields(
    "action",
    action=fields("method name", method=TEXT, name=TEXT) | {"type": ["object", "null"]},
    requiredInputDocuments=TEXTS,
    requiredConnection=_OPTIONAL_TEXT,
    answer=TEXT,
)
"""Stage 1 of the profile's stage ``single``: document 002's bare choice."""
REFINEMENT = fields(
    "decision reason",
    decision={"enum": ["continue", "stop"]},
    reason=TEXT,
    hint=TEXT,
    answer=TEXT,
    criteria=_CRITERIA,
    score={"type": "number"},
)
REVIEW = fields(
    "status improvements",
    status={"enum": ["success", "retry", "failed"]},
    improvements=TEXTS,
    answer=TEXT,
    criteria=_CRITERIA,
)
_FIXED: dict[RequestKind, dict[str, Any]] = {
    "selection": SELECTION,
    "refinement": REFINEMENT,
    "review": REVIEW,
    "plan": PLAN,
    "task_plan": TASK_PLAN,
}


def reply_schema(kind: RequestKind) -> dict[str, Any] | None:
    """Return the schema of the reply to a *kind* request, None for free text."""
    return _FIXED.get(kind)


def parameters_schema(tool_parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of Stage 2's reply for a tool, without the names that Stage 2 may not set."""
    schema: dict[str, Any] = {"type": "object", **tool_parameters}
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        allowed = [name for name in properties if name.lower() not in FORBIDDEN_FIELDS]
        schema["properties"] = {name: properties[name] for name in allowed}
        schema["required"] = [
            name for name in schema.get("required", ()) if name.lower() not in FORBIDDEN_FIELDS
        ]
    return fields("schema parameters", schema={"const": "parameters_v1"}, parameters=schema)
