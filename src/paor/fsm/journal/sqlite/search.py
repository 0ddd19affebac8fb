"""Searching the runs of a journal for a text, within a time: in what they were started with, what they called, how they ended, and what was said in them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Any

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


def search_runs(
    connection: sqlite3.Connection, patterns: Sequence[str], *, most: int, seconds: float
) -> list[int]:
    """
    Return the numbers of the runs that hold a text, newest first; those that were found when the time is over.

    Args:
        connection: For nobody else meanwhile.
        patterns: The text as `LIKE` takes it, with a backslash for escapes, and as it is within JSON.
        most: Runs that are given at most.
        seconds: The time.
    """
    until = time.monotonic() + seconds
    numbers: set[int] = set()
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        for (run,) in connection.execute(_FACTS, (*patterns, most)):
            numbers.add(run)
        for (run,) in connection.execute(_TOOLS, (patterns[0], most)):
            numbers.add(run)
        _add_by_texts(numbers, connection, patterns, most)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
    finally:
        connection.set_progress_handler(None, 0)
    return sorted(numbers, reverse=True)[:most]


def _add_by_texts(
    numbers: set[int], connection: sqlite3.Connection, patterns: Sequence[str], most: int
) -> None:
    """Add the runs in whose texts it stands, the newest first."""
    found, before = 0, 2**63 - 1
    while found < most:
        row: tuple[Any, ...] | None = connection.execute(_TEXTS, (*patterns, before)).fetchone()
        if row is None:
            return
        numbers.add(row[0])
        found, before = found + 1, row[0] << 32  # one text of a run is enough: on with the run before it
