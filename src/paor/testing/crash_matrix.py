"""
The crash matrix of somebody's agent: killed at every write and every effect, resumed, compared with the run nobody killed.

Each case has a folder of its own, which is the current one of its two processes: one starts the run and is ended by
SIGKILL at a point, the other finds what is left and goes on to the end.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..fsm.explain.coverage import Coverage
from ..states.base.errors import UsageError

KILLED = -9
COMPARED = ("end", "answer", "criteria", "totals", "documents", "rows", "world")
"""What is compared with the run that nobody killed."""

KINDS = ("elicitation", "approval", "argument", "in_doubt")
SHOWN = 20
"""Failures that a report shows."""


Points = Literal["all"] | int | Sequence[int]
"""Which points of a run are tried."""


@dataclass(frozen=True, slots=True)
class CrashReport:
    """
    What a crash matrix found.

    Attributes:
        app: The agent.
        points: All points of its run in order, such as ``write COMMIT, before`` or ``tool mail.send, after``.
        killed: Numbers of those at which a process was killed, from 1.
        processes: How many processes ran.
        failures: One line for each thing that is not as it must be, empty when all holds.
        coverage: Of the machine's table, as JSON.
    """

    app: str
    points: tuple[str, ...]
    killed: tuple[int, ...]
    processes: int
    failures: tuple[str, ...]
    coverage: str

    @property
    def headline(self) -> str:
        """One line that sums it up."""
        message = f"{len(self.killed)} of {len(self.points)} points killed in {self.processes} processes"
        return f"{message}, {len(self.failures)} failures" if self.failures else f"{message}, all ended alike"

    def __str__(self) -> str:
        lines = [f"crash matrix of {self.app}: {self.headline}", *self.failures[:SHOWN]]
        if len(self.failures) > SHOWN:
            lines.append(f"and {len(self.failures) - SHOWN} more")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Case:
    """What a matrix was asked for, checked."""

    app: str
    job: Mapping[str, Any]
    points: Points
    once: frozenset[str]
    compared: tuple[str, ...]


class _Server:
    """The process that makes one child for every job."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "paor.testing.crash_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_path([]))},
        )
        self.answer()

    def answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that makes the children has ended")
        return line

    def do(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Have a new process do a job; see `crash_worker.perform`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self.answer())
        return found

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def matrix(
    app: str,
    run: str | Mapping[str, Any] | None = None,
    *,
    folder: Path,
    places: Sequence[str] = (),
    points: Points = "all",
    start: str | None = None,
    resume: str | None = None,
    world: str | None = None,
    answers: Mapping[str, Any] | None = None,
    once: Sequence[str] = (),
    ignore: Sequence[str] = (),
    processes: int | None = None,
    timeout_s: float = 60.0,
    tell: Callable[[int, int], None] | None = None,
) -> CrashReport:
    """
    Kill an agent at every point of its run, resume it in a new process, and compare.

    Args:
        app: ``MODULE:NAME`` of an `Engine` with a relative journal, or of a function f(journal) that returns one. It is
            imported in every process; the model and the tools must do the same each time.
        run: The objective, or the arguments of `Engine.run` as a mapping of JSON data.
        folder: Where the cases are; the folder of a failing one is left there.
        places: Folders that are looked through for modules after those of this process.
        points: ``all``, or a number of points that are spread evenly over the run, or a list of the numbers themselves, as
            a report names them.
        start: In place of *run*: ``MODULE:NAME`` of a function of the engine that starts a run and returns its `Result`.
        resume: The same, for what is done after a crash; None: what was not started is started, else resumed.
        world: ``MODULE:NAME`` of a function without arguments, called at the end in the case's folder; what it returns is
            compared too: the world that the tools have changed, as JSON data.
        answers: What a run that waits is answered, by kind: ``{"approval": {"approve": True}}``. An effect in doubt is
            answered by what the call is known to have come to.
        once: Tools that must not run twice, whatever effect they declare; those that declare ``once`` are among them.
        ignore: Of `COMPARED` what is not compared.
        processes: How many at a time; None: one for each processor, at most 4.
        timeout_s: Seconds after which one process is given up.
        tell: Called with the number of cases that are done, and of all.

    Returns:
        The report; it has failures when anything differs.

    Raises:
        UsageError: An argument that cannot be used, or a system that cannot fork.
    """
    if not hasattr(os, "fork"):
        raise UsageError("crash_matrix needs a POSIX system: it kills processes with SIGKILL")
    case = _checked(app, run, places, points, start, resume, world, answers, once, ignore, timeout_s)
    count = _number("processes", min(os.cpu_count() or 1, 4) if processes is None else processes)
    base = folder / "crash-matrix"
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(parents=True)
    with ExitStack() as stack:
        servers = queue.SimpleQueue[_Server]()
        for _ in range(count):
            server = _Server()
            stack.callback(server.close)
            servers.put(server)
        return _Matrix(case, base, servers, count, tell).report()


class _Matrix:
    """One matrix while it runs."""

    def __init__(
        self,
        case: _Case,
        base: Path,
        servers: queue.SimpleQueue[_Server],
        count: int,
        tell: Callable[[int, int], None] | None,
    ) -> None:
        self._case = case
        self._base = base
        self._servers = servers
        self._count = count
        self._tell = tell
        self._processes = 0

    @contextmanager
    def _server(self) -> Iterator[_Server]:
        server = self._servers.get()
        try:
            yield server
        finally:
            self._servers.put(server)

    def _do(self, folder: Path, part: str, target: int = 0) -> dict[str, Any]:
        folder.mkdir(exist_ok=True)
        self._processes += 1
        with self._server() as server:
            return server.do({**self._case.job, "folder": str(folder), "part": part, "target": target})

    def report(self) -> CrashReport:
        """Run everything."""
        app = self._case.app
        wholes = [self._do(self._base / name, "start") for name in ("whole", "again")]
        for whole in wholes:
            if "error" in whole or whole["ended"] != 0:
                raise UsageError(f"crash matrix of {app}: nobody killed it, and it ended with {_end(whole)}")
        whole, again = wholes
        odd = [*whole["problems"], *self._differences(again, whole)]
        names, covered = tuple(whole["points"]), Coverage.read(whole["coverage"])
        if odd:
            message = [f"two runs that nobody killed differ, or do not hold: {line}" for line in odd]
            return CrashReport(app, names, (), self._processes, tuple(message), covered.wire_json())
        targets = _spread(len(names), self._case.points)
        killed, failures = list[int](), list[str]()
        with ThreadPoolExecutor(self._count) as pool:
            for done, (target, was_killed, found, lines) in enumerate(
                pool.map(lambda target: self._killed(target, whole), targets), 1
            ):
                killed += [target] if was_killed else []
                failures += [f"killed at {target} ({names[target - 1]}): {line}" for line in lines]
                if found is not None and "coverage" in found:
                    covered = covered + Coverage.read(found["coverage"])
                if self._tell is not None:
                    self._tell(done, len(targets))
        return CrashReport(app, names, tuple(killed), self._processes, tuple(failures), covered.wire_json())

    def _killed(
        self, target: int, whole: Mapping[str, Any]
    ) -> tuple[int, bool, dict[str, Any] | None, list[str]]:
        """Return of one case whether the process was killed, what the next one found, and what is wrong."""
        folder = self._base / f"{target:04d}"
        first = self._do(folder, "start", target)
        if first["ended"] != KILLED:
            if "error" in first:
                return (
                    target,
                    False,
                    None,
                    [f"before it was killed: {first['error']} (see {folder}/output.txt)"],
                )
            return (
                target,
                False,
                None,
                ["the run ended before this point: it does not go the same way each time"],
            )
        found = self._do(folder, "finish")
        if "error" in found or found["ended"] != 0:
            return (
                target,
                True,
                None,
                [f"the next process ended with {_end(found)} (see {folder}/output.txt)"],
            )
        lines = [*found["lost"], *(f"left: {line}" for line in found["left"]), *found["problems"]]
        lines += self._differences(found, whole) + _twice(found["calls"], whole["calls"], self._case.once)
        if lines:
            lines[-1] += f" (see {folder})"
        else:
            shutil.rmtree(folder, ignore_errors=True)
        return target, True, found, lines

    def _differences(self, found: Mapping[str, Any], whole: Mapping[str, Any]) -> list[str]:
        """Return where a run that was taken up is not what the uninterrupted one is."""
        compared, message = self._case.compared, list[str]()
        if "world" in compared and found.get("world") != whole.get("world"):
            message.append(f"world: {_short(found['world'])}, expected {_short(whole['world'])}")
        if len(found["facts"]) != len(whole["facts"]):
            return [*message, f"{len(found['facts'])} runs, expected {len(whole['facts'])}"]
        for number, (run, expected) in enumerate(zip(found["facts"], whole["facts"], strict=True), 1):
            where = f"run {number}, " if len(whole["facts"]) > 1 else ""
            message += [
                f"{where}{name}: {_short(run[name])}, expected {_short(expected[name])}"
                for name in compared
                if name != "world" and run[name] != expected[name]
            ]
        return message


def _twice(
    found: Sequence[Mapping[str, Any]], whole: Sequence[Mapping[str, Any]], once: frozenset[str]
) -> list[str]:
    """Return the calls that ran more often than their class of effect, or the caller, allows."""
    ran, allowed = _ran(found, once), _ran(whole, once)
    again = Counter(entry["again"] for entry in found if "again" in entry)
    keys: dict[str, tuple[str, str]] = {
        entry["begun"]: (entry["tool"], entry["arguments"]) for entry in found if "begun" in entry
    }
    for key, times in again.items():
        if key in keys:
            allowed[keys[key]] += times
    return [
        f"{tool}({arguments}) ran {times} times, at most {allowed[tool, arguments]} expected"
        for (tool, arguments), times in ran.items()
        if times > allowed[tool, arguments]
    ]


def _ran(calls: Sequence[Mapping[str, Any]], once: frozenset[str]) -> Counter[tuple[str, str]]:
    """Return how often each call took effect that must not do so twice; one that says it did not begin is none."""
    counted = Counter[tuple[str, str]]()
    last: dict[str, tuple[str, str]] = {}
    for entry in calls:
        if "begun" in entry and (entry["effect"] == "once" or entry["tool"] in once):
            last[entry["begun"]] = entry["tool"], entry["arguments"]
            counted[last[entry["begun"]]] += 1
        elif entry.get("kind") == "not_started" and entry["raised"] in last:
            counted[last[entry["raised"]]] -= 1
    return counted


def _spread(count: int, points: Points) -> list[int]:
    """
    Return which points are tried, from 1: all, those that are listed, or so many with even gaps between them.

    Raises:
        UsageError: There is no such point.
    """
    if not isinstance(points, int | str):
        if wrong := [point for point in points if point > count]:
            raise UsageError(f"points: the run has {count}, so there is no point {wrong[0]}")
        return sorted(set(points))
    if isinstance(points, str) or points >= count:
        return list(range(1, count + 1))
    if points == 1:
        return [(count + 1) // 2]
    return sorted({1 + round(place * (count - 1) / (points - 1)) for place in range(points)})


def _end(found: Mapping[str, Any]) -> str:
    return str(found["error"]) if "error" in found else f"exit code {found['ended']}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:297]}..."


def _path(places: Sequence[str]) -> list[str]:
    """Return where modules are found: as in this process, then in *places*."""
    own = [os.path.abspath(entry) for entry in sys.path]
    return list(dict.fromkeys([*own, *(os.path.abspath(place) for place in places)]))


def _number(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        raise UsageError(f"{name}: expected a whole number from 1, not {value!a:.80}")
    return value


def _checked(
    app: str,
    run: str | Mapping[str, Any] | None,
    places: Sequence[str],
    points: Points,
    start: str | None,
    resume: str | None,
    world: str | None,
    answers: Mapping[str, Any] | None,
    once: Sequence[str],
    ignore: Sequence[str],
    timeout_s: float,
) -> _Case:
    """Return the case that was asked for, in the form in which a fresh process gets it."""
    for name, value in (("app", app), ("start", start), ("resume", resume), ("world", world)):
        if (value is not None or name == "app") and not (isinstance(value, str) and value.find(":") > 0):
            raise UsageError(f"{name}: expected MODULE:NAME, such as my_app:engine, not {value!a:.80}")
    if (run is None) == (start is None):
        raise UsageError("crash_matrix takes run, the objective, or start, a function of the engine")
    if points != "all":
        for number in points if isinstance(points, list | tuple | range) else [points]:
            _number("points", number)
    if unknown := [kind for kind in answers or {} if kind not in KINDS]:
        raise UsageError(f"answers: knows {', '.join(KINDS)}, not {unknown[0]!a:.80}")
    for name, given in (("once", once), ("ignore", ignore)):
        if isinstance(given, str):
            raise UsageError(f"{name} takes a list of names, such as [{given!a:.80}]")
    if unknown := [name for name in ignore if name not in COMPARED]:
        raise UsageError(f"ignore: knows {', '.join(COMPARED)}, not {unknown[0]!a:.80}")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= 86_400:
        raise UsageError(f"timeout_s: expected seconds, not {timeout_s!a:.80}")
    job: dict[str, Any] = {
        "app": app,
        "run": _arguments(run),
        "start": start,
        "resume": resume,
        "world": world,
    }
    job |= {"answers": dict(answers or {}), "path": _path(places), "timeout_s": timeout_s}
    try:
        job = json.loads(json.dumps(job))
    except (TypeError, ValueError) as error:
        raise UsageError(f"run and answers go to another process as JSON: {error}; use start=") from None
    compared = tuple(
        name for name in COMPARED if name not in ignore and (name != "world" or world is not None)
    )
    return _Case(app, job, points, frozenset(once), compared)


def _arguments(run: str | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the arguments of a run; the files among its documents are named so that other folders find them."""
    if run is None:
        return None
    given: dict[str, Any] = {"objective": run} if isinstance(run, str) else dict(run)
    if isinstance(given.get("documents"), list | tuple):
        given["documents"] = [
            os.path.abspath(item) if isinstance(item, str | os.PathLike) else item
            for item in given["documents"]
        ]
    return given
