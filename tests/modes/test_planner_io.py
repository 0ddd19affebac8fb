"""What a planner's reply gives to a workflow, and that its loop ends as the document says."""

from __future__ import annotations

import pytest

from paor.fsm.decision.workflow_mode import planner_outputs
from paor.fsm.workflow.expressions.evaluator import holds
from paor.prompts.parsing.plans import read_plan

from ..support.cases import PLANNER_OUTPUTS, Plan, Step

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


@pytest.mark.parametrize(
    "reply", ["null", '{"steps": []}', '{"steps": [{"type": "noop"}]}', '{"steps": [{}, null]}']
)
def test_C11_a_plan_of_nothing_ends_the_loop(reply: str) -> None:
    """Nothing is executed for a plan that only has steps which do nothing."""
    plan = read_plan(reply, chars_max=1000)
    assert isinstance(plan, Plan)
    found = planner_outputs(plan, said=reply)
    assert not holds("len(plan.steps) > 0", found) and found["answer"] == ""
