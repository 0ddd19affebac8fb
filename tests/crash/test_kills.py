"""The crash matrix: a real process is killed at every write and every effect, and another one goes on (docs/crash-matrix.md)."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal

from ..support.worlds import JOURNAL
from .cases import told_by_script
from .comparing import differences
from .facts import facts, problems
from .outside import Outside
from .scenarios import FOLDER, GENERATION, HOSTED, READ_ALL, SCENARIOS, TARGET, clock_of
from .server import ROOT, Server

SLICES = 4
"""Parts of a scenario's points, so that several processors can share them."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Give a process that forks one for every part of a case."""
    serving = Server()
    yield serving
    serving.close()


def uninterrupted(server: Server, folder: Path, scenario: str) -> dict[str, Any]:
    """Return what the run comes to when nobody interrupts it."""
    folder.mkdir()
    found = server.do(folder, scenario, "start")
    assert found["ended"] == 0, found.get("error")
    assert found["problems"] == []
    return found


def judged(found: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    """Return everything that is not as it must be after a crash."""
    if found["ended"] != 0:
        return [str(found.get("error", f"the process ended with {found['ended']}"))]
    return [
        *(f"lost: {line}" for line in found["lost"]),
        *(f"left: {line}" for line in found["left"]),
        *found["problems"],
        *differences(found, whole),
    ]


def test_no_point_is_missed(server: Server, tmp_path: Path) -> None:
    """The points of every scenario are exactly the writes and effects that journal and log speak of."""
    total = 0
    for scenario in SCENARIOS:
        found = uninterrupted(server, tmp_path / scenario.name, scenario.name)
        names, implied = found["points"], found["implied"]
        count = {
            kind: sum(name.startswith(kind) for name in names)
            for kind in ("write", "model", "tool", "switch")
        }
        assert found["commits"] == implied["writes"], (
            "each transaction of the log is one that the journal implies"
        )
        assert count["write"] == 2 * implied["writes"]
        assert count["model"] == 2 * implied["models"]
        assert count["tool"] == 2 * implied["tools"]
        assert count["switch"] == 2, "a new file is switched to a write-ahead log once"
        assert sum(count.values()) == len(names)
        total += len(names)
        if scenario.name == "react":
            assert implied["rows"] > 30
            assert {name for name, _, _ in found["effects"]} == {
                "notes.read",
                "notes.scan",
                "crm.put",
                "mail.send",
                "bank.pay",
            }
    assert total >= 600


@pytest.mark.whole
@pytest.mark.parametrize("part", range(SLICES))
@pytest.mark.parametrize("scenario", [scenario.name for scenario in SCENARIOS])
def test_a_run_killed_at_any_point_ends_like_the_one_that_was_not(
    server: Server, tmp_path: Path, scenario: str, part: int
) -> None:
    """Equal in state, answer, totals, documents, messages and every row; nothing lost, no once effect twice."""
    whole = uninterrupted(server, tmp_path / "whole", scenario)
    failed = []
    for point in range(1 + part, len(whole["points"]) + 1, SLICES):
        folder = tmp_path / str(point)
        folder.mkdir()
        killed = server.do(folder, scenario, "start", point)
        assert killed == {"ended": -signal.SIGKILL}, killed
        found = server.do(folder, scenario, "finish", generation=1)
        name = whole["points"][point - 1]
        failed += [f"killed at {point} ({name}): {line}" for line in judged(found, whole)]
        shutil.rmtree(folder)
    assert failed == []


@pytest.mark.parametrize("name", ["tool mail.send, before", "tool mail.send, after", "write COMMIT, after"])
def test_a_run_killed_at_a_point_ends_like_the_one_that_was_not(
    server: Server, tmp_path: Path, name: str
) -> None:
    """A few of the points below, in the run that the command line drives, too: around the call that must not run twice."""
    whole = uninterrupted(server, tmp_path / "whole", HOSTED)
    folder = tmp_path / "killed"
    killed_at(server, folder, HOSTED, whole["points"].index(name) + 1)
    assert judged(server.do(folder, HOSTED, "finish", generation=1), whole) == []


# -- killed again ----------------------------------------------------------------------------------------------


def killed_at(server: Server, folder: Path, scenario: str, point: int) -> None:
    """Have a process start the run and be killed."""
    folder.mkdir()
    assert server.do(folder, scenario, "start", point) == {"ended": -signal.SIGKILL}


def killed_twice(
    server: Server, tmp_path: Path, scenario: str, whole: dict[str, Any], first: int, seconds: Any
) -> tuple[int, list[str]]:
    """Kill at a point, and whoever goes on at each of *seconds* (a function of their number); returns how many."""
    once = tmp_path / f"once {first}"
    killed_at(server, once, scenario, first)
    dry = tmp_path / f"dry {first}"
    shutil.copytree(once, dry)
    names = server.do(dry, scenario, "finish", generation=1)["points"]
    chosen, told = seconds(len(names)), []
    for second in chosen:
        folder = tmp_path / f"twice {first} {second}"
        shutil.copytree(once, folder)
        again = server.do(folder, scenario, "finish", second, generation=1)
        assert again == {"ended": -signal.SIGKILL}, again
        found = server.do(folder, scenario, "finish", generation=2)
        place = f"{first} ({whole['points'][first - 1]}) and {second} ({names[second - 1]})"
        told += [f"killed at {place}: {line}" for line in judged(found, whole)]
        shutil.rmtree(folder)
    shutil.rmtree(dry)
    return len(chosen), told


@pytest.mark.whole
def test_a_run_killed_within_an_effect_and_again_while_it_is_taken_up(server: Server, tmp_path: Path) -> None:
    """Every class of effect, before and after it: whoever goes on is killed at each of its own first points."""
    whole = uninterrupted(server, tmp_path / "whole", "async")
    firsts = [place for place, name in enumerate(whole["points"], 1) if name.startswith("tool")]
    count = 0
    failed: list[str] = []
    for first in firsts:
        number, told = killed_twice(
            server, tmp_path, "async", whole, first, lambda points: range(1, min(points, 12) + 1)
        )
        count, failed = count + number, failed + told
    assert failed == []
    assert count == 12 * len(firsts) == 72


@pytest.mark.whole
@pytest.mark.parametrize("scenario", ["react", "workflow", "fallback"])
def test_a_run_killed_twice_at_any_two_points(server: Server, tmp_path: Path, scenario: str) -> None:
    """Chosen with a seed."""
    check_pairs(server, tmp_path, scenario, firsts=8, each=2)


def check_pairs(server: Server, tmp_path: Path, scenario: str, *, firsts: int, each: int) -> None:
    """Check some pairs of points of a scenario."""
    choice = random.Random(scenario)
    whole = uninterrupted(server, tmp_path / "whole", scenario)
    count = 0
    failed: list[str] = []
    for first in choice.sample(range(1, len(whole["points"]) - 9), firsts):
        number, told = killed_twice(
            server,
            tmp_path,
            scenario,
            whole,
            first,
            lambda points: choice.sample(range(1, points + 1), min(each, points)),
        )
        count, failed = count + number, failed + told
    assert failed == []
    assert count >= firsts * each // 2


@pytest.mark.whole
@pytest.mark.parametrize("point", [1, 2, 3, 4])
def test_a_run_killed_while_it_renews_its_lease(server: Server, tmp_path: Path, point: int) -> None:
    """In another thread than its own, while a call takes long: before and after the write."""
    whole = uninterrupted(server, tmp_path / "whole", "batch")
    folder = tmp_path / "killed"
    folder.mkdir()
    killed = server.do(folder, "batch", "renewed", point, renewals=True)
    assert killed == {"ended": -signal.SIGKILL}, killed
    assert judged(server.do(folder, "batch", "finish", generation=1), whole) == []


@pytest.mark.whole
def test_files_that_cannot_grow_stop_a_run_and_the_next_process_goes_on(
    server: Server, tmp_path: Path
) -> None:
    """The system's own bound on a file's size, below the SQLite of the standard library: short writes, then errors."""
    whole = uninterrupted(server, tmp_path / "whole", "batch")
    stopped, failed = set(), []
    for size in (0, 2000, 4096, 20_000, *range(33_000, 300_000, 9_973)):
        folder = tmp_path / str(size)
        folder.mkdir()
        tried = server.do(folder, "batch", "try", file_bytes_max=size)
        stopped.add(tried.get("raised"))
        told = tried.get("message") or tried.get("error") or ""
        if tried["ended"] != 0 and not re.search(r"(?m)^paor.*(JournalFull|NotAJournal)", told):
            failed.append(f"{size}: {told}")
        found = server.do(folder, "batch", "finish", generation=1)
        failed += [f"{size}: {line}" for line in judged(found, whole)]
    assert failed == []
    assert {"JournalFull", None} <= stopped, stopped


# -- cancelled -------------------------------------------------------------------------------------------------

LEFT = {
    "in doubt": ("async", "tool mail.send, after"),
    "before an effect that may be repeated": ("async", "tool crm.put, before"),
    "between effects": ("async", "model refinement, after"),
    "within a task": ("workflow", "tool bank.pay, after"),
    "within a task's wait for the model": ("workflow", "model parameters, before"),
}
"""How the run was left that is then cancelled: scenario, and the point at which its driver was killed."""


@pytest.mark.whole
@pytest.mark.parametrize("left", [*LEFT, "waiting"])
def test_a_cancel_killed_at_any_point_is_finished_by_the_next(
    server: Server, tmp_path: Path, left: str
) -> None:
    """Nothing is begun any more, nothing stays open; also when the run is resumed instead, once the wish is written."""
    base = tmp_path / "base"
    if left == "waiting":
        scenario = "approved"
        base.mkdir()
        assert server.do(base, scenario, "wait")["status"] == "waiting"
    else:
        scenario, name = LEFT[left]
        points = uninterrupted(server, tmp_path / "whole", scenario)["points"]
        killed_at(server, base, scenario, points.index(name) + 1)
    dry = tmp_path / "dry"
    shutil.copytree(base, dry)
    whole = server.do(dry, scenario, "cancel", generation=1)
    assert whole["result"] == ["Failed", "cancelled"]
    assert (whole["effects_after"], whole["open"], whole["problems"]) == (0, [], [])
    wished = whole["points"].index("write UPDATE leases, after") + 1
    for point in range(1, len(whole["points"]) + 1):
        for part in ("cancel", "finish"):
            folder = tmp_path / f"{part} {point}"
            shutil.copytree(base, folder)
            assert server.do(folder, scenario, "cancel", point, generation=1) == {"ended": -signal.SIGKILL}
            found = server.do(folder, scenario, part, generation=2)
            assert found["ended"] == 0, found.get("error")
            assert found["problems"] == [] and found["lost"] == []
            oldest = next(run for run in found["facts"] if run["task"] in (0, 1))
            if part == "cancel" or point >= wished:
                assert oldest["end"][:3] == ["Failed", "failed", "cancelled"], (point, oldest["end"])
                assert found["effects"] == whole["effects"], point
            else:
                assert oldest["end"][:2] == ["Done", "done"], point


# -- the command line ------------------------------------------------------------------------------------------


def paor(folder: Path, *arguments: str, target: int = 0, generation: int = 0) -> tuple[int, str]:
    """Run a command in a process of its own; returns its exit code and what it printed."""
    own = {FOLDER: str(folder), TARGET: str(target), GENERATION: str(generation)}
    ended = subprocess.run(
        [sys.executable, "-m", "paor", *arguments, "--journal", str(folder / JOURNAL), "--json"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **own},
        timeout=300,
        check=False,
    )
    return ended.returncode, ended.stdout or ended.stderr


APP = ("--app", "tests.crash.app:engine")
RUN = ("run", READ_ALL, "--max-steps", "9", *APP)


def told_of(folder: Path) -> dict[str, Any]:
    """Return the facts of a journal as it stands."""
    outside = Outside(folder, clock_of(9))
    with Journal(folder / JOURNAL, read_only=True) as journal:
        reader = Engine(journal=journal)
        return {"facts": facts(reader), "problems": problems(reader) + outside.problems()}


@pytest.fixture(scope="module")
def by_command(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str]]:
    """Give what the uninterrupted command comes to, and its points."""
    folder = tmp_path_factory.mktemp("whole")
    assert paor(folder, *RUN)[0] == 0
    names = uninterrupted(server, tmp_path_factory.mktemp("points") / "whole", HOSTED)["points"]
    return told_of(folder), names


@pytest.mark.whole
@pytest.mark.parametrize(
    "name", ["tool mail.send, after", "tool mail.send, before", "tool crm.put, after", "tool bank.pay, after"]
)
def test_the_command_line_goes_on_after_a_kill(
    tmp_path: Path, by_command: tuple[dict[str, Any], list[str]], name: str
) -> None:
    """`paor run` is killed, `paor verify` passes, `paor resume` with what is known outside comes to the same."""
    whole, names = by_command
    assert paor(tmp_path, *RUN, target=names.index(name) + 1)[0] == -signal.SIGKILL
    assert paor(tmp_path, "verify")[0] == 0
    assert told_by_script(str(tmp_path / JOURNAL)) == []
    code, text = paor(tmp_path, "resume", "last", *APP, generation=1)
    if code == 5:
        value = Outside(tmp_path, clock_of(9)).value_of(json.loads(text)["waiting_for"]["key"])
        answer = (
            ["--outcome", "retry"] if value is None else ["--outcome", "done", "--result", json.dumps(value)]
        )
        code, text = paor(tmp_path, "resume", "last", *answer, *APP, generation=2)
    assert code == 0, text
    found = told_of(tmp_path)
    assert found["problems"] == []
    assert differences(found, whole) == []
