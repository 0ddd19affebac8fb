"""
What is new in a journal, kept for a while for all who listen: one thread looks for everybody, and only while somebody listens.

What is told is read once. A listener has nothing but a place in it: one that is slow falls behind what is kept and reads the rows from
the journal again. It costs no memory, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence, Sized
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from .backend import ChangeWatch

KEPT = 1024
"""Items of a feed that are kept for those who listen."""

KEPT_BYTES = 1 << 20
"""Size of the items of a feed that are kept, as `len` gives it."""

T = TypeVar("T", bound=Sized)


class Waker(Protocol):
    """A listener, as far as others have to wake it."""

    def wake(self) -> None:
        """Wake it, from any thread."""


class ThreadWaker:
    """Wakes a thread that listens."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def wake(self) -> None:
        """See `Waker.wake`."""
        self._event.set()

    def wait(self, seconds: float | None) -> bool:
        """Return whether it was woken within *seconds*; None waits for as long as it takes."""
        woken = self._event.wait(seconds)
        self._event.clear()
        return woken


class LoopWaker:
    """Wakes a task of the running event loop that listens."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._is_woken = False

    def wake(self) -> None:
        """See `Waker.wake`; once is enough until it has been seen."""
        if self._is_woken:
            return
        self._is_woken = True
        with suppress(RuntimeError):  # its loop has been closed
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: float | None) -> bool:
        """Return whether it was woken within *seconds*; None waits for as long as it takes."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        self._event.clear()
        self._is_woken = False  # before the listener looks: what is told from here on wakes it again
        return True


class Feed(Generic[T]):
    """
    What is told to all who listen to one thing.

    What was told is replaced and never changed, so any thread may read it.

    Args:
        last: Number of the newest item, told or not.

    Attributes:
        error: Why what comes next cannot be read.
    """

    def __init__(self, last: int) -> None:
        self.last = last
        self.error: Exception | None = None
        self.kept: tuple[tuple[int, T], ...] = ()
        self._size = 0  # of those that are kept
        self.listeners: set[Waker] = set()

    def tell(self, items: Sequence[tuple[int, T]]) -> None:
        """Keep items and wake all who listen; of items that do not follow those before, those before are forgotten."""
        if items:
            follows = self.kept and items[0][0] == self.last + 1
            before, size = (self.kept, self._size) if follows else ((), 0)
            kept = (*before, *items)
            size += sum([len(told) for _, told in items])
            dropped = 0  # from the oldest on, so that each item is looked at twice, however many are kept
            while len(kept) - dropped > KEPT or size > KEPT_BYTES:
                size -= len(kept[dropped][1])
                dropped += 1
            self.kept, self._size, self.last = kept[dropped:], size, items[-1][0]
        self.wake()

    def wake(self) -> None:
        """Have all who listen look."""
        for listener in tuple(self.listeners):
            listener.wake()

    def is_after(self, number: int) -> bool:
        """Return whether an item comes after one of them."""
        return self.last > number

    def after(self, number: int) -> list[tuple[int, T]] | None:
        """Return the items after one of them; None when not all of them are kept."""
        kept = self.kept
        if number >= self.last:
            return []
        if not kept or kept[0][0] > number + 1:
            return None
        return [told for told in kept if told[0] > number]


class Lookout:
    """
    The thread that looks at a journal while anybody listens.

    Args:
        name: Of the thread.
        watch: Gives what notices that the journal was written.
        tell: Tells what is new, and returns whether to look again although nothing was written; called in the thread.
        is_unheard: Returns whether nobody listens any more, so that the thread ends; asked under the lock.
        failed: Called with what `tell` has raised, once as long as it raises the same.
        lock: Under which listeners come and go.
        is_wanted: Returns whether anybody listens to a run that has a new row.
    """

    def __init__(
        self,
        name: str,
        watch: Callable[[], ChangeWatch],
        tell: Callable[[ChangeWatch], bool],
        is_unheard: Callable[[], bool],
        failed: Callable[[Exception], None],
        lock: threading.Lock,
        is_wanted: Callable[[int], bool] = lambda run: True,
    ) -> None:
        self._name, self._watch, self._tell, self._is_wanted = name, watch, tell, is_wanted
        self._is_unheard, self._failed, self._lock = is_unheard, failed, lock
        self._stop, self._again = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Look from now on, first of all at what is there; called under the lock."""
        # what changed before may have been looked at already, and not for whoever has just come
        self._again.set()
        if self._thread is None and not self.is_closing():
            self._thread = threading.Thread(target=self._look_on, name=self._name, daemon=True)
            self._thread.start()

    def is_closing(self) -> bool:
        """Return whether it looks no more."""
        return self._stop.is_set()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._again.set()

    def _written(self, run: int | None) -> None:
        if run is None or self._is_wanted(run):
            self._again.set()

    def _look_on(self) -> None:
        watch, trouble = self._watch(), ""
        end_hearing = watch.hear(self._written)
        try:
            while not self._stop.wait(watch.pace_s):
                self._again.wait(watch.look_s - watch.pace_s)
                with self._lock:
                    if self._is_unheard():
                        self._thread = None
                        return
                if not (watch.changed() or self._again.is_set()):
                    continue
                self._again.clear()
                try:
                    if self._tell(watch):
                        self._again.set()
                    trouble = ""
                except Exception as error:  # noqa: BLE001 - nobody would be told anything any more
                    if self.is_closing():
                        return
                    if str(error) != trouble:
                        self._failed(error)
                    trouble = str(error)
                    watch.close()
        finally:
            end_hearing()
            watch.close()
