"""`Engine.as_tool`: a run that another run calls: linked, budgeted, answered and cancelled through its caller, and never started twice."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from paor import (
    Engine,
    InstructionsContext,
    Journal,
    Limits,
    Policy,
    Result,
    ScriptedModel,
    Task,
    Tool,
    ToolContext,
    replay,
    tool,
)
from paor.errors import AlreadyAnswered, InvalidAnswer, UsageError
from paor.otel import trace_of
from paor.testing import call_tools, step

from ..support.inside import export_runs, line_bytes
from ..support.journey import Lost
from .listeners import end_of

PAID: list[int] = []


@tool("bank.pay", effect="once")
def pay(amount: int) -> str:
    """Pay an amount."""
    PAID.append(amount)
    return f"paid {amount}"


ASKS = Policy(approvals=("bank.pay",))
PAYS = [call_tools(step("bank.pay", amount=5)), "Five were paid."]


def asks(name: str, **arguments: Any) -> list[Any]:
    """Return a caller's replies: it calls a run, then answers."""
    arguments = arguments or {"objective": "Pay five"}
    return [call_tools(step(f"run.{name}", **arguments)), f"All is done by {name}."]


def engine(replies: list[Any], tools: list[Tool], journal: Any = ":memory:", **options: Any) -> Engine:
    return Engine(ScriptedModel(replies), tools, journal, profile="native", **options)


@contextmanager
def world(journal: Any = ":memory:", *, policy: Policy | None = None, **options: Any) -> Iterator[Engine]:
    """Give an engine that calls another one, whose payments may need an approval."""
    PAID.clear()
    with engine(PAYS, [pay], policy=policy) as clerk:
        made = clerk.as_tool("clerk", "Pays what is to be paid.")
        with engine(asks("clerk"), [made], journal, **options) as desk:
            yield desk


def runs(own: Engine) -> list[Any]:
    """Return the runs of a journal, the oldest first."""
    return sorted(own.journal.runs())


def test_a_called_run_is_linked_counted_and_stands_in_its_callers_journal(tmp_path: Path) -> None:
    """The link names run and action; what it used counts in the caller; both replay, and the file holds."""
    with world(tmp_path / "runs.db") as desk:
        result = desk.run("Have five paid")
        assert (result.state, result.answer, PAID) == ("Done", "All is done by clerk.", [5])
        outer, inner = runs(desk)
        assert inner.called_by == (outer.run_id, 1) and outer.called_by is None
        assert desk.journal.run(inner.run_id).called_by == inner.called_by
        assert desk.journal.spec(inner.run_id).objective == "Pay five"
        used = desk.result(inner.run_id).usage
        own = sum(
            row.outcome.get("tokens_in", 0)
            for row in desk.journal.transitions(outer.run_id)
            if "model" in row.request
        )
        assert result.usage.tokens_in == own + used.tokens_in and used.tokens_in > 0
        with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
            seen = dict(
                connection.execute("SELECT run_id, sum(tokens_in) FROM v_usage GROUP BY run_id").fetchall()
            )
        assert seen == {outer.run_id: own, inner.run_id: used.tokens_in}, "of a file everything counts once"
        assert all(replay(desk.journal, row.run_id).identical for row in (outer, inner))
        assert desk.journal.verify() == []
        assert "Five were paid." in str(result.documents[0].read())


def test_the_caller_is_told_what_the_run_has_answered_or_why_it_failed(tmp_path: Path) -> None:
    """A run that fails is a call that failed."""
    with engine(["", ""], [], limits=Limits(selection_retries=0)) as broken:
        made = broken.as_tool("clerk", "Pays.")
        with engine(
            [*asks("clerk"), "It was not."], [made], limits=Limits(completion_review="rules")
        ) as desk:
            result = desk.run("Have five paid")
            outer, inner = runs(desk)
            assert inner.status == "failed"
            failed = [row for row in desk.journal.transitions(outer.run_id) if row.outcome.get("error")]
            assert [row.outcome["error"] for row in failed] == [
                "tool_error"
            ] and result.run_id == outer.run_id


def _resume(desk: Engine, asked: Result) -> Result:
    return desk.resume(asked.run_id, answer={"approve": True}, actor="ann")


def _aresume(desk: Engine, asked: Result) -> Result:
    return asyncio.run(desk.aresume(asked.run_id, answer={"approve": True}, actor="ann"))


def _stream(desk: Engine, asked: Result) -> Result:
    return end_of(desk.resume_stream(asked.run_id, answer={"approve": True}, actor="ann"))


def _answer(desk: Engine, asked: Result) -> Result:
    assert asked.waiting_for is not None
    desk.answer(asked.run_id, question=asked.waiting_for.id, answer={"approve": True}, actor="ann")
    return desk.resume(asked.run_id)


def _of_the_called(desk: Engine, asked: Result) -> Result:
    """Answer the run that asks by its own id, then go on with the caller."""
    assert asked.waiting_for is not None
    desk.resume(asked.waiting_for.run_id, answer={"approve": True}, actor="ann")
    return desk.resume(asked.run_id)


def _recover(desk: Engine, asked: Result) -> Result:
    assert asked.waiting_for is not None
    desk.answer(asked.run_id, question=asked.waiting_for.id, answer={"approve": True}, actor="ann")
    (found,) = desk.recover()
    return found


WAYS: list[Callable[[Engine, Result], Result]] = [
    _resume,
    _aresume,
    _stream,
    _answer,
    _of_the_called,
    _recover,
]


@pytest.mark.parametrize("way", WAYS)
def test_the_question_of_a_called_run_is_its_callers_and_is_answered_once(
    tmp_path: Path, way: Callable[[Engine, Result], Result]
) -> None:
    with world(tmp_path / "runs.db", policy=ASKS) as desk:
        asked = desk.run("Have five paid")
        outer, inner = runs(desk)
        assert asked.status == "waiting" and asked.waiting_for is not None
        assert (asked.waiting_for.kind, asked.waiting_for.run_id) == ("approval", inner.run_id)
        assert [item.run_id for item in desk.waiting()] == [outer.run_id]
        assert desk.result(outer.run_id).waiting_for == asked.waiting_for
        assert desk.resume(outer.run_id).waiting_for == asked.waiting_for and not PAID
        assert not desk.recover()
        result = way(desk, asked)
        assert (result.run_id, result.state, PAID) == (outer.run_id, "Done", [5])
        assert len(runs(desk)) == 2
        (made,) = desk.journal.calls(inner.run_id)
        assert [item.actor for item in made.decided] == ["ann"]
        with pytest.raises((AlreadyAnswered, InvalidAnswer)):
            desk.resume(asked.run_id, question=asked.waiting_for.id, answer={"approve": True})
        assert PAID == [5] and all(replay(desk.journal, row.run_id).identical for row in (outer, inner))


def test_an_approval_with_other_arguments_reaches_the_called_run(tmp_path: Path) -> None:
    with world(tmp_path / "runs.db", policy=ASKS) as desk:
        asked = desk.run("Have five paid")
        wrong = {"approve": True, "arguments": {"amount": "many"}}
        with pytest.raises(InvalidAnswer, match="amount"):
            desk.resume(asked.run_id, answer=wrong)
        right = {"approve": True, "arguments": {"amount": 4}}
        assert desk.resume(asked.run_id, answer=right).state == "Done" and PAID == [4]


@contextmanager
def nested(depth: int, journal: Any = ":memory:", *, policy: Policy | None = None) -> Iterator[Engine]:
    """Give an engine that calls one that calls one, and so on; the last one pays."""
    PAID.clear()
    own = engine(PAYS, [pay], policy=policy)
    opened = [own]
    for number in range(depth):
        made = own.as_tool(f"level{number}", "Has it paid.")
        own = engine(asks(f"level{number}"), [made], journal if number == depth - 1 else ":memory:")
        opened.append(own)
    try:
        yield own
    finally:
        for one in opened:
            one.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_question_comes_through_any_number_of_callers(
    tmp_path: Path, way: Callable[[Engine, Result], Result]
) -> None:
    with nested(3, tmp_path / "runs.db", policy=ASKS) as desk:
        asked = desk.run("Have five paid")
        found = runs(desk)
        assert len(found) == 4 and {row.status for row in found} == {"waiting"}
        assert asked.waiting_for is not None and asked.waiting_for.run_id == found[-1].run_id
        result = way(desk, asked)
        assert (result.state, PAID, len(runs(desk))) == ("Done", [5], 4)


def test_runs_that_call_one_another_too_deep_are_refused(tmp_path: Path) -> None:
    """The model of the last one reads why; nothing runs away."""
    with nested(6, tmp_path / "runs.db") as desk:
        desk.run("Have five paid")
        found = runs(desk)
        assert len(found) == 5 and not PAID
        rows = desk.journal.transitions(found[-1].run_id)
        told = [desk.journal.payload(row.run, row.change["n"]).body for row in rows]
        assert any("5 runs have called one another, and no more may" in str(body) for body in told)


def test_a_cancel_of_the_caller_cancels_what_it_has_called(tmp_path: Path) -> None:
    with nested(2, tmp_path / "runs.db", policy=ASKS) as desk:
        asked = desk.run("Have five paid")
        assert desk.cancel(asked.run_id).reason == "cancelled"
        assert [(row.status, row.reason) for row in runs(desk)] == [("failed", "cancelled")] * 3
        assert not PAID and not desk.waiting() and not desk.recover()


def test_a_called_run_has_what_is_left_of_its_callers_budget(tmp_path: Path) -> None:
    """Where that is less than its own; and its tokens use the caller's up."""

    for budget, own, wanted in ((50_000, None, 50_000), (50_000, 900, 900), (None, 900, 900)):
        limits = Limits(token_budget=own) if own else Limits()
        with engine(PAYS, [pay], limits=limits) as clerk:
            made = clerk.as_tool("clerk", "Pays.")
            path = tmp_path / f"{budget}-{own}.db"
            with engine(asks("clerk"), [made], path, limits=Limits(token_budget=budget)) as desk:
                desk.run("Have five paid")
                _, inner = runs(desk)
                found = desk.journal.spec(inner.run_id).limits.token_budget
                assert found is not None and wanted - 5_000 < found <= wanted


def test_other_parameters_make_the_objective(tmp_path: Path) -> None:
    parameters = {
        "type": "object",
        "properties": {"order": {"type": "string"}, "lines": {"type": "integer"}},
        "required": ["order"],
    }
    with engine(["Done."], []) as clerk:
        made = clerk.as_tool("clerk", "Looks into an order.", parameters=parameters)
        with engine(asks("clerk", order="O-1", lines=2), [made]) as desk:
            assert desk.run("Look").state == "Done"
            _, inner = runs(desk)
            assert desk.journal.spec(inner.run_id).objective == "Looks into an order.\norder: O-1\nlines: 2"
            assert {item.name: item for item in desk.journal.spec(inner.run_id).tools} == {}


@pytest.mark.parametrize(
    ("name", "description", "options"),
    [("a b", "x", {}), ("clerk", "", {}), ("clerk", "x", {"parameters": {"type": "nothing"}})],
)
def test_what_cannot_be_a_tool_is_refused(name: str, description: str, options: dict[str, Any]) -> None:
    with engine([], []) as clerk, pytest.raises(UsageError):
        clerk.as_tool(name, description, **options)


class Unpriced(ScriptedModel):
    """A model whose price nobody knows."""

    is_priced = False


UNUSABLE: list[dict[str, Any]] = [
    {"model": "nobody:x"},
    {"model": "offline", "output_type": int},
    {"mode": "slow"},
    {"mode": "planner", "profile": "native"},
    {"mode": "planner", "fallback": "batch"},
    {"mode": "batch", "workflow": "after: {action: bank.pay}"},
    {"react_mode": True, "workflow_mode": "Actionplan"},
    {"profile": "easy"},
    {"stage": "third"},
    {"tools": ["bank.rob"]},
    {"task_type": "unknown"},
    {"limits": {"max_steps": -1}},
    {"limits": {"most_steps": 1}},
    {"instructions": 5},
    {"prompt_template": "{{KEY:NOTHING}}"},
    {"workflow": "after: {action: bank.rob}"},
    {"workflow": "{"},
    {"variables": {"a": 1}},
    {"output_type": 5},
    {"output_type": int, "final_format": "md"},
    {"final_format": "pdf"},
    {"transcript": [1]},
    {"connections": {"": 1}},
    {"metadata": {"a b": 1}},
    {"values": {"a": object()}},
    {"limits": {"cost_budget": 1.0}},
]


@pytest.mark.parametrize("options", UNUSABLE)
def test_what_no_run_could_be_started_with_is_refused_when_the_tool_is_made(options: dict[str, Any]) -> None:
    """In the words in which a run refuses it: a model would read them otherwise, and could do nothing about them."""
    policy = Policy(task_types={"paying": ("bank.pay",)})
    with Engine(Unpriced([]), [pay], ":memory:", policy=policy) as clerk:
        with pytest.raises(UsageError) as by_run:
            clerk.run("Pays.", **options)
        with pytest.raises(UsageError) as by_tool:
            clerk.as_tool("clerk", "Pays.", **options)
        assert str(by_tool.value) == str(by_run.value)


def test_functions_that_give_instructions_are_called_for_runs_alone() -> None:
    """Nothing is known of a run when the tool is made: no question to the host's tables, and no failure of these."""
    asked: list[str] = []

    def ours(start: InstructionsContext) -> str:
        asked.append(start.objective)
        return "Be exact."

    with engine(["Done."], [], instructions=ours) as clerk:
        made = clerk.as_tool("clerk", "Looks.", instructions=ours)
        assert asked == []
        with engine(asks("clerk", objective="Look"), [made]) as desk:
            assert desk.run("Have it seen").state == "Done"
            assert asked == ["Look"] * 2


def test_a_tool_is_made_without_what_its_caller_brings(tmp_path: Path) -> None:
    """Of an engine whose tools take deps, and that has none."""

    @tool("bank.check", effect="read")
    def check(context: ToolContext[str], amount: int) -> str:
        """Check."""
        return context.deps

    with engine([call_tools(step("bank.check", amount=5)), "Checked."], [check]) as clerk:
        made = clerk.as_tool("clerk", "Checks.")
        with engine(asks("clerk"), [made], deps="of the caller") as desk:
            assert desk.run("Have it checked").state == "Done"


def test_on_an_event_loop_and_with_a_name_of_its_own(tmp_path: Path) -> None:
    async def go() -> None:
        with engine(PAYS, [pay]) as clerk:
            made = clerk.as_tool("office.clerk", "Pays.")
            script = [call_tools(step("office.clerk", objective="Pay five")), "Done."]
            async with engine(script, [made], tmp_path / "runs.db") as desk:
                assert (await desk.arun("Have five paid")).state == "Done"
                assert runs(desk)[1].called_by == (runs(desk)[0].run_id, 1)

    asyncio.run(go())


def test_a_fork_of_a_called_run_is_called_by_nobody(tmp_path: Path) -> None:
    with world(tmp_path / "runs.db") as desk:
        desk.run("Have five paid")
        outer, inner = runs(desk)
        fork = engine(PAYS, [pay], desk.journal).fork(inner.run_id, 0, drive=False)
        row = desk.journal.run(fork.run_id)
        assert row.called_by is None and (row.parent_run_id, row.parent_seq) == (inner.run_id, 0)
        again = desk.fork(outer.run_id, 0)
        assert again.state == "Done" and len([row for row in runs(desk) if row.called_by]) == 2


# -- crashes -------------------------------------------------------------------------------------------------------


def dying(own: Engine, number: int, *, before: bool, die: Callable[[], None]) -> None:
    """Have the process end with the commit *number* of a journal, counted over all runs."""
    backend: Any = own.journal.store.backend
    append, left = backend.append, [number]

    def appending(entries: Any) -> None:
        left[0] -= 1
        if left[0] == 0 and before:
            die()
        append(entries)
        if left[0] == 0:
            die()

    backend.append = appending


def _lost() -> None:
    raise Lost


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("number", range(1, 11))
def test_a_crash_at_any_row_of_either_run_starts_no_run_twice(
    number: int, before: bool, tmp_path: Path
) -> None:
    """Also between the end of the called run and the row of its caller; a payment in doubt is asked about through the caller."""
    path = tmp_path / "runs.db"
    with world(path) as desk:
        dying(desk, number, before=before, die=_lost)
        try:
            done = desk.run("Have five paid")
        except Lost:
            done = None
    begun = list(PAID)
    with world(path) as desk:
        if done is None:
            found = desk.recover()
            if len(found) == 0:  # nothing was written of it at all
                assert not runs(desk)
                return
            (result,) = found
            while result.waiting_for is not None:
                assert result.waiting_for.kind == "in_doubt"
                outcome = "done" if begun else "retry"
                result = desk.resume(
                    result.run_id, question=result.waiting_for.id, outcome=outcome, result="paid 5"
                )
            assert result.state == "Done"
        outer, *inner = runs(desk)
        assert [row.called_by for row in inner] == [(outer.run_id, 1)]
        assert begun + PAID == [5]
        assert {row.status for row in (outer, *inner)} == {"done"} and desk.journal.verify() == []


def _process(path: Path, number: int, before: bool) -> None:
    with world(path) as desk:
        dying(desk, number, before=before, die=lambda: os.kill(os.getpid(), signal.SIGKILL))
        desk.run("Have five paid")


@pytest.mark.whole
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("number", range(1, 11))
def test_a_kill_at_any_row_of_either_run_starts_no_run_twice(
    number: int, before: bool, tmp_path: Path
) -> None:
    """By a real SIGKILL in a process of its own; a payment that may have happened is asked about, and never repeated."""
    path = tmp_path / "runs.db"
    child = get_context("spawn").Process(target=_process, args=(path, number, before))
    child.start()
    child.join(120)
    assert child.exitcode in (-signal.SIGKILL, 0), child.exitcode
    with world(path) as desk:
        for result in desk.recover():
            while result.waiting_for is not None:
                assert result.waiting_for.kind == "in_doubt"
                result = desk.resume(
                    result.run_id, question=result.waiting_for.id, outcome="done", result="paid 5"
                )
            assert result.state == "Done"
        if found := runs(desk):
            outer, *inner = found
            assert [row.called_by for row in inner] == [(outer.run_id, 1)] and desk.journal.verify() == []
            assert {row.status for row in found} == {"done"} and len(PAID) <= 1


# -- elsewhere -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False], ids=["both runs", "the called run alone"])
def test_the_link_is_in_an_export(whole: bool, tmp_path: Path) -> None:
    """A called run that comes without its caller is a run that nobody waits for."""
    with world(tmp_path / "runs.db") as desk:
        desk.run("Have five paid")
        outer, inner = runs(desk)
        names = [outer.run_id, inner.run_id] if whole else [inner.run_id]
        lines = [line_bytes(line) for line in export_runs(desk.journal.reader, names)]
    with Journal(tmp_path / "other.db") as other:
        other.import_lines(lines)
        assert other.run(inner.run_id).called_by == (outer.run_id, 1) and other.verify() == []
        with world(other) as desk:
            assert desk.result(inner.run_id).state == "Done" and not desk.waiting() and not desk.recover()


def test_a_trace_nests_it(tmp_path: Path) -> None:
    """The run stands below the call, whichever run is asked for."""
    with nested(2, tmp_path / "runs.db") as desk:
        desk.run("Have five paid")
        outer, middle, inner = runs(desk)
        traces = [list(trace_of(desk.journal, row.run_id)) for row in (outer, middle, inner)]
        assert traces[0] == traces[1] == traces[2] and len({span.trace_id for span in traces[0]}) == 1
        by_id = {span.span_id: span for span in traces[0]}
        agents = [span for span in traces[0] if span.name.startswith("invoke_agent")]
        above = [by_id[span.parent_id].name for span in agents if span.parent_id]
        assert len(agents) == 3 and sorted(above) == ["execute_tool run.level0", "execute_tool run.level1"]


def test_a_fork_of_a_workflow_of_tasks_is_still_none(tmp_path: Path) -> None:
    """Tasks are called by their workflow, which is no call of a tool of the host's."""
    with engine(["One.", "Two."], [], tmp_path / "runs.db", limits=Limits(completion_review="rules")) as own:
        own.run_workflow("Both", tasks=[Task("One")])
        assert [row.called_by for row in runs(own)] == [None, None]


def test_a_called_run_has_the_options_that_its_tool_was_made_with() -> None:
    """Its limits over its engine's, its language before the caller's; of the budgets no more than the caller has left."""
    with engine(PAYS, [pay]) as clerk:
        made = clerk.as_tool(
            "clerk",
            "Pays.",
            context="Of the desk",
            language="de",
            metadata={"of": "desk"},
            limits={"max_steps": 2},
            stage="native",
        )
        with engine(asks("clerk"), [made], limits=Limits(token_budget=10**6)) as desk:
            desk.run("Have five paid", language="en")
            outer, inner = (desk.journal.spec(row.run_id) for row in runs(desk))
            assert (inner.context, inner.language, dict(inner.metadata)) == (
                "Of the desk",
                "de",
                {"of": "desk"},
            )
            assert (inner.limits.max_steps, outer.limits.max_steps) == (2, 5)
            assert inner.limits.token_budget is not None and inner.limits.token_budget < 10**6
            assert (outer.context, outer.language, dict(outer.metadata)) == ("", "en", {})


@pytest.mark.parametrize(
    "options", [{"key": "k"}, {"conversation": "c"}, {"after": "x"}, {"queue": True}], ids=str
)
def test_a_tool_has_no_option_of_a_single_run(options: dict[str, Any]) -> None:
    """Its second call would be refused."""
    with (
        Engine("offline", journal=":memory:") as clerk,
        pytest.raises(UsageError, match=f"as_tool: {next(iter(options))} is of one run"),
    ):
        clerk.as_tool("desk", "Looks things up.", **options)


def test_a_called_run_that_waits_goes_on_with_the_model_deps_and_connections_of_its_tool(
    tmp_path: Path,
) -> None:
    """They are in no journal: the tool brings them again when its run is resumed."""
    seen: list[Any] = []

    @tool("money.pay", effect="once")
    def paying(context: ToolContext[str], amount: int, connectionReference: str) -> str:
        """Pay."""
        seen.append((context.deps, context.connection))
        return "paid"

    replies: list[Any] = [
        call_tools(step("money.pay", amount=5, connectionReference="bank")),
        "Five were paid.",
    ]
    with engine(["never asked"], [paying], policy=Policy(approvals=("money.pay",))) as clerk:
        made = clerk.as_tool(
            "clerk",
            "Pays.",
            model=ScriptedModel(replies),
            deps="own",
            connections={"bank": "secret"},
            stage="native",
        )
        with engine(asks("clerk"), [made], tmp_path / "runs.db") as desk:
            waits = desk.run("Have five paid", deps="the caller's")
            assert (waits.status, seen) == ("waiting", [])
            assert desk.resume(waits.run_id, answer={"approve": True}).state == "Done"
            assert seen == [("own", "secret")]
