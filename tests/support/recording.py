"""A scripted model that keeps what it was asked, and ways to look into prompts and journals from outside."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from paor import Engine, Journal, ModelCall, Reply, Result, ScriptedModel, Tool
from paor.testing import SeededIds, SteppingClock

from .worlds import JOURNAL, TOOLS

Script = Sequence[Any]


class Recorder(ScriptedModel):
    """
    A `ScriptedModel` whose replies may also be functions of the call.

    Attributes:
        calls: Every request, in order.
    """

    def __init__(self, replies: Script, **options: Any) -> None:
        self._functions = {index: reply for index, reply in enumerate(replies) if callable(reply)}
        super().__init__(["" if callable(reply) else reply for reply in replies], **options)
        self.calls: list[ModelCall] = []

    def ask(self, call: ModelCall) -> Reply:
        """Keep *call*, then answer."""
        self.calls.append(call)
        reply = super().ask(call)
        function: Callable[[ModelCall], Any] | None = self._functions.get(call.number)
        return reply if function is None else Reply(json.dumps(function(call)))

    @property
    def kinds(self) -> list[str]:
        """What was asked, in order."""
        return [call.kind for call in self.calls]

    def of(self, kind: str) -> list[ModelCall]:
        """Return the requests of one kind."""
        return [call for call in self.calls if call.kind == kind]


def paired(call: ModelCall) -> None:
    """Hold a request to what every provider wants: each call of a turn has its one result before the next turn."""
    wanted: list[str] = []
    for item in call.messages:
        if item.role == "tool":
            assert wanted.pop(0) == item.call_id
            continue
        assert not wanted
        wanted = [made.id for made in item.calls]
    assert not wanted


def text_of(call: ModelCall) -> str:
    """Return everything that the model was told."""
    return "\n".join(message.text for message in call.messages)


def user_text(call: ModelCall) -> str:
    """Return the user's message."""
    return next(message.text for message in call.messages if message.role == "user")


def sections(call: ModelCall) -> dict[str, str]:
    """Return the sections of the user's message by heading, in order, then of the last one: what is asked behind a conversation."""
    said = [message.text for message in call.messages if message.role == "user"]
    parts = re.split(r"(?m)^## (.*)$", "\n\n".join(dict.fromkeys((said[0], said[-1]))))
    return {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def observations(world: World) -> list[dict[str, Any]]:
    """Return the observation of every action of the newest run, in order, as its row holds it."""
    rows = [row for row in world.rows if row.trigger == "observe"]
    changes = [world.journal.reader.payload(row.run, row.change["n"]).body for row in rows]
    return [json.loads(change or "")["observation"] for change in changes]


def observation(world: World, number: int = 0) -> dict[str, Any]:
    """Return one of them, counted from 0."""
    return observations(world)[number]


class World:
    """
    An engine with a recorded script, fixed clock and ids, and a journal in a folder.

    Args:
        folder: For the journal; made if there is none.
        replies: The script; functions of the call are allowed.
        tools: The host's tools.
        **options: Of `Engine`.
    """

    def __init__(self, folder: Path, replies: Script, tools: Sequence[Tool] = TOOLS, **options: Any) -> None:
        self.model = Recorder(replies)
        folder.mkdir(exist_ok=True)
        self.path = folder / JOURNAL
        options.setdefault("builtins", False)
        options.setdefault("clock", SteppingClock())
        options.setdefault("ids", SeededIds())
        options.setdefault("journal", Journal(self.path, "off"))
        self.engine = Engine(model=self.model, tools=list(tools), **options)
        self.journal = self.engine.journal
        self.result: Result | None = None

    def run(self, objective: str = "Read the notes", *args: Any, **options: Any) -> Result:
        """Run an objective; the result is kept."""
        self.result = self.engine.run(objective, *args, **options)
        return self.result

    @property
    def run_id(self) -> str:
        """Id of the newest run."""
        return self.journal.runs()[0].run_id

    @property
    def rows(self) -> list[Any]:
        """Rows of the newest run."""
        return self.journal.transitions(self.run_id)

    @property
    def triggers(self) -> list[str]:
        """Triggers of the newest run."""
        return [row.trigger for row in self.rows]

    def count(self, trigger: str) -> int:
        """Return how often *trigger* was taken."""
        return self.triggers.count(trigger)

    def last_counters(self) -> dict[str, Any]:
        """Return the counters of the last row that have no column of their own."""
        return dict(self.rows[-1].counters)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.engine.close()
