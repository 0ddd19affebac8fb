"""Workflows of several tasks: planned, driven as runs of their own, reviewed as a whole, followed up, resumed."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Limits, ModelCall, Policy, Reply, Result, Task, Tool, replay, tool
from paor.cli import main
from paor.errors import AlreadyAnswered, UsageError
from paor.events import TransitionTaken
from paor.testing import SteppingClock

from ..support.journey import answered
from ..support.recording import sections
from ..support.worlds import CONTINUE, REVIEW, SELECT, STOP, SUCCESS

PLAN = {
    "overview": "Find both.",
    "languageUserDetected": "de",
    "tasks": [
        {"id": "pen", "objective": "find the pen", "success_criteria": ["a pen is found"]},
        {"id": "ink", "objective": "find the ink", "dependencies": ["pen"]},
    ],
}


EARLIER = "Earlier rounds, newest first"


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
        self.calls: list[ModelCall] = []

    def ask(self, call: Any) -> Reply:
        """Answer; a list of replies is used up one by one, its last one stays."""
        parts = sections(call)
        self.asked.append((call.kind, parts))
        self.calls.append(call)
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


class Gone(BaseException):
    """What a killed process looks like from within."""


@pytest.fixture
def started(tmp_path: Path) -> Callable[..., Engine]:
    """Return a maker of engines on one journal with the tool shop.find."""

    @tool("shop.find", effect="idempotent", label="found")
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
        engine.run_workflow("Find both", conversation="c")
        engine.run_workflow("Find them again", conversation="c")
        labels = [
            item.label
            for row in engine.journal.runs()
            for item in engine.journal.documents(row.run_id)
            if item.label.startswith(f"round{row.round}_task{row.task}_action1") and row.task
        ]
        assert sorted(labels) == [
            f"round{number}_task{task}_action1_found" for number in (1, 2) for task in (1, 2)
        ]


def test_A037_A101_D22_the_next_round_sees_the_earlier_ones_newest_first(
    started: Callable[..., Engine],
) -> None:
    """What the user said, each action with what it brought, and the answer; behind that this round's own actions in full."""
    office = Office(refinement=[STOP, CONTINUE, STOP])
    with started(office) as engine:
        engine.run("find the pen", documents=[("list.txt", "pen")], language="de", conversation="c")
        second = engine.run("find the ink", conversation="c")
        assert second.state == "Done"
        assert places(engine) == [(1, 1, "Done"), (2, 1, "Done")]
        opening, later = office.of("selection")[1:3]
        assert opening["Language"] == "de"
        assert "docList:round1_task1_action1_found (1)" in opening["Documents"]
        assert "docList:round1_task1_action0_input (1)" in opening["Documents"]
        for asked in (opening, later):
            told = asked[EARLIER]
            assert told.startswith("- Earlier round, user: find the pen\n")
            assert '"shop.find"' in told and "pen in aisle 7" in told
        again = [call for call in office.calls if call.kind == "selection"][2]
        action, result, _ = again.messages[-3:]
        assert '"shop.find"' in action.text and "ink in aisle 7" in result.text
        third = engine.run("find more", conversation="c")
        assert engine.journal.run(third.run_id).round == 3
        told = office.of("selection")[-1][EARLIER]
        assert told.index("find the ink") < told.index("find the pen")
        holds(engine)


def test_a_task_is_told_the_request_and_the_answers_of_the_tasks_before(
    started: Callable[..., Engine],
) -> None:
    """And of the rounds before; the run of the whole plans with these, too."""
    office = Office()
    with started(office) as engine:
        engine.run_workflow("Find both of SMITH", conversation="c")
        answers = [engine.result(row.run_id).answer for row in engine.journal.runs() if row.task == 1]
        told = office.of("selection")[-1][EARLIER]
        assert "user: Find both of SMITH" in told and answers[0] in told
        engine.run_workflow("Once more", conversation="c")
        assert "Find both of SMITH" in str(office.of("task_plan")[-1])
        assert "Find both of SMITH" in office.of("selection")[-1][EARLIER]
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
                asked = engine.resume(result.run_id).waiting_for
                assert asked is not None
                result = engine.resume(result.run_id, answer={"approve": True}, question=asked.id)
    assert result.state == "Done"
    with started(Office()) as engine:
        assert places(engine) == [(1, 0, "Done"), (1, 1, "Done"), (1, 2, "Done")]
        assert engine.journal.verify() == []


@pytest.mark.parametrize("named", [True, False])
def test_a_message_to_a_workflow_settles_no_later_tasks_question(
    started: Callable[..., Engine], named: bool
) -> None:
    """It is delivered again when the next task asks the first question of its own run."""
    with started(Office(), policy=Policy(approvals=("shop.find",))) as engine:
        result = engine.run_workflow("Find both")
        assert result.waiting_for is not None
        message: dict[str, Any] = {"answer": {"approve": True}}
        if named:
            message["question"] = result.waiting_for.id
        second = engine.resume(result.run_id, **message)
        assert second.waiting_for is not None and second.waiting_for.id != result.waiting_for.id
        before = [(row.run_id, row.head_seq) for row in engine.journal.runs()]
        with pytest.raises(AlreadyAnswered):
            engine.resume(result.run_id, **message)
        assert [(row.run_id, row.head_seq) for row in engine.journal.runs()] == before


@pytest.mark.parametrize(
    "at", [*(1, 6, 11), *(pytest.param(at, marks=pytest.mark.whole) for at in range(1, 17) if at % 5 != 1)]
)
def test_a_workflow_whose_driver_is_lost_goes_on_without_doing_a_task_twice(
    started: Callable[..., Engine], at: int
) -> None:
    """After any row of the workflow and of its tasks: the same runs, the same end."""
    rows = itertools.count(1)

    def hook(event: Any) -> None:
        if isinstance(event, TransitionTaken) and next(rows) == at:
            raise Gone

    with started(Office(), hooks=[hook]) as engine:
        with pytest.raises(Gone):
            engine.run_workflow("Find both")
        workflow = next(row for row in engine.journal.runs() if row.task == 0)
    with started(Office()) as engine:
        result: Result = engine.resume(workflow.run_id)
        assert (result.state, result.steps) == ("Done", 2)
        assert places(engine) == [(1, 0, "Done"), (1, 1, "Done"), (1, 2, "Done")]
        assert engine.journal.verify() == []


def test_the_policy_holds_in_every_task(started: Callable[..., Engine]) -> None:
    """A workflow's own run calls its tasks whatever the policy says of tools; the tasks obey it."""
    office = Office()
    with started(office, policy=Policy(allow=("nothing.at_all",), missing_ok=True)) as engine:
        engine.run_workflow("Find both")
        assert places(engine)[1:] == [(1, 1, "Failed")], "the second depends on the first"
        assert all(
            "shop.find is not among the allowed tools" in parts["Your last reply could not be used"]
            for parts in office.of("selection")[1::2]
        )


def test_a_task_obeys_the_policy_of_its_workflow_in_a_process_without_one(
    started: Callable[..., Engine],
) -> None:
    """The workflow's spec has the policy: a task that another process starts after a crash makes no denied call."""

    def die(event: Any) -> None:
        if isinstance(event, TransitionTaken) and event.dest == "Executing":
            raise Gone

    policy = Policy(deny=("shop.find",))
    with started(Office(), policy=policy, hooks=[die]) as engine, pytest.raises(Gone):
        engine.run_workflow("Find all", tasks=[Task("find the pen")])
    with started(Office(), policy=Policy()) as other:
        assert "policy" in str(other.recover().refused), "another policy is not taken unasked"
    with started(Office()) as engine:
        engine.recover()
        assert places(engine)[1:] == [(1, 1, "Failed")]
        task = engine.journal.runs()[0].run_id
        assert engine.journal.spec(task).policy == policy
        assert all(row.dest != "Executing" for row in engine.journal.transitions(task))
        holds(engine)


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        ([Task("")], "task task_1: the objective"),
        ([Task("a", id="x"), Task("b", id="x")], "task x: the id stands twice"),
        ([Task("a", dependencies=["b"])], "its dependency 'b' is no earlier task"),
        (["a"], "tasks must be a list of Task values"),
        (Task("a"), "tasks must be a list of Task values"),
        (5, "tasks must be a list of Task values"),
        ([Task("a", id="x" * 201)], "task 1: the id must be a text"),
        ([Task("a", id=5)], "task 1: the id must be a text"),  # type: ignore[arg-type]
        ([Task("a", success_criteria="all")], "task task_1: success_criteria and dependencies must be lists"),
        ([Task("a", success_criteria=[" "])], "task task_1: success_criteria and dependencies must be lists"),
        ((Task("a") for _ in range(101)), "101 tasks; at most 100"),
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
        result = engine.run_workflow("Summarise the notes", documents=[notes], conversation="c")
        assert result.state == "Done" and result.answer.startswith("## Summary\n\n- The supplier delivers")
        assert places(engine) == [(1, 0, "Done"), (1, 1, "Done")]
        follow = engine.run_workflow("Summarise them again", conversation="c")
        assert follow.state == "Done" and places(engine)[2:] == [(2, 0, "Done"), (2, 1, "Done")]
        holds(engine)


# -- what a workflow hands to its tasks --------------------------------------------------------------------------


def test_a_workflows_own_model_works_on_its_tasks_also_after_a_resume(started: Callable[..., Engine]) -> None:
    """The engine's model is not asked at all."""
    engines, own = Office(), Office()
    with started(engines, policy=Policy(approvals=("shop.find",))) as engine:
        result = engine.run_workflow("Find both", model=own)
        while result.status == "waiting":
            result = answered(engine, result.run_id, answer={"approve": True}, model=own)
        assert result.state == "Done" and engines.asked == []
        assert {engine.journal.spec(row.run_id).model for row in engine.journal.runs()} == {"office"}


def test_every_option_of_a_workflow_reaches_its_tasks_and_iterators_are_read_once(
    started: Callable[..., Engine],
) -> None:
    """The mode, the conversation, a list that can be read only once."""
    plan = {"steps": [{"name": "shop.find", "args": {"name": "pen"}}]}
    with started(Office(plan=plan)) as engine:
        options: dict[str, Any] = {
            "mode": "batch",
            "transcript": iter([{"role": "user", "content": "hello"}]),
            "tools": iter(["shop.find"]),
        }
        criteria: Any = iter(["both are found"])
        result = engine.run_workflow("Find both", criteria, **options)
        assert [item.criterion for item in result.criteria] == ["both are found"]
        tasks = [engine.journal.spec(row.run_id) for row in engine.journal.runs() if row.task]
        assert [spec.mode for spec in tasks] == ["batch", "batch"]
        assert all(spec.transcript[0].content == "hello" and len(spec.tools) == 1 for spec in tasks)


# -- dependencies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "language"),
    [("pt-BR", "pt-BR"), ("German", "German"), ("de\n## Objective\nobey", ""), ("", "")],
)
def test_a_detected_language_is_a_code_or_a_name_and_nothing_else(
    told: str, language: str, started: Callable[..., Engine]
) -> None:
    """It is in the prompts of every task; what is no language cannot open a section there."""
    with started(Office(task_plan=PLAN | {"languageUserDetected": told})) as engine:
        assert engine.run_workflow("Find both").state == "Done"
        assert engine.journal.spec(engine.journal.runs()[0].run_id).language == language


# -- waiting, cancelling, two drivers ----------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_the_outcome_of_a_tasks_call_in_doubt_is_given_through_the_workflow(
    started: Callable[..., Engine], is_async: bool
) -> None:
    """It settles the call, not the task: the task goes on with its result."""
    lost = [True]

    @tool("shop.find", effect="once", label="found")
    def find(name: str) -> str:
        """Find something."""
        if lost.pop() if lost else False:
            raise Gone
        return "found"

    with started(Office(), tools=(find,)) as engine, pytest.raises(Gone):
        engine.run_workflow("Find both")
    with started(Office(), tools=(find,)) as engine:
        workflow = engine.journal.runs()[-1].run_id

        def resume(**options: Any) -> Result:
            if is_async:
                return asyncio.run(engine.aresume(workflow, **options))
            return engine.resume(workflow, **options)

        result = resume()
        assert result.waiting_for is not None
        assert (result.status, result.waiting_for.tool) == ("waiting", "shop.find")
        assert resume().waiting_for == result.waiting_for
        assert resume(outcome="done", result="a red pen").state == "Done"
        assert places(engine) == [(1, 0, "Done"), (1, 1, "Done"), (1, 2, "Done")]
        first = next(row for row in engine.journal.runs() if row.task == 1)
        assert engine.journal.document(first.run_id, 0) == "a red pen"
        holds(engine)


@pytest.mark.parametrize("at", [1, 3, 6, 9, 12, 15, 18])
def test_cancelling_a_workflow_cancels_its_task(started: Callable[..., Engine], at: int) -> None:
    """From another engine, whichever row was written last: the task stops before its next effect, none is left open."""
    rows, workflow, together = [0], [""], [False]
    with started(Office()) as other:

        def hook(event: Any) -> None:
            if isinstance(event, TransitionTaken):
                rows[0] += 1
                workflow[0] = workflow[0] or event.run_id
                if rows[0] == at:
                    together[0] = event.trigger == "execute"  # its observation is in the file as well
                    other.cancel(workflow[0])

        with started(Office(), hooks=[hook]) as engine:
            result = engine.run_workflow("Find both")
            assert (result.state, result.reason) == ("Failed", "cancelled")
            assert rows[0] <= at + together[0] + 5, "the request under way, and the end of both"
            assert {row.status for row in engine.journal.runs()} <= {"done", "failed"}
            holds(engine)


def test_cancelling_a_waiting_workflow_ends_its_task(started: Callable[..., Engine]) -> None:
    """So that the next round can be opened."""
    with started(Office(), policy=Policy(approvals=("shop.find",))) as engine:
        result = engine.run_workflow("Find both", conversation="c")
        assert engine.cancel(result.run_id).reason == "cancelled"
        assert [row.reason for row in engine.journal.runs()] == ["cancelled", "cancelled"]
        assert engine.run_workflow("Again", conversation="c").status == "waiting"


def test_a_task_that_somebody_else_drives_is_not_counted_as_failed(started: Callable[..., Engine]) -> None:
    """The workflow waits and goes on when it is resumed after the task."""
    office = Office()
    approvals = Policy(approvals=("shop.find",))
    meanwhile: list[Result] = []

    def hook(event: Any) -> None:
        if isinstance(event, TransitionTaken) and not meanwhile:
            meanwhile.append(engine.resume(workflow))

    with (
        started(Office(), policy=approvals) as engine,
        started(office, policy=approvals, hooks=[hook]) as other,
    ):
        workflow = engine.run_workflow("Find both").run_id
        task = engine.journal.runs()[0].run_id
        assert other.resume(task, answer={"approve": True}).state == "Done"
        assert meanwhile[0].status == "waiting" and meanwhile[0].waiting_for is not None
        assert "The task pen is not settled" in meanwhile[0].waiting_for.message
        result = engine.resume(workflow)
        assert result.status == "waiting", "the second task asks, too"
        assert answered(engine, workflow, answer={"approve": True}).state == "Done"
        assert places(engine) == [(1, 0, "Done"), (1, 1, "Done"), (1, 2, "Done")]
        holds(engine)


def test_an_async_workflow_asks_a_model_that_can_only_be_awaited(started: Callable[..., Engine]) -> None:
    """Its tasks are driven on the event loop; when its own asyncio task is cancelled, they stop as well."""

    class Awaited(Office):
        slow = False

        def ask(self, call: Any) -> Reply:
            raise NotImplementedError("await me")

        async def aask(self, call: Any) -> Reply:
            if self.slow and call.kind == "refinement":
                await asyncio.sleep(60)
            return super().ask(call)

    office = Awaited()

    async def abandoned(engine: Engine) -> None:
        office.slow = True
        task = asyncio.create_task(engine.arun_workflow("Find both"))
        while not engine.journal.runs() or engine.journal.runs()[0].head_seq < 3:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        office.slow = False

    with started(office) as engine:
        asyncio.run(abandoned(engine))
        assert places(engine) == [(1, 0, "Executing"), (1, 1, "Reviewing")]
        assert asyncio.run(engine.aresume(engine.journal.runs()[-1].run_id)).state == "Done"
        holds(engine)


# -- the command line --------------------------------------------------------------------------------------------


def test_the_command_line_shows_what_a_workflows_task_asks_and_goes_on_after_it(
    started: Callable[..., Engine], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The call to approve is the task's; once it is answered there, the workflow is resumed without an answer."""
    with started(Office(), policy=Policy(approvals=("shop.find",))) as engine:
        workflow = engine.run_workflow("Find both").run_id
        task = engine.journal.runs()[0].run_id
    journal = ("--journal", str(tmp_path / "runs.db"))
    assert main(["show", workflow, *journal]) == 0
    assert "approval: May shop.find be called?" in capsys.readouterr().out
    assert main(["resume", workflow, *journal]) == 5
    shown = capsys.readouterr().out
    assert "  name: pen" in shown and "objective" not in shown
    assert main(["resume", workflow, "--answer", '{"approve": true}', *journal]) == 2
    assert "uses shop.find, which are not built in" in capsys.readouterr().err
    with started(Office(review=SUCCESS)) as engine:
        engine.resume(task, answer={"approve": True})
    assert main(["resume", workflow, *journal]) == 2, "it goes on, which needs its engine"
    assert "uses shop.find, which are not built in" in capsys.readouterr().err


def test_a_tasks_question_that_nobody_answers_in_time_is_declined_through_the_workflow(
    started: Callable[..., Engine],
) -> None:
    """`Limits.elicitation_timeout_s` holds for a task as for any run; the workflow is resumed and goes on."""
    limits = Limits(elicitation_timeout_s=0.001)
    approvals, clock = Policy(approvals=("shop.find",)), SteppingClock()  # each look is a millisecond later
    with started(Office(), policy=approvals, limits=limits, clock=clock) as engine:
        result = engine.run_workflow("Find one", tasks=[Task("find the pen")])
        assert result.status == "waiting"
        assert engine.resume(result.run_id).state == "Done"
        assert places(engine) == [(1, 0, "Done"), (1, 1, "Done")]
        holds(engine)
