"""The crash matrix: a real process is killed at every write and every effect, and another one goes on (docs/crash-matrix.md)."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .crash.comparing import differences
from .crash.scenarios import SCENARIOS
from .crash.server import Server

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
    print(f"\n{total} kill points in {len(SCENARIOS)} scenarios")
    assert total >= 600


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
