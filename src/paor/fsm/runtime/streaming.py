"""
What a model says while it still answers, as events: pieces of text, repeated attempts.

Only models that say ``streams = True`` are listened to, and only while somebody wants events. The sync driver has one
thread, which must yield events and wait for the reply at once: so such a model answers in a thread of its own, as do
paor's own tools that have it write. A host's tools stay in the driver's thread; what they ask is not heard there.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from queue import SimpleQueue
from typing import Any

from msgspec.structs import replace

from ...prompts.model import Notice
from ..results.events import Event, ModelNotice, ModelText
from .effects import AskModel, UseTool

Performed = AskModel | UseTool


class Unheard(BaseException):
    """Raised in a streaming model when the consumer has gone, to abort the request."""


def speaks(effect: Performed, *, in_thread: bool = True) -> bool:
    """Return whether *effect* can be listened to, *in_thread* only where it may leave the driver's thread."""
    if effect.place is None:
        return False
    if isinstance(effect, AskModel):
        return bool(getattr(effect.model, "streams", False))
    return effect.context.streams and (not in_thread or _is_own(effect))


def _is_own(effect: UseTool) -> bool:
    from ...tools.documents.builtin import builtin_tools

    return any(effect.tool is tool for tool in builtin_tools())


class _Line:
    """From the model to whoever listens."""

    def __init__(self, effect: Performed, put: Callable[[Event], None]) -> None:
        assert effect.place is not None, "only an effect with a place is listened to"
        self.run_id, self.seq = effect.place
        self.request = effect.call.kind if isinstance(effect, AskModel) else "text"
        self.closed = False
        self._put = put

    def unheard(self) -> bool:
        """Raise when nobody listens any more; false otherwise."""
        if self.closed:
            raise Unheard
        return False

    def text(self, piece: str) -> None:
        self.unheard()
        self._put(ModelText(self.run_id, self.seq, self.request, piece))

    def notice(self, notice: Notice) -> None:
        self.unheard()
        told = (notice.kind, notice.code, notice.text, notice.attempt, notice.wait_us)
        self._put(ModelNotice(self.run_id, self.seq, self.request, *told))


def _with_line(effect: Performed, line: _Line) -> Performed:
    """Return *effect* with the ends of *line* in it."""
    if isinstance(effect, AskModel):
        ends = {"on_text": line.text, "on_notice": line.notice, "is_cancelled": line.unheard}
        return replace(effect, call=replace(effect.call, **ends))
    effect.context.on_text, effect.context.on_notice = line.text, line.notice
    effect.context.is_unheard = line.unheard
    return effect


def live(effect: Performed, perform: Callable[[Performed], Any]) -> Generator[Event, None, Any]:
    """Perform *effect* in a thread of its own, yield what is said meanwhile, and return what it came to."""
    said: SimpleQueue[Event | None] = SimpleQueue()
    line = _Line(effect, said.put)
    came_to: list[Any] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            came_to.append(perform(_with_line(effect, line)))
        except BaseException as error:  # the driver's thread raises it
            failed.append(error)
        finally:
            said.put(None)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="paor-model", daemon=True).start()
    try:
        while (event := said.get()) is not None:
            yield event
    finally:
        line.closed = True
    if failed:
        raise failed[0]
    return came_to[0]


class StreamedCall:
    """
    The same on an event loop, where the effect is a task beside the driver's.

    Attributes:
        value: What the effect came to, once the events have ended.
    """

    def __init__(self, effect: Performed, perform: Callable[[Performed], Awaitable[Any]]) -> None:
        self._effect = effect
        self._perform = perform
        self.value: Any = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield what is said while the effect is performed."""
        loop = asyncio.get_running_loop()
        said: asyncio.Queue[Event | None] = asyncio.Queue()
        line = _Line(self._effect, lambda event: _post(loop, said, event))
        task = asyncio.ensure_future(self._perform(_with_line(self._effect, line)))
        task.add_done_callback(lambda _: said.put_nowait(None))
        try:
            while (event := await said.get()) is not None:
                yield event
            self.value = task.result()
        finally:
            line.closed = True
            if not task.done():
                task.cancel()
                await asyncio.wait({task})


def _post(loop: asyncio.AbstractEventLoop, said: asyncio.Queue[Event | None], event: Event) -> None:
    """Put *event* from whatever thread; the loop keeps the order."""
    loop.call_soon_threadsafe(said.put_nowait, event)
