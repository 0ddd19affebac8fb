"""The page on testing an agent is true: its files, put into a folder, give its sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..support.pages import blocks_of, matches, run_sessions, stable

PAGE = "docs/testing.md"


@pytest.mark.whole
def test_files_of_the_page_give_the_sessions_that_it_shows(tmp_path: Path) -> None:
    """Each Python block says the name of its file in its first line; sessions run in order, where all of them are."""
    blocks = blocks_of(PAGE)
    for block in blocks:
        if block.language == "python":
            name = block.text.splitlines()[0].removeprefix("# ")
            assert name.endswith(".py"), f"{PAGE}:{block.line}"
            (tmp_path / name).write_text(block.text, encoding="utf-8")
    sessions = [block for block in blocks if block.language == "console"]
    assert len(sessions) >= 4
    for command, output in run_sessions(sessions, tmp_path):
        assert matches(command.expected, output), f"{command.line}:\n{stable(output)}"
