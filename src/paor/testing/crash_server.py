"""
A process that has paor imported and nothing of anybody's agent, and makes one child for every job.

``python -m paor.testing.crash_server`` reads jobs from its standard input, one JSON object a line, and answers each with one
line. It has one thread and no open journal; the child imports the agent and opens the journal itself, in a session of its
own, so that it is what a new process would be, and costs milliseconds.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any


def main() -> int:
    """Serve until the input ends."""
    _warm()
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(in_child(json.loads(line))), flush=True)
    return 0


def _warm() -> None:
    """Run something small, so that whatever is imported or made on first use is there before the first fork."""
    from ..fsm.engine import Engine
    from ..fsm.explain.coverage import coverage
    from ..fsm.journal_api import Journal
    from ..prompts.scripted import ScriptedModel
    from .crash_worker import facts
    from .scripted import call, problems, refine, review, scripted_tool

    replies = [*call("notes.read", page=1), refine("stop"), review("success", answer="Read.")]
    with Engine(
        ScriptedModel(replies), [scripted_tool("notes.read", ["text"])], Journal(":memory:", "off")
    ) as engine:
        result = engine.run("Read", documents=[("a.txt", "Alpha")])
        engine.journal.transitions(result.run_id)
        problems(engine.journal)
        coverage(engine.journal.transitions(result.run_id)).wire_json()
        facts(engine.journal)
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(10)


def in_child(job: dict[str, Any]) -> dict[str, Any]:
    """Return what a child found that does *job*, with ``ended``: its exit code, below 0 the signal that ended it."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(out)
        _child(job, into)
    os.close(into)
    message, late = _read(out, pid, job["timeout_s"])
    if late:
        os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # whatever the agent has started ends with it
    _, status = os.waitpid(pid, 0)
    if late:
        return {"ended": 0, "error": f"it was still running after {job['timeout_s']:g} seconds"}
    return {"ended": os.waitstatus_to_exitcode(status), **(json.loads(message) if message else {})}


def _read(pipe: int, pid: int, timeout_s: float) -> tuple[bytes, bool]:
    """Return what comes out of *pipe* until it is closed or its writer has ended, and whether that took too long."""
    parts, end, ended = list[bytes](), time.monotonic() + timeout_s, False
    try:
        while time.monotonic() < end:
            if select.select([pipe], [], [], 0.0 if ended else 0.1)[0]:
                part = os.read(pipe, 1 << 16)
                if not part:
                    return b"".join(parts), False
                parts.append(part)
            elif ended:  # what the agent has started holds the other end
                return b"".join(parts), False
            else:
                ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        return b"", True
    finally:
        os.close(pipe)


def _child(job: dict[str, Any], into: int) -> None:
    """Do a job, report its result, and end without going back to the server's loop."""
    code = 1
    try:
        os.setsid()
        log = os.open(Path(job["folder"]) / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, own in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, own)
        from .crash_worker import perform

        message: dict[str, Any] = perform(job)
        code = 0
    except BaseException as error:  # noqa: BLE001 - reported to whoever gave the job
        traceback.print_exc()
        message = {"error": f"{type(error).__name__}: {error}"}
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        with os.fdopen(into, "wb") as pipe:
            pipe.write(json.dumps(message).encode())
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
