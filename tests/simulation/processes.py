"""Simulated processes: who they are to the leases, what their clocks show, and whether anybody can see that they are gone."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from paor import Engine

from .inside import Owner, Timing
from .primitives import EPOCH_US
from .schedule import FOR_EVER, Actor, Schedule


@dataclass(eq=False)
class Process:
    """
    One simulated process.

    Attributes:
        name: For the trace.
        owner: As what it owns leases.
        skew_us: How much its wall clock is ahead of the truth.
        alive: Whether it still is.
        died_us: True time at which it was lost.
        is_hidden: Whether others cannot see when it starts.
        held_until_us: True time until which it does not go on, like a machine that was suspended.
        cut_until_us: True time until which it cannot reach a store of many machines.
        engine: Its engine, once it has opened the journal.
        drives: What it has leased, by run number: the fence, and the actor that drives.
        connections: Its open connections to the journal.
        read_us: True time at which its engine has last read the wall clock.
    """

    name: str
    owner: Owner
    skew_us: int = 0
    alive: bool = True
    died_us: int = FOR_EVER
    is_hidden: bool = False
    held_until_us: int = 0
    cut_until_us: int = 0
    engine: Engine | None = None
    drives: dict[int, tuple[int, Actor | None]] = field(default_factory=dict)
    connections: list[Any] = field(default_factory=list)
    read_us: int = 0


class ProcessTable:
    """
    All processes that there are and were; what `fsm.journal.leases` asks the system.

    Attributes:
        all: In the order in which they began.
        boot: How often the machine was started.
        is_far: Whether they are on several machines, of which none sees what has become of another.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.all: list[Process] = []
        self.boot = 1
        self.is_far = False
        self._starts = 0

    def new(
        self,
        *,
        space: str = "pid:[1]",
        pid: int | None = None,
        skew_us: int = 0,
        host: str = "host",
        boot: str | None = None,
    ) -> Process:
        """Return a process that begins now."""
        self._starts += 1
        number = len(self.all)
        clock = EPOCH_US + skew_us
        owner = Owner(
            host, boot or f"boot-{self.boot}", space, pid or 100 + number, 1000 + self._starts, clock
        )
        process = Process(f"p{number}", owner, skew_us)
        self.all.append(process)
        return process

    @property
    def living(self) -> list[Process]:
        """Processes that are alive."""
        return [process for process in self.all if process.alive]

    def of_owner(self, text: str | None) -> Process | None:
        """Return the process that a lease names."""
        owner = Owner.decode(text) if text else None
        return next((item for item in self.all if item.owner == owner), None)

    def current_owner(self, _pid: int) -> Owner:
        """Return the process whose turn it is."""
        assert self._schedule.current is not None, "only an actor owns anything"
        return self._schedule.current.process.owner

    def _seen(self, pid: int) -> Process | None:
        """Return the process of an id as the current one sees it."""
        assert self._schedule.current is not None, "only an actor looks"
        space = self._schedule.current.process.owner.space
        return next(
            (item for item in self.living if (item.owner.pid, item.owner.space) == (pid, space)), None
        )

    def start_of(self, pid: int) -> int | None:
        """Return when a process began, None when that cannot be seen."""
        process = self._seen(pid)
        return None if process is None or process.is_hidden else process.owner.start

    def is_provably_gone(self, owner: Process, by: Process) -> bool:
        """Return whether a process that is not alive any more can be seen to be gone by another one."""
        if owner.owner.boot != by.owner.boot:
            return not self.is_far
        place = (owner.owner.pid, owner.owner.space)
        another = [item for item in self.living if (item.owner.pid, item.owner.space) == place]
        return owner.owner.space == by.owner.space and not any(item.is_hidden for item in another)

    def exists(self, pid: int) -> bool:
        """Return whether there is a process of this id."""
        return self._seen(pid) is not None


class ProcessClock:
    """The clock that an engine is given: the wall clock of its process, and the true time for budgets and deadlines."""

    def __init__(self, schedule: Schedule, process: Process) -> None:
        self._schedule, self._process = schedule, process
        self.timing = Timing(self._wait, lambda: schedule.now_us / 1e6)

    def now_us(self) -> int:
        """Return the wall clock."""
        self._process.read_us = self._schedule.now_us
        return self._schedule.now_us + EPOCH_US + self._process.skew_us

    def active_us(self) -> int:
        """Return the monotonic clock."""
        return self._schedule.now_us

    def _wait(self, future: Future[Any], seconds: float | None) -> None:
        if not future.done():
            self._schedule.wait(seconds, future.done)
