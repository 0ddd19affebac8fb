"""Opening a journal file: pragmas, schema, and every SQLite error as one of ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from ..states.errors import (
    JournalBusy,
    JournalDamaged,
    JournalError,
    JournalFull,
    JournalTooNew,
    NotAJournal,
)

APPLICATION_ID = 0x70616F72
"""The four letters ``paor``."""

SCHEMA_VERSION = 1

Durability = Literal["full", "normal", "off"]
SYNCHRONOUS: dict[str, str] = {"full": "FULL", "normal": "NORMAL", "off": "OFF"}

WAL_PAGES = 2000
"""Pages in the write-ahead log before a checkpoint; rarer ones cost fewer fsyncs, this one 8 MB of disk."""


def open_writer(path: str, *, durability: Durability, busy_timeout_s: float) -> sqlite3.Connection:
    """
    Return a connection that may write; creates the file and its schema when there is none.

    Raises:
        NotAJournal: The file is something else, or its folder does not exist.
        JournalTooNew: Written by a newer paor.
        JournalBusy, JournalFull: It cannot be written now.
    """
    with translated(path):
        connection = sqlite3.connect(
            path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            _check_header(connection, path, may_be_empty=True)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={SYNCHRONOUS[durability]}")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")
            migrate(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def open_reader(path: str, *, busy_timeout_s: float) -> sqlite3.Connection:
    """
    Return a connection that cannot write and never creates a file.

    Raises:
        NotAJournal: There is no such file, or it is something else.
        JournalTooNew: Written by a newer paor.
    """
    file = Path(path)
    if not file.exists():
        raise NotAJournal(f"{path}: there is no such journal; a run creates one (--journal FILE)")
    if file.is_dir():
        raise NotAJournal(f"{path}: is a directory, expected a journal file")
    with translated(path):
        connection = _read_only(file, "mode=ro", busy_timeout_s)
        try:
            _check_header(connection, path, may_be_empty=False)
        except sqlite3.OperationalError as error:
            connection.close()
            if "readonly" not in str(error) and "unable to open" not in str(error):
                raise
            connection = _read_only(file, "immutable=1", busy_timeout_s)
            _check_header(connection, path, may_be_empty=False)
        except BaseException:
            connection.close()
            raise
    return connection


def _read_only(file: Path, mode: str, busy_timeout_s: float) -> sqlite3.Connection:
    """Connect by URI; `immutable` serves a read-only folder, where no log can be opened."""
    return sqlite3.connect(
        f"{file.resolve().as_uri()}?{mode}",
        uri=True,
        timeout=busy_timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )


def _check_header(connection: sqlite3.Connection, path: str, *, may_be_empty: bool) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application == 0 and version == 0 and may_be_empty:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables == 0:
            return
    if application != APPLICATION_ID:
        raise NotAJournal(f"{path}: is not a paor journal (application id {application:#x})")
    if version > SCHEMA_VERSION:
        raise JournalTooNew(
            f"{path}: has schema {version}, this paor knows up to {SCHEMA_VERSION}; upgrade paor to read it"
        )


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema up to `SCHEMA_VERSION`, one step a transaction; a journal that is current is not touched."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == SCHEMA_VERSION:
        return
    from sqlite_utils import Database

    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] < 1:
            database = Database(connection, recursive_triggers=False, execute_plugins=False)
            script = (Path(__file__).parent / "journal_schema.sql").read_text(encoding="utf-8")
            for statement in script.split(";\n"):
                if statement.strip():
                    database.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """``BEGIN IMMEDIATE`` ... ``COMMIT``, rolled back on any error, also one of the commit itself."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn SQLite's errors into one clear line of ours that names the file and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise ours(error, path) from error


def ours(error: sqlite3.Error, path: str) -> JournalError:
    """Return *error* as one of ours: one line that names the file and what to do."""
    text = str(error)
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return JournalBusy(f"{path}: another process holds the journal; try again when it has finished")
    if name.startswith("SQLITE_NOTADB"):
        return NotAJournal(f"{path}: is not an SQLite file, so not a paor journal")
    if name.startswith("SQLITE_CANTOPEN"):
        return NotAJournal(f"{path}: cannot be opened; check that the folder exists and the file may be read")
    if name.startswith(("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_PERM")):
        return JournalFull(
            f"{path}: cannot be written ({text}); what was committed is intact, resume when it can be"
        )
    if name.startswith("SQLITE_CORRUPT"):
        return JournalDamaged(f"{path}: is damaged ({text}); run: paor verify --journal {path}")
    return JournalError(f"{path}: {text}")
