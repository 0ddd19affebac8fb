"""
A process that has paor imported and forks a child for every job, so that a real process costs milliseconds.

Reads jobs from its standard input, one JSON object a line, and answers each with one line: how the child ended, what
it found, and what it said on standard error. A child does nothing after its fork that a process of its own would not do: it
opens the journal itself, and its process id is its own.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
WARMED = ("react", "async", "workflow")
"""Scenarios that are run before the first fork, so that whatever is made on first use is there."""


def main() -> None:
    """Serve until the input ends."""
    from .cases import perform

    with tempfile.TemporaryDirectory() as folder:
        for name in WARMED:
            place = Path(folder) / name
            place.mkdir()
            perform({"folder": str(place), "scenario": name, "part": "start", "target": 0, "generation": 0})
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(10)
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(_in_child(json.loads(line))), flush=True)


def _in_child(job: dict[str, Any]) -> dict[str, Any]:
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(out)
        _child(job, into)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    return {"ended": os.waitstatus_to_exitcode(status), **(json.loads(told) if told else {})}


def _child(job: dict[str, Any], into: int) -> None:
    from .cases import perform

    code = 1
    try:
        told: dict[str, Any] = perform(job)
        code = 0
    except BaseException:  # noqa: BLE001 - told to whoever gave the job
        told = {"error": traceback.format_exc()}
    try:
        with os.fdopen(into, "wb") as pipe:
            pipe.write(json.dumps(told).encode())
    finally:
        os._exit(code)


class Server:
    """The other end: starts the process, and gives it jobs."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._answer() == "ready", "the server could not start"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def do(
        self, folder: Path, scenario: str, part: str, target: int = 0, generation: int = 0, **more: Any
    ) -> dict[str, Any]:
        """Have a new process do a part of a case; see `cases.perform`."""
        job = {
            "folder": str(folder),
            "scenario": scenario,
            "part": part,
            "target": target,
            "generation": generation,
            **more,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._answer())
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


if __name__ == "__main__":
    main()
