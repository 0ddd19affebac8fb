"""
Tools of any MCP server as tools of a run, over standard input and output or HTTP.

    with McpServer("uvx mcp-server-time") as server:
        engine = Engine(tools=[*server.tools()])

The ``mcp`` package (``pip install "paor[mcp]"``) is imported when a server is first connected to. Its sessions live on
an event loop in a thread of their own, so a server serves any number of runs, sync, async and in threads. What a server
says is data: names are made fit, descriptions are put on one line, and hints on effects count only where the host says
so. Which case of a lost server, process or answer comes to what, is in docs/mcp.md.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib.util
import threading
import weakref
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace, TracebackType
from typing import Any, Self, cast

from ...states.base.errors import AnswerNeeded, MissingExtra, NotStarted, ToolError
from ...states.records.actions import Effect
from ..tool import Tool, ToolContext, ToolOutput
from .call import CallRefused, McpCall, Open, StateRefused
from .naming import Listed, ListedTool, entries_of, prefix_of
from .results import Redactor, output_of
from .session import Session
from .settings import McpSettings, settings_of
from .transcript import Dialogue, elicit_result

_OPEN: weakref.WeakSet[McpServer] = weakref.WeakSet()


class McpServer:
    """
    One MCP server. `tools` or the first call opens the connection; if it is lost, the next call opens it again.

    Args:
        target: Command as a text (split like a shell's words, without a shell) or a list of words; a URL; or an object
            that the ``mcp`` package's client takes.
        **options: See `McpSettings`: ``name``, ``env``, ``headers``, ``effects``, ``trust_annotations`` and others.

    Attributes:
        settings: Everything it was made with.
        prefix: First part of its tools' names; empty before they are listed.
        skipped: Tools of its last listing that cannot be used, by the server's name, with the reason.

    Raises:
        MissingExtra: The ``mcp`` package is not installed.
        UsageError: Settings that cannot be used.
    """

    def __init__(self, target: Any, **options: Any) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise MissingExtra('MCP servers need the mcp package: pip install "paor[mcp]"')
        self.settings: McpSettings = settings_of(target, **options)
        self.prefix = self.settings.name
        self.skipped: dict[str, str] = {}
        self._redactor = Redactor(self.settings.secrets())
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._session: Session | None = None
        self._opening: asyncio.Lock | None = None
        self._held: dict[str, Open] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._tools: tuple[Tool, ...] | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def changed(self) -> bool:
        """Whether the server has reported since the last listing that its tools have changed."""
        session = self._session
        return session is not None and session.changed

    def tools(self) -> tuple[Tool, ...]:
        """
        Return the server's tools; the first call connects to the server.

        Raises:
            ToolError: It cannot be reached, or does not speak the protocol.
            UsageError: Its tools do not fit the settings.
        """
        if self._tools is None:
            self.refresh()
        assert self._tools is not None, "refresh sets it"
        return self._tools

    def refresh(self) -> tuple[Tool, ...]:
        """List the tools again and return them; engines that were made before keep theirs."""
        session = self._wait(self._relist())
        return self._take_tools(session)

    def rename(self, name: str) -> tuple[Tool, ...]:
        """
        Return the tools with another first part of their names; for two servers with the same name.

        Args:
            name: The first part.
        """
        self.settings = replace(self.settings, name=name)
        return self._take_tools(self._wait(self._ready()))

    def _take_tools(self, session: Session) -> tuple[Tool, ...]:
        self.prefix = prefix = prefix_of(self.settings, session.own_name)
        entries, skipped = entries_of(self.settings, prefix, session.listed, session.refused)
        self.skipped = {name: self._redactor.text(reason) for name, reason in skipped.items()}
        self._tools = tuple(self._tool(entry) for entry in entries)
        return self._tools

    def close(self) -> None:
        """End the connection, the server's process with it, and every open call."""
        with self._lock:
            self._is_closed, loop, thread = True, self._loop, self._thread
            self._loop = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._shut(), loop).result(timeout=60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)

    def _tool(self, entry: ListedTool) -> Tool:
        listed = entry.listed

        async def run(**arguments: Any) -> ToolOutput:
            return await self._call(listed, arguments, entry.effect, _NOWHERE)

        return McpTool(
            name=entry.name,
            description=self._redactor.text(listed.description),
            parameters=self._redactor.json(listed.schema),
            run=run,
            effect=entry.effect,
            server=self,
            listed=listed,
        )

    # -- between the threads ---------------------------------------------------------------------------------------

    def _running(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of this server's thread, started when it is first needed."""
        with self._lock:
            if self._is_closed:
                raise NotStarted(f"the connection to the MCP server {self.settings.shown} was closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._opening = asyncio.Lock()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name=f"paor-mcp-{self.settings.shown[:20]}", daemon=True
                )
                self._thread.start()
                _OPEN.add(self)
            return self._loop

    def _wait(self, work: Coroutine[Any, Any, Session]) -> Session:
        try:
            loop = self._running()
        except BaseException:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def _call(
        self, listed: Listed, arguments: Mapping[str, Any], effect: Effect, context: ToolContext
    ) -> ToolOutput:
        """Make a call from any event loop; cancelling it cancels the request."""
        call = McpCall(self.settings, self._redactor, listed, dict(arguments), effect, context)
        loop = self._running()
        made = asyncio.run_coroutine_threadsafe(self._make(call), loop)
        try:
            return output_of(await asyncio.wrap_future(made), self._redactor, call.notes)
        except StateRefused:
            raise
        except CallRefused as error:
            words = f"the MCP server {self.settings.shown} did not take the call: {error}"
            raise NotStarted(words) from None

    # -- on the loop -----------------------------------------------------------------------------------------------

    async def _relist(self) -> Session:
        """Return a session whose listing is of now."""
        if self._session is not None and self._tools is not None:
            await self._drop()
        return await self._ready()

    async def _ready(self) -> Session:
        """Return a session that is there, as far as is known."""
        assert self._opening is not None, "made with the loop"
        async with self._opening:
            session = self._session
            if session is not None and not session.ended and not session.stalled:
                return session
            if session is not None and session.stalled and session.calls:
                self._session, task = None, asyncio.create_task(_closed_when_idle(session))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
            await self._drop()
            session = Session(self.settings)
            try:
                await session.open()
            except ToolError as error:
                raise NotStarted(self._redactor.text(str(error))) from None
            self._session = session
            return session

    async def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _shut(self) -> None:
        held, self._held = list(self._held.values()), {}
        for item in held:
            item.task.cancel()
            await item.session.close()
        await self._drop()
        for task in list(self._closing):
            task.cancel()

    async def _make(self, call: McpCall) -> Any:
        """Make a call or go on with one; see `call`."""
        resumption = call.context.resumption
        if resumption is None:
            return await self._attempt(call, lambda session: call.begin(session))
        call.dialogue = Dialogue.read(resumption.state)
        answer = elicit_result(accepted=resumption.accepted, content=resumption.content)
        held = self._held.pop(call.context.idempotency_key, None)
        if held is not None and not held.session.ended and not resumption.again:
            return await self._answer_open(held, call, answer)
        if (
            call.dialogue.way == "task"
        ):  # whatever was decided: what has begun is looked for and never called again
            given_up = not resumption.accepted and not call.dialogue.pending
            call.answered(answer)
            try:
                return await self._attempt(call, call.give_up if given_up else call.go_on)
            except NotStarted:  # its server is away: the handle is kept
                raise call.unfinished({}) from None
        was_open = call.dialogue.way == "open"
        call.answered(answer)
        answers = list(call.dialogue.answers)
        if not was_open and not resumption.again:
            try:
                return await self._attempt(call, call.go_on)
            except StateRefused:
                pass
        if not call.may_repeat:
            raise call.lost(
                f"no longer knows the call of {call.name} that asked; it may have done a part of it"
            )
        return await self._attempt(call, lambda session: call.begin(session, answers))

    async def _attempt(self, call: McpCall, attempt: Any) -> Any:
        """
        Make one attempt in a session, and another in a new one where the server turned the first away unread.

        Raises:
            CallRefused: It turned both away, or knows its own state no more.
        """
        for last in (False, True):
            session = await self._ready()
            session.calls += 1
            try:
                if not session.is_legacy:
                    return await attempt(session)
                async with session.turn:
                    session.caller = call
                    try:
                        return await attempt(session)
                    finally:
                        if session.caller is call:
                            session.caller = None
            except Open as question:
                session.caller = call  # it stays this call's session
                raise await self._hold(question) from None
            except CallRefused as error:
                if last or isinstance(error, StateRefused):
                    raise
                await self._drop()
            finally:
                session.calls -= 1
        raise AssertionError("the second attempt returns or raises")

    async def _hold(self, held: Open) -> AnswerNeeded:
        """Keep an open call for its answer; its session is its own from now on."""
        key = held.call.context.idempotency_key
        if self._session is held.session:
            self._session = None
        if not key:  # called outside any run: nobody can answer
            held.task.cancel()
            await held.session.close()
            return held.question
        self._held[key] = held
        while len(self._held) > self.settings.held_max:
            oldest = self._held.pop(next(iter(self._held)))
            oldest.task.cancel()
            await oldest.session.close()
        return held.question

    async def _answer_open(self, held: Open, call: McpCall, answer: dict[str, Any]) -> Any:
        """Answer an open call's question and wait on."""
        from mcp_types import ElicitResult

        first = held.call
        first.context = call.context
        first.answered(answer)
        held.answer.set_result(ElicitResult.model_validate(answer))
        try:
            result = await first.settle(held.session, held.task)
        except Open as question:
            raise await self._hold(question) from None
        except BaseException:
            await held.session.close()
            raise
        if self._session is None and not held.session.ended:
            held.session.caller, self._session = None, held.session
        else:
            await held.session.close()
        return result


async def _closed_when_idle(session: Session) -> None:
    """Close a session that others still wait on, once they have ended."""
    try:
        while session.calls:
            await asyncio.sleep(0.1)
    finally:
        await session.close()


@dataclass(frozen=True, eq=False)
class McpTool(Tool):
    """
    A tool behind a server.

    Attributes:
        server: Where it is.
        listed: As the server listed it when the tool was made.
    """

    server: McpServer = field(kw_only=True)
    listed: Listed = field(kw_only=True)

    @property
    def own_name(self) -> str:
        """What the server calls it."""
        return self.listed.name

    def invoke(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the call as a coroutine; names of arguments need not be names in Python."""
        return self.server._call(self.listed, arguments, self.effect, context)


def mcp_tools(target: Any, **options: Any) -> tuple[Tool, ...]:
    """
    Return the tools of one MCP server for ``Engine(tools=[...])``; it is closed when the process ends.

    Args:
        target, **options: As for `McpServer`, which can be closed earlier.

    Raises:
        MissingExtra, UsageError, ToolError: As `McpServer` and its `tools` say.
    """
    return McpServer(target, **options).tools()


def _ask_nobody(*args: Any, **kwargs: Any) -> str:
    raise ToolError("there is no run, and so no model to ask")


_NOWHERE = cast(
    ToolContext, SimpleNamespace(idempotency_key="", resumption=None, traceparent="", ask=_ask_nobody)
)
"""The context of a tool that is called directly, outside any run."""


@atexit.register
def _close_all() -> None:
    for server in list(_OPEN):
        server.close()
