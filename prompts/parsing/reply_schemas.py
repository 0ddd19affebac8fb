"""JSON Schemas of the replies, for models that can be held to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...states.records.actions import FORBIDDEN_FIELDS
from ...states.records.requests import RequestKind
from .plan_schemas import PLAN, TASK_PLAN

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_CRITERIA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"criterion": _TEXT, "met": {"type": "boolean"}, "evidence": _TEXT},
        "required": ["criterion", "met"],
    },
}
_FIELD = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "type": {"enum": ["string", "number", "boolean", "enum", "object"]},
        "required": {"type": "boolean"},
        "description": _TEXT,
    },
    "required": ["name", "type", "required", "description"],
}
SELECTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "action": {"type": ["string", "null"]},
        "actionObjective": _TEXT,
        "learnings": _TEXTS,
        "requiredInputDocuments": _TEXTS,
        "requiredConnection": {"type": ["string", "null"]},
        "parametersContext": _TEXT,
        "parametersSchema": {
            "type": "object",
            "properties": {"fields": {"type": "array", "items": _FIELD}},
            "required": ["fields"],
        },
        "answer": _TEXT,
    },
    "required": ["action"],
}
SINGLE_SELECTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "action": {
            "type": ["object", "null"],
            "properties": {"method": _TEXT, "name": _TEXT},
            "required": ["method", "name"],
        },
        "requiredInputDocuments": _TEXTS,
        "requiredConnection": {"type": ["string", "null"]},
        "answer": _TEXT,
    },
    "required": ["action"],
}
"""Stage 1 of the profile's stage ``single``: document 002's bare choice."""
REFINEMENT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {"enum": ["continue", "stop"]},
        "reason": _TEXT,
        "hint": _TEXT,
        "answer": _TEXT,
        "criteria": _CRITERIA,
        "score": {"type": "number"},
    },
    "required": ["decision", "reason"],
}
REVIEW: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"enum": ["success", "retry", "failed"]},
        "improvements": _TEXTS,
        "answer": _TEXT,
        "criteria": _CRITERIA,
    },
    "required": ["status", "improvements"],
}
_FIXED = {
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
        schema["properties"] = {
            name: value for name, value in properties.items() if name.lower() not in FORBIDDEN_FIELDS
        }
        schema["required"] = [
            name for name in schema.get("required", ()) if name.lower() not in FORBIDDEN_FIELDS
        ]
    return {
        "type": "object",
        "properties": {"schema": {"const": "parameters_v1"}, "parameters": schema},
        "required": ["schema", "parameters"],
    }
