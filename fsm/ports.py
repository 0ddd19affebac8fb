"""The only sources of time and of ids; with the same ports the same script gives a byte-identical journal."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from typing import Protocol

_SALTS = 256


class Clock(Protocol):
    """Where time comes from."""

    def now_us(self) -> int:
        """Return microseconds since the epoch, for people."""
        ...

    def active_us(self) -> int:
        """Return microseconds of a clock that never goes back, for budgets."""
        ...


class Ids(Protocol):
    """Where ids and salts come from."""

    def run_id(self) -> str:
        """Return a new, time-ordered run id."""
        ...

    def salt(self) -> bytes:
        """Return 16 unpredictable bytes."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_us(self) -> int:
        """Return the wall clock."""
        return time.time_ns() // 1000

    def active_us(self) -> int:
        """Return the monotonic clock."""
        return time.monotonic_ns() // 1000


class RandomIds:
    """UUID version 7 run ids and salts from the operating system, drawn in blocks."""

    forks = 0
    """How often this process was forked from one that had imported paor; a child must not draw its parent's salts."""

    def __init__(self) -> None:
        self._block: Iterator[bytes] = iter(())
        self._drawn_in = RandomIds.forks

    def run_id(self) -> str:
        """Return a UUIDv7."""
        from uuid_utils import uuid7

        return str(uuid7())

    def salt(self) -> bytes:
        """Return 16 bytes of the system's random source."""
        if self._drawn_in == RandomIds.forks:
            for salt in self._block:
                return salt
        block = os.urandom(16 * _SALTS)
        self._drawn_in = RandomIds.forks
        self._block = iter([block[i : i + 16] for i in range(16, len(block), 16)])
        return block[:16]


def _forked() -> None:
    RandomIds.forks += 1


os.register_at_fork(after_in_child=_forked)


class SteppingClock:
    """
    A clock for tests and demonstrations: every reading is *step_us* later than the one before.

    Args:
        start_us: First wall-clock reading.
        step_us: Between two readings.
    """

    def __init__(self, start_us: int = 1_767_225_600_000_000, step_us: int = 1000) -> None:
        self._now = start_us
        self._step = step_us

    def now_us(self) -> int:
        """Return the next reading."""
        self._now += self._step
        return self._now

    def active_us(self) -> int:
        """Return the next reading."""
        return self.now_us()


class SeededIds:
    """
    Ids for tests and demonstrations: a fixed sequence for each seed. Its salts protect nothing.

    Args:
        seed: Names the sequence.
    """

    def __init__(self, seed: str = "paor") -> None:
        self._seed = seed
        self._count = 0

    def _bytes(self) -> bytes:
        self._count += 1
        return hashlib.sha256(f"{self._seed}/{self._count}".encode()).digest()

    def run_id(self) -> str:
        """Return the next id, in the form of a UUID that sorts by its number."""
        digest = self._bytes().hex()
        return f"{self._count:08x}-{digest[:4]}-7{digest[4:7]}-8{digest[7:10]}-{digest[10:22]}"

    def salt(self) -> bytes:
        """Return the next 16 bytes."""
        return self._bytes()[:16]
