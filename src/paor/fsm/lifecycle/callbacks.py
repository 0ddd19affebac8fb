"""
The callbacks of a host's own machine: called after the row is durable, outside the decision; what one raises is logged.

Listeners: functions of this process that are called whenever an engine releases a run, whichever engine it is.

A test session gathers its coverage so. An engine's own hooks see the events of that engine only; a listener needs no
hand on the engine, and reads the rows itself, from a journal that is still open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ...states.run.state import Run
from ..journal.reader import JournalReader, Readable
from ..machine.machine import Callback, Machine
from ..runtime.events import Event, TransitionTaken
from ..runtime.logs import LOGGER
from .arguments import Hook


def callbacks_of(machine: Machine | None) -> tuple[Hook, ...]:
    """Return the hook that calls a machine's callbacks, none for a machine without any."""
    if machine is None or not machine.host.callbacks:
        return ()
    return (lambda event: _call(machine, event),)


def attach_journal(hooks: Iterable[Hook], journal: Readable) -> None:
    """Give the journal of an engine to those of its hooks that read rows: objects with a method ``attach_journal``."""
    for hook in hooks:
        if (attach := getattr(hook, "attach_journal", None)) is not None:
            attach(journal)


def traceparent_from(hooks: Iterable[Hook]) -> Callable[[Run], str] | None:
    """Return what tells the span of the call that a run is at, of the first hook that sends spans; None without one."""
    for hook in hooks:
        if (told := getattr(hook, "traceparent", None)) is not None:
            return lambda run: _traceparent(told, run)
    return None


def _traceparent(told: Callable[..., str], run: Run) -> str:
    begins = run.memory.asked is None and not run.counters.step_retries
    seq = run.seq - 1 if begins else None
    try:
        return told(run.spec.workflow_id, run.spec.round, run.run_id, seq)
    except Exception:  # a hook is the host's own and may raise anything: no call fails for want of a trace
        LOGGER.exception("run %s: a hook could not say which span its call is", run.run_id)
        return ""


def _call(machine: Machine, event: Event) -> None:
    if not isinstance(event, TransitionTaken):
        return
    for callback in _due(machine, event):
        try:
            callback(event)
        except Exception:  # the host's own, as a hook is: it changes nothing
            LOGGER.exception("run %s: a callback of the machine raised on row %s", event.run_id, event.seq)


def _due(machine: Machine, event: TransitionTaken) -> Iterator[Callback]:
    """Yield what is to be called, in the order that `transitions` has: on exit, on enter, after."""
    for kind, place in (("on_exit", event.source), ("on_enter", event.dest), ("after", event.trigger)):
        for own, where, callback in machine.host.callbacks:
            if (own, where) == (kind, place):
                yield callback


Listener = Callable[[JournalReader, int, int], None]
"""Called with what reads the journal, the run's number, and the number of the first row that its driver may have written."""

_listeners: list[Listener] = []


def listen(listener: Listener) -> Callable[[], None]:
    """
    Have *listener* called in the driver's thread whenever a run of this process ends, waits, or is left by its driver.

    What it raises is logged and changes nothing.

    Returns:
        A function that ends it; calling that again does nothing.
    """
    _listeners.append(listener)

    def stop() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return stop


def tell(journal: JournalReader, run: int, first: int) -> None:
    """Tell every listener that nobody drives *run* any more; its rows from *first* on are those of that driver."""
    for listener in tuple(_listeners):
        try:
            listener(journal, run, first)
        except Exception:  # a listener is the host's own
            LOGGER.exception("run number %s: a listener raised", run)
