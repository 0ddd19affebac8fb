"""What a workflow must not confuse: hooks and results, blocked calls and failures, this round and the one before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paor import Limits

from ..support.flows import EMPTY, OK, PLAN, TORN, Calls, check_journal, fixture
from ..support.journey import answered
from ..support.recording import World, sections

HOOK = fixture("on_error.yaml")
CALM = HOOK.replace("  abort: true\n", "")
RETRY = {"status": "retry", "improvements": ["read more"]}


def step(name: str, **keys: Any) -> dict[str, Any]:
    """Return a step that calls a tool, or with ``type`` another one."""
    return {"type": "tool", "name": name, **keys}


def test_A164_what_is_blocked_or_declined_has_not_failed(tmp_path: Path) -> None:
    """The planner is told, but no hook is called and nothing is aborted."""
    plan = PLAN(1, 1)
    plan["steps"].append({"type": "elicitation", "elicitation": {"message": "Go on?"}})
    calls = Calls()
    limits = Limits(consecutive_limit=2)
    with World(tmp_path, [plan, EMPTY, OK], calls.tools, limits=limits) as own:
        waiting = own.run(workflow=HOOK)
        assert own.engine.resume(waiting.run_id, answer={"action": "decline"}).state == "Done"
        told = sections(own.model.of("plan")[1])["Results so far, oldest first"]
        assert "duplicate_call_blocked" in told and "declined" in told
        check_journal(own)
    assert calls.sent == []


def test_A155_the_error_of_a_blocked_call_is_the_marker_alone(tmp_path: Path) -> None:
    """As the document has it: name, args, the marker, and the last successful output."""
    flow = "after: {action: 'my/tool:summarise', input: {data: '${results}'}}"
    calls = Calls()
    with World(tmp_path, [PLAN(1, 1), EMPTY, OK], calls.tools, limits=Limits(consecutive_limit=2)) as own:
        assert own.run(workflow=flow).state == "Done"
        check_journal(own)
    (results,) = calls.summarised
    assert results[1] == {**results[0], "id": "action2", "error": "duplicate_call_blocked"}
    assert results[1]["result"] == "page 1"


def test_A164_at_the_step_limit_the_hook_is_still_called(tmp_path: Path) -> None:
    """It is no step, so the last failure is told as well."""
    calls = Calls()
    with World(tmp_path, [PLAN(TORN)], calls.tools, limits=Limits(max_steps=1)) as own:
        result = own.run(workflow=HOOK)
        assert (result.reason, result.steps, len(calls.sent)) == ("aborted", 1, 1)
        check_journal(own)


def test_A164_a_hooks_output_is_nobodys_result(tmp_path: Path) -> None:
    """Neither of the step that failed, nor among the planner's results or the variable."""
    plan = {
        "steps": [
            step("notes.read", args={"page": TORN}),
            step("my.tool.summarise", args={"data": "$step[0].output"}),
        ]
    }
    flow = CALM + "after: {action: 'my/tool:summarise', input: {data: '${len(results)}'}}"
    flow += "\nlast: {action: 'my/tool:summarise', input: {data: '${len(results)} ${results[-1].error}'}}"
    calls = Calls()
    with World(tmp_path, [plan, EMPTY, OK], calls.tools, limits=Limits(max_steps=9)) as own:
        assert own.run(workflow=flow).state == "Done"
        told = sections(own.model.of("plan")[1])["Results so far, oldest first"]
        assert "notify" not in told and told.count('"name"') == 2
        check_journal(own)
    assert calls.summarised[0] == 2 and calls.summarised[1].startswith("2 invalid_parameters: step 0 failed")
    assert len(calls.summarised) == 2 and len(calls.sent) == 2


def test_A135_every_result_that_was_data_is_data(tmp_path: Path) -> None:
    """Not only the newest one; one that had to be cut is text."""
    flow = "after: {action: 'my/tool:summarise', input: {data: ['${results[0].result.page}', '${results[1].result}']}}"
    calls = Calls()
    with World(tmp_path, [PLAN(1, 900, 2, name="notes.data"), EMPTY, OK], calls.tools) as own:
        assert own.run(workflow=flow).state == "Done"
        check_journal(own)
    ((first, second),) = calls.summarised
    assert first == 1 and len(second) == 2000 and second.endswith("\N{HORIZONTAL ELLIPSIS}")


def test_a_review_that_asks_for_more_goes_back_to_planning_not_to_the_beginning(tmp_path: Path) -> None:
    """What stands before the first plan is done once."""
    flow = """
stage:
  first: {action: "my/tool:summarise", input: {data: "${query}"}}
  plan: {action: "llm/core:plan"}
  exec: {action: "llm/exec:run_plan", when: len(plan.steps) > 0}
"""
    calls = Calls()
    with World(tmp_path, [PLAN(1), RETRY, PLAN(2), OK], calls.tools) as own:
        result = own.run("Read", workflow=flow)
        assert (result.state, result.steps) == ("Done", 3)
        check_journal(own)
    assert calls.summarised == ["Read"]


@pytest.mark.whole
@pytest.mark.parametrize("options", [{"workflow": ""}, {"mode": "planner"}])
def test_a_dialogue_longer_than_what_is_kept_is_restored_as_it_was(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """A wait for a step's question says nothing itself, so it takes no place among the turns."""
    rounds = 20
    ask = {"steps": [{"type": "elicitation", "elicitation": {"message": "Go on?"}}]}
    limits = Limits(max_steps=99, max_elicitations=99)
    with World(tmp_path, [ask] * rounds + [EMPTY, OK], Calls().tools, limits=limits) as own:
        result = own.run(**options)
        while result.status == "waiting":
            result = answered(own.engine, result.run_id, answer="yes")
        assert (result.state, result.steps) == ("Done", rounds)
        check_journal(own)
