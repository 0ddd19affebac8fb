"""
Every guarantee has a test that fails when it is broken: each edit of docs/guarantees.toml is made, and seen.

The first edit of a guarantee is made in every run, in a process that has the tests imported (`tests/project/preloaded.py`). The
others are left to ``pytest --whole``; one that cannot be made there, or that only other processes would see, is made in a
copy of the project.
"""

from __future__ import annotations

import ast
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ..support.edits import Edit, applied, found, sources
from ..support.pages import ROOT
from ..support.selection import WHOLE_FILE
from .preloaded import Preloaded

COPIED = ("src", "tests", "docs", "examples", "pyproject.toml", "README.md")


def _table() -> Any:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("guarantees_table")
    finally:
        sys.path.pop(0)


TABLE = _table()
FIRST = [item.broken[0] for item in TABLE.guarantees()]
OTHERS = [edit for item in TABLE.guarantees() for edit in item.broken[1:]]


def _edit(edit: Any) -> Edit:
    return Edit(edit.place, edit.at, edit.change, edit.what)


def _named(edit: Any) -> str:
    return f"{edit.place}: {edit.what}"


@pytest.fixture(scope="module")
def preloaded() -> Iterator[Preloaded]:
    made = Preloaded()
    yield made
    made.close()


def test_every_guarantee_has_tests_that_are_there_and_an_edit_that_breaks_it() -> None:
    items = TABLE.guarantees()
    assert items
    for item in items:
        assert item.broken, item.says
        assert item.says.endswith("."), item.says
        for test in item.tests:
            file, _, name = test.partition("[")[0].partition("::")
            assert name in TABLE.tests_of(file), f"{test} is not there"
    assert len({item.says for item in items}) == len(items)


@cache
def left_to_whole(file: str) -> frozenset[str]:
    """Return the names of a file's tests, classes and cases that carry the marker ``whole`` themselves; all of them where the file does."""
    text = (ROOT / file).read_text(encoding="utf-8")
    marked = {
        node.name
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and (
            WHOLE_FILE in text
            or any(ast.unparse(mark) == "pytest.mark.whole" for mark in node.decorator_list)
        )
    }
    return frozenset(marked)


def test_every_guarantee_has_a_test_in_the_default_set() -> None:
    """So that a run of the tests as the README has it fails when any promise is broken."""
    without = []
    for item in TABLE.guarantees():
        places = [test.partition("[")[0].partition("::") for test in item.tests]
        if all(name.partition("::")[0] in left_to_whole(file) for file, _, name in places):
            without.append(item.says)
    assert without == []


def test_every_edit_finds_its_node() -> None:
    """Those that are left to the whole run too: a change of the code must not leave a guarantee without what breaks it."""
    for edit in FIRST + OTHERS:
        found(_edit(edit), sources())


@pytest.mark.parametrize("edit", FIRST, ids=_named)
def test_the_first_edit_of_a_guarantee_is_seen_by_its_test(edit: Any, preloaded: Preloaded) -> None:
    """And the functions that were changed are live ones: no test fails for an edit that was not made."""
    seen = preloaded.test(edit.test, _edit(edit))
    if seen.outcome == "skipped":
        pytest.skip(seen.output)
    assert seen.replaced, f"no live function is changed by {_edit(edit)}\n{seen.output}"
    assert seen.outcome == "failed", (
        f"{edit.test} should fail, it {seen.outcome}: {_edit(edit)}\n{seen.output}"
    )


@pytest.mark.whole
@pytest.mark.parametrize("edit", OTHERS, ids=_named)
def test_every_other_edit_is_seen_by_its_test(edit: Any, preloaded: Preloaded, tmp_path: Path) -> None:
    if preloaded.test(edit.test, _edit(edit)).outcome != "failed":
        seen = _in_a_copy(edit, tmp_path)
        assert seen.returncode == 1, (
            f"{edit.test} should fail (exit code 1): {_edit(edit)}\n{seen.stdout[-3000:]}"
        )
        assert "error during collection" not in seen.stdout


@pytest.mark.whole
@pytest.mark.parametrize("test", sorted({edit.test for edit in FIRST + OTHERS}))
def test_a_named_test_passes_as_long_as_nothing_is_edited(test: str, preloaded: Preloaded) -> None:
    """In the same process: what an edit is seen by is the edit's doing."""
    seen = preloaded.test(test)
    assert seen.outcome == "passed", seen.output


def _in_a_copy(edit: Any, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the test of an edit on a copy of the project that has it."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.db", "*.db-*")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, folder / name)
    for path, text in applied([_edit(edit)]).items():
        (folder / path).write_text(text, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", edit.test],
        cwd=folder,
        env=kept | {"PYTHONPATH": str(folder / "src"), "PAOR_TESTS_AGAIN": str(folder / "seconds")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
