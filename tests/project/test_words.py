"""The lint's warnings about words: only in lines that a change adds, only in prose, and it never fails."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ..support.pages import ROOT, page
from ..support.selection import added_lines

OLD = '''"""Whoever reads this was told."""

def one():
    return "nobody was told"
'''
NEW = '''"""Whoever reads this was told."""

def one():
    """Return what stands there."""
    # somebody else goes on
    told = "nobody was told"
    return told
'''


@pytest.fixture
def words() -> Any:
    """Return `.ci/words.py` as a module; it is a script, so no import path leads to it."""
    spec = importlib.util.spec_from_file_location("words", ROOT / ".ci" / "words.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a repository with one commit and a change that is not committed: a line of three files, and a new file."""

    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q", "-b", "topic")
    (tmp_path / "a.py").write_text(OLD)
    (tmp_path / "page.md").write_text("It was told.\n")
    git("add", "-A")
    git("commit", "-q", "-m", "before")
    git("commit", "-q", "--allow-empty", "-m", "base")
    (tmp_path / "a.py").write_text(NEW)
    (tmp_path / "page.md").write_text("It was told.\n```\nnobody\n```\nThe `told` row [stands](told.md).\n")
    (tmp_path / "new.md").write_text("Fine.\nSomeone knows.\n")
    (tmp_path / "data.txt").write_text("nobody\n")
    return tmp_path


def test_added_lines_are_those_of_the_change(tree: Path) -> None:
    """Changed ones and those of files that git does not know yet."""
    found = added_lines(tree)
    assert found["a.py"] == {4, 5, 6, 7} and found["page.md"] == {2, 3, 4, 5}
    assert {1, 2} <= found["new.md"]


def test_prose_of_added_lines_is_warned_of(words: Any, tree: Path) -> None:
    """Not code, not a text in code, not a line that was there before; each with a better word."""
    found = [line.partition(" (")[0] for line in words.warnings(tree, added_lines(tree))]
    assert found == [
        "a.py:4: stands",
        "a.py:4: Return what",
        "a.py:5: somebody",
        "a.py:5: goes on",
        "new.md:2: Someone",
        "page.md:5: stands",
    ]


def test_plain_sentences_are_left_alone(words: Any) -> None:
    """A word is meant, not its letters."""
    text = "Understands the untold; asks what it costs. There is no other. Standard. It returns the row."
    assert list(words.found_in(text)) == []


def test_it_never_fails_and_the_lint_runs_it(words: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """With this tree's own change, whatever it is."""
    assert words.main() == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("words: ")
    assert '".ci/words.py"' in page(".ci/gates.py").partition("def check_lint")[2].partition("\ndef ")[0]
