"""A support desk that talks: an engine whose model says how often it was asked, so that each answer is known before."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from paor import Engine, Journal, ModelCall, Reply, Usage, replay, tool


@tool("orders.find", effect="read")
def find(order_id: str) -> str:
    """Find an order."""
    return f"Order {order_id} is in Leeds."


class Clerk:
    """
    A model that repeats the user's words in its answer; asked to find an order, it does so first where it calls tools.

    Args:
        calls_tools: Whether it is asked for turns.

    Attributes:
        calls: Every request.
    """

    streams = stops = False

    def __init__(self, *, calls_tools: bool = True) -> None:
        self.name, self.calls_tools = "clerk", calls_tools
        self.calls: list[ModelCall] = []

    def ask(self, call: ModelCall) -> Reply:
        """Answer."""
        self.calls.append(call)
        return Reply(self._said(call), Usage(1, 10, 5))

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same."""
        return self.ask(call)

    def _said(self, call: ModelCall) -> str:
        last = call.messages[-1]
        if call.kind == "turn" and last.role == "tool":
            return f"Found: {last.text}"
        asked = next(
            message.text
            for message in reversed(call.messages)
            if "Say" in message.text or "find" in message.text
        )
        asked = asked.removeprefix("## Objective\n").splitlines()[0]
        wanted = re.search(r"find (O-\w+)", asked)
        if call.kind == "turn" and wanted:
            made = {"id": f"c{call.number}", "name": "orders_find", "arguments": {"order_id": wanted[1]}}
            return json.dumps({"text": "", "calls": [made]})
        answer = f"You said: {asked}"
        if call.kind == "turn":
            return answer
        forms = {"plan": {"steps": [], "answer": answer}, "selection": {"action": None, "answer": answer}}
        return json.dumps(forms.get(call.kind, {"status": "success", "improvements": [], "answer": answer}))

    def told(self) -> str:
        """Return all that the newest request says."""
        return "\n".join(message.body for message in self.calls[-1].messages)


def desk(path: Path | str, model: Any = None, **options: Any) -> Engine:
    """Return an engine over a journal."""
    journal = Journal(path, "off")
    return Engine(model or Clerk(), [find], journal, builtins=False, **options)


def holds(journal: Journal) -> None:
    """See to it that the journal verifies, and that each run replays as far as it was not erased."""
    assert journal.verify() == []
    for row in journal.runs():
        found = replay(journal, row.run_id)
        assert found.divergences == (), (row.run_id, found.divergences[:2])
        held = [row.run_id, *([row.parent_run_id] if row.parent_run_id is not None else [])]
        assert found.identical or any(journal.erasures(run_id) for run_id in held), row.run_id
