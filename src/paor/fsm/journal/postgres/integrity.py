"""What PostgreSQL says of a journal: is its schema the one of this version, do all rows belong to a run?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any

from ..backend import JournalSource, Problem

_OF_RUNS = ("rows", "texts", "documents", "erasures")
"""Tables of rows that belong to a run."""


@lru_cache(maxsize=1)
def _shipped() -> dict[str, tuple[tuple[str, str, bool], ...]]:
    """Return name, type and whether it may be missing of the columns of every table; a view has none here."""
    script = files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
    found: dict[str, tuple[tuple[str, str, bool], ...]] = {}
    for kind, name, body in re.findall(r"(?ms)^CREATE (TABLE|VIEW) (\w+) ?(.*?);$", script):
        lines = re.findall(r'(?m)^  "?(\w+)"? ([A-Z]+)(.*)$', body) if kind == "TABLE" else []
        found[name] = tuple(
            (column, of_type.lower(), "NOT NULL" not in more and "PRIMARY KEY" not in more)
            for column, of_type, more in lines
        )
    return found


class SchemaIntegrity:
    """
    What the database says of one journal; see `fsm.journal.backend.Integrity`.

    PostgreSQL holds every value to its column's type and to the constraints, so only what can take these away is looked at.

    Args:
        source: The journal.
    """

    def __init__(self, source: JournalSource) -> None:
        self._source = source

    def _query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._source.query(sql, values)

    def beside(self) -> Iterator[Problem]:
        """Yield nothing: there is nothing beside a schema."""
        yield from ()

    def schema(self) -> Iterator[Problem]:
        """Yield every table and view whose columns are not as this version made them, every trigger, and constraints that are gone."""
        for (name,) in self._query(
            "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
            " WHERE relnamespace = current_schema()::regnamespace AND NOT tgisinternal ORDER BY tgname"
        ):
            yield f"trigger {name}", "a journal has no triggers"
        columns: dict[str, list[tuple[str, str, bool]]] = {}
        for table, name, of_type, may_be_null in self._query(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
            " WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position"
        ):
            columns.setdefault(table, []).append((name, of_type, may_be_null == "YES"))
        for table, wanted in sorted(_shipped().items()):
            kind = "table" if wanted else "view"
            if table not in columns:
                yield f"{kind} {table}", "is missing"
            elif wanted and tuple(columns[table]) != wanted:
                yield f"{kind} {table}", "its schema was changed"
        checked = dict(
            self._query(
                "SELECT relname, count(*) FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid"
                " WHERE relnamespace = current_schema()::regnamespace AND contype = 'c' AND convalidated GROUP BY relname"
            )
        )
        for table in _OF_RUNS:
            if table in columns and checked.get(table, 0) < 2:
                yield f"table {table}", "its schema was changed: a CHECK is gone"

    def storage(self) -> Iterator[Problem]:
        """Yield a version that is none; broken pages are for PostgreSQL's own tools."""
        for (version,) in self._query("SELECT version FROM journal"):
            if version < 1:
                yield "journal", f"version {version} is no version of the schema"

    def types(self) -> Iterator[Problem]:
        """Yield nothing: a column has one type."""
        yield from ()

    def keys(self) -> Iterator[Problem]:
        """Yield every document and record of an erasure whose key is not made of its run and number."""
        for table in ("documents", "erasures"):
            for (key,) in self._query(
                f"SELECT id FROM {table} WHERE id IS DISTINCT FROM (run << 32 | number)"
            ):
                yield f"{table} id {key}", "its key is not made of its run and number"

    def strays(self) -> Iterator[Problem]:
        """Yield every run that has rows, payloads, documents or a lease and does not exist, and every one without lease."""
        for table in _OF_RUNS:
            for (run,) in self._query(
                f"WITH RECURSIVE found (own) AS (SELECT min(id) >> 32 FROM {table} UNION ALL"  # each run by one step
                f" SELECT (SELECT min(id) >> 32 FROM {table} WHERE id >= (own + 1) << 32) FROM found"
                " WHERE own < 2147483647)"
                " SELECT own FROM found WHERE own IS NOT NULL AND own NOT IN (SELECT run FROM specs)"
            ):
                yield f"{table} run {run}", "there is no such run in specs"
        for (run,) in self._query("SELECT run FROM leases EXCEPT SELECT run FROM specs ORDER BY run"):
            yield f"leases run {run}", "there is no such run in specs"
        for (run,) in self._query(
            "SELECT run FROM specs WHERE run NOT IN (SELECT run FROM leases) ORDER BY run"
        ):
            yield f"specs run {run}", "there is no such run in leases"
