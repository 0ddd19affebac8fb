"""Which tests run, and what becomes of those that fail by chance or take long: on a small project with these two plugins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..support import reruns, selection
from ..support.pages import PACKAGE, ROOT

CONFTEST = """
from .support import reruns, selection
{settings}
pytest_addoption = selection.added_options
def pytest_configure(config):
    config.addinivalue_line("markers", "whole: left out")
    config.pluginmanager.register(selection.Selection(config), "selection")
    reruns.configured(config)
"""
FILES = {
    "journal/test_rows.py": "import pytest\ndef test_small(): pass\n@pytest.mark.whole\ndef test_large(): pass\n",
    "journal/test_kills.py": "import pytest\npytestmark = pytest.mark.whole\ndef test_kill(): pass\n",
    "cli/test_show.py": "from ..support import worlds\nimport pytest\n@pytest.mark.whole\ndef test_show(): pass\n",
    "support/worlds.py": "",
}
CHANCE = """
from pathlib import Path
def test_chance_{name}():
    seen = Path(__file__).with_name("{name}")
    again = seen.exists()
    seen.touch()
    assert again
"""
COSTLY = """
import pytest, time
@pytest.fixture(scope="{scope}")
def costly():
    end = time.process_time() + 0.5
    while time.process_time() < end: pass
def test_it(costly): pass
"""


class Project:
    """A project in *folder* whose tests are *files*, with the two plugins of this one."""

    def __init__(self, folder: Path, files: dict[str, str], settings: str = "") -> None:
        self.folder = folder
        for module in (selection, reruns):
            self.write(
                f"tests/support/{Path(str(module.__file__)).name}", Path(str(module.__file__)).read_text()
            )
        self.write("tests/conftest.py", CONFTEST.format(settings=settings))
        self.write("pytest.ini", "[pytest]\ntestpaths = tests\naddopts = --import-mode=importlib\n")
        for name, text in files.items():
            self.write(f"tests/{name}", text)

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def commit(self) -> None:
        """Make a commit of everything, and one after it that changes nothing."""
        identity = ("-c", "user.name=paor", "-c", "user.email=paor@localhost")
        made = (*identity, "commit", "-q", "-m", "all", "--allow-empty")
        for command in (("init", "-q"), ("add", "-A"), made, made):
            subprocess.run(["git", *command], cwd=self.folder, check=True)

    def pytest(self, *options: str) -> tuple[int, str]:
        """Return the exit code of pytest, and what it prints: the names of the tests that run among it."""
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *options],
            cwd=self.folder,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


def ran(output: str) -> set[str]:
    """Return the names of the tests that passed."""
    return {
        line.split()[0].split("::")[1]
        for line in output.splitlines()
        if line.endswith("%]") and "PASSED" in line
    }


def test_the_table_names_rooms_that_exist() -> None:
    """A room that was renamed would take its tests out of what a change runs."""
    rooms = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name[0] not in "_."}
    assert {*selection.ROOMS, *selection.OTHER_FILES} <= rooms
    assert rooms - {*selection.ROOMS, "project", "support", "fixtures"} == set()
    for part in (part for parts in selection.ROOMS.values() for part in parts):
        assert (PACKAGE / part).is_dir() or (PACKAGE / f"{part}.py").is_file(), part
    for name in (name for names in selection.OTHER_FILES.values() for name in names):
        assert list(ROOT.glob(f"{name}*")) or (ROOT / name).exists(), name


def test_a_fixed_set_runs_by_default_and_what_is_named_always(tmp_path: Path) -> None:
    """A file of tests for ``--whole`` is not even imported by default."""
    project = Project(
        tmp_path, FILES | {"journal/test_kills.py": "import nothing\n" + FILES["journal/test_kills.py"]}
    )
    code, output = project.pytest()
    assert (code, ran(output)) == (0, {"test_small"}), output
    code, output = project.pytest("tests/journal/test_rows.py")
    assert (code, ran(output)) == (0, {"test_small", "test_large"}), output
    assert project.pytest("--whole")[0] == pytest.ExitCode.INTERRUPTED


def test_a_change_runs_the_tests_that_it_touches(tmp_path: Path) -> None:
    """Their own file, what it imports, the part of the product that its room is about; not the others."""
    project = Project(tmp_path, FILES)
    project.commit()
    for changed, seen in (
        ("tests/journal/test_kills.py", {"test_kill"}),
        ("tests/support/worlds.py", {"test_show"}),
        ("src/paor/fsm/journal/chain.py", {"test_kill", "test_large"}),
        ("src/paor/prompts/clients/x.py", set[str]()),
    ):
        before = (tmp_path / changed).read_text() if (tmp_path / changed).exists() else None
        project.write(changed, f"{before or ''}\n")
        code, output = project.pytest("--change")
        assert (code, ran(output)) == (0, {"test_small", *seen}), (changed, output)
        if before is None:
            (tmp_path / changed).unlink()
        else:
            project.write(changed, before)


def test_what_does_not_fit_into_the_time_of_a_change_is_named(tmp_path: Path) -> None:
    """By the durations of the last whole run; what was edited itself comes first."""
    settings = "selection.CHANGE_S = 5.0"
    project = Project(tmp_path, FILES, settings)
    project.write(
        "tests/durations.json", '{"tests/journal/test_kills.py": 4.0, "tests/journal/test_rows.py": 2.0}'
    )
    project.commit()
    project.write("tests/journal/test_kills.py", FILES["journal/test_kills.py"] + "\n")
    project.write("src/paor/fsm/journal/chain.py", "")
    code, output = project.pytest("--change")
    assert (code, ran(output)) == (0, {"test_small", "test_kill"}), output
    assert "change: tests/journal/test_rows.py is left to pytest --whole" in output


def test_a_test_that_fails_once_is_flaky_and_named_last(tmp_path: Path) -> None:
    """The run is green; a file has the name, too."""
    project = Project(tmp_path, {"cli/test_a.py": CHANCE.format(name="one") + "def test_good(): pass\n"})
    code, output = project.pytest()
    assert code == 0, output
    assert "FLAKY tests/cli/test_a.py::test_chance_one" in output.splitlines()[-2]
    assert "1 passed, 1 flaky" in output.splitlines()[-1]
    assert (tmp_path / "build/flaky.txt").read_text() == "tests/cli/test_a.py::test_chance_one\n"
    assert "tests/cli/test_a.py::test_good" in (tmp_path / "build/durations.json").read_text()


@pytest.mark.parametrize(
    "files",
    [
        {"cli/test_a.py": "".join(CHANCE.format(name=name) for name in ("one", "two", "three"))},
        {"cli/test_a.py": CHANCE.format(name="one") + "def test_bad(): assert 0\n"},
    ],
    ids=["three flaky tests", "one that fails again"],
)
def test_a_run_fails(files: dict[str, str], tmp_path: Path) -> None:
    """Chance excuses two tests at the most, and none that fails again."""
    code, output = Project(tmp_path, files).pytest()
    assert code == 1 and "FLAKY tests/cli/test_a.py::test_chance_one" in output, output


def test_a_slow_test_of_the_default_set_fails_the_run(tmp_path: Path) -> None:
    """Timed again alone before; one for ``--whole`` may take its time."""
    project = Project(tmp_path, FILES, "reruns.DEFAULT_S = -1.0")
    code, output = project.pytest("--whole")
    assert code == 1 and "SLOW tests/journal/test_rows.py::test_small" in output, output
    assert "SLOW tests/journal/test_rows.py::test_large" not in output


def test_a_slow_machine_makes_no_test_slow(tmp_path: Path) -> None:
    """Its seconds are divided by how much longer it takes to count."""
    code, output = Project(tmp_path, FILES, "reruns.DEFAULT_S = 0.0001; reruns.PACE_S = 1e-9").pytest()
    assert code == 0 and "SLOW" not in output, output


@pytest.mark.parametrize("scope", ["function", "module"])
def test_the_first_test_of_a_file_does_not_pay_for_its_fixture(scope: str, tmp_path: Path) -> None:
    """It is as slow as what is set up for it alone."""
    project = Project(tmp_path, {"cli/test_a.py": COSTLY.format(scope=scope)}, "reruns.DEFAULT_S = 0.25")
    code, output = project.pytest()
    is_slow = scope == "function"
    assert (code == 1, "SLOW" in output) == (is_slow, is_slow), output
