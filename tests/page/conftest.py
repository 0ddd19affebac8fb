"""The browser of all tests of pages, what looks for barriers in one, and the run and its page that most of them look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from .report_browser import DeskRun, axe, chromium, written

__all__ = ["axe", "chromium", "file", "run"]


@pytest.fixture(scope="module")
def run() -> DeskRun:
    """Give a run of about forty rows."""
    return DeskRun()


@pytest.fixture(scope="module")
def file(run: DeskRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give its page."""
    return written(tmp_path_factory.mktemp("page"), run.parts())
