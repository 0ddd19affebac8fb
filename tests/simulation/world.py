"""One world: everything in it follows from its seed."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from paor import Journal

from .inside import Mode
from .operators import Operator, settings
from .oracle import Oracle, totals
from .outside import NAMES, NOW, Outside
from .patches import Replaced, simulated
from .people import People
from .processes import Process, ProcessTable
from .schedule import Actor, NeverEnds, Schedule
from .storage import Disk
from .watch import Watch

LEASE_S = 30.0


@dataclass(frozen=True)
class Outcome:
    """
    What a world came to.

    Attributes:
        seed: Of the world.
        broken: What did not hold; empty when all is well.
        totals: How much there was of everything.
    """

    seed: int
    broken: tuple[str, ...]
    totals: dict[str, int] = field(default_factory=dict)


class World:
    """
    One world.

    Args:
        seed: Decides everything.
        path: Of its journal, an empty one.
        tell: Takes the lines of the trace.
    """

    replaced: Replaced = ()

    def __init__(self, seed: int, path: Path, tell: Callable[[str], None] | None = None) -> None:
        self.seed, self.path, self.tell = seed, path, tell
        self.chance = chance = random.Random(f"world {seed}")
        self.schedule = Schedule(chance, tell)
        self.table = ProcessTable(self.schedule)
        self.watch = Watch(self.schedule, self.table)
        self.disk = self.storage()
        self.people = People(chance)
        self.outside = Outside(self.schedule, chance, self.watch.call_begins, self.watch.model_is_asked)
        self.is_quiet = False
        self.kills = self.opened = 0
        self.lease_s = LEASE_S
        self.limits, self.policy = settings(self)
        self._draw()

    def storage(self) -> Disk:
        """Return where its journal is."""
        return Disk(self.path, self.schedule, self.chance, self.watch)

    def opened_journal(self) -> Journal:
        """Open it, as a process of this world does."""
        return Journal(self.path, "full", lease_s=self.lease_s, busy_timeout_s=5.0)

    def _draw(self) -> None:
        """Decide how much of what goes wrong in this world: of most things nothing, so that each is seen alone, too."""
        chance, some = self.chance, self.some
        self.starts_left = chance.choice((1, 1, 2, 2, 3))
        self.forks_left = 2
        self.jobs_left = chance.randint(3, 9)
        self.modes: tuple[Mode, ...] = chance.choice((("planner",), ("planner", "react"), ("react",)))
        self.forks, self.cancels = some(6, 0.4), some(6, 0.3)
        self.kill, self.hold, self.jump, self.reboot = some(0.04), some(0.04), some(0.1), some(0.01, 0.15)
        self.disk.fault = some(0.03, 0.25)
        self.fill = some(0.02, 0.15)
        self.outside.tool_fault, self.outside.model_fault = some(0.5), some(0.2, 0.25)
        self.outside.slow = chance.choice((0.1, 0.6))
        self.outside.names = tuple(chance.sample(NAMES, chance.choice((2, 4, len(NAMES)))))
        self.people.names_nothing = chance.choice((0.0, 0.3, 1.0))
        self.schedule.grain = chance.choice((1.0, 4.0, 12.0, 40.0))
        self.watch.is_calm = not (self.hold or self.disk.fault or self.fill)
        self.watch.is_timely = not self.jump
        self.watch.valid_us = round(self.policy.approval_valid_s * 1e6)
        self.processes_max = chance.choice((1, 2, 2, 3, 4))
        self.hides = chance.random() < 0.3

    def some(self, rate: float, share: float = 0.4) -> float:
        """Return how often something goes wrong, in a share of all worlds; in the others it does not."""
        return rate * self.chance.random() if self.chance.random() < share else 0.0

    def run(self) -> Outcome:
        """Simulate it to its end."""
        NOW.outside = self.outside
        with simulated(self.schedule, self.table, self.disk, self.replaced):
            try:
                self.schedule.upset = self._upset
                for _ in range(self.processes_max):
                    self.begin()
                self.schedule.run(lambda: self.jobs_left <= 0)
                self._settle()
                self._finish()
            except NeverEnds as error:
                self.watch.say(f"stuck: {error}")
            for process in self.table.living:
                self.lose(process)
        if not self.watch.broken:
            with Journal(self.path, read_only=True) as journal:
                Oracle(self, journal).judge()
        self.disk.close()
        return Outcome(self.seed, tuple(self.watch.broken), totals(self))

    # -- processes

    def begin(self) -> Process:
        """Begin a process with one thread or two."""
        chance = self.chance
        pid = chance.choice((None, 100))
        if any(item.owner.pid == pid for item in self.table.living):
            pid = None
        space = "pid:[2]" if self.hides and chance.random() < 0.5 else "pid:[1]"
        process = self.table.new(space=space, pid=pid, skew_us=self._skew())
        process.is_hidden = self.hides and chance.random() < 0.3
        for number in range(chance.choice((1, 1, 2))):
            self.schedule.start(f"{process.name}.{number}", process, Operator(self, process).work)
        self._trace(f"begin {process.name} space {space} pid {process.owner.pid}")
        return process

    def _skew(self) -> int:
        return round(self.chance.choice((0.0, 0.0, 3.0, -3.0, 3600.0, -86_400.0)) * 1e6) if self.jump else 0

    def lose(self, process: Process) -> None:
        """A process is gone: nothing in it goes on, its locks are free, what it had not committed is undone."""
        process.alive, process.died_us = False, self.schedule.now_us
        self.schedule.end(process)
        for connection in process.connections:
            connection.close()

    def _upset(self, actor: Actor) -> None:
        """After a turn anything may go wrong."""
        if self.is_quiet:
            return
        chance = self.chance
        if chance.random() < self.kill:
            self.kills += 1
            process = actor.process if chance.random() < 0.7 else chance.choice(self.table.living)
            self._trace(f"kill {process.name}")
            self.lose(process)
        if self.reboot and chance.random() < self.reboot:
            self._trace("reboot")
            for process in self.table.living:
                self.lose(process)
            self.table.boot += 1
        if chance.random() < self.hold:
            seconds = chance.choice((1.0, 20.0, 45.0, 120.0))
            self._trace(f"hold {actor.process.name} {seconds}")
            actor.process.held_until_us = self.schedule.now_us + round(seconds * 1e6)
        if chance.random() < self.jump:
            seconds = chance.choice((-86_400.0, -40.0, -1.0, 1.0, 40.0, 86_400.0))
            self._trace(f"jump {actor.process.name} {seconds}")
            actor.process.skew_us += round(seconds * 1e6)
        if chance.random() < self.fill:
            self.disk.is_full = not self.disk.is_full
            self._trace(f"disk full {self.disk.is_full}")
        while len(self.table.living) < self.processes_max:
            self.begin()

    # -- the end

    def _settle(self) -> None:
        """Nothing goes wrong any more; some finish what they do, some are lost, some wake up only later."""
        self.disk.fault, self.disk.is_full = 0.0, False
        self.outside.model_fault = 0.0
        self.is_quiet = True
        self._trace("quiet")
        for process in self.table.living:
            if self.chance.random() < 0.4:
                self.kills += 1
                self._trace(f"kill {process.name}")
                self.lose(process)

    def _finish(self) -> None:
        """A healthy process brings every run to its end while those that are left go on; then everybody ends."""
        wakes = self.chance.choice((0.1, 40.0))
        process, last = self.last()
        process.held_until_us = self.schedule.now_us + round(wakes * 1e6)
        if not self.table.living[:-1] or self.chance.random() < 0.5:
            self.schedule.run(lambda: not any(not actor.is_daemon for actor in self.schedule.actors))
            for other in self.table.living:
                if other is not process:
                    self.lose(other)
        self.schedule.start(f"{process.name}.last", process, last.finish)
        self.schedule.run(lambda: not any(not actor.is_daemon for actor in self.schedule.actors))

    def last(self) -> tuple[Process, Operator]:
        """Return the process that brings every run to its end, and who does it there."""
        process = self.table.new()
        return process, Operator(self, process)

    def others_work(self, process: Process) -> bool:
        """Return whether another process than the last one still does something."""
        return any(not actor.is_daemon and actor.process is not process for actor in self.schedule.actors)

    def _trace(self, what: str) -> None:
        self.schedule.note(f"world {what}")


class Place:
    """
    Where the journals of worlds are, one after the other.

    Args:
        folder: On a disk that costs nothing, if there is one.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "runs.db"
        template = folder / "template.db"
        if not template.exists():
            Journal(template).close()
        self._empty = template.read_bytes()

    @contextmanager
    def journal(self) -> Iterator[Path]:
        """Give a journal without runs."""
        for end in ("-wal", "-shm"):
            self.path.with_name(f"runs.db{end}").unlink(missing_ok=True)
        self.path.write_bytes(self._empty)
        yield self.path


def simulate(seed: int, place: Place, tell: Callable[[str], None] | None = None) -> Outcome:
    """Simulate the world of a seed."""
    with place.journal() as path:
        return World(seed, path, tell).run()


__all__ = ["Outcome", "Place", "World", "simulate", "sqlite3"]
