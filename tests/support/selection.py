"""
Which tests run: a fixed set by default, everything with ``--whole``, and what a change touches with ``--change``.

    pytest                   the default set, the same for every commit
    pytest --change          the default set, and the tests for ``--whole`` that the change touches
    pytest --whole           every test
    pytest tests/x/test_y.py what is named on the command line, by file, test or ``-k``, always runs

A test that is left to ``--whole`` carries ``@pytest.mark.whole``; a file of such tests says ``pytestmark = pytest.mark.whole``
at its top level, and the default run does not even import it.

The change is the difference from the merge base with the main branch, on the main branch from the commit before, with everything
that is not committed. It touches the tests of a file when it touches that file or a module of ``tests/`` that it imports, and
the tests of a room when it touches a part of the product that `ROOMS` lists for the room.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""Git's name of a tree without files: the base of the first commit."""
WHOLE_FILE = "\npytestmark = pytest.mark.whole\n"
DURATIONS = ROOT / "tests" / "durations.json"
"""Seconds of each test file's tests for ``--whole``, in a run on two cores; written by ``pytest --whole --keep-durations``."""
CHANGE_S = 600.0
"""Processor seconds that the tests which a change touches may take; the rest is named and left to ``--whole``."""

ROOMS: dict[str, tuple[str, ...]] = {
    "check": ("fsm/check", "fsm/machine", "tools/policy"),
    "cli": ("cli",),
    "clients": ("prompts/clients",),
    "crash": ("fsm/journal", "fsm/runtime", "fsm/lifecycle"),
    "diagrams": ("fsm/diagrams",),
    "conversation": ("fsm/lifecycle", "fsm/decision", "fsm/transfer"),
    "documents": ("tools/documents", "tools/process"),
    "evaluation": ("fsm/evaluation",),
    "explain": ("fsm/explain",),
    "fuzz": ("fuzz",),
    "journal": ("fsm/journal",),
    "lifecycle": ("fsm/lifecycle", "fsm/engine"),
    "machine": ("fsm/machine", "fsm/decision", "states"),
    "mcp": ("tools/mcp", "mcp_server"),
    "modes": ("fsm/decision", "fsm/lifecycle"),
    "offline": ("prompts/offline",),
    "otel": ("otel",),
    "own_machine": ("fsm/machine",),
    "page": ("inspect", "fsm/report"),
    "prompts": ("prompts/building", "prompts/parsing"),
    "replay": ("fsm/replay",),
    "runtime": ("fsm/runtime",),
    "simulation": ("fsm/journal", "fsm/runtime", "fsm/lifecycle", "worker"),
    "states": ("states",),
    "testing": ("testing", "pytest_plugin"),
    "tools": ("tools",),
    "transfer": ("fsm/transfer",),
    "verify": ("fsm/verify",),
    "versioning": ("fsm/versioning",),
    "web": ("tools/web",),
    "worker": ("worker", "temporal", "fsm/journal"),
    "workflow": ("fsm/workflow",),
}
"""Rooms of tests and the parts of the product, below ``src/paor``, whose change runs all their tests."""

OTHER_FILES: dict[str, tuple[str, ...]] = {
    "fuzz": ("examples/fuzzed_agent.py",),
    "lifecycle": ("examples/host_",),
    "own_machine": ("examples/machines/",),
    "project": ("README.md", "CONTRIBUTING.md", "docs/", "examples/", "pyproject.toml", ".ci/"),
}
"""The same for files outside of the package, from the root."""


def git(root: Path, *arguments: str) -> str | None:
    """Return what git prints, None where it fails or is not installed."""
    command = ["git", "-c", "safe.directory=*", "-c", "core.quotePath=off", *arguments]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def base_of(root: Path) -> str | None:
    """Return the commit or tree that the change is compared with; None without a repository."""
    commit = git(root, "rev-parse", "--verify", "HEAD")
    if not commit:
        return None
    for branch in MAIN_BRANCHES:
        base = git(root, "merge-base", "HEAD", branch)
        if base and base != commit:
            return base
    return git(root, "rev-parse", "--verify", "--quiet", "HEAD^") or EMPTY_TREE


def changed(root: Path) -> frozenset[str]:
    """Return the files of the change, from *root*; none without a repository."""
    base = base_of(root)
    if base is None:
        return frozenset()
    listed = [
        git(root, "diff", "--name-only", "--no-renames", "-z", base) or "",
        git(root, "ls-files", "--others", "--exclude-standard", "-z") or "",
    ]
    return frozenset(name for text in listed for name in text.split("\0") if name)


def added_lines(root: Path) -> dict[str, set[int]]:
    """Return the numbers of the lines that the change adds, by file from *root*; of an untracked file all its lines."""
    base = base_of(root)
    if base is None:
        return {}
    found: dict[str, set[int]] = {}
    file = ""
    for line in (git(root, "diff", "--unified=0", "--no-renames", "--no-color", base) or "").splitlines():
        if line.startswith("+++ "):
            file = line[4:].removeprefix("b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found.setdefault(file, set()).update(range(first, first + count))
    others = git(root, "ls-files", "--others", "--exclude-standard", "-z") or ""
    for name in filter(None, others.split("\0")):
        length = (root / name).read_bytes().count(b"\n") + 1
        found[name] = set(range(1, length + 1))
    return found


@cache
def imported(file: str, root: Path = ROOT) -> frozenset[str]:
    """Return a test file with every module of ``tests/`` that it imports, directly or not; paths from *root*."""
    found, left = {file}, [file]
    while left:
        for name in _imports(root / left.pop(), root):
            if name not in found:
                found.add(name)
                left.append(name)
    return frozenset(found)


def _imports(path: Path, root: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
        for target in (folder.with_suffix(".py"), *(folder / f"{alias.name}.py" for alias in node.names)):
            if target.is_file():
                yield target.relative_to(root).as_posix()


def touches(change: frozenset[str], file: str, root: Path = ROOT) -> bool:
    """Return whether *change* touches the tests of *file*, both given from *root*."""
    if not change.isdisjoint(imported(file, root)):
        return True
    room = file.split("/")[1]
    parts = (*(f"src/paor/{part}" for part in ROOMS.get(room, ())), *OTHER_FILES.get(room, ()))
    return any(name.startswith(parts) for name in change)


class Selection:
    """The plugin that leaves out the tests for ``--whole`` and says how many."""

    def __init__(self, config: pytest.Config, root: Path = ROOT) -> None:
        self._root = root
        self._whole: bool = config.getoption("whole")
        self._change: bool = config.getoption("change")
        arguments = [config.invocation_params.dir / item.partition("::")[0] for item in config.args]
        self._named = {path.resolve() for path in arguments if path.is_file()}
        self._by_word = bool(config.option.keyword)
        self.left_to_whole: list[str] = []

    @cached_property
    def _touched(self) -> frozenset[str]:
        """Files whose tests for ``--whole`` run, as many of those that the change touches as fit into `CHANGE_S`."""
        if not self._change:
            return frozenset()
        change = changed(self._root)
        known: dict[str, float] = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
        files = [
            path.relative_to(self._root).as_posix() for path in (self._root / "tests").rglob("test_*.py")
        ]
        touched = sorted(file for file in files if touches(change, file, self._root))
        # what was edited itself comes first, then what takes the least: as many tests as possible run
        touched.sort(key=lambda file: (change.isdisjoint(imported(file, self._root)), known.get(file, 0.0)))
        left = CHANGE_S
        kept: list[str] = []
        for file in touched:
            left -= known.get(file, 0.0)
            (kept if left >= 0 else self.left_to_whole).append(file)
        return frozenset(kept)

    def runs_whole(self, path: Path) -> bool:
        """Return whether the tests for ``--whole`` of a file run."""
        if self._whole or self._by_word or path.resolve() in self._named:
            return True
        return path.is_relative_to(self._root) and path.relative_to(self._root).as_posix() in self._touched

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Do not import a file of tests that are all left out."""
        if not collection_path.name.startswith("test_") or self.runs_whole(collection_path):
            return None
        return True if WHOLE_FILE in collection_path.read_text(encoding="utf-8") else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out single tests for ``--whole``."""
        out = [item for item in items if item.get_closest_marker("whole") and not self.runs_whole(item.path)]
        if out:
            config.hook.pytest_deselected(items=out)
            dropped = {id(item) for item in out}
            items[:] = [item for item in items if id(item) not in dropped]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the files whose tests the change touches and that did not fit."""
        if self._change:
            count = len(self._touched)
            terminalreporter.write_line(f"change: the whole tests of {count} files were selected")
            for file in self.left_to_whole:
                terminalreporter.write_line(f"change: {file} is left to pytest --whole")


def added_options(parser: pytest.Parser) -> None:
    """Add ``--whole`` and ``--change``."""
    group = parser.getgroup("selection", "which tests run")
    group.addoption("--whole", action="store_true", help="run every test, not only the default set")
    group.addoption("--keep-durations", action="store_true", help=f"write {DURATIONS.name}; with --whole")
    group.addoption("--change", action="store_true", help="also run the tests that the change touches")
