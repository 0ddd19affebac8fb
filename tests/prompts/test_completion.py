"""Who judges a run that would end: the model, or code by what the model has said last; and that the judgement is what counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, Policy, ScriptedModel, replay, why
from paor.errors import ToolError
from paor.machine import Refinement, StepCheck
from paor.testing import call_tools, review, scripted_tool, step

from ..support.cases import REASONS, REVIEWING, Run, Spec, draft_of, review_by_rules, run_in, spec
from ..support.planning import END, PLAN, STEP, World, check
from ..support.recording import sections
from ..support.worlds import (
    ANSWER,
    CONTINUE,
    MET,
    PARAMETERS,
    READ,
    REFINE,
    REVIEW,
    SELECT,
    STOP,
    SUCCESS,
    TOOLS,
)

ANSWERED = REFINE("stop", answer="The 3rd.")
LOOK = [SELECT("notes.look"), PARAMETERS(page=1)]
FAILS = [SELECT("notes.fail"), PARAMETERS(page=1)]
CHOICES = ("auto", "model", "rules")


def concluded(stop: str, choice: str = "auto", *, criteria: tuple[str, ...] = (), **memory: Any) -> Run:
    """Return a run that has concluded for the reason *stop*."""
    of = spec(limits={"completion_review": choice}, success_criteria=criteria)
    return run_in(REVIEWING, of, counters={"concluded": 1, "stop": stop}, **memory)


def refined(decision: Any, answer: str | None) -> Refinement:
    """Return the last refinement."""
    return Refinement(decision=decision, reason="r", answer=answer)


# -- who decides -----------------------------------------------------------------------------------------------------


def test_a_run_of_an_earlier_version_is_judged_by_the_model_as_it_was() -> None:
    """Its limits do not have the setting; a new run's limits write it down."""
    written = spec().model_dump(mode="json", by_alias=True)
    assert Spec.model_validate(written).limits.completion_review == "auto"
    del written["limits"]["completion_review"]
    assert Spec.model_validate(written).limits.completion_review == "model"


@pytest.mark.parametrize(
    ("memory", "draft"),
    [
        ({}, ""),
        ({"answer": "a"}, "a"),
        ({"answer": " a\n"}, "a"),
        ({"answer": "  "}, ""),
        ({"refinement": refined("stop", " b ")}, "b"),
        ({"refinement": refined("stop", None)}, ""),
        ({"refinement": refined("continue", "b")}, ""),
        ({"answer": "a", "refinement": refined("stop", "b")}, "a"),
    ],
)
def test_a_draft_is_what_the_model_answered_when_it_stopped(memory: dict[str, Any], draft: str) -> None:
    """In Planning, or in a refinement that says stop; not what it noted on the way."""
    assert draft_of(concluded("model_stop", **memory)) == draft


@pytest.mark.parametrize(
    "stop", [reason for reason in REASONS if reason not in ("model_stop", "criteria_met")]
)
def test_a_limit_that_stopped_the_run_is_no_success_by_rules(stop: str) -> None:
    """Whatever the model had drafted: nobody has said that it is done."""
    assert review_by_rules(concluded(stop, "rules", answer="a", check=StepCheck("success"))) is None


@pytest.mark.parametrize(
    ("stop", "memory", "status"),
    [
        ("criteria_met", {}, "success"),
        ("criteria_met", {"check": StepCheck("retry", ("torn",))}, "success"),
        ("model_stop", {"check": StepCheck("success")}, "success"),
        ("model_stop", {"answer": "a"}, "success"),
        ("model_stop", {"answer": "a", "check": StepCheck("retry", ("torn",))}, "success"),
        ("model_stop", {"refinement": refined("stop", "b"), "check": StepCheck("retry")}, "success"),
        ("model_stop", {"refinement": refined("continue", "b"), "check": StepCheck("retry")}, "failed"),
        ("model_stop", {"check": StepCheck("retry", ("torn",))}, "failed"),
        ("model_stop", {}, "failed"),
    ],
)
def test_by_rules_a_run_succeeds_with_its_criteria_an_answer_or_its_last_action(
    stop: str, memory: dict[str, Any], status: str
) -> None:
    """Else it fails, with what was wrong with the last action."""
    review = review_by_rules(concluded(stop, "rules", **memory))
    assert review is not None and review.status == status
    assert review.improvements == (memory["check"].improvements if status == "failed" and memory else ())
    assert review.answer is None


ENDS: dict[str, tuple[str, list[Any], dict[str, Any], tuple[str, ...]]] = {
    "react, a stop with an answer": ("react", [*READ(1), ANSWERED], {}, ("Done", "model", "Done")),
    "react, a direct answer": ("react", [ANSWER("The 3rd.")], {}, ("Done", "model", "Done")),
    "react, a stop without an answer": ("react", [*READ(1), STOP], {}, ("model", "model", "Done")),
    "react, a stop after a failure": ("react", [*FAILS, STOP], {}, ("model", "model", "review_failed")),
    "react, an answer after a failure": ("react", [*FAILS, ANSWERED], {}, ("model", "model", "model")),
    "react, an answer and a criterion": (
        "react",
        [*READ(1), ANSWERED],
        {"success_criteria": ["c"]},
        ("model", "model", "Done"),
    ),
    "react, every criterion met": (
        "react",
        [*READ(1), REFINE("continue", criteria=[MET("c")])],
        {"success_criteria": ["c"]},
        ("model", "model", "Done"),
    ),
    "react, no step left": ("react", [*READ(1), CONTINUE], {"max_steps": 1}, ("model", "model", "max_steps")),
    "react, no refinement to be read": ("react", [*READ(1), "?", "?"], {}, ("model", "model", "Done")),
    "planner, an answer": ("planner", [PLAN(STEP(page=1)), END("The 3rd.")], {}, ("Done", "model", "Done")),
    "planner, no plan left": (
        "planner",
        [PLAN(STEP(page=1))],
        {"max_plans": 1},
        ("model", "model", "max_plans"),
    ),
    "batch, the plan is done": ("batch", [PLAN(STEP(page=1))], {}, ("model", "model", "Done")),
}
"""Mode, script up to the stop, options, and what comes of it with each setting: ``model`` where the model is asked."""


def apart(options: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the criteria and the numbers of a run's options."""
    return options.get("success_criteria", []), {
        key: options[key] for key in options if key != "success_criteria"
    }


@pytest.mark.filterwarnings("ignore:mode='batch':DeprecationWarning")
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("case", ENDS)
def test_every_end_is_judged_as_the_setting_says(tmp_path: Path, case: str, choice: Any) -> None:
    """In each mode, for each reason to stop: asked or not, how it ends, and a replay that agrees."""
    mode, script, options, expected = ENDS[case]
    criteria, numbers = apart(options)
    limits = Limits(completion_review=choice, **numbers)
    end = expected[CHOICES.index(choice)]
    with World(tmp_path, [*script, SUCCESS], limits=limits) as world:
        result = world.run("Read", criteria, mode=mode)
        check(world)
    assert ("review" in world.model.kinds) is (end == "model")
    assert len(world.model.kinds) == len(script) + (end == "model")
    assert (result.state == "Done") is (end in ("Done", "model"))
    assert result.state == "Done" or result.reason == end
    if end == "Done":
        assert (world.rows[-1].trigger, world.rows[-1].request) == ("finish", {"kind": "none"})
        assert result.answer.startswith(
            "The 3rd." if "answer" in case and "without" not in case else "Done: "
        )


def test_an_answer_in_planning_is_newer_than_any_refinements(tmp_path: Path) -> None:
    """What was noted on the way, or said in an attempt that was sent back, is not the end's message."""
    on_the_way = [*READ(1), REFINE("continue", answer="partial"), ANSWER("full")]
    with World(tmp_path / "way", on_the_way) as world:
        assert world.run().answer == "full"
    sent_back = [
        *READ(1),
        REFINE("stop", answer="first"),
        REVIEW("retry", "more"),
        ANSWER("second"),
        REVIEW("success"),
    ]
    with World(tmp_path / "back", sent_back, limits=Limits(completion_review="model")) as world:
        assert world.run().answer == "second"
        assert "second" in sections(world.model.of("review")[1])["Draft answer"]
        check(world)


# -- Done is true -----------------------------------------------------------------------------------------------------


FAILED = [REVIEW("failed", answer="O-2 was never looked up.")]
JUDGED: dict[str, tuple[str, list[Any], dict[str, Any], str]] = {
    "after an answer": ("react", [*READ(1), ANSWERED], {}, "model_stop"),
    "after an answer without a call": ("react", [ANSWER("The 3rd.")], {}, "model_stop"),
    "every criterion met by the model's word": (
        "react",
        [*READ(1), REFINE("stop", answer="The 3rd.", criteria=[MET("c")])],
        {"success_criteria": ["c"]},
        "criteria_met",
    ),
    "a criterion open": ("react", [*READ(1), ANSWERED], {"success_criteria": ["c"]}, "model_stop"),
    "the last call failed": ("react", [*FAILS, ANSWERED], {}, "model_stop"),
    "no answer": ("react", [*READ(1), STOP], {}, "model_stop"),
    "planner": ("planner", [PLAN(STEP(page=1)), END("The 3rd.")], {}, "model_stop"),
    "batch": ("batch", [PLAN(STEP(page=1))], {}, "model_stop"),
    "native": ("native", [call_tools(step("notes.read", page=1)), "The 3rd."], {}, "model_stop"),
}


@pytest.mark.filterwarnings("ignore:mode='batch':DeprecationWarning")
@pytest.mark.parametrize("case", JUDGED)
@pytest.mark.parametrize("words", ["answer", "improvements", "none"])
def test_A073_a_review_that_says_failed_ends_failed_with_its_words(
    tmp_path: Path, case: str, words: str
) -> None:
    """In every mode, with and without criteria, whatever the model has drafted; the draft is not handed out as an answer."""
    mode, script, options, stop = JUDGED[case]
    criteria, numbers = apart(options)
    given: dict[str, dict[str, Any]] = {
        "answer": {"answer": "O-2 is open."},
        "improvements": {"improvements": ["look O-2 up"]},
        "none": {},
    }
    review = {"status": "failed", **given[words]}
    limits = Limits(completion_review="model", **numbers)
    profile = {"profile": "native"} if mode == "native" else {"mode": mode}
    with World(tmp_path, [*script, review], TOOLS, limits=limits) as world:
        result = world.run("Read", criteria, **profile)
        check(world)
    assert (result.state, result.reason) == ("Failed", "review_failed")
    assert [row.outcome.get("stop") for row in world.rows if row.trigger == "conclude"] in ([stop], [])
    assert "The 3rd." not in result.answer
    assert {
        "answer": "O-2 is open.",
        "improvements": "Still missing:\n- look O-2 up",
        "none": "Not finished",
    }[words] in result.answer


@pytest.mark.filterwarnings("ignore:mode='batch':DeprecationWarning")
@pytest.mark.parametrize("case", [case for case in JUDGED if case != "batch"])
def test_A073_a_review_that_says_retry_goes_back_to_planning(tmp_path: Path, case: str) -> None:
    """In every mode; the next attempt reads what is asked for, and its own review ends the run."""
    mode, script, options, _ = JUDGED[case]
    criteria, numbers = apart(options)
    limits = Limits(completion_review="model", **numbers)
    profile = {"profile": "native"} if mode == "native" else {"mode": mode}
    others: dict[str, list[Any]] = {"planner": [END("The 4th.")], "native": ["The 4th."]}
    again = others.get(mode, [ANSWER("The 4th.")])
    retried = [*script, REVIEW("retry", "look O-2 up"), *again, REVIEW("success")]
    with World(tmp_path, retried, TOOLS, limits=limits) as world:
        result = world.run("Read", criteria, **profile)
        check(world)
    assert (result.state, result.answer) == ("Done", "The 4th.")
    assert [row.dest for row in world.rows if row.trigger == "retry"] == ["Planning"]
    asked = world.model.calls[len(script) + 1].messages
    assert any("look O-2 up" in message.text for message in asked)


@pytest.mark.parametrize("choice", ["auto", "rules"])
@pytest.mark.parametrize("case", ["failed", "refused", "denied"])
def test_A073_code_ends_no_run_whose_last_call_failed(tmp_path: Path, choice: Any, case: str) -> None:
    """The review is asked, and reads what failed; whoever answers after a later call that succeeded is not asked."""
    bad = {
        "failed": [SELECT("notes.fail"), PARAMETERS(page=1)],
        "refused": [SELECT("notes.read"), PARAMETERS(page="no"), PARAMETERS(page="no")],
        "denied": [SELECT("notes.send", {"text": "string"}), PARAMETERS(text="Hello")],
    }[case]
    limits = Limits(completion_review=choice)
    policy = Policy(approvals=("notes.send",))
    called = {"failed": "notes.fail", "refused": "notes.read", "denied": "notes.send"}[case]
    with World(tmp_path / "bad", [*bad, ANSWERED, REVIEW("success")], limits=limits, policy=policy) as world:
        result = world.run()
        if case == "denied":
            result = world.engine.resume(result.run_id, answer={"approve": False})
        assert result.state == "Done"
        told = sections(world.model.of("review")[0])["What limited the run"]
        check(world)
    assert f"The last call, {called}, failed" in told
    with World(
        tmp_path / "good", [*bad, CONTINUE, *READ(1), ANSWERED], limits=limits, policy=policy
    ) as world:
        result = world.run()
        if case == "denied":
            result = world.engine.resume(result.run_id, answer={"approve": False})
        assert result.state == "Done"
        assert "review" not in world.model.kinds


@pytest.mark.parametrize("choice", ["auto", "rules"])
@pytest.mark.parametrize("effect", ["once", "read"])
@pytest.mark.parametrize("later", [False, True])
def test_code_judges_no_failed_call_that_a_later_one_hides(choice: Any, effect: Any, later: bool) -> None:
    """One of the same reply, and one with an effect in any reply; the review reads which."""
    tools = [
        scripted_tool("bank.pay", [ToolError("card declined")], effect=effect),
        scripted_tool("notes.look", ["seen"], effect="read"),
    ]
    calls = [step("bank.pay"), step("notes.look")]
    turns = [call_tools(call) for call in calls] if later else [call_tools(*calls)]
    model = ScriptedModel([*turns, call_tools(text="It is paid"), review("success")], calls_tools=True)
    with Journal(":memory:", "off") as journal, Engine(model, tools, journal, builtins=False) as engine:
        result = engine.run("Pay", profile="native", limits={"completion_review": choice})
        assert result.state == "Done"
        assert replay(journal, result.run_id).identical
        told = str(why(journal, result.run_id).wire())
    judged_by_model = effect == "once" or not later
    assert ("the completion review says success" in told) == judged_by_model
    assert ("and the last call did not fail" in told) != judged_by_model


def test_why_of_a_run_without_a_call_speaks_of_none(tmp_path: Path) -> None:
    """Nothing that did not happen is said not to have failed."""
    with World(tmp_path, [ANSWER("It is the 4th.")]) as world:
        assert world.run().state == "Done"
        told = str(why(world.journal, world.run_id, world.rows[-1].seq).wire())
    assert "no tool was called" in told and "the last call" not in told


def test_why_says_who_has_judged(tmp_path: Path) -> None:
    """A model or code: no row says that a review was made which was not."""
    told = {}
    for name, script, limits in (
        ("code", [*READ(1), ANSWERED], Limits(completion_review="auto")),
        ("model", [*READ(1), ANSWERED, REVIEW("success")], Limits(completion_review="model")),
    ):
        with World(tmp_path / name, script, limits=limits) as world:
            assert world.run().state == "Done"
            told[name] = str(why(world.journal, world.run_id, world.rows[-1].seq).wire())
    assert "judged success by code, no model was asked" in told["code"]
    assert "completion review says" not in told["code"]
    assert "the completion review says success" in told["model"] and "by code" not in told["model"]
