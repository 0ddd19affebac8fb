"""
The steps that bring a journal's schema up to date.

A step adds columns, tables and views. Rows that exist are never rewritten, so their hashes stay. A step that is cut
short leaves the file as it was before it, and whoever opens the file next takes it again. No copy of the old file is
kept: it would hold what may have to be erased later.

The first step is SQL, since sqlite-utils writes no CHECK, no UNIQUE and no type ANY, and since the text of the schema is compared by
`verify` and by the independent script; a later one may wrap its connection with `sqlite_utils.Database`, which is not imported for the
first one: every new journal takes it. The library's own `Migrations` is not used: it keeps the time of each step in a
table of its own, so that two journals of the same run would differ, and it takes no lock before it looks what is missing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from importlib.resources import files
from typing import NamedTuple

APPLICATION_ID = 0x70616F72
"""The four letters ``paor``."""


class Migration(NamedTuple):
    """
    One step.

    Attributes:
        version: Of the schema after it; the steps are numbered without a gap.
        apply: Makes the change, within a transaction of the caller.
    """

    version: int
    apply: Callable[[sqlite3.Connection], None]


def make(connection: sqlite3.Connection) -> None:
    """Make all that version 3 has."""
    for statement in files(__package__).joinpath("schema.sql").read_text(encoding="utf-8").split(";\n"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")


STEPS: tuple[Migration, ...] = (Migration(3, make),)
"""Every step so far. A released one is never changed; what is new is a step of its own."""

OLDEST = 3
"""The first version of the schema that this paor can read; that before it was never released."""


def newest() -> int:
    """Return the version of the schema that this paor writes."""
    return STEPS[-1].version


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of a file's schema, 0 for an empty file."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def migrate(connection: sqlite3.Connection) -> None:
    """
    Take the steps that a file lacks, all in one transaction; one that is current is not touched.

    Args:
        connection: In autocommit mode. Others may open and migrate the same file at the same time.
    """
    if version_of(connection) >= newest():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in STEPS:
            if version_of(connection) < step.version:  # else somebody else was faster
                step.apply(connection)
                connection.execute(f"PRAGMA user_version={step.version}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
