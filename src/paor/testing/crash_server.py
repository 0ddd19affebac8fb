"""
A process that has paor imported and nothing of anybody's agent, and makes one child for every job.

`crash_matrix` starts a few of them as the workers of a pool. Each has one thread and no open journal; the child imports the
agent and opens the journal itself, in a session of its own, so that it is what a new process would be, and costs
milliseconds.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from ..fsm.engine import Engine
from ..fsm.explain.coverage import coverage
from ..fsm.journal_api import Journal
from ..prompts.scripted import ScriptedModel
from .crash_worker import NOTES, facts, perform
from .scripted import call, problems, refine, review, scripted_tool

KILLED = -signal.SIGKILL
POLL_S = 0.005
"""How often a child is looked at."""


def warm() -> None:
    """Run something small, so that whatever is imported or made on first use is there before the first fork."""
    replies = [*call("notes.read", page=1), refine("stop"), review("success", answer="Read.")]
    tools = [scripted_tool("notes.read", ["text"])]
    with Engine(ScriptedModel(replies), tools, Journal(":memory:", "off")) as engine:
        result = engine.run("Read", documents=[("a.txt", "Alpha")])
        problems(engine.journal)
        coverage(engine.journal.transitions(result.run_id)).wire_json()
        facts(engine.journal)
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(10)
    gc.collect()
    gc.freeze()


def crash(job: Mapping[str, Any], target: int) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return what was found by the child that is killed at a point, and by the one after it if there was one."""
    first = in_child({**job, "part": "start", "target": target})
    return first, in_child({**job, "part": "finish", "target": 0}) if first["ended"] == KILLED else None


def in_child(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a child found that does *job*, with ``ended``: its exit code, below 0 the signal that ended it."""
    report = Path(job["folder"], NOTES, f"{job['part']}.json")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        _child(job, report)
    late = not _ends(pid, job["timeout_s"])
    if late:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # whatever the agent has started ends with it
    _, status = os.waitpid(pid, 0)
    if late:
        return {"ended": 0, "error": f"it was still running after {job['timeout_s']:g} seconds"}
    return {
        "ended": os.waitstatus_to_exitcode(status),
        **(json.loads(report.read_bytes()) if report.exists() else {}),
    }


def _ends(pid: int, timeout_s: float) -> bool:
    """Wait for a child, which is left to be waited for; return whether it has ended in time."""
    end = time.monotonic() + timeout_s
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True


def _child(job: Mapping[str, Any], report: Path) -> NoReturn:
    """Do a job, report its result, and end without going back to whoever made this process."""
    code = 1
    try:
        os.setsid()
        log = os.open(Path(job["folder"], "output.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, own in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, own)
        message: dict[str, Any] = perform(job)
        code = 0
    except BaseException as error:  # noqa: BLE001 - reported to whoever gave the job
        traceback.print_exc()
        message = {"error": f"{type(error).__name__}: {error}"}
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        report.write_text(json.dumps(message), encoding="utf-8")
    finally:
        os._exit(code)
