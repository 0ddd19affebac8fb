"""
What the model clients are given, checked: numbers, addresses, price lists; and the port of their time and chance.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from ..states.errors import UsageError
from .prices import Prices, prices_of

PRICES_BYTES = 4_000_000


class Port(Protocol):
    """Where a client's time and chance come from."""

    def now(self) -> float:
        """Return seconds of a clock that never goes back."""
        ...

    def wall(self) -> float:
        """Return seconds since the epoch."""
        ...

    def jitter(self) -> float:
        """Return a number from 0 to 1."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    async def asleep(self, seconds: float) -> None:
        """Wait without blocking the event loop."""
        ...


class SystemPort:
    """The machine's clocks."""

    def now(self) -> float:
        """Return the monotonic clock."""
        return time.monotonic()

    def wall(self) -> float:
        """Return the wall clock."""
        return time.time()

    def jitter(self) -> float:
        """Return a random number."""
        return random.random()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        """Sleep on the event loop."""
        await asyncio.sleep(seconds)


def whole(value: object, name: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise UsageError(f"{name} must be a whole number from {least:,} to {most:,}, not {value!r}")
    return value


def number(value: object, name: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise UsageError(f"{name} must be a number from {least:,} to {most:,}, not {value!r}")
    return value


def checked_url(url: str) -> str:
    """
    Return a server's address if it is one.

    Raises:
        UsageError: It is not an http or https URL with a host.
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable():
        raise UsageError(
            "base_url must be an http or https URL with a host, such as http://127.0.0.1:8080/v1"
        )
    return url


def shown_url(url: str) -> str:
    """Return an address as it may be shown: without user, password and query."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def is_below(url: str, hosts: tuple[str, ...]) -> bool:
    host = (urlsplit(url).hostname or "").lower()
    return any(host == name or host.endswith("." + name) for name in hosts)


def price_list(given: Mapping[str, Any] | str | os.PathLike[str] | None) -> Prices:
    """
    Return the price list: *given* as data or a file, else that of ``PAOR_PRICES``, else the shipped one.

    Raises:
        UsageError: It cannot be read or is none.
    """
    if isinstance(given, Mapping):
        data = given if "models" in given else {"models": dict(given)}
        return prices_of(json.dumps(data, default=str), "prices")
    path = given if given is not None else os.environ.get("PAOR_PRICES") or None
    if path is None:
        shipped = Path(__file__).with_name("prices.json")
        return prices_of(shipped.read_text(encoding="utf-8"), "the shipped price list", own=False)
    try:
        with open(path, "rb") as file:
            text = file.read(PRICES_BYTES + 1).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"prices {os.fspath(path)}: is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"prices {os.fspath(path)}: cannot be read ({getattr(error, 'strerror', None) or error})"
        ) from None
    return prices_of(text[: PRICES_BYTES + 1], f"prices {os.fspath(path)}")
