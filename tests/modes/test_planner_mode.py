"""Planner mode on the real engine: plan, run its steps, plan again until a plan is empty (document 004)."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from paor import Limits, Policy, Tool, tool
from paor.errors import ToolError

from ..support.planning import (
    END,
    NOOP,
    NOTHING,
    PLAN,
    STEP,
    World,
    check,
    counted,
    counters,
    results,
    transcript,
    unusable,
)
from ..support.recording import sections, text_of, user_text
from ..support.stored import blocked_steps
from ..support.worlds import REVIEW, SUCCESS, fail, read


def plan_run(world: World, **options: Any) -> Any:
    """Run in planner mode and hold the journal to what holds for all."""
    result = world.run(mode="planner", **options)
    check(world)
    return result


# -- the loop --------------------------------------------------------------------------------------------------------


def test_A130_A131_A134_A136_plan_and_execute_until_a_plan_is_empty(tmp_path: Path) -> None:
    """Two plans with steps, then an empty one: three plan requests, two of them executed; the first sees no results."""
    calls: list[int] = []
    script = [PLAN(STEP(page=1), STEP(page=2)), PLAN(STEP(page=3)), NOTHING, SUCCESS]
    with World(tmp_path, script, [counted(calls)]) as world:
        result = plan_run(world)
        assert (result.state, result.steps, result.answer) == ("Done", 3, "All is read.")
        assert world.model.kinds == ["plan", "plan", "plan", "review"]
        assert [len(results(call)) for call in world.model.of("plan")] == [0, 2, 3]
        assert "Results so far" not in user_text(world.model.calls[0])
        back = [(row.source, row.dest) for row in world.rows if row.trigger == "proceed"]
    assert calls == [1, 2, 3]
    assert back == [("Reviewing", "Planning")] * 2
    assert world.count("next_step") == 1


@pytest.mark.parametrize(
    "empty",
    [NOTHING, "null", {"plan": None}, {"steps": [NOOP]}, {"steps": [NOOP, NOOP]}, {"steps": None}],
    ids=json.dumps,
)
def test_C3_11_A134_an_empty_plan_is_not_executed_and_is_no_error(tmp_path: Path, empty: Any) -> None:
    """Nil, blank or noop only: the planner has answered, even without a text."""
    with World(tmp_path, [PLAN(STEP(page=1)), empty, SUCCESS]) as world:
        assert plan_run(world).state == "Done"
    assert (world.count("execute"), world.count("answer"), world.model.kinds[-1]) == (1, 1, "review")


def test_A132_A146_A165_the_planner_is_given_model_tools_query_context_results_and_transcript(
    tmp_path: Path,
) -> None:
    """All six, and the schemas of the tools; a model of the run's own is the one that is asked."""
    said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "How can I help?"}]
    with World(tmp_path, []) as world:
        own = type(world.model)([PLAN(STEP(page=1)), END(), SUCCESS])
        result = world.engine.run(
            "Read page 1", mode="planner", context="page 1 is short", transcript=said, model=own
        )
        check(world)
        first, second = own.of("plan")
        told = sections(first)
        assert result.state == "Done" and world.model.calls == []
        assert (told["Objective"], told["Context"]) == ("Read page 1", "page 1 is short")
        assert transcript(first) == ["user: Hello", "assistant: How can I help?"]
        assert "- notes.read: Read one page of the notes. Arguments: {" in text_of(first)
        assert '"required":["page"]' in text_of(first)
        (shown,) = results(second)
        assert shown["name"] == "notes.read" and shown["args"] == {"page": 1}
        assert shown["result"].startswith("Page 1:") and "error" not in shown


def test_A146_optional_inputs_may_be_left_out_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    """Query alone is enough; a context, tools or transcript of the wrong type starts nothing."""
    with World(tmp_path, [END(), SUCCESS]) as world:
        assert plan_run(world).state == "Done"
        for wrong in (
            {"context": 1},
            {"tools": "notes.read"},
            {"transcript": [{"role": "user"}]},
            {"model": 3},
        ):
            with pytest.raises(Exception, match=next(iter(wrong))):
                world.run(mode="planner", **wrong)
        assert len(world.journal.runs()) == 1


def test_A144_A145_A147_A151_results_and_transcript_only_grow(tmp_path: Path) -> None:
    """Each call appends one result; what was there stays first and unchanged, and so does what was said."""
    script = [PLAN(STEP(page=1)), PLAN(STEP("notes.fail", page=2), STEP(page=3)), NOTHING, SUCCESS]
    with World(tmp_path, script) as world:
        plan_run(world)
        seen = [results(call) for call in world.model.of("plan")]
        said = [transcript(call) for call in world.model.of("plan")]
    assert [len(shown) for shown in seen] == [0, 1, 3]
    assert seen[2][:1] == seen[1] and said[2][: len(said[1])] == said[1]
    assert [line.partition(":")[0] for line in said[2]] == ["assistant", "assistant"]
    assert (seen[2][1]["error"], "result" in seen[2][1]) == ("page 2 is torn out", False)


def test_A138_C3_17_prose_is_a_direct_answer_and_the_last_one_only(tmp_path: Path) -> None:
    """Text without JSON ends the loop; the answer is not a heap of all that was said."""
    script = ["I look it up first.\n" + json.dumps(PLAN(STEP(page=1))), "It is ten days.", REVIEW("success")]
    with World(tmp_path, script) as world:
        assert plan_run(world).answer == "It is ten days."
    assert world.triggers[-3:] == ["proceed", "answer", "finish"]


def test_A139_a_plan_without_an_id_is_given_one_and_keeps_its_order(tmp_path: Path) -> None:
    """The same one in every replay; an id that the planner gave stays."""
    calls: list[int] = []
    script = [PLAN(STEP(page=3), STEP(page=1)), PLAN(STEP(page=2), id="11111111-2222-4333-8444-555555555555")]
    with World(tmp_path, [*script, NOTHING, SUCCESS], [counted(calls)]) as world:
        plan_run(world)
        bodies = [
            json.loads(str(world.journal.payload(1, row.change["n"]).body))["plan"]
            for row in world.rows
            if row.trigger == "select"
        ]
    assert calls == [3, 1, 2]
    assert len(bodies[0]["id"]) == 36 and bodies[0]["intention"] == "read on"
    assert bodies[1]["id"] == "11111111-2222-4333-8444-555555555555"


# -- kinds of steps ----------------------------------------------------------------------------------------------------


def test_A140_a_noop_has_no_effect_and_an_unknown_type_is_an_error(tmp_path: Path) -> None:
    """Noop calls nothing and shows as a result; an unknown type has the plan asked again, then the run fails."""
    calls: list[int] = []
    with World(tmp_path / "a", [PLAN(NOOP, STEP(page=1)), NOTHING, SUCCESS], [counted(calls)]) as world:
        assert plan_run(world).steps == 2
        assert [shown["name"] for shown in results(world.model.calls[1])] == ["noop", "notes.read"]
    assert (calls, world.count("execute")) == ([1], 1)
    strange = PLAN({"type": "teleport", "name": "notes.read"})
    with World(tmp_path / "b", [strange, strange], [counted(calls)]) as world:
        result = plan_run(world)
        assert (result.state, result.reason) == ("Failed", "selection_invalid")
        assert "steps[0].type" in unusable(world.model.calls[1])
    assert calls == [1]


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (STEP(page="one"), "invalid_parameters"),
        (STEP(page=1, colour="red"), "invalid_parameters"),
        (STEP("notes.open", url="file:///etc/passwd"), "unsafe_parameters"),
    ],
    ids=["type", "unknown", "unsafe"],
)
def test_A141_arguments_against_the_schema_are_an_error_result(
    tmp_path: Path, step: dict[str, Any], code: str
) -> None:
    """The tool is not called, the plan goes on, the planner sees the error."""
    calls: list[Any] = []
    opener = Tool(
        name="notes.open",
        parameters={"type": "object", "properties": {"url": {"type": "string", "format": "uri"}}},
        run=lambda url: calls.append(url),
        effect="read",
    )
    with World(tmp_path, [PLAN(step, STEP(page=2)), NOTHING, SUCCESS], [counted(calls), opener]) as world:
        assert plan_run(world).state == "Done"
        shown = results(world.model.calls[1])
    assert calls == [2]
    assert shown[0]["error"].startswith(f"{code}: ") and shown[0]["args"] == step["args"]


def test_A163_D20_a_tools_error_is_a_result_and_the_loop_goes_on(tmp_path: Path) -> None:
    """The rest of the plan runs, and the planner is asked again."""
    with World(tmp_path, [PLAN(STEP("notes.fail", page=1), STEP(page=2)), END(), SUCCESS]) as world:
        assert plan_run(world).state == "Done"
        errors = ["error" in shown for shown in results(world.model.calls[1])]
    assert errors == [True, False]


@pytest.mark.parametrize("retries", [0, 2])
def test_A142_C3_14_C2_8_a_steps_retries_are_attempts_of_one_call(tmp_path: Path, retries: int) -> None:
    """retries: 2 and always failing: three attempts, one result, one call for the duplicate guard."""
    calls: list[int] = []
    plan = PLAN(STEP(page=1, retries=retries))
    script = [plan, plan, NOTHING, SUCCESS]
    with World(tmp_path, script, [counted(calls, ToolError("busy"))]) as world:
        plan_run(world)
        assert len(results(world.model.of("plan")[2])) == 2
    assert len(calls) == 2 * (1 + retries)
    assert world.count("observe") == 2 and blocked_steps(world.path) == []


def test_C3_14_an_empty_result_is_tried_again_as_far_as_the_step_has_retries(tmp_path: Path) -> None:
    """Nothing at first, then a text: two attempts; always nothing: the empty result is the result."""
    for outcomes, attempts in ((("", "text"), 2), ((None, "text"), 2), (([], "text"), 2), ((None,), 3)):
        calls: list[int] = []
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        with World(
            folder, [PLAN(STEP(page=1, retries=2)), END(), SUCCESS], [counted(calls, *outcomes)]
        ) as world:
            assert plan_run(world).state == "Done"
            assert "error" not in results(world.model.calls[1])[0]
        assert (len(calls), world.count("observe")) == (attempts, 1)


def test_C3_14_an_empty_result_of_a_once_tool_and_one_without_retries_stay(tmp_path: Path) -> None:
    """What may have had an effect is never repeated for having returned nothing."""
    for options, retries in (({"effect": "once"}, 2), ({}, 0), ({"retries": 3}, 0)):
        calls: list[int] = []
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        tools = [counted(calls, None, **options)]
        with World(folder, [PLAN(STEP(page=1, retries=retries)), END(), SUCCESS], tools) as world:
            plan_run(world)
        assert len(calls) == 1


# -- what steps give to each other ---------------------------------------------------------------------------------------


@tool("notes.index", effect="read", label="index")
def index(page: int) -> dict[str, Any]:
    """Return data."""
    return {"next": page + 1, "pages": [{"number": page + 5}], "title": "Index"}


def test_C2_3_a_placeholder_is_replaced_before_the_key_is_taken(tmp_path: Path) -> None:
    """`$step[N].output.path` keeps its type, is within texts, and the third equal call is blocked."""
    calls: list[int] = []
    steps = [STEP("notes.index", page=1), *[STEP(page=page) for page in ("$step[0].output.next", 2, 2)]]
    with World(tmp_path, [PLAN(*steps), NOTHING, SUCCESS], [counted(calls), index]) as world:
        plan_run(world)
        shown = results(world.model.calls[1])
    assert calls == [2, 2]
    assert blocked_steps(world.path) == [4]
    assert [item["args"] for item in shown] == [{"page": 1}] + [{"page": 2}] * 3


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("$step[0].output.nothing", "nothing"),
        ("$step[1].output", "page 9 is torn out"),
        ("$step[0].output.title", "page"),
    ],
    ids=["no such key", "of a step that failed", "of another type"],
)
def test_A141_a_placeholder_without_a_value_is_an_error_result(tmp_path: Path, page: str, words: str) -> None:
    """Never a guess: the tool is not called, and the planner is told which."""
    calls: list[int] = []
    steps = [STEP("notes.index", page=1), STEP("notes.fail", page=9), STEP(page=page)]
    with World(tmp_path, [PLAN(*steps), NOTHING, SUCCESS], [counted(calls), index, fail]) as world:
        plan_run(world)
        last = results(world.model.calls[1])[2]
    assert calls == [] and last["error"].startswith("invalid_parameters: ") and words in last["error"]


def test_A141_a_placeholder_that_looks_ahead_has_the_plan_asked_again(tmp_path: Path) -> None:
    """Before anything runs."""
    bad = PLAN(STEP(page="$step[1].output"), STEP(page=1))
    with World(tmp_path, [bad, PLAN(STEP(page=1)), NOTHING, SUCCESS]) as world:
        assert plan_run(world).steps == 1
        assert "steps[0].args" in unusable(world.model.calls[1])


# -- bounds --------------------------------------------------------------------------------------------------------------


def test_D14_C3_23_a_planner_has_a_thousand_steps_and_fifty_plans(tmp_path: Path) -> None:
    """Without limits of the host's: more steps than react mode has, and an end to a planner that never stops."""
    calls: list[int] = []
    script = [*[PLAN(STEP(page=number)) for number in range(50)], REVIEW("success", answer="Fifty.")]
    with World(tmp_path, script, [counted(calls)]) as world:
        result = plan_run(world)
        assert (result.state, result.reason, result.steps) == ("Done", "max_plans", 50)
        assert json.loads(world.journal.spec(world.run_id).model_dump_json())["limits"]["max_steps"] == 1000
    assert max(counters(world, "plans")) == 50


def test_D14_C3_22_the_limits_of_a_host_hold_in_planner_mode_too(tmp_path: Path) -> None:
    """Steps left at the limit are skipped and journaled as such, the review is asked, and a retry fails."""
    for limits, reason, skipped in (
        (Limits(max_steps=2), "max_steps", 1),
        (Limits(max_plans=1), "max_plans", None),
    ):
        for status, state in (("success", "Done"), ("retry", "Failed")):
            calls: list[int] = []
            plan = PLAN(STEP(page=1), STEP(page=2), STEP(page=3))
            with World(
                tmp_path / f"{reason}-{status}", [plan, REVIEW(status, "more")], [counted(calls)]
            ) as world:
                result = plan_run(world, limits=limits)
                assert (result.state, result.reason) == (state, reason) and result.answer.strip()
                facts = next(row.outcome for row in world.rows if row.trigger == "conclude")
                *_, told, _ = world.model.calls[-1].messages
            unmade = told.text.startswith("Not made: no step is left.") and '{"page":3}' in told.text
            assert unmade == (skipped == 1), "the review reads which steps were not made"
            assert (facts["stop"], facts.get("skipped")) == (reason, skipped)
            assert calls == ([1, 2] if skipped else [1, 2, 3])


def test_A160_C3_20_a_plan_may_only_use_what_is_offered_and_allowed(tmp_path: Path) -> None:
    """All steps are checked before the first is taken; aliases are no way around."""
    calls: list[int] = []
    for spelling in ("notes.fail", "notes_fail", "no.such"):
        bad = PLAN(STEP(page=1), STEP(spelling, page=1))
        policy = Policy(deny=("notes.fail",))
        with World(tmp_path / spelling, [bad, bad], [counted(calls), fail], policy=policy) as world:
            result = plan_run(world)
        assert (result.state, result.reason) == ("Failed", "selection_invalid")
    with World(tmp_path / "list", [PLAN(STEP("notes_fail", page=1)), END(), SUCCESS], [read, fail]) as world:
        assert plan_run(world, tools=["notes.read"]).state == "Done"
        assert "choose from: notes.read" in unusable(world.model.calls[1])
    assert calls == []


def test_A133_A135_A137_A165_what_plan_and_execution_leave_to_the_next_round(tmp_path: Path) -> None:
    """After a plan: plan, answer, question and what was said; after its steps: one result each, earlier ones first."""
    asked = {"elicitation": {"message": "Which?"}}
    script = [PLAN(STEP(page=1), STEP(page=2)), asked, PLAN(STEP(page=3)), END("Three."), REVIEW("success")]
    with World(tmp_path, script) as world:
        waits = plan_run(world)
        assert waits.status == "waiting"
        assert world.engine.resume(world.run_id, answer="the third").answer == "Three."
        check(world)
        changes = [json.loads(str(world.journal.payload(1, row.change["n"]).body)) for row in world.rows]
        shown = [results(call) for call in world.model.of("plan")]
        said = [len(transcript(call)) for call in world.model.of("plan")]
    after = [
        (row.trigger, sorted(slot for slot in ("plan", "answer", "question", "turn") if change.get(slot)))
        for row, change in zip(world.rows, changes, strict=True)
        if row.source == "Planning"
    ]
    assert after == [
        ("select", ["plan", "turn"]),
        ("wait", ["question", "turn"]),
        ("provide", ["turn"]),
        ("select", ["plan", "turn"]),
        ("answer", ["answer", "turn"]),
    ]
    assert [len(found) for found in shown] == [0, 2, 2, 3]
    assert all(later[: len(found)] == found for found, later in itertools.pairwise(shown))
    assert said == [0, 1, 3, 4]
