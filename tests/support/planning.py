"""Plans for tests: steps as a planner writes them, and what must hold for a journal whatever a plan did."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from paor import ModelCall, Tool, replay, tool

from .recording import World as Recorded
from .recording import sections
from .worlds import SUCCESS


class World(Recorded):
    """A world whose newest run's rows can still be read after it was closed."""

    kept: list[Any] | None = None

    @property
    def rows(self) -> list[Any]:
        """Rows of the newest run."""
        return super().rows if self.kept is None else self.kept

    def __exit__(self, *exc: object) -> None:
        if self.journal.runs():
            self.kept = super().rows
        super().__exit__(*exc)


def STEP(name: str = "notes.read", /, *, reason: str = "", retries: int = 0, **args: Any) -> dict[str, Any]:
    """Return a step that calls a tool."""
    return {"type": "tool", "name": name, "args": args, "reason": reason, "retries": retries}


def ASK(message: str = "Which page?", **schema: Any) -> dict[str, Any]:
    """Return a step that asks the user, for an object of *schema*'s properties, all required."""
    return {"type": "elicitation", "elicitation": {"message": message, "requestedSchema": OBJECT(**schema)}}


def OBJECT(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object that has all of these properties; a text is a type."""
    typed = {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in properties.items()}
    return {"type": "object", "properties": typed, "required": list(typed)} if typed else {}


def PLAN(*steps: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Return a plan of steps."""
    return {"intention": "read on", "steps": list(steps)} | keys


NOTHING: dict[str, Any] = {"steps": []}
"""A plan of nothing."""

NOOP = {"type": "noop", "reason": "nothing to do"}
ABORT = {"type": "abort", "reason": "the notes are gone"}


def END(text: str = "All is read.") -> dict[str, Any]:
    """Return a planner's last reply: no steps, and the answer."""
    return {"steps": [], "answer": text}


def ends(mode: str, *script: Any) -> list[Any]:
    """Return a script that ends as its mode does: a planner says that nothing is left to do."""
    return [*script, *([END()] if mode == "planner" else []), SUCCESS]


_RESULT = re.compile(r"(Result|Error) of (\S+?)(?: \((.*?)\))?(?:, called with (\{.*?\}))?:\n(.*)", re.DOTALL)


def results(call: ModelCall) -> list[dict[str, Any]]:
    """Return the results that a planner was shown: id, name, args, and what came or why nothing did."""
    shown = []
    for message in call.messages:
        if message.role == "user" and (found := _RESULT.fullmatch(message.text)):
            how, name, id, args, text = found.groups()
            said = {"name": name, "args": json.loads(args or "{}")}
            text, _, echo = text.partition("\n\nIts result was:\n")
            said |= {"result" if how == "Result" else "error": text} | ({"result": echo} if echo else {})
            shown.append(({"id": id} if id else {}) | said)
    return shown


def transcript(call: ModelCall) -> list[str]:
    """Return the conversation that a planner was shown, one line a turn: what was said before the run, then its own turns."""
    before = sections(call).get("Conversation", "").splitlines()
    said = [message for message in call.messages[2:] if not _RESULT.fullmatch(message.text)]
    return before + [f"{message.role}: {' '.join(message.text.split())}" for message in said]


def unusable(call: ModelCall) -> str:
    """Return what a conversation says of the reply that could not be used, empty where it says nothing."""
    return call.messages[-1].text.removeprefix("Your last reply could not be used: ")


def counted(calls: list[Any], *outcomes: Any, name: str = "notes.read", **options: Any) -> Tool:
    """Return a tool that notes its pages and comes to one outcome after the other; the last one stays."""
    left = list(outcomes) or ["text"]

    @tool(name, **{"effect": "read", "label": "page", **options})
    def read(page: int) -> Any:
        """Read one page."""
        calls.append(page)
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return f"page {page}" if outcome == "text" else outcome

    return read


def check(world: World) -> None:
    """Hold the newest run to what holds for every run: it verifies, and replays with and without the engine."""
    assert world.journal.verify() == []
    for host in (None, world.engine):
        compared = replay(world.journal, world.run_id, host)
        assert compared.identical, compared.divergences


def counters(world: World, name: str) -> Sequence[Any]:
    """Return one counter of the newest run, row by row."""
    return [getattr(row, name) if hasattr(row, name) else row.counters.get(name, 0) for row in world.rows]
