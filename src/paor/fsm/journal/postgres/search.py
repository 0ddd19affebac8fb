"""Searching the runs of a journal for a text, as `fsm.journal.sqlite.search` does in a file."""

from __future__ import annotations

import time
from collections.abc import Sequence

from .connecting import PostgresConnection, psycopg

_FACTS = """
SELECT runs.run FROM runs LEFT JOIN payloads ON payloads.id = (runs.run << 32 | (SELECT spec_payload FROM specs WHERE specs.run = runs.run))
WHERE run_id ILIKE ? OR reason ILIKE ? OR runs."key" ILIKE ? OR metadata ILIKE ? OR metadata ILIKE ?
   OR CASE WHEN json_valid(body) THEN body ->> '$.objective' END ILIKE ?
ORDER BY runs.run DESC LIMIT ?
"""

_TOOLS = """
SELECT DISTINCT run FROM transitions
WHERE "trigger" IN ('execute', 'refuse') AND request::json ->> 'tool' ILIKE ? ORDER BY run DESC LIMIT ?
"""

_TEXTS = """
SELECT payloads.run FROM payloads JOIN specs ON specs.run = payloads.run
WHERE payloads.id < ? AND is_text AND (body_text(body, is_text) ILIKE ? OR body_text(body, is_text) ILIKE ?)
  AND payloads.n IS DISTINCT FROM spec_payload
  AND EXISTS (SELECT 1 FROM payloads AS own WHERE own.id = (specs.run << 32 | spec_payload) AND own.body IS NOT NULL)
ORDER BY payloads.id DESC LIMIT 1
"""


def search_runs(
    connection: PostgresConnection, patterns: Sequence[str], *, most: int, seconds: float
) -> list[int]:
    """
    Return the numbers of the runs that hold a text, newest first; those that were found when the time is over.

    Args:
        connection: For nobody else meanwhile, in a transaction.
        patterns: The text as `LIKE` takes it, with a backslash for escapes, and as it is within JSON.
        most: Runs that are given at most.
        seconds: The time.
    """
    until = time.monotonic() + seconds
    plain, within = patterns
    numbers: set[int] = set()

    def rows(sql: str, *values: object) -> list[int]:
        left = max(1, round((until - time.monotonic()) * 1000))
        connection.execute("SELECT set_config('statement_timeout', ?, true)", (str(left),))
        return [run for (run,) in connection.execute(sql, values).fetchall()]

    try:
        numbers.update(rows(_FACTS, plain, plain, plain, plain, within, plain, most))
        numbers.update(rows(_TOOLS, plain, most))
        found, before = 0, 2**63 - 1
        while found < most and (newest := rows(_TEXTS, before, plain, within)):
            numbers.add(newest[0])
            found, before = (
                found + 1,
                newest[0] << 32,
            )  # one text of a run is enough: on with the run before it
    except psycopg.errors.QueryCanceled:
        pass
    return sorted(numbers, reverse=True)[:most]
