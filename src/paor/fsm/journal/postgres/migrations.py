"""Making a journal's schema, and refusing one of another version."""

from __future__ import annotations

import re
import secrets
from importlib.resources import files

from ....states.base.errors import JournalDamaged, JournalTooNew, JournalTooOld, NotAJournal
from .address import Address
from .connecting import SQL, Identifier, PostgresConnection

VERSION = 3
"""Of the schema; the same number as a file's, since they hold the same."""

_ID = re.compile("[0-9a-f]{32}")

MAKING = 0x70616F72
"""Advisory-lock key held while creating the schema (``b"paor"``)."""


def journal_id(connection: PostgresConnection, address: Address, *, read_only: bool) -> str:
    """
    Return the id of a journal, which is made when there is none.

    Raises:
        NotAJournal: There is none, and it is only to be read.
        JournalTooNew, JournalTooOld: Another paor wrote it.
    """
    found = _found(connection, address)
    if found is None:
        if read_only:
            raise NotAJournal(
                f"{address.shown}: there is no journal in schema {address.schema}; a run creates one (--journal URL)"
            )
        _make(connection, address)
        found = _found(connection, address)
        assert found is not None, "a journal that was just made"
    identity, version = found
    if not _ID.fullmatch(identity):
        raise JournalDamaged(f"{address.shown}: the journal's id was changed: {identity!a:.60} is none")
    if version > VERSION:
        raise JournalTooNew(
            f"{address.shown}: has schema {version}, this paor knows up to {VERSION}; upgrade paor to read it"
        )
    if version < VERSION:
        raise JournalTooOld(
            f"{address.shown}: has schema {version}, this paor reads schema {VERSION} and later"
        )
    return identity


def _found(connection: PostgresConnection, address: Address) -> tuple[str, int] | None:
    """Return id and version of a journal, None without one."""
    # asked of the catalog's tables: a name that is looked up by itself may be answered from before a lock was waited for
    there = "SELECT 1 FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = ? AND relname = 'journal'"
    if connection.execute(there, (address.schema,)).fetchone() is None:
        return None
    row = connection.execute("SELECT id, version FROM journal").fetchone()
    return (row[0], row[1]) if row is not None else None


def _make(connection: PostgresConnection, address: Address) -> None:
    """Make schema, tables and views; of many who do so at the same time one does."""
    raw = connection.raw
    with raw.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(?)", (MAKING,))
        if _found(connection, address) is not None:
            return
        there = "SELECT 1 FROM pg_namespace WHERE nspname = ?"
        if (
            connection.execute(there, (address.schema,)).fetchone() is None
        ):  # asked for first: a role that may not make one can be given one
            raw.execute(SQL("CREATE SCHEMA {}").format(Identifier(address.schema)))
        script = files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
        raw.execute(script.encode())
        connection.execute("INSERT INTO journal VALUES (?, ?)", (secrets.token_hex(16), VERSION))
