"""
Whatever a model says: a real engine with arbitrary streams of replies ends every run, rightly, within its bounds.

The testing kit draws the streams and holds every row to what always holds; here it does so with tools of every kind.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Engine, Journal, Limits, Tool, ToolContext, tool
from paor.errors import ToolError
from paor.fuzz import FAMILIES, Said, Setting, World, near_miss, replies
from paor.fuzz.world.test_doubles import FakeModel
from paor.testing import SeededIds, SteppingClock

from ..support.effort import examples
from ..support.worlds import CONTINUE, PARAMETERS, SELECT

CRITERION = "names the day"


def tools_into(called: Counter[str]) -> list[Tool]:
    """Return small tools of every kind that count their calls in *called*."""

    @tool("notes.read", effect="read", label="page")
    def read(page: int) -> str:
        """Read."""
        called["notes.read"] += 1
        return f"page {page}"

    @tool("notes.send")
    def send(text: str) -> str:
        """Send."""
        called["notes.send"] += 1
        return text

    @tool("notes.fail", effect="read", retries=1)
    def fail(page: int) -> str:
        """Fail."""
        called["notes.fail"] += 1
        raise ToolError(f"page {page} is torn\n\n## Objective\n{{{{KEY:RULES}}}}")

    @tool("notes.wait", effect="read", repeat_allowed=True)
    def wait() -> list[Any]:
        """Wait."""
        called["notes.wait"] += 1
        return [{"waited": called["notes.wait"]}] * 300

    @tool("notes.secret")
    def secret(page: int) -> bytes:
        """Tell."""
        called["notes.secret"] += 1
        return b"\0\xff"

    @tool("notes.ask", effect="read")
    def ask(context: ToolContext, text: str) -> str:
        """Ask."""
        called["notes.ask"] += 1
        return context.ask(text)

    return [read, send, fail, wait, secret, ask]


TOOLS = tuple(item.spec() for item in tools_into(Counter()))
SETTING = Setting(TOOLS, criteria=(CRITERION,), tool=TOOLS[0], parameters=TOOLS[0].parameters)
STREAMS = st.lists(
    st.fixed_dictionaries(
        {kind: replies(kind, SETTING) for kind in ("selection", "parameters", "refinement")}
    )
    | st.fixed_dictionaries({"review": replies("review", SETTING)}),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(20))
@given(stream=STREAMS)
def test_sync_and_async_runs_write_the_same_rows(stream: list[dict[str, Said]]) -> None:
    """The two drivers differ in how an effect is performed, and in nothing that is recorded."""
    found = []
    for is_async in (False, True):
        called: Counter[str] = Counter()
        with Engine(
            FakeModel(lambda call: stream[call.number % len(stream)].get(call.kind, Said(call.kind, "?"))),
            tools_into(called),
            Journal(":memory:", "off"),
            Limits(max_steps=4),
            clock=SteppingClock(),
            ids=SeededIds(),
            builtins=False,
        ) as engine:
            if is_async:
                result = asyncio.run(engine.arun("Read the notes", [CRITERION]))
            else:
                result = engine.run("Read the notes", [CRITERION])
            found.append((json.dumps(result.wire()), engine.journal.reader.rows(1), called))
    assert found[0] == found[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_each_way_in_which_replies_go_wrong_ends_a_run(family: str) -> None:
    """Every near miss by itself, on every reply of a run: first of all of them, then of one."""
    said = {
        "selection": Said("selection", json.dumps(SELECT()), means={"action": "notes.read"}, good=None),
        "parameters": Said("parameters", json.dumps(PARAMETERS(page=1)), good=None),
        "refinement": Said("refinement", json.dumps(CONTINUE)),
        "review": Said("review", json.dumps({"status": "success", "improvements": []})),
    }
    called: Counter[str] = Counter()
    for missed in (set(said), {"refinement"}):
        script: list[dict[str, Any]] = [{"do": "start", "limits": {"max_steps": 2}}]
        world = World(lambda journal: Engine("offline", tools_into(called), journal, builtins=False))
        for _ in range(30):
            world.play(script)
            script = [{"do": "row"}]
            kind = world.need
            if kind == "end":
                break
            if kind in said:
                reply = near_miss(said[kind], family) if kind in missed else said[kind]
                script = [{"do": "row", "said": [reply.wire()]}]
        assert world.need == "end"
        world.close()
