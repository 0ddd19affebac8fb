"""
What a driver tells those who listen to its run in this process: rows once they are durable, and what the model says before that.

A row in which a run waits or ends is told once its driver has let go of the run, so that whoever hears of it can go on with the run.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace

from ..journal.feeds import Feed
from .events import Event, ModelNotice, ModelText

SAID_MAX = 1 << 16
"""Characters of provisional text that are kept of a run while somebody may listen."""

PIECE_MAX = 4096
"""Characters up to which pieces of one reply are kept as one."""

Told = tuple[Event, ...]
"""The events of one row."""


class Speech:
    """
    What models say while they still answer, the newest of it.

    A listener's place in it is a number of characters; a notice counts as one.
    """

    def __init__(self) -> None:
        self.start = self.end = 0
        self._pieces: deque[tuple[int, ModelText | ModelNotice]] = deque()

    def add(self, event: ModelText | ModelNotice) -> None:
        """Keep *event*; text of the same reply is one with what came before."""
        size, pieces = size_of(event), self._pieces
        last = pieces[-1][1] if pieces else None
        if isinstance(event, ModelText) and isinstance(last, ModelText) and _belong(last, event):
            pieces[-1] = pieces[-1][0], replace(last, text=last.text + event.text)
        elif size:
            pieces.append((self.end, event))
        self.end += size
        while pieces and self.end - self.start > SAID_MAX:
            self.start += size_of(pieces.popleft()[1])

    def first_after(self, seq: int) -> int:
        """Return the place of the first piece of a row after *seq*."""
        return next((at for at, event in self._pieces if event.seq > seq), self.end)

    def after(self, place: int, seq: int | None = None) -> tuple[list[ModelText | ModelNotice], int]:
        """Return what comes after a place, up to row *seq* if there is one, and the place after that."""
        found: list[ModelText | ModelNotice] = []
        for at, event in self._pieces:
            end = at + size_of(event)
            if end <= place:
                continue
            if seq is not None and event.seq > seq:
                break
            if isinstance(event, ModelText) and at < place:
                event = replace(event, text=event.text[place - at :])
            found.append(event)
            place = end
        return found, place


def size_of(event: ModelText | ModelNotice) -> int:
    """Return how many places a piece takes: one a character, and one for a notice."""
    return len(event.text) if isinstance(event, ModelText) else 1


def _belong(one: ModelText, other: ModelText) -> bool:
    same = (one.run_id, one.seq, one.request) == (other.run_id, other.seq, other.request)
    return same and len(one.text) + len(other.text) <= PIECE_MAX


class RunFeed(Feed[Told]):
    """
    What is told of one run in this process.

    Attributes:
        drivers: How many drive it here now: one, or two while one hands it over.
        speech: What its model says.
    """

    def __init__(self, last: int) -> None:
        super().__init__(last)
        self.drivers = 0
        self.speech = Speech()


class Channel:
    """
    From the driver of a run to those who listen.

    Args:
        feed: Of the run.
        lock: Under which the feed changes.
    """

    def __init__(self, feed: RunFeed, lock: threading.Lock) -> None:
        self.feed, self._lock = feed, lock
        self.held: list[tuple[int, Told]] = []

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self.feed.listeners)

    def tell(self, seq: int, events: Told, *, last: bool) -> None:
        """Tell a row; the last one before the driver lets go of the run, and what follows it, when it has."""
        if last or self.held:
            self.held.append((seq, events))
            return
        with self._lock:
            self.feed.tell([(seq, events)])

    def say(self, event: ModelText | ModelNotice) -> None:
        """Tell what the model says."""
        with self._lock:
            self.feed.speech.add(event)
            self.feed.wake()
