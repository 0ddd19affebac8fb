"""
Worlds of many machines: a store that they share, hosts that submit runs, and workers that drive them.

Each machine has a clock of its own, and none can see whether a process of another one is gone. Machines are cut off from the store,
and the store fails over: what was not committed is undone, every connection is lost, and the clock of the server that takes its
place shows another time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

from paor import Engine, Journal, Result
from paor.audit import RunRow
from paor.events import TransitionTaken
from paor.worker import Worker, worker

from .inside import Claim, Continuation, Runner, SqliteBackend, continuation, is_owed, restore_run, result_now
from .operators import Operator
from .patches import claims_of, queue_of, taken_up
from .people import Message
from .primitives import EPOCH_US
from .processes import Process
from .schedule import Actor
from .storage import Connection, Disk, sqlite_error
from .world import Outcome, Place, World

IDLE_MAX = 400
"""Looks into a queue from which nothing comes up, 10 seconds apart, after which what is left counts as lost."""


class SharedDisk(Disk):
    """
    The store of many machines, as their connections find it.

    Attributes:
        away_until_us: True time until which nobody reaches it.
    """

    away_until_us = 0

    def connect(self, path: str, **options: Any) -> Any:
        """Open a connection."""
        found = super().connect(path, **options)
        if isinstance(found, Connection):
            self.connections.append(found)
        return found

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.connections: list[Connection] = []

    def reach(self, connection: Connection) -> None:
        """Get to the store, or wait for it as long as a driver does; what was begun over a lost connection is undone."""
        if connection.is_lost:
            connection.is_lost = False
            raise sqlite_error("SQLITE_IOERR_READ")
        end_us = self.schedule.now_us + round(self.timeout_s * 1e6)
        while self.schedule.now_us < max(connection.process.cut_until_us, self.away_until_us):
            if connection.in_transaction:
                connection.undo()
                raise sqlite_error("SQLITE_IOERR_READ")
            if self.schedule.now_us >= end_us:
                raise sqlite_error("SQLITE_BUSY")
            self.schedule.wait(0.5)

    def fail_over(self, away_us: int) -> None:
        """Lose every connection, with what was not committed, and be away."""
        for connection in self.connections:
            if connection.is_open and connection.process.alive:
                connection.undo()
                connection.is_lost = True
        self.away_until_us = self.schedule.now_us + away_us


class SharedStore(SqliteBackend):
    """
    What machines share: it has a clock, and nobody who is on another machine can be seen from it.

    Args:
        world: Whose it is.
    """

    is_shared = True

    def __init__(self, world: Machines) -> None:
        self._world = world
        super().__init__(str(world.path), "full", busy_timeout_s=5.0, read_only=False)

    def now_us(self) -> int:  # type: ignore[override] # unlike a file, it has a clock
        """Return the server's clock, as it was a moment ago."""
        self._world.schedule.point("server clock")
        return self._world.server_us


class Hand(Operator):
    """
    A thread of a process on some machine: a host, or a worker.

    Args:
        world: Which.
        process: Whose thread it is.
    """

    world: Machines

    def start(self, engine: Engine) -> None:
        """Submit a run; now and then drive one at once, as a host may."""
        chance = self.world.chance
        mode = chance.choice(self.world.modes)
        fallback: Literal["batch"] | None = "batch" if mode == "react" and chance.random() < 0.5 else None
        if chance.random() < 0.8:
            self.attempt("submit", lambda: engine.submit("Do it", mode=mode, fallback=fallback))
        else:
            self.attempt("start", lambda: engine.run("Do it", mode=mode, fallback=fallback))

    def answer(self, engine: Engine, row: RunRow) -> None:
        """Answer what a run waits for, and leave it to a worker."""
        result = self.attempt("look", lambda: engine.result(row.run_id))
        if result is not None and result.waiting_for is not None:
            message = self.world.people.answer(result.run_id, result.waiting_for)
            self.send(engine, message, drives=self.world.chance.random() < 0.3)

    def send(
        self, engine: Engine, message: Message, run_id: str | None = None, *, drives: bool = True
    ) -> None:
        """Give a message to the engine, by a resume or without driving."""
        if drives:
            super().send(engine, message, run_id)
            return
        self.note(message)
        given = {**message.given, "question": message.question.id}
        self.attempt(
            f"{message.decision} {message.number} only",
            lambda: engine.answer(run_id or message.run_id, **given),
        )

    # -- workers

    def serve(self) -> None:
        """Claim runs and drive them, one after the other."""
        world, chance = self.world, self.world.chance
        while not world.is_quiet:
            world.schedule.wait(chance.choice((0.05, 1.0, 4.0)))
            if self.process.engine is None and not self.open():
                continue
            engine: Any = self.process.engine
            drives = Worker(engine, attempts=world.attempts, name=self.process.name)
            for claim in self.claims(drives):
                if chance.random() < world.drains:
                    drives.drain()
                self.take_up(drives, claim)
                if self.is_over():
                    break

    def is_over(self) -> bool:
        """Return whether nobody takes up anything any more."""
        return self.world.is_quiet

    def claims(self, drives: Worker) -> list[Claim]:
        """Return what this worker is to drive now."""
        found = self.attempt(
            "claim",
            lambda: claims_of(drives, self.world.chance.choice((1, 2, 4))),
        )
        return found or []

    def take_up(self, drives: Worker, claim: Claim) -> None:
        """Drive a run and note what became of it, as the worker does."""
        self.attempt(f"take up {claim.run}", lambda: _at_once(taken_up(drives, claim)))

    # -- the end

    def release_held(self, engine: Engine) -> None:
        """Have what was held back tried again, as whoever looks after the queue does."""
        queue = queue_of(engine)
        for queued in queue.rows():
            if queued.ready_at is None:
                queue.release(engine.journal.run(queued.run_id).run)

    def finish(self) -> None:
        """Have a healthy worker bring every run to its end, as long as people answer; it takes up what comes up alone."""
        world = self.world
        world.schedule.wait(world.lease_s + 1)
        self.process.engine = engine = self._opened()
        queue_of(engine).prepare()
        drives, idle = Worker(engine, attempts=1000, name="last"), 0
        while engine.journal.reader.index.open() or world.others_work(self.process):
            self.release_held(engine)
            claims = self.claims(drives)
            for claim in claims:
                self.take_up(drives, claim)
            for result in self.attempt("waiting", engine.waiting) or []:
                message = world.people.answer(result.run_id, result.waiting_for)
                self.send(engine, message, drives=False)
            idle = 0 if claims else idle + 1
            world.schedule.wait(0.0 if claims else 10.0)
            left = set(engine.journal.reader.index.open())
            if idle > IDLE_MAX and left & world.submitted(engine):
                world.watch.say(f"stuck: of the runs that were submitted {sorted(left)} do not come up")
                break
            for run in left - world.submitted(engine) if idle > 1 else ():
                self._finish(engine, run)  # what a host has started, and left, is for a host to go on with
        for run in sorted(world.submitted(engine)):
            if is_owed(
                engine.journal.reader, restore_run(engine.journal.reader, world.watch.run_ids[run])[0]
            ):
                world.watch.say(f"fallback: run {run} has failed, and none was started in its place")
        engine.close()


def drive(
    runner: Runner, row: RunRow, options: object, leaves: Callable[[], bool]
) -> Coroutine[Any, Any, tuple[Result, bool]]:
    """Do what `paor.worker.driving.drive` does, without an event loop."""

    async def done() -> tuple[Result, bool]:
        found = continuation(runner, row.run_id)
        if isinstance(found, Continuation):
            events: Any = runner.drive(found.acquire, resumed=found.resumed)
            try:
                for event in events:
                    if leaves() and isinstance(event, TransitionTaken) and event.dest != "Executing":
                        break
            finally:
                events.close()
        return result_now(runner.journal.reader, row.run_id), isinstance(found, Continuation)

    return done()


async def _to_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _at_once(work: Coroutine[Any, Any, bool]) -> bool:
    """Carry out what waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return bool(end.value)
    raise AssertionError("it waits for something")


PATCHED: tuple[tuple[Any, dict[str, Any]], ...] = (
    (worker, {"asyncio": SimpleNamespace(to_thread=_to_thread), "drive": drive}),
)
"""What the worker takes from the event loop, which a world has not."""


class Machines(World):
    """One world of many machines."""

    replaced = PATCHED

    def storage(self) -> Disk:
        """Return the store that they share."""
        self.disk: SharedDisk = SharedDisk(self.path, self.schedule, self.chance, self.watch)
        return self.disk

    def opened_journal(self) -> Journal:
        """Open the shared store, over a connection of one process."""
        return Journal(SharedStore(self), lease_s=self.lease_s)

    def _draw(self) -> None:
        super()._draw()
        chance = self.chance
        self.table.is_far, self.watch.server_us = True, lambda: self.server_us
        self.server_skew_us = 0
        self.count = chance.choice((2, 3, 5))
        self.boots = [1] * self.count
        self.skews_us = [
            round(chance.choice((0.0, 0.2, -3.0, 40.0, -40.0, 3600.0)) * 1e6) for _ in self.boots
        ]
        self.names = ["host" if chance.random() < 0.3 else f"host-{number}" for number in range(self.count)]
        self.processes_max = chance.choice((3, 5, 8, 12))
        self.starts_left, self.jobs_left = chance.choice((3, 5, 8)), chance.randint(8, 24)
        self.reboot, self.restart = 0.0, self.some(0.01, 0.2)
        self.cut, self.failover = self.some(0.03), self.some(0.01, 0.3)
        self.drains, self.attempts = self.some(0.3), chance.choice((2, 5))
        self.failovers = self.cuts = 0
        self.hosts: list[Process] = []
        self.watch.is_calm = self.watch.is_calm and not (self.cut or self.failover)
        self.watch.is_timely = False

    @property
    def server_us(self) -> int:
        """The store's clock."""
        return self.schedule.now_us + EPOCH_US + self.server_skew_us

    def place(self) -> Process:
        """Return a process that begins now, on some machine."""
        number = self.chance.randrange(self.count)
        return self.table.new(
            skew_us=self.skews_us[number] + self._skew(),
            host=self.names[number],
            boot=f"boot-{number}-{self.boots[number]}",
        )

    def begin(self) -> Process:
        """Begin a host or a worker."""
        process = self.place()
        hand, is_worker = Hand(self, process), self.chance.random() < 0.6
        if not any(host.alive for host in self.hosts):  # somebody has to submit runs
            is_worker = False
        if not is_worker:
            self.hosts.append(process)
        for number in range(self.chance.choice((1, 1, 2))):
            self.schedule.start(f"{process.name}.{number}", process, hand.serve if is_worker else hand.work)
        self._trace(f"begin {'worker' if is_worker else 'host'} {process.name} {process.owner.boot}")
        return process

    def _upset(self, actor: Actor) -> None:
        super()._upset(actor)
        if self.is_quiet:
            return
        chance = self.chance
        if chance.random() < self.cut:
            cut = chance.choice(self.table.living)
            cut.cut_until_us = self.schedule.now_us + round(chance.choice((2.0, 20.0, 60.0, 200.0)) * 1e6)
            self.cuts += 1
            self._trace(f"cut off {cut.name}")
        if chance.random() < self.failover:
            self.disk.fail_over(round(chance.choice((0.1, 3.0, 20.0)) * 1e6))
            self.server_skew_us += round(chance.choice((0.0, 0.5, -0.5, 8.0, -8.0)) * 1e6)
            self.failovers += 1
            self._trace("fail over")
        if self.restart and chance.random() < self.restart:
            self._restart(chance.randrange(self.count))

    def _restart(self, number: int) -> None:
        self._trace(f"restart machine {number}")
        boot = f"boot-{number}-{self.boots[number]}"
        for process in self.table.living:
            if process.owner.boot == boot:
                self.lose(process)
        self.boots[number] += 1
        while len(self.table.living) < self.processes_max:
            self.begin()

    def _settle(self) -> None:
        super()._settle()
        for process in self.table.living:
            process.cut_until_us = 0

    def run(self) -> Outcome:
        """Simulate it to its end."""
        outcome = super().run()
        return replace(outcome, totals={**outcome.totals, "cuts": self.cuts, "failovers": self.failovers})

    def last(self) -> tuple[Process, Operator]:
        """Return a healthy worker."""
        process = self.place()
        return process, Hand(self, process)

    def submitted(self, engine: Engine) -> set[int]:
        """Return the runs that came through the queue, and those that stand in for them."""
        ids, reader = {self.watch.run_ids[run] for run in self.watch.queued}, engine.journal.reader
        rows = engine.journal.runs()
        return {row.run for row in rows if (reader.spec(row.run_id).fallback_for or row.run_id) in ids}


def simulate_machines(seed: int, place: Place, tell: Callable[[str], None] | None = None) -> Outcome:
    """Simulate the world of many machines of a seed."""
    with place.journal() as path:
        return Machines(seed, path, tell).run()
