"""Storage faults and power loss below SQLite: what the journal says is so, whatever the disk does (docs/crash-matrix.md)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from paor import JournalError, JournalFull, PaorError
from paor.fsm import journal_file

from .crash.cases import finished_by, lost_rows, settled, started_by
from .crash.comparing import differences
from .crash.disk import CODES, Disk, Fault, Kept, image_of, mounted
from .crash.outside import Outside
from .crash.points import Points
from .crash.scenarios import BY_NAME, Scenario, clock_of

LOGS = ("effects.jsonl", "asked.jsonl", "seen.jsonl")


def run_whole(folder: Path, scenario: Scenario) -> tuple[dict[str, Any], Disk]:
    """Return what the run comes to on a sound disk, and that disk."""
    found = []
    for judged in (True, False):
        place, disk = folder / str(judged), Disk()
        place.mkdir(parents=True)
        with mounted(disk):
            found.append(started_by(scenario, place, judged=judged))
    assert found[0]["problems"] == []
    return found[0], disk


# -- faults ----------------------------------------------------------------------------------------------------


def faults(counts: Mapping[str, int]) -> list[Fault]:
    """Return every fault at every operation of a run."""
    found = []
    for number in range(1, counts["write"] + 1):
        found += [
            Fault("write", number, "full", lasting=True),
            Fault("write", number, "write"),
            Fault("write", number, "full", short=True, lasting=True),
        ]
    for number in range(1, counts["sync"] + 1):
        found += [Fault("sync", number, "sync"), Fault("sync", number, "sync", lasting=True)]
    for operation in ("read", "truncate", "delete"):
        found += [Fault(operation, number, operation) for number in range(1, counts[operation] + 1)]
    return found


AFTER = ("same engine", "another process", "a process that died meanwhile")
"""Who goes on once the fault is gone; the last one finds the files as they were before it went."""


def with_fault(folder: Path, scenario: Scenario, fault: Fault, after: str, whole: dict[str, Any]) -> list[str]:
    """Run with a fault, go on without it, and return everything that is not as it must be."""
    folder.mkdir()
    disk, told, at_fault = Disk(fault), [], list[int]()
    died = folder / "died"
    with mounted(disk):
        outside = Outside(folder, clock_of(0))
        disk.on_fault = lambda: at_fault.append(_done(outside))
        engine = None
        try:
            engine = scenario.engine(folder, Points(), outside)
            settled(scenario, engine, outside, scenario.start(engine))
        except JournalError as error:
            told += [] if _fits(fault, error) else [f"raised {type(error).__name__}: {error}"]
            if _done(outside) != at_fault[0]:
                told.append("an effect was begun after the fault")
        except PaorError as error:
            told.append(f"raised {type(error).__name__}: {error}")
        if after == AFTER[0] and not disk.failed:
            after = AFTER[1]  # it happens when the file is closed
        if after == AFTER[1] and engine is not None:
            engine.close()
        if after == AFTER[2]:
            died.mkdir()
            for name in ("runs.db", "runs.db-wal", "runs.db-journal", *LOGS):
                if (folder / name).exists():
                    shutil.copy(folder / name, died / name)
            if engine is not None:
                engine.close()
        assert disk.failed, f"{fault} did not happen"
        disk.mend()
        if engine is not None and after == AFTER[0]:
            found = finished_by(scenario, engine, outside, scripted=False)
            engine.close()
    if engine is None or after != AFTER[0]:
        place = died if after == AFTER[2] else folder
        outside = Outside(place, clock_of(1))
        told += lost_rows(place, outside)
        with scenario.engine(place, Points(), outside, ids="later") as other:
            found = finished_by(scenario, other, outside)
    return told + found["left"] + found["problems"] + differences(found, whole)


def _done(outside: Outside) -> int:
    """Return how many effects and requests there were."""
    return sum(1 for log in (outside.effects, outside.asked) for _ in log)


def _fits(fault: Fault, error: JournalError) -> bool:
    """Return whether an error is the one that a fault is told as, in one line that names the file."""
    kind = JournalFull if fault.operation in ("write", "sync") else JournalError
    return isinstance(error, kind) and "runs.db" in str(error) and "\n" not in str(error)


@pytest.mark.parametrize("part", range(4))
def test_a_disk_that_fails_at_any_operation_stops_the_run_and_nothing_is_lost_or_done_twice(
    tmp_path: Path, part: int
) -> None:
    """Full disk, error and short write at every write; errors at every sync, read, truncation and deletion."""
    check_faults(tmp_path, "brief", part, parts=4, every=1)


@pytest.mark.large
@pytest.mark.parametrize("part", range(8))
def test_a_disk_that_fails_at_any_operation_of_a_long_run(tmp_path: Path, part: int) -> None:
    """The same for a run of more than 40 transitions, with checkpoints on the way, and each way to go on."""
    check_faults(tmp_path, "react", part, parts=8, every=3)


def check_faults(tmp_path: Path, name: str, part: int, *, parts: int, every: int) -> None:
    """Check a part of the faults of a scenario, each with *every* of the ways to go on."""
    scenario = BY_NAME[name]
    whole, disk = run_whole(tmp_path / "whole", scenario)
    cases = faults(disk.counts)
    failed = []
    for number, fault in enumerate(cases):
        for after in range(every):
            if number % parts == part:
                folder = tmp_path / f"{number}_{after}"
                way = AFTER[(number + number // 3 + after) % 3]
                failed += [f"{fault}, {way}: {line}" for line in with_fault(folder, scenario, fault, way, whole)]
                shutil.rmtree(folder)
    print(f"\n{len(cases)} faults of {name}: {disk.counts}")
    assert failed == []
    assert len(cases) >= 300
