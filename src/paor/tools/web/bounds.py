"""
What bounds a request of the web tools: its deadline, what is refused, and how long a name may take to resolve.

Free of httpx2, so that the tools can be described and their names imported without the extra ``web``.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence

from ...states.base.errors import ToolError

Resolver = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host for a port; raises `OSError` when it has none."""

ADDRESSES = 8
"""Addresses of one name that are tried."""


class AddressRefused(ToolError):
    """A URL that must not be fetched, as the policy or the site's robots.txt says."""


class Deadline:
    """
    A point in time after which nothing more is waited for.

    Args:
        seconds: From now.
        within: Another deadline that holds too.
    """

    def __init__(self, seconds: float, within: Deadline | None = None) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        if within is not None and within._end < self._end:
            self._end, self.seconds = within._end, within.seconds

    @property
    def left(self) -> float:
        """Seconds that are left; 0 when none are."""
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise `ToolError` when there is no time left."""
        if not self.left:
            raise ToolError(f"took longer than {self.seconds:g} seconds")

    def wait(self, seconds: float) -> None:
        """Sleep, or raise `ToolError` at once when it would take longer than there is time."""
        if seconds > self.left:
            raise ToolError(f"the site is asked slowly, and {self.seconds:g} seconds are not enough")
        if seconds > 0:
            time.sleep(seconds)

    def timeout(self, seconds: float | None) -> float:
        """Return *seconds* or what is left, whichever is less; raise `ToolError` when nothing is left."""
        self.check()
        return self.left if seconds is None else min(seconds, self.left)


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of *host* as the system knows them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def resolved_within(resolver: Resolver, host: str, port: int, timeout: float) -> Sequence[str]:
    """
    Call *resolver* for at most *timeout* seconds; one that hangs goes on in a thread that nobody waits for.

    Raises:
        ToolError: It found nothing, or not in time.
    """
    answers: list[Sequence[str]] = []

    def ask() -> None:
        try:
            answers.append(resolver(host, port))
        except Exception:  # noqa: BLE001 - a host's own resolver may raise anything
            answers.append(())

    thread = threading.Thread(target=ask, name="paor-resolve", daemon=True)
    thread.start()
    thread.join(timeout)
    if not answers:
        raise ToolError(f"the name {host} was not resolved in time")
    if not answers[0]:
        raise ToolError(f"the name {host} is not known")
    return answers[0][:ADDRESSES]
