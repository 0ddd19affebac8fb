"""Every store of a journal passes the cases of `conformance`: SQLite's, PostgreSQL's, and a third one that can fail."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Engine, Journal, Result, replay
from paor.errors import AlreadyAnswered, JournalBusy
from paor.fsm.journal.backend import Backend
from paor.fsm.journal.sqlite.backend import SqliteBackend

from ..support.postgres_server import PostgresServer, needs_postgres
from .conformance import CASES, WORLDS, Case, Opening, World
from .faulty_store import Fate, FaultyBackend


@pytest.fixture
def file_store(tmp_path: Path) -> Opening:
    """Return what opens a journal in a file."""

    def opening(*, read_only: bool = False) -> Backend:
        return SqliteBackend(str(tmp_path / "runs.db"), "off", busy_timeout_s=30.0, read_only=read_only)

    return opening


@pytest.fixture
def postgres_store(postgres: PostgresServer) -> Opening:
    """Return what opens a journal in a schema of its own."""
    from paor.fsm.journal.postgres.backend import PostgresBackend

    url = postgres.url()

    def opening(*, read_only: bool = False) -> Backend:
        return PostgresBackend(url, "off", busy_timeout_s=30.0, read_only=read_only)

    return opening


EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)


@EACH
def test_a_file_of_sqlite(case: Case, file_store: Opening) -> None:
    """paor's own file."""
    case(file_store)


@needs_postgres
@EACH
def test_a_schema_of_postgresql(case: Case, postgres_store: Opening) -> None:
    """paor's own schema."""
    case(postgres_store)


@EACH
def test_a_third_store(case: Case, file_store: Opening) -> None:
    """One that is none of paor's own, and fails when it is told to; nobody has told it."""

    def opening(*, read_only: bool = False) -> Backend:
        return cast("Backend", FaultyBackend(file_store(read_only=read_only)))

    case(opening)


FATES = st.lists(st.sampled_from(["well", "before", "after"]), max_size=30)


@pytest.mark.whole
@settings(deadline=None)
@given(name=st.sampled_from([world.name for world in WORLDS]), fates=FATES, other=st.booleans())
def test_whatever_call_of_a_store_fails_loses_and_doubles_nothing(
    name: str, fates: list[Fate], other: bool
) -> None:
    """Each run goes on by being resumed, by the same process or another one, and ends as it does without a fault."""
    world = next(world for world in WORLDS if world.name == name)
    reference = Journal(":memory:", "off")
    expected = reference.transitions(world.play(reference))
    store = FaultyBackend(SqliteBackend(":memory:", "off", busy_timeout_s=1.0, read_only=False))
    journal = Journal(cast("Backend", store))
    store.fates, answers, doubts = list(fates), list(world.answers), 0
    while True:
        try:
            engine = world.engine(Journal(cast("Backend", store)) if other else journal)
            result = _going_on(engine, world)
            if result.waiting_for is None:
                break
            if result.waiting_for.kind == "in_doubt":  # a person looks, and it was done
                engine.answer(result.run_id, question=result.waiting_for.id, outcome="done", result="paid")
                doubts += 1
            else:
                engine.answer(result.run_id, question=result.waiting_for.id, **world.answers[0])
                answers.clear()
        except (JournalBusy, AlreadyAnswered):  # by an answer of which nobody heard that it was written
            continue
    assert len(journal.runs()) == 1 and doubts <= 1
    found = journal.transitions(result.run_id)
    assert found[-1].trigger == expected[-1].trigger and result.reason == reference.runs()[0].reason
    if not doubts:
        assert [row.trigger for row in found] == [row.trigger for row in expected]
    assert journal.verify() == [] and replay(journal, result.run_id).identical


def _going_on(engine: Engine, world: World) -> Result:
    """Start a run, or go on with it."""
    runs = engine.journal.runs()
    return engine.resume(runs[0].run_id) if runs else engine.run(**world.run)
