"""Approvals: for one call of one run, its arguments and its policy; once, for a time, and only by a typed yes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import ApprovalRule, Limits, Policy, replay, tool
from paor.errors import InvalidAnswer, UsageError
from paor.events import Event, TransitionTaken
from paor.fsm.decision.run_resources import RunResources
from paor.fsm.machine.decide import Moment, decide
from paor.fsm.replay.restore import restore_run
from paor.states.records.outcomes import NoOutcome
from paor.testing import SeededIds, SteppingClock
from paor.tools.approvals import approval_id, approval_needed

from ..crash.test_plan_crashes import losing_at
from ..support.journey import Lost, answered
from ..support.planning import World
from ..support.worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS, send

ONE = [SELECT("notes.send", {"text": "string"}), PARAMETERS(text="a"), STOP, SUCCESS]
ASKS = Policy(approvals=("notes.send",))


def needed(values: dict[str, Any], patterns: dict[str, Any]) -> bool:
    policy = Policy(approvals=(ApprovalRule(tool="orders.refund", arguments=patterns),))
    return approval_needed(policy, "orders_refund", values)


@pytest.mark.parametrize(
    ("patterns", "arguments", "concerns"),
    [
        ({}, {}, True),
        ({"amount": "1*"}, {"amount": 100}, True),
        ({"amount": "1*"}, {"amount": 99}, False),
        ({"amount": "1*"}, {}, True),
        ({"to": "!*@example.org"}, {"to": "a@example.org"}, False),
        ({"to": "!*@example.org"}, {"to": "a@example.com"}, True),
        ({"to": "!*@example.org"}, {}, True),
        ({"to": "!*@example.org"}, {"to": ["a@example.org", "b@example.com"]}, True),
        ({"to.host": "prod"}, {"to": {"host": "prod"}}, True),
        ({"to.host": "prod"}, {"to": {"host": "test"}}, False),
        ({"to.host": "prod"}, {"to": "prod"}, True),
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
    """All patterns of a rule must hold; of a list one element is enough, and what is missing counts as holding."""
    assert needed(arguments, patterns) is concerns


@pytest.mark.parametrize(
    ("condition", "yes", "no", "unknown"),
    [
        (
            {"gt": 100},
            [101, 100.01, 1e15],
            [100, 0, -1],
            ["101", True, None, float("nan"), 10**30, 1e300, {}],
        ),
        ({"ge": 1, "lt": 5}, [1, 4.9], [0.99, 5], ["3", [], float("inf")]),
        ({"eq": "EUR"}, ["EUR"], ["eur", "EUR ", ""], [1, None, True, {"EUR": 1}]),
        ({"eq": 1}, [1, 1.0], [2, 0], [True, "1", None]),
        ({"eq": True}, [True], [False], [1, "true", None]),
        ({"eq": None}, [None], ["", 0, False, {}], []),
        ({"ne": "EUR"}, ["USD", ""], ["EUR"], [1, None]),
        ({"in": ["DE", "AT", None]}, ["DE", None], ["FR"], [1, True]),
        ({"in": [1, "a"]}, [1, "a"], [2, "b"], [True, None]),
        ({"pattern": "a*"}, ["a", "a\nb"], ["b", "ba", 1, None], [10**30, float("nan")]),
    ],
    ids=str,
)
def test_operators_compare_what_can_be_compared(
    condition: dict[str, Any], yes: list[Any], no: list[Any], unknown: list[Any]
) -> None:
    """Exactly, type by type; what cannot be compared, and a missing argument, leads to a person."""
    for value in (*yes, *unknown):
        assert needed({"x": value}, {"x": condition}), value
        assert needed({"x": [no[0], [value]]}, {"x": condition}), value
    for value in no:
        assert not needed({"x": value}, {"x": condition}), value
    assert needed({}, {"x": condition}) and needed({"x": []}, {"x": condition})


@pytest.mark.parametrize(
    ("path", "arguments", "concerns"),
    [
        ("customer.country", {"customer": {"country": "DE"}}, True),
        ("customer.country", {"customer": {"country": "FR"}}, False),
        ("customer.country", {"customer": {}}, True),
        ("customer.country", {"customer": "DE"}, True),
        ("customer.country", {"customer.country": "DE"}, True),
        ("customer.country", {"customer.country": "DE", "customer": {"country": "FR"}}, True),
        ("a.b.c", {"a": {"b.c": "FR"}}, False),
        ("a.b.c", {"a.b": [{"c": "FR"}, {"c": "DE"}]}, True),
        ("a.b.c", {"a.b": [{"c": "FR"}, {}]}, True),
        ("a", {"a": [["FR"], ["DE"]]}, True),
    ],
)
def test_a_path_leads_through_objects_and_lists(path: str, arguments: dict[str, Any], concerns: bool) -> None:
    assert needed(arguments, {path: {"eq": "DE"}}) is concerns


def test_several_conditions_must_all_hold() -> None:
    """A condition that certainly does not hold lets the call through, whatever the others cannot tell."""
    rule = {"amount": {"gt": 100}, "currency": {"eq": "EUR"}}
    assert needed({"amount": 101, "currency": "EUR"}, rule)
    assert needed({"amount": "many", "currency": "EUR"}, rule)
    assert not needed({"amount": "many", "currency": "USD"}, rule)
    assert not needed({"amount": 100}, rule)


SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, -1.0, 2.0]) | st.sampled_from("ab")
)
ODD = st.sampled_from([float("nan"), float("inf"), 2**53 + 1, -(10**40), 1e308])
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, -1.0, 2.0])
OPERATORS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("gt", "ge", "lt", "le"), NUMBERS),
        **dict.fromkeys(("eq", "ne"), SCALARS),
        "in": st.lists(SCALARS, min_size=1, max_size=3),
    },
).filter(bool)


@given(OPERATORS, st.text(max_size=5))
def test_a_rule_is_the_same_read_back_from_the_journal(operators: dict[str, Any], text: str) -> None:
    try:
        rules = ApprovalRule(tool="a.b", arguments={"x": operators, "y": text or "*"})
    except UsageError:
        return
    policy = Policy(approvals=("c.d", rules))
    read = Policy.model_validate_json(policy.model_dump_json())
    assert read == policy and read.model_dump_json() == policy.model_dump_json()
    assert approval_id(read, "a.b", "k") == approval_id(policy, "a.b", "k")
    assert policy.model_dump(mode="json")["approvals"][1]["arguments"] == {"x": operators, "y": text or "*"}


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


NO_NUMBERS: list[Any] = ["1", True, None, float("nan"), 10**30, [1]]
NO_SCALARS: list[Any] = [[1], {}, float("inf"), 2**53 + 1]


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({}, "out of gt, ge, lt, le, eq, ne, in, pattern"),
        ({"gte": 1}, "out of gt, ge"),
        ({"is_in": [1]}, "out of gt, ge"),
        *(({"gt": wrong}, "must be a number") for wrong in NO_NUMBERS),
        *(({"eq": wrong}, "must be a text, a number") for wrong in NO_SCALARS),
        ({"in": []}, "at least one value"),
        ({"in": "ab"}, "must be a list"),
        ({"in": [[1]]}, "must be a text, a number"),
        ({"pattern": ""}, "at least 1 character"),
        ({"pattern": 5}, "string"),
        *(
            (bounds, "between its bounds")
            for bounds in ({"gt": 5, "lt": 5}, {"ge": 6, "le": 5}, {"gt": 5, "le": 5})
        ),
        (None, "a pattern or operators"),
        ([1], "a pattern or operators"),
        ("", "at least 1 character"),
    ],
    ids=str,
)
def test_a_condition_that_is_none_is_one_line_that_names_its_place(condition: Any, words: str) -> None:
    with pytest.raises(UsageError, match=r"arguments\.amount") as told:
        ApprovalRule(tool="a.b", arguments={"amount": condition})
    assert words in str(told.value) and "\n" not in str(told.value) and ";" not in str(told.value)


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="names of arguments"):
        ApprovalRule(tool="a.b", arguments={path: "x"})


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
        {"action": "accept", "content": print},
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
        rows = world.rows
        for given in ({"answer": answer}, {"outcome": "done"}):
            with pytest.raises(InvalidAnswer):
                world.engine.resume(run_id, **given)
        assert world.rows == rows
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


def test_a_large_amount_is_asked_about_and_a_small_one_is_not(tmp_path: Path) -> None:
    """Through the engine, with the rule read back from the journal in a replay and by another process."""
    paid: list[Any] = []

    @tool("bank.pay", effect="once", repeat_allowed=True)
    def pay(amount: float) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    call = [SELECT("bank.pay", {"amount": "number"})]
    script = [*call, PARAMETERS(amount=99.5), CONTINUE, *call, PARAMETERS(amount=899999), STOP, SUCCESS]
    policy = Policy(approvals=(ApprovalRule(tool="bank.*", arguments={"amount": {"gt": 100}}),))
    with World(tmp_path, script, [pay], policy=policy, limits=Limits(max_steps=3)) as world:
        result = world.run()
        assert result.status == "waiting" and paid == [99.5]
        assert world.engine.resume(result.run_id, answer={"approve": True}).state == "Done"
        assert paid == [99.5, 899999] and replay(world.journal, result.run_id).identical
        assert replay(world.journal, result.run_id, world.engine).identical and world.journal.verify() == []
        assert world.engine.changes(result.run_id) == ()


@pytest.mark.parametrize("where", ["resume", "fork"])
def test_who_approved_is_in_the_journal_and_in_the_replay(where: str, tmp_path: Path) -> None:
    """Beside the answer, in what can be erased; a name alone says nothing."""
    with World(tmp_path, [*ONE, *ONE], [send], policy=ASKS) as world:
        result = world.run()
        with pytest.raises(InvalidAnswer, match="comes with an answer"):
            world.engine.resume(result.run_id, actor="ann")
        with pytest.raises(InvalidAnswer, match="comes with an answer"):
            world.engine.fork(result.run_id, result.steps, actor="ann")
        wrong: Any
        for wrong in ("", 7, "x" * 201):
            with pytest.raises(InvalidAnswer, match="the actor"):
                world.engine.resume(result.run_id, answer={"approve": True}, actor=wrong)
        given_answer: dict[str, Any] = {"answer": {"approve": True}, "actor": "ann\n Doe"}
        if where == "resume":
            done = world.engine.resume(result.run_id, **given_answer)
        else:
            done = world.engine.fork(result.run_id, 1, **given_answer)
        assert done.state == "Done"
        row = next(row for row in world.journal.transitions(done.run_id) if row.trigger == "provide")
        reply = world.journal.reader.change(row.run, json.dumps(dict(row.change))).reply
        assert reply and (reply.actor, reply.reason) == ("ann Doe", None)
        assert "ann" not in json.dumps(dict(row.outcome))
        assert replay(world.journal, done.run_id, world.engine).identical and world.journal.verify() == []


@pytest.mark.parametrize(
    ("given", "trigger"),
    [
        ({"answer": {"approve": True}}, "provide"),
        ({"answer": {"approve": False}}, "provide"),
        ({"answer": {"action": "cancel"}}, "fail"),
    ],
    ids=["yes", "no", "cancel"],
)
def test_the_event_of_an_answer_names_who_gave_it(
    given: dict[str, Any], trigger: str, tmp_path: Path
) -> None:
    """And no other event names anybody."""
    seen: list[TransitionTaken] = []

    def hear(event: Event) -> None:
        if isinstance(event, TransitionTaken):
            seen.append(event)

    with World(tmp_path, [*ONE, *ONE], [send], policy=ASKS, hooks=[hear]) as world:
        result = world.run()
        assert {event.actor for event in seen} == {None}
        seen.clear()
        world.engine.resume(result.run_id, actor="ann\n Doe", **given)
        assert [(event.trigger, event.actor) for event in seen[:1]] == [(trigger, "ann Doe")]
        assert {event.actor for event in seen[1:]} <= {None}


def test_an_answer_of_nobody_by_name_names_nobody(tmp_path: Path) -> None:
    """As the journal does."""
    seen: list[Any] = []
    with World(tmp_path, ONE, [send], policy=ASKS, hooks=[seen.append]) as world:
        world.engine.resume(world.run().run_id, answer={"approve": True})
    events = [event for event in seen if isinstance(event, TransitionTaken)]
    assert "provide" in {event.trigger for event in events} and {event.actor for event in events} == {None}


def test_a_rule_that_is_read_back_may_be_given_again() -> None:
    """Its conditions are values by then, and mean the same."""
    rule = ApprovalRule(tool="bank.*", arguments={"amount": {"gt": 100}, "to": "urgent"})
    again = ApprovalRule(tool=rule.tool, arguments=dict(rule.arguments))
    assert again == rule and again.model_dump(mode="json") == rule.model_dump(mode="json")
