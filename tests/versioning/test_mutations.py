"""
Three hundred single edits to what decides: every one of them is reported.

By the replay of a corpus of journals, with the first row and field that differ, where some run of it visits the edited place;
else by the fingerprint of the part, which then is told as changed. Edits that neither tells must stand in `EQUIVALENT` with
the reason why they change nothing. Of the three hundred a tenth is judged, and those of every file that the change
touches (tests/support/rotation.py); ``pytest --whole`` judges them all, ``pytest -m large`` two thousand others.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ..support.pages import PACKAGE, ROOT
from .corpus import record
from .mutants import LEFT_OUT, SOURCES, edits, mutants

COUNT, SEED = 300, 20260101
SHARES = {
    "guard": 0.8,
    "table": 0.8,
    "handler": 0.6,
    "limit": 0.2,
    "limits": 0.6,
    "prompt": 0.6,
    "parser": 0.4,
    "policy": 1.0,
    "template": 0.8,
    "tool": 0.8,
}
"""
At least so many of a kind does the replay itself name. Of the file of limits most edits are defaults and bounds for runs to come:
a recorded run has its own, so that only the fingerprint can tell them.
"""

EQUIVALENT: dict[str, str] = {}
"""Edits that neither replay nor fingerprint names, and why they change nothing."""


def judged(folder: Path, count: int, seed: int, places: list[int] | None = None) -> list[dict[str, Any]]:
    """Return every mutant, or those at the *places*, with what was found, from a process that has nothing else loaded."""
    record(folder)
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    command = [
        sys.executable,
        "-m",
        "tests.versioning.mutation_judge",
        str(folder),
        str(count),
        str(seed),
        str(workers),
    ]
    command += [] if places is None else [json.dumps(places)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


def told(mutant: dict[str, Any]) -> str:
    """Return a mutant as one line."""
    return f"{mutant['kind']} {mutant['file']}:{mutant['line']} {mutant['place']}: {mutant['what']}"


def check(found: list[dict[str, Any]], count: int, *, spared: int = 0) -> None:
    """Assert that every mutant is reported, and most of a kind by the row that they change; *spared* of each need not be."""
    assert len(found) == count
    unseen = [told(item) for item in found if not item["by"] and not item["parts"]]
    assert [line for line in unseen if line.partition(": ")[2] not in EQUIVALENT] == []
    kinds, caught = (
        Counter(item["kind"] for item in found),
        Counter(item["kind"] for item in found if item["by"]),
    )
    table = "\n".join(
        f"{kind}: {caught[kind]} of {number} by replay" for kind, number in sorted(kinds.items())
    )
    silent = "\n".join(told(item) for item in found if not item["by"])
    print(f"{table}\nby their fingerprint only:\n{silent}")
    for kind, number in kinds.items():
        assert caught[kind] >= SHARES.get(kind, 0.0) * number - spared, f"{kind}\n{table}\n{silent}"
    for item in found:
        if item["by"] and item["field"] not in ("load", "end"):
            assert item["run"] and item["field"] and isinstance(item["seq"], int), item


@pytest.mark.whole
def test_every_single_edit_is_reported(tmp_path: Path) -> None:
    """Guards, handlers, prompts, defaults, limits, tools: with the first row and field, or by name."""
    check(judged(tmp_path, COUNT, SEED), COUNT)


@pytest.mark.large
def test_every_single_edit_is_reported_of_two_thousand(tmp_path: Path) -> None:
    """The same with other edits."""
    check(judged(tmp_path, 2000, SEED + 1), 2000)


def test_what_is_left_out_is_there() -> None:
    """A name that no mutated file defines any more would hide another function that is called so one day."""
    files = [PACKAGE / file for _, paths in SOURCES.values() for file in paths]
    defined = {
        name for file in files for name in re.findall(r"def (\w+)\(", file.read_text(encoding="utf-8"))
    }
    assert LEFT_OUT - defined == set()


def test_the_mutants_are_the_same_for_the_same_seed() -> None:
    """Different from each other, of every kind, and each of them is code."""
    first, again = mutants(60, 1), mutants(60, 1)
    assert [str(one) for one in first] == [str(one) for one in again]
    assert {edit.kind for edit in edits(COUNT, SEED)} == {*SOURCES, "template", "limits", "policy", "tool"}
    for one in first:
        if one.file.endswith(".py"):
            compile(one.text, one.file, "exec")
