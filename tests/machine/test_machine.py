"""The pure decision: legal or IllegalEvent and nothing else, the first row that fits, no trace of having been asked."""

from __future__ import annotations

import copy
import sys
from collections import Counter
from dataclasses import replace as replaced
from itertools import product
from types import FrameType
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple, replace
from transitions import EventData, core

from paor import Machine, Usage
from paor.errors import IllegalEvent, InternalError
from paor.fsm.journal.record import canonical
from paor.fsm.machine import guards as guards_module
from paor.fsm.machine.decide import Moment, decide, request_of
from paor.fsm.machine.guards import GUARDS
from paor.fsm.machine.machine import DECIDE, MACHINE, SETTLE, Walker
from paor.fsm.machine.table import ROWS, TABLE, Row, rows_of
from paor.fsm.machine.updates import CHANGES, Decision
from paor.fuzz import texts
from paor.machine import Cancelled, Ended, GuardContext, ModelFault, NoOutcome, Review, Selection
from paor.tools.documents.tools import generate_report

from ..support.cases import (
    DONE,
    DOUBT,
    EXECUTING,
    FAILED,
    FINAL,
    INTENT,
    MOMENT,
    OBSERVING,
    OUTCOMES,
    PHASES,
    PLACE,
    PLANNING,
    QUESTION,
    RESULT,
    REVIEWING,
    SELECTION,
    SETTLED,
    SPECIFYING,
    Answer,
    Change,
    ModelRequest,
    Nothing,
    Outcome,
    Recall,
    Run,
    RunResources,
    SchemaField,
    ToolRequest,
    Walk,
    answered,
    counters_text,
    ended,
    replied,
    run_in,
    spec,
)
from ..support.effort import examples

RUNS: dict[str, Run] = {
    "planning": run_in(PLANNING),
    "planning, out of tokens": run_in(PLANNING, spec(limits={"token_budget": 9}), counters={"tokens_in": 9}),
    "specifying": run_in(SPECIFYING, selection=SELECTION),
    "specifying, settled": run_in(SPECIFYING, selection=SETTLED),
    "specifying, waiting": run_in(SPECIFYING, selection=SELECTION, intent=INTENT, question=QUESTION),
    "specifying, approved": run_in(
        SPECIFYING,
        selection=SELECTION,
        intent=INTENT,
        reply=Answer(action="accept", content={"approve": True}),
    ),
    "executing": run_in(EXECUTING, selection=SELECTION, intent=INTENT),
    "executing, waiting": run_in(EXECUTING, selection=SELECTION, intent=INTENT, question=DOUBT),
    "executing, again": run_in(EXECUTING, selection=SELECTION, intent=INTENT, reply=Answer(action="retry")),
    "executing, reconciled": run_in(
        EXECUTING, selection=SELECTION, intent=INTENT, reply=Answer(action="done", content="sent")
    ),
    "observing": run_in(OBSERVING, selection=SELECTION, intent=INTENT, result=RESULT),
    "observing, blocked": run_in(
        OBSERVING,
        selection=SELECTION,
        intent=INTENT,
        result=replace(RESULT, ok=False, error="again", echo=PLACE),
    ),
    "reviewing": run_in(REVIEWING),
    "reviewing, concluded": run_in(REVIEWING, counters={"concluded": 1, "stop": "model_stop"}),
    "reviewing, formatted": run_in(
        REVIEWING,
        spec(final_format="md"),
        counters={"concluded": 1, "formatted": 1, "stop": "model_stop"},
        review=Review(status="success"),
    ),
    "reviewing, stuck": run_in(REVIEWING, counters={"blocked": 3}),
    "done": run_in(DONE, counters={"stop": "model_stop"}),
    "failed": run_in(FAILED, counters={"stop": "cancelled"}),
}
"""A run in every situation that a phase tells apart."""

LEGAL: dict[str, set[str]] = {
    "planning": {"reply", "fault"},
    "planning, out of tokens": {"none"},
    "specifying": {"reply", "fault"},
    "specifying, settled": {"none"},
    "specifying, waiting": {"answer"},
    "specifying, approved": {"none"},
    "executing": {"result", "in_doubt", "asked"},
    "executing, waiting": set(),  # the answer to an effect in doubt is done, retry or fail: not "accept"
    "executing, again": {"result", "in_doubt", "asked"},
    "executing, reconciled": {"result"},
    "observing": {"none"},
    "observing, blocked": {"recalled"},
    "reviewing": {"reply", "fault"},
    "reviewing, concluded": {"reply", "fault"},
    "reviewing, formatted": {"none"},
    "reviewing, stuck": {"none"},
}
"""Kinds of outcome that a row takes; a cancellation as well, as long as the run has not ended."""


def decided(run: Run, outcome: Outcome, kit: RunResources | None = None) -> Decision:
    """Return the decision, made with a kit of its own."""
    return decide(run, outcome, MOMENT, kit if kit is not None else RunResources(run.spec))


def first_fit(rows: tuple[Row, ...], values: dict[str, bool]) -> Row:
    """Return the first of *rows* whose guards hold, by the recorded *values*."""
    for row in rows:
        if all(values[name] for name in row.conditions) and not any(values[name] for name in row.unless):
            return row
    raise AssertionError(f"no row fits {values}")


# -- legal and illegal events --------------------------------------------------------------------------------------


@pytest.mark.parametrize("situation", RUNS)
def test_every_outcome_in_every_phase_is_a_row_or_an_illegal_event(situation: str) -> None:
    """What the run's request cannot come to, is no event: it raises, and the run stays as it was."""
    run = RUNS[situation]
    before = copy.deepcopy(run)
    for kind, outcome in OUTCOMES.items():
        if kind in LEGAL.get(situation, set()) or (kind == "cancelled" and run.state not in FINAL):
            decision = decided(run, outcome)
            assert decision.row in ROWS and decision.row.source == run.state
        else:
            with pytest.raises(IllegalEvent, match=f"run-1.*{kind}.*{run.state}"):
                decided(run, outcome)
        assert run == before


def test_the_situations_cover_every_phase_and_every_kind_of_request() -> None:
    """So that the test above forgets none."""
    assert {run.state for run in RUNS.values()} == set(PHASES)
    kinds = {type(request_of(run)) for run in RUNS.values()}
    assert kinds == {Nothing, ModelRequest, ToolRequest, Recall}


@pytest.mark.parametrize("situation", [name for name in RUNS if RUNS[name].state not in FINAL])
def test_a_cancellation_is_taken_wherever_a_run_is(situation: str) -> None:
    """It fails the run at once, but for Observing: what a tool did is observed first."""
    run = RUNS[situation]
    decision = decided(run, Cancelled())
    if run.state == OBSERVING:
        assert decision.row.trigger == "observe"
    else:
        assert (decision.row.dest, decision.counters.stop) == (FAILED, "cancelled")
        assert decision.change.answer


def test_an_ended_run_needs_nothing() -> None:
    """The loop never asks for anything on behalf of a final phase, nor while a run waits."""
    for name in ("done", "failed", "specifying, waiting", "executing, waiting"):
        assert isinstance(request_of(RUNS[name]), Nothing)


@pytest.mark.parametrize("action", ["done", "retry", "fail", "cancel"])
def test_an_effect_in_doubt_is_settled_by_its_own_answers(action: str) -> None:
    """Done, retry and fail go on; cancel fails the run."""
    answer = answered(action)
    decision = decided(RUNS["executing, waiting"], answer)
    assert decision.row.trigger == ("fail" if action == "cancel" else "provide")
    assert decision.change.question is None


# -- guards ------------------------------------------------------------------------------------------------------


def counted_guards(run: Run, outcome: Outcome) -> tuple[Decision, Counter[str]]:
    """Return the decision and how often each guard was called for it, not counting calls between guards."""
    kit = RunResources(run.spec)
    codes = {guard.__code__: name for name, guard in GUARDS.items()}
    calls: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        caller = frame.f_back
        if event == "call" and frame.f_code in codes and caller is not None:
            calls[codes[frame.f_code]] += caller.f_code.co_filename != guards_module.__file__

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        decision = decide(run, outcome, MOMENT, kit)
    finally:
        sys.setprofile(before)
    return decision, +calls


@pytest.mark.parametrize(
    ("situation", "kind"), [(situation, kind) for situation, kinds in LEGAL.items() for kind in sorted(kinds)]
)
def test_every_guard_of_every_row_tried_is_evaluated_once_and_recorded(situation: str, kind: str) -> None:
    """No more (it is the record of why), no less (a replay compares it), never twice."""
    run = RUNS[situation]
    decision, calls = counted_guards(run, OUTCOMES[kind])
    rows = rows_of(run.state, waiting=run.waiting_for is not None)
    tried = rows[: rows.index(decision.row) + 1]
    names = {name for row in tried for name in (*row.conditions, *row.unless)}
    assert set(decision.guards) == names
    assert calls == dict.fromkeys(names, 1)
    assert first_fit(rows, decision.guards) is decision.row


def walker_of(row: Row, values: dict[str, bool]) -> Walker:
    """Return a walker in the row's source of which every guard has been evaluated already."""
    run = run_in(row.source, question=QUESTION if row.answers else None)
    walker = Walker(GuardContext(run, NoOutcome()))
    walker.guards.update(values)
    return walker


def earlier_rows(row: Row) -> list[Row]:
    """Return the rows that are tried before *row*."""
    tried = rows_of(row.source, waiting=row.answers)
    return list(tried[: tried.index(row)])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.source}-{row.trigger}-{row.dest}")
def test_transitions_takes_the_first_row_whose_guards_hold(row: Row) -> None:
    """`transitions` chooses: with the row's own values and no earlier row's it is taken, with any single other value it is not."""
    values = dict.fromkeys(GUARDS, False) | dict.fromkeys(row.conditions, True)
    for other in earlier_rows(row):  # of an earlier row one guard is to be wrong, and none of this row's own
        if all(values[name] for name in other.conditions) and not any(values[name] for name in other.unless):
            name = next(
                name
                for name in (*other.unless, *other.conditions)
                if name not in (*row.unless, *row.conditions)
            )
            values[name] = name in other.unless
    walker = walker_of(row, values)
    event = MACHINE.events[SETTLE if row.answers else DECIDE]
    assert event.trigger(walker)
    assert walker.row is row
    assert walker.state == row.dest
    for name in (*row.conditions, *row.unless):
        walker = walker_of(row, values | {name: not values[name]})
        moved = event.trigger(walker)
        assert not moved or walker.row is not row
        assert moved or walker.state == row.source


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.source}-{row.trigger}-{row.dest}")
def test_a_transition_is_taken_exactly_where_its_guards_hold(row: Row) -> None:
    """For all values of a row's guards: what `transitions` checks of each condition, and what the row says, come to the same."""
    names = (*row.conditions, *row.unless)
    event: Any = MACHINE.events[SETTLE if row.answers else DECIDE]
    (transition,) = (item for item in event.transitions[row.source] if item.row is row)
    for values in product((True, False), repeat=len(names)):
        told = dict(zip(names, values, strict=True))
        walker = walker_of(row, told)
        data = EventData(MACHINE.states[row.source], event, MACHINE, walker, (), {})
        allowed = all(told[name] for name in row.conditions) and not any(told[name] for name in row.unless)
        assert all(condition.check(data) for condition in transition.conditions) is allowed
        assert transition.execute(data) is allowed
        assert walker.state == (row.dest if allowed else row.source)
        assert not allowed or walker.row is row


LIBRARY = {"Event": ("_process",), "Machine": ("callbacks",)}
"""
What `transitions` does to take a transition. In place of `Event.trigger` with its queue, and of `Transition.execute` with its callbacks and a
call for each condition, are some without.
"""


@pytest.mark.parametrize(
    ("part", "name"), [(part, name) for part, names in LIBRARY.items() for name in names]
)
def test_no_decision_is_made_without_the_library(
    part: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`transitions` tries the transitions, and takes the first that fits; without it a run fails."""

    def broken(*given: object, **named: object) -> None:
        raise ZeroDivisionError("the library was used")

    monkeypatch.setattr(getattr(core, part), name, broken)
    for situation, kinds in LEGAL.items():
        run = RUNS[situation]
        for kind in kinds:
            with pytest.raises(ZeroDivisionError, match="the library was used"):
                decided(run, OUTCOMES[kind])


def test_a_subclass_has_a_standard_machine_of_its_own() -> None:
    """And what a host adds to it gives another one of that class."""

    class Desk(Machine):
        """A host's own."""

    machine = Desk.standard()
    assert type(machine) is Desk and machine.rows == Machine.standard().rows
    assert type(machine.row("Reviewing", "drop", "Failed", "review_retry")) is Desk
    assert type(Desk.from_dict(machine.to_dict())) is Desk
    assert type(Machine.standard()) is Machine


def test_a_guard_that_is_not_there_is_an_error_not_a_default() -> None:
    """A machine whose row names an unknown guard can be examined; a decision that needs the guard is refused."""
    machine = Machine(tuple(replaced(row, guards=("no_such_guard",)) for row in TABLE))
    run = run_in(PLANNING)
    with pytest.raises(InternalError, match="a guard that is not there"):
        decide(run, replied("nothing"), MOMENT, RunResources(run.spec), machine=machine)


def test_what_the_library_takes_is_what_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no second chooser: a machine of the library that tries its rows in another order decides otherwise."""
    run, outcome = run_in(PLANNING), replied("nothing")
    assert decided(run, outcome).row.trigger == "reselect"
    monkeypatch.setattr("paor.fsm.machine.machine.MACHINE", Machine(TABLE[::-1]))
    assert (decided(run, outcome).row.trigger, decided(run, outcome).row.guards) == ("fail", ())
    monkeypatch.setattr(
        "paor.fsm.machine.machine.MACHINE", Machine(tuple(row for row in TABLE if row.source != PLANNING))
    )
    with pytest.raises(IllegalEvent):
        decided(run, outcome)


def test_every_row_has_a_change() -> None:
    """A row without one could not be journaled."""
    assert CHANGES.keys() == {(row.source, row.trigger) for row in ROWS}


# -- purity and totality -----------------------------------------------------------------------------------------

FIELDS = (SchemaField(name="page", type="number", required=True),)
SELECTIONS = st.sampled_from(
    [
        SELECTION,
        SETTLED,
        SELECTION.model_copy(update={"fields": None}),
        SELECTION.model_copy(update={"fields": FIELDS}),
        Selection(tool="notes.send", fields=None),
        Selection(tool="notes.read", fields=FIELDS, documents=("docList:x",), connection="mail"),
    ]
)


CRITERION = "names the day"


@st.composite
def asked_runs(draw: st.DrawFn) -> Run:
    """Return a run that asks the model something, with arbitrary counters within its limits."""
    limits = {
        "max_steps": draw(st.integers(1, 4)),
        "selection_retries": draw(st.integers(0, 2)),
        "parameter_retries": draw(st.integers(0, 2)),
        "review_retries": draw(st.integers(0, 2)),
        "max_retries": draw(st.integers(0, 2)),
        "no_improvement_limit": draw(st.integers(1, 2)),
        "reply_chars": draw(st.sampled_from([1000, 1_000_000])),
    }
    policy = draw(
        st.sampled_from(
            [{}, {"deny": ("notes.read",)}, {"approvals": ("notes.*",)}, {"allow": ("notes.send",)}]
        )
    )
    criteria = draw(st.sampled_from([(), (CRITERION,), (CRITERION, "names the year")]))
    form = draw(st.sampled_from([None, "md"]))
    of = spec(
        limits=limits,
        policy=policy,
        success_criteria=criteria,
        connections=("mail",),
        final_format=form,
        formatter=generate_report.spec(),
    )
    state = draw(st.sampled_from([PLANNING, SPECIFYING, REVIEWING]))
    counters = {
        "step": draw(st.integers(0, limits["max_steps"])),
        "selection_retries": draw(st.integers(0, limits["selection_retries"])),
        "parameter_retries": draw(st.integers(0, limits["parameter_retries"])),
        "review_retries": draw(st.integers(0, limits["review_retries"])),
        "retries": draw(st.integers(0, limits["max_retries"])),
        "stale": draw(st.integers(0, 1)),
        "best_score": draw(st.none() | st.integers(-10, 10)),
        "criteria": "".join(draw(st.sampled_from("01")) for _ in criteria),
        "concluded": draw(st.integers(0, 1)) if state == REVIEWING else 0,
        "stop": draw(st.sampled_from(["", "model_stop", "max_steps", "no_improvement"])),
    }
    memory = {"selection": draw(SELECTIONS)} if state == SPECIFYING else {}
    return run_in(state, of, counters=counters, **memory)


def facts_are_clean(decision: Decision) -> None:
    """Fail unless everything that goes into the hashed row is ASCII and whole numbers."""
    for data in (decision.guards, decision.facts):
        text = canonical(data)
        assert text.isascii()
        assert orjson.loads(text) == data
    assert counters_text(decision.counters).isascii()
    others = replace(decision.counters, own={})
    assert all(isinstance(value, int | str | None) or value == {} for value in astuple(others))
    assert all(type(value) is int for value in decision.counters.own.values())


@settings(max_examples=examples(120))
@given(
    run=asked_runs(), text=texts(), finish=st.sampled_from(["stop", "length", "refusal", "content_filter"])
)
def test_decide_is_total_and_pure_for_whatever_a_model_says(run: Run, text: str, finish: str) -> None:
    """A decision for every text; the same one each time; nothing that went in is changed."""
    outcome = replied(text, finish=finish)
    settled = not isinstance(request_of(run), ModelRequest)
    given: Outcome = NoOutcome() if settled else outcome
    before, kit = copy.deepcopy(run), RunResources(run.spec)
    decision = decided(run, given, kit)
    assert decided(run, given, kit) == decision == decided(run, given)
    assert run == before
    assert Change.read(decision.change.wire_json()) == decision.change
    facts_are_clean(decision)
    assert decision.counters.calls == run.counters.calls + (0 if settled else 1)
    walk = Walk(run=run)
    walk.take(given)
    if isinstance(walk.request, ModelRequest):
        assert walk.kit.prompts.build(walk.request.kind, walk.run)
    if walk.run.final:
        assert walk.run.memory.answer


# -- what is counted ---------------------------------------------------------------------------------------------


@given(
    spent=st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9)),
    usage=st.tuples(st.integers(0, 5), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6)),
    active_us=st.integers(0, 10**9),
)
def test_usage_and_time_of_an_outcome_are_counted_once(
    spent: tuple[int, int, int], usage: tuple[int, int, int, int], active_us: int
) -> None:
    """Counters after a row are those before it plus what its outcome used, for tools that ask models as well."""
    start = {"tokens_in": spent[0], "tokens_out": spent[1], "time_us": spent[2]}
    run = run_in(EXECUTING, selection=SELECTION, intent=INTENT, counters=start)
    outcome = Ended(RESULT, Usage(*usage))
    after = decide(run, outcome, Moment(1, active_us), RunResources(run.spec)).counters
    assert (after.calls, after.tokens_in - spent[0], after.tokens_out - spent[1], after.cost_micro) == usage
    assert after.time_us == spent[2] + active_us


def test_a_tools_own_requests_stand_in_the_row_of_its_call() -> None:
    """Prompt and reply by reference, tokens and cost as numbers; an error by its code."""
    run = run_in(EXECUTING, selection=SELECTION, intent=INTENT)
    ok = decided(run, Ended(RESULT, Usage(1, 20, 10, 3), ((PLACE, PLACE),)))
    assert ok.facts["texts"] == [[PLACE.wire(), PLACE.wire()]]
    assert (ok.facts["tokens_in"], ok.facts["tokens_out"], ok.facts["cost_micro"]) == (20, 10, 3)
    assert "cost_micro" not in decided(run, Ended(RESULT, Usage(1, 20, 10), ((PLACE, PLACE),))).facts
    assert decided(run, ended(ValueError("no"), INTENT)).facts["error"] == "tool_error"


def test_a_fault_records_what_the_failed_attempts_used() -> None:
    """Money that was spent counts although nothing came of it."""
    outcome = ModelFault("timeout", "late", PLACE, Usage(2, 30, 0, 4))
    decision = decided(run_in(PLANNING), outcome)
    assert decision.facts == {
        "kind": "fault",
        "code": "timeout",
        "message": PLACE.wire(),
        "calls": 2,
        "tokens_in": 30,
        "cost_micro": 4,
    }
    assert (decision.counters.calls, decision.counters.tokens_in) == (2, 30)
    named = ModelFault("timeout", "late", PLACE, Usage(2, 30, 0, 4), "req-7")
    assert decided(run_in(PLANNING), named).facts == {**decision.facts, "request_id": "req-7"}


def test_a_replys_cost_stands_in_its_row() -> None:
    """In millionths, and only where there is one."""
    free = decided(run_in(PLANNING), replied("x"))
    paid = replace(replied("x"), usage=Usage(1, 1, 1, 12))
    assert "cost_micro" not in free.facts
    assert decided(run_in(PLANNING), paid).facts["cost_micro"] == 12
