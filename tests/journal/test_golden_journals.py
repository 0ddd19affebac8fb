"""
Journals of every schema that was released verify and replay for ever.

They are never made again: ``digests.txt`` is written together with them by ``tests/fixtures/journals/make.py``.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from paor import Journal, replay
from paor.cli import main

from ..support.inside import OLDEST, export_runs, in_order, line_bytes, newest
from ..support.pages import ROOT

FOLDER = ROOT / "tests" / "fixtures" / "journals"
FILES = sorted(FOLDER.glob("schema*.db"))
EACH = pytest.mark.parametrize("golden", FILES, ids=[file.stem for file in FILES])
SIZE_MAX = 600_000


def maker() -> Any:
    """Return the module that makes them."""
    spec = importlib.util.spec_from_file_location("golden_make", FOLDER / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exported(journal: Journal) -> bytes:
    """Return all runs as text."""
    return b"".join(line_bytes(line) for line in export_runs(journal.reader, in_order(journal.reader)))


def test_every_schema_has_its_journal_and_none_was_touched() -> None:
    """Of each a file and a text; both as they were when they were made, and small."""
    assert [file.name for file in FILES] == [f"schema{number}.db" for number in range(OLDEST, newest() + 1)]
    lines = [line.split() for line in (FOLDER / "digests.txt").read_text(encoding="utf-8").splitlines()]
    told = {name: digest for digest, name in lines}
    files = [*FILES, *(file.with_suffix(".jsonl") for file in FILES)]
    assert told == {file.name: maker().digest(file) for file in files}
    assert all(file.stat().st_size < SIZE_MAX for file in files)


@EACH
def test_it_verifies_and_replays_without_a_change_of_a_byte(golden: Path, tmp_path: Path) -> None:
    """Read-only by the package, and by the script where it knows the schema; nothing appears beside it."""
    path = tmp_path / golden.name
    shutil.copy(golden, path)
    before = path.read_bytes()
    with Journal(path, read_only=True) as journal:
        assert journal.verify() == []
        kinds = Counter[str]()
        for row in journal.runs():
            found = replay(journal, row.run_id)
            assert found.divergences == (), row.run_id
            assert bool(found.unchecked) is bool(journal.erasures(row.run_id)), row.run_id
            assert found.identical is not bool(found.unchecked), row.run_id
            assert [part.part for part in found.changed if part.relevant] == [], row.run_id
            kinds[row.status] += 1
        assert exported(journal) == golden.with_suffix(".jsonl").read_bytes()
    assert kinds.keys() == {"done", "failed", "waiting"}
    script = [sys.executable, str(ROOT / "docs" / "verify_journal.py"), str(path)]
    assert subprocess.run(script, check=False, capture_output=True).returncode == 0
    assert main(["replay", "--journal", str(path)]) == 0
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@EACH
def test_its_text_is_taken_back_as_it_was(golden: Path, tmp_path: Path) -> None:
    """Import of the export, verified and replayed, and exported again: the same bytes."""
    text = golden.with_suffix(".jsonl")
    with Journal(tmp_path / "new.db") as journal, text.open("rb") as lines:
        done = journal.import_lines(lines)
        assert {run.how for run in done} == {"new"}
        assert journal.verify() == []
        assert all(not replay(journal, run.run_id).divergences for run in done)
        assert exported(journal) == text.read_bytes()


@EACH
def test_a_waiting_run_of_it_goes_on(golden: Path, tmp_path: Path) -> None:
    """A copy is opened for writing: the run that waits for an approval is cancelled, and all of it still verifies."""
    path = tmp_path / golden.name
    shutil.copy(golden, path)
    with Journal(path, read_only=True) as journal:
        waiting = [row.run_id for row in journal.runs() if row.status == "waiting"]
    assert len(waiting) >= 3
    for run_id in waiting:
        assert main(["cancel", run_id, "--journal", str(path)]) == 0
    with Journal(path) as journal:
        assert {journal.run(run_id).reason for run_id in waiting} == {"cancelled"}
        assert journal.verify() == []


@pytest.mark.filterwarnings("ignore:mode='batch'")
def test_the_maker_writes_the_same_runs_every_time(tmp_path: Path) -> None:
    """With this version of paor; an older one has made the files that are kept."""
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(maker().make(tmp_path / name)["jsonl"].read_bytes())
    assert made[0] == made[1] and made[0].count(b'"line":"header"') >= 15
