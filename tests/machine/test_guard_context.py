"""`paor.testing.guard_context`: a host's guards, and paor's own, are pure functions of a context that a test can make."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from paor.errors import UsageError
from paor.fsm.machine.guards import GUARDS, Guard
from paor.fsm.machine.host_rows import HOST_GUARDS, bound_guard
from paor.fsm.machine.stop_rules import PREDICATES
from paor.machine import (
    Cancelled,
    Message,
    Phase,
    Refinement,
    Review,
    ToolResult,
    Visit,
    guards,
    should_continue,
)
from paor.testing import CALL_KEY, guard_context

from ..support.cases import PHASES
from ..support.own_machines import (
    World,
    engine,
    four_eyes,
    not_reviewed,
    once_call,
    pay_script,
    two_failures,
    two_reviewers,
    what_failed,
)

OWN: dict[str, Guard] = {**GUARDS, **HOST_GUARDS, **PREDICATES, "verify_left": bound_guard("verify", 2)}
CALLS: tuple[dict[str, Any], ...] = (
    {},
    {"tool": "bank.pay"},
    {"tool": "bank.pay", "arguments": {"amount": 5}, "result": ToolResult("bank.pay", ok=False, error="no")},
)


@pytest.mark.parametrize("state", [*PHASES, "Verifying"])
def test_every_guard_of_paors_own_takes_such_a_context(state: str) -> None:
    """In any phase, with a call, with half of one, with none."""
    for given in CALLS:
        context = guard_context(state, **given)
        assert {name for name, guard in OWN.items() if guard(context) not in (True, False)} == set()


def test_guards_of_paors_own_are_public() -> None:
    """By their names in the table, each with the sentence that the documentation has."""
    assert guards.steps_left(guard_context("Planning", limits={"max_steps": 2}, counters={"step": 1}))
    assert not guards.steps_left(guard_context("Planning", limits={"max_steps": 2}, counters={"step": 2}))
    assert all(getattr(guards, name) is guard and guard.__doc__ for name, guard in GUARDS.items())


def test_the_context_has_what_it_is_given() -> None:
    """A call that is decided on in Specifying, a call that was made anywhere else."""
    moment = datetime(2026, 11, 22, 12, 30, 15, 250, tzinfo=UTC)
    context = guard_context(
        tool="bank.pay",
        arguments={"amount": 5},
        effect="idempotent",
        values={"bank": "open"},
        counters={"errors": 2, "own": {"rework": 1}},
        limits={"max_steps": 7},
        now=moment,
        objective="Pay",
        denied="no",
    )
    assert context.call is not None and context.intent is context.call and context.run.memory.intent is None
    assert (context.tool, context.call.arguments, context.call.effect) == (
        "bank.pay",
        {"amount": 5},
        "idempotent",
    )
    assert (context.now, context.values, context.limits.max_steps) == (moment, {"bank": "open"}, 7)
    assert (context.counters.errors, context.counters.own) == (2, {"rework": 1})
    assert (context.run.spec.objective, context.denied, context.run.state) == ("Pay", "no", "Specifying")
    made = guard_context("Reviewing", tool="bank.pay", arguments={})
    assert made.intent is None and made.call is not None and made.call.tool == "bank.pay"
    half = guard_context("Specifying", tool="bank.pay")
    assert (half.tool, half.call) == ("bank.pay", None)
    assert guard_context().tool is None
    outcome = Cancelled()
    assert guard_context("Planning", outcome=outcome).outcome is outcome


def test_visits_are_those_of_other_phases_and_of_this_one() -> None:
    """One that was about a call counts for this call alone."""
    first = Visit("FirstReview", ok=True, value={"approve": True}, actor="ann", call=CALL_KEY)
    second = Visit("SecondReview", ok=True, value={"approve": True}, actor="bob", call="another")
    context = guard_context("SecondReview", tool="bank.pay", arguments={}, visits=[first, second])
    assert context.visited("FirstReview") is first and context.visited("SecondReview") is None
    assert context.visit is second and context.phase is not None and context.phase.name == "SecondReview"
    assert HOST_GUARDS["succeeded"](context) and not HOST_GUARDS["succeeded"](guard_context("Mine"))
    asking = Phase("Mine", question="How?")
    assert HOST_GUARDS["question_due"](guard_context("Mine", phase=asking))


def yes(phase: str, who: str, call: str = CALL_KEY) -> Visit:
    """Return a person's yes."""
    return Visit(phase, ok=True, value={"approve": True}, actor=who, call=call)


@pytest.mark.parametrize(
    ("visits", "holds"),
    [
        ([yes("FirstReview", "ann"), yes("SecondReview", "bob")], True),
        ([yes("FirstReview", "ann"), yes("SecondReview", "ann")], False),
        ([yes("FirstReview", "ann"), yes("SecondReview", "bob", "another")], False),
        ([yes("FirstReview", "ann")], False),
        ([], False),
    ],
)
def test_a_guard_says_of_such_a_context_what_it_says_in_a_run(
    visits: list[Visit], holds: bool, tmp_path: Path
) -> None:
    """What a host tests is what its runs are decided by."""
    context = guard_context(tool="bank.pay", arguments={"amount": 5}, visits=visits)
    assert four_eyes(context) is holds
    assert once_call(context) and not_reviewed(context) is (not visits)
    people = [visit.actor for visit in visits]
    if len(people) == 2 and visits[1].call == CALL_KEY:
        of = engine(tmp_path / "runs.db", two_reviewers(), pay_script(5), World())
        result = of.run("Pay")
        for who in people:
            assert result.waiting_for is not None
            result = of.resume(
                result.run_id, answer={"approve": True}, actor=who, question=result.waiting_for.id
            )
        (said,) = [
            row.guards["four_eyes"]
            for row in of.journal.transitions(result.run_id)
            if "four_eyes" in row.guards
        ]
        assert said is holds


def test_what_a_phase_asks_can_be_tested_too() -> None:
    """Functions of the context that give texts."""
    message = Message(
        action=1,
        tool="db.query",
        step=1,
        summary="no such table",
        success=False,
    )
    context = guard_context("Reviewing", counters={"errors": 2}, memory={"history": (message,)})
    assert two_failures(context) and "no such table" in what_failed(context)
    assert not two_failures(guard_context("Reviewing", counters={"errors": 1}))


def test_should_continue_is_a_function_of_two_values() -> None:
    """As the specification has it; the guard of the same name says the same of a run."""
    going, content = Refinement(decision="continue", reason="more"), Review(status="success")
    assert should_continue(None, going) and not should_continue(None, content)
    bounds: dict[str, Any] = {"limits": {"max_steps": 2, "token_budget": 1000}}
    for counters, goes_on in (
        ({"step": 1}, True),
        ({"step": 2}, False),
        ({"tokens_in": 999}, True),
        ({"tokens_in": 1000}, False),
    ):
        run = guard_context("Reviewing", counters=counters, **bounds).run
        assert should_continue(None, going, run=run) is goes_on
    assert not should_continue(None, Refinement(decision="stop", reason="enough"))
    assert not should_continue(None, None)
    context = guard_context("Reviewing", refinement=going)
    assert guards.should_continue(context)
    assert not guards.should_continue(guard_context("Reviewing", refinement=going, stop_reason="max_steps"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"counters": {"error": 1}}, "no field 'error'"),
        ({"limits": {"max_step": 1}}, "did you mean max_steps"),
        ({"memory": {"visit": ()}}, "visit"),
        ({"aproval": True}, "aproval"),
    ],
)
def test_a_name_that_is_none_is_told(given: dict[str, Any], told: str) -> None:
    """A test that misspells what it gives would test nothing."""
    with pytest.raises((TypeError, UsageError), match=told):
        guard_context(**given)
