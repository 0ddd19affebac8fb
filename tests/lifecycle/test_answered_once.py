"""A message settles the question that it is for, once: delivered again, or to a fork, it changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paor import Limits, Policy, Question, Result, Tool, tool
from paor.errors import AlreadyAnswered, InvalidAnswer
from paor.testing import SeededIds

from ..crash.test_plan_crashes import losing_at
from ..support.inside import QuestionRecord
from ..support.journey import Lost
from ..support.planning import ASK, END, PLAN, World
from ..support.worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS, send

ASKS = Policy(approvals=("bank.pay",))


def paying(paid: list[int]) -> Tool:
    @tool("bank.pay", effect="once", repeat_allowed=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    return pay


def call(amount: int) -> list[Any]:
    return [SELECT("bank.pay", {"amount": "number"}), PARAMETERS(amount=amount)]


def heads(world: World) -> list[tuple[str, int, bytes]]:
    return [(run.run_id, run.head_seq, run.head_hash) for run in world.journal.runs()]


def question(result: Result) -> Question:
    assert result.status == "waiting" and result.waiting_for is not None
    return result.waiting_for


def refused(world: World, run_id: str, error: type[InvalidAnswer] = AlreadyAnswered, **message: Any) -> str:
    """Deliver a message that is refused, in one line and with nothing changed."""
    before = heads(world)
    with pytest.raises(error) as told:
        world.engine.resume(run_id, **message)
    assert type(told.value) is error and "\n" not in str(told.value)
    assert heads(world) == before
    return str(told.value)


@pytest.mark.parametrize("names", ["the approval", "the question", "nothing"])
def test_an_approval_that_is_delivered_again_pays_once(names: str, tmp_path: Path) -> None:
    """The same call with the same arguments under the same policy comes three times; each is asked about."""
    paid: list[int] = []
    script = [*call(500), CONTINUE, *call(500), CONTINUE, *call(500), STOP, SUCCESS]
    with World(tmp_path, script, [paying(paid)], policy=ASKS, limits=Limits(max_steps=5)) as world:
        result = world.run()
        first = question(result)
        messages: dict[str, dict[str, Any]] = {
            "the approval": {"answer": {"approve": True, "approval": first.id}},
            "the question": {"answer": {"approve": True}, "question": first.id},
            "nothing": {"answer": {"approve": True}},
        }
        message = messages[names]
        second = question(world.engine.resume(result.run_id, **message))
        assert paid == [500] and second.id not in (first.id, None) and second.approval == second.id
        told = refused(world, result.run_id, **message)
        assert second.id in told and (first.id in told) is (names != "nothing") and paid == [500]
        third = question(world.engine.resume(result.run_id, answer={"approve": True}, question=second.id))
        assert paid == [500, 500]
        done = world.engine.resume(result.run_id, answer={"approve": True, "approval": third.approval})
        assert done.state == "Done" and paid == [500, 500, 500]
        assert "takes no answer" in refused(world, result.run_id, **message)
        assert world.engine.resume(result.run_id).state == "Done"


def test_a_fork_asks_anew(tmp_path: Path) -> None:
    """What was told to the parent, or is addressed to it, counts neither for a fork nor while one is made."""
    paid: list[int] = []
    ids = SeededIds("forks")
    with World(tmp_path, [*call(500), STOP, SUCCESS] * 2, [paying(paid)], policy=ASKS, ids=ids) as world:
        run_id = (result := world.run()).run_id
        message = {"approve": True, "approval": question(result).id}
        with pytest.raises(InvalidAnswer, match="asks anew"):
            world.engine.fork(run_id, 1, answer=message)
        fork = world.engine.fork(run_id, 1, drive=False)
        assert question(fork).id != question(result).id
        refused(world, fork.run_id, InvalidAnswer, answer=message)
        refused(world, fork.run_id, InvalidAnswer, answer={"approve": True}, question=question(result).id)
        assert world.engine.resume(run_id, answer=message).state == "Done" and paid == [500]
        refused(world, fork.run_id, InvalidAnswer, answer=message)


@pytest.mark.parametrize("outcome", ["done", "retry", "fail"])
@pytest.mark.parametrize("named", [True, False])
def test_an_outcome_that_is_delivered_again_settles_no_other_doubt(
    outcome: str, named: bool, tmp_path: Path
) -> None:
    """The first message comes again when another effect is in doubt, of the same tool with other arguments."""
    paid: list[int] = []
    script = [*call(1), CONTINUE, *call(2), STOP, SUCCESS]
    with World(tmp_path, script, [paying(paid)], hooks=[losing_at(1)]) as world, pytest.raises(Lost):
        world.run()
    with World(tmp_path, script, [paying(paid)], ids=SeededIds("second")) as world:
        run_id = world.journal.runs()[0].run_id
        first = question(world.engine.resume(run_id))
    message: dict[str, Any] = {"outcome": outcome, "result": "by hand" if outcome != "retry" else None}
    if named:
        message["question"] = first.id
    with World(tmp_path, script, [paying(paid)], ids=SeededIds("third"), hooks=[losing_at(8)]) as world:
        with pytest.raises(Lost):
            world.engine.resume(run_id, **message)
        before = list(paid)
    with World(tmp_path, script, [paying(paid)], ids=SeededIds("fourth")) as world:
        second = question(world.engine.resume(run_id))
        assert (first.kind, second.kind) == ("in_doubt", "in_doubt") and first.id != second.id
        told = refused(world, run_id, **message)
        assert second.id in told and paid == before
        done = world.engine.resume(run_id, outcome="retry", question=second.id)
        assert done.state == "Done" and paid == [*before, 2]


def test_an_answer_to_a_planner_settles_no_later_question(tmp_path: Path) -> None:
    """Two questions of one conversation; the first answer comes twice, then the second without a name."""
    script = [PLAN(ASK()), PLAN(ASK("Which book?")), END(), SUCCESS]
    with World(tmp_path, script, [send]) as world:
        result = world.run(mode="planner")
        second = world.engine.resume(result.run_id, answer={"page": 1}, question=question(result).id)
        told = refused(world, result.run_id, answer={"page": 1}, question=question(result).id)
        assert "settled" in told and "Which book?" in told
        refused(world, result.run_id, answer={"book": "B"})
        refused(world, result.run_id, InvalidAnswer, answer={"book": "B"}, question="7-0123")
        refused(world, result.run_id, InvalidAnswer, answer={"book": "B"}, question="")
        done = world.engine.resume(result.run_id, answer={"book": "B"}, question=question(second).id)
        assert done.state == "Done"


@pytest.mark.parametrize(
    "answer", [{"approval": True}, {"approval": "granted"}, {"content": {"approval": 1}}]
)
@pytest.mark.parametrize("named", [True, False])
def test_an_answer_with_a_key_called_approval_is_told_that_it_came_twice(
    answer: dict[str, Any], named: bool, tmp_path: Path
) -> None:
    """A planner's question has keys of its own; delivered again, when an approval is open or the run has ended."""
    paid: list[int] = []
    script = [PLAN(ASK()), PLAN({"type": "tool", "name": "bank.pay", "args": {"amount": 1}}), END(), SUCCESS]
    with World(tmp_path, script, [paying(paid)], policy=ASKS) as world:
        result = world.run(mode="planner")
        message: dict[str, Any] = {"answer": answer}
        if named:
            message["question"] = question(result).id
        second = question(world.engine.resume(result.run_id, **message))
        assert second.kind == "approval"
        refused(world, result.run_id, AlreadyAnswered if named else InvalidAnswer, **message)
        world.engine.resume(result.run_id, answer={"approve": True}, question=second.id)
        refused(world, result.run_id, **message)
        assert paid == [1]


def test_a_message_to_a_run_that_never_asked_is_told_so(tmp_path: Path) -> None:
    with World(tmp_path, [*call(1), STOP, SUCCESS], [paying([])]) as world:
        run_id = world.run().run_id
        assert "takes no answer" in refused(world, run_id, InvalidAnswer, answer={"approve": True})
        refused(world, run_id, InvalidAnswer, answer={"approve": True}, question="1-00")
        with pytest.raises(InvalidAnswer, match="comes with an answer"):
            world.engine.resume(run_id, question="1-00")


def test_what_the_id_of_a_question_is_bound_to() -> None:
    """The run, the row, the question with its tool, action and policy, and the call's arguments."""
    asked = QuestionRecord(kind="approval", message="May it?", tool="bank.pay", key="r-1", approval="0f")
    others = [asked.model_copy(update={name: "other"}) for name in ("message", "tool", "key", "approval")]
    bound = {
        Question.of(item, run_id, seq, key=key).id
        for item in (asked, *others)
        for run_id in ("r", "s")
        for seq in (1, 2)
        for key in ("k", "l", None)
    }
    assert len(bound) == 5 * 2 * 2 * 3
    read = QuestionRecord.model_validate_json(asked.wire_json())
    assert Question.of(read, "r", 1, key="k") == Question.of(asked, "r", 1, key="k")
