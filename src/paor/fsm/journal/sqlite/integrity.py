"""
The file as a whole: is SQLite content with it, is its schema the one of this version, do all rows belong to a run?

SQLite checks types (STRICT), keys and constraints when a row is written, and again for ``integrity_check``, but by the
schema that is as text in the file: whoever can edit it can take the checks away, write what he likes and put them
back. So the schema is compared with the shipped one. Where both say that all is well, every value has the type of its
column; otherwise each row is looked at, to name the ones that are wrong.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any

from ..backend import Problem

Query = Callable[[str], list[tuple[Any, ...]]]
"""Returns the rows of a statement."""

_OF_RUNS = ("rows", "texts", "documents", "erasures")
"""Tables of rows that belong to a run."""

_SHOWN = 20
"""Rows that are named for each table; more would say nothing new."""


@lru_cache(maxsize=1)
def _shipped_schema() -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Return type and text of every table, view and index of the schema, and a table's condition for rows of wrong types."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(files(__package__).joinpath("schema.sql").read_text(encoding="utf-8"))
        found = connection.execute(
            "SELECT name, type, sql FROM sqlite_master WHERE sql IS NOT NULL"
        ).fetchall()
        tables = [name for name, kind, _ in found if kind == "table"]
        checks = {table: _check(connection, table) for table in tables}
        return {name: (kind, sql) for name, kind, sql in found}, checks
    finally:
        connection.close()


def _check(connection: sqlite3.Connection, table: str) -> str:
    parts = []
    for _, name, kind, required, _, key in connection.execute(f"PRAGMA table_info({table})"):
        allowed = ["'text'", "'blob'"] if kind == "ANY" else [f"'{kind.lower()}'"]
        if not (required or key):
            allowed.append("'null'")
        parts.append(f'typeof("{name}") NOT IN ({", ".join(allowed)})')
    return " OR ".join(parts)


class FileIntegrity:
    """
    What SQLite says of one file; see `fsm.journal.backend.Integrity`.

    Args:
        query: Returns the rows of a statement.
        path: Of the file, as it was given.
        place: Where it is.
    """

    def __init__(self, query: Query, path: str, place: str) -> None:
        self._query, self._path, self._place = query, path, place

    def beside(self) -> Iterator[Problem]:
        """Yield the rollback journal that stands beside the file."""
        return _log_problems(self._path, self._place)

    def schema(self) -> Iterator[Problem]:
        """Yield every table, view and index that is not as this version made it, and every trigger."""
        return _schema_problems(self._query)

    def storage(self) -> Iterator[Problem]:
        """Yield what SQLite itself finds."""
        return _storage_problems(self._query)

    def types(self) -> Iterator[Problem]:
        """Yield every row that the schema of this version would have refused for its types."""
        return _type_problems(self._query)

    def keys(self) -> Iterator[Problem]:
        """Yield every document and record of an erasure whose key is not made of its run and number."""
        return _key_problems(self._query)

    def strays(self) -> Iterator[Problem]:
        """Yield every run that has rows, payloads, documents or a lease and does not exist, and every one without lease."""
        return _stray_problems(self._query)


def _schema_problems(query: Query) -> Iterator[Problem]:
    """Yield every table, view and index that is not as this version made it, and every trigger; those of others are theirs."""
    for (name,) in query("SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name"):
        yield f"trigger {name}", "a journal has no triggers"
    for table, name in query(
        "SELECT tbl_name, m.name FROM sqlite_master AS m JOIN pragma_index_list(tbl_name) AS i ON i.name = m.name"
        " WHERE m.type = 'index' AND m.sql IS NOT NULL AND i.\"unique\" ORDER BY m.name"
    ):
        if table in _shipped_schema()[0] and name not in _shipped_schema()[0]:
            yield (
                f"index {name}",
                f"refuses rows of {table} that are right; only the journal's own may be UNIQUE",
            )
    statement = (
        "SELECT name, type, coalesce(sql, '') FROM sqlite_master WHERE type IN ('table', 'view', 'index')"
    )
    found = {name: (kind, sql) for name, kind, sql in query(statement)}
    for name, (kind, sql) in sorted(_shipped_schema()[0].items()):
        if name not in found:
            yield f"{kind} {name}", "is missing"
        elif found[name] != (kind, sql):
            loose = kind == "table" and not found[name][1].rstrip().upper().endswith("STRICT")
            yield f"{kind} {name}", f"its schema was changed{': it is not STRICT' if loose else ''}"


def _log_problems(path: str, place: str) -> Iterator[Problem]:
    """
    Yield the rollback journal that stands beside the file: SQLite changes the file from it when it is opened next.

    A journal keeps a write-ahead log, which is read with it, so nothing of paor's leaves one.
    """
    if path not in ("", ":memory:") and os.path.exists(f"{place}-journal"):
        yield (
            "file",
            f"beside it is {os.path.basename(place)}-journal, from which SQLite would change it",
        )


def _storage_problems(query: Query) -> Iterator[Problem]:
    """Yield what SQLite itself finds, of types and constraints too as far as the schema in the file tells them."""
    for (text,) in query("PRAGMA integrity_check(20)"):
        if text != "ok":
            yield "file", str(text)
    ((version,),) = query("PRAGMA user_version")
    if version < 1:
        yield "file", f"user_version {version} is no version of the schema"


def _type_problems(query: Query) -> Iterator[Problem]:
    """Yield every row that the schema of this version would have refused for its types."""
    tables = {name for (name,) in query("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table, wrong in sorted(_shipped_schema()[1].items()):
        if table not in tables:
            continue
        rows = query(f"SELECT rowid FROM {table} WHERE {wrong} ORDER BY rowid LIMIT {_SHOWN}")
        for (number,) in rows:
            yield f"{table} id {number}", "holds a value of a type that its column does not allow"


def _key_problems(query: Query) -> Iterator[Problem]:
    """
    Yield every document and record of an erasure whose key is not made of its run and number.

    SQLite does not look at CHECK constraints of a file that it may not write; rows and payloads are checked as they
    are read.
    """
    wrong = "number IS NOT id & 4294967295 OR run IS NOT id >> 32"
    for table in ("documents", "erasures"):
        for (key,) in query(f"SELECT id FROM {table} WHERE {wrong}"):
            yield f"{table} id {key}", "its key is not made of its run and number"


def _stray_problems(query: Query) -> Iterator[Problem]:
    """Yield every run that has rows, payloads, documents or a lease and does not exist, and every one without lease."""
    for table in _OF_RUNS:
        for (run,) in query(
            f"WITH RECURSIVE found (own) AS (SELECT min(id) >> 32 FROM {table} UNION ALL"  # each run by one step
            f" SELECT (SELECT min(id) >> 32 FROM {table} WHERE id >= own + 1 << 32) FROM found"
            " WHERE own < 2147483647)"
            " SELECT own FROM found WHERE own IS NOT NULL AND own NOT IN (SELECT run FROM specs)"
        ):
            yield f"{table} run {run}", "there is no such run in specs"
    for (run,) in query("SELECT run FROM leases EXCEPT SELECT run FROM specs"):
        yield f"leases run {run}", "there is no such run in specs"
    for (run,) in query("SELECT run FROM specs WHERE run NOT IN (SELECT run FROM leases)"):
        yield f"specs run {run}", "there is no such run in leases"
