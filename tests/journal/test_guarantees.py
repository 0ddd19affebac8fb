"""The journal's guarantees, each on real files and, where a process must die, on real processes."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Result, ScriptedModel, replay, tool
from paor.errors import (
    InvalidAnswer,
    JournalBusy,
    LeaseHeld,
    LeaseLost,
)
from paor.testing import SeededIds, SteppingClock

from ..support.worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS

ROOT = Path(__file__).parents[2]


@tool("notes.read", effect="read")
def read(page: int) -> str:
    """Read one page."""
    return f"page {page} says {page * page}"


@tool("notes.post", effect="once")
def post(page: int) -> str:
    """Post one page; every call leaves a line in the file that the environment names."""
    with open(os.environ["PAOR_TEST_POSTED"], "a", encoding="utf-8") as file:
        file.write(f"{page}\n")
    return f"page {page} was posted"


def replies(steps: int = 3, action: str = "notes.read") -> list[Any]:
    """Return the replies of a run of *steps* iterations that succeeds; the first selection is invalid."""
    found: list[Any] = ["no JSON at all"]
    for page in range(steps):
        found += [SELECT(action), PARAMETERS(page=page), CONTINUE if page < steps - 1 else STOP]
    return [*found, SUCCESS]


def engine(path: Path, script: list[Any] | None = None, **options: Any) -> Engine:
    """Return an engine with fixed clock and ids."""
    return Engine(
        ScriptedModel(replies() if script is None else script),
        tools=[read, post],
        journal=Journal(path, "off"),
        clock=SteppingClock(),
        ids=SeededIds(),
        **options,
    )


def finished(path: Path, **options: Any) -> Result:
    """Write a journal with one finished run and close it."""
    with engine(path, **options) as host:
        result = host.run(
            "Read the notes", ["every page is read"], documents=[("a.txt", "first"), ("b.txt", "second")]
        )
    assert result.state == "Done"
    return result


def test_the_same_ports_and_script_give_the_same_bytes(tmp_path: Path) -> None:
    """Rows, payloads and documents of two runs in two files are equal, byte for byte."""
    tables = []
    for name in ("one.db", "two.db"):
        finished(tmp_path / name)
        connection = sqlite3.connect(tmp_path / name)
        tables.append(
            [
                connection.execute(f"SELECT * FROM {table}").fetchall()
                for table in ("specs", "transitions", "payloads", "documents")
            ]
        )
        connection.close()
    assert all(tables[0])
    assert tables[0] == tables[1]


KILLED = """
import os, signal, sys
sys.path.insert(0, {root!r})
from tests.journal.test_guarantees import engine, replies
from pathlib import Path
left = [{after}]
def hook(event):
    if event.kind == "transition":
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
engine(Path({path!r}), replies(2, {action!r}), hooks=[hook]).run("Read the notes", ["every page is read"])
"""


def killed(path: Path, after: int, action: str) -> None:
    """Run in another process that kills itself right after row *after* is durable."""
    code = KILLED.format(root=str(ROOT), after=after, path=str(path), action=action)
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.whole
@pytest.mark.parametrize("after", range(11))
def test_a_run_killed_after_any_row_is_resumed_to_the_same_end(tmp_path: Path, after: int) -> None:
    """Final state, counters, answer, documents and history equal those of the run that nobody killed."""
    killed(tmp_path / "killed.db", after, "notes.read")
    with engine(tmp_path / "killed.db", replies(2)) as host:
        (row,) = host.journal.runs()
        together = host.journal.transitions(row.run_id)[after].trigger == "execute"  # with its observation
        assert (row.status, row.head_seq) == ("running", after + together)
        resumed = host.resume(row.run_id)
        assert host.journal.verify() == []
        assert replay(host.journal, row.run_id).identical
        bodies = [document.read() for document in resumed.documents]
    with engine(tmp_path / "whole.db", replies(2)) as host:
        whole = host.run("Read the notes", ["every page is read"])
        assert bodies == [document.read() for document in whole.documents]
    assert (resumed.state, resumed.reason, resumed.answer) == (whole.state, whole.reason, whole.answer)
    assert (resumed.steps, resumed.usage.calls) == (whole.steps, whole.usage.calls)
    assert resumed.usage.tokens_in == whole.usage.tokens_in


def test_a_once_effect_is_never_repeated_silently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between intent and outcome: in doubt, waits, and each of the three answers does what it says."""
    posted = tmp_path / "posted.txt"
    monkeypatch.setenv("PAOR_TEST_POSTED", str(posted))
    killed(tmp_path / "doubt.db", 2, "notes.post")
    assert not posted.exists()
    for outcome, lines in (("done", ["1"]), ("fail", ["1"]), ("retry", ["0", "1"])):
        path = tmp_path / f"{outcome}.db"
        for end in ("", "-wal", "-shm"):
            if (tmp_path / f"doubt.db{end}").exists():
                shutil.copy(tmp_path / f"doubt.db{end}", f"{path}{end}")
        posted.unlink(missing_ok=True)
        with engine(path, replies(2, "notes.post")) as host:
            run_id = host.journal.runs()[0].run_id
            waiting = host.resume(run_id)
            assert (waiting.status, waiting.state) == ("waiting", "Executing")
            rows = len(host.journal.transitions(run_id))
            assert host.resume(run_id).status == "waiting"
            assert len(host.journal.transitions(run_id)) == rows, "a run that waits appends nothing"
            with pytest.raises(InvalidAnswer):
                host.resume(run_id, answer={"approve": True})
            result = host.resume(
                run_id, outcome=outcome, result="it was posted" if outcome == "done" else None
            )
            assert result.state == "Done"
            assert replay(host.journal, run_id).identical
        assert posted.read_text().split() == lines


def test_two_drivers_never_drive_one_run(tmp_path: Path) -> None:
    """While one is alive the other is refused; once it is fenced off it writes nothing."""
    with engine(tmp_path / "runs.db") as host:
        events = host.stream("Read the notes")
        for event in events:
            if event.kind == "transition":
                break
        run_id = host.journal.runs()[0].run_id
        with engine(tmp_path / "runs.db") as other, pytest.raises(LeaseHeld, match=run_id):
            other.resume(run_id)
        rows = len(host.journal.transitions(run_id))
        connection = sqlite3.connect(tmp_path / "runs.db")
        connection.execute("UPDATE leases SET fence = fence + 1")
        connection.commit()
        with pytest.raises(LeaseLost):
            list(events)
        assert len(host.journal.transitions(run_id)) == rows
        connection.close()


def test_a_locked_file_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    """Another process that holds the write lock longer than the busy timeout."""
    finished(tmp_path / "runs.db")
    other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
    with Engine(
        ScriptedModel(replies()), tools=[read], journal=Journal(tmp_path / "runs.db", busy_timeout_s=0.1)
    ) as host:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalBusy):
            host.run("Read the notes")
        other.execute("ROLLBACK")
        assert host.run("Read the notes").state == "Done"
        assert host.journal.verify() == []
    other.close()
