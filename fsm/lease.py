"""
Who drives a run: one process at a time, told apart by host, boot, process id and process start.

An owner that is provably dead (same host; rebooted since, no such process, or another process under its id) is
replaced at once. One that cannot be proven dead keeps its lease until it has not renewed it for `lease_s`. Taking a
run over raises its fencing token, and every append checks the token, so a driver that was only slow cannot write.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """
    One process.

    Attributes:
        host: Host name.
        boot: Id of the boot, empty where the system has none.
        space: Id of the process id namespace, empty where the system has none; containers have their own ids.
        pid: Process id.
        start: Start time of the process in clock ticks since boot, 0 where the system does not tell.
    """

    host: str
    boot: str
    space: str
    pid: int
    start: int

    def encode(self) -> str:
        """Return the owner as one line for the journal."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def decode(cls, text: str) -> Owner | None:
        """Return the owner that `encode` wrote, or None for anything else."""
        try:
            data = json.loads(text)
            host, boot, space = (str(data[name]) for name in ("host", "boot", "space"))
            return cls(host, boot, space, int(data["pid"]), int(data["start"]))
        except (ValueError, KeyError, TypeError):
            return None

    def provably_dead(self) -> bool:
        """Return whether this process has certainly ended, as seen from the current one."""
        me = current_owner()
        if self.host != me.host:
            return False
        if self.boot != me.boot:
            return bool(self.boot and me.boot)
        if self.space != me.space:
            return False
        if self.start == 0:
            return not _exists(self.pid)
        return _start_of(self.pid) != self.start


def current_owner() -> Owner:
    """Return this process; also right after a fork."""
    return _owner(os.getpid())


@lru_cache(maxsize=8)
def _owner(pid: int) -> Owner:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot = space = ""
    return Owner(socket.gethostname(), boot, space, pid, _start_of(pid))


def _start_of(pid: int) -> int:
    """
    Return the start time of a process from /proc (field 22), or 0 when there is no such process or no /proc.

    One that has ended and was not yet waited for (state Z) does nothing any more.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return 0 if fields[0] in "ZX" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
