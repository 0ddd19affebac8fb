"""Commits: many runs share them, each goes on only after its own row is durable, and a full disk loses nothing."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paor import Engine, Journal, Result, replay
from paor.errors import JournalBusy, JournalError, JournalFull, LeaseLost
from paor.fsm.journal.backend import Entry
from paor.fsm.journal.payloads import payloads_of
from paor.fsm.journal.store import Committer
from paor.states.base.errors import InternalError
from paor.testing import RandomIds, SystemClock

from ..support.stored import file_of
from ..support.worlds import CONTINUE, JOURNAL, READ, STOP, SUCCESS, engine

SCRIPT = [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]
ROWS = 11


def shared(path: Path, *, durability: Any = "normal") -> Engine:
    """Return an engine that many runs may use at once."""
    return engine(
        path, SCRIPT, journal=Journal(path / JOURNAL, durability), ids=RandomIds(), clock=SystemClock()
    )


def check(path: Path, results: list[Result], count: int) -> None:
    """Assert that *count* runs ended well, verify and replay."""
    assert [result.state for result in results] == ["Done"] * count
    with Journal(path / JOURNAL, read_only=True) as journal:
        assert len(journal.runs()) == count
        assert journal.verify() == []
        for row in journal.runs():
            assert row.head_seq == ROWS - 1
            assert replay(journal, row.run_id).identical


def commits_of(journal: Journal) -> list[str]:
    """Return a list that grows with every commit of this connection."""
    found: list[str] = []
    file_of(journal).connection.set_trace_callback(
        lambda statement: found.append(statement) if statement == "COMMIT" else None
    )
    return found


def test_fifty_threads_share_one_engine(tmp_path: Path) -> None:
    """One connection, one lock; whoever comes first writes for all that wait."""
    with shared(tmp_path, durability="full") as scripted, ThreadPoolExecutor(50) as pool:
        results = list(pool.map(scripted.run, [f"Run {number}" for number in range(50)]))
    check(tmp_path, results, 50)


def test_a_hundred_runs_on_one_event_loop_share_their_commits(tmp_path: Path) -> None:
    """Far fewer commits than rows, which is what makes many runs at full durability fast."""

    async def all_of(scripted: Engine) -> list[Result]:
        return await asyncio.gather(*(scripted.arun(f"Run {number}") for number in range(100)))

    with shared(tmp_path, durability="full") as scripted:
        commits = commits_of(scripted.journal)
        results = asyncio.run(all_of(scripted))
        assert len(commits) < 100 + 100 * ROWS / 5
        assert scripted.journal.reader.query("SELECT count(*) FROM transitions") == [(100 * ROWS,)]
    check(tmp_path, results, 100)


def test_threads_with_event_loops_of_their_own_share_one_engine(tmp_path: Path) -> None:
    """Each loop has its own writer; writers of closed loops are let go."""
    with shared(tmp_path) as scripted, ThreadPoolExecutor(4) as pool:

        def run(number: int) -> Result:
            return asyncio.run(scripted.arun(f"Run {number}"))

        results = list(pool.map(run, range(20)))
        assert len(scripted.journal.store._writers._writers) <= 5
    check(tmp_path, results, 20)


# -- the committer alone -------------------------------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """Return an open journal with ten runs, each without its last row."""
    with shared(tmp_path) as scripted:
        for number in range(10):
            scripted.run(f"Run {number}")
        connection = file_of(scripted.journal).connection
        taken(connection, "last", ROWS - 1)
        yield scripted.journal


def taken(connection: sqlite3.Connection, table: str, seq: int) -> None:
    """Take the rows with a number out of the journal, and keep them in a table of their own."""
    connection.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM rows WHERE id & 4294967295 = ?", (seq,))
    connection.execute("DELETE FROM rows WHERE id & 4294967295 = ?", (seq,))


def entries_of(journal: Journal, table: str = "last") -> list[Entry]:
    """Return an entry with a row of every run that was taken out, as its driver would append it."""
    rows = journal.reader.query(f'SELECT id, "last", "row", hash, texts FROM {table} ORDER BY id')
    return [
        Entry(
            *(key >> 32, key & (2**32 - 1), text.encode(), hash),
            [payload for _, payload in payloads_of(last, texts)],
            documents=[],
            fence=1,
        )
        for key, last, text, hash, texts in rows
    ]


def test_a_fault_of_one_row_does_not_touch_the_others(journal: Journal) -> None:
    """Together they fail, so each is tried alone; only the one that cannot be written has an error."""
    entries = entries_of(journal)
    entries[3].seq = 0
    entries[5].fence = 7
    journal.store.append_all(entries)
    errors = {number: entry.error for number, entry in enumerate(entries) if entry.error is not None}
    assert errors.keys() == {3, 5} and all(entry.done for entry in entries)
    assert isinstance(errors[3], JournalError) and "UNIQUE" in str(errors[3])
    assert isinstance(errors[5], LeaseLost)
    left = [row.run for row in journal.runs() if row.state != "Done"]
    assert sorted(left) == [4, 6]
    for number in (3, 5):
        with pytest.raises(type(errors[number])):
            journal.store.append(replace(entries[number], done=False, error=None))


def test_two_rows_of_one_entry_are_written_both_or_neither(journal: Journal) -> None:
    """Also where the others of a group fail, and each entry is tried alone."""
    connection = file_of(journal).connection
    lasts = entries_of(journal)
    taken(connection, "earlier", ROWS - 2)
    befores = entries_of(journal, "earlier")
    entries = [replace(last, before=before) for last, before in zip(lasts, befores, strict=True)]
    entries[3].seq = 0  # its second row cannot be written
    befores[5].fence = 7  # another driver has this run
    journal.store.append_all(entries)
    assert [number for number, entry in enumerate(entries) if entry.error is not None] == [3, 5]
    assert isinstance(entries[5].error, LeaseLost)
    heads = {row.run: row.head_seq for row in journal.runs()}
    assert heads == {number: ROWS - 3 if number in (4, 6) else ROWS - 1 for number in range(1, 11)}


def test_a_locked_file_is_waited_for_once_and_not_once_for_each_row(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten runs that each wait for thirty seconds would hold everybody up for minutes."""
    file_of(journal).connection.execute("PRAGMA busy_timeout = 1")
    blocker = sqlite3.connect(tmp_path / JOURNAL, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    begun: list[str] = []
    file_of(journal).connection.set_trace_callback(begun.append)
    entries = entries_of(journal)
    begun.clear()
    journal.store.append_all(entries)
    assert all(isinstance(entry.error, JournalBusy) for entry in entries)
    assert len(begun) <= 1
    blocker.execute("ROLLBACK")
    entries = entries_of(journal)
    journal.store.append_all(entries)
    assert {row.state for row in journal.runs()} == {"Done"}


class Interrupting:
    """A connection that is interrupted while it writes the row of one run."""

    def __init__(self, connection: sqlite3.Connection, run: int) -> None:
        self._connection = connection
        self._run = run

    def execute(self, sql: str, values: Any = ()) -> Any:
        """Do it, or be interrupted."""
        if sql.startswith("INSERT INTO rows") and values[0] >> 32 == self._run:
            raise KeyboardInterrupt
        return self._connection.execute(sql, values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_an_interrupt_during_a_commit_writes_nothing_and_is_told_to_all(journal: Journal) -> None:
    """Nobody goes on with a row that is not there."""
    whole = file_of(journal).connection
    entries = entries_of(journal)
    file_of(journal).connection = Interrupting(whole, 5)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        journal.store.append_all(entries)
    file_of(journal).connection = whole
    assert all(entry.done and entry.error is not None for entry in entries)
    assert not whole.in_transaction
    assert {row.state for row in journal.runs()} == {"Reviewing"}


def test_an_append_that_somebody_else_should_have_written_and_did_not_says_so(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run never goes on as if its row were durable."""
    monkeypatch.setattr(Committer, "_commit_queue", lambda self: None)
    with pytest.raises(InternalError, match=f"run 1, row {ROWS - 1}: the append was not carried out"):
        journal.store.append(entries_of(journal)[0])


def test_rows_that_wait_are_written_by_whoever_has_the_lock(journal: Journal) -> None:
    """Nine threads wait for the lock; the first of them commits for all, in one transaction."""
    commits = commits_of(journal)
    entries = entries_of(journal)
    with ThreadPoolExecutor(10) as pool:
        with journal.store.backend.lock:
            waiting = [pool.submit(journal.store.append, entry) for entry in entries]
            while len(journal.store._committer._queue) < 10:
                threading.Event().wait(0.001)
        for future in waiting:
            future.result()
    assert len(commits) == 1
    assert {row.state for row in journal.runs()} == {"Done"}


# -- no space ------------------------------------------------------------------------------------------------------


def limit_pages(journal: Journal, more: int) -> None:
    """Let the file grow by a few pages only."""
    (pages,) = journal.reader.query("PRAGMA page_count")[0]
    journal.reader.query(f"PRAGMA max_page_count = {pages + more}")


@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("more", range(4))
def test_a_full_file_stops_the_run_and_a_later_resume_finishes_it(
    more: int, driver: str, tmp_path: Path
) -> None:
    """Whatever row does not fit any more: `JournalFull`, a chain that holds, and nothing lost."""
    with engine(tmp_path, SCRIPT) as scripted:
        with pytest.raises(JournalFull, match="cannot be written") as caught:
            limit_pages(scripted.journal, more)
            if driver == "sync":
                scripted.run("Read " * 500)
            else:
                asyncio.run(scripted.arun("Read " * 500))
        assert "\n" not in str(caught.value)
        runs = scripted.journal.runs()
        assert scripted.journal.verify() == []
        scripted.journal.reader.query("PRAGMA max_page_count = 100000")
        if not runs:
            return
        rows = scripted.journal.transitions(runs[0].run_id)
        result = scripted.resume(runs[0].run_id)
        assert (result.state, result.answer) == ("Done", "All is read.")
        assert scripted.journal.transitions(runs[0].run_id)[: len(rows)] == rows
        assert len(scripted.journal.transitions(runs[0].run_id)) == ROWS
        assert scripted.journal.verify() == []
        assert replay(scripted.journal, runs[0].run_id).identical
