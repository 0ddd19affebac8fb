"""
The crash matrix of somebody's agent: killed at every write and every effect, resumed, compared with the run nobody killed.

Each case has a folder of its own, which is the current one of its two processes: one starts the run and is ended by
SIGKILL at a point, the other finds what is left and goes on to the end.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

from ..fsm.explain.coverage import Coverage
from ..states.base.errors import UsageError
from .crash_server import crash, in_child, warm

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

    A script that calls it needs ``if __name__ == "__main__":``, as for every pool of processes.

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
    job: dict[str, Any] = {
        "app": app,
        "run": _arguments(run),
        "start": start,
        "resume": resume,
        "world": world,
    }
    job |= {"answers": dict(answers or {}), "path": _path(places), "timeout_s": timeout_s}
    job = _check_job(job, points, once, ignore)
    count = _number("processes", min(os.cpu_count() or 1, 4) if processes is None else processes)
    compared = [name for name in COMPARED if name not in ignore and (name != "world" or world is not None)]
    base = folder / "crash-matrix"
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(parents=True)
    with ProcessPoolExecutor(count, get_context("spawn"), warm) as pool:
        jobs = [
            {**job, "folder": str(base / name), "part": "start", "target": 0} for name in ("whole", "again")
        ]
        wholes = list(pool.map(in_child, jobs))
        for found in wholes:
            if "error" in found or found["ended"] != 0:
                raise UsageError(f"crash matrix of {app}: nobody killed it, and it ended with {_end(found)}")
        whole, again = wholes
        names, covered = tuple(whole["points"]), Coverage.read(whole["coverage"])
        if odd := [*whole["problems"], *_differences(again, whole, compared)]:
            failures = [f"two runs that nobody killed differ, or do not hold: {line}" for line in odd]
            return CrashReport(app, names, (), 2, tuple(failures), covered.wire_json())
        targets = _spread(len(names), points)
        jobs = [{**job, "folder": str(base / f"{target:04d}")} for target in targets]
        killed, failures = list[int](), list[str]()
        for done, (first, last) in enumerate(pool.map(crash, jobs, targets)):
            target, place = targets[done], Path(jobs[done]["folder"])
            killed += [target] if last is not None else []
            lines = _defects(first, last, whole, compared, frozenset(once), place)
            failures += [f"killed at {target} ({names[target - 1]}): {line}" for line in lines]
            if not lines:
                shutil.rmtree(place, ignore_errors=True)
            if last is not None and "coverage" in last:
                covered = covered + Coverage.read(last["coverage"])
            if tell is not None:
                tell(done + 1, len(targets))
    counts = len(wholes) + len(targets) + len(killed)
    return CrashReport(app, names, tuple(killed), counts, tuple(failures), covered.wire_json())


def _defects(
    first: Mapping[str, Any],
    last: Mapping[str, Any] | None,
    whole: Mapping[str, Any],
    compared: Sequence[str],
    once: frozenset[str],
    folder: Path,
) -> list[str]:
    """Return what is wrong with one case: with the process to be killed, or with the one that took up what it left."""
    if last is None:
        if "error" in first:
            return [f"before it was killed: {first['error']} (see {folder}/output.txt)"]
        return ["the run ended before this point: it does not go the same way each time"]
    if "error" in last or last["ended"] != 0:
        return [f"the next process ended with {_end(last)} (see {folder}/output.txt)"]
    lines = [*last["lost"], *(f"left: {line}" for line in last["left"]), *last["problems"]]
    lines += _differences(last, whole, compared) + _twice(last["calls"], whole["calls"], once)
    if lines:
        lines[-1] += f" (see {folder})"
    return lines


def _differences(found: Mapping[str, Any], whole: Mapping[str, Any], compared: Sequence[str]) -> list[str]:
    """Return where a run that was taken up is not what the uninterrupted one is."""
    lines = list[str]()
    if "world" in compared and found.get("world") != whole.get("world"):
        lines.append(f"world: {found['world']!r:.300}, expected {whole['world']!r:.300}")
    if len(found["facts"]) != len(whole["facts"]):
        return [*lines, f"{len(found['facts'])} runs, expected {len(whole['facts'])}"]
    for number, (run, expected) in enumerate(zip(found["facts"], whole["facts"], strict=True), 1):
        where = f"run {number}, " if len(whole["facts"]) > 1 else ""
        lines += [
            f"{where}{name}: {run[name]!r:.300}, expected {expected[name]!r:.300}"
            for name in compared
            if name != "world" and run[name] != expected[name]
        ]
    return lines


def _twice(
    found: Sequence[Mapping[str, Any]], whole: Sequence[Mapping[str, Any]], once: frozenset[str]
) -> list[str]:
    """Return the calls that ran more often than their class of effect, or the caller, allows."""
    counts, allowed = _count_calls(found, once), _count_calls(whole, once)
    again = Counter(entry["again"] for entry in found if "again" in entry)
    keys: dict[str, tuple[str, str]] = {
        entry["begun"]: (entry["tool"], entry["arguments"]) for entry in found if "begun" in entry
    }
    for key, times in again.items():
        if key in keys:
            allowed[keys[key]] += times
    return [
        f"{tool}({arguments}) ran {times} times, at most {allowed[tool, arguments]} expected"
        for (tool, arguments), times in counts.items()
        if times > allowed[tool, arguments]
    ]


def _count_calls(calls: Sequence[Mapping[str, Any]], once: frozenset[str]) -> Counter[tuple[str, str]]:
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


def _path(places: Sequence[str]) -> list[str]:
    """Return where modules are found: as in this process, then in *places*."""
    own = [os.path.abspath(entry) for entry in sys.path]
    return list(dict.fromkeys([*own, *(os.path.abspath(place) for place in places)]))


def _number(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        raise UsageError(f"{name}: expected a whole number from 1, not {value!a:.80}")
    return value


def _check_job(
    job: Mapping[str, Any], points: Points, once: Sequence[str], ignore: Sequence[str]
) -> dict[str, Any]:
    """Return a job in the form in which a fresh process gets it; what cannot be used is refused before anything runs."""
    for name in ("app", "start", "resume", "world"):
        value = job[name]
        if (value is not None or name == "app") and not (isinstance(value, str) and value.find(":") > 0):
            raise UsageError(f"{name}: expected MODULE:NAME, such as my_app:engine, not {value!a:.80}")
    if (job["run"] is None) == (job["start"] is None):
        raise UsageError("crash_matrix takes run, the objective, or start, a function of the engine")
    if points != "all":
        for number in points if isinstance(points, list | tuple | range) else [points]:
            _number("points", number)
    for name, given in (("once", once), ("ignore", ignore)):
        if isinstance(given, str):
            raise UsageError(f"{name} takes a list of names, such as [{given!a:.80}]")
    for name, used, known in (("answers", job["answers"], KINDS), ("ignore", ignore, COMPARED)):
        if unknown := [item for item in used if item not in known]:
            raise UsageError(f"{name}: knows {', '.join(known)}, not {unknown[0]!a:.80}")
    timeout_s = job["timeout_s"]
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= 86_400:
        raise UsageError(f"timeout_s: expected seconds, not {timeout_s!a:.80}")
    try:
        copied: dict[str, Any] = json.loads(json.dumps(job))
    except (TypeError, ValueError) as error:
        raise UsageError(f"run and answers go to another process as JSON: {error}; use start=") from None
    return copied


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
