"""One session with a server: opened, listed, used by one event loop, and closed by the task that opened it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import lru_cache
from typing import Any, Protocol

from ...states.base.errors import ToolError
from .http import http_client
from .naming import Listed, one_line
from .settings import McpSettings
from .stdio import StdioTransport
from .tasks import extension
from .wire import SiftedTransport

_PAGES_MAX = 200
_LISTEN_AGAIN_S = 5.0


class Caller(Protocol):
    """The call that a session works on: it answers what the server asks meanwhile."""

    async def elicited(self, params: Any) -> Any: ...

    async def sampled(self, params: Any) -> Any: ...


class Session:
    """
    An open connection.

    Attributes:
        client: The ``mcp`` package's client.
        fits: Raises where a result does not fit the schema of its tool.
        own_name: What the server calls itself.
        listed: Its tools.
        is_legacy: Whether it speaks the protocol of before 2026-07-28, in which it asks in the middle of a call.
        changed: Whether it has told that its tools have changed.
        is_listening: Whether a server of the new protocol has said that it will tell.
        turn: Held by the one call at a time that the old protocol allows: it does not say which call a question is of.
        caller: That call.
        calls: How many calls it carries.
        stalled: Whether it has let a call's time pass, so that no other call is given to it.
    """

    def __init__(self, settings: McpSettings) -> None:
        self.own_name = ""
        self.listed: tuple[Listed, ...] = ()
        self.is_legacy = False
        self.changed = False
        self.is_listening = False
        self._is_stale = False
        self.turn = asyncio.Lock()
        self.caller: Caller | None = None
        self.calls = 0
        self.stalled = False
        self._settings = settings
        self._transport: StdioTransport | None = None
        self._wire: SiftedTransport | None = None
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self.client: Any = None
        self.fits: Any = _fits

    @property
    def ended(self) -> bool:
        """Whether nothing can be asked of the server any more, as far as is known."""
        gone = self._transport is not None and self._transport.ended
        return gone or self._closing.is_set() or (self._task is not None and self._task.done())

    @property
    def refused(self) -> dict[str, str]:
        """Tools that were listed in a form that is none, with the reason."""
        return self._wire.refused if self._wire is not None else {}

    @property
    def told(self) -> str:
        """Why the server is gone, in its own words and ours."""
        if self._transport is None:
            return ""
        return self._transport.flaw or self._transport.told

    async def settle(self) -> None:
        """Give a child process that has just ended the moment in which its exit code and last words arrive."""
        for _ in range(20):
            if self._transport is None or self._transport.flaw or "exit code" in self._transport.told:
                return
            await asyncio.sleep(0.02)

    async def open(self) -> None:
        """
        Connect and list.

        Raises:
            ToolError: There is no server, or it does not answer in time or not in the protocol.
        """
        settings = self._settings
        self._task = asyncio.create_task(self._keep())
        try:
            await asyncio.wait_for(asyncio.shield(self._opened), settings.connect_s)
        except TimeoutError:
            await self.close()
            raise ToolError(self._words(f"did not answer within {settings.connect_s:g} seconds")) from None
        except Exception as error:  # noqa: BLE001 - of a foreign package over a foreign program
            await self.settle()
            words = self._words(f"cannot be used: {_reason(error)}")
            await self.close()
            raise ToolError(words) from None

    def _words(self, what: str) -> str:
        told = self.told
        return f"the MCP server {self._settings.shown} {what}" + (f" ({one_line(told, 300)})" if told else "")

    async def close(self) -> None:
        """End the session; its server process is gone afterwards."""
        self._closing.set()
        if self._task is None:
            return
        if not self._opened.done():  # it waits for the server's first answer, and would see nothing else
            self._task.cancel()
        done, _ = await asyncio.wait({self._task}, timeout=10)
        if not done:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=10)
        if self._opened.done() and not self._opened.cancelled():
            self._opened.exception()

    async def _keep(self) -> None:
        """Hold the client open; it must be closed by the task that opened it."""
        from mcp import Client

        _quiet()
        settings = self._settings
        # also where nothing else is wanted: without the first exchange a server of the new protocol has not said its name
        mode: Any = "legacy" if settings.mode == "legacy" else "auto"
        http = None
        target: Any = settings.target
        try:
            if settings.is_url:
                from mcp.client.streamable_http import streamable_http_client

                http = http_client(
                    settings.headers, message_bytes=settings.message_bytes, connect_s=settings.connect_s
                )
                target = self._wire = SiftedTransport(
                    streamable_http_client(
                        settings.target, http_client=http, max_sse_event_size=int(settings.message_bytes)
                    )
                )
            elif settings.command is not None:
                self._transport = self._child()
                target = self._wire = SiftedTransport(self._transport)
            callbacks: dict[str, Any] = {"elicitation_callback": self._on_elicitation}
            if settings.sampling:
                callbacks["sampling_callback"] = self._on_sampling
            if settings.roots:
                callbacks["list_roots_callback"] = self._roots
            client = Client(
                target,
                mode=mode,
                cache=None,
                message_handler=self._on_message,
                extensions=[extension()],
                **callbacks,
            )
            async with client:
                self.client = client
                session: Any = client.session
                self.is_legacy = session.initialize_result is not None
                if self.is_legacy and settings.mode == "modern":
                    raise ToolError("it does not speak the protocol of 2026-07-28")
                if self._wire is not None:
                    self._wire.version = session.protocol_version
                # looked at by the call: an error here would be one of a call that was made
                self.fits, session.validate_tool_result = session.validate_tool_result, _fits
                await self._list()
                if not self._opened.done():
                    self._opened.set_result(None)
                tools = client.server_capabilities.tools
                tells = not self.is_legacy and tools is not None and tools.list_changed
                listening = asyncio.create_task(self._listen()) if tells else None
                try:
                    await self._closing.wait()
                finally:
                    if listening is not None:
                        listening.cancel()
                        await asyncio.wait({listening}, timeout=5)
        except BaseException as error:
            if not self._opened.done():
                self._opened.set_exception(error if isinstance(error, Exception) else ToolError("closed"))
            if not isinstance(error, Exception):
                raise
        finally:
            if http is not None:
                await http.aclose()

    def _child(self) -> StdioTransport:
        from mcp.client.stdio import get_default_environment

        settings = self._settings
        assert settings.command is not None, "only a command is started"
        env = get_default_environment() | dict(settings.env)
        return StdioTransport(settings.command, env, settings.cwd, message_bytes=settings.message_bytes)

    async def _list(self) -> None:
        client, found, cursor = self.client, [], None
        info = client.session.server_info
        self.own_name = str(info.name) if info is not None else ""
        for _ in range(_PAGES_MAX):
            page = await client.list_tools(cursor=cursor)
            found += [_listing_of(tool) for tool in page.tools]
            if page.next_cursor is None or page.next_cursor == cursor:
                break
            cursor = page.next_cursor
            if len(found) > 10 * self._settings.tools_max:
                raise ToolError(f"it lists more than {10 * self._settings.tools_max} tools")
        self.listed = tuple(found)

    async def schema_now(self, name: str) -> dict[str, Any] | None:
        """Return the parameters of a tool as they are now, None of one that is not there; listed again where the list has changed."""
        if self._is_stale:
            self._is_stale = False
            with suppress(Exception):  # the call itself will say what is wrong with the server
                await asyncio.wait_for(self._list(), self._settings.connect_s)
        return next((tool.schema for tool in self.listed if tool.name == name), None)

    async def _on_message(self, message: Any) -> None:
        if type(message).__name__ == "ToolListChangedNotification":
            self.changed = self._is_stale = True

    async def _listen(self) -> None:
        """Be told by a server of the new protocol that its tools have changed; again when the stream ends, as proxies end it."""
        while True:
            with suppress(Exception):  # what it cannot tell it tells with its next listing
                async with self.client.listen(tools_list_changed=True) as events:
                    self.is_listening = True
                    async for _ in events:
                        self.changed = self._is_stale = True
            self.is_listening = False
            await asyncio.sleep(_LISTEN_AGAIN_S)

    async def _on_elicitation(self, context: Any, params: Any) -> Any:
        from mcp_types import ElicitResult

        caller = self.caller
        return await caller.elicited(params) if caller is not None else ElicitResult(action="cancel")

    async def _on_sampling(self, context: Any, params: Any) -> Any:
        from mcp_types import INVALID_REQUEST, ErrorData

        if self.caller is None:
            return ErrorData(code=INVALID_REQUEST, message="no call is open")
        return await self.caller.sampled(params)

    async def _roots(self, context: Any) -> Any:
        return roots_of(self._settings)


class _WithoutTraceback(logging.Filter):
    """Takes tracebacks out of a record: they repeat what a server has sent, secrets and all."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = record.exc_text = None
        return True


@lru_cache(maxsize=1)
def _quiet() -> None:
    """Keep what the package says of odd servers off a host's terminal; what comes of it is told by the call."""
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    for name in ("mcp.client.streamable_http", "mcp.shared.dispatcher", "client"):
        logging.getLogger(name).addFilter(_WithoutTraceback())
    logging.getLogger("client").addHandler(logging.NullHandler())


def roots_of(settings: McpSettings) -> Any:
    """Return the folders that a server may work in, as it is told them."""
    from pathlib import Path

    from mcp_types import ListRootsResult, Root

    folders = [Path(root).resolve() for root in settings.roots]
    return ListRootsResult(
        roots=[Root.model_validate({"uri": folder.as_uri(), "name": folder.name}) for folder in folders]
    )


def _listing_of(tool: Any) -> Listed:
    hints = tool.annotations
    return Listed(
        name=tool.name,
        description=one_line(tool.description or tool.title or ""),
        schema=tool.input_schema,
        read_only=bool(hints is not None and hints.read_only_hint),
        idempotent=bool(hints is not None and hints.idempotent_hint),
    )


def _reason(error: BaseException) -> str:
    """Return an error in few words; of a group that of its first member."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f"there is no {error.filename}"
    if isinstance(error, ToolError):
        return str(error)
    words = one_line(str(error), 200)
    return words or type(error).__name__


async def _fits(name: str, result: Any) -> None:
    """Say nothing against a result."""
