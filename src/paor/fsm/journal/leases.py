"""
Leases: one process at a time drives a run, identified by host, boot, process id and process start.

An owner that is provably dead (same host; rebooted since, no such process, or another process under its id) is
replaced at once. One that cannot be proven dead, also because it cannot be seen, keeps its lease until it has not renewed
it for `lease_s`, by a clock that nobody sets. Taking a run over raises its fencing token, and every append checks the token, so a driver that was only slow cannot write.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from ...states.base.errors import JournalDamaged, JournalError, LeaseHeld
from ...states.run.phase_names import EXECUTING
from .backend import Backend, SqlConnection
from .cancel_requests import CancelWatch
from .run_writer import RunWriter

LEASE_S = 30.0
"""Seconds without renewal after which an owner that cannot be proven dead is replaced."""

_ROW = "SELECT 1 FROM rows WHERE id = ?"
_LEASE = "SELECT owner, lease_until, fence FROM leases WHERE run = ?"
_LEASES = "SELECT run, owner, lease_until, fence FROM leases WHERE owner IS NOT NULL"
_AT_ONCE = 500
"""Numbers of runs in one statement."""

_NEWEST_ROW = "SELECT id & 4294967295, dest FROM rows WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1"

_HELD: set[tuple[str, int, int]] = set()
"""File, run and token of everything that this process drives: what names it as owner beside these was left behind."""

_CALLING: set[tuple[str, int, int]] = set()
"""Those under which a call was begun that may outlive its driver; it may still run when the lease was left behind."""


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
        clock: Microseconds from the monotonic clock of its boot to the times in its leases; None where boots have no id.
    """

    host: str
    boot: str
    space: str
    pid: int
    start: int
    clock: int | None = None

    def now(self) -> int:
        """
        Return the time that this owner's leases are to be compared with.

        Processes of one boot share its monotonic clock, so that no step of the wall clock makes a lease run out; across
        boots there is only the wall clock.
        """
        me = current_owner()
        shared = self.clock is not None and me.clock is not None and self.boot == me.boot
        return time.monotonic_ns() // 1000 + self.clock if shared and self.clock is not None else now_us()

    def encode(self) -> str:
        """Return the owner as one line for the journal."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def decode(cls, text: str) -> Owner | None:
        """Return the owner that `encode` wrote, or None for anything else."""
        try:
            data = json.loads(text)
            host, boot, space = (str(data[name]) for name in ("host", "boot", "space"))
            clock = data.get("clock")
            return cls(
                host, boot, space, int(data["pid"]), int(data["start"]), clock if type(clock) is int else None
            )
        except (ValueError, KeyError, TypeError):
            return None

    def provably_dead(self, *, far: bool = False) -> bool:
        """
        Return whether this process has certainly ended, as seen from the current one.

        Args:
            far: Whether it may be one of another machine, which may have the same host name: then only a process of this very boot
                can be seen to have ended.
        """
        me = current_owner()
        if self.host != me.host:
            return False
        if far and not self.boot == me.boot != "":
            return False
        if self.boot != me.boot:
            return bool(self.boot and me.boot)
        if self.space != me.space:
            return False
        start = _start_of(self.pid)
        if self.start == 0 or start is None:
            return not _exists(self.pid)
        return start != self.start


def _with_begun(owner: Owner, row: int | None) -> str:
    """Return the text of an owner who took a run from one that may still make the call of a row."""
    return owner.encode() if row is None else json.dumps({**asdict(owner), "begun": row}, sort_keys=True)


def _begun_in(owner_text: str) -> int | None:
    """Return the row that `_with_begun` has written, None for any other text."""
    try:
        row = json.loads(owner_text).get("begun")
    except (ValueError, AttributeError):
        return None
    return row if type(row) is int else None


def _answered_in(owner_text: str | None) -> int | None:
    """Return the seq of an unprocessed answer noted in a released lease, or None."""
    try:
        row = json.loads(owner_text).get("answered") if owner_text is not None else None
    except (ValueError, AttributeError):
        return None
    return row if type(row) is int else None


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
    clock = now_us() - time.monotonic_ns() // 1000 if boot else None
    return Owner(socket.gethostname(), boot, space, pid, _start_of(pid) or 0, clock)


def _start_of(pid: int) -> int | None:
    """
    Return the start time of a process from /proc (field 22), None when nothing can be seen of it.

    One that has ended and was not yet waited for (state Z) does nothing any more: 0, which no process has.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return 0 if fields[0] in "ZX" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _exists(pid: int) -> bool:
    """
    Return whether there is a process of this id, also where /proc hides those of other users (``hidepid``).

    True also where that cannot be asked: on Windows signal 0 is a Ctrl-C.
    """
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class LeaseBook:
    """
    The leases of one journal that this process holds: take, renew, release, and the request to cancel.

    Args:
        backend: That has them.
        lease_s: Seconds that a lease lasts without renewal.
    """

    def __init__(self, backend: Backend, lease_s: float) -> None:
        self._backend = backend
        self.path = backend.path
        self.lease_s = lease_s
        self.watch = CancelWatch(backend)
        self._file = backend.identity
        self._held: set[tuple[int, int]] = set()
        self._claims: list[tuple[str, int, int]] = []
        self._unsettled: dict[tuple[int, int], int] = {}
        self._answered: dict[tuple[int, int], int] = {}
        self._renewer: threading.Thread | None = None
        self._closed = threading.Event()

    @contextmanager
    def taking(self, *, alone: bool = True) -> Iterator[SqlConnection]:
        """
        Give a transaction in which a lease is taken; a claim is known before others can see the lease.

        When the commit fails the claim is dropped: with a sync that failed the lease may be in the file all the
        same, and nobody drives that run.
        """
        with self._backend.lock:
            self._claims = []
            try:
                with self._backend.transaction(alone=alone) as connection:
                    yield connection
            except BaseException:
                _HELD.difference_update(self._claims)
                raise

    def _claim(self, run: int, fence: int) -> None:
        # before the commit: a thread of this process that sees the new lease in the file must find it here, or it would
        # take it for one that a driver has left behind, and replace it
        self._claims.append((self._file, run, fence))
        _HELD.add((self._file, run, fence))

    def first(self, connection: SqlConnection, run: int) -> int:
        """Write the first lease of a new run, within the caller's transaction; returns its fencing token."""
        connection.execute(
            "INSERT INTO leases VALUES (?, 1, ?, ?, 0)", (run, current_owner().encode(), self._until())
        )
        self._claim(run, 1)
        return 1

    def _until(self) -> int:
        return self._now(current_owner()) + round(self.lease_s * 1e6)

    def _now(self, owner: Owner | None) -> int:
        """Return the time that an owner's leases are to be compared with: the database's, where it has a clock."""
        now = self._backend.now_us()
        if now is not None:
            return now
        return owner.now() if owner is not None else now_us()

    def acquire(self, run: int) -> int:
        """
        Take the lease of a run and return the new fencing token.

        Raises:
            LeaseHeld: Another driver is alive, or cannot be proven dead yet.
        """
        with self.taking(alone=False) as connection:
            lease = connection.execute(_LEASE + self._backend.of_row_locked, (run,)).fetchone()
            if lease is None:
                raise JournalDamaged(f"{self.path}: run number {run} has no lease; run: paor verify")
            owner_text, until, fence = lease
            if owner_text is not None and not self.replaceable(owner_text, until, run, fence):
                run_id = connection.execute("SELECT run_id FROM specs WHERE run = ?", (run,)).fetchone()[0]
                raise LeaseHeld(
                    f"run {run_id} is driven by {name_of(owner_text)}; wait for it, cancel it,"
                    f" or try again when its lease of {self.lease_s:g} s has run out"
                )
            answered = _answered_in(owner_text)
            begun = self._begun(connection, owner_text, run, fence) if answered is None else None
            # the new token is in the file before this driver reads a row: what a replaced driver still sends is refused
            connection.execute(
                "UPDATE leases SET fence = ?, owner = ?, lease_until = ? WHERE run = ?",
                (fence + 1, _with_begun(current_owner(), begun), self._until(), run),
            )
            self._claim(run, fence + 1)
        if begun is not None:
            self._unsettled[run, fence + 1] = begun
        if answered is not None:
            self._answered[run, fence + 1] = answered
        self.hold(run, fence + 1)
        return int(fence) + 1

    def replaceable(self, owner_text: str, until: int | None, run: int, fence: int) -> bool:
        """Return whether the owner of a lease has certainly ended, has left it behind, or has let it run out."""
        owner = Owner.decode(owner_text)
        is_left = owner == current_owner() and (self._file, run, fence) not in _HELD
        if is_left or self._has_ended(owner, run, fence):
            return True
        return until is None or until < self._now(owner)

    def is_driven(self, run: int) -> bool:
        """Return whether some process drives a run now, as far as its lease tells; reads only."""
        return bool(self.drivers([run]))

    def drivers(self, runs: Sequence[int]) -> dict[int, str]:
        """Return by their numbers which of *runs* somebody drives now, as far as their leases tell, and who; reads only."""
        found: dict[int, str] = {}
        for at in range(0, len(runs), _AT_ONCE):
            some = tuple(runs[at : at + _AT_ONCE])
            sql = f"{_LEASES} AND run IN ({', '.join('?' * len(some))})"
            for run, owner, until, fence in self._backend.query(sql, some):
                if not self.replaceable(owner, until, run, fence):
                    found[run] = name_of(owner)
        return found

    def _has_ended(self, owner: Owner | None, run: int, fence: int) -> bool:
        """Return whether the owner of a lease certainly does nothing any more under it."""
        lease = (self._file, run, fence)
        return owner is not None and (
            owner.provably_dead(far=self._backend.is_shared)
            or (owner == current_owner() and lease not in _HELD and lease not in _CALLING)
        )

    def _begun(self, connection: SqlConnection, owner_text: str | None, run: int, fence: int) -> int | None:
        """
        Return the row of a call that a driver from whom the run is taken may still be making, None when there is none.

        One whose lease ran out may only have slept, and go on with its call. The next owner's text keeps the row, so that
        it is known as well to whoever takes the run from that one.
        """
        if owner_text is None:
            return None
        if self._has_ended(Owner.decode(owner_text), run, fence):
            return _begun_in(owner_text)
        found = connection.execute(_NEWEST_ROW, (run << 32, run << 32 | 2**32 - 1)).fetchone()
        return int(found[0]) if found is not None and found[1] == EXECUTING else None

    def calling(self, run: int, fence: int, row: int) -> None:
        """Note that a call of *row*, the newest, begins that may outlive its driver."""
        self._unsettled[run, fence] = row
        _CALLING.add((self._file, run, fence))

    def called(self, run: int, fence: int) -> None:
        """Note that it has ended."""
        self._unsettled.pop((run, fence), None)
        _CALLING.discard((self._file, run, fence))

    def may_be_made(self, run: int, fence: int, row: int) -> bool:
        """Return whether the call of *row*, the newest, may still be made by a driver from whom the run was taken."""
        return self._unsettled.get((run, fence)) == row

    def is_first_after(self, run: int, fence: int, row: int) -> bool:
        """Return whether *row*, the newest, is an answer that no driver has acted on before this one: no call was begun since."""
        return self._answered.get((run, fence)) == row

    def acting(self, run: int, fence: int) -> None:
        """Note that whoever holds a lease begins to drive: from now on a call may have been begun."""
        self._answered.pop((run, fence), None)

    def is_held(self, connection: SqlConnection, run: int, fence: int) -> bool:
        """Return whether a lease is still that of its token, within the caller's transaction."""
        found = connection.execute(_LEASE + self._backend.of_row_locked, (run,)).fetchone()
        return found is not None and found[2] == fence

    def revoke(self, writer: RunWriter, run: int) -> str | None:
        """
        Take a run from whoever has driven it, within the caller's transaction, so that nobody can append to it unseen.

        Returns:
            None when nobody drives it any more; else the name of the driver, and nothing was changed.
        """
        found = writer.connection.execute(_LEASE + self._backend.of_row_locked, (run,)).fetchone()
        owner_text, until, fence = found or (None, None, 0)
        if owner_text is None or self.replaceable(owner_text, until, run, fence):
            writer.connection.execute(
                "UPDATE leases SET fence = fence + 1, owner = NULL, lease_until = NULL WHERE run = ?", (run,)
            )
            return None
        return name_of(owner_text)

    def release(self, run: int, fence: int, *, answered: int | None = None) -> None:
        """
        Give a lease back; does nothing when it was taken over meanwhile.

        Args:
            run, fence: Under which it is held.
            answered: The newest row, if it is an answer and nothing was begun after it: whoever takes the run next is told. By
                default what was told when the lease was taken, as long as nobody was `acting`.
        """
        kept = self._answered.pop((run, fence), None)
        answered = kept if answered is None else answered
        # first no longer renewed and no longer ours, then free in the file: when the write fails the lease runs out, and a
        # renewal in between cannot bring it back
        self._held.discard((run, fence))
        _HELD.discard((self._file, run, fence))
        begun = self._unsettled.pop((run, fence), None)
        # without a row of its own the lease stays until it runs out: its owner's text says what is not settled yet
        if begun is not None and not self._backend.query(_ROW, (run << 32 | begun + 1,)):
            return
        _CALLING.discard((self._file, run, fence))
        left = json.dumps({"answered": answered}) if answered is not None else None
        sql = "UPDATE leases SET owner = ?, lease_until = NULL WHERE run = ? AND fence = ?"
        self._backend.execute(sql, (left, run, fence))

    def request_cancel(self, run: int) -> None:
        """Ask whoever drives a run to stop; seen with its next row."""
        self._backend.execute("UPDATE leases SET cancel = 1 WHERE run = ?", (run,))
        # after the write: a look before it would find nothing, and the next one comes later
        self.watch.hurry()
        self._backend.signal()

    def cancel_requested(self, run: int) -> bool:
        """Return whether somebody asked to cancel the run."""
        return bool(self._backend.query("SELECT cancel FROM leases WHERE run = ?", (run,))[0][0])

    def hold(self, run: int, fence: int) -> None:
        """Keep the lease alive from a daemon thread while a long tool call makes no appends."""
        self._held.add((run, fence))
        if self._renewer is None:
            self._renewer = threading.Thread(target=self._renew_all, name="paor-lease", daemon=True)
            self._renewer.start()

    def _renew_all(self) -> None:
        while not self._closed.wait(self.lease_s / 3):
            with self._backend.lock:
                # asked under the lock: `close` of the journal closes the connection under it
                if self._closed.is_set():
                    return
                try:
                    until = self._until()
                    held = sorted(self._held)
                    with self._backend.transaction(alone=False) as connection:
                        connection.executemany(
                            "UPDATE leases SET lease_until = ? WHERE run = ? AND fence = ?",
                            [(until, run, fence) for run, fence in held],
                        )
                except JournalError:
                    continue  # the next round tries again; a lost lease shows at the append's fence

    def close(self) -> None:
        """Give back everything that is held and stop renewing."""
        self._closed.set()
        self.watch.close()
        for run, fence in list(self._held):
            self.release(run, fence)


def name_of(owner_text: str) -> str:
    """Return how people find the owner of a lease."""
    owner = Owner.decode(owner_text)
    return f"process {owner.pid} on {owner.host}" if owner is not None else "another driver"


def now_us() -> int:
    """Return the wall clock, for leases only: no row of a run depends on it."""
    return time.time_ns() // 1000
