"""Workflows of several tasks: planned, driven as runs of their own, reviewed as a whole, followed up, resumed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Limits, Policy, Reply, Result, Task, Tool, TransitionTaken, UsageError, replay, tool
from paor.cli import main

from .recording import sections
from .worlds import CONTINUE, REVIEW, SELECT, STOP, SUCCESS

PLAN = {
    "overview": "Find both.",
    "languageUserDetected": "de",
    "tasks": [
        {"id": "pen", "objective": "find the pen", "success_criteria": ["a pen is found"]},
        {"id": "ink", "objective": "find the ink", "dependencies": ["pen"]},
    ],
}


class Office:
    """A model that answers by kind of request, and keeps what it was asked."""

    name = "office"

    def __init__(self, **replies: Any) -> None:
        self.replies = {
            "task_plan": PLAN,
            "selection": SELECT("shop.find", {"name": "string"}),
            "refinement": STOP,
            "review": SUCCESS,
        } | replies
        self.asked: list[tuple[str, dict[str, str]]] = []

    def ask(self, call: Any) -> Reply:
        """Answer; a list of replies is used up one by one, its last one stays."""
        parts = sections(call)
        self.asked.append((call.kind, parts))
        if call.kind == "parameters":
            name = "pen" if "pen" in parts["Action objective"] else "ink"
            return Reply(json.dumps({"schema": "parameters_v1", "parameters": {"name": name}}))
        reply = self.replies[call.kind]
        if isinstance(reply, list):
            reply = reply.pop(0) if len(reply) > 1 else reply[0]
        if call.kind == "selection" and reply.get("action"):
            reply = reply | {"actionObjective": parts["Objective"]}
        return Reply(json.dumps(reply))

    async def aask(self, call: Any) -> Reply:
        """Do the same."""
        return self.ask(call)

    def of(self, kind: str) -> list[dict[str, str]]:
        """Return the sections of every request of a kind."""
        return [parts for name, parts in self.asked if name == kind]


@pytest.fixture
def started(tmp_path: Path) -> Callable[..., Engine]:
    """Return a maker of engines on one journal with the tool shop.find."""

    @tool("shop.find", effect="read", label="found")
    def find(name: str) -> str:
        """Find something."""
        return f"{name} in aisle 7"

    def start(model: Any, *, tools: tuple[Tool, ...] = (find,), **options: Any) -> Engine:
        journal = str(tmp_path / "runs.db")
        return Engine(model=model, tools=tools, journal=journal, builtins=False, **options)

    return start


def places(engine: Engine) -> list[tuple[int, int, str]]:
    """Return round, task and state of every run, in the order of their start."""
    return [(row.round, row.task, row.state) for row in reversed(engine.journal.runs())]


def holds(engine: Engine) -> None:
    """Assert that everything in the journal verifies and replays identical, with and without the engine."""
    assert engine.journal.verify() == []
    for row in engine.journal.runs():
        for source in (None, engine):
            replayed = replay(engine.journal, row.run_id, source)
            assert replayed.identical, replayed.divergences


@pytest.mark.parametrize("is_async", [False, True])
def test_A037_A055_A069_a_workflow_plans_its_tasks_and_drives_each_as_a_run(
    started: Callable[..., Engine], is_async: bool
) -> None:
    """One planning of tasks, a run for each with its own counters, and a review of the whole, in the user's language."""
    office = Office()
    with started(office) as engine:
        documents = [("list.txt", "pen, ink")]
        if is_async:
            result = asyncio.run(engine.arun_workflow("Finde beides", ["both are found"], documents))
        else:
            result = engine.run_workflow("Finde beides", ["both are found"], documents)
        assert (result.state, result.answer, result.steps) == ("Done", SUCCESS["answer"], 2)
        assert places(engine) == [(1, 0, "Done"), (1, 1, "Done"), (1, 2, "Done")]
        assert [kind for kind, _ in office.asked].count("task_plan") == 1
        assert len(office.of("review")) == 3
        assert [parts["Language"] for parts in office.of("review")] == ["de", "de", "de"]
        assert "a pen is found" in office.of("selection")[0]["Success criteria"]
        assert {row.workflow_id for row in engine.journal.runs()} == {result.run_id}
        holds(engine)


def test_A011_A038_what_a_task_produced_is_passed_on_under_its_label(started: Callable[..., Engine]) -> None:
    """The label tells round, task and action, in the task that made it and in every one after it."""
    office = Office()
    with started(office) as engine:
        result = engine.run_workflow("Find both", documents=[("list.txt", "pen, ink")])
        first, second = (parts["Documents"] for parts in office.of("selection"))
        assert "docList:round1_task0_action0_input (1)" in first and "task1" not in first
        assert "docItem:round1_task1_action1_found#0 result.txt" in second
        assert [document.read() for document in result.documents if document.name == "result.txt"] == [
            "pen in aisle 7",
            "ink in aisle 7",
        ]


def test_A045_every_task_has_its_own_limits(started: Callable[..., Engine]) -> None:
    """Two tasks of two steps each pass a limit of two steps; both are stopped by it."""
    office = Office(refinement=CONTINUE)
    limits = Limits(max_steps=2, consecutive_limit=9, window_freq_limit=9)
    with started(office) as engine:
        engine.run_workflow("Find both", limits=limits)
        steps = [engine.journal.transitions(row.run_id)[-1].step for row in engine.journal.runs() if row.task]
        assert steps == [2, 2]


def test_C4_27_labels_are_unique_and_counters_restart_with_every_task_and_round(
    started: Callable[..., Engine],
) -> None:
    """So no label of one round can mean a document of another."""
    with started(Office()) as engine:
        result = engine.run_workflow("Find both")
        engine.follow_up(result.run_id, "Find them again")
        labels = [
            item.label
            for row in engine.journal.runs()
            for item in engine.journal.documents(row.run_id)
            if item.label.startswith(f"round{row.round}_task{row.task}_action1") and row.task
        ]
        assert sorted(labels) == [
            f"round{number}_task{task}_action1_found" for number in (1, 2) for task in (1, 2)
        ]


def test_A037_A101_D22_a_follow_up_is_the_next_round_and_sees_the_earlier_ones_as_summaries(
    started: Callable[..., Engine],
) -> None:
    """Newest first: this round's actions in full, then of the last round the answer and what each action came to."""
    office = Office(refinement=[STOP, CONTINUE, STOP])
    with started(office) as engine:
        first = engine.run("find the pen", documents=[("list.txt", "pen")], language="de")
        second = engine.follow_up(first.run_id, "find the ink")
        assert second.state == "Done"
        assert places(engine) == [(1, 1, "Done"), (2, 1, "Done")]
        opening, later = office.of("selection")[1:3]
        assert opening["Language"] == "de"
        assert "docList:round1_task1_action1_found (1)" in opening["Documents"]
        assert "docList:round1_task1_action0_input (1)" in opening["Documents"]
        lines = [line for line in opening["History, newest first"].splitlines() if line.startswith("- ")]
        assert lines == ["- Round 1: answer of task 1 [ok]", "- Round 1, step 1: shop.find [ok]"]
        lines = [line for line in later["History, newest first"].splitlines() if line.startswith("- ")]
        assert lines[0].startswith("- Step 1: shop.find") and lines[1:] == [
            "- Round 1: answer of task 1 [ok]",
            "- Round 1, step 1: shop.find [ok]",
        ]
        third = engine.follow_up(second.run_id, "find more")
        assert engine.journal.run(third.run_id).round == 3
        holds(engine)


def test_a_follow_up_of_a_workflow_is_a_workflow(started: Callable[..., Engine]) -> None:
    """Its tasks are planned anew, with the history of the rounds before."""
    office = Office()
    with started(office) as engine:
        result = engine.run_workflow("Find both")
        engine.follow_up(result.run_id, "And now again")
        assert places(engine)[3:] == [(2, 0, "Done"), (2, 1, "Done"), (2, 2, "Done")]
        history = office.of("task_plan")[1]["History, newest first"].splitlines()
        assert history[0] == "- Round 1: answer [ok]"
        holds(engine)


def test_tasks_that_the_host_knows_are_not_planned(started: Callable[..., Engine]) -> None:
    """`Task` values take the place of the model's plan; what depends on a failed one is not started."""
    office = Office(review=[REVIEW("failed"), SUCCESS])
    tasks = [Task("find the pen"), Task("find the ink", dependencies=["task_1"]), Task("find the pen again")]
    with started(office) as engine:
        result = engine.run_workflow("Find all", tasks=tasks)
        assert office.of("task_plan") == [] and result.state == "Done"
        assert places(engine) == [(1, 0, "Done"), (1, 1, "Failed"), (1, 3, "Done")]
        results = office.of("review")[-1]["Results, newest first"]
        assert "task task_1 failed, and this one depends on it" in results
        holds(engine)


def test_a_review_of_the_whole_can_ask_for_another_attempt(started: Callable[..., Engine]) -> None:
    """The tasks are planned again, with what is to be better; their numbers go on."""
    office = Office(review=[SUCCESS, SUCCESS, REVIEW("retry", "look in aisle 8"), SUCCESS])
    with started(office) as engine:
        assert engine.run_workflow("Find both").state == "Done"
        assert "look in aisle 8" in office.of("task_plan")[1]["Improvements asked for"]
        assert [task for _, task, _ in places(engine)] == [0, 1, 2, 3, 4]
        holds(engine)


@pytest.mark.parametrize("whom", ["the workflow", "the task"])
def test_A137_a_task_that_waits_lets_the_workflow_wait_and_either_takes_the_answer(
    started: Callable[..., Engine], whom: str
) -> None:
    """In another process: the workflow shows what the task asks, and goes on where it was."""
    with started(Office(), policy=Policy(approvals=("shop.find",))) as engine:
        result = engine.run_workflow("Find both")
        assert result.status == "waiting" and result.waiting_for is not None
        assert (result.waiting_for.kind, result.waiting_for.tool) == ("approval", "shop.find")
        assert engine.resume(result.run_id).status == "waiting", "nothing was answered yet"
    for _ in range(2):
        with started(Office(), policy=Policy(approvals=("shop.find",))) as engine:
            waiting = next(
                row.run_id for row in engine.journal.runs() if row.task and row.status == "waiting"
            )
            if whom == "the task":
                engine.resume(waiting, answer={"approve": True})
                result = engine.resume(result.run_id)
            else:
                result = engine.resume(result.run_id, answer={"approve": True})
    assert result.state == "Done"
    with started(Office()) as engine:
        assert places(engine) == [(1, 0, "Done"), (1, 1, "Done"), (1, 2, "Done")]
        assert engine.journal.verify() == []


def test_a_workflow_whose_driver_is_lost_goes_on_without_doing_a_task_twice(
    started: Callable[..., Engine],
) -> None:
    """After every row of the workflow and of its tasks: the same runs, the same end."""
    calls: list[str] = []

    @tool("shop.find", effect="read", label="found")
    def find(name: str) -> str:
        """Find something."""
        calls.append(name)
        return f"{name} in aisle 7"

    class Lost(BaseException):
        """What a killed process looks like from within."""

    stop = [0]

    def hook(event: Any) -> None:
        if isinstance(event, TransitionTaken):
            stop[0] -= 1
            if stop[0] == 0:
                raise Lost

    for at in range(1, 17):
        calls.clear()
        stop[0] = at
        with started(Office(), tools=(find,), hooks=[hook]) as engine:
            with pytest.raises(Lost):
                engine.run_workflow("Find both")
            workflow = next(row for row in engine.journal.runs() if row.task == 0)
        with started(Office(), tools=(find,)) as engine:
            result: Result = engine.resume(workflow.run_id)
            assert (result.state, result.steps) == ("Done", 2), at
            runs = [row for row in engine.journal.runs() if row.workflow_id == workflow.run_id]
            assert sorted((row.task, row.state) for row in runs) == [(0, "Done"), (1, "Done"), (2, "Done")]
            assert engine.journal.verify() == []


def test_the_policy_holds_in_every_task(started: Callable[..., Engine]) -> None:
    """A workflow's own run calls its tasks whatever the policy says of tools; the tasks obey it."""
    office = Office()
    with started(office, policy=Policy(allow=("nothing.at_all",))) as engine:
        engine.run_workflow("Find both")
        assert places(engine)[1:] == [(1, 1, "Failed")], "the second depends on the first"
        assert all(
            "shop.find is not among the allowed tools" in parts["Your last reply could not be used"]
            for parts in office.of("selection")[1::2]
        )


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        ([Task("")], "task task_1: the objective"),
        ([Task("a", id="x"), Task("b", id="x")], "task x: the id stands twice"),
        ([Task("a", dependencies=["b"])], "its dependency 'b' is no earlier task"),
        (["a"], "tasks must be a list of Task values"),
        (Task("a"), "tasks must be a list of Task values"),
    ],
)
def test_tasks_that_cannot_be_used_are_one_line(
    tasks: Any, told: str, started: Callable[..., Engine]
) -> None:
    """Before anything was started."""
    with started(Office()) as engine:
        with pytest.raises(UsageError, match=told):
            engine.run_workflow("Find", tasks=tasks)
        assert engine.journal.runs() == []


def test_the_offline_model_takes_the_objective_as_one_task(tmp_path: Path) -> None:
    """It cannot divide an objective; the workflow ends as its one task does."""
    notes = ("notes.txt", "The supplier delivers the goods within thirty days of the order. " * 3)
    with Engine("offline", journal=str(tmp_path / "runs.db")) as engine:
        result = engine.run_workflow("Summarise the notes", documents=[notes])
        assert result.state == "Done" and "thirty days" in result.answer
        assert places(engine) == [(1, 0, "Done"), (1, 1, "Done")]
        follow = engine.follow_up(result.run_id, "Summarise them again")
        assert follow.state == "Done" and places(engine)[2:] == [(2, 0, "Done"), (2, 1, "Done")]
        holds(engine)


def test_the_command_line_tells_where_a_run_stands_in_its_workflow(
    started: Callable[..., Engine], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the list of runs and at the head of one; a run by itself has no such mark."""
    with started(Office()) as engine:
        result = engine.run_workflow("Find both", documents=[("list.txt", "pen, ink")])
        engine.follow_up(result.run_id, "Find them again")
        engine.run("find the pen")
    journal = ("--journal", str(tmp_path / "runs.db"))
    assert main(["runs", *journal]) == 0
    listed = capsys.readouterr().out
    assert "[workflow, round 1] Find both" in listed and "[round 2, task 2] find the ink" in listed
    assert [line for line in listed.splitlines() if line.endswith("  find the pen")]
    assert main(["show", result.run_id, *journal]) == 0
    shown = capsys.readouterr().out
    assert f"round 1, all tasks, of {result.run_id}" in shown and "1 given, 4 produced" in shown


def test_a_follow_up_needs_a_finished_round(started: Callable[..., Engine]) -> None:
    """What is still going on is named."""
    with started(Office(), policy=Policy(approvals=("*",))) as engine:
        result = engine.run("find the pen")
        with pytest.raises(UsageError, match=f"run {result.run_id} of this workflow is waiting"):
            engine.follow_up(result.run_id, "more")
