"""
The edge of the model clients that knows the SDKs' HTTP library: bodies of bounded size, errors as faults, quiet logs.

Imported only together with an SDK, since `httpx2` comes with it.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import lru_cache
from typing import Any

import httpx2

from .wire.faults import Fault, one_line, status_fault
from .wire.secrets import Scrubber

BODY_BYTES = 32 * 2**20
"""Most bytes of a response, unpacked."""
ERROR_BYTES = 64 * 2**10
"""How much of an error's body is read; what follows is not asked for."""
_CHUNK = 64 * 2**10


class BodyTooLarge(Exception):
    """A response has more bytes than are taken."""


class BodyUnreadable(Exception):
    """A response is packed in a form that cannot be unpacked."""


class _Unpacker:
    """Counts and unpacks the bytes of one response; never holds more than one piece of it."""

    def __init__(self, response: httpx2.Response) -> None:
        self._quiet = response.status_code >= 300
        self._left = ERROR_BYTES if self._quiet else BODY_BYTES
        packing = response.headers.pop("content-encoding", "identity").strip().lower() or "identity"
        self._zip = zlib.decompressobj(wbits=47) if packing in ("gzip", "x-gzip", "deflate") else None
        self._unknown = self._zip is None and packing != "identity"

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what *data* unpacks to; an error's body just ends at its limit."""
        if self._unknown:
            raise BodyUnreadable("the response is packed in a way that was not asked for")
        if self._zip is None:
            yield self._counted(data)
            return
        try:
            while self._left or not self._quiet:
                piece = self._zip.decompress(data, _CHUNK)
                yield self._counted(piece)
                data = self._zip.unconsumed_tail
                if not data and len(piece) < _CHUNK:  # a full piece may not have been all of it
                    break
        except zlib.error:
            raise BodyUnreadable("the response cannot be unpacked") from None

    def _counted(self, data: bytes) -> bytes:
        if len(data) > self._left and not self._quiet:
            raise BodyTooLarge(f"the response has more than {BODY_BYTES:,} bytes")
        data = data[: self._left]
        self._left -= len(data)
        return data

    @property
    def full(self) -> bool:
        """Whether nothing more is wanted."""
        return self._quiet and not self._left


class _Bounded(httpx2.SyncByteStream):
    def __init__(self, response: httpx2.Response) -> None:
        stream = response.stream
        assert isinstance(stream, httpx2.SyncByteStream)
        self._stream, self._unpacker = stream, _Unpacker(response)

    def __iter__(self) -> Iterator[bytes]:
        for data in self._stream:
            yield from self._unpacker.pieces(data)
            if self._unpacker.full:
                return

    def close(self) -> None:
        self._stream.close()


class _AsyncBounded(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response) -> None:
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        self._stream, self._unpacker = stream, _Unpacker(response)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._stream:
            for piece in self._unpacker.pieces(data):
                yield piece
            if self._unpacker.full:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


def bound(response: httpx2.Response) -> None:
    """Bound a response's body; an event hook of the sync HTTP clients."""
    response.stream = _Bounded(response)


async def abound(response: httpx2.Response) -> None:
    """Do the same for the async ones."""
    response.stream = _AsyncBounded(response)


@lru_cache(maxsize=1)
def trust() -> ssl.SSLContext:
    """Return the certificates that servers are checked against, loaded once for all clients."""
    return httpx2.create_ssl_context()


# -- errors ------------------------------------------------------------------------------------------------------


def fault_of(error: BaseException, now_s: float, *, begun: bool) -> Fault:
    """
    Return what an exception of an SDK or its HTTP library means.

    Args:
        error: As it was raised.
        now_s: Seconds since the epoch, for dates in headers.
        begun: Whether a response with status 200 had begun.
    """
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None)
    if isinstance(response, httpx2.Response) and isinstance(status, int) and not begun:
        headers = {name.lower(): value for name, value in response.headers.items()}
        return status_fault(status, getattr(error, "body", None), headers, now_s)
    if isinstance(error, BodyTooLarge | BodyUnreadable):
        return Fault("bad_body", str(error), isinstance(error, BodyUnreadable))
    cause = error
    while not isinstance(cause, httpx2.HTTPError | httpx2.InvalidURL) and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return Fault("unreachable", f"no connection{_place(cause)}: {_reason(cause)}", True)
    if isinstance(cause, httpx2.TimeoutException):
        return Fault("timeout", "the server did not answer in time", True)
    if isinstance(cause, httpx2.TransportError):
        if begun:
            return Fault("cut_stream", f"the connection broke within the reply: {_told(cause)}", True)
        return Fault("unreachable", f"the connection broke: {_told(cause)}", True)
    if isinstance(cause, httpx2.HTTPError | httpx2.InvalidURL):
        return Fault("unreachable", _told(cause))
    return Fault("unexpected", f"{type(error).__name__}: {_told(error)}")


def _place(error: httpx2.TransportError) -> str:
    """Return to which server there is no connection, as far as that is known."""
    try:
        url = error.request.url
    except RuntimeError:
        return ""
    return f" to {url.host}:{url.port or url.scheme}"


def _reason(error: BaseException) -> str:
    """Return what the system said, which stands below what the libraries make of it."""
    seen, place = error, error
    for _ in range(10):
        below = place.__cause__ or place.__context__
        if isinstance(below, BaseExceptionGroup):
            below = below.exceptions[0]
        if below is None:
            break
        place = below
        if isinstance(place, OSError) and place.strerror:
            seen = place
    if not isinstance(seen, OSError) or seen.errno is None:
        return _told(error)
    named = seen.errno > 0  # names that are not found have codes below 0, which only they know
    return one_line((os.strerror(seen.errno) if named else seen.strerror) or "")


def _told(error: BaseException) -> str:
    return one_line(str(error)) or type(error).__name__


# -- logs --------------------------------------------------------------------------------------------------------

_LOGGERS = ("openai", "anthropic", "httpx2", "httpcore2")
_LATER = tuple(f"httpcore2.{name}" for name in ("connection", "http11", "http2", "proxy", "socks"))
"""Loggers that come into being with the first connection."""


class _KeyFilter(logging.Filter):
    """Takes keys out of what the SDKs log: at DEBUG they log headers, and a server can repeat a key in one."""

    def __init__(self) -> None:
        super().__init__()
        self._secrets: frozenset[str] = frozenset()
        self._scrub = Scrubber()
        self._lock = threading.Lock()
        self._formatter = logging.Formatter()

    def add(self, secrets: Iterable[str]) -> None:
        """Take out these, too."""
        with self._lock:
            if not self._secrets.issuperset(secrets):
                self._secrets |= set(secrets)
                self._scrub = Scrubber(sorted(self._secrets))

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace what a record says by the same without keys."""
        text = record.getMessage()
        clean = self._scrub(text)
        if clean != text:
            record.msg, record.args = clean, ()
        info: Any = record.exc_info
        if info:
            record.exc_text = self._scrub(self._formatter.formatException(info))
            record.exc_info = None
        return True


_FILTER = _KeyFilter()


def quiet(secrets: Iterable[str]) -> None:
    """Have the loggers of the SDKs and of their HTTP library leave *secrets* out, those of this process so far."""
    _FILTER.add(set(secrets))
    known = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in _LOGGERS]
    for name in {*known, *_LOGGERS, *_LATER}:
        logger = logging.getLogger(name)
        if _FILTER not in logger.filters:
            logger.addFilter(_FILTER)
