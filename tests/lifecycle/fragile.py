"""A model and tools whose process may be lost at any point, for stateful tests that drive more than one run at a time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from paor import ModelCall, Reply, Tool, ToolContext, Usage, tool

from ..support.worlds import ANSWER, PARAMETERS, REFINE, REVIEW, SELECT

CRASHES = st.one_of(
    st.just(("", 0)),
    st.tuples(st.just("event"), st.integers(0, 14)),
    st.tuples(st.sampled_from(["before the effect", "after the effect"]), st.integers(0, 2)),
    st.tuples(st.just("after the effect"), st.integers(0, 1)),
    st.tuples(st.just("model"), st.integers(0, 5)),
)
"""Where the next drive is lost, and after how many occasions; or nowhere."""


class Lost(BaseException):
    """The process is gone: nothing in it goes on."""


class Crash:
    """Where and when the process is lost; counts down the occasions of one kind."""

    def __init__(self) -> None:
        self.where, self.left = "", 0

    def at(self, where: str) -> None:
        """Raise `Lost` if this is the place and the time."""
        if where == self.where:
            self.left -= 1
            if self.left < 0:
                self.where = ""
                raise Lost(where)


class FragileModel:
    """
    A model that says what was drawn, by the number of the request within its run.

    Its process may be lost after it has answered, before its row is written.
    """

    name = "fragile"

    def __init__(self, actions: Sequence[str], decisions: Sequence[str], crash: Crash) -> None:
        self.actions, self.decisions, self.crash = actions, decisions, crash

    def ask(self, call: ModelCall) -> Reply:
        """Answer, then perhaps vanish."""
        number = call.number
        action = self.actions[number // 3 % len(self.actions)]
        sends = "notes.send" in call.messages[-1].text
        reply: Any = {
            "selection": {
                "send": SELECT("notes.send", {"text": "string"}),
                "read": SELECT(),
                "answer": ANSWER(),
            }.get(action, "?"),
            "parameters": PARAMETERS(text=f"note {number}") if sends else PARAMETERS(page=number % 5),
            "refinement": REFINE(self.decisions[number // 3 % len(self.decisions)]),
            "review": REVIEW("retry" if number % 4 == 0 else "success"),
        }[call.kind]
        self.crash.at("model")
        return Reply(reply if isinstance(reply, str) else json.dumps(reply), Usage(1, 5, 5))

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same."""
        return self.ask(call)


def fragile_tools(crash: Crash, performed: Counter[str]) -> list[Tool]:
    """Return a tool that reads and one whose effect is counted by its idempotency key."""

    @tool("notes.read", effect="read", label="page")
    def read(page: int) -> str:
        """Read."""
        crash.at("before the effect")
        crash.at("after the effect")
        return f"page {page}"

    @tool("notes.send", label="receipt")
    def send(context: ToolContext, text: str) -> str:
        """Send."""
        crash.at("before the effect")
        performed[context.idempotency_key] += 1
        crash.at("after the effect")
        return f"sent {text}"

    return [read, send]
