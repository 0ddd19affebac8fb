"""Storage faults and power loss below SQLite: what the journal says is so, whatever the disk does (docs/crash-matrix.md)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from paor import PaorError
from paor.errors import JournalError, JournalFull
from paor.fsm.journal.sqlite import file as journal_file

from .cases import finished_by, lost_rows, settled, started_by
from .comparing import differences
from .disk import Disk, Fault, Kept, image_of, mounted
from .outside import Outside
from .points import Points
from .scenarios import BY_NAME, Scenario, clock_of

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


def with_fault(
    folder: Path, scenario: Scenario, fault: Fault, after: str, whole: dict[str, Any]
) -> list[str]:
    """Run with a fault, go on without it, and return everything that is not as it must be."""
    folder.mkdir()
    disk = Disk(fault)
    told: list[str] = []
    at_fault: list[int] = []
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
    return [*told, *found["left"], *found["problems"], *differences(found, whole)]


def _done(outside: Outside) -> int:
    """Return how many effects and requests there were."""
    return sum(1 for log in (outside.effects, outside.asked) for _ in log)


def _fits(fault: Fault, error: JournalError) -> bool:
    """Return whether an error is the one that a fault is told as, in one line that names the file."""
    kind = JournalFull if fault.operation in ("write", "sync") else JournalError
    return isinstance(error, kind) and "runs.db" in str(error) and "\n" not in str(error)


def test_a_disk_that_fails_at_some_operations_stops_the_run_and_nothing_is_lost_or_done_twice(
    tmp_path: Path,
) -> None:
    """One in twenty-nine of the faults below, of every kind."""
    check_faults(tmp_path, BY_NAME["brief"], 3, parts=29)


@pytest.mark.whole
@pytest.mark.parametrize("part", range(4))
def test_a_disk_that_fails_at_any_operation_stops_the_run_and_nothing_is_lost_or_done_twice(
    tmp_path: Path, part: int
) -> None:
    """Full disk, error and short write at every write; errors at every sync, read, truncation and deletion."""
    check_faults(tmp_path, BY_NAME["brief"], part, parts=4)


def check_faults(tmp_path: Path, scenario: Scenario, part: int, *, parts: int) -> None:
    """Check a part of the faults of a scenario, each with one of the ways to go on."""
    whole, disk = run_whole(tmp_path / "whole", scenario)
    cases, failed = faults(disk.counts), list[str]()
    for number, fault in enumerate(cases):
        if number % parts == part:
            folder, way = tmp_path / str(number), AFTER[(number + number // 3) % 3]
            failed += [f"{fault}, {way}: {line}" for line in with_fault(folder, scenario, fault, way, whole)]
            shutil.rmtree(folder)
    assert failed == []
    assert len(cases) >= 300


def test_a_lease_whose_commit_failed_is_held_by_nobody(tmp_path: Path) -> None:
    """A commit whose sync failed may stand in the file all the same; the process that failed can go on at once."""
    scenario = BY_NAME["brief"]
    whole, _ = run_whole(tmp_path / "whole", scenario)
    told = []
    for number in range(4, 9):  # the run's creation is among them
        fault = Fault("sync", number, "sync", lasting=True)
        told += with_fault(tmp_path / str(number), scenario, fault, AFTER[1], whole)
    assert told == []


# -- power loss ------------------------------------------------------------------------------------------------


@dataclass
class Moment:
    """
    A moment just before a sync: what is asked for since the last one is at the disk's mercy.

    Attributes:
        files: What the disk knows of each file.
        logs: The world outside at that moment, by file name; it is not lost.
    """

    files: dict[str, Kept]
    logs: dict[str, bytes] = field(default_factory=dict)


def recorded(folder: Path, scenario: Scenario) -> tuple[dict[str, Any], list[Moment]]:
    """Return what an uninterrupted run comes to, and every moment of it at which the power may be cut."""
    folder.mkdir()
    moments: list[Moment] = []
    disk = Disk()

    def keep() -> None:
        logs = {name: (folder / name).read_bytes() for name in LOGS if (folder / name).exists()}
        moments.append(Moment(disk.snapshot(), logs))

    disk.on_sync = lambda kind: keep()
    with mounted(disk):
        found = started_by(scenario, folder)
        keep()
    assert found["problems"] == []
    return found, moments


def images(moments: list[Moment], chances: int) -> Iterator[tuple[str, Moment, dict[str, bytes]]]:
    """Yield everything that may be found, each once: at every moment the least, the most, and some of what is between."""
    known = set()
    for number, moment in enumerate(moments):
        for chance in range(chances + 2):
            choice = random.Random(f"{number}/{chance}") if chance > 1 else None
            files = image_of(moment.files, choice, all_written=chance == 1)
            told = sha256(repr((sorted(files.items()), moment.logs["seen.jsonl"])).encode()).digest()
            if told not in known:
                known.add(told)
                yield (
                    f"moment {number}, {('least', 'most')[chance] if chance < 2 else f'chance {chance}'}",
                    moment,
                    files,
                )


def after_power_loss(
    folder: Path, scenario: Scenario, moment: Moment, files: dict[str, bytes], whole: dict[str, Any]
) -> list[str]:
    """Open what was found, go on, and return everything that is not as it must be."""
    folder.mkdir()
    for name, data in {**files, **moment.logs}.items():
        (folder / name).write_bytes(data)
    outside = Outside(folder, clock_of(1))
    lost = lost_rows(folder, outside)
    with scenario.engine(folder, Points(), outside, ids="later") as engine:
        found = finished_by(scenario, engine, outside)
    if scenario.durability == "full":
        return [*lost, *found["left"], *found["problems"], *differences(found, whole)]
    # rows may be lost, and what they led to may be done again; what is there holds, and the run comes to its end
    repeated = outside.problems()
    held = [line for line in found["problems"] if line not in repeated]
    return [*found["left"], *held, *differences(found, whole)]


def check_power(
    tmp_path: Path, scenario: Scenario, chances: int, *, part: int = 0, parts: int = 1, least: int
) -> None:
    """Check a part of the images of a scenario; there are at least *least*."""
    whole, moments = recorded(tmp_path / "whole", scenario)
    failed, count = [], 0
    for count, (name, moment, files) in enumerate(images(moments, chances), 1):
        if count % parts == part:
            folder = tmp_path / str(count)
            failed += [f"{name}: {line}" for line in after_power_loss(folder, scenario, moment, files, whole)]
            shutil.rmtree(folder)
    assert failed == []
    assert count >= least


@pytest.fixture
def small_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the log moved into the file every few rows, so that this, too, is interrupted."""
    monkeypatch.setattr(journal_file, "WAL_PAGES", 25)


def test_power_loss_in_a_brief_run_loses_nothing_that_was_seen(tmp_path: Path) -> None:
    """At some syncs, with the least and the most that the disk may have kept."""
    check_power(tmp_path, BY_NAME["brief"], 0, part=1, parts=5, least=15)


@pytest.mark.whole
@pytest.mark.usefixtures("small_log")
@pytest.mark.parametrize("part", range(2))
def test_power_loss_at_any_sync_loses_nothing_that_was_seen(tmp_path: Path, part: int) -> None:
    """At the default durability, whatever of the unsynced writes the disk has kept, in whatever order."""
    check_power(tmp_path, BY_NAME["react"], 1, part=part, parts=2, least=120)


@pytest.mark.whole
@pytest.mark.usefixtures("small_log")
@pytest.mark.parametrize("name", ["batch", "fallback"])
def test_power_loss_with_several_chances(tmp_path: Path, name: str) -> None:
    """Smaller runs, more of what a disk may hold."""
    check_power(tmp_path, BY_NAME[name], 2, least=60)


@pytest.mark.whole
@pytest.mark.usefixtures("small_log")
def test_power_loss_without_syncs_leaves_a_shorter_run_that_holds(tmp_path: Path) -> None:
    """At durability normal rows may be lost: the chain is whole up to where it ends, and the run goes on from there."""
    check_power(tmp_path, replace(BY_NAME["batch"], durability="normal"), 6, least=30)
