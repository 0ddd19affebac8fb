"""
Connections of the web tools: the address that was checked is the one that is connected to.

A name is resolved once for each connection; every address it has is checked, and the connection goes to one of
those by number. So a name server that answers differently the second time (DNS rebinding) gains nothing. TLS still
checks the certificate against the name. Proxies of the environment are not used: they would resolve names again.
Everything is bounded by a `Deadline`, also a server that sends one byte now and then.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import httpcore
import httpx

from ..states.errors import ToolError
from ..states.policy import Policy
from .policy import unsafe_address

if TYPE_CHECKING:
    import ssl

Resolver = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host for a port; raises `OSError` when it has none."""

ADDRESSES = 8
"""Addresses of one name that are tried."""


class Refused(ToolError):
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


class CheckedBackend(httpcore.NetworkBackend):
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
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """
        Connect to the first address of *host* that answers.

        Raises:
            Refused: One of its addresses is private, and the policy does not allow that.
        """
        addresses = resolved_within(self._resolver, host, port, self._deadline.timeout(timeout))
        if any(unsafe_address(self._policy, address) for address in addresses):
            raise Refused("names a private address")
        error: Exception | None = None
        for address in addresses:
            try:
                stream = self._sockets.connect_tcp(
                    address, port, self._deadline.timeout(timeout), local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as failed:
                error = error or failed
                continue
            return _Stream(stream, self._deadline)
        raise error or httpcore.ConnectError("no address")


class _Stream(httpcore.NetworkStream):
    """A connection on which no operation outlives the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
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
    ) -> httpcore.NetworkStream:
        limit = self._deadline.timeout(timeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, limit), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Body(httpx.SyncByteStream):
    """The body of a response on its way from one library to the other."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        self._stream.close()


class CheckedTransport(httpx.BaseTransport):
    """An httpx transport over a `CheckedBackend`; errors of httpcore come through as they are."""

    def __init__(self, backend: CheckedBackend) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=_certificates(), max_connections=2, keepalive_expiry=5.0, network_backend=backend
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        url = request.url
        response = self._pool.handle_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=request.read(),
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response.stream),
            extensions=response.extensions,
        )

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates; read once, since that takes tens of milliseconds."""
    return httpx.create_ssl_context()


TROUBLE = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.CookieConflict,
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
)
"""What a request over `CheckedTransport` can end with."""


def told(error: Exception) -> str:
    """Return what went wrong with a request in a few words, without anything that a server said."""
    if isinstance(error, httpx.TimeoutException | httpcore.TimeoutException):
        return "the server did not answer in time"
    if isinstance(error, httpx.ConnectError | httpcore.ConnectError):
        tls = "certificate" in str(error).lower() or "ssl" in str(error).lower()
        return "the server's certificate is not valid" if tls else "no connection to the server"
    if isinstance(error, httpx.InvalidURL):
        return "is not a valid URL"
    return f"the server's answer was cut or is not HTTP ({type(error).__name__})"
