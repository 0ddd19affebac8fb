"""
The floors: one row a phase, `INSERT` and `COMMIT`, nothing else.

`run_floor` writes what a recorded run has written: the same JSON values, prompts and replies, read into memory before the clock starts.
`run_raw_floor` writes 332 bytes of JSON a row and no prompts: what a loop that is written by hand keeps, and the measure of the other libraries.
"""

from __future__ import annotations

import json
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


RAW_BYTES = 332
PHASES = ("Planning", "Specifying", "Executing", "Observing", "Reviewing")


def run_raw_floor(path: Path, count: int, durability: str) -> tuple[float, float]:
    """Write *count* rows of `RAW_BYTES` of JSON to a fresh database; return the seconds and the processor's seconds it took."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={SYNCHRONOUS[durability]}")
    connection.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, seq INTEGER, phase TEXT, body TEXT)")
    body = json.dumps({"text": "x" * (RAW_BYTES - len('{"text": ""}'))})
    started, used = time.perf_counter(), time.process_time()
    for seq in range(count):
        connection.execute("BEGIN")
        connection.execute(
            "INSERT INTO log (seq, phase, body) VALUES (?, ?, ?)", (seq, PHASES[seq % 5], body)
        )
        connection.execute("COMMIT")
    used, started = time.process_time() - used, time.perf_counter() - started
    connection.close()
    return started, used
