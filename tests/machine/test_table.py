"""The table is the machine: the table as it was meant, `fsm.machine.table` and the `transitions` machine say the same, row by row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from paor.fsm.machine.guards import GUARDS
from paor.fsm.machine.machine import DECIDE, MACHINE, SETTLE
from paor.fsm.machine.table import INITIAL, ROWS, TABLE, WAITING, Row, fingerprint, rows_of

from ..support.cases import DONE, EXECUTING, FAILED, FINAL, PHASES, PLANNING, REVIEWING, SPECIFYING

MEANT = """
| from | trigger | to | guards (named pure functions) | meaning |
|---|---|---|---|---|
| Planning | fail | Failed | hard_stop | cancelled, a budget used up, model_error, aborted |
| | wait | Planning | elicitation_requested, elicitations_left | the planner needs the user |
| | answer | Reviewing | answer_present | the planner answers and takes no action |
| | select | Specifying | selection_valid, action_allowed, steps_left | Stage 1 accepted; in batch and planner mode the plan's first step, all steps checked |
| | reselect | Planning | not selection_ok, selection_retries_left | asked again, once by default |
| | fail | Failed | | selection_invalid |
| Specifying | fail | Failed | hard_stop | |
| | withhold | Planning | result_known, action_allowed, tools_offered | its result is known: the answer is asked for, without tools |
| | wait | Specifying | approval_needed or argument_missing (planner mode), elicitations_left | before the intent row |
| | specify | Executing | parameters_valid, parameters_safe, action_allowed, not duplicate | defaults filled; this row **is** the intent to execute |
| | respecify | Specifying | not parameters_ok, not duplicate, parameter_retries_left | asked again |
| | refuse | Observing | | not executed: duplicate_call_blocked, denied, or still invalid or unsafe; the observation says which |
| Executing | fail | Failed | hard_stop | only cancel, and only when the tool has ended or is in doubt |
| | wait | Executing | in_doubt | a `once` effect that may or may not have happened |
| | wait | Executing | input_required, elicitations_left | the tool needs somebody's answer before it goes on |
| | retry_step | Executing | step_retries_left, retryable | a step's own `retries`; never for `once` unless the tool raised NotStarted |
| | execute | Observing | | the tool ended, with a result or an error |
| Observing | observe | Reviewing | | compact observation built, documents stored under their label |
| Reviewing | fail | Failed | hard_stop | at entry, without a request: cancelled, stuck, a budget used up while not criteria_met |
| | reassess | Reviewing | reply_invalid, review_retries_left | refinement or completion review asked again, once by default |
| | conclude | Reviewing | stop_reached, not concluded | refinement or limit recorded; the completion review is asked next |
| | format | Specifying | review_success, final_action_pending | the one last formatting action; clears the pending flag |
| | finish | Done | review_success, or budget used up and criteria_met | |
| | retry | Planning | review_retry, retries_left, steps_left | improvements go into the next plan |
| | next_step | Specifying | should_continue, plan_has_steps | batch and planner mode |
| | proceed | Planning | should_continue, not plan_has_steps | next single action, or next plan |
| | fail | Failed | | review_failed, retries_exhausted, or the stop reason |
| any waiting phase | provide | same | answer_valid | the answer of a wait; any process can give it |
"""
"""The table as it was designed, written down on its own, and the wait for a tool that asks in the middle of its call."""

DISJUNCTIONS: dict[str, list[tuple[str, ...]]] = {
    "review_success, or budget used up and criteria_met": [
        ("review_success",),
        ("budget_used_up", "criteria_met"),
    ],
    "approval_needed or argument_missing (planner mode), elicitations_left": [
        ("approval_needed", "elicitations_left"),
        ("argument_missing", "elicitations_left"),
    ],
}
"""A row is a conjunction: the two cases of `finish` and of the `wait` in Specifying are two rows each."""


def designed() -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Yield source, trigger, destination and guards of each row of `MEANT`."""
    source = ""
    for line in MEANT.strip().splitlines()[2:]:
        first, trigger, dest, guards, _ = (cell.strip() for cell in line.strip("|").split("|"))
        source = first or source
        sources = (PLANNING, SPECIFYING, EXECUTING) if source == "any waiting phase" else (source,)
        plain = tuple(filter(None, (guard.strip() for guard in guards.split(","))))
        for phase in sources:
            for conjunction in DISJUNCTIONS.get(guards, [plain]):
                yield phase, trigger, phase if dest == "same" else dest, conjunction


def machine_rows(event: str) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Return what the `transitions` machine itself says of an event, in the order in which it would try it."""
    rows = []
    events: dict[str, Any] = MACHINE.events
    for source, transitions in events[event].transitions.items():
        for transition in transitions:
            guards = tuple(
                condition.func.__name__ if condition.target else f"not {condition.func.__name__}"
                for condition in transition.conditions
            )
            rows.append((source, transition.label, transition.dest, guards))
    return rows


def as_tuple(row: Row) -> tuple[str, str, str, tuple[str, ...]]:
    """Return the row in the form of the two above."""
    return row.source, row.trigger, row.dest, row.guards


def test_the_table_is_designs_table_row_by_row() -> None:
    """Source, trigger, destination, guards and order: what is documented is what runs."""
    assert [as_tuple(row) for row in ROWS] == list(designed())


@pytest.mark.parametrize("event", [DECIDE, SETTLE])
def test_the_machine_holds_exactly_the_table(event: str) -> None:
    """Nothing is written down twice: events, sources, destinations, conditions and unless come from the rows."""
    for source in PHASES:
        mine = [
            (*as_tuple(row)[:3], tuple(sorted(row.guards, key=lambda guard: guard.startswith("not "))))
            for row in rows_of(source, waiting=event == SETTLE)
        ]
        theirs = [row for row in machine_rows(event) if row[0] == source]
        assert theirs == mine, "the machine tries the rows of a phase in the table's order"


def test_get_transitions_agrees_for_every_pair_of_phases() -> None:
    """The machine's public view: triggers from one phase to another are those of the table."""
    for source in PHASES:
        for dest in PHASES:
            expected = [row for row in TABLE if (row.source, row.dest) == (source, dest)]
            assert len(MACHINE.get_transitions(DECIDE, source, dest)) == len(expected)
        waiting = [SETTLE] if rows_of(source, waiting=True) else []
        assert MACHINE.get_triggers(source) == ([DECIDE, *waiting] if source not in FINAL else [])


def test_the_machines_states_are_the_seven_phases() -> None:
    """States, initial and final ones, and no way around the table by an automatic ``to_...`` trigger."""
    assert tuple(MACHINE.states) == PHASES
    assert MACHINE.initial == INITIAL == PLANNING
    assert {name for name, state in MACHINE.states.items() if state.final} == FINAL == {DONE, FAILED}
    assert MACHINE.auto_transitions is False
    assert not [name for name in MACHINE.events if name.startswith("to_")]
    assert MACHINE.send_event is True
    assert not MACHINE.ignore_invalid_triggers
    assert not any(state.ignore_invalid_triggers for state in MACHINE.states.values())


def test_no_effect_hangs_on_the_machine() -> None:
    """Callbacks would run outside of the journal; there are none on the machine, its states or transitions."""
    for name in (
        "before_state_change",
        "after_state_change",
        "prepare_event",
        "finalize_event",
        "on_exception",
    ):
        assert not getattr(MACHINE, name), name
    for state in MACHINE.states.values():
        assert not state.on_enter and not state.on_exit
    for transition in MACHINE.get_transitions():
        assert not transition.before and not transition.after and not transition.prepare


def test_nothing_leads_on_from_a_final_phase() -> None:
    """Done and Failed are ends, in the table and in the machine."""
    assert not [row for row in ROWS if row.source in FINAL]
    for phase in FINAL:
        assert rows_of(phase) == () and rows_of(phase, waiting=True) == ()
        assert MACHINE.get_triggers(phase) == []


def test_done_is_entered_from_reviewing_only() -> None:
    """No action, answer or limit alone can end a run well."""
    assert {(row.source, row.trigger) for row in ROWS if row.dest == DONE} == {(REVIEWING, "finish")}


def test_every_phase_that_is_not_final_has_a_way_out_for_every_case() -> None:
    """The last row of a phase has no guards, so that a legal outcome always finds a row."""
    for phase in PHASES:
        if phase not in FINAL:
            *others, last = rows_of(phase)
            assert last.guards == ()
            assert all(row.guards for row in others), "a row behind one without guards is never tried"


def test_the_hard_stop_is_asked_first() -> None:
    """Cancel and limits win over everything else a phase could do; Observing is not interrupted."""
    for phase in (PLANNING, SPECIFYING, EXECUTING, REVIEWING):
        for waiting in (False, True):
            rows = rows_of(phase, waiting=waiting)
            if rows:
                assert (rows[0].trigger, rows[0].guards) == ("fail", ("hard_stop",))


def test_a_waiting_phase_takes_an_answer_or_a_stop_and_nothing_else() -> None:
    """Whatever else comes in while a run waits finds no row."""
    for phase in (PLANNING, SPECIFYING, EXECUTING):
        assert [row.trigger for row in rows_of(phase, waiting=True)] == ["fail", "provide"]
    assert {row.source for row in WAITING} == {row.source for row in TABLE if row.trigger == "wait"}
    assert all(row.source == row.dest for row in WAITING)


def test_every_guard_of_the_table_is_a_named_function() -> None:
    """Names in rows, functions in `fsm.machine.guards`; neither has what the other lacks, and each says what it means."""
    assert set(GUARDS) == {name for row in ROWS for name in (*row.conditions, *row.unless)}
    for name, function in GUARDS.items():
        assert function.__name__ == name
        assert function.__doc__


def test_the_fingerprint_changes_with_anything_that_decides() -> None:
    """Two engines with one fingerprint take the same rows for the same guards."""
    assert re.fullmatch(r"[0-9a-f]{16}", fingerprint())
    assert fingerprint() == fingerprint()


@pytest.mark.parametrize("change", ["source", "trigger", "dest", "guards"])
def test_the_fingerprint_sees_every_deciding_field(change: str) -> None:
    """Meaning is for people and does not decide; everything else does."""
    before = fingerprint()
    values = {"source": DONE, "trigger": "other", "dest": DONE, "guards": ("hard_stop", "in_doubt")}
    first = ROWS[0]
    fields = {"source": first.source, "trigger": first.trigger, "dest": first.dest, "guards": first.guards}
    for meaning in ("the same", first.meaning):
        changed = Row(**(fields | {"meaning": meaning}))  # type: ignore[arg-type]
        assert fingerprint((changed, *ROWS[1:])) == before
    changed = Row(**(fields | {change: values[change], "meaning": first.meaning}))  # type: ignore[arg-type]
    assert fingerprint((changed, *ROWS[1:])) != before


def test_the_order_of_rows_is_part_of_the_fingerprint() -> None:
    """Rows are tried in order, so two orders are two machines."""
    before = fingerprint()
    for one, other in pairwise(range(len(ROWS))):
        rows = list(ROWS)
        rows[one], rows[other] = rows[other], rows[one]
        assert fingerprint(rows) != before
