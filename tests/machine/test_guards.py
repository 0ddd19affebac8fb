"""The guards one by one: each says one fact of a case, at, below and above its limit, and nothing more."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from paor.fsm.machine.guards import GUARDS
from paor.fsm.machine.stop_rules import read_case
from paor.machine import GuardContext, NoOutcome, Review, ToolResult
from paor.prompts.parsing.replies import Invalid
from paor.tools.documents.tools import generate_report

from ..support.cases import (
    DOUBT,
    EXECUTING,
    FINAL,
    INTENT,
    OUTCOMES,
    PLANNING,
    QUESTION,
    REVIEWING,
    SELECTION,
    SETTLED,
    SPECIFYING,
    RunResources,
    answered,
    run_in,
    short,
    spec,
)
from .test_machine import RUNS

LIMITS = {
    "max_steps": 3,
    "selection_retries": 2,
    "parameter_retries": 2,
    "review_retries": 2,
    "max_retries": 2,
    "max_elicitations": 2,
}
INVALID = Invalid("no_json", "nothing")


def holds(
    guard: str,
    *,
    counters: dict[str, Any] | None = None,
    of: Any = None,
    state: str = PLANNING,
    memory: dict[str, Any] | None = None,
    **values: Any,
) -> bool:
    """Return what *guard* says of a case with these counters, slots of memory and fields."""
    run = run_in(state, of or spec(limits=LIMITS), counters=counters, **(memory or {}))
    outcome = values.pop("outcome", NoOutcome())
    return GUARDS[guard](GuardContext(run, outcome, **values))


@pytest.mark.parametrize("situation", [name for name in RUNS if RUNS[name].state not in FINAL])
def test_a_guard_never_raises_and_changes_nothing(situation: str) -> None:
    """For every guard and every case, also those that no phase would ask about."""
    run = RUNS[situation]
    for outcome in OUTCOMES.values():
        case = read_case(run, outcome, RunResources(run.spec))
        before = copy.deepcopy(case)
        for name, guard in GUARDS.items():
            assert guard(case) in (True, False), name
        assert case == before


@pytest.mark.parametrize(
    ("guard", "counter", "limit"),
    [
        ("steps_left", "step", 3),
        ("selection_retries_left", "selection_retries", 2),
        ("parameter_retries_left", "parameter_retries", 2),
        ("review_retries_left", "review_retries", 2),
        ("retries_left", "retries", 2),
        ("elicitations_left", "elicitations", 2),
    ],
)
def test_what_is_left_ends_exactly_at_its_limit(guard: str, counter: str, limit: int) -> None:
    """Below it there is something left, at it and above it there is not."""
    found = [holds(guard, counters={counter: count}) for count in range(limit + 2)]
    assert found == [True] * limit + [False, False]


def test_there_is_no_retry_after_no_improvement() -> None:
    """Another attempt was just found to bring nothing; other reasons do not forbid it."""
    assert not holds("retries_left", counters={"stop": "no_improvement"})
    for stop in ("", "model_stop", "max_steps", "criteria_met"):
        assert holds("retries_left", counters={"stop": stop})


def test_parameters_that_code_settled_are_not_asked_again() -> None:
    """There is nobody to ask."""
    assert holds("parameter_retries_left", selection=SELECTION)
    assert not holds("parameter_retries_left", selection=SETTLED)


@pytest.mark.parametrize(
    ("selection", "problem", "denied", "valid", "allowed", "ok"),
    [
        (SELECTION, None, None, True, True, True),
        (SELECTION, None, "denied", True, False, False),
        (SELECTION, INVALID, None, False, True, False),
        (SELECTION, INVALID, "denied", False, False, False),
        (None, INVALID, None, False, True, False),
        (None, None, None, False, True, False),
    ],
    ids=short,
)
def test_a_selection_is_ok_when_it_is_valid_and_allowed(
    selection: Any, problem: Any, denied: str | None, valid: bool, allowed: bool, ok: bool
) -> None:
    """Three guards on two facts."""
    facts = {"selection": selection, "problem": problem, "denied": denied}
    assert holds("selection_valid", **facts) is valid
    assert holds("action_allowed", **facts) is allowed
    assert holds("selection_ok", **facts) is ok


@pytest.mark.parametrize(
    ("arguments", "unsafe", "valid", "safe", "ok"),
    [({}, None, True, True, True), ({}, "a URL", True, False, False), (None, None, False, True, False)],
    ids=short,
)
def test_parameters_are_ok_when_they_are_valid_and_safe(
    arguments: Any, unsafe: str | None, valid: bool, safe: bool, ok: bool
) -> None:
    """An empty object is valid; nothing at all is not."""
    facts = {"arguments": arguments, "unsafe": unsafe}
    assert holds("parameters_valid", **facts) is valid
    assert holds("parameters_safe", **facts) is safe
    assert holds("parameters_ok", **facts) is ok


@pytest.mark.parametrize(
    ("tool", "spent", "left"),
    [
        ("notes.flaky", 0, True),
        ("notes.flaky", 1, True),
        ("notes.flaky", 2, False),
        ("notes.read", 0, False),
        ("notes.gone", 0, False),
    ],
)
def test_step_retries_are_the_tools_own(tool: str, spent: int, left: bool) -> None:
    """As its spec says; a tool that is not there has none."""
    of = spec()
    flaky = of.tools[0].model_copy(update={"name": "notes.flaky", "step_retries": 2})
    of = spec(tools=(*of.tools, flaky))
    intent = replace(INTENT, tool=tool)
    assert (
        holds("step_retries_left", of=of, counters={"step_retries": spent}, state=EXECUTING, intent=intent)
        is left
    )


@pytest.mark.parametrize(
    ("result", "again"),
    [
        (None, False),
        (ToolResult(tool="a.b", ok=True, retryable=True), False),
        (ToolResult(tool="a.b", ok=False, error="x", retryable=False), False),
        (ToolResult(tool="a.b", ok=False, error="x", retryable=True), True),
    ],
    ids=short,
)
def test_only_a_failure_that_says_so_is_retryable(result: ToolResult | None, again: bool) -> None:
    """A success never is."""
    assert holds("retryable", state=EXECUTING, result=result) is again


@pytest.mark.parametrize(
    ("criteria", "met"), [("", False), ("0", False), ("1", True), ("10", False), ("11", True), ("01", False)]
)
def test_criteria_met_needs_at_least_one_and_all(criteria: str, met: bool) -> None:
    """Zero criteria are never met."""
    assert holds("criteria_met", criteria=criteria) is met


@pytest.mark.parametrize("status", ["success", "retry", "failed", None])
def test_a_review_succeeds_or_asks_for_a_retry(status: Any) -> None:
    """Two guards on one word; a review that is missing is neither."""
    review = Review(status=status) if status is not None else None
    assert holds("review_success", state=REVIEWING, review=review) is (status == "success")
    assert holds("review_retry", state=REVIEWING, review=review) is (status == "retry")


def test_the_final_action_is_pending_until_it_was_taken() -> None:
    """And only where one is wanted."""
    wanted = spec(final_format="md", formatter=generate_report.spec())
    assert holds("final_action_pending", of=wanted)
    assert not holds("final_action_pending", of=spec(final_format="md")), "there is no tool for it"
    assert not holds("final_action_pending", of=wanted, counters={"formatted": 1})
    assert not holds("final_action_pending")


@pytest.mark.parametrize("question", [QUESTION, DOUBT], ids=["approval", "in doubt"])
@pytest.mark.parametrize("action", ["accept", "decline", "cancel", "done", "retry", "fail"])
def test_an_answer_fits_its_question(question: Any, action: str) -> None:
    """Accept and decline for a question, done, retry and fail for an effect in doubt; cancel is a hard stop."""
    fits = {"approval": ("accept", "decline"), "in_doubt": ("done", "retry", "fail")}[question.kind]
    found = holds("answer_valid", state=SPECIFYING, memory={"question": question}, outcome=answered(action))
    assert found is (action in fits)
    assert not holds("answer_valid", state=SPECIFYING, outcome=answered(action)), "nothing was asked"
