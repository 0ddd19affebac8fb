"""Opening a journal file: pragmas, schema, and every SQLite error as one of ours."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....states.base.errors import (
    JournalBusy,
    JournalDamaged,
    JournalError,
    JournalFull,
    JournalTooNew,
    JournalTooOld,
    NotAJournal,
)
from ..backend import Durability
from .migrations import APPLICATION_ID, OLDEST, migrate, newest

Identity = tuple[int, int, int]
SYNCHRONOUS: dict[str, str] = {"full": "FULL", "normal": "NORMAL", "off": "OFF"}

PAGE_BYTES = 8192
"""Of a page: most rows are longer than a quarter of 4,096 bytes, of which a page of that size would leave a quarter empty."""

WAL_PAGES = 1000
"""Pages in the write-ahead log before a checkpoint; rarer ones cost fewer fsyncs, this one 8 MB of disk."""


def open_writer(path: str, *, durability: Durability, busy_timeout_s: float) -> sqlite3.Connection:
    """
    Return a connection that may write; creates the file and its schema when there is none.

    Raises:
        NotAJournal: The file is something else, or its folder does not exist.
        JournalTooNew: Written by a newer paor.
        JournalBusy, JournalFull: It cannot be written now.
        JournalError: There is no file, and the log of one that was.
    """
    _check_no_log_alone(path)
    with translate_errors(path):
        connection = sqlite3.connect(
            place_of(path),
            timeout=busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            _check_header(connection, path, may_be_empty=True)
            connection.execute(f"PRAGMA page_size={PAGE_BYTES}")  # of a new file; another's stays
            _use_log(connection, busy_timeout_s)
            connection.execute(f"PRAGMA synchronous={SYNCHRONOUS[durability]}")
            connection.execute(
                "PRAGMA fullfsync=ON"
            )  # on macOS fsync leaves data in the disk's own cache; elsewhere nothing
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")
            migrate(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _check_no_log_alone(path: str) -> None:
    """
    Refuse to begin a journal beside the log of another one: SQLite would delete the log.

    A process that has that journal open still writes there, and what the log holds is nowhere else.
    """
    place = place_of(path)
    if (
        path not in ("", ":memory:")
        and "\0" not in path
        and _bytes_of(f"{place}-wal")
        and not _bytes_of(place)
    ):
        raise JournalError(
            f"{path}: is gone or empty, while its -wal is still there with what was committed last; put the file back beside it,"
            " or move the -wal away to begin anew"
        )


def _bytes_of(place: str) -> int:
    try:
        return os.stat(place).st_size
    except OSError:
        return 0


def _use_log(connection: sqlite3.Connection, busy_timeout_s: float) -> None:
    """Switch to a write-ahead log; while others open the same new file, SQLite fails here without waiting."""
    end = time.monotonic() + busy_timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() >= end:
                raise
            time.sleep(0.005)


def place_of(path: str) -> str:
    """Return where the journal *path* is, whatever becomes the current folder and links; SQLite names its log so."""
    return path if path in ("", ":memory:") or "\0" in path else os.path.realpath(path)


def open_reader(
    path: str, *, busy_timeout_s: float, place: str | None = None
) -> tuple[sqlite3.Connection, Identity | None]:
    """
    Return a connection that cannot write and creates no file.

    A file without a log beside it is open nowhere. It is read as it stands, since SQLite would create the log; the
    second value then tells it from what it may become, None says that SQLite itself keeps readers and writers apart.

    Args:
        path: Its name, for messages.
        busy_timeout_s: Seconds to wait for another process's lock.
        place: Where it is, if it has been opened before; else where *path* leads now.

    Raises:
        NotAJournal: There is no such file, or it is something else.
        JournalTooNew: Written by a newer paor.
        JournalError: Its log cannot be read here.
    """
    place = place_of(path) if place is None else place
    file = Path(place)
    if not file.exists():
        raise NotAJournal(f"{path}: there is no such journal; a run creates one (--journal FILE)")
    if file.is_dir():
        raise NotAJournal(f"{path}: is a directory, expected a journal file")
    if not file.is_file():
        raise NotAJournal(f"{path}: is not a paor journal but a device or a pipe")
    with translate_errors(path):
        standing = None if has_log(place) else identity(place)
        mode = "mode=ro" if standing is None else "mode=ro&immutable=1"
        connection = sqlite3.connect(
            f"{file.as_uri()}?{mode}",
            uri=True,
            timeout=busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            _check_header(connection, path, may_be_empty=False)
        except BaseException:
            connection.close()
            raise
    return connection, standing


def identity(place: str) -> Identity:
    """Return what changes with every write to the file itself: node, size, time of the last change."""
    try:
        stat = os.stat(place)
    except OSError:
        return (0, 0, 0)
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def has_log(place: str) -> bool:
    """Return whether somebody has the journal open, or has left a log that belongs to it."""
    try:
        return os.stat(f"{place}-wal").st_size > 0 or os.path.exists(f"{place}-shm")
    except OSError:
        return False


def _check_header(connection: sqlite3.Connection, path: str, *, may_be_empty: bool) -> None:
    connection.execute("BEGIN")  # one moment: another process may be creating the schema just now
    try:
        tables, earlier = connection.execute(
            "SELECT count(*), coalesce(sum(type = 'table' AND name = 'transitions'), 0) FROM sqlite_master"
        ).fetchone()
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    if (tables, application, version) == (0, 0, 0):
        if may_be_empty:
            return
        raise NotAJournal(
            f"{path}: is empty: a run begins a journal. If it is a copy: until the process that writes a journal ends, what it wrote"
            " last is in the -wal file beside it, which must be copied, too"
        )
    if application != APPLICATION_ID:
        raise NotAJournal(f"{path}: is not a paor journal (application id {application:#x})")
    if version < OLDEST or (
        version == OLDEST and earlier
    ):  # laid out otherwise, which was never released either
        raise JournalTooOld(
            f"{path}: has schema {version}, from before the first release; this paor reads schema {OLDEST} and later."
            " Begin a new journal, or read it with the paor that wrote it"
        )
    if version > newest():
        raise JournalTooNew(
            f"{path}: has schema {version}, this paor knows up to {newest()}; upgrade paor to read it"
        )


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
def translate_errors(path: str) -> Iterator[None]:
    """Turn SQLite's errors into one clear line of ours that names the file and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise ours(error, path) from error
    except UnicodeDecodeError as error:  # of the words in which SQLite says what is wrong
        raise JournalDamaged(f"{path}: is damaged (its schema is no text); run: paor verify") from error


def ours(error: sqlite3.Error, path: str) -> JournalError:
    """Return *error* as one of ours: one line that names the file and what to do."""
    text = str(error)
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return JournalBusy(f"{path}: another process holds the journal; try again when it has finished")
    if name.startswith("SQLITE_NOTADB"):
        return NotAJournal(f"{path}: is not an SQLite file, so not a paor journal")
    if name.startswith("SQLITE_CANTOPEN"):
        return NotAJournal(
            f"{path}: cannot be opened; its folder must exist, and file and folder must be readable, for a run writable"
        )
    if name.startswith(("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_PERM")):
        return JournalFull(
            f"{path}: cannot be written ({text}); what was committed is intact, resume when it can be"
        )
    if name.startswith("SQLITE_CORRUPT") or "malformed JSON" in text or "Could not decode" in text:
        text = ascii(text)[1:-1][:160]
        return JournalDamaged(f"{path}: is damaged ({text}); run: paor verify --journal {path}")
    if "closed database" in text:
        return JournalError(f"{path}: the journal has been closed; open it again")
    return JournalError(f"{path}: {text}")
