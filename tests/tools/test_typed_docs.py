"""What a reader copies from the first pages passes a strict type checker, so that editors help and mistakes show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ..support.pages import blocks_of

PAGES = {"README.md": (0, 1), "docs/howto/events.md": (0, 2)}
"""The first blocks of Python that are one program, from and to."""
WRONG = """
for event in engine.stream("Which orders are late?"):
    if event.kind == "waiting":
        print(event.question.arguments, event.seq)
    if event.kind == "waited":
        print(event)
late(3)
"""
"""A `RunWaiting` has no seq, no event is of the kind ``waited``, and the tool of the page takes no argument."""


def checked(folder: Path, text: str) -> str:
    """Return what mypy says of a program."""
    (folder / "program.py").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--strict-equality",
        "program.py",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def program(page: str) -> str:
    """Return the first blocks of Python of a page."""
    blocks = [block.text for block in blocks_of(page) if block.language == "python"]
    return "\n".join(blocks[slice(*PAGES[page])])


@pytest.mark.whole
@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_is_typed(page: str, tmp_path: Path) -> None:
    """Without a cast and without an ignored line."""
    assert checked(tmp_path, program(page)) == ""


@pytest.mark.whole
def test_mistakes_show(tmp_path: Path) -> None:
    """Events are told apart by their kind, and a decorated function keeps its signature."""
    told = checked(tmp_path, program("README.md") + WRONG)
    assert '"RunWaiting" has no attribute "seq"' in told
    assert "Non-overlapping equality check" in told
    assert "Too many positional arguments" in told or "Too many arguments" in told
    assert len(told.splitlines()) == 3
