"""A journal as a file: its schema, who can read it, how it is opened, and what a wrong file says."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

import paor
from paor import Document, Journal, tool
from paor.errors import JournalError, NotAJournal, UnknownRun, UsageError
from paor.fsm.journal.sqlite import migrations
from paor.fsm.journal.sqlite.file import ours
from paor.fsm.journal.sqlite.migrations import APPLICATION_ID, newest
from paor.states.run.spec import Spec
from paor.testing import SeededIds

from ..support.forging import forge
from ..support.inside import HASHED
from ..support.journeys import BY_NAME, JOURNEYS, play
from ..support.worlds import CONTINUE, JOURNAL, PARAMETERS, READ, SELECT, STOP, SUCCESS, engine

SCRIPT = [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a closed journal with one finished run."""
    with engine(tmp_path, SCRIPT) as scripted:
        scripted.run("Read the notes", ["every page is read"], documents=[("a.txt", "first")])
    return tmp_path / JOURNAL


def pragma(path: Path, name: str) -> Any:
    """Return a pragma of the file, read by plain sqlite3."""
    connection = forge(path)
    try:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]
    finally:
        connection.close()


# -- the file ------------------------------------------------------------------------------------------------------


def test_the_file_says_what_it_is(path: Path) -> None:
    """`file` and SQLite tools read the application id, migrations the version."""
    assert pragma(path, "application_id") == APPLICATION_ID == int.from_bytes(b"paor", "big")
    assert pragma(path, "user_version") == newest() == 3
    assert pragma(path, "journal_mode") == "wal"
    assert pragma(path, "encoding") == "UTF-8"


def test_every_table_is_strict(path: Path) -> None:
    """A value of another type than its column's is refused by SQLite itself."""
    connection = forge(path)
    listed = connection.execute("PRAGMA table_list").fetchall()
    strict = {row[1]: row[5] for row in listed if row[2] == "table" and not row[1].startswith("sqlite_")}
    tables = ("specs", "leases", "rows", "texts", "documents", "erasures", "unscrubbed")
    assert strict == dict.fromkeys(tables, 1)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("UPDATE rows SET hash = 'yesterday'")
    for statement in ('rows SET "last" = 99', "texts SET salt = x'07'", "documents SET number = 99"):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(f"UPDATE {statement}")


def test_a_waiting_and_an_unfinished_run_show_in_the_view(tmp_path: Path) -> None:
    """Status and state come from the last row; of a run without rows from the spec alone."""
    with BY_NAME["approved"].engine(tmp_path) as scripted:
        waiting = scripted.run("Send")
        next(scripted.stream("Started", on_close="stop"))
        rows = {row.run_id: row for row in scripted.journal.runs()}
    assert (rows[waiting.run_id].status, rows[waiting.run_id].state) == ("waiting", "Specifying")
    del rows[waiting.run_id]
    (started,) = rows.values()
    assert (started.status, started.state, started.head_seq) == ("running", "Planning", -1)
    assert started.ended_at is None and started.reason is None
    connection = forge(tmp_path / JOURNAL)
    (root,) = connection.execute("SELECT root_hash FROM specs WHERE run_id = ?", (started.run_id,)).fetchone()
    assert started.head_hash == root
    assert connection.execute("SELECT count(*) FROM v_runs").fetchone() == (2,)


def test_the_view_of_usage_adds_up_to_the_counters_of_every_run(tmp_path: Path) -> None:
    """Also a tool's own requests, failed ones and those with a price."""
    for journey in JOURNEYS:
        with journey.engine(tmp_path, ids=SeededIds(journey.name)) as scripted:
            play(journey, scripted)
    connection = forge(tmp_path / JOURNAL)
    sums = connection.execute(
        "SELECT run_id, sum(tokens_in), sum(tokens_out), sum(cost) FROM v_usage GROUP BY run_id ORDER BY run_id"
    ).fetchall()
    totals = connection.execute(
        "SELECT run_id, tokens_in, tokens_out, cost FROM v_runs ORDER BY run_id"
    ).fetchall()
    assert len(sums) == len(JOURNEYS) and sums == totals
    kinds = {kind for (kind,) in connection.execute("SELECT DISTINCT kind FROM v_usage")}
    assert kinds == {"selection", "plan", "parameters", "refinement", "review", "text", "answer"}


def test_the_view_of_steps_has_the_reason_that_a_model_gave(tmp_path: Path) -> None:
    """Of its decision after an action, and of no other row; an erased one is NULL."""
    journey = JOURNEYS[0]
    with journey.engine(tmp_path, ids=SeededIds(journey.name)) as scripted:
        play(journey, scripted)
        given = {
            (row.run, row.seq): orjson.loads(
                scripted.journal.payload(row.run, row.change["n"]).body or b"{}"
            ).get("refinement", {})
            for run in scripted.journal.runs()
            for row in scripted.journal.transitions(run.run_id)
        }
    wanted = {place: said["reason"] for place, said in given.items() if said.get("reason")}
    connection = forge(tmp_path / JOURNAL)
    found = connection.execute(
        "SELECT specs.run, seq, reason FROM v_steps JOIN specs USING (run_id) WHERE reason IS NOT NULL"
    )
    assert {(run, seq): reason for run, seq, reason in found} == wanted != {}


def test_the_view_of_actions_says_why_a_call_was_not_made(tmp_path: Path) -> None:
    """With the codes of the results; of executed calls the tool's own."""
    expected = {
        "blocked": [(1, 1, None), (2, 0, "duplicate_call_blocked"), (3, 1, None)],
        "refused": [(1, 0, "invalid_parameters"), (2, 1, None)],
        "tool_error": [(1, 0, "tool_error"), (2, 1, None)],
        "approved": [(1, 1, None), (2, 0, "denied")],
        "in_doubt_fail": [(1, 0, "reconciled")],
    }
    for name, rows in expected.items():
        (tmp_path / name).mkdir()
        with BY_NAME[name].engine(tmp_path / name) as scripted:
            run_id = play(BY_NAME[name], scripted).run_id
            assert (
                scripted.journal.reader.query("SELECT action, ok, error FROM v_actions ORDER BY seq") == rows
            )
            codes = [
                change.result.error_code
                for row in scripted.journal.reader.rows(scripted.journal.run(run_id).run)
                if (change := scripted.journal.reader.change(row[0], row[9])).result
            ]
            assert codes == [error for _, _, error in rows]


# -- opening -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("normal", 1), ("off", 0)])
def test_durability_sets_how_far_sqlite_waits(durability: Any, synchronous: int, tmp_path: Path) -> None:
    """`full` waits for the disk with every transition, `normal` and `off` do not."""
    with Journal(tmp_path / JOURNAL, durability) as journal:
        assert journal.reader.query("PRAGMA synchronous") == [(synchronous,)]
        assert journal.reader.query("PRAGMA fullfsync") == [(1,)]
        assert journal.reader.query("PRAGMA foreign_keys") == [(1,)]
        assert journal.reader.query("PRAGMA journal_mode") == [("wal",)]
        assert journal.reader.query("PRAGMA busy_timeout") == [(30_000,)]


def test_full_is_the_default(tmp_path: Path) -> None:
    """Nobody loses a row to a power cut without having asked for it."""
    with Journal(tmp_path / JOURNAL) as journal:
        assert journal.store.durability == "full" and journal.reader.query("PRAGMA synchronous") == [(2,)]


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    """And nothing is created."""
    with pytest.raises(UsageError, match="full, normal, off"):
        Journal(tmp_path / JOURNAL, "medium")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_journal_in_memory_works(tmp_path: Path) -> None:
    """For tests of a host; it is gone with the process."""
    with engine(tmp_path, SCRIPT, journal=Journal(":memory:")) as scripted:
        run_id = scripted.run("Read").run_id
        assert scripted.journal.verify() == []
        assert next(iter(scripted.journal.export(run_id)))["line"] == "header"
        assert [line["line"] for line in scripted.journal.export(run_id)][-1] == "head"
    assert list(tmp_path.iterdir()) == []


def test_closing_twice_is_fine_and_a_closed_journal_says_so(path: Path) -> None:
    """One clear error instead of SQLite's."""
    journal = Journal(path)
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.runs()


WRONG: dict[str, bytes] = {
    "text": b"Dear diary, " * 100,
    "empty": b"",
    "torn": b"SQLite format 3\x00" + b"\xff" * 2000,
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_no_database_is_named_in_one_line(name: str, tmp_path: Path) -> None:
    """Whatever it holds, it stays as it is."""
    path = tmp_path / "diary.db"
    path.write_bytes(WRONG[name])
    with pytest.raises(NotAJournal) as caught:
        Journal(path, read_only=True)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    if name != "empty":
        with pytest.raises(NotAJournal):
            Journal(path)
    assert path.read_bytes() == WRONG[name]
    assert [item.name for item in tmp_path.iterdir()] == ["diary.db"]


def test_an_empty_file_becomes_a_journal(tmp_path: Path) -> None:
    """``mktemp`` makes such files."""
    path = tmp_path / JOURNAL
    path.touch()
    with engine(tmp_path, SCRIPT) as scripted:
        assert scripted.run("Read").state == "Done"


def test_a_foreign_database_is_left_alone(tmp_path: Path) -> None:
    """Neither its tables nor its journal mode are touched."""
    path = tmp_path / "shop.db"
    connection = forge(path)
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(NotAJournal, match="not a paor journal"):
            Journal(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_foreign_database_with_an_application_id_is_left_alone(tmp_path: Path) -> None:
    """Also without any table yet."""
    path = tmp_path / "shop.db"
    connection = forge(path)
    connection.execute("PRAGMA application_id = 77")
    connection.close()
    with pytest.raises(NotAJournal, match="0x4d"):
        Journal(path)


def test_a_directory_and_a_missing_folder_are_named(tmp_path: Path) -> None:
    """Writing and reading; nothing is created on the way."""
    with pytest.raises(NotAJournal, match="is a directory"):
        Journal(tmp_path, read_only=True)
    for wrong in (tmp_path, tmp_path / "no" / JOURNAL):
        with pytest.raises(NotAJournal, match="cannot be opened"):
            Journal(wrong)
    with pytest.raises(NotAJournal, match="there is no such journal"):
        Journal(tmp_path / "none.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_schema_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it or nothing: the next opening starts over."""
    path = tmp_path / JOURNAL
    step = migrations.STEPS[0]

    def fails(connection: sqlite3.Connection) -> None:
        step.apply(connection)
        connection.execute("CREATE TABLE specs (run)")

    monkeypatch.setattr(migrations, "STEPS", (step._replace(apply=fails),))
    with pytest.raises(JournalError):
        Journal(path)
    monkeypatch.undo()
    with engine(tmp_path, SCRIPT) as scripted:
        assert scripted.run("Read").state == "Done"
        assert scripted.journal.verify() == []


# -- reading only --------------------------------------------------------------------------------------------------


def look(path: Path) -> None:
    """Do everything that reads."""
    with Journal(path, read_only=True) as journal:
        assert journal.verify() == []
        for row in journal.runs():
            assert journal.run(row.run_id) == row
            assert journal.transitions(row.run_id)[-1].dest == row.state
            assert list(journal.export(row.run_id))
            assert paor.replay(journal, row.run_id).identical
            assert [journal.document(row.run_id, item.number) for item in journal.documents(row.run_id)]


def test_reading_neither_writes_nor_creates(path: Path) -> None:
    """Not even a write-ahead log beside it, which SQLite makes on a plain read-only connection."""
    before, stat = path.read_bytes(), path.stat()
    look(path)
    assert path.read_bytes() == before
    assert path.stat().st_mtime_ns == stat.st_mtime_ns
    assert [item.name for item in path.parent.iterdir()] == [JOURNAL]


@pytest.fixture
def protected(path: Path) -> Iterator[Path]:
    """Return a copy that everybody may read and nobody may write, in a folder of the same kind."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, JOURNAL)
        shutil.copy(path, copy)
        copy.chmod(0o444)
        copy.parent.chmod(0o555)
        yield copy
        copy.parent.chmod(0o755)


def test_reading_works_where_nothing_can_be_written(path: Path, protected: Path) -> None:
    """A copy on a read-only disk, in a folder of somebody else."""
    look(path)  # imports, since the child may not look into the interpreter's folder
    as_nobody(look, protected)


def as_nobody(function: Any, path: Path) -> None:
    """Call *function* with *path* in a child process that has no rights beyond the files' own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.getuid() == 0:
                os.chdir("/")
                os.setuid(65534)
            function(path)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_a_writer_says_in_one_line_that_the_file_is_read_only(protected: Path) -> None:
    """What was committed is intact."""
    as_nobody(refuse_to_write, protected)


def refuse_to_write(path: Path) -> None:
    """Try to write."""
    with pytest.raises(JournalError) as caught:  # noqa: SIM117
        with engine(path.parent, SCRIPT, ids=SeededIds("other"), journal=Journal(path, "off")) as scripted:
            scripted.run("Read")
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_a_reader_follows_a_writer(tmp_path: Path) -> None:
    """One that has opened the file before anybody wrote sees every row once it is durable."""
    with engine(tmp_path, SCRIPT) as scripted:
        scripted.run("Read")
    with Journal(tmp_path / JOURNAL, read_only=True) as reader:
        assert len(reader.runs()) == 1
        with engine(tmp_path, SCRIPT, ids=SeededIds("other")) as scripted:
            events = scripted.stream("Read again", on_close="stop")
            next(events)
            assert len(reader.runs()) == 2
            run_id = reader.runs()[0].run_id
            for event in (event for event in events if event.kind == "transition"):
                together = event.trigger == "execute"  # written with its observation
                assert reader.run(run_id).head_seq == event.seq + together
        assert reader.run(run_id).state == "Done"
        assert reader.verify() == []
    with Journal(tmp_path / JOURNAL, read_only=True) as reader:
        assert reader.run(run_id).state == "Done"


def test_a_reader_sees_what_was_written_and_checkpointed_behind_its_back(tmp_path: Path) -> None:
    """The file was closed when it was opened, and is closed again: but it is not the same any more."""
    with engine(tmp_path, SCRIPT) as scripted:
        scripted.run("Read")
    with Journal(tmp_path / JOURNAL, read_only=True) as reader:
        with engine(tmp_path, SCRIPT, ids=SeededIds("other")) as scripted:
            scripted.run("Read again")
        assert len(reader.runs()) == 2
        assert sorted(item.name for item in tmp_path.iterdir()) == [JOURNAL]


def test_a_journal_behind_a_link_is_the_same_one(tmp_path: Path) -> None:
    """SQLite keeps the log beside the file and not beside the link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / JOURNAL)
    with engine(tmp_path / "real", SCRIPT) as scripted:
        run_id = scripted.run("Read").run_id
        with Journal(tmp_path / "link.db", read_only=True) as reader:
            assert reader.run(run_id).state == "Done" and reader.verify() == []
    with Journal(tmp_path / "link.db", read_only=True) as reader:
        assert reader.run(run_id).state == "Done"
    assert sorted(item.name for item in tmp_path.rglob("*")) == ["link.db", "real", JOURNAL]


def test_a_reader_of_a_file_that_is_gone_says_so(path: Path) -> None:
    """Instead of showing what was there."""
    with Journal(path, read_only=True) as reader:
        path.unlink()
        with pytest.raises(NotAJournal, match="there is no such journal"):
            reader.runs()


def test_an_export_shows_one_moment_of_a_file_that_is_written(tmp_path: Path) -> None:
    """Rows that come while it is read are not in it; the head is the head of what is in it."""
    with engine(tmp_path, SCRIPT) as scripted:
        events = (event for event in scripted.stream("Read", on_close="stop") if event.kind == "transition")
        next(events)
        run_id = scripted.journal.runs()[0].run_id
        lines = scripted.journal.export(run_id)
        first = [next(lines) for _ in range(3)]
        assert len(list(events)) == 10
        rest = [*first, *lines]
    kinds = [line["line"] for line in rest]
    assert kinds.count("transition") == 1
    assert rest[-1]["head_seq"] == 0 and rest[-1]["status"] == "running"


def test_an_export_of_a_closed_file_that_is_written_meanwhile_stops(tmp_path: Path) -> None:
    """It could otherwise mix two moments."""
    with engine(tmp_path, SCRIPT) as scripted:
        run_id = scripted.run("Read").run_id
    with Journal(tmp_path / JOURNAL, read_only=True) as reader:
        lines = reader.export(run_id)
        next(lines)
        with engine(tmp_path, SCRIPT, ids=SeededIds("other")) as scripted:
            scripted.run("Read again")
        with pytest.raises(paor.errors.JournalBusy, match="try again"):
            list(lines)
        assert [line["line"] for line in reader.export(run_id)][-1] == "head"


@pytest.mark.parametrize("way", ["folder", "link"])
def test_a_journal_stays_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Whatever becomes of the current folder or of a link: an open journal reads the file it has opened."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    run_ids = []
    for folder in (here, there):
        with engine(folder, SCRIPT, ids=SeededIds(folder.name)) as scripted:
            run_ids.append(scripted.run("Read").run_id)
    name = JOURNAL if way == "folder" else str(tmp_path / "link.db")

    def lead_to(folder: Path) -> None:
        if way == "folder":
            monkeypatch.chdir(folder)
        else:
            Path(name).unlink(missing_ok=True)
            Path(name).symlink_to(folder / JOURNAL)

    lead_to(there)
    Journal(name, read_only=True).close()
    lead_to(here)
    with Journal(name) as writer, Journal(name, read_only=True) as reader:
        with paor.Engine(paor.ScriptedModel(["not JSON"] * 2), journal=writer) as second:
            lead_to(there)
            second.run("Read again")
            assert writer.verify() == []
            assert {row.run_id for row in reader.runs()} == {row.run_id for row in writer.runs()}
            assert run_ids[0] in {row.run_id for row in reader.runs()}
            assert len(reader.runs()) == 2
        with Journal(name, read_only=True) as other:
            assert [row.run_id for row in other.runs()] == [run_ids[1]]


def test_verify_gives_up_on_a_file_that_never_rests(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After three attempts, with an error and not with defects that are none; wherever it was when it noticed."""
    from paor.fsm.journal.sqlite import file as journal_file
    from paor.fsm.journal.sqlite import source as journal_reading

    for steady in range(10):
        asked = [0]

        def identity(path: str, steady: int = steady, asked: list[int] = asked) -> tuple[int, int, int]:
            asked[0] += 1
            return (0, 0, asked[0] // (steady + 1))

        monkeypatch.setattr(journal_reading, "identity", identity)
        monkeypatch.setattr(journal_file, "identity", lambda path: (0, 0, 0))
        with (
            Journal(path, read_only=True) as reader,
            pytest.raises(paor.errors.JournalBusy, match="again and again"),
        ):
            reader.verify()


def test_an_error_of_a_still_file_is_reported_as_it_is(path: Path) -> None:
    """Reading it again would not help."""
    with Journal(path, read_only=True) as reader, pytest.raises(JournalError, match="no such table"):
        reader.reader.query("SELECT * FROM missing")


# -- finding runs --------------------------------------------------------------------------------------------------


def test_a_run_is_found_by_an_unambiguous_prefix(tmp_path: Path) -> None:
    """At least four characters of its id; anything else says what to do."""
    with engine(tmp_path, SCRIPT) as scripted:
        first, second = scripted.run("One"), scripted.run("Two")
        assert first.run_id[:6] == second.run_id[:6]
        journal = scripted.journal
        assert journal.run(second.run_id[:12]).run_id == second.run_id
        assert [row.run_id for row in journal.runs()] == [second.run_id, first.run_id]
        with pytest.raises(UnknownRun, match="2 runs start with"):
            journal.run(first.run_id[:4])
        for wrong in ("", "000", "none-such"):
            with pytest.raises(UnknownRun, match="there is no run"):
                journal.run(wrong)
        with pytest.raises(UnknownRun, match="no document 17"):
            journal.document(first.run_id, 17)


def test_documents_come_back_as_they_were(tmp_path: Path) -> None:
    """Text as text, bytes as bytes, also where both hold the same bytes."""
    given: list[tuple[str, str | bytes]] = [
        ("a.txt", "same"),
        ("b.bin", b"same"),
        ("c.bin", bytes(range(256))),
        ("d.txt", "x\N{SNOWMAN}\n"),
    ]
    produced = [
        Document("e.txt", "same"),
        Document("f.bin", b"same", "application/x-e"),
        Document("g.txt", ""),
    ]

    @tool("notes.copy", effect="read")
    def copy(page: int) -> list[Document]:
        """Return documents."""
        return produced

    with engine(tmp_path, [SELECT("notes.copy"), PARAMETERS(page=1), STOP, SUCCESS], [copy]) as scripted:
        result = scripted.run("Copy", documents=given)
        documents = scripted.journal.documents(result.run_id)
        bodies = [scripted.journal.document(result.run_id, item.number) for item in documents]
        assert bodies == [data for _, data in given] + [item.data for item in produced]
        assert [item.read() for item in result.documents] == [item.data for item in produced]
        places = {item.name: item.payload for item in documents}
        assert places["a.txt"] == places["e.txt"] != places["b.bin"] == places["f.bin"]
        assert scripted.journal.verify() == []


# -- many processes ------------------------------------------------------------------------------------------------


def test_sqlite_refusing_to_switch_to_the_log_is_tried_again_and_at_last_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite does not wait here by itself, so that we do, as long as for any other lock."""
    blocker = sqlite3.connect(tmp_path / JOURNAL, isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN EXCLUSIVE")
    with pytest.raises(paor.errors.JournalBusy, match="another process holds the journal"):
        Journal(tmp_path / JOURNAL, busy_timeout_s=0.05)
    timer = threading.Timer(0.1, blocker.execute, ["ROLLBACK"])
    timer.start()
    Journal(tmp_path / JOURNAL).close()
    timer.join()


def test_only_a_locked_file_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other error would be the same the next time."""
    from paor.fsm.journal.sqlite.file import _use_log

    class Refusing:
        def __init__(self, *names: str) -> None:
            self.names = list(names)

        def execute(self, sql: str) -> None:
            if self.names:
                error = sqlite3.OperationalError("no")
                error.sqlite_errorname = self.names.pop(0)
                raise error

    _use_log(Refusing("SQLITE_BUSY", "SQLITE_BUSY_RECOVERY"), 30)  # type: ignore[arg-type]
    for refusing, wait in ((Refusing("SQLITE_IOERR"), 30.0), (Refusing(*["SQLITE_BUSY"] * 100), 0.02)):
        with pytest.raises(sqlite3.OperationalError):
            _use_log(refusing, wait)  # type: ignore[arg-type]


def test_errors_of_sqlite_become_one_clear_line() -> None:
    """Each kind its own class; the text of SQLite stays in it where it helps."""
    kinds = {
        "SQLITE_BUSY_SNAPSHOT": paor.errors.JournalBusy,
        "SQLITE_LOCKED": paor.errors.JournalBusy,
        "SQLITE_NOTADB": NotAJournal,
        "SQLITE_CANTOPEN_ISDIR": NotAJournal,
        "SQLITE_FULL": paor.errors.JournalFull,
        "SQLITE_IOERR_WRITE": paor.errors.JournalFull,
        "SQLITE_READONLY_DBMOVED": paor.errors.JournalFull,
        "SQLITE_CORRUPT": paor.errors.JournalDamaged,
        "SQLITE_MISUSE": JournalError,
    }
    for name, kind in kinds.items():
        error = sqlite3.OperationalError("what SQLite says")
        error.sqlite_errorname = name
        assert type(ours(error, "a.db")) is kind
        assert str(ours(error, "a.db")).startswith("a.db: ")
    assert type(ours(sqlite3.OperationalError("malformed JSON"), "a.db")) is paor.errors.JournalDamaged


# -- the page ------------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "journal-format.md").read_text(encoding="utf-8")
EXAMPLES = [
    statement.strip()
    for block in re.findall(r"(?s)```sql\n(.*?)```", PAGE)
    for statement in re.split(r";\n", block)
    if statement.strip()
]


@pytest.mark.parametrize("statement", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_of_the_page_work_in_the_sqlite_shell(statement: str, path: Path) -> None:
    """Each gives rows, with a value in every column but those that may be empty."""
    if shutil.which("sqlite3") is None:
        pytest.skip("the sqlite3 shell is not installed")
    command = ["sqlite3", "-readonly", "-json", str(path), statement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    rows = json.loads(done.stdout)
    assert rows
    for row in rows:
        empty = {name for name, value in row.items() if value in (None, "")}
        assert empty <= {"error", "approved_by"}


def test_the_page_describes_every_column_and_view(path: Path) -> None:
    """By its name, in the section of its table; nothing is described that is not there."""
    connection = forge(path)
    sections = dict(re.findall(r"(?ms)^\*\*`(\w+)`\*\*:(.*?)(?=^\*\*`|^## )", PAGE))
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert sections.keys() == tables
    for table, text in sections.items():
        columns = [row[1] for row in connection.execute(f"PRAGMA table_xinfo({table})")]
        text, _, keys = text.partition("\n| key | type |")
        told = re.findall(r"`(\w+)`", " ".join(re.findall(r"(?m)^\| (`.*?) \|", keys)))
        assert sorted(told) == (sorted(HASHED) if table == "rows" else [])
        cells = re.findall(r"(?m)^\| (`.*?) \|", text)
        assert [name for cell in cells for name in re.findall(r"`(\w+)`", cell)] == columns
    views = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
    assert sorted(re.findall(r"(?m)^\| `(\w+)` \| (?:one row|the same|requests)", PAGE)) == sorted(views)
    assert f"`{APPLICATION_ID}`" not in PAGE and str(APPLICATION_ID) in PAGE


def test_the_page_describes_every_key_of_rows_and_every_counter(tmp_path: Path) -> None:
    """What the journeys' rows hold has a word on the page, in the part on JSON columns."""
    part = PAGE[PAGE.index("## What the JSON columns hold") : PAGE.index("## Payloads and their digests")]
    words = set(re.findall(r"`(\w+)`", part)) | {"kind", "n", "digest", "bytes"}
    used: set[str] = set()
    for journey in JOURNEYS:
        (tmp_path / journey.name).mkdir()
        with journey.engine(tmp_path / journey.name) as scripted:
            run_id = play(journey, scripted).run_id
            for row in scripted.journal.transitions(run_id):
                used |= row.request.keys() | row.outcome.keys() | row.counters.keys() | row.change.keys()
                used |= {row.request["kind"], row.outcome["kind"]}
                used |= scripted.journal.reader.change(row.run, json.dumps(row.change)).slots().keys()
    assert used - words == set()
    spec = set(Spec.model_fields)
    assert spec - words == set()


@pytest.mark.parametrize("half", ["\ud800", "0199\udcff", "\udfff" * 40])
def test_half_a_character_names_no_run(tmp_path: Path, half: str) -> None:
    """As an argument that is no UTF-8 comes in; one line that can be written."""
    with Journal(tmp_path / "runs.db") as journal:
        with pytest.raises(UnknownRun, match="there is no run") as told:
            journal.run(half)
        assert str(told.value).isascii()
