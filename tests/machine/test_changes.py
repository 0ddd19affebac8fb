"""What a transition sets: the same slots every time, so that a run can be restored from a few of its rows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace as structs_replace

from paor.errors import InternalError
from paor.fsm.machine.fold import SETS, apply
from paor.fsm.machine.updates import CHANGES
from paor.machine import GuardContext, NoOutcome, Review

from ..support.cases import (
    EXECUTING,
    INTENT,
    PLANNING,
    REVIEWING,
    SLOTS,
    SPECIFYING,
    Change,
    FlowState,
    Turn,
    Walk,
    answered,
    fault,
    replied,
    run_in,
    spec,
)
from ..support.worlds import ANSWER, CONTINUE, MET, PARAMETERS, REFINE, REVIEW, SELECT, STOP


def test_what_is_declared_is_what_there_is() -> None:
    """A transition for each function of `CHANGES`, and only slots of a change."""
    for sets in SETS.values():
        assert set(sets) == set(CHANGES)
        assert all(slots and slots <= set(SLOTS) for slots in sets.values())


@pytest.mark.parametrize("kind", SETS)
def test_a_change_that_sets_another_slot_is_refused(kind: str) -> None:
    """One too many would be lost on resume, one too few would keep an older value; either is no run at all."""
    flow = FlowState(at=0, kind="plan") if kind == "workflow" else None
    for (source, trigger), declared in SETS[kind].items():
        run = run_in(source, spec(mode="react" if kind == "react" else "planner"), flow=flow)
        other = next(name for name in SLOTS if name not in declared)
        for slots in (declared - {min(declared)}, declared | {other}):
            change = Change(**dict.fromkeys(slots))
            with pytest.raises(InternalError, match=f"{trigger} in {source} must set"):
                apply(
                    run,
                    at=0,
                    trigger=trigger,
                    dest=source,
                    counters=run.counters,
                    change=change,
                    outcome={"kind": "none"},
                )


def test_a_turn_that_is_said_at_times_only_is_refused() -> None:
    """Which rows add a turn is told from the outcome alone, without reading the change."""
    run = run_in(PLANNING, spec(mode="planner"))
    slots: dict[str, Any] = dict.fromkeys(SETS["plans"][PLANNING, "select"])
    for kind, turn in (("reply", None), ("none", Turn("assistant", "I plan."))):
        with pytest.raises(InternalError, match="says a turn at times only"):
            apply(
                run,
                at=0,
                trigger="select",
                dest=SPECIFYING,
                counters=run.counters,
                change=Change(**(slots | {"turn": turn})),
                outcome={"kind": kind},
            )


def test_a_change_that_is_edited_does_not_come_into_a_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk of a run ends at the first transition that sets what it does not declare."""
    own = CHANGES[PLANNING, "select"]

    def forgetful(case: GuardContext) -> Any:
        change, counters = own(case)
        return structs_replace(change, feedback=UNSET), counters

    monkeypatch.setitem(CHANGES, (PLANNING, "select"), forgetful)
    with pytest.raises(InternalError, match="it differs in feedback"):
        taken(SELECT())


def taken(*outcomes: Any, of: Any = None) -> Walk:
    """Return a walk after *outcomes*."""
    walk = Walk(of)
    for outcome in outcomes:
        if outcome == "end":
            walk.end()
            walk.take_nothing()
        else:
            walk.take(outcome)
    return walk


STEP = [SELECT(), PARAMETERS(page=1), "end"]


def test_a_step_is_counted_when_it_is_selected_and_an_action_when_it_is_specified() -> None:
    """A step without an action number is one that a budget stopped in between."""
    walk = taken(SELECT())
    assert (walk.run.counters.step, walk.run.counters.action) == (1, 0)
    walk.take(PARAMETERS(page=1))
    assert (walk.run.counters.step, walk.run.counters.action) == (1, 1)


def test_retries_are_given_back_where_they_belong() -> None:
    """Selection retries by a selection, parameter retries by a step, review retries by an observation."""
    walk = taken("?", SELECT(), "?")
    assert (walk.run.counters.selection_retries, walk.run.counters.parameter_retries) == (0, 1)
    walk.take(PARAMETERS(page=1))
    walk.end()
    walk.take_nothing()
    walk.take("?")
    assert (walk.run.counters.parameter_retries, walk.run.counters.review_retries) == (0, 1)
    walk.take(CONTINUE)
    assert walk.run.counters.review_retries == 0


def test_feedback_is_gone_once_the_reply_was_good() -> None:
    """The next prompt does not complain of a fault that was mended."""
    scripts: list[list[Any]] = [
        ["?", SELECT()],
        [SELECT(), "?", PARAMETERS(page=1)],
        [*STEP, "?", CONTINUE],
        [*STEP, STOP, "?", REVIEW("retry")],
    ]
    for faults in scripts:
        walk = Walk()
        for outcome in faults:
            if outcome == "end":
                walk.end()
                walk.take_nothing()
                continue
            walk.take(outcome)
            assert (walk.run.memory.feedback is not None) is (outcome == "?")


def test_hint_and_improvements_are_for_the_next_selection_only() -> None:
    """A retry replaces the hint by the review's improvements."""
    walk = taken(*STEP, REFINE("continue", hint="h"))
    assert (walk.run.memory.hint, walk.run.memory.improvements) == ("h", None)
    walk = taken(
        *STEP,
        REFINE("continue", hint="h"),
        SELECT(),
        PARAMETERS(page=2),
        "end",
        STOP,
        REVIEW("retry", "a", "b"),
    )
    assert (walk.run.memory.hint, walk.run.memory.improvements) == (None, ("a", "b"))
    assert walk.run.counters.concluded == 0 and walk.run.counters.stop == ""


def test_a_direct_answer_is_a_stop_of_the_model() -> None:
    """It is reviewed like any other end."""
    reviewed = spec(limits={"completion_review": "model"})
    walk = taken(ANSWER("It is known."), of=reviewed)
    assert (walk.run.counters.concluded, walk.run.counters.stop, walk.run.memory.answer) == (
        1,
        "model_stop",
        "It is known.",
    )
    walk.take(REVIEW("retry"))
    assert walk.run.memory.answer is None


def test_a_review_that_fails_keeps_its_criteria_and_answer() -> None:
    """Failed keeps what was reached."""
    walk = taken(
        *STEP,
        STOP,
        REVIEW("failed", answer="Only the day.", criteria=[MET("c")]),
        of=spec(success_criteria=("c", "d")),
    )
    assert (walk.run.state, walk.run.counters.stop, walk.run.counters.criteria) == (
        "Failed",
        "review_failed",
        "10",
    )
    assert walk.run.memory.answer == "Only the day."


@pytest.mark.parametrize(
    ("state", "memory"),
    [
        (PLANNING, {}),
        (SPECIFYING, {"selection": None}),
        (EXECUTING, {"intent": INTENT}),
        (REVIEWING, {}),
    ],
)
def test_a_failure_without_a_cause_is_never_given_a_made_up_one(state: str, memory: dict[str, Any]) -> None:
    """It cannot happen; if it did, the reason would say so."""
    run = run_in(state, **{name: value for name, value in memory.items() if value is not None})
    change, counters = CHANGES[state, "fail"](GuardContext(run, NoOutcome()))
    assert counters.stop == ("selection_invalid" if state == PLANNING else "internal_error")
    assert change.answer


@pytest.mark.parametrize("outcome", [fault(), replied("?")], ids=["fault", "reply"])
def test_a_failing_model_leaves_what_there_is(outcome: Any) -> None:
    """The answer tells of the results so far, and the documents stay referable."""
    walk = taken(*STEP, CONTINUE, of=spec(limits={"selection_retries": 0}))
    walk.take(outcome)
    assert walk.run.state == "Failed"
    assert "notes.read" in (walk.run.memory.answer or "")
    assert "round1_task1_action1_page" in walk.run.memory.labels


def test_an_answer_is_kept_until_it_has_been_used() -> None:
    """So that a crash between answer and effect does not lose it."""
    of = spec(policy={"approvals": ("*",)})
    walk = taken(SELECT(), PARAMETERS(page=1), answered("accept", {"approve": True}), of=of)
    assert walk.run.memory.reply is not None and walk.run.memory.question is None
    walk.take_nothing()
    assert walk.run.state == EXECUTING and walk.run.memory.reply is None


def test_history_is_bounded() -> None:
    """However many actions there were, memory keeps the last fifty."""
    walk = Walk(spec(limits={"max_steps": 1000}))
    for page in range(70):
        walk.take(SELECT())
        walk.take(PARAMETERS(page=page))
        walk.end(None)
        walk.take_nothing()
        walk.take(CONTINUE)
    steps = [message.step for message in walk.run.memory.history]
    assert steps == list(range(21, 71))
    assert len(walk.run.memory.window) == 8


def test_a_change_says_what_it_sets_and_what_it_clears() -> None:
    """A slot that is None is cleared, one that is absent is left alone; both survive being written."""
    change = Change(answer="a", hint=None)
    again = Change.read(change.wire_json())
    assert again.slots().keys() == {"answer", "hint"}
    assert Change(review=Review(status="success")).wire_json() == '{"review":{"status":"success"}}'
