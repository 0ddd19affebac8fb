"""
A Python process for work that may hang, crash or take all memory: asked over pipes, and killed whatever it does.

It inherits the path of modules and the environment that it is given; it is the leader of a group, and whatever it has started
is killed with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress

POLL_S = 0.1


class AskedToStop(Exception):
    """Somebody wants the process to stop; the message says why."""


class ChildProcess:
    """
    A process that answers requests, one line each. Not for several threads.

    Args:
        module: What it runs, as ``python -m`` does.
        *arguments: Of that.
        environment: Its variables, beside those for the path of modules.
        is_quiet: Whether what it prints goes nowhere instead of to this process's standard error.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(
        self, module: str, *arguments: str, environment: Mapping[str, str], is_quiet: bool = False
    ) -> None:
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if is_quiet else None,
            env={**environment, "PYTHONPATH": path},
            start_new_session=True,
        )

    def ask(
        self, request: Iterable[bytes], stopped: Callable[[], str | None], within_s: float | None = None
    ) -> bytes:
        """
        Return the line with which it answers; nothing when it has died.

        Args:
            request: Bytes for its standard input.
            stopped: Asked ten times a second; a text says why not to wait any more.
            within_s: Seconds to wait; None: however long it takes.

        Raises:
            AskedToStop: *stopped* said so.
            TimeoutError: It took too long.
        """
        answer: Future[bytes] = Future()
        work = threading.Thread(target=lambda: answer.set_result(self._exchange(request)), daemon=True)
        work.name = "paor-child"
        given_up = None if within_s is None else time.monotonic() + within_s
        work.start()
        while True:
            try:
                return answer.result(POLL_S)
            except NotYet:
                if (reason := stopped()) is not None:
                    raise AskedToStop(reason) from None
                if given_up is not None and time.monotonic() > given_up:
                    raise TimeoutError from None

    def end(self) -> int:
        """End it and all that it has started, whatever they do; return its exit code, that of the kill if it had not ended before."""
        process = self._process
        if (
            process.returncode is None
        ):  # its id is nobody else's before `wait`; if it has ended, its group may not have
            if hasattr(os, "killpg"):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # what was still to be written has no reader any more
                pass
        return code

    def _exchange(self, request: Iterable[bytes]) -> bytes:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            for part in request:
                self._process.stdin.write(part)
            self._process.stdin.flush()
            return self._process.stdout.readline()
        except (OSError, ValueError, MemoryError):  # it has died, its pipes were closed, or it says too much
            return b""
