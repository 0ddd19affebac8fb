"""What the engine takes from `threading` and `time`, as a simulated process has it: threads, locks, events, clocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .schedule import Actor, Schedule


class Threading:
    """
    Stands for the module `threading` in the engine's modules.

    Attributes:
        schedule: Of the world that is simulated now.
    """

    schedule: Schedule | None = None

    def RLock(self) -> Lock:
        """Return a lock that its owner can take again."""
        return Lock(self, again=True)

    def Lock(self) -> Lock:
        """Return a lock."""
        return Lock(self, again=False)

    def Event(self) -> Event:
        """Return an event."""
        return Event(self)

    def Thread(
        self,
        target: Callable[..., Any],
        name: str = "thread",
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool = False,
    ) -> Thread:
        """Return a thread, not begun yet."""
        return Thread(self, name, lambda: target(*args, **(kwargs or {})))


class Lock:
    """A lock between actors; whoever is outside of them is never kept waiting."""

    def __init__(self, threading: Threading, *, again: bool) -> None:
        self._threading, self._again = threading, again
        self._owner: Actor | None = None
        self._depth = 0

    def acquire(self, *, timeout: float = -1) -> bool:
        """Take it, when whoever has it is through."""
        schedule = self._threading.schedule
        actor = schedule.current if schedule is not None else None
        if schedule is None or actor is None:
            return True
        if self._owner is actor and self._again:
            self._depth += 1
            return True
        while self._owner is not None:
            schedule.wait(None, lambda: self._owner is None)
        self._owner, self._depth = actor, 1
        return True

    def release(self) -> None:
        """Give it back."""
        self._depth = max(0, self._depth - 1)
        if self._depth == 0:
            self._owner = None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class Event:
    """Something that actors wait for."""

    def __init__(self, threading: Threading) -> None:
        self._threading, self._is_set = threading, False

    def set(self) -> None:
        """Let it have happened."""
        self._is_set = True

    def clear(self) -> None:
        """Let it not have happened."""
        self._is_set = False

    def is_set(self) -> bool:
        """Return whether it has happened."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has happened, or for some seconds."""
        schedule = self._threading.schedule
        if schedule is not None and not self._is_set:
            schedule.wait(timeout, self.is_set)
        return self._is_set


class Thread:
    """A thread of the process that makes it."""

    def __init__(self, threading: Threading, name: str, work: Callable[[], Any]) -> None:
        self._threading, self._name, self._work = threading, name, work

    def start(self) -> None:
        """Begin, as an actor."""
        schedule = self._threading.schedule
        assert schedule is not None and schedule.current is not None, "only an actor begins threads"
        actor = schedule.current
        name = f"{actor.process.name}/{self._name.replace(' ', '-')}"
        schedule.start(name, actor.process, self._work, is_daemon=True)


class Time:
    """Stands for the module `time` in the engine's modules: the clocks of the process whose turn it is."""

    def __init__(self, threading: Threading) -> None:
        self._threading = threading

    def monotonic_ns(self) -> int:
        """Return the clock that never goes back, the same for all processes of a boot."""
        schedule = self._threading.schedule
        assert schedule is not None, "a world is simulated"
        return schedule.now_us * 1000

    def time_ns(self) -> int:
        """Return the wall clock of the process, which can be set."""
        schedule = self._threading.schedule
        assert schedule is not None, "a world is simulated"
        actor = schedule.current
        skew_us = actor.process.skew_us if actor is not None else 0
        return (schedule.now_us + EPOCH_US + skew_us) * 1000


EPOCH_US = 1_767_225_600_000_000
"""What the wall clock of nobody's process shows when the true time is 0."""
