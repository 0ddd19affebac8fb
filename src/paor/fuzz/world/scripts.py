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
    again = how == "echo" or (how == "retry" and call.kind in ("selection", "parameters", "plan", "turn"))
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
        "text": ("A text.", {}),
    }
    reply, means = polite[call.kind]
    text = reply if isinstance(reply, str) else json.dumps(reply)
    chosen = Said(call.kind, text, "closing", None if call.kind == "parameters" else True, means)
    if not how.isdecimal():
        return chosen
    names = sorted(families(call.kind))
    return near_miss(chosen, names[(int(how) + call.number) % len(names)])


def in_turn(replies: Sequence[Said]) -> Callable[[ModelCall], Said]:
    left = list(replies)

    def tell(call: ModelCall) -> Said:
        for place, item in enumerate(left):
            if item.kind == call.kind:
                return left.pop(place)
        return faulty(call.kind, "script_exhausted")

    return tell


def happening_in_turn(happened: Sequence[Mapping[str, Any]]) -> Callable[..., Mapping[str, Any]]:
    left = list(happened)
    return lambda tool, arguments: left.pop(0) if left else CALL
