"""Input of a world when nobody draws: a script in its turn, and what brings a run to its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...prompts.model import ModelCall
from ..strategies.injected_faults import CALL
from ..strategies.near_misses import families, near_miss
from ..strategies.reply_builder import Said, faulty


def closing(call: ModelCall, how: str, echoes: Mapping[str, Said]) -> Said:
    """
    Return what is said to bring a run to its end.

    Args:
        call: What is asked.
        how: ``polite``: it stops at once; ``silence``: nothing is said; ``echo``: the last good reply of the kind is said
            again and again, as far as there was one; ``retry``: so are selections and parameters, and every review asks
            for more; a number: near misses, another family with every request, beginning with that one.
        echoes: Those.
    """
    if how == "silence" and call.kind != "text":
        return Said(call.kind, "", "empty", False)
    again = how == "echo" or (
        how == "retry" and call.kind in ("selection", "parameters", "plan", "turn", "phase")
    )
    if again and call.kind in echoes:
        return echoes[call.kind]._replace(good=None)
    status = "retry" if how == "retry" else "success"
    polite: dict[str, tuple[Any, dict[str, Any]]] = {
        "selection": ({"action": None, "answer": "It is known."}, {"answer": "It is known."}),
        "parameters": ({"schema": "parameters_v1", "parameters": {}}, {}),
        "refinement": ({"decision": "stop", "reason": "enough"}, {"decision": "stop", "answer": ""}),
        "review": ({"status": status, "improvements": []}, {"status": status}),
        "plan": ({"steps": [], "answer": "It is known."}, {}),
        "answer": ({"answer": "It is known."}, {"answer": "It is known."}),
        "task_plan": ({"overview": "one", "tasks": [{"id": "a", "objective": "Read"}]}, {}),
        "turn": ("It is known.", {}),
        "phase": (_fitting(call.schema or {}), {}),
        "text": ("A text.", {}),
    }
    reply, means = polite[call.kind]
    text = reply if isinstance(reply, str) else json.dumps(reply)
    unsure = call.kind in ("parameters", "phase")
    chosen = Said(call.kind, text, "closing", None if unsure else True, means)
    if not how.isdecimal():
        return chosen
    names = sorted(families(call.kind))
    return near_miss(chosen, names[(int(how) + call.number) % len(names)])


def _fitting(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plain object with what *schema* needs, as far as types and choices tell."""
    parts = schema.get("properties", {})
    return {name: _plain_value(parts.get(name, {})) for name in schema.get("required", ())}


def _plain_value(schema: Mapping[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("type") == "object":
        return _fitting(schema)
    return {"array": [], "integer": 1, "number": 1, "boolean": True}.get(schema.get("type", ""), "a text")


def in_turn(replies: Sequence[Said]) -> Callable[[ModelCall], Said]:
    left = list(replies)

    def tell(call: ModelCall) -> Said:
        for place, item in enumerate(left):
            if item.kind == call.kind:
                return left.pop(place)
        return faulty(call.kind, "script_exhausted")

    return tell


def given_in_turn(given: Sequence[Mapping[str, Any]]) -> Callable[..., Any]:
    """Return what gives the values of a script in their turn, and then those of the engine's own port."""
    left = list(given)
    return lambda port, run_id, phase: left.pop(0) if left else port(run_id, phase)


def happening_in_turn(happened: Sequence[Mapping[str, Any]]) -> Callable[..., Mapping[str, Any]]:
    left = list(happened)
    return lambda tool, arguments: left.pop(0) if left else CALL
