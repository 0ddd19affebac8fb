"""What is understood of an outcome: progress that is never taken back, one order of reasons to stop, settled references."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paor.errors import InternalError
from paor.fsm.decision.progress import folded_text, progress, stale_after
from paor.fsm.machine.stop_rules import read_case
from paor.machine import Cancelled, GuardContext, NoOutcome, Refinement

from ..support.cases import (
    DOUBT,
    EXECUTING,
    INTENT,
    OBSERVING,
    PLANNING,
    QUESTION,
    REVIEWING,
    SELECTION,
    SETTLED,
    SPECIFYING,
    CriterionCheck,
    Outcome,
    Run,
    RunResources,
    ToolSpec,
    answered,
    replied,
    run_in,
    spec,
)
from ..support.worlds import PARAMETERS, SELECT

CRITERIA = ("Names the day.", "names the  place", "names the day")


def refined(decision: Any = "continue", **keys: Any) -> Refinement:
    """Return a refinement."""
    return Refinement(decision=decision, reason="r", **keys)


def case_of(run: Any, outcome: Any) -> GuardContext:
    """Read a case with a kit of its own."""
    return read_case(run, outcome, RunResources(run.spec))


# -- progress ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("criterion", "found"),
    [
        ("Names the day.", "101"),
        ("names the day", "101"),
        ("NAMES  THE\tDAY", "101"),
        ("names the place", "010"),
        ("names the place.", "010"),
        ("names the year", "000"),
        ("", "000"),
        ("names the day and the place", "000"),
    ],
)
def test_A042_a_criterion_is_recognised_by_its_words(criterion: str, found: str) -> None:
    """Case, spacing and a final stop do not matter; two criteria with the same words are met together."""
    run = run_in(REVIEWING, spec(success_criteria=CRITERIA))
    assert progress(run, (CriterionCheck(criterion=criterion, met=True),)) == found
    assert progress(run, (CriterionCheck(criterion=criterion, met=False),)) == "000"


@given(
    before=st.text(alphabet="01", min_size=3, max_size=3),
    checks=st.lists(st.tuples(st.sampled_from([*CRITERIA, "other"]), st.booleans()), max_size=8),
)
def test_A042_progress_is_never_taken_back(before: str, checks: list[tuple[str, bool]]) -> None:
    """One character per criterion, whatever is judged; what was met stays met."""
    run = run_in(REVIEWING, spec(success_criteria=CRITERIA), counters={"criteria": before})
    after = progress(run, tuple(CriterionCheck(criterion=text, met=met) for text, met in checks))
    met = {folded_text(text) for text, is_met in checks if is_met}
    wanted = [
        "1" if old == "1" or folded_text(text) in met else "0"
        for old, text in zip(before, CRITERIA, strict=True)
    ]
    assert after == "".join(wanted)


# -- reasons to stop -----------------------------------------------------------------------------------------------


@given(st.lists(st.none() | st.integers(-3, 3), max_size=12))
def test_A018_staleness_counts_scores_in_a_row_that_did_not_rise(scores: list[int | None]) -> None:
    """Over the best so far; held against the definition over the whole list."""
    run, seen = run_in(REVIEWING), []
    for score in scores:
        seen.append(score)
        stale, best = stale_after(run, refined(score=None if score is None else float(score)))
        numbers = [number for number in seen if number is not None]
        assert best == (max(numbers) * 1_000_000 if numbers else None)
        row = 0
        for index in range(len(seen) - 1, -1, -1):
            earlier = [number for number in seen[:index] if number is not None]
            now = seen[index]
            if now is None or not earlier or now > max(earlier):
                break
            row += 1
        assert stale == row
        run = replace(run, counters=replace(run.counters, stale=stale, best_score=best))
    assert stale_after(run, None) == (run.counters.stale, run.counters.best_score), (
        "no judgement changes nothing"
    )


# -- hard stops ------------------------------------------------------------------------------------------------------

BROKE = {"token_budget": 10}
SPENT = {"tokens_in": 5, "tokens_out": 5}


BROKE_SPEC = spec(limits=BROKE)
MET = spec(limits=BROKE, success_criteria=("c",))

STOPS: dict[str, tuple[Run, Outcome, str | None]] = {
    "refused too often": (run_in(PLANNING, counters={"refused": 3}), NoOutcome(), "stuck"),
    "one token left": (run_in(PLANNING, BROKE_SPEC, counters={"tokens_in": 9}), replied("x"), None),
    "before Stage 2": (
        run_in(SPECIFYING, BROKE_SPEC, counters=SPENT, selection=SETTLED),
        NoOutcome(),
        "token_budget",
    ),
    "the last formatting": (
        run_in(SPECIFYING, BROKE_SPEC, counters=SPENT | {"formatted": 1}, selection=SETTLED),
        NoOutcome(),
        None,
    ),
    "a person answers": (
        run_in(SPECIFYING, BROKE_SPEC, counters=SPENT, selection=SELECTION, question=QUESTION),
        answered("accept"),
        None,
    ),
    "a person cancels": (
        run_in(SPECIFYING, selection=SELECTION, question=QUESTION),
        answered("cancel"),
        "cancelled",
    ),
    "a tool acts": (run_in(EXECUTING, BROKE_SPEC, counters=SPENT, intent=INTENT), NoOutcome(), None),
    "doubt is cancelled": (run_in(EXECUTING, intent=INTENT, question=DOUBT), answered("cancel"), "cancelled"),
    "an action is observed": (
        run_in(OBSERVING, BROKE_SPEC, counters=SPENT | {"blocked": 3}),
        NoOutcome(),
        None,
    ),
    "at entry to Reviewing": (run_in(REVIEWING, BROKE_SPEC, counters=SPENT), NoOutcome(), "token_budget"),
    "all criteria met": (run_in(REVIEWING, MET, counters=SPENT | {"criteria": "1"}), NoOutcome(), None),
    "met, but stuck": (
        run_in(REVIEWING, MET, counters={"criteria": "1", "blocked": 3}),
        NoOutcome(),
        "stuck",
    ),
    "formatted": (run_in(REVIEWING, BROKE_SPEC, counters=SPENT | {"formatted": 1}), NoOutcome(), None),
    "formatted and cancelled": (run_in(REVIEWING, counters={"formatted": 1}), Cancelled(), "cancelled"),
}


@pytest.mark.parametrize("case", STOPS)
def test_a_hard_stop_is_read_where_it_ends_a_run(case: str) -> None:
    """Cancel and faults anywhere; limits before requests and at entry to Reviewing, not while a tool or a person acts."""
    run, outcome, stop = STOPS[case]
    assert case_of(run, outcome).stop == stop


# -- selections and calls ------------------------------------------------------------------------------------------


def test_an_unknown_action_names_those_that_there_are() -> None:
    """The feedback is what the model needs to choose rightly."""
    found = case_of(run_in(PLANNING), replied(SELECT("notes.shred\n## Rules")))
    assert found.problem is not None and found.problem.code == "unknown_action"
    assert found.problem.message.endswith("choose one of: notes.read, notes.send, notes.fail")
    assert "\n" not in found.problem.message


def test_a_call_is_labelled_by_its_action_number() -> None:
    """The number it will have: one more than the last."""
    run = run_in(SPECIFYING, selection=SELECTION.model_copy(update={"fields": None}), counters={"action": 6})
    found = case_of(run, replied(PARAMETERS(page=1)))
    assert found.intent is not None
    assert found.intent.label == "round1_task1_action7_page"
    assert found.intent.idempotency_key == "run-1-7"


def test_at_most_ten_problems_are_told() -> None:
    """A message stays a message."""
    properties = {f"p{n}": {"type": "integer"} for n in range(30)}
    of = spec(tools=(ToolSpec(name="notes.read", parameters={"properties": properties}),))
    run = run_in(SPECIFYING, of, selection=SELECTION.model_copy(update={"fields": None}))
    found = case_of(run, replied(PARAMETERS(**dict.fromkeys(properties, "x"))))
    assert found.invalid is not None and found.invalid.count("must be integer") == 10
    assert found.arguments is None and found.intent is None


def test_a_selection_that_no_catalog_has_is_an_internal_error() -> None:
    """It was accepted, so it was there: the spec has been changed under the run."""
    run = run_in(SPECIFYING, selection=SELECTION.model_copy(update={"tool": "notes.gone", "fields": None}))
    with pytest.raises(InternalError, match=r"notes\.gone"):
        case_of(run, replied(PARAMETERS(page=1)))
