"""
The pytest plugin: engines on scripted worlds, runs that are killed and resumed, coverage of the machine's table.

It is found by pytest wherever paor is installed, and does nothing until a fixture or an option of it is used:
everything that weighs anything is imported then. `docs/testing.md` shows how each part is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .fsm.engine import Engine
    from .fsm.journal_api import Journal
    from .testing import Walk
    from .testing.pytest_coverage import Gathering

_GATHERING: pytest.StashKey[Gathering] = pytest.StashKey()
JOURNAL = "paor.db"
"""Name of a test's journal within its ``tmp_path``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the coverage."""
    group = parser.getgroup("paor", "coverage of the state machine of paor")
    group.addoption(
        "--paor-cov", action="store_true", help="tell which rows and guards of the table runs came by"
    )
    group.addoption(
        "--paor-cov-fail-under",
        metavar="PERCENT",
        help="fail when less of the table is covered; implies --paor-cov",
    )
    group.addoption(
        "--paor-cov-report",
        metavar="FILE",
        action="append",
        default=[],
        help="write the coverage as .json, .svg, .mmd or .dot; may be repeated; implies --paor-cov",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and begin to gather where an option asks for it."""
    config.addinivalue_line(
        "markers",
        "paor(check=True): check=False: do not verify and replay the journals of this test at its end",
    )
    option = config.option
    if option.paor_cov or option.paor_cov_fail_under is not None or option.paor_cov_report:
        from .testing.pytest_coverage import Gathering

        config.stash[_GATHERING] = Gathering.start(option.paor_cov_fail_under, option.paor_cov_report)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop gathering."""
    if (gathering := config.stash.get(_GATHERING, None)) is not None:
        gathering.stop()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take in what a process of pytest-xdist has gathered; called in the one that gives out the tests."""
    message: Mapping[str, Any] = getattr(node, "workeroutput", None) or {}
    gathering = node.config.stash.get(_GATHERING, None)
    if gathering is not None:
        gathering.take(message.get("paor_coverage"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand over to the process that gave out the tests, or fail the session when too little is covered."""
    config = session.config
    gathering, output = config.stash.get(_GATHERING, None), getattr(config, "workeroutput", None)
    if output is not None:
        if gathering is not None:
            output["paor_coverage"] = gathering.wire()
    elif gathering is not None:
        gathering.stop()
        failed = not gathering.write() or gathering.too_little()
        if failed and session.exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Write what was covered."""
    gathering = config.stash.get(_GATHERING, None)
    if gathering is not None:
        terminalreporter.section("paor coverage")
        for line in gathering.lines():
            terminalreporter.write_line(line)


class _World:
    """The engines of one test: one journal file, one clock and one sequence of ids for all of them."""

    def __init__(self, folder: Path, *, checked: bool) -> None:
        from .fsm.runtime.ports import SeededIds, SteppingClock

        self.path = folder / JOURNAL
        self._checked = checked
        self._clock, self._ids = SteppingClock(), SeededIds()
        self._closing: list[Callable[[], None]] = []

    def journal(self) -> Journal:
        """Open the test's journal once more."""
        from .fsm.journal_api import Journal

        journal = Journal(self.path, "off")
        self._closing.append(journal.close)
        return journal

    def engine(self, replies: Sequence[Any] = (), tools: Sequence[Any] = (), **options: Any) -> Engine:
        """Return an engine with a script."""
        from .fsm.engine import Engine
        from .prompts.scripted import ScriptedModel

        options.setdefault("clock", self._clock)
        options.setdefault("ids", self._ids)
        options.setdefault("builtins", False)
        if "model" not in options:
            options["model"] = ScriptedModel(replies)
        elif replies:
            raise TypeError("paor_engine() takes replies or a model, not both")
        if "journal" not in options:
            options["journal"] = self.journal()
        engine = Engine(tools=tools, **options)
        self._closing.append(engine.close)
        return engine

    def made(self, make: Callable[[Journal], Engine]) -> Engine:
        """Return the engine that a function of the host's makes on the test's journal."""
        engine = make(self.journal())
        self._closing.append(engine.close)
        return engine

    def close(self) -> list[str]:
        """Close everything; return what is wrong with the journal."""
        for close in self._closing:
            close()
        if not (self._checked and self.path.exists()):
            return []
        from .fsm.journal_api import Journal
        from .testing import problems

        with Journal(self.path, read_only=True) as journal:
            return problems(journal)


@pytest.fixture
def _paor_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[_World]:
    marker = request.node.get_closest_marker("paor")
    if marker is not None and (marker.args or set(marker.kwargs) - {"check"}):
        raise pytest.UsageError("the marker paor takes check=True or check=False")
    world = _World(tmp_path, checked=marker is None or bool(marker.kwargs.get("check", True)))
    yield world
    if found := world.close():
        pytest.fail("\n".join(["the journal of this test does not hold:", *found]), pytrace=False)


@pytest.fixture
def paor_engine(_paor_world: _World) -> Callable[..., Engine]:
    """
    A function ``paor_engine(replies, tools, **options)`` that returns an `Engine` on a scripted world.

    Its journal is in ``tmp_path``, shared by all engines of the test, and each test's clock and ids are the same.
    *options* are those of `Engine` (``limits``, ``policy``, ``prompts``, ``hooks``); ``model`` in place of replies;
    the built-in tools are left out unless ``builtins=True``. At the end of the test all are closed, the journal is
    verified and every run replayed; ``@pytest.mark.paor(check=False)`` switches that off.
    """
    return _paor_world.engine


@pytest.fixture
def paor_journal(_paor_world: _World) -> Journal:
    """The journal of the engines of this test, opened once more, as for reading it with `paor.testing.walk`."""
    return _paor_world.journal()


@pytest.fixture
def paor_run(_paor_world: _World) -> Callable[..., Walk]:
    """
    A function that runs an objective on a scripted world and returns what was done, as `paor.testing.Walk`.

    ``paor_run(objective, replies, tools, answers=[...], policy=..., limits=..., **options)``: *answers* are arguments
    of `Engine.resume`, one for each time the run waits; the rest are options of `Engine.run` (``documents=[...]``).
    """

    def run(
        objective: str,
        replies: Sequence[Any],
        tools: Sequence[Any] = (),
        *,
        answers: Sequence[Mapping[str, Any]] = (),
        policy: Any = None,
        limits: Any = None,
        **options: Any,
    ) -> Walk:
        from .testing import play

        engine = _paor_world.engine(replies, tools, policy=policy, limits=limits)
        return play(engine, {"objective": objective, **options}, answers)

    return run


@pytest.fixture
def paor_kill(_paor_world: _World, pytestconfig: pytest.Config) -> Callable[..., Walk]:
    """
    A function that kills a run at one of its rows, resumes it, and returns what was done, as `paor.testing.Walk`.

    ``paor_kill(make, run, row, before=False, answers=[...], doubt={"outcome": "retry"})``: *make* is a function f(journal) of a
    module, which returns the engine; *run* the objective, or the arguments of `Engine.run`. A process of its own runs it and is ended
    by SIGKILL once row *row* is committed, or just *before* it is, when what the row records has happened. The test's process
    then makes the engine once more on the same journal and resumes the run. *answers* are as in `paor_run`; *doubt* is the one for an effect in doubt.
    The test fails when the run has no such row, or when the journal does not hold at its end.
    """

    def killed(
        make: Callable[[Journal], Engine],
        run: str | Mapping[str, Any],
        row: int,
        *,
        before: bool = False,
        answers: Sequence[Mapping[str, Any]] = (),
        doubt: Mapping[str, Any] = {"outcome": "retry"},
    ) -> Walk:
        from .testing.killing import kill, resume

        given = {"objective": run} if isinstance(run, str) else run
        with pytest.MonkeyPatch.context() as patch:
            # the new process imports the test's module by its name: in pytest's import mode "importlib" that begins at the root
            patch.syspath_prepend(str(pytestconfig.rootpath))
            kill(make, given, _paor_world.path, row, before, answers)
        return resume(_paor_world.made(make), given, answers, doubt)

    return killed
