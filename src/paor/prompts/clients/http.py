"""
The edge of the model clients that knows the SDKs' HTTP library: bodies of bounded size, errors as faults, quiet logs.

Imported only together with an SDK, since the extras of both bring `httpx2`.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import httpx2

from ...states.base.secrets import Scrubber
from .wire.faults import TLS_FAILED, AttemptFault, one_line, status_fault, told_fault
from .wire.interface import MALFORMED, bad_body

BODY_BYTES = 32 * 2**20
"""Most bytes of a response, unpacked."""
EVENT_BYTES, EVENT_LINES = 4 * 2**20, 1_000
"""Most bytes and lines of one event of a stream: the Anthropic SDK copies an event anew with each line and each piece."""
ERROR_BYTES = 64 * 2**10
"""How much of an error's body is read; what follows is not asked for."""


_DONE, _DONE_BYTES = re.compile(rb"(?:\A|[\r\n])data: ?\[DONE\]"), 16
"""The last line of a stream of OpenAI's, and how much of the bytes before has to be kept to find it."""


class BodyTooLarge(Exception):
    """A response has more bytes than are taken."""


class Body:
    """
    The bytes of one response on their way to the SDK's reader, which has no bounds.

    It takes a byte order mark off and ends with an empty line, since the reader passes over a first field behind such a
    mark and over a last event without such a line.

    Attributes:
        is_async: Whether it is read on an event loop.
        is_stream: Whether it may be a stream.
        kept: What was not handed on, since it is no stream.
        ended: Whether the response has ended; what cannot be read then was cut off.
        is_done: Whether the server has said that its stream has no more events, as OpenAI's do.
    """

    is_async = False

    def __init__(self, *, is_stream: bool) -> None:
        self.is_stream = is_stream
        self.ended = self.is_done = False
        self._line = b""
        self._bytes = self._event_bytes = self._event_lines = 0
        self._begins: bytes = b""
        self.kept: list[bytes] = []

    def counted(self, data: bytes) -> bytes:
        """Return what of the next bytes goes on to the reader, within the bounds; nothing of a body that is JSON."""
        if not self._bytes:
            data = data.removeprefix(b"\xef\xbb\xbf")
        self._bytes += len(data)
        if self._bytes > BODY_BYTES:
            raise BodyTooLarge(f"the response has more than {BODY_BYTES:,} bytes")
        self._begins = self._begins or data.lstrip()[:1]
        if not self.is_stream or self._begins in (b"{", b"["):
            self.kept.append(data)
            return b""
        self._count_event(data)
        self.is_done = self.is_done or _DONE.search(self._line + data) is not None
        self._line = (self._line + data)[-_DONE_BYTES:]
        return data

    def _count_event(self, data: bytes) -> None:
        """Count the event that goes on with *data*, and each that begins in it; blank lines are where events end."""
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        for place, part in enumerate(lines.split(b"\n\n")):
            if place or lines[:1] == b"\n":
                self._event_bytes = self._event_lines = 0
            self._event_bytes += len(part)
            self._event_lines += part.count(b"\n")
            if self._event_bytes > EVENT_BYTES or self._event_lines > EVENT_LINES:
                raise BodyTooLarge(f"an event has more than {EVENT_BYTES:,} bytes or {EVENT_LINES:,} lines")


class SyncBody(Body, httpx2.SyncByteStream):
    """The same for a thread; *watch* is called before each piece and raises what ends the reading."""

    def __init__(self, pieces: Iterator[bytes], watch: Callable[[], None], *, is_stream: bool) -> None:
        super().__init__(is_stream=is_stream)
        self._pieces, self._watch = pieces, watch

    def __iter__(self) -> Iterator[bytes]:
        for data in self._pieces:
            self._watch()
            yield self.counted(data)
        self.ended = True  # before the last line: what the reader finds from now on was cut off by the end
        yield b"\n\n"


class AsyncBody(Body, httpx2.AsyncByteStream):
    """The same on an event loop, where a task is cancelled instead."""

    is_async = True

    def __init__(self, pieces: AsyncIterator[bytes], *, is_stream: bool) -> None:
        super().__init__(is_stream=is_stream)
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._pieces:
            yield self.counted(data)
        self.ended = True
        yield b"\n\n"


async def bound(response: httpx2.Response) -> None:
    """Read no more than a part of an error's body, which the SDK would read whole; a hook of the HTTP clients."""
    if response.status_code >= 300:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        body = b""
        async for data in response.stream:
            body += data
            if len(body) >= ERROR_BYTES:
                break
        await response.stream.aclose()
        response.stream = httpx2.ByteStream(body[:ERROR_BYTES])


@lru_cache(maxsize=1)
def trust() -> ssl.SSLContext:
    """Return the certificates that servers are checked against, loaded once for all clients."""
    return httpx2.create_ssl_context()


# -- errors ------------------------------------------------------------------------------------------------------


def fault_of(error: BaseException, now_s: float, body: Body | None) -> AttemptFault:
    """
    Return what an exception of an SDK, its HTTP library or the readers means.

    Args:
        error: As it was raised; the SDKs' errors of a status and of an error within a stream hold what the server said.
        now_s: Seconds since the epoch, for dates in headers.
        body: Of a response with status 200, None if none had begun.
    """
    status, told = getattr(error, "status_code", None), getattr(error, "body", None)
    if isinstance(status, int) and body is None:
        response: Any = getattr(error, "response", None)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return status_fault(status, told, headers, now_s)
    if told is not None and body is not None:
        return told_fault(told)
    if isinstance(error, BodyTooLarge):
        return AttemptFault("bad_body", str(error))
    if isinstance(error, TimeoutError):
        return AttemptFault("timeout", "the reply took too long", True)
    if isinstance(error, MALFORMED) and body is not None:
        if body.ended:
            return AttemptFault("cut_stream", "the stream ended within an event", True)
        return bad_body("an event is no JSON object of its interface")
    return _transport_fault(error, begun=body is not None)


def _transport_fault(error: BaseException, *, begun: bool) -> AttemptFault:
    """Return what an error of the HTTP library means, which the SDKs wrap into their own."""
    cause = error
    while not isinstance(cause, httpx2.HTTPError | httpx2.InvalidURL) and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, httpx2.DecodingError):
        return AttemptFault("bad_body", "the response cannot be unpacked", True)
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        reason, again = _reason(cause)
        return AttemptFault("unreachable", f"no connection{_place(cause)}: {reason}", again, absent=again)
    if isinstance(cause, httpx2.TimeoutException):
        return AttemptFault("timeout", "the server did not answer in time", True)
    if isinstance(cause, httpx2.TransportError):
        if begun:
            return AttemptFault(
                "cut_stream", f"the connection broke within the reply: {_words_of(cause)}", True
            )
        return AttemptFault("unreachable", f"the connection broke: {_words_of(cause)}", True)
    if isinstance(cause, httpx2.HTTPError | httpx2.InvalidURL):
        return AttemptFault("unreachable", _words_of(cause))
    return AttemptFault("unexpected", f"{type(error).__name__}: {_words_of(error)}")


def _place(error: httpx2.TransportError) -> str:
    """Return to which server there is no connection, as far as that is known."""
    try:
        url = error.request.url
    except RuntimeError:
        return ""
    return f" to {url.host}:{url.port or url.scheme}"


def _reason(error: BaseException) -> tuple[str, bool]:
    """Return what the system said, which is below what the libraries make of it, and whether another attempt may succeed."""
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
    if isinstance(seen, ssl.SSLError):  # whose numbers are not those of the system
        told = getattr(seen, "verify_message", "") or (seen.reason or "").replace("_", " ").lower()
        return one_line(f"{TLS_FAILED}: {told or seen.strerror}"), isinstance(seen, ssl.SSLEOFError)
    if not isinstance(seen, OSError) or seen.errno is None:
        return _words_of(error), True
    named = seen.errno > 0  # names that are not found have codes below 0, which only they know
    return one_line((os.strerror(seen.errno) if named else seen.strerror) or ""), True


def _words_of(error: BaseException) -> str:
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
