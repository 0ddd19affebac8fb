"""
The sync and the async driver: the same loop, the same rows; they differ only in how an effect is performed.

Sync: everything in the calling thread; an async tool gets an event loop of its own. Async: models are awaited, sync
tools run in threads, and appends of all runs of an event loop are committed together in the journal's writer thread.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from typing import Any

from msgspec.structs import replace

from ...prompts.clients import asking
from ...prompts.model import CallStopped, ModelCall, Reply, checked_reply
from ...states.run.spec import TASK_TOOL
from ..journal.cancel_requests import CancelWatch, Interrupted, breakable
from ..journal.store import JournalStore
from ..results.events import Event
from .effects import AskModel, AskValues, Commit, Emit, Reconcile, Returned, UseTool
from .loop import Steps
from .streaming import StreamedCall, live, speaks
from .timed_calls import OF_THE_CALL, aperform_timed, perform_timed
from .values import is_awaitable


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
        elif isinstance(effect, Emit):
            yield effect.event
        elif isinstance(effect, AskValues):
            value = _host_values(effect)
        elif not isinstance(effect, Reconcile) and effect.place is not None and speaks(effect):
            value = yield from live(effect, partial(_perform_call, watch=watch))
        else:
            value = _perform_call(effect, watch)


def _perform_call(effect: AskModel | UseTool | Reconcile, watch: CancelWatch) -> Any:
    return _ask_model(effect, watch) if isinstance(effect, AskModel) else _use_tool(effect, watch)


def _ask_model(effect: AskModel, watch: CancelWatch) -> Reply | BaseException:
    model, call = effect.model, effect.call
    try:
        if asking.stops(model):
            call = _stoppable(call, lambda: bool(watch.runs_to_cancel(effect.run)))
        return checked_reply(asking.ask(model, call))
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


def _host_values(effect: AskValues) -> object:
    try:
        value = effect.port(effect.run_id, effect.phase)
        return _in_new_loop(lambda: _awaited(value)) if is_awaitable(value) else value
    except OF_THE_CALL as error:
        return error


async def _ahost_values(effect: AskValues) -> object:
    try:
        value = effect.port(effect.run_id, effect.phase)
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
        elif isinstance(effect, Emit):
            yield effect.event
        elif isinstance(effect, AskValues):
            value = await _ahost_values(effect)
        elif (
            not isinstance(effect, Reconcile) and effect.place is not None and speaks(effect, in_thread=False)
        ):
            talk = StreamedCall(effect, partial(_acame_to, watch=watch))
            async with aclosing(talk.events()) as events:
                async for event in events:
                    yield event
            value = talk.value
        else:
            value = await _acame_to(effect, watch)


async def _acame_to(effect: AskModel | UseTool | Reconcile, watch: CancelWatch) -> Any:
    return await (_aask_model(effect, watch) if isinstance(effect, AskModel) else _ause_tool(effect, watch))


async def _aask_model(effect: AskModel, watch: CancelWatch) -> Reply | BaseException:
    try:
        return checked_reply(
            await breakable(watch, effect.run, asking.aask(effect.model, effect.call), plain=True)
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
        return await asyncio.to_thread(
            _use_tool, effect, watch
        )  # errors as values: a future cannot hold a StopIteration
    try:
        if effect.tool.name == TASK_TOOL.name:  # the task is a run of its own, and is cancelled as one
            return Returned(await effect.begin())
        return Returned(await breakable(watch, effect.run, effect.begin()))
    except (Exception, SystemExit) as error:
        return error
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        return error


def _is_cancelled() -> bool:
    """Whether the run's own task is cancelled, not something within the call."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
