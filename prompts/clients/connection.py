"""
One attempt over an SDK, sync and async: opened, read, and what it came to; nothing that a server does raises.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from ..model import CallStopped, ModelCall, request_label
from .settings import Port
from .wire.exchange import Exchange
from .wire.faults import Fault
from .wire.interface import Heard, Interface
from .wire.secrets import Scrubber

CONNECT_S = 10.0
"""Longest time to connect."""


class Attempt(Struct, frozen=True):
    """One request to make: its body, the seconds that it may take, and who hears its text."""

    body: dict[str, Any]
    timeout_s: float
    call: ModelCall


class Connection(ABC):
    """
    The SDK's clients of one model.

    Args:
        port: Time and chance.
        secrets: What must not get out.
        client, async_client: Made by the host; None: made on first use, the async ones one for each event loop.

    Attributes:
        modules: Of the SDK, imported before the first attempt so that no time of it is spent on that.
    """

    modules: tuple[str, ...] = ()

    def __init__(self, port: Port, secrets: frozenset[str], client: Any, async_client: Any) -> None:
        self._port = port
        self._secrets = secrets
        self._scrub = Scrubber(sorted(secrets))
        self._client, self._async_given = client, async_client
        self._async_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._prepared = False

    # -- what a provider brings ------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _interface(self) -> Interface:
        """Which interface the server speaks."""

    @abstractmethod
    def _made(self, *, is_async: bool) -> Any:
        """Return a client of the SDK, its own retries off."""

    @abstractmethod
    def _open(self, client: Any, attempt: Attempt) -> Any:
        """Return the context manager of the response to an attempt, its body not read."""

    # -- one attempt -----------------------------------------------------------------------------------------------

    def _ready(self) -> None:
        """Do what is done once before the first attempt: the SDK is imported, its logs are held back."""
        with self._lock:
            if not self._prepared:
                for module in self.modules:
                    import_module(module)
                from .http import quiet

                quiet(self._secrets)
                self._prepared = True

    def _sync_client(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._made(is_async=False)
            return self._client

    def _async_client(self) -> Any:
        if self._async_given is not None:
            return self._async_given
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._async_clients:
                self._async_clients[loop] = self._made(is_async=True)
            return self._async_clients[loop]

    def _attempted(self, attempt: Attempt) -> tuple[Heard | Fault, str | None]:
        """Make one attempt and return what it came to, with the server's id of it; never raises for a server."""
        exchange: Exchange | None = None
        request_id: str | None = None
        broken: Fault | None = None
        try:
            self._ready()
            opened: AbstractContextManager[Any] = self._open(self._sync_client(), attempt)
            end = self._port.now() + attempt.timeout_s
            with opened as response:
                exchange, request_id = self._begun(response, attempt)
                for data in response.iter_bytes():
                    if attempt.call.is_cancelled is not None and attempt.call.is_cancelled():
                        raise CallStopped("the run is cancelled")
                    exchange.feed(data)
                    if exchange.done:
                        break
                    if self._port.now() > end:
                        broken = Fault("timeout", "the reply took too long", True)
                        break
        except CallStopped:
            raise
        except Exception as error:  # whatever a foreign library raises is a fault of this attempt
            broken, told = self._broken(error, begun=exchange is not None)
            request_id = request_id or told
        return self._ended(exchange, broken, request_id)

    async def _aattempted(self, attempt: Attempt) -> tuple[Heard | Fault, str | None]:
        """Do the same without blocking the event loop."""
        exchange: Exchange | None = None
        request_id: str | None = None
        broken: Fault | None = None
        try:
            if not self._prepared:
                await asyncio.to_thread(self._ready)  # an import of seconds
            opened: AbstractAsyncContextManager[Any] = self._open(self._async_client(), attempt)
            async with asyncio.timeout(attempt.timeout_s):
                async with opened as response:
                    exchange, request_id = self._begun(response, attempt)
                    async for data in response.iter_bytes():
                        exchange.feed(data)
                        if exchange.done:
                            break
        except TimeoutError:
            broken = Fault("timeout", "the reply took too long", True)
        except Exception as error:  # whatever a foreign library raises is a fault of this attempt
            broken, told = self._broken(error, begun=exchange is not None)
            request_id = request_id or told
        return self._ended(exchange, broken, request_id)

    def _begun(self, response: Any, attempt: Attempt) -> tuple[Exchange, str | None]:
        headers = {name.lower(): value for name, value in response.headers.items()}
        exchange = Exchange(self._interface, headers, attempt.call.on_text, self._scrub)
        return exchange, self._label(headers)

    def _label(self, headers: Mapping[str, str]) -> str | None:
        """Return the id in a response's headers, if it is one and no secret."""
        found = headers.get("x-request-id") or headers.get("request-id")
        return request_label(self._scrub(found)) if found else None

    def _broken(self, error: Exception, *, begun: bool) -> tuple[Fault, str | None]:
        from .http import fault_of

        response = getattr(error, "response", None)
        headers = getattr(response, "headers", None)
        label = self._label({name.lower(): value for name, value in headers.items()}) if headers else None
        return fault_of(error, self._port.wall(), begun=begun), label

    def _ended(
        self, exchange: Exchange | None, broken: Fault | None, request_id: str | None
    ) -> tuple[Heard | Fault, str | None]:
        if exchange is None:
            assert broken is not None, "an attempt without a response has a reason"
            return broken, request_id
        result = exchange.end(broken)
        if request_id is None and isinstance(result, Heard):
            request_id = request_label(self._scrub(result.id))
        return result, request_id
