"""Erasing as the journal's page tells it, with SQL alone, so that tests need not trust paor's own."""

from __future__ import annotations

import json
import sqlite3
from hashlib import sha256

from .forging import writable


def erase_by_hand(connection: sqlite3.Connection, where: str = "1", *values: object) -> None:
    """Set salt and body of the payloads that fit to NULL, and add the records that say so."""
    found = connection.execute(
        f"SELECT run, n FROM payloads WHERE ({where}) AND body IS NOT NULL ORDER BY id", values
    ).fetchall()
    writable(connection).execute(f"UPDATE payloads SET salt = NULL, body = NULL WHERE {where}", values)
    for run in dict(found):
        pairs = [[n, n] for number, n in found if number == run]
        (head,) = connection.execute("SELECT root_hash FROM specs WHERE run = ?", (run,)).fetchone()
        last = "SELECT number, hash FROM erasures WHERE run = ? ORDER BY number DESC LIMIT 1"
        number, head = connection.execute(last, (run,)).fetchone() or (-1, head)
        record = {
            "number": number + 1,
            "at": 7,
            "rule": '{"by":"payload"}',
            "payloads": json.dumps(pairs),
            "reason": None,
        }
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        connection.execute(
            "INSERT INTO erasures VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (run << 32 | number + 1, run, *record.values(), sha256(head + text.encode()).digest()),
        )
