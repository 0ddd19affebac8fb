"""A program that closes nothing leaves a journal that is one file; a child of it closes nothing of its parent's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import paor
from paor import Engine, Journal, ScriptedModel
from paor.errors import JournalError

from ..support.pages import environment

PROGRAM = """
import os, sys
import paor
from paor import Engine, Journal, ScriptedModel

def fail():
    raise RuntimeError("cannot be closed")

if sys.argv[2] == "another fails":
    another = Journal(sys.argv[1] + "-another", "off")
    another.store.backend.close = fail
engine = Engine(ScriptedModel(["Hello."] * 2), [], sys.argv[1])
engine.run("Say hello", profile="native")
if sys.argv[2] == "fork":
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    assert os.path.exists(sys.argv[1] + "-wal")
    engine.run("Say it again", profile="native")
"""


@pytest.mark.parametrize(("how", "runs"), [("", 1), ("fork", 2), ("another fails", 1)])
def test_a_program_that_closes_nothing_leaves_one_file(how: str, runs: int, tmp_path: Path) -> None:
    """As the first example of many a reader does; its children end as well, and take nothing away; nor does a journal that cannot be closed."""
    path = tmp_path / "runs.db"
    command = [sys.executable, "-c", PROGRAM, str(path), how]
    own = {**environment(), "PYTHONPATH": str(Path(paor.__file__).parents[1])}
    done = subprocess.run(command, check=True, env=own, timeout=60, capture_output=True, text=True)
    assert ("cannot be closed" in done.stderr) == (how == "another fails"), done.stderr
    assert [one.name for one in tmp_path.iterdir() if "another" not in one.name] == ["runs.db"]
    copied = shutil.copy(path, tmp_path / "copy.db")
    with Journal(copied, read_only=True) as journal:
        assert [row.status for row in journal.runs()] == ["done"] * runs
        assert list(journal.verify()) == []


def test_a_copy_without_its_log_says_what_is_missing(tmp_path: Path) -> None:
    """While a program has its journal open the newest rows are in the log beside it."""
    path = tmp_path / "runs.db"
    with Engine(ScriptedModel(["Hello."]), [], path) as engine:
        engine.run("Say hello", profile="native")
        copied = shutil.copy(path, tmp_path / "copy.db")
        with pytest.raises(JournalError, match=r"the -wal file beside it, which must be copied, too$"):
            Journal(copied, read_only=True)
        shutil.copy(f"{path}-wal", f"{copied}-wal")
        with Journal(copied, read_only=True) as journal:
            assert [row.status for row in journal.runs()] == ["done"]
