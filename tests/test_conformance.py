"""Every store of a journal does what `paor.testing.conformance` says: SQLite's in a file, and PostgreSQL's."""

from __future__ import annotations

from pathlib import Path

import pytest

from paor.fsm.journal.backend import Backend
from paor.fsm.journal.sqlite.backend import SqliteBackend
from paor.testing.conformance import CASES, Case, Opening

from .postgres_server import PostgresServer, needs_postgres


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
