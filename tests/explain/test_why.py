"""Why: every row of the table that was tried, with the recorded values of its guards and what they looked at."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paor import Journal, Limits, Policy, Tool, why, why_not
from paor.audit import Why
from paor.errors import EffectUnknown, JournalDamaged, UnknownRun, UsageError

from ..support.forging import forge
from ..support.journeys import JOURNEYS, Journey, play
from ..support.worlds import (
    ANSWER,
    CONTINUE,
    JOURNAL,
    PARAMETERS,
    READ,
    REVIEW,
    SELECT,
    STOP,
    SUCCESS,
    engine,
)
from .inside import FINAL, GUARDS, PHASES, WORDS, rows_of


def facts(found: Why) -> dict[str, str]:
    """Return what the guards of the tried rows looked at, by guard."""
    return {
        guard.guard: guard.fact for item in found.candidates if item.fate != "later" for guard in item.guards
    }


def last(folder: Path, replies: Any, seq: int | None = None, **options: Any) -> Why:
    """Run a script and explain its last row, or another one."""
    run = options.pop("run", {})
    with engine(folder, replies, **options) as scripted:
        run_id = scripted.run("Read the notes", **run).run_id
        return why(scripted.journal, run_id, seq)


# -- everywhere ------------------------------------------------------------------------------------------------------


def test_every_guard_says_what_it_looks_at() -> None:
    """A guard that is new needs its words."""
    assert WORDS.keys() == GUARDS.keys()


@pytest.mark.parametrize("journey", JOURNEYS, ids=[journey.name for journey in JOURNEYS])
def test_every_row_of_every_journey_is_explained(journey: Journey, tmp_path: Path) -> None:
    """The table's rows in order with the recorded values; the first that fits is the one that was taken."""
    with journey.engine(tmp_path) as scripted:
        result = play(journey, scripted)
        journal = scripted.journal
        rows = journal.transitions(result.run_id)
        for row in rows:
            found = why(journal, result.run_id, row.seq)
            assert (found.trigger, found.source, found.dest) == (row.trigger, row.source, row.dest)
            assert found.note == "" and found.decided and found.request and found.told
            expected = rows_of(row.source, waiting=found.waiting)
            assert [(item.trigger, item.dest) for item in found.candidates] == [
                (item.trigger, item.dest) for item in expected
            ]
            fates = [item.fate for item in found.candidates]
            taken = fates.index("taken")
            assert fates == ["kept"] * taken + ["taken"] + ["later"] * (len(fates) - taken - 1)
            for item in found.candidates:
                for guard in item.guards:
                    assert guard.fact and "\n" not in guard.fact
                    assert guard.value == (None if item.fate == "later" else row.guards[guard.guard])
                stopped = any(guard.stops for guard in item.guards)
                assert stopped is (item.fate == "kept")
            assert {guard.guard for item in found.candidates[: taken + 1] for guard in item.guards} == set(
                row.guards
            )
            assert json.loads(json.dumps(found.wire()))["seq"] == row.seq
            for phase in PHASES:
                told = why_not(found, phase.upper())
                assert told.phase == phase and told.answer
                assert [item.dest for item in told.candidates] == [phase] * len(told.candidates)
                if phase == row.dest:
                    assert "did lead to" in told.answer
                elif not told.candidates:
                    assert told.answer.startswith("no row of the table leads")
                elif all(item.fate == "later" for item in told.candidates):
                    assert "stands earlier" in told.answer
                else:
                    assert " was " in told.answer
        assert why(journal, result.run_id) == why(journal, result.run_id, len(rows) - 1)
        with pytest.raises(UsageError, match=f"rows 0 to {len(rows) - 1}"):
            why(journal, result.run_id, len(rows))


# -- what the facts say ----------------------------------------------------------------------------------------------


def test_steps_and_limits_are_told_with_their_numbers(tmp_path: Path) -> None:
    """The last step, and why there is no other attempt."""
    replies = [*READ(1), CONTINUE, *READ(2), CONTINUE, REVIEW("retry", "more")]
    found = last(tmp_path, replies, run={"limits": Limits(max_steps=2)})
    assert found.trigger == "fail" and found.told is not None and "the run ends: max_steps" in found.told.came
    told = facts(found)
    assert told["steps_left"] == "step 2 of max_steps 2"
    assert told["retries_left"] == "reviews that said retry 0 of max_retries 2"
    assert told["review_success"] == "the completion review says retry"
    assert told["concluded"] == "the stop was decided before: max_steps"
    assert why_not(found, "Planning").answer == (
        "steps_left was False: step 2 of max_steps 2; should_continue was False: no refinement was read"
    )


def test_budgets_are_told_with_their_numbers(tmp_path: Path) -> None:
    """What is used, of how much."""
    limits = Limits(token_budget=700, time_budget_s=60, cost_budget=2.5)
    found = last(tmp_path, [*READ(1), CONTINUE, *READ(2)], run={"limits": limits})
    assert found.trigger == "fail"
    told = facts(found)["hard_stop"]
    assert told.startswith("token_budget: ") and " of token_budget 700" in told
    assert "of time_budget_s 60" in told and "0 of cost_budget 2.5" in told


def test_an_unknown_action_is_named(tmp_path: Path) -> None:
    """And the run asks again."""
    found = last(tmp_path, [SELECT("no.such"), ANSWER(), SUCCESS], 0)
    assert found.trigger == "reselect"
    told = why_not(found, "specifying").answer
    assert told.startswith("selection_valid was False: unknown_action: there is no action 'no.such'")
    assert facts(found)["selection_retries_left"] == "asked again 0 of selection_retries 1"


def test_a_denied_action_is_told_with_the_rule(tmp_path: Path) -> None:
    """Of the policy."""
    found = last(tmp_path, [SELECT(), ANSWER(), SUCCESS], 0, policy=Policy(deny=("notes.read",)))
    assert "notes.read" in facts(found)["action_allowed"]
    assert "action_allowed was False" in why_not(found, "Specifying").answer


def test_a_duplicate_that_repeats_many_calls_names_the_last_three(tmp_path: Path) -> None:
    """A call with other arguments between them is none of them."""
    calls = [*READ(1), CONTINUE] * 2 + [*READ(2), CONTINUE] + [*READ(1), CONTINUE] * 3
    limits = Limits(max_steps=9, consecutive_limit=9)
    with engine(tmp_path, [*calls, STOP, SUCCESS], limits=limits) as scripted:
        run_id = scripted.run("Read the notes").run_id
        rows = scripted.journal.transitions(run_id)
        blocked = next(row.seq for row in rows if row.trigger == "refuse")
        made = {row.action: row.seq for row in rows if row.trigger == "execute"}
        told = ", ".join(f"action {action} (row {made[action]})" for action in (2, 4, 5))
        assert facts(why(scripted.journal, run_id, blocked))["duplicate"] == (
            f"the frequency rule blocks it; it repeats {told} and 1 more before"
        )


def once_in_doubt(raised: BaseException | None, reconciled: BaseException | None) -> Tool:
    """Return a tool that does not know what it did, and perhaps a reconciliation that does not know it either."""

    def run(page: int) -> str:
        raise raised or AssertionError("made")

    def reconcile(key: str) -> Any:
        raise reconciled or AssertionError("asked")

    schema = {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}
    return Tool("notes.read", "Read.", schema, run, "once", reconcile=reconcile if reconciled else None)


@pytest.mark.parametrize(
    ("reconciled", "code", "words", "told"),
    [
        (None, "tool_unsure", "begun, and its tool cannot say what it did", "the line broke"),
        (
            OSError("no reply"),
            "reconcile_failed",
            "begun, and its reconciliation could not say whether it happened",
            "OSError: no reply",
        ),
    ],
)
def test_a_doubt_is_told_with_its_own_reason(
    reconciled: BaseException | None, code: str, words: str, told: str, tmp_path: Path
) -> None:
    """No driver is gone where the tool itself cannot say: neither in the explanation nor in the question."""
    made = once_in_doubt(EffectUnknown("the line broke"), reconciled)
    with engine(tmp_path, [*READ(1), STOP, SUCCESS], tools=[made]) as scripted:
        result = scripted.run("Read the notes")
        row = scripted.journal.transitions(result.run_id)[-1]
        assert (row.trigger, row.outcome["why"]) == ("wait", code)
        found = why(scripted.journal, result.run_id, row.seq)
        assert found.told is not None and found.told.told == f"in doubt: {words}: {told}"
        assert facts(found)["in_doubt"] == f"a once effect was {words}"
        assert result.waiting_for is not None
        assert "driver" not in result.waiting_for.message + found.told.told + facts(found)["in_doubt"]


def test_a_waiting_and_a_running_run_show_what_is_open(tmp_path: Path) -> None:
    """One more than the last row: what it needs, the rows that may be taken, no values."""
    replies = [SELECT("notes.send", {"text": "string"}), PARAMETERS(text="hi"), STOP, SUCCESS]
    with engine(tmp_path, replies, policy=Policy(approvals=("*",))) as scripted:
        run_id = scripted.run("Send").run_id
        asked = why(scripted.journal, run_id)
        assert (asked.trigger, asked.decided) == ("wait", True)
        assert facts(asked)["approval_needed"] == "notes.send needs an approval and nobody has given it yet"
        found = why(scripted.journal, run_id, asked.seq + 1)
        assert (found.decided, found.waiting, found.source) == (False, True, "Specifying")
        assert found.request == "an answer (approval)"
        assert [(item.trigger, item.fate) for item in found.candidates] == [
            ("fail", "open"),
            ("provide", "open"),
        ]
        assert {guard.value for item in found.candidates for guard in item.guards} == {None}
        assert "not decided yet" in why_not(found, "Failed").answer
        assert "no row of the table leads from Specifying, waiting" in why_not(found, "Executing").answer
        scripted.resume(run_id, answer={"approve": True})
        provided = why(scripted.journal, run_id, asked.seq + 1)
        assert facts(provided)["answer_valid"] == "accept, to a question of the kind approval"
        events = scripted.stream("Send", on_close="stop")
        next(events)
        begun = scripted.journal.runs()[0].run_id
        found = why(scripted.journal, begun)
        assert (found.seq, found.decided, found.request) == (0, False, "selection from scripted")
        events.close()


# -- erased, damaged, wrong ------------------------------------------------------------------------------------------


def test_what_was_erased_leaves_the_recorded_values(tmp_path: Path) -> None:
    """The guards' own sentences stand where the facts were, and it is said."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read the notes").run_id
        whole = [why(scripted.journal, run_id, seq) for seq in range(6)]
    with closing(forge(tmp_path / JOURNAL)) as connection, connection:
        connection.execute("UPDATE payloads SET body = NULL, salt = NULL")
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        for before in whole:
            found = why(journal, run_id, before.seq)
            assert "erased" in found.note
            assert [item.fate for item in found.candidates] == [item.fate for item in before.candidates]
            assert [(guard.guard, guard.value) for item in found.candidates for guard in item.guards] == [
                (guard.guard, guard.value) for item in before.candidates for guard in item.guards
            ]
            assert all(guard.fact for item in found.candidates for guard in item.guards)
            assert found.request == before.request and found.told is not None and before.told is not None
            assert before.told.came.startswith(found.told.came.partition(";")[0])


def test_wrong_arguments_and_damage_are_told(tmp_path: Path) -> None:
    """One line each."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read the notes").run_id
        for seq in (-1, 99, "1", True):
            with pytest.raises(UsageError):
                why(scripted.journal, run_id, seq)  # type: ignore[arg-type]
        with pytest.raises(UnknownRun):
            why(scripted.journal, "none-such")
        with pytest.raises(UsageError, match="there is no phase 'Doing'"):
            why_not(why(scripted.journal, run_id), "Doing")
        assert why(scripted.journal, run_id).dest in FINAL
    with closing(forge(tmp_path / JOURNAL)) as connection, connection:
        connection.execute("UPDATE transitions SET step = 9 WHERE seq = 1")
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        assert why(journal, run_id, 1).trigger == "specify"
        with pytest.raises(JournalDamaged):
            why(journal, run_id, 4)
