"""A host's own machine on the real engine: guards, phases, rows and bounds, live, resumed, forked and replayed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Limits, Machine, ModelCall, Phase, Policy, Reply, Task, replay
from paor.errors import HostFunctionError, RunChanged, UsageError
from paor.machine import GuardContext
from paor.testing import call, call_tools, plan, refine, review, step

from ..support.inside import restore_run
from ..support.own_machines import (
    ADVICE,
    BATCH,
    CHOICE,
    KINDS,
    TRIAGE,
    World,
    engine,
    escalating,
    patch_script,
    pay_script,
    query_script,
    triage,
    two_reviewers,
    verifying,
    walk,
)


def rows(of: Engine, run_id: str) -> list[Any]:
    """Return the rows of a run."""
    return list(of.journal.transitions(run_id))


def holds(of: Engine, run_id: str) -> None:
    """Assert that a run's journal verifies and replays identical with its engine, and that nothing but code is missing without it."""
    assert of.journal.verify() == []
    again = replay(of.journal, run_id, of)
    assert again.identical, (again.divergences, again.unchecked)
    alone = replay(of.journal, run_id)
    assert alone.divergences == ()
    assert all("code" in item.why for item in alone.unchecked)


def exported(of: Engine) -> list[list[dict[str, Any]]]:
    """Return all runs of a journal as they are exported."""
    return [list(of.journal.export(row.run_id)) for row in of.journal.runs()]


def stored(of: Engine) -> list[str]:
    """Return all texts of a journal, prompts among them."""
    return [str(body) for (body,) in of.journal.db.execute("SELECT body FROM payloads").fetchall()]


def waiting_id(result: Any) -> str:
    """Return the id of the question that a run waits for."""
    assert result.waiting_for is not None
    return str(result.waiting_for.id)


def through(of: Engine, answers: list[dict[str, Any]], objective: str = "Do it", **options: Any) -> Any:
    """Run to the end, giving each answer to the question that is open then."""
    result = of.run(objective, **options)
    for given in answers:
        assert result.waiting_for is not None
        result = of.resume(result.run_id, question=result.waiting_for.id, **given)
    return result


# -- the four kinds ------------------------------------------------------------------------------------------------


ENDS = {
    "verifying": ("Done", "model_stop", ["patch.write", "tests.run", "patch.write", "tests.run"]),
    "escalating": ("Done", "model_stop", ["db.query", "db.query", "db.query"]),
    "two_reviewers": ("Failed", "review_failed", ["bank.pay 5"]),
    "triage": ("Done", "model_stop", ["db.query"]),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_run_of_each_kind_ends_well_and_replays(kind: str, tmp_path: Path) -> None:
    """What was done is done once; the journal verifies; a replay derives all of it again."""
    world = World()
    of, answers = KINDS[kind](tmp_path / "runs.db", world)
    result = through(of, answers)
    state, reason, done = ENDS[kind]
    assert (result.state, result.reason, world.done) == (state, reason, done)
    holds(of, result.run_id)


@pytest.mark.whole
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_fork_of_each_kind_goes_on_from_every_row(kind: str, tmp_path: Path) -> None:
    """A fork walks the same machine and asks people anew: an answer to its parent does not count for it."""
    of, answers = KINDS[kind](tmp_path / "runs.db", World())
    parent = through(of, answers)
    taken = rows(of, parent.run_id)
    for row in taken[:-1]:
        result = of.fork(parent.run_id, row.seq)
        for _ in range(9):
            if result.waiting_for is None:
                break
            given = {"advice": "go on"} if kind == "escalating" else {"approve": True}
            again = (
                {"outcome": "done", "result": "paid"}
                if result.waiting_for.kind == "in_doubt"
                else {"answer": given}
            )
            result = of.resume(
                result.run_id,
                question=result.waiting_for.id,
                actor=f"p{result.waiting_for.asked_at}",
                **again,
            )
        assert result.status in ("done", "failed")
        holds(of, result.run_id)


# -- guards --------------------------------------------------------------------------------------------------------


def small(context: GuardContext) -> bool:
    """Payments stay below 10. Larger ones are made by hand."""
    assert context.call is not None
    return int(context.call.arguments["amount"]) < 10


def test_a_required_guard_refuses_a_call_with_its_sentence(tmp_path: Path) -> None:
    """The refusal leads where the row's refusal leads, and the model reads why; calls of other tools are not asked about."""
    world, script = World(), [*pay_script(50, 5)[:3], *call("db.query", sql="x"), refine("stop", answer="ok")]
    of = engine(
        tmp_path / "runs.db", Machine.standard().require("specify", small, tool="bank.*"), script, world
    )
    result = of.run("Pay")
    refused = rows(of, result.run_id)[1]
    assert (refused.trigger, refused.dest, refused.guards["small"]) == ("refuse", "Observing", False)
    assert world.done == ["db.query"]
    told = [text for text in stored(of) if "Payments stay below 10" in text]
    assert told and not any("Larger ones" in text for text in told)
    assert rows(of, result.run_id)[5].guards["small"] is True  # db.query is none of bank.*
    holds(of, result.run_id)


def test_a_guard_is_asked_once_a_decision_and_only_where_the_rest_holds(tmp_path: Path) -> None:
    """So it may rely on a complete, valid, permitted call."""
    machine = Machine.standard().require("specify", small)
    script = [
        *call("bank.pay", amount=5)[:1],
        "no JSON",
        {"schema": "parameters_v1", "parameters": {"amount": 5}},
        refine("stop", answer="ok"),
    ]
    of = engine(tmp_path / "runs.db", machine, script)
    result = of.run("Pay")
    assert walk(of, result.run_id).split()[:3] == ["select", "respecify", "specify"]
    recorded = rows(of, result.run_id)
    assert "small" not in recorded[1].guards and recorded[2].guards["small"] is True
    assert result.state == "Done"


def not_queries(context: GuardContext) -> bool:
    """The database is not asked today."""
    return context.tool != "db.query"


def test_a_required_guard_of_select_has_the_action_chosen_again(tmp_path: Path) -> None:
    """As an action that the policy denies; after the retries the run fails and says why."""
    machine = Machine.standard().require("select", not_queries)
    script = [call("db.query", sql="x")[0], *patch_script("a")]
    of = engine(tmp_path / "runs.db", machine, script)
    result = of.run("Do it")
    assert walk(of, result.run_id).split()[:2] == ["reselect", "select"]
    assert any("The database is not asked today." in text for text in stored(of))
    holds(of, result.run_id)
    of = engine(tmp_path / "again.db", machine, [call("db.query", sql="x")[0]] * 2)
    result = of.run("Do it")
    assert (result.state, result.reason) == ("Failed", "selection_invalid")
    assert "The database is not asked today." in result.answer
    holds(of, result.run_id)


def test_a_required_guard_of_an_end_has_the_run_fail_with_its_sentence(tmp_path: Path) -> None:
    """`finish` that is refused leaves only `fail`; the reason is the host's own, and the message says what was refused."""

    machine = Machine.standard().require("finish", never)
    of = engine(tmp_path / "runs.db", machine, patch_script("a"))
    result = of.run("Do it")
    assert (result.state, result.reason) == ("Failed", "own_row")
    assert "Nothing is ever finished." in result.answer
    holds(of, result.run_id)


def never(context: GuardContext) -> bool:
    """Nothing is ever finished."""
    return False


def raises(context: GuardContext) -> bool:
    """It raises for large amounts."""
    assert context.call is not None
    if context.call.arguments["amount"] > 10:
        raise ValueError("too\nlarge")
    return True


def no_bool(context: GuardContext) -> bool:
    """It gives no bool."""
    return 1  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("guard", "told"),
    [(raises, "the host's function raises raised ValueError"), (no_bool, "no_bool gave a int, not a bool")],
)
def test_a_guard_that_raises_decides_nothing(guard: Any, told: str, tmp_path: Path) -> None:
    """Nothing is appended; the run stays where it is, and goes on once the guard is mended and that is accepted."""
    world = World()
    of = engine(tmp_path / "runs.db", Machine.standard().require("specify", guard), pay_script(50), world)
    with pytest.raises(HostFunctionError, match=told) as caught:
        of.run("Pay")
    assert "row 1 in Specifying" in str(caught.value)
    (run,) = of.journal.runs()
    assert (run.state, run.status, run.head_seq, world.done) == ("Specifying", "running", 0, [])
    assert of.journal.verify() == []
    of.close()
    name = guard.__name__

    def mended(context: GuardContext) -> bool:
        """It is mended."""
        return True

    mended.__name__ = name
    other = engine(tmp_path / "runs.db", Machine.standard().require("specify", mended), pay_script(50), world)
    with pytest.raises(RunChanged, match=f"guard.{name} has changed"):
        other.resume(run.run_id)
    result = other.resume(run.run_id, accept_changes=True)
    assert (result.state, world.done) == ("Done", ["bank.pay 50"])
    assert replay(other.journal, result.run_id, other).divergences == ()


# -- values --------------------------------------------------------------------------------------------------------


def within_credit(context: GuardContext) -> bool:
    """The payment is within the credit."""
    assert context.call is not None
    return bool(context.call.arguments["amount"] <= context.values.get("credit", 0))


def test_values_of_a_run_decide_and_replay(tmp_path: Path) -> None:
    """They are in the spec, so a replay sees the same; a fork and a resume have them, too."""
    for credit, done in ((100, ["bank.pay 50"]), (10, [])):
        world = World()
        machine = Machine.standard().require("specify", within_credit)
        of = engine(tmp_path / f"{credit}.db", machine, pay_script(50), world)
        result = of.run("Pay", values={"credit": credit})
        assert world.done == done
        holds(of, result.run_id)
        other = of.fork(result.run_id, 0)
        assert of.journal.reader.spec(other.run_id).values == {"credit": credit}


@pytest.mark.parametrize("wrong", [[1], {1: 2}, {"a": object()}, {"a": "x" * 70_000}])
def test_values_that_no_journal_can_hold_start_nothing(wrong: Any, tmp_path: Path) -> None:
    """One clear line."""
    of = engine(tmp_path / "runs.db", None, [])
    with pytest.raises(UsageError, match="values"):
        of.run("Pay", values=wrong)
    assert of.journal.runs() == []


def test_the_values_port_is_asked_where_the_machine_says_and_nowhere_else(tmp_path: Path) -> None:
    """What it gave is journaled with the row, over the run's own values; a replay asks nobody."""
    asked: list[tuple[str, str]] = []

    def port(run_id: str, phase: str) -> dict[str, Any]:
        asked.append((run_id, phase))
        return {"credit": 60}

    machine = Machine.standard().require("specify", within_credit).ask_values("specify")
    of = engine(tmp_path / "runs.db", machine, pay_script(50, 70), values=port)
    result = of.run("Pay", values={"credit": 1000})
    assert asked == [(result.run_id, "Specifying")] * 2
    taken = rows(of, result.run_id)
    assert [row.trigger for row in taken if "values" in row.request] == ["specify", "refuse"]
    holds(of, result.run_id)
    assert len(asked) == 2


def test_the_async_driver_awaits_the_port(tmp_path: Path) -> None:
    """And the sync one does, too."""

    async def port(run_id: str, phase: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"credit": 60}

    machine = Machine.standard().require("specify", within_credit).ask_values("specify")
    of = engine(tmp_path / "sync.db", machine, pay_script(50), values=port)
    assert of.run("Pay").state == "Done"
    other = engine(tmp_path / "async.db", machine, pay_script(50), values=port)
    assert asyncio.run(other.arun("Pay")).state == "Done"
    assert exported(of) == exported(other)


def test_a_port_that_fails_loses_nothing(tmp_path: Path) -> None:
    """The run stays where it is, in both drivers; the next resume asks again."""
    given: list[Any] = [OSError("no line"), {"credit": object()}, [1], {"credit": 60}]

    def port(run_id: str, phase: str) -> Any:
        value = given.pop(0)
        if isinstance(value, Exception):
            raise value
        return value

    world = World()
    machine = Machine.standard().require("specify", within_credit).ask_values("specify")
    of = engine(tmp_path / "runs.db", machine, pay_script(50), world, values=port)
    with pytest.raises(HostFunctionError, match="the values port raised OSError: no line"):
        of.run("Pay")
    run_id = of.journal.runs()[0].run_id
    with pytest.raises(HostFunctionError, match="no JSON form"):
        of.resume(run_id)
    with pytest.raises(HostFunctionError, match="must be a mapping"):
        asyncio.run(of.aresume(run_id))
    assert (of.resume(run_id).state, world.done) == ("Done", ["bank.pay 50"])


# -- phases with a tool ----------------------------------------------------------------------------------------------


def test_a_phase_comes_back_with_what_failed_until_its_bound(tmp_path: Path) -> None:
    """The next plan is told what failed; after the bound the run fails for a reason of its own, with the partial answer."""
    world = World(failures=9)
    of = engine(tmp_path / "runs.db", verifying(at_most=2), patch_script("a", "b", "c"), world)
    result = of.run("Mend it")
    assert (result.state, result.reason) == ("Failed", "own_row")
    assert "fixed c" in result.answer
    assert [row.counters.get("own") for row in rows(of, result.run_id)][-1] == {"rework": 2}
    prompts = [text for text in stored(of) if "Improvements asked" in text]
    assert any("Verifying: RuntimeError: tests.run failed: 1 != 2" in prompt for prompt in prompts)
    holds(of, result.run_id)


def test_a_phases_call_is_no_step_and_no_error_of_the_model(tmp_path: Path) -> None:
    """It counts neither against max_steps nor as an error in a row."""
    world = World(failures=1)
    of = engine(tmp_path / "runs.db", verifying(), patch_script("a", "b"), world)
    result = of.run("Mend it", limits={"max_steps": 2, "max_consecutive_errors": 1})
    assert (result.state, result.usage.calls) == ("Done", 6)
    last = rows(of, result.run_id)[-1]
    assert (last.step, last.action) == (2, 4)


@pytest.mark.parametrize("how", ["denied", "approved", "declined"])
def test_a_phases_call_obeys_the_policy(how: str, tmp_path: Path) -> None:
    """A ban holds for it, a list of allowed tools need not name it, an approval is asked for."""
    world = World()
    policy = (
        Policy(deny=("tests.*",)) if how == "denied" else Policy(allow=("patch.*",), approvals=("tests.*",))
    )
    of = engine(tmp_path / "runs.db", verifying(at_most=1), patch_script("a", "b"), world, policy=policy)
    result = of.run("Mend it")
    if how == "denied":
        assert (result.state, world.done) == ("Failed", ["patch.write", "patch.write"])
    else:
        assert result.waiting_for is not None
        assert (result.state, result.waiting_for.kind, result.waiting_for.tool) == (
            "Specifying",
            "approval",
            "tests.run",
        )
        said = how == "approved"
        result = of.resume(result.run_id, answer={"approve": said})
        if not said:
            assert result.waiting_for is not None  # reworked, and asked again
            result = of.resume(result.run_id, answer={"approve": True}, question=result.waiting_for.id)
        assert (result.state, world.done.count("tests.run")) == ("Done", 1)
    holds(of, result.run_id)


def amount_due(context: GuardContext) -> dict[str, Any]:
    """Return the arguments of the closing call."""
    return {"amount": context.values["due"]}


def paying_at_the_end() -> Machine:
    """Return a machine whose last phase pays what is due."""
    return (
        Machine.standard()
        .phase(Phase("Settling", tool="bank.pay", arguments=amount_due))
        .row("Reviewing", "settle", "Settling", when="review_success", before="finish")
        .row("Settling", "finish", "Done", when="succeeded")
        .row("Settling", "unsettled", "Failed")
    )


def test_arguments_come_from_code_and_a_once_effect_of_a_phase_is_in_doubt_after_a_crash(
    tmp_path: Path,
) -> None:
    """As any call: its intent row is committed before it starts, and nobody makes it again unasked."""
    world = World()
    of = engine(tmp_path / "runs.db", paying_at_the_end(), patch_script("a"), world)
    for event in of.stream("Do it", values={"due": 7}, on_close="stop"):
        if (
            event.kind == "transition"
            and event.source == "Specifying"
            and event.step == 1
            and "settl" in str(of.journal.runs()[0].state)
        ):
            break
        if (
            event.kind == "transition"
            and event.trigger == "specify"
            and walk(of, event.run_id).count("settle")
        ):
            break
    run_id = of.journal.runs()[0].run_id
    of.close()
    assert world.done == ["patch.write"]
    other = engine(tmp_path / "runs.db", paying_at_the_end(), patch_script("a"), world)
    result = other.resume(run_id)
    assert result.waiting_for is not None
    assert (result.state, result.waiting_for.kind, result.waiting_for.arguments) == (
        "Executing",
        "in_doubt",
        {"amount": 7},
    )
    result = other.resume(run_id, outcome="done", result="paid")
    assert (result.state, world.done) == ("Done", ["patch.write"])
    holds(other, run_id)


def test_a_phase_may_call_a_tool_that_the_model_is_not_offered(tmp_path: Path) -> None:
    """Its spec stands beside the offered tools."""
    world = World()
    of = engine(tmp_path / "runs.db", verifying(), patch_script("a"), world)
    result = of.run("Mend it", tools=["patch.write"])
    assert (result.state, world.done) == ("Done", ["patch.write", "tests.run"])
    spec = of.journal.reader.spec(result.run_id)
    assert [item.name for item in spec.tools] == ["patch.write"]
    assert [item.name for item in spec.phase_tools] == ["tests.run"]
    holds(of, result.run_id)


# -- phases that ask a person ----------------------------------------------------------------------------------------


def escalated(path: Path, **options: Any) -> tuple[Engine, Any]:
    """Return an engine and its run that waits for a person's advice."""
    of = engine(path, escalating(), query_script("a", "b", "c"), World(failures=2), **options)
    return of, of.run("How many?")


def test_a_person_sees_the_question_and_the_answer_reaches_the_next_plan(tmp_path: Path) -> None:
    """Bound to run and row as any question."""
    of, result = escalated(tmp_path / "runs.db")
    asked = result.waiting_for
    assert (result.state, asked.kind, asked.schema) == ("Escalating", "elicitation", ADVICE)
    assert (
        asked.message
        == "Two calls failed, the last one: tool_error: RuntimeError: db.query failed: 1 != 2. How to go on?"
    )
    result = of.resume(result.run_id, answer={"advice": "use table t"}, actor="ann")
    assert (result.state, result.answer) == ("Done", "42")
    told = stored(of)
    assert any('Escalating: {"advice": "use table t"}' in text for text in told)
    with pytest.raises(UsageError, match="settled"):
        of.resume(result.run_id, answer={"advice": "again"}, question=asked.id)
    holds(of, result.run_id)


@pytest.mark.parametrize(
    ("given", "state", "reason"),
    [({"action": "decline"}, "Failed", "own_row"), ({"action": "cancel"}, "Failed", "cancelled")],
)
def test_a_person_may_decline_or_cancel(given: Any, state: str, reason: str, tmp_path: Path) -> None:
    """A decline takes the phase's other row, a cancellation ends the run."""
    of, result = escalated(tmp_path / "runs.db")
    result = of.resume(result.run_id, answer=given)
    assert (result.state, result.reason) == (state, reason)
    holds(of, result.run_id)


def test_beyond_max_elicitations_nobody_is_asked(tmp_path: Path) -> None:
    """Then the phase's last row is taken."""
    of, result = escalated(tmp_path / "runs.db", limits=Limits(max_elicitations=0))
    assert (result.state, result.reason, result.waiting_for) == ("Failed", "own_row", None)
    holds(of, result.run_id)


# -- four eyes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "paid"),
    [
        ([(True, "ann"), (True, "bob")], 1),
        ([(True, "ann"), (True, "ann")], 0),
        ([(True, "ann"), (False, "bob")], 0),
        ([(True, None), (True, None)], 0),
    ],
)
def test_two_people_must_agree_to_this_very_call(said: list[Any], paid: int, tmp_path: Path) -> None:
    """Each sees the exact call; one person twice is one person."""
    world = World()
    of = engine(tmp_path / "runs.db", two_reviewers(), pay_script(5), world)
    result = of.run("Pay")
    for approve, actor in said:
        assert result.waiting_for is not None
        assert (result.waiting_for.tool, result.waiting_for.arguments, result.waiting_for.effect) == (
            "bank.pay",
            {"amount": 5},
            "once",
        )
        result = of.resume(
            result.run_id, answer={"approve": approve}, actor=actor, question=waiting_id(result)
        )
    assert world.done == ["bank.pay 5"] * paid
    holds(of, result.run_id)


def test_where_nobody_may_be_asked_the_call_is_refused(tmp_path: Path) -> None:
    """The bound on questions and the row's own bound never let a call pass."""
    for limits, machine in (
        (Limits(max_elicitations=1), two_reviewers()),
        (Limits(max_elicitations=0), two_reviewers()),
    ):
        world = World()
        of = engine(tmp_path / f"{limits.max_elicitations}.db", machine, pay_script(5), world, limits=limits)
        result = of.run("Pay")
        if result.waiting_for is not None:
            result = of.resume(result.run_id, answer={"approve": True}, actor="ann")
        assert world.done == []
        assert "refuse" in walk(of, result.run_id)
        holds(of, result.run_id)


# -- phases that ask a model -------------------------------------------------------------------------------------------


def test_a_first_phase_chooses_mode_and_limits(tmp_path: Path) -> None:
    """Asked of a model of its own; no limit rises, and everything later goes by what was chosen."""
    of, _ = KINDS["triage"](tmp_path / "runs.db", World())
    seen: list[Any] = []
    of.hooks = (seen.append,)
    result = of.run("Count")
    first = rows(of, result.run_id)[0]
    assert (first.source, first.request["kind"], first.request["model"]) == ("Triage", "phase", "cheap")
    assert rows(of, result.run_id)[1].request["kind"] == "plan"
    of.fork(result.run_id, 1, limits={"max_steps": 9})
    bounds = {
        (event.run_id, event.max_steps) for event in seen if event.kind == "transition" and event.seq > 1
    }
    assert len(bounds) == 2 and {steps for _, steps in bounds} == {2}


def test_a_long_conversation_that_a_choice_has_begun_is_restored_whole(tmp_path: Path) -> None:
    """Of a run that was started to hold none: the strict profile has reports, the planner that was chosen a conversation."""
    plans = [{**BATCH, "id": str(number), "steps": [count(number)]} for number in range(60)]
    script = ["-", *plans, {"steps": [], "answer": "All counted."}, "All counted."]
    of = engine(
        tmp_path / "runs.db", triage({"mode": "planner"}), script, limits=Limits(max_steps=99, max_plans=99)
    )
    result = of.run("Count", profile="strict")
    assert result.state == "Done"
    run, _ = restore_run(of.journal.reader, result.run_id)
    assert [item.role for item in run.memory.conversation] == [*["assistant", "user"] * 60, "assistant"]
    holds(of, result.run_id)


def count(number: int) -> dict[str, Any]:
    """Return a step that counts."""
    return {"type": "tool", "name": "db.query", "args": {"sql": f"count {number}"}}


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("no JSON", "JSON"),
        ({"mode": "swarm"}, "mode"),
        ({"mode": "react", "limits": {"reply_chars": 5}}, "cannot be chosen"),
        ({"mode": "react", "limits": {"max_steps": 0}}, "whole number"),
    ],
)
def test_a_choice_that_is_none_is_asked_for_again(choice: Any, told: str, tmp_path: Path) -> None:
    """With what was wrong; after `review_retries` the phase's other rows are tried."""
    machine = triage(choice, {"mode": "react", "limits": {"max_steps": 1000}})
    of = engine(tmp_path / "runs.db", machine, ["-", "-", *patch_script("a")])
    result = of.run("Do it")
    assert walk(of, result.run_id).split()[:3] == ["reask", "begin", "select"]
    assert result.state == "Done"
    prompts = stored(of)
    assert any(told in text for text in prompts)
    holds(of, result.run_id)
    machine = triage(choice, choice)
    of = engine(tmp_path / "twice.db", machine, ["-", "-", *patch_script("a")])
    assert walk(of, of.run("Do it").run_id).split()[:3] == ["reask", "begin", "select"]


def test_a_phases_model_that_fails_ends_the_run(tmp_path: Path) -> None:
    """As any model; and without one of its own the phase asks the run's."""
    of = engine(tmp_path / "runs.db", triage(), [])
    assert of.run("Do it").reason == "model_error"
    phase = Phase("Triage", prompt=TRIAGE, reply=CHOICE, chooses=True)
    machine = Machine.standard().phase(phase, initial=True).row("Triage", "begin", "Planning")
    of = engine(tmp_path / "own.db", machine, [{"mode": "react"}, *patch_script("a")])
    result = of.run("Do it")
    assert (result.state, rows(of, result.run_id)[0].request["model"]) == ("Done", "scripted")
    holds(of, result.run_id)


def test_a_budget_ends_a_run_before_a_phase_asks_a_model(tmp_path: Path) -> None:
    """As before any other request."""
    of = engine(
        tmp_path / "runs.db", judging(), ["x" * 50, *patch_script("a")], limits=Limits(token_budget=1)
    )
    result = of.run("Do it")
    assert (result.state, result.reason) == ("Failed", "token_budget")


def judging() -> Machine:
    """Return a machine in which a model judges each call before it is made."""
    phase = Phase(
        "Judging",
        prompt="Is the call fit for the objective?\n=== user ===\n{{KEY:OBJECTIVE}}\n\n{{KEY:CALL}}\n\n{{KEY:VALUES}}\n\n{{KEY:VISITS}}\n\n{{KEY:REPLY}}",
        reply={
            "type": "object",
            "properties": {"fit": {"type": "boolean", "description": "whether it is"}},
            "required": ["fit"],
        },
    )
    return (
        Machine.standard()
        .phase(phase)
        .row("Specifying", "judge", "Judging", when=("parameters_valid", not_judged), at_most=9)
        .row("Judging", "back", "Specifying")
        .require("specify", judged_fit)
    )


def not_judged(context: GuardContext) -> bool:
    """The call was not judged yet."""
    return context.visited("Judging") is None


def judged_fit(context: GuardContext) -> bool:
    """A model has judged the call to be fit."""
    visit = context.visited("Judging")
    return visit is not None and visit.ok and visit.value["fit"] is True


@pytest.mark.parametrize(
    ("said", "done"), [({"fit": True}, ["patch.write"]), ({"fit": False}, []), ("nothing", [])]
)
def test_a_model_may_judge_a_call_between_its_parameters_and_its_intent(
    said: Any, done: list[str], tmp_path: Path
) -> None:
    """The parameters are not asked for again, and what was judged is what is executed."""
    world, script = World(), patch_script("a")
    times = 2 if said == "nothing" else 1
    of = engine(tmp_path / "runs.db", judging(), [*script[:2], *[said] * times, *script[2:]], world)
    result = of.run("Do it", values={"tenant": "acme"})
    assert world.done == done
    prompts = stored(of)
    assert any(
        '{"arguments":{"text":"a"},"tool":"patch.write"}' in text and '{"tenant":"acme"}' in text
        for text in prompts
    )
    assert any('{"fit": <boolean: whether it is>}' in text for text in prompts)
    holds(of, result.run_id)


# -- rows that lead elsewhere ------------------------------------------------------------------------------------------


def test_a_row_to_reviewing_without_an_observation_asks_for_the_completion_review(tmp_path: Path) -> None:
    """There is nothing to refine; the reason is the row's own."""
    machine = (
        Machine.standard()
        .phase(Phase("Opening"), initial=True)
        .row("Opening", "skip", "Reviewing", when=answered_already)
        .row("Opening", "begin", "Planning")
    )
    of = engine(tmp_path / "runs.db", machine, [review("success", answer="It is 4.")])
    result = of.run("2 + 2", values={"known": True})
    assert (result.state, result.reason, result.answer) == ("Done", "own_row", "It is 4.")
    assert walk(of, result.run_id) == "skip finish"
    holds(of, result.run_id)
    of = engine(tmp_path / "other.db", machine, patch_script("a"))
    assert walk(of, of.run("2 + 2").run_id).startswith("begin select")


def test_a_row_to_reviewing_after_an_observation_goes_on_where_reviewing_was(tmp_path: Path) -> None:
    """The observation is refined as it would have been; no completion review comes before its time."""
    machine = (
        Machine.standard()
        .phase(Phase("Checking", tool="tests.run"))
        .row("Reviewing", "check", "Checking", before="conclude", at_most=1)
        .row("Checking", "checked", "Reviewing")
    )
    world = World()
    script = [*patch_script("a"), refine("stop", answer="checked and fixed")]
    of = engine(tmp_path / "runs.db", machine, script, world)
    result = of.run("Mend it")
    assert (result.state, result.reason, result.answer) == ("Done", "model_stop", "checked and fixed")
    assert world.done == ["patch.write", "tests.run"]
    assert walk(of, result.run_id).endswith("checked conclude finish")
    holds(of, result.run_id)


def answered_already(context: GuardContext) -> bool:
    """The host knows the answer."""
    return bool(context.values.get("known"))


def test_a_row_may_end_a_run_from_where_it_begins(tmp_path: Path) -> None:
    """Done and Failed have a message and a reason also where no model was asked."""
    for dest in ("Done", "Failed"):
        machine = Machine.standard().phase(Phase("Opening"), initial=True).row("Opening", "close", dest)
        machine = machine.row("Opening", "begin", "Planning", when=answered_already, before="close")
        of = engine(tmp_path / f"{dest}.db", machine, [])
        result = of.run("Do it")
        assert (result.state, result.reason) == (dest, "own_row")
        assert result.answer
        holds(of, result.run_id)


def test_rows_from_planning_and_with_words_of_the_hosts_own(tmp_path: Path) -> None:
    """`tell` says what the next plan is told."""

    machine = (
        Machine.standard()
        .phase(Phase("Pausing"))
        .row("Planning", "pause", "Pausing", when=("selection_valid", not_paused), before="select", at_most=1)
        .row("Pausing", "wake", "Planning", tell=wake_up)
    )
    of = engine(tmp_path / "runs.db", machine, [call("patch.write", text="a")[0], *patch_script("b")])
    result = of.run("Do it")
    assert walk(of, result.run_id).startswith("pause wake select")
    prompts = stored(of)
    assert any("Wake up, step 0" in text for text in prompts)
    holds(of, result.run_id)


def not_paused(context: GuardContext) -> bool:
    """The run has not paused yet."""
    return context.visited("Pausing") is None


def wake_up(context: GuardContext) -> str:
    """Return what the next plan is told."""
    return f"Wake up, step {context.counters.step}"


@pytest.mark.parametrize("mode", ["batch", "planner", "native"])
def test_own_machines_work_in_every_mode(mode: str, tmp_path: Path) -> None:
    """Verification and four eyes in batch and planner mode, and with native calls."""
    world = World(failures=1)
    if mode == "native":
        script: list[Any] = []
        for text in ("a", "b"):
            script += [call_tools(step("patch.write", text=text)), "fixed " + text]
    else:
        script = []
        for text in ("a", "b"):
            script += [plan(step("patch.write", text=text))]
            script += [plan()] if mode == "planner" else []
            script += [review("success", answer=f"fixed {text}")]
    of = engine(tmp_path / "runs.db", verifying(), script, world)
    options: dict[str, Any] = {"profile": "native"} if mode == "native" else {"mode": mode}
    result = of.run("Do it", **options)
    assert (result.state, world.done) == ("Done", ["patch.write", "tests.run", "patch.write", "tests.run"])
    holds(of, result.run_id)
    world = World()
    calls = step("bank.pay", amount=5), step("bank.pay", amount=7)
    if mode == "native":
        script = [call_tools(*calls), "paid"]
    else:
        script = [plan(*calls), *([plan()] if mode == "planner" else []), review("success", answer="paid")]
    of = engine(tmp_path / "pay.db", two_reviewers(), script, world)
    yes = [{"answer": {"approve": True}, "actor": actor} for actor in ("ann", "bob", "ann", "bob")]
    result = through(of, yes, **options)
    assert (result.state, world.done) == ("Done", ["bank.pay 5", "bank.pay 7"])
    holds(of, result.run_id)


class Reviewer:
    """A model that writes one patch in each task, and reviews well."""

    name = "reviewer"

    def ask(self, call: ModelCall) -> Reply:
        """Return the reply of its script for a task; every completion review is a success."""
        if call.kind == "review":
            return Reply(json.dumps(review("success", answer="all done")))
        return Reply(json.dumps(patch_script("a")[call.number]))


def test_tasks_of_a_workflow_walk_the_own_machine_and_the_workflow_the_standard_one(tmp_path: Path) -> None:
    """Each task is verified."""
    world = World()
    of = Engine(Reviewer(), world.tools(), str(tmp_path / "runs.db"), machine=verifying())
    result = of.run_workflow("Mend both", tasks=[Task("Mend one"), Task("Mend two")])
    assert result.state == "Done"
    machines = {row.task: bool(of.journal.reader.spec(row.run_id).host_machine) for row in of.journal.runs()}
    assert machines == {0: False, 1: True, 2: True}


def test_a_workflow_file_with_an_own_machine_is_refused(tmp_path: Path) -> None:
    """One clear line, and nothing is started."""
    of = engine(tmp_path / "runs.db", verifying(), [])
    with pytest.raises(UsageError, match="walks the standard machine"):
        of.run("Do it", workflow="stage:\n  plan: {action: 'llm/core:plan'}\n")
    assert of.journal.runs() == []


# -- what has changed since ------------------------------------------------------------------------------------------


def test_a_standard_run_is_not_taken_over_by_another_machine_unasked(tmp_path: Path) -> None:
    """New rows and guards that may be used are named."""
    of = engine(tmp_path / "runs.db", None, pay_script(5), policy=Policy(approvals=("bank.*",)))
    result = of.run("Pay")
    of.close()
    other = engine(tmp_path / "runs.db", two_reviewers(), pay_script(5), policy=Policy(approvals=("bank.*",)))
    with pytest.raises(RunChanged, match=r"guard\.four_eyes is new"):
        other.resume(result.run_id, answer={"approve": True})


# -- the machine itself ----------------------------------------------------------------------------------------------


WRONG: dict[str, tuple[Callable[[Machine], object], str]] = {
    "async guard": (lambda m: m.require("specify", _waiting), "_waiting cannot be async"),  # type: ignore[arg-type]
    "guard without a context": (lambda m: m.require("specify", _nothing), "must take one argument"),  # type: ignore[arg-type]
    "trigger misspelt": (lambda m: m.require("specfy", small), "did you mean specify?"),
    "answer is no schema": (
        lambda m: m.phase(Phase("Asking", question="?", answer={"type": "moon"})),
        "answer: schema",
    ),
    "trigger of paor's": (lambda m: m.row("Planning", "execute", "Done"), "execute is paor's"),
    "row from Failed": (lambda m: m.row("Failed", "leap", "Planning"), "a run that has ended is over"),
    "name of paor's own": (lambda m: m.require("specify", _named("hard_stop")), "a guard of paor's own"),
    "fail": (lambda m: m.require("fail", small), "must be able to fail"),
    "wait": (lambda m: m.require("wait", small), "passed over"),
    "execute": (lambda m: m.require("execute", small), "must be recorded"),
    "tool pattern": (lambda m: m.require("specify", small, tool=[1]), "a pattern of tools"),  # type: ignore[list-item]
    "same name, other function": (
        lambda m: m.require("specify", small).row("Reviewing", "go", "Done", when=_named("small")),
        "a name of its own",
    ),
    "no phase": (lambda m: m.phase("Verifying"), "takes a Phase"),  # type: ignore[arg-type]
    "phase twice": (lambda m: m.phase(Phase("Pausing")).phase(Phase("Pausing")), "a name of its own"),
    "final phase": (lambda m: m.phase(Phase("Ending", final=True)), "only Done and Failed"),
    "asks for two things": (
        lambda m: m.phase(Phase("Asking", tool="a.b", question="?")),
        "one thing at most, not for tool and question",
    ),
    "reply without prompt": (lambda m: m.phase(Phase("Asking", reply={})), "reply goes with prompt"),
    "chooses later": (
        lambda m: m.phase(Phase("Asking", prompt="x", reply=CHOICE, chooses=True)),
        "in which a run begins",
    ),
    "prompt is no text": (lambda m: m.phase(Phase("Asking", prompt=1)), "the text of a template"),  # type: ignore[arg-type]
    "unknown placeholder": (
        lambda m: m.phase(Phase("Asking", prompt="{{KEY:MOON}}", reply=CHOICE)),
        "nothing is ever put in place of 'MOON'",
    ),
    "prompt without reply": (lambda m: m.phase(Phase("Asking", prompt="x")), "JSON Schema of an object"),
    "row to Observing": (lambda m: m.row("Planning", "leap", "Observing"), "observed after it has ended"),
    "trigger twice, elsewhere": (
        lambda m: m.row("Reviewing", "go", "Done", small).row("Reviewing", "go", "Planning", small),
        "there is such a row already",
    ),
    "guard is no name": (lambda m: m.row("Reviewing", "go", "Done", when="a b"), "names of guards"),
    "tell elsewhere": (
        lambda m: m.row("Reviewing", "go", "Done", tell=wake_up),
        "goes with a row to Planning",
    ),
    "before nothing": (
        lambda m: m.row("Reviewing", "go", "Done", before="moon"),
        "there is no row 'moon'; there are: reassess",
    ),
    "values while a tool works": (lambda m: m.ask_values("execute"), "what a tool has done would be lost"),
    "callback that is none": (lambda m: m.on_exit("Planning", 1), "a function is needed"),  # type: ignore[arg-type]
}


async def _waiting(context: GuardContext) -> bool:
    return True


def _nothing() -> bool:
    return True


def _named(name: str) -> Callable[[GuardContext], bool]:
    def guard(context: GuardContext) -> bool:
        return True

    guard.__name__ = name
    return guard


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_is_said_where_it_is_added(what: str) -> None:
    """In one line that shows the right way."""
    add, told = WRONG[what]
    with pytest.raises(UsageError) as caught:
        add(Machine.standard())
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_machine_is_never_changed() -> None:
    """Each method returns another one; the standard one stays what it is."""
    before = Machine.standard().to_dict()
    machine = two_reviewers()
    assert Machine.standard().is_standard and not machine.is_standard
    assert Machine.standard().to_dict() == before
    assert machine.require("finish", never) is not machine
    assert machine.rows_of("FirstReview", waiting=True)[-1].trigger == "provide"


def first_phase(phase: Phase) -> Machine:
    """Return a machine that begins with *phase*."""
    return Machine.standard().phase(phase, initial=True).row(phase.name, "begin", "Planning")


ENGINES: dict[str, tuple[Callable[[], object], str]] = {
    "no machine": (lambda: "standard", "begin with Machine.standard"),
    "phase calls a tool with what it does not take": (
        lambda: (
            Machine.standard()
            .phase(Phase("Paying", tool="bank.pay", arguments={"amuont": 5}))
            .row("Reviewing", "pay", "Paying", when="review_success", before="finish")
            .row("Paying", "end", "Done")
        ),
        "arguments for bank.pay: amuont",
    ),
    "phase asks the name of a model": (
        lambda: first_phase(Phase("Asking", prompt=TRIAGE, reply=CHOICE, model="openai:cheap")),
        "takes a model itself",
    ),
    "port that nobody gives": (
        lambda: Machine.standard().ask_values("specify"),
        "give Engine.values=",
    ),
}


@pytest.mark.parametrize("what", ENGINES)
def test_an_engine_takes_no_machine_that_cannot_be_walked(what: str, tmp_path: Path) -> None:
    """It says everything that is wrong, and leaves no file behind."""
    make, told = ENGINES[what]
    with pytest.raises(UsageError, match=told):
        engine(tmp_path / "runs.db", make(), [])  # type: ignore[arg-type]
    assert not (tmp_path / "runs.db").exists()


def test_an_engine_says_what_it_walks(tmp_path: Path) -> None:
    """`Engine.machine` is the standard one by default; a port that is no function is refused."""
    assert engine(tmp_path / "a.db", None, []).machine.is_standard
    assert engine(tmp_path / "b.db", Machine.standard(), []).machine.is_standard
    machine = verifying()
    assert engine(tmp_path / "c.db", machine, []).machine is machine
    with pytest.raises(UsageError, match="values must be a function"):
        engine(tmp_path / "d.db", machine, [], values=1)
    for never_asks in (machine, None):
        with pytest.raises(UsageError, match="nothing asks the values port"):
            engine(tmp_path / "d.db", never_asks, [], values=lambda run_id, phase: {})


def test_an_empty_answer_fits_no_schema_of_a_phase(tmp_path: Path) -> None:
    """A planner may be answered with nothing; a phase's guards may rely on what its schema requires."""
    of = engine(
        tmp_path / "runs.db", first_phase(Phase("A", question="How?", answer=ADVICE)), patch_script("a")
    )
    result = of.run("Do it")
    nothings: tuple[Any, ...] = ({}, "", None, [])
    for nothing in nothings:
        with pytest.raises(UsageError, match="does not fit"):
            of.resume(result.run_id, answer={"action": "accept", "content": nothing})
    with pytest.raises(UsageError, match="does not fit"):
        of.fork(result.run_id, 0, answer={})
    assert of.resume(result.run_id, answer={"advice": "go"}).state == "Done"


def test_an_engine_without_the_machine_says_so_in_one_line(tmp_path: Path) -> None:
    """In a phase of the host's own it cannot go on at all; elsewhere only once somebody has accepted that."""
    of, result = escalated(tmp_path / "runs.db")
    of.close()
    for machine in (None, verifying()):
        other = engine(tmp_path / "runs.db", machine, query_script("a", "b", "c"), World())
        for accept in (False, True):
            with pytest.raises(RunChanged, match="stands in Escalating, a phase that") as caught:
                other.resume(result.run_id, answer={"advice": "x"}, accept_changes=accept)
            assert "\n" not in str(caught.value)
        assert other.result(result.run_id).status == "waiting"
        other.close()
    path = tmp_path / "half.db"
    of = engine(path, verifying(), patch_script("a"))
    for event in of.stream("Mend it", on_close="stop"):
        if event.kind == "transition" and event.dest == "Observing":
            break
    run_id = of.journal.runs()[0].run_id
    of.close()
    other = engine(path, None, patch_script("a"))
    with pytest.raises(RunChanged, match=r"this engine has none.*accept_changes") as caught:
        other.resume(run_id)
    assert "\n" not in str(caught.value)
    assert (other.resume(run_id, accept_changes=True).state, "verify" in walk(other, run_id)) == (
        "Done",
        False,
    )


def test_the_sentence_of_a_guard_is_a_part_of_it(tmp_path: Path) -> None:
    """The model reads it where a call is refused, so a run that stands before that is not resumed with another one unasked."""

    def told(sentence: str) -> Machine:
        def closed(context: GuardContext) -> bool:
            return False

        closed.__doc__ = sentence
        return Machine.standard().require("specify", closed)

    of = engine(tmp_path / "runs.db", told("The bank is shut."), pay_script(5))
    for event in of.stream("Pay", on_close="stop"):
        if event.kind == "transition":
            break
    run_id = of.journal.runs()[0].run_id
    of.close()
    with pytest.raises(RunChanged, match=r"guard\.closed has changed"):
        engine(tmp_path / "runs.db", told("Nobody is there."), pay_script(5)).resume(run_id)
    script = [*pay_script(5), review("failed", answer="The bank is shut.")]
    of = engine(tmp_path / "runs.db", told("The bank is shut."), script)
    assert of.resume(run_id).state == "Failed"
    holds(of, run_id)
