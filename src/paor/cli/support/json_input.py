"""What comes in as JSON or text: standard input, files, ``--input`` and its fields."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from ...fsm.lifecycle.arguments import text_of_file
from ...states.base.errors import UsageError

_SAME = {
    "document": "documents",
    "criterion": "success_criteria",
    "criteria": "success_criteria",
    "time_budget": "time_budget_s",
}
_TEXTS = (
    "objective",
    "model",
    "mode",
    "workflow_mode",
    "task_type",
    "language",
    "user_language",
    "context",
    "prompt_template",
    "prompt_template_file",
    "output",
    "durability",
    "app",
    "final_format",
    "fallback",
    "profile",
    "stage",
)
_LISTS = ("documents", "success_criteria", "tools")
_MAPPINGS = ("limits", "connections", "variables")
_EITHER = ("workflow",)
_FLAGS = ("react_mode", "web")
BOUNDS = ("max_steps", "token_budget", "time_budget_s")
TEXT_BYTES_MAX = 100_000_000
"""Most that is read of a file of input or of a template; a device has no end."""

FIELDS = (*_TEXTS, *_LISTS, *_MAPPINGS, *_EITHER, *_FLAGS, *BOUNDS)


def standard_input() -> str:
    """
    Return all of standard input as text.

    Raises:
        UsageError: It is not UTF-8.
    """
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8 text") from None


# -- --input -----------------------------------------------------------------------------------------------------


def input_fields(source: str) -> dict[str, Any]:
    """
    Return the fields of ``--input`` under the names of `FIELDS`.

    Raises:
        UsageError: No JSON object, an unknown field, or a value of the wrong kind.
    """
    where, text = _source(source)
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: is not JSON ({_json_reason(error)})") from None
    if not isinstance(data, dict):
        raise UsageError(f"{where}: expected a JSON object with fields such as objective and documents")
    values: dict[str, Any] = {}
    for key, value in data.items():
        name = _SAME.get(snake(key), snake(key))
        if name not in FIELDS:
            raise UsageError(f"{where}: unknown field {key!r}; there are: {', '.join(sorted(FIELDS))}")
        if name in values:
            raise UsageError(f"{where}: {key!r} gives {name} a second time")
        if value is not None:
            values[name] = _checked(where, key, name, value)
    return values


def _source(source: str) -> tuple[str, str]:
    """Return where a JSON text came from, for messages, and the text."""
    if source == "-":
        return "standard input", standard_input()
    if source.lstrip().startswith(("{", "[", '"')):
        return "--input", source
    return source, text_file(source)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _json_reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def text_file(name: str) -> str:
    """
    Return the text of a file.

    Raises:
        UsageError: It is missing, unreadable, too large, or not UTF-8.
    """
    return text_of_file(Path(name), TEXT_BYTES_MAX)


def json_value(text: str, where: str) -> Any:
    """
    Return a JSON value.

    Raises:
        UsageError: *text* is something else.
    """
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: is not JSON ({_json_reason(error)})") from None


def snake(name: str) -> str:
    """Return ``maxSteps``, ``max-steps`` and ``max_steps`` as ``max_steps``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def _checked(where: str, key: str, name: str, value: Any) -> Any:
    """Return a field's value; what has to be a text, list or number is one."""
    if name in _TEXTS and not isinstance(value, str):
        raise UsageError(f"{where}: {key} must be a text")
    if name in _MAPPINGS and not isinstance(value, dict):
        raise UsageError(f"{where}: {key} must be an object")
    if name in _EITHER and not isinstance(value, str | dict):
        raise UsageError(f"{where}: {key} must be a text or an object")
    if name in _FLAGS and not isinstance(value, bool):
        raise UsageError(f"{where}: {key} must be true or false")
    if name in BOUNDS and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise UsageError(f"{where}: {key} must be a number")
    if name in _LISTS:
        if isinstance(value, str):
            return value.split(",") if name == "tools" else [value]
        kinds = (str, dict) if name == "documents" else (str,)
        if not (isinstance(value, list) and all(isinstance(item, kinds) for item in value)):
            raise UsageError(f"{where}: {key} must be a list of texts")
    return value
