"""Why a run stops: one table in order, read in one place; and counters that are compared with their limits in one module."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor.fsm.machine.stop_rules import (
    ANSWER,
    HARD_STOP,
    LAST_FAIL,
    PREDICATES,
    STOP_REACHED,
    first_stop,
    nothing_concludes,
    nothing_stops,
    read_case,
)
from paor.fsm.machine.table import CONCLUDED, OWN, ROWS, STOPS, Stop, rows_of
from paor.machine import Cancelled, GuardContext, NoOutcome, Refinement, Review, Unaffordable
from paor.prompts.parsing.replies import Invalid

from ..support.cases import (
    EXECUTING,
    FAILED,
    FINAL,
    OUTCOMES,
    PLANNING,
    REASONS,
    REVIEWING,
    SPECIFYING,
    Outcome,
    RunResources,
    fault,
    limit_reached,
    replied,
    run_in,
    spec,
)
from .test_machine import RUNS

ROOT = Path(__file__).resolve().parents[2]


# -- the table -----------------------------------------------------------------------------------------------------


def test_every_reason_stands_in_the_table_and_every_entry_has_a_reason() -> None:
    """The closed list of reasons is what the table can say, and nothing else."""
    assert {stop.reason for stop in STOPS} - {CONCLUDED} == set(REASONS)


@pytest.mark.parametrize(
    "stop", STOPS, ids=[f"{n} {stop.reason or 'as concluded'}" for n, stop in enumerate(STOPS)]
)
def test_a_stop_leads_somewhere_in_every_phase_where_it_is_read(stop: Stop) -> None:
    """The guard it makes hold is one of a row of that phase; without a guard the phase ends in a `fail` without guards."""
    assert stop.guard in (HARD_STOP, STOP_REACHED, ANSWER, LAST_FAIL)
    for phase in stop.phases:
        if (
            phase == OWN
        ):  # phases of a host's own: each brings a row for a hard stop; see own_machine/test_host_machine.py
            assert stop.guard in (HARD_STOP, LAST_FAIL)
        elif stop.guard:
            assert any(row.guards[:1] == (stop.guard,) for row in rows_of(phase))
        else:
            assert any(row.trigger == "fail" for row in rows_of(phase))
    assert stop.meaning


def test_a_stop_behind_one_that_always_holds_would_never_be_read() -> None:
    """So the one without predicates is the last of its guard and phase."""
    for guard in (HARD_STOP, STOP_REACHED, ANSWER, LAST_FAIL):
        for phase in (PLANNING, SPECIFYING, EXECUTING, REVIEWING):
            entries = [stop for stop in STOPS if stop.guard == guard and phase in stop.phases]
            assert all(stop.when for stop in entries[:-1]), (guard, phase)


def test_every_way_to_fail_has_a_reason() -> None:
    """The last `fail` of a phase never lacks one; a hard stop is read in each phase that has a row for it."""
    for row in (row for row in ROWS if row.dest == FAILED):
        guard = row.guards[0] if row.guards else LAST_FAIL
        entries = [stop for stop in STOPS if stop.guard == guard and row.source in stop.phases]
        assert entries
        assert row.guards or entries[-1].when == ()


def test_every_predicate_is_used_named_and_total() -> None:
    """Names in the table, functions in the module; none raises, whatever it is asked about."""
    named = {name.removeprefix("not ") for stop in STOPS for name in stop.when}
    assert set(PREDICATES) == named
    for name, predicate in PREDICATES.items():
        assert predicate.__name__ == name and predicate.__doc__
    for run in RUNS.values():
        if run.state in FINAL:
            continue
        for outcome in OUTCOMES.values():
            case = read_case(run, outcome, RunResources(run.spec))
            assert {type(predicate(case)) for predicate in PREDICATES.values()} == {bool}
            for guard in (HARD_STOP, STOP_REACHED, ANSWER, LAST_FAIL):
                assert first_stop(case, guard) in (None, "", *REASONS)


# -- precedence ----------------------------------------------------------------------------------------------------


def alone_and_in_pairs(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return every name alone and every pair of names, in their order."""
    return [(name,) for name in names] + list(combinations(names, 2))


HARD: dict[str, tuple[str, dict[str, Any], dict[str, int]]] = {
    "stuck": ("a question", {"unaskable": True}, {}),
    "workflow_error": ("the workflow", {"lost": True}, {}),
    "cancelled": ("cancelled", {"outcome": Cancelled()}, {}),
    "model_error": ("a fault", {"outcome": fault()}, {}),
    "stuck ": ("blocked", {}, {"blocked": 3}),
    "consecutive_errors": ("errors", {}, {"errors": 5}),
    "token_budget": ("tokens", {}, {"tokens_in": 10}),
    "time_budget": ("time", {}, {"time_us": 2_000_000}),
    "cost_budget": ("money", {}, {"cost_micro": 3_000_000}),
    "aborted": ("abort", {"aborted": True}, {}),
}
"""Each hard stop and what makes it hold, in the order in which they are read."""
BUDGETS = {"token_budget": 10, "time_budget_s": 2, "cost_budget": 3}


@pytest.mark.parametrize("phase", [PLANNING, SPECIFYING, REVIEWING])
def test_of_several_hard_stops_the_first_of_the_table_is_the_reason(phase: str) -> None:
    """Every pair of them: one reason, and always the same one."""
    for holding in alone_and_in_pairs(HARD):
        held = [name for name in holding if (name, phase) != ("stuck", REVIEWING)]
        values: dict[str, Any] = {}
        counters: dict[str, int] = {}
        for name in reversed(held):  # of two outcomes the one that is read first
            values |= HARD[name][1]
            counters |= HARD[name][2]
        outcome: Outcome = values.pop("outcome", NoOutcome())
        run = run_in(phase, spec(limits=BUDGETS), counters=counters)
        found = first_stop(GuardContext(run, outcome, **values), HARD_STOP)
        assert found == (held[0].strip() if held else None), holding


REACHED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "token_budget": ({}, {"tokens_in": 10}),
    "time_budget": ({}, {"time_us": 2_000_000}),
    "cost_budget": ({}, {"cost_micro": 3_000_000}),
    "criteria_met": ({"criteria": "11"}, {}),
    "model_stop": ({"decision": "stop"}, {}),
    "no_improvement": ({"score": 0.1}, {"stale": 1, "best_score": 500_000}),
    "max_steps": ({}, {"step": 5}),
}
"""Each stop after a refinement in react mode, what the reply says and the counters, in the order in which they are read."""


@pytest.mark.parametrize("holding", alone_and_in_pairs(REACHED), ids=" and ".join)
def test_of_several_stops_after_an_action_the_first_of_the_table_is_the_reason(
    holding: tuple[str, ...],
) -> None:
    """Budgets, then criteria, then the model, then its scores, then the steps."""
    says: dict[str, Any] = {"decision": "continue", "reason": "r"}
    counters: dict[str, Any] = {}
    for name in holding:
        says |= REACHED[name][0]
        counters |= REACHED[name][1]
    criteria = says.pop("criteria", "10")
    run = run_in(REVIEWING, spec(limits=BUDGETS), counters={"criteria": criteria, **counters})
    case = GuardContext(run, replied("{}"), refinement=Refinement(**says), criteria=criteria)
    assert first_stop(case, STOP_REACHED) == holding[0]


def test_a_plan_that_is_done_stops_for_its_plans_before_its_steps() -> None:
    """A planner whose plans and steps are used up needs another plan first."""
    for counters, reason in (({"plans": 50}, "max_plans"), ({"plans": 50, "step": 5}, "max_steps")):
        run = run_in(REVIEWING, spec(mode="planner"), counters=counters)
        assert first_stop(GuardContext(run, NoOutcome()), STOP_REACHED) == reason


COUNTERS: dict[str, st.SearchStrategy[Any]] = {
    "blocked": st.integers(0, 4),
    "refused": st.integers(0, 4),
    "errors": st.integers(0, 6),
    "tokens_in": st.integers(0, 12),
    "time_us": st.integers(0, 3_000_000),
    "cost_micro": st.integers(0, 4_000_000),
    "formatted": st.integers(0, 1),
}


@given(
    counters=st.fixed_dictionaries({}, optional=COUNTERS),
    phase=st.sampled_from([PLANNING, SPECIFYING, REVIEWING]),
)
def test_a_request_is_left_out_exactly_when_the_table_would_end_the_run(
    counters: dict[str, int], phase: str
) -> None:
    """Phases ask `limit_reached` whether a request is worth making; it must say what the table of stops says."""
    run = run_in(phase, spec(limits=BUDGETS), counters=counters)
    assert limit_reached(run) is (first_stop(GuardContext(run, NoOutcome()), HARD_STOP) is not None)


@given(
    counters=st.fixed_dictionaries({}, optional=COUNTERS | {"criteria": st.sampled_from(["", "11", "10"])}),
    phase=st.sampled_from([PLANNING, SPECIFYING, EXECUTING, REVIEWING]),
    outcome=st.sampled_from([NoOutcome(), replied("{}"), Cancelled(), fault(), Unaffordable("token_budget")]),
    flags=st.fixed_dictionaries({}, optional=dict.fromkeys(("unaskable", "lost", "aborted"), st.booleans())),
)
def test_the_table_is_passed_over_only_where_no_hard_stop_holds(
    counters: dict[str, Any], phase: str, outcome: Outcome, flags: dict[str, Any]
) -> None:
    """`nothing_stops` spares most transitions the table; a stop that it overlooked would never end a run."""
    case = GuardContext(run_in(phase, spec(limits=BUDGETS), counters=counters), outcome, **flags)
    assert not nothing_stops(case) or first_stop(case, HARD_STOP) is None


@given(
    counters=st.fixed_dictionaries(
        {"step": st.integers(0, 2)},
        optional=COUNTERS | {"stale": st.integers(0, 2), "best_score": st.none() | st.integers(0, 2_000_000)},
    ),
    limits=st.fixed_dictionaries(
        {"max_steps": st.just(2), "no_improvement_limit": st.integers(1, 2)},
        optional={name: st.just(value) for name, value in BUDGETS.items()},
    ),
    decision=st.sampled_from(["continue", "continue", "continue", "stop"]),
    score=st.none() | st.sampled_from([0.0, 1.0, 2.0]),
    criteria=st.sampled_from(["", "11", "10"]),
)
def test_the_table_is_passed_over_only_where_nothing_concludes(
    counters: dict[str, Any], limits: dict[str, Any], decision: Any, score: float | None, criteria: str
) -> None:
    """`nothing_concludes` spares most refinements the table; where no budget is set it says what the table says."""
    judged = Refinement(decision=decision, reason="r", score=score)
    run = run_in(REVIEWING, spec(limits=limits), counters=counters)
    case = GuardContext(run, replied("{}"), refinement=judged, criteria=criteria)
    stops = first_stop(case, STOP_REACHED) is not None
    assert (
        nothing_concludes(case) is not stops if not run.spec.limits.budgeted else not nothing_concludes(case)
    )


def test_a_budget_that_is_too_small_is_one_that_is_used_up() -> None:
    """The request that does not fit names the budget; with every criterion met Reviewing concludes with it."""
    for reason in ("token_budget", "cost_budget"):
        outcome = Unaffordable(reason)
        assert first_stop(GuardContext(run_in(PLANNING), outcome), HARD_STOP) == reason
        met = GuardContext(run_in(REVIEWING, counters={"criteria": "11"}), outcome, criteria="11")
        assert (first_stop(met, HARD_STOP), first_stop(met, STOP_REACHED)) == (None, reason)
        half = GuardContext(run_in(REVIEWING, counters={"criteria": "10"}), outcome, criteria="10")
        assert first_stop(half, HARD_STOP) == reason


FAILS: dict[str, tuple[str, dict[str, int | str], dict[str, Any], str]] = {
    "no usable selection": (PLANNING, {}, {}, "selection_invalid"),
    "no step left": (PLANNING, {"step": 5}, {}, "max_steps"),
    "no plan left": (PLANNING, {"plans": 50}, {}, "max_plans"),
    "neither": (PLANNING, {"step": 5, "plans": 50}, {}, "max_steps"),
    "a retry too many": (REVIEWING, {"retries": 2}, {"review": Review(status="retry")}, "retries_exhausted"),
    "a retry without a step": (REVIEWING, {"step": 5}, {"review": Review(status="retry")}, "max_steps"),
    "a retry without a plan": (REVIEWING, {"plans": 50}, {"review": Review(status="retry")}, "max_plans"),
    "a retry for nothing": (
        REVIEWING,
        {"step": 5, "stop": "no_improvement"},
        {"review": Review(status="retry")},
        "no_improvement",
    ),
    "a review that says failed": (
        REVIEWING,
        {"stop": "model_stop"},
        {"review": Review(status="failed")},
        "review_failed",
    ),
    "no review": (REVIEWING, {"stop": "model_stop"}, {"problem": Invalid("no_json", "x")}, "review_failed"),
    "as concluded": (REVIEWING, {"stop": "max_steps"}, {}, "max_steps"),
    "nothing": (REVIEWING, {}, {}, "internal_error"),
    "nothing to execute": (EXECUTING, {}, {}, "internal_error"),
}


@pytest.mark.parametrize("name", FAILS)
def test_the_last_fail_of_a_phase_says_why(name: str) -> None:
    """No other row has fitted: which bound or which review it was."""
    phase, counters, values, reason = FAILS[name]
    assert (
        first_stop(GuardContext(run_in(phase, counters=counters), NoOutcome(), **values), LAST_FAIL) == reason
    )


def test_a_refinement_that_cannot_be_read_stops_once_it_may_not_be_asked_again() -> None:
    """Before that the run asks again, which is no reason to stop."""
    for asked, stop in ((0, None), (1, "model_stop"), (2, "model_stop")):
        run = run_in(REVIEWING, spec(limits={"review_retries": 1}), counters={"review_retries": asked})
        assert read_case(run, replied("no JSON"), RunResources(run.spec)).stop_reason == stop


def test_a_stop_that_was_recorded_is_not_asked_for_again() -> None:
    """Once the run has concluded, only the completion review is left."""
    for counters in ({"concluded": 1}, {"formatted": 1}):
        run = run_in(REVIEWING, counters={"step": 99, **counters})
        case = read_case(run, replied("no JSON"), RunResources(run.spec))
        assert case.stop_reason is None
    run = run_in(REVIEWING, counters={"step": 99})
    refined = GuardContext(run, replied("{}"), refinement=Refinement(decision="continue", reason="r"))
    assert first_stop(refined, STOP_REACHED) == "max_steps"


# -- nobody else ---------------------------------------------------------------------------------------------------

COUNTED = {
    *("max_steps", "max_plans", "max_retries", "max_elicitations"),
    *("selection_retries", "parameter_retries", "review_retries"),
    *("max_blocked_calls", "max_consecutive_refused", "max_consecutive_errors", "no_improvement_limit"),
}
"""Limits of counters."""

JUDGES = {
    "src/paor/fuzz/oracles/reference_model.py",
    "src/paor/fuzz/oracles/own_machine.py",
    "src/paor/fuzz/oracles/run_oracle.py",
    "src/paor/fsm/check/invariants.py",
}
"""Invariants and oracles count for themselves: a second opinion that asked the code would always agree with it."""


def modules_with(words: Iterable[str], *rooms: str) -> dict[str, ast.Module]:
    """Return the modules of the package, or of rooms of it, in whose text one of the words stands; with their syntax."""
    paths = [path for room in rooms or ("",) for path in sorted((ROOT / "src" / "paor" / room).rglob("*.py"))]
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    return {name: ast.parse(text) for name, text in texts.items() if any(word in text for word in words)}


def compared_limits(tree: ast.AST) -> set[str]:
    """Return the limits, and the retries of a step, that a piece of code compares, or keeps under another name to do so."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = list(ast.walk(node))
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            parts = [value for value in values if value is not None]
        else:
            continue
        for part in parts:
            if isinstance(part, ast.Attribute):
                owner = ast.unparse(part.value)
                limit = part.attr in COUNTED and "limits" in owner
                retries = (
                    isinstance(node, ast.Compare) and part.attr == "step_retries" and "counters" in owner
                )
                found |= {part.attr} if limit or retries else set()
    return found


def test_a_counter_is_compared_with_its_limit_in_one_module_only() -> None:
    """Everybody else asks `steps_left`, `plans_left`, `retries_left` and the like."""
    trees = modules_with([*(f"limits.{name}" for name in COUNTED), "step_retries"])
    places = {name: found for name, tree in trees.items() if (found := compared_limits(tree))}
    assert places.pop("src/paor/states/run/budgets.py") == COUNTED | {"step_retries"}
    assert set(places) <= JUDGES, places


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("run.counters.step < run.spec.limits.max_steps", {"max_steps"}),
        ("x = limits.max_retries - 1 <= n", {"max_retries"}),
        ("steps_left(run) and 1 < 2", set()),
        ("f(limits.max_plans)", set()),
        ("cap = run.spec.limits.max_steps", {"max_steps"}),
        ("run.counters.step_retries >= n", {"step_retries"}),
    ],
)
def test_the_search_for_comparisons_finds_them(code: str, found: set[str]) -> None:
    """A test that could not fail would guard nothing."""
    assert compared_limits(ast.parse(code)) == found


def reasons_set(tree: ast.AST) -> list[str]:
    """Return where code sets a reason to stop: an assignment to the case's fields, or a reason written out."""
    found = []
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else ()
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else (target,)
            found += [
                ast.unparse(node) for name in names if isinstance(name, ast.Attribute) and name.attr in FIELDS
            ]
        if isinstance(node, ast.keyword) and node.arg in FIELDS and isinstance(node.value, ast.Constant):
            found += [f"{node.arg}={node.value.value!r}"] if node.value.value else []
    return found


FIELDS = ("stop", "stop_reason")


def test_nothing_else_sets_a_reason_to_stop() -> None:
    """The machine's own modules: what a reader finds is a fact, what it means for the run is the table's."""
    trees = modules_with(
        [f"{field}=" for field in FIELDS] + [f".{field}" for field in FIELDS], "fsm", "states"
    )
    assert trees.pop("src/paor/fsm/machine/stop_rules.py")
    assert {name: reasons_set(tree) for name, tree in trees.items() if reasons_set(tree)} == {}
    assert reasons_set(ast.parse('case.stop = "stuck"')) and reasons_set(ast.parse('f(stop="stuck")'))
    assert reasons_set(ast.parse('case.stop, case.trouble = "stuck", ""'))
