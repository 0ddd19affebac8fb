"""JSON Schemas of the replies, for models that can be held to one."""

from __future__ import annotations

from typing import Any

from ..states.actions import FORBIDDEN_FIELDS
from ..states.requests import RequestKind
from ..states.run import Run
from ..states.spec import Spec

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
_FIXED = {"selection": SELECTION, "refinement": REFINEMENT, "review": REVIEW}


def reply_schema(kind: RequestKind, run: Run, spec: Spec) -> dict[str, Any] | None:
    """Return the schema of the reply to a *kind* request, None for free text."""
    if kind != "parameters":
        return _FIXED.get(kind)
    selection = run.memory.selection
    tool = next((tool for tool in spec.tools if selection is not None and tool.name == selection.tool), None)
    if tool is None:
        return None
    schema = dict(tool.parameters)
    properties = schema.get("properties")
    if isinstance(properties, dict):
        schema["properties"] = {
            name: value for name, value in properties.items() if name.lower() not in FORBIDDEN_FIELDS
        }
        schema["required"] = [
            name for name in schema.get("required", ()) if name.lower() not in FORBIDDEN_FIELDS
        ]
    return {
        "type": "object",
        "properties": {"schema": {"const": "parameters_v1"}, "parameters": {"type": "object"} | schema},
        "required": ["schema", "parameters"],
    }
