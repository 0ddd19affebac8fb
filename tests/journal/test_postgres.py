"""A journal in PostgreSQL: addresses, roles, a server that goes away, signals, what it says of bad input."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paor import Document, Engine, Journal, Result, ScriptedModel, ToolOutput, replay, tool
from paor.errors import (
    JournalBusy,
    JournalDamaged,
    JournalError,
    JournalTooNew,
    JournalTooOld,
    LeaseHeld,
    NotAJournal,
    UnknownRun,
    UsageError,
)
from paor.fsm.journal.postgres.address import is_address, read_address, shown
from paor.testing import call

from ..support.postgres_server import PostgresServer, needs_postgres, server_missing
from ..support.worlds import CONTINUE, READ, STOP, SUCCESS
from ..support.worlds import engine as scripted_engine
from .conformance import WORLDS, entry_of, export_of

pytestmark = needs_postgres
PROGRAM = [sys.executable, "-m", "paor"]

if not server_missing():
    import psycopg
    from psycopg import sql


def ask(server: PostgresServer, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a statement of the superuser's."""
    with psycopg.connect(f"postgresql://postgres@127.0.0.1:{server.port}/postgres", autocommit=True) as raw:
        cursor = raw.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


def paor(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    return subprocess.run(
        [*PROGRAM, *words],
        env={**os.environ, "PAOR_BUSY_TIMEOUT_S": "2", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


# -- addresses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "conninfo", "schema", "told"),
    [
        ("postgresql://h/d", "postgresql://h/d", "paor", "postgresql://h/d"),
        (
            "postgres://u:p%40@h:5/d?schema=a_1",
            "postgres://u:p%40@h:5/d",
            "a_1",
            "postgres://u@h:5/d?schema=a_1",
        ),
        (
            "postgresql://u:p@[::1]:5/d?sslmode=verify-full&schema=x&sslpassword=s",
            "postgresql://u:p@[::1]:5/d?sslmode=verify-full&sslpassword=s",
            "x",
            "postgresql://u@[::1]:5/d?sslmode=verify-full&schema=x",
        ),
        (
            "postgresql://u:p@h1:5432,h2:5433/d?target_session_attrs=read-write&options=-c%20geqo%3Doff",
            "postgresql://u:p@h1:5432,h2:5433/d?target_session_attrs=read-write&options=-c%20geqo%3Doff",
            "paor",
            "postgresql://u@h1:5432,h2:5433/d?target_session_attrs=read-write",
        ),
        (
            "postgresql:///d?host=/run/pg&password=s",
            "postgresql:///d?host=%2Frun%2Fpg&password=s",
            "paor",
            "postgresql:///d",
        ),
    ],
)
def test_an_address_is_read_and_shown_without_what_is_secret(
    given: str, conninfo: str, schema: str, told: str
) -> None:
    """The schema is paor's own part of it; the rest goes to libpq as it is."""
    found = read_address(given)
    assert (found.conninfo, found.schema, found.shown, found.given) == (conninfo, schema, told, given)
    assert is_address(given) and shown(given) == told


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://u:geheim@h:port/d",
        "postgresql://u:geheim@h/d?schema=",
        "postgresql://u:geheim@h/d?schema=A",
        "postgresql://u:geheim@h/d?schema=pg_x",
        "postgresql://u:geheim@h/d?schema=a&schema=b",
        "postgresql://u:geheim@h/d?schema=a;drop",
        "postgresql://u:geheim@[::1/d",
        "postgresql://u:/geheim@h/d",
        "postgresql://u:1#geheim@h/d",
        "postgresql://u:50%geheim@h/d",
        "postgresql://u:%00geheim@h/d",
        "postgresql://u:123?geheim=1@h/d",
        "postgresql://u:%e4geheim@h/d",
        f"postgresql://u:geheim@h/d?schema={'x' * 64}",
    ],
)
def test_a_bad_address_is_refused_without_repeating_it(given: str) -> None:
    """It may hold a password."""
    with pytest.raises(UsageError) as caught:
        Journal(given)
    assert "geheim" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["runs.db", "postgresql.db", "/tmp/postgresql:x", "sqlite://x", ""])
def test_a_path_is_no_address(path: str) -> None:
    """Only the two schemes are."""
    assert not is_address(path) and shown(path) == path


# -- what is wrong with a server ---------------------------------------------------------------------------------------


def test_what_cannot_be_opened_says_so_in_one_line(postgres: PostgresServer) -> None:
    """No server, no database, no role, no journal, somebody else's tables; nothing is made by looking."""
    port = postgres.port
    for given, kind, told in (
        ("postgresql://postgres:geheim@127.0.0.1:1/x", JournalBusy, "cannot be reached"),
        (
            f"postgresql://postgres:geheim@127.0.0.1:{port}/nowhere",
            NotAJournal,
            'database "nowhere" does not exist',
        ),
        (
            f"postgresql://nobody:geheim@127.0.0.1:{port}/postgres",
            NotAJournal,
            'role "nobody" does not exist',
        ),
        (f"postgresql://postgres:geheim@127.0.0.1:{port}/postgres?sslmode=require", NotAJournal, "SSL"),
        (f"postgresql://postgres:geheim@127.0.0.1:{port}/postgres?nonsense=1", NotAJournal, "nonsense"),
    ):
        with pytest.raises(JournalError) as caught:
            Journal(given, busy_timeout_s=0.5)
        text = str(caught.value)
        assert isinstance(caught.value, kind) and told in text, (given, type(caught.value), text)
        assert "geheim" not in text and "\n" not in text
    with pytest.raises(NotAJournal, match="there is no journal in schema missing"):
        Journal(postgres.url("missing"), read_only=True)
    assert ask(postgres, "SELECT to_regnamespace('missing')") == [(None,)]
    ask(postgres, "CREATE SCHEMA theirs")
    ask(postgres, "CREATE TABLE theirs.journal (id TEXT, version BIGINT)")
    with pytest.raises(JournalError):
        Journal(postgres.url("theirs"), read_only=True)


def test_another_version_is_refused_and_left_as_it_is(postgres: PostgresServer) -> None:
    """Newer or older."""
    url = postgres.url()
    schema = read_address(url).schema
    with Journal(url) as journal:
        run_id = WORLDS[0].play(journal)
    for version, kind in ((99, JournalTooNew), (1, JournalTooOld)):
        ask(postgres, f"UPDATE {schema}.journal SET version = {version}")
        for read_only in (True, False):
            with pytest.raises(kind):
                Journal(url, read_only=read_only)
    ask(postgres, f"UPDATE {schema}.journal SET version = 3")
    with Journal(url, read_only=True) as journal:
        assert journal.run(run_id).state == "Done"


def test_of_many_who_open_a_new_journal_one_makes_it(postgres: PostgresServer) -> None:
    """All at the same time; all see the same one."""
    url = postgres.url()

    def open_and_play(place: int) -> str:
        with Journal(url, "off") as journal:
            WORLDS[place].play(journal)
            return str(journal.store.backend.identity)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(open_and_play, range(8)))) == 1
    with Journal(url, read_only=True) as journal:
        assert len(journal.runs()) == 8 and journal.verify() == []


# -- roles -------------------------------------------------------------------------------------------------------------


def test_a_role_with_the_least_rights_drives_and_a_reader_reads(postgres: PostgresServer) -> None:
    """As docs/howto/scale.md says: the schema is made by its owner; the host's role may write rows, the auditor's none."""
    url = postgres.url()
    schema = read_address(url).schema
    Journal(url).close()
    text = (Path(__file__).parents[2] / "docs" / "howto" / "scale.md").read_text(encoding="utf-8")
    grants = text.split("```sql\n-- roles")[1].split("```")[0].partition("\n")[2]
    for statement in (
        grants.replace("SCHEMA paor", f"SCHEMA {schema}").replace("paor.", f"{schema}.").split(";\n")
    ):
        if statement.strip():
            ask(postgres, statement)
    host = postgres.url(schema, user="paor_host")
    reader = postgres.url(schema, user="paor_reader")
    with Journal(host, "off") as journal:
        run_ids = [world.play(journal) for world in WORLDS]
        assert journal.verify() == []
        with pytest.raises(JournalBusy, match="run paor erase --finish with the owner's address"):
            journal.erase(run_ids[0])
        assert journal.erasures(run_ids[0]) and journal.store.unscrubbed() == [run_ids[0]]
        for statement in (
            f"DROP TABLE {schema}.texts",
            f"TRUNCATE {schema}.rows",
            "CREATE TABLE x (y INT)",
        ):
            with pytest.raises(JournalError):
                journal.store.backend.execute(statement, ())
    with Engine(ScriptedModel(["One.", "Two."], calls_tools=True), journal=Journal(host, "off")) as talking:
        rounds = [talking.submit("Say", conversation="c", queue=True).run_id for _ in range(2)]
        assert [result.run_id for result in talking.recover().results] == rounds
        assert talking.journal.verify() == [] and replay(talking.journal, rounds[1]).identical
    with Journal(url, "off") as journal:
        assert journal.finish_erasing() and journal.store.unscrubbed() == []
    with Journal(reader, read_only=True) as journal:
        assert export_of(journal, run_ids[1]) and journal.verify() == []
    with (
        Journal(reader, "off") as journal,
        pytest.raises(JournalError, match="this role may not do that"),
    ):
        WORLDS[1].play(journal)


def test_what_an_open_transaction_still_sees_does_not_count_as_scrubbed(postgres: PostgresServer) -> None:
    """The erasure stands and says that old copies are left; once it has ended they are removed."""
    url = postgres.url()
    schema = read_address(url).schema
    with Journal(url, "off", busy_timeout_s=0.5) as journal:
        run_id = WORLDS[1].play(journal)
        place = f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres"
        with closing(psycopg.connect(place, autocommit=True)) as other:
            other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            other.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, "leases")))
            with pytest.raises(JournalBusy, match="old copies still stand"):
                journal.erase(run_id)
            assert journal.store.unscrubbed() == [run_id]
            other.execute("ROLLBACK")  # a connection that is closed may end a moment later in the server
    with Journal(url, "off", busy_timeout_s=0.5) as journal:
        assert journal.finish_erasing() and journal.store.unscrubbed() == []


def test_an_erasure_waits_for_a_transaction_that_ends_soon(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of the server itself when it takes samples: once it has ended nothing is left to be done again."""
    url = postgres.url()
    with Journal(url, "off") as journal:
        run_id = WORLDS[1].play(journal)
        place = f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres"
        with closing(psycopg.connect(place, autocommit=True)) as other:
            other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT 1")  # whose snapshot it keeps, without a lock
            waited = list[float]()

            def sleep(seconds: float) -> None:
                waited.append(seconds)
                other.execute("ROLLBACK")

            clock = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
            monkeypatch.setattr("paor.fsm.journal.postgres.backend.time", clock)
            journal.erase(run_id)
            assert len(waited) == 1 and journal.store.unscrubbed() == []


def test_an_erased_text_is_in_no_file_of_the_server_but_its_log(postgres: PostgresServer) -> None:
    """Not in tables, indexes and the samples of columns that the server takes by itself, which any reader sees in pg_stats."""
    url, word = postgres.url(), "e7a5-erase-me"
    schema = read_address(url).schema

    @tool("desk.look", effect="read")
    def look(q: str) -> str:
        """Look."""
        return f"seen: {q}"

    with Journal(url, "off") as journal:
        replies = [*call("desk.look", q=word), STOP, {**SUCCESS, "answer": word}]
        engine = Engine(ScriptedModel(replies * 3), tools=[look], journal=journal)
        for number in range(3):
            engine.run(
                f"Look for {word}",
                documents=[(f"{word}.txt", f"said: {word}")],
                metadata={"who": word},
                key=f"{word} {number}",
            )
        for table in ("specs", "rows", "texts", "documents"):
            ask(postgres, f"ANALYZE {schema}.{table}")
        ask(postgres, "CHECKPOINT")
        assert postgres.files_with(word), "else the search finds nothing that is there"
        for run in journal.runs():
            journal.erase(run.run_id)
        ask(postgres, "CHECKPOINT")
        assert postgres.files_with(word) == []
        samples = "concat(most_common_vals::text, histogram_bounds::text)"
        found = f"SELECT tablename, attname FROM pg_stats WHERE schemaname = '{schema}' AND {samples} ~ %s"
        assert ask(postgres, found, f"{word}|{word.encode().hex()}") == []


def test_a_statement_that_takes_too_long_is_not_told_as_a_lock(postgres: PostgresServer) -> None:
    """Nobody holds anything then."""
    with Journal(postgres.url(), "off") as journal:
        backend: Any = journal.store.backend
        backend.query("SELECT set_config('statement_timeout', '50', false)")
        with pytest.raises(JournalBusy, match="did not finish in time"):
            backend.query("SELECT pg_sleep(5)")


def test_a_reader_gives_up_what_takes_too_long(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of the whole journal, one of many in a pool, and a question of somebody's: the server is freed of each."""
    url = postgres.url()
    Journal(url, "off").close()
    monkeypatch.setattr("paor.fsm.journal.postgres.connecting.READING_S", 0.05)
    with Journal(url, read_only=True, busy_timeout_s=0.05) as journal:
        backend: Any = journal.store.backend if journal.store is not None else journal.reader.source
        with pytest.raises(JournalBusy, match="did not finish in time"):
            backend.query("SELECT pg_sleep(2)")
        with (
            pytest.raises(UsageError, match="statement timeout"),
            backend.answer("SELECT pg_sleep(2)", 10) as (_, rows),
        ):
            list(rows)


# -- a server that goes away -------------------------------------------------------------------------------------------


@pytest.fixture
def crashing() -> Iterator[PostgresServer]:
    """Give a server of one test's own, which writes to its disk as it should."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.mark.whole
def test_a_server_that_crashes_and_comes_back_loses_and_doubles_nothing(crashing: PostgresServer) -> None:
    """A run goes on over it by itself; what was being written is looked up before it is written again."""
    with Journal(crashing.url(), busy_timeout_s=60) as journal:
        stop = threading.Event()

        def crash() -> None:
            for _ in range(3):
                if stop.wait(0.7):
                    return
                crashing.stop()
                crashing.start()

        thread = threading.Thread(target=crash)
        thread.start()
        results: list[Result] = []
        number = 0
        while thread.is_alive():
            number += 1
            engine = type(WORLDS[0])(f"over a crash {number}", WORLDS[0].replies).engine(journal)
            while True:
                try:
                    results.append(engine.run(f"Over a crash {number}", key=f"crash-{number}"))
                    break
                except JournalBusy:  # in the moment in which it is begun: its key has it begun once
                    continue
        stop.set()
        thread.join()
        assert len(results) > 3 and {result.state for result in results} == {"Done"}
        assert journal.verify() == []
        assert all(replay(journal, result.run_id).identical for result in results)
        heads = {row.run_id: row.head_seq for row in journal.runs()}
        assert heads == dict.fromkeys(heads, 5), "a row was lost or written twice"


def test_a_server_that_stays_away_stops_the_run_and_a_resume_goes_on(
    crashing: PostgresServer, tmp_path: Path
) -> None:
    """With one clear line, once the time to wait is over."""
    with Journal(crashing.url(), busy_timeout_s=0.5) as journal:
        engine = scripted_engine(tmp_path, [*READ(1), STOP, SUCCESS], journal=journal)
        events = engine.stream("Read", on_close="stop")
        run_id = next(events).run_id
        next(events)
        crashing.stop()
        with pytest.raises(JournalBusy, match="the server cannot be reached") as caught:
            list(events)
        assert "\n" not in str(caught.value)
        with pytest.raises(JournalBusy):
            journal.runs()
        crashing.start()
        assert engine.resume(run_id).state == "Done"
        assert journal.verify() == [] and replay(journal, run_id).identical


def test_leases_are_renewed_again_after_the_server_was_away(crashing: PostgresServer) -> None:
    """For longer than they last, while a call goes on: nobody takes the run, and its driver goes on with it."""
    with Journal(crashing.url(), lease_s=0.9, busy_timeout_s=0.2) as journal:
        run = journal.run(WORLDS[0].play(journal)).run
        fence = journal.store.leases.acquire(run)
        crashing.stop()
        time.sleep(1.2)
        crashing.start()
        deadline = time.monotonic() + 30
        backend = journal.store.backend
        while time.monotonic() < deadline:
            ((until,),) = backend.query(
                "SELECT lease_until FROM leases WHERE run = ? AND fence = ?", (run, fence)
            )
            if until > (backend.now_us() or 0):
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the lease was never renewed again")


@pytest.mark.parametrize("fate", ["written", "lost"])
def test_what_a_lost_connection_was_writing_is_looked_up(
    fate: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    """Its commit came through and only the answer did not, or it did not: the row stands once in either case."""
    with Journal(postgres.url(), "off") as journal:
        engine = scripted_engine(tmp_path, [*READ(1), STOP, SUCCESS], journal=journal)
        backend: Any = journal.store.backend
        whole = backend._append
        broken: list[int] = []

        def append(entries: list[Any]) -> None:
            if entries[-1].seq == 3 and not broken:
                broken.append(1)
                if fate == "written":
                    whole(entries)
                for entry in entries:
                    entry.cancelled, entry.error = True, None  # nothing that was noted before counts
                backend.connection.close()
                raise psycopg.OperationalError("the connection is lost")
            whole(entries)

        backend._append = append
        result = engine.run("Read")
        assert broken and result.state == "Done", result
        assert journal.verify() == [] and replay(journal, result.run_id).identical


def test_a_lost_connection_within_a_transaction_undoes_it(postgres: PostgresServer) -> None:
    """Whoever began it is told; the next one finds a connection."""
    with Journal(postgres.url(), "off") as journal:
        WORLDS[0].play(journal)
        backend: Any = journal.store.backend
        with pytest.raises(JournalBusy), journal.store.writing() as writer:
            writer.set_labels(1, ("k", "{}", None))
            ((own,),) = backend.query("SELECT pg_backend_pid()")
            ask(postgres, "SELECT pg_terminate_backend(%s)", own)
            while ask(postgres, "SELECT 1 FROM pg_stat_activity WHERE pid = %s", own):
                time.sleep(0.01)
            writer.set_labels(1, ("l", "{}", None))
        assert journal.runs()[0].key is None
        assert WORLDS[1].play(journal)


def test_a_group_whose_answer_was_lost_stands_once(postgres: PostgresServer) -> None:
    """It was committed as a whole, so its second try is refused, and all of it counts as written."""
    with Journal(postgres.url(), "off") as journal:
        runs = [journal.run(world.play(journal)).run for world in WORLDS[:3]]
        entries = [entry_of(journal, run, journal.store.leases.acquire(run)) for run in runs]
        backend: Any = journal.store.backend
        whole, tries = backend._append, []

        def append(given: list[Any]) -> None:
            whole(given)
            tries.append(given)
            if len(tries) == 1:
                backend.connection.close()
                raise psycopg.OperationalError("the connection is lost")

        backend._append = append
        journal.store.append_all(entries)
        assert len(tries) == 1 and all(entry.error is None for entry in entries)
        for run, entry in zip(runs, entries, strict=True):
            assert journal.reader.newest_row(run) == entry.seq
            assert journal.reader.rows(run, entry.seq)[-1][-1] == entry.hash


def test_an_interrupt_within_a_group_leaves_no_transaction_open(postgres: PostgresServer) -> None:
    """What is appended next is committed, or said not to be."""
    with Journal(postgres.url(), "off") as journal, Journal(postgres.url("elsewhere"), "off"):
        runs = [journal.run(world.play(journal)).run for world in WORLDS[:3]]
        fences = [journal.store.leases.acquire(run) for run in runs]
        entries = [entry_of(journal, run, fence) for run, fence in zip(runs, fences, strict=True)]
        backend: Any = journal.store.backend
        whole, asked = backend.connection.execute, []

        def execute(statement: str, values: Any = ()) -> Any:
            asked.append(statement)
            if len(asked) == 3:
                raise KeyboardInterrupt
            return whole(statement, values)

        backend.connection.execute = execute
        with pytest.raises(KeyboardInterrupt):
            journal.store.append_all(entries)
        again = entry_of(journal, runs[0], fences[0])
        journal.store.append(again)
        with journal.snapshot() as seen:
            assert seen.newest_row(runs[0]) == again.seq


def test_two_machines_with_one_host_name_do_not_take_each_others_runs(postgres: PostgresServer) -> None:
    """Another boot under the same name is another machine, not this one before it was started anew."""
    with Journal(postgres.url(), "off") as journal:
        run = journal.run(WORLDS[0].play(journal)).run
        journal.store.leases.acquire(run)
        journal.store.leases._held.clear()
        mine = json.loads(journal.store.backend.query("SELECT owner FROM leases")[0][0])
        for change in ({"boot": "another"}, {"boot": ""}, {"space": "another"}):
            journal.store.backend.execute("UPDATE leases SET owner = ?", (json.dumps({**mine, **change}),))
            assert journal.store.leases.is_driven(run), change
            with pytest.raises(LeaseHeld):
                journal.store.leases.acquire(run)


def test_another_isolation_of_the_role_changes_nothing(postgres: PostgresServer) -> None:
    """Numbers are given one by one all the same."""
    ask(postgres, "CREATE ROLE paor_strict LOGIN SUPERUSER")
    ask(postgres, "ALTER ROLE paor_strict SET default_transaction_isolation = 'repeatable read'")
    url = postgres.url("strict", user="paor_strict")

    def play(place: int) -> None:
        with Journal(url, "off") as journal:
            for number in range(4):
                type(WORLDS[0])(f"strict {place} {number}", WORLDS[0].replies).play(journal)

    Journal(url).close()
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(play, range(6)))
    with Journal(url, read_only=True) as journal:
        assert journal.reader.index.numbers() == list(range(1, 25))


def test_another_journal_in_its_place_is_not_written(postgres: PostgresServer) -> None:
    """A database that was restored from elsewhere while it was open: nothing more goes into it."""
    url = postgres.url()
    schema = read_address(url).schema
    with Journal(url, "off") as journal:
        WORLDS[0].play(journal)
        ask(postgres, f"UPDATE {schema}.journal SET id = 'another'")
        backend: Any = journal.store.backend
        backend.connection.close()
        for _ in range(2):  # not only the first write
            with pytest.raises(JournalError, match="replaced by another journal"):
                WORLDS[1].play(journal)
            with pytest.raises(JournalError, match="replaced by another journal"):
                journal.store.leases.request_cancel(1)
        assert ask(postgres, f"SELECT sum(cancel)::int, count(*) FROM {schema}.leases") == [(0, 1)]


@pytest.mark.parametrize(
    "row", [2, *(pytest.param(row, marks=pytest.mark.whole) for row in (0, 1, *range(3, 11)))]
)
def test_a_journal_that_is_swapped_after_any_row_is_not_written(row: int, postgres: PostgresServer) -> None:
    """As a restore over a running service does: the other one's runs have the same numbers and fences, and stay as they are."""
    url = postgres.url()
    schema = read_address(url).schema
    paid, others = list[int](), list[bytes]()
    due = [0]

    @tool("bank.pay", effect="once")
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def swap(event: Any) -> None:
        if getattr(event, "seq", None) != row or others:
            return
        due[0] = len(paid) + (event.dest == "Executing")
        ask(postgres, f"ALTER SCHEMA {schema} RENAME TO {schema}_away")
        with Journal(url, "off") as other:
            others.append(export_of(other, WORLDS[3].play(other)))

    model = ScriptedModel([*call("bank.pay", amount=1), CONTINUE, *call("bank.pay", amount=2), STOP, SUCCESS])
    with Engine(model, tools=[pay], journal=Journal(url, "off"), hooks=[swap]) as engine:
        with pytest.raises((JournalError, UnknownRun)):  # it is not in the other one
            engine.run("pay")
        assert len(paid) == due[0]
        for begin in (lambda: engine.run("pay"), lambda: engine.journal.store.leases.request_cancel(1)):
            with pytest.raises(JournalError, match="replaced by another journal"):
                begin()
    with Journal(url, read_only=True) as other:
        (run,) = other.runs()
        assert [export_of(other, run.run_id)] == others and other.verify() == []
    ask(postgres, f"DROP SCHEMA {schema} CASCADE")
    ask(postgres, f"ALTER SCHEMA {schema}_away RENAME TO {schema}")
    with Journal(url, read_only=True) as journal:
        (run,) = journal.runs()
        assert run.head_seq == row and journal.verify() == []


@pytest.mark.parametrize("table", ["rows", "texts", "documents"])
def test_a_row_that_the_database_leaves_out_is_not_taken_for_written(
    table: str, postgres: PostgresServer
) -> None:
    """As a trigger of the old way to partition a table does: nothing of the statement is written, and no effect begins."""
    url = postgres.url()
    schema = read_address(url).schema
    paid: list[str] = []

    @tool("bank.pay", effect="once")
    def pay(to: str) -> ToolOutput:
        """Pay."""
        paid.append(to)
        return ToolOutput(documents=[Document("receipt.txt", "R-7")])

    def leave_out(event: Any) -> None:
        if getattr(event, "seq", None) == 0:
            ask(
                postgres,
                f"CREATE FUNCTION {schema}.leave_out() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            )
            trigger = f"CREATE TRIGGER left_out BEFORE INSERT ON {schema}.{table} FOR EACH ROW"
            ask(postgres, f"{trigger} EXECUTE FUNCTION {schema}.leave_out()")

    model = ScriptedModel([*call("bank.pay", to="Dee"), STOP, SUCCESS])
    with Engine(model, tools=[pay], journal=Journal(url, "off"), hooks=[leave_out]) as engine:
        # no row of this run has a text that is not with it
        told = pytest.raises(JournalError, match="a trigger, a rule or a policy of its tables keeps them out")
        with told if table != "texts" else nullcontext():
            engine.run("pay")
        assert paid == ([] if table == "rows" else ["Dee"])
        with pytest.raises(JournalError, match="keeps them out"):
            engine.run("pay", documents=[("a.txt", "a")])
        ask(postgres, f"DROP TRIGGER left_out ON {schema}.{table}")
        assert engine.resume(engine.journal.runs()[-1].run_id).state == "Done" and paid == ["Dee"]
        assert engine.journal.verify() == []


def test_an_id_that_was_changed_is_damage(postgres: PostgresServer) -> None:
    """In one line, by whoever opens it."""
    url = postgres.url()
    Journal(url, "off").close()
    ask(postgres, f"UPDATE {read_address(url).schema}.journal SET id = 'another'")
    for read_only in (False, True):
        with pytest.raises(JournalDamaged, match="the journal's id was changed"):
            Journal(url, "off", read_only=read_only)


# -- locks and signals -------------------------------------------------------------------------------------------------


def test_a_lock_is_waited_for_as_long_as_the_host_says(postgres: PostgresServer) -> None:
    """Then one line; nothing was written, and it goes on afterwards."""
    url = postgres.url()
    schema = read_address(url).schema
    with Journal(url, "off", busy_timeout_s=0.2) as journal:
        run_id = WORLDS[0].play(journal)
        with closing(psycopg.connect(f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres")) as other:
            other.execute(sql.SQL("LOCK TABLE {}").format(sql.Identifier(schema, "specs")))
            with pytest.raises(JournalBusy, match="others hold the journal"):
                WORLDS[1].play(journal)
        assert WORLDS[1].play(journal) != run_id


def test_a_run_is_cancelled_from_another_connection_at_once(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a signal, while its tool is at work, long before the next look."""
    url = postgres.url()
    began = threading.Event()
    monkeypatch.setattr("paor.fsm.journal.postgres.backend.PostgresBackend.look_s", 3600.0)

    async def main() -> Result:
        from paor import ScriptedModel, tool
        from paor.testing import call

        @tool("slow.wait", effect="read")
        async def wait(order: str) -> str:
            """Wait."""
            began.set()
            await asyncio.sleep(60)
            return "late"

        with Journal(url, "off") as journal:
            engine = Engine(ScriptedModel(call("slow.wait", order="O-1")), [wait], journal, builtins=False)
            task = asyncio.create_task(engine.arun("Wait"))
            while not began.is_set():
                await asyncio.sleep(0.01)
            with Journal(url, "off") as other:
                await asyncio.to_thread(other.store.leases.request_cancel, 1)
                result = await asyncio.wait_for(task, 30)
            return result

    assert asyncio.run(main()).reason == "cancelled"


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_every_reading_command_takes_the_address(postgres: PostgresServer, tmp_path: Path) -> None:
    """From ``--journal`` and from the environment; the password stands in nothing that they print or write."""
    url = postgres.url(password="geheim")
    with Journal(url, "off") as journal:
        run_id = WORLDS[1].play(journal)
        expected = export_of(journal, run_id)
    page, traced = tmp_path / "run.html", tmp_path / "trace.json"
    commands = (
        ["runs"], ["runs", "--json"], ["show", run_id], ["show", run_id, "--row", "1"], ["verify"], ["replay", run_id],
        ["why", run_id], ["export", run_id], ["diagram", run_id, "--format", "mermaid"], ["doctor"], ["recover"],
        ["report", run_id, "--output", str(page)], ["trace", run_id, "--output", str(traced)], ["worker", "--list"],
        ["query", "SELECT run_id, state FROM runs"], ["query", "SELECT * FROM v_calls", "--json"],
    )  # fmt: skip
    told = {}
    for words in commands:
        done = paor(*words, PAOR_JOURNAL=url)
        assert done.returncode == 0, (words, done)
        assert "geheim" not in done.stdout + done.stderr, words
        told[tuple(words)] = done.stdout
    assert told["export", run_id].encode().strip() == expected
    assert run_id in told["query", "SELECT run_id, state FROM runs"]
    assert json.loads(told["query", "SELECT * FROM v_calls", "--json"])[0]["tool"] == "desk.scan"
    assert b"geheim" not in page.read_bytes() + traced.read_bytes()
    imported = paor("import", "-", "--journal", str(tmp_path / "file.db"), PAOR_JOURNAL=url)
    assert imported.returncode == 2  # of an empty input
    lines = tmp_path / "run.jsonl"
    lines.write_bytes(expected + b"\n")
    assert paor("import", str(lines), "--journal", str(tmp_path / "file.db")).returncode == 0
    back = paor("export", run_id, "--journal", str(tmp_path / "file.db"))
    assert back.stdout.encode().strip() == expected


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM specs",
        "UPDATE rows SET hash = hash",
        "DROP TABLE texts",
        "WITH gone AS (DELETE FROM specs RETURNING run) SELECT * FROM gone",
        "SELECT 1; DELETE FROM specs",
        "COPY specs TO PROGRAM 'touch /tmp/paor-was-here'",
        "SELECT pg_notify('x', 'y') FROM nowhere",
        "VACUUM",
        "",
    ],
)
def test_a_query_can_only_read(statement: str, postgres: PostgresServer) -> None:
    """Anything else is refused with one line, and changes nothing."""
    url = postgres.url("queried")
    with Journal(url, "off") as journal:
        if not journal.runs():
            WORLDS[0].play(journal)
        before = journal.reader.index.ends()
        done = paor("query", statement, "--journal", url)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr, done
        assert journal.reader.index.ends() == before and journal.verify() == []
    assert not Path("/tmp/paor-was-here").exists()


def test_the_views_say_what_sqlites_say(postgres: PostgresServer, tmp_path: Path) -> None:
    """Each view that is documented, row by row, as far as the two databases write the same values."""
    with Journal(postgres.url(), "off") as journal, Journal(tmp_path / "runs.db", "off") as reference:
        for world in WORLDS:
            assert world.play(journal) == world.play(reference)
        times = {"created", "ended", "started", "at"}
        for view in ("runs", "v_runs", "v_steps", "v_actions", "v_calls", "v_usage", "v_lineage"):
            order = "run_id, seq" if view in ("v_steps", "v_actions", "v_calls") else "run_id"
            statement = f"SELECT * FROM {view} ORDER BY {order}{', kind' if view == 'v_usage' else ''}"
            found = []
            for each in (journal, reference):
                with each.store.backend.answer(statement, 100) as (names, rows):
                    found.append(
                        [
                            {
                                name: _plain(value)
                                for name, value in zip(names, row, strict=True)
                                if name not in times
                            }
                            for row in rows
                        ]
                    )
            assert found[0] == found[1], view


def _plain(value: Any) -> Any:
    """Return a value in a form that both databases have."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and value[:1] in "{[":
        return json.loads(value)
    return float(value) if isinstance(value, int | float) or type(value).__name__ == "Decimal" else value


# -- a schema that was changed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("ALTER TABLE {0}.rows ALTER COLUMN texts DROP NOT NULL", "table rows"),
        ("ALTER TABLE {0}.texts ADD COLUMN more TEXT", "table texts"),
        ("ALTER TABLE {0}.documents DROP CONSTRAINT documents_check", "table documents"),
        ("DROP VIEW {0}.v_usage", "view v_usage"),
        (
            """CREATE FUNCTION {0}.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'
            CREATE TRIGGER t BEFORE INSERT ON {0}.rows EXECUTE FUNCTION {0}.f()""",
            "trigger t",
        ),
        ("INSERT INTO {0}.leases VALUES (77, 1, NULL, NULL, 0)", None),
        (
            "INSERT INTO {0}.texts VALUES (77::bigint << 32, 'text/plain', repeat('0', 64), NULL, NULL, true)",
            "texts run 77",
        ),
    ],
)
def test_a_change_of_the_schema_is_found(change: str, place: str | None, postgres: PostgresServer) -> None:
    """By verify, as far as the database does not refuse it."""
    url = postgres.url()
    with Journal(url, "off") as journal:
        WORLDS[1].play(journal)
        assert journal.verify() == []
        if place is None:
            with pytest.raises(psycopg.Error):
                ask(postgres, change.format(read_address(url).schema))
            return
        for statement in change.format(read_address(url).schema).splitlines():
            ask(postgres, statement)
        assert place in [item.place for item in journal.verify()]
