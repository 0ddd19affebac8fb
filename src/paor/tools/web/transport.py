"""
Connections of the web tools: the address that was checked is the one that is connected to.

A name is resolved once for each connection; every address it has is checked, and the connection goes to one of
those by number. So a name server that answers differently the second time (DNS rebinding) gains nothing. TLS still
checks the certificate against the name. Proxies of the environment are not used: they would resolve names again.
Everything is bounded by a `Deadline`, also a server that sends one byte now and then.

Imported with the first request: its classes derive from those of httpx2 and httpcore2, which the extra ``web`` installs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import httpcore2
import httpx2

from ...states.settings.policy import Policy
from ..policy import unsafe_address
from .bounds import AddressRefused, Deadline, Resolver, resolve, resolved_within

if TYPE_CHECKING:
    import ssl


class CheckedBackend(httpcore2.NetworkBackend):
    """
    Connects to checked addresses only.

    Args:
        policy: Whose `private_hosts` decides on addresses.
        deadline: Of every operation.
        resolver: Finds addresses; the system's by default.
    """

    def __init__(self, policy: Policy, deadline: Deadline, resolver: Resolver = resolve) -> None:
        self._policy = policy
        self._deadline = deadline
        self._resolver = resolver
        self._sockets = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """
        Connect to the first address of *host* that answers.

        Raises:
            Refused: One of its addresses is private, and the policy does not allow that.
        """
        addresses = resolved_within(self._resolver, host, port, self._deadline.timeout(timeout))
        if any(unsafe_address(self._policy, address) for address in addresses):
            raise AddressRefused("names a private address")
        error: Exception | None = None
        for address in addresses:
            try:
                stream = self._sockets.connect_tcp(
                    address, port, self._deadline.timeout(timeout), local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as failed:
                error = error or failed
                continue
            return _Stream(stream, self._deadline)
        raise error or httpcore2.ConnectError("no address")


class _Stream(httpcore2.NetworkStream):
    """A connection on which no operation outlives the deadline."""

    def __init__(self, stream: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.timeout(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.timeout(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        limit = self._deadline.timeout(timeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, limit), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def checked_transport(backend: CheckedBackend) -> httpx2.HTTPTransport:
    """Return the transport of httpx2 over *backend*, without proxies."""
    transport = httpx2.HTTPTransport(verify=_certificates(), trust_env=False)
    # httpx2 takes no network backend, so its pool is replaced, before it has a connection
    transport._pool = httpcore2.ConnectionPool(
        ssl_context=_certificates(), max_connections=2, keepalive_expiry=5.0, network_backend=backend
    )
    return transport


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates; read once, since that takes tens of milliseconds."""
    return httpx2.create_ssl_context()


TROUBLE = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.CookieConflict)
"""Errors of a request over a checked transport."""


def fault_words(error: Exception) -> str:
    """Return what went wrong with a request in a few words, without anything that a server said."""
    if isinstance(error, httpx2.TimeoutException):
        return "the server did not answer in time"
    if isinstance(error, httpx2.DecodingError):
        return "the page is packed and damaged"
    if isinstance(error, httpx2.ConnectError):
        tls = "certificate" in str(error).lower() or "ssl" in str(error).lower()
        return "the server's certificate is not valid" if tls else "no connection to the server"
    if isinstance(error, httpx2.InvalidURL):
        return "is not a valid URL"
    return f"the server's answer was cut or is not HTTP ({type(error).__name__})"
