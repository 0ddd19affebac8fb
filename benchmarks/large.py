"""
A journal of any number of rows for the benchmarks, quickly: ``python benchmarks/large.py FILE [ROWS]``.

Runs of the engine are recorded once, a long one of 10,001 rows and a hundred of 101; then they are copied under new run
ids, with their hashes recomputed, until there are enough rows. So every row, payload and document is a real one.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from workload import engine

LONG, SHORT, SHORTS = 2000, 20, 100
"""Iterations of the long run and of the short ones, and how many of those there are."""

Rows = list[tuple[bytes, tuple[object, ...]]]
"""Of each row the bytes that are hashed after the hash before, and the columns before both hashes."""

ROOT = [
    "run_id",
    "workflow_id",
    "round",
    "task",
    "parent_run_id",
    "parent_seq",
    "spec",
    "spec_payload",
    "created_at",
]


def write_large_journal(path: Path, rows: int) -> int:
    """Write a new journal of at least *rows* transitions to *path*; return how many there are."""
    record(path, long=LONG if rows >= 30_000 else 0, shorts=min(SHORTS, -(-rows // 101)))
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.row_factory = sqlite3.Row
    recorded = [dict(row) for row in connection.execute("SELECT * FROM specs ORDER BY run")]
    own = {spec["run"]: _rows(connection, spec["run"]) for spec in recorded}
    count, run = sum(map(len, own.values())), len(recorded)
    while count < rows:
        connection.execute("BEGIN")
        for spec in recorded:
            run += 1
            _copy(connection, spec, run, own[spec["run"]])
            count += len(own[spec["run"]])
            if count >= rows:
                break
        connection.execute("COMMIT")
    connection.close()
    return count


def record(path: Path, *, long: int, shorts: int) -> None:
    """Record the runs that are copied."""
    for iterations, times in ((long, 1), (SHORT, shorts)):
        if iterations:
            with engine(path, durability="off", iterations=iterations) as host:
                for number in range(times):
                    run = host.run(f"Read all pages of contract {number}", ["every page is read"])
                    assert run.state == "Done", run


def _rows(connection: sqlite3.Connection, run: int) -> Rows:
    """Return the rows of a run."""
    found = []
    for row in connection.execute("SELECT * FROM transitions WHERE run = ? ORDER BY id", (run,)):
        names = row.keys()[2:-2]
        hashed = json.dumps({name: row[name] for name in names}, sort_keys=True, separators=(",", ":"))
        found.append((hashed.encode(), tuple(row)[2:-2]))
    return found


def _copy(connection: sqlite3.Connection, spec: dict[str, object], run: int, rows: Rows) -> None:
    """Copy one run under the number *run* and a run id made of it."""
    old = spec["run"]
    copied = {**spec, "run": run, "run_id": f"01a00000-0000-7000-8000-{run:012x}"}
    copied["workflow_id"] = copied["run_id"]
    root = json.dumps({name: copied[name] for name in ROOT}, sort_keys=True, separators=(",", ":"))
    head = copied["root_hash"] = hashlib.sha256(root.encode()).digest()
    marks = ", ".join("?" * len(copied))
    connection.execute(f"INSERT INTO specs VALUES ({marks})", tuple(copied.values()))
    connection.execute("INSERT INTO leases VALUES (?, 1, NULL, NULL, 0)", (run,))
    values = []
    for seq, (hashed, columns) in enumerate(rows):
        after = hashlib.sha256(head + hashed).digest()
        values.append((run << 32 | seq, run, *columns, head, after))
        head = after
    marks = ", ".join("?" * len(values[0]))
    connection.executemany(f"INSERT INTO transitions VALUES ({marks})", values)
    for table, rest in (
        ("payloads", "n, media_type, digest, salt, body"),
        ("documents", "number, label, position, name, mime, bytes, digest, payload"),
    ):
        number = rest.partition(",")[0]
        connection.execute(
            f"INSERT INTO {table} SELECT ?1 << 32 | {number}, ?1, {rest} FROM {table}"
            " WHERE id BETWEEN ?2 << 32 AND ?2 << 32 | 4294967295 ORDER BY id",
            (run, old),
        )


if __name__ == "__main__":
    print(write_large_journal(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000))
