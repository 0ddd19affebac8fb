"""
The sync and the async driver: the same loop, the same rows; they differ only in how an effect is performed.

Sync: everything in the calling thread; an async tool gets an event loop of its own. Async: models are awaited, sync
tools run in threads, and appends of all runs of an event loop are committed together in the journal's writer thread.

What a model says while it still answers, as events: pieces of text, repeated attempts.

Only models that say ``streams = True`` are listened to, and only while somebody wants events. The sync driver has one
thread, which must yield events and wait for the reply at once: so such a model answers in a thread of its own, as do
paor's own tools that have it write. A host's tools stay in the driver's thread; what they ask is not heard there.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from queue import SimpleQueue
from typing import Any

from msgspec.structs import replace

from ...prompts.clients import background_loop
from ...prompts.model import CallStopped, ModelCall, Notice, Reply, checked_reply
from ..journal.cancel_requests import CancelWatch, Interrupted, breakable
from ..journal.store import JournalStore
from .calls import Reconcile, Returned, UseTool
from .effects import AskHost, AskModel, Await, BeginTogether, Commit, Drop, Emit
from .events import Event, ModelNotice, ModelText
from .loop import Steps
from .ports import is_awaitable
from .timed_calls import OF_THE_CALL, aperform_timed, perform_timed
from .together import Together

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
    from ...tools.documents.tools import is_builtin

    return is_builtin(effect.tool)


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


def perform(steps: Steps, journal: JournalStore) -> Iterator[Event]:
    """
    Run *steps* to their end in this thread, yielding the events they emit.

    Raises:
        JournalError: A row could not be written; nothing after it was begun.
    """
    value: Any = None
    watch = journal.leases.watch
    while True:
        try:
            effect = steps.send(value)
        except StopIteration:
            return
        value = None
        if isinstance(effect, Commit):
            journal.append(effect.entry)
            value = True  # at once: what the row has found of a cancel is still so
        elif isinstance(effect, (AskModel, UseTool)):
            if effect.place is not None and speaks(effect):
                value = yield from live(effect, partial(_perform_call, watch=watch))
            else:
                value = _perform_call(effect, watch)
        elif isinstance(effect, Emit):
            yield effect.event
        elif isinstance(effect, AskHost):
            value = _ask_host(effect)
        elif isinstance(effect, BeginTogether):
            value = Together(effect.calls, effect.most)
        elif isinstance(effect, Await):
            value = effect.group.wait(effect.call, watch)
        elif isinstance(effect, Drop):
            effect.group.close()
        else:
            value = _perform_call(effect, watch)


def _perform_call(effect: AskModel | UseTool | Reconcile, watch: CancelWatch) -> Any:
    return _ask_model(effect, watch) if isinstance(effect, AskModel) else _use_tool(effect, watch)


def _ask_model(effect: AskModel, watch: CancelWatch) -> Reply | BaseException:
    model, call = effect.model, effect.call
    try:
        if background_loop.stops(model):
            call = _stoppable(call, lambda: bool(watch.runs_to_cancel(effect.run)))
        return checked_reply(background_loop.ask(model, call))
    except CallStopped as error:
        return Interrupted() if watch.runs_to_cancel(effect.run) else error
    except OF_THE_CALL as error:
        return error


def _stoppable(call: ModelCall, is_cancelled: Callable[[], bool]) -> ModelCall:
    """Return *call* with a way for its model to see that the run is to be cancelled."""
    before = call.is_cancelled
    return replace(call, is_cancelled=lambda: (before is not None and before()) or is_cancelled())


def _use_tool(effect: UseTool | Reconcile, watch: CancelWatch) -> Returned | BaseException:
    if effect.is_timed:
        return perform_timed(effect, watch)
    try:
        if effect.is_async:
            return Returned(_in_new_loop(lambda: breakable(watch, effect.run, effect.begin())))
        value = effect.begin()
        if inspect.isawaitable(value):
            value = _in_new_loop(lambda: breakable(watch, effect.run, value))
        return Returned(value)
    except OF_THE_CALL as error:
        return error


def _in_new_loop(start: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine to its end; in a thread of its own when this one already runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(start())
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(lambda: asyncio.run(start())).result()


def _ask_host(effect: AskHost) -> object:
    try:
        value = effect.function()
        return _in_new_loop(lambda: _awaited(value)) if is_awaitable(value) else value
    except OF_THE_CALL as error:
        return error


async def _aask_host(effect: AskHost) -> object:
    try:
        value = effect.function()
        return await _awaited(value) if is_awaitable(value) else value
    except OF_THE_CALL as error:
        return error


async def _awaited(value: Any) -> object:
    return await value


async def aperform(steps: Steps, journal: JournalStore) -> AsyncIterator[Event]:
    """Run *steps* to their end on this event loop, yielding the events they emit; see `perform`."""
    value: Any = None
    watch = journal.leases.watch
    while True:
        try:
            effect = steps.send(value)
        except StopIteration:
            return
        value = None
        if isinstance(effect, Commit):
            await journal.aappend(effect.entry)
        elif isinstance(effect, (AskModel, UseTool)):
            if effect.place is not None and speaks(effect, in_thread=False):
                talk = StreamedCall(effect, partial(_acame_to, watch=watch))
                async with aclosing(talk.events()) as events:
                    async for event in events:
                        yield event
                value = talk.value
            else:
                value = await _acame_to(effect, watch)
        elif isinstance(effect, Emit):
            yield effect.event
        elif isinstance(effect, AskHost):
            value = await _aask_host(effect)
        elif isinstance(effect, BeginTogether):
            value = Together(effect.calls, effect.most, asyncio.get_running_loop())
        elif isinstance(effect, Await):
            value = await effect.group.await_(effect.call, watch)
        elif isinstance(effect, Drop):
            await effect.group.aclose()
        else:
            value = await _acame_to(effect, watch)


async def _acame_to(effect: AskModel | UseTool | Reconcile, watch: CancelWatch) -> Any:
    return await (_aask_model(effect, watch) if isinstance(effect, AskModel) else _ause_tool(effect, watch))


async def _aask_model(effect: AskModel, watch: CancelWatch) -> Reply | BaseException:
    try:
        return checked_reply(
            await breakable(watch, effect.run, background_loop.aask(effect.model, effect.call), plain=True)
        )
    except (Exception, SystemExit) as error:
        return error
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        return error


async def _ause_tool(effect: UseTool | Reconcile, watch: CancelWatch) -> Returned | BaseException:
    if effect.is_timed:
        return await aperform_timed(effect, watch)
    if not effect.is_async:
        return await _in_own_thread(effect.tool.name, partial(_use_tool, effect, watch))
    try:
        if effect.tool.calls_run:  # what it calls is a run of its own, and is cancelled as one
            return Returned(await effect.begin())
        return Returned(await breakable(watch, effect.run, effect.begin()))
    except (Exception, SystemExit) as error:
        return error
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        return error


async def _in_own_thread(tool: str, work: Callable[[], Returned | BaseException]) -> Returned | BaseException:
    """
    Return what *work* comes to in a thread of its own.

    Those of a pool could all be taken by tools that wait for runs, whose own tools would then get none. *work* returns errors as
    values: a future cannot hold a StopIteration.
    """
    done: Future[Returned | BaseException] = Future()
    done.set_running_or_notify_cancel()  # a call that is awaited no more goes on to its end
    context = contextvars.copy_context()

    def run() -> None:
        try:
            done.set_result(context.run(work))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name=f"paor-tool {tool}").start()
    return await asyncio.wrap_future(done)


def _is_cancelled() -> bool:
    """Whether the run's own task is cancelled, not something within the call."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
