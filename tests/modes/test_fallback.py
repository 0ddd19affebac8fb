"""Batch mode as the fallback of react mode, and as legacy: one warning a process, and nobody is left without it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from paor import Engine, Journal, Limits, ModelCall, Policy, Profile, Reply, Result, Task, Tool, replay
from paor.errors import ModelUnavailable, UsageError
from paor.events import RunEnded
from paor.testing import SeededIds, SteppingClock

from ..support.journey import Lost
from ..support.planning import PLAN, STEP
from ..support.worlds import CONTINUE, JOURNAL, PARAMETERS, SELECT, SUCCESS, TOOLS

BAD = "no JSON"


class ByKind:
    """A model that answers by the kind of the request, one reply after the other; the last one stays."""

    name = "by-kind"

    def __init__(self, **replies: Sequence[Any]) -> None:
        self.replies = {kind: list(given) for kind, given in replies.items()}
        self.kinds: list[str] = []

    def ask(self, call: ModelCall) -> Reply:
        """Answer."""
        self.kinds.append(call.kind)
        given = self.replies[call.kind]
        reply = given.pop(0) if len(given) > 1 else given[0]
        if isinstance(reply, BaseException):
            raise reply
        return Reply(reply if isinstance(reply, str) else json.dumps(reply))

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same."""
        return self.ask(call)


def host(folder: Path, model: ByKind, tools: Sequence[Tool] = TOOLS, **options: Any) -> Engine:
    """Return an engine on the folder's journal."""
    ports = {"clock": SteppingClock(), "ids": SeededIds(), "builtins": False}
    return Engine(model, tools, Journal(folder / JOURNAL, "off"), **{**ports, **options})


def failing(**more: Sequence[Any]) -> ByKind:
    """Return a model that cannot select an action, and can plan."""
    given: dict[str, Sequence[Any]] = {
        "selection": [BAD],
        "plan": [PLAN(STEP(page=1))],
        "review": [SUCCESS],
    }
    return ByKind(**(given | more))


def specs(engine: Engine) -> list[Mapping[str, Any]]:
    """Return the specs of all runs, the oldest first."""
    return [engine.journal.spec(row.run_id).model_dump() for row in reversed(engine.journal.runs())]


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_A086_a_react_run_that_fails_is_started_again_as_a_batch(tmp_path: Path, driver: str) -> None:
    """Two runs of one workflow; the result is the second's, whose spec says for which run and why."""
    documents = [("a.txt", "Alpha"), ("b.bin", b"\xff\x00")]
    with host(tmp_path, failing()) as engine:
        options: dict[str, Any] = {"documents": documents, "fallback": "batch", "language": "de"}
        result = (
            engine.run("Read page 1", ["it is read"], **options)
            if driver == "sync"
            else asyncio.run(engine.arun("Read page 1", ["it is read"], **options))
        )
        assert (result.state, result.steps, result.answer) == ("Done", 1, "All is read.")
        second, first = engine.journal.runs()
        assert (first.status, first.reason, second.run_id) == ("failed", "selection_invalid", result.run_id)
        assert second.workflow_id == first.workflow_id == first.run_id
        before, after = specs(engine)
        assert (before["mode"], before["fallback"], before["fallback_for"]) == ("react", "batch", "")
        assert (after["mode"], after["fallback"]) == ("batch", None)
        assert (after["fallback_for"], after["fallback_reason"]) == (first.run_id, "selection_invalid")
        same = ("objective", "success_criteria", "language", "limits", "policy", "tools", "model")
        assert [before[name] for name in same] == [after[name] for name in same]
        assert before["key_salt"] != after["key_salt"]
        inputs = [engine.journal.document(row.run_id, n) for row in (first, second) for n in (0, 1)]
        assert inputs == ["Alpha", b"\xff\x00"] * 2
        assert engine.journal.verify() == []
        assert all(replay(engine.journal, row.run_id, engine).identical for row in (first, second))


@pytest.mark.parametrize(
    ("model", "limits", "reason"),
    [
        (failing(selection=[ModelUnavailable("timeout", "no answer")]), Limits(), "model_error"),
        (
            ByKind(selection=[SELECT()], parameters=[PARAMETERS(page=1)], refinement=[CONTINUE]),
            Limits(token_budget=1),
            "token_budget",
        ),
    ],
    ids=["model_error", "token_budget"],
)
def test_A086_nothing_follows_a_model_error_or_a_budget(
    tmp_path: Path, model: ByKind, limits: Limits, reason: str
) -> None:
    """The batch would fail in the same way."""
    with host(tmp_path, model, limits=limits) as engine:
        result = engine.run("Read", fallback="batch")
        assert (result.state, result.reason, len(engine.journal.runs())) == ("Failed", reason, 1)


def test_A086_nothing_follows_a_cancelled_run_a_success_or_a_run_without_it(tmp_path: Path) -> None:
    """Only a failure, and only where it was asked for."""
    policy = Policy(approvals=("notes.read",))
    model = ByKind(
        selection=[SELECT()], parameters=[PARAMETERS(page=1)], refinement=[CONTINUE], review=[SUCCESS]
    )
    with host(tmp_path, model, policy=policy) as engine:
        waits = engine.run("Read", fallback="batch")
        assert waits.status == "waiting"
        assert engine.cancel(waits.run_id).reason == "cancelled"
        model.replies["selection"] = [{"action": None, "answer": "Known."}]
        assert engine.run("Read", fallback="batch").state == "Done"
        model.replies["selection"] = [BAD]
        assert engine.run("Read").reason == "selection_invalid"
        assert len(engine.journal.runs()) == 3


def test_A086_a_run_that_waited_falls_back_when_it_fails_later(tmp_path: Path) -> None:
    """In the process that drives it to its end; what came of it is read again without another start."""
    asks = Policy(approvals=("notes.send",))
    model = failing(
        selection=[SELECT("notes.send", {"text": "string"}), BAD],
        parameters=[PARAMETERS(text="a")],
        refinement=[CONTINUE],
    )
    with host(tmp_path, model, policy=asks) as engine:
        first = engine.run("Read", fallback="batch")
        assert first.status == "waiting"
    with host(tmp_path, model, policy=asks, ids=SeededIds("later")) as engine:
        result = engine.resume(first.run_id, answer={"approve": True})
        assert result.state == "Done" and result.run_id != first.run_id
        assert engine.resume(first.run_id).reason == "selection_invalid"
        assert len(engine.journal.runs()) == 2


@pytest.mark.parametrize(
    "options", [{"fallback": "planner"}, {"fallback": 1}, {"fallback": "batch", "mode": "planner"}], ids=str
)
def test_A086_a_fallback_that_is_none_is_refused(tmp_path: Path, options: Any) -> None:
    """Nothing is started."""
    with host(tmp_path, failing()) as engine:
        with pytest.raises(UsageError, match="fallback"):
            engine.run("Read", **options)
        assert engine.journal.runs() == []


@pytest.mark.whole
def test_A086_the_command_line_falls_back_too(tmp_path: Path) -> None:
    """With an option, and as a field of the JSON input; a script answers each run from its start."""
    both = [BAD, BAD]
    (tmp_path / "script.json").write_text(json.dumps(both))
    base = [sys.executable, "-m", "paor", "run", "--model", f"script:{tmp_path / 'script.json'}", "--json"]
    for number, given in enumerate(
        (["Read", "--fallback", "batch"], ["--input", '{"objective": "Read", "fallback": "batch"}'])
    ):
        journal = str(tmp_path / f"{number}.db")
        ended = run([*base, *given, "--journal", journal], capture_output=True, text=True, check=False)
        assert ended.returncode == 1, ended.stderr
        with Journal(journal, read_only=True) as reader:
            modes = [reader.spec(row.run_id).mode for row in reversed(reader.runs())]
            assert modes == ["react", "batch"]
            assert json.loads(ended.stdout)["run_id"] == reader.runs()[0].run_id
    wrong = run(
        [*base, "Read", "--fallback", "later"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert wrong.returncode == 2 and "fallback" in wrong.stderr


LEGACY = """
import sys, warnings
from paor import Engine, ScriptedModel
warnings.simplefilter("always")
answer = [{"steps": [], "answer": "yes"}, {"status": "success", "improvements": []}]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    engine = Engine(ScriptedModel(answer), journal=sys.argv[1])
    engine.run("Is it?", mode="planner")
    engine.run("Is it?", fallback="batch", model=ScriptedModel(["?", "?"]))
    print(len(caught))
    engine.run("Is it?", mode="batch")
    engine.run("Is it?", react_mode=False)
    list(engine.stream("Is it?", workflow_mode="Actionplan"))
    print(len(caught), caught[0].category.__name__, caught[0].filename)
"""


def test_A074_batch_mode_is_kept_and_says_once_that_it_is_legacy(tmp_path: Path) -> None:
    """One DeprecationWarning a process, at the caller's line, from any name of the mode; none for planner or fallback."""
    command = [sys.executable, "-c", LEGACY, str(tmp_path / "runs.db")]
    told = run(command, capture_output=True, text=True, check=False)
    assert told.stdout.split() == ["0", "1", "DeprecationWarning", "<string>"], told.stderr


def test_A086_D1_the_tasks_of_a_workflow_fall_back_and_keep_their_profile(tmp_path: Path) -> None:
    """Each task by itself, within its place; what the batch came to is what the task came to."""
    with host(tmp_path, failing()) as engine:
        result = engine.run_workflow(
            "Read both",
            tasks=[Task("Read 1"), Task("Read 2")],
            fallback="batch",
            profile="strict",
            stage="single",
        )
        assert result.state == "Done"
        found = [(row.task, engine.journal.spec(row.run_id)) for row in reversed(engine.journal.runs())]
        assert [(task, spec.mode) for task, spec in found] == [
            (0, "batch"),
            (1, "react"),
            (1, "batch"),
            (2, "react"),
            (2, "batch"),
        ]
        assert all(
            spec.profile == Profile(strict=True, stage="single", forbidden="reject") for _, spec in found[1:]
        )
        assert len({spec.workflow_id for _, spec in found}) == 1
        assert engine.journal.verify() == []
        assert all(replay(engine.journal, row.run_id).identical for row in engine.journal.runs())


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_A086_a_run_that_is_lost_before_its_fallback_is_started_again_by_resume(
    tmp_path: Path, driver: str
) -> None:
    """Once: a crash between the two changes nothing in what the task comes to."""
    lost = [True]

    def lose(event: Any) -> None:
        if lost[0] and isinstance(event, RunEnded) and event.result.reason == "selection_invalid":
            lost[0] = False
            raise Lost

    with host(tmp_path, failing(), hooks=[lose]) as engine:
        with pytest.raises(Lost):
            engine.run("Read", fallback="batch", documents=[("a.txt", "Alpha")])
        first = engine.journal.runs()[0]
        assert read_only(tmp_path, first.run_id) == "selection_invalid"

        def resume(run_id: str) -> Result:
            return engine.resume(run_id) if driver == "sync" else asyncio.run(engine.aresume(run_id))

        result = resume(first.run_id)
        assert (result.state, result.answer) == ("Done", "All is read.")
        second = engine.journal.runs()[0]
        assert (second.run_id, second.workflow_id) == (result.run_id, first.run_id)
        assert engine.journal.document(second.run_id, 0) == "Alpha"
        assert resume(first.run_id).reason == "selection_invalid"
        assert len(engine.journal.runs()) == 2


def test_A086_cancelling_a_run_that_has_failed_starts_nothing(tmp_path: Path) -> None:
    """Also when its fallback was never started."""

    def lose(event: Any) -> None:
        if isinstance(event, RunEnded):
            raise Lost

    with host(tmp_path, failing(), hooks=[lose]) as engine:
        with pytest.raises(Lost):
            engine.run("Read", fallback="batch")
        first = engine.journal.runs()[0]
        assert engine.cancel(first.run_id).reason == "selection_invalid"
        assert len(engine.journal.runs()) == 1


def read_only(folder: Path, run_id: str) -> str | None:
    """Return the reason of a run as an engine reads it that cannot write."""
    with Journal(folder / JOURNAL, read_only=True) as reader:
        return Engine(failing(), journal=reader).resume(run_id).reason
