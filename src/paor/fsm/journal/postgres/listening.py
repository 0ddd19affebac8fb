"""Hearing of notifications: one connection and one thread of a process for each channel, while anybody wants to know."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from ....states.base.errors import JournalError
from .connecting import SQL, Identifier, PostgresConnection, psycopg

LOOK_S = 0.5
"""Seconds between two looks whether anybody still listens."""

AWAY_S = 30.0
"""Seconds at most between two tries to listen: each failure doubles the time, from `LOOK_S`. A standby takes no `LISTEN` at all."""


class Listener:
    """
    Calls each listener with what a notification says, and with an empty text after a connection was made: some may have been missed before.

    Args:
        connect: Makes a connection.
        channel: That notifications come through.
        key: Of an advisory lock that is shared by all who listen, so that nobody is notified while none does; None for none.
    """

    def __init__(
        self, connect: Callable[[], PostgresConnection], channel: str, key: int | None = None
    ) -> None:
        self._connect, self._channel, self._key = connect, channel, key
        self._lock = threading.Lock()
        self._wakes: dict[int, Callable[[str], None]] = {}
        self._next = 0
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def add(self, wake: Callable[[str], None]) -> Callable[[], None]:
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

    def _is_unheard(self) -> bool:
        """Return whether nobody listens any more; then the thread ends, and the next listener has one of its own."""
        with self._lock:
            if self._closed.is_set() or not self._wakes:
                self._thread = None
            return self._thread is None

    def _listen(self) -> None:
        away_s = LOOK_S
        while not self._is_unheard():
            try:
                connection = self._connect()
                try:
                    if self._key is not None:
                        connection.execute("SELECT pg_advisory_lock_shared(?)", (self._key,))
                    connection.raw.execute(SQL("LISTEN {}").format(Identifier(self._channel)))
                    away_s = LOOK_S
                    self._wake_all(
                        ""
                    )  # only now: what came before is seen by a look, what comes after is heard
                    while not self._is_unheard():
                        for notification in connection.raw.notifies(timeout=LOOK_S, stop_after=1):
                            self._wake_all(notification.payload)
                    return
                finally:
                    connection.close()
            except (psycopg.Error, JournalError):
                self._closed.wait(away_s)
                away_s = min(2 * away_s, AWAY_S)

    def _wake_all(self, payload: str) -> None:
        with self._lock:
            wakes = list(self._wakes.values())
        for wake in wakes:
            with suppress(
                Exception
            ):  # of one whose event loop has ended, for one: the others are woken all the same
                wake(payload)
