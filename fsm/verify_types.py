"""
Do the tables hold what their schema allows?

SQLite checks types (STRICT) and keys when a row is written, but the schema itself is text in the file: whoever can
edit it can take the checks away, write what he likes and put them back. So they are all made again here, by the
schema of this version, before anything else looks at a value.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .journal_reading import JournalReader

_SHOWN = 20
"""Rows that are named for each table; more would say nothing new."""


@lru_cache(maxsize=1)
def column_checks() -> dict[str, str]:
    """Return, for each table of the schema, the SQL condition that a row of wrong types satisfies."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(
            files(__package__).joinpath("journal_schema.sql").read_text(encoding="utf-8")
        )
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall()
        return {table: _check(connection, table) for (table,) in tables}
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


def type_problems(journal: JournalReader) -> Iterator[tuple[str, str]]:
    """Yield place and problem of every row that its schema would have refused, and of every table without it."""
    found = dict(
        journal.query("SELECT name, coalesce(sql, '') FROM sqlite_master WHERE type = 'table' ORDER BY name")
    )
    for table, wrong in column_checks().items():
        if table not in found:
            yield f"table {table}", "is missing"
            continue
        if not found[table].rstrip().upper().endswith("STRICT"):
            yield f"table {table}", "its schema was changed: it is not STRICT"
        rows = journal.query(f"SELECT rowid FROM {table} WHERE {wrong} ORDER BY rowid LIMIT {_SHOWN}")
        for (number,) in rows:
            yield f"{table} id {number}", "holds a value of a type that its column does not allow"
