"""Whatever a planner says: real engines, lost at any row, end every run of batch and planner mode within its bounds."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from paor import Engine, Journal, Limits, Policy, Tool, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, World, search


def tools() -> list[Tool]:
    """Return small tools: one reads, one may not be repeated, one returns nothing, one fails, one is denied."""

    @tool("notes.read", effect="read", label="page")
    def read(page: int) -> dict[str, Any]:
        """Read."""
        return {"a": [page, page + 1]}

    @tool("notes.send")
    def send(text: str) -> str:
        """Send."""
        return text

    @tool("notes.empty", effect="idempotent")
    def empty() -> None:
        """Return nothing."""

    @tool("notes.fail", effect="read", retries=1)
    def fail() -> str:
        """Fail."""
        raise ToolError("torn")

    @tool("notes.deny", effect="read")
    def deny() -> str:
        """Never be called."""
        raise AssertionError("denied")

    return [read, send, empty, fail, deny]


class Plans(EngineMachine):
    """Batch and planner mode, and workflows of tasks; the kit checks every run."""

    modes: ClassVar = ("planner", "batch", "planner", "batch", "workflow")

    def engine(self, journal: Journal) -> Engine:
        """Return the engine of a new process."""
        policy = Policy(deny=("notes.deny",))
        return Engine("offline", tools(), journal, Limits(max_steps=12), policy, builtins=False)

    def check(self, world: World) -> None:
        """No run has more plans than it may, and none observes more than it has started."""
        for seen in world.seen.values():
            if seen.rows:
                assert seen.row.counters.get("plans", 0) <= seen.spec.limits.max_plans
                assert sum(row.trigger == "observe" for row in seen.rows) <= seen.row.step


@pytest.mark.whole
def test_C3_23_A137_A148_any_plans_end_within_their_bounds_and_replay() -> None:
    """A reason and a message at every end; it verifies, replays, and keeps each bound."""
    found = search(Plans, examples=60, number=4)
    assert found.violation is None, str(found.violation)
    taken = {row.trigger for row in found.coverage.rows if row.count}
    assert {"next_step", "wait", "provide", "refuse", "select", "answer", "finish"} <= taken
