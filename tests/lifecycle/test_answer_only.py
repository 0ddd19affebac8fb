"""An answer as one row, and nothing driven: with the engine, and by the run's own record without it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paor import (
    Engine,
    Journal,
    Limits,
    Policy,
    Question,
    Result,
    ScriptedModel,
    Task,
    Tool,
    ToolContext,
    replay,
    tool,
)
from paor.errors import (
    AlreadyAnswered,
    AnswerNeeded,
    EffectUnknown,
    InvalidAnswer,
    LeaseHeld,
    RunChanged,
    ToolError,
    UnknownRun,
)
from paor.events import Event, RunWaiting, TransitionTaken
from paor.fsm.lifecycle.answer import answer_run, answer_to, runner_as_recorded
from paor.fsm.lifecycle.cancel import cancel
from paor.fsm.lifecycle.fork import fork_acquisition
from paor.testing import SeededIds

from ..support.own_machines import World as OwnWorld
from ..support.own_machines import pay_script, two_reviewers
from ..support.planning import NOTHING, PLAN, STEP, World, ends
from ..support.worlds import STOP, SUCCESS
from .test_questions import CALL, pay, unsure

ASKS = Policy(approvals=("bank.*",))
OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


@tool("bank.pay", effect="idempotent")
def asking(to: str, amount: int, context: ToolContext, note: str = "thanks") -> str:
    """Pay."""
    if context.resumption is None:
        raise AnswerNeeded("Really?", OK)
    return "paid"


PLANNED = [*[PLAN(STEP("bank.pay", to="ann", reason="pay her"))] * 2, NOTHING, SUCCESS]
ELICITED = [{"elicitation": {"message": "Which?"}}, NOTHING, SUCCESS]
KINDS: dict[str, tuple[Tool, Policy, list[Any], str | None, dict[str, Any], dict[str, Any]]] = {
    "approval": (
        pay,
        ASKS,
        [*CALL, STOP, SUCCESS],
        None,
        {"answer": {"approve": True}},
        {"answer": {"approve": "x"}},
    ),
    "denial": (pay, ASKS, [*CALL, STOP, SUCCESS], None, {"answer": {"approve": False}}, {"answer": None}),
    "done": (
        unsure,
        Policy(),
        [*CALL, STOP, SUCCESS],
        None,
        {"outcome": "done", "result": "by hand"},
        {"outcome": "so"},
    ),
    "fail": (
        unsure,
        Policy(),
        [*CALL, STOP, SUCCESS],
        None,
        {"outcome": "fail", "result": "no"},
        {"answer": True},
    ),
    "tool asks": (
        asking,
        Policy(),
        [*CALL, STOP, SUCCESS],
        None,
        {"answer": {"ok": True}},
        {"answer": {"ok": 1}},
    ),
    "argument": (pay, Policy(), PLANNED, "planner", {"answer": {"amount": 5}}, {"answer": {"amount": "x"}}),
    "planner asks": (pay, Policy(), ELICITED, "planner", {"answer": {"page": 1}}, {"outcome": "done"}),
}
"""Of each kind of question: its tool, policy, script and mode, an answer that fits, and one that does not."""


def asked(result: Result) -> Question:
    assert result.status == "waiting" and result.waiting_for is not None
    return result.waiting_for


def triggers(journal: Journal, run_id: str) -> list[str]:
    return [row.trigger for row in journal.transitions(run_id)]


@pytest.fixture(name="other")
def make_other(tmp_path: Path) -> Iterator[Any]:
    """Return a function that gives what answers by the record alone, over a journal of its own."""
    opened: list[Journal] = []

    def other() -> Any:
        opened.append(Journal(tmp_path / "runs.db"))
        return runner_as_recorded(opened[-1].store)

    yield other
    for journal in opened:
        journal.close()


@pytest.mark.parametrize("by", ["the engine", "the record"])
@pytest.mark.parametrize("name", KINDS)
def test_an_answer_is_one_row_and_nothing_is_driven(name: str, by: str, tmp_path: Path, other: Any) -> None:
    """Whatever was asked; then any process goes on, and the run verifies and replays as if it had been resumed at once."""
    made, policy, script, mode, fitting, wrong = KINDS[name]
    with World(tmp_path, script, [made], policy=policy) as world:
        question = asked(world.run(**({"mode": mode} if mode else {})))
        before, asks = triggers(world.journal, world.run_id), len(world.model.calls)

        def answer(**message: Any) -> tuple[str, int]:
            own = {"question": question.id, "actor": " ann \n", "reason": "seen", **message}
            if by == "the engine":
                return world.engine.answer(world.run_id, **own)
            return answer_run(other(), world.run_id, **own)

        with pytest.raises(InvalidAnswer):
            answer(**wrong)
        assert triggers(world.journal, world.run_id) == before
        assert answer(**fitting) == (world.run_id, len(before))
        assert triggers(world.journal, world.run_id) == [*before, "provide"]
        assert len(world.model.calls) == asks and world.journal.run(world.run_id).status == "running"
        given = answer_to(world.journal.reader, world.run_id, question.id)
        assert given is not None and (given.actor, given.reason) == ("ann", "seen")
        with pytest.raises(AlreadyAnswered, match="is settled"):
            answer(**fitting)
        assert world.engine.resume(world.run_id).state == "Done"
        assert world.journal.verify() == [] and replay(world.journal, world.run_id, world.engine).identical
        with pytest.raises(AlreadyAnswered, match="has ended"):
            answer(**fitting)


def test_an_answer_on_an_event_loop(tmp_path: Path) -> None:
    """Holds it up for nobody: what is written is written in a thread, and refused as without one."""
    threads: list[threading.Thread] = []
    with World(tmp_path, [*CALL, STOP, SUCCESS], [pay], policy=ASKS) as world:
        question = asked(world.run())
        world.engine.hooks = (lambda event: threads.append(threading.current_thread()),)
        own: dict[str, Any] = {"question": question.id, "actor": "ann", "reason": "seen"}

        async def answers() -> tuple[str, int]:
            with pytest.raises(InvalidAnswer):
                await world.engine.aanswer(world.run_id, outcome="done", result=1, **own)
            return await world.engine.aanswer(world.run_id, answer={"approve": True}, **own)

        rows = triggers(world.journal, world.run_id)
        assert asyncio.run(answers()) == (world.run_id, len(rows))
        assert triggers(world.journal, world.run_id) == [*rows, "provide"]
        given = answer_to(world.journal.reader, world.run_id, question.id)
        assert given is not None and (given.actor, given.reason) == ("ann", "seen")
        assert len(threads) == 1 and threads[0] is not threading.current_thread()


def test_hooks_hear_of_the_row(tmp_path: Path) -> None:
    """So that what follows a run by its events misses none."""
    heard: list[Event] = []
    with World(tmp_path, [*CALL, STOP, SUCCESS], [pay], policy=ASKS) as world:
        question = asked(world.run())
        world.engine.hooks = (heard.append,)
        world.engine.answer(world.run_id, question=question.id, answer={"approve": True}, actor="ann")
        (event,) = heard
        assert event.kind == "transition" and (event.trigger, event.actor) == ("provide", "ann")


def test_the_task_of_a_workflow_takes_the_answer(tmp_path: Path, other: Any) -> None:
    """Under the name of either; the workflow then goes on with its task."""
    script = [lambda call: SUCCESS if call.kind == "review" else CALL[0], CALL[1], STOP, SUCCESS]
    with World(tmp_path, script, [pay], policy=ASKS) as world:
        flow = world.engine.run_workflow("Pay ann", tasks=[Task("Pay her")])
        question = asked(flow)
        taken, seq = answer_run(other(), flow.run_id, question=question.id, answer={"approve": True})
        assert taken == question.run_id and triggers(world.journal, taken)[seq] == "provide"
        with pytest.raises(AlreadyAnswered):
            world.engine.answer(flow.run_id, question=question.id, answer={"approve": True})
        assert world.engine.resume(flow.run_id).state == "Done"


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"question": "1-000000000000000000000000"}, InvalidAnswer),
        ({"question": "9-000000000000000000000000"}, InvalidAnswer),
        ({"question": ""}, InvalidAnswer),
        ({"answer": None}, InvalidAnswer),
        ({"actor": " "}, InvalidAnswer),
        ({"reason": "x" * 3000}, InvalidAnswer),
        ({"answer": {"approve": True, "approval": "1-000000000000000000000000"}}, InvalidAnswer),
    ],
)
def test_what_is_refused_changes_nothing(
    message: dict[str, Any], error: type[Exception], tmp_path: Path, other: Any
) -> None:
    """And gives the lease back."""
    with World(tmp_path, [*CALL, STOP, SUCCESS], [pay], policy=ASKS) as world:
        question = asked(world.run())
        before = world.journal.run(world.run_id)
        own = {"question": question.id, "answer": {"approve": True}, **message}
        for answer in (world.engine.answer, lambda run_id, **given: answer_run(other(), run_id, **given)):
            with pytest.raises(error):
                answer(world.run_id, **own)
        assert world.journal.run(world.run_id) == before
        assert not world.journal.store.leases.is_driven(before.run)
        with pytest.raises(UnknownRun):
            world.engine.answer("none", question=question.id, answer={"approve": True})


def test_a_run_that_was_recorded_otherwise_is_refused_by_an_engine_and_not_by_its_record(
    tmp_path: Path, other: Any
) -> None:
    """Another policy would decide what comes after; the answer itself is decided as the run was recorded."""
    with World(tmp_path, [*CALL, STOP, SUCCESS], [pay], policy=ASKS) as world:
        question = asked(world.run())
        with (
            World(tmp_path, [], [pay], policy=Policy(deny=("bank.*",)), ids=SeededIds("x")) as changed,
            pytest.raises(RunChanged),
        ):
            changed.engine.answer(world.run_id, question=question.id, answer={"approve": True})
        answer_run(other(), world.run_id, question=question.id, answer={"approve": True})
        assert world.engine.resume(world.run_id).state == "Done"


def test_whoever_drives_the_run_is_not_disturbed(tmp_path: Path, other: Any) -> None:
    """While another has the lease nothing is written."""
    with World(tmp_path, [*CALL, STOP, SUCCESS], [pay], policy=ASKS) as world:
        question = asked(world.run())
        number = world.journal.run(world.run_id).run
        fence = world.journal.store.leases.acquire(number)
        with pytest.raises(LeaseHeld):
            answer_run(other(), world.run_id, question=question.id, answer={"approve": True})
        world.journal.store.leases.release(number, fence)
        answer_run(other(), world.run_id, question=question.id, answer={"approve": True})


def test_a_run_of_its_hosts_own_machine_takes_its_answers_too(tmp_path: Path) -> None:
    """No function of the host's decides whether an answer is taken, so none is missed; what follows is its engine's."""
    path, tools = tmp_path / "own.db", OwnWorld().tools()
    with Engine(ScriptedModel(pay_script(5)), tools, str(path), machine=two_reviewers()) as engine:
        result = engine.run("Pay five")
        for actor in ("ann", "bob"):
            question = asked(result)
            with Journal(path) as journal:
                own: dict[str, Any] = {"question": question.id, "answer": {"approve": True}, "actor": actor}
                answer_run(runner_as_recorded(journal.store), result.run_id, **own)
            result = engine.resume(result.run_id)
        assert result.state == "Done"
        assert engine.journal.verify() == [] and replay(engine.journal, result.run_id, engine).identical


def test_a_run_is_cancelled_and_forked_by_its_record(tmp_path: Path, other: Any) -> None:
    """Without its tools: both are rows that any process may write; the fork is driven by the engine later."""
    with World(tmp_path, [*CALL, STOP, SUCCESS] * 2, [pay], policy=ASKS) as world:
        question = asked(result := world.run())
        runner = other()
        fork = runner.created_only(fork_acquisition(runner, result.run_id, 1))
        assert asked(fork).id != question.id
        assert cancel(runner, result.run_id).reason == "cancelled"
        answer_run(runner, fork.run_id, question=asked(fork).id, answer={"approve": True})
        assert world.engine.resume(fork.run_id).state == "Done"
        assert world.journal.verify() == []
        assert answer_to(world.journal.reader, result.run_id, question.id) is None


def test_an_overdue_question_can_still_be_answered(tmp_path: Path, other: Any) -> None:
    """As with a resume: until somebody goes on with the run, an answer counts for more than its age."""
    limits = Limits(elicitation_timeout_s=1)
    with World(tmp_path, [*CALL, STOP, SUCCESS], [pay], policy=ASKS, limits=limits) as world:
        question = asked(world.run())
        answer_run(other(), world.run_id, question=question.id, answer={"approve": True})
        assert world.engine.resume(world.run_id).state == "Done"


@tool("bank.pay", effect="once")
def once_in_doubt(to: str, amount: int, note: str = "thanks") -> str:
    """Pay."""
    PAID.append(to)
    if len(PAID) == 1:
        raise EffectUnknown("the connection was lost")
    if len(PAID) == 2:
        raise KeyboardInterrupt  # its process is lost in the call
    return "paid"


PAID: list[str] = []


def test_a_retry_is_done_by_whoever_takes_the_run_up_first_and_by_nobody_after(
    tmp_path: Path, other: Any
) -> None:
    """The first driver after the answer makes the call; one that comes after it may not know what came of it."""
    PAID.clear()
    with World(tmp_path, [*CALL, STOP, SUCCESS], [once_in_doubt]) as world:
        question = asked(world.run())
        assert question.kind == "in_doubt" and len(PAID) == 1
        answer_run(other(), world.run_id, question=question.id, outcome="retry")
        with pytest.raises(KeyboardInterrupt):
            world.engine.resume(world.run_id)
        assert len(PAID) == 2, "the first one makes the call"
        again = asked(world.engine.resume(world.run_id))
        assert again.kind == "in_doubt" and again.id != question.id and len(PAID) == 2
        world.engine.answer(world.run_id, question=again.id, outcome="retry")
        with pytest.raises(AlreadyAnswered):
            world.engine.answer(world.run_id, question=again.id, outcome="retry")
        (result,) = world.engine.recover()
        assert result.state == "Done" and len(PAID) == 3
        assert world.journal.verify() == [] and replay(world.journal, world.run_id, world.engine).identical


def test_whoever_is_refused_after_an_answer_has_begun_nothing(tmp_path: Path, other: Any) -> None:
    """A driver with other parts takes the run and gives it back; the next one makes the call, and is not in doubt."""
    PAID.clear()
    with World(tmp_path, [*CALL, STOP, SUCCESS], [once_in_doubt]) as world:
        question = asked(world.run())
        answer_run(other(), world.run_id, question=question.id, outcome="retry")
        with (
            World(
                tmp_path,
                [],
                [once_in_doubt],
                policy=Policy(deny=("x.*",), missing_ok=True),
                ids=SeededIds("y"),
            ) as changed,
            pytest.raises(RunChanged),
        ):
            changed.engine.resume(world.run_id)
        assert len(PAID) == 1
        with pytest.raises(KeyboardInterrupt):
            world.engine.resume(world.run_id)
        assert len(PAID) == 2


@pytest.mark.parametrize("looks_only", [True, False])
def test_a_call_that_only_looks_is_made_again_after_a_crash_and_another_is_in_doubt(
    tmp_path: Path, looks_only: bool
) -> None:
    """What it began is named by its state; of any other once call that a lost driver went on with nobody knows what it did."""
    begun, looked = list[str](), list[Any]()

    @tool("bank.pay", effect="once")
    def order(to: str, amount: int, context: ToolContext, note: str = "thanks") -> str:
        """Pay."""
        if context.resumption is None:
            begun.append(context.idempotency_key)
            raise AnswerNeeded("It is being paid.", {}, {"number": 7}, looks_only=looks_only)
        looked.append(context.resumption.state)
        if len(looked) == 1:
            raise KeyboardInterrupt
        return "paid"

    with World(tmp_path, [*CALL, STOP, SUCCESS], [order]) as world:
        if not looks_only:
            asked(world.run())
            with pytest.raises(KeyboardInterrupt):
                world.engine.resume(world.run_id, answer={})
            assert asked(world.engine.resume(world.run_id)).kind == "in_doubt" and len(looked) == 1
            return
        with pytest.raises(KeyboardInterrupt):
            world.run()
        assert world.engine.resume(world.run_id).state == "Done"
        assert (len(begun), looked) == (1, [{"number": 7}] * 2)
        assert world.journal.verify() == [] and replay(world.journal, world.run_id, world.engine).identical


class Oven:
    """A tool that bakes in the background: begun once, looked for as often as it is called; there at the look *ready*."""

    def __init__(self, ready: int, *, effect: Any = "once", schema: Any = None) -> None:
        self.begun, self.looked, self.ready = list[str](), 0, ready
        bake = tool("bank.pay", effect=effect)
        self.schema, self.tool = schema, bake(self.bake)

    def bake(self, to: str, amount: int, context: ToolContext, note: str = "thanks") -> str:
        """Pay."""
        if context.resumption is None:
            self.begun.append(context.idempotency_key)
        else:
            self.looked += 1
            if self.looked == self.ready:
                return "paid"
        raise AnswerNeeded("It is being paid.", self.schema, {"number": 7}, looks_only=True)


@pytest.mark.parametrize("ready", [1, 2])
def test_what_a_call_has_begun_is_noted_first_and_asks_nobody(tmp_path: Path, ready: int) -> None:
    """Where it is not there yet, the second time is a question like any other, and the first that a person is asked."""
    oven, limits, heard = Oven(ready), Limits(max_elicitations=ready - 1), list[Event]()
    with World(tmp_path, [*CALL, STOP, SUCCESS], [oven.tool], limits=limits, hooks=[heard.append]) as world:
        result = world.run()
        if ready == 2:
            assert asked(result).message == "It is being paid." and oven.looked == 1
            result = world.engine.resume(world.run_id, answer={})
        assert (result.state, len(oven.begun)) == ("Done", 1)
        rows = world.journal.transitions(world.run_id)
        waits = [row.seq for row in rows if row.trigger == "wait"]
        assert [event.seq for event in heard if isinstance(event, RunWaiting)] == waits[1:]
        assert [rows[seq + 1].trigger for seq in waits] == ["provide"] * ready
        assert rows[-1].counters.get("elicitations", 0) == ready - 1
        told = [event for event in world.engine.events(world.run_id, -1) if isinstance(event, RunWaiting)]
        assert told == [event for event in heard if isinstance(event, RunWaiting)]
        assert world.journal.verify() == [] and replay(world.journal, world.run_id, world.engine).identical


def test_a_first_question_with_a_schema_is_asked_of_a_person(tmp_path: Path) -> None:
    oven = Oven(1, schema=OK)
    with World(tmp_path, [*CALL, STOP, SUCCESS], [oven.tool]) as world:
        assert asked(world.run()).message == "It is being paid." and oven.looked == 0


def test_what_is_begun_after_an_answer_is_noted_too(tmp_path: Path) -> None:
    """A person said yes, and the call began in the background."""

    @tool("bank.pay", effect="once")
    def order(to: str, amount: int, context: ToolContext, note: str = "thanks") -> str:
        """Pay."""
        if context.resumption is None:
            raise AnswerNeeded("Really?", OK)
        if context.resumption.state is None:
            raise AnswerNeeded("It is being paid.", state=7, looks_only=True)
        return "paid"

    with World(tmp_path, [*CALL, STOP, SUCCESS], [order], limits=Limits(max_elicitations=1)) as world:
        asked(world.run())
        assert world.engine.resume(world.run_id, answer={"ok": True}).state == "Done"
        assert world.journal.verify() == []


@pytest.mark.parametrize("at", ["the call", "its note"])
def test_a_run_that_is_cancelled_once_a_call_has_begun_something_leaves_it_in_doubt(
    tmp_path: Path, at: str
) -> None:
    """Nobody looks for it any more, and it may still come to something."""

    @tool("bank.pay", effect="once")
    def order(to: str, amount: int, context: ToolContext, note: str = "thanks") -> str:
        """Pay."""
        assert context.resumption is None
        if at == "the call":
            world.engine.cancel(world.run_id)
        raise AnswerNeeded("It is being paid.", state=7, looks_only=True)

    def stop(event: Event) -> None:
        if at == "its note" and isinstance(event, TransitionTaken) and event.trigger == "wait":
            world.engine.cancel(world.run_id)

    with World(tmp_path, [*CALL, STOP, SUCCESS], [order], hooks=[stop]) as world:
        assert world.run().reason == "cancelled"
        assert world.journal.transitions(world.run_id)[-1].outcome.get("in_doubt") == 1
        assert world.journal.verify() == []


def test_a_step_that_is_tried_again_begins_anew_and_its_second_note_asks_nobody_too(tmp_path: Path) -> None:
    """What the first attempt had begun has failed."""
    begun, looked = list[int](), list[Any]()

    @tool("bank.pay", effect="idempotent")
    def order(to: str, amount: int, context: ToolContext, note: str = "thanks") -> str:
        """Pay."""
        if context.resumption is None:
            begun.append(len(begun))
            raise AnswerNeeded("It is being paid.", state=begun[-1], looks_only=True)
        looked.append(context.resumption.state)
        if len(looked) == 1:
            raise ToolError("declined")
        return "paid"

    plan = PLAN(STEP("bank.pay", to="ann", amount=3, retries=1))
    limits = Limits(max_elicitations=0)
    with World(tmp_path, ends("planner", plan), [order], limits=limits) as world:
        assert world.run(mode="planner").state == "Done"
        assert looked == begun == [0, 1]
        assert world.journal.verify() == [] and replay(world.journal, world.run_id, world.engine).identical


def test_an_answer_to_a_question_of_a_once_call_lets_it_go_on_elsewhere(tmp_path: Path, other: Any) -> None:
    """It asked before it did anything, and nobody has called it since."""

    @tool("bank.pay", effect="once")
    def ask_first(to: str, amount: int, context: ToolContext, note: str = "thanks") -> str:
        """Pay."""
        if context.resumption is None:
            raise AnswerNeeded("Really?", OK)
        return "paid"

    with World(tmp_path, [*CALL, STOP, SUCCESS], [ask_first]) as world:
        question = asked(world.run())
        answer_run(
            other(), world.run_id, question=question.id, answer={"action": "accept", "content": {"ok": True}}
        )
        assert world.engine.resume(world.run_id).state == "Done"
