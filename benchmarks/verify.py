"""
Verifying against its floor: ``python benchmarks/verify.py [ROWS] [--journal FILE]``, a million rows unless told otherwise.

The floor reads the same rows with sqlite3, `json.loads` their texts and takes SHA-256 of them; it does not
look at the payloads, which `paor verify` hashes as well. Both are measured in turn on one processor, the file in memory.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from large import taken, write_large_journal

Row = tuple[str, str, str]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--journal", type=Path, help="an existing journal instead of a new one")
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paor-bench-") as folder:
        path = options.journal or Path(folder, "large.db")
        if options.journal is None:
            write_large_journal(path, options.rows)
        for name, figure, target in measured(path, options.pairs):
            print(f"{name:<44}  {figure:>14}  {target}")


def measured(path: Path, pairs: int) -> list[Row]:
    """Return the figures of verifying the journal at *path*."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with closing(sqlite3.connect(path)) as connection:
        ((rows,),) = connection.execute("SELECT count(*) FROM transitions")
        ((payloads, size),) = connection.execute(
            "SELECT count(*), sum(length(CAST(body AS BLOB))) FROM payloads"
        )
    floors, own = [], []
    for _ in range(pairs):
        floors.append(_timed(floor, path))
        own.append(_timed(verify, path))
    ratio = statistics.median(one[1] / two[1] for one, two in zip(floors, own, strict=True))
    wall, processor = min(own)[0], min(item[1] for item in own)
    least = min(item[1] for item in floors)
    return [
        ("rows / payloads / MB of payloads", f"{rows:,} / {payloads:,} / {size / 1e6:,.0f}", ""),
        ("rate of verify / rate of the floor", f"{ratio:.2f}", ">= 0.50"),
        ("rows verified a second of processor time", f"{rows / processor:,.0f}", ""),
        ("seconds a million rows, processor", f"{processor / rows * 1e6:.1f}", "<= 15"),
        ("seconds a million rows, wall", f"{wall / rows * 1e6:.1f}", "<= 15"),
        ("the floor's seconds a million rows, processor", f"{least / rows * 1e6:.1f}", ""),
        ("peak memory of paor verify", f"{taken(path, 'verify')[1]:.0f} MB", "<= 100 MB"),
    ]


def floor(path: Path) -> None:
    """Read, decode and hash every row, nothing else."""
    with closing(sqlite3.connect(path)) as connection:
        for text, _ in connection.execute('SELECT "row", hash FROM rows ORDER BY id'):
            json.loads(text)
            hashlib.sha256(text.encode()).digest()


def verify(path: Path) -> None:
    """What `paor verify` does."""
    from paor import Journal

    with Journal(path, read_only=True) as journal:
        assert journal.verify() == []


def _timed(function: object, path: Path) -> tuple[float, float]:
    """Return seconds of the wall clock and of the processor."""
    assert callable(function)
    wall, processor = time.perf_counter(), time.process_time()
    function(path)
    return time.perf_counter() - wall, time.process_time() - processor


if __name__ == "__main__":
    main()
