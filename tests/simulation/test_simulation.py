"""The simulation: nothing is found in the engine as it is, every planted edit is, and a seed repeats its world."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..fuzz.planted_bugs import Bug, patched
from ..support.edits import sources
from .mutants import bugs, judge
from .simulate import chunk, until, worlds

ROOT = Path(__file__).resolve().parents[2]
SEED = 1
RUNS_MAX = 4000
"""Runs within which an edit is looked for here; `python -m tests.simulation.simulate --mutants` has more patience."""


RUNS_OF = {"sleeper_counts_as_ended": 8000}
"""Of edits that show more seldom: this one after 4,186 runs."""

PATIENT = {
    "cancel_is_not_read_when_taken_up",
    "cancel_is_not_read_before_a_call",
    "call_that_still_runs_is_forgotten",
    "call_that_still_runs_is_asked_for",
    "fork_trusts_the_reconciliation",
    "approval_of_the_parent_counts",
    "settled_call_leaves_its_successor_in_doubt",
    "approval_never_gets_old",
}
"""Edits that were not found within so many when this was measured last."""


def command(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Call the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation.simulate", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_few_worlds_hold() -> None:
    """Of one machine and of many; among them one whose once call was made by a driver that had slept."""
    found = [*chunk(SEED, 8), *chunk(205, 1), *chunk(SEED, 4, machines=True)]
    assert [outcome for outcome in found if outcome.broken] == []


@pytest.mark.whole
@pytest.mark.parametrize(("machines", "runs"), [(False, 200), (True, 120)])
def test_nothing_is_lost_or_done_twice_in_worlds_where_anything_goes_wrong(machines: bool, runs: int) -> None:
    """Kills, suspended drivers, clocks that are set, full disks, servers that fail over, messages that come twice."""
    found = list(until(runs, worlds(SEED, machines=machines)))
    assert [outcome for outcome in found if outcome.broken] == []
    totals = {name: sum(outcome.totals[name] for outcome in found) for name in found[0].totals}
    wrong = ("kills", "cuts", "failovers") if machines else ("kills", "faults")
    assert all(totals[name] for name in (*wrong, "messages", "calls")), totals


@pytest.mark.whole
@pytest.mark.parametrize("seed", [1062, 2686])
def test_a_world_that_was_judged_wrongly_holds(seed: int) -> None:
    """Two false alarms."""
    (outcome,) = chunk(seed, 1)
    assert outcome.broken == ()


@pytest.mark.parametrize("world", [("1062",), pytest.param(("3", "--machines"), marks=pytest.mark.whole)])
def test_a_seed_repeats_its_world_line_by_line_in_any_process(world: tuple[str, ...]) -> None:
    """Whatever the hash seed is."""
    traces = [
        [
            line
            for line in command(
                "--seed", *world, "--runs", "1", "--trace", hash_seed=seed
            ).stdout.splitlines()
            if "seeds from" not in line  # the time that it took
        ]
        for seed in ("0", "4711")
    ]
    assert traces[0] == traces[1]
    assert len(traces[0]) > 100


@pytest.mark.parametrize("bug", bugs(), ids=lambda bug: bug.name)
def test_a_planted_bug_applies(bug: Bug) -> None:
    """Those that the simulation is slow to find too."""
    assert all(
        ast.dump(ast.parse(text)) != ast.dump(ast.parse(sources()[file]))
        for file, text in patched(bug).items()
    )


@pytest.mark.whole
@pytest.mark.parametrize("bug", [bug for bug in bugs() if bug.name not in PATIENT], ids=lambda bug: bug.name)
def test_an_edit_is_found(bug: Bug) -> None:
    """By the first seeds of all."""
    told = judge(bug.name, SEED, RUNS_OF.get(bug.name, RUNS_MAX))
    assert told["found"], told
