"""
Noticing while a call is open that its run is to be cancelled.

A driver sees a request to cancel with its next row. A call that takes long would make it wait, so whoever can break a
call off (the async driver; the sync one, while it runs an async tool) has the run watched meanwhile: one thread for a
journal looks at the flags of all watched runs in one query, and only while there are any.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any

from .backend import Backend


class Interrupted(Exception):
    """The outcome of a call whose run was cancelled meanwhile; *left*: it did not end, and was left running."""

    def __init__(self, *, left: bool = False) -> None:
        super().__init__()
        self.left = left


class CancelWatch:
    """
    The watched runs of one journal in this process, and whether a run is to be cancelled.

    Args:
        backend: That has the flags.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._watched: dict[int, tuple[int, Callable[[], None]]] = {}
        self._lock = threading.Lock()
        self._next = 0
        self._some = threading.Event()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, run: int, notify: Callable[[], None]) -> int:
        """Call *notify*, from another thread and once, when *run* is to be cancelled; returns what `remove` takes."""
        with self._lock:
            self._next += 1
            number = self._next
            self._watched[number] = (run, notify)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look_on, name="paor-cancel", daemon=True)
                self._thread.start()
                self._backend.listen(self.hurry)
            self._some.set()
        return number

    def remove(self, number: int) -> None:
        """Watch no more."""
        with self._lock:
            self._watched.pop(number, None)
            if not self._watched:
                self._some.clear()

    def hurry(self) -> None:
        """Look now: somebody has asked to cancel a run."""
        self._hurry.set()

    def runs_to_cancel(self, *runs: int) -> set[int]:
        """Return which of *runs* are to be cancelled; none when that cannot be read now."""
        return self._backend.runs_to_cancel(runs)

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._some.set()
        self._hurry.set()

    def _look_on(self) -> None:
        while True:
            self._some.wait()
            self._hurry.wait(self._backend.look_s)
            # cleared before the look: a request that is written during it sets the event again, and is seen at once
            self._hurry.clear()
            if self._closed:
                return
            for notify in self._due_callbacks():
                notify()

    def _due_callbacks(self) -> list[Callable[[], None]]:
        """Return what to call, each once."""
        with self._lock:
            runs = {run for run, _ in self._watched.values()}
        chosen = iter(sorted(runs))
        found: set[int] = set()
        while batch := tuple(islice(chosen, 500)):
            found |= self.runs_to_cancel(*batch)
        # looked up again: a call that ended while the file was read is not watched any more, and must not be broken off
        with self._lock:
            numbers = [number for number, (run, _) in self._watched.items() if run in found]
            return [self._watched.pop(number)[1] for number in numbers]


async def breakable(watch: CancelWatch, run: int, call: Awaitable[Any], *, plain: bool = False) -> Any:
    """
    Return the value of *call*; it is cancelled, and so can clean up, when *run* is.

    Args:
        watch: Of the journal that holds the run.
        run: The journal's number of the run.
        call: What to wait for.
        plain: Whatever a call raises that was broken off says no more than that; else its own error counts.

    Raises:
        Interrupted: The run was cancelled, and with it the call.
        CancelledError: The task that drives the run was cancelled.
    """
    import asyncio  # a journal is read without it

    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None, "a driver runs within a task"
    before, fired, over = task.cancelling(), False, False

    def cancel() -> None:
        nonlocal fired
        if not over:
            fired = True
            task.cancel()

    def notify() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(cancel)

    number = watch.add(run, notify)
    try:
        return await call
    except asyncio.CancelledError:
        if not fired or task.cancelling() > before + 1:
            raise
        raise Interrupted from None
    except Exception:
        if fired and plain:
            raise Interrupted from None
        raise
    finally:
        # a `cancel` that is scheduled already runs after this: it must not break off the next call
        over = True
        watch.remove(number)
        if fired:
            task.uncancel()
