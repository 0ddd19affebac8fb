"""Import: what comes in proves itself or stays outside; what is here is never changed but by rows that follow."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paor import Journal, replay
from paor.audit import Imported
from paor.errors import JournalConflict, JournalDamaged, JournalError, LeaseHeld, UsageError
from paor.testing import SeededIds

from ..support.forging import forge, writable
from ..support.inside import export_runs, in_order, line_bytes
from ..support.journeys import BY_NAME, JOURNEYS, Journey, play
from ..support.stored import query
from ..support.worlds import CONTINUE, JOURNAL, READ, STOP, SUCCESS, engine

EACH = pytest.mark.parametrize("journey", JOURNEYS, ids=[journey.name for journey in JOURNEYS])
Line = dict[str, Any]


def exported(journal: Journal, *run_ids: str) -> list[bytes]:
    """Return an export as lines of bytes; of all runs unless some are named."""
    return [line_bytes(line) for line in export_runs(journal.reader, run_ids or in_order(journal.reader))]


def everything(path: Path) -> list[tuple[Any, ...]]:
    """Return all that a journal holds."""
    tables = ("specs", "transitions", "payloads", "documents", "erasures")
    return [row for table in tables for row in query(path, f"SELECT * FROM {table}")]


@pytest.fixture
def lines(tmp_path: Path) -> list[bytes]:
    """Return the export of a run with documents of all kinds."""
    (tmp_path / "source").mkdir()
    with BY_NAME["documents"].engine(tmp_path / "source") as scripted:
        run_id = play(BY_NAME["documents"], scripted).run_id
        return exported(scripted.journal, run_id)


@EACH
def test_what_was_exported_is_taken_in_as_it_was(journey: Journey, tmp_path: Path) -> None:
    """Every row, digest and salt, under another number; it verifies, replays and exports to the same bytes."""
    with journey.engine(tmp_path) as scripted:
        run_id = play(journey, scripted).run_id
        text = exported(scripted.journal, run_id)
    with engine(
        tmp_path, [*READ(1), STOP, SUCCESS], journal=Journal(tmp_path / "to.db"), ids=SeededIds("b")
    ) as other:
        other.run("Something else")
        (done,) = other.journal.import_lines(text)
        assert (done.run_id, done.how) == (run_id, "new")
        assert other.journal.run(run_id).run == 2
        assert other.journal.verify() == []
        assert replay(other.journal, run_id).identical
        assert exported(other.journal, run_id) == text
        assert other.journal.import_lines(text) == (Imported(run_id, "known", 0),)


def test_a_waiting_run_goes_on_where_it_was_taken_to(tmp_path: Path) -> None:
    """Nobody holds its lease there."""
    journey = BY_NAME["approved"]
    with journey.engine(tmp_path) as scripted:
        run_id = scripted.run("Send").run_id
        text = exported(scripted.journal, run_id)
    with journey.engine(tmp_path, journal=Journal(tmp_path / "to.db")) as other:
        other.journal.import_lines(text)
        assert other.resume(run_id, answer={"approve": True}).status == "waiting"
        assert other.journal.verify() == []


def test_a_longer_version_adds_the_rows_that_follow_and_a_shorter_one_nothing(tmp_path: Path) -> None:
    """A backup that is brought up to date."""
    journey = BY_NAME["approved"]
    with journey.engine(tmp_path) as scripted, Journal(tmp_path / "to.db") as backup:
        run_id = scripted.run("Send").run_id
        short = exported(scripted.journal, run_id)
        assert backup.import_lines(short)[0].how == "new"
        scripted.resume(run_id, answer={"approve": True})
        long = exported(scripted.journal, run_id)
        (done,) = backup.import_lines(long)
        assert done.how == "extended" and done.transitions == backup.run(run_id).head_seq - 1
        assert backup.verify() == [] and exported(backup, run_id) == long
        assert backup.import_lines(short) == (Imported(run_id, "known", 0),)
        assert exported(backup, run_id) == long


def test_a_run_that_is_driven_is_not_extended(tmp_path: Path) -> None:
    """Its driver would write the same rows."""
    journey = BY_NAME["approved"]
    with journey.engine(tmp_path) as scripted, Journal(tmp_path / "to.db") as backup:
        run_id = scripted.run("Send").run_id
        backup.import_lines(exported(scripted.journal, run_id))
        scripted.resume(run_id, answer={"approve": True})
        fence = backup.store.leases.acquire(1)
        with pytest.raises(LeaseHeld, match="is being driven"):
            backup.import_lines(exported(scripted.journal, run_id))
        backup.store.leases.release(1, fence)
        assert backup.import_lines(exported(scripted.journal, run_id))[0].how == "extended"


def test_what_was_erased_does_not_come_back(tmp_path: Path) -> None:
    """An old export of it changes nothing, nor does it add rows behind what was erased."""
    journey = BY_NAME["approved"]
    path = tmp_path / JOURNAL
    with journey.engine(tmp_path) as scripted, Journal(tmp_path / "to.db") as backup:
        run_id = scripted.run("Send").run_id
        short = exported(scripted.journal, run_id)
        backup.import_lines(short)
        scripted.resume(run_id, answer={"approve": True})
        long = exported(scripted.journal, run_id)
        backup.erase(run_id, force=True)
        before = everything(tmp_path / "to.db")
        assert backup.import_lines(short)[0].how == "known"
        with pytest.raises(JournalConflict, match="not the same parts of it were erased"):
            backup.import_lines(long)
        assert everything(tmp_path / "to.db") == before
        scripted.journal.erase(run_id, force=True)
        gone = exported(scripted.journal, run_id)
    with Journal(tmp_path / "third.db") as third:
        third.import_lines(gone)
        assert third.verify() == [] and exported(third, run_id) == gone
        assert [record.by for record in third.erasures(run_id)] == ["run"]
    assert path.exists()


def test_another_run_under_the_same_id_is_a_conflict(tmp_path: Path) -> None:
    """Started otherwise, or told otherwise from some row on."""
    texts = []
    for name, objective, page in (("a", "Read", 1), ("b", "Read else", 1), ("c", "Read", 2)):
        (tmp_path / name).mkdir()
        with engine(tmp_path / name, [*READ(page), STOP, SUCCESS]) as scripted:
            texts.append(exported(scripted.journal, scripted.run(objective).run_id))
    with Journal(tmp_path / "to.db") as journal:
        journal.import_lines(texts[0])
        before = everything(tmp_path / "to.db")
        for text, told in (
            (texts[1], "was started otherwise"),
            (texts[2], "tells something else up to row 5"),
        ):
            with pytest.raises(JournalConflict, match=told):
                journal.import_lines(text)
        assert everything(tmp_path / "to.db") == before


def test_what_an_import_that_was_undone_had_brought_is_forgotten(tmp_path: Path) -> None:
    """The numbers of its runs go to others, and those are read as what they are: here a fork's goes to a run that is none."""
    texts = {}
    for name, page in (("fork", 1), ("other", 2), ("first", 3), ("second", 4)):
        (tmp_path / name).mkdir()
        with engine(tmp_path / name, [*READ(page), STOP, SUCCESS], ids=SeededIds(name)) as scripted:
            run_id = scripted.run("Read").run_id
            if name == "fork":
                scripted.fork(run_id, 2)
            texts[name] = exported(scripted.journal)
    with Journal(tmp_path / "to.db") as journal:
        journal.import_lines(texts["other"])
        with closing(writable(sqlite3.connect(tmp_path / "to.db", isolation_level=None))) as connection:
            connection.execute("UPDATE transitions SET hash = zeroblob(32) WHERE seq = 5")
        both = [*texts["fork"], *texts["other"][1:]]
        with pytest.raises(JournalConflict):
            journal.import_lines(both)
        for name in ("first", "second"):
            journal.import_lines(texts[name])
            run = journal.runs()[0]
            assert {row.run for row in journal.transitions(run.run_id)} == {run.run}


def test_forks_come_with_the_runs_whose_rows_they_share(tmp_path: Path) -> None:
    """Each run once in an export; and put one after the other, exports are one."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as scripted:
        parent = scripted.run("Read").run_id
        forks = [scripted.fork(parent, seq).run_id for seq in (2, 4)]
        deep = scripted.fork(forks[1], 7).run_id
        text = exported(scripted.journal)
        assert [json.loads(line)["run_id"] for line in text if line.startswith(b'{"line":"run"')].count(
            parent
        ) == 1
        one, two = exported(scripted.journal, deep), exported(scripted.journal, forks[0])
    for number, given in enumerate((text, [*one, *two])):
        with Journal(tmp_path / f"to{number}.db") as journal:
            assert {done.how for done in journal.import_lines(given)} == {"new"}
            assert journal.verify() == [] and len(journal.runs()) == 4
            assert all(replay(journal, row.run_id).identical for row in journal.runs())
            assert exported(journal) == text
    alone = [line for line in one if json.loads(line).get("run_id") != parent]
    first = next(index for index, line in enumerate(one) if json.loads(line).get("run_id") == forks[1])
    with Journal(tmp_path / "alone.db") as journal, pytest.raises(UsageError, match="which it was forked at"):
        journal.import_lines([one[0], *one[first:]])
    assert len(alone) == len(one) - 1


# -- what does not prove itself ----------------------------------------------------------------------------------------


def edited(
    lines: list[bytes], kind: str, change: Callable[[Line], Any], which: int = 0
) -> tuple[list[bytes], int]:
    """Return lines of which one of a kind was changed, and its number."""
    places = [index for index, line in enumerate(lines) if json.loads(line)["line"] == kind]
    line = json.loads(lines[places[which]])
    change(line)
    return [*lines[: places[which]], line_bytes(line), *lines[places[which] + 1 :]], places[which] + 1


DAMAGES: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("run", 0, {"created_at": 7}),
    ("run", 0, {"run_id": "another"}),
    ("payload", 0, {"text": "another text"}),
    ("payload", 2, {"salt": "00" * 16}),
    ("payload", 3, {"media_type": "text/other"}),
    ("payload", 4, {"digest": "00" * 32}),
    ("payload", 5, {"n": 7}),
    ("transition", 0, {"at": 1}),
    ("transition", 1, {"tokens_in": 5}),
    ("transition", 2, {"guards": "{}"}),
    ("transition", 3, {"hash": "00" * 32}),
    ("transition", 4, {"seq": 9}),
    ("document", 1, {"name": "another.txt"}),
    ("head", 0, {"state": "Failed"}),
    ("head", 0, {"head_hash": "00" * 32}),
    ("head", 0, {"head_seq": 3}),
)
MALFORMED: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("header", 0, {"format": "another"}),
    ("header", 0, {"version": 3}),
    ("header", 0, {"version": 0}),
    ("header", 0, {"version": "1"}),
    ("run", 0, {"round": 1.5}),
    ("run", 0, {"run_id": ""}),
    ("run", 0, {"run_id": "a\u001b[2J"}),
    ("run", 0, {"more": 1}),
    ("payload", 0, {"text": None}),
    ("payload", 0, {"salt": None}),
    ("payload", 0, {"salt": "zz"}),
    ("payload", 0, {"base64": "AAAA"}),
    ("payload", 0, {"n": -1}),
    ("payload", 0, {"n": 2**40}),
    ("transition", 0, {"at": 2**63}),
    ("transition", 0, {"guards": {}}),
    ("transition", 0, {"hash": "00" * 32 + "\n"}),
    ("document", 0, {"bytes": "7"}),
    ("head", 0, {"line": "tail"}),
)


@pytest.mark.parametrize(("kind", "which", "change"), DAMAGES)
def test_lines_that_do_not_prove_themselves_are_damage(
    kind: str, which: int, change: Line, lines: list[bytes], tmp_path: Path
) -> None:
    """One line with the number of a line, and nothing of it in the journal."""
    text, number = edited(lines, kind, lambda line: line.update(change), which)
    with Journal(tmp_path / "to.db") as journal:
        with pytest.raises(JournalDamaged, match=r"^line \d+: ") as raised:
            journal.import_lines(text)
        assert "\n" not in str(raised.value)
        if kind in ("payload", "document") or "hash" in change or "at" in change:
            assert str(raised.value).startswith(f"line {number}: ")
        assert everything(tmp_path / "to.db") == []


@pytest.mark.parametrize(("kind", "which", "change"), MALFORMED)
def test_lines_of_another_form_are_refused(
    kind: str, which: int, change: Line, lines: list[bytes], tmp_path: Path
) -> None:
    """The caller's fault, told with the number of the line."""
    text, number = edited(lines, kind, lambda line: line.update(change), which)
    with Journal(tmp_path / "to.db") as journal:
        with pytest.raises(UsageError, match=f"^line {number}: ") as raised:
            journal.import_lines(text)
        assert str(raised.value).isascii() and "\n" not in str(raised.value)
        assert everything(tmp_path / "to.db") == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [], "line 1: there is none"),
        (lambda lines: lines[1:], "line 1: a run line, expected header"),
        (lambda lines: lines[:-1], "ends within a run"),
        (lambda lines: lines[:1], "ends within a run"),
        (lambda lines: [*lines, lines[0]], "ends within a run"),
        (lambda lines: [lines[0], *lines], "line 2: a header line, expected run"),
        (lambda lines: [*lines[:3], b"[]\n"], "line 4: is no line"),
        (lambda lines: [*lines[:3], b"\n"], "line 4: is no line"),
        (lambda lines: [*lines[:3], b"\xff\xfe\n"], "line 4: is no line"),
        (
            lambda lines: [*lines[:3], b'{"line": "payload", "n": 2, "text": "\\ud800"}\n'],
            "line 4: is no line",
        ),
        (lambda lines: [*lines[:3], b"[" * 100_000], "line 4: is no line"),
        (lambda lines: [*lines[:3], "text"], "line 4: expected bytes"),
        (lambda lines: [*lines, *lines[:-1], b'{"line":"head"}\n'], "is no line"),
    ],
)
def test_an_export_that_is_none_is_refused(
    change: Callable[[list[bytes]], list[bytes]], message: str, lines: list[bytes], tmp_path: Path
) -> None:
    """Empty, cut off, out of order, or not JSON at all."""
    with Journal(tmp_path / "to.db") as journal:
        with pytest.raises(UsageError, match=message):
            journal.import_lines(change(lines))
        assert everything(tmp_path / "to.db") == []


def test_one_bad_run_keeps_the_good_ones_out_too(lines: list[bytes], tmp_path: Path) -> None:
    """All or nothing."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS], ids=SeededIds("other")) as scripted:
        good = exported(scripted.journal, scripted.run("Read").run_id)
    bad, _ = edited(lines, "transition", lambda line: line.update(at=1))
    with Journal(tmp_path / "to.db") as journal:
        with pytest.raises(JournalDamaged):
            journal.import_lines([*good, *bad])
        assert journal.runs() == []
        assert len(journal.import_lines([*good, *lines])) == 2


def test_the_same_run_twice_with_other_lines_is_refused(lines: list[bytes], tmp_path: Path) -> None:
    """The same lines are one run."""
    other, _ = edited(lines, "document", lambda line: line.update(name="other"))
    with Journal(tmp_path / "to.db") as journal:
        with pytest.raises(UsageError, match="stands twice, and not with the same lines"):
            journal.import_lines([*lines, *other])
        assert len(journal.import_lines([*lines, *lines])) == 1


def test_a_reader_takes_nothing_in(lines: list[bytes], tmp_path: Path) -> None:
    """It was opened so."""
    Journal(tmp_path / "to.db").close()
    with (
        Journal(tmp_path / "to.db", read_only=True) as journal,
        pytest.raises(UsageError, match="reading only"),
    ):
        journal.import_lines(lines)


def test_a_journal_that_was_closed_takes_nothing_in_and_says_so(lines: list[bytes], tmp_path: Path) -> None:
    """Not that its file was moved: it was not."""
    journal = Journal(tmp_path / "to.db")
    journal.close()
    with pytest.raises(JournalError, match="has been closed; open it again"):
        journal.import_lines(lines)


def test_a_fork_that_does_not_say_where_it_begins_is_refused(tmp_path: Path) -> None:
    """Its first row would have nothing to follow."""
    (tmp_path / "source").mkdir()
    with engine(tmp_path / "source", [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read").run_id
        fork = scripted.fork(run_id, 2).run_id
        text = exported(scripted.journal, run_id, fork)
    text = [line.replace(b'"parent_seq":2', b'"parent_seq":null') for line in text]
    assert any(fork.encode() in line and b'"parent_seq":null' in line for line in text)
    with Journal(tmp_path / "to.db") as journal, pytest.raises(UsageError, match=f"run {fork} comes without"):
        journal.import_lines(text)


def test_a_failed_write_takes_nothing_in(lines: list[bytes], tmp_path: Path) -> None:
    """The last table cannot be written: no row of the others stays."""
    with Journal(tmp_path / "to.db") as journal:
        with closing(forge(tmp_path / "to.db")) as connection:
            connection.execute(
                "CREATE TRIGGER full BEFORE INSERT ON documents BEGIN SELECT raise(ABORT, 'full'); END"
            )
        with pytest.raises(Exception, match="full"):
            journal.import_lines(lines)
        assert everything(tmp_path / "to.db") == []
