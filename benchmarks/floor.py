"""
The floor: the same JSON values, prompts and replies, one row a phase, `INSERT` and `COMMIT`, nothing else.

The values are those of a recorded run, read into memory before the clock starts.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL", "off": "OFF"}


def recorded_values(path: Path) -> list[tuple[object, ...]]:
    """Return, for every transition of the journal's first run, its columns and its texts."""
    connection = sqlite3.connect(path)
    rows = connection.execute(
        'SELECT seq, at, "trigger", source, dest, guards, request, outcome, change, step, action, retries,'
        " tokens_in, tokens_out, cost_micro, time_us, counters FROM transitions WHERE run = 1 ORDER BY seq"
    ).fetchall()
    bodies = dict(connection.execute("SELECT n, body FROM payloads WHERE run = 1"))
    import json

    values = []
    for row in rows:
        request, outcome, change = (json.loads(row[index]) for index in (6, 7, 8))
        prompt = "\n".join(bodies[place["n"]] for place in request.get("prompt", ()))
        reply = bodies[outcome["reply"]["n"]] if "reply" in outcome else None
        document = bodies[outcome["output"]["n"]] if "output" in outcome else None
        values.append((*row, bodies[change["n"]], prompt or None, reply, document))
    connection.close()
    return values


def run_floor(path: Path, values: list[tuple[object, ...]], durability: str) -> float:
    """Write *values* to a fresh database and return the seconds it took."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={SYNCHRONOUS[durability]}")
    columns = ", ".join(f"c{index}" for index in range(len(values[0])))
    connection.execute(f"CREATE TABLE log (id INTEGER PRIMARY KEY, {columns})")
    insert = f"INSERT INTO log ({columns}) VALUES ({', '.join('?' * len(values[0]))})"
    started = time.perf_counter()
    for row in values:
        connection.execute("BEGIN")
        connection.execute(insert, row)
        connection.execute("COMMIT")
    seconds = time.perf_counter() - started
    connection.close()
    return seconds
