"""Searching the runs of a journal: a text in what they were started with, what they called, how they ended, and what was said in them."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, suppress

import orjson

from ..fsm.journal.file import open_reader, translate_errors
from ..fsm.journal.reader import JournalReader
from ..states.base.errors import UsageError

FOUND_MAX = 200
"""Runs that a search gives at most, the newest."""

TEXT_CHARS = 200
"""Characters of a text that is searched for."""

SEARCH_S = 2.0
"""Seconds after which a search through the texts ends with what it has found: they may be gigabytes."""

_STEPS = 20_000
"""Instructions of SQLite between two looks at the clock, about a millisecond."""

_FACTS = """
SELECT runs.run, run_id FROM runs LEFT JOIN payloads ON payloads.id = (runs.run << 32 | (SELECT spec_payload FROM specs WHERE specs.run = runs.run))
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
SELECT payloads.run, payloads.id FROM payloads JOIN specs ON specs.run = payloads.run
WHERE payloads.id < ?3 AND typeof(body) = 'text' AND (body LIKE ?1 ESCAPE '\\' OR body LIKE ?2 ESCAPE '\\')
  AND payloads.n IS NOT spec_payload AND EXISTS (SELECT 1 FROM payloads AS own WHERE own.id = (specs.run << 32 | spec_payload) AND own.body IS NOT NULL)
ORDER BY payloads.id DESC
"""
"""All but what a run was started with, whose names would be found in every run. A run whose spec was erased is found by nothing that was said in it."""


def search(reader: JournalReader, text: str) -> list[str]:
    """
    Return the ids of the runs that hold a text, newest first, at most `FOUND_MAX`.

    Small and large letters of ASCII count as the same; the text is taken as it is, no sign in it has a meaning.

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
    found: dict[int, str] = dict(reader.query(_FACTS, (plain, written, FOUND_MAX)))
    numbers = set(found) | {run for (run,) in reader.query(_TOOLS, (plain, FOUND_MAX))}
    numbers |= _in_texts(reader, plain, written)
    newest = sorted(numbers, reverse=True)[:FOUND_MAX]
    marks = ", ".join("?" * len(newest))
    ids = dict(reader.query(f"SELECT run, run_id FROM specs WHERE run IN ({marks})", tuple(newest)))
    return [ids[run] for run in newest if run in ids]


def _in_texts(reader: JournalReader, plain: str, written: str) -> set[int]:
    """Return the runs in whose texts it stands, as far as `SEARCH_S` reach; the newest are looked at first."""
    if reader.path in ("", ":memory:"):
        return {run for run, _ in reader.query(f"{_TEXTS} LIMIT 10000", (plain, written, 2**63 - 1))}
    until = time.monotonic() + SEARCH_S
    numbers: set[int] = set()
    with translate_errors(reader.path):
        connection, _ = open_reader(reader.path, busy_timeout_s=SEARCH_S, place=reader.place)
        with closing(connection):
            connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
            before = 2**63 - 1
            with suppress(sqlite3.OperationalError):  # interrupted
                while len(numbers) < FOUND_MAX:
                    row = connection.execute(f"{_TEXTS} LIMIT 1", (plain, written, before)).fetchone()
                    if row is None:
                        break
                    numbers.add(row[0])
                    before = row[0] << 32  # one text of a run is enough: on with the run before it
    return numbers


def _pattern(text: str) -> str:
    """Return what `LIKE` takes for a text anywhere, none of its signs with a meaning."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
