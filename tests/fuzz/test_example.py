"""The example agent: the kit finds what is wrong with it, and nothing once it is repaired."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paor.fuzz import search

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the example as its reader does."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return __import__("fuzzed_agent")


@pytest.mark.whole
def test_the_agent_that_pays_twice_is_found_and_fails_again_elsewhere(agent: Any, tmp_path: Path) -> None:
    """In few examples, with a case of few rows; the file is enough for another process."""
    found = search(agent.ShopMachine, examples=300, number=1, app=agent.ShopMachine.app)
    assert found.repro is not None and found.repro.invariant == "check"
    assert "paid twice" in found.repro.told and len(found.repro.rows) <= 12
    path = found.repro.save(tmp_path)
    command = [sys.executable, "-m", "paor", "replay", "--repro", str(path), "--app", agent.ShopMachine.app]
    done = subprocess.run(
        command,
        cwd=EXAMPLES,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("still fails: check at seq")


@pytest.mark.whole
def test_the_repaired_agent_holds(agent: Any) -> None:
    """The case of the broken one too: that is what a repro file is for."""

    class Careful(agent.ShopMachine):  # type: ignore[misc]
        careful = True

    assert search(Careful, examples=40, number=1).violation is None
    found = search(agent.ShopMachine, examples=300, number=1)
    assert found.repro is not None and found.repro.run(Careful) is None
