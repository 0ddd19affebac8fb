"""How the web tools behave towards sites: robots.txt, a pace for each host, and no page fetched twice in a row."""

from __future__ import annotations

import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from .settings import PRODUCT

Value = TypeVar("Value")

ROBOTS_BYTES = 512_000
"""Bytes of robots.txt that are read; the rest is ignored. Source: RFC 9309 asks for 500 KiB at least."""

_RULE_CHARS = 2000
"""A longer line holds no rule for a URL that is fetched."""


class Cache(Generic[Value]):
    """
    Values by key, bounded in number, bytes and age; the longest unused ones go first. Safe between threads.

    Args:
        entries: How many are kept.
        size: Bytes of all together.
        seconds: How long one is kept.
    """

    def __init__(self, entries: int, size: int, seconds: float) -> None:
        self._entries, self._size, self._seconds = entries, size, seconds
        self._values: OrderedDict[object, tuple[float, int, Value]] = OrderedDict()
        self._used = 0
        self._lock = threading.Lock()

    def get(self, key: object) -> Value | None:
        """Return what is under *key*, or None when there is nothing or it is too old."""
        with self._lock:
            kept_at, _, value = self._values.get(key, (-math.inf, 0, None))
            if time.monotonic() - kept_at > self._seconds:
                self._drop(key)
                return None
            self._values.move_to_end(key)
            return value

    def put(self, key: object, value: Value, size: int = 0) -> None:
        """Keep *value*; one that is larger than all the room is not kept."""
        with self._lock:
            self._drop(key)
            if size > self._size or not self._entries or not self._seconds:
                return
            self._values[key] = (time.monotonic(), size, value)
            self._used += size
            while len(self._values) > self._entries or self._used > self._size:
                self._drop(next(iter(self._values)))

    def _drop(self, key: object) -> None:
        if key in self._values:
            self._used -= self._values.pop(key)[1]


@dataclass(slots=True)
class Pace:
    """
    One request to a host, then a pause. Safe between threads.

    Attributes:
        hosts_max: Hosts that are remembered; the oldest go first, and none that is still waited for.
    """

    hosts_max: int = 1000
    _next: OrderedDict[str, float] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def pause(self, host: str, interval_s: float, longest_s: float) -> float:
        """
        Take the next turn at *host* and return the seconds until it comes.

        A turn that comes later than *longest_s* is not taken, so that who does not wait for it delays nobody.
        """
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next.pop(host, 0.0))
            self._next[host] = turn + interval_s if turn - now <= longest_s else turn
            while len(self._next) > self.hosts_max and next(iter(self._next.values())) <= now:
                self._next.popitem(last=False)
            return turn - now


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """
    What a site's robots.txt says.

    Attributes:
        allows: Whether a URL may be fetched.
        delay_s: Crawl-delay; 0 without one.
    """

    allows: Callable[[str], bool]
    delay_s: float = 0.0


def rules_of(status: int, body: bytes) -> RobotsRules:
    """
    Return the rules that an answer for ``/robots.txt`` means.

    No such file (any 4xx but 429): everything is allowed; a server that is not able to tell: nothing is.

    Source: RFC 9309, section 2.3.1.
    """
    if 400 <= status < 500 and status != 429:
        return RobotsRules(lambda url: True)
    if status != 200:
        return RobotsRules(lambda url: False)
    from protego import Protego

    text = body[:ROBOTS_BYTES].decode("utf-8", "replace")
    lines = [line for line in re.split(r"\r\n|\r|\n", text) if len(line) <= _RULE_CHARS]
    parsed = Protego.parse("\n".join(lines))
    delay = parsed.crawl_delay(PRODUCT)
    return RobotsRules(lambda url: bool(parsed.can_fetch(url, PRODUCT)), float(delay or 0.0))


def robots_url(url: str) -> str:
    """Return where the rules for *url* stand."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/robots.txt"
