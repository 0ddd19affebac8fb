"""
The leases of one journal in this process: take, renew, give back, and the request to cancel.

See `fsm.lease` for who may replace whom. The fencing token that `acquire` gives is checked in every append.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..states.errors import JournalDamaged, LeaseHeld
from .cancelling import CancelWatch
from .committer import Committer
from .journal_file import place_of, transaction, translated
from .lease import Owner, current_owner

LEASE_S = 30.0
"""Seconds without renewal after which an owner that cannot be proven dead is replaced."""

_HELD: set[tuple[str, int, int]] = set()
"""File, run and token of everything that this process drives: what names it as owner beside these was left behind."""


class LeaseBook:
    """
    What this process drives.

    Args:
        committer: Holder of the connection and its lock.
        path: For error messages.
        lease_s: Seconds that a lease lasts without renewal.
    """

    def __init__(self, committer: Committer, path: str, lease_s: float) -> None:
        self._committer = committer
        self.path = path
        self.lease_s = lease_s
        self.watch = CancelWatch(committer, place_of(path))
        self._file = os.path.realpath(path) if path != ":memory:" else f":memory:{id(committer)}"
        self._held: set[tuple[int, int]] = set()
        self._claims: list[tuple[str, int, int]] = []
        self._renewer: threading.Thread | None = None
        self._closed = threading.Event()

    @contextmanager
    def taking(self) -> Iterator[sqlite3.Connection]:
        """
        Give a transaction in which a lease is taken; a claim is known before others can see the lease.

        When the commit fails the claim is dropped: with a sync that failed the lease may stand in the file all the
        same, and nobody drives that run.
        """
        with self._committer.lock, translated(self.path):
            self._claims = []
            try:
                with transaction(self._committer.connection):
                    yield self._committer.connection
            except BaseException:
                _HELD.difference_update(self._claims)
                raise

    def _claim(self, run: int, fence: int) -> None:
        self._claims.append((self._file, run, fence))
        _HELD.add((self._file, run, fence))

    def first(self, connection: sqlite3.Connection, run: int) -> int:
        """Write the first lease of a new run, within the caller's transaction; returns its fencing token."""
        connection.execute(
            "INSERT INTO leases VALUES (?, 1, ?, ?, 0)", (run, current_owner().encode(), self._until())
        )
        self._claim(run, 1)
        return 1

    def _until(self) -> int:
        return now_us() + round(self.lease_s * 1e6)

    def acquire(self, run: int) -> int:
        """
        Take the lease of a run and return the new fencing token.

        Raises:
            LeaseHeld: Another driver is alive, or cannot be proven dead yet.
        """
        with self.taking() as connection:
            lease = connection.execute(
                "SELECT owner, lease_until, fence FROM leases WHERE run = ?", (run,)
            ).fetchone()
            if lease is None:
                raise JournalDamaged(f"{self.path}: run number {run} has no lease; run: paor verify")
            owner_text, until, fence = lease
            if owner_text is not None and not self.replaceable(owner_text, until, run, fence):
                owner = Owner.decode(owner_text)
                who = f"process {owner.pid} on {owner.host}" if owner is not None else "another driver"
                run_id = connection.execute("SELECT run_id FROM specs WHERE run = ?", (run,)).fetchone()[0]
                raise LeaseHeld(
                    f"run {run_id} is driven by {who}; wait for it, cancel it,"
                    f" or try again when its lease of {self.lease_s:g} s has run out"
                )
            connection.execute(
                "UPDATE leases SET fence = ?, owner = ?, lease_until = ? WHERE run = ?",
                (fence + 1, current_owner().encode(), self._until(), run),
            )
            self._claim(run, fence + 1)
        self.hold(run, fence + 1)
        return int(fence) + 1

    def replaceable(self, owner_text: str, until: int | None, run: int, fence: int) -> bool:
        """Return whether the owner of a lease has certainly ended, has left it behind, or has let it run out."""
        owner = Owner.decode(owner_text)
        lease = (self._file, run, fence)
        if owner is not None and (owner.provably_dead() or (owner == current_owner() and lease not in _HELD)):
            return True
        return until is None or until < now_us()

    def release(self, run: int, fence: int) -> None:
        """Give a lease back; does nothing when it was taken over meanwhile."""
        self._held.discard((run, fence))
        _HELD.discard((self._file, run, fence))
        with self._committer.lock, translated(self.path):
            self._committer.connection.execute(
                "UPDATE leases SET owner = NULL, lease_until = NULL WHERE run = ? AND fence = ?", (run, fence)
            )

    def request_cancel(self, run: int) -> None:
        """Ask whoever drives a run to stop; seen with its next row."""
        with self._committer.lock, translated(self.path):
            self._committer.connection.execute("UPDATE leases SET cancel = 1 WHERE run = ?", (run,))
        self.watch.hurry()

    def cancel_requested(self, run: int) -> bool:
        """Return whether somebody asked to cancel the run."""
        with self._committer.lock, translated(self.path):
            row = self._committer.connection.execute(
                "SELECT cancel FROM leases WHERE run = ?", (run,)
            ).fetchone()
        return bool(row[0])

    def hold(self, run: int, fence: int) -> None:
        """Keep the lease alive from a daemon thread while a long tool call makes no appends."""
        self._held.add((run, fence))
        if self._renewer is None:
            self._renewer = threading.Thread(target=self._renew_all, name="paor-lease", daemon=True)
            self._renewer.start()

    def _renew_all(self) -> None:
        while not self._closed.wait(self.lease_s / 3):
            until = self._until()
            held = list(self._held)
            with self._committer.lock:
                if self._closed.is_set():
                    return
                try:
                    with transaction(self._committer.connection):
                        self._committer.connection.executemany(
                            "UPDATE leases SET lease_until = ? WHERE run = ? AND fence = ?",
                            [(until, run, fence) for run, fence in held],
                        )
                except sqlite3.Error:
                    continue  # the next round tries again; a lost lease shows at the append's fence

    def close(self) -> None:
        """Give back everything that is held and stop renewing."""
        self._closed.set()
        self.watch.close()
        for run, fence in list(self._held):
            self.release(run, fence)


def now_us() -> int:
    """Return the wall clock, for leases only: no row of a run depends on it."""
    return time.time_ns() // 1000
