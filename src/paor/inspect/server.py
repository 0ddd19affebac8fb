"""Serving the application by itself, on this machine."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, Literal

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..fsm.engine import Engine
from ..fsm.journal_api import Journal
from ..fsm.lifecycle.recover import OptionsOfRun
from ..states.base.errors import UsageError
from .access import is_loopback
from .application import ActorOf, Inspector, app

CONNECTIONS_MAX = 1000
"""Connections that are served at once; one more gets 503."""

REQUEST_S = 30.0
"""Seconds that a request may take to come; a connection that says nothing, or begins and falls silent, is then cut."""

PORT = 7267
"""The port that is used unless another one is named: "paor" on the keys of a telephone."""


def serve(
    source: Journal | Engine,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | Literal[False] | None = None,
    allow_remote: bool = False,
    hosts: Iterable[str] = (),
    read_only: bool = False,
    options: OptionsOfRun | None = None,
    actor: ActorOf | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """
    Serve `app` until the process is told to stop.

    Args:
        source, token, allow_remote, hosts, read_only, options, actor: See `app`.
        host: Address to listen at, by number; another one than this machine's own needs *allow_remote* and a token.
        port: 0 takes one that is free.
        ready: Called with the address to open, its token included, once it can be opened.

    Raises:
        UsageError: An address that cannot be used, such as a port that somebody else has.
        KeyboardInterrupt: It was told to stop with Ctrl-C.
    """
    if token is False and not is_loopback(host):
        raise UsageError("an address that other machines reach needs a token")
    bound = listen(host, port, allow_remote=allow_remote)
    try:
        inspector = app(
            source,
            token=token,
            allow_remote=allow_remote,
            hosts=hosts,
            read_only=read_only,
            options=options,
            actor=actor,
        )
    except BaseException:
        bound.close()
        raise
    run(inspector, bound, ready)


def listen(host: str, port: int, *, allow_remote: bool = False) -> socket.socket:
    """
    Return a socket that is bound to an address.

    Raises:
        UsageError: It is no address of this machine, it is one that others reach, or somebody has the port.
    """
    host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
    if not allow_remote and not is_loopback(host):
        raise UsageError(
            f"{host!r:.60} is not this machine's own address; other machines are let in with --allow-remote"
        )
    if type(port) is not int or not 0 <= port < 65536:
        raise UsageError(f"port {port!a:.40}: expected a number from 0 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(512)
    except OSError as error:
        bound.close()
        why = error.strerror or str(error)
        raise UsageError(
            f"{host}:{port} cannot be used ({why}); another one: --port N, any free one: --port 0"
        ) from None
    return bound


def run(inspector: Inspector, bound: socket.socket, ready: Callable[[str], None] | None = None) -> None:
    """Serve an application at a socket until the process is told to stop; see `serve`."""
    try:
        server_of(inspector, bound, ready).run(sockets=[bound])
    finally:
        inspector.close()
        bound.close()


def server_of(
    inspector: Inspector, bound: socket.socket, ready: Callable[[str], None] | None = None
) -> uvicorn.Server:
    """Return what serves an application, not yet begun; it ends when its ``should_exit`` is set."""
    config = uvicorn.Config(
        inspector,
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=32_768,
    )
    for name in ("uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).addFilter(_is_of_others)
    return _Server(config, inspector, lambda: ready and ready(inspector.address(base_address(bound))))


def base_address(bound: socket.socket) -> str:
    """Return the address of what a socket serves."""
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


_OURS: ContextVar[bool] = ContextVar("paor_inspect_serves", default=False)
"""Whether the code that runs is that of our own server, in its tasks and callbacks too."""


def _is_of_others(_record: logging.LogRecord) -> bool:
    """
    Return whether another server of this process logs: uvicorn's loggers are shared by all.

    Of ours, what a stranger sends is no news, what is cut off when it ends is no error, and an address may hold the token.
    """
    return not _OURS.get()


class _Protocol(H11Protocol):
    """A connection that is cut when no whole request comes in time: uvicorn looks at those alone that were answered."""

    _until: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop()

    def _look(self) -> None:
        """Begin to count when a request has begun and is not whole yet, and end when it is."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop()
        elif self._until is None:
            self._until = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _stop(self) -> None:
        if self._until is not None:
            self._until.cancel()
            self._until = None


class _Server(uvicorn.Server):
    """A server that says when it can be asked, and ends streams when it is told to stop: it would wait for them."""

    def __init__(self, config: uvicorn.Config, inspector: Inspector, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._inspector, self._ready = inspector, ready

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        ours = _OURS.set(True)
        try:
            await super().serve(sockets)
        finally:
            _OURS.reset(ours)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._inspector.stop()
        await super().shutdown(sockets)
