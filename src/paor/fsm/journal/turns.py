"""
The line of those who wait for their turn in a conversation, in the order in which they came, whichever processes they are in.

It is no part of any run: it is not exported, it holds a digest of the conversation's id, and only while somebody waits. That one round runs at
a time depends on the statement that writes a run, not on the line.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .backend import Backend
from .leases import LeaseBook, Owner, current_owner

TURNS_TABLE = """
CREATE TABLE IF NOT EXISTS turns (
  ticket BIGINT PRIMARY KEY,
  conversation TEXT NOT NULL,
  owner TEXT NOT NULL,
  until BIGINT NOT NULL
)
"""


class Turns:
    """
    The line of a journal.

    Args:
        backend: That has it.
        leases: Says how long a place is kept for a process that shows no sign of life.
    """

    def __init__(self, backend: Backend, leases: LeaseBook) -> None:
        self._backend, self._lease_s = backend, leases.lease_s

    @contextmanager
    def waiting(self, conversation: str) -> Iterator[Callable[[], bool]]:
        """Stand in line for as long as the block runs; gives what returns whether nobody is before."""
        place = hashlib.sha256(conversation.encode()).hexdigest()
        with self._backend.transaction() as connection:
            if not self._backend.has_table("turns"):
                connection.execute(TURNS_TABLE)
            (ticket,) = connection.execute("SELECT coalesce(max(ticket), 0) + 1 FROM turns").fetchone()
            values = ticket, place, current_owner().encode(), self._until()
            connection.execute("INSERT INTO turns VALUES (?, ?, ?, ?)", values)
        renewed = time.monotonic()

        def is_next() -> bool:
            nonlocal renewed
            if time.monotonic() - renewed > self._lease_s / 3:
                self._backend.execute("UPDATE turns SET until = ? WHERE ticket = ?", (self._until(), ticket))
                renewed = time.monotonic()
            sql = "SELECT owner, until FROM turns WHERE conversation = ? AND ticket < ?"
            return all(self._is_lost(*row) for row in self._backend.query(sql, (place, ticket)))

        try:
            yield is_next
        finally:
            # with those of lost processes before it, whose turn has passed
            lost = self._backend.query("SELECT ticket, owner, until FROM turns WHERE ticket < ?", (ticket,))
            for number in (ticket, *(number for number, *row in lost if self._is_lost(*row))):
                self._backend.execute("DELETE FROM turns WHERE ticket = ?", (number,))

    def _is_lost(self, owner_text: str, until: int) -> bool:
        """Return whether a process has certainly ended, or has shown no sign of life for as long as a lease."""
        owner = Owner.decode(owner_text)
        return (
            owner is None
            or owner.provably_dead(far=self._backend.is_shared)
            or until < (self._backend.now_us() or owner.now())
        )

    def _until(self) -> int:
        now = self._backend.now_us()
        return (now if now is not None else current_owner().now()) + round(self._lease_s * 1e6)
