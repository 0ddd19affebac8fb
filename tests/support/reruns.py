"""
What happens at the end of a run: failed tests run once more, alone; durations are written; slow default tests fail.

A test that fails is run again in a fresh process, with nothing beside it. If it passes then, it is FLAKY: the run ends green, but
names the test in its last lines and in ``build/flaky.txt``, and the next change mends it. `FLAKY_MAX` such names, or
one that fails again, fail the run. A test of the default set that takes longer than `DEFAULT_S` is timed again in the
same way: without the fixtures that it shares with others, by the processor's clock where the machine has other work, and in seconds
of a machine that adds as fast as `PACE_S` says, so that neither a busy machine nor a slow one fails anything. If it is slow again, the
run fails.

``build/durations.json`` has the seconds of every test. A run of tests that the command line names does none of this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from .selection import DURATIONS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build"
FLAKY_MAX = 3
"""So many flaky tests fail a run."""
AGAIN_MAX = 10
"""More failed tests than this are not a matter of chance: none of them is run again."""
DEFAULT_S = 4.0
"""Seconds that a test of the default set may take, with the set-up that is its own; the same test differs by a third from hour to hour."""
PACE_S = 0.13
"""Seconds in which a machine that takes `DEFAULT_S` as it is counts to a million."""
INNER = "PAOR_TESTS_AGAIN"
"""Set in the process that runs a test again, which must not do the same in turn."""


def configured(config: pytest.Config) -> None:
    """Register the plugin in the process that reports on a run of no named tests, the other one where a test is run again."""
    if INNER in os.environ:
        config.pluginmanager.register(Again(), "again")
    elif not hasattr(config, "workerinput") and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.pluginmanager.register(Reruns(config), "reruns")


class Reruns:
    """The plugin of the process that reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: list[str] = []
        self.whole: set[str] = set()
        self.flaky: list[str] = []
        self.slow: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one phase of one test."""
        self.seconds[report.nodeid] += report.duration
        if "whole" in report.keywords:
            self.whole.add(report.nodeid)
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Run failed and slow tests again, and decide how the run ends."""
        if session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        FOLDER.mkdir(exist_ok=True)
        self._write("durations.json", json.dumps(dict(sorted(self.seconds.items())), indent=0))
        if self._config.getoption("keep_durations"):
            self._keep_durations()
        if 0 < len(self.failed) <= AGAIN_MAX:
            self.flaky = [name for name in self.failed if self._again(name)[0]]
        self._write("flaky.txt", "".join(f"{name}\n" for name in self.flaky))
        over = [name for name, spent in self.seconds.items() if spent > DEFAULT_S and name not in self.whole]
        self.slow = [name for name in over if name not in self.failed and self._again(name)[1] > DEFAULT_S]
        if self.failed and len(self.flaky) == len(self.failed) < FLAKY_MAX:
            session.exitstatus = pytest.ExitCode.OK
            self._move_to_flaky()
        if self.slow:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name what was flaky or slow, last of all."""
        for name in self.flaky:
            terminalreporter.write_line(
                f"FLAKY {name}: failed, then passed alone; mend it with the next change"
            )
        for name in self.slow:
            terminalreporter.write_line(
                f"SLOW {name}: over {DEFAULT_S:g} seconds in the default set; mark it whole or make it smaller"
            )

    def _again(self, name: str) -> tuple[bool, float]:
        """Run one test alone in a fresh process; return whether it passed, and its seconds."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:cov"]
        report = FOLDER / "again.json"
        report.unlink(missing_ok=True)
        env = {**os.environ, INNER: str(report)}
        done = subprocess.run(
            [*command, name], cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=1800
        )
        spent = float(json.loads(report.read_text())) if report.exists() else 0.0
        return done.returncode == 0, spent

    def _move_to_flaky(self) -> None:
        """Count the failures as flaky in pytest's own summary."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            for kind in ("failed", "error"):
                reporter.stats.setdefault("flaky", []).extend(reporter.stats.pop(kind, []))

    def _keep_durations(self) -> None:
        """Write the seconds that each file's tests for ``--whole`` took."""
        files: dict[str, float] = defaultdict(float)
        for name in sorted(self.whole):
            files[name.partition("::")[0]] += self.seconds[name]
        kept = {file: round(spent, 1) for file, spent in files.items()}
        DURATIONS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")

    def _write(self, name: str, text: str) -> None:
        (FOLDER / name).write_text(text, encoding="utf-8")


def pace() -> float:
    """Return how many times longer than `PACE_S` this machine takes at the moment, by the processor's clock; at least 1."""
    began, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number * number % 7
    return max(1.0, (time.process_time() - began) / PACE_S)


class Again:
    """The plugin of the process that runs a test again: it writes how long that took, on a busy machine in processor time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = os.times()
        self._shared = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        """Leave out what is set up for a file or more: the test that comes first pays for all of them."""
        began, before = time.perf_counter(), os.times()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self.seconds -= time.perf_counter() - began
                self._shared += sum(os.times()[:4]) - sum(before[:4])

    def pytest_runtest_setup(self) -> None:
        """Begin to count, once everything is collected."""
        self._began = os.times()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one phase; the end of the last test is that of what files share, too."""
        if report.when != "teardown":
            self.seconds += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the sum."""
        now, began = os.times(), self._began
        used = sum(now[:4]) - sum(began[:4]) - self._shared  # and of the children that it has waited for
        is_busy = os.getloadavg()[0] > (os.cpu_count() or 1)
        spent = min(self.seconds, used) if is_busy else self.seconds
        Path(os.environ[INNER]).write_text(json.dumps(spent / pace()), encoding="utf-8")
