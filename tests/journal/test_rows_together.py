"""Rows that ask nobody stand in the transaction of the row before; written on every way out, told only once they are durable."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, ScriptedModel, Tool, replay, tool
from paor.errors import LeaseLost
from paor.events import TransitionTaken
from paor.testing import RandomIds

from ..support.inside import decide, loop
from ..support.stored import file_of
from ..support.worlds import CONTINUE, PARAMETERS, READ, SELECT, STOP, SUCCESS, TOOLS, engine

SCRIPT = [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]


def commits_of(journal: Journal) -> list[str]:
    """Return a list that grows with every statement that ends a transaction of this journal."""
    seen: list[str] = []
    connection = file_of(journal).connection
    connection.set_trace_callback(lambda sql: seen.append(sql) if sql == "COMMIT" else None)
    return seen


def triggers(journal: Journal) -> list[str]:
    """Return the triggers of the newest run's rows."""
    return [row.trigger for row in journal.transitions(journal.runs()[0].run_id)]


def paying(effect: Any) -> Tool:
    """Return a tool of an effect class."""

    @tool("notes.work", effect=effect)
    def work(page: int) -> str:
        """Do it."""
        return "done"

    return work


ONE = [SELECT("notes.work"), PARAMETERS(page=1), STOP, SUCCESS]


@pytest.mark.parametrize(("effect", "together"), [("read", 1), ("idempotent", 1), ("once", 0)])
def test_an_observation_is_written_with_its_outcome_but_for_effects_that_happen_once(
    tmp_path: Path, effect: str, together: int
) -> None:
    """One transaction less an iteration; what must not be made twice is durable before anything is decided on it."""
    with engine(tmp_path, ONE, [paying(effect)]) as host:
        seen = commits_of(host.journal)
        assert host.run("Work").state == "Done"
        told = triggers(host.journal)
        assert told == ["select", "specify", "execute", "observe", "conclude", "finish"]
        begun = 1  # the run itself
        assert len(seen) == begun + len(told) - together
        assert replay(host.journal, host.journal.runs()[0].run_id).identical
        assert host.journal.verify() == []


@pytest.mark.parametrize("error", [RuntimeError("gone"), KeyboardInterrupt(), SystemExit(1)])
def test_an_outcome_is_written_whatever_ends_the_decision_on_the_next_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """The call was made: that stands in the journal, and a resume does not make it again."""
    calls: list[int] = []

    @tool("notes.work", effect="idempotent")
    def work(page: int) -> str:
        """Do it."""
        calls.append(page)
        return "done"

    def failing(run: Any, *args: Any, **options: Any) -> Any:
        if run.state == "Observing":
            raise error
        return decide(run, *args, **options)

    with engine(tmp_path, ONE, [work], ids=RandomIds()) as host:
        with monkeypatch.context() as patch:
            patch.setattr(loop, "decide", failing)
            with pytest.raises(type(error)):
                host.run("Work")
        assert triggers(host.journal) == ["select", "specify", "execute"]
        assert host.resume(host.journal.runs()[0].run_id).state == "Done"
        assert calls == [1] and host.journal.verify() == []


def test_it_is_written_on_an_event_loop_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows are committed by the writer thread otherwise."""

    def failing(run: Any, *args: Any, **options: Any) -> Any:
        if run.state == "Observing":
            raise RuntimeError("gone")
        return decide(run, *args, **options)

    with engine(tmp_path, ONE, [paying("idempotent")]) as host:
        monkeypatch.setattr(loop, "decide", failing)
        with pytest.raises(RuntimeError, match="gone"):
            asyncio.run(host.arun("Work"))
        assert triggers(host.journal) == ["select", "specify", "execute"]


def test_neither_row_is_written_by_a_driver_that_was_replaced(tmp_path: Path) -> None:
    """The lease is looked at before the first of the two."""

    @tool("notes.work", effect="idempotent")
    def work(page: int) -> str:
        """Have the run taken by another driver meanwhile."""
        with other.store.backend.lock:
            file_of(other).connection.execute("UPDATE leases SET fence = fence + 1")
        return "done"

    with engine(tmp_path, ONE, [work]) as host, Journal(host.journal.path) as other:
        with pytest.raises(LeaseLost):
            host.run("Work")
        assert triggers(host.journal) == ["select", "specify"]


def test_events_of_both_rows_come_after_the_commit(tmp_path: Path) -> None:
    """Whoever hears of a row finds it in the file."""
    with engine(tmp_path, SCRIPT) as host, Journal(host.journal.path, read_only=True) as other:
        heard = 0
        for event in host.stream("Read", on_close="stop"):
            if isinstance(event, TransitionTaken):
                assert event.seq == heard
                heard += 1
                assert len(triggers(other)) >= heard
        assert triggers(other)[:5] == ["select", "specify", "execute", "observe", "proceed"]


def test_a_cancel_during_a_call_that_ends_all_the_same_ends_the_run_before_the_next_request(
    tmp_path: Path,
) -> None:
    """Both rows are written, and nobody is asked any more."""
    host: Engine

    @tool("notes.work", effect="idempotent")
    def work(page: int) -> str:
        """Have the run cancelled meanwhile."""
        host.cancel(host.journal.runs()[0].run_id)
        return "done"

    with engine(tmp_path, ONE, [work]) as host:
        result = host.run("Work")
        assert (result.state, result.reason) == ("Failed", "cancelled")
        assert triggers(host.journal)[-1] == "fail" and "conclude" not in triggers(host.journal)


def test_engines_on_one_journal_share_its_writer(tmp_path: Path) -> None:
    """A hundred engines are one thread that writes, and runs that wait share a transaction."""
    runs = 8
    with Journal(tmp_path / "journal.db") as journal:
        engines = [
            Engine(ScriptedModel(SCRIPT), tools=TOOLS, journal=journal, ids=RandomIds()) for _ in range(runs)
        ]
        seen = commits_of(journal)

        async def main() -> set[str]:
            results = await asyncio.gather(*(host.arun("Read") for host in engines))
            assert {result.state for result in results} == {"Done"}
            return {thread.name for thread in threading.enumerate() if thread.name.startswith("paor-writer")}

        assert len(asyncio.run(main())) == 1
        rows = sum(row.head_seq + 1 for row in journal.runs())
        assert len(seen) < runs + rows / 2
        assert journal.verify() == []
