"""Options of the duplicate guard on the real engine: the strict flag, and bounds of one tool's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paor import Limits, Tool, ToolContext, replay, tool
from paor.errors import ToolError, UsageError
from paor.testing import SeededIds

from ..support.planning import PLAN, STEP, World, ends
from ..support.stored import blocked_steps, started_with
from ..support.worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS

STRICT = Limits(max_steps=100, max_blocked_calls=100, max_consecutive_errors=100, block_repeated_success=True)

UNITS = {
    "three successes": ("AAA", [2, 3]),
    "a success, the same, another fails, the same again": ("AAoAA", [2, 5]),
    "four errors": ("aaaa", [3, 4]),
    "two errors, another, an error": ("aaOa", []),
    "an error, a success, the same, another, the same again": ("aAAOAA", [3, 6]),
    "four successes": ("AAAA", [2, 3, 4]),
    "two threes": ("AAABAAA", [2, 3, 6, 7]),
    "two fours": ("XXXXYXXXX", [2, 3, 4, 7, 8, 9]),
    "pairs": ("AABAABA", [2, 5]),
    "an alternation of seven": ("ABABABA", []),
    "an alternation of eight": ("ABABABAB", [8]),
}
"""Unit cases of the original guard, and lines of its table: a lower-case letter is the same call, and fails."""


def playing(proposals: str, calls: list[str], **options: Any) -> Tool:
    """Return a tool whose n-th action fails if its letter in *proposals* is a small one."""

    @tool("notes.read", **{"effect": "idempotent", **options})
    def play(context: ToolContext, page: int) -> str:
        """Play."""
        calls.append(chr(page))
        if proposals[context.action - 1].islower():
            raise ToolError("torn")
        return chr(page)

    return play


def script(proposals: str) -> list[Any]:
    """Return replies that propose these calls, then stop."""
    calls = [reply for key in proposals.upper() for reply in (SELECT(), PARAMETERS(page=ord(key)), CONTINUE)]
    return [*calls[:-1], STOP, SUCCESS]


@pytest.mark.parametrize("case", UNITS)
def test_C1_D16_the_strict_flag_blocks_a_repeat_of_a_success(tmp_path: Path, case: str) -> None:
    """As the original's unit tests have it, in react mode and within a plan; it is off unless it is set."""
    proposals, expected = UNITS[case]
    for mode in ("react", "planner"):
        steps = [STEP(page=ord(key)) for key in proposals.upper()]
        replies = script(proposals) if mode == "react" else ends(mode, PLAN(*steps))
        calls: list[str] = []
        with World(tmp_path / mode, replies, [playing(proposals, calls)], limits=STRICT) as world:
            assert world.run(mode=mode).state == "Done"
            assert replay(world.journal, world.run_id, world.engine).identical
        assert blocked_steps(world.path) == expected
        assert len(calls) == len(proposals) - len(expected)
        reasons = {row.outcome["duplicate"] for row in world.rows if "duplicate" in row.outcome}
        assert (expected[:1] == [2]) <= ("repeated_success" in reasons)
    assert Limits().block_repeated_success is False


@pytest.mark.parametrize(("proposals", "expected"), [("AA", [2]), ("aA", [])], ids=["success", "error"])
def test_C1_D16_C2_1_the_strict_flag_knows_what_was_before_a_restart(
    tmp_path: Path, proposals: str, expected: list[int]
) -> None:
    """A seeded success blocks, a seeded error does not."""
    from ..crash.test_plan_crashes import losing_at
    from ..support.journey import Lost

    calls: list[str] = []
    tools = [playing(proposals, calls)]
    with (
        World(tmp_path, script(proposals), tools, limits=STRICT, hooks=[losing_at(4)]) as world,
        pytest.raises(Lost),
    ):
        world.run()
    assert calls == ["A"]
    with World(tmp_path, script(proposals), tools, limits=STRICT, ids=SeededIds("later")) as world:
        assert world.engine.resume(world.run_id).state == "Done"
    assert blocked_steps(world.path) == expected


def test_C2_8_a_tool_can_have_limits_of_its_own(tmp_path: Path) -> None:
    """More than the run's, or fewer; other tools keep the run's, and the spec says what counted."""
    limits = Limits(max_steps=100, max_blocked_calls=100)
    cases: list[tuple[dict[str, int], str, list[int]]] = [
        ({"consecutive_limit": 5, "window_freq_limit": 8}, "AAAAAA", [5, 6]),
        ({"consecutive_limit": 2}, "AABA", [2]),
        ({"window_freq_limit": 1}, "ABA", [3]),
        ({}, "AAA", [3]),
    ]
    for number, (own, proposals, expected) in enumerate(cases):
        tools = [playing(proposals, [], duplicate_limits=own)]
        with World(tmp_path / str(number), script(proposals), tools, limits=limits) as world:
            world.run()
            assert replay(world.journal, world.run_id, world.engine).identical
        assert blocked_steps(world.path) == expected
        assert started_with(world.path)["tools"][0]["duplicate_limits"] == own


@pytest.mark.parametrize(
    "own",
    [
        {"consecutive_limit": 1},
        {"window_freq_limit": 0},
        {"window_freq_limit": True},
        {"consecutive_limit": 10_001},
        {"window_size": 3},
        {"consecutive_limit": "3"},
        [3],
    ],
    ids=str,
)
def test_C2_8_limits_of_a_tool_that_cannot_be_used_are_refused(own: Any) -> None:
    """By the tool's name, when it is made."""
    with pytest.raises(UsageError, match=r"notes\.read: "):
        playing("A", [], duplicate_limits=own)
