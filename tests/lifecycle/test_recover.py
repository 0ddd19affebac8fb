"""Recovering, looking, and what waits: of every run, whoever lost it; real processes are killed, and none is driven twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, Task, replay, tool
from paor.errors import JournalDamaged, RunChanged, UnknownRun, UsageError
from paor.events import RunEnded, TransitionTaken
from paor.testing import RandomIds, SteppingClock, SystemClock

from ..journal.test_lease import alter
from ..modes.test_fallback import ByKind
from ..runtime.test_one_driver import Race
from ..support.forging import writable
from ..support.inside import Runner
from ..support.stored import file_of
from ..support.worlds import JOURNAL, PARAMETERS, READ, SELECT, STOP, SUCCESS, engine
from .test_keyed_start import falling_back, once

WORK = [SELECT("notes.work"), PARAMETERS(page=1), STOP, SUCCESS]


def lost(scripted: Engine, rows: int, objective: str = "Work", **options: Any) -> str:
    """Return a run that stands after *rows* rows and that nobody drives."""
    stream = scripted.stream(objective, **options, on_close="stop")
    run_id = next(stream).run_id
    events = (event for event in stream if isinstance(event, TransitionTaken))
    for _ in range(rows):
        next(events)
    stream.close()
    return run_id


def killed(act: Callable[[], Any]) -> None:
    """Let a process call *act*, which kills it."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


# -- looking -------------------------------------------------------------------------------------------------------


def test_a_look_at_a_run_writes_nothing_and_takes_no_lease(tmp_path: Path) -> None:
    """While it runs, while it waits, after its end; of an id, its beginning, and of a journal that is only read."""
    with once(tmp_path, waits=True) as scripted:
        stream = scripted.stream("Work", metadata={"a": 1}, on_close="stop")
        run_id = next(stream).run_id
        next(stream)
        lease = scripted.journal.reader.query("SELECT * FROM leases")
        now = scripted.result(run_id)
        assert (now.status, now.state, now.reason, now.answer, now.steps) == (
            "running",
            "Specifying",
            None,
            "",
            1,
        )
        assert now.metadata == {"a": 1} and scripted.result(run_id[:13]) == now
        assert scripted.journal.reader.query("SELECT * FROM leases") == lease
        ended = [event.result for event in stream if isinstance(event, RunEnded)]
        before = scripted.journal.heads()
        assert [scripted.result(run_id)] == ended and ended[0].status == "waiting"
        assert asyncio.run(scripted.aresult(run_id)) == ended[0]
        assert scripted.journal.heads() == before
        done = scripted.resume(run_id, answer={"approve": True})
        assert scripted.result(run_id) == done == scripted.resume(run_id)
        with pytest.raises(UnknownRun):
            scripted.result("no such run")
    with Engine("offline", journal=Journal(tmp_path / JOURNAL, read_only=True)) as reader:
        assert reader.result(run_id) == done and list(reader.waiting()) == []


def test_what_waits_is_listed_from_the_one_that_has_waited_longest(tmp_path: Path) -> None:
    """By the time of the question, not of the run; a workflow stands for its task; what goes on or has ended is not there."""
    clock = SystemClock()
    with once(tmp_path, waits=True, clock=clock) as scripted:
        assert scripted.waiting() == []
        late = lost(scripted, 1, "Wait later", key="late")
        early = scripted.run("Wait", key="early", metadata={"a": 1})
        scripted.model = by_kind(tmp_path).model
        flow = scripted.run_workflow("Wait in a task", tasks=[Task("Wait within")])
        late_result = scripted.resume(late)
        lost(scripted, 1, "Go on")
        done = scripted.run("Be done")
        scripted.resume(done.run_id, answer={"approve": True})
        found = scripted.waiting()
        assert found == [early, flow, late_result] == asyncio.run(scripted.awaiting())
        assert [result.waiting_for.kind for result in found if result.waiting_for] == ["approval"] * 3
        assert [result.key for result in found] == ["early", None, "late"]
        fork = scripted.fork(early.run_id, 1, drive=False)
        assert [result.run_id for result in scripted.waiting()] == [
            early.run_id,
            fork.run_id,
            flow.run_id,
            late,
        ]
        for result in found:
            assert scripted.resume(result.run_id, answer={"approve": True}).status == "done"
        assert [result.run_id for result in scripted.waiting()] == [fork.run_id]


def test_a_waiting_run_that_cannot_be_read_hides_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged; verify names the place."""
    with once(tmp_path, waits=True) as scripted:
        broken, good = scripted.run("Break"), scripted.run("Wait")
        writable(file_of(scripted.journal).connection).execute(
            "UPDATE transitions SET at = at + 1 WHERE id = 1 << 32"
        )
        assert [result.run_id for result in scripted.waiting()] == [good.run_id]
        assert f"run {broken.run_id} waits and cannot be read" in caplog.text


# -- recovering ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["recover", "arecover"])
def test_every_run_that_nobody_drives_goes_on_and_no_other(tmp_path: Path, how: str) -> None:
    """Oldest first, each to its end or question; ended, waiting and driven runs are left alone."""
    with once(tmp_path) as scripted:
        done = scripted.run("Be done")
        runs = [lost(scripted, rows, key=f"k{rows}") for rows in (0, 1, 3, 4)]
        doubt = lost(scripted, 2)
        created = scripted.fork(done.run_id, 0, drive=False).run_id
        driven = scripted.stream("Be driven", on_close="stop")
        next(driven)
    with once(tmp_path, waits=True) as other:
        waiting = other.run("Wait")
    with once(tmp_path) as scripted:
        driven = scripted.stream("Be driven", on_close="stop")
        live = next(driven).run_id
        heads = {head.run_id: head for head in scripted.journal.heads()}
        found = scripted.recover() if how == "recover" else asyncio.run(scripted.arecover())
        after = {head.run_id: head for head in scripted.journal.heads()}
        # the first `driven` was closed with its engine, so it is lost, too
        assert [result.run_id for result in found][:-1] == [*runs, doubt, created]
        assert Counter(result.status for result in found) == {"done": 6, "waiting": 1}
        assert {run for run in heads if heads[run] == after[run]} == {done.run_id, waiting.run_id, live}
        assert found.refused == {} and len(found) == 7 and found[0].key == "k0" and found[:1] == (found[0],)
        assert found[4].waiting_for is not None and found[4].waiting_for.kind == "in_doubt"
        again = scripted.recover()
        assert (list(again), again.refused) == ([], {})
        assert next(event for event in driven if isinstance(event, RunEnded)).result.status == "done"
        assert scripted.journal.verify() == []
        assert all(replay(scripted.journal, row.run_id).identical for row in scripted.journal.runs())


def test_a_run_that_cannot_go_on_is_told_and_stops_no_other(tmp_path: Path) -> None:
    """Changed prompts, a missing tool, a broken chain; an erased one is left out. What was refused is as it was."""
    with once(tmp_path, rules=["Be brief."]) as scripted:
        changed = lost(scripted, 1)
    with engine(tmp_path, READ(1), ids=RandomIds()) as scripted:
        without_tool = lost(scripted, 1)
    with once(tmp_path, rules=["Be long."]) as scripted:
        broken, erased, good = (lost(scripted, 3) for _ in range(3))
        journal = scripted.journal
        journal.erase(erased, force=True)
        number = journal.run(broken).run
        sql = "UPDATE transitions SET at = at + 1 WHERE id = ? << 32"
        writable(file_of(journal).connection).execute(sql, (number,))
        heads = journal.heads()
        for _ in range(2):
            found = scripted.recover()
            assert {run: type(error) for run, error in found.refused.items()} == {
                changed: RunChanged,
                without_tool: RunChanged,
                broken: JournalDamaged,
            }
            assert "rules" in str(found.refused[changed]) and "notes.read" in str(found.refused[without_tool])
        assert scripted.result(good).status == "done"
        assert {head.run_id for head in journal.heads()} - {
            head.run_id for head in heads if head in journal.heads()
        } == {good}
        recovered = scripted.recover(lambda row: {"accept_changes": row.run_id == changed})
        assert [result.run_id for result in recovered] == [changed]
        assert recovered[0].status == "done"


def test_options_are_asked_for_each_run_and_may_refuse_it(tmp_path: Path) -> None:
    """Connections, whose values are in no journal, come by them; nothing else of a host can be told apart there."""
    seen: list[Any] = []

    @tool("notes.work", effect="read")
    def work(page: int, context: Any = None) -> str:
        """Work."""
        return "worked"

    with engine(tmp_path, WORK, [work], ids=RandomIds()) as scripted:
        one, two = (lost(scripted, 1, connections={"shop": "secret"}, metadata={"n": n}) for n in (1, 2))

        def options(row: Any) -> Any:
            seen.append((row.run_id, row.metadata, row.state))
            if row.metadata == {"n": 1}:
                raise UsageError("not this one")
            return {"connections": {"shop": "secret"}}

        found = scripted.recover(options)
        assert [result.run_id for result in found] == [two]
        assert {run: str(error) for run, error in found.refused.items()} == {one: "not this one"}
        assert seen == [(one, {"n": 1}, "Specifying"), (two, {"n": 2}, "Specifying")]
        with pytest.raises(ZeroDivisionError):
            scripted.recover(lambda row: 1 // 0)  # type: ignore[arg-type, return-value]
        with pytest.raises(UsageError, match="expected a whole number from 1"):
            asyncio.run(scripted.arecover(at_once=0))


@pytest.mark.parametrize("waits", [False, True])
def test_a_run_that_another_driver_has_driven_meanwhile_is_no_result_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """Between the look at it and its lease; nothing is appended, and the lease is given back."""
    with once(tmp_path, waits=waits) as scripted, once(tmp_path, waits=waits) as other:
        run_id, take = lost(scripted, 1), Runner.take

        def late(self: Runner, name: str) -> Any:
            if self is scripted._runner:
                other.resume(name)
            return take(self, name)

        monkeypatch.setattr(Runner, "take", late)
        found = scripted.recover()
        assert (list(found), found.refused) == ([], {})
        monkeypatch.undo()
        assert scripted.result(run_id).status == ("waiting" if waits else "done")
        assert scripted.resume(run_id, answer={"approve": True} if waits else None).status == "done"


@pytest.mark.parametrize("at_once", [1, 3])
def test_so_many_go_on_at_a_time_as_was_said(tmp_path: Path, at_once: int) -> None:
    """On one event loop."""
    now, most = 0, 0

    @tool("notes.work", effect="read")
    async def work(page: int) -> str:
        """Work."""
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        async with asyncio.timeout(30):
            while most < at_once:
                await asyncio.sleep(0)
        now -= 1
        return "worked"

    async def all_of_it() -> None:
        async with engine(tmp_path, WORK, [work], ids=RandomIds()) as scripted:
            for _ in range(6):
                events = scripted.astream("Work", on_close="stop")
                await anext(events)
                await anext(events)
                await events.aclose()
            found = await scripted.arecover(at_once=at_once)
            assert [result.status for result in found] == ["done"] * 6

    asyncio.run(all_of_it())
    assert most == at_once


# -- workflows, fallbacks, questions that are overdue --------------------------------------------------------------


def by_kind(folder: Path, **options: Any) -> Engine:
    """Return the engine of `once` with a model that also reviews a workflow."""
    scripted = once(folder, **options)
    replies = {"selection": WORK[:1], "parameters": WORK[1:2], "refinement": [STOP], "review": [SUCCESS]}
    scripted.model = ByKind(**replies)
    return scripted


TASKS = [Task("Work on one"), Task("Work on two")]


@pytest.mark.parametrize("rows", range(1, 22))
def test_a_workflow_goes_on_with_its_tasks_wherever_its_process_died(tmp_path: Path, rows: int) -> None:
    """SIGKILL after any row of the whole: one recovery, and the tasks are done once each, as part of the workflow."""

    def act() -> None:
        seen = 0

        def hook(event: Any) -> None:
            nonlocal seen
            seen += isinstance(event, TransitionTaken)
            if seen == rows:
                os.kill(os.getpid(), signal.SIGKILL)

        by_kind(tmp_path, hooks=[hook], journal=Journal(tmp_path / JOURNAL, "normal")).run_workflow(
            "All", tasks=TASKS
        )
        os.kill(os.getpid(), signal.SIGKILL)  # it had fewer rows

    killed(act)
    with by_kind(tmp_path) as scripted:
        found = scripted.recover()
        assert found.refused == {}
        rows_now = scripted.journal.runs()
        if found:  # else it had ended
            assert [scripted.journal.run(result.run_id).task for result in found] == [0]
        for _ in range(
            3
        ):  # killed within a call: each doubt of a task is answered, and then the workflow goes on
            for result in scripted.waiting():
                assert result.waiting_for is not None and result.waiting_for.kind == "in_doubt"
                scripted.resume(
                    result.run_id, outcome="done", result="worked", question=result.waiting_for.id
                )
        rows_now = scripted.journal.runs()
        assert Counter(row.task for row in rows_now) == {0: 1, 1: 1, 2: 1}
        assert {row.status for row in rows_now} == {"done"}, rows_now
        assert (tmp_path / "effects").read_text().count("\n") <= 2
        assert scripted.journal.verify() == [] and list(scripted.recover()) == []


def test_a_workflow_whose_task_was_answered_by_itself_goes_on(tmp_path: Path) -> None:
    """It waits in the journal, but for nobody; and while its task is driven it is left alone."""
    with by_kind(tmp_path, waits=True) as scripted:
        flow = scripted.run_workflow("All", tasks=TASKS[:1])
        assert flow.status == "waiting" and list(scripted.recover()) == []
        task = next(row.run_id for row in scripted.journal.runs() if row.task == 1)
        stream = scripted.resume_stream(task, answer={"approve": True}, on_close="stop")
        next(stream)
        next(stream)
        assert scripted.waiting() == [] and list(scripted.recover()) == []
        assert [event.result.status for event in stream if isinstance(event, RunEnded)] == ["done"]
        assert scripted.result(flow.run_id).status == "waiting" and scripted.waiting() == []
        assert [(result.run_id, result.status) for result in scripted.recover()] == [(flow.run_id, "done")]


def test_a_fallback_that_a_crash_prevented_is_started_once(tmp_path: Path) -> None:
    """Of a failed run whose driver was lost right after its end."""
    with falling_back(tmp_path) as host:
        stream = host.stream("Read", fallback="batch", key="k", on_close="stop")
        assert next(event for event in stream if isinstance(event, RunEnded)).result.status == "failed"
        stream.close()
        host.run("Read without", limits=Limits(max_steps=1))
        found = host.recover()
        assert [(result.status, result.key) for result in found] == [("done", "k")]
        assert len(host.journal.runs()) == 3 and list(host.recover()) == []


def test_a_question_that_is_overdue_is_declined(tmp_path: Path) -> None:
    """Before its time the run waits and is left alone."""
    clock = SteppingClock()
    limits = Limits(elicitation_timeout_s=60)
    with once(tmp_path, waits=True, clock=clock, limits=limits) as scripted:
        waits = scripted.run("Work")
        assert list(scripted.recover()) == [] and scripted.waiting() == [waits]
    late = SteppingClock(start_us=clock.now_us() + 100_000_000)
    with once(tmp_path, waits=True, clock=late, limits=limits) as scripted:
        assert scripted.waiting() == [waits]
        found = scripted.recover()
        assert [result.run_id for result in found] == [waits.run_id] and found[0].status != "waiting"
        assert not (tmp_path / "effects").exists()


# -- processes -----------------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_of_many_processes_that_recover_at_once_each_run_has_one(tmp_path: Path) -> None:
    """They share the runs; no call is made twice, and no row is written by two."""
    race, runs = Race(tmp_path), 12
    with race.engine() as scripted:
        for rows in range(runs):
            lost(scripted, rows % 2)

    def act(scripted: Engine) -> Any:
        found = scripted.recover()
        assert found.refused == {}
        race.report(recovered=len(found), rows=[])

        class Done:
            state = "Done"

        return Done

    race.run(act, processes=10)
    lines = race.lines()
    assert sum(line.get("recovered", 0) for line in lines) == runs
    assert [line["came_to"] for line in lines if "came_to" in line] == ["Done"] * 10
    assert len(race.effects.read_text().split()) == runs
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        assert journal.verify() == []
        assert {row.status for row in journal.runs()} == {"done"}
    written = Counter((run, seq) for line in lines for run, seq in line["rows"])
    assert set(written.values()) == {1}


def test_a_run_of_another_host_is_left_to_its_lease(tmp_path: Path) -> None:
    """Nobody can prove here that its driver is dead; when the lease has run out, the run goes on."""
    with once(tmp_path) as scripted:
        run_id = lost(scripted, 1)
    owner = json.dumps({"host": "elsewhere", "boot": "b", "space": "s", "pid": 1, "start": 1})
    alter(tmp_path / JOURNAL, owner=owner, lease_until=int(time.time() * 1e6) + 60_000_000)
    with once(tmp_path) as scripted:
        found = scripted.recover()
        assert (list(found), found.refused) == ([], {})
    alter(tmp_path / JOURNAL, owner=owner, lease_until=int(time.time() * 1e6) - 1_000_000)
    with once(tmp_path) as scripted:
        assert [result.run_id for result in scripted.recover()] == [run_id]
