"""What the processes of a world do with their engines: start, resume, answer, cancel and fork runs, at any time and at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paor import Engine, Event, Limits, Policy
from paor.audit import RunRow
from paor.events import TransitionTaken
from paor.testing import SeededIds

from .outside import TOOLS, Speaker
from .people import Message
from .processes import Process, ProcessClock
from .schedule import Killed

if TYPE_CHECKING:
    from .world import World

SPEAKER = Speaker()


class Operator:
    """
    One thread of a process: opens the journal when nobody has, and does one thing after the other.

    Args:
        world: Which.
        process: Whose thread it is.
    """

    def __init__(self, world: World, process: Process) -> None:
        self.world, self.process = world, process

    def work(self) -> None:
        """Do jobs while there are any."""
        world, chance = self.world, self.world.chance
        while not world.is_quiet and world.jobs_left > 0:
            world.schedule.wait(chance.choice((0.01, 1.0, 5.0, 25.0)))
            if self.process.engine is None and not self.open():
                continue
            world.jobs_left -= 1
            self.job()
        if self.process.engine is not None and not world.is_quiet and chance.random() < 0.3:
            world.schedule.wait(2.0)

    def open(self) -> bool:
        """Open the journal; return whether that was possible."""
        world = self.world
        opened = self.attempt("open", lambda: self._opened())
        if opened is not None and self.process.engine is None:
            self.process.engine = opened
        elif opened is not None:  # another thread was faster
            opened.close()
        return self.process.engine is not None and not world.is_quiet

    def _opened(self) -> Engine:
        world, process = self.world, self.process
        journal = world.opened_journal()
        world.opened += 1
        return Engine(
            SPEAKER,
            TOOLS,
            journal,
            world.limits,
            world.policy,
            hooks=[self.hear],
            clock=ProcessClock(world.schedule, process),
            ids=SeededIds(f"{world.seed}/{process.name}/{world.opened}"),
            builtins=False,
        )

    def hear(self, event: Event) -> None:
        """Hear of a row, which must be in the file."""
        self.world.schedule.point("event")
        if isinstance(event, TransitionTaken):
            watch = self.world.watch
            run = watch.numbers.get(event.run_id)
            if run is None or (run, event.seq) not in watch.rows:
                watch.say(f"order: row {event.seq} was told before it was in the file")

    def attempt(self, what: str, act: Callable[[], Any]) -> Any:
        """Do something with the engine; only typed errors may leave it. Returns None after one."""
        world, process = self.world, self.process
        actor = world.schedule.current
        world.schedule.point(what)
        began_us = world.schedule.now_us
        try:
            return act()
        except Killed:
            raise
        except BaseException as error:  # noqa: BLE001 - the watch says what no caller should have seen
            world.schedule.point(f"{what} raised {type(error).__name__}")
            world.watch.error_has_left(process, what, error, began_us)
            return None
        finally:
            world.watch.robbed = [other for other in world.watch.robbed if other is not actor]
            for run, (fence, driver) in list(process.drives.items()):
                if driver is actor:
                    process.drives[run] = (fence, None)

    # -- jobs

    def job(self) -> None:
        """Do one thing."""
        world, engine = self.world, self.process.engine
        assert engine is not None, "the journal is open"
        if world.starts_left > 0 and (not world.watch.run_ids or world.chance.random() < 0.4):
            world.starts_left -= 1
            self.start(engine)
            return
        rows = self.attempt("list", engine.journal.runs) or []
        if not rows:
            return
        row = world.chance.choice(rows)
        jobs = (self.resume, self.resume, self.answer, self.answer, self.deliver, self.cancel, self.fork)
        weights = (3, 3, 3, 3, 2, world.cancels, world.forks)
        world.chance.choices(jobs, weights)[0](engine, row)

    def start(self, engine: Engine) -> None:
        """Start a run."""
        mode = self.world.chance.choice(self.world.modes)
        self.attempt("start", lambda: engine.run("Do what is to be done", mode=mode))

    def resume(self, engine: Engine, row: RunRow) -> None:
        """Go on with a run, whoever drives it."""
        if row.status not in ("done", "failed"):
            self.attempt("resume", lambda: engine.resume(row.run_id))

    def answer(self, engine: Engine, row: RunRow) -> None:
        """Answer what a run waits for."""
        if row.status != "waiting":
            return
        result = self.attempt("look", lambda: engine.resume(row.run_id))
        if result is not None and result.waiting_for is not None:
            self.send(engine, self.world.people.answer(result.run_id, result.waiting_for))

    def deliver(self, engine: Engine, row: RunRow) -> None:
        """Deliver a message once more, perhaps to a run that never asked."""
        messages = self.world.people.messages
        if messages:
            message = self.world.chance.choice(messages)
            astray = self.world.chance.random() < 0.2 and message.is_named
            self.send(engine, message, row.run_id if astray else message.run_id)

    def send(self, engine: Engine, message: Message, run_id: str | None = None) -> None:
        """Give a message to the engine."""
        self.note(message)
        self.attempt(
            f"{message.decision} {message.number}",
            lambda: engine.resume(run_id or message.run_id, **message.given),
        )

    def note(self, message: Message) -> None:
        """Note what a message that is sent allows."""
        watch, key = self.world.watch, message.question.key or ""
        if (
            message.decision == "approve"
        ):  # a fork asks in its parent's words, and calls under a key of its own
            watch.approved.add(f"{message.run_id}-{key.rpartition('-')[2]}")
        if message.decision == "retry":
            watch.retried[key] = watch.retried.get(key, 0) + 1

    def cancel(self, engine: Engine, row: RunRow) -> None:
        """Cancel a run."""
        self.attempt("cancel", lambda: engine.cancel(row.run_id))

    def fork(self, engine: Engine, row: RunRow) -> None:
        """Fork a run at any row."""
        if row.head_seq < 0 or self.world.forks_left <= 0:
            return
        self.world.forks_left -= 1
        chance, turns = self.world.chance, self.world.watch.turns.get(row.run)
        place = chance.choice(turns) if turns and chance.random() < 0.6 else chance.randint(0, row.head_seq)
        drive = chance.random() < 0.7
        self.attempt("fork", lambda: engine.fork(row.run_id, place, drive=drive))

    # -- the end

    def finish(self) -> None:
        """Bring every run to its end, as a healthy process does."""
        world, done = self.world, 0
        world.schedule.wait(world.lease_s + 1)  # whoever was lost unseen holds its runs until then
        self.process.engine = engine = self._opened()
        while done < len(world.watch.run_ids) or world.others_work(self.process):
            numbers = sorted(world.watch.run_ids)[done:]
            for number in numbers:
                self._finish(engine, number)
            done += len(numbers)
            world.schedule.wait(0.0 if numbers else 5.0)
        engine.close()

    def _finish(self, engine: Engine, number: int) -> None:
        world = self.world
        run_id = world.watch.run_ids[number]
        for _ in range(60):
            result = self.attempt("finish", lambda: engine.resume(run_id))
            if result is None:  # somebody else drives it still, or has answered
                world.schedule.wait(10.0)
                continue
            if result.status in ("done", "failed"):
                return
            if result.waiting_for is not None:
                message = world.people.answer(result.run_id, result.waiting_for)
                named = {**message.given, "question": message.question.id}
                self.send(engine, Message(**{**vars(message), "given": named}))
        world.watch.say(f"stuck: run {number} cannot be brought to its end")


def settings(world: World) -> tuple[Limits, Policy]:
    """Return the limits and the policy of a world."""
    chance = world.chance
    approvals = chance.choice(((), (), ("bank.*",), ("desk.send", "desk.put"), ("desk.*", "bank.*")))
    timeout = chance.choice((None, None, None, 60.0))
    valid_s = chance.choice((3600.0, 3600.0, 30.0))
    world.watch.approvals = approvals
    limits = Limits(
        max_steps=chance.choice((2, 4)),
        max_elicitations=12,
        elicitation_timeout_s=timeout,
        completion_review="rules",
    )
    return limits, Policy(approvals=approvals, approval_valid_s=valid_s)
