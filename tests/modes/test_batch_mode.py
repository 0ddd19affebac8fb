"""Batch mode on the real engine: one plan, executed in order, reviewed when its steps are used up; now legacy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paor import Limits, Policy, Tool, ToolContext
from paor.errors import ToolError

from ..support.planning import ABORT, END, NOTHING, PLAN, STEP, World, check, counted, counters, ends, results
from ..support.recording import sections
from ..support.stored import blocked_steps, labels, prompts, query, triggers
from ..support.worlds import CONTINUE, MET, PARAMETERS, READ, REVIEW, SELECT, STOP, SUCCESS, TOOLS, fail, read

MODES = pytest.mark.parametrize("mode", ["batch", "planner"])
LIMITS = Limits(max_steps=20)


# -- the modes ---------------------------------------------------------------------------------------------------------


def test_A055_A084_A090_D13_one_task_in_every_mode(tmp_path: Path) -> None:
    """One call, one machine: the same labels, texts and end, whether one action a time or a plan of three."""
    react = [*READ(1), CONTINUE, *READ(2), CONTINUE, *READ(3), STOP, SUCCESS]
    plan = PLAN(STEP(page=1), STEP(page=2), STEP(page=3))
    scripts = {"react": react, "batch": ends("batch", plan), "planner": ends("planner", plan)}
    found: list[Any] = []
    for mode, script in scripts.items():
        with World(tmp_path / mode, script) as world:
            result = world.run("Read three pages", mode=mode, limits=LIMITS)
            check(world)
            found.append(
                (result.state, result.steps, result.answer, [item.read() for item in result.documents])
            )
            states = [row.source for row in world.rows if row.trigger in ("specify", "execute", "observe")]
            assert states == ["Specifying", "Executing", "Observing"] * 3
        found[-1] += (labels(world.path),)
    assert found[0] == found[1] == found[2]


def test_A069_planning_and_review_stay_requests_of_their_own(tmp_path: Path) -> None:
    """In batch mode the two are all that is asked; both templates can be replaced."""
    prompts = {"plan": "PLAN {{KEY:OBJECTIVE}}", "review": "REVIEW {{KEY:OBJECTIVE}}"}
    with World(tmp_path, ends("batch", PLAN(STEP(page=1))), prompts=prompts) as world:
        world.run("Read", mode="batch")
        check(world)
        first, last = (call.messages for call in world.model.calls)
    assert [message.text for message in first] == ["PLAN Read"]
    assert last[0] == first[0] and "page 1" in last[2].text.lower() and last[-1].text == "REVIEW Read"


def test_A083_A085_batch_is_not_held_to_the_caps_of_react_mode(tmp_path: Path) -> None:
    """Many actions in one reply, its own prompt with schemas; the five rules and the tiny catalog are react's."""
    many = PLAN(*[STEP(page=number) for number in range(12)])
    with World(tmp_path, ends("batch", many)) as world:
        assert world.run(mode="batch", limits=LIMITS).steps == 12
        check(world)
        told = world.model.calls[0].messages[0].text
    assert "Pick exactly one action per step" not in told and "Arguments: {" in told


# -- a plan and its review ------------------------------------------------------------------------------------------------


def test_A087_an_errored_step_does_not_stop_the_plan_and_retry_makes_a_new_one(tmp_path: Path) -> None:
    """The second of three fails, all are executed, the review says retry, one more plan is asked; the counter is 1."""
    calls: list[int] = []
    torn = counted(calls, "text", ToolError("torn"), "text")
    script = [
        PLAN(STEP(page=1), STEP(page=2), STEP(page=3)),
        REVIEW("retry", "read page 2 elsewhere", criteria=[MET("All pages")]),
        PLAN(STEP(page=20)),
        SUCCESS,
    ]
    with World(tmp_path, script, [torn]) as world:
        result = world.run("Read", ["all pages"], mode="batch", limits=LIMITS)
        check(world)
        assert (result.state, result.reason, result.steps) == ("Done", "model_stop", 4)
        assert world.model.kinds == ["plan", "review", "plan", "review"]
        again = world.model.of("plan")[1]
        assert again.messages[-1].text == "That is not enough yet.\n- read page 2 elsewhere"
        assert sections(again)["Success criteria"] == "- all pages"
        assert ["error" in item for item in results(again)] == [False, True, False]
    assert calls == [1, 2, 3, 20]
    assert max(counters(world, "retries")) == 1 and max(counters(world, "plans")) == 2


def test_A087_steps_beyond_the_limit_are_skipped_and_journaled(tmp_path: Path) -> None:
    """Two of five: the review is asked, the row says how many were left, the run says why."""
    calls: list[int] = []
    plan = PLAN(*[STEP(page=number) for number in range(5)])
    with World(tmp_path, ends("batch", plan), [counted(calls)]) as world:
        result = world.run(mode="batch", limits=Limits(max_steps=2))
        check(world)
        assert (result.state, result.reason) == ("Done", "max_steps")
    (concluded,) = [row.outcome for row in world.rows if row.trigger == "conclude"]
    assert (calls, concluded["skipped"], concluded["stop"]) == ([0, 1], 3, "max_steps")


def test_A087_a_plan_that_just_fits_is_no_limit(tmp_path: Path) -> None:
    """As many steps as are allowed: the plan was done, not cut."""
    with World(tmp_path, ends("batch", PLAN(STEP(page=1), STEP(page=2)))) as world:
        result = world.run(mode="batch", limits=Limits(max_steps=2))
        check(world)
        assert (result.state, result.reason) == ("Done", "model_stop")


@pytest.mark.parametrize("prose", ["All is well.", 'It says {"note": "all is well"}.', "null of nothing"])
def test_A138_bare_words_are_no_answer_in_batch_mode(tmp_path: Path, prose: str) -> None:
    """There the model is asked for a plan again; in planner mode the words are the answer."""
    with World(tmp_path / "batch", [prose, PLAN(STEP(page=1)), SUCCESS]) as world:
        assert world.run(mode="batch").steps == 1
        check(world)
    assert world.triggers[0] == "reselect"
    with World(tmp_path / "planner", [prose, REVIEW("success")]) as world:
        assert world.run(mode="planner").answer == prose
        check(world)


def test_A087_an_answer_or_nothing_to_do_is_reviewed_at_once(tmp_path: Path) -> None:
    """A plan without steps needs no execution; the review has the last word."""
    for reply in (END("Known."), NOTHING):
        with World(tmp_path / str(len(reply)), [reply, REVIEW("success")]) as world:
            result = world.run(mode="batch")
            check(world)
            assert (result.state, result.steps) == ("Done", 0) and result.answer.strip()


# -- what both modes share ---------------------------------------------------------------------------------------------------


@MODES
def test_A098_A111_documents_are_resolved_the_same_way_in_every_mode(tmp_path: Path, mode: Any) -> None:
    """References of plans are checked like those of Stage 1: another run's, nothing's, a failed action's are errors."""
    got: list[list[str]] = []

    def joined(context: ToolContext, documentList: list[str]) -> str:
        got.append([str(document.data) for document in context.documents(documentList)])
        return "joined"

    schema = {
        "type": "object",
        "properties": {"documentList": {"type": "array", "items": {"type": "string"}}},
    }
    joiner = Tool(name="notes.join", parameters=schema, run=joined, effect="read")
    references = ["docItem:round1_task1_action0_input#1", "docList:round1_task1_action1_page"]
    bad = ["docList:round1_task1_action2_page"]
    steps = [STEP(page=1), STEP("notes.fail", page=2)]
    steps += [STEP("notes.join", documentList=names) for names in (references, bad, ["docList:elsewhere"])]
    with World(tmp_path, ends(mode, PLAN(*steps)), [read, fail, joiner]) as world:
        assert world.run(mode=mode, documents=[("a.txt", "A"), ("b.txt", "B")], limits=LIMITS).state == "Done"
        check(world)
    assert [texts[0] for texts in got] == ["B"] and got[0][1].startswith("Page 1")
    assert world.count("refuse") == 2


@MODES
def test_A152_A155_A156_the_third_call_in_a_row_is_blocked(tmp_path: Path, mode: Any) -> None:
    """AAAA: 3 and 4 blocked, not executed, the marker and the last output in their results."""
    calls: list[int] = []
    with World(tmp_path, ends(mode, PLAN(*[STEP(page=1)] * 4)), [counted(calls)]) as world:
        world.run(mode=mode, limits=LIMITS.model_copy(update={"completion_review": "model"}))
        check(world)
        shown = results(world.model.calls[1]) if mode == "planner" else []
        judged = results(world.model.calls[-1])
    assert calls == [1, 1] and blocked_steps(world.path) == [3, 4]
    assert [item.get("error", "").partition(":")[0] for item in judged] == [
        "",
        "",
        *["duplicate_call_blocked"] * 2,
    ]
    for item in shown[2:]:
        assert item["error"].startswith("duplicate_call_blocked") and item["result"] == "page 1"
        assert item["args"] == {"page": 1}


def test_A152_C2_1_C2_2_repeats_across_plans_and_a_restart_are_counted(tmp_path: Path) -> None:
    """Three plans of one equal call each: the third is blocked, also by another process."""
    calls: list[int] = []
    plan = PLAN(STEP(page=1))
    script = [plan, plan, {"elicitation": {"message": "Again?"}}, plan, NOTHING, SUCCESS]
    with World(tmp_path, script, [counted(calls)]) as world:
        assert world.run(mode="planner").status == "waiting"
        run_id = world.run_id
    with World(tmp_path, script, [counted(calls)]) as world:
        assert world.engine.resume(run_id, answer="yes").state == "Done"
        check(world)
    assert calls == [1, 1] and blocked_steps(world.path) == [3]


def test_C2_6_C2_7_a_blocked_call_without_a_success_has_the_marker_and_no_output(tmp_path: Path) -> None:
    """And one after a success echoes the success, also when the newest outcome was an error."""
    calls: list[int] = []
    plan = PLAN(*[STEP(page=1)] * 3)
    with World(tmp_path / "a", ends("planner", plan), [counted(calls, ToolError("torn"))]) as world:
        world.run(mode="planner")
        last = results(world.model.calls[1])[2]
        assert last["error"].startswith("duplicate_call_blocked") and "result" not in last
    with World(tmp_path / "b", ends("planner", plan), [counted(calls, "first", ToolError("torn"))]) as world:
        world.run(mode="planner")
        shown = results(world.model.calls[1])
        check(world)
    assert [item.get("result") for item in shown] == ["first", None, "first"] and len(shown) == 3


def test_A002_A070_batch_prompts_hold_the_whole_catalog_and_react_prompts_are_smaller(tmp_path: Path) -> None:
    """With schemas and descriptions in the one, names alone in the other; fewer characters for the same three actions."""
    properties = {
        f"option{n}": {"type": "string", "description": "a long description " * 8} for n in range(40)
    }
    big = Tool(
        name="crm.export",
        description="Export everything.",
        parameters={"type": "object", "properties": properties},
        run=lambda **_: "x",
    )
    react = [*READ(1), CONTINUE, *READ(2), CONTINUE, *READ(3), STOP, SUCCESS]
    sizes, plans = (
        [],
        [
            PLAN(STEP(page=1)),
            REVIEW("retry", "2"),
            PLAN(STEP(page=2)),
            REVIEW("retry", "3"),
            PLAN(STEP(page=3)),
            SUCCESS,
        ],
    )
    for mode, script in (("react", react), ("batch", plans)):
        with World(tmp_path / mode, script, [*TOOLS, big]) as world:
            assert world.run(mode=mode).steps == 3
        kind = "selection" if mode == "react" else "plan"
        found = prompts(world.path, kind)
        sizes.append(sum(len(text) for prompt in found for text in prompt.values()))
        assert ("a long description" in found[0]["system"]) is (mode == "batch")
        assert ('"properties"' in found[0]["system"]) is (mode == "batch")
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("mode", ["react", "batch"])
def test_A085_A083_an_extra_parameter_never_reaches_a_tool_in_either_mode(tmp_path: Path, mode: str) -> None:
    """React drops it, or in the strict profile asks again; batch has no such request: the refusal is the step's result."""
    calls: list[Any] = []
    keep = Tool(
        name="notes.keep",
        parameters={"type": "object", "properties": {"page": {}}},
        run=lambda **values: calls.append(values),
        effect="read",
    )
    bad = {"page": 1, "apiKey": "k"}
    plan = {"steps": [{"type": "tool", "name": "notes.keep", "args": bad, "reason": "r"}]}
    select = SELECT("notes.keep", {"page": "number"})
    react = [select, PARAMETERS(**bad), PARAMETERS(**bad), STOP, SUCCESS]
    if mode == "react":
        with World(tmp_path / "two_stage", [*react[:2], STOP, SUCCESS], [keep]) as world:
            assert world.run(mode=mode).state == "Done"
        assert calls == [{"page": 1}]
        calls.clear()
    with World(tmp_path, react if mode == "react" else [plan, SUCCESS], [keep]) as world:
        assert world.run(mode=mode, profile="strict").state == "Done"
    assert calls == []
    assert triggers(world.path).count("refuse") == 1
    assert len(prompts(world.path, "parameters")) == (2 if mode == "react" else 0)


def test_A083_react_mode_changes_nothing_of_what_batch_mode_writes(tmp_path: Path) -> None:
    """A batch run in a file of its own and one behind a react run: the same requests and outcomes, row by row."""
    seen = []
    for before in (False, True):
        with World(tmp_path / str(before), [PLAN(STEP(page=1), STEP(page=2)), SUCCESS]) as world:
            if before:
                world.engine.run("Read", model=type(world.model)([*READ(1), STOP, SUCCESS]))
            world.run(mode="batch")
        statement = """SELECT "trigger", source, dest, request ->> '$.kind', outcome ->> '$.kind', guards
                       FROM transitions WHERE run = (SELECT max(run) FROM specs) ORDER BY seq"""
        seen.append(
            (
                query(world.path, statement),
                prompts(world.path, "plan"),
                json.dumps(PLAN(STEP(page=1), STEP(page=2))),
            )
        )
    assert seen[0] == seen[1]


# -- endings --------------------------------------------------------------------------------------------------------------------


@MODES
def test_C3_13_an_abort_in_the_middle_keeps_what_there_is(tmp_path: Path, mode: Any) -> None:
    """Failed(aborted) in either mode, with its document."""
    with World(tmp_path, [PLAN(STEP(page=1), ABORT)]) as world:
        result = world.run(mode=mode)
        check(world)
    assert (result.state, result.reason, len(result.documents)) == ("Failed", "aborted", 1)


@MODES
def test_A141_a_denied_approval_is_an_error_result(tmp_path: Path, mode: Any) -> None:
    """Approvals stand before the call in every mode."""
    policy = Policy(approvals=("notes.send",))
    with World(
        tmp_path, ends(mode, PLAN(STEP("notes.send", text="a"), STEP(page=1))), policy=policy
    ) as world:
        waits = world.run(mode=mode)
        assert waits.status == "waiting" and waits.waiting_for is not None
        assert world.engine.resume(world.run_id, answer={"approve": False}).state == "Done"
        check(world)
    assert world.count("refuse") == 1 and world.count("execute") == 1
