"""A page of many runs costs one pass over the journal, and is never in memory as a whole."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Journal, Limits, ScriptedModel, replay, report

from ..support.forging import forge
from ..support.worlds import CONTINUE, JOURNAL, READ, SELECT, STOP, SUCCESS, engine
from .inside import (
    Known,
    PayloadWindow,
    ReadAhead,
    RunDefects,
    SqliteSource,
    Transition,
    prompt_places,
    report_texts,
    run_defects,
)

FEW, MANY = 10, 60


def recorded(folder: Path, runs: int) -> Path:
    """Record so many runs of two calls and a fork of the first one; return the journal."""
    folder.mkdir(exist_ok=True)
    with engine(folder, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as host:
        ids = [host.run(f"Read both pages for reader {number}").run_id for number in range(runs)]
        host.model = ScriptedModel([SELECT("notes.none")] * 9)
        host.fork(ids[0], 4)
    return folder / JOURNAL


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a journal with `MANY` runs and a fork."""
    return recorded(tmp_path_factory.mktemp("many"), MANY)


# -- one pass -------------------------------------------------------------------------------------------------------


def asked_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Return how many statements and scans a page of all runs takes, and how many rows they give."""
    asked = rows = 0

    def counted(name: str) -> None:
        kept = getattr(SqliteSource, name)

        def query(self: SqliteSource, *values: Any) -> Any:
            nonlocal asked, rows
            asked += 1
            found = kept(self, *values)
            rows += len(found) if isinstance(found, list) else 0
            return found

        monkeypatch.setattr(SqliteSource, name, query)

    counted("query")
    counted("scan")
    with Journal(path, read_only=True) as opened:
        assert report(opened)
    monkeypatch.undo()
    return asked, rows


def test_a_page_of_many_runs_takes_no_statement_a_run(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table is read from its beginning to its end, for the list, for the runs and for their verification: a few times, however many runs there are."""
    few, _ = asked_for(recorded(tmp_path, FEW), monkeypatch)
    many, rows = asked_for(journal, monkeypatch)
    assert many - few < MANY - FEW  # a page of payloads is two statements
    with closing(sqlite3.connect(journal)) as connection:
        tables = ("specs", "transitions", "payloads", "documents")
        there = sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)
    assert rows <= 3 * there


def test_a_page_comes_in_pieces_and_has_each_machine_once(journal: Path) -> None:
    """The pieces are the page; none holds more than one part, and the drawing of the machine that all runs walk is one of them."""
    with Journal(journal, read_only=True) as opened:
        pieces = list(report_texts(opened))
        assert "".join(pieces) == report(opened)
    assert max(piece.count("data-part=") for piece in pieces) == 1
    names = re.findall('data-part="([a-z]+)', "".join(pieces))
    assert [names.count(name) for name in ("index", "machine", "run")] == [1, 1, MANY + 1]


TABLES = ("specs", "rows", "payloads", "documents", "erasures")
PLACES = st.tuples(st.integers(0, MANY + 3), st.integers(0, 60), st.integers(0, 60))


@settings(max_examples=60, deadline=None)
@given(asked=st.lists(st.tuples(st.sampled_from(TABLES), PLACES, st.booleans()), max_size=30))
def test_reading_ahead_gives_what_reading_gives(journal: Path, asked: list[Any]) -> None:
    """In any order, whether one row is asked for, some of a run, or those of several runs."""
    with Journal(journal, read_only=True) as opened, opened.reader.snapshot() as still:
        ahead = ReadAhead(still.source, still.runs())
        for table, (run, first, count), far in asked:
            low, high = (
                (run, run + count)
                if table == "specs"
                else (run << 32 | first, (run + far) << 32 | first + count)
            )
            assert ahead.keyed(table, low, high) == still.keyed(table, low, high)
        for run_id in still.index.ids()[:3] + still.index.ids()[-2:]:
            row = still.run(run_id)
            assert ahead.run(run_id) == row and ahead.lineage(row.run) == still.lineage(row.run)
            assert ahead.spec(run_id) == still.spec(run_id) and ahead.forks(run_id) == still.forks(run_id)
            names = ("step", "trigger", "guards")
            for triggers in ((), ("select", "execute")):
                assert ahead.columns(row.run, names, triggers, 1, 9) == still.columns(
                    row.run, names, triggers, 1, 9
                )


@settings(max_examples=25, deadline=None)
@given(order=st.lists(st.integers(1, MANY + 1), max_size=12))
def test_one_pass_verifies_as_a_pass_for_each_run_does(damaged: Path, order: list[int]) -> None:
    """In any order, with every sixth run changed behind paor's back."""
    with Journal(damaged, read_only=True) as opened, opened.reader.snapshot() as still:
        with closing(RunDefects(still)) as defects:
            found = {run: defects.of(run) for run in order}
        assert found == {run: run_defects(still, run) for run in order}
        assert [run for run in found if found[run] and run != MANY + 1] == [
            run for run in found if run % 6 == 0
        ]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give such a journal of which every sixth run has a row that is not what was written."""
    path = recorded(tmp_path_factory.mktemp("damaged"), MANY)
    with closing(forge(path)) as connection, connection:
        connection.execute("UPDATE transitions SET at = at + 1 WHERE seq = 2 AND run % 6 = 0")
    return path


# -- long runs ------------------------------------------------------------------------------------------------------


class Rows(dict[int, Transition]):
    """Rows that count how often one is looked up."""

    looked = 0

    def __getitem__(self, seq: int) -> Transition:
        self.looked += 1
        return super().__getitem__(seq)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(1, 5)), max_size=40))
def test_a_prompt_is_found_from_the_one_before_it(drawn: list[tuple[int, int, int]]) -> None:
    """Of a conversation that grows and is cut, each prompt costs one look at an earlier row, and is what the whole chain gives."""
    rows, lengths, known = Rows(), [0], Known()
    for seq, (back, kept, new) in enumerate(drawn):
        before = max(0, seq - 1 - back)
        count = min(kept, lengths[before + 1]) if seq else 0
        request = {"prompt": [{"n": 10 * seq + place} for place in range(new)], "roles": "u" * new}
        rows[seq] = _row(seq, request | ({"after": [before, count]} if count else {}))
        lengths.append(count + new)
    for seq in sorted(rows):
        row = dict.__getitem__(rows, seq)
        whole = prompt_places(rows, row)
        rows.looked = 0
        assert prompt_places(rows, row, known) == whole and len(whole) == lengths[seq + 1]
        assert rows.looked <= 1


def test_a_replay_compares_a_message_of_a_conversation_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where requests that show no conversation stand between those that do: twice the steps are twice the messages."""
    compared: list[int] = []
    is_text = PayloadWindow.is_text

    def counted(self: PayloadWindow, payload: Any, *given: Any) -> bool:
        compared.append(payload.n)
        return is_text(self, payload, *given)

    monkeypatch.setattr(PayloadWindow, "is_text", counted)
    counts = []
    for steps in (10, 20, 30):
        folder = tmp_path / str(steps)
        folder.mkdir()
        script = [reply for page in range(steps) for reply in (*READ(page), CONTINUE)]
        with engine(folder, [*script[:-1], STOP, SUCCESS], limits=Limits(max_steps=steps)) as host:
            run = host.run("Read all pages")
            assert run.steps == steps
            compared.clear()
            assert replay(host.journal, run.run_id).identical
        counts.append(len(compared))
    assert counts[2] - counts[1] == counts[1] - counts[0] < 10 * 10


def _row(seq: int, request: dict[str, Any]) -> Transition:
    values: dict[str, Any] = dict.fromkeys(Transition._fields, 0)
    return Transition(**(values | {"run": 1, "seq": seq, "request": request}))
