"""
Every check that a change must pass, as one command: ``python .ci/gates.py`` runs all, ``... lint tests`` some.

A gate prints its name, then what its tool prints, then ``ok`` or ``FAILED``. All gates run even if one fails; a
summary ends the output, and the exit code is 1 if any gate failed. Needs ``pip install -e '.[dev]'`` of this very
checkout and nothing else.

The tests use all processors. The gates that use one each run before them, two at a time, and print when they are done.

`tests` runs the default set and all that the change touches. ``python .ci/gates.py whole coverage`` runs every test and measures
what they cover; a release needs both, "all" does not.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FACE = ROOT / "src" / "paor"
PYTHON = sys.executable  # so that the tools are those of this environment
COVERAGE_FILE = ROOT / ".coverage-gates"  # a name of its own: other runs in this tree combine `.coverage.*`
FLAKY = ROOT / "build" / "flaky.txt"
"""Names of the tests that failed and passed when they ran again alone; see tests/support/reruns.py."""
SLOWEST = 20
"""So many of the slowest tests are printed."""
TOTAL_MIN = 95.0
FULL = (
    "src/paor/states/*.py",
    "src/paor/states/*/*.py",
    "src/paor/fsm/machine/*.py",
)
"""Where every line and branch is covered: what decides. The floor for the rest is `TOTAL_MIN` percent in all."""


class GateFailed(Exception):
    """A gate's verdict, with what the summary says about it."""


class Kept(threading.local):
    """What a gate says that runs beside others: lines that are printed when it is done; None in a gate that runs alone."""

    lines: list[str] | None = None


KEPT = Kept()


def say(text: str = "") -> None:
    """Print one line at once, so that it is in order with what the tools print; beside other gates keep it."""
    if KEPT.lines is not None:
        KEPT.lines.append(text)
        return
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(
    *command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None, wordy: bool = False
) -> list[str]:
    """
    Run *command* without stdin, show its output as it comes (of a *wordy* one only if it fails), return the lines.

    Raises:
        GateFailed: It ended with another exit code than 0; the last line it printed tells more.
    """
    say("$ " + " ".join(str(part) for part in command))
    lines: list[str] = []
    with subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if not wordy:
                say(lines[-1])
    if process.returncode:
        if wordy:
            say("\n".join(lines))
        last = next((line for line in reversed(lines) if line.strip()), "no output")
        raise GateFailed(f"exit code {process.returncode}: {last.strip('= ')}")
    return lines


def python_files() -> set[Path]:
    """Return the modules of the package."""
    return {path for path in package_files(FACE) if path.suffix == ".py"}


def package_files(folder: Path) -> list[Path]:
    """Return all files of *folder* that belong to the package."""
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == "__pycache__":
            continue
        if path.is_dir():
            found += package_files(path)
        else:
            found.append(path)
    return found


def check_format() -> str:
    """Formatting as ruff has it."""
    return run(PYTHON, "-m", "ruff", "format", "--check", ".")[-1]


def check_lint() -> str:
    """Ruff's rules as chosen in pyproject.toml; words that hide the mechanism, in the lines that the change adds, are warned of."""
    run(PYTHON, ".ci/words.py")
    return run(PYTHON, "-m", "ruff", "check", ".")[-1]


def check_types() -> str:
    """Mypy, strict, for the package through its links, the tests and these scripts."""
    return run(PYTHON, "-m", "mypy")[-1]


def check_imports() -> str:
    """Imports point down only; import-linter follows the links."""
    return run(PYTHON, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")[-1]


def check_purity() -> str:
    """No I/O, clock, chance or environment where paor decides."""
    run(PYTHON, ".ci/purity.py")
    return ""


def check_rooms() -> str:
    """No circle of imports, no room without a word on what it is for, no word with too many meanings."""
    return run(PYTHON, ".ci/rooms.py")[1]


def check_lines() -> str:
    """No room grows without a reason, none has few modules, and tests look inside only where they may."""
    return run(PYTHON, ".ci/lines.py")[0]


def check_tests() -> str:
    """The default set, and all that the change touches, on all processors."""
    return run_tests("--change")


def check_whole() -> str:
    """Every test, with branch coverage for the gate `coverage`."""
    for stale in (COVERAGE_FILE, *ROOT.glob(f"{COVERAGE_FILE.name}.*")):
        stale.unlink(missing_ok=True)
    return run_tests("--whole", "--cov", "--cov-branch", "--cov-report=")


def run_tests(*options: str) -> str:
    """Run the tests with *options* as the README does, and return the last line of pytest's summary."""
    spread = ("-n", "auto", "--dist", "worksteal", "--durations", str(SLOWEST))
    # some hundred processes import the package: it is compiled once, whatever the environment says
    env = {"COVERAGE_FILE": str(COVERAGE_FILE), "PYTHONDONTWRITEBYTECODE": ""}
    return run(PYTHON, "-m", "pytest", *spread, *options, env=env)[-1].strip("= ")


def check_coverage() -> str:
    """The floors, from the data of the gate `whole`; a module that no test imports counts as missing."""
    if not COVERAGE_FILE.exists():
        raise GateFailed("no coverage data: run the gate whole first")
    env = {"COVERAGE_FILE": str(COVERAGE_FILE)}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "coverage.json")
        run(PYTHON, "-m", "coverage", "report", "--fail-under=0", env=env)
        run(PYTHON, "-m", "coverage", "json", "--quiet", "--fail-under=0", "-o", report, env=env)
        data = json.loads(report.read_text(encoding="utf-8"))
    files = {(ROOT / name).resolve(): file["summary"] for name, file in data["files"].items()}
    unseen = sorted(python_files() - set(files))
    problems = [f"{path.relative_to(ROOT)}: no test imports it" for path in unseen]
    problems += [f"{pattern}: no such file" for pattern in FULL if not any(ROOT.glob(pattern))]
    for path in sorted({path for pattern in FULL for path in ROOT.glob(pattern)} & set(files)):
        lines, branches = files[path]["missing_lines"], files[path]["missing_branches"]
        if lines or branches:
            problems.append(f"{path.relative_to(ROOT)}: {lines} lines, {branches} branches not covered")
    total: float = data["totals"]["percent_covered"]
    if total < TOTAL_MIN:
        problems.append(f"total: {total:.2f} %, at least {TOTAL_MIN} % wanted")
    for problem in problems:
        say(problem)
    if problems:
        raise GateFailed(f"{total:.2f} % in all, {len(problems)} problems, listed above")
    return f"{total:.2f} % in all"


GATES: dict[str, Callable[[], str]] = {
    "format": check_format,
    "lint": check_lint,
    "types": check_types,
    "imports": check_imports,
    "purity": check_purity,
    "rooms": check_rooms,
    "lines": check_lines,
    "tests": check_tests,
    "whole": check_whole,
    "coverage": check_coverage,
}
ON_REQUEST = ("whole", "coverage")
"""Gates that run only when they are named."""
ALONE = ("tests", "whole", "coverage")
"""Gates that run one after the other: they use all processors, or what the one before them has left."""
LONGEST = ("types", "purity")
"""Of the others these start first, so that none of them is left over at the end."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    How a gate ended.

    Attributes:
        name: The gate's.
        word: ``ok`` or ``FAILED``.
        note: What the summary says about it.
    """

    name: str
    word: str
    note: str

    def __str__(self) -> str:
        return f"{self.name:<9} {self.word:<7} {self.note}".rstrip()


def judge(name: str) -> Verdict:
    """Run a gate and say how it ended."""
    say(f"\n== {name}: {(GATES[name].__doc__ or '').strip()}")
    started = time.monotonic()
    try:
        word, note = "ok", GATES[name]()
    except GateFailed as failure:
        word, note = "FAILED", str(failure)
    except Exception as error:  # noqa: BLE001  # a broken gate is a failed one; the others still run
        word, note = "FAILED", repr(error)
    say(f"== {name}: {word} ({time.monotonic() - started:.1f} s)")
    return Verdict(name, word, note)


def judge_beside(name: str) -> tuple[Verdict, list[str]]:
    """Run a gate beside others; returns what it says, too."""
    lines: list[str] = []
    KEPT.lines = lines
    try:
        return judge(name), lines
    finally:
        KEPT.lines = None


def judge_all(names: list[str]) -> list[Verdict]:
    """Run these gates, two at a time where that is possible, and print what they say in their order."""
    beside = [name for name in names if name not in ALONE]
    verdicts = []
    with ThreadPoolExecutor(2) as pool:
        first = sorted(beside, key=lambda name: LONGEST.index(name) if name in LONGEST else len(LONGEST))
        running = {name: pool.submit(judge_beside, name) for name in first}
        for name in beside:
            verdict, lines = running[name].result()
            say("\n".join(lines))
            verdicts.append(verdict)
    return verdicts + [judge(name) for name in names if name in ALONE]


def main() -> int:
    """Run the gates named on the command line, or all; return 1 if any failed, 2 if nothing can be checked."""
    parser = argparse.ArgumentParser(description="Run the checks of this repository.")
    usual = [name for name in GATES if name not in ON_REQUEST]
    parser.add_argument(
        "gates", nargs="*", metavar="GATE", help=f"any of {', '.join(GATES)}; default: {', '.join(usual)}"
    )
    chosen: list[str] = parser.parse_args().gates or usual
    if unknown := [name for name in chosen if name not in GATES]:
        parser.error(f"no such gate: {', '.join(unknown)}; there are {', '.join(GATES)}")
    package = importlib.util.find_spec("paor")
    if package is None or package.origin is None or not Path(package.origin).resolve().is_relative_to(ROOT):
        parser.error(f"this Python's paor is not the one in {ROOT}: run pip install -e '.[dev]' there")
    verdicts = judge_all(chosen)
    say("\n== summary")
    for verdict in verdicts:
        say(str(verdict))
    if FLAKY.exists():
        for name in FLAKY.read_text(encoding="utf-8").splitlines():
            say(f"FLAKY {name}: failed, then passed alone; mend it with the next change")
    return 1 if any(verdict.word != "ok" for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
