"""Batch and planner mode lose nothing: a driver that is lost after any row is replaced, and the end is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Event, Result, replay, tool
from paor.errors import ToolError
from paor.events import TransitionTaken
from paor.testing import SeededIds, SteppingClock

from ..support.journey import Journey, Lost, answered
from ..support.plan_journeys import PLANNED
from ..support.planning import END, NOTHING, PLAN, STEP, World, counted
from ..support.worlds import SUCCESS

WHOLE = [journey for journey in PLANNED if journey.name != "batch_in_doubt"]


def losing_at(seq: int) -> Any:
    """Return a hook with which the process ends once row *seq* is durable."""

    def lose(event: Event) -> None:
        if isinstance(event, TransitionTaken) and event.seq == seq:
            raise Lost

    return lose


def finished(journey: Journey, host: Engine, result: Result) -> Result:
    """Answer whatever the run waits for; an effect in doubt is tried again."""
    while result.status == "waiting":
        assert result.waiting_for is not None
        if result.waiting_for.kind == "in_doubt":
            result = answered(host, result.run_id, outcome="retry")
            continue
        rows = host.journal.transitions(result.run_id)
        given = sum(row.trigger == "provide" and row.source != "Executing" for row in rows)
        result = answered(host, result.run_id, **journey.answers[given])
    return result


def facts(host: Engine, result: Result) -> dict[str, Any]:
    """Return what a lost driver must not change; in-doubt effects wait in between."""
    rows = host.journal.transitions(result.run_id)
    triggers = [
        row.trigger for row in rows if not (row.source == "Executing" and row.trigger in ("wait", "provide"))
    ]
    bodies = [(document.label, document.read()) for document in result.documents]
    usage = (result.usage.calls, result.usage.tokens_in, result.usage.tokens_out)
    counters = {name: value for name, value in rows[-1].counters.items() if name != "elicitations"}
    return {
        "end": (result.state, result.reason, result.answer, result.steps),
        "triggers": triggers,
        "documents": bodies,
        "usage": usage,
        "counters": counters,
    }


@pytest.mark.whole
@pytest.mark.parametrize("journey", WHOLE, ids=lambda journey: journey.name)
def test_A148_C3_24_a_driver_that_is_lost_after_any_row_changes_nothing(
    journey: Journey, tmp_path: Path
) -> None:
    """Rows, answer, documents and usage are those of the run that nobody lost; it verifies and replays."""
    options = {"objective": "Go on", **journey.run}
    (tmp_path / "whole").mkdir()
    with journey.engine(tmp_path / "whole") as host:
        whole = facts(host, finished(journey, host, host.run(**options)))
        rows = len(host.journal.transitions(host.journal.runs()[0].run_id))
    assert whole["end"][:2] == (journey.state, journey.reason)
    for seq in range(rows):
        (tmp_path / str(seq)).mkdir()
        with journey.engine(tmp_path / str(seq), hooks=[losing_at(seq)]) as host:
            try:
                result = host.run(**options)
                finished(journey, host, result)
            except Lost:
                pass
        later = {"clock": SteppingClock(1_767_225_660_000_000), "ids": SeededIds("later")}
        with journey.engine(tmp_path / str(seq), **later) as host:
            run_id = host.journal.runs()[0].run_id
            found = facts(host, finished(journey, host, host.resume(run_id)))
            assert found == whole, seq
            assert host.journal.verify() == [] and replay(host.journal, run_id, host).identical


@pytest.mark.parametrize("mode", ["batch", "planner"])
def test_A148_after_a_crash_only_the_steps_that_remain_are_executed(mode: str, tmp_path: Path) -> None:
    """Lost between step 1 and step 2 of 3: the planner is not asked for them again, and 2 and 3 run once."""
    script = [
        PLAN(STEP(page=1), STEP(page=2), STEP(page=3)),
        *([END()] if mode == "planner" else [SUCCESS]),
    ]
    calls: list[int] = []
    with World(tmp_path, script, [counted(calls)], hooks=[losing_at(4)]) as world:
        with pytest.raises(Lost):
            world.run(mode=mode)
        assert world.triggers[-1] == "next_step" and calls == [1]
    with World(tmp_path, script, [counted(calls)], ids=SeededIds("later")) as world:
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
