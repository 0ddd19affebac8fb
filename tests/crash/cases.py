"""What a process of a case does: start a run, take one up that was left, cancel it, or judge the end."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import resource
import struct
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from paor import Engine, Journal, PaorError, Result
from paor.audit import Transition
from paor.errors import NotAJournal

from ..support.worlds import JOURNAL
from .facts import facts, problems
from .outside import Outside
from .points import Points, watching
from .scenarios import BY_NAME, Scenario, clock_of

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "docs" / "verify_journal.py"
WAIT_MAX = 50


def perform(job: dict[str, Any]) -> dict[str, Any]:
    """
    Do one job in this process, which may end on the way.

    Args:
        job: ``folder``, ``scenario``, ``part`` (``start``, ``finish``, ``cancel``), ``target`` (point at which the process is
            killed, 0 for none), ``generation`` (how many processes there were before); ``renewals``: the points are the
            renewals of its leases; ``file_bytes_max``: no file of the process can grow beyond that.

    Returns:
        What was found; see the functions of each part.
    """
    scenario, folder, generation = BY_NAME[job["scenario"]], Path(job["folder"]), job["generation"]
    points = Points(job["target"], renewals=job.get("renewals", False))
    if "file_bytes_max" in job:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_bytes_max"], resource.RLIM_INFINITY))
    with watching(points):
        outside = Outside(folder, clock_of(generation))
        before = lost_rows(folder, outside) if generation else []
        with scenario.engine(folder, points, outside, ids=f"ids of {generation}") as engine:
            found = _PARTS[job["part"]](scenario, engine, outside)
            found["commits"] = commits_in_log(folder / f"{JOURNAL}-wal")
        points.target = 0
    return found | {"points": points.names, "lost": before}


def _start(scenario: Scenario, engine: Engine, outside: Outside) -> dict[str, Any]:
    """Start the run and drive it to its end; what the uninterrupted run came to."""
    settled(scenario, engine, outside, scenario.start(engine))
    return _judged(engine, outside)


def _wait(scenario: Scenario, engine: Engine, outside: Outside) -> dict[str, Any]:
    """Start the run and leave it where it waits for the first time."""
    result = scenario.start(engine)
    return {"status": result.status}


def _finish(scenario: Scenario, engine: Engine, outside: Outside) -> dict[str, Any]:
    """Take up whatever a killed process has left, and drive it to its end."""
    return finished_by(scenario, engine, outside)


def _cancel(scenario: Scenario, engine: Engine, outside: Outside) -> dict[str, Any]:
    """Cancel the oldest run."""
    effects = sum(1 for _ in outside.effects)
    runs = engine.journal.runs()
    result = engine.cancel(runs[-1].run_id)
    found = _judged(engine, outside)
    return found | {
        "result": [result.state, result.reason],
        "effects_after": sum(1 for _ in outside.effects) - effects,
        "open": [row.run_id for row in engine.journal.runs() if row.status not in ("done", "failed")],
    }


def started_by(scenario: Scenario, folder: Path, *, judged: bool = True) -> dict[str, Any]:
    """Start the run in this process, in a folder of its own, and drive it to its end."""
    outside = Outside(folder, clock_of(0))
    with scenario.engine(folder, Points(), outside) as engine:
        settled(scenario, engine, outside, scenario.start(engine))
        return _judged(engine, outside) if judged else {}


def finished_by(
    scenario: Scenario, engine: Engine, outside: Outside, *, scripted: bool = True
) -> dict[str, Any]:
    """
    Take up, in this process, whatever was left.

    Args:
        scenario, engine, outside: Of the case.
        scripted: Whether the independent script may open the file: not while another copy of SQLite has it open in
            this process, since POSIX gives up a process's locks on a file as soon as one of its descriptors is closed.
    """
    defects = [str(defect) for defect in engine.journal.verify()]
    defects += told_by_script(engine.journal.path) if scripted else []
    first = take_up(scenario, engine, outside)
    return _judged(engine, outside) | {"left": defects, "taken_up": first}


def _try(scenario: Scenario, engine: Engine, outside: Outside) -> dict[str, Any]:
    """Start the run and drive it as far as it comes; which error it ended with."""
    try:
        settled(scenario, engine, outside, scenario.start(engine))
    except PaorError as error:
        return {"raised": type(error).__name__, "message": str(error)}
    return {"raised": None}


def _renewed(scenario: Scenario, engine: Engine, outside: Outside) -> dict[str, Any]:
    """Start the run; each effect takes until the process is killed while it renews its lease."""
    engine.journal.store.leases.lease_s = 0.03
    outside.pause = lambda: time.sleep(60)
    return _start(scenario, engine, outside)


_PARTS = {
    "try": _try,
    "renewed": _renewed,
    "start": _start,
    "wait": _wait,
    "finish": _finish,
    "cancel": _cancel,
}


def _judged(engine: Engine, outside: Outside) -> dict[str, Any]:
    return {
        "facts": facts(engine),
        "problems": problems(engine) + outside.problems(),
        "effects": sorted([*key, count] for key, count in outside.effect_counts().items()),
        "implied": implied(engine),
    }


def take_up(scenario: Scenario, engine: Engine, outside: Outside) -> str:
    """Do what an operator does after a crash; returns the status that was found."""
    runs = engine.journal.runs()
    if not runs:
        settled(scenario, engine, outside, scenario.start(engine))
        return "nothing"
    left = runs[0] if scenario.name == "fallback" else runs[-1]  # a workflow takes up its tasks itself
    settled(scenario, engine, outside, engine.resume(left.run_id))
    return str(left.status)


def settled(scenario: Scenario, engine: Engine, outside: Outside, result: Result) -> Result:
    """Answer until a run ends: an effect in doubt by what is known outside, a question by the scenario."""
    for _ in range(WAIT_MAX):
        question = result.waiting_for
        if result.status != "waiting" or question is None:
            return result
        if question.kind == "in_doubt":
            value = outside.value_of(question.key or "")
            outcome = "retry" if value is None else "done"
            result = engine.resume(result.run_id, outcome=outcome, result=value, question=question.id)
        else:
            given = scenario.answers[question.kind]
            result = engine.resume(result.run_id, answer=given, question=question.id)
    raise AssertionError("it waits again and again")


def lost_rows(folder: Path, outside: Outside) -> list[str]:
    """Return the rows that a caller has seen and that are not in the journal; read before anything is resumed."""
    seen = [entry for entry in outside.seen if "seq" in entry]
    if not seen:
        return []
    try:
        with Journal(folder / JOURNAL, read_only=True) as journal:
            known = {row.run_id: journal.transitions(row.run_id) for row in journal.runs()}
    except NotAJournal as error:
        return [str(error)]
    lost = []
    for entry in seen:
        rows = known.get(entry["run"], [])
        row = rows[entry["seq"]] if entry["seq"] < len(rows) else None
        if row is None or (row.trigger, row.dest) != (entry["trigger"], entry["dest"]):
            lost.append(f"run {entry['run']}, row {entry['seq']} was seen and is not there")
    return lost


def implied(engine: Engine) -> dict[str, int]:
    """Return how many writes and effects an uninterrupted run's journal speaks of."""
    journal = engine.journal
    runs = journal.runs()
    rows = [row for run in runs for row in journal.transitions(run.run_id)]
    together = sum(written_together(journal.transitions(run.run_id)) for run in runs)
    drivers = sum(
        journal.reader.query("SELECT fence FROM leases WHERE run = ?", (run.run,))[0][0] for run in runs
    )
    return {
        "rows": len(rows),
        # the schema; of each run its creation, which takes the first lease; each later lease; each release
        "writes": 1 + len(rows) - together + drivers + drivers,
        "models": sum("model" in row.request for row in rows)
        + sum(len(row.outcome.get("texts", ())) for row in rows),
        "tools": sum(row.request["kind"] == "tool" for row in rows),
    }


def written_together(rows: list[Transition]) -> int:
    """Return how many rows of an uninterrupted run stand in the transaction of the row before: those that ask nobody."""
    count, alone = 0, True
    for before, row in pairwise(rows):
        needs_nobody = row.request["kind"] in ("none", "recall") and row.dest not in (
            "Executing",
            "Done",
            "Failed",
        )
        is_durable_at_once = before.trigger in ("wait", "provide") or before.request.get("effect") == "once"
        alone = not (alone and needs_nobody and not is_durable_at_once)
        count += not alone
    return count


def commits_in_log(path: Path) -> int:
    """Return how many transactions stand in a write-ahead log that was never reset: frames with a size after commit."""
    data = path.read_bytes() if path.exists() else b""
    if len(data) < 32:
        return 0
    page = struct.unpack(">I", data[8:12])[0]
    salts, count = data[16:24], 0
    for place in range(32, len(data) - page - 23, page + 24):
        if data[place + 8 : place + 16] == salts:
            count += struct.unpack(">I", data[place + 4 : place + 8])[0] != 0
    return count


def told_by_script(path: str) -> list[str]:
    """Return what the independent script says of a file, empty when all holds."""
    spec = importlib.util.spec_from_file_location("verify_journal", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = script.main(path)
    return [] if code == 0 else output.getvalue().splitlines()
