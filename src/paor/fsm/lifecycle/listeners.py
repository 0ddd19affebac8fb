"""
Listeners: functions of this process that are called whenever an engine releases a run, whichever engine it is.

A test session gathers its coverage so. An engine's own hooks see the events of that engine only; a listener needs no
hand on the engine, and reads the rows itself, from a journal that is still open.
"""

from __future__ import annotations

from collections.abc import Callable

from ..journal.reader import JournalReader
from ..runtime.logs import LOGGER

Listener = Callable[[JournalReader, int, int], None]
"""Called with what reads the journal, the run's number, and the number of the first row that its driver may have written."""

_listeners: list[Listener] = []


def listen(listener: Listener) -> Callable[[], None]:
    """
    Have *listener* called in the driver's thread whenever a run of this process ends, waits, or is left by its driver.

    What it raises is logged and changes nothing.

    Returns:
        A function that ends it; calling that again does nothing.
    """
    _listeners.append(listener)

    def stop() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return stop


def tell(journal: JournalReader, run: int, first: int) -> None:
    """Tell every listener that nobody drives *run* any more; its rows from *first* on are those of that driver."""
    for listener in tuple(_listeners):
        try:
            listener(journal, run, first)
        except Exception:  # a listener is the host's own
            LOGGER.exception("run number %s: a listener raised", run)
