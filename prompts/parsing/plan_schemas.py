"""JSON Schemas of the replies to ``plan`` and ``task_plan`` requests, for models that can be held to one."""

from __future__ import annotations

from typing import Any

from .plan_data import TYPES

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}

_QUESTION = {
    "type": "object",
    "properties": {"message": _TEXT, "requestedSchema": {"type": "object"}},
    "required": ["message"],
}

PLAN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "intention": _TEXT,
        "steps": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"enum": list(TYPES)},
                    "name": _TEXT,
                    "args": {"type": "object"},
                    "reason": _TEXT,
                    "retries": {"type": "integer", "minimum": 0},
                    "elicitation": _QUESTION,
                },
                "required": ["type"],
            },
        },
        "elicitation": {"anyOf": [_QUESTION, {"type": "null"}]},
        "answer": _TEXT,
    },
    "required": ["steps"],
}
"""Of `plans.read_plan`: steps, none of them with an answer, or a question."""

TASK_PLAN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "overview": _TEXT,
        "languageUserDetected": _TEXT,
        "userMessage": _TEXT,
        "tasks": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "id": _TEXT,
                    "objective": _TEXT,
                    "dependencies": _TEXTS,
                    "success_criteria": _TEXTS,
                    "estimated_complexity": {"enum": ["low", "medium", "high"]},
                    "userMessage": _TEXT,
                },
                "required": ["id", "objective", "dependencies", "success_criteria"],
            },
        },
    },
    "required": ["overview", "tasks"],
}
"""Of `task_plans.read_task_plan`."""
