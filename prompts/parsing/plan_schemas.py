"""JSON Schemas of the replies to ``plan`` and ``task_plan`` requests, for models that can be held to one."""

from __future__ import annotations

from typing import Any

from .plan_data import TYPES

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}


def fields(required: str, /, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these *properties*; *required* are the names of those that must be there."""
    return {"type": "object", "properties": properties, "required": required.split()}


_QUESTION = fields("message", message=TEXT, requestedSchema={"type": "object"})
_STEP = fields(
    "type",
    type={"enum": list(TYPES)},
    name=TEXT,
    args={"type": "object"},
    reason=TEXT,
    retries={"type": "integer", "minimum": 0},
    elicitation=_QUESTION,
)
PLAN = fields(
    "steps",
    intention=TEXT,
    steps={"type": "array", "items": _STEP},
    elicitation={"anyOf": [_QUESTION, {"type": "null"}]},
    answer=TEXT,
)
"""Of `plans.read_plan`: steps, none of them with an answer, or a question."""

_TASK = fields(
    "id objective dependencies success_criteria",
    id=TEXT,
    objective=TEXT,
    dependencies=TEXTS,
    success_criteria=TEXTS,
    estimated_complexity={"enum": ["low", "medium", "high"]},
    userMessage=TEXT,
)
TASK_PLAN = fields(
    "overview tasks",
    overview=TEXT,
    languageUserDetected=TEXT,
    userMessage=TEXT,
    tasks={"type": "array", "minItems": 1, "items": _TASK},
)
"""Of `task_plans.read_task_plan`."""
