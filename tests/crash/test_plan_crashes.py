"""Batch and planner mode lose nothing between the steps of a plan (`test_kills` kills them at every point)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paor import Event, tool
from paor.errors import ToolError
from paor.events import TransitionTaken
from paor.testing import SeededIds

from ..support.journey import Lost
from ..support.planning import END, NOTHING, PLAN, STEP, World, counted
from ..support.worlds import SUCCESS


def losing_at(seq: int) -> Any:
    """Return a hook with which the process ends once row *seq* is durable."""

    def lose(event: Event) -> None:
        if isinstance(event, TransitionTaken) and event.seq == seq:
            raise Lost

    return lose


@pytest.mark.parametrize("mode", ["batch", "planner"])
def test_A148_after_a_crash_only_the_steps_that_remain_are_executed(mode: str, tmp_path: Path) -> None:
    """Lost between step 1 and step 2 of 3: the planner is not asked for them again, and 2 and 3 run once."""
    script = [
        PLAN(STEP(page=1), STEP(page=2), STEP(page=3)),
        *([END()] if mode == "planner" else [SUCCESS]),
    ]
    calls: list[int] = []
    page = counted(calls, effect="idempotent")  # reads would have begun together
    with World(tmp_path, script, [page], hooks=[losing_at(4)]) as world:
        with pytest.raises(Lost):
            world.run(mode=mode)
        assert world.triggers[-1] == "next_step" and calls == [1]
    with World(tmp_path, script, [page], ids=SeededIds("later")) as world:
        assert world.engine.resume(world.run_id).state == "Done"
        assert calls == [1, 2, 3]
        assert world.model.kinds == (["plan"] if mode == "planner" else ["review"])


@pytest.mark.parametrize("lost", [False, True], ids=["in one go", "after a restart"])
def test_A141_outputs_belong_to_their_own_plan(tmp_path: Path, lost: bool) -> None:
    """A placeholder to a step that failed has no value, also where that step of the plan before gave one."""

    @tool("notes.index", effect="read", label="index")
    def index(page: int) -> dict[str, int]:
        """Return the next page; there are two."""
        if page > 2:
            raise ToolError("there is no such page")
        return {"next": page + 1}

    calls: list[int] = []
    plans = [PLAN(STEP("notes.index", page=page), STEP(page="$step[0].output.next")) for page in (1, 9)]
    hooks = (
        [losing_at(12)] if lost else []
    )  # the failed step of the second plan is observed, its second comes
    with World(tmp_path, [*plans, NOTHING, SUCCESS], [counted(calls), index], hooks=hooks) as world:
        if lost:
            with pytest.raises(Lost):
                world.run(mode="planner")
        else:
            result = world.run(mode="planner")
    if lost:
        with World(tmp_path, [*plans, NOTHING, SUCCESS], [counted(calls), index]) as world:
            result = world.engine.resume(world.engine.journal.runs()[0].run_id)
    assert (result.state, calls) == ("Done", [2])
