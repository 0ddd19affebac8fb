"""
One thread that is many: actors take turns, and one random generator says who is next, how late it is and who is lost.

An actor is a greenlet of a simulated process. It goes on until it comes to a point, anything that another process could
see or that could fail; there the world may let time pass, give the turn to another actor, hold a process up, or lose it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from .processes import Process

FOR_EVER = 1 << 62
"""A time that never comes, in microseconds."""

POINTS_MAX = 60_000
"""Points after which a world counts as one that never ends."""


class Killed(BaseException):
    """The process is gone: nothing in it goes on."""


class NeverEnds(Exception):
    """Nobody can go on, or somebody goes on without end."""


class Actor:
    """
    Something that a process does at the same time as other things.

    Attributes:
        wakes_us: When it goes on at the latest.
        until: Goes on before that when this is true.
    """

    def __init__(self, name: str, process: Process, work: Callable[[], Any], hub: greenlet) -> None:
        self.name, self.process = name, process
        self.wakes_us = 0
        self.until: Callable[[], bool] | None = None
        self.line = greenlet(work, hub)
        self.is_daemon = False

    def can_go_on(self, now_us: int) -> bool:
        """Return whether it may have the turn now."""
        return self.wakes_us <= now_us or (self.until is not None and self.until())


class Schedule:
    """
    Time and turns of one world.

    Args:
        chance: Decides everything.
        tell: Takes the lines of the trace, or None.

    Attributes:
        now_us: The true time, which never goes back.
        upset: Called whenever a turn ends, with the actor whose it was; may lose, hold up or change anything.
        grain: Points between two turns, on average.
    """

    def __init__(self, chance: random.Random, tell: Callable[[str], None] | None = None) -> None:
        self.chance, self._tell = chance, tell
        self.now_us = 1_000_000_000
        self.points = 0
        self.grain = 6.0
        self.tick_us = 200
        self.upset: Callable[[Actor], None] = lambda actor: None
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self._left = 1
        self._hub = getcurrent()

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        if self._tell is not None:
            self._tell(f"{self.now_us} {what}")

    # -- within an actor

    def point(self, what: str) -> None:
        """
        Come to a point: time passes, and others may have their turn before it is gone on.

        Raises:
            Killed: The process is lost.
        """
        actor = self.current
        if actor is None:
            return
        if not actor.process.alive:
            raise Killed
        self.points += 1
        self.now_us += self.tick_us
        if self._tell is not None:
            self.note(f"{actor.name} {what}")
        self._left -= 1
        if self._left <= 0:
            self._yield(actor)

    def wait(self, seconds: float | None, until: Callable[[], bool] | None = None) -> None:
        """Let others go on for some seconds, or until something is so."""
        actor = self.current
        if actor is None:
            return
        if not actor.process.alive:
            raise Killed
        actor.wakes_us = FOR_EVER if seconds is None else self.now_us + round(seconds * 1e6)
        actor.until = until
        self._yield(actor)

    def _yield(self, actor: Actor) -> None:
        self._hub.switch()
        if not actor.process.alive:
            raise Killed

    # -- between turns

    def start(
        self, name: str, process: Process, work: Callable[[], Any], *, is_daemon: bool = False
    ) -> Actor:
        """Have a process begin something; a daemon is not waited for when the world ends."""

        def line() -> None:
            with suppress(Killed):
                work()

        actor = Actor(name, process, line, self._hub)
        actor.is_daemon = is_daemon
        self.actors.append(actor)
        return actor

    def end(self, process: Process) -> None:
        """Let everything that a process does come to an end here; it must not be alive."""
        for actor in [actor for actor in self.actors if actor.process is process]:
            if actor.line and actor is not self.current:
                turn, self.current = self.current, actor
                while actor.line:
                    actor.line.throw(Killed)
                self.current = turn
        self.actors = [actor for actor in self.actors if actor.process is not process]

    def run(self, is_over: Callable[[], bool]) -> None:
        """
        Give turns until *is_over*, or until nobody is left.

        Raises:
            NeverEnds: There is no end to it.
        """
        while not is_over():
            actor = self._next()
            if actor is None:
                return
            actor.wakes_us, actor.until = 0, None
            self._left = 1 + int(self.chance.expovariate(1.0) * self.grain)
            self.current = actor
            actor.line.switch()
            self.current = None
            if not actor.line and actor in self.actors:
                self.actors.remove(actor)
            if self.points > POINTS_MAX:
                raise NeverEnds(f"{self.points} points")
            self.upset(actor)

    def _next(self) -> Actor | None:
        """Return who has the next turn; time passes until somebody can go on. None when nobody is waited for."""
        while True:
            now = self.now_us
            ready = [
                actor for actor in self.actors if actor.process.held_until_us <= now and actor.can_go_on(now)
            ]
            if ready:
                return ready[0] if len(ready) == 1 else ready[int(self.chance.random() * len(ready))]
            if all(actor.is_daemon for actor in self.actors):
                return None
            times = [max(actor.wakes_us, actor.process.held_until_us) for actor in self.actors]
            times += [actor.process.held_until_us for actor in self.actors if actor.until is not None]
            later = [time for time in times if now < time < FOR_EVER]
            if not later:
                raise NeverEnds("everybody waits for somebody else")
            self.now_us = min(later)
