"""Every guarantee has a test that fails when it is broken: each edit of docs/guarantees.toml is made, and seen."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..support.pages import ROOT
from .preloaded import Preloaded

COPIED = (
    "src",
    "tests",
    "docs",
    "examples",
    "pyproject.toml",
    "README.md",
)


def _table() -> Any:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("guarantees_table")
    finally:
        sys.path.pop(0)


TABLE = _table()
EDITS = [edit for item in TABLE.guarantees() for edit in item.broken]


class Copy:
    """A copy of the project in which one edit at a time is made."""

    def __init__(self, root: Path) -> None:
        self.root = root
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.db", "*.db-*")
        for name in COPIED:
            source, target = ROOT / name, root / name
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, ignore=ignored)
            else:
                shutil.copy2(source, target)
        self._clock = 1_600_000_000

    def write(self, file: str, text: str) -> None:
        """Write a file with a time of its own, so that no compiled form of it is taken for the present one."""
        path = self.root / file
        path.write_text(text, encoding="utf-8")
        self._clock += 2
        os.utime(path, (self._clock, self._clock))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    root = tmp_path_factory.mktemp("copy")
    yield Copy(root)
    shutil.rmtree(root, ignore_errors=True)


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


def test_every_edit_is_of_code_that_stands_there_exactly_once() -> None:
    """Those of another part too: a change of the code must not leave a guarantee without what breaks it."""
    for edit in EDITS:
        text = (ROOT / edit.file).read_text(encoding="utf-8")
        assert text.count(edit.old) == 1, f"{edit.file}: {edit.what}"
        if edit.file.endswith(".py"):
            compile(text.replace(edit.old, edit.new), edit.file, "exec")


@pytest.mark.whole
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit.file}: {edit.what}")
def test_an_edit_that_breaks_a_guarantee_is_seen_by_its_test(
    edit: Any, copy: Copy, preloaded: Preloaded
) -> None:
    text = (ROOT / edit.file).read_text(encoding="utf-8")
    copy.write(edit.file, text.replace(edit.old, edit.new))
    try:
        seen = preloaded.pytest(copy.root, "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", edit.test)
    finally:
        copy.write(edit.file, text)
    assert seen.code == 1, f"{edit.test} should fail (exit code 1):\n{seen.output[-3000:]}"
    assert "error during collection" not in seen.output
    assert Path(seen.package).is_relative_to(copy.root), f"the copy must be tested, not {seen.package}"
