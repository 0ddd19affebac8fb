"""
A process that has the package and the tests imported, and forks a child for every edit that a test is to see.

The child changes the live functions in place: every one whose code differs in the edited module gets that code, a constant of
the module is bound anew wherever it was imported to. Then it runs one test. What cannot be changed so, the decorators and
classes of a module, is said to be not in place; `tests/project/test_guarantees_page.py` makes such an edit in a copy.

Jobs are JSON objects, one a line, of a test and the fields of an edit, or of a test alone, which is then run as it is.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import IO, Any

import pytest

from ..support.edits import PACKAGE, ROOT, Edit, changed_tree, sources
from ..support.postgres_server import PostgresServer, server_missing

READY = "ready\n"
"""What the process says before its first answer."""


@dataclass(frozen=True)
class Seen:
    """
    What a child came to.

    Attributes:
        replaced: The functions and constants that were changed; none if the edit cannot be made in place.
        outcome: Of the test: ``passed``, ``failed``, ``skipped``, or ``broken`` if there is none or its fixtures fail.
        output: What the test printed and how it failed.
    """

    replaced: tuple[str, ...]
    outcome: str
    output: str


class Preloaded:
    """The other end: starts the process, waits until it serves, and gives it jobs."""

    def __init__(self) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env=kept,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == READY

    def test(self, test: str, edit: Edit | None = None) -> Seen:
        """Run one test with an edit, or without one."""
        assert self._process.stdin is not None and self._process.stdout is not None
        fields = [edit.place, edit.at, edit.change, edit.owner] if edit is not None else []
        self._process.stdin.write(json.dumps([test, *fields]) + "\n")
        self._process.stdin.flush()
        replaced, outcome, output = json.loads(self._process.stdout.readline())
        return Seen(tuple(replaced), outcome, output)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


class Server:
    """The plugin that serves jobs in place of pytest's own loop."""

    def __init__(self, jobs: IO[str], answers: IO[str]) -> None:
        self._jobs, self._answers = jobs, answers
        self._items: dict[str, pytest.Item] = {}
        self._files: set[str] = set()
        self._reports: list[pytest.TestReport] = []
        self._postgres: PostgresServer | None = None

    @pytest.fixture(scope="session")
    def postgres(self) -> PostgresServer:
        """Give the children one server, in place of the fixture that starts one for each process."""
        if self._postgres is None:
            pytest.skip(server_missing())
        return self._postgres

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Leave nothing out, and run nothing again."""
        for name in ("selection", "reruns"):
            session.config.pluginmanager.unregister(name=name)

    def pytest_collection(self) -> bool:
        """Collect nothing yet."""
        return True

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Serve until the input ends."""
        if not server_missing():
            self._postgres = PostgresServer("fsync=off")
        self._answers.write(READY)
        self._answers.flush()
        for line in self._jobs:
            test, *fields = json.loads(line)
            items = self._named(session, test)
            read, write = os.pipe()
            if (pid := os.fork()) == 0:
                self._child(items, Edit(*fields) if fields else None, write)
            os.close(write)
            with os.fdopen(read) as said:
                answer = said.read()
            os.waitpid(pid, 0)
            self._answers.write((answer or json.dumps([[], "broken", "the child has died"])) + "\n")
            self._answers.flush()
        if self._postgres is not None:
            self._postgres.close()
        return True

    def _named(self, session: pytest.Session, test: str) -> list[pytest.Item]:
        """Return a test, with all its parameters where the name has none."""
        file = test.partition("::")[0]
        if file not in self._files:
            self._files.add(file)
            self._items |= {item.nodeid: item for item in session.perform_collect([file])}
            _functions.clear()
        return [item for name, item in self._items.items() if name == test or name.startswith(f"{test}[")]

    def _child(self, items: list[pytest.Item], edit: Edit | None, write: int) -> None:
        """Answer one job, and end."""
        answer: list[Any] = [[], "broken", "there is no such test"]
        try:
            if edit is not None:
                answer[0] = replaced_by(edit)
            for item in items if answer[0] or edit is None else ():
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                answer[1:] = _outcome(self._reports)
                if answer[1] != "passed":
                    break
        except BaseException:  # noqa: BLE001 - whatever goes wrong is said
            answer[1:] = ["broken", traceback.format_exc()]
        finally:
            with os.fdopen(write, "w") as said:
                said.write(json.dumps(answer))
            os._exit(0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a phase of the test came to."""
        self._reports.append(report)


def _outcome(reports: Sequence[pytest.TestReport]) -> tuple[str, str]:
    text = "\n".join(report.longreprtext + report.capstderr for report in reports)[-3000:]
    by_phase = {report.when: report.outcome for report in reports}
    if by_phase.get("setup") != "passed":
        return ("skipped" if by_phase.get("setup") == "skipped" else "broken"), text
    return ("failed" if "failed" in by_phase.values() else by_phase["call"]), text


def replaced_by(edit: Edit) -> list[str]:
    """Make an edit in the modules of this process; return what was replaced, nothing if that cannot be done."""
    path, edited = changed_tree(edit, sources())
    name = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module, present = import_module(name), ast.parse(sources()[path])
    file = str(ROOT / path)
    old, new = (dict(_codes(compile(tree, file, "exec", dont_inherit=True))) for tree in (present, edited))
    replaced = []
    for key, code in new.items():
        if key[0] != "<module>" and key in old and old[key] != code:
            if not code.co_flags & 2:  # the body of a class has no locals of its own
                continue
            for function in _functions_of(file).get(key, ()):
                function.__code__ = code
                replaced.append(key[0])
    return replaced + _rebound(module, present, edited)


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    yield (code.co_qualname, code.co_firstlineno), code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


_functions: dict[str, dict[tuple[str, int], list[FunctionType]]] = {}
"""The live functions by file, name and first line."""


def _functions_of(file: str) -> dict[tuple[str, int], list[FunctionType]]:
    if not _functions:
        for one in gc.get_objects():
            if type(one) is FunctionType and PACKAGE in one.__code__.co_filename:
                key = one.__code__.co_qualname, one.__code__.co_firstlineno
                _functions.setdefault(str(Path(one.__code__.co_filename).resolve()), {}).setdefault(
                    key, []
                ).append(one)
    return _functions.get(str(Path(file).resolve()), {})


def _rebound(module: ModuleType, present: ast.Module, edited: ast.Module) -> list[str]:
    """Bind constants anew, in the module and wherever they were imported to."""
    before = {ast.dump(statement) for statement in present.body}
    names = []
    for statement in edited.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and ast.dump(statement) not in before:
            own = dict(vars(module))
            FunctionType(compile(ast.Module([statement], []), str(module.__file__), "exec"), own)()
            for name in [name for name, value in own.items() if value is not vars(module).get(name)]:
                was = vars(module)[name]
                for other in [
                    other for key, other in sys.modules.items() if key.startswith(("paor", "tests"))
                ]:
                    if vars(other).get(name) is was:
                        setattr(other, name, own[name])
                names.append(name)
    return names


def main() -> None:
    """Serve jobs from the standard input; pytest's own words go nowhere."""
    jobs, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(nothing, standard)
    pytest.main(
        ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "-m", ""], [Server(jobs, answers)]
    )


if __name__ == "__main__":
    main()
