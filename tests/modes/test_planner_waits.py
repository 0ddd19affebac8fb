"""Waits of planner mode: who is asked what, and what an answer of another process, a decline or silence comes to."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from paor import Limits, Policy, Result, replay, tool
from paor.errors import InvalidAnswer
from paor.testing import SeededIds, SteppingClock

from ..support.journey import answered
from ..support.planning import (
    ASK,
    END,
    NOTHING,
    OBJECT,
    PLAN,
    STEP,
    World,
    check,
    counted,
    results,
    transcript,
)
from ..support.recording import text_of
from ..support.stored import blocked_steps, query
from ..support.worlds import SUCCESS, TOOLS, send

ASKED: dict[str, Any] = {
    "elicitation": {"message": "Which page?", "requestedSchema": OBJECT(page="integer")},
    "steps": [],
}


class Later(World):
    """A world that comes to a file after another one: other ids and a later clock."""

    def __init__(
        self, folder: Path, script: Any, tools: Any = TOOLS, *, after_s: int = 60, **options: Any
    ) -> None:
        clock = SteppingClock(1_767_225_600_000_000 + after_s * 1_000_000)
        super().__init__(folder, script, tools, clock=clock, ids=SeededIds("later"), **options)

    def answer(self, **given: Any) -> Result:
        """Resume the newest run and hold the journal to what holds for all."""
        go = partial(answered, self.engine) if given else self.engine.resume
        result = go(self.run_id, **given)
        check(self)
        return result


def waiting(folder: Path, script: Any, tools: Any = TOOLS, *, options: Any = None, **run: Any) -> Result:
    """Run until the run waits, and leave the file."""
    with World(folder, script, tools, **(options or {})) as world:
        result = world.run(mode="planner", **run)
        check(world)
        assert result.status == "waiting"
        rows = len(world.rows)
        assert world.engine.resume(world.run_id).status == "waiting" and len(world.rows) == rows
    return result


# -- a plan's question ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["object", "text"])
def test_A137_A143_D17_a_plans_question_waits_and_another_process_answers(tmp_path: Path, form: str) -> None:
    """Message and schema reach the caller in both forms; no request until the answer, then the same run goes on."""
    schema = OBJECT(page="integer")
    asked = {"message": "Which page?"} | (
        {"requestedSchema": schema} if form == "object" else {"schema": json.dumps(schema)}
    )
    script = [{"elicitation": asked}, PLAN(STEP(page=2)), NOTHING, SUCCESS]
    result = waiting(tmp_path, script)
    question = result.waiting_for
    assert question is not None and result.state == "Planning"
    assert (question.kind, question.message, question.schema) == ("elicitation", "Which page?", schema)
    with Later(tmp_path, script) as world:
        assert world.answer(answer={"page": 2}).state == "Done"
        assert world.model.kinds == ["plan", "plan", "review"]
        assert transcript(world.model.calls[0])[-1] == 'user: {"page":2}'
        assert world.count("provide") == 1 and len(world.journal.runs()) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"action": "decline"}, "user: (declined to answer)"),
        ({"action": "accept"}, "user: (an empty answer)"),
        ({"action": "accept", "content": {}}, "user: {}"),
    ],
    ids=["decline", "empty", "no values"],
)
def test_A137_a_decline_or_an_empty_answer_goes_to_the_planner(tmp_path: Path, given: Any, said: str) -> None:
    """It is asked again, and sees what the user did."""
    script = [ASKED, END("Without a page."), SUCCESS]
    waiting(tmp_path, script)
    with Later(tmp_path, script) as world:
        assert world.answer(answer=given).state == "Done"
        assert transcript(world.model.calls[0])[-1] == said


def test_A137_a_cancelled_question_ends_the_run(tmp_path: Path) -> None:
    """Failed(cancelled), and nothing is asked any more."""
    waiting(tmp_path, [ASKED])
    with Later(tmp_path, []) as world:
        result = world.answer(answer={"action": "cancel"})
        assert (result.state, result.reason, world.model.calls) == ("Failed", "cancelled", [])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({}, []),
        ({"page": "two", "colour": 3}, ["answer.page", "answer.colour"]),
        ({"colour": "red"}, ["answer.page"]),
        ("two", ["answer must be object", '"two"']),
        ({"action": "accept", "content": {"page": None}}, ["answer.page"]),
    ],
    ids=str,
)
def test_A137_an_answer_that_does_not_fit_names_every_problem(
    tmp_path: Path, wrong: Any, words: list[str]
) -> None:
    """InvalidAnswer; the run goes on waiting and nothing is written. An empty one is an empty accept."""
    asked = {"message": "Which?", "requestedSchema": OBJECT(page="integer", colour={"enum": ["red", "blue"]})}
    script = [{"elicitation": asked}, END(), SUCCESS]
    waiting(tmp_path, script)
    with Later(tmp_path, script) as world:
        rows = len(world.rows)
        if words:
            with pytest.raises(InvalidAnswer) as refused:
                world.engine.resume(world.run_id, answer=wrong)
            assert all(word in str(refused.value) for word in [*words, "Which?"])
            assert len(world.rows) == rows
        else:
            assert world.answer(answer=wrong).state == "Done"
            return
        assert world.answer(answer={"page": 1, "colour": "red"}).state == "Done"


def test_A137_a_schema_that_is_none_holds_nobody_to_anything(tmp_path: Path) -> None:
    """A model may write anything; any answer fits what cannot be checked."""
    asked = {
        "message": "Which?",
        "requestedSchema": {"type": "no such type", "$ref": "https://example.org/x"},
    }
    script = [{"elicitation": asked}, END(), SUCCESS]
    waiting(tmp_path, script)
    with Later(tmp_path, script) as world:
        assert world.answer(answer="whatever").state == "Done"


# -- a step's question -----------------------------------------------------------------------------------------------------


def test_A150_C3_12_a_steps_question_is_answered_once_and_its_output_used(tmp_path: Path) -> None:
    """The answer is the step's result, later steps use it, earlier results are neither lost nor repeated."""
    calls: list[int] = []
    script = [PLAN(STEP(page=1), ASK(page="integer"), STEP(page="$step[1].output.page")), NOTHING, SUCCESS]
    result = waiting(tmp_path, script, [counted(calls)])
    assert result.state == "Specifying" and result.waiting_for is not None
    with Later(tmp_path, script, [counted(calls)]) as world:
        assert world.answer(answer={"page": 7}).state == "Done"
        shown = results(world.model.calls[0])
        assert [(item["name"], item.get("result")) for item in shown] == [
            ("notes.read", "page 1"),
            ("elicitation", '{"page":7}'),
            ("notes.read", "page 7"),
        ]
    assert calls == [1, 7]


def test_A137_C3_12_a_question_beside_steps_is_asked_after_them(tmp_path: Path) -> None:
    """Neither the steps nor the question are lost; the planner is asked once it is answered."""
    calls: list[int] = []
    script = [PLAN(STEP(page=1), elicitation=ASKED["elicitation"]), END(), SUCCESS]
    waiting(tmp_path, script, [counted(calls)])
    assert calls == [1]
    with Later(tmp_path, script, [counted(calls)]) as world:
        assert world.answer(answer={"page": 3}).state == "Done"
        assert [item["name"] for item in results(world.model.calls[0])] == ["notes.read", "elicitation"]
    assert calls == [1]


@pytest.mark.parametrize("given", [{"action": "decline"}, {"action": "accept"}], ids=["decline", "empty"])
def test_A150_a_step_that_gets_no_answer_is_an_error_result(tmp_path: Path, given: Any) -> None:
    """The plan goes on; what needs the answer is refused with the reason."""
    calls: list[int] = []
    script = [PLAN(ASK(page="integer"), STEP(page="$step[0].output.page"), STEP(page=4)), NOTHING, SUCCESS]
    waiting(tmp_path, script, [counted(calls)])
    with Later(tmp_path, script, [counted(calls)]) as world:
        assert world.answer(answer=given).state == "Done"
        shown = results(world.model.calls[0])
    assert calls == [4]
    assert shown[0]["error"].startswith("declined: ") and shown[1]["error"].startswith("invalid_parameters: ")


def test_A137_a_long_answer_reaches_the_tool_whole(tmp_path: Path) -> None:
    """What is cut for prompts is not cut for `$step[N].output`."""
    got: list[str] = []

    @tool("notes.keep", effect="idempotent")
    def keep(text: str) -> str:
        """Keep."""
        got.append(text)
        return "kept"

    script = [PLAN(ASK(text="string"), STEP("notes.keep", text="$step[0].output.text")), NOTHING, SUCCESS]
    waiting(tmp_path, script, [keep])
    with Later(tmp_path, script, [keep]) as world:
        assert world.answer(answer={"text": "long " * 2000}).state == "Done"
        assert len(world.model.calls[0].messages[-1].text) < 30_000
    assert got == ["long " * 2000]


# -- a missing argument, and an approval after it -----------------------------------------------------------------------------


def test_A150_A140_a_missing_argument_is_asked_for_by_name(tmp_path: Path) -> None:
    """With the schema of exactly that argument; the step's own arguments stand, and the call is made once."""
    calls: list[Any] = []

    @tool("notes.write", effect="idempotent")
    def write(page: int, text: str, size: int = 3) -> str:
        """Write."""
        calls.append((page, text, size))
        return "written"

    script = [*[PLAN(STEP("notes.write", page=1, reason="note it down"))] * 2, NOTHING, SUCCESS]
    question = waiting(tmp_path, script, [write]).waiting_for
    assert question is not None and question.kind == "argument" and question.tool == "notes.write"
    assert question.schema["required"] == ["text"] and list(question.schema["properties"]) == ["text"]
    assert "notes.write needs text" in question.message and "note it down" in question.message
    with Later(tmp_path, script, [write]) as world:
        with pytest.raises(InvalidAnswer, match=r"answer\.text"):
            world.engine.resume(world.run_id, answer={"text": 4})
        assert world.answer(answer={"text": "hello", "page": 9}).state == "Done"
    assert calls == [(1, "hello", 3)]


@pytest.mark.parametrize(
    "given", [{"action": "decline"}, {"action": "accept", "content": {}}], ids=["decline", "empty"]
)
def test_A150_C3_12_a_missing_argument_that_is_not_given_is_recorded_as_a_refused_call(
    tmp_path: Path, given: Any
) -> None:
    """Asked once, not again and again; the call shows with its error."""
    script = [*[PLAN(STEP(), STEP(page=2))] * 2, NOTHING, SUCCESS]
    waiting(tmp_path, script)
    with Later(tmp_path, script) as world:
        assert world.answer(answer=given).state == "Done"
        shown = results(world.model.calls[0])
    assert shown[0]["error"].startswith("invalid_parameters: page") and shown[1]["result"].startswith(
        "Page 2"
    )


@pytest.mark.parametrize("mode", ["planner", "batch"])
def test_A150_a_plan_that_forgot_an_argument_goes_back_to_the_planner_first(
    tmp_path: Path, mode: Any
) -> None:
    """It is told which, and nobody is asked where the next plan has it; no step of the first plan was taken."""
    script = [
        PLAN(STEP(page=1), STEP()),
        PLAN(STEP(page=1), STEP(page=2)),
        *([NOTHING] if mode == "planner" else []),
    ]
    with World(tmp_path, [*script, SUCCESS]) as world:
        assert world.run(mode=mode).state == "Done"
        check(world)
        assert world.triggers[:2] == ["reselect", "select"] and world.triggers.count("execute") == 2
        assert "steps[1].args: notes.read needs page" in text_of(world.model.of("plan")[1])


def test_A150_what_lacks_something_within_an_argument_is_for_the_planner(tmp_path: Path) -> None:
    """The user is asked for arguments only, never for a place deep in one that is there."""
    schema = {"properties": {"at": OBJECT(page="integer")}, "required": ["at"]}
    from paor import Tool

    deep = Tool(name="notes.deep", parameters=schema, run=lambda at: "x", effect="read")
    with World(tmp_path, [PLAN(STEP("notes.deep", at={})), NOTHING, SUCCESS], [deep]) as world:
        assert world.run(mode="planner").state == "Done"
        assert "at.page" in results(world.model.calls[1])[0]["error"]


def test_A150_an_approval_after_an_argument_is_asked_too(tmp_path: Path) -> None:
    """First what is missing, then whether it may be done: two waits, one call; in both places the schema counts."""
    script = [*[PLAN(STEP("notes.send"), STEP("notes.send", text="b"))] * 2, NOTHING, SUCCESS]
    policy = Policy(approvals=("notes.send",))
    waiting(tmp_path, script, [send], options={"policy": policy})
    with Later(tmp_path, script, [send], policy=policy) as world:
        asked = world.answer(answer={"text": "hello"}).waiting_for
        assert asked is not None and asked.kind == "approval"
        for wrong in (
            {"approve": "yes"},
            {"action": "accept", "content": {"approve": 1}},
            {"action": "accept"},
            True,
        ):
            with pytest.raises(InvalidAnswer):
                world.engine.resume(world.run_id, answer=wrong)
        assert world.answer(answer={"approve": True}).status == "waiting"
        assert world.answer(answer={"approve": False}).state == "Done"
        shown = results(world.model.of("plan")[0])
    assert [item.get("error", "") for item in shown] == ["", "denied: the call was not approved"]
    assert shown[0]["result"] == "sent: hello"


def test_A150_a_run_that_may_ask_nobody_any_more_is_stuck(tmp_path: Path) -> None:
    """Beyond `max_elicitations`: Failed(stuck), whichever question it is."""
    for script in ([ASKED], [PLAN(ASK(page="integer"))], [PLAN(STEP())] * 2):
        with World(tmp_path / str(len(list(tmp_path.iterdir()))), script) as world:
            result = world.run(mode="planner", limits=Limits(max_elicitations=0))
            check(world)
            assert (result.state, result.reason) == ("Failed", "stuck")


def test_C2_8_answers_of_the_user_are_no_duplicates(tmp_path: Path) -> None:
    """The same question five times is not a call repeated."""
    script = [*[PLAN(ASK(page="integer"))] * 5, NOTHING, SUCCESS]
    waiting(tmp_path, script)
    with Later(tmp_path, script) as world:
        for _ in range(5):
            result = world.answer(answer={"page": 1})
        assert result.state == "Done" and blocked_steps(world.path) == []


# -- silence -----------------------------------------------------------------------------------------------------------------


def test_a_question_that_nobody_answers_in_time_counts_as_declined(tmp_path: Path) -> None:
    """By the engine's clock against the row of the wait: before it nothing is written, after it the run goes on."""
    limits = Limits(elicitation_timeout_s=600)
    script = [ASKED, PLAN(ASK(page="integer")), END("Nobody there."), SUCCESS]
    waiting(tmp_path, script, limits=limits)
    with Later(tmp_path, script, after_s=300) as world:
        rows = len(world.rows)
        assert world.engine.resume(world.run_id).status == "waiting" and len(world.rows) == rows
    with Later(tmp_path, script, after_s=700) as world:
        assert world.answer().state == "Specifying"
        assert transcript(world.model.calls[0])[-1] == "user: (declined to answer)"
    with Later(tmp_path, script, after_s=1000) as world:
        assert world.answer(answer={"page": 1}).state == "Done", "an answer is never too late"
    told = query(tmp_path / "runs.db", """SELECT body FROM payloads WHERE body LIKE '{"action":"decline"%'""")
    assert [json.loads(body)["content"] for (body,) in told] == ["nobody answered within 600 seconds"]


def test_an_approval_that_nobody_gives_in_time_is_denied_and_an_effect_in_doubt_waits(tmp_path: Path) -> None:
    """What nobody has allowed is not done."""
    limits, policy = Limits(elicitation_timeout_s=60), Policy(approvals=("notes.send",))
    script = [PLAN(STEP("notes.send", text="a")), END(), SUCCESS]
    waiting(tmp_path, script, options={"policy": policy}, limits=limits)
    with Later(tmp_path, script, after_s=61, policy=policy) as world:
        assert world.answer().state == "Done"
        assert results(world.model.calls[0])[0]["error"] == "denied: the call was not approved"
        assert replay(world.journal, world.run_id).identical
