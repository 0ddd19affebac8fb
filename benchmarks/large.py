"""
A journal of any number of rows for the benchmarks, quickly: ``python benchmarks/large.py FILE [ROWS]``; what reading one costs: ``--reading RUNS``.

Runs of the engine are recorded once, a long one of 10,001 rows and a hundred of 101; then they are copied under new run
ids, with their hashes recomputed, until there are enough rows. So every row, payload and document is a real one.

``--reading`` records two journals of runs of 16 rows, the second with four times as many, and one run of 10,001 rows; it prints what the
commands that read them take, and the ratios: 4 is linear. A replayed run cannot be a copy, which has another id.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from workload import engine

LONG, SHORT, SHORTS = 2000, 20, 100
"""Iterations of the long run and of the short ones, and how many of those there are."""

Rows = list[tuple[int, int, str, str]]
"""Of each row its number, that of its last text, the text that is hashed after the hash before, and the texts beside it."""

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
    record(path, *([(LONG, 1)] if rows >= 30_000 else []), (SHORT, min(SHORTS, -(-rows // 101))))
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


def record(path: Path, *runs: tuple[int, int]) -> None:
    """Record runs, given as iterations of each and how many there are."""
    for iterations, times in runs:
        with engine(path, durability="off", iterations=iterations) as host:
            for number in range(times):
                run = host.run(f"Read all pages of contract {number}", ["every page is read"])
                assert run.state == "Done", run


def _rows(connection: sqlite3.Connection, run: int) -> Rows:
    """Return the rows of a run."""
    found = connection.execute(
        'SELECT id & 4294967295, "last" & 4294967295, "row", texts FROM rows WHERE id >> 32 = ? ORDER BY id',
        (run,),
    )
    return [tuple(row) for row in found]


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
    for seq, last, text, texts in rows:
        head = hashlib.sha256(head + text.encode()).digest()
        values.append((run << 32 | seq, run << 32 | last, text, head, texts))
    connection.executemany('INSERT INTO rows (id, "last", "row", hash, texts) VALUES (?, ?, ?, ?, ?)', values)
    for table, columns in (
        ("texts", "media_type, digest, salt, body"),
        ("documents", "?1, number, label, position, name, mime, bytes, digest, payload"),
    ):
        connection.execute(
            f"INSERT INTO {table} SELECT ?1 << 32 | (id & 4294967295), {columns} FROM {table}"
            " WHERE id BETWEEN ?2 << 32 AND ?2 << 32 | 4294967295 ORDER BY id",
            (run, old),
        )


def reading(folder: Path, runs: int) -> None:
    """Print what commands take that read all runs of a journal, of a quarter of them and of all; and those that read a long run."""
    few, many, long = (folder / f"{name}.db" for name in ("few", "many", "long"))
    record(few, (3, runs // 4))
    record(many, (3, runs))
    record(long, (LONG, 1))
    print(f"{'processor seconds, peak memory in MB':<40}{runs // 4:>14,} runs{runs:>14,} runs   ratio")
    for command in (["report", "--all"], ["export", "--all"], ["verify"], ["runs", "--limit", "0"]):
        output = ["--output", str(folder / "output")] if "--all" in command else []
        (less, low), (more, high) = (taken(path, *command, *output) for path in (few, many))
        print(
            f"{' '.join(command):<40}{less:>12.2f}{low:>6.0f} {more:>13.2f}{high:>6.0f}   {more / less:.2f}"
        )
    (shown, _), (replayed, _) = (taken(long, name, "last") for name in ("show", "replay"))
    print(f"{'show of 10,001 rows / their replay':<40}{shown / replayed:>19.2f}")
    start, imports = (
        taken(few, "show", "last")[0],
        _used([sys.executable, "-c", "import click, pydantic.types"])[0],
    )
    print(f"{'show of a run, seconds; / click, pydantic':<40}{start:>19.2f}   {start / imports:.2f}")


def taken(path: Path, *words: str) -> tuple[float, float]:
    """Return processor seconds and most memory in MB of one command on a journal, the best of three where it is short."""
    command = [sys.executable, "-m", "paor", *words, "--journal", str(path)]
    first = _used(command)
    return first if first[0] > 5 else min(first, _used(command), _used(command))


def _used(command: list[str]) -> tuple[float, float]:
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    assert status == 0, command
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Write a journal, or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--reading", metavar="RUNS", type=int)
    options = parser.parse_args()
    if options.reading:
        with tempfile.TemporaryDirectory(prefix="paor-bench-") as folder:
            reading(Path(folder), options.reading)
    elif options.file is None:
        parser.error("a FILE, or --reading")
    else:
        print(write_large_journal(options.file, options.rows))


if __name__ == "__main__":
    main()
