"""What the planner and the executor give to a workflow, and that the two together end as the document says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor.fsm.expressions import holds
from paor.fsm.planner_io import executor_outputs, planner_outputs
from paor.prompts.plans import read_plan
from paor.prompts.replies import DirectAnswer
from paor.states.plans import Elicitation, Plan, PlanResult, Step
from paor.states.workflow import EXECUTOR_OUTPUTS, PLANNER_OUTPUTS

EARLIER = [{"id": "", "name": "a.b", "args": {}, "result": 1, "error": ""}]
SPOKEN = [{"role": "user", "content": "hello"}]


def test_A147_the_planner_gives_results_on_and_adds_to_the_transcript() -> None:
    """Exactly the document's five outputs."""
    plan = Plan(steps=(Step(name="a.b"),))
    found = planner_outputs(plan, said="I look.", results=EARLIER, transcript=SPOKEN)
    assert set(found) == set(PLANNER_OUTPUTS)
    assert found["results"] == EARLIER and found["plan"] == plan.wire() and found["answer"] is None
    assert found["transcript"][0] == SPOKEN[0]
    assert [found["transcript"][1][key] for key in ("role", "content")] == ["assistant", "I look."]
    assert planner_outputs(plan, said=" ")["transcript"] == []


def test_A138_a_direct_answer_has_no_plan() -> None:
    """And the loop ends."""
    found = planner_outputs(DirectAnswer("18 days"), said="18 days")
    assert (found["plan"], found["answer"], found["elicitation"]) == (None, "18 days", None)
    assert not holds("len(plan.steps) > 0", found)


def test_A143_a_question_of_the_plan_is_an_output() -> None:
    """Also of a plan with steps."""
    question = Elicitation(message="Which?")
    for steps in ((), (Step(name="a.b"),)):
        found = planner_outputs(Plan(steps=steps, elicitation=question), said="")
        assert found["elicitation"] == question.wire() == found["plan"]["elicitation"]


@pytest.mark.parametrize("reply", ["null", "{}", '{"steps": [{"type": "noop"}]}', '{"steps": [{}, null]}'])
def test_C11_a_plan_of_nothing_ends_the_loop(reply: str) -> None:
    """Nothing is executed for a plan that only has steps which do nothing."""
    plan = read_plan(reply, chars_max=1000)
    assert isinstance(plan, Plan)
    found = planner_outputs(plan, said=reply)
    assert not holds("len(plan.steps) > 0", found) and found["answer"] == ""


def test_A144_A151_results_are_appended_and_earlier_ones_stay_first() -> None:
    """With one message for each call, under the call's id."""
    done = [
        PlanResult(id="c1", name="web.fetch", args={"url": "x"}, result={"a": [1]}),
        PlanResult(id="c2", name="web.fetch", error="no route"),
        PlanResult(name="cat.file", result="old", error="duplicate_call_blocked"),
    ]
    found = executor_outputs(done, results=EARLIER, transcript=SPOKEN)
    assert set(found) == set(EXECUTOR_OUTPUTS) and found["elicitation"] is None
    assert found["results"] == [*EARLIER, *(result.wire() for result in done)]
    said = [(item["role"], item["content"], item["tool_call_id"]) for item in found["transcript"][1:]]
    assert said == [
        ("tool", '{"a":[1]}', "c1"),
        ("tool", "Error: no route", "c2"),
        ("tool", "Error: duplicate_call_blocked\nold", None),
    ]


def test_a_huge_output_is_not_put_into_the_transcript() -> None:
    """It stays in the results."""
    (message,) = executor_outputs([PlanResult(name="a.b", result=["x" * 1_000_001])])["transcript"]
    assert message["content"] == "(an output of more than 1,000,000 characters)"


RESULTS = st.builds(
    PlanResult, name=st.just("a.b"), result=st.none() | st.integers() | st.text(), error=st.text()
)


@given(st.lists(st.lists(RESULTS, max_size=3), max_size=5))
def test_A145_A151_nothing_that_was_given_is_ever_taken_back(rounds: list[list[PlanResult]]) -> None:
    """Each round's outputs begin with those of the round before; all of it is JSON."""
    results: list[Any] = []
    transcript: list[Any] = []
    for done in rounds:
        found = executor_outputs(done, results=results, transcript=transcript)
        assert (
            found["results"][: len(results)] == results
            and found["transcript"][: len(transcript)] == transcript
        )
        assert len(found["results"]) == len(results) + len(done)
        results, transcript = found["results"], found["transcript"]
    assert json.loads(json.dumps([results, transcript])) == [results, transcript]
