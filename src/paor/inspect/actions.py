"""
What a person can do from the page: answer, settle a doubt, cancel, fork. Each is a row that any process could have written.

With a host's engine a run goes on in the host's process once its answer is durable. Without one the answer is written all the same, by the
run's own record, and the run is left to whoever drives it.
"""

from __future__ import annotations

import asyncio
import shlex
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, Protocol

from ..fsm.engine import Engine
from ..fsm.journal.reader import JournalReader
from ..fsm.journal.rows import RunRow
from ..fsm.journal_api import Journal
from ..fsm.lifecycle.answer import answer_run, answer_to, runner_as_recorded
from ..fsm.lifecycle.cancel import cancel
from ..fsm.lifecycle.fork import calls_after, fork_acquisition
from ..fsm.lifecycle.options import ResumeOptions
from ..fsm.lifecycle.recover import OptionsOfRun
from ..fsm.lifecycle.runner import Runner
from ..fsm.replay.callers import outermost
from ..fsm.runtime.logs import LOGGER
from ..states.base.errors import AlreadyAnswered, LeaseHeld, PaorError
from ..states.records.questions import Answer

LEASE_WAIT_S = 5.0
"""How long an answer waits for another driver's lease, in seconds."""

LEASE_LOOK_S = 0.05
"""Seconds between the first two tries to have it; then twice as long each time, up to `LEASE_LOOK_MAX_S`."""

LEASE_LOOK_MAX_S = 0.4
"""Seconds between two tries at most."""

DRIVE_TRIES = 6
"""How often the drive of an answered run is begun while others have its lease for a moment; 0.1 s apart, then twice as long each time."""


class AnsweredBefore(AlreadyAnswered):
    """
    Somebody else has answered.

    Attributes:
        answer: What was answered, and by whom; None where that cannot be read.
    """

    def __init__(self, message: str, answer: Answer | None) -> None:
        super().__init__(message)
        self.answer = answer


class Acting(Protocol):
    """What writes the rows of actions, and perhaps drives runs."""

    drives: bool

    def answer(self, run_id: str, **message: Any) -> tuple[str, int]:
        """Write an answer; return the run that has taken it, and its row."""
        ...

    def cancel(self, run_id: str) -> str:
        """Cancel a run; return its status."""
        ...

    def fork(self, run_id: str, seq: int) -> str:
        """Fork a run after a row; return the id of the new one, which nobody drives yet."""
        ...

    async def drive(self, row: RunRow) -> None:
        """Go on with a run."""
        ...

    def close(self) -> None:
        """Close what was opened for actions only."""
        ...


class ByEngine:
    """
    Actions of a host's engine, which goes on with what was answered.

    Args:
        engine: The host's.
        options: Returns what a run is resumed with.
    """

    drives = True

    def __init__(self, engine: Engine, options: OptionsOfRun | None) -> None:
        self._engine, self._options = engine, options

    def answer(self, run_id: str, **message: Any) -> tuple[str, int]:
        """See `Acting.answer`."""
        return self._engine.answer(run_id, **message)

    def cancel(self, run_id: str) -> str:
        """See `Acting.cancel`."""
        return self._engine.cancel(run_id).status

    def fork(self, run_id: str, seq: int) -> str:
        """See `Acting.fork`."""
        return self._engine.fork(run_id, seq, drive=False).run_id

    async def drive(self, row: RunRow) -> None:
        """See `Acting.drive`."""
        given = self._options(row) if self._options is not None else ResumeOptions()
        await self._engine.aresume(row.run_id, **given)

    def close(self) -> None:
        """Close nothing: the engine is the host's."""


class AsRecorded:
    """
    Actions on a journal without its engine: rows that need nobody's tools and no model.

    Args:
        journal: The host's, or the path of one that is opened when the first action comes.
        busy_timeout_s: Seconds that the latter waits for another process's write lock.
    """

    drives = False

    def __init__(self, journal: Journal | str, *, busy_timeout_s: float = 30.0) -> None:
        self._given, self._busy_timeout_s = journal, busy_timeout_s
        self._lock = threading.Lock()
        self._opened: Journal | None = None
        self._kept: Runner | None = None

    def _runner(self) -> Runner:
        with self._lock:
            if self._kept is None:
                journal = self._given
                if isinstance(journal, str):
                    journal = self._opened = Journal(journal, busy_timeout_s=self._busy_timeout_s)
                self._kept = runner_as_recorded(journal.store)
            return self._kept

    def answer(self, run_id: str, **message: Any) -> tuple[str, int]:
        """See `Acting.answer`."""
        return answer_run(self._runner(), run_id, **message)

    def cancel(self, run_id: str) -> str:
        """See `Acting.cancel`."""
        return cancel(self._runner(), run_id).status

    def fork(self, run_id: str, seq: int) -> str:
        """See `Acting.fork`."""
        runner = self._runner()
        return runner.created_only(fork_acquisition(runner, run_id, seq)).run_id

    async def drive(self, row: RunRow) -> None:
        """Nothing drives here."""

    def close(self) -> None:
        """Close the journal, if it was opened here."""
        if self._opened is not None:
            self._opened.close()


class Actions:
    """
    The actions on the runs of one journal, for any number of clients at once.

    Args:
        acting: What writes the rows.
        reader: What reads the journal.
        pool: Threads that the actions run in.
        problem: Told with a run's id and one line, in one of the threads, when a run could not go on.
    """

    def __init__(
        self, acting: Acting, reader: JournalReader, pool: Executor, problem: Callable[[str, str], None]
    ) -> None:
        self._acting, self._reader, self._pool, self._problem = acting, reader, pool, problem
        self._drives: set[asyncio.Task[None]] = set()

    @property
    def drives(self) -> bool:
        """Whether a run goes on here once it was answered."""
        return self._acting.drives

    async def answer(self, run_id: str, question: str, **message: Any) -> dict[str, Any]:
        """
        Write the answer to a question, and go on with its run.

        Args:
            run_id: The run that asks.
            question: Id of its question.
            message: What else `Engine.answer` takes.

        Returns:
            ``run`` and ``seq`` of the row that has taken it, and whether the run goes on here.

        Raises:
            AnsweredBefore: Somebody else was first; nothing was changed.
            PaorError: As `Engine.answer`; nothing was changed.
        """
        taken, seq = await self._answered(run_id, question, message)
        return {"run": taken, "seq": seq, **self._go_on(taken)}

    async def cancel(self, run_id: str) -> dict[str, Any]:
        """Cancel a run; return its status: still ``running`` or ``waiting`` where its driver ends it with its next row."""
        return {"status": await self._in_thread(self._acting.cancel, run_id)}

    async def fork(self, run_id: str, seq: int) -> dict[str, Any]:
        """
        Fork a run after a row, and go on with the fork.

        One that could repeat calls that happen once is only created: whoever goes on with it should know.

        Returns:
            ``run``, the id of the fork, whether it goes on here, and the tools of such calls as ``repeats``.
        """
        repeats = await self._in_thread(calls_after, self._reader, run_id, seq)
        fork = await self._in_thread(self._acting.fork, run_id, seq)
        return {"run": fork, "repeats": repeats, **self._go_on(fork, only=bool(repeats))}

    async def close(self) -> None:
        """Break off the drives of this event loop: their runs are left as a lost process leaves them, and can be resumed."""
        loop = asyncio.get_running_loop()
        own = [task for task in self._drives if task.get_loop() is loop]
        for task in own:
            task.cancel()
        await asyncio.gather(*own, return_exceptions=True)

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns that reads or writes the journal; the event loop goes on meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    # -- answering -------------------------------------------------------------------------------------------------

    async def _answered(self, run_id: str, question: str, message: dict[str, Any]) -> tuple[str, int]:
        """Write an answer; while somebody else has the run, no thread waits with it."""
        answer = partial(self._acting.answer, run_id, question=question, **message)
        until, pause = time.monotonic() + LEASE_WAIT_S, LEASE_LOOK_S
        while True:
            try:
                taken: tuple[str, int] = await self._in_thread(answer)
                return taken
            except AlreadyAnswered as error:
                first = await self._in_thread(self._answer_to, run_id, question)
                raise AnsweredBefore(str(error), first) from None
            except LeaseHeld:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LEASE_LOOK_MAX_S)

    def _answer_to(self, run_id: str, name: str) -> Answer | None:
        try:
            return answer_to(self._reader, run_id, name)
        except PaorError:
            return None

    # -- driving ---------------------------------------------------------------------------------------------------

    def _go_on(self, run_id: str, *, only: bool = False) -> dict[str, Any]:
        """Begin to drive a run in the background, and return whether that was begun, and how it goes on if not."""
        if self.drives and not only:
            task = asyncio.get_running_loop().create_task(self._drive(run_id))
            self._drives.add(task)
            task.add_done_callback(self._drives.discard)
            return {"drives": True, "next": ""}
        command = f"paor resume {run_id} --journal {shlex.quote(self._reader.path)}"
        return {"drives": False, "next": command}

    async def _drive(self, run_id: str) -> None:
        try:
            await self._driven(run_id)
        except PaorError as error:
            LOGGER.warning("run %s: was answered, and cannot go on: %s", run_id, error)
            await self._in_thread(self._problem, run_id, str(error))
        except Exception as error:  # noqa: BLE001 - a host's options, hooks and functions are foreign code
            LOGGER.exception("run %s: was answered, and cannot go on", run_id)
            text = f"{type(error).__name__}: see the log of the server"
            await self._in_thread(self._problem, run_id, text)

    async def _driven(self, run_id: str) -> None:
        """Go on with a run; once more when somebody has only looked at it with its lease."""
        row: RunRow = await self._in_thread(self._going_on, run_id)
        pause = 0.1
        for _ in range(DRIVE_TRIES):
            try:
                return await self._acting.drive(row)
            except LeaseHeld:
                await asyncio.sleep(pause)
                pause *= 2
        LOGGER.info("run %s: somebody else drives it", run_id)

    def _going_on(self, run_id: str) -> RunRow:
        """Return what goes on when a run was answered: of one that others have called the first of them."""
        return outermost(self._reader, self._reader.run(run_id))
