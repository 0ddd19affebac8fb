"""An effect that may or may not have happened: who is asked, what is kept of it, and under which key."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Engine, Event, Result, Tool, ToolContext, replay, tool
from paor.errors import InvalidAnswer, JournalFull
from paor.events import TransitionTaken
from paor.testing import RandomIds

from ..lifecycle.test_resume import die, in_child
from ..support.inside import current_owner, decode_row
from ..support.worlds import CONTINUE, JOURNAL, READ, SELECT, STOP, SUCCESS, TOOLS, engine, flaky

SEND = [SELECT("notes.send", {"text": "string"}), {"schema": "parameters_v1", "parameters": {"text": "one"}}]
ROOT = Path(__file__).resolve().parents[2]


def sending(folder: Path, *, deadly: bool = False, is_async: bool = False, **options: Any) -> Engine:
    """Return an engine whose once tool leaves a line with its key for each effect; a deadly one dies right after it."""

    def effect(context: ToolContext) -> str:
        with (folder / "sent").open("a") as file:
            file.write(f"{context.idempotency_key}\n")
        if deadly:
            die()
        return "sent"

    async def asend(context: ToolContext, text: str) -> str:
        """Send."""
        return effect(context)

    def send(context: ToolContext, text: str) -> str:
        """Send."""
        return effect(context)

    reconcile = options.pop("reconcile", None)
    made = tool("notes.send", label="receipt", reconcile=reconcile)(asend if is_async else send)
    return engine(folder, options.pop("script", [*SEND, STOP, SUCCESS]), [TOOLS[0], made], **options)


def sent(folder: Path) -> list[str]:
    """Return the keys of the effects that happened, in order."""
    return (folder / "sent").read_text().split() if (folder / "sent").exists() else []


def in_doubt(folder: Path, **options: Any) -> tuple[Engine, str]:
    """Kill a process within its effect; return the next process's engine, and the run."""
    assert in_child(lambda: sending(folder, deadly=True, **options).run("Send")) == signal.SIGKILL
    scripted = sending(folder, **options)
    return scripted, scripted.journal.runs()[0].run_id


def drive(scripted: Engine, run_id: str, *, is_async: bool, **given: Any) -> Result:
    """Resume on either driver."""
    if is_async:
        return asyncio.run(scripted.aresume(run_id, **given))
    return scripted.resume(run_id, **given)


# -- reconciliation ------------------------------------------------------------------------------------------------


def answering(value: Any, asked: list[str], *, is_async: bool) -> Callable[[str], Any]:
    """Return a reconciliation, sync or async, that returns or raises *value*."""

    def answer(key: str) -> Any:
        asked.append(key)
        if isinstance(value, BaseException):
            raise value
        return value

    async def aanswer(key: str) -> Any:
        await asyncio.sleep(0)
        return answer(key)

    return aanswer if is_async else answer


@pytest.mark.parametrize("driver", ["sync driver", "async driver"])
@pytest.mark.parametrize("form", ["sync", "async", "awaitable"])
@pytest.mark.parametrize(
    ("value", "status", "why", "effects"),
    [
        ("a receipt", "done", "done", 1),
        (None, "done", "not_done", 2),
        (TimeoutError("the other side is silent"), "waiting", "reconcile_failed", 1),
        (SystemExit(3), "waiting", "reconcile_failed", 1),
        (lambda: 0, "waiting", "reconcile_unreadable", 1),
    ],
    ids=["result", "not done", "raises", "exits", "unreadable"],
)
def test_a_tools_own_reconciliation_decides_and_the_row_says_so(
    value: Any, status: str, why: str, effects: int, form: str, driver: str, tmp_path: Path
) -> None:
    """Asked once, with the key of the effect; what it said, or why it said nothing, is in the row."""
    asked: list[str] = []
    answer = answering(value, asked, is_async=form != "sync")
    reconcile = (lambda key: answer(key)) if form == "awaitable" else answer
    scripted, run_id = in_doubt(tmp_path, reconcile=reconcile)
    with scripted:
        result = drive(scripted, run_id, is_async=driver == "async driver")
        assert result.status == status
        assert asked == [f"{run_id}-1"]
        assert sent(tmp_path) == [f"{run_id}-1"] * effects
        row = scripted.journal.transitions(run_id)[3 - 1]
        assert (row.source, row.trigger) == ("Executing", "execute" if status == "done" else "wait")
        assert (row.outcome["reconciled"] if status == "done" else row.outcome["why"]) == why
        assert scripted.journal.verify() == []
        assert replay(scripted.journal, run_id).identical
        if why == "reconcile_failed":
            assert result.waiting_for is not None
            assert f"{type(value).__name__}: {value}" in result.waiting_for.message


def test_an_effect_whose_tool_cannot_be_asked_is_in_doubt_since_its_driver_was_lost(tmp_path: Path) -> None:
    """Nobody but a person can say; the row says why nobody else was asked."""
    scripted, run_id = in_doubt(tmp_path)
    with scripted:
        assert scripted.resume(run_id).status == "waiting"
        assert scripted.journal.transitions(run_id)[-1].outcome == {"kind": "in_doubt", "why": "driver_lost"}


def asleep(folder: Path) -> None:
    """Let the lease be that of a process that cannot be seen from here, and that has not renewed it in time."""
    hidden = replace(current_owner(), space="pid:[1]")
    with closing(sqlite3.connect(folder / JOURNAL)) as connection, connection:
        connection.execute("UPDATE leases SET owner = ?, lease_until = 1", (hidden.encode(),))


@pytest.mark.parametrize("driver", ["sync driver", "async driver"])
def test_not_done_is_not_final_while_its_driver_may_only_be_asleep(driver: str, tmp_path: Path) -> None:
    """Its lease ran out, and nobody has seen it end: when it wakes up it goes on with the call, so a person decides."""
    scripted, run_id = in_doubt(tmp_path, reconcile=lambda key: None)
    with scripted:
        asleep(tmp_path)
        assert drive(scripted, run_id, is_async=driver == "async driver").status == "waiting"
        assert len(sent(tmp_path)) == 1
        assert scripted.journal.transitions(run_id)[-1].outcome == {"kind": "in_doubt", "why": "driver_lost"}
        assert scripted.resume(run_id, outcome="retry").state == "Done"
        assert len(sent(tmp_path)) == 2
        assert replay(scripted.journal, run_id).identical


def test_what_a_sleeper_has_reported_before_it_slept_is_taken_as_its_result(tmp_path: Path) -> None:
    """What is done is done: only "not done" may change."""
    scripted, run_id = in_doubt(tmp_path, reconcile=lambda key: "a receipt")
    with scripted:
        asleep(tmp_path)
        assert scripted.resume(run_id).state == "Done"
        assert len(sent(tmp_path)) == 1


def test_that_a_driver_may_be_asleep_is_known_to_all_who_come_after_it(tmp_path: Path) -> None:
    """Whoever takes the run up next may be lost, or may fail, before it has written what it found."""
    asked: list[str] = []

    def interrupted(key: str) -> str | None:
        asked.append(key)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return None

    def deadly(key: str) -> str | None:
        die()
        return None

    scripted, run_id = in_doubt(tmp_path, reconcile=deadly)
    scripted.close()
    asleep(tmp_path)
    assert in_child(lambda: sending(tmp_path, reconcile=deadly).resume(run_id)) == signal.SIGKILL
    with sending(tmp_path, reconcile=interrupted) as scripted:
        with pytest.raises(KeyboardInterrupt):
            scripted.resume(run_id)
        assert scripted.resume(run_id).status == "waiting"
        assert len(asked) == 2
        assert scripted.journal.reader.query("SELECT owner FROM leases") == [(None,)]
        assert len(sent(tmp_path)) == 1


def test_not_done_is_not_final_while_a_call_that_was_given_up_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row that says so could not be written, and the run was left; the call may take effect all the same."""
    go_on, calls = threading.Event(), []

    @tool("notes.send", timeout_s=0.05, reconcile=lambda key: None)
    def send(context: ToolContext, text: str) -> str:
        """Send."""
        calls.append(context.idempotency_key)
        assert go_on.wait(30)
        return "sent"

    def full(entry: Any) -> None:
        if decode_row(entry.text).trigger == "wait":
            raise JournalFull("no space")
        append(entry)

    with engine(tmp_path, [*SEND, STOP, SUCCESS], [TOOLS[0], send]) as scripted:
        store = scripted.journal.store
        append = store.append
        monkeypatch.setattr(store, "append", full)
        with pytest.raises(JournalFull):
            scripted.run("Send")
        monkeypatch.setattr(store, "append", append)
        run_id = scripted.journal.runs()[0].run_id
        assert scripted.resume(run_id).status == "waiting"
        go_on.set()
        assert len(calls) == 1
        assert scripted.resume(run_id, outcome="done", result="it is in the outbox").state == "Done"
        assert scripted.journal.reader.query("SELECT owner FROM leases") == [(None,)]


def test_a_reconciliation_that_is_lost_with_its_process_is_asked_again(tmp_path: Path) -> None:
    """It may run any number of times, so it must only look; the effect happens no second time."""

    def deadly(key: str) -> str:
        (tmp_path / "asked").open("a").write("x")
        die()
        return "never"

    scripted, run_id = in_doubt(tmp_path, reconcile=deadly)
    scripted.close()
    assert in_child(lambda: sending(tmp_path, reconcile=deadly).resume(run_id)) == signal.SIGKILL
    with sending(tmp_path, reconcile=lambda key: f"receipt for {key}") as scripted:
        result = scripted.resume(run_id)
        assert result.documents[0].read() == f"receipt for {run_id}-1"
    assert (tmp_path / "asked").read_text() == "x"
    assert len(sent(tmp_path)) == 1


def test_a_reconciliation_that_cannot_be_called_is_refused_when_the_tool_is_made() -> None:
    """And an async one is not."""
    with pytest.raises(ValueError, match="reconcile must be a function of the key"):
        Tool(name="a.b", run=lambda: None, reconcile="yes")  # type: ignore[arg-type]

    async def look(key: str) -> None:
        return None

    assert Tool(name="a.b", run=lambda: None, reconcile=look).reconciles_async


# -- who decided, and why ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["done", "retry", "fail"])
@pytest.mark.parametrize("is_async", [False, True])
def test_who_decided_and_why_stands_in_the_journal(outcome: str, is_async: bool, tmp_path: Path) -> None:
    """Beside the outcome, in the words that were given, and never under the hash in clear."""
    scripted, run_id = in_doubt(tmp_path)
    with scripted:
        scripted.resume(run_id)
        given: dict[str, Any] = {"outcome": outcome, "reason": "J. Doe looked into the outbox"}
        result = drive(scripted, run_id, is_async=is_async, **given)
        assert result.state == "Done"
        row = next(row for row in scripted.journal.transitions(run_id) if row.trigger == "provide")
        assert row.outcome["action"] == outcome
        number = scripted.journal.run(run_id).run
        body = scripted.journal.payload(number, row.outcome["answer"]["n"]).body
        assert isinstance(body, str) and '"reason":"J. Doe looked into the outbox"' in body
        assert not any("J. Doe" in str(value) for value in row)
        assert replay(scripted.journal, run_id).identical


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"reason": "x"}, "a reason, an actor or a question comes with an answer"),
        ({"outcome": "done", "reason": " "}, "the reason must be a text"),
        ({"outcome": "done", "reason": 7}, "the reason must be a text"),
        ({"outcome": "done", "reason": "x" * 2001}, "the reason has 2001 characters; at most 2000"),
    ],
    ids=["alone", "empty", "number", "long"],
)
def test_a_reason_that_cannot_be_kept_is_refused(given: dict[str, Any], told: str, tmp_path: Path) -> None:
    """And the run goes on waiting."""
    scripted, run_id = in_doubt(tmp_path)
    with scripted:
        scripted.resume(run_id)
        rows = scripted.journal.transitions(run_id)
        with pytest.raises(InvalidAnswer, match=told):
            scripted.resume(run_id, **given)
        assert scripted.journal.transitions(run_id) == rows
        assert scripted.resume(run_id).status == "waiting"


@pytest.mark.parametrize("outcome", ["done", "fail"])
def test_the_call_after_an_answer_whose_driver_was_lost_is_in_no_doubt(outcome: str, tmp_path: Path) -> None:
    """Whoever goes on with the answer begins the next call itself."""

    def lost(event: Event) -> None:
        if isinstance(event, TransitionTaken) and event.trigger == "provide":
            assert event.actor == "ann", "the event names who settled it"
            raise KeyboardInterrupt

    second = [SEND[0], {**SEND[1], "parameters": {"text": "two"}}]
    script = [*SEND, CONTINUE, *second, STOP, SUCCESS]
    scripted, run_id = in_doubt(tmp_path, script=script)
    with scripted:
        scripted.resume(run_id)
        scripted.hooks = [lost]
        with pytest.raises(KeyboardInterrupt):
            scripted.resume(run_id, outcome=outcome, result="looked up", actor="ann")
        scripted.hooks = []
        assert scripted.resume(run_id).state == "Done"
        assert sent(tmp_path) == [f"{run_id}-1", f"{run_id}-2"]
        assert replay(scripted.journal, run_id).identical


# -- keys ----------------------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_a_key_is_the_same_in_every_process_and_under_every_hash_seed(tmp_path: Path) -> None:
    """Killed within the tool in one process, tried again in others: one action, one key."""
    code = (
        "import sys; from pathlib import Path; from tests.runtime.test_in_doubt import sending\n"
        "scripted = sending(Path(sys.argv[1]), deadly=True)\n"
        "runs = scripted.journal.runs()\n"
        "if not runs: scripted.run('Send')\n"
        "from tests.support.journey import answered; answered(scripted, runs[0].run_id, outcome='retry')"
    )
    for seed in ("0", "1", "4711"):
        command = [sys.executable, "-c", code, str(tmp_path)]
        child = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": seed}, check=False, timeout=120
        )
        assert child.returncode == -signal.SIGKILL
    with sending(tmp_path) as scripted:
        run_id = scripted.journal.runs()[0].run_id
        assert sent(tmp_path) == [f"{run_id}-1"] * 3


def test_every_attempt_of_a_step_has_the_same_key(tmp_path: Path) -> None:
    """A tool's own retries are the same action."""
    keys: list[str] = []

    @tool("notes.put", effect="idempotent", retries=2)
    def put(context: ToolContext, page: int) -> str:
        """Put."""
        keys.append(context.idempotency_key)
        if len(keys) < 3:
            raise OSError("the line is dead")
        return "put"

    script = [SELECT("notes.put"), READ(1)[1], STOP, SUCCESS]
    with engine(tmp_path, script, [put]) as scripted:
        run_id = scripted.run("Put").run_id
    assert keys == [f"{run_id}-1"] * 3


@settings(max_examples=40, deadline=None)
@given(
    actions=st.lists(st.sampled_from(["send", "read", "flaky", "invalid"]), min_size=1, max_size=6),
    runs=st.integers(1, 3),
)
def test_keys_are_equal_only_for_the_same_action_of_the_same_run(
    actions: list[str], runs: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However calls are mixed with refused and retried ones, and whatever their arguments are."""
    keys: list[str] = []

    @tool("notes.send", repeat_allowed=True)
    def send(context: ToolContext, text: str) -> str:
        """Send."""
        keys.append(context.idempotency_key)
        return "sent"

    script: list[Any] = []
    for action in actions:
        replies: dict[str, list[Any]] = {
            "send": SEND,
            "read": READ(1),
            "flaky": [SELECT("notes.flaky"), READ(1)[1]],
            "invalid": [SEND[0], "no", "no"],
        }
        script += replies[action]
        script.append(CONTINUE)
    script += [{"action": None, "answer": "so"}, SUCCESS]
    folder = tmp_path_factory.mktemp("keys")
    with engine(folder, script, [TOOLS[0], send, flaky(1)], ids=RandomIds()) as scripted:
        for number in range(runs):
            before = len(keys)
            run_id = scripted.run(f"Send {number}").run_id
            rows = scripted.journal.transitions(run_id)
            calls = [row.action for row in rows if row.request.get("tool") == "notes.send"]
            assert keys[before:] == [f"{run_id}-{action}" for action in calls]
    assert len(set(keys)) == len(keys)
