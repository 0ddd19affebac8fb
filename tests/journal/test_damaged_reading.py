"""Reading a journal that somebody has changed: one error that says so, never what Python makes of the wrong value."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from paor import Journal, diagram, diff, replay, why
from paor.errors import JournalDamaged

from ..support.forging import writable
from ..support.inside import run_line

GOLDEN = Path(__file__).parents[1] / "fixtures" / "journals" / "schema3.db"
LOOSE = (
    "UPDATE sqlite_master SET sql = replace(replace(sql, ' NOT NULL', ''), 'STRICT', '') WHERE type = 'table'"
)
RUN = "SELECT run FROM erasures ORDER BY id LIMIT 1"
"""One with an erasure, so that it has rows in every table."""
Look = Callable[[Journal, str], object]


def changed(path: Path, *statements: str) -> str:
    """Write a copy of the golden journal to which SQL was done, its schema loosened; return the id of the run it was done to."""
    path.write_bytes(GOLDEN.read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(LOOSE)
    with closing(writable(sqlite3.connect(path, isolation_level=None))) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            before = connection.total_changes
            connection.execute(statement)
            assert connection.total_changes > before
        return str(connection.execute(f"SELECT run_id FROM specs WHERE run = ({RUN})").fetchone()[0])


def drawn(journal: Journal, run_id: str) -> object:
    """Draw what a run did."""
    return diagram(journal, run_id)


def exported(journal: Journal, run_id: str) -> object:
    """Export a run to its end."""
    return list(journal.export(run_id))


def compared(journal: Journal, run_id: str) -> object:
    """Compare a run with another one."""
    return diff(journal, run_id, next(run.run_id for run in journal.runs() if run.run_id != run_id))


@pytest.mark.parametrize(
    ("look", "statement"),
    [
        (exported, f"UPDATE payloads SET digest = NULL WHERE run = ({RUN})"),
        (exported, f"UPDATE transitions SET hash = 7 WHERE run = ({RUN})"),
        (Journal.transitions, f"UPDATE transitions SET guards = NULL WHERE run = ({RUN})"),
        (drawn, f"UPDATE transitions SET source = NULL WHERE run = ({RUN}) AND seq = 0"),
        (exported, f"UPDATE rows SET texts = '[7]' WHERE id >> 32 = ({RUN})"),
        (Journal.transitions, f"UPDATE rows SET \"row\" = '{{}}' WHERE id >> 32 = ({RUN})"),
        (Journal.spec, f"UPDATE payloads SET salt = 'x', body = 'y' WHERE run = ({RUN})"),
        (why, f"DELETE FROM transitions WHERE run = ({RUN}) AND seq = 1"),
        (compared, f"UPDATE transitions SET change = '{{}}' WHERE run = ({RUN})"),
        (replay, f"UPDATE erasures SET payloads = 'x' WHERE run = ({RUN})"),
        (replay, f"UPDATE transitions SET hash = 7 WHERE run = ({RUN})"),
    ],
)
def test_a_value_of_another_kind_is_damage_that_names_the_run(
    look: Look, statement: str, tmp_path: Path
) -> None:
    """Of a column that the schema would have kept right, or of a row that is missing."""
    run_id = changed(tmp_path / "runs.db", statement)
    with Journal(tmp_path / "runs.db", read_only=True) as journal, pytest.raises(JournalDamaged) as raised:
        look(journal, run_id)
    assert run_id in str(raised.value) or "source" in str(raised.value)
    assert "paor verify" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("request_text", "guards", "refused"),
    [
        ('["tool"]', "{}", 0),
        ('"tool"', "{}", 0),
        ('{"tool":["x"]}', '{"action_allowed": false}', 1),
    ],
)
def test_a_list_of_runs_takes_what_it_can_read_and_names_the_run_otherwise(
    request_text: str, guards: str, refused: int | None, tmp_path: Path
) -> None:
    """Of the rows of calls; never an error of Python's own."""
    path = tmp_path / "runs.db"
    run_id = changed(path, f"UPDATE transitions SET guards = '{{}}' WHERE run = ({RUN}) AND seq = 0")
    with Journal(path, read_only=True) as journal:
        before = run_line(journal.reader, journal.run(run_id))
    with closing(writable(sqlite3.connect(path, isolation_level=None))) as connection:
        where = f"run = ({RUN}) AND seq = 0"
        connection.execute(
            f"UPDATE transitions SET request = ?, guards = ? WHERE {where}", (request_text, guards)
        )
    with Journal(path, read_only=True) as journal:
        row = journal.run(run_id)
        if refused is None:
            with pytest.raises(JournalDamaged, match=run_id):
                run_line(journal.reader, row)
        else:
            line = run_line(journal.reader, row)
            assert line["refused"] - before["refused"] == refused and "x" not in line["tools"]


def test_a_reader_of_rows_does_not_go_round_in_circles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that were put into each other's place can give an earlier key after a later one."""
    with Journal(GOLDEN, read_only=True) as journal:
        reader = journal.reader
        found = reader.source.query
        monkeypatch.setattr(reader.source, "query", lambda sql, values: found(sql, (1 << 32, *values[1:])))
        for rows in (reader.iterate_rows(1, 1), reader.iterate_payloads(1, 1)):
            with pytest.raises(JournalDamaged, match="keys are not in order"):
                for _ in zip(rows, range(9), strict=False):
                    pass


def test_a_run_whose_number_makes_no_keys_is_damage(tmp_path: Path) -> None:
    """SQLite takes no number as large as the keys of its rows would be."""
    changed(tmp_path / "runs.db")
    with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as connection:
        connection.execute(f"UPDATE specs SET run = {2**62} WHERE run = ({RUN})")
    with Journal(tmp_path / "runs.db", read_only=True) as journal:
        run_id = next(run.run_id for run in journal.runs() if run.run == 2**62)
        for look in (Journal.run, Journal.erasures, Journal.transitions, exported):
            with pytest.raises(JournalDamaged, match=f"{run_id}: its number .* is out of range"):
                look(journal, run_id)


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ("dest = 'Failed', counters = json_set(counters, '$.stop', 7)", "reason"),
        ("hash = NULL", "head_hash"),
    ],
)
def test_a_run_whose_columns_are_of_another_kind_is_damage(tmp_path: Path, change: str, column: str) -> None:
    """A page of another table read as rows has anything anywhere; a list and a diagram take these as they are typed."""
    last = f"(SELECT max(id) FROM transitions WHERE run = ({RUN}))"
    run_id = changed(tmp_path / "runs.db", f"UPDATE transitions SET {change} WHERE id = {last}")
    with Journal(tmp_path / "runs.db", read_only=True) as journal:
        for look in (lambda: journal.run(run_id), lambda: journal.transitions(run_id), journal.runs):
            with pytest.raises(JournalDamaged, match=f"{run_id}'?: its {column} cannot be read"):
                look()


def test_a_schema_that_is_no_text_is_damage(tmp_path: Path) -> None:
    """SQLite quotes it in its error, which Python cannot decode."""
    broken = GOLDEN.read_bytes().replace(b"CREATE TABLE documents", b"CREATE T\xffBLE documents")
    (tmp_path / "runs.db").write_bytes(broken)
    with pytest.raises(JournalDamaged, match="is damaged"):
        Journal(tmp_path / "runs.db", read_only=True)
