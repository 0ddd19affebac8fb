"""The example of a page: the desk's run is the same each time, and the page that the docs keep is one of it, with an unbroken chain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paor import Journal

from ..cli.test_report import parts_of
from ..support.pages import ROOT
from .report_browser import opened
from .test_report_data import chained

pytestmark = pytest.mark.whole


def made(folder: Path) -> str:
    """Return the page that the example writes in *folder*."""
    folder.mkdir()
    command = [sys.executable, str(ROOT / "examples" / "report_page.py"), "desk.db"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return (folder / "report.html").read_text(encoding="utf-8")


def test_the_example_is_the_same_each_time_and_leaves_two_questions(tmp_path: Path) -> None:
    page = made(tmp_path / "one")
    assert page == made(tmp_path / "two")
    with Journal(tmp_path / "one" / "desk.db", read_only=True) as journal:
        assert [row.status for row in journal.runs()] == ["waiting", "waiting", "done"]
        assert journal.verify() == []


def test_the_page_in_the_docs_holds(tmp_path: Path) -> None:
    """Its chain, and all that does not depend on the version: calls, transitions, criteria."""
    kept = parts_of((ROOT / "docs" / "report-example.html").read_text(encoding="utf-8"))
    now = parts_of(made(tmp_path / "now"))
    assert kept.keys() == now.keys()
    run = next(name for name in kept if name.startswith("run/"))
    rows = kept[run.replace("run/", "rows/") + "/0"]["rows"]
    assert chained(kept[run], rows) == kept[run]["chain"]["head"]
    for name in ("calls", "criteria", "rows"):
        assert kept["story"][name] == now["story"][name]


def test_the_machine_and_the_timeline_show_the_run_as_it_stood(tmp_path: Path, chromium: Any) -> None:
    """The phase that it is in, which one waits, how often each row was taken by then, and how long a person took."""
    (tmp_path / "page").mkdir()
    file = tmp_path / "page" / "run.html"
    file.write_text(made(tmp_path / "desk"), encoding="utf-8")
    with opened(chromium, file, "#row-8") as seen:
        seen.row()
        assert seen.page.locator(".node.now .name").all_text_contents() == ["Specifying"]
        assert seen.page.locator(".node.now.waits").count() == 1
        lanes = (
            seen.page.get_by_role("img", name="Timeline").or_(seen.page.locator(".hold")).first.inner_text()
        )
        assert "6 min 12 s" in lanes and "18 min 44 s" in lanes and "09:02:02" in lanes
        seen.page.keyboard.press("End")
        seen.until("document.querySelector('.node.now .name').textContent", "Done")
        assert seen.page.locator(".node.now.good").count() == 1 and seen.page.locator(".waits").count() == 0
        counts = [text for text in seen.page.locator(".count").all_text_contents() if text]
        # proceed and conclude twice; select, specify, execute and observe four times
        assert sorted(counts) == ["×2", "×2", "×4", "×4", "×4", "×4"]
        seen.page.keyboard.press("Home")
        seen.until("document.querySelector('.node.now .name').textContent", "Planning")
        assert [text for text in seen.page.locator(".count").all_text_contents() if text] == []
        seen.silent()
