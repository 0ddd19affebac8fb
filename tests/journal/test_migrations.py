"""Migrations, tried on steps that are not there yet: what a later schema will go through."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_utils import Database

from paor import Journal, replay
from paor.cli import main
from paor.errors import JournalTooNew, JournalTooOld
from paor.fsm.journal.sqlite import migrations
from paor.fsm.journal.sqlite.migrations import STEPS, Migration

from ..support.pages import ROOT
from ..support.stored import query
from ..support.worlds import CONTINUE, JOURNAL, READ, STOP, SUCCESS, engine

Apply = Callable[[sqlite3.Connection], None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a journal of the present schema with a finished run, open nowhere."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as scripted:
        scripted.run("Read")
    return tmp_path / JOURNAL


def with_step(monkeypatch: pytest.MonkeyPatch, apply: Apply) -> None:
    """Make paor one that knows a schema more."""
    monkeypatch.setattr(migrations, "STEPS", (*STEPS, Migration(STEPS[-1].version + 1, apply)))


def adds(connection: sqlite3.Connection) -> None:
    """Add a table and a view, as a step does."""
    database = Database(connection)
    database.create_table("notes", {"id": int, "text": str}, pk="id", strict=True)
    database.create_view("v_notes", "SELECT text FROM notes")
    connection.execute("INSERT INTO notes VALUES (1, 'taken')")


def rows(path: Path) -> list[tuple[object, ...]]:
    """Return everything that is under a hash, and the bodies."""
    return query(path, "SELECT * FROM transitions") + query(path, "SELECT * FROM payloads")


def test_a_writer_takes_the_steps_that_a_file_lacks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows stay as they are, so do their hashes; a second opening changes nothing."""
    before = rows(path)
    with_step(monkeypatch, adds)
    for _ in range(2):
        with Journal(path) as journal:
            assert journal.verify() == []
            assert replay(journal, journal.runs()[0].run_id).identical
        assert rows(path) == before
        assert query(path, "PRAGMA user_version") == [(STEPS[-1].version + 1,)]
        assert query(path, "SELECT text FROM v_notes") == [("taken",)]


def test_a_step_that_fails_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it is none of it."""
    before = rows(path)

    def fails(connection: sqlite3.Connection) -> None:
        adds(connection)
        raise ZeroDivisionError

    with_step(monkeypatch, fails)
    with pytest.raises(ZeroDivisionError):
        Journal(path)
    assert rows(path) == before and query(path, "PRAGMA user_version") == [(STEPS[-1].version,)]
    assert query(path, "SELECT name FROM sqlite_master WHERE name LIKE '%notes'") == []
    monkeypatch.undo()
    with Journal(path) as journal:
        assert journal.verify() == []


CHILD = """
import os, signal, sys, time
from paor import Journal
from paor.fsm.journal.sqlite import migrations

def apply(connection):
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT) STRICT")
    if sys.argv[2] == "die":
        connection.execute("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
                         " INSERT INTO notes SELECT i, hex(zeroblob(400)) FROM n")
        os.kill(os.getpid(), signal.SIGKILL)
    connection.execute("INSERT INTO notes VALUES (1, 'taken')")
    if sys.argv[2] == "wait":
        time.sleep(1.5)  # so that the others have seen the old version when this one commits

migrations.STEPS = (*migrations.STEPS, migrations.Migration(migrations.newest() + 1, apply))
if sys.argv[2] == "wait":
    sys.stdin.readline()
with Journal(sys.argv[1]) as journal:
    print(journal.reader.query("SELECT count(*) FROM notes")[0][0], len(journal.verify()))
"""


def child(path: Path, how: str) -> subprocess.Popen[str]:
    """Start a process whose paor knows a schema more, and which opens the file."""
    command = [sys.executable, "-c", CHILD, str(path), how]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_crash_within_a_step_leaves_the_old_file(path: Path) -> None:
    """Killed after more was written than the page cache holds; the next process takes the step anew."""
    before = rows(path)
    process = child(path, "die")
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    with Journal(path) as journal:
        assert journal.verify() == []
    assert rows(path) == before and query(path, "PRAGMA user_version") == [(STEPS[-1].version,)]
    assert child(path, "go").communicate()[0] == "1 0\n"


@pytest.mark.whole
def test_processes_that_migrate_at_once_take_each_step_once(path: Path) -> None:
    """A second one would fail, since the table is there; all go on as if they had taken it."""
    processes = [child(path, "wait") for _ in range(6)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate()[0] for process in processes] == ["1 0\n"] * 6


def test_a_newer_schema_is_refused_and_untouched(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By writers, readers, the command line and the script, each with one clear line."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {migrations.newest() + 1}")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(
            JournalTooNew,
            match=rf"has schema {migrations.newest() + 1}, this paor knows up to {migrations.newest()}; upgrade",
        ):
            Journal(path, read_only=read_only)
    for command in (
        ["runs"],
        ["verify"],
        ["replay"],
        ["export"],
        ["erase", "last", "--all"],
        ["resume", "last"],
    ):
        assert main([*command, "--journal", str(path)]) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1 and "upgrade paor to read it" in said.err
    script = [sys.executable, str(ROOT / "docs" / "verify_journal.py"), str(path)]
    assert subprocess.run(script, check=False, capture_output=True).returncode == 2
    assert path.read_bytes() == before and not os.path.exists(f"{path}-wal")


@pytest.mark.parametrize("laid_out", [False, True], ids=["by its number", "by its tables"])
def test_a_schema_of_before_the_first_release_is_refused_and_untouched(
    laid_out: bool, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By writers, readers, the command line and the script, each with one clear line that says what to do."""
    if laid_out:
        path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        if laid_out:
            connection.execute("CREATE TABLE transitions (id INTEGER PRIMARY KEY)")
            connection.execute("PRAGMA application_id = 0x70616f72")
        connection.execute(f"PRAGMA user_version = {3 if laid_out else 1}")
        connection.commit()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(
            JournalTooOld, match=r"has schema [13], .* reads schema 3 and later\. Begin a new journal"
        ):
            Journal(path, read_only=read_only)
    for command in (["runs"], ["verify"], ["resume", "last"], ["run", "Read", "--model", "offline"]):
        assert main([*command, "--journal", str(path)]) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1 and "Begin a new journal" in said.err
    script = [sys.executable, str(ROOT / "docs" / "verify_journal.py"), str(path)]
    assert subprocess.run(script, check=False, capture_output=True).returncode == (4 if laid_out else 2)
    assert path.read_bytes() == before and not os.path.exists(f"{path}-wal")


def test_sqlite_utils_is_imported_only_to_migrate(path: Path) -> None:
    """Opening a journal that is current costs nothing of it."""
    told = "import sys; from paor import Journal; Journal(sys.argv[1]).close(); print('sqlite_utils' in sys.modules)"
    command = [sys.executable, "-c", told, str(path)]
    assert subprocess.run(command, check=False, capture_output=True, text=True).stdout == "False\n"
