"""A store that fails when it is told to: before a call takes place, or after it, so that nobody hears that it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from paor.errors import JournalBusy
from paor.fsm.journal.backend import Backend, Entry, SqlConnection, Values

Fate = Literal["well", "before", "after"]
"""What becomes of a call: it takes place, it does not, or it does and its caller is told that it did not."""


class FaultyBackend:
    """
    Another store with faults of its own; it has all else from that one.

    Args:
        whole: The other store.

    Attributes:
        fates: Of the next writing calls, in order; those after them go well.
        written: How many writing calls there were.
    """

    def __init__(self, whole: Backend) -> None:
        self._whole = whole
        self.fates: list[Fate] = []
        self.written = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    @property
    def reopened(self) -> Callable[[], None]:
        """Called after the other store was opened again."""
        return self._whole.reopened

    @reopened.setter
    def reopened(self, called: Callable[[], None]) -> None:
        self._whole.reopened = called

    def append(self, entries: Sequence[Entry]) -> None:
        """Append, or fail."""
        with self._fated():
            self._whole.append(entries)

    def execute(self, sql: str, values: Values) -> None:
        """Carry out a statement, or fail."""
        with self._fated():
            self._whole.execute(sql, values)

    @contextmanager
    def transaction(self, *, alone: bool = True) -> Iterator[SqlConnection]:
        """Give a transaction that is committed, or fails."""
        with self._fated(), self._whole.transaction(alone=alone) as connection:
            yield connection

    @contextmanager
    def _fated(self) -> Iterator[None]:
        fate: Fate = self.fates.pop(0) if self.fates else "well"
        self.written += 1
        if fate == "before":
            raise JournalBusy("the store failed, and nothing was written")
        yield
        if fate == "after":
            raise JournalBusy("the store failed, and nobody knows what was written")
