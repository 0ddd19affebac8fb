"""The only sources of time and of ids; with the same ports the same script gives a byte-identical journal."""

from __future__ import annotations

import hashlib
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol

import orjson
from pydantic import TypeAdapter, ValidationError

from ...states.base.errors import HostFunctionError, UsageError
from ...states.run.labels import values_of
from ...states.run.state import Run

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

    _lock = threading.Lock()
    _newest = 0

    def __init__(self) -> None:
        self._block: Iterator[bytes] = iter(())
        self._drawn_in = RandomIds.forks

    def run_id(self) -> str:
        """
        Return a UUIDv7, greater than every one before it in this process.

        Source: RFC 9562 sections 5.7 and 6.2, method 2: within a millisecond, or when the clock was set back, the last
        one plus a random amount.
        """
        chance = int.from_bytes(os.urandom(10), "big")
        with RandomIds._lock:
            fresh = SystemClock().now_us() // 1000 << 74 | chance >> 6
            if fresh <= RandomIds._newest:
                fresh = RandomIds._newest + 1 + (chance >> 40)
            RandomIds._newest = fresh
        return _uuid(fresh)

    def salt(self) -> bytes:
        """Return 16 bytes of the system's random source."""
        if self._drawn_in == RandomIds.forks:
            for salt in self._block:
                return salt
        block = os.urandom(16 * _SALTS)
        self._drawn_in = RandomIds.forks
        self._block = iter([block[i : i + 16] for i in range(16, len(block), 16)])
        return block[:16]


def _uuid(number: int) -> str:
    """Return 48 bits of time and 74 of chance as a UUID with its version (7) and variant (binary 10) between them."""
    time_ms, high, low = number >> 74, number >> 62 & 0xFFF, number & (1 << 62) - 1
    digits = f"{time_ms << 80 | 7 << 76 | high << 64 | 2 << 62 | low:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _after_fork() -> None:
    RandomIds.forks += 1
    RandomIds._lock = (
        threading.Lock()
    )  # another thread of the parent may have held it; nobody here would release it


os.register_at_fork(after_in_child=_after_fork)


class SteppingClock:
    """
    A clock for tests and demonstrations: every reading is *step_us* later than the one before.

    Args:
        start_us: First wall-clock reading.
        step_us: Microseconds between two readings.
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


ValuesPort = Callable[[str, str], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Called with a run's id and the phase that it is in; gives JSON data. It may be a coroutine function."""


VERDICT_CHARS = 1000
"""Characters that are kept of what a host's type says against an output."""


def type_refusal(output_type: Any, output: str) -> str | None:
    """Return what a type of the host's, its own validators among it, says against the JSON text *output*; None for nothing."""
    try:
        TypeAdapter(output_type).validate_json(output)
    except ValidationError as error:
        return refusal_words(error)
    return None


def refusal_words(error: ValidationError) -> str:
    """Return what a type says against a value, at most ten places of it; of the value no more than its own validators quote."""
    found = error.errors(include_url=False, include_context=False, include_input=False)[:10]
    told = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'the whole'}: {item['msg']}" for item in found)
    return told.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def verdict_text(run: Run, came_to: object) -> str | None:
    """
    Return what the host's type says against an output, to be journaled with the reply; None for nothing.

    Raises:
        HostFunctionError: A validator raised what is no refusal; nothing was decided.
    """
    if isinstance(came_to, BaseException):
        where = f"run {run.run_id}, row {run.seq} in {run.state}: a validator of its output_type"
        raise HostFunctionError(f"{where} raised {type(came_to).__name__}: {came_to}"[:500]) from came_to
    return None if came_to is None else str(came_to)


def values_text(run: Run, came_to: object) -> str:
    """
    Return what the port gave as JSON, to be journaled before anything follows from it.

    Raises:
        HostFunctionError: It raised, or gave what has no JSON form; nothing was decided.
    """
    where = f"run {run.run_id}, row {run.seq} in {run.state}: the values port"
    if isinstance(came_to, BaseException):
        raise HostFunctionError(f"{where} raised {type(came_to).__name__}: {came_to}"[:500]) from came_to
    try:
        return orjson.dumps(values_of(came_to), option=orjson.OPT_SORT_KEYS).decode()
    except UsageError as error:
        raise HostFunctionError(f"{where}: {error}") from None


def is_awaitable(value: object) -> bool:
    """Return whether the port gave something to wait for."""
    return inspect.isawaitable(value)
