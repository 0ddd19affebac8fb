"""Approvals: for one call of one run, its arguments and its policy; once, for a time, and only by a typed yes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import (
    ApprovalRule,
    InvalidAnswer,
    Limits,
    Policy,
    SeededIds,
    SteppingClock,
    UsageError,
    replay,
    tool,
)
from paor.fsm.decision.run_resources import RunResources
from paor.fsm.machine.machine import Moment, decide
from paor.fsm.replay.restore import restore_run
from paor.states.records.outcomes import NoOutcome
from paor.tools.approvals import approval_id, approval_needed

from .journey import Lost, answered
from .planning import World
from .test_plan_crashes import losing_at
from .worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS, send

ONE = [SELECT("notes.send", {"text": "string"}), PARAMETERS(text="a"), STOP, SUCCESS]
ASKS = Policy(approvals=("notes.send",))


def needed(values: dict[str, Any], patterns: dict[str, str]) -> bool:
    policy = Policy(approvals=(ApprovalRule(tool="orders.refund", arguments=patterns),))
    return approval_needed(policy, "orders_refund", values)


@pytest.mark.parametrize(
    ("patterns", "arguments", "concerns"),
    [
        ({}, {}, True),
        ({"amount": "1*"}, {"amount": 100}, True),
        ({"amount": "1*"}, {"amount": 99}, False),
        ({"amount": "1*"}, {}, False),
        ({"to": "!*@example.org"}, {"to": "a@example.org"}, False),
        ({"to": "!*@example.org"}, {"to": "a@example.com"}, True),
        ({"to": "!*@example.org"}, {}, True),
        ({"to": "!*@example.org"}, {"to": ["a@example.org", "b@example.com"]}, True),
        ({"to.host": "prod"}, {"to": {"host": "prod"}}, True),
        ({"to.host": "prod"}, {"to": {"host": "test"}}, False),
        ({"to.host": "prod"}, {"to": "prod"}, False),
        ({"to.host": "prod"}, {"to": [{"host": "test"}, {"host": "prod"}]}, True),
        ({"force": "true", "mode": "a*"}, {"force": True, "mode": "all"}, True),
        ({"force": "true", "mode": "a*"}, {"force": True, "mode": "one"}, False),
        ({"text": "a*c"}, {"text": "a\nb\nc"}, True),
        ({"text": "a.c"}, {"text": "abc"}, False),
    ],
)
def test_a_rule_concerns_calls_by_their_arguments(
    patterns: dict[str, str], arguments: dict[str, Any], concerns: bool
) -> None:
    """All patterns of a rule must hold; of a list one element is enough."""
    assert needed(arguments, patterns) is concerns


@given(st.text(), st.text(), st.text())
def test_a_star_stands_for_any_run_of_characters(before: str, between: str, after: str) -> None:
    """Also over lines; nothing else in a pattern has a meaning."""
    if "*" in before + after or before.startswith("!"):
        before, after = "a", "z"
    assert needed({"text": before + between + after}, {"text": f"{before}*{after}"})
    assert not needed({"text": before + between + after + "!"}, {"text": f"{before}*{after}?"})


@pytest.mark.parametrize(
    "rule", [{}, {"tool": ""}, {"tool": "a.b", "arguments": {"x": 1}}, {"tool": "a.b", "argument": {}}, 7]
)
def test_a_rule_that_is_none_is_one_line(rule: Any) -> None:
    with pytest.raises(UsageError) as told:
        Policy(approvals=(rule,))
    assert "\n" not in str(told.value)


def test_a_policy_from_json_has_rules_too() -> None:
    """As a configuration file gives it."""
    data: dict[str, Any] = {"approvals": ["notes.*", {"tool": "crm.*", "arguments": {"amount": "9*"}}]}
    policy = Policy(**data)
    assert policy.approvals == ("notes.*", ApprovalRule(tool="crm.*", arguments={"amount": "9*"}))
    assert Policy.model_validate_json(policy.model_dump_json()) == policy


def test_what_an_approval_is_bound_to() -> None:
    """Another tool, call or policy is another approval."""
    ids = {
        approval_id(policy, name, key)
        for policy in (ASKS, Policy(approvals=("*",)), ASKS.model_copy(update={"deny": ("x.y",)}))
        for name in ("a.b", "a.c")
        for key in ("k1", "k2")
    }
    assert len(ids) == 12
    assert approval_id(ASKS, "a.b", "k") == approval_id(Policy(approvals=("notes.send",)), "a.b", "k")


def test_an_approval_that_was_given_to_another_run_counts_for_nothing(tmp_path: Path) -> None:
    """A fork of the state right after the yes is asked itself; one of the question is answered once."""
    with World(tmp_path, [*ONE, *ONE], [send], policy=ASKS, hooks=[losing_at(2)]) as world:
        run_id = world.run().run_id
        with pytest.raises(Lost):
            world.engine.resume(run_id, answer={"approve": True})
    with World(tmp_path, ONE, [send], policy=ASKS, ids=SeededIds("fork")) as world:
        assert world.engine.fork(run_id, 2).status == "waiting"
        asked = world.engine.fork(run_id, 1)
        assert asked.status == "waiting"
        assert world.engine.resume(asked.run_id, answer={"approve": True}).state == "Done"


def test_an_approval_is_for_one_call(tmp_path: Path) -> None:
    """The same call again is asked about again, though nothing about it differs."""
    sent: list[str] = []

    @tool("notes.send", repeat_allowed=True)
    def watched(text: str) -> str:
        """Send."""
        sent.append(text)
        return f"sent {len(sent)}"

    call = [SELECT("notes.send", {"text": "string"}), PARAMETERS(text="a")]
    with World(tmp_path, [*call, CONTINUE, *call, STOP, SUCCESS], [watched], policy=ASKS) as world:
        first = world.run()
        question = first.waiting_for
        assert question is not None and question.approval is not None and sent == []
        second = world.engine.resume(first.run_id, answer={"approve": True, "approval": question.approval})
        assert second.status == "waiting" and sent == ["a"]
        third = answered(world.engine, first.run_id, answer={"approve": True})
        assert third.state == "Done" and sent == ["a", "a"]
        assert replay(world.journal, first.run_id, world.engine).identical and world.journal.verify() == []


@pytest.mark.parametrize(
    "answer",
    [
        True,
        "yes",
        "approve",
        1,
        {"approve": 1},
        {"approve": "true"},
        {"approve": None},
        {"approve": [True]},
        {"approved": True},
        {"action": "accept"},
        {"action": "accept", "content": True},
        {"action": "accept", "content": {"approve": "yes"}},
        {"approve": True, "approval": "0" * 32},
        {"approve": True, "approval": 7},
        {"approve": True, "and": "more"},
        {"action": "accept", "content": {"approve": True, "approval": "of another call"}},
    ],
    ids=str,
)
def test_anything_but_a_typed_approval_executes_nothing(answer: Any, tmp_path: Path) -> None:
    """It is refused, and the run waits on."""
    sent: list[str] = []

    @tool("notes.send")
    def watched(text: str) -> str:
        """Send."""
        sent.append(text)
        return "sent"

    with World(tmp_path, ONE, [watched], policy=ASKS) as world:
        run_id = world.run().run_id
        with pytest.raises(InvalidAnswer):
            world.engine.resume(run_id, answer=answer)
        assert world.engine.resume(run_id).status == "waiting" and sent == []
        assert world.engine.resume(run_id, answer={"approve": False}).state == "Done" and sent == []


@pytest.mark.parametrize(("after_s", "status"), [(30, "done"), (61, "waiting")])
def test_an_approval_holds_for_its_time(after_s: int, status: str, tmp_path: Path) -> None:
    """The process ends between the yes and the call; who comes too late has to ask again."""
    policy = Policy(approvals=("notes.send",), approval_valid_s=60)
    with World(tmp_path, ONE, [send], policy=policy, hooks=[losing_at(2)]) as world:
        run_id = world.run().run_id
        with pytest.raises(Lost):
            world.engine.resume(run_id, answer={"approve": True})
        given_at = world.rows[-1].at
        assert world.triggers[-1] == "provide"
    clock = SteppingClock(given_at + after_s * 1_000_000)
    with World(tmp_path, ONE, [send], policy=policy, clock=clock, ids=SeededIds("later")) as world:
        result = world.engine.resume(run_id)
        assert result.status == status
        if status == "waiting":
            assert world.triggers[-1] == "wait" and "execute" not in world.triggers
            assert answered(world.engine, run_id, answer={"approve": True}).status == "done"
        assert replay(world.journal, run_id, world.engine).identical and world.journal.verify() == []


def test_rules_by_argument_ask_for_some_calls_only(tmp_path: Path) -> None:
    """The call that no rule concerns is made at once."""
    rule = ApprovalRule(tool="notes.send", arguments={"text": "delete*"})
    script = [
        SELECT("notes.send", {"text": "string"}),
        PARAMETERS(text="hello"),
        CONTINUE,
        SELECT("notes.send", {"text": "string"}),
        PARAMETERS(text="delete all"),
        STOP,
        SUCCESS,
    ]
    with World(
        tmp_path, script, [send], policy=Policy(approvals=(rule,)), limits=Limits(max_steps=3)
    ) as world:
        result = world.run()
        assert result.status == "waiting" and world.triggers.count("execute") == 1
        assert world.engine.resume(result.run_id, answer={"approve": False}).state == "Done"
        assert world.triggers.count("execute") == 1


def test_an_approval_of_another_policy_counts_for_nothing(tmp_path: Path) -> None:
    """Decided again from the state right after the yes: under its own policy the call goes on, under another it is asked about."""
    with World(tmp_path, ONE, [send], policy=ASKS, hooks=[losing_at(2)]) as world:
        run_id = world.run().run_id
        with pytest.raises(Lost):
            world.engine.resume(run_id, answer={"approve": True})
        run, _ = restore_run(world.journal.reader, run_id)
        moment = Moment(world.rows[-1].at, 0)
    other = run.spec.model_copy(update={"policy": Policy(approvals=("notes.send",), deny=("crm.delete",))})
    assert decide(run, NoOutcome(), moment, RunResources(run.spec)).row.trigger == "specify"
    assert decide(run, NoOutcome(), moment, RunResources(other)).row.trigger == "wait"
