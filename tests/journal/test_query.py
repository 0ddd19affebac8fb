"""`journal.db` and `paor query`: everything can be read with SQL, and nothing can be done but reading."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paor import Journal
from paor.errors import JournalError

from ..support.cli_support import Shell, interruptible
from ..support.inside import authorize
from ..support.pages import environment
from ..support.stored import query
from ..support.worlds import CONTINUE, JOURNAL, READ, STOP, SUCCESS, engine

VIEWS = ["runs", "v_lineage", "v_runs", "v_steps", "v_actions", "v_calls", "v_usage"]
REFUSED = (
    "DELETE FROM specs",
    "INSERT INTO unscrubbed VALUES (1)",
    "UPDATE transitions SET at = 0 RETURNING id",
    "WITH one AS (SELECT 1) INSERT INTO unscrubbed SELECT * FROM one",
    "DROP VIEW runs",
    "CREATE TABLE own (id)",
    "CREATE TEMP TABLE own (id)",
    "CREATE VIRTUAL TABLE own USING fts5 (text)",
    "ATTACH 'other.db' AS other",
    "DETACH main",
    "VACUUM",
    "VACUUM INTO 'other.db'",
    "REINDEX",
    "ANALYZE",
    "PRAGMA query_only=OFF",
    "PRAGMA writable_schema=ON",
    "PRAGMA journal_mode=DELETE",
    "PRAGMA user_version=7",
    "PRAGMA wal_checkpoint",
    "PRAGMA optimize",
    "BEGIN IMMEDIATE",
    "SELECT load_extension('other')",
    "SELECT * FROM pragma_journal_mode('DELETE')",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a journal with a finished run, open nowhere."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as scripted:
        scripted.run("Read")
    return tmp_path / JOURNAL


# -- journal.db ----------------------------------------------------------------------------------------------------


def test_its_tables_and_views_are_read_through_sqlite_utils(path: Path) -> None:
    """What `sqlite_utils.Database` offers for reading works: rows, columns, schema, counts, keys, one-line queries."""
    before, files = path.read_bytes(), sorted(path.parent.iterdir())
    with Journal(path, read_only=True) as journal:
        db = journal.db
        assert sorted(db.view_names()) == sorted((*VIEWS, "transitions", "payloads"))
        assert [row["status"] for row in db["v_runs"].rows] == ["done"]
        assert db["transitions"].count == len(journal.transitions(journal.runs()[0].run_id))
        assert db.table("specs").pks == ["run"] and db["specs"].columns_dict["run_id"] is str
        assert [key.other_table for key in db.table("leases").foreign_keys] == ["specs"]
        assert next(db.query("SELECT max(step) AS last FROM v_steps WHERE step > ?", [0])) == {"last": 2}
        assert "STRICT" in db.schema
        assert journal.db is db
    assert path.read_bytes() == before and sorted(path.parent.iterdir()) == files


@pytest.mark.parametrize("statement", REFUSED)
@pytest.mark.parametrize("where", ["file", "open", "memory"])
def test_it_refuses_all_but_reading(path: Path, statement: str, where: str) -> None:
    """Of a file that nobody has open, of one that is being written, and of a copy in memory."""
    journal = Journal(":memory:" if where == "memory" else path, read_only=where == "file")
    with journal:
        before = query(path, "SELECT * FROM transitions") if where != "memory" else None
        with pytest.raises(sqlite3.DatabaseError, match=r"not authorized|denied|readonly"):
            journal.db.execute(statement).fetchall()
        if before is not None:
            assert query(path, "SELECT * FROM transitions") == before
            assert journal.verify() == []
        else:
            assert journal.db.table_names()
    assert not (path.parent / "other.db").exists() and not Path("other.db").exists()


def test_the_authorizer_alone_refuses(tmp_path: Path) -> None:
    """Also of a file that may be written: none of the three locks leans on another."""
    with closing(sqlite3.connect(tmp_path / "open.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE unscrubbed (run)")
        connection.set_authorizer(authorize)
        for statement in ("INSERT INTO unscrubbed VALUES (1)", "ATTACH 'x.db' AS x", "PRAGMA user_version=3"):
            with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
                connection.execute(statement)
        assert connection.execute("SELECT count(*) FROM unscrubbed").fetchone() == (0,)


def test_it_shows_what_is_written_meanwhile(path: Path) -> None:
    """Of a journal that is being written each query; of one that was open nowhere the next `journal.db`."""
    count = "SELECT count(*) AS n FROM v_runs"
    with Journal(path, read_only=True) as reader:
        assert next(reader.db.query(count)) == {"n": 1}
        with Journal(path) as writer:
            kept = writer.db
            assert _with_another_run(path) == 2
            assert next(kept.query(count)) == {"n": 2} == next(reader.db.query(count))
    with Journal(":memory:") as journal:
        assert next(journal.db.query(count)) == {"n": 0}


def test_it_is_closed_with_the_journal(path: Path) -> None:
    """And is not opened again."""
    journal = Journal(path)
    db = journal.db
    journal.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        db.table_names()
    with pytest.raises(JournalError, match="has been closed"):
        _ = journal.db


def _with_another_run(path: Path) -> int:
    """Write a second run as another process would; return how many there are."""
    with closing(sqlite3.connect(path)) as connection, connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(specs)")]
        values = ", ".join({"run": "run + 1", "run_id": "'other'"}.get(name, name) for name in names)
        connection.execute(f"INSERT INTO specs SELECT {values} FROM specs")
        found: int = connection.execute("SELECT count(*) FROM specs").fetchone()[0]
        return found


# -- paor query ----------------------------------------------------------------------------------------------------


@pytest.fixture
def ask(path: Path, shell: Shell) -> Callable[..., Any]:
    """Return a function that asks the journal."""
    return lambda sql, *options: shell("query", sql, "--journal", str(path), *options)


HOSTILE = "SELECT 'a' || char(27) || '[31m' || char(155) || char(10) || char(127) AS \"na\u202eme\", NULL AS n, x'00ff' AS b"


def test_rows_for_people(ask: Callable[..., Any]) -> None:
    """A table, or lists where it would be too wide; a hash in hex, a large blob as its size; nothing raw."""
    said = ask("SELECT run_id, status, steps FROM v_runs")
    assert said.code == 0 and said.err == ""
    head, row = said.out.splitlines()
    assert head.split() == ["run_id", "status", "steps"] and row.split()[1:] == ["done", "2"]
    assert "hash  " in ask("SELECT * FROM transitions LIMIT 2").out
    out = ask(f"{HOSTILE}, zeroblob(5000) AS large, hash FROM transitions LIMIT 1").out
    assert "5,000 bytes" in out and "00ff" in out
    assert not set("\x1b\x9b\x7f\u202e") & set(out) and len(out.splitlines()) == 2
    assert len(max(ask("SELECT body, body FROM payloads").out.splitlines(), key=len)) <= 100


def test_a_table_is_bounded_and_says_so(ask: Callable[..., Any]) -> None:
    """CSV and JSON are not."""
    many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1234) SELECT i FROM n"
    said = ask(many)
    assert len(said.out.splitlines()) == 1001 and "the first 1,000 rows" in said.err
    assert len(ask(many, "--csv").out.splitlines()) == 1235
    assert [row["i"] for row in json.loads(ask(many, "--json").out)] == list(range(1, 1235))
    said = ask("SELECT * FROM v_runs WHERE 0")
    assert said.code == 0 and said.err == "paor: no rows\n"


def test_csv(ask: Callable[..., Any]) -> None:
    """Read back as it was, NULL empty, blobs in hex, and no character that steers a terminal."""
    said = ask(HOSTILE, "--csv")
    assert not set("\x1b\x9b\x7f") & set(said.out)
    assert list(csv.reader(io.StringIO(said.out)))[1] == ["a\u241b[31m\ufffd\n\u2421", "", "00ff"]
    assert ask("SELECT run FROM specs WHERE 0", "--csv").out == "run\n"


def test_json(ask: Callable[..., Any]) -> None:
    """Exact, no value lost to a name that occurs twice, the same bytes each time."""
    said = ask(f"{HOSTILE}, 1 AS n, 9e999 AS f", "--json")
    assert not set("\x1b\x9b\x7f") & set(said.out)
    assert json.loads(said.out) == [
        {"na\u202eme": "a\x1b[31m\x9b\n\x7f", "n": None, "b": "00ff", "n_2": 1, "f": "inf"}
    ]
    assert ask("SELECT 1 WHERE 0", "--json").out == "[\n]\n"
    assert ask("SELECT * FROM v_steps", "--json") == ask("SELECT * FROM v_steps", "--json")


@pytest.mark.parametrize("statement", [*REFUSED, "DELETE FROM runs"])
def test_a_statement_that_does_more_is_refused_in_one_line(ask: Callable[..., Any], statement: str) -> None:
    """Exit code 2."""
    said = ask(statement)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), said
    assert "refused" in said.err


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("SELEC 1", 'near "SELEC": syntax error'),
        ("SELECT * FROM sales", "no such table: sales"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("", "gives no rows"),
        ("/* nothing */", "gives no rows"),
        ("BEGIN", "gives no rows"),
        ("SELECT ?", "bindings"),
        ("SELECT json('{')", "malformed JSON"),
        ("SELECT '\udcff'", "surrogates not allowed"),
        ("SELECT zeroblob(9999999999)", "too big"),
    ],
)
def test_bad_sql_is_one_clear_line(ask: Callable[..., Any], statement: str, told: str) -> None:
    """Exit code 2, in every form of output."""
    for option in ((), ("--csv",), ("--json",)):
        said = ask(statement, *option)
        assert (said.code, said.err.count("\n")) == (2, 1), said
        assert told in said.err


def test_it_creates_no_file_and_reads_only_journals(
    ask: Callable[..., Any], shell: Shell, path: Path
) -> None:
    """Nor does it leave one."""
    before = sorted(path.parent.iterdir())
    assert ask("SELECT 1").code == 0
    assert shell("query", "SELECT 1", "--journal", "none.db").code == 2
    assert "exclude each other" in ask("SELECT 1", "--csv", "--json").err
    assert sorted(path.parent.iterdir()) == before


def test_it_reads_beside_a_run_that_goes_on(ask: Callable[..., Any], path: Path) -> None:
    """The journal is open, a transaction of its writer too."""
    with Journal(path) as journal, journal.store.leases.taking() as connection:
        connection.execute("UPDATE leases SET owner = 'x'")
        assert json.loads(ask("SELECT count(*) AS n FROM leases WHERE owner = 'x'", "--json").out) == [
            {"n": 0}
        ]


def processor_s(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.whole
def test_ctrl_c_ends_a_long_query(path: Path) -> None:
    """While SQLite is at work and has not given a row."""
    forever = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    line = [sys.executable, "-m", "paor", "query", forever, "--journal", str(path)]
    with subprocess.Popen(
        line,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,  # noqa: PLW1509 - one call, before anything else can run
    ) as process:
        while processor_s(process.pid) < 3:  # more than it takes to start: it is within the query
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, err.strip()) == (130, "paor: interrupted")
