"""A journal that is deleted, moved or replaced under an open engine: nothing more is done, nobody would find it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from paor import Engine, Journal, ScriptedModel, Tool, replay, tool
from paor.errors import JournalError

from ..support.stored import file_of
from ..support.worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS

SCRIPT = [
    *(SELECT("bank.pay", {"amount": "number"}), PARAMETERS(amount=1), CONTINUE),
    *(SELECT("bank.pay", {"amount": "number"}), PARAMETERS(amount=2), STOP, SUCCESS),
]


def moved(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replaced(path: Path) -> None:
    """By a copy of the same bytes, as a restore from a backup does."""
    shutil.copy(path, path.with_name("copy.db"))
    os.replace(path.with_name("copy.db"), path)


def replaced_by_a_new_one(path: Path) -> None:
    path.unlink()
    path.touch()


def emptied(path: Path) -> None:
    """As a tool does that rotates logs by copying them."""
    os.truncate(path, 0)


def without_its_log(path: Path) -> None:
    """As another program does that closes the file last, by its own count."""
    path.with_name(f"{path.name}-wal").unlink()


def another_log(path: Path) -> None:
    log = path.with_name(f"{path.name}-wal")
    shutil.copy(log, path.with_name("copy"))
    os.replace(path.with_name("copy"), log)


def with_its_log_emptied(path: Path) -> None:
    """As a tool does that rotates logs by copying them, which takes it for a log."""
    os.truncate(path.with_name(f"{path.name}-wal"), 0)


def with_its_log_cut(path: Path) -> None:
    log = path.with_name(f"{path.name}-wal")
    os.truncate(log, log.stat().st_size - 1)


LOSSES = [
    *(Path.unlink, moved, replaced, replaced_by_a_new_one, emptied, without_its_log, another_log),
    *(with_its_log_emptied, with_its_log_cut),
]


def paying(paid: list[int], loss: Callable[[], Any] | None = None) -> Tool:
    @tool("bank.pay", effect="once")
    def pay(amount: int) -> str:
        """Pay."""
        if loss is not None and not paid:
            loss()
        paid.append(amount)
        return "paid"

    return pay


@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("lose", LOSSES)
def test_a_run_stops_before_its_next_effect(lose: Callable[[Path], Any], driver: str, tmp_path: Path) -> None:
    """The file goes while the first payment is made: the second is not begun, no model is asked any more."""
    path, paid = tmp_path / "runs.db", list[int]()
    model = ScriptedModel(SCRIPT)
    with Engine(model, tools=[paying(paid, lambda: lose(path))], journal=path) as engine:
        with pytest.raises(JournalError, match="was deleted, moved or replaced") as told:
            asyncio.run(engine.arun("pay")) if driver == "async" else engine.run("pay")
        assert "\n" not in str(told.value) and paid == [1]


@pytest.mark.parametrize("lose", [Path.unlink, moved, another_log])
def test_no_effect_begins_on_a_row_whose_file_goes_as_it_is_committed(
    lose: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Between the look within its transaction and the commit: the intent of the call is then in no file."""
    path, paid, intents = tmp_path / "runs.db", list[int](), list[str]()

    def seen(sql: str) -> None:
        if sql.startswith("INSERT INTO rows") and '"specify"' in sql:
            intents.append(sql)
        elif sql == "COMMIT" and len(intents) == 1:
            intents.append(sql)
            lose(path)

    with Engine(ScriptedModel(SCRIPT), tools=[paying(paid)], journal=path) as engine:
        file_of(engine.journal).connection.set_trace_callback(seen)
        with pytest.raises(JournalError, match="was deleted, moved or replaced"):
            engine.run("pay")
        assert len(intents) == 2 and paid == []


@pytest.mark.parametrize("lose", LOSSES)
def test_nothing_is_begun_or_changed_in_a_file_that_is_gone(
    lose: Callable[[Path], Any], tmp_path: Path
) -> None:
    """No new run, no resume, no cancel and no erasure, which would be told as done."""
    path, paid = tmp_path / "runs.db", list[int]()
    with Engine(ScriptedModel(SCRIPT), tools=[paying(paid)], journal=path) as engine:
        with closing(cast("Any", engine.stream("wait", on_close="stop"))) as stream:
            next(stream)
            next(stream)
        run_id = engine.journal.runs()[0].run_id
        lose(path)
        for begin in (
            lambda: engine.run("pay"),
            lambda: engine.resume(run_id),
            lambda: engine.cancel(run_id),
            lambda: engine.journal.erase(run_id),
        ):
            with pytest.raises(JournalError, match="was deleted, moved or replaced"):
                begin()
    assert paid == []


def test_a_file_that_is_put_back_goes_on(tmp_path: Path) -> None:
    """With the log that still stands beside its place nothing is lost."""
    path, paid = tmp_path / "runs.db", list[int]()
    engine = Engine(ScriptedModel(SCRIPT), tools=[paying(paid, lambda: moved(path))], journal=path)
    with engine, pytest.raises(JournalError):
        engine.run("pay")
    path.with_name("moved.db").rename(path)
    with Engine(ScriptedModel(SCRIPT), tools=[paying(paid)], journal=path) as engine:
        run_id = engine.journal.runs()[0].run_id
        asked = engine.resume(run_id)
        assert asked.waiting_for is not None and asked.waiting_for.kind == "in_doubt" and paid == [1]
        assert engine.resume(run_id, outcome="done", result="paid").state == "Done" and paid == [1, 2]
        assert engine.journal.verify() == [] and replay(engine.journal, run_id).identical


def test_other_names_of_the_same_file_and_another_folder_are_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second hard link, a link to it that goes, a change of the working folder: the file is where it was."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "runs.db")
    with Engine(ScriptedModel(SCRIPT), tools=[paying([])], journal=Journal("link.db")) as engine:
        os.link("runs.db", "second.db")
        os.unlink("link.db")
        monkeypatch.chdir(tmp_path / "other")
        assert engine.run("pay").state == "Done"
    with Engine(ScriptedModel(SCRIPT), tools=[paying([])], journal=Journal(":memory:")) as engine:
        assert engine.run("pay").state == "Done"


def test_a_log_that_sqlite_cuts_off_is_no_loss(tmp_path: Path) -> None:
    """As the end of an erasure does, in another process: all that it held is in the file by then."""
    path, paid = tmp_path / "runs.db", list[int]()

    def cut_off() -> None:
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        assert path.with_name("runs.db-wal").stat().st_size == 0

    with Engine(ScriptedModel(SCRIPT), tools=[paying(paid, cut_off)], journal=path) as engine:
        assert engine.run("pay").state == "Done" and paid == [1, 2] and engine.journal.verify() == []


@pytest.mark.parametrize("row", range(11))
def test_no_run_that_was_reported_as_ended_is_in_no_file(row: int, tmp_path: Path) -> None:
    """The file is moved after any row of one engine, and another one opens it by its name: all is there once the file is put back."""
    path, other_path = tmp_path / "runs.db", tmp_path / "moved.db"
    told = dict[str, str]()

    def run(engine: Engine) -> None:
        with suppress(JournalError):
            result = engine.run("pay")
            told[result.run_id] = result.state

    def move(event: Any) -> None:
        if getattr(event, "seq", None) == row and not other_path.exists():
            path.rename(other_path)

    first = Engine(ScriptedModel(SCRIPT), tools=[paying([])], journal=path)
    run(first)
    first.hooks = (move,)
    run(first)
    with suppress(JournalError), Engine(ScriptedModel(SCRIPT), tools=[paying([])], journal=path) as second:
        run(second)
        first.close()
        run(second)
    first.close()
    assert other_path.exists() and not path.exists()
    other_path.rename(path)
    with Engine(ScriptedModel(SCRIPT), tools=[paying([])], journal=path) as second:
        run(second)
        assert second.journal.verify() == []
        assert (
            len(told) >= 2
            and told.items() <= {row.run_id: row.state for row in second.journal.runs()}.items()
        )


def test_a_file_that_was_overwritten_through_sqlite_is_one_clear_error(tmp_path: Path) -> None:
    """As its backup interface does, into an open journal: the run that goes on is not there any more."""
    path, other_path, paid = tmp_path / "runs.db", tmp_path / "other.db", list[int]()
    with Engine(ScriptedModel(SCRIPT), tools=[paying([])], journal=other_path) as engine:
        engine.journal.runs()

    def overwrite() -> None:
        with closing(sqlite3.connect(other_path)) as source, closing(sqlite3.connect(path)) as target:
            source.backup(target)

    engine = Engine(ScriptedModel(SCRIPT), tools=[paying(paid, overwrite)], journal=path)
    with engine, pytest.raises(JournalError) as told:
        engine.run("pay")
    assert paid == [1] and "\n" not in str(told.value)
