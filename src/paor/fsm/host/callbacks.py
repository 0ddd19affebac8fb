"""The callbacks of a host's own machine: called after the row is durable, outside the decision; what one raises is logged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..journal.reader import Readable
from ..lifecycle.arguments import Hook
from ..machine.machine import Callback, Machine
from ..results.events import Event, TransitionTaken
from ..runtime.logs import LOGGER


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
