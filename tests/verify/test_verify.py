"""
Verify: whatever is changed in a journal from outside is found, by `Journal.verify` and by the script in docs/ alike.

The script shares no code with the package, so each of them is a test of the other.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from paor import Journal
from paor.errors import JournalDamaged
from paor.testing import SeededIds

from ..support.erasing import erase_by_hand
from ..support.forging import writable
from ..support.inside import ROOT_COLUMNS, Defect, loop, root_hash, salted_digest
from ..support.journeys import BY_NAME, JOURNEYS, Journey, play
from ..support.stored import file_of
from ..support.worlds import JOURNAL, READ, STOP, SUCCESS, engine

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "verify_journal.py"
TABLES = ("specs", "transitions", "payloads", "documents")


def load_script() -> ModuleType:
    """Return the script as a module, without running it."""
    spec = importlib.util.spec_from_file_location("verify_journal", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


VERIFIER = load_script()


def by_script(path: Path, heads: Path | str = "") -> tuple[int, list[str]]:
    """Return exit code and printed lines of the script."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = VERIFIER.main(str(path), str(heads))
    return code, printed.getvalue().splitlines()


def by_package(path: Path) -> list[Defect]:
    """Return the defects that the package finds."""
    with Journal(path, read_only=True) as journal:
        return journal.verify()


@contextlib.contextmanager
def altered(path: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection that may write anything that SQLite can store, and close the file afterwards."""
    connection = writable(sqlite3.connect(path, isolation_level=None))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute("PRAGMA synchronous = OFF")
    try:
        yield connection
    finally:
        connection.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the bytes of a journal with four runs: documents of all kinds, errors, one that waits, one in doubt."""
    folder = tmp_path_factory.mktemp("small")
    for name in ("documents", "tool_error", "in_doubt_done"):
        with BY_NAME[name].engine(folder, ids=SeededIds(name)) as scripted:
            play(BY_NAME[name], scripted)
    with BY_NAME["approved"].engine(folder, ids=SeededIds("approved")) as scripted:
        assert scripted.run("Send").status == "waiting"
    return (folder / JOURNAL).read_bytes()


@pytest.fixture
def path(small: bytes, tmp_path: Path) -> Path:
    """Return a copy of it that may be changed."""
    path = tmp_path / JOURNAL
    path.write_bytes(small)
    return path


# -- what holds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_every_journey_holds(journey: Journey, tmp_path: Path) -> None:
    """Both find nothing, also while the engine still has the file open."""
    with journey.engine(tmp_path) as scripted:
        play(journey, scripted)
        assert scripted.journal.verify() == []
        assert by_script(tmp_path / JOURNAL) == (0, [f"{tmp_path / JOURNAL}: no defects"])
    assert by_package(tmp_path / JOURNAL) == []
    assert by_script(tmp_path / JOURNAL)[0] == 0
    assert [item.name for item in tmp_path.iterdir()] == [JOURNAL]


def test_an_empty_journal_holds(tmp_path: Path) -> None:
    """As does one whose only run has no row yet."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        assert scripted.journal.verify() == []
        next(scripted.stream("Read", documents=[("a.txt", "a")], on_close="stop"))
    assert by_package(tmp_path / JOURNAL) == []
    assert by_script(tmp_path / JOURNAL)[0] == 0


def test_verifying_while_another_process_writes(tmp_path: Path) -> None:
    """Both see one moment, whatever is committed meanwhile."""
    program = (
        "import sys; from pathlib import Path; from tests.support.worlds import *; from paor.testing import RandomIds\n"
        "with engine(Path(sys.argv[1]), [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS], ids=RandomIds()) as scripted:\n"
        "    while not Path(sys.argv[1], 'stop').exists():\n"
        "        scripted.run('Read')\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=SCRIPT.parent.parent)
    try:
        while not (tmp_path / JOURNAL).exists():
            assert writer.poll() is None
        found: list[Any] = []
        while len(found) < 8:
            with contextlib.suppress(Exception):  # the file is there before its schema is
                found.append((by_package(tmp_path / JOURNAL), by_script(tmp_path / JOURNAL)[0]))
        assert found == [([], 0)] * 8
    finally:
        (tmp_path / "stop").touch()
        assert writer.wait(60) == 0
    assert by_package(tmp_path / JOURNAL) == []


def test_the_script_keeps_its_promises() -> None:
    """At most 190 lines with signed heads, nothing but the standard library, and nothing of the package."""
    text = SCRIPT.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 190
    imported = set(re.findall(r"(?m)^(?:import|from) (\w+)", text))
    assert imported <= set(sys.stdlib_module_names)


def test_the_scripts_exit_codes(path: Path, tmp_path: Path) -> None:
    """0, 4 and 2, in a process of its own, without the package at hand."""

    def run(*arguments: str | Path) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-I", SCRIPT, *arguments], capture_output=True, text=True, check=False, cwd="/"
        )
        return done.returncode, done.stdout + done.stderr

    (tmp_path / "text").write_text("Dear diary")
    sqlite3.connect(tmp_path / "foreign.db").execute("CREATE TABLE t (x)").connection.close()
    assert run(path) == (0, f"{path}: no defects\n")
    for wrong in (
        [],
        [tmp_path / "text"],
        [tmp_path / "foreign.db"],
        [tmp_path / "none"],
        [tmp_path],
        [path, path],
    ):
        code, output = run(*wrong)
        assert (code, "Traceback" in output, "usage: verify_journal.py FILE [HEADS]" in output) == (
            2,
            False,
            True,
        )
    assert not (tmp_path / "none").exists()
    with altered(path) as connection:
        connection.execute("UPDATE transitions SET step = step + 1 WHERE run = 2 AND seq = 3")
    code, output = run(path)
    assert code == 4
    assert re.search(
        r"(?m)^run [-0-9a-f]+, transitions seq 3: the row does not fit its hash or the row before$", output
    )


# -- every column --------------------------------------------------------------------------------------------------


def assert_found(path: Path, place: str, what: object) -> None:
    """Assert that package and script both name *place*."""
    found = [f"{defect.place}: {defect.problem}" for defect in by_package(path)]
    assert any(re.match(place, text) for text in found), (what, place, found)
    code, lines = by_script(path)
    assert code == 4, (what, lines)
    lines = [re.sub(rf"^run .*?, (?={'|'.join(TABLES)}|erasures|view)", "", line) for line in lines]
    assert any(re.match(place, line) for line in lines), (what, place, lines)


# -- rows ----------------------------------------------------------------------------------------------------------


def test_a_lease_of_no_run_and_a_run_without_lease_are_told(path: Path) -> None:
    """No proof of anything, but nothing that paor writes."""
    with altered(path) as connection:
        connection.execute("UPDATE leases SET run = 9 WHERE run = 2")
    assert [str(defect) for defect in by_package(path)] == [
        "leases run 9: there is no such run in specs",
        "specs run 2: there is no such run in leases",
    ]


# -- payloads ------------------------------------------------------------------------------------------------------


def test_a_payload_forged_with_its_own_digest_is_found(path: Path, small: bytes) -> None:
    """The attacker who recomputes salt and digest of a payload: every one is referred to from elsewhere."""
    with altered(path) as connection:
        keys = connection.execute("SELECT id, n, media_type FROM payloads").fetchall()
    for key, number, media_type in keys:
        path.write_bytes(small)
        with altered(path) as connection:
            body = '{"forged": true}'
            connection.execute(
                "UPDATE payloads SET body = ?, salt = ?, digest = ? WHERE id = ?",
                (body, bytes(16).hex(), salted_digest(bytes(16), body, media_type).hex(), key),
            )
        assert_found(path, rf"(payloads n {number}|documents number \d+)\b", number)


def test_documents_of_a_call_that_was_not_observed_yet_are_held_against_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows come with the next transition; forged with their own digest they are found all the same."""
    path = tmp_path / JOURNAL
    monkeypatch.setattr(loop, "_at_once", lambda drive, row: None)
    with BY_NAME["documents"].engine(tmp_path) as scripted:
        for event in scripted.stream("Go", **BY_NAME["documents"].run, on_close="stop"):
            if getattr(event, "trigger", "") == "execute":
                break
        (row,) = scripted.journal.runs()
        result = scripted.journal.reader.change(1, scripted.journal.reader.rows(1)[-1][9]).result
        assert row.state == "Observing" and result and scripted.journal.verify() == []
    whole = path.read_bytes()
    for document in result.documents:
        path.write_bytes(whole)
        with altered(path) as connection:
            digest = salted_digest(bytes(16), "forged", "text/plain")
            connection.execute(
                "UPDATE payloads SET body = 'forged', salt = ?, digest = ?, media_type = 'text/plain' WHERE n = ?",
                (bytes(16).hex(), digest.hex(), document.payload.n),
            )
        assert_found(path, rf"payloads n {document.payload.n}\b", document)


@pytest.mark.parametrize(
    "body",
    [
        '{"result": {"documents": [{"number": "x", "payload": {"n": 1}}]}}',
        '{"result": {"documents": [{"number": 3, "payload": {"n": -1}}]}}',
        '{"result": {"documents": [7]}}',
        '{"result": {"documents": 7}}',
        '{"result": 7}',
        "[]",
        "no json",
    ],
)
def test_a_result_that_cannot_be_read_is_a_defect_and_no_crash(body: str, path: Path) -> None:
    """Its own digest tells that it was changed; what it said of documents is not known any more."""
    with altered(path) as connection:
        (number,) = connection.execute(
            "SELECT change ->> '$.n' FROM transitions WHERE run = 1 AND \"trigger\" = 'execute'"
        ).fetchone()
        connection.execute("UPDATE payloads SET body = ? WHERE run = 1 AND n = ?", (body, number))
    assert_found(path, rf"payloads n {number}\b", body)
    assert not [defect for defect in by_package(path) if defect.place.startswith("documents")]


VALUES = (b"\0\xff", 1.5, None, -1, "text", 2**62)
"""Of every type that SQLite knows."""


@pytest.mark.whole
@pytest.mark.parametrize("hidden", [False, True], ids=["seen", "hidden"])
@pytest.mark.parametrize("table", ("specs", "rows", "texts", "documents"))
def test_a_value_of_another_type_is_a_defect_and_no_crash(
    table: str, hidden: bool, small: bytes, tmp_path: Path
) -> None:
    """The schema is text in the file: the checks of its types can be taken away, and put back afterwards."""
    path = tmp_path / JOURNAL
    path.write_bytes(small)
    strict, loose = _schema_of(path, table)
    names = re.findall(r'^  "?(\w+)"? (?=[A-Z])', strict, re.MULTILINE)
    assert len(names) > 4
    for name in names:
        for value in VALUES:
            path.write_bytes(small)
            _reschema(path, table, loose)
            with altered(path) as connection:
                row = f'SELECT rowid FROM {table} WHERE typeof("{name}") <> ? ORDER BY rowid DESC LIMIT 1'
                kind = connection.execute("SELECT typeof(?)", (value,)).fetchone()
                try:
                    changed = f'UPDATE {table} SET "{name}" = ? WHERE rowid = ({row})'
                    if connection.execute(changed, (value, *kind)).rowcount < 1:
                        continue
                except sqlite3.Error:  # a key is a whole number whatever the schema says
                    continue
            if hidden:
                _reschema(path, table, strict)
            defects = [str(defect) for defect in by_package(path)]
            assert defects, (name, value)
            assert hidden or f"table {table}: its schema was changed: it is not STRICT" in defects
            code, lines = by_script(path)
            assert code == 4, (name, value, lines)


def _schema_of(path: Path, table: str) -> tuple[str, str]:
    """Return how the table was made, and the same without any check of what is in it."""
    with altered(path) as connection:
        query = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?"
        strict = str(connection.execute(query, (table,)).fetchone()[0])
    loose = strict.replace(") STRICT", ")").replace(" NOT NULL", "")
    return strict, re.sub(r" (INTEGER|TEXT)(?! PRIMARY)", " ANY", loose)


def _reschema(path: Path, table: str, sql: str) -> None:
    with altered(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?", (sql, table))


@pytest.mark.parametrize("count", ["one", "all", "results"])
def test_erased_payloads_still_verify(count: str, path: Path, small: bytes) -> None:
    """Salt and body NULL, and a record: by design, since no free text is under the hash."""
    with altered(path) as connection:
        keys = [key for (key,) in connection.execute("SELECT id FROM payloads")]
        if count == "results":
            erase_by_hand(connection, "media_type = 'application/json'")
        elif count == "all":
            erase_by_hand(connection)
    if count != "one":
        assert by_package(path) == [] and by_script(path)[0] == 0
        with altered(path) as connection:
            connection.execute("UPDATE documents SET digest = upper(digest) WHERE run = 1 AND number = 2")
        assert_found(path, r"(documents number 2|payloads n \d+)\b", "documents")
        return
    for key in keys:
        path.write_bytes(small)
        with altered(path) as connection:
            erase_by_hand(connection, "id = ?", key)
        assert by_package(path) == [] and by_script(path)[0] == 0, key


@pytest.mark.parametrize("column", ["salt", "body"])
def test_a_payload_that_is_half_erased_is_found(column: str, path: Path) -> None:
    """Neither whole nor erased."""
    with altered(path) as connection:
        connection.execute(f"UPDATE payloads SET {column} = NULL WHERE run = 1 AND n = 4")
    assert_found(path, r"payloads n 4\b", column)


def test_a_payload_that_was_erased_without_a_record_is_found(path: Path) -> None:
    """Nobody erases unseen; and a record of what is still there is a lie."""
    with altered(path) as connection:
        connection.execute("UPDATE payloads SET body = NULL, salt = NULL WHERE run = 1 AND n = 4")
    assert_found(path, r"payloads n 4\b", "payloads")


@pytest.mark.parametrize(
    "change",
    [
        "at = at + 1",
        "reason = 'T-1'",
        "payloads = '[[4,5]]'",
        """rule = '{"by":"run"}'""",
        "hash = x'00'",
        "id = id + 1, number = number + 1",
    ],
)
def test_a_record_of_an_erasure_cannot_be_changed_unseen(change: str, path: Path) -> None:
    """Records are chained from the root hash of their run."""
    with altered(path) as connection:
        erase_by_hand(connection, "run = 1 AND n = 4")
        connection.execute(f"UPDATE erasures SET {change}")
    assert_found(path, r"(erasures number \d|payloads n \d+)\b", change)


def test_a_record_of_an_erasure_cannot_be_removed_unseen(path: Path) -> None:
    """What it told of is gone, and nothing says why."""
    with altered(path) as connection:
        erase_by_hand(connection, "run = 1 AND n = 4")
        connection.execute("DELETE FROM erasures")
    assert_found(path, r"payloads n 4\b", "erasures")


def test_erasing_a_file_leaves_no_text_of_it_behind(path: Path) -> None:
    """What is in rows says nothing about what was said: after VACUUM the texts are nowhere in the file."""
    with altered(path) as connection:
        connection.execute("UPDATE payloads SET body = NULL, salt = NULL")
        connection.execute("VACUUM")
    data = path.read_bytes()
    for said in (b"drawing", b"torn out", b"Journey", b"supplier", b"the script says"):
        assert said not in data


# -- the attacker who rehashes -------------------------------------------------------------------------------------


def rehash(connection: sqlite3.Connection, run: int) -> None:
    """Recompute root and chain of a run, as somebody would who knows the format."""
    connection.row_factory = sqlite3.Row
    spec = connection.execute("SELECT * FROM specs WHERE run = ?", (run,)).fetchone()
    head = root_hash({name: spec[name] for name in ROOT_COLUMNS})
    connection.execute("UPDATE specs SET root_hash = ? WHERE run = ?", (head, run))
    for key, text in connection.execute(
        'SELECT id, "row" FROM rows WHERE id >> 32 = ? ORDER BY id', (run,)
    ).fetchall():
        head = sha256(head + text.encode()).digest()
        connection.execute("UPDATE rows SET hash = ? WHERE id = ?", (head, key))


REHASHED: dict[str, tuple[str, str]] = {
    "a transition that the table does not have": (
        "UPDATE transitions SET \"trigger\" = 'finish' WHERE run = 1 AND seq = 2",
        "finish from Executing to Observing is not in the table",
    ),
    "a phase that the row before did not lead to": (
        "UPDATE transitions SET source = 'Reviewing', \"trigger\" = 'proceed', dest = 'Planning' WHERE run = 1 AND seq = 2",
        "proceed from Reviewing to Planning is not in the table here",
    ),
    "a counter that falls": (
        "UPDATE transitions SET tokens_in = 0 WHERE run = 1 AND seq = 5",
        "a counter that only rises has fallen",
    ),
    "a reference to another digest": (
        'UPDATE transitions SET outcome = replace(outcome, \'"digest":"\', \'"digest":"0\') WHERE run = 1 AND seq = 0',
        "its digest is not the one that is referred to",
    ),
    "a reference with another size": (
        "UPDATE transitions SET outcome = replace(outcome, '\"bytes\":', '\"bytes\":1') WHERE run = 1 AND seq = 0",
        "its size is not the one that is referred to",
    ),
    "a payload with two digests": (
        (
            "UPDATE transitions SET request = json_set(request, '$.extra', json_object('n', 2, 'digest', 'x'),"
            " '$.more', json_object('n', 2, 'digest', 'y')) WHERE run = 2 AND seq = 0"
        ),
        "payload 2 is named with two digests",
    ),
    "a payload with two sizes": (
        (
            "UPDATE transitions SET request = json_set(request, '$.extra', json_object('n', 2, 'bytes', 1),"
            " '$.more', json_object('n', 2, 'bytes', 2)) WHERE run = 2 AND seq = 0"
        ),
        "payload 2 is named with two sizes",
    ),
    "a payload that is not there": (
        "UPDATE transitions SET request = json_set(request, '$.payloads', json_array(9999, 'x')) WHERE run = 2 AND seq = 3",
        "is referred to and missing",
    ),
    "a change of another row": (
        "UPDATE transitions SET change = json_set(change, '$.n', 4) WHERE run = 1 AND seq = 3",
        "its change is not a payload of its own",
    ),
    "a change without a number": (
        'UPDATE transitions SET change = \'{"n": "x"}\' WHERE run = 1 AND seq = 3',
        "its change is not a payload of its own",
    ),
    "a column that is no JSON": (
        "UPDATE transitions SET guards = 'guards' WHERE run = 1 AND seq = 3",
        "the row cannot be read",
    ),
    "counters that are no JSON at the end": (
        "UPDATE transitions SET counters = 'x' WHERE run = 2 AND seq = 10",
        "counters is not a JSON object",
    ),
    "a row after the end": (
        (
            'INSERT INTO transitions SELECT id + 1, run, seq + 1, at, "trigger", dest, source, guards, request, outcome,'
            " json_set(change, '$.n', 9999), step, action, retries, tokens_in, tokens_out, cost_micro, time_us, counters, prev_hash, hash, made"
            " FROM transitions WHERE run = 2 AND seq = (SELECT max(seq) FROM transitions WHERE run = 2)"
        ),
        "is not in the table here",
    ),
}


@pytest.mark.parametrize("what", REHASHED)
def test_a_recomputed_chain_does_not_hide_what_cannot_be(what: str, path: Path) -> None:
    """What a chain cannot prove, the table, the references and the counters can; replay knows the rest."""
    statement, problem = REHASHED[what]
    with altered(path) as connection:
        before = connection.execute('SELECT id, "row" FROM rows').fetchall()
        connection.execute(statement)
        assert connection.execute('SELECT id, "row" FROM rows').fetchall() != before
        for run in (1, 2):
            rehash(connection, run)
    found = [defect.problem for defect in by_package(path)]
    assert any(problem in text for text in found), found
    assert "the row does not fit its hash or the row before" not in found


def test_rows_that_only_ask_for_payloads_by_number_may_come_first(path: Path) -> None:
    """A number without digest claims nothing."""
    with altered(path) as connection:
        connection.execute(
            "UPDATE transitions SET request = json_set(request, '$.extra', json_object('n', 2)) WHERE run = 2 AND seq = 0"
        )
        rehash(connection, 2)
    assert by_package(path) == []


# -- the file ------------------------------------------------------------------------------------------------------


def test_tables_of_others_are_no_defect(path: Path) -> None:
    """Somebody may keep notes beside the journal, or an index."""
    with altered(path) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
        connection.execute("CREATE INDEX by_time ON rows (hash)")
    assert by_package(path) == [] and by_script(path)[0] == 0


@pytest.mark.parametrize("seed", range(8))
def test_a_torn_file_is_a_defect_and_no_crash(seed: int, small: bytes, tmp_path: Path) -> None:
    """Pages overwritten with noise: whatever SQLite says of it, it is said."""
    chance = random.Random(seed)
    path = tmp_path / JOURNAL
    size = int.from_bytes(small[16:18], "big")
    data = bytearray(small)
    page = chance.randrange(1, len(small) // size)
    data[page * size : page * size + 300] = chance.randbytes(300)
    path.write_bytes(bytes(data))
    with contextlib.suppress(JournalDamaged):  # the schema is more than the first page
        defects = by_package(path)
        assert defects and all(isinstance(str(defect), str) for defect in defects)
    assert by_script(path)[0] == 4


def test_a_file_that_was_cut_off_is_a_defect(path: Path, small: bytes) -> None:
    """The last page is missing."""
    path.write_bytes(small[:-8192])
    with pytest.raises(JournalDamaged, match="run: paor verify"):
        by_package(path)
    assert by_script(path)[0] == 4


# -- what a chain cannot show --------------------------------------------------------------------------------------


def remove_tail(path: Path, run: int, seq: int) -> None:
    """Remove the rows of a run from *seq* on, with everything that came with them."""
    with altered(path) as connection:
        (count,) = connection.execute(
            "SELECT change ->> '$.n' FROM transitions WHERE run = ? AND seq = ?", (run, seq - 1)
        ).fetchone()
        (documents,) = connection.execute(
            "SELECT sum(outcome ->> '$.documents') FROM transitions WHERE run = ? AND seq < ?", (run, seq - 1)
        ).fetchone()
        inputs = connection.execute(
            "SELECT count(*) FROM documents WHERE run = ? AND label LIKE '%_input'", (run,)
        )
        connection.execute("DELETE FROM transitions WHERE run = ? AND seq >= ?", (run, seq))
        connection.execute("DELETE FROM payloads WHERE run = ? AND n > ?", (run, count))
        first = (documents or 0) + inputs.fetchone()[0]
        connection.execute("DELETE FROM documents WHERE run = ? AND number >= ?", (run, first))


def test_a_consistent_tail_or_a_whole_run_needs_an_exported_head(path: Path) -> None:
    """What docs/journal-format.md says that no chain can show: this is why `export` ends with the head."""
    with Journal(path, read_only=True) as journal:
        row = next(row for row in journal.runs() if row.run == 1)
        *_, head = journal.export(row.run_id)
    remove_tail(path, 1, 5)
    assert by_package(path) == [] and by_script(path)[0] == 0
    with Journal(path, read_only=True) as journal:
        now = journal.run(row.run_id)
        assert (now.head_seq, now.head_hash.hex()) != (head["head_seq"], head["head_hash"])
    with altered(path) as connection:
        for table in (*TABLES, "leases"):
            connection.execute(f"DELETE FROM {table} WHERE run = 2")
    assert by_package(path) == [] and by_script(path)[0] == 0


def test_a_copy_of_a_journal_holds_as_well(path: Path, tmp_path: Path) -> None:
    """Nothing in it depends on where it stands."""
    (tmp_path / "else where").mkdir()
    copy = tmp_path / "else where" / "a #1 %20.db"
    shutil.copy(path, copy)
    assert by_package(copy) == [] and by_script(copy)[0] == 0
    with Journal(tmp_path / "backup.db", "off") as target, Journal(path) as source:
        file_of(source).connection.backup(file_of(target).connection)
        assert target.verify() == []


# -- what is erased is counted, and what stands beside the file ----------------------------------------------------


@pytest.fixture
def erased(tmp_path: Path) -> Path:
    """Return a journal whose run, with input documents and outputs, was erased."""
    with BY_NAME["documents"].engine(tmp_path, ids=SeededIds("documents")) as scripted:
        result = play(BY_NAME["documents"], scripted)
        assert len(scripted.journal.documents(result.run_id)) > len(result.documents) > 0
        scripted.journal.erase(result.run_id)
    assert by_package(tmp_path / JOURNAL) == [] and by_script(tmp_path / JOURNAL)[0] == 0
    return tmp_path / JOURNAL


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("DELETE FROM documents WHERE number = 0", "documents number 0"),
        ("DELETE FROM documents WHERE number = (SELECT max(number) FROM documents)", "documents number"),
        ("DELETE FROM documents", "documents number 0"),
        (
            """INSERT INTO documents SELECT id + 1, run, number + 1, label, position, name, mime, bytes, digest, payload
            FROM documents ORDER BY number DESC LIMIT 1""",
            "documents number",
        ),
        ("UPDATE documents SET label = 'round9_task9_action9_x' WHERE number = 0", "documents number 0"),
        (
            "UPDATE documents SET label = 'x' WHERE number = (SELECT max(number) FROM documents)",
            "documents number",
        ),
        ("UPDATE documents SET position = 7 WHERE number = 0", "documents number 0"),
        ("UPDATE documents SET payload = -34 WHERE number = 0", "documents number 0"),
    ],
    ids=["input gone", "output gone", "all gone", "one more", "input label", "label", "position", "payload"],
)
def test_after_an_erasure_documents_are_still_counted(change: str, place: str, erased: Path) -> None:
    """Their number and labels are in the hashed rows; one that is removed, inserted or moved is found by both."""
    with altered(erased) as connection:
        assert connection.execute(change).rowcount > 0
    assert_found(erased, place, change)


def test_an_erased_run_without_rows_holds(tmp_path: Path) -> None:
    """Nothing hashed counts its inputs yet."""
    with BY_NAME["documents"].engine(tmp_path, ids=SeededIds("documents")) as scripted:
        stream = scripted.stream("Read", documents=[("a.txt", "text of a document")], on_close="stop")
        next(stream)
        run_id = scripted.journal.runs()[0].run_id
        del stream
        scripted.journal.erase(run_id, force=True)
    assert by_package(tmp_path / JOURNAL) == [] and by_script(tmp_path / JOURNAL)[0] == 0


def test_a_rollback_journal_beside_the_file_is_told(path: Path) -> None:
    """SQLite would put its pages into the file when it is opened next, and then it says something else."""
    good = path.read_bytes()
    forged = path.with_name("forged.db")
    forged.write_bytes(good)
    with altered(forged) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        (before,) = connection.execute("SELECT tokens_in FROM transitions WHERE seq = 2").fetchone()
        connection.execute("UPDATE transitions SET tokens_in = 999999 WHERE seq = 2")
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE transitions SET tokens_in = ? WHERE seq = 2", (before,))
        connection.execute("CREATE TABLE filling AS SELECT randomblob(900000) AS pages")
        path.with_name(f"{JOURNAL}-journal").write_bytes(forged.with_name("forged.db-journal").read_bytes())
        connection.execute("ROLLBACK")
    assert_found(path, "file: ", "rollback journal")
    assert path.read_bytes() == good and path.with_name(f"{JOURNAL}-journal").exists()


def test_an_index_of_others_that_refuses_rows_is_a_defect(path: Path) -> None:
    """With it, a second lease for the same owner could not be written; an index that only finds is theirs."""
    with altered(path) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
        connection.execute("CREATE UNIQUE INDEX one_note ON notes (text)")
        connection.execute("CREATE INDEX by_owner ON leases (owner)")
        assert by_package(path) == []
        connection.execute("CREATE UNIQUE INDEX one_run_each ON leases (cancel, run)")
    assert [str(item) for item in by_package(path)] == [
        "index one_run_each: refuses rows of leases that are right; only the journal's own may be UNIQUE"
    ]
