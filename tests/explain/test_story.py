"""The story of a run: the command line, the MCP server and the page say the same of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from paor import Engine, ScriptedModel
from paor.testing import call, scripted_tool

from ..support.journeys import JOURNEYS, Journey, play
from .telling import answered, printed, told_alike


@pytest.mark.parametrize("journey", JOURNEYS[::6], ids=[journey.name for journey in JOURNEYS[::6]])
def test_every_screen_says_the_same_of_a_run(journey: Journey, tmp_path: Path) -> None:
    """Of its head, its calls and each of its rows; without content the same keys, and no text."""
    with journey.engine(tmp_path) as scripted:
        result = play(journey, scripted)
        assert told_alike(scripted.journal, result.run_id, every=3) > 1


def test_what_a_criterion_came_to_is_open_until_the_run_has_ended(tmp_path: Path) -> None:
    """Met, not met, and open are three things, wherever they are shown."""
    tool = scripted_tool("notes.read", ["page"], effect="read")
    path = str(tmp_path / "runs.db")
    with Engine(ScriptedModel([*call("notes.read")]), [tool], path, builtins=False) as engine:
        run_id = engine.run("Read", ["it is read"]).run_id
    told = printed("show", run_id, "--journal", path)["criteria"]
    assert [item["met"] for item in told] == [False]
    assert answered(path, "show", content=False, run=run_id)["criteria"] == [
        {"criterion": None, "met": False, "evidence": None}
    ]
    assert json.dumps(told)
