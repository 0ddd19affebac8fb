"""``docs/what-may-run-twice.md``, line by line: each line's tests exist and do what it says; those without a home are here."""

from __future__ import annotations

import ast
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, ModelCall, Reply, Task, ToolContext, replay, tool
from paor.errors import NotStarted
from paor.events import TransitionTaken
from paor.testing import RandomIds

from ..lifecycle.test_resume import in_child
from ..support.inside import ask, decode_row
from ..support.pages import page
from ..support.worlds import (
    ANSWER,
    PARAMETERS,
    READ,
    SELECT,
    STOP,
    SUCCESS,
    TOOLS,
    engine,
)
from .test_in_doubt import drive, in_doubt, sent

TESTS = Path(__file__).parents[1]
PAGE = "docs/what-may-run-twice.md"
WORK = [SELECT("notes.work"), PARAMETERS(page=1), STOP, SUCCESS]


# -- the page ------------------------------------------------------------------------------------------------------


def lines_of_the_page() -> list[tuple[str, list[str]]]:
    """Return each case of the page with the ids of its tests."""
    rows = [line.strip("|").split(" | ") for line in page(PAGE).splitlines() if line.startswith("| ")]
    return [(cells[0].strip(), re.findall(r"`(\w+/test_\w+\.py::\w+)`", cells[-1])) for cells in rows[1:]]


def source_of(name: str) -> str:
    """Return the source of a test with that of every helper of its module that it reaches."""
    file, function = name.split("::")
    text = (TESTS / file).read_text(encoding="utf-8")
    known = {
        node.name: node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    assert function in known, f"{name} does not exist"
    wanted, reached = [function], dict[str, str]()
    while wanted:
        name = wanted.pop()
        if name in reached or name not in known:
            continue
        reached[name] = ast.get_source_segment(text, known[name]) or ""
        used = [node.id for node in ast.walk(known[name]) if isinstance(node, ast.Name)]
        wanted += used
    return "\n".join(reached.values())


def test_every_line_names_tests_that_exist_and_kill_what_the_line_says() -> None:
    """A line without a proof, or whose proof kills nothing although it says so, is a promise only."""
    lines = lines_of_the_page()
    assert len(lines) >= 25
    for case, names in lines:
        assert names, f"{case}: no test"
        for name in names:
            source = source_of(name)
            if "killed" in case:
                assert re.search(r"SIGKILL|\bkilled\(|\bin_doubt\(", source), f"{case}: {name} kills nothing"
            if "stopped" in case:
                assert "SIGSTOP" in source and "SIGCONT" in source


# -- models --------------------------------------------------------------------------------------------------------


class Deadly:
    """A scripted model that leaves a line for each request, and dies after having answered the n-th."""

    name = "deadly"

    def __init__(self, folder: Path, script: list[Any], at: int) -> None:
        self.folder, self.at = folder, at
        self.script = engine(folder, script, TOOLS[:1]).model

    def ask(self, call: ModelCall) -> Reply:
        """Answer, then perhaps die."""
        with (self.folder / "asked").open("a") as file:
            file.write(f"{call.number} {call.kind}\n")
        reply = ask(self.script, call)
        if call.number == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return reply

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same."""
        return self.ask(call)


def asked(folder: Path) -> list[str]:
    """Return the requests that were made, in order."""
    return (folder / "asked").read_text().splitlines()


def whole_usage(folder: Path, script: list[Any], *tools: Any) -> Any:
    """Return the usage of the run that nobody killed, without its time."""
    (folder / "whole").mkdir()
    with engine(folder / "whole", script, tools or TOOLS[:1]) as scripted:
        used = scripted.run("Read").usage
    return used.tokens_in, used.tokens_out, used.calls


@pytest.mark.parametrize("number", range(4))
def test_a_request_whose_reply_was_lost_is_asked_again_and_counts_once(number: int, tmp_path: Path) -> None:
    """Selection, parameters, refinement and review: the process dies with the reply in its hands."""
    script = [*READ(1), STOP, SUCCESS]
    expected = whole_usage(tmp_path, script)

    def make(at: int) -> Engine:
        scripted = engine(tmp_path, [], TOOLS[:1], ids=RandomIds())
        scripted.model = Deadly(tmp_path, script, at)
        return scripted

    assert in_child(lambda: make(number).run("Read")) == signal.SIGKILL
    with make(-1) as scripted:
        result = scripted.resume(scripted.journal.runs()[0].run_id)
        assert (result.usage.tokens_in, result.usage.tokens_out, result.usage.calls) == expected
        kinds = ["selection", "parameters", "refinement", "review"]
        once = [f"{index} {kind}" for index, kind in enumerate(kinds)]
        assert asked(tmp_path) == [*once[: number + 1], *once[number:]]
        assert replay(scripted.journal, result.run_id).identical


def test_texts_of_a_tool_are_asked_again_with_it_and_count_once(tmp_path: Path) -> None:
    """The tool asks twice; its process dies after the second reply."""

    def write(context: ToolContext, page: int) -> str:
        """Write."""
        return context.ask("one") + context.ask("two")

    made = tool("notes.work", effect="read")(write)
    script = [*WORK[:2], "first", "second", *WORK[2:]]
    expected = whole_usage(tmp_path, script, made)

    def make(at: int) -> Engine:
        scripted = engine(tmp_path, [], [made], ids=RandomIds())
        scripted.model = Deadly(tmp_path, script, at)
        return scripted

    assert in_child(lambda: make(3).run("Read")) == signal.SIGKILL
    with make(-1) as scripted:
        result = scripted.resume(scripted.journal.runs()[0].run_id)
        assert (result.usage.tokens_in, result.usage.tokens_out, result.usage.calls) == expected
        assert [line for line in asked(tmp_path) if "text" in line] == ["2 text", "3 text"] * 2


# -- tools ---------------------------------------------------------------------------------------------------------


def test_a_once_tool_that_returned_is_in_doubt_until_its_row_is_written(tmp_path: Path) -> None:
    """Killed between the tool's return and the commit of what it returned."""

    def child() -> None:
        scripted = make()
        append = scripted.journal.store.append

        def dying(entry: Any) -> None:
            if decode_row(entry.text).trigger == "execute":
                os.kill(os.getpid(), signal.SIGKILL)
            append(entry)

        scripted.journal.store.append = dying  # type: ignore[method-assign]
        scripted.run("Work")

    def make() -> Engine:
        @tool("notes.work")
        def work(page: int) -> str:
            """Work."""
            with (tmp_path / "effects").open("a") as file:
                file.write("x")
            return "worked"

        return engine(tmp_path, WORK, [work], ids=RandomIds())

    assert in_child(child) == signal.SIGKILL
    with make() as scripted:
        run_id = scripted.journal.runs()[0].run_id
        assert scripted.resume(run_id).status == "waiting"
        assert scripted.resume(run_id, outcome="done", result="worked").state == "Done"
        assert (tmp_path / "effects").read_text() == "x"


@pytest.mark.parametrize(
    ("error", "calls"), [(OSError("the line is dead"), 1), (NotStarted("the line is busy"), 3)]
)
def test_a_once_tool_is_tried_again_only_after_not_started(
    error: Exception, calls: int, tmp_path: Path
) -> None:
    """Whatever retries it has: an error does not say that nothing happened, `NotStarted` does."""
    keys: list[str] = []

    @tool("notes.work", retries=2)
    def work(context: ToolContext, page: int) -> str:
        """Work."""
        keys.append(context.idempotency_key)
        raise error

    with engine(tmp_path, WORK, [work]) as scripted:
        run_id = scripted.run("Work").run_id
        triggers = [row.trigger for row in scripted.journal.transitions(run_id)]
    assert keys == [f"{run_id}-1"] * calls
    assert triggers.count("retry_step") == calls - 1 and triggers.count("execute") == 1


def test_a_second_attempt_that_was_lost_is_in_doubt_like_the_first(tmp_path: Path) -> None:
    """The first said that it had not started; of the second nobody knows."""

    def make() -> Engine:
        @tool("notes.work", retries=3)
        def work(page: int) -> str:
            """Work."""
            with (tmp_path / "effects").open("a") as file:
                file.write("x")
            if (tmp_path / "effects").read_text() == "x":
                raise NotStarted("the line is busy")
            os.kill(os.getpid(), signal.SIGKILL)
            return "never"

        return engine(tmp_path, WORK, [work], ids=RandomIds())

    assert in_child(lambda: make().run("Work")) == signal.SIGKILL
    with make() as scripted:
        result = scripted.resume(scripted.journal.runs()[0].run_id)
        rows = scripted.journal.transitions(result.run_id)
        assert result.status == "waiting"
        assert [row.trigger for row in rows[-2:]] == ["retry_step", "wait"]
        assert (tmp_path / "effects").read_text() == "xx"


@pytest.mark.parametrize("is_async", [False, True], ids=["sync driver", "async driver"])
def test_an_async_once_tool_is_in_doubt_like_a_sync_one(is_async: bool, tmp_path: Path) -> None:
    """Killed within it, resumed by either driver."""
    scripted, run_id = in_doubt(tmp_path, is_async=True)
    with scripted:
        assert drive(scripted, run_id, is_async=is_async).status == "waiting"
        assert len(sent(tmp_path)) == 1
        result = drive(scripted, run_id, is_async=is_async, outcome="retry")
        assert result.state == "Done"
        assert sent(tmp_path) == [f"{run_id}-1"] * 2


# -- what is told and stored ---------------------------------------------------------------------------------------


def killed_at_row(folder: Path, make: Callable[..., Engine], trigger: str, **options: Any) -> None:
    """Run in a child that dies when its hook is told of the first row with *trigger*."""

    def hook(event: Any) -> None:
        if isinstance(event, TransitionTaken):
            with (folder / "told").open("a") as file:
                file.write(f"{event.seq}\n")
            if event.trigger == trigger:
                os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(lambda: make(hooks=[hook]).run("Read", **options)) == signal.SIGKILL


@pytest.mark.parametrize("trigger", ["select", "execute", "conclude", "finish"])
def test_no_row_is_told_twice(trigger: str, tmp_path: Path) -> None:
    """
    Killed in a hook, which has been told; the next process tells what follows.

    An execution and its observation are written together: of the second one, which was written and not told, nobody hears any more.
    """

    def make(hooks: Any = ()) -> Engine:
        return engine(tmp_path, [*READ(1), STOP, SUCCESS], hooks=hooks, ids=RandomIds())

    killed_at_row(tmp_path, make, trigger)

    def hook(event: Any) -> None:
        if isinstance(event, TransitionTaken):
            with (tmp_path / "told").open("a") as file:
                file.write(f"{event.seq}\n")

    with make(hooks=[hook]) as scripted:
        run_id = scripted.journal.runs()[0].run_id
        assert scripted.resume(run_id).state == "Done"
        rows = scripted.journal.transitions(run_id)
    untold = ["observe"] if trigger == "execute" else []
    expected = [row.seq for row in rows if row.trigger not in untold]
    assert [int(line) for line in (tmp_path / "told").read_text().split()] == expected


def test_the_final_formatting_is_made_again_and_stored_once(tmp_path: Path) -> None:
    """Killed after its intent, before its row: the report is composed again, under the same label."""

    def make(hooks: Any = ()) -> Engine:
        return engine(tmp_path, [*READ(1), STOP, SUCCESS], hooks=hooks, ids=RandomIds(), builtins=True)

    def hook(event: Any) -> None:
        if isinstance(event, TransitionTaken) and event.trigger == "specify" and event.seq > 4:
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(lambda: make(hooks=[hook]).run("Read", final_format="md")) == signal.SIGKILL
    with make() as scripted:
        result = scripted.resume(scripted.journal.runs()[0].run_id)
        rows = scripted.journal.transitions(result.run_id)
        assert result.state == "Done"
        assert [row.trigger for row in rows].count("format") == 1
        labels = [document.label for document in result.documents]
        assert labels.count("round1_task1_action2_final_format") == 1


# -- plans, workflows, runs ----------------------------------------------------------------------------------------


def test_steps_of_a_plan_that_have_ended_are_not_done_again(tmp_path: Path) -> None:
    """Killed after the first of three steps was observed."""

    def make(hooks: Any = ()) -> Engine:
        @tool("notes.read", effect="idempotent")
        def read(page: int) -> str:
            """Read."""
            with (tmp_path / "effects").open("a") as file:
                file.write(f"{page}\n")
            return f"page {page}"

        steps = [{"type": "tool", "name": "notes.read", "args": {"page": page}} for page in (1, 2, 3)]
        script = [{"steps": steps}, {"steps": []}, SUCCESS]
        return engine(tmp_path, script, [read], hooks=hooks, ids=RandomIds())

    killed_at_row(tmp_path, make, "next_step", mode="planner")
    with make() as scripted:
        assert scripted.resume(scripted.journal.runs()[0].run_id).state == "Done"
    assert (tmp_path / "effects").read_text().split() == ["1", "2", "3"]


@pytest.mark.parametrize("where", ["within the task", "after the task"])
def test_a_task_of_a_workflow_is_started_once(where: str, tmp_path: Path) -> None:
    """Killed within its run, or after that has ended and before the workflow knows."""

    def make(hooks: Any = ()) -> Engine:
        return engine(tmp_path, [ANSWER(), SUCCESS], [], hooks=hooks, ids=RandomIds())

    def hook(event: Any) -> None:
        tasks = [run for run in watching.journal.runs() if run.task == 1]
        if isinstance(event, TransitionTaken) and tasks and event.run_id == tasks[0].run_id:
            ended = event.trigger == "finish"
            if ended is (where == "after the task"):
                os.kill(os.getpid(), signal.SIGKILL)

    watching = make(hooks=[hook])
    tasks = [Task("one"), Task("two")]

    def child() -> None:
        watching.run_workflow("Both", tasks=tasks)

    assert in_child(child) == signal.SIGKILL
    watching.close()
    with make() as scripted:
        whole = next(run for run in scripted.journal.runs() if run.task == 0)
        scripted.resume(whole.run_id)
        runs = scripted.journal.runs()
        assert sorted(run.task for run in runs) == [0, 1, 2]
        assert all(run.status in ("done", "failed") for run in runs)
        assert scripted.journal.verify() == []


def test_a_fallback_is_started_at_most_once(tmp_path: Path) -> None:
    """Killed when the run has failed: a resume starts it, once, however often it is asked."""

    def make(hooks: Any = ()) -> Engine:
        return engine(tmp_path, ["no", "no"], hooks=hooks, ids=RandomIds())

    killed_at_row(tmp_path, make, "fail", fallback="batch")
    with make() as scripted:
        (run,) = scripted.journal.runs()
        for _ in range(3):
            scripted.resume(run.run_id)
            assert len(scripted.journal.runs()) == 2


def test_a_run_that_is_called_again_is_another_run(tmp_path: Path) -> None:
    """Killed when its spec was written and no row: it can be resumed, and `run` knows nothing of it."""

    def make() -> Engine:
        return engine(tmp_path, [ANSWER(), SUCCESS], ids=RandomIds())

    def child() -> None:
        scripted = make()
        scripted.journal.store.append = lambda entry: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        scripted.run("Read")

    assert in_child(child) == signal.SIGKILL
    with make() as scripted:
        (first,) = scripted.journal.runs()
        assert first.head_seq == -1
        again = scripted.run("Read")
        assert again.run_id != first.run_id
        assert scripted.resume(first.run_id).state == again.state == "Done"
        assert len(scripted.journal.runs()) == 2
