"""Searching the runs of a journal: a text in what they were started with, what they called, how they ended, and what was said in them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from ..fsm.journal.reader import JournalReader
from ..fsm.journal.sqlite.file import translate_errors
from ..states.base.errors import UsageError

FOUND_MAX = 200
"""Runs that a search gives at most, the newest."""

TEXT_CHARS = 200
"""Characters of a text that is searched for."""

SEARCH_S = 2.0
"""Seconds after which a search ends with what it has found: the texts may be gigabytes."""

_STEPS = 20_000
"""Instructions of SQLite between two looks at the clock, about a millisecond."""

_FACTS = """
SELECT runs.run FROM runs LEFT JOIN payloads ON payloads.id = (runs.run << 32 | (SELECT spec_payload FROM specs WHERE specs.run = runs.run))
WHERE run_id LIKE ?1 ESCAPE '\\' OR reason LIKE ?1 ESCAPE '\\' OR runs."key" LIKE ?1 ESCAPE '\\'
   OR metadata LIKE ?1 ESCAPE '\\' OR metadata LIKE ?2 ESCAPE '\\'
   OR CASE WHEN json_valid(body) THEN body ->> '$.objective' END LIKE ?1 ESCAPE '\\'
ORDER BY runs.run DESC LIMIT ?3
"""

_TOOLS = """
SELECT DISTINCT run FROM transitions
WHERE "trigger" IN ('execute', 'refuse') AND request ->> '$.tool' LIKE ?1 ESCAPE '\\' ORDER BY run DESC LIMIT ?2
"""

_TEXTS = """
SELECT payloads.run FROM payloads JOIN specs ON specs.run = payloads.run
WHERE payloads.id < ?3 AND typeof(body) = 'text' AND (body LIKE ?1 ESCAPE '\\' OR body LIKE ?2 ESCAPE '\\')
  AND payloads.n IS NOT spec_payload AND EXISTS (SELECT 1 FROM payloads AS own WHERE own.id = (specs.run << 32 | spec_payload) AND own.body IS NOT NULL)
ORDER BY payloads.id DESC LIMIT 1
"""
"""All but what a run was started with, whose names would be found in every run. A run whose spec was erased is found by nothing that was said in it."""


def search(reader: JournalReader, text: str) -> list[str]:
    """
    Return the ids of the runs that hold a text, newest first, at most `FOUND_MAX`.

    Small and large letters of ASCII count as the same; the text is taken as it is, no sign in it has a meaning. A search that takes longer
    than `SEARCH_S` ends with what it has found. It has a connection of its own, so nobody else who reads waits for it; only a journal in
    memory has none.

    Args:
        reader: What reads the journal.
        text: What to look for, of 1 to `TEXT_CHARS` characters.

    Raises:
        UsageError: It is empty or longer.
        JournalError: The journal cannot be read.
    """
    text = text.strip()
    if not 0 < len(text) <= TEXT_CHARS or any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise UsageError(f"q: expected 1 to {TEXT_CHARS} characters")
    plain, written = _pattern(text), _pattern(orjson.dumps(text).decode()[1:-1])
    numbers: set[int] = set()
    with _in_time(reader) as connection:
        for (run,) in connection.execute(_FACTS, (plain, written, FOUND_MAX)):
            numbers.add(run)
        for (run,) in connection.execute(_TOOLS, (plain, FOUND_MAX)):
            numbers.add(run)
        _add_by_texts(numbers, connection, plain, written)
    newest = sorted(numbers, reverse=True)[:FOUND_MAX]
    ids = reader.index.names(newest)
    return [ids[run] for run in newest if run in ids]


@contextmanager
def _in_time(reader: JournalReader) -> Iterator[sqlite3.Connection]:
    """
    Give a connection for a block that is broken off when `SEARCH_S` are over, without an error.

    Raises:
        JournalError: The journal cannot be read.
    """
    until = time.monotonic() + SEARCH_S
    with translate_errors(reader.path), reader.snapshot() as own:
        connection = own.cursor("SELECT 1").connection
        connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
        try:
            yield connection
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                own.query("SELECT 1")  # a file that was written while it was read is the better reason
                raise
        finally:
            connection.set_progress_handler(None, 0)
        own.query("SELECT 1")


def _add_by_texts(numbers: set[int], connection: sqlite3.Connection, plain: str, written: str) -> None:
    """Add the runs in whose texts it stands, the newest first."""
    found, before = 0, 2**63 - 1
    while found < FOUND_MAX:
        row: tuple[Any, ...] | None = connection.execute(_TEXTS, (plain, written, before)).fetchone()
        if row is None:
            return
        numbers.add(row[0])
        found, before = found + 1, row[0] << 32  # one text of a run is enough: on with the run before it


def _pattern(text: str) -> str:
    """Return what `LIKE` takes for a text anywhere, none of its signs with a meaning."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
