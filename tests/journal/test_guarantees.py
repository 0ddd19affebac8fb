"""The journal's guarantees, each on real files and, where a process must die, on real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Engine, Journal, Limits, Policy, Result, ScriptedModel, replay, tool
from paor.errors import (
    InvalidAnswer,
    JournalBusy,
    JournalFull,
    JournalTooNew,
    LeaseHeld,
    LeaseLost,
    NotAJournal,
)
from paor.fsm.journal.record import COLUMNS, HASHED, canonical_row, chain_hash
from paor.fsm.machine.fold import apply, restore
from paor.states.run.counters import counters_of
from paor.states.run.state import initial_run
from paor.testing import SeededIds, SteppingClock

from ..support.erasing import erase_by_hand
from ..support.stored import file_of
from ..support.worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "verify_journal.py"


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


def script_says(path: Path) -> int:
    """Return the exit code of the independent script."""
    command = [sys.executable, str(SCRIPT), str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).returncode


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


@given(
    st.tuples(
        *(
            st.integers(0, 2**53 - 1)
            if name
            in {
                "run",
                "seq",
                "at",
                "step",
                "action",
                "retries",
                "tokens_in",
                "tokens_out",
                "cost_micro",
                "time_us",
            }
            else st.text(st.characters(codec="utf-8"))
            for name in HASHED
        )
    )
)
def test_a_rows_bytes_are_its_rfc_8785_form(values: tuple[Any, ...]) -> None:
    """Sorted compact JSON of whole numbers and text is the canonical form that another library makes."""
    assert canonical_row((1, *values)) == rfc8785.dumps(dict(zip(HASHED, values, strict=True)))


def test_a_restored_run_equals_the_fold_of_its_rows_at_every_place(tmp_path: Path) -> None:
    """Restore reads a few changes only; it must come to the same run as applying every row."""
    result = finished(tmp_path / "runs.db")
    with Journal(tmp_path / "runs.db", read_only=True) as journal:
        row = journal.run(result.run_id)
        first = initial_run(row.run_id, row.run, journal.spec(row.run_id))
        rows = journal.reader.rows(row.run)
        assert len(rows) > 12
        folded = first
        for place, values in enumerate(rows):
            folded = apply(
                folded,
                at=values[2],
                trigger=values[3],
                dest=values[5],
                counters=counters_of(values),
                change=journal.reader.change(row.run, values[9]),
                outcome=json.loads(values[8]),
            )
            restored = restore(
                first, rows[: place + 1], lambda column: journal.reader.change(row.run, column)
            )
            assert restored == folded


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


def test_a_lease_is_kept_alive_during_a_long_call_and_ends_with_its_owner(tmp_path: Path) -> None:
    """An alive owner renews; one that does not is replaced after `lease_s`."""
    with Journal(tmp_path / "runs.db", "off", lease_s=0.3) as journal:
        host = Engine(ScriptedModel([]), journal=journal)
        host.run("Fail at once")
        run = journal.runs()[0].run
        fence = journal.store.leases.acquire(run)
        time.sleep(0.8)
        with pytest.raises(LeaseHeld):
            journal.store.leases.acquire(run)
        journal.store.leases._held.clear()
        time.sleep(0.5)
        assert journal.store.leases.acquire(run) == fence + 1


def test_many_threads_share_one_journal(tmp_path: Path) -> None:
    """Group commit: every run ends, verifies and replays."""
    with Engine(
        ScriptedModel(replies()), tools=[read, post], journal=Journal(tmp_path / "runs.db", "normal")
    ) as host:
        threads = [threading.Thread(target=host.run, args=(f"Read {number}",)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rows = host.journal.runs()
        assert [row.status for row in rows] == ["done"] * 20
        assert host.journal.verify() == []
        assert all(replay(host.journal, row.run_id).identical for row in rows)
    assert script_says(tmp_path / "runs.db") == 0


@pytest.mark.whole
def test_many_processes_start_runs_in_one_new_file(tmp_path: Path) -> None:
    """Nobody sees a locked database, not even while the schema is being made."""
    code = (
        "from paor import Engine, ScriptedModel; import sys\n"
        "answer = [{'action': None, 'answer': 'yes'}, {'status': 'success', 'improvements': []}]\n"
        "assert Engine(ScriptedModel(answer), journal=sys.argv[1]).run('Is it?').state == 'Done'"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "runs.db")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(8)]
    assert [(process.wait(120), process.stderr and process.stderr.read()) for process in processes] == [
        (0, "")
    ] * 8
    with Journal(tmp_path / "runs.db", read_only=True) as journal:
        assert [row.status for row in journal.runs()] == ["done"] * 8
        assert journal.verify() == []


EDITS = {
    "transitions": [*COLUMNS],
    "payloads": ["media_type", "digest", "salt", "body"],
    "documents": ["label", "position", "name", "mime", "bytes", "digest", "payload"],
    "specs": ["run_id", "workflow_id", "round", "task", "spec", "created_at", "root_hash"],
}


def tampered(path: Path, target: Path, *statements: str) -> None:
    """Copy a journal and change the copy, as somebody with a database shell would."""
    shutil.copy(path, target)
    connection = sqlite3.connect(target)
    connection.execute("PRAGMA ignore_check_constraints=ON")
    connection.execute("PRAGMA foreign_keys=OFF")
    for statement in statements:
        assert connection.execute(statement).rowcount != 0, statement
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("table", "column"), [(table, name) for table, names in EDITS.items() for name in names]
)
def test_an_edit_of_any_column_is_found_by_both(tmp_path: Path, table: str, column: str) -> None:
    """`verify` and the independent script, each on its own."""
    finished(tmp_path / "runs.db")
    number = column in {
        "run",
        "seq",
        "position",
        "bytes",
        "payload",
        "round",
        "task",
        "created_at",
        "at",
    } or (column in {"step", "action", "retries", "tokens_in", "tokens_out", "cost_micro", "time_us"})
    blob = column in {"prev_hash", "hash", "salt", "root_hash"} or (table, column) == ("payloads", "digest")
    value = f'"{column}" + 1' if number else "zeroblob(32)" if blob else f"\"{column}\" || 'x'"
    place = f"WHERE id = (SELECT id FROM {table} ORDER BY id LIMIT 1 OFFSET 2)" if table != "specs" else ""
    tampered(tmp_path / "runs.db", tmp_path / "bad.db", f'UPDATE {table} SET "{column}" = {value} {place}')
    with Journal(tmp_path / "bad.db", read_only=True) as journal:
        assert journal.verify() != []
    assert script_says(tmp_path / "bad.db") == 4


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM transitions WHERE seq = 4",
        "DELETE FROM payloads WHERE n = 5",
        "DELETE FROM documents WHERE number = 2",
        "INSERT INTO documents SELECT id + 9, run, number + 9, label, position, name, mime, bytes, digest, payload"
        + " FROM documents LIMIT 1",
        "INSERT INTO payloads SELECT id + 500, run, n + 500, media_type, digest, salt, body FROM payloads LIMIT 1",
    ],
)
def test_a_row_removed_or_added_is_found_by_both(tmp_path: Path, statement: str) -> None:
    """Whatever table it is in."""
    finished(tmp_path / "runs.db")
    assert script_says(tmp_path / "runs.db") == 0
    tampered(tmp_path / "runs.db", tmp_path / "bad.db", statement)
    with Journal(tmp_path / "bad.db", read_only=True) as journal:
        assert journal.verify() != []
    assert script_says(tmp_path / "bad.db") == 4


def test_an_erased_payload_still_verifies(tmp_path: Path) -> None:
    """Salt and body gone, digest there: the chain holds for both."""
    finished(tmp_path / "runs.db")
    shutil.copy(tmp_path / "runs.db", tmp_path / "erased.db")
    with closing(sqlite3.connect(tmp_path / "erased.db")) as connection, connection:
        erase_by_hand(connection, "n = 5")
    with Journal(tmp_path / "erased.db", read_only=True) as journal:
        assert journal.verify() == []
    assert script_says(tmp_path / "erased.db") == 0


@pytest.mark.parametrize(
    ("column", "value", "field"),
    [
        ("guards", "replace(guards, 'true', 'false')", "guards"),
        ("trigger", "'retry'", "trigger"),
        ("step", "step + 1", "step"),
        ("outcome", "replace(outcome, '\"kind\"', '\"kund\"')", "outcome"),
    ],
)
def test_replay_finds_a_row_whose_chain_was_made_anew(
    tmp_path: Path, column: str, value: str, field: str
) -> None:
    """Somebody who can hash can write a chain that verifies; what the rows say must still follow."""
    result = finished(tmp_path / "runs.db")
    connection = sqlite3.connect(tmp_path / "runs.db")
    connection.execute(f'UPDATE transitions SET "{column}" = {value} WHERE seq = 1')
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    head = connection.execute("SELECT root_hash FROM specs").fetchone()[0]
    for row in connection.execute(f"SELECT {names} FROM transitions ORDER BY id").fetchall():
        digest = chain_hash(head, row[:-2])
        connection.execute(
            "UPDATE transitions SET prev_hash = ?, hash = ? WHERE seq = ?", (head, digest, row[1])
        )
        head = digest
    connection.commit()
    connection.close()
    with Journal(tmp_path / "runs.db", read_only=True) as journal:
        found = replay(journal, result.run_id)
    assert not found.identical
    assert found.divergences[0].seq == 1
    assert any(divergence.field.startswith(field) for divergence in found.divergences)


def test_replay_names_what_an_engine_would_do_otherwise(tmp_path: Path) -> None:
    """A changed prompt by its first line, a changed policy by its guard."""
    result = finished(tmp_path / "runs.db")
    with Journal(tmp_path / "runs.db", read_only=True) as journal:
        with engine(tmp_path / "same.db") as same:
            assert replay(journal, result.run_id, same).identical
        with engine(tmp_path / "prompt.db", prompts={"refinement": "=== user ===\nGo on?"}) as other:
            (first, *_) = replay(journal, result.run_id, other).divergences
            assert first.field == "request.prompt"
        with engine(tmp_path / "policy.db", policy=Policy(deny=("notes.*",))) as strict:
            fields = {divergence.field for divergence in replay(journal, result.run_id, strict).divergences}
            assert "guards.action_allowed" in fields


def test_files_that_are_no_journal_are_refused_in_one_line(tmp_path: Path) -> None:
    """A foreign database, a text, a directory, a newer schema: typed, and nothing is changed."""
    foreign = tmp_path / "foreign.db"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    (tmp_path / "text.db").write_text("not a database, but long enough to be read as one " * 30)
    newer = tmp_path / "newer.db"
    finished(newer)
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    for path, kind in ((foreign, NotAJournal), (tmp_path / "text.db", NotAJournal), (newer, JournalTooNew)):
        before = path.read_bytes()
        for read_only in (True, False):
            with pytest.raises(kind) as caught:
                Journal(path, read_only=read_only)
            assert "\n" not in str(caught.value)
        assert path.read_bytes() == before
    for path in (tmp_path, tmp_path / "no" / "such.db"):
        with pytest.raises(NotAJournal):
            Journal(path)
    with pytest.raises(NotAJournal):
        Journal(tmp_path / "missing.db", read_only=True)
    assert not (tmp_path / "missing.db").exists()


def test_a_full_file_loses_nothing(tmp_path: Path) -> None:
    """The engine stops with a typed error before the next effect, and a resume finishes the run."""
    with engine(tmp_path / "runs.db") as host:
        connection = file_of(host.journal).connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 12}")
        with pytest.raises(JournalFull):
            host.run("Read the notes", documents=[("a.txt", "x" * 20_000)])
        run_id = host.journal.runs()[0].run_id
        assert host.journal.verify() == []
        connection.execute("PRAGMA max_page_count = 1000000")
        assert host.resume(run_id).state == "Done"


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


@settings(max_examples=30, deadline=None)
@given(budget=st.integers(1, 4000))
def test_no_model_is_asked_once_the_token_budget_is_used_up(tmp_path_factory: Any, budget: int) -> None:
    """A046: every row carries the totals, and a request starts only below the budget."""
    path = tmp_path_factory.mktemp("budget") / "runs.db"
    with engine(path, limits=Limits(token_budget=budget)) as host:
        result = host.run("Read the notes", ["every page is read"])
        spent = 0
        for row in host.journal.transitions(result.run_id):
            if row.request["kind"] not in ("none", "tool", "recall"):
                assert spent < budget
            spent = row.tokens_in + row.tokens_out
        assert (result.reason == "token_budget") == (spent >= budget and result.state == "Failed")
