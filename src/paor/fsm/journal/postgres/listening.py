"""Hearing of signals: one connection and one thread of a process that listen, while anybody wants to know."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from ....states.base.errors import JournalError
from .connecting import SQL, Identifier, PostgresConnection, psycopg

LOOK_S = 0.5
"""Seconds between two looks whether anybody still listens."""


class Listener:
    """
    Calls whoever listens after each signal, and after a connection was lost, since some may have been missed then.

    Args:
        connect: Makes a connection.
        channel: That signals come through.
    """

    def __init__(self, connect: Callable[[], PostgresConnection], channel: str) -> None:
        self._connect, self._channel = connect, channel
        self._lock = threading.Lock()
        self._wakes: dict[int, Callable[[], None]] = {}
        self._next = 0
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def add(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call *wake* from now on; returns what ends it."""
        with self._lock:
            self._next += 1
            number = self._next
            self._wakes[number] = wake
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._listen, name="paor-listen", daemon=True)
                self._thread.start()

        def end() -> None:
            with self._lock:
                self._wakes.pop(number, None)

        return end

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5.0)

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                connection = self._connect()
            except (psycopg.Error, JournalError):
                self._closed.wait(LOOK_S)
                continue
            try:
                connection.raw.execute(SQL("LISTEN {}").format(Identifier(self._channel)))
                self._wake_all()  # only now: what came before is seen by a look, what comes after is heard
                while not self._closed.is_set():
                    if any(True for _ in connection.raw.notifies(timeout=LOOK_S, stop_after=1)):
                        self._wake_all()
            except psycopg.Error:
                self._closed.wait(LOOK_S)
            finally:
                connection.close()

    def _wake_all(self) -> None:
        with self._lock:
            wakes = list(self._wakes.values())
        for wake in wakes:
            with suppress(
                Exception
            ):  # of one whose event loop has ended, for one: the others are woken all the same
                wake()
