"""
What the model clients are given, checked: numbers, addresses, price lists; and the port of their time and chance.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import random
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from ...states.base.errors import UsageError
from ...states.base.secrets import REDACTED, Scrubber
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
    """The machine's clocks and its random numbers."""

    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    jitter = staticmethod(random.random)
    sleep = staticmethod(time.sleep)

    @staticmethod
    async def asleep(seconds: float) -> None:
        """Wait on the event loop."""
        import asyncio  # what reads no more than a key of the environment does without it

        await asyncio.sleep(seconds)


def whole(value: object, name: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise UsageError(f"{name} must be a whole number from {least:,} to {most:,}, not {value!r}")
    return value


def number(value: object, name: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise UsageError(f"{name} must be a number from {least:,} to {most:,}, not {value!r}")
    return value


def one_of(value: object, name: str, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise UsageError(f"{name}={value!r}: use {', '.join(known)}")
    return value


def checked_url(url: str, name: str = "base_url") -> str:
    """
    Return a server's address if it is one; *name* is what it is called where it was given.

    Raises:
        UsageError: It is not an http or https URL with a host.
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable():
        raise UsageError(f"{name} must be an http or https URL with a host, such as http://127.0.0.1:8080/v1")
    return url


def shown_url(url: str) -> str:
    """Return an address as it may be shown: without user, password and query."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    path = "/".join(REDACTED if _is_key(part) else part for part in parts.path.split("/"))
    return f"{parts.scheme}://{parts.hostname}{port}{path}"


_KEY_IN_PATH = re.compile(r"(?=.*[0-9])(?=.*[a-z])(?:.*[0-9a-z]{16}|[0-9a-f-]{24,}$)", re.IGNORECASE)
"""A part of a path that is a key, as gateways have them: a long word without dashes or an id in hex, of letters and digits."""


def _is_key(part: str) -> bool:
    return len(part) < 1000 and _KEY_IN_PATH.match(part) is not None


def url_secrets(url: str, *, keys: bool = False) -> set[str]:
    """
    Return what of an address must not get out: password, the header that it makes, parts of the path that are keys, values of the query.

    Args:
        url: The address.
        keys: Whether only keys count, as their names and their forms show them.
    """
    parts = urlsplit(url)
    secrets = {value for name, value in parse_qsl(parts.query) if not keys or _LOGIN_NAME.search(name)}
    for part in filter(_is_key, parts.path.split("/")):
        secrets |= {part, unquote(part)}
    if parts.password:
        secrets |= {parts.password, unquote(parts.password)}
        secrets.add(f"{unquote(parts.username or '')}:{unquote(parts.password)}")
    return secrets


_SECRET_NAMES = (
    *("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_WEBHOOK_SECRET"),
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_WEBHOOK_SIGNING_KEY"),
)
_HEADER_NAMES = ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS")
_PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_NAMES = (*_SECRET_NAMES, *_HEADER_NAMES, *_PROXY_NAMES)


def environment_secrets(*, keys: bool = False) -> frozenset[str]:
    """Return what the SDKs and their HTTP library take from the environment and send; with *keys* only what is a key by its name."""
    environment = os.environ
    return _secrets_of(tuple((name, environment[name]) for name in _NAMES if name in environment), keys)


@lru_cache(maxsize=8)
def _secrets_of(found: tuple[tuple[str, str], ...], keys: bool) -> frozenset[str]:
    secrets = {value for name, value in found if name in _SECRET_NAMES}
    for name, value in found:
        if name in _HEADER_NAMES:
            for line in value.splitlines():
                header, _, given = line.partition(":")
                secrets |= header_secrets(header, given, keys=keys)
        elif name in _PROXY_NAMES and value:
            with suppress(ValueError):  # no address: the HTTP library says so
                secrets |= url_secrets(value, keys=keys)
    return frozenset(secrets)


_TRACE_HEADER_NAMES = tuple(
    f"OTEL_EXPORTER_OTLP_{kind}HEADERS" for kind in ("", "TRACES_", "METRICS_", "LOGS_")
)


def outgoing_secrets() -> set[str]:
    """Return `environment_secrets` and the headers with which traces are sent: what no text may hold that leaves for another program."""
    secrets = set(environment_secrets())
    for line in ",".join(os.environ.get(name, "") for name in _TRACE_HEADER_NAMES).split(","):
        header, _, value = line.partition("=")
        secrets |= header_secrets(header, value) | header_secrets(header, unquote(value))
    return secrets


_LOGIN_NAME = re.compile("auth|key|token|secret|pass|cookie|credential", re.IGNORECASE)
"""Names of headers of which each word is a secret; a word of any other can be one of everyday language."""


def header_secrets(name: str, value: str, *, keys: bool = False) -> set[str]:
    """
    Return what of a header must not get out: its value, what follows the scheme of a login, and of a login's header each word.

    Args:
        name, value: Of the header.
        keys: Whether nothing counts of a header that is no login by its name.
    """
    if keys and not _LOGIN_NAME.search(name):
        return set()
    value = value.strip()
    scheme, _, given = value.partition(" ")
    secrets = {value, given.strip()}
    if scheme.lower() == "basic":
        with suppress(ValueError):
            login = base64.b64decode(given).decode()
            secrets |= {login, login.partition(":")[2]}
    if _LOGIN_NAME.search(name):
        secrets |= set(re.split(r"[\s,;=\"]+", value))
    return secrets


_CLIENT_NAMES = (
    *("api_key", "admin_api_key", "auth_token", "webhook_secret", "webhook_key"),
    *("_azure_ad_token", "aws_secret_key", "aws_session_token", "access_token"),
)


def client_secrets(client: Any, *, keys: bool = False) -> set[str]:
    """Return the secrets of an SDK's client that a host has made, as far as they stand in it; see `header_secrets`."""
    found = [getattr(client, name, None) for name in _CLIENT_NAMES]
    headers = getattr(client, "_custom_headers", None)
    if isinstance(headers, Mapping):
        found += [value for name, value in headers.items() if not keys or _LOGIN_NAME.search(str(name))]
    secrets = {value for value in found if isinstance(value, str)}
    return secrets | {value.removeprefix("Bearer ") for value in secrets}


def said_scrubber(
    model: object, given: Iterable[str] = (), environment: frozenset[str] | None = None
) -> Scrubber:
    """
    Return what takes the keys of a run's model, those of the environment and *given* secrets out of what tools, people and hosts say.

    Values of headers and addresses that are no keys by their names stay, and short words, such as those that servers of
    one's own are given: a title, a version or ``lm-studio`` stands in many texts.

    Args:
        model: The run's.
        given: Secrets that somebody has answered with.
        environment: The keys of the environment, where they are known already.
    """
    own = getattr(model, "keys", None) or getattr(
        model, "secrets", None
    )  # a host's own model may mean something else by them
    found = {key for key in own if isinstance(key, str)} if isinstance(own, set | frozenset) else set[str]()
    found |= environment_secrets(keys=True) if environment is None else environment
    if not (found or given):
        return _NO_SECRETS
    keys = {key for key in found if _LONG_OR_DIGITS.search(key)}
    return Scrubber(keys.union(given))


_NO_SECRETS = Scrubber()
_LONG_OR_DIGITS = re.compile(r"[0-9]|.{16}")


def is_below(url: str, hosts: tuple[str, ...]) -> bool:
    host = (urlsplit(url).hostname or "").lower()
    return any(host == name or host.endswith("." + name) for name in hosts)


def is_local(url: str) -> bool:
    """Return whether an address is of this machine or its own network: a private address, or a name without a domain."""
    host = (urlsplit(url).hostname or "").lower().rstrip(".")
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal", ".lan"))


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
