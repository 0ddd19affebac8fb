"""The simulation: nothing is found in the engine as it is, every planted edit is, and a seed repeats its world."""

from __future__ import annotations

import ast
import os
import re
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


def test_nothing_is_lost_or_done_twice_in_worlds_where_anything_goes_wrong() -> None:
    """Kills, suspended drivers, clocks that are set, full disks, servers that fail, messages that come twice."""
    found = list(until(200, worlds(SEED)))
    assert [outcome for outcome in found if outcome.broken] == []
    totals = {name: sum(outcome.totals[name] for outcome in found) for name in found[0].totals}
    assert all(totals[name] for name in ("kills", "faults", "messages", "calls")), totals


def test_nothing_is_lost_or_done_twice_on_many_machines() -> None:
    """Workers and hosts with clocks of their own, cut off from a store that fails over: what was submitted comes to its end."""
    found = list(until(120, worlds(SEED, machines=True)))
    assert [outcome for outcome in found if outcome.broken] == []
    totals = {name: sum(outcome.totals[name] for outcome in found) for name in found[0].totals}
    assert all(totals[name] for name in ("kills", "cuts", "failovers", "messages", "calls")), totals


@pytest.mark.parametrize("seed", [205, 1062, 2686])
def test_a_world_that_was_judged_wrongly_or_has_shown_a_bug_holds(seed: int) -> None:
    """A once call was made by a driver that had slept; two others were false alarms."""
    (outcome,) = chunk(seed, 1)
    assert outcome.broken == ()


@pytest.mark.parametrize("world", [("1062",), ("3", "--machines")])
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


@pytest.mark.parametrize("arguments", [("--runs", "0"), ("--seed", "x"), ("--workers", "0")])
def test_arguments_that_cannot_be_used_end_with_2(arguments: tuple[str, str]) -> None:
    assert command(*arguments).returncode == 2


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


@pytest.mark.large
def test_nothing_is_found_in_100_000_runs() -> None:
    """The measurement of the release."""
    ended = command("--seed", "1", "--runs", "100000", "--workers", str(os.cpu_count() or 1))
    assert ended.returncode == 0, ended.stdout[-3000:]


@pytest.mark.large
def test_nothing_is_found_with_10_000_processes_on_many_machines() -> None:
    """The measurement of the release; a world has 12 of them."""
    ended = command("--machines", "--seed", "1", "--runs", "4000", "--workers", str(os.cpu_count() or 1))
    assert ended.returncode == 0, ended.stdout[-3000:]
    assert int(re.findall(r"([0-9,]+) processes", ended.stdout)[0].replace(",", "")) >= 10_000
