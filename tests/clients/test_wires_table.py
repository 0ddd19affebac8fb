"""The table of docs/models.md: every test that it names is there, with its case, and no situation is missing."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest

from ..support.pages import ROOT
from .test_endings import SITUATIONS


def table() -> Any:
    """Return the module that makes the table."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("wires_table")
    finally:
        sys.path.pop(0)


def test_every_situation_that_ends_a_run_is_in_the_table_and_every_file_is_there() -> None:
    """Under its name; the cases are looked at below."""
    rows = list(table().rows())
    assert {what for what, _, _ in rows}.issuperset(SITUATIONS)
    for _, wires, tests in rows:
        for test in tests:
            file, _, name = test.partition("[")[0].partition("::")
            assert f"def {name}(" in (ROOT / "tests" / "clients" / file).read_text(encoding="utf-8"), test
            assert wires and "WIRE" in test


@pytest.mark.whole
def test_every_case_that_the_table_names_is_collected() -> None:
    """For each of the interfaces that it says."""
    named = {
        f"tests/clients/{test.replace('WIRE', wire)}"
        for _, wires, tests in table().rows()
        for test in tests
        for wire in wires
    }
    files = sorted({name.partition("::")[0] for name in named})
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "--whole",
        "-p",
        "no:cacheprovider",
        *files,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert named <= set(done.stdout.splitlines())
