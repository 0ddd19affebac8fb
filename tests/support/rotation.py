"""
Which of the expensive tests run: a tenth that the commit chooses, and all that the change touches.

    pytest                   a tenth of the rotating tests, and everything else
    pytest --whole           every test
    pytest --part 2          that tenth
    pytest tests/test_x.py   every test of that file: what is named on the command line, by file, test or ``-k``, never rotates

A test takes part by a marker, ``@pytest.mark.rotates``, or asks for the `rotation` fixture and runs `Choice.share` of its
own cases. The part is the commit's hash modulo ten, so that the same commit always runs the same tests; the ten parts are
everything.

The change is what differs from the merge base with the main branch, on the main branch from the commit before, with all that
is not committed. It touches a rotating test

- when it touches the test's file or a module of ``tests/`` which that file imports: then every rotating test of the file runs;
- when it touches what the marker names as ``data``, files or folders (``benchmarks/``); where ``entry`` of the marker gives the
  texts that stand for a case in these files, only if one of them was not there before;
- when it touches a file which the case itself is about, as ``files`` of the marker tells it;
- when ``docs/guarantees.toml`` has an edit of a touched file which the test must see.

Nothing here knows the name of a module. Coverage is not measured in tests that rotate, nor in properties, whose examples are
drawn: the floors would depend on the part and on chance.
"""

from __future__ import annotations

import ast
import subprocess
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUARANTEES = ROOT / "docs" / "guarantees.toml"
PARTS = 10
MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""Git's name of a tree without files: what the first commit is compared with."""

Case = TypeVar("Case")


@dataclass(frozen=True)
class Choice:
    """
    What runs of the rotating tests.

    Attributes:
        part: Its number from 0, None where everything runs.
        reason: Why this part, or why everything.
        compared: With what the change was compared, in words; empty where no change is known.
        touched: Files of the change, from the root.
        base: The commit or tree that the change was compared with.
    """

    part: int | None
    reason: str
    compared: str = ""
    touched: frozenset[str] = frozenset()
    base: str = ""

    def share(self, cases: Sequence[Case], files: Callable[[Case], Iterable[str]]) -> list[Case]:
        """Return the *cases* of this part and those that are about a touched file, in their order."""
        return [
            case
            for place, case in enumerate(cases)
            if self.has(place) or not self.touched.isdisjoint(files(case))
        ]

    def has(self, place: int) -> bool:
        """Return whether the case at *place* belongs to this part."""
        return self.part is None or place % PARTS == self.part

    def __str__(self) -> str:
        if self.part is None:
            return f"all of them ({self.reason})"
        change = f"; the change since {self.compared} has {len(self.touched)} files" if self.compared else ""
        return f"part {self.part} of 0 to {PARTS - 1} ({self.reason}){change}"


# -- the commit and the change ---------------------------------------------------------------------------------


def git(root: Path, *arguments: str) -> str | None:
    """Return what git prints, None where it fails or is not there."""
    command = ["git", "-c", "safe.directory=*", "-c", "core.quotePath=off", *arguments]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def chosen(root: Path = ROOT, part: int | None = None) -> Choice:
    """
    Return the choice for the repository at *root*.

    Args:
        part: Wanted instead of the commit's own.

    Returns:
        Everything where there is no commit: then neither a part nor a change is known.
    """
    commit = git(root, "rev-parse", "--verify", "HEAD")
    top = git(root, "rev-parse", "--show-toplevel")
    if not commit or top is None or Path(top).resolve() != root.resolve():
        if part is not None:
            return Choice(part, "as asked for; no commit is known here, and no change")
        return Choice(None, "no commit is known here")
    reason = f"commit {commit[:9]}" if part is None else "as asked for"
    part = int(commit, 16) % PARTS if part is None else part
    base, compared = base_of(root, commit)
    touched = changed(root, base)
    return Choice(part, reason, compared, touched, base)


def base_of(root: Path, commit: str) -> tuple[str, str]:
    """Return what the change is compared with: a commit or a tree, and in words."""
    for branch in MAIN_BRANCHES:
        base = git(root, "merge-base", "HEAD", branch)
        if base and base != commit:
            return base, f"{base[:9]}, the merge base with {branch}"
        if base:
            break
    parent = git(root, "rev-parse", "--verify", "--quiet", "HEAD^")
    if parent:
        return parent, f"{parent[:9]}, the commit before"
    if git(root, "rev-parse", "--is-shallow-repository") == "true":
        return commit, f"{commit[:9]} itself, since this clone has no commit before it"
    return EMPTY_TREE, "the beginning"


def changed(root: Path, base: str) -> frozenset[str]:
    """Return the files that differ from *base*, those included that are not committed or not known to git."""
    told = [
        git(root, "diff", "--name-only", "--no-renames", "-z", base) or "",
        git(root, "ls-files", "--others", "--exclude-standard", "-z") or "",
    ]
    return frozenset(name for text in told for name in text.split("\0") if name)


# -- what a change touches -------------------------------------------------------------------------------------


@cache
def imported(file: str) -> frozenset[str]:
    """Return a test's file and all modules of ``tests/`` that it imports, in turn; from the root."""
    found, left = {file}, [file]
    while left:
        for name in _imports(left.pop()):
            if name not in found:
                found.add(name)
                left.append(name)
    return frozenset(found)


def _imports(file: str) -> Iterator[str]:
    """Yield the modules that a module of the tests imports relatively, as files from the root."""
    path = ROOT / file
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
        for target in (folder.with_suffix(".py"), *(folder / f"{alias.name}.py" for alias in node.names)):
            if target.is_file():
                yield target.relative_to(ROOT).as_posix()


@cache
def guarded() -> dict[str, frozenset[str]]:
    """Return for each test, without parameters, the files whose edits it must see, as docs/guarantees.toml has them."""
    found: dict[str, set[str]] = {}
    for item in tomllib.loads(GUARANTEES.read_text(encoding="utf-8"))["guarantee"]:
        for edit in item["broken"]:
            found.setdefault(edit["test"].split("[")[0], set()).add(edit["file"])
    return {test: frozenset(files) for test, files in found.items()}


@cache
def text_before(file: str, base: str) -> str:
    """Return the text of a file as it was before the change, empty where it was not there."""
    return git(ROOT, "show", f"{base}:{file}") or ""


def touching(item: pytest.Item, marker: pytest.Mark, choice: Choice) -> bool:
    """Return whether the change touches a rotating test."""
    touched = choice.touched
    path, _, _ = item.nodeid.partition("::")
    data = tuple(marker.kwargs.get("data", ()))
    folders = tuple(name for name in data if name.endswith("/"))
    about: set[str] = set(imported(path))
    if entry := marker.kwargs.get("entry"):
        texts = entry(**getattr(item, "callspec").params)  # noqa: B009 - of parametrized tests, not public
        for file in touched.intersection(data):
            if not all(text in text_before(file, choice.base) for text in texts):
                return True
    else:
        about |= {*data}
    about |= guarded().get(item.nodeid.split("[")[0], frozenset())
    if files := marker.kwargs.get("files"):
        about |= {*files(**getattr(item, "callspec").params)}  # noqa: B009 - of parametrized tests, not public
    return not touched.isdisjoint(about) or any(name.startswith(folders) for name in touched)


# -- pytest ----------------------------------------------------------------------------------------------------


class Rotation:
    """
    The plugin: leaves out the rotating tests that do not run now, and says so.

    Attributes:
        counts: Of the rotating tests: how many there are, and how many run for their part and for the change.
    """

    def __init__(self, choose: Callable[[], Choice]) -> None:
        self._choose = choose
        self.counts = {"all": 0, "part": 0, "change": 0}

    @cached_property
    def choice(self) -> Choice:
        """What runs of them; git is asked only where some test wants to know."""
        return self._choose()

    def choice_for(self, item: pytest.Item) -> Choice:
        """Return the choice for a test that chooses among its own cases: all of them where its file or words are named."""
        named = _named(item.config)
        return Choice(None, "it is named") if named is None or item.path in named else self.choice

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """
        Leave out what rotates and is of another part.

        Places are counted within a family, the cases of one test function, from a number made of its name: families with
        fewer cases than there are parts do not all run in the first.
        """
        named = _named(config)
        places: dict[str, int] = {}
        kept: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            marker = item.get_closest_marker("rotates")
            if marker is None or item.get_closest_marker("large") or named is None or item.path in named:
                kept.append(item)
                continue
            family = item.nodeid.split("[")[0]
            places[family] = place = places.get(family, zlib.crc32(family.encode()) % PARTS - 1) + 1
            (kept if self._runs(item, marker, place) else left_out).append(item)
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = kept

    def _runs(self, item: pytest.Item, marker: pytest.Mark, place: int) -> bool:
        ours = self.choice.has(place)
        also = not ours and touching(item, marker, self.choice)
        self.counts["all"] += 1
        self.counts["part"] += ours
        self.counts["change"] += also
        return ours or also

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep coverage, where it is measured, out of what rotates and of what draws its examples."""
        if session.config.pluginmanager.hasplugin("_cov"):
            for item in session.items:
                if item.get_closest_marker("rotates") or item.get_closest_marker("hypothesis"):
                    item.add_marker("no_cover")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Hand the choice to a worker of xdist: all of them must choose alike."""
        node.workerinput["rotation"] = {**asdict(self.choice), "touched": sorted(self.choice.touched)}

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand the counts of a worker of xdist to the process that reports."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["rotation"] = self.counts

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the counts of a worker of xdist; all have collected the same."""
        self.counts = getattr(node, "workeroutput", {}).get("rotation", self.counts)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which part ran, and why."""
        if not self.counts["all"]:
            return
        counts = self.counts
        terminalreporter.write_sep("-", "rotating tests")
        terminalreporter.write_line(f"rotation: {self.choice}")
        terminalreporter.write_line(
            f"rotation: {counts['part']} of {counts['all']} tests for the part, {counts['change']} more "
            "for the change; all of them: pytest --whole"
        )


def _named(config: pytest.Config) -> set[Path] | None:
    """Return the files that the command line names, whose tests do not rotate; None where none rotates at all."""
    if config.option.keyword:
        return None
    paths = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    return {path.resolve() for path in paths if path.is_file()}


def added_options(parser: pytest.Parser) -> None:
    """Add the options of the command line."""
    group = parser.getgroup("rotation", "expensive tests that rotate")
    group.addoption("--whole", action="store_true", help="run all rotating tests, not a tenth of them")
    group.addoption(
        "--part", type=int, choices=range(PARTS), help="which tenth, from 0, instead of the commit's"
    )


def configured(config: pytest.Config) -> Rotation:
    """Return the plugin for a session; in a worker of xdist with the choice that it was given."""
    given = getattr(config, "workerinput", {}).get("rotation")
    if given:
        choice = Choice(**{**given, "touched": frozenset(given["touched"])})
        return Rotation(lambda: choice)
    if config.getoption("whole"):
        return Rotation(lambda: Choice(None, "--whole"))
    return Rotation(lambda: chosen(part=config.getoption("part")))
